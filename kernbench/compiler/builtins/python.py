"""Python's own functions that kernels use, and `tl.constexpr`."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from kernbench.compiler import operators
from kernbench.compiler.builtins.maths import maximum, minimum
from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.conversions import cast, literal_type
from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.values import (
    TRUE,
    BuiltinValue,
    Const,
    DictValue,
    DTypeValue,
    TileValue,
    TupleValue,
    Value,
    element_type,
    is_block,
    shape_of,
    type_text,
)
from kernbench.dtypes import fp32, i1, i32


@builtin("constexpr")
def constexpr(call: Call, value: Value) -> Value:
    """A value that is known when the kernel is compiled, as it is."""
    return value


@builtin("tuple")
def tuple_(call: Call, values: Value) -> Value:
    """The values of a tuple or list."""
    if not isinstance(values, TupleValue):
        raise fault("E_OPERAND_TYPE", f"{call.name} takes a tuple or list, {type_text(values)} is given", call.at)
    return values


@builtin("builtins.min")
def min_(call: Call, *values: Value) -> Value:
    """The smallest of the values, of constants a constant."""
    return _pick(call, values, "<", minimum)


@builtin("builtins.max")
def max_(call: Call, *values: Value) -> Value:
    """The largest of the values, of constants a constant."""
    return _pick(call, values, ">", maximum)


def _pick(call: Call, values: tuple[Value, ...], op: str, run_time: Callable[[Call, Value, Value], Value]) -> Value:
    """Of constants Python's, else Triton's elementwise function."""
    if len(values) == 1 and isinstance(values[0], TupleValue):
        values = values[0].items
    if not values:
        raise fault("E_CALL_ARGUMENTS", f"{call.name} needs at least one value", call.at)

    def better(a: Value, b: Value) -> Value:
        if isinstance(a, Const) and isinstance(b, Const):
            return b if operators.compare(call.builder, op, b, a, call.at) == TRUE else a
        return run_time(call, a, b)

    return reduce(better, values)


@builtin("builtins.len")
def len_(call: Call, value: Value) -> Value:
    """The items of a tuple, or the extent of a block's first axis."""
    if isinstance(value, TupleValue | DictValue):
        return Const(len(value.items))
    if isinstance(value, Const) and isinstance(value.value, str):
        return Const(len(value.value))
    if is_block(value):
        return Const(shape_of(value)[0])
    raise fault("E_OPERAND_TYPE", f"{type_text(value)} has no length", call.at)


# What `isinstance` tells apart, by the canonical name of the class; a constexpr of any Python type is one
_KINDS: dict[str, Callable[[Value], bool]] = {
    "tensor": lambda value: element_type(value) is not None,
    "constexpr": lambda value: isinstance(value, Const),
    "tuple": lambda value: isinstance(value, TupleValue),
    "dtype": lambda value: isinstance(value, DTypeValue),
    "tensor_descriptor": lambda value: isinstance(value, TileValue) and value.kind == "tensor descriptor",
}


@builtin("builtins.isinstance")
def isinstance_(call: Call, value: Value, kind: Value) -> Value:
    """Whether a value is a `tl.tensor`, `tl.constexpr`, `tl.tuple`, `tl.dtype` or `tl.tensor_descriptor`."""
    kinds = kind.items if isinstance(kind, TupleValue) else (kind,)
    for one in kinds:
        if not isinstance(one, BuiltinValue) or one.name not in _KINDS:
            message = f"isinstance tells classes of the language apart, not {type_text(one)}"
            raise fault(
                "E_OPERAND_TYPE", message, call.at, help=f"they are {', '.join(f'tl.{name}' for name in _KINDS)}"
            )
    return Const(any(_KINDS[one.name](value) for one in kinds if isinstance(one, BuiltinValue)))


@builtin("builtins.getattr")
def getattr_(call: Call, value: Value, name: Value, default: Value | None = None) -> Value:
    """The attribute that a string names; `default` where there is none."""
    wanted = call.constant(name, "name")
    if not isinstance(wanted, str):
        raise fault("E_CALL_ARGUMENTS", f"`name` of {call.name} must be a string, not {wanted!r}", call.at)
    try:
        return call.builder.attribute(value, wanted, call.at)
    except Fault:
        if default is None:
            raise
        return default


@builtin("builtins.hasattr")
def hasattr_(call: Call, value: Value, name: Value) -> Value:
    """Whether `getattr` finds something."""
    missing = TupleValue(())
    return Const(getattr_(call, value, name, missing) is not missing)


@builtin("builtins.str")
def str_(call: Call, value: Value) -> Value:
    """A constant as text, for a message; a run-time value as its type."""
    return Const(str(value.value) if isinstance(value, Const) else type_text(value))


@builtin("builtins.int")
def int_(call: Call, value: Value) -> Value:
    """A constant as an integer, or a value cast to int32."""
    return _convert(call, value, int)


@builtin("builtins.float")
def float_(call: Call, value: Value) -> Value:
    """A constant as a float, or a value cast to fp32."""
    return _convert(call, value, float)


@builtin("builtins.bool")
def bool_(call: Call, value: Value) -> Value:
    """Whether a constant is true, or a value cast to int1."""
    return _convert(call, value, bool)


_RUN_TIME = {int: i32, float: fp32, bool: i1}


def _convert(call: Call, value: Value, kind: type[int] | type[float] | type[bool]) -> Value:
    if not isinstance(value, Const):
        return cast(call.builder, value, _RUN_TIME[kind], call.at)
    try:
        return Const(kind(value.value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise fault("E_CONSTANT_ARITHMETIC", f"{type_text(value)} is no {kind.__name__}", call.at) from None


@builtin("next_power_of_2")
def next_power_of_2(call: Call, n: Value) -> Value:
    """The smallest power of two that is not below a constant."""
    number = call.integer(n, "n")
    if number < 1 or literal_type(number) is None:
        raise fault("E_CONSTANT_ARITHMETIC", f"there is no power of 2 after {number}", call.at)
    return Const(1 << (number - 1).bit_length())
