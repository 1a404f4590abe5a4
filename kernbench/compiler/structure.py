"""Values as regions carry them: a structure that never changes, and leaves that registers and slots can hold.

`flatten` takes a value apart and `rebuild` puts one together again; `join` finds the structure that two paths
agree on, and `convert` brings a value into it. Does not know loops or branches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernbench.commands import Affine, AxisIndex, IndexExpr, IndexOp, Int, Operand, Reg
from kernbench.compiler.conversions import (
    cast,
    cast_ref,
    dense,
    fill,
    literal_type,
    scalar_of,
    to_runtime,
)
from kernbench.compiler.emitter import Emitter
from kernbench.compiler.faults import fault
from kernbench.compiler.residual import BlockRef
from kernbench.compiler.symbolic import filled
from kernbench.compiler.values import (
    Block,
    Bounds,
    Const,
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
    dtype_text,
    int_of,
    operand_of,
    shape_text,
    type_text,
)
from kernbench.diagnostics import Span
from kernbench.dtypes import DType, i1, i64, promote


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
            tile_key, leaves = flatten(_tile_parts(value))
            assert isinstance(tile_key, TupleKey)
            return TileKey(value.kind, value.block_shape, value.padding, tile_key), leaves
        case _:
            return SameKey(value), ()


def _tile_parts(value: TileValue) -> TupleValue:
    return TupleValue((value.base, value.extents, value.strides, value.offsets))


def _tile_of(key: TileKey, parts: Value) -> TileValue:
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
            return _tile_of(key, _rebuild(key.parts, leaves))


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


# --------------------------------------------------------------------------- join


def join(a: Key, b: Key) -> Key | str:
    """The structure that values of both have room in, or why there is none. `a` is the one that came first."""
    if a == b:
        return a
    if isinstance(a, TupleKey) and isinstance(b, TupleKey):
        return _join_tuples(a, b)
    if isinstance(a, TileKey) and isinstance(b, TileKey):
        return _join_tiles(a, b)
    if isinstance(a, PointerKey | PtrKey) or isinstance(b, PointerKey | PtrKey):
        return _join_pointers(a, b)
    dtype, shape = _join_types(a, b), _shape(a)
    if dtype is None or shape != _shape(b):
        return f"it is {key_text(a)} first and {key_text(b)} then"
    if isinstance(a, BlockKey) or isinstance(b, BlockKey) or shape:
        return BlockKey(dtype, shape)
    return ScalarKey(dtype)


def _join_types(a: Key, b: Key) -> DType | None:
    """Constants widen to what they meet; two run-time types must be one."""
    have, then = _data_type(a), _data_type(b)
    if have is None or then is None or have is then:
        return have if have is then else None
    return promote(have, then) if isinstance(a, SameKey) or isinstance(b, SameKey) else None


def _join_tuples(a: TupleKey, b: TupleKey) -> Key | str:
    if len(a.items) != len(b.items):
        return f"it has {len(a.items)} items first and {len(b.items)} then"
    items: list[Key] = []
    for x, y in zip(a.items, b.items, strict=True):
        joined = join(x, y)
        if isinstance(joined, str):
            return joined
        items.append(joined)
    return TupleKey(tuple(items))


def _join_tiles(a: TileKey, b: TileKey) -> Key | str:
    parts = _join_tuples(a.parts, b.parts)
    if isinstance(parts, str):
        return parts
    if replace(a, parts=b.parts) != b:
        return f"it is {key_text(a)} first and {key_text(b)} then"
    assert isinstance(parts, TupleKey)
    return replace(a, parts=parts)


def _join_pointers(a: Key, b: Key) -> Key | str:
    if not (isinstance(a, PointerKey | PtrKey) and isinstance(b, PointerKey | PtrKey)) or _shape(a) != _shape(b):
        return f"it is {key_text(a)} first and {key_text(b)} then"
    if a.element is not b.element:
        return f"it points to {a.element.triton} first and to {b.element.triton} then"
    bits = max(a.offset_bits, b.offset_bits)
    if isinstance(a, PtrKey) and isinstance(b, PtrKey):
        form = a.form if a.form == b.form else FormKey(a.form.shape, None, (i64, a.form.shape))
        return PtrKey(a.element, bits, form)
    return PointerKey(a.element, bits)


def _data_type(key: Key) -> DType | None:
    match key:
        case SameKey(value=Const(value=bool() | int() | float() as number)):
            return literal_type(number)
        case ScalarKey() | BlockKey() | IntKey():
            return key.dtype
        case MaskKey():
            return i1
        case _:
            return None


def _shape(key: Key) -> Shape:
    match key:
        case BlockKey() | MaskKey():
            return key.shape
        case IntKey() | PtrKey():
            return key.form.shape
        case _:
            return ()


def key_text(key: Key) -> str:
    """A structure in the words of the language."""
    match key:
        case SameKey():
            return type_text(key.value)
        case TupleKey():
            return f"tuple of {len(key.items)}"
        case TileKey():
            return f"{key.kind} of blocks {shape_text(key.block_shape)}"
        case PointerKey() | PtrKey():
            shape = _shape(key)
            return f"pointer<{key.element.triton}>{shape_text(shape) if shape else ''}"
        case _:
            dtype, shape = _data_type(key), _shape(key)
            assert dtype is not None
            return dtype_text(dtype) + (shape_text(shape) if shape else "")


# --------------------------------------------------------------------------- convert


def convert(emitter: Emitter, value: Value, key: Key, at: Span) -> Value:
    """The value in structure `key`, its scalars in registers or literals of exactly their types."""
    match key:
        case SameKey():
            return value
        case TupleKey():
            assert isinstance(value, TupleValue)
            items = zip(value.items, key.items, strict=True)
            return TupleValue(tuple(convert(emitter, item, part, at) for item, part in items))
        case TileKey():
            assert isinstance(value, TileValue)
            return _tile_of(key, convert(emitter, _tile_parts(value), key.parts, at))
        case ScalarKey():
            scalar = scalar_of(emitter, cast(emitter, to_runtime(emitter, value, at, None), key.dtype, at), at)
            return Scalar(emitter.data(scalar, at), key.dtype)
        case PointerKey():
            assert isinstance(value, Pointer)
            return Pointer(value.address, key.element, key.offset_bits)
        case PtrKey():
            assert isinstance(value, PtrBlock)
            return _convert_pointers(emitter, value, key, at)
        case BlockKey():
            return Block(_convert_block(emitter, value, key, at))
        case IntKey() | MaskKey():
            if flatten(value)[0] != key:
                raise fault("E_UNSUPPORTED_VALUE", f"{type_text(value)} cannot become {key_text(key)}", at)
            return value


def _convert_block(emitter: Emitter, value: Value, key: BlockKey, at: Span) -> BlockRef:
    if isinstance(value, Const | Scalar):
        scalar = scalar_of(emitter, cast(emitter, value, key.dtype, at), at)
        return fill(emitter, emitter.data(scalar, at), key.dtype, key.shape, at)
    return cast_ref(emitter, dense(emitter, value, at), key.dtype, at)


def _convert_pointers(emitter: Emitter, value: PtrBlock, key: PtrKey, at: Span) -> PtrBlock:
    found = flatten(value)[0]
    assert isinstance(found, PtrKey)
    if found.form == key.form:
        return PtrBlock(value.base, value.offsets, key.element, key.offset_bits)
    ref = filled(emitter, dense(emitter, IntBlock(value.offsets, i64), at), value.shape, at)
    form = Form(value.shape, 0, (0,) * len(value.shape), None, ref)
    return PtrBlock(value.base, form, key.element, key.offset_bits)


def phi(emitter: Emitter, leaf: Leaf, name: str) -> Leaf:
    """A fresh register or block that can stand for `leaf`."""
    if isinstance(leaf, BlockRef):
        return emitter.new_block(leaf.dtype, leaf.shape, name)
    return ScalarLeaf(Reg(emitter.new_register(leaf.dtype, name)), leaf.dtype)


def bind_tensor(emitter: Emitter, name: str, element: DType) -> tuple[Pointer, int]:
    register = emitter.new_register(i64, name)
    return Pointer(int_of(Reg(register)), element), register


def bind_scalar(emitter: Emitter, name: str, dtype: DType) -> tuple[Scalar, int]:
    register = emitter.new_register(dtype, name)
    return Scalar(Reg(register), dtype), register
