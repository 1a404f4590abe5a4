"""Loads a trip ahead: same values for every depth and trip count, and nothing loaded beyond the last trip."""

import numpy as np
import pytest

from kernbench.commands import DmaRead, If, Loop, Target, walk
from tests.compiler.kernels import TARGET, compiled, run

SUM = """
def total(x, out, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    ptrs = x + at
    for start in tl.range(0, n, BLOCK, num_stages=STAGES):
        acc += tl.load(ptrs, mask=at < n - start, other=0.0)
        ptrs += BLOCK
    tl.store(out + at, acc)
"""

RECURRENCE = """
def follow(x, out, n, STAGES: tl.constexpr):
    at = tl.arange(0, 4)
    last = tl.zeros((4,), tl.float32)
    for i in tl.range(0, n, num_stages=STAGES):
        last = last * 0.5 + tl.load(x + i * 4 + at)
    tl.store(out + at, last)
"""


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [0, 1, 16, 17, 64, 100])
def test_a_pipelined_loop_gives_the_values_of_the_plain_one(stages: int, n: int) -> None:
    x = np.arange(1, 101, dtype=np.float32)
    out = np.full(16, -1, np.float32)

    run(SUM, {"x": x, "out": out, "n": n}, BLOCK=16, STAGES=stages)

    padded = np.zeros(112, np.float32)
    padded[:n] = x[:n]
    assert padded.reshape(7, 16).sum(axis=0).tolist() == out.tolist()


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
@pytest.mark.parametrize("opt", [0, 1])
def test_a_slot_is_never_overwritten_while_it_is_still_read(stages: int, opt: int) -> None:
    x = np.arange(17 * 4, dtype=np.float32)
    out = np.zeros(4, np.float32)

    run(RECURRENCE, {"x": x, "out": out, "n": 17}, opt=opt, STAGES=stages)

    last = np.zeros(4, np.float32)
    for row in x.reshape(17, 4):
        last = last * np.float32(0.5) + row
    assert last.tolist() == out.tolist()


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_each_trip_is_loaded_once_and_no_more(trips: int) -> None:
    x = np.zeros(400, np.float32)
    machine = run(SUM, {"x": x, "out": np.zeros(16, np.float32), "n": 16 * trips}, BLOCK=16, STAGES=3)

    assert trips == sum(isinstance(command, DmaRead) for command in machine.commands)


def test_the_next_trips_load_stands_before_this_trips_work() -> None:
    program = compiled(SUM, {"x": "*fp32", "out": "*fp32", "n": "i32"}, BLOCK=16, STAGES=2).program
    loop = next(node for node in walk(program.body) if isinstance(node, Loop))
    kinds = [type(node) for node in loop.body]

    assert If in kinds
    assert DmaRead not in kinds


def test_without_optimisation_loads_stay_where_they_are() -> None:
    program = compiled(SUM, {"x": "*fp32", "out": "*fp32", "n": "i32"}, opt=0, BLOCK=16, STAGES=3).program
    loop = next(node for node in walk(program.body) if isinstance(node, Loop))

    assert DmaRead in [type(node) for node in loop.body]


IN_PLACE = """
def shift(x, n, STAGES: tl.constexpr):
    at = tl.arange(0, 4)
    for i in tl.range(1, n, num_stages=STAGES):
        before = tl.load(x + (i - 1) * 4 + at)
        tl.store(x + i * 4 + at, before + 1.0)
"""


def test_a_loop_that_writes_what_it_reads_is_not_reordered() -> None:
    x = np.zeros(20, np.float32)

    run(IN_PLACE, {"x": x, "n": 5}, STAGES=3)

    assert [0, 1, 2, 3, 4] == x.reshape(5, 4)[:, 0].tolist()


def test_loads_ahead_are_given_up_where_tcm_is_too_small_for_them() -> None:
    args = {"x": np.arange(64, dtype=np.float32), "out": np.zeros(16, np.float32), "n": 64}
    tight = Target(3 * 64, TARGET.gemm_tile)
    machine = run(SUM, args, target=tight, BLOCK=16, STAGES=4)

    assert machine.program.tcm_bytes <= tight.tcm_bytes
    assert args["x"].reshape(4, 16).sum(axis=0).tolist() == args["out"].tolist()


INVARIANT = """
def scaled(x, out, n, stride):
    at = tl.arange(0, 4)
    acc = tl.zeros((4,), tl.float32)
    for i in range(0, n):
        acc += tl.load(x + i * 4 + at) * (stride * stride)
    tl.store(out + at, acc)
"""


def test_scalar_code_that_does_not_change_leaves_the_loop() -> None:
    x, out = np.ones(12, np.float32), np.zeros(4, np.float32)
    machine = run(INVARIANT, {"x": x, "out": out, "n": 3, "stride": 2})
    loop = next(node for node in walk(machine.program.body) if isinstance(node, Loop))

    assert "mul" not in [getattr(node, "kind", "") for node in loop.body]
    assert [12, 12, 12, 12] == out.tolist()


UNREAD = """
def unread(x, out, n, m):
    at = tl.arange(0, 4)
    for i in range(0, n):
        wasted = (i * m) // 3 + m * m
        used = (i * m) // 5
        tl.store(out + used + at, tl.load(x + at))
"""


def test_scalar_code_that_nothing_reads_is_dropped() -> None:
    x, out = np.ones(4, np.float32), np.zeros(12, np.float32)
    machine = run(UNREAD, {"x": x, "out": out, "n": 2, "m": 5})
    kinds = [getattr(node, "kind", "") for node in walk(machine.program.body)]

    assert [1] * 5 + [0] * 7 == out.tolist()
    assert 1 == kinds.count("idiv")
