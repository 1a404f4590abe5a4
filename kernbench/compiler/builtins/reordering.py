"""Functions that move the elements of blocks about: join and split, flip, sort, gather, histogram."""

from __future__ import annotations

from kernbench.compiler import rearrange
from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.conversions import cast, dense, scalar_of, to_runtime
from kernbench.compiler.faults import fault
from kernbench.compiler.promotion import common_type
from kernbench.compiler.shapes import broadcast, broadcast_shapes, check_axis, check_shape, reshape
from kernbench.compiler.values import (
    FALSE,
    NONE,
    TRUE,
    ZERO,
    Block,
    Scalar,
    Shape,
    TupleValue,
    Value,
    element_type,
    is_block,
    shape_of,
    shape_text,
    type_text,
)
from kernbench.dtypes import DType, i1, i32


def block_of(call: Call, value: Value, parameter: str = "input") -> Value:
    """An argument that must be a block of numbers."""
    if not is_block(value) or not isinstance(element_type(value), DType):
        message = f"`{parameter}` of {call.name} must be a block, {type_text(value)} is given"
        raise fault("E_BLOCK_EXPECTED", message, call.at)
    return value


def axis_of(call: Call, axis: Value, value: Value, default: int = -1) -> int:
    rank = len(shape_of(value))
    return check_axis(default if axis == NONE else call.integer(axis, "dim"), rank, call.at)


def _alike(call: Call, a: Value, b: Value) -> tuple[Value, Value, Shape]:
    """Both in one type and shape."""
    a, b = (to_runtime(call.builder, value, call.at) for value in (a, b))
    dtype = common_type(call.at, a, b)
    shape = broadcast_shapes(call.at, a, b)
    x, y = (cast(call.builder, value, dtype, call.at) for value in (a, b))
    if shape:
        x, y = (broadcast(call.builder, value, shape, call.at) for value in (x, y))
    return x, y, shape


@builtin("join")
def join(call: Call, a: Value, b: Value) -> Value:
    """Two blocks side by side along a new last axis of 2."""
    x, y, shape = _alike(call, a, b)
    if not shape:
        x, y = (broadcast(call.builder, _scalar(call, value), (1,), call.at) for value in (x, y))
        return rearrange.cat(call.builder, x, y, 0, call.at)
    check_shape((*shape, 2), call.at, power_of_two=False)
    refs = tuple(rearrange.whole(call.builder, value, call.at) for value in (x, y))
    return rearrange.emit(call.builder, "join", refs, refs[0].dtype, (*shape, 2), call.at)


def _scalar(call: Call, value: Value) -> Scalar | Block:
    return value if isinstance(value, Block) else scalar_of(call.builder, value, call.at)


@builtin("split")
def split(call: Call, a: Value) -> Value:
    """The two halves of a last axis of 2."""
    shape = shape_of(block_of(call, a, "a"))
    if shape[-1] != 2:
        message = f"{call.name} takes a block whose last axis is 2, its shape is {shape_text(shape)}"
        raise fault("E_SHAPE_MISMATCH", message, call.at, help="reshape it to (..., 2) first")
    axis = len(shape) - 1
    halves = (rearrange.part(call.builder, a, axis, start, 1, 1, call.at) for start in (0, 1))
    return TupleValue(tuple(reshape(call.builder, half, shape[:-1], call.at) for half in halves))


@builtin("interleave")
def interleave(call: Call, a: Value, b: Value) -> Value:
    """Elements of both in turn along the last axis."""
    joined = join(call, a, b)
    shape = shape_of(joined)
    return joined if len(shape) == 1 else reshape(call.builder, joined, (*shape[:-2], 2 * shape[-2]), call.at)


@builtin("cat")
def cat(call: Call, input: Value, other: Value, can_reorder: Value = FALSE, dim: Value = ZERO) -> Value:
    """One block behind the other along an axis. Elements keep their order, which `can_reorder` allows too."""
    axis = axis_of(call, dim, block_of(call, input))
    shapes = [shape_of(block_of(call, value, name)) for value, name in ((input, "input"), (other, "other"))]
    rests = [(*shape[:axis], *shape[axis + 1 :]) for shape in shapes]
    if len(shapes[0]) != len(shapes[1]) or rests[0] != rests[1]:
        message = f"shapes {shape_text(shapes[0])} and {shape_text(shapes[1])} do not fit behind each other"
        raise fault("E_SHAPE_MISMATCH", message, call.at)
    dtype = common_type(call.at, input, other)
    x, y = (cast(call.builder, value, dtype, call.at) for value in (input, other))
    result = rearrange.cat(call.builder, x, y, axis, call.at)
    check_shape(shape_of(result), call.at, power_of_two=False)
    return result


@builtin("flip")
def flip(call: Call, x: Value, dim: Value = NONE) -> Value:
    """The elements in reverse order along an axis."""
    return rearrange.flip(call.builder, x, axis_of(call, dim, block_of(call, x, "x")), call.at)


@builtin("sort")
def sort(call: Call, x: Value, dim: Value = NONE, descending: Value = FALSE) -> Value:
    """The elements in ascending order along the last axis."""
    axis = axis_of(call, dim, block_of(call, x, "x"))
    return rearrange.sort(call.builder, x, axis, call.flag(descending, "descending"), call.at)


@builtin("bitonic_merge")
def bitonic_merge(call: Call, x: Value, dim: Value = NONE, descending: Value = FALSE) -> Value:
    """The elements of a bitonic sequence, one that rises and then falls, in ascending order along the last axis."""
    return sort(call, x, dim, descending)


@builtin("topk")
def topk(call: Call, x: Value, k: Value, dim: Value = NONE, descending: Value = TRUE) -> Value:
    """The k largest along an axis, the largest first; the smallest, the smallest first, where it is not descending."""
    axis, number = axis_of(call, dim, block_of(call, x, "x")), call.integer(k, "k")
    if not 1 <= number <= shape_of(x)[axis]:
        message = f"`k` of {call.name} is {number}, the axis has {shape_of(x)[axis]} elements"
        raise fault("E_CALL_ARGUMENTS", message, call.at)
    ordered = rearrange.sort(call.builder, x, axis, call.flag(descending, "descending"), call.at)
    return rearrange.part(call.builder, ordered, axis, 0, 1, number, call.at)


@builtin("gather")
def gather(call: Call, src: Value, index: Value, axis: Value) -> Value:
    """src at the positions `index` along an axis."""
    place = axis_of(call, axis, block_of(call, src, "src"))
    have, want = shape_of(src), shape_of(block_of(call, index, "index"))
    fits = len(have) == len(want) and all(x == y or k == place for k, (x, y) in enumerate(zip(have, want, strict=True)))
    kind = element_type(index)
    if not fits or not (isinstance(kind, DType) and kind.is_int):
        message = f"{call.name} of {type_text(src)} along axis {place} does not take the index {type_text(index)}"
        raise fault("E_SHAPE_MISMATCH", message, call.at, help="integers of the block's shape, save along the axis")
    refs = tuple(rearrange.whole(call.builder, value, call.at) for value in (src, index))
    return rearrange.emit(call.builder, "take", refs, refs[0].dtype, want, call.at, axis=place)


@builtin("histogram")
def histogram(call: Call, input: Value, num_bins: Value, mask: Value = NONE) -> Value:
    """How often each of 0 … num_bins−1 occurs."""
    dtype = element_type(block_of(call, input))
    assert isinstance(dtype, DType)
    if not dtype.is_int or len(shape_of(input)) != 1:
        raise fault("E_OPERAND_TYPE", f"{call.name} takes a vector of integers, {type_text(input)} is given", call.at)
    (bins,) = check_shape((call.integer(num_bins, "num_bins"),), call.at, power_of_two=False)
    lanes = True if mask == NONE else dense(call.builder, _mask(call, mask, shape_of(input)), call.at)
    source = rearrange.whole(call.builder, input, call.at)
    return rearrange.emit(call.builder, "histogram", (source, lanes), i32, (bins,), call.at, bins=bins)


def _mask(call: Call, mask: Value, shape: Shape) -> Value:
    runtime = cast(call.builder, to_runtime(call.builder, mask, call.at), i1, call.at)
    return broadcast(call.builder, runtime, shape, call.at)
