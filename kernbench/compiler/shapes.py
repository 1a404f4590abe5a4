"""Shapes of values: broadcasting, new axes, transposes, subscripts, reshapes.

All but a reshape are views, which compute nothing; symbolic blocks only renumber their axes.
"""

from __future__ import annotations

import math

from kernbench.compiler.constants import plain
from kernbench.compiler.conversions import dense, full, scalar_of
from kernbench.compiler.emitter import Emitter
from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.masks import view_mask
from kernbench.compiler.residual import Reshape
from kernbench.compiler.symbolic import Axes, filled, view_form, view_ref
from kernbench.compiler.values import (
    NONE,
    Block,
    Const,
    DictValue,
    IntBlock,
    MaskValue,
    Pointer,
    PtrBlock,
    Scalar,
    Shape,
    TupleValue,
    Value,
    is_block,
    shape_of,
    shape_text,
    type_text,
)
from kernbench.diagnostics import Span

MAX_ELEMENTS = 1 << 20  # of a block, as Triton has it
MAX_RANK = 8


def broadcast_shapes(at: Span, *values: Value) -> Shape:
    """The common shape of operands: a lower rank gets axes in front, an extent of 1 repeats."""
    result: Shape = ()
    for value in values:
        shape = shape_of(value)
        rank = max(len(result), len(shape))
        a, b = ((1,) * (rank - len(s)) + s for s in (result, shape))
        if any(x != y and 1 not in (x, y) for x, y in zip(a, b, strict=True)):
            raise _mismatch(a, b, [v for v in values if is_block(v)], value, at)
        result = tuple(y if x == 1 else x for x, y in zip(a, b, strict=True))
    return result


def _mismatch(a: Shape, b: Shape, blocks: list[Value], last: Value, at: Span) -> Fault:
    axis = next(k for k, (x, y) in enumerate(zip(a, b, strict=True)) if x != y and 1 not in (x, y))
    shapes = " and ".join(shape_text(shape_of(block)) for block in blocks)
    text = f"axis {axis} is {a[axis]} on one side and {b[axis]} on the other"
    help = None
    if any(len(shape_of(block)) != len(a) for block in blocks):
        help = "a lower rank gets its new axes in front; write x[:, None] to add one behind"
    return fault("E_SHAPE_MISMATCH", f"shapes {shapes} do not broadcast", at, text, help=help, about=last)


def view(emitter: Emitter, value: Value, axes: Axes, shape: Shape, at: Span) -> Value:
    """The value with its axes renumbered; `None` in `axes` is a new or repeated axis."""
    match value:
        case Block():
            return Block(view_ref(emitter, value.ref, axes, shape, at))
        case IntBlock():
            return IntBlock(view_form(emitter, value.form, axes, shape, at), value.dtype)
        case PtrBlock():
            offsets = view_form(emitter, value.offsets, axes, shape, at)
            return PtrBlock(value.base, offsets, value.element, value.offset_bits)
        case MaskValue():
            return view_mask(emitter, value, axes, shape, at)
        case _:
            raise fault("E_BLOCK_EXPECTED", f"a block is needed, {type_text(value)} is given", at)


def broadcast(emitter: Emitter, value: Value, shape: Shape, at: Span, *, keep_dense: bool = False) -> Value:
    """The value repeated to `shape`, which `broadcast_shapes` found.

    With `keep_dense` a dense block is lifted to the rank but not repeated: the result is the dense part of a form.
    """
    have = shape_of(value)
    if have == shape:
        return value
    if have == ():
        assert isinstance(value, Scalar | Block)
        return full(emitter, value, shape, at)
    lead = len(shape) - len(have)
    lifted = (1,) * lead + have
    axes: list[int | None] = [
        None if axis < lead or lifted[axis] != extent else axis - lead for axis, extent in enumerate(shape)
    ]
    if keep_dense and isinstance(value, Block):
        kept: list[int | None] = [None if axis < lead else axis - lead for axis in range(len(shape))]
        return Block(view_ref(emitter, value.ref, kept, lifted, at))
    return view(emitter, value, axes, shape, at)


def broadcast_to(emitter: Emitter, value: Value, shape: Shape, at: Span) -> Value:
    """`tl.broadcast_to`: the rank must agree, unless the value is a scalar."""
    have = shape_of(value)
    if have == ():
        scalar = value if isinstance(value, Block) else scalar_of(emitter, value, at)
        return full(emitter, scalar, shape, at)
    fits = len(have) == len(shape) and all(x in (1, y) for x, y in zip(have, shape, strict=True))
    if not fits:
        raise fault("E_SHAPE_MISMATCH", f"shape {shape_text(have)} does not broadcast to {shape_text(shape)}", at)
    return broadcast(emitter, value, shape, at)


def expand_dims(emitter: Emitter, value: Value, axis: int, at: Span) -> Value:
    """A new axis of extent 1 so that it is axis `axis` of the result."""
    have = shape_of(value)
    rank = len(have) + 1
    place = check_axis(axis, rank, at)
    if have == ():
        return broadcast_to(emitter, value, (1,), at)
    axes: list[int | None] = list(range(len(have)))
    axes.insert(place, None)
    return view(emitter, value, axes, (*have[:place], 1, *have[place:]), at)


def permute(emitter: Emitter, value: Value, order: tuple[int, ...], at: Span) -> Value:
    have = shape_of(value)
    if sorted(axis % max(len(have), 1) for axis in order) != list(range(len(have))):
        raise fault("E_BAD_AXIS", f"{list(order)} is no order of the axes of shape {shape_text(have)}", at)
    axes = [axis % len(have) for axis in order]
    return view(emitter, value, axes, tuple(have[axis] for axis in axes), at)


def reshape(emitter: Emitter, value: Value, shape: Shape, at: Span) -> Value:
    """The same elements, row by row, in another shape."""
    have = shape_of(value)
    if math.prod(have) != math.prod(shape):
        text = f"{math.prod(have)} elements on one side and {math.prod(shape)} on the other"
        raise fault("E_SHAPE_MISMATCH", f"shape {shape_text(have)} cannot become {shape_text(shape)}", at, text)
    if have == shape:
        return value
    if have == ():
        return broadcast_to(emitter, value, shape, at)
    if [n for n in have if n != 1] == [n for n in shape if n != 1] and shape != ():
        kept = [axis for axis, extent in enumerate(have) if extent != 1]
        axes = [None if extent == 1 else kept.pop(0) for extent in shape]
        return view(emitter, value, axes, shape, at)
    if isinstance(value, PtrBlock):
        raise fault("E_UNSUPPORTED_VALUE", "a block of pointers cannot be reshaped", at, help="reshape the offsets")
    source = dense(emitter, value, at)
    source = filled(emitter, source, have, at)
    result = emitter.new_block(source.dtype, shape, source.name)
    emitter.emit(Reshape(result, source, at))
    return Block(result)


def subscript(emitter: Emitter, value: Value, indices: tuple[Value | slice, ...], at: Span) -> Value:
    """`tuple[i]`, `tuple[a:b]`, `dict["key"]`, and `block[:, None]`."""
    if isinstance(value, TupleValue | DictValue) or (isinstance(value, Const) and isinstance(value.value, str)):
        return _item(value, indices, at)
    if not is_block(value):
        # Of a scalar Triton takes `:` too, and makes no axis of it: `one[:, None]` has the shape [1]
        indices = tuple(index for index in indices if index != slice(None))
        scalars_new_axes = shape_of(value) == () and all(index == NONE for index in indices) and indices
        if not (scalars_new_axes and isinstance(value, Scalar | Block)):
            help = "write tl.load(pointer + offsets)" if isinstance(value, Pointer) else None
            raise fault("E_BAD_SUBSCRIPT", f"{type_text(value)} cannot be subscripted", at, help=help)
    axes: list[int | None] = []
    shape: list[int] = []
    source, have = 0, shape_of(value)
    for index in indices:
        if isinstance(index, slice) and index == slice(None):
            if source >= len(have):
                raise _bad_subscript(value, at)
            axes.append(source)
            shape.append(have[source])
            source += 1
        elif index == NONE:
            axes.append(None)
            shape.append(1)
        else:
            raise _bad_subscript(value, at)
    axes += range(source, len(have))
    shape += have[source:]
    if have == ():
        return broadcast_to(emitter, value, tuple(shape), at)
    return view(emitter, value, axes, tuple(shape), at)


def _bad_subscript(value: Value, at: Span) -> Fault:
    return fault(
        "E_BAD_SUBSCRIPT",
        f"a block's subscript holds only `:` and `None`, one `:` at most for each of the {len(shape_of(value))} axes",
        at,
        type_text(value),
        help="load a part by its pointers, or reduce with a mask",
    )


def _item(value: TupleValue | DictValue | Const, indices: tuple[Value | slice, ...], at: Span) -> Value:
    if len(indices) != 1:
        raise fault("E_BAD_SUBSCRIPT", f"{type_text(value)} takes one index, {len(indices)} are given", at)
    index = indices[0] if isinstance(indices[0], slice) else plain(indices[0])
    if isinstance(value, DictValue):
        found = value.get(index) if isinstance(index, str) else None
        if found is None:
            raise fault("E_BAD_SUBSCRIPT", f"the dict has no key {index!r}", at)
        return found
    items: tuple[Value, ...] = value.items if isinstance(value, TupleValue) else tuple(map(Const, str(value.value)))
    if isinstance(index, slice):
        bounds = [None if part is None else plain(part) for part in (index.start, index.stop, index.step)]
        if any(part is not None and not isinstance(part, int) for part in bounds) or bounds[2] == 0:
            raise fault("E_CONSTEXPR_NEEDED", "the bounds of a slice must be constant integers", at)
        chosen = items[slice(*bounds)]
        return TupleValue(chosen) if isinstance(value, TupleValue) else Const("".join(str(plain(c)) for c in chosen))
    if not isinstance(index, int):
        raise fault("E_CONSTEXPR_NEEDED", "an index must be a constant integer", at)
    if not -len(items) <= index < len(items):
        raise fault("E_BAD_SUBSCRIPT", f"index {index} is outside {len(items)} items", at)
    return items[index]


def check_axis(axis: int, rank: int, at: Span) -> int:
    """An axis counted from 0; negative ones count from the end."""
    if not -rank <= axis < rank:
        raise fault("E_BAD_AXIS", f"axis {axis} is outside a block of {rank} axes", at)
    return axis % rank


def check_shape(shape: Shape, at: Span, *, power_of_two: bool, in_tcm: bool = True) -> Shape:
    """The shape of a new block, within the limits of a block; a reference into HBM has no limit of size."""
    for extent in shape:
        if extent < 1:
            raise fault("E_BAD_SHAPE", f"a block side is {extent}, at least 1 is needed", at, shape_text(shape))
        if power_of_two and extent & (extent - 1):
            raise fault("E_BAD_SHAPE", f"a block side is {extent}, a power of two is needed", at, shape_text(shape))
    if len(shape) > MAX_RANK:
        raise fault("E_BAD_SHAPE", f"a block has {len(shape)} axes, at most {MAX_RANK} are possible", at)
    if in_tcm and math.prod(shape) > MAX_ELEMENTS:
        message = f"a block of shape {shape_text(shape)} has {math.prod(shape)} elements, at most {MAX_ELEMENTS}"
        raise fault("E_BLOCK_TOO_LARGE", message, at, help="work in smaller blocks, in a loop")
    return shape
