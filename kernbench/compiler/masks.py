"""Masks: comparisons of symbolic integers as boxes of bounds, and the algebra of such boxes.

Bounds are integers over registers; where a coefficient's sign is known only at run time, scalar code finds the
bound. Does not know loads or stores.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from kernbench.commands import Affine, AxisIndex, IndexExpr, IndexOp, Int, Operand, Reg, add, scale
from kernbench.compiler.emitter import Emitter
from kernbench.compiler.residual import BlockOp, BlockRef, MaskBlock
from kernbench.compiler.symbolic import (
    MAX_EXPR_NODES,
    Axes,
    dense_axes,
    expr_of,
    expr_size,
    filled,
    is_plain,
    move_axes,
    negate,
    view_ref,
)
from kernbench.compiler.values import Bounds, Form, MaskValue, Shape, int_of, operand_of
from kernbench.diagnostics import Span
from kernbench.dtypes import DType, i1, i64


def everything(shape: Shape, preds: tuple[Operand, ...] = ()) -> MaskValue:
    """The mask that lets all pass where `preds` hold."""
    return make_mask(shape, preds=preds)


def make_mask(
    shape: Shape,
    lo: Bounds | None = None,
    hi: Bounds | None = None,
    preds: tuple[Operand, ...] = (),
    known: IndexExpr | None = None,
    dense: BlockRef | None = None,
) -> MaskValue:
    """The normal form: bounds that always hold are gone, and of constant ones the tightest is left."""
    none: Bounds = ((),) * len(shape)
    lo, hi = lo or none, hi or none
    return MaskValue(
        shape,
        tuple(_tightest(bounds, max, lambda bound: bound <= 0) for bounds in lo),
        tuple(_tightest(bounds, min, partial(operator.le, extent)) for bounds, extent in zip(hi, shape, strict=True)),
        _conditions(preds),
        known,
        dense,
    )


def _tightest(
    bounds: tuple[Int, ...], pick: Callable[[list[int]], int], is_void: Callable[[int], bool]
) -> tuple[Int, ...]:
    constants = [bound for bound in bounds if isinstance(bound, int)]
    tight = [pick(constants)] if constants else []
    run_time = dict.fromkeys(bound for bound in bounds if isinstance(bound, Affine))
    return (*run_time, *(bound for bound in tight if not is_void(bound)))


def _conditions(preds: tuple[Operand, ...]) -> tuple[Operand, ...]:
    kept = dict.fromkeys(pred for pred in preds if isinstance(pred, Reg | Affine) or not pred)
    return (False,) if any(not isinstance(pred, Reg | Affine) for pred in kept) else tuple(kept)


def is_everything(mask: MaskValue) -> bool:
    return mask == everything(mask.shape)


def is_nothing(mask: MaskValue) -> bool:
    """Whether the mask surely lets no lane pass."""
    return mask.preds == (False,) or any(bound <= 0 for bounds in mask.hi for bound in bounds if isinstance(bound, int))


# --------------------------------------------------------------------------- comparisons


def compare_forms(emitter: Emitter, kind: str, a: Form, b: Form, dtype: DType, at: Span) -> MaskValue | None:
    """`a kind b` of one shape and type as a mask, or None where it must be computed densely."""
    if a.dense is not None or b.dense is not None:
        return None
    axes = {axis for form in (a, b) for axis, stride in enumerate(form.strides) if stride}
    if a.rest is None and b.rest is None and is_plain(a) and is_plain(b):
        difference = _difference(a, b)
        axes = {axis for axis, stride in enumerate(difference.strides) if stride}
        if not axes:
            reads = (dtype, dtype)
            pred = emitter.helper_op(kind, (operand_of(a.base), operand_of(b.base)), i1, reads, at)
            return everything(a.shape, (pred,))
        if len(axes) == 1 and kind != "ne":
            return _box(emitter, kind, difference, axes.pop(), at)
    known = IndexOp(kind, (expr_of(a, dtype), expr_of(b, dtype)), i1)
    return make_mask(a.shape, known=known) if expr_size(known) <= MAX_EXPR_NODES else None


def _difference(a: Form, b: Form) -> Form:
    minus = negate(b)
    strides = tuple(add(x, y) for x, y in zip(a.strides, minus.strides, strict=True))
    return Form(a.shape, add(a.base, minus.base), strides)


def _box(emitter: Emitter, kind: str, form: Form, axis: int, at: Span) -> MaskValue:
    """The positions along `axis` where `base + stride × i kind 0`: each comparison is one or two of `s × i < y`."""
    stride, base = form.strides[axis], form.base
    minus_stride, minus_base = scale(stride, -1), scale(base, -1)
    below = {
        "lt": [(stride, minus_base)],
        "le": [(stride, add(minus_base, 1))],
        "gt": [(minus_stride, base)],
        "ge": [(minus_stride, add(base, 1))],
        "eq": [(stride, add(minus_base, 1)), (minus_stride, add(base, 1))],
    }[kind]
    lows: list[Int] = []
    highs: list[Int] = []
    for factor, limit in below:
        low, high = _bounds(emitter, factor, limit, form.shape[axis], at)
        lows += [] if low is None else [low]
        highs += [] if high is None else [high]
    rank = range(len(form.shape))
    lo = tuple(tuple(lows) if k == axis else () for k in rank)
    hi = tuple(tuple(highs) if k == axis else () for k in rank)
    return make_mask(form.shape, lo, hi)


def _bounds(emitter: Emitter, factor: Int, limit: Int, extent: int, at: Span) -> tuple[Int | None, Int | None]:
    """(lo, hi) so that `factor × i < limit` where `lo ≤ i < hi`, for positions from 0."""
    if isinstance(factor, int):
        if factor > 0:
            return None, _ceil_div(emitter, limit, factor, at)
        return _ceil_div(emitter, add(scale(limit, -1), 1), -factor, at), None
    return _run_time_bounds(emitter, factor, limit, extent, at)


def _ceil_div(emitter: Emitter, value: Int, divisor: int, at: Span) -> Int:
    """⌈value / divisor⌉ where it is positive; else some number that is not: no position is below 0."""
    if divisor == 1:
        return value
    if isinstance(value, int):
        return -(-value // divisor)
    rounded = operand_of(add(value, divisor - 1))
    return int_of(emitter.helper_op("idiv", (rounded, divisor), i64, (i64, i64), at))


def _run_time_bounds(emitter: Emitter, factor: Int, limit: Int, extent: int, at: Span) -> tuple[Int, Int]:
    """The same where the factor's sign is known at run time only; both bounds are there, one of them void."""

    def op(kind: str, *args: Operand) -> Operand:
        out = i1 if kind in ("gt", "lt") else i64
        reads = (i1, i64, i64) if kind == "select" else (i64,) * len(args)
        return emitter.helper_op(kind, args, out, reads, at)

    step = operand_of(factor)
    above = op("idiv", operand_of(add(add(limit, factor), -1)), step)  # ⌈limit / factor⌉
    below = op("idiv", operand_of(scale(add(limit, factor), -1)), operand_of(scale(factor, -1)))  # ⌈(1−limit)/−factor⌉
    all_or_none = op("select", op("gt", operand_of(limit), 0), extent, 0)
    high = op("select", op("gt", step, 0), above, op("select", op("lt", step, 0), extent, all_or_none))
    low = op("select", op("lt", step, 0), below, 0)
    return int_of(low), int_of(high)


# --------------------------------------------------------------------------- algebra


def both(emitter: Emitter, a: MaskValue, b: MaskValue, at: Span) -> MaskValue:
    """a & b of one shape."""
    if a.known is not None and b.known is not None and expr_size(a.known) + expr_size(b.known) >= MAX_EXPR_NODES:
        a = _known_as_data(emitter, a, at)
    known = a.known if b.known is None else b.known if a.known is None else IndexOp("and", (a.known, b.known), i1)
    dense = a.dense or b.dense
    if a.dense is not None and b.dense is not None and a.dense != b.dense:
        shape = tuple(max(x, y) for x, y in zip(a.dense.shape, b.dense.shape, strict=True))
        dense = emitter.new_block(i1, shape)
        emitter.emit(BlockOp(dense, "and", (a.dense, b.dense), {}, at))
    lo = tuple(x + y for x, y in zip(a.lo, b.lo, strict=True))
    hi = tuple(x + y for x, y in zip(a.hi, b.hi, strict=True))
    return make_mask(a.shape, lo, hi, a.preds + b.preds, known, dense)


def _known_as_data(emitter: Emitter, mask: MaskValue, at: Span) -> MaskValue:
    """The mask with its expression computed once, as a block."""
    assert mask.known is not None
    block = dense_mask(emitter, make_mask(mask.shape, known=mask.known), at)
    return both(emitter, replace(mask, known=None), make_mask(mask.shape, dense=block), at)


def known_expr(mask: MaskValue) -> IndexExpr | None:
    """The mask as one expression, or None where a part of it is dense or it is too large."""
    if mask.dense is not None:
        return None
    parts: list[IndexExpr] = [] if mask.known is None else [mask.known]
    for kind, sides in (("ge", mask.lo), ("lt", mask.hi)):
        for axis, bounds in enumerate(sides):
            parts += [IndexOp(kind, (AxisIndex(axis), _expr(bound)), i1) for bound in bounds]
    parts += [_expr(int_of(pred) if isinstance(pred, Reg | Affine) else int(pred)) for pred in mask.preds]
    total: IndexExpr = parts[0] if parts else 1
    for part in parts[1:]:
        total = IndexOp("and", (total, part), i1)
    return total if expr_size(total) <= MAX_EXPR_NODES else None


def _expr(value: Int) -> IndexExpr:
    operand = operand_of(value)
    assert isinstance(operand, Reg | Affine | int)
    return operand


def combine_known(kind: str, *masks: MaskValue) -> MaskValue | None:
    """`or`, `xor`, `not`, `eq`, `ne` … of masks whose lanes are known, else None."""
    exprs = [known_expr(mask) for mask in masks]
    args = tuple(expr for expr in exprs if expr is not None)
    if len(args) < len(masks):
        return None
    known = IndexOp(kind, args, i1)
    return make_mask(masks[0].shape, known=known) if expr_size(known) <= MAX_EXPR_NODES else None


# --------------------------------------------------------------------------- shape and data


def view_mask(emitter: Emitter, mask: MaskValue, axes: Axes, shape: Shape, at: Span) -> MaskValue:
    def side(bounds: Bounds) -> Bounds:
        return tuple(() if source is None else bounds[source] for source in axes)

    dense = mask.dense
    if dense is not None:
        dense = view_ref(emitter, dense, *dense_axes(dense, axes), at)
    known = None if mask.known is None else move_axes(mask.known, axes)
    return make_mask(shape, side(mask.lo), side(mask.hi), mask.preds, known, dense)


def dense_mask(emitter: Emitter, mask: MaskValue, at: Span) -> BlockRef:
    """The mask as an int1 block."""
    symbolic = replace(mask, dense=None)
    if mask.dense is not None and is_everything(symbolic):
        return filled(emitter, mask.dense, mask.shape, at)
    return emitter.cached(("mask", mask), lambda: _materialise(emitter, symbolic, mask.dense, at))


def _materialise(emitter: Emitter, mask: MaskValue, dense: BlockRef | None, at: Span) -> BlockRef:
    result = emitter.new_block(i1, mask.shape)
    emitter.emit(MaskBlock(result, mask.lo, mask.hi, mask.preds, mask.known, at))
    if dense is None:
        return result
    total = emitter.new_block(i1, mask.shape)
    emitter.emit(BlockOp(total, "and", (result, dense), {}, at))
    return total
