"""The modules of the language, by canonical name, and what each holds; and Triton's names that are not there yet.

Does not know how a name is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kernbench.compiler.builtins import BUILTINS
from kernbench.compiler.builtins.types import MATH_FUNCTIONS
from kernbench.compiler.values import BuiltinValue, Const, DTypeValue, ModuleValue, Value
from kernbench.dtypes import ALL

# Names that statements give a meaning to; the walker knows them.
_STATEMENT_WORDS = ("range", "static_range", "static_assert", "device_assert", "scratch_scope")

_ELEMENTWISE = (
    "abs", "ceil", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma", "isnan", "log", "log2", "rint",
    "rsqrt", "sigmoid", "sin", "sqrt", "sqrt_rn", "tanh", "trunc",
)  # fmt: skip


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Known to Triton, refused by name until they are there.
UNSUPPORTED: Mapping[str, frozenset[str]] = {
    "tl": _words(
        """advance argmax argmin associative_scan atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or
        atomic_xchg atomic_xor bitcast cat cumprod cumsum dot_scaled experimental_descriptor_load
        experimental_descriptor_store experimental_make_tensor_descriptor flip float8e4b15 float8e4b8 float8e5b16
        gather histogram inline_asm_elementwise interleave join load_tensor_descriptor make_block_ptr
        make_tensor_descriptor map_elementwise pair_uniform_to_normal philox philox_impl rand rand4x randint
        randint4x randn randn4x recv reduce reduce_or send sort split store_tensor_descriptor topk
        uint_to_uniform_float umulhi xor_sum"""
    ),
    "tl.math": _words("pow umulhi"),
    "libdevice": _words(
        """acos acosh add_rn asin asinh atan atan2 atanh brev byte_perm cbrt clz copysign cosh cospi div_rd div_ru
        div_rz erfc erfcinv erfcx erfinv exp10 expm1 fast_cosf fast_dividef fast_expf fast_exp10f fast_log10f
        fast_log2f fast_logf fast_powf fast_sinf fast_tanf fdim ffs finitef float_as_int float_as_uint fmod hypot
        ilogb int_as_float isfinited isinf j0 j1 ldexp lgamma llrint llround log10 log1p logb mul24 mul_rn mulhi
        nearbyint nextafter norm3d normcdf normcdfinv popc pow rcbrt remainder rhadd rhypot round rsqrt_rn saturatef
        scalbn signbit sinh sinpi tan tgamma y0 y1"""
    ),
}


def _functions(names: Mapping[str, str]) -> dict[str, Value]:
    return {name: BuiltinValue(canonical) for name, canonical in names.items()}


_TYPES: dict[str, Value] = {dtype.triton: DTypeValue(dtype) for dtype in ALL}
_SHARED = {name: name for name in _ELEMENTWISE} | {"max": "maximum", "min": "minimum"}
_WORDS = [name for name in BUILTINS if "." not in name and name not in ("rint", "tanh", "isnan", "trunc")]

MODULES: dict[str, dict[str, Value]] = {
    "tl": {
        **_functions({name: name for name in (*_WORDS, *_STATEMENT_WORDS)}),
        **_TYPES,
        "math": ModuleValue("tl.math"),
        "libdevice": ModuleValue("libdevice"),
        "extra": ModuleValue("tl.extra"),
        "PropagateNan": ModuleValue("PropagateNan"),
        "TRITON_MAX_TENSOR_NUMEL": Const(1 << 20),
    },
    "tl.math": _functions(_SHARED),
    "libdevice": _functions({**_SHARED, "fabs": "abs", "fmax": "maximum", "fmin": "minimum", "fast_sqrtf": "sqrt"}),
    "tl.extra": {
        "libdevice": ModuleValue("libdevice"),
        **{backend: ModuleValue("tl.extra") for backend in ("cuda", "hip", "intel", "cann", "ascend")},
    },
    "PropagateNan": {"NONE": Const("none"), "ALL": Const("all")},
    "triton": {
        "language": ModuleValue("tl"),
        **_functions({"cdiv": "cdiv", "next_power_of_2": "next_power_of_2"}),
    },
    "kernbench": {"language": ModuleValue("tl")},
    "math": {
        **_functions({name: f"builtins.math.{name}" for name in MATH_FUNCTIONS}),
        **{name: Const(float(getattr(math, name))) for name in ("pi", "e", "tau", "inf", "nan")},
    },
}

PYTHON_BUILTINS: dict[str, Value] = {
    **_functions(
        {
            name.removeprefix("builtins."): name
            for name in BUILTINS
            if name.count(".") == 1 and name.startswith("builtins.")
        }
    ),
    "range": BuiltinValue("range"),
}


def imported(path: str) -> Value | None:
    """What an import of a dotted path gives; None where it leads out of the language."""
    first, *rest = path.split(".")
    value: Value | None = ModuleValue(first) if first in ("triton", "kernbench", "math") else None
    for name in rest:
        if not isinstance(value, ModuleValue):
            return None
        value = member(value.name, name)
    return value


def member(module: str, name: str) -> Value | None:
    """A member of a module; one that is not there yet is a function that cannot be called."""
    found = MODULES[module].get(name)
    if found is None and name in UNSUPPORTED.get(module, ()):
        return BuiltinValue(name)
    return found


def members(path: str) -> dict[str, Value]:
    """What `from path import *` binds."""
    module = imported(path)
    return dict(MODULES[module.name]) if isinstance(module, ModuleValue) else {}
