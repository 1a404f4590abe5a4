"""Programs that no compiler writes: what has no sense in them is said before a device runs them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kernbench.commands import (
    Access,
    Affine,
    Atomic,
    AxisIndex,
    Block,
    CompositeTemplate,
    DmaRead,
    Gather,
    IndexOp,
    Loop,
    Move,
    Node,
    OpSpec,
    Param,
    Program,
    ReadScalar,
    Reg,
    ScalarLoad,
    ScalarOp,
    Scope,
    Send,
    TensorHandle,
    contiguous_strides,
)
from kernbench.dtypes import DType, bf16, fp32, i1, i32, i64
from kernbench.micro_ops import MICRO_OPS
from kernbench.numerics import evaluate
from kernbench.program_check import problems
from tests.language.running import kernel

INT, FLOAT = 0, 1  # registers


def block(*shape: int, dtype: DType = fp32, number: int = 1) -> TensorHandle:
    return TensorHandle(number, "b", 64 * number, shape, contiguous_strides(shape), dtype, "tcm")


def access(*shape: int, dtype: DType = fp32) -> Access:
    return Access(Affine(0, ((INT, 1),)), dtype, shape, contiguous_strides(shape))


def said(*body: Node, **changes: Any) -> list[str]:
    program = Program("k", (), (), (i64, fp32), ("", ""), (), (Block(0, body),), **changes)
    return list(problems(program))


def math(kind: str, out: TensorHandle | None, extra: dict[str, Any] | None = None, **blocks: TensorHandle) -> Node:
    return CompositeTemplate(0, (OpSpec(kind, Scope.KERNEL, blocks, extra or {}, out),))


GEMM = OpSpec("gemm", Scope.KERNEL, {"a": block(8, 4), "b": block(4, 2)}, {"m": 8, "k": 4, "n": 2}, block(8, 2))


def gemm(*behind: OpSpec, **changes: Any) -> Node:
    return CompositeTemplate(0, (replace(GEMM, **changes), *behind))


def tiled(kind: str, **blocks: TensorHandle) -> OpSpec:
    return OpSpec(kind, Scope.OUTPUT_TILE, blocks, {}, None)


@pytest.mark.parametrize(
    "node",
    [
        math("add", block(4, 8), src_a=block(4, 8), src_b=block(8)),
        math("add", block(8), {"src_b": Reg(FLOAT)}, src_a=block(8)),
        math("rsum", block(4), {"axis": 1}, src=block(4, 8)),
        math("rsum", block(4, 1), {"axis": 1}, src=block(4, 8)),
        math("cat", block(7), {"axis": 0}, src_a=block(4), src_b=block(3)),
        math("join", block(4, 2), src_a=block(4), src_b=block(4)),
        math("take", block(4, 3), {"axis": 1}, src=block(4, 8), index=block(4, 3, dtype=i32)),
        math("part", block(3), {"axis": 0, "start": 1, "step": 2, "count": 3}, src=block(6)),
        math("histogram", block(5, dtype=i32), {"bins": 5}, src=block(9, dtype=i32), mask=block(9, dtype=i1)),
        math("mul_bcast", block(4, 8), {"bcast_axis": 1}, src_a=block(4, 8), src_b=block(4)),
        gemm(),
        gemm(tiled("exp", src=block(8, 2))),
        DmaRead(0, block(8), access(8), other=1.5),
        Gather(0, block(8), access(8), index=block(8, dtype=i32), mask=block(8, dtype=i1)),
        Loop(INT, 0, 4, 1, ()),
    ],
)
def test_sound_programs_pass(node: Node) -> None:
    assert [] == said(node)


@pytest.mark.parametrize(
    ("node", "what"),
    [
        (math("add", block(8), src_a=block(8), src_b=block(7)), "does not take blocks"),
        (math("add", block(7), src_a=block(8), src_b=block(8)), "its result is [7]"),
        (math("add", block(8), src_a=block(8)), "has no `src_b`"),
        (math("nothing", block(8)), "no engine has"),
        (math("and", block(8), src_a=block(8), src_b=block(8)), "has no result of type fp32"),
        (math("add", block(8), {"src_b": "text"}, src_a=block(8)), "str stands where a number"),
        (math("rsum", block(4), {"axis": 2}, src=block(4, 8)), "does not take blocks"),
        (math("rsum", block(4), {"axis": "x"}, src=block(4, 8)), "has the axis 'x'"),
        (math("rsum", block(4), src=block(4, 8)), "has the axis None"),
        (math("part", block(3), {"axis": 0, "start": 1, "step": 2, "count": 4}, src=block(6)), "does not take"),
        (math("cat", block(7), {"axis": 0}, src_a=block(4, 1), src_b=block(3, 2)), "does not take"),
        (math("take", block(4), {"axis": 0}, src=block(4, 2), index=block(4, dtype=i32)), "does not take"),
        (math("histogram", block(5), {"bins": 0}, src=block(9, dtype=i32), mask=block(9, dtype=i1)), "does not"),
        (math("index", block(8, dtype=i64), {"base": 0}), "no base or no strides"),
        (math("index", block(8, dtype=i64), {"base": 0, "strides": (1, 2)}), "of another number"),
        (math("index", block(8, dtype=i64), {"base": 1.5, "strides": (1,)}), "a float stands"),
        (math("exp", block(1 << 13, 1 << 13), src=block(1 << 13, 1 << 13)), "elements"),
        (math("exp", None, src=block(8)), "has no result"),
        (math("bitcast", block(8, dtype=bf16), src=block(8)), "has no result of type bf16"),
        (gemm(extra={"m": 8, "k": 0, "n": 2}), "has no product"),
        (gemm(extra={"m": 8, "k": 4, "n": 3}), "has the shape"),
        (gemm(operands={"a": block(8, 4), "b": block(4, 2, dtype=i32)}), "multiplies fp32 by i32"),
        (gemm(extra={**GEMM.extra, "rings": (("a", 0, 1 << 40, 8),)}), "a ring of `a`"),
        (gemm(extra={**GEMM.extra, "rings": 3}), "no tuple"),
        (gemm(replace(tiled("rsum", src=block(8, 2)), extra={"axis": 0})), "needs whole blocks"),
        (gemm(tiled("exp", src=block(9, 2))), "beside a product"),
        (DmaRead(0, block(8), access(7)), "is moved by an access"),
        (DmaRead(0, block(8), access(8, dtype=i64)), "is moved by an access"),
        (DmaRead(0, block(8), replace(access(8), base=Affine(0, ((FLOAT, 1),)))), "adds register 1"),
        (DmaRead(0, block(8), replace(access(8), strides=(1, 1))), "of another number"),
        (DmaRead(0, block(8), replace(access(8), rest=AxisIndex(1))), "names axis 1 of 1"),
        (DmaRead(0, block(8), replace(access(8), rest=IndexOp("exp", (AxisIndex(0),), fp32))), "is no index"),
        (DmaRead(0, block(8), replace(access(8), offset_bits=7)), "offsets of 7 bits"),
        (DmaRead(0, replace(block(8), strides=(1 << 50,)), access(8)), "strides that no block has"),
        (DmaRead(0, replace(block(8), space="hbm"), access(8)), "where a block in TCM is needed"),
        (Gather(0, block(8), access(8), index=block(8)), "is an index of"),
        (Gather(0, block(8), access(8), mask=block(7, dtype=i1)), "is a mask of"),
        (Atomic(0, "cas", block(8), access(8)), "do not fit"),
        (Atomic(0, "and", block(8), access(8)), "has no result"),
        (ScalarOp(INT, "exp", (Reg(FLOAT),), fp32, (fp32,)), "kept in register 0"),
        (ScalarOp(FLOAT, "add", (Reg(FLOAT),), fp32, (fp32,)), "takes 2 operands"),
        (ScalarOp(FLOAT, "rsum", (Reg(FLOAT),), fp32, (fp32,)), "no instruction"),
        (ScalarOp(INT, "neg", (Reg(FLOAT),), i64, (i64,)), "a float stands where an integer"),
        (ScalarLoad(0, INT, 0, fp32), "is kept in register 0"),
        (ReadScalar(0, FLOAT, block(2)), "is read as one number"),
        (Send(0, block(8), (0, 1)), "2 numbers name no PE"),
        (Loop(FLOAT, 0, 4, 1, ()), "a float stands where an integer"),
        (Loop(INT, 0, 4, 1, (), init=(Move(INT, 0.5),)), "a float stands where an integer"),
        (Loop(INT, 0, 4, 1, (), rotations=((INT, 0),)), "a ring of 0 slots"),
    ],
)
def test_what_has_no_sense_is_said(node: Node, what: str) -> None:
    assert [] != [each for each in said(node) if what in each], said(node)


WHOLE = {
    "part": ({"axis": 1, "start": 4, "step": -2, "count": 2}, [(3, 5)]),
    "cat": ({"axis": 1}, [(3, 5), (3, 2)]),
    "join": ({}, [(3, 5), (3, 5)]),
    "flip": ({"axis": -1}, [(3, 5)]),
    "take": ({"axis": 0}, [(3, 5), (4, 5)]),
    "sort": ({"axis": 0, "descending": True}, [(3, 5)]),
    "histogram": ({"bins": 7}, [(3,), (3,)]),
    "cumsum": ({"axis": 1, "reverse": True}, [(3, 5)]),
    "cumprod": ({"axis": 1, "reverse": False}, [(3, 5)]),
}


def test_every_op_of_whole_blocks_is_held() -> None:
    assert {name for name, op in MICRO_OPS.items() if op.whole} == set(WHOLE)


@pytest.mark.parametrize("kind", sorted(WHOLE))
def test_shapes_are_those_that_the_micro_op_makes(kind: str) -> None:
    extra, shapes = WHOLE[kind]
    made = evaluate(kind, [np.ones(shape, np.int32) for shape in shapes], i32, extra).shape
    blocks = dict(zip(MICRO_OPS[kind].operands, (block(*shape, dtype=i32) for shape in shapes), strict=True))

    assert [] == said(math(kind, block(*made, dtype=i32), extra, **blocks))
    assert [] != said(math(kind, block(*made, 9, dtype=i32), extra, **blocks))


def test_arguments_lie_in_registers_of_their_kind() -> None:
    program = Program("k", (Param("x", "tensor", fp32, FLOAT),), (), (i64, fp32), ("", ""), (), ())

    assert ["a parameter of type i64 is kept in register 1, which is fp32"] == list(problems(program))


def test_compiled_programs_pass() -> None:
    text = """
def k(x_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i[:, None] * N + i[None, :], mask=(i < n)[:, None], other=0.0)
    for j in range(n):
        x = tl.sort(tl.cumsum(tl.dot(x, tl.trans(x)), 0)) + tl.max(x, axis=1, keep_dims=True) * j
    tl.atomic_add(x_ptr + i, tl.sum(x, axis=0).to(tl.float32))
"""
    compiled = kernel(text, N=16).specialise({"x_ptr": "*fp32", "n": "i32"}, {}, kb.open("ahbm_1x1").target)

    assert [] == list(problems(compiled.program))
