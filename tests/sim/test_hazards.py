"""Commands that touch the same bytes keep their order; those that do not, overlap."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.commands import Loop, Node, Wait, affine
from kernbench.dtypes import fp16, fp32, i32
from kernbench.sim.access_eval import Part
from kernbench.sim.hazards import Footprints, Hazard, hbm_conflict
from kernbench.sim.topology import load_topology
from tests.sim.pe_helpers import (
    Bench,
    box,
    composite,
    gemm_op,
    hbm,
    log_text,
    math_op,
    pointer,
    program,
    read,
    run_values,
    span,
    tcm,
    write,
)

N = 64  # elements of a block
BLOCKS = [tcm(256 * k, (N,), name=f"b{k}") for k in range(3)] + [tcm(128, (N,), name="across")]


def test_kinds_of_hazard() -> None:
    made = Footprints()
    writer = made.make([], [(0, 64)])
    reader = made.make([(32, 96)], [])
    far = made.make([(64, 96)], [(96, 128)])

    assert [Hazard.RAW, Hazard.WAR, Hazard.WAW, Hazard.NONE, Hazard.NONE] == [
        reader.conflict(writer),
        writer.conflict(reader),
        writer.conflict(writer),
        reader.conflict(reader),
        far.conflict(writer),
    ]


def test_one_ring_is_shared_and_its_reuse_is_a_hazard() -> None:
    made = Footprints()
    first, same = made.make([], [], [(0, 64)]), made.make([(128, 192)], [], [(0, 64)])
    other_ring, reuse = made.make([], [], [(32, 96)]), made.make([], [(32, 96)])

    assert not same.conflict(first)
    assert other_ring.conflict(first)
    assert reuse.conflict(first) and first.conflict(reuse)


def strided(low: int) -> Part:
    starts = np.arange(4, dtype=np.int64) * 32
    return Part((0, 0, 0), low, low + 104, 32, 32, (starts + low, np.full(4, 8, np.int64), starts))


def test_runs_with_gaps_conflict_only_where_they_meet() -> None:
    assert not hbm_conflict([strided(0)], [], [], [strided(8)])
    assert Hazard.RAW == hbm_conflict([strided(0)], [], [], [strided(4)])
    assert Hazard.WAW == hbm_conflict([], [strided(0)], [], [Part((0, 0, 0), 100, 200, 100, 100)])
    assert not hbm_conflict([], [strided(0)], [], [Part((0, 0, 1), 0, 200, 200, 200)])


# --------------------------------------------------------------------------- order of values


def random_node(draw: Any, number: int) -> Node:
    block, other = BLOCKS[draw(st.integers(0, 3))], BLOCKS[draw(st.integers(0, 3))]
    at = draw(st.integers(0, 5)) * 32
    kind = draw(st.sampled_from(("read", "write", "add", "chain")))
    if kind == "read":
        return read(number, block, box(pointer(0, 4 * at), (N,)))
    if kind == "write":
        return write(number, block, box(pointer(0, 4 * at), (N,)))
    if kind == "add":
        return composite(number, math_op("add", block, src_a=other, src_b=float(number)))
    return composite(
        number, math_op("mul", block, src_a=other, src_b=0.5), math_op("exp_diff", other, src_a=other, src_b=block)
    )


@st.composite
def bodies(draw: Any) -> list[Node]:
    return [random_node(draw, number) for number in range(draw(st.integers(2, 14)))]


@settings(max_examples=40, deadline=None)
@given(bodies(), st.sampled_from(("in_order", "rw_aware")))
def test_values_are_those_of_program_order(body: list[Node], issue: str) -> None:
    """Every interleaving that hazards allow gives what one command at a time gives."""
    memory = np.arange(6 * 32 + N, dtype=np.float32) / 64
    spec = load_topology("ahbm_1x1").spec.pe
    fast = replace(spec.pe_cpu.dispatch, fixed_ns=0, bytes_per_ns=64)
    logs, values = [], []
    for mode, waits in (("data", False), ("timing", False), ("data", True)):
        bench = Bench(
            mode,  # type: ignore[arg-type]
            pe_cpu=replace(spec.pe_cpu, dispatch=fast),
            pe_scheduler=replace(spec.pe_scheduler, issue=issue),
        )
        window, places = bench.put(memory)
        bench.run(program(with_waits(body) if waits else body), [window])
        values.append(bench.get(places, memory))
        logs.append(log_text(bench))

    np.testing.assert_array_equal(values[2], values[0])
    assert logs[0] == logs[1]


def with_waits(body: list[Node]) -> list[Node]:
    """The same body with nothing overlapping."""
    return [node for pair in ((n, Wait(1000 + k, ())) for k, n in enumerate(body)) for node in pair]


# --------------------------------------------------------------------------- overlap


def starts(bench: Bench, kind: str) -> list[tuple[int, int]]:
    return [(record.t_start_ps, record.t_end_ps) for record in bench.records(kind)]


def test_a_prefetch_does_not_stop_the_command_before_it() -> None:
    a, b, out = tcm(0, (4096,)), tcm(16384, (4096,)), tcm(32768, (4096,))
    body = [
        read(0, a, box(pointer(0), (4096,))),
        read(1, b, box(pointer(0, 16384), (4096,))),
        composite(2, math_op("exp", out, src=a)),
    ]
    _, bench, _ = run_values(body, [np.zeros(8192, np.float32)])
    (first, second), (math,) = starts(bench, "dma_read"), starts(bench, "math")

    assert first[1] == math[0]
    assert math[0] < second[1]


def test_a_composite_waits_for_the_load_that_it_reads_and_a_store_for_the_composite() -> None:
    a = tcm(0, (4096,))
    body = [
        read(0, a, box(pointer(0), (4096,))),
        composite(1, math_op("exp", a, src=a)),
        write(2, a, box(pointer(0), (4096,))),
    ]
    out, bench, _ = run_values(body, [np.zeros(4096, np.float32)])

    assert starts(bench, "dma_read")[0][1] == starts(bench, "math")[0][0]
    assert starts(bench, "math")[0][1] == starts(bench, "dma_write")[0][0]
    np.testing.assert_array_equal(np.ones(4096, np.float32), out[0])


def test_a_load_waits_until_the_block_that_it_overwrites_has_been_stored() -> None:
    a = tcm(0, (4096,))
    body = [write(0, a, box(pointer(0), (4096,))), read(1, a, box(pointer(0, 16384), (4096,)))]
    _, bench, _ = run_values(body, [np.zeros(8192, np.float32)])

    assert starts(bench, "dma_write")[0][1] == starts(bench, "dma_read")[0][0]


def test_a_load_waits_for_the_store_to_the_same_memory_only() -> None:
    a, b, c = (tcm(16384 * k, (4096,)) for k in range(3))
    body = [
        write(0, a, box(pointer(0), (4096,))),
        read(1, b, box(pointer(0, 16384), (4096,))),
        read(2, c, box(pointer(0, 4), (4096,))),
    ]
    _, bench, _ = run_values(body, [np.zeros(8192, np.float32)])
    (store,), (other, same) = starts(bench, "dma_write"), starts(bench, "dma_read")

    assert other[0] < store[1] == same[0]


def two_chains(issue: str, third_reads_first: bool) -> list[tuple[int, int]]:
    """Composite 1 depends on 0; composite 2 on nothing, or on 1. Gives each one's first MATH record."""
    x, y, z, w = (tcm(4096 * k, (1024,)) for k in range(4))
    gemm = gemm_op(hbm(pointer(0), (128, 128), fp16), tcm(65536, (128, 128), fp16), tcm(131072, (128, 128), fp32))
    body = [
        composite(0, gemm, math_op("copy", x, src=w)),
        composite(1, math_op("exp", y, src=x)),
        composite(2, math_op("exp", z, src=y if third_reads_first else w)),
    ]
    spec = load_topology("ahbm_1x1").spec.pe
    bench = Bench("data", pe_scheduler=replace(spec.pe_scheduler, issue=issue))
    window, _ = bench.put(np.zeros((128, 128), np.float16))
    bench.run(program(body), [window])
    found = {record.cmd: (record.t_start_ps, record.t_end_ps) for record in reversed(bench.records("math"))}
    return [found[number] for number in range(3)]


@pytest.mark.parametrize("dependent", [False, True])
def test_nothing_overtakes_a_blocked_composite(dependent: bool) -> None:
    first, second, third = two_chains("in_order", dependent)

    assert first[1] <= second[0] < third[0]


def test_rw_aware_lets_an_independent_composite_pass() -> None:
    first, second, third = two_chains("rw_aware", False)
    assert third[1] < first[0] and first[1] <= second[0]

    first, second, third = two_chains("rw_aware", True)
    assert first[1] <= second[0] and second[1] <= third[0]


def test_a_conflicting_composite_waits_for_all_before_it() -> None:
    """Composite 2 conflicts with 0 only, yet waits for the slow 1."""
    x, y, w = (tcm(4096 * k, (1024,)) for k in range(3))
    slow = gemm_op(hbm(pointer(0), (128, 128), fp16), tcm(65536, (128, 128), fp16), tcm(131072, (128, 128), fp32))
    body = [
        composite(0, math_op("exp", x, src=w), math_op("exp", x, src=w)),
        composite(1, slow),
        composite(2, math_op("exp", y, src=x)),
    ]
    spec = load_topology("ahbm_1x1").spec.pe
    quick = replace(spec.pe_cpu.dispatch, fixed_ns=0, bytes_per_ns=1000)
    bench = Bench("timing", pe_cpu=replace(spec.pe_cpu, dispatch=quick))
    window, _ = bench.put(np.zeros((128, 128), np.float16))
    bench.run(program(body), [window])
    last = next(record for record in bench.records("math") if record.cmd == 2)

    assert last.t_start_ps == max(record.t_end_ps for record in bench.records() if record.cmd == 1)


def test_independent_composites_overlap_on_different_engines() -> None:
    x, w = tcm(0, (65536,)), tcm(262144, (65536,))
    product = gemm_op(tcm(600000, (128, 128), fp16), tcm(700000, (128, 128), fp16), tcm(800000, (128, 128), fp32))
    body = [composite(0, math_op("exp", x, src=w)), composite(1, product)]
    _, bench, _ = run_values(body, [np.zeros(4, np.float32)])
    (math,), products = starts(bench, "math"), starts(bench, "gemm")

    assert math[0] < products[0][0] < math[1]


def test_rotating_buffers_break_the_hazard() -> None:
    """With one buffer a load waits for the last use of it; with two it runs ahead."""

    def time(depth: int) -> int:
        a, out = tcm(affine(0, {2: 16384}) if depth > 1 else 0, (4096,)), tcm(65536, (4096,))
        body = [
            read(0, a, box(pointer(0, affine(0, {1: 16384})), (4096,))),
            composite(1, *(math_op("exp", out, src=a) for _ in range(4))),
        ]
        loop = Loop(1, 0, 8, 1, tuple(body), rotations=((2, depth),), span=span(1))
        _, _, result = run_values([loop], [np.zeros(8 * 4096, np.float32)], [i32, i32])
        assert result.exec_end_ps is not None
        return result.exec_end_ps

    assert time(2) < 0.8 * time(1)
