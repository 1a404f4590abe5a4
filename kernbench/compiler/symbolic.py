"""Exact integer arrays: arithmetic on `Form`s and index expressions.

Pure but for products of two run-time integers and views of dense parts, which go to the emitter. Does not know
Triton's types: whoever reads a form as data wraps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kernbench.commands import Affine, AxisIndex, IndexExpr, IndexOp, Int, Reg, add, scale
from kernbench.compiler.emitter import Emitter, within_bits
from kernbench.compiler.residual import BlockRef, ViewOf
from kernbench.compiler.values import Form, Shape, operand_of
from kernbench.diagnostics import Span
from kernbench.dtypes import DType, i64

# An index expression is evaluated for every element when its command issues, so it must stay small; beyond this
# it is computed once, as a dense block.
MAX_EXPR_NODES = 64

# Beyond this a coefficient is no stride or block size but a hash's multiplier, whose products wrap.
_MAX_PLAIN_COEFFICIENT = 1 << 20


def splat(shape: Shape, base: Int) -> Form:
    return Form(shape, base, (0,) * len(shape))


def is_splat(form: Form) -> bool:
    return form.rest is None and form.dense is None and not any(form.strides)


# --------------------------------------------------------------------------- arithmetic


def add_forms(a: Form, b: Form) -> Form:
    """a + b of one shape; at most one of them may have a dense part."""
    assert a.shape == b.shape and (a.dense is None or b.dense is None)
    strides = tuple(within_bits(add(x, y)) for x, y in zip(a.strides, b.strides, strict=True))
    rest = a.rest if b.rest is None else b.rest if a.rest is None else IndexOp("add", (a.rest, b.rest), i64)
    return Form(a.shape, within_bits(add(a.base, b.base)), strides, rest, a.dense or b.dense)


def scale_form(emitter: Emitter, form: Form, factor: Int, at: Span) -> Form:
    """form × factor; its dense part must have been dealt with."""
    assert form.dense is None
    rest = form.rest
    if rest is not None and factor != 1:
        rest = IndexOp("mul", (rest, operand_of(factor)), i64)  # type: ignore[arg-type]
    strides = tuple(emitter.product(stride, factor, at) for stride in form.strides)
    return Form(form.shape, emitter.product(form.base, factor, at), strides, None if factor == 0 else rest)


def negate(form: Form) -> Form:
    """−form of a form without a dense part."""
    assert form.dense is None
    rest = None if form.rest is None else IndexOp("neg", (form.rest,), i64)
    return Form(form.shape, scale(form.base, -1), tuple(scale(s, -1) for s in form.strides), rest)


def expr_of(form: Form, dtype: DType) -> IndexExpr:
    """The form as one expression whose value is wrapped to `dtype`."""
    assert form.dense is None
    terms: list[IndexExpr] = [_term(axis, stride) for axis, stride in enumerate(form.strides) if stride]
    if form.rest is not None:
        terms.append(form.rest)
    if form.base or not terms:
        terms.append(_leaf(form.base))
    total = terms[0]
    for term in terms[1:]:
        total = IndexOp("add", (total, term), i64)
    return _wrapped_to(total, dtype)


def _term(axis: int, stride: Int) -> IndexExpr:
    return AxisIndex(axis) if stride == 1 else IndexOp("mul", (AxisIndex(axis), _leaf(stride)), i64)


def _wrapped_to(expr: IndexExpr, dtype: DType) -> IndexExpr:
    """Sums and products of exact numbers may wrap at the end instead; positions are small."""
    if isinstance(expr, AxisIndex) or (isinstance(expr, int) and dtype.min <= expr <= dtype.max):
        return expr
    if isinstance(expr, IndexOp) and expr.dtype is dtype:
        return expr
    if isinstance(expr, IndexOp) and expr.dtype is i64 and expr.kind in ("add", "mul"):
        return replace(expr, dtype=dtype)
    return IndexOp("copy", (expr,), dtype)


def _leaf(value: Int) -> IndexExpr:
    operand = operand_of(value)
    assert isinstance(operand, Reg | Affine | int)
    return operand


def expr_size(expr: IndexExpr) -> int:
    return 1 + sum(expr_size(arg) for arg in expr.args) if isinstance(expr, IndexOp) else 1


def is_plain(form: Form) -> bool:
    """Whether the form looks like an index, which stays in int32, rather than a hash, which wraps."""
    size = abs(form.base) if isinstance(form.base, int) else abs(form.base.const)
    for extent, stride in zip(form.shape, form.strides, strict=True):
        size += (extent - 1) * (abs(stride) if isinstance(stride, int) else abs(stride.const))
    terms = [c for value in (form.base, *form.strides) if isinstance(value, Affine) for _, c in value.terms]
    return size < 1 << 31 and all(abs(c) <= _MAX_PLAIN_COEFFICIENT for c in terms)


# --------------------------------------------------------------------------- axes

Axes = Sequence[int | None]  # for each result axis the source axis it runs along, or None


def view_ref(emitter: Emitter, ref: BlockRef, axes: Axes, shape: Shape, at: Span) -> BlockRef:
    """A view of a dense block; the block itself where nothing changes."""
    if shape == ref.shape and all(axis == k or (axis is None and shape[k] == 1) for k, axis in enumerate(axes)):
        return ref

    def make() -> BlockRef:
        result = emitter.new_block(ref.dtype, shape, ref.name)
        emitter.emit(ViewOf(result, ref, tuple(axes), at))
        return result

    return emitter.cached(("view", ref, tuple(axes), shape), make)


def map_axes(expr: IndexExpr, to: Callable[[int], IndexExpr]) -> IndexExpr:
    if isinstance(expr, AxisIndex):
        return to(expr.axis)
    if isinstance(expr, IndexOp):
        return replace(expr, args=tuple(map_axes(arg, to) for arg in expr.args))
    return expr


def move_axes(expr: IndexExpr, axes: Axes) -> IndexExpr:
    """Renumber positions; an axis that is gone had extent 1, so its position is 0."""
    where = {source: axis for axis, source in enumerate(axes) if source is not None}
    return map_axes(expr, lambda axis: AxisIndex(where[axis]) if axis in where else 0)


def dense_axes(ref: BlockRef, axes: Axes) -> tuple[tuple[int | None, ...], Shape]:
    """Axes and shape of the view of a dense part, which stays 1 wide where it is repeated."""
    shape = tuple(1 if source is None else ref.shape[source] for source in axes)
    return tuple(axes), shape


def view_form(emitter: Emitter, form: Form, axes: Axes, shape: Shape, at: Span) -> Form:
    """Axes renumbered, added, dropped (extent 1 only) or repeated (`None`)."""
    strides = tuple(0 if source is None or form.shape[source] == 1 else form.strides[source] for source in axes)
    rest = None if form.rest is None else move_axes(form.rest, axes)
    dense = form.dense
    if dense is not None:
        dense = view_ref(emitter, dense, *dense_axes(dense, axes), at)
    return Form(shape, form.base, strides, rest, dense)


def filled(emitter: Emitter, ref: BlockRef, shape: Shape, at: Span) -> BlockRef:
    """A dense part repeated to the full shape."""
    axes = [None if have != want else axis for axis, (have, want) in enumerate(zip(ref.shape, shape, strict=True))]
    return view_ref(emitter, ref, axes, shape, at)
