"""Launches of hand-built programs on real PEs: faults, aborts of endless work, limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kernbench.commands import Assert, If, Program, Reg, ScalarOp, While
from kernbench.diagnostics import Span
from kernbench.dtypes import i1, i32
from kernbench.messages import content_hash
from kernbench.sim.engine import GraphEngine, Limits
from kernbench.sim.topology import load_topology
from tests.sim.launch_helpers import Host, a_program

GRAPH = load_topology("ahbm_2x2")
LINE = Span("k.tl", 7, 5, 7, 20)
TARGETS = [(0, cube, pe) for cube in range(4) for pe in range(8)]

# Registers: 0 this PE's index in the launch, 1 a condition, 2 a counter.
COUNT = ScalarOp(2, "add", (Reg(2), 1), i32, (i32, i32), LINE)
ENDLESS = While((COUNT,), True, (COUNT,), span=LINE)


def is_pe(index: int) -> ScalarOp:
    return ScalarOp(1, "eq", (Reg(0), index), i1, (i32, i32), LINE)


def program(*body: Any) -> Program:
    return replace(
        a_program(), specials=(("pe_index", 0),), register_dtypes=(i32, i1, i32), register_names=("", "", ""), body=body
    )


def launch(made: Program, **options: Any) -> tuple[Host, Any]:
    fields = {k: options.pop(k) for k in ("failure_policy",) if k in options}
    host = Host(GraphEngine(GRAPH, **options))
    ref, binary = host.deploy(made)
    key = content_hash(binary.debug)
    handle = host.launch(ref, TARGETS, meta={"symbols": key}, buffers={key: binary.debug}, **fields)
    host.engine.run()
    return host, handle


def fails_on(index: int) -> tuple[Any, ...]:
    return is_pe(index), If(Reg(1), (Assert(False, "told to", LINE),), span=LINE)


def test_all_pes_start_their_body_at_one_instant() -> None:
    host, handle = launch(program(COUNT))
    kernels = host.engine.op_log.where(op_kind="kernel")

    assert handle.completion.ok, handle.completion
    assert len(kernels) == len(TARGETS)
    assert len({record.t_start_ps for record in kernels}) == 1
    assert {record.src for record in host.engine.op_log.where(op_kind="scalar")} == {"k.tl:7:5"}


def test_what_is_at_work_before_the_barrier_is_not_the_launchs() -> None:
    """The code that PEs fetch does not count as what the links carried from barrier to end."""
    host, handle = launch(program(COUNT))

    assert host.engine.op_log.where(op_kind="code_fetch")
    assert () == host.engine.summary(handle).links


def test_a_failed_assert_stops_the_endless_work_of_the_others() -> None:
    host, handle = launch(program(*fails_on(13), ENDLESS))

    assert (handle.completion.ok, handle.completion.error_code) == (False, "E_KERNEL_ASSERT")
    assert handle.completion.error_message.startswith("sip0.cube1.pe5: ")
    assert handle.completion.error_message.endswith("k.tl:7:5")
    assert handle.fault.span == LINE
    assert sum(result.aborted for result in handle.results.values()) == len(TARGETS) - 1
    assert sum(host.engine.summary(handle).terms_ps.values()) == handle.total_ps


def test_collect_all_tells_every_failed_pe() -> None:
    _, handle = launch(program(*fails_on(3), *fails_on(20), COUNT), failure_policy="collect_all")

    assert [tag for tag, result in handle.results.items() if not result.ok] == [TARGETS[3], TARGETS[20]]
    assert handle.completion.error_message.count("k.tl:7:5") == 2


def test_an_endless_loop_meets_the_time_limit() -> None:
    host, handle = launch(program(ENDLESS), limits=Limits(max_time_ns=3000))

    assert handle.completion.error_code == "E_TIME_LIMIT"
    assert host.engine.now_ps == 3_000_000


def test_an_endless_loop_meets_the_wall_limit() -> None:
    _, handle = launch(program(ENDLESS), limits=Limits(max_wall_s=0.05, look_every=50))

    assert handle.completion.error_code == "E_WALL_LIMIT"


@pytest.mark.parametrize("mode", ["data", "timing"])
def test_a_device_with_a_failure_behind_it_runs_the_next_launch(mode: Any) -> None:
    host, handle = launch(program(*fails_on(0)), mode=mode)
    ref, _ = host.deploy(program(COUNT), offset=1 << 21)
    again = host.launch(ref, TARGETS)
    host.engine.run()

    assert not handle.completion.ok
    assert again.completion.ok
