"""Pointer arithmetic, kept symbolic: a byte address, and offsets in elements.

Does not know loads and stores.
"""

from __future__ import annotations

from kernbench.commands import Int, add, scale
from kernbench.compiler.conversions import READ_IT, cast, cast_ref, cast_scalar, dense, read_scalar, to_runtime
from kernbench.compiler.emitter import Emitter
from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.residual import BlockOp, BlockRef
from kernbench.compiler.shapes import broadcast, broadcast_shapes
from kernbench.compiler.symbolic import add_forms, negate, splat
from kernbench.compiler.values import (
    Block,
    Const,
    Form,
    IntBlock,
    MaskValue,
    Pointer,
    PtrBlock,
    Scalar,
    Shape,
    Value,
    int_of,
    is_block,
    operand_of,
    type_text,
)
from kernbench.diagnostics import Span
from kernbench.dtypes import i1, i32, i64


def is_pointer(value: Value) -> bool:
    return isinstance(value, Pointer | PtrBlock)


def offset_pointer(emitter: Emitter, op: str, lhs: Value, rhs: Value, at: Span) -> Value:
    """`pointer + integer`, `integer + pointer`, `pointer - integer`."""
    pointer, offset = (lhs, rhs) if is_pointer(lhs) else (rhs, lhs)
    if is_pointer(offset) or op not in ("+", "-") or (op == "-" and not is_pointer(lhs)):
        raise _refused(op, lhs, rhs, at)
    assert isinstance(pointer, Pointer | PtrBlock)
    offset = _integer(emitter, op, offset, pointer, at)
    shape = broadcast_shapes(at, pointer, offset)
    bits = _offset_bits(pointer, offset)
    if isinstance(offset, Scalar):
        step = scale(int_of(offset.operand), pointer.element.nbytes * (1 if op == "+" else -1))
        if isinstance(pointer, Pointer):
            return Pointer(add(pointer.address, step), pointer.element, bits)
        return PtrBlock(add(pointer.base, step), pointer.offsets, pointer.element, bits)
    block = as_pointers(emitter, pointer, shape, at)
    form = _offset_form(emitter, op, offset, shape, at)
    base, total = _add_offsets(emitter, block, form, at)
    return PtrBlock(base, total, pointer.element, bits)


def _integer(emitter: Emitter, op: str, offset: Value, pointer: Value, at: Span) -> Scalar | IntBlock | Block:
    """An offset as signed 32 or 64-bit integers; unsigned ones keep their value."""
    if isinstance(offset, Const) and isinstance(offset.value, bool | int):
        offset = to_runtime(emitter, offset, at, i64)
        assert isinstance(offset, Scalar)
        return offset
    if isinstance(offset, Block) and offset.shape == ():
        offset = read_scalar(emitter, offset, at)
    if isinstance(offset, MaskValue):
        offset = cast(emitter, offset, i32, at)
    if isinstance(offset, Scalar | Block | IntBlock) and offset.dtype.is_int:
        target = offset.dtype
        if target not in (i32, i64):
            target = i32 if target.bits < 32 else i64
        if isinstance(offset, Scalar):
            return cast_scalar(emitter, offset, target, at)
        converted = cast(emitter, offset, target, at)
        assert isinstance(converted, IntBlock | Block)
        return converted
    raise _refused(op, pointer, offset, at)


def _offset_bits(pointer: Pointer | PtrBlock, offset: Scalar | IntBlock | Block) -> int:
    """32 while the one int32 offset that was added is all there is, 64 where sums may leave int32 rightly."""
    if isinstance(offset, Scalar) and isinstance(offset.operand, int):
        return pointer.offset_bits
    untouched = isinstance(pointer, Pointer) and pointer.offset_bits == 0
    return 32 if untouched and offset.dtype is i32 else 64


def as_pointers(emitter: Emitter, pointer: Pointer | PtrBlock, shape: Shape, at: Span) -> PtrBlock:
    """A pointer as a block of pointers of `shape`."""
    if isinstance(pointer, Pointer):
        return PtrBlock(pointer.address, splat(shape, 0), pointer.element, pointer.offset_bits)
    block = broadcast(emitter, pointer, shape, at, keep_dense=True)
    assert isinstance(block, PtrBlock)
    return block


def _offset_form(emitter: Emitter, op: str, offset: IntBlock | Block, shape: Shape, at: Span) -> Form:
    value = broadcast(emitter, offset, shape, at, keep_dense=True)
    form = (
        value.form
        if isinstance(value, IntBlock)
        else Form(shape, 0, (0,) * len(shape), None, dense(emitter, value, at))
    )
    if op == "+":
        return form
    ref = form.dense
    if ref is not None:
        result = emitter.new_block(i64, ref.shape)
        emitter.emit(BlockOp(result, "neg", (cast_ref(emitter, ref, i64, at),), {}, at))
        ref = result
    minus = negate(Form(form.shape, form.base, form.strides, form.rest))
    return Form(shape, minus.base, minus.strides, minus.rest, ref)


def _add_offsets(emitter: Emitter, block: PtrBlock, form: Form, at: Span) -> tuple[Int, Form]:
    """(byte base, offsets): constant and register parts of the offset move to the base."""
    size = block.element.nbytes
    mine = block.offsets
    ref = _merge(emitter, mine.dense, form.dense, at)
    total = add_forms(_without_dense(mine), _without_dense(form))
    base = add(block.base, scale(total.base, size))
    return base, Form(total.shape, 0, total.strides, total.rest, ref)


def _without_dense(form: Form) -> Form:
    return Form(form.shape, form.base, form.strides, form.rest)


def _merge(emitter: Emitter, a: BlockRef | None, b: BlockRef | None, at: Span) -> BlockRef | None:
    if a is None or b is None:
        return a or b
    shape = tuple(max(x, y) for x, y in zip(a.shape, b.shape, strict=True))
    result = emitter.new_block(i64, shape)
    args = tuple(cast_ref(emitter, ref, i64, at) for ref in (a, b))
    emitter.emit(BlockOp(result, "add", args, {}, at))
    return result


def select_pointer(emitter: Emitter, condition: Value, then: Value, orelse: Value, at: Span) -> Value:
    """One of two pointers, or of two blocks that differ only in where they start, by a scalar condition."""
    if isinstance(condition, Block) and condition.shape == ():
        condition = read_scalar(emitter, condition, at)
    if isinstance(condition, Const):
        return then if condition.value else orelse
    if not (isinstance(then, Pointer | PtrBlock) and isinstance(orelse, Pointer | PtrBlock)):
        raise _refused("select", then, orelse, at)
    alike = then.element is orelse.element and type(then) is type(orelse)
    if isinstance(then, PtrBlock) and isinstance(orelse, PtrBlock):
        alike = alike and then.offsets == orelse.offsets
    if is_block(condition) or not alike:
        message = f"one of {type_text(then)} and {type_text(orelse)} cannot be picked here"
        raise fault("E_UNSUPPORTED_VALUE", message, at, help="pick between offsets, and add them to one pointer")
    assert isinstance(condition, Scalar)
    starts = [p.address if isinstance(p, Pointer) else p.base for p in (then, orelse)]
    args = (condition.operand, operand_of(starts[0]), operand_of(starts[1]))
    start = int_of(emitter.scalar_op("select", args, i64, (i1, i64, i64), at))
    bits = max(then.offset_bits, orelse.offset_bits)
    if isinstance(then, Pointer):
        return Pointer(start, then.element, bits)
    return PtrBlock(start, then.offsets, then.element, bits)


def _refused(op: str, lhs: Value, rhs: Value, at: Span) -> Fault:
    if op == "select":
        message = f"one of {type_text(lhs)} and {type_text(rhs)} cannot be picked"
        return fault("E_OPERAND_TYPE", message, at, "a pointer and a number do not mix", help=READ_IT)
    message = f"`{op}` of {type_text(lhs)} and {type_text(rhs)}"
    both = is_pointer(lhs) and is_pointer(rhs)
    is_offset = op in ("+", "-") and is_pointer(lhs) and not both
    help = "an offset is an integer: cast it, for example with .to(tl.int32)" if is_offset else READ_IT
    return fault("E_OPERAND_TYPE", message, at, "a pointer takes only the addition of integers", help=help)
