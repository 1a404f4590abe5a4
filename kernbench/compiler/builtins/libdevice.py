"""The functions of `libdevice` and `tl.math` beyond the common ones: one table entry each.

A name ends up in both modules, since Triton's releases moved them about. Does not know the functions themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kernbench.compiler.arithmetic import arithmetic, elementwise
from kernbench.compiler.builtins.maths import float_type
from kernbench.compiler.builtins.registry import Call, builtin, micro_op_doc
from kernbench.compiler.conversions import bitcast, cast, require_numbers, to_runtime
from kernbench.compiler.faults import fault
from kernbench.compiler.promotion import common_type, result_type
from kernbench.compiler.values import Const, Value, element_type, type_text
from kernbench.dtypes import DType, fp32, fp64, i1, i32, i64, u32

Function = Callable[..., Value]

_PLAIN = (
    "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "exp10", "expm1", "log10", "log1p",
    "logb", "cbrt", "rcbrt", "sinpi", "cospi", "erfc", "erfcx", "erfinv", "normcdf", "normcdfinv", "lgamma", "tgamma",
)  # fmt: skip
_FLOATS = {
    **{name: name for name in _PLAIN},
    "nearbyint": "round",
    "round": "round_away",
    "fast_expf": "exp",
    "fast_exp10f": "exp10",
    "fast_logf": "log",
    "fast_log2f": "log2",
    "fast_log10f": "log10",
    "fast_sinf": "sin",
    "fast_cosf": "cos",
    "fast_tanf": "tan",
    "fast_tanhf": "tanh",
    "fast_sqrtf": "sqrt",
    "rsqrt_rn": "rsqrt",
    "fabs": "abs",
}
_PAIRS = {
    **{name: name for name in ("pow", "atan2", "hypot", "fdim", "copysign", "nextafter", "remainder", "ldexp")},
    "fmod": "mod",
    "scalbn": "ldexp",
    "fast_powf": "pow",
    "fast_dividef": "div",
    "add_rn": "add",
    "sub_rn": "sub",
    "mul_rn": "mul",
}
_OF_PAIR = {"a": "x", "b": "y"}  # what the table calls the operands, and what the functions do
_TESTS = {"isinf": "isinf", "isfinite": "isfinite", "finitef": "isfinite", "isfinited": "isfinite"}
_COUNTS = ("popc", "clz", "ffs")  # of bits; their results are int32
# Rounds a float to an integer: the rounding, and the type.
_ROUNDINGS = {
    "llrint": ("round", i64),
    "llround": ("round_away", i64),
    "float2int_rn": ("round", i32),
    "float2int_rz": ("trunc", i32),
    "float2int_rd": ("floor", i32),
    "float2int_ru": ("ceil", i32),
    "float2uint_rn": ("round", u32),
    "float2uint_rz": ("trunc", u32),
    "float2ll_rn": ("round", i64),
    "float2ll_rz": ("trunc", i64),
    "ilogb": ("logb", i32),
}
_CASTS = {"int2float_rn": fp32, "uint2float_rn": fp32, "ll2float_rn": fp32, "int2double_rn": fp64}
_BITS = {
    "float_as_int": i32,
    "float_as_uint": u32,
    "int_as_float": fp32,
    "uint_as_float": fp32,
    "double_as_longlong": i64,
    "longlong_as_double": fp64,
}


def _described(function: Function, doc: str) -> Function:
    function.__doc__ = doc
    return function


def _float_function(kind: str) -> Function:
    def function(call: Call, x: Value) -> Value:
        return elementwise(call.builder, kind, (x,), float_type(call, x), call.at)

    return _described(function, micro_op_doc(kind))


def _pair_function(kind: str) -> Function:
    def function(call: Call, x: Value, y: Value) -> Value:
        require_numbers(call.at, x, y)
        values = [to_runtime(call.builder, value, call.at) for value in (x, y)]
        dtype = common_type(call.at, *values)
        if not dtype.is_float:
            help = "cast one of them with .to(tl.float32)"
            message = f"{call.name} takes floats, {type_text(x)} and {type_text(y)} are given"
            raise fault("E_OPERAND_TYPE", message, call.at, help=help)
        return arithmetic(call.builder, kind, values[0], values[1], dtype, call.at)

    doc = micro_op_doc(kind, ", in the type of its floats")
    return _described(function, re.sub(r"(?<![a-z])[ab](?![a-z])", lambda operand: _OF_PAIR[operand[0]], doc))


def _test_function(kind: str) -> Function:
    def function(call: Call, x: Value) -> Value:
        return elementwise(call.builder, kind, (x,), i1, call.at, reads=float_type(call, x))

    return _described(function, micro_op_doc(kind, ", as int1"))


def _integer(call: Call, value: Value) -> DType:
    dtype = element_type(to_runtime(call.builder, value, call.at))
    if not isinstance(dtype, DType) or not dtype.is_int:
        raise fault("E_OPERAND_TYPE", f"{call.name} takes integers, {type_text(value)} is given", call.at)
    return dtype


def _count_function(kind: str) -> Function:
    def function(call: Call, x: Value) -> Value:
        return elementwise(call.builder, kind, (x,), i32, call.at, reads=_integer(call, x))

    return _described(function, micro_op_doc(kind, ", as int32"))


def _rounding_function(kind: str, dtype: DType) -> Function:
    def function(call: Call, x: Value) -> Value:
        rounded = elementwise(call.builder, kind, (x,), float_type(call, x), call.at)
        return cast(call.builder, rounded, dtype, call.at)

    return _described(function, micro_op_doc(kind, f", as {dtype.triton}"))


def _cast_function(dtype: DType) -> Function:
    def function(call: Call, x: Value) -> Value:
        return cast(call.builder, x, dtype, call.at)

    return _described(function, f"The value as {dtype.triton}, rounded to nearest.")


def _bits_function(dtype: DType) -> Function:
    def function(call: Call, x: Value) -> Value:
        return bitcast(call.builder, to_runtime(call.builder, x, call.at), dtype, call.at)

    return _described(function, f"The same bits read as {dtype.triton}.")


_FUNCTIONS: dict[str, Function] = {
    **{name: _float_function(kind) for name, kind in _FLOATS.items()},
    **{name: _pair_function(kind) for name, kind in _PAIRS.items()},
    **{name: _test_function(kind) for name, kind in _TESTS.items()},
    **{name: _count_function(name) for name in _COUNTS},
    **{name: _rounding_function(*how) for name, how in _ROUNDINGS.items()},
    **{name: _cast_function(dtype) for name, dtype in _CASTS.items()},
    **{name: _bits_function(dtype) for name, dtype in _BITS.items()},
}

for _name, _function in _FUNCTIONS.items():
    builtin(f"libdevice.{_name}")(_function)


@builtin("libdevice.signbit")
def signbit(call: Call, x: Value) -> Value:
    """1 where the sign of x is set, else 0."""
    return elementwise(call.builder, "signbit", (x,), i32, call.at, reads=float_type(call, x))


@builtin("libdevice.saturatef")
def saturatef(call: Call, x: Value) -> Value:
    """x held between 0 and 1."""
    dtype = float_type(call, x)
    return elementwise(call.builder, "clamp", (x, Const(0.0), Const(1.0)), dtype, call.at)


@builtin("libdevice.brev")
def brev(call: Call, x: Value) -> Value:
    """The bits in reverse order."""
    return elementwise(call.builder, "brev", (x,), _integer(call, x), call.at)


@builtin("libdevice.mulhi")
def mulhi(call: Call, x: Value, y: Value) -> Value:
    """The high half of the product."""
    return _high_product(call, "mulhi", x, y)


@builtin("umulhi")
def umulhi(call: Call, x: Value, y: Value) -> Value:
    """The high half of the product of the bits, taken without a sign."""
    return _high_product(call, "umulhi", x, y)


def _high_product(call: Call, kind: str, x: Value, y: Value) -> Value:
    require_numbers(call.at, x, y)
    dtype = result_type(x, y, call.at)
    if not dtype.is_int or dtype.bits < 32:
        message = f"{call.name} takes integers of 32 or 64 bits, {type_text(x)} and {type_text(y)} are given"
        raise fault("E_OPERAND_TYPE", message, call.at)
    return arithmetic(call.builder, kind, x, y, dtype, call.at)


LIBDEVICE = (*_FUNCTIONS, "signbit", "saturatef", "brev", "mulhi")
