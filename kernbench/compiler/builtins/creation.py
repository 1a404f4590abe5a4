"""Blocks from nothing: `arange`, `full`, `zeros`; and casts."""

from __future__ import annotations

from kernbench.compiler.arithmetic import elementwise
from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.conversions import bitcast as reinterpreted
from kernbench.compiler.conversions import cast, full, scalar_of, to_runtime
from kernbench.compiler.faults import fault
from kernbench.compiler.shapes import check_shape
from kernbench.compiler.values import (
    FALSE,
    NONE,
    Block,
    BlockType,
    Const,
    DTypeValue,
    Form,
    IntBlock,
    Value,
    element_type,
    is_block,
    shape_of,
    type_text,
)
from kernbench.dtypes import DType, i32


@builtin("arange")
def arange(call: Call, start: Value, end: Value) -> Value:
    """The integers from `start` on below `end`, as int32."""
    low, high = call.integer(start, "start"), call.integer(end, "end")
    extent = high - low
    if extent < 1:
        message = f"tl.arange({low}, {high}) has {max(extent, 0)} elements: `end` must be greater than `start`"
        raise fault("E_BAD_SHAPE", message, call.at)
    if not (i32.min <= low and high - 1 <= i32.max):
        raise fault("E_LITERAL_RANGE", f"tl.arange({low}, {high}) does not fit int32", call.at)
    if call.builder.power_of_two and extent & (extent - 1):
        message = f"tl.arange({low}, {high}) has {extent} elements, a power of two is needed"
        help = f"take {1 << extent.bit_length()} and mask what is too many"
        raise fault("E_BAD_SHAPE", message, call.at, help=help)
    check_shape((extent,), call.at, power_of_two=False)
    return IntBlock(Form((extent,), low, (1 if extent > 1 else 0,)), i32)


@builtin("full")
def full_(call: Call, shape: Value, value: Value, dtype: Value) -> Value:
    """A block of one value."""
    extents = check_shape(call.shape(shape), call.at, power_of_two=call.builder.power_of_two)
    if is_block(value):
        raise fault("E_SCALAR_EXPECTED", f"tl.full takes one value, {type_text(value)} is given", call.at)
    element = call.element(dtype)
    made = cast(call.builder, value, element, call.at)
    if not isinstance(made, Block):
        made = scalar_of(call.builder, made, call.at)
    return full(call.builder, made, extents, call.at)


@builtin("zeros")
def zeros(call: Call, shape: Value, dtype: Value) -> Value:
    """A block of zeros."""
    return full_(call, shape, Const(0), dtype)


@builtin("zeros_like")
def zeros_like(call: Call, input: Value) -> Value:
    """A block of zeros of the shape and type of another."""
    return full_like(call, input, Const(0))


@builtin("full_like")
def full_like(call: Call, input: Value, value: Value, dtype: Value = NONE) -> Value:
    """A block of one value of the shape of another, and of its type if none is given."""
    element = element_type(input)
    if element is None:
        raise fault("E_BLOCK_EXPECTED", f"a block is needed, {type_text(input)} is given", call.at)
    made = dtype if dtype != NONE else DTypeValue(element)
    scalar = cast(call.builder, value, call.element(made), call.at)
    if not isinstance(scalar, Block):
        scalar = scalar_of(call.builder, scalar, call.at)
    return full(call.builder, scalar, shape_of(input), call.at)


@builtin("cast", "to")
def cast_(call: Call, input: Value, dtype: Value, fp_downcast_rounding: Value = NONE, bitcast: Value = FALSE) -> Value:
    """The value in another type, rounded or wrapped to it; with `bitcast` the same bits."""
    rounding = call.constant(fp_downcast_rounding, "fp_downcast_rounding")
    if rounding not in (None, "rtne", "rtz"):
        raise fault("E_CALL_ARGUMENTS", f"{rounding!r} is no rounding of {call.name}", call.at, help="'rtne' or 'rtz'")
    if isinstance(dtype, DTypeValue) and isinstance(dtype.dtype, BlockType):
        dtype = DTypeValue(dtype.dtype.element)
    wanted = call.dtype(dtype)
    if call.flag(bitcast, "bitcast") and isinstance(wanted, DType):
        return reinterpreted(call.builder, input, wanted, call.at)
    have = element_type(input)
    if rounding == "rtz" and isinstance(have, DType) and isinstance(wanted, DType) and _narrows(have, wanted):
        return elementwise(call.builder, "copy_toward_zero", (input,), wanted, call.at, reads=have)
    return cast(call.builder, input, wanted, call.at)


def _narrows(have: DType, wanted: DType) -> bool:
    return have.is_float and wanted.is_float and wanted.bits < have.bits


@builtin("bitcast")
def bitcast_(call: Call, input: Value, dtype: Value) -> Value:
    """The same bits read as another type of equal size."""
    return reinterpreted(call.builder, input, call.element(dtype), call.at)


@builtin("to_tensor")
def to_tensor(call: Call, x: Value) -> Value:
    """A constant as a typed run-time value."""
    return to_runtime(call.builder, x, call.at)
