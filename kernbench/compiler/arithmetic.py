"""Evaluate operations whose type is known: integers and masks stay symbolic where that is exact, the rest is emitted.

Does not know operators' names, promotion or builtins.
"""

from __future__ import annotations

from kernbench.commands import IndexOp, Operand, add
from kernbench.compiler import masks
from kernbench.compiler.conversions import (
    SYMBOLIC,
    block_operand,
    cast,
    cast_ref,
    cast_scalar,
    dense,
    read_scalar,
    require_numbers,
    scalar_of,
)
from kernbench.compiler.emitter import Emitter, within_bits
from kernbench.compiler.residual import BlockOp, BlockRef
from kernbench.compiler.shapes import broadcast, broadcast_shapes
from kernbench.compiler.symbolic import (
    MAX_EXPR_NODES,
    add_forms,
    expr_of,
    expr_size,
    is_splat,
    negate,
    scale_form,
    splat,
)
from kernbench.compiler.values import (
    Block,
    Const,
    Form,
    IntBlock,
    MaskValue,
    Scalar,
    Value,
    int_of,
    is_block,
    operand_of,
    shape_of,
)
from kernbench.diagnostics import Span
from kernbench.dtypes import DType, i1

_ON_BITS = {"add": "xor", "sub": "xor", "mul": "and"}  # int1 arithmetic is modulo 2


def arithmetic(
    emitter: Emitter, kind: str, lhs: Value, rhs: Value, dtype: DType, at: Span, out: DType | None = None
) -> Value:
    """`lhs kind rhs`, both read in `dtype`, result in `out`; symbolic where that is exact."""
    if dtype is i1 and out is None:
        kind = _ON_BITS.get(kind, kind)
    shape = broadcast_shapes(at, lhs, rhs)
    if shape == ():
        return _scalar_arithmetic(emitter, kind, lhs, rhs, dtype, out or dtype, at)
    if dtype is i1 and (mask := _mask_algebra(emitter, kind, lhs, rhs, shape, at)) is not None:
        return mask
    if dtype in SYMBOLIC and not (isinstance(lhs, Block) and isinstance(rhs, Block)):
        symbolic = _symbolic(emitter, kind, lhs, rhs, dtype, out, shape, at)
        if symbolic is not None:
            return symbolic
    return elementwise(emitter, kind, (lhs, rhs), out or dtype, at, reads=dtype)


def _scalar_arithmetic(
    emitter: Emitter, kind: str, lhs: Value, rhs: Value, dtype: DType, out: DType, at: Span
) -> Value:
    if isinstance(lhs, Block) or isinstance(rhs, Block):
        return elementwise(emitter, kind, (lhs, rhs), out, at, reads=dtype)
    a, b = (cast_scalar(emitter, scalar_of(emitter, value, at), dtype, at) for value in (lhs, rhs))
    if dtype.is_int and dtype is not i1 and kind in ("add", "sub", "mul") and out is dtype:
        return _exact_scalar(emitter, kind, a, b, dtype, at)
    return Scalar(emitter.scalar_op(kind, (a.operand, b.operand), out, (dtype, dtype), at), out)


def _exact_scalar(emitter: Emitter, kind: str, a: Scalar, b: Scalar, dtype: DType, at: Span) -> Scalar:
    """Sums and products of integers stay exact: as an affine operand, or in a 64-bit register."""
    x, y = int_of(a.operand), int_of(b.operand)
    if kind == "mul":
        total = emitter.product(x, y, at)
    else:
        total = within_bits(add(x, y) if kind == "add" else add(x, emitter.product(y, -1, at)))
    operand = operand_of(total)
    return Scalar(emitter.wrapped(operand, dtype, at) if isinstance(operand, int) else operand, dtype)


def elementwise(
    emitter: Emitter, kind: str, args: tuple[Value, ...], out: DType, at: Span, reads: DType | None = None
) -> Value:
    """A micro-op on data. `reads` is the type it computes in; the condition of a select stays int1."""
    reads = reads or out
    types = tuple(i1 if kind == "select" and index == 0 else reads for index in range(len(args)))
    if not any(isinstance(arg, Block) or is_block(arg) for arg in args):
        scalars = [scalar_of(emitter, cast(emitter, a, t, at), at) for a, t in zip(args, types, strict=True)]
        return Scalar(emitter.scalar_op(kind, tuple(s.operand for s in scalars), out, types, at), out)
    shape = broadcast_shapes(at, *args)
    operands = tuple(
        block_operand(emitter, _of_rank(emitter, arg, len(shape), at), dtype, at)
        for arg, dtype in zip(args, types, strict=True)
    )
    result = emitter.new_block(out, shape)
    emitter.emit(BlockOp(result, kind, operands, {}, at))
    return Block(result)


def _of_rank(emitter: Emitter, value: Value, rank: int, at: Span) -> Value:
    """A block of lower rank gets axes of extent 1 in front; scalars need none."""
    shape = shape_of(value)
    if not shape or len(shape) == rank:
        return value
    return broadcast(emitter, value, (1,) * (rank - len(shape)) + shape, at)


# --------------------------------------------------------------------------- symbolic integers


def as_form(emitter: Emitter, value: Value, dtype: DType, shape: tuple[int, ...], at: Span) -> Form:
    """An integer value of type `dtype` as a form of `shape`; a dense block becomes its dense part."""
    value = _in_register(emitter, cast(emitter, value, dtype, at), at)
    if isinstance(value, Scalar):
        return splat(shape, int_of(value.operand))
    value = broadcast(emitter, value, shape, at, keep_dense=True)
    if isinstance(value, IntBlock):
        return value.form
    ref = dense(emitter, value, at)
    return Form(shape, 0, (0,) * len(shape), None, ref)


def _symbolic(
    emitter: Emitter,
    kind: str,
    lhs: Value,
    rhs: Value,
    dtype: DType,
    out: DType | None,
    shape: tuple[int, ...],
    at: Span,
) -> Value | None:
    if any(_split(value)[0] for value in (lhs, rhs)):
        lhs, rhs = (_in_register(emitter, value, at) for value in (lhs, rhs))
    if not _stays_symbolic(lhs) or not _stays_symbolic(rhs):
        return _with_dense(emitter, kind, lhs, rhs, dtype, shape, at) if out is None else None
    a, b = (as_form(emitter, value, dtype, shape, at) for value in (lhs, rhs))
    if out is i1:
        return masks.compare_forms(emitter, kind, a, b, dtype, at)
    if a.dense is not None or b.dense is not None:
        return _with_dense(emitter, kind, lhs, rhs, dtype, shape, at)
    form = _linear(emitter, kind, a, b, at)
    if form is None:
        known = IndexOp(kind, (expr_of(a, dtype), expr_of(b, dtype)), dtype)
        form = Form(shape, 0, (0,) * len(shape), known)
    if form.rest is not None and expr_size(form.rest) > MAX_EXPR_NODES:
        return None
    return IntBlock(form, dtype)


def _in_register(emitter: Emitter, value: Value, at: Span) -> Value:
    """A scalar that was left in TCM, in a register: it meets an address."""
    return read_scalar(emitter, value, at) if isinstance(value, Block) and value.shape == () else value


def _stays_symbolic(value: Value) -> bool:
    """Known without reading data: constants, scalars, symbolic blocks, masks whose lanes are known."""
    if isinstance(value, MaskValue):
        return masks.known_expr(value) is not None
    return isinstance(value, Const | Scalar | IntBlock)


def _linear(emitter: Emitter, kind: str, a: Form, b: Form, at: Span) -> Form | None:
    if kind == "add":
        return add_forms(a, b)
    if kind == "sub":
        return add_forms(a, negate(b))
    if kind == "mul" and is_splat(b):
        return scale_form(emitter, a, b.base, at)
    if kind == "mul" and is_splat(a):
        return scale_form(emitter, b, a.base, at)
    return None


def _with_dense(
    emitter: Emitter, kind: str, lhs: Value, rhs: Value, dtype: DType, shape: tuple[int, ...], at: Span
) -> Value | None:
    """Index arithmetic with a dense part, which stays apart from the symbolic one: `rows[:, None] * n + cols`.

    Plain data (no symbolic part but a scalar) stays a block of its own.
    """
    parts = [_split(value) for value in (lhs, rhs)]
    if not any(symbolic for symbolic, _ in parts) or kind not in ("add", "sub", "mul"):
        return None
    a, b = (as_form(emitter, value, dtype, shape, at) for value in (lhs, rhs))
    if kind == "mul":
        if not (is_splat(a) or is_splat(b)):
            return None
        form, factor = (a, b.base) if is_splat(b) else (b, a.base)
        assert form.dense is not None
        scaled = _dense_op(emitter, "mul", form.dense, emitter.wrapped(operand_of(factor), dtype, at), dtype, at)
        rest = scale_form(emitter, Form(form.shape, form.base, form.strides, form.rest), factor, at)
        return IntBlock(Form(shape, rest.base, rest.strides, rest.rest, scaled), dtype)
    x, y = (Form(form.shape, form.base, form.strides, form.rest) for form in (a, b))
    linear = add_forms(x, negate(y) if kind == "sub" else y)
    merged = _merge_dense(emitter, kind, a.dense, b.dense, dtype, at)
    if linear.rest is not None and expr_size(linear.rest) > MAX_EXPR_NODES:
        return None
    return IntBlock(Form(shape, linear.base, linear.strides, linear.rest, merged), dtype)


def _split(value: Value) -> tuple[bool, bool]:
    """(has a symbolic part that varies over lanes, has a dense part)"""
    if isinstance(value, IntBlock):
        return not is_splat(value.form), value.form.dense is not None
    return False, isinstance(value, Block)


def _merge_dense(
    emitter: Emitter, kind: str, a: BlockRef | None, b: BlockRef | None, dtype: DType, at: Span
) -> BlockRef | None:
    if b is None:
        return a
    if a is None:
        return _dense_op(emitter, "neg", b, None, dtype, at) if kind == "sub" else b
    return _dense_op(emitter, kind, a, b, dtype, at)


def _dense_op(
    emitter: Emitter, kind: str, a: BlockRef, b: BlockRef | Operand | None, dtype: DType, at: Span
) -> BlockRef:
    a = cast_ref(emitter, a, dtype, at)
    shape = a.shape
    if isinstance(b, BlockRef):
        b = cast_ref(emitter, b, dtype, at)
        shape = tuple(max(x, y) for x, y in zip(a.shape, b.shape, strict=True))
    result = emitter.new_block(dtype, shape)
    emitter.emit(BlockOp(result, kind, (a,) if b is None else (a, b), {}, at))
    return result


# --------------------------------------------------------------------------- masks


def as_mask(emitter: Emitter, value: Value, shape: tuple[int, ...], at: Span) -> MaskValue:
    """A condition of any kind as a mask of `shape`."""
    value = as_condition(emitter, value, at)
    if isinstance(value, Const):
        return masks.everything(shape, (bool(value.value),))
    value = _in_register(emitter, value, at)
    if isinstance(value, Scalar):
        return masks.everything(shape, (value.operand,))
    value = broadcast(emitter, value, shape, at, keep_dense=True)
    if isinstance(value, MaskValue):
        return value
    return masks.make_mask(shape, dense=dense(emitter, value, at))


def _mask_algebra(
    emitter: Emitter, kind: str, lhs: Value, rhs: Value, shape: tuple[int, ...], at: Span
) -> Value | None:
    if not (isinstance(lhs, MaskValue) or isinstance(rhs, MaskValue)):
        return None
    a, b = (as_mask(emitter, value, shape, at) for value in (lhs, rhs))
    if kind == "and":
        return masks.both(emitter, a, b, at)
    return masks.combine_known(kind, a, b)


def invert_mask(emitter: Emitter, value: Value, at: Span) -> Value:
    if isinstance(value, MaskValue) and (known := masks.combine_known("not", value)) is not None:
        return known
    return elementwise(emitter, "not", (value,), i1, at)


def known_select(
    emitter: Emitter,
    condition: Value,
    then: Value,
    orelse: Value,
    dtype: DType,
    shape: tuple[int, ...],
    at: Span,
) -> Value | None:
    if not (_stays_symbolic(then) and _stays_symbolic(orelse)):
        return None
    known = masks.known_expr(as_mask(emitter, condition, shape, at))
    a, b = (as_form(emitter, value, dtype, shape, at) for value in (then, orelse))
    if known is None or a.dense is not None or b.dense is not None:
        return None
    expr = IndexOp("select", (known, expr_of(a, dtype), expr_of(b, dtype)), dtype)
    if expr_size(expr) > MAX_EXPR_NODES:
        return None
    return IntBlock(Form(shape, 0, (0,) * len(shape), expr), dtype)


def as_condition(emitter: Emitter, value: Value, at: Span) -> Value:
    """The value as int1: `!= 0`."""
    if isinstance(value, Const):
        return Const(bool(value.value))
    require_numbers(at, value)
    return cast(emitter, value, i1, at)
