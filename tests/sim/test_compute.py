"""MATH ops on blocks: broadcasting views, reductions, blocks made from numbers, registers as operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kernbench.commands import AxisIndex, IndexOp, Loop, Move, Node, Reg, ScalarLoad, ScalarOp, affine
from kernbench.dtypes import DType, bf16, fp16, fp32, i1, i32, i64
from tests.sim.pe_helpers import (
    box,
    composite,
    log_text,
    math_op,
    pointer,
    read,
    run_values,
    span,
    tcm,
    write,
)

RNG = np.random.default_rng(3)


def one_op(
    op: Any,
    inputs: list[tuple[Any, np.ndarray]],
    out: Any,
    registers: Sequence[DType] = (),
    before: Sequence[Node] = (),
) -> np.ndarray:
    """Load the inputs, run the op, store what it makes."""
    arrays = [array for _, array in inputs] + [np.zeros(out.shape, out.dtype.numpy)]
    body: list[Node] = [*before]
    body += [read(k, h, box(pointer(k), h.shape, h.dtype)) for k, (h, _) in enumerate(inputs)]
    body += [composite(50, op), write(60, out, box(pointer(len(inputs)), out.shape, out.dtype))]
    values, bench, result = run_values(body, arrays, registers)
    _, timing, _ = run_values(body, arrays, registers, mode="timing")
    assert result.ok, result.message
    assert log_text(bench) == log_text(timing)
    return values[-1]


@pytest.mark.parametrize("strides", [(1, 0), (0, 1)])
def test_a_view_with_stride_0_repeats(strides: tuple[int, int]) -> None:
    x, v = RNG.normal(size=(8, 8)).astype(np.float32), RNG.normal(size=8).astype(np.float32)
    block, vector, out = tcm(0, (8, 8)), tcm(1024, (8,)), tcm(2048, (8, 8))
    view = tcm(1024, (8, 8), strides=strides)
    got = one_op(math_op("add", out, src_a=block, src_b=view), [(block, x), (vector, v)], out)

    np.testing.assert_array_equal(x + (v[:, None] if strides == (1, 0) else v), got)


@pytest.mark.parametrize("shape", [(8,), (8, 1), (1, 8)])
def test_a_reduction_may_keep_its_axis(shape: tuple[int, ...]) -> None:
    x = RNG.normal(size=(8, 8)).astype(np.float32)
    block, out = tcm(0, (8, 8)), tcm(1024, shape)
    axis = 0 if shape == (1, 8) else 1
    got = one_op(math_op("rmax", out, src=block, axis=axis), [(block, x)], out)

    np.testing.assert_array_equal(x.max(axis=axis).reshape(shape), got)


def test_a_block_of_indices() -> None:
    out = tcm(0, (4, 5), i32)
    odd = IndexOp("mod", (AxisIndex(1), 2), i32)
    op = math_op("index", out, base=affine(100, {1: 1}), strides=(10, 0), rest=odd)
    got = one_op(op, [], out, [i32], [ScalarOp(1, "add", (3, 4), i32, (i32, i32), span(1))])

    np.testing.assert_array_equal(107 + 10 * np.arange(4)[:, None] + np.arange(5) % 2, got)


def test_a_block_of_mask_bits() -> None:
    out = tcm(0, (4, 5), i1)
    diagonal = IndexOp("ne", (AxisIndex(0), AxisIndex(1)), i1)
    op = math_op("mask", out, lo=((1,), ()), hi=((), (4, 3)), preds=(1,), mask=diagonal)
    got = one_op(op, [], out)
    rows, columns = np.arange(4)[:, None], np.arange(5)

    np.testing.assert_array_equal((rows >= 1) & (columns < 3) & (rows != columns), got)


@pytest.mark.parametrize(("dtype", "scale"), [(fp16, 0.1), (bf16, 3.0), (fp32, -1.5)])
def test_an_immediate_takes_the_type_that_it_meets(dtype: DType, scale: float) -> None:
    x = RNG.normal(size=64).astype(dtype.numpy)
    block, out = tcm(0, (64,), dtype), tcm(1024, (64,), dtype)
    got = one_op(math_op("mul", out, src_a=block, src_b=scale), [(block, x)], out)

    np.testing.assert_array_equal((x.astype(np.float32) * np.float32(scale)).astype(dtype.numpy), got)


def test_a_register_is_an_operand_of_its_own_type() -> None:
    """An int64 register with an int32 block computes in 64 bits and wraps once."""
    x = np.array([1, 2, -3, 4], np.int32)
    block, out = tcm(0, (4,), i32), tcm(64, (4,), i64)
    before = [ScalarOp(2, "add", (2**40, 0), i64, (i64, i64), span(1))]
    got = one_op(math_op("mul", out, src_a=block, src_b=Reg(2)), [(block, x)], out, [i64], before)

    np.testing.assert_array_equal(x.astype(np.int64) << 40, got)


def test_a_chain_rounds_every_intermediate() -> None:
    x = RNG.normal(size=256).astype(np.float16)
    block, mid, out = tcm(0, (256,), fp16), tcm(512, (256,), fp16), tcm(1024, (256,), fp16)
    arrays = [x, np.zeros(256, np.float16)]
    body: list[Node] = [
        read(0, block, box(pointer(0), (256,), fp16)),
        composite(1, math_op("mul", mid, src_a=block, src_b=1.1), math_op("add", out, src_a=mid, src_b=0.7)),
        write(2, out, box(pointer(1), (256,), fp16)),
    ]
    values, _, _ = run_values(body, arrays)
    rounded = (x.astype(np.float32) * np.float32(1.1)).astype(np.float16)

    np.testing.assert_array_equal((rounded.astype(np.float32) + np.float32(0.7)).astype(np.float16), values[1])


def test_ops_may_work_in_place_and_read_what_they_overwrite() -> None:
    x = np.arange(16, dtype=np.float32)
    block = tcm(0, (16,))
    shifted = tcm(4, (15,))
    first = tcm(0, (15,))
    got = one_op(math_op("add", shifted, src_a=first, src_b=shifted), [(block, x)], block)

    np.testing.assert_array_equal(np.concatenate([[0], x[:-1] + x[1:]]), got)


def test_values_in_a_loop_use_the_registers_of_their_own_trip() -> None:
    """Commands are made at dispatch; a later trip changes the register before the first has run."""
    out = tcm(0, (8,))
    row = tcm(affine(0, {2: 4}), (1,))
    fill = composite(0, math_op("copy", row, src=Reg(1)))
    bump = ScalarOp(1, "add", (Reg(1), 1.5), fp32, (fp32, fp32), span(1))
    loop = Loop(2, 0, 8, 1, (fill, bump), init=(Move(1, 1.0),), span=span(1))
    values, _, _ = run_values([loop, write(1, out, box(pointer(0), (8,)))], [np.zeros(8, np.float32)], [fp32, i32])

    np.testing.assert_array_equal(1 + 1.5 * np.arange(8, dtype=np.float32), values[0])


def test_a_static_op_on_an_unknown_register_gives_unknown_values() -> None:
    block, total = tcm(0, (4,), i32), tcm(64, (1,), i32)
    body: list[Node] = [
        ScalarLoad(0, 1, pointer(0), i32, span=span(1)),
        composite(1, math_op("copy", block, src=Reg(1)), static=True),
        composite(2, math_op("rsum", total, src=block, axis=0), static=True),
        Loop(2, 0, 3, 1, ()),
    ]
    assert run_values(body, [np.ones(1, np.int32)], [i32, i32], mode="timing")[2].ok
