"""Block pointers and tensor descriptors: a tensor's shape and strides, read and written in blocks.

They become blocks of pointers and box masks where they are loaded or stored. Offsets and strides count in 64 bits.
"""

from __future__ import annotations

from kernbench.commands import Int
from kernbench.compiler import access, operators
from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.conversions import cast, scalar_of
from kernbench.compiler.faults import fault
from kernbench.compiler.pointers import offset_pointer
from kernbench.compiler.shapes import broadcast, check_shape, view
from kernbench.compiler.values import (
    NONE,
    ZERO,
    Const,
    Form,
    IntBlock,
    Pointer,
    Shape,
    TileKind,
    TileValue,
    TupleValue,
    Value,
    element_type,
    int_of,
    is_block,
    shape_of,
    shape_text,
    type_text,
)
from kernbench.dtypes import DType, i32, i64

_TEXT = Const("")
_PADDINGS = {"": "zero", None: "zero", "zero": "zero", "nan": "nan"}
_NAN = Const(float("nan"))


# --------------------------------------------------------------------------- making them


@builtin("make_block_ptr")
def make_block_ptr(
    call: Call, base: Value, shape: Value, strides: Value, offsets: Value, block_shape: Value, order: Value = NONE
) -> Value:
    """A tile of a tensor in memory. `order` says how the tensor lies there, which the strides say too."""
    made = _make(call, "block pointer", base, shape, strides, block_shape, "zero")
    return _at(made, _scalars(call, offsets, "offsets", i32, len(made.block_shape)))


@builtin("make_tensor_descriptor", "_experimental_make_tensor_descriptor")
def make_tensor_descriptor(
    call: Call, base: Value, shape: Value, strides: Value, block_shape: Value, padding_option: Value = _TEXT
) -> Value:
    """A tensor in memory, read and written in tiles of `block_shape`; lanes outside of it read as padding."""
    return _make(call, "tensor descriptor", base, shape, strides, block_shape, _padding(call, padding_option))


def _make(
    call: Call, kind: TileKind, base: Value, shape: Value, strides: Value, block_shape: Value, padding: str
) -> TileValue:
    if not isinstance(base, Pointer):
        raise access.pointer_expected(call.name, base, call.at)
    extents = check_shape(call.shape(block_shape, "block_shape"), call.at, power_of_two=call.builder.power_of_two)
    rank = len(extents)
    sizes, steps = _scalars(call, shape, "shape", i64, rank), _scalars(call, strides, "strides", i64, rank)
    return TileValue(kind, base, extents, sizes, steps, TupleValue(()), padding)


def _scalars(call: Call, value: Value, parameter: str, dtype: DType, rank: int) -> TupleValue:
    items = value.items if isinstance(value, TupleValue) else (value,)
    if len(items) != rank:
        message = f"`{parameter}` of {call.name} has {len(items)} numbers, the block has {rank} axes"
        raise fault("E_CALL_ARGUMENTS", message, call.at)
    return TupleValue(tuple(_integer(call, item, parameter, dtype) for item in items))


def _integer(call: Call, value: Value, parameter: str, dtype: DType) -> Value:
    found = scalar_of(call.builder, value, call.at, f"an integer in `{parameter}` of {call.name}")
    if not found.dtype.is_int:
        message = f"`{parameter}` of {call.name} holds integers, {type_text(value)} is given"
        raise fault("E_OPERAND_TYPE", message, call.at)
    return cast(call.builder, found, dtype, call.at)


def _at(tile: TileValue, offsets: TupleValue) -> TileValue:
    return TileValue(tile.kind, tile.base, tile.block_shape, tile.extents, tile.strides, offsets, tile.padding)


def _padding(call: Call, value: Value) -> str:
    text = call.constant(value, "padding_option")
    if text not in _PADDINGS:
        raise fault("E_CALL_ARGUMENTS", f"padding_option {text!r} is none of 'zero', 'nan'", call.at)
    assert text is None or isinstance(text, str)
    return _PADDINGS[text]


@builtin("advance")
def advance(call: Call, base: Value, offsets: Value) -> Value:
    """A block pointer moved on by elements an axis."""
    if not isinstance(base, TileValue) or base.kind != "block pointer":
        raise fault("E_POINTER_EXPECTED", f"{call.name} moves a block pointer, {type_text(base)} is given", call.at)
    steps = _scalars(call, offsets, "offsets", i32, len(base.block_shape))
    pairs = zip(base.offsets.items, steps.items, strict=True)
    moved = (operators.binary(call.builder, "+", old, step, call.at) for old, step in pairs)
    return _at(base, TupleValue(tuple(moved)))


# --------------------------------------------------------------------------- where their lanes are


def _positions(call: Call, offset: Value, axis: int, shape: Shape) -> IntBlock:
    """The positions in the tensor along one axis, as a block that is 1 wide along the others."""
    start = _exact(call, offset)
    extent = shape[axis]
    lane = IntBlock(Form((extent,), start, (1 if extent > 1 else 0,)), i64)
    thin = tuple(extent if k == axis else 1 for k in range(len(shape)))
    axes = [0 if k == axis else None for k in range(len(shape))]
    block = view(call.builder, lane, axes, thin, call.at)
    assert isinstance(block, IntBlock)
    return block


def _exact(call: Call, value: Value) -> Int:
    scalar = scalar_of(call.builder, value, call.at)
    return int_of(call.builder.wrapped(scalar.operand, scalar.dtype, call.at))


def _lanes(
    call: Call, tile: TileValue, positions: list[Value], shape: Shape, checked: tuple[int, ...]
) -> tuple[Value, Value]:
    """(block of pointers, mask) for positions an axis; the mask holds the axes that are checked."""
    builder, at = call.builder, call.at
    pointer: Value = tile.base
    mask: Value = NONE
    for axis, place in enumerate(positions):
        stride, extent = tile.strides.items[axis], tile.extents.items[axis]
        pointer = offset_pointer(builder, "+", pointer, operators.binary(builder, "*", place, stride, at), at)
        if axis in checked:
            for inside in (
                operators.compare(builder, ">=", place, ZERO, at),
                operators.compare(builder, "<", place, extent, at),
            ):
                mask = inside if mask == NONE else operators.binary(builder, "&", mask, inside, at)
    pointer = broadcast(builder, _lifted(call, pointer, shape), shape, at)
    return pointer, mask


def _lifted(call: Call, pointer: Value, shape: Shape) -> Value:
    """A block of one lane is a block, though all its parts are scalars."""
    if is_block(pointer):
        return pointer
    zeros = IntBlock(Form(shape, 0, (0,) * len(shape)), i64)
    return offset_pointer(call.builder, "+", pointer, zeros, call.at)


def _block_lanes(call: Call, tile: TileValue, offsets: TupleValue, checked: tuple[int, ...]) -> tuple[Value, Value]:
    shape = tile.block_shape
    positions: list[Value] = [_positions(call, offset, axis, shape) for axis, offset in enumerate(offsets.items)]
    return _lanes(call, tile, positions, shape, checked)


def _other(mask: Value, padding: str, element: DType) -> Value:
    return _NAN if padding == "nan" and element.is_float and mask != NONE else NONE


# --------------------------------------------------------------------------- block pointers


def load(call: Call, tile: TileValue, mask: Value, other: Value, boundary_check: Value, padding_option: Value) -> Value:
    if tile.kind != "block pointer":
        raise fault("E_POINTER_EXPECTED", f"{call.name} of a {tile.kind}", call.at, help="write desc.load([...])")
    if mask != NONE or other != NONE:
        message = f"{call.name} of a block pointer takes neither `mask` nor `other`"
        raise fault("E_CALL_ARGUMENTS", message, call.at, help="use boundary_check and padding_option")
    padding = _padding(call, padding_option)
    pointer, lanes = _block_lanes(call, tile, tile.offsets, _checked(call, tile, boundary_check))
    return access.load(call.builder, pointer, lanes, _other(lanes, padding, tile.base.element), call.at)


def store(call: Call, tile: TileValue, value: Value, mask: Value, boundary_check: Value) -> None:
    if tile.kind != "block pointer":
        raise fault("E_POINTER_EXPECTED", f"{call.name} to a {tile.kind}", call.at, help="write desc.store([...], x)")
    if mask != NONE:
        message = f"{call.name} to a block pointer takes no `mask`"
        raise fault("E_CALL_ARGUMENTS", message, call.at, help="use boundary_check")
    pointer, lanes = _block_lanes(call, tile, tile.offsets, _checked(call, tile, boundary_check))
    access.store(call.builder, pointer, value, lanes, call.at)


def _checked(call: Call, tile: TileValue, boundary_check: Value) -> tuple[int, ...]:
    axes = () if boundary_check == NONE else call.shape(boundary_check, "boundary_check")
    rank = len(tile.block_shape)
    for axis in axes:
        if not 0 <= axis < rank:
            raise fault("E_BAD_AXIS", f"`boundary_check` names axis {axis}, the block has {rank} axes", call.at)
    return axes


# --------------------------------------------------------------------------- tensor descriptors

DESCRIPTOR_METHODS = (
    "load", "store", "gather", "scatter",
    *(f"atomic_{kind}" for kind in ("add", "and", "max", "min", "or", "xor")),
)  # fmt: skip


def _descriptor(call: Call, value: Value) -> TileValue:
    if isinstance(value, TileValue) and value.kind == "tensor descriptor":
        return value
    message = f"{call.name} takes a tensor descriptor, {type_text(value)} is given"
    raise fault("E_POINTER_EXPECTED", message, call.at, help="make one with tl.make_tensor_descriptor")


def descriptor_lanes(call: Call, desc: Value, offsets: Value) -> tuple[TileValue, Value, Value]:
    """The descriptor, and the pointers and mask of its block at `offsets`; every axis is checked."""
    tile = _descriptor(call, desc)
    rank = len(tile.block_shape)
    starts = _scalars(call, offsets, "offsets", i32, rank)
    return (tile, *_block_lanes(call, tile, starts, tuple(range(rank))))


@builtin("descriptor.load", "load_tensor_descriptor")
def load_descriptor(
    call: Call, desc: Value, offsets: Value, cache_modifier: Value = _TEXT, eviction_policy: Value = _TEXT
) -> Value:
    """The tile that starts at `offsets`."""
    tile, pointer, lanes = descriptor_lanes(call, desc, offsets)
    return access.load(call.builder, pointer, lanes, _other(lanes, tile.padding, tile.base.element), call.at)


@builtin("descriptor.store", "store_tensor_descriptor")
def store_descriptor(call: Call, desc: Value, offsets: Value, value: Value) -> Value:
    """Write the tile that starts at `offsets`; lanes outside of the tensor are dropped."""
    tile, pointer, lanes = descriptor_lanes(call, desc, offsets)
    _check_stored(call, value, tile.block_shape)
    access.store(call.builder, pointer, value, lanes, call.at)
    return NONE


def _check_stored(call: Call, value: Value, shape: Shape) -> None:
    if is_block(value) and shape_of(value) != shape:
        message = f"{call.name} stores blocks of {shape_text(shape)}, {type_text(value)} is given"
        raise fault("E_SHAPE_MISMATCH", message, call.at)


def _row_lanes(call: Call, desc: Value, rows: Value, column: Value) -> tuple[TileValue, Value, Value]:
    """Lanes of rows by their numbers, and of the block's columns from `column` on."""
    tile = _descriptor(call, desc)
    if len(tile.block_shape) != 2 or len(shape_of(rows)) != 1:
        message = f"{call.name} takes a descriptor of 2 axes and a vector of rows, {type_text(rows)} is given"
        raise fault("E_SHAPE_MISMATCH", message, call.at)
    kind = element_type(rows)
    if not isinstance(kind, DType) or not kind.is_int:
        raise fault("E_OPERAND_TYPE", f"rows are integers, {type_text(rows)} is given", call.at)
    shape = (shape_of(rows)[0], tile.block_shape[1])
    lifted = view(call.builder, cast(call.builder, rows, i64, call.at), (0, None), (shape[0], 1), call.at)
    start = _integer(call, column, "y_offset", i32)
    return (tile, *_lanes(call, tile, [lifted, _positions(call, start, 1, shape)], shape, (0, 1)))


@builtin("descriptor.gather")
def gather_rows(call: Call, desc: Value, x_offsets: Value, y_offset: Value) -> Value:
    """The rows `x_offsets`, from column `y_offset` on."""
    tile, pointer, lanes = _row_lanes(call, desc, x_offsets, y_offset)
    return access.load(call.builder, pointer, lanes, _other(lanes, tile.padding, tile.base.element), call.at)


@builtin("descriptor.scatter")
def scatter_rows(call: Call, desc: Value, value: Value, x_offsets: Value, y_offset: Value) -> Value:
    """Write the rows `x_offsets`, from column `y_offset` on."""
    _, pointer, lanes = _row_lanes(call, desc, x_offsets, y_offset)
    access.store(call.builder, pointer, value, lanes, call.at)
    return NONE


@builtin("_experimental_descriptor_load")
def load_older(call: Call, desc: Value, offsets: Value, shape: Value, dtype: Value) -> Value:
    """The form before `desc.load`: it states again what the descriptor says."""
    tile = _descriptor(call, desc)
    if call.shape(shape) != tile.block_shape:
        message = f"{call.name} asks for {shape_text(call.shape(shape))}, the blocks are {shape_text(tile.block_shape)}"
        raise fault("E_SHAPE_MISMATCH", message, call.at)
    return cast(call.builder, load_descriptor(call, desc, offsets), call.element(dtype), call.at)


@builtin("_experimental_descriptor_store")
def store_older(call: Call, desc: Value, value: Value, offsets: Value) -> Value:
    return store_descriptor(call, desc, offsets, value)
