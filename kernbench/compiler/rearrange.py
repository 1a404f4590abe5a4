"""Blocks whose elements are moved about: parts, joins, flips, scans. One instruction each, on dense blocks.

Does not know the language's functions.
"""

from __future__ import annotations

from typing import Any

from kernbench.compiler.conversions import dense
from kernbench.compiler.emitter import Emitter
from kernbench.compiler.residual import BlockOp, BlockOperand, BlockRef
from kernbench.compiler.symbolic import filled
from kernbench.compiler.values import Block, Shape, Value
from kernbench.diagnostics import Span
from kernbench.dtypes import DType


def whole(emitter: Emitter, value: Value, at: Span) -> BlockRef:
    """The value as a block of its own whole shape."""
    ref = dense(emitter, value, at)
    return filled(emitter, ref, ref.shape, at)


def emit(
    emitter: Emitter, kind: str, args: tuple[BlockOperand, ...], dtype: DType, shape: Shape, at: Span, **attrs: Any
) -> Block:
    result = emitter.new_block(dtype, shape)
    emitter.emit(BlockOp(result, kind, args, attrs, at))
    return Block(result)


def part(emitter: Emitter, value: Value, axis: int, start: int, step: int, count: int, at: Span) -> Value:
    """`count` positions along an axis; the value itself where that is all of them."""
    ref = whole(emitter, value, at)
    if (start, step, count) == (0, 1, ref.shape[axis]):
        return Block(ref)
    shape = (*ref.shape[:axis], count, *ref.shape[axis + 1 :])
    return emit(emitter, "part", (ref,), ref.dtype, shape, at, axis=axis, start=start, step=step, count=count)


def cat(emitter: Emitter, a: Value, b: Value, axis: int, at: Span) -> Value:
    x, y = whole(emitter, a, at), whole(emitter, b, at)
    shape = (*x.shape[:axis], x.shape[axis] + y.shape[axis], *x.shape[axis + 1 :])
    return emit(emitter, "cat", (x, y), x.dtype, shape, at, axis=axis)


def flip(emitter: Emitter, value: Value, axis: int, at: Span) -> Value:
    ref = whole(emitter, value, at)
    return emit(emitter, "flip", (ref,), ref.dtype, ref.shape, at, axis=axis)


def scan(emitter: Emitter, kind: str, value: Value, axis: int, reverse: bool, at: Span) -> Value:
    ref = whole(emitter, value, at)
    return emit(emitter, kind, (ref,), ref.dtype, ref.shape, at, axis=axis, reverse=reverse)


def sort(emitter: Emitter, value: Value, axis: int, descending: bool, at: Span) -> Value:
    ref = whole(emitter, value, at)
    return emit(emitter, "sort", (ref,), ref.dtype, ref.shape, at, axis=axis, descending=descending)
