"""Stages follow from position, scope and space alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernbench.commands import Scope, accumulator
from kernbench.dtypes import fp16, fp32
from kernbench.sim.plan import StageNote, describe_plan, gemm_cycles, make_plan, math_stage
from kernbench.sim.topology import load_topology
from tests.sim.pe_helpers import composite, gemm_op, hbm, math_op, pointer, tcm

SPEC = load_topology("ahbm_1x1").spec.pe


def test_position_and_scope_place_the_ops() -> None:
    a, b, out = tcm(0, (100, 70), fp16), tcm(32768, (70, 130), fp16), tcm(65536, (100, 130))
    acc = accumulator((100, 130), fp32)
    ops = (
        math_op("copy", a, src=a),
        gemm_op(a, b, out),
        math_op("mul", acc, Scope.K_TILE, src_a=acc, src_b=2.0),
        math_op("exp", acc, Scope.OUTPUT_TILE, src=acc),
        math_op("neg", out, src=out),
    )
    plan = make_plan(ops, SPEC)

    assert ([0], (2,), (3,), [4]) == ([s.op for s in plan.before], plan.k_ops, plan.out_ops, [s.op for s in plan.after])
    assert plan.loop is not None
    assert (2, 2, 3) == plan.loop.counts
    assert {(m, k, n) for m in (64, 36) for k in (64, 6) for n in (64, 2)} == set(plan.loop.tiles)


def test_steps_cover_the_product_once() -> None:
    a, b, out = tcm(0, (100, 70), fp16), tcm(32768, (70, 130), fp16), tcm(65536, (100, 130))
    loop = make_plan((gemm_op(a, b, out),), SPEC).loop
    assert loop is not None
    volumes = [loop.tiles[loop.extents(*loop.at(j))] for j in range(loop.total)]

    assert 100 * 70 * 130 == sum(t.m * t.k * t.n for t in volumes)
    assert 2 * 100 * 70 * 130 == sum(t.flops for t in volumes)
    assert [(0, 0, 0), (0, 64, 0), (0, 0, 64)] == [loop.at(j) for j in range(3)]


@pytest.mark.parametrize(
    ("kind", "elements", "cycles"),
    [("add", 1, 5), ("add", 128, 5), ("add", 129, 6), ("exp", 1024, 20), ("rmax", 1024, 12)],
)
def test_math_takes_its_startup_and_its_lanes(kind: str, elements: int, cycles: int) -> None:
    x = tcm(0, (elements,))
    operands = {"src": x} if kind in ("exp", "rmax") else {"src_a": x, "src_b": x}
    op = math_op(kind, x if kind != "rmax" else tcm(0, (1,)), **operands)

    assert 1000 * cycles == math_stage(0, op, None, SPEC).duration_ps


def test_systolic_dataflows_are_the_published_ones() -> None:
    """SCALE-Sim, M = 256, N = 128, K = 256 on 32 × 32, counted as lengths."""
    array = replace(SPEC.pe_gemm, rows=32, cols=32)
    taken = {flow: gemm_cycles(replace(array, dataflow=flow), 0, 256, 256, 128) for flow in ("ws", "os", "is")}

    assert {"ws": 11_200, "os": 10_176, "is": 14_208} == taken
    small = replace(SPEC.pe_gemm, rows=4, cols=4, dataflow="os")
    assert 10 == gemm_cycles(small, 0, 4, 4, 4)


def test_an_ideal_tile_takes_at_least_a_cycle() -> None:
    assert (1, 128, 1) == tuple(gemm_cycles(SPEC.pe_gemm, 2048, *s) for s in ((1, 1, 1), (64, 64, 64), (32, 8, 8)))


def test_a_description_says_where_each_dma_comes_from() -> None:
    template = composite(
        0, math_op("exp", tcm(0, (64, 128), fp16), src=tcm(0, (64, 128), fp16)),
        gemm_op(tcm(0, (64, 128), fp16), hbm(pointer(0), (128, 128), fp16), hbm(pointer(1), (64, 128))),
    )  # fmt: skip
    notes = describe_plan(template, SPEC)

    assert ["math", "dma_read", "fetch", "gemm", "store", "dma_write"] == [note.kind for note in notes]
    assert StageNote("dma_read", "b", "tile", 4, 32768, "operand b is in hbm") == notes[1]
    assert StageNote("dma_write", "out", "output_tile", 2, 32768, "operand out is in hbm") == notes[-1]


def test_a_description_of_a_chain_has_no_dma() -> None:
    x = tcm(0, (64,))
    notes = describe_plan(composite(0, math_op("exp", x, src=x), math_op("neg", x, src=x)), SPEC)

    assert [("math", "exp"), ("math", "neg")] == [(note.kind, note.name) for note in notes]


def test_a_plan_is_made_as_fast_for_a_product_of_any_depth() -> None:
    deep = (1 << 40) + 7
    a, b = hbm(pointer(0), (64, deep), fp16), hbm(pointer(1), (deep, 64), fp16)
    loop = make_plan((gemm_op(a, b, tcm(0, (64, 64))),), SPEC).loop

    assert loop is not None
    assert {SPEC.pe_gemm.tile.k, deep % SPEC.pe_gemm.tile.k} == {k for _, k, _ in loop.tiles}
