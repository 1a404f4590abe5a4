"""Questions about element types, and Python's `math` on constants."""

from __future__ import annotations

import math
from collections.abc import Callable

from kernbench.compiler.builtins.maths import NOT_IN_TL
from kernbench.compiler.builtins.registry import BUILTINS, Call, builtin
from kernbench.compiler.faults import fault
from kernbench.compiler.values import (
    FALSE,
    BlockType,
    Const,
    DTypeValue,
    PointerType,
    TupleValue,
    Value,
    element_type,
    type_text,
)
from kernbench.dtypes import ALL, BY_NAME, DType, bf16, fp8e4nv, fp8e5, i1

_GLOBAL = Const(1)  # Triton's address space of global memory

Question = Callable[[DType], bool]

_QUESTIONS: dict[str, Question] = {
    "is_floating": lambda dtype: dtype.is_float,
    "is_standard_floating": lambda dtype: dtype.is_float and dtype.bits >= 16,
    "is_int": lambda dtype: dtype.is_int,
    "is_int_signed": lambda dtype: dtype.kind == "int",
    "is_int_unsigned": lambda dtype: dtype.kind in ("uint", "bool"),
    "is_bool": lambda dtype: dtype is i1,
    "is_fp8": lambda dtype: dtype in (fp8e4nv, fp8e5),
    "is_fp8e4nv": lambda dtype: dtype is fp8e4nv,
    "is_fp8e5": lambda dtype: dtype is fp8e5,
    "is_bf16": lambda dtype: dtype is bf16,
    "is_ptr": lambda dtype: False,
    "is_block": lambda dtype: False,
    "is_void": lambda dtype: False,
}


def _is(wanted: DType) -> Question:
    return lambda dtype: dtype is wanted


_QUESTIONS |= {f"is_fp{dtype.bits}": _is(dtype) for dtype in ALL if dtype.name in ("fp16", "fp32", "fp64")}
_QUESTIONS |= {f"is_{dtype.triton}": _is(dtype) for dtype in ALL if dtype.is_int}

_FAMILIES = {  # the questions that ask for more than one type
    "floating": "a float",
    "standard_floating": "a float of 16 bits or more",
    "int": "an integer",
    "int_signed": "a signed integer",
    "int_unsigned": "an unsigned integer or a bool",
    "bool": "int1",
    "fp8": "a float of 8 bits",
    "ptr": "that of a pointer",
    "block": "that of a block",
}
TYPE_METHODS = (*_QUESTIONS, "get_block_shapes")


def _register_question(name: str, question: Question) -> None:
    @builtin(f"type.{name}")
    def ask(call: Call, dtype: Value) -> Value:
        assert isinstance(dtype, DTypeValue)
        if isinstance(dtype.dtype, DType):
            return Const(question(dtype.dtype))
        return Const(name == ("is_ptr" if isinstance(dtype.dtype, PointerType) else "is_block"))

    word = name.removeprefix("is_")
    ask.__doc__ = f"Whether a type is {_FAMILIES.get(word, word)}; known when the kernel is compiled."


for _name, _question in _QUESTIONS.items():
    _register_question(_name, _question)


@builtin("type.get_block_shapes")
def get_block_shapes(call: Call, dtype: Value) -> Value:
    """The shape of a block's type; () of any other."""
    assert isinstance(dtype, DTypeValue)
    shape = dtype.dtype.shape if isinstance(dtype.dtype, BlockType) else ()
    return TupleValue(tuple(Const(extent) for extent in shape))


@builtin("dtype", "str_to_ty")
def dtype(call: Call, name: Value) -> Value:
    """A type by its name: `tl.dtype("fp32")`."""
    text = call.constant(name, "name")
    if isinstance(text, str) and text.removeprefix("*") in BY_NAME:
        element = BY_NAME[text.removeprefix("*")]
        return DTypeValue(PointerType(element) if text.startswith("*") else element)
    raise fault("E_DTYPE_EXPECTED", f"{text!r} is no element type", call.at, help="for example 'fp32'")


@builtin("get_int_dtype")
def get_int_dtype(call: Call, bitwidth: Value, signed: Value) -> Value:
    """The integer type of so many bits."""
    bits = call.integer(bitwidth, "bitwidth")
    kind = "int" if call.flag(signed, "signed") else "uint"
    found = next((one for one in ALL if one.bits == bits and (one.kind == kind or bits == 1)), None)
    if found is None:
        raise fault("E_DTYPE_EXPECTED", f"there is no integer type of {bits} bits", call.at)
    return DTypeValue(found)


@builtin("block_type")
def block_type(call: Call, element_ty: Value, shape: Value) -> Value:
    """The type of a block."""
    return DTypeValue(BlockType(call.dtype(element_ty, "element_ty"), call.shape(shape)))


@builtin("pointer_type")
def pointer_type(call: Call, element_ty: Value, address_space: Value = _GLOBAL, const: Value = FALSE) -> Value:
    """The type of a pointer."""
    return DTypeValue(PointerType(call.element(element_ty, "element_ty")))


_MATH: dict[str, Callable[..., float | int]] = {
    name: getattr(math, name)
    for name in ("ceil", "exp", "floor", "gcd", "log", "log2", "log10", "pow", "sqrt", "sin", "cos", "tanh", "erf")
}

MATH_FUNCTIONS = tuple(_MATH)


def _register_math(name: str, function: Callable[..., float | int]) -> None:
    @builtin(f"builtins.math.{name}")
    def python_math(call: Call, *values: Value) -> Value:
        numbers = [call.constant(value, "x", _run_time_function(call, name, value)) for value in values]
        try:
            return Const(function(*numbers))
        except (TypeError, ValueError, OverflowError):
            given = ", ".join(type_text(value) for value in values)
            raise fault("E_CONSTANT_ARITHMETIC", f"{call.name} of {given} has no value", call.at) from None

    python_math.__doc__ = f"Python's `math.{name}`, of constants."


def _run_time_function(call: Call, name: str, value: Value) -> str | None:
    """What to write where Python's function gets a run-time number: the language's function of the same name."""
    dtype = element_type(value)
    if not isinstance(dtype, DType) or (name not in BUILTINS and f"libdevice.{name}" not in BUILTINS):
        return None
    word = f"tl.{name}" if name in BUILTINS and name not in NOT_IN_TL else f"tl.math.{name}"
    given = call.builder.name_of(value) or "x"
    on = f" with `{given}.to(tl.float32)`" if dtype.is_int else ""
    return f"`math.{name}` is Python's and takes constants; use `{word}`{on}"


for _name, _function in _MATH.items():
    _register_math(_name, _function)
