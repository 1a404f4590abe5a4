"""Functions that change a block's shape and none of its values."""

from __future__ import annotations

import math

from kernbench.compiler import shapes
from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.faults import fault
from kernbench.compiler.residual import HbmRef
from kernbench.compiler.values import HbmRefValue, TupleValue, Value, is_block, shape_of, type_text


@builtin("expand_dims")
def expand_dims(call: Call, input: Value, axis: Value) -> Value:
    """New axes of extent 1 before the given ones."""
    axes = call.shape(axis, "axis")
    rank = len(shape_of(input)) + len(axes)
    for place in sorted(shapes.check_axis(one, rank, call.at) for one in axes):
        input = shapes.expand_dims(call.builder, input, place, call.at)
    return input


@builtin("unsqueeze")
def unsqueeze(call: Call, x: Value, dim: Value) -> Value:
    """Put an axis of extent 1 before the axis `dim`."""
    return expand_dims(call, x, dim)


@builtin("squeeze")
def squeeze(call: Call, x: Value, dim: Value) -> Value:
    """Take away the axis `dim`, whose extent is 1."""
    shape = shape_of(x)
    axis = shapes.check_axis(call.integer(dim, "dim"), len(shape), call.at)
    if shape[axis] != 1:
        message = f"axis {axis} of {type_text(x)} has {shape[axis]} elements, {call.name} takes away one of 1"
        raise fault("E_BAD_AXIS", message, call.at, about=x)
    return shapes.reshape(call.builder, x, shape[:axis] + shape[axis + 1 :], call.at)


@builtin("broadcast_to")
def broadcast_to(call: Call, input: Value, *shape: Value) -> Value:
    """The value repeated to a shape."""
    return shapes.broadcast_to(call.builder, input, _shape(call, shape), call.at)


@builtin("broadcast")
def broadcast(call: Call, input: Value, other: Value) -> Value:
    """Two values repeated to their common shape."""
    shape = shapes.broadcast_shapes(call.at, input, other)
    lift = (shapes.broadcast if shape_of(value) else shapes.broadcast_to for value in (input, other))
    return TupleValue(
        tuple(repeat(call.builder, v, shape, call.at) for repeat, v in zip(lift, (input, other), strict=True))
    )


@builtin("trans")
def trans(call: Call, input: Value, *dims: Value) -> Value:
    """The last two axes swapped, or all axes in the order given."""
    rank = len(shape_of(input))
    if rank < 2 and not dims:
        message = f"{call.name} takes a block of at least 2 axes, {type_text(input)} is given"
        raise fault("E_BAD_AXIS", message, call.at)
    order = _integers(call, dims) or (*range(rank - 2), rank - 1, rank - 2)
    return _permute(call, input, order)


@builtin("permute")
def permute(call: Call, input: Value, *dims: Value) -> Value:
    """The axes in another order."""
    return _permute(call, input, _integers(call, dims))


def _permute(call: Call, input: Value, order: tuple[int, ...]) -> Value:
    if not isinstance(input, HbmRefValue):
        return shapes.permute(call.builder, input, order, call.at)
    ref = input.ref
    if sorted(order) != list(range(len(ref.shape))):
        raise fault("E_BAD_AXIS", f"{list(order)} is no order of the axes of {type_text(input)}", call.at)
    shape, strides = tuple(ref.shape[axis] for axis in order), tuple(ref.strides[axis] for axis in order)
    return HbmRefValue(HbmRef(ref.name, ref.base, shape, strides, ref.dtype))


@builtin("reshape", "view")
def reshape(call: Call, input: Value, *shape: Value, can_reorder: Value | None = None) -> Value:
    """The elements in another shape. They keep their order, which `can_reorder` allows too."""
    if not is_block(input):
        raise fault("E_BLOCK_EXPECTED", f"{call.name} takes a block, {type_text(input)} is given", call.at)
    extents = shapes.check_shape(_shape(call, shape), call.at, power_of_two=False)
    return shapes.reshape(call.builder, input, extents, call.at)


@builtin("ravel")
def ravel(call: Call, input: Value, can_reorder: Value | None = None) -> Value:
    """All elements along one axis."""
    return shapes.reshape(call.builder, input, (math.prod(shape_of(input)),), call.at)


def _shape(call: Call, arguments: tuple[Value, ...]) -> tuple[int, ...]:
    """`f(x, (2, 3))` and `f(x, 2, 3)` say the same."""
    return _integers(call, arguments)


def _integers(call: Call, arguments: tuple[Value, ...]) -> tuple[int, ...]:
    if len(arguments) == 1 and isinstance(arguments[0], TupleValue):
        arguments = arguments[0].items
    return tuple(call.integer(argument, "shape") for argument in arguments)
