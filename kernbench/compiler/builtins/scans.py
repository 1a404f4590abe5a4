"""Reductions and scans by a function of the kernel, and those that have a micro-op of their own.

A reduction halves the axis again and again, neighbours first, so that a function need be associative only. A scan
doubles its reach. Where one step of the function is a single micro-op that PE_MATH reduces or scans by, that is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernbench.compiler import rearrange
from kernbench.compiler.builtins.reductions import reduce_along, reduced, sum_type
from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.builtins.reordering import axis_of, block_of
from kernbench.compiler.conversions import cast, dense, scalar_of
from kernbench.compiler.faults import fault
from kernbench.compiler.residual import BlockOp
from kernbench.compiler.shapes import broadcast, reshape
from kernbench.compiler.values import (
    FALSE,
    NONE,
    TRUE,
    ZERO,
    Block,
    BoundMethod,
    BuiltinValue,
    FunctionValue,
    Shape,
    TupleValue,
    Value,
    element_type,
    is_block,
    shape_of,
    type_text,
)
from kernbench.dtypes import DType, bf16, fp32, i32

# micro-op of one step -> micro-op of the whole
_REDUCTIONS = {"add": "rsum", "max_elem": "rmax", "min_elem": "rmin", "and": "rand", "or": "ror", "xor": "rxor"}
_SCANS = {"add": "cumsum", "mul": "cumprod"}


@dataclass(frozen=True, slots=True)
class _Combine:
    """A function of two groups of values, which gives one such group."""

    call: Call
    function: Value
    dtypes: tuple[DType, ...]

    def __call__(self, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        assert self.call.apply is not None, "a call of the kernel can call functions"
        value = self.call.apply(self.function, (*left, *right))
        made: list[Value] = list(value.items) if isinstance(value, TupleValue) else [value]
        if len(made) != len(self.dtypes):
            message = (
                f"the function given to {self.call.name} returns {len(made)} values, {len(self.dtypes)} are reduced"
            )
            raise fault("E_UNPACK", message, self.call.at)
        fitted: list[Value] = []
        for value, dtype, one in zip(made, self.dtypes, left, strict=True):
            fitted.append(self._fitted(value, dtype, shape_of(one)))
        return fitted

    def _fitted(self, value: Value, dtype: DType, shape: Shape) -> Value:
        """What a step gives, in the type and shape of what goes in."""
        builder, at = self.call.builder, self.call.at
        value = cast(builder, value, dtype, at)
        if not is_block(value):
            source = value if isinstance(value, Block) else scalar_of(builder, value, at)
            return broadcast(builder, source, shape, at)
        if shape_of(value) != shape:
            message = f"the function given to {self.call.name} turns {list(shape)} into {list(shape_of(value))}"
            raise fault("E_SHAPE_MISMATCH", message, at)
        return value

    def single_op(self, example: Block) -> str | None:
        """The micro-op that one step is, where it is nothing else."""
        if len(self.dtypes) != 1:
            return None
        builder = self.call.builder
        a, b = (Block(builder.new_block(example.dtype, example.shape)) for _ in range(2))
        with builder.region() as instrs:
            (made,) = self([a], [b])
        if len(instrs) != 1 or not isinstance(instrs[0], BlockOp) or not isinstance(made, Block):
            return None
        step = instrs[0]
        alike = made.ref == step.result and step.args in ((a.ref, b.ref), (b.ref, a.ref))
        return step.kind if alike else None


def _group(call: Call, input: Value) -> list[Value]:
    items: list[Value] = list(input.items) if isinstance(input, TupleValue) else [input]
    for item in items:
        block_of(call, item)
    if len({shape_of(item) for item in items}) != 1:
        shapes = " and ".join(type_text(item) for item in items)
        raise fault("E_SHAPE_MISMATCH", f"{call.name} takes blocks of one shape, {shapes} are given", call.at)
    return items


def _combine(call: Call, function: Value, items: list[Value]) -> _Combine:
    if not isinstance(function, FunctionValue | BuiltinValue | BoundMethod):
        message = f"`combine_fn` of {call.name} must be a function, {type_text(function)} is given"
        raise fault("E_NOT_CALLABLE", message, call.at, help="give a function under `@triton.jit`")
    dtypes = tuple(dtype for item in items if isinstance(dtype := element_type(item), DType))
    return _Combine(call, function, dtypes)


def _part(call: Call, items: Sequence[Value], axis: int, start: int, step: int, count: int) -> list[Value]:
    return [rearrange.part(call.builder, item, axis, start, step, count, call.at) for item in items]


@builtin("reduce")
def reduce(call: Call, input: Value, axis: Value, combine_fn: Value, keep_dims: Value = FALSE) -> Value:
    """The elements along an axis joined by a function of the kernel, in their order."""
    items = _group(call, input)
    whole = shape_of(items[0])
    combine, keep = _combine(call, combine_fn, items), call.flag(keep_dims, "keep_dims")
    if axis == NONE:
        items = [reshape(call.builder, item, (math.prod(whole),), call.at) for item in items]
    place = 0 if axis == NONE else axis_of(call, axis, items[0])
    kind = _REDUCTIONS.get(combine.single_op(Block(dense(call.builder, items[0], call.at))) or "")
    if kind is not None:
        results = [reduce_along(call, kind, items[0], place, keep_dims=False)]
    else:
        shape = shape_of(items[0])
        rest = (*shape[:place], *shape[place + 1 :])
        results = [reshape(call.builder, item, rest, call.at) for item in _tree(call, combine, items, place)]
    if keep:
        kept = (1,) * len(whole) if axis == NONE else (*whole[:place], 1, *whole[place + 1 :])
        results = [reshape(call.builder, item, kept, call.at) for item in results]
    return TupleValue(tuple(results)) if isinstance(input, TupleValue) else results[0]


def _tree(call: Call, combine: _Combine, items: list[Value], axis: int) -> list[Value]:
    """Neighbours combined until one position is left; a last one without a neighbour waits for the end."""
    count, waiting = shape_of(items[0])[axis], None
    while count > 1:
        half = count // 2
        left, right = (_part(call, items, axis, start, 2, half) for start in (0, 1))
        last = _part(call, items, axis, count - 1, 1, 1) if count % 2 else None
        items = combine(left, right)
        if last is not None:
            waiting = last if waiting is None else combine(last, waiting)
        count = half
    return items if waiting is None else combine(items, waiting)


@builtin("associative_scan")
def associative_scan(call: Call, input: Value, axis: Value, combine_fn: Value, reverse: Value = FALSE) -> Value:
    """The elements up to each along an axis, joined by a function of the kernel."""
    items = _group(call, input)
    combine, place = _combine(call, combine_fn, items), axis_of(call, axis, items[0])
    backwards = call.flag(reverse, "reverse")
    kind = _SCANS.get(combine.single_op(Block(dense(call.builder, items[0], call.at))) or "")
    if kind is not None:
        return rearrange.scan(call.builder, kind, items[0], place, backwards, call.at)
    if backwards:
        items = [rearrange.flip(call.builder, item, place, call.at) for item in items]
    items = _running(call, combine, items, place)
    if backwards:
        items = [rearrange.flip(call.builder, item, place, call.at) for item in items]
    return TupleValue(tuple(items)) if isinstance(input, TupleValue) else items[0]


def _running(call: Call, combine: _Combine, items: list[Value], axis: int) -> list[Value]:
    """Each position combined with the one `reach` before it, for a reach of 1, 2, 4 …"""
    extent, reach = shape_of(items[0])[axis], 1
    while reach < extent:
        left, right = (_part(call, items, axis, start, 1, extent - reach) for start in (0, reach))
        first = _part(call, items, axis, 0, 1, reach)
        made = combine(left, right)
        items = [rearrange.cat(call.builder, x, y, axis, call.at) for x, y in zip(first, made, strict=True)]
        reach *= 2
    return items


# --------------------------------------------------------------------------- with micro-ops of their own


@builtin("cumsum")
def cumsum(call: Call, input: Value, axis: Value = ZERO, reverse: Value = FALSE, dtype: Value = NONE) -> Value:
    """Running sums along an axis."""
    have = element_type(block_of(call, input))
    assert isinstance(have, DType)
    wanted = call.element(dtype) if dtype != NONE else sum_type(have)
    return _scan(call, "cumsum", cast(call.builder, input, wanted, call.at), axis, reverse)


@builtin("cumprod")
def cumprod(call: Call, input: Value, axis: Value = ZERO, reverse: Value = FALSE) -> Value:
    """Running products along an axis."""
    return _scan(call, "cumprod", without_bf16(call, block_of(call, input)), axis, reverse)


def _scan(call: Call, kind: str, input: Value, axis: Value, reverse: Value) -> Value:
    return rearrange.scan(call.builder, kind, input, axis_of(call, axis, input), call.flag(reverse, "reverse"), call.at)


def without_bf16(call: Call, value: Value) -> Value:
    return cast(call.builder, value, fp32, call.at) if element_type(value) is bf16 else value


@builtin("argmax")
def argmax(call: Call, input: Value, axis: Value, tie_break_left: Value = TRUE, keep_dims: Value = FALSE) -> Value:
    """The place of the largest, the first of equals, which `tie_break_left=False` allows too."""
    return reduced(call, "argmax", block_of(call, input), axis, keep_dims, i32)


@builtin("argmin")
def argmin(call: Call, input: Value, axis: Value, tie_break_left: Value = TRUE, keep_dims: Value = FALSE) -> Value:
    """The place of the smallest, the first of equals."""
    return reduced(call, "argmin", block_of(call, input), axis, keep_dims, i32)


@builtin("xor_sum")
def xor_sum(call: Call, input: Value, axis: Value = NONE, keep_dims: Value = FALSE) -> Value:
    """Exclusive or along an axis, or of all."""
    return _of_bits(call, "rxor", input, axis, keep_dims)


@builtin("reduce_or")
def reduce_or(call: Call, input: Value, axis: Value, keep_dims: Value = FALSE) -> Value:
    """Bitwise or along an axis, or of all."""
    return _of_bits(call, "ror", input, axis, keep_dims)


def _of_bits(call: Call, kind: str, input: Value, axis: Value, keep_dims: Value) -> Value:
    dtype = element_type(block_of(call, input))
    assert isinstance(dtype, DType)
    if not dtype.is_int:
        raise fault("E_OPERAND_TYPE", f"{call.name} takes integers, {type_text(input)} is given", call.at)
    return reduced(call, kind, input, axis, keep_dims)
