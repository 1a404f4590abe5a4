"""PE_CPU: control flow, its cost, its waits, and how a kernel ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from kernbench.commands import (
    Assert,
    Block,
    Exit,
    If,
    Loop,
    Move,
    Node,
    ReadScalar,
    Reg,
    ScalarLoad,
    ScalarOp,
    ScalarStore,
    Wait,
    While,
    affine,
)
from kernbench.dtypes import DType, bf16, fp32, i1, i8, i32, i64
from kernbench.sim.launch_context import PeResult
from kernbench.sim.topology import load_topology
from kernbench.sim.windows import Windows
from tests.sim.pe_helpers import (
    Bench,
    box,
    composite,
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

A, B, C, D = 1, 2, 3, 4  # registers behind the one pointer


def op(dst: int, kind: str, *args: Any, dtype: DType = i32, line: int = 1) -> ScalarOp:
    boolean = kind in ("lt", "le", "gt", "ge", "eq", "ne")
    return ScalarOp(dst, kind, args, i1 if boolean else dtype, tuple(dtype for _ in args), span(line))


def store(value: Any, at: int = 0, dtype: DType = i32, **fields: Any) -> ScalarStore:
    return ScalarStore(900 + at, pointer(0, dtype.nbytes * at), value, dtype, dtype, span=span(90), **fields)


def result_of(body: Sequence[Node], registers: int = 4, size: int = 8) -> list[int]:
    """What a body leaves in an int32 tensor; both modes must log the same."""
    arrays = [np.zeros(size, np.int32)]
    out, bench, result = run_values(body, arrays, [i32] * registers)
    _, timing, _ = run_values(body, arrays, [i32] * registers, mode="timing")
    assert result.ok, result.message
    assert log_text(bench) == log_text(timing)
    return [int(value) for value in out[0]]


# --------------------------------------------------------------------------- control flow


def test_a_loop_carries_values_and_turns_rotations() -> None:
    body = (
        op(C, "add", Reg(C), Reg(A)),
        op(D, "mul", Reg(D), 3),
        op(D, "add", Reg(D), Reg(B)),
    )
    loop = Loop(A, 0, 7, 2, body, init=(Move(C, 0), Move(D, 0)), rotations=((B, 3),), span=span(1))

    assert [0 + 2 + 4 + 6, ((1 * 3) + 2) * 3 + 0, 0, 0] == result_of([loop, store(Reg(C)), store(Reg(D), 1)])[:4]


@pytest.mark.parametrize(
    ("start", "stop", "step", "trips"), [(0, 0, 1, 0), (3, 1, 1, 0), (5, 0, -2, 3), (-4, 5, 4, 3), (0, 1, 7, 1)]
)
def test_trips_are_those_of_range(start: int, stop: int, step: int, trips: int) -> None:
    loop = Loop(
        A, start, stop, step, (op(B, "add", Reg(B), 1), op(C, "add", Reg(C), Reg(A))), init=(Move(B, 0), Move(C, 0))
    )
    expected = [len(range(start, stop, step)), sum(range(start, stop, step))]

    assert [trips, expected[1]] == result_of([loop, store(Reg(B)), store(Reg(C), 1)])[:2]


def test_moves_are_parallel() -> None:
    loop = Loop(A, 0, 3, 1, (), init=(Move(B, 1), Move(C, 2)), moves=(Move(B, Reg(C)), Move(C, Reg(B))))

    assert [2, 1] == result_of([loop, store(Reg(B)), store(Reg(C), 1)])[:2]


def test_nested_loops_with_bounds_from_registers() -> None:
    inner = Loop(B, 0, affine(1, {A: 1}), 1, (op(C, "add", Reg(C), 1),))
    outer = Loop(A, 0, 4, 1, (inner,), init=(Move(C, 0),))

    assert 1 + 2 + 3 + 4 == result_of([outer, store(Reg(C))])[0]


def test_a_while_loop() -> None:
    """Collatz steps of 6."""
    odd = op(B, "and", Reg(A), 1)
    step = If(Reg(B), (op(A, "mul", Reg(A), 3), op(A, "add", Reg(A), 1)), (op(A, "idiv", Reg(A), 2),))
    loop = While(
        (op(D, "ne", Reg(A), 1),),
        Reg(D),
        (odd, step, op(C, "add", Reg(C), 1)),
        init=(Move(A, 6), Move(C, 0)),
        span=span(1),
    )

    assert 8 == result_of([loop, store(Reg(C))])[0]


@pytest.mark.parametrize("taken", [0, 1])
def test_a_branch_makes_the_moves_of_its_side(taken: int) -> None:
    branch = If(Reg(A), (), (), then_moves=(Move(B, 10),), else_moves=(Move(B, 20),), span=span(1))

    assert [20, 10][taken] == result_of([op(A, "add", taken, 0), branch, store(Reg(B))])[0]


def test_an_exit_leaves_its_block_out_of_a_loop() -> None:
    hit = If(Reg(B), (Exit(7, (Move(C, Reg(A)),)),), span=span(2))
    loop = Loop(A, 0, 100, 1, (op(B, "eq", Reg(A), 5), hit))
    block = Block(7, (loop, op(C, "add", 99, 0)))

    assert [5, 1] == result_of([block, store(Reg(C)), store(1, 1)])[:2]


def test_an_inner_block_does_not_end_the_outer_one() -> None:
    inner = Block(2, (Exit(2, (Move(B, 1),)), op(B, "add", 50, 0)))
    body = [Block(1, (inner, op(C, "add", Reg(B), 1), Exit(1), op(C, "add", 60, 0))), store(Reg(C))]

    assert 2 == result_of(body)[0]


def test_integers_wrap_in_their_width() -> None:
    assert [-(2**31), -128] == result_of(
        [op(A, "add", 2**31 - 1, 1), op(B, "add", 127, 1, dtype=i8), store(Reg(A)), store(Reg(B), 1)]
    )[:2]


# --------------------------------------------------------------------------- time


def test_scalars_of_a_line_are_one_record_of_a_cycle_each() -> None:
    body = [op(A, "add", 1, 1), op(B, "add", 1, 1), op(C, "add", 1, 1, line=2), Wait(1, ())]
    _, bench, _ = run_values(body, [np.zeros(1, np.int32)], [i32] * 4)
    scalars = [(r.t_start_ps, r.t_end_ps, r.src, dict(r.params or {})) for r in bench.records("scalar")]

    assert [
        (0, 2000, "k.tl:1:1", {"instructions": 2}),
        (2000, 3000, "k.tl:2:1", {"instructions": 1}),
        (3000, 4000, "", {"instructions": 1}),
    ] == scalars


def test_dispatch_takes_its_fixed_cost_and_its_bytes() -> None:
    """Rounded up to a picosecond."""
    spec = load_topology("ahbm_1x1").spec.pe
    rate = replace(spec.pe_cpu.dispatch, fixed_ns=Decimal(32), bytes_per_ns=Decimal("1.5"))
    bench = Bench("timing", pe_cpu=replace(spec.pe_cpu, dispatch=rate))
    x = tcm(0, (64,))
    bench.run(program([composite(0, math_op("exp", x, src=x))], 0), [])
    (record,) = bench.records("dispatch")

    assert (32, 32_000 + 21_334) == (record.nbytes, record.duration_ps)


def test_a_full_queue_stalls_and_the_stall_is_logged() -> None:
    spec = load_topology("ahbm_1x1").spec.pe
    bench = Bench("timing", pe_cpu=replace(spec.pe_cpu, queue_depth=1))
    x, y = tcm(0, (65536,)), tcm(262144, (65536,))
    body = [composite(k, math_op("exp", x, src=y if k else x)) for k in range(4)]
    bench.run(program(body, 0), [])
    stalls = [r for r in bench.records("stall") if r.component.endswith("pe_cpu")]

    assert "queue full" == stalls[0].op_name
    assert stalls[0].t_end_ps in {r.t_end_ps for r in bench.records("math")}


def test_a_wait_ends_with_the_commands_that_touch_its_blocks() -> None:
    x, y = tcm(0, (4096,)), tcm(16384, (65536,))
    body = [
        composite(0, math_op("exp", x, src=x)),
        composite(1, math_op("exp", y, src=y)),
        Wait(2, (x,), span(5)),
        composite(3, math_op("exp", tcm(400_000, (8,)), src=tcm(400_064, (8,)))),
    ]
    _, bench, _ = run_values(body, [np.zeros(1, np.int32)])
    first = bench.records("math")[0]
    waits = [r for r in bench.records("wait") if r.op_name == "wait"]
    after = bench.records("dispatch")[2]

    assert first.t_end_ps <= after.t_start_ps < bench.records("math")[1].t_end_ps
    assert all(r.t_end_ps == first.t_end_ps for r in waits)


def test_an_endless_loop_lets_the_clock_go_on() -> None:
    bench = Bench("timing")
    results: list[PeResult] = []
    endless = While((), 1, (), span=span(1))
    bench.pes[(0, 0, 0)].launch(bench.context(program([endless], 0), Windows(())), None, results.append)

    assert not bench.clock.run(until_ps=50_000_000)
    assert 50_000_000 == bench.clock.now
    bench.pes[(0, 0, 0)].abort()
    bench.clock.run()
    assert (False, True) == (results[0].ok, results[0].aborted)


# --------------------------------------------------------------------------- scalars in memory


def test_scalar_loads_and_stores_go_through_memory() -> None:
    x = np.array([5, 7, 0], np.int32)
    body = [
        ScalarLoad(0, A, pointer(0), i32, span=span(1)),
        ScalarLoad(1, B, pointer(0, 4), i32, span=span(2)),
        op(C, "add", Reg(A), Reg(B)),
        store(Reg(C), 2),
    ]
    out, bench, result = run_values(body, [x], [i32] * 4)
    load = bench.records("dma_read")[0]

    assert result.ok and 12 == out[0][2]
    assert ("sip0.cube0.pe0.pe_cpu", "scalar_load", 4) == (load.component, load.op_name, load.nbytes)
    assert 54_100 + -(-4 * 10**12 // 135_900_000_000) == load.duration_ps


def test_a_load_with_a_false_predicate_gives_other_and_touches_nothing() -> None:
    load = ScalarLoad(0, A, pointer(0, 1 << 40), i32, preds=(0,), other=9, span=span(1))
    body = [load, store(Reg(A)), store(1, 1 << 20, preds=(0,))]

    assert 9 == result_of(body)[0]


def test_scalar_values_are_cast_to_the_type_that_memory_holds() -> None:
    out, _, _ = run_values(
        [ScalarStore(0, pointer(0), 1 + 2**-8, bf16, fp32, span=span(1))], [np.zeros(2, bf16.numpy)], [fp32]
    )

    assert 1.0 == float(out[0][0])


def test_a_scalar_load_sees_the_store_before_it() -> None:
    block = tcm(0, (256,), i32)
    body = [
        read(0, block, box(pointer(0, 1024), (256,), i32)),
        write(1, block, box(pointer(0), (256,), i32)),
        ScalarLoad(2, A, pointer(0, 4 * 200), i32, span=span(1)),
        store(Reg(A), 511),
    ]
    out, _, _ = run_values(body, [np.arange(512, dtype=np.int32)], [i32] * 4)

    assert 456 == out[0][511]


def test_a_reduced_value_steers_the_program() -> None:
    """sum of a block as a loop bound: in data mode only."""
    x = np.array([1, 2, 3, 0], np.int32)
    block, total = tcm(0, (4,), i32), tcm(256, (1,), i32)
    body = [
        read(0, block, box(pointer(0), (4,), i32)),
        composite(1, math_op("rsum", total, src=block, axis=0)),
        ReadScalar(2, A, total, span(4)),
        Loop(B, 0, Reg(A), 1, (op(C, "add", Reg(C), 1),), init=(Move(C, 0),), span=span(5)),
        store(Reg(C), 3),
    ]
    out, _, result = run_values(body, [x], [i32] * 4)
    assert result.ok and 6 == out[0][3]

    _, _, result = run_values(body, [x], [i32] * 4, mode="timing")
    assert ("E_TIMING_NEEDS_DATA", 5) == (result.error_code, result.span.line)  # type: ignore[union-attr]
    assert "`t`" in result.message and "k.tl:4:1" in result.message


def test_inputs_in_the_static_slice_keep_their_values_in_timing_mode() -> None:
    """A loop bound loaded from an input, and one computed from it in TCM."""
    x = np.array([3, 4, 0, 0], np.int32)
    block, total = tcm(0, (2,), i32), tcm(256, (1,), i32)
    body = [
        ScalarLoad(0, A, pointer(0), i32, static=True, span=span(1)),
        read(1, block, box(pointer(0), (2,), i32), static=True),
        composite(2, math_op("rsum", total, src=block, axis=0), static=True),
        ReadScalar(3, B, total, span(4), static=True),
        Loop(C, 0, affine(0, {A: 1, B: 10}), 1, (op(D, "add", Reg(D), 1),), init=(Move(D, 0),), span=span(5)),
        store(Reg(D), 3),
    ]

    out, bench, _ = run_values(body, [x], [i32] * 4)
    _, timing, result = run_values(body, [x], [i32] * 4, mode="timing")
    assert 73 == out[0][3]
    assert result.ok and log_text(bench) == log_text(timing)


def test_unknown_values_may_be_stored_and_asserted_in_timing_mode() -> None:
    body = [
        ScalarLoad(0, A, pointer(0), i32, span=span(1)),
        op(B, "mul", Reg(A), 2),
        Assert(Reg(B), "never zero", span(3)),
        store(Reg(B), 1),
    ]

    assert [21, 42] == [int(value) for value in run_values(body, [np.array([21, 0], np.int32)], [i32] * 4)[0][0]]
    assert run_values(body, [np.array([0, 0], np.int32)], [i32] * 4, mode="timing")[2].ok


# --------------------------------------------------------------------------- launch and end


def launch(bench: Bench, body: Sequence[Node], target_ps: int | None = None, **fields: Any) -> list[PeResult]:
    results: list[PeResult] = []
    context = bench.context(program(body, 0, [i32] * 5), Windows(()), **fields)
    bench.pes[(0, 0, 0)].launch(context, target_ps, results.append)
    return results


def test_the_body_starts_at_the_barrier() -> None:
    bench = Bench()
    results = launch(bench, [op(A, "add", 1, 1)], 5000)
    bench.clock.run()
    (kernel,) = bench.records("kernel")

    assert (5000, 6000) == (results[0].exec_start_ps, results[0].exec_end_ps) == (kernel.t_start_ps, kernel.t_end_ps)


def test_a_launch_after_its_barrier_is_a_fault() -> None:
    bench = Bench()
    bench.clock.call_at(6000, lambda: None)
    bench.clock.run()
    results = launch(bench, [op(A, "add", 1, 1)], 5999)
    bench.clock.run()

    assert (False, "E_LATE_LAUNCH", None) == (results[0].ok, results[0].error_code, results[0].exec_start_ps)
    assert [] == bench.records("kernel")


def test_programs_run_one_after_the_other_with_their_own_ids() -> None:
    bench = Bench()
    window, places = bench.put(np.zeros(6, np.int32))
    kernel = program([store_at_program()], 1, [i32, i32, i32])
    kernel = replace(kernel, specials=(("program_id_0", 1), ("program_id_1", 2), ("num_programs_0", 3)))
    result = bench.run(kernel, [window], num_programs=(3, 2, 1), program_ids=range(1, 5))

    assert result.ok
    assert [0, 301, 302, 310, 311, 0] == bench.get(places, np.zeros(6, np.int32)).tolist()


def store_at_program() -> ScalarStore:
    """[y × 3 + x] ← 100 × num_x + 10 × y + x."""
    return ScalarStore(0, affine(0, {0: 1, 1: 4, 2: 12}), affine(0, {1: 1, 2: 10, 3: 100}), i32, i64, span=span(1))


def test_no_programs_and_an_empty_body_end_at_once() -> None:
    bench = Bench()
    assert 0 == bench.run(program([], 0), [], program_ids=()).exec_end_ps
    assert 0 == bench.run(program([], 0), []).exec_end_ps


@pytest.mark.parametrize(
    ("message", "said"), [("one is two", "assertion failed: one is two"), ("", "assertion failed")]
)
def test_an_assertion_ends_the_kernel_with_its_line(message: str, said: str) -> None:
    body = [op(A, "eq", 1, 2), Assert(Reg(A), message, span(12)), store(1)]
    out, _, result = run_values(body, [np.zeros(8, np.int32)], [i32] * 4)

    assert (False, "E_KERNEL_ASSERT", 12) == (result.ok, result.error_code, result.span.line)  # type: ignore[union-attr]
    assert said == result.message
    assert not out[0].any()


def test_what_is_in_flight_at_a_fault_finishes_and_the_pe_runs_again() -> None:
    bench = Bench()
    window, places = bench.put(np.zeros(4096, np.float32))
    x = tcm(0, (4096,))
    body = [
        composite(0, math_op("exp", x, src=x)),
        write(1, x, box(pointer(0), (4096,))),
        Wait(2, (tcm(100_000, (1,)),)),
        Assert(0, "stop", span(3)),
    ]
    result = bench.run(program(body), [window])
    failed = result.failed_ps
    assert failed is not None and result.exec_end_ps is not None
    assert failed < result.exec_end_ps == bench.records("math")[-1].t_end_ps
    assert not bench.get(places, np.zeros(4096, np.float32)).any()

    assert bench.run(program(body[:2]), [window]).ok
    assert bench.get(places, np.zeros(4096, np.float32)).all()


def test_an_abort_stops_a_pe_at_its_next_command() -> None:
    bench = Bench("timing")
    x = tcm(0, (65536,))
    results = launch(bench, [composite(k, math_op("exp", x, src=x)) for k in range(20)])
    bench.clock.call_at(100_000, bench.pes[(0, 0, 0)].abort)
    bench.clock.run()

    assert (False, True, None) == (results[0].ok, results[0].aborted, results[0].error_code)
    assert 1 == len(bench.records("math"))
    assert results[0].exec_end_ps == bench.records("math")[0].t_end_ps


def test_an_abort_before_the_barrier_ends_without_a_body() -> None:
    bench = Bench("timing")
    results = launch(bench, [op(A, "add", 1, 1)], 5000)
    bench.pes[(0, 0, 0)].abort()
    bench.clock.run()

    assert (True, None) == (results[0].aborted, results[0].exec_start_ps)
    assert [] == bench.records()


def test_a_kernel_that_needs_more_tcm_than_there_is_is_a_fault() -> None:
    result = Bench().run(replace(program([], 0), tcm_bytes=1572865), [])

    assert "E_TCM_BOUNDS" == result.error_code


def test_two_runs_in_one_process_log_the_same() -> None:
    x = tcm(0, (64,))
    body = [composite(0, math_op("exp", x, src=x)), op(A, "add", 1, 1), store(Reg(A))]
    first = run_values(body, [np.zeros(8, np.int32)], [i32] * 4)[1]
    second = run_values(body, [np.zeros(8, np.int32)], [i32] * 4)[1]

    assert log_text(first) == log_text(second)
