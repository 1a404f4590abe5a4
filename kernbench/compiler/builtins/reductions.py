"""Reductions along an axis, or of a whole block to one scalar."""

from __future__ import annotations

import math

from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.conversions import READ_IT, cast, dense, fill
from kernbench.compiler.faults import fault
from kernbench.compiler.residual import BlockOp
from kernbench.compiler.shapes import check_axis, expand_dims, reshape
from kernbench.compiler.values import (
    FALSE,
    NONE,
    TRUE,
    Block,
    Const,
    Pointer,
    PtrBlock,
    Scalar,
    TupleValue,
    Value,
    element_type,
    is_block,
    type_text,
)
from kernbench.dtypes import DType, bf16, fp32, i32, u32


@builtin("sum")
def sum_(call: Call, input: Value, axis: Value = NONE, keep_dims: Value = FALSE, dtype: Value = NONE) -> Value:
    """The sum along an axis, or of all; integers under 32 bits are summed in 32 bits, bf16 in fp32."""
    have = _element(call, input)
    target = call.element(dtype) if dtype != NONE else sum_type(have)
    return reduced(call, "rsum", cast(call.builder, input, target, call.at), axis, keep_dims)


def sum_type(dtype: DType) -> DType:
    if dtype.is_int and dtype.bits < 32:
        return i32 if dtype.kind == "int" else u32
    return fp32 if dtype is bf16 else dtype


@builtin("max")
def max_(
    call: Call,
    input: Value,
    axis: Value = NONE,
    return_indices: Value = FALSE,
    return_indices_tie_break_left: Value = TRUE,
    keep_dims: Value = FALSE,
) -> Value:
    """The largest along an axis, or of all; a NaN loses. With `return_indices` its place, too."""
    return _extreme(call, "rmax", input, axis, return_indices, keep_dims)


@builtin("min")
def min_(
    call: Call,
    input: Value,
    axis: Value = NONE,
    return_indices: Value = FALSE,
    return_indices_tie_break_left: Value = TRUE,
    keep_dims: Value = FALSE,
) -> Value:
    """The smallest along an axis, or of all; a NaN loses. With `return_indices` its place, too."""
    return _extreme(call, "rmin", input, axis, return_indices, keep_dims)


def _extreme(call: Call, kind: str, input: Value, axis: Value, return_indices: Value, keep_dims: Value) -> Value:
    """Types under 32 bits are compared, and come out, in fp32 or int32; with indices only bf16 does."""
    have = _element(call, input)
    if call.flag(return_indices, "return_indices"):
        if have is bf16:
            input = cast(call.builder, input, fp32, call.at)
        places = reduced(call, {"rmax": "argmax", "rmin": "argmin"}[kind], input, axis, keep_dims, i32)
        return TupleValue((reduced(call, kind, input, axis, keep_dims), places))
    if have.bits < 32:
        input = cast(call.builder, input, fp32 if have.is_float else i32, call.at)
    return reduced(call, kind, input, axis, keep_dims)


def _element(call: Call, input: Value) -> DType:
    dtype = element_type(input)
    if not is_block(input) or not isinstance(dtype, DType):
        help = READ_IT if isinstance(input, Pointer | PtrBlock) else None
        if isinstance(input, Scalar | Const | Block):
            better = {"max": "tl.maximum", "min": "tl.minimum"}.get(call.name.removeprefix("tl."))
            help = f"{better} compares single values" if better else None
        raise fault(
            "E_BLOCK_EXPECTED",
            f"{call.name} takes a block, {type_text(input)} is given",
            call.at,
            help=help,
            about=input,
        )
    return dtype


def reduced(call: Call, kind: str, input: Value, axis: Value, keep_dims: Value, dtype: DType | None = None) -> Value:
    """A reduction by a micro-op, of one axis or of all; the result in `dtype`, by default that of the input."""
    keep = call.flag(keep_dims, "keep_dims")
    if axis == NONE:
        return _reduce_all(call, kind, input, keep, dtype)
    return reduce_along(call, kind, input, call.integer(axis, "axis"), keep_dims=keep, dtype=dtype)


def _reduce_all(call: Call, kind: str, input: Value, keep: bool, dtype: DType | None) -> Value:
    ref = dense(call.builder, input, call.at)
    flat = reshape(call.builder, Block(ref), (math.prod(ref.shape),), call.at)
    result = reduce_along(call, kind, flat, 0, keep_dims=False, dtype=dtype)
    if not keep:
        return result
    assert isinstance(result, Block)
    return Block(fill(call.builder, result.ref, result.dtype, (1,) * len(ref.shape), call.at))


def reduce_along(
    call: Call, kind: str, input: Value, axis: int, *, keep_dims: bool, dtype: DType | None = None
) -> Value:
    """The reduction along one axis. A vector's becomes a scalar that stays in TCM until PE_CPU needs it."""
    builder, at = call.builder, call.at
    ref = dense(builder, input, at)
    place = check_axis(axis, len(ref.shape), at)
    result = builder.new_block(dtype or ref.dtype, (*ref.shape[:place], *ref.shape[place + 1 :]))
    builder.emit(BlockOp(result, kind, (ref,), {"axis": place}, at))
    return expand_dims(builder, Block(result), place, at) if keep_dims else Block(result)
