"""Loads and stores: pointers and masks become accesses, scalars scalar transfers.

Knows Triton's rules for masks, `other` and casts to the pointee. Does not know how an access is carried out.
"""

from __future__ import annotations

from kernbench.commands import Access, Operand, Reg
from kernbench.compiler import masks
from kernbench.compiler.arithmetic import as_mask
from kernbench.compiler.conversions import cast, dense, fill, full, read_scalar, scalar_of
from kernbench.compiler.emitter import Emitter
from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.pointers import as_pointers
from kernbench.compiler.residual import (
    AtomicBlock,
    BlockOperand,
    BlockRef,
    LoadBlock,
    LoadScalar,
    StoreBlock,
    StoreScalar,
)
from kernbench.compiler.shapes import broadcast, broadcast_shapes, reshape
from kernbench.compiler.symbolic import filled
from kernbench.compiler.values import (
    NONE,
    Block,
    Const,
    HbmRefValue,
    MaskValue,
    Pointer,
    PtrBlock,
    Scalar,
    Shape,
    Value,
    is_block,
    shape_of,
    shape_text,
    type_text,
)
from kernbench.diagnostics import Span
from kernbench.dtypes import DType


def load(emitter: Emitter, pointer: Value, mask: Value, other: Value, at: Span) -> Value:
    if mask == NONE and other != NONE:
        raise fault("E_CALL_ARGUMENTS", "`other` of tl.load without a `mask` is never used", at, help="give a mask")
    match pointer:
        case HbmRefValue():
            return _load_ref(emitter, pointer, mask, at)
        case Pointer():
            return _load_scalar(emitter, pointer, mask, other, at)
        case PtrBlock():
            return _load_block(emitter, pointer, mask, other, at)
        case _:
            raise pointer_expected("tl.load", pointer, at)


def store(emitter: Emitter, pointer: Value, value: Value, mask: Value, at: Span) -> None:
    match pointer:
        case Pointer():
            _store_scalar(emitter, pointer, value, mask, at)
        case PtrBlock():
            _store_block(emitter, pointer, value, mask, at)
        case _:
            raise pointer_expected("tl.store", pointer, at)


def pointer_expected(function: str, value: Value, at: Span) -> Fault:
    return fault(
        "E_POINTER_EXPECTED",
        f"{function} needs a pointer, {type_text(value)} is given",
        at,
        help="add the offset to a pointer parameter of the kernel, for example x_ptr + offsets",
        about=value,
    )


# --------------------------------------------------------------------------- blocks


def _load_ref(emitter: Emitter, pointer: HbmRefValue, mask: Value, at: Span) -> Value:
    if mask != NONE:
        raise fault("E_CALL_ARGUMENTS", "tl.load of a tl.ref takes no mask", at, help="load through pointers")
    ref = pointer.ref
    result = emitter.new_block(ref.dtype, ref.shape, ref.name)
    emitter.emit(LoadBlock(result, Access(ref.base, ref.dtype, ref.shape, ref.strides), None, None, None, at))
    return Block(result)


def _load_block(emitter: Emitter, pointer: PtrBlock, mask: Value, other: Value, at: Span) -> Value:
    shape = broadcast_shapes(at, pointer, mask, other)
    block = as_pointers(emitter, pointer, shape, at)
    lanes = _lanes(emitter, mask, shape, at)
    fallback = _other(emitter, other, block.element, shape, at)
    if masks.is_nothing(lanes):
        return Block(_all_other(emitter, fallback, block.element, shape, at))
    access, index, lane_block = _access(emitter, block, lanes, at)
    result = emitter.new_block(block.element, shape)
    emitter.emit(LoadBlock(result, access, fallback, index, lane_block, at))
    return Block(result)


def _other(emitter: Emitter, other: Value, element: DType, shape: Shape, at: Span) -> BlockOperand | None:
    """What masked lanes hold, cast to the pointee; None is 0."""
    if other == NONE:
        return None
    value = cast(emitter, other, element, at)
    if is_block(value):
        return dense(emitter, broadcast(emitter, value, shape, at), at)
    return emitter.data(scalar_of(emitter, value, at), at)


def _all_other(emitter: Emitter, fallback: BlockOperand | None, element: DType, shape: Shape, at: Span) -> BlockRef:
    if isinstance(fallback, BlockRef):
        return fallback
    zero: Operand = 0.0 if element.is_float else 0
    return fill(emitter, zero if fallback is None else fallback, element, shape, at)


def _lanes(emitter: Emitter, mask: Value, shape: Shape, at: Span) -> MaskValue:
    return masks.everything(shape) if mask == NONE else as_mask(emitter, mask, shape, at)


def _access(
    emitter: Emitter, block: PtrBlock, lanes: MaskValue, at: Span
) -> tuple[Access, BlockRef | None, BlockRef | None]:
    """The access, and the dense blocks of its index and mask, repeated to its shape."""
    shape, offsets = block.shape, block.offsets
    bounded = any(lanes.lo) or any(lanes.hi)
    access = Access(
        block.base,
        block.element,
        shape,
        offsets.strides,
        lanes.lo if bounded else (),
        lanes.hi if bounded else (),
        lanes.preds,
        offsets.rest,
        lanes.known,
        32 if block.offset_bits == 32 else 64,
    )
    index = None if offsets.dense is None else filled(emitter, offsets.dense, shape, at)
    dense_lanes = None if lanes.dense is None else filled(emitter, lanes.dense, shape, at)
    return access, index, dense_lanes


def _store_block(emitter: Emitter, pointer: PtrBlock, value: Value, mask: Value, at: Span) -> None:
    shape = broadcast_shapes(at, pointer, value, mask)
    if shape != pointer.shape:
        others = [shape_text(shape_of(v)) for v in (value, mask) if shape_of(v)]
        message = f"pointers of shape {shape_text(pointer.shape)} do not take {' and '.join(others)}"
        help = "a store needs one pointer a lane: broadcast the pointers"
        raise fault("E_SHAPE_MISMATCH", message, at, help=help)
    lanes = _lanes(emitter, mask, shape, at)
    source = _stored(emitter, value, pointer.element, shape, at)
    if masks.is_nothing(lanes):
        return
    access, index, lane_block = _access(emitter, pointer, lanes, at)
    emitter.emit(StoreBlock(access, source, index, lane_block, at))


def element_of(function: str, pointer: Value, at: Span) -> DType:
    """What a pointer or a block of them points to."""
    if isinstance(pointer, Pointer | PtrBlock):
        return pointer.element
    raise pointer_expected(function, pointer, at)


def atomic(emitter: Emitter, kind: str, pointer: Value, value: Value, compare: Value, mask: Value, at: Span) -> Value:
    """The elements before they were changed. A single pointer is a block of one lane whose result is a scalar."""
    assert isinstance(pointer, Pointer | PtrBlock)
    element = pointer.element
    shape = broadcast_shapes(at, pointer, value, compare, mask)
    if isinstance(pointer, PtrBlock) and shape != pointer.shape:
        message = f"pointers of shape {shape_text(pointer.shape)} do not take values or masks of {shape_text(shape)}"
        raise fault("E_SHAPE_MISMATCH", message, at, help="an atomic needs one pointer a lane: broadcast the pointers")
    lane_shape = shape if isinstance(pointer, PtrBlock) else (1,)
    block = as_pointers(emitter, pointer, lane_shape, at)
    if isinstance(mask, Block) and mask.shape == ():
        mask = read_scalar(emitter, mask, at)
    lanes = _lanes(emitter, mask, lane_shape, at)
    source = _stored(emitter, value, element, lane_shape, at)
    wanted = None if compare == NONE else _stored(emitter, compare, element, lane_shape, at)
    if masks.is_nothing(lanes):
        result = _all_other(emitter, None, element, lane_shape, at)
    else:
        access, index, lane_block = _access(emitter, block, lanes, at)
        result = emitter.new_block(element, lane_shape)
        emitter.emit(AtomicBlock(result, kind, access, source, wanted, index, lane_block, at))
    return Block(result) if isinstance(pointer, PtrBlock) else reshape(emitter, Block(result), (), at)


def _stored(emitter: Emitter, value: Value, element: DType, shape: Shape, at: Span) -> BlockRef:
    """The value as a block of the pointee's type."""
    converted = cast(emitter, value, element, at)
    if not is_block(converted):
        scalar = converted if isinstance(converted, Block) else scalar_of(emitter, converted, at)
        converted = full(emitter, scalar, shape, at)
    return dense(emitter, broadcast(emitter, converted, shape, at), at)


# --------------------------------------------------------------------------- scalars


def _load_scalar(emitter: Emitter, pointer: Pointer, mask: Value, other: Value, at: Span) -> Value:
    for what, value in (("mask", mask), ("other", other)):
        if is_block(value):
            raise block_with_scalar("tl.load", what, value, at)
    element = pointer.element
    fallback: Operand = 0.0 if element.is_float else 0
    if other != NONE:
        fallback = emitter.data(scalar_of(emitter, cast(emitter, other, element, at), at), at)
    preds = _preds(emitter, mask, at)
    if preds == (False,):
        return Scalar(fallback, element)
    result = emitter.new_register(element)
    emitter.emit(LoadScalar(result, pointer.address, element, preds, fallback, at))
    return Scalar(Reg(result), element)


def _preds(emitter: Emitter, mask: Value, at: Span) -> tuple[Operand, ...]:
    """A scalar mask as the conditions of a scalar transfer: () is always, (False,) never."""
    if mask == NONE:
        return ()
    if isinstance(mask, Block):
        mask = read_scalar(emitter, mask, at)
    return as_mask(emitter, mask, (), at).preds


def _store_scalar(emitter: Emitter, pointer: Pointer, value: Value, mask: Value, at: Span) -> None:
    for what, argument in (("value", value), ("mask", mask)):
        if is_block(argument):
            raise block_with_scalar("tl.store", what, argument, at)
    preds = _preds(emitter, mask, at)
    if isinstance(value, Const):
        value = cast(emitter, value, pointer.element, at)
    if isinstance(value, Pointer):
        value = cast(emitter, value, pointer.element, at)
    scalar = scalar_of(emitter, value, at)
    if preds == (False,):
        return
    operand = emitter.data(scalar, at)
    emitter.emit(StoreScalar(pointer.address, operand, pointer.element, scalar.dtype, preds, at))


def block_with_scalar(function: str, what: str, value: Value, at: Span) -> Fault:
    return fault(
        "E_SCALAR_EXPECTED",
        f"`{what}` of {function} is {type_text(value)}, but the pointer is a single one",
        at,
        help="add a block of offsets to the pointer, for example tl.arange(0, N)",
        about=value,
    )
