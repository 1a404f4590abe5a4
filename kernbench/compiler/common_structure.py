"""The structure that the values of two paths agree on, and how a value is brought into it.

`join` finds it, or says in the words of the language why there is none; `convert` emits what bringing a value into it
takes. Does not know which paths meet, or why.
"""

from __future__ import annotations

from dataclasses import replace

from kernbench.commands import Reg
from kernbench.compiler.conversions import cast, cast_ref, dense, fill, literal_type, scalar_of, to_runtime
from kernbench.compiler.emitter import Emitter
from kernbench.compiler.faults import fault
from kernbench.compiler.residual import BlockRef
from kernbench.compiler.structure import (
    BlockKey,
    FormKey,
    IntKey,
    Key,
    Leaf,
    MaskKey,
    PointerKey,
    PtrKey,
    SameKey,
    ScalarKey,
    ScalarLeaf,
    TileKey,
    TupleKey,
    flatten,
    tile_of,
    tile_parts,
)
from kernbench.compiler.symbolic import filled
from kernbench.compiler.values import (
    Block,
    Const,
    Form,
    IntBlock,
    Pointer,
    PtrBlock,
    Scalar,
    Shape,
    TileValue,
    TupleValue,
    Value,
    dtype_text,
    shape_text,
    type_text,
)
from kernbench.diagnostics import Span
from kernbench.dtypes import DType, i1, i64, promote


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
            return tile_of(key, convert(emitter, tile_parts(value), key.parts, at))
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
