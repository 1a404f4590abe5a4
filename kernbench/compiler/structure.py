"""Values as regions carry them: a structure that never changes, and leaves that registers and slots can hold.

`flatten` takes a value apart and `rebuild` puts one together again. Does not know loops or branches, nor how a value
gets another structure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernbench.commands import Affine, AxisIndex, IndexExpr, IndexOp, Int, Operand, Reg
from kernbench.compiler.residual import BlockRef
from kernbench.compiler.values import (
    Block,
    Bounds,
    Form,
    IntBlock,
    MaskValue,
    Pointer,
    PtrBlock,
    Scalar,
    Shape,
    TileKind,
    TileValue,
    TupleValue,
    Value,
    int_of,
    operand_of,
)
from kernbench.dtypes import DType, i1, i64


@dataclass(frozen=True, slots=True)
class ScalarLeaf:
    """A number that a register of `dtype` can hold."""

    operand: Operand
    dtype: DType


Leaf = ScalarLeaf | BlockRef


@dataclass(frozen=True, slots=True)
class SameKey:
    """A value that no register holds: a constant, a type, a function, a reference. It cannot change."""

    value: Value


@dataclass(frozen=True, slots=True)
class ScalarKey:
    dtype: DType


@dataclass(frozen=True, slots=True)
class PointerKey:
    element: DType
    offset_bits: int


@dataclass(frozen=True, slots=True)
class BlockKey:
    dtype: DType
    shape: Shape


@dataclass(frozen=True, slots=True)
class FormKey:
    """The parts of a form that are no leaves: its shape, the skeleton of `rest`, the shape of its dense part."""

    shape: Shape
    rest: IndexExpr | None  # every number in it replaced by 0
    dense: tuple[DType, Shape] | None


@dataclass(frozen=True, slots=True)
class IntKey:
    dtype: DType
    form: FormKey


@dataclass(frozen=True, slots=True)
class PtrKey:
    element: DType
    offset_bits: int
    form: FormKey


@dataclass(frozen=True, slots=True)
class MaskKey:
    shape: Shape
    lo: tuple[int, ...]  # bounds an axis
    hi: tuple[int, ...]
    preds: int
    known: IndexExpr | None
    dense: Shape | None


@dataclass(frozen=True, slots=True)
class TupleKey:
    items: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class TileKey:
    """The parts of a block pointer or descriptor that are no leaves, and the structure of those that are."""

    kind: TileKind
    block_shape: Shape
    padding: str
    parts: TupleKey


Key = SameKey | ScalarKey | PointerKey | BlockKey | IntKey | PtrKey | MaskKey | TupleKey | TileKey

# --------------------------------------------------------------------------- flatten


def flatten(value: Value) -> tuple[Key, tuple[Leaf, ...]]:
    match value:
        case Scalar():
            return ScalarKey(value.dtype), (ScalarLeaf(value.operand, value.dtype),)
        case Pointer():
            return PointerKey(value.element, value.offset_bits), (_int_leaf(value.address),)
        case Block():
            return BlockKey(value.dtype, value.shape), (value.ref,)
        case IntBlock():
            form, leaves = _flatten_form(value.form)
            return IntKey(value.dtype, form), leaves
        case PtrBlock():
            form, leaves = _flatten_form(value.offsets)
            return PtrKey(value.element, value.offset_bits, form), (_int_leaf(value.base), *leaves)
        case MaskValue():
            return _flatten_mask(value)
        case TupleValue():
            parts = [flatten(item) for item in value.items]
            leaves = tuple(leaf for _, part in parts for leaf in part)
            return TupleKey(tuple(key for key, _ in parts)), leaves
        case TileValue():
            tile_key, leaves = flatten(tile_parts(value))
            assert isinstance(tile_key, TupleKey)
            return TileKey(value.kind, value.block_shape, value.padding, tile_key), leaves
        case _:
            return SameKey(value), ()


def tile_parts(value: TileValue) -> TupleValue:
    return TupleValue((value.base, value.extents, value.strides, value.offsets))


def tile_of(key: TileKey, parts: Value) -> TileValue:
    assert isinstance(parts, TupleValue)
    base, extents, strides, offsets = parts.items
    assert isinstance(base, Pointer)
    assert isinstance(extents, TupleValue) and isinstance(strides, TupleValue) and isinstance(offsets, TupleValue)
    return TileValue(key.kind, base, key.block_shape, extents, strides, offsets, key.padding)


def _int_leaf(value: Int) -> ScalarLeaf:
    return ScalarLeaf(operand_of(value), i64)


def _flatten_form(form: Form) -> tuple[FormKey, tuple[Leaf, ...]]:
    rest, numbers = _skeleton(form.rest)
    strides = [stride for stride, extent in zip(form.strides, form.shape, strict=True) if extent > 1]
    leaves: list[Leaf] = [_int_leaf(form.base), *(_int_leaf(stride) for stride in strides), *numbers]
    shape = None
    if form.dense is not None:
        leaves.append(form.dense)
        shape = (form.dense.dtype, form.dense.shape)
    return FormKey(form.shape, rest, shape), tuple(leaves)


def _flatten_mask(mask: MaskValue) -> tuple[Key, tuple[Leaf, ...]]:
    known, numbers = _skeleton(mask.known)
    leaves: list[Leaf] = [_int_leaf(bound) for side in (mask.lo, mask.hi) for bounds in side for bound in bounds]
    leaves += [ScalarLeaf(pred, i1) for pred in mask.preds]
    leaves += numbers
    if mask.dense is not None:
        leaves.append(mask.dense)
    lo, hi = (tuple(len(bounds) for bounds in side) for side in (mask.lo, mask.hi))
    shape = None if mask.dense is None else mask.dense.shape
    return MaskKey(mask.shape, lo, hi, len(mask.preds), known, shape), tuple(leaves)


def _skeleton(expr: IndexExpr | None) -> tuple[IndexExpr | None, list[Leaf]]:
    """The expression with 0 for every number, and the numbers from left to right."""
    if expr is None:
        return None, []
    numbers: list[Leaf] = []

    def strip(part: IndexExpr) -> IndexExpr:
        if isinstance(part, IndexOp):
            return replace(part, args=tuple(strip(arg) for arg in part.args))
        if isinstance(part, AxisIndex):
            return part
        numbers.append(ScalarLeaf(part, i64))
        return 0

    return strip(expr), numbers


# --------------------------------------------------------------------------- rebuild


def rebuild(key: Key, leaves: tuple[Leaf, ...]) -> Value:
    rest = iter(leaves)
    value = _rebuild(key, rest)
    assert next(rest, None) is None, "leaves are left over"
    return value


def _rebuild(key: Key, leaves: Iterator[Leaf]) -> Value:
    match key:
        case SameKey():
            return key.value
        case ScalarKey():
            return Scalar(_operand(leaves), key.dtype)
        case PointerKey():
            return Pointer(_int(leaves), key.element, key.offset_bits)
        case BlockKey():
            return Block(_block(leaves))
        case IntKey():
            return IntBlock(_rebuild_form(key.form, leaves), key.dtype)
        case PtrKey():
            base = _int(leaves)
            return PtrBlock(base, _rebuild_form(key.form, leaves), key.element, key.offset_bits)
        case MaskKey():
            return _rebuild_mask(key, leaves)
        case TupleKey():
            return TupleValue(tuple(_rebuild(item, leaves) for item in key.items))
        case TileKey():
            return tile_of(key, _rebuild(key.parts, leaves))


def _operand(leaves: Iterator[Leaf]) -> Operand:
    leaf = next(leaves)
    assert isinstance(leaf, ScalarLeaf)
    return leaf.operand


def _int(leaves: Iterator[Leaf]) -> Int:
    return int_of(_operand(leaves))


def _block(leaves: Iterator[Leaf]) -> BlockRef:
    leaf = next(leaves)
    assert isinstance(leaf, BlockRef)
    return leaf


def _rebuild_form(key: FormKey, leaves: Iterator[Leaf]) -> Form:
    base = _int(leaves)
    strides = tuple(_int(leaves) if extent > 1 else 0 for extent in key.shape)
    rest = _fill_skeleton(key.rest, leaves)
    return Form(key.shape, base, strides, rest, None if key.dense is None else _block(leaves))


def _rebuild_mask(key: MaskKey, leaves: Iterator[Leaf]) -> MaskValue:
    def side(counts: tuple[int, ...]) -> Bounds:
        return tuple(tuple(_int(leaves) for _ in range(count)) for count in counts)

    lo, hi = side(key.lo), side(key.hi)
    preds = tuple(_operand(leaves) for _ in range(key.preds))
    known = _fill_skeleton(key.known, leaves)
    return MaskValue(key.shape, lo, hi, preds, known, None if key.dense is None else _block(leaves))


def _fill_skeleton(expr: IndexExpr | None, leaves: Iterator[Leaf]) -> IndexExpr | None:
    if expr is None or isinstance(expr, AxisIndex):
        return expr
    if isinstance(expr, IndexOp):
        args = []
        for arg in expr.args:
            filled_arg = _fill_skeleton(arg, leaves)
            assert filled_arg is not None
            args.append(filled_arg)
        return replace(expr, args=tuple(args))
    operand = _operand(leaves)
    assert isinstance(operand, Reg | Affine | int)
    return operand
