"""Turn values into others: constants into typed scalars, types into types, symbolic blocks into dense ones.

Knows Triton's types of literals and its casts. Does not know operators.
"""

from __future__ import annotations

import math

from kernbench.commands import Affine, IndexOp, Int, Operand, Reg, add, scale
from kernbench.compiler.emitter import Emitter
from kernbench.compiler.faults import fault
from kernbench.compiler.masks import dense_mask, everything, known_expr
from kernbench.compiler.residual import (
    BlockOp,
    BlockOperand,
    BlockRef,
    BlockToScalar,
    CopyBlock,
    IndexBlock,
)
from kernbench.compiler.symbolic import expr_of, filled, is_splat, splat
from kernbench.compiler.values import (
    Block,
    Const,
    Form,
    IntBlock,
    MaskValue,
    Pointer,
    PointerType,
    PtrBlock,
    Scalar,
    Shape,
    TupleValue,
    Value,
    dtype_text,
    int_of,
    is_block,
    operand_of,
    type_text,
)
from kernbench.diagnostics import Span
from kernbench.dtypes import DType, fp32, fp64, i1, i32, i64, u32, u64, wrap
from kernbench.numerics import evaluate_scalar

READ_IT = "read what it points to with tl.load"  # where a pointer stands for the value that is meant

SYMBOLIC = (i32, i64)  # the types of integer blocks that stay symbolic; narrower and unsigned ones wrap too often

_SMALLEST_FP32, _LARGEST_FP32 = 2.0**-126, (2 - 2.0**-23) * 2.0**127


# --------------------------------------------------------------------------- constants


def literal_type(value: bool | int | float) -> DType | None:
    """Triton's type of a literal that becomes a run-time value; None where none is large enough."""
    if isinstance(value, bool):
        return i1
    if isinstance(value, float):
        plain = value == 0 or math.isinf(value) or math.isnan(value)
        return fp32 if plain or _SMALLEST_FP32 <= abs(value) <= _LARGEST_FP32 else fp64
    return next((dtype for dtype in (i32, u32, i64, u64) if dtype.min <= value <= dtype.max), None)


def literal_as(value: bool | int | float, dtype: DType) -> int | float:
    """A literal rounded or wrapped to `dtype`."""
    if dtype.is_int and not isinstance(value, float):
        return wrap(int(value), dtype)
    source = fp64 if isinstance(value, float) else i64
    return evaluate_scalar("copy", [value], [source if dtype.is_int or source is fp64 else fp64], dtype)


def to_runtime(emitter: Emitter, value: Value, at: Span, dtype: DType | None = None) -> Value:
    """A constant as a typed scalar; run-time values as they are."""
    if not isinstance(value, Const):
        return value
    if not isinstance(value.value, bool | int | float):
        raise fault("E_VALUE_EXPECTED", f"{type_text(value)} is no run-time value", at, "a number is needed here")
    found = dtype or literal_type(value.value)
    if found is None:
        raise fault("E_LITERAL_RANGE", f"{value.value} fits no integer type, the largest has 64 bits", at)
    return Scalar(literal_as(value.value, found), found)


# --------------------------------------------------------------------------- casts


def cast(emitter: Emitter, value: Value, dtype: DType | PointerType, at: Span, name: str = "") -> Value:
    """The value in another element type; symbolic integers stay symbolic where that is exact."""
    if isinstance(dtype, PointerType):
        return _to_pointer(emitter, value, dtype.element, at)
    match value:
        case Const():
            return to_runtime(emitter, value, at, dtype)
        case Scalar():
            return cast_scalar(emitter, value, dtype, at, name)
        case Block():
            return value if value.dtype is dtype else Block(cast_ref(emitter, value.ref, dtype, at, name))
        case IntBlock():
            return _cast_symbolic(emitter, value, dtype, at)
        case MaskValue():
            return value if dtype is i1 else _cast_mask(emitter, value, dtype, at)
        case Pointer() | PtrBlock():
            return _address(emitter, value, dtype, at)
        case _:
            message = f"{type_text(value)} cannot become {dtype.triton}"
            raise fault("E_VALUE_EXPECTED", message, at, help=_value_help(value), about=value)


def cast_scalar(emitter: Emitter, value: Scalar, dtype: DType, at: Span, name: str = "") -> Scalar:
    if value.dtype is dtype:
        return value
    if value.dtype.is_int and dtype.is_int and dtype is not i1:
        # Fewer bits: the wrapping that is still to come covers it. More bits: what is there must be wrapped first.
        if dtype.bits <= value.dtype.bits or value.dtype is i1 or emitter.fits(value.operand, value.dtype):
            return Scalar(_folded(value.operand, dtype), dtype)
        return Scalar(emitter.wrapped(value.operand, value.dtype, at), dtype)
    if dtype is i1:
        zero: Operand = 0 if value.dtype.is_int else 0.0
        return Scalar(emitter.scalar_op("ne", (value.operand, zero), i1, (value.dtype,) * 2, at, name), i1)
    return Scalar(emitter.scalar_op("copy", (value.operand,), dtype, (value.dtype,), at, name), dtype)


def _folded(operand: Operand, dtype: DType) -> Operand:
    return operand if isinstance(operand, Reg | Affine) else wrap(int(operand), dtype)


def cast_ref(emitter: Emitter, ref: BlockRef, dtype: DType, at: Span, name: str = "") -> BlockRef:
    if ref.dtype is dtype:
        return ref
    result = emitter.new_block(dtype, ref.shape, name or ref.name)
    if dtype is i1:
        emitter.emit(BlockOp(result, "ne", (ref, 0 if ref.dtype.is_int else 0.0), {}, at))
    else:
        emitter.emit(BlockOp(result, "copy", (ref,), {}, at))
    return result


def bitcast(emitter: Emitter, value: Value, dtype: DType, at: Span) -> Value:
    """The same bits in another type; a pointer's are those of an int64."""
    if isinstance(value, Pointer | PtrBlock):
        value = cast(emitter, value, i64, at)
    if isinstance(value, Const):
        value = to_runtime(emitter, value, at)
    have = value.dtype if isinstance(value, Scalar | Block | IntBlock | MaskValue) else None
    if have is None or (have.nbytes != dtype.nbytes and i1 not in (have, dtype)):
        message = f"{type_text(value)} does not have the bits of {dtype.triton}"
        raise fault("E_VALUE_EXPECTED", message, at, help="a bitcast needs types of one size")
    if have is dtype or (have.is_int and dtype.is_int) or i1 in (have, dtype):
        return cast(emitter, value, dtype, at)  # two's complement: the wrapped value has the same bits
    if isinstance(value, Scalar):
        return Scalar(emitter.scalar_op("bitcast", (emitter.data(value, at),), dtype, (have,), at), dtype)
    ref = dense(emitter, value, at)
    result = emitter.new_block(dtype, ref.shape, ref.name)
    emitter.emit(BlockOp(result, "bitcast", (ref,), {}, at))
    return Block(result)


def _cast_symbolic(emitter: Emitter, value: IntBlock, dtype: DType, at: Span) -> Value:
    if value.dtype is dtype:
        return value
    if dtype in SYMBOLIC and dtype.bits > value.dtype.bits:
        return IntBlock(value.form, dtype)
    if dtype in SYMBOLIC and value.form.dense is None:
        if is_splat(value.form):
            return IntBlock(value.form, dtype)
        narrowed = IndexOp("copy", (expr_of(value.form, dtype),), dtype)
        return IntBlock(Form(value.shape, 0, (0,) * len(value.shape), narrowed), dtype)
    return Block(cast_ref(emitter, dense(emitter, value, at), dtype, at))


def _cast_mask(emitter: Emitter, value: MaskValue, dtype: DType, at: Span) -> Value:
    if dtype in SYMBOLIC and (known := known_expr(value)) is not None:
        lanes = IndexOp("copy", (known,), dtype)
        return IntBlock(Form(value.shape, 0, (0,) * len(value.shape), lanes), dtype)
    return Block(cast_ref(emitter, dense_mask(emitter, value, at), dtype, at))


def _address(emitter: Emitter, value: Pointer | PtrBlock, dtype: DType, at: Span) -> Value:
    """A pointer as the integer that it is."""
    if dtype.bits != 64 or dtype.is_float:
        help = f"{READ_IT}; as a number, a pointer is a tl.int64"
        message = f"a pointer cannot become {dtype.triton}"
        raise fault("E_VALUE_EXPECTED", message, at, type_text(value), help=help, about=value)
    if isinstance(value, Pointer):
        return Scalar(operand_of(value.address), dtype)
    size, offsets = value.element.nbytes, value.offsets
    scaled: BlockRef | None = None
    if offsets.dense is not None:
        scaled = emitter.new_block(i64, offsets.dense.shape)
        emitter.emit(BlockOp(scaled, "mul", (cast_ref(emitter, offsets.dense, i64, at), size), {}, at))
    rest = None if offsets.rest is None else IndexOp("mul", (offsets.rest, size), i64)
    base = add(value.base, scale(offsets.base, size))
    form = Form(value.shape, base, tuple(scale(s, size) for s in offsets.strides), rest, scaled)
    symbolic = IntBlock(form, i64)
    return symbolic if dtype is i64 else Block(cast_ref(emitter, dense(emitter, symbolic, at), dtype, at))


def _to_pointer(emitter: Emitter, value: Value, element: DType, at: Span) -> Value:
    """An integer taken as an address, or a pointer to another element type."""
    if isinstance(value, Const):
        value = to_runtime(emitter, value, at, i64)
    if isinstance(value, Block) and value.shape == ():
        value = read_scalar(emitter, value, at)
    match value:
        case Pointer():
            return Pointer(value.address, element, value.offset_bits)
        case Scalar() if value.dtype.is_int:
            return Pointer(_exact(emitter, value, at), element, 64)
        case PtrBlock() if value.element.nbytes == element.nbytes:
            return PtrBlock(value.base, value.offsets, element, value.offset_bits)
        case _:
            target = dtype_text(PointerType(element))
            raise fault("E_VALUE_EXPECTED", f"{type_text(value)} cannot become {target}", at)


def _exact(emitter: Emitter, value: Scalar, at: Span) -> Int:
    return int_of(emitter.wrapped(value.operand, value.dtype, at))


# --------------------------------------------------------------------------- data


def dense(emitter: Emitter, value: Value, at: Span, name: str = "") -> BlockRef:
    """A block as data in TCM, of its own shape and type."""
    match value:
        case Block():
            return value.ref
        case IntBlock():
            return emitter.cached(("int", value), lambda: _dense_int(emitter, value, at, name))
        case MaskValue():
            return dense_mask(emitter, value, at)
        case PtrBlock():
            raise fault(
                "E_VALUE_EXPECTED",
                f"{type_text(value)} is used where values are needed",
                at,
                help=READ_IT,
                about=value,
            )
        case _:
            raise fault("E_BLOCK_EXPECTED", f"a block is needed, {type_text(value)} is given", at, about=value)


def _dense_int(emitter: Emitter, value: IntBlock, at: Span, name: str) -> BlockRef:
    form, dtype = value.form, value.dtype
    part = None if form.dense is None else cast_ref(emitter, form.dense, dtype, at)
    if part is not None and form.base == 0 and form.rest is None and not any(form.strides):
        return filled(emitter, part, form.shape, at)
    result = emitter.new_block(dtype, form.shape, name)
    if is_splat(form):
        emitter.emit(CopyBlock(result, emitter.wrapped(operand_of(form.base), dtype, at), at))
        return result
    emitter.emit(IndexBlock(result, form.base, form.strides, form.rest, at))
    if part is None:
        return result
    total = emitter.new_block(dtype, form.shape, name)
    emitter.emit(BlockOp(total, "add", (result, part), {}, at))
    return total


def fill(emitter: Emitter, value: Operand | BlockRef, dtype: DType, shape: Shape, at: Span, name: str = "") -> BlockRef:
    """A block of one scalar."""
    result = emitter.new_block(dtype, shape, name)
    emitter.emit(CopyBlock(result, value, at))
    return result


def full(emitter: Emitter, value: Scalar | Block, shape: Shape, at: Span) -> Value:
    """The value of `tl.full`: symbolic where integers or a mask allow it."""
    if shape == ():
        return value
    if isinstance(value, Scalar) and value.dtype in SYMBOLIC:
        return IntBlock(splat(shape, int_of(emitter.wrapped(value.operand, value.dtype, at))), value.dtype)
    if isinstance(value, Scalar) and value.dtype is i1:
        return everything(shape, (value.operand,))
    source = emitter.data(value, at) if isinstance(value, Scalar) else value.ref
    return Block(fill(emitter, source, value.dtype, shape, at))


def read_scalar(emitter: Emitter, value: Block, at: Span) -> Scalar:
    """The one element of a block, in a register; PE_CPU waits for it."""

    def make() -> int:
        register = emitter.new_register(value.dtype, value.ref.name)
        emitter.emit(BlockToScalar(register, value.ref, at))
        return register

    return Scalar(Reg(emitter.cached(("read", value.ref), make)), value.dtype)


def scalar_of(emitter: Emitter, value: Value, at: Span, what: str = "a scalar") -> Scalar:
    """A number in a register or literal; an error for blocks, pointers and anything else."""
    if isinstance(value, Const):
        value = to_runtime(emitter, value, at)
    if isinstance(value, Block) and value.ref.shape == ():
        return read_scalar(emitter, value, at)
    if isinstance(value, Scalar):
        return value
    code = "E_SCALAR_EXPECTED" if is_block(value) else "E_VALUE_EXPECTED"
    raise fault(code, f"{what} is needed, {type_text(value)} is given", at, help=_value_help(value), about=value)


def scalar_operand(emitter: Emitter, value: Value, at: Span) -> tuple[Operand, DType]:
    scalar = scalar_of(emitter, value, at)
    return emitter.data(scalar, at), scalar.dtype


def loop_bound(emitter: Emitter, value: Value, at: Span, what: str) -> tuple[Operand, DType]:
    """An integer for a loop, exact."""
    scalar = scalar_of(emitter, value, at, what)
    if not scalar.dtype.is_int:
        raise fault("E_OPERAND_TYPE", f"{what} must be an integer, {type_text(value)} is given", at)
    return scalar.operand, scalar.dtype


def block_operand(emitter: Emitter, value: Value, dtype: DType, at: Span) -> BlockOperand:
    """An operand of a block operation that computes in `dtype`."""
    match value:
        case Const():
            assert isinstance(value.value, bool | int | float)
            return literal_as(value.value, dtype)
        case Scalar():
            return emitter.data(cast_scalar(emitter, value, dtype, at), at)
        case _:
            ref = dense(emitter, value, at)
            return ref if reads_as(ref.dtype, dtype) else cast_ref(emitter, ref, dtype, at)


def reads_as(source: DType, target: DType) -> bool:
    """Whether a block operation that computes in `target` reads `source` right without an instruction for it."""
    if source is target:
        return True
    if source is i1 or target is fp64:
        return False
    if target is fp32:
        return True
    if source.is_int and target.is_int:
        return target.min <= source.min and source.max <= target.max
    return False


def require_numbers(at: Span, *values: Value) -> None:
    """Refuse what no arithmetic takes: pointers, references, tuples, strings, None."""
    for value in values:
        if isinstance(value, Scalar | Block | IntBlock | MaskValue):
            continue
        if isinstance(value, Const) and isinstance(value.value, bool | int | float):
            continue
        message = f"a number is needed, {type_text(value)} is given"
        raise fault("E_VALUE_EXPECTED", message, at, help=_value_help(value), about=value)


def _value_help(value: Value) -> str | None:
    """How to come from what is no number to the numbers that were meant."""
    match value:
        case Pointer() | PtrBlock():
            return READ_IT
        case TupleValue():
            return "take one of its values, for example t[0], or unpack it: a, b = t"
        case _:
            return None
