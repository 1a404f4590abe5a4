"""Composites that are alone on the engines are booked at once: the log and the values are those of stage by stage."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernbench as kb
from kernbench.diagnostics import KernBenchError
from kernbench.sim.clock import Clock
from kernbench.sim.composite_command import CompositeCommand
from kernbench.sim.engine import Limits
from kernbench.sim.rehearsal import join
from kernbench.sim.topology import load_topology_text
from tests.kernels.helpers import HEAD, log_text, run_text, shipped

STEPS = (
    "p = tl.dot(a, b, p)",
    "q = tl.dot(b, a, q)",
    "p = tl.dot(a, a, p)",
    "q = q * 2.0 + p",
    "r = tl.exp(r * 0.1)",
    "r = r + tl.sum(r, axis=1)[:, None]",
    "q = tl.dot(r.to(tl.bfloat16), b, q)",
    "a = (p * 0.01).to(tl.bfloat16)",
)


def topology(issue: str, bytes_per_ns: int, depth: int) -> Any:
    """A fast hand-over lets composites meet on the engines."""
    return load_topology_text(f"""
extends: ahbm_1x1
pe:
  pe_scheduler: {{issue: {issue}}}
  pe_cpu: {{queue_depth: {depth}, dispatch: {{fixed_ns: 1, bytes_per_ns: {bytes_per_ns}}}}}
""")


def kernel(steps: list[str], size: int) -> str:
    lines = [
        "def k(x_ptr, y_ptr, o_ptr):",
        f"i = tl.arange(0, {size})[:, None] * {size} + tl.arange(0, {size})[None, :]",
        "a, b = tl.load(x_ptr + i), tl.load(y_ptr + i)",
        f"p = tl.zeros(({size}, {size}), tl.float32)",
        "q, r = p + 1.0, a.to(tl.float32)",
        "for _ in range(3):",
        *(f"    {step}" for step in steps),
        "tl.store(o_ptr + i, p + q + r)",
    ]
    return "\n    ".join(lines)


def outcome(steps: list[str], size: int, device: Any, mode: str) -> tuple[str, bytes]:
    rng = np.random.default_rng(size)
    x, y = (rng.standard_normal((size, size), np.float32) * 0.1 for _ in "xy")
    arguments = {"x_ptr": x.astype(np.float16), "y_ptr": y.astype(np.float16), "o_ptr": np.zeros_like(x)}
    run = run_text(kernel(steps, size).replace("bfloat16", "float16"), arguments, mode, device)
    return log_text(run), run["o_ptr"].tobytes() if mode == "data" else b""


def stage_by_stage(monkeypatch: pytest.MonkeyPatch, measure: Callable[[], Any]) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(CompositeCommand, "_engines_are_idle", lambda self: False)
        return measure()


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(st.sampled_from(STEPS), min_size=2, max_size=7),
    issue=st.sampled_from(["in_order", "rw_aware"]),
    bytes_per_ns=st.sampled_from([2, 40, 2000]),
    depth=st.sampled_from([1, 3, 16]),
    size=st.sampled_from([16, 64, 128]),
)
def test_the_log_and_the_values_are_the_same(
    steps: list[str], issue: str, bytes_per_ns: int, depth: int, size: int
) -> None:
    device = topology(issue, bytes_per_ns, depth)
    with pytest.MonkeyPatch.context() as patch:
        for mode in ("timing", "data"):
            found = outcome(steps, size, device, mode)
            assert found == stage_by_stage(patch, partial(outcome, steps, size, device, mode))


def test_both_ways_and_the_change_between_them_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The property above would hold for nothing if composites never met, or were never alone."""
    alone, joined = [], []
    end = CompositeCommand._end_rehearsed

    def ends(self: CompositeCommand) -> None:
        alone.append(self._rehearsal is not None)
        end(self)

    def joins(*arguments: Any) -> None:
        joined.append(True)
        join(*arguments)

    monkeypatch.setattr(CompositeCommand, "_end_rehearsed", ends)
    monkeypatch.setattr("kernbench.sim.composite_command.join", joins)
    outcome(list(STEPS[:5]), 128, topology("in_order", 2000, 16), "timing")

    assert any(alone) and joined
    assert alone.count(False) == len(joined)


@pytest.mark.parametrize(
    "name", ["matmul", "gemm_tensor_parallel", "flash_attention", "gqa_decode_opt2", "gqa_decode_opt3", "gemm_int4"]
)
def test_shipped_kernels_have_one_log(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_text(shipped(name, mode="timing")[0])

    assert log == stage_by_stage(monkeypatch, lambda: log_text(shipped(name, mode="timing")[0]))


def test_a_run_that_is_stopped_keeps_what_had_begun() -> None:
    """Of a composite under way too, as far as it is."""
    whole = stages_begun(None)
    (first, *_), last = whole, whole[-1]
    middle = first + (last - first) // 2 // 1000 * 1000
    stopped = stages_begun(Limits(max_time_ns=middle // 1000))

    assert [t for t in whole if t <= middle] == stopped
    assert 0 < len(stopped) < len(whole)


@pytest.mark.parametrize("stop_ns", range(2450, 3450, 97))
def test_a_run_that_is_stopped_has_one_log(stop_ns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that had not begun is in it, though engines book ahead."""
    stopped = stages_begun(Limits(max_time_ns=stop_ns))

    assert all(t <= stop_ns * 1000 for t in stopped)
    assert stopped == stage_by_stage(monkeypatch, lambda: stages_begun(Limits(max_time_ns=stop_ns)))


def stages_begun(limits: Limits | None) -> list[int]:
    """When the products of one composite start, in ps."""
    text = """def k(x_ptr, o_ptr):
    i = tl.arange(0, 128)[:, None] * 128 + tl.arange(0, 128)[None, :]
    a = tl.load(x_ptr + i)
    tl.store(o_ptr + i, tl.dot(a, a))
"""
    x = np.ones((128, 128), np.float16)
    device = kb.open("ahbm_1x1", limits=limits)
    arguments = {"x_ptr": x, "o_ptr": np.zeros((128, 128), np.float32)}
    try:
        run = device.run(kb.compile(HEAD + text, {}), arguments, mode="timing")
    except KernBenchError as failed:
        assert failed.run is not None
        run = failed.run
    assert run.op_log is not None
    return [record.t_start_ps for record in run.op_log.where(op_kind="gemm")]


def test_a_clock_hands_over_what_is_left() -> None:
    told: list[tuple[str, int]] = []
    past, clock = Clock(100), Clock()
    for t_ps in (150, 200, 250, 250):
        past.call_at(t_ps, lambda t_ps=t_ps: told.append(("past", t_ps)))
    clock.call_at(200, lambda: None)
    clock.run()
    past.run_before(200, (0, ()))
    past.hand_over(clock)

    assert told == [("past", 150), ("past", 200)]
    clock.run()
    assert told[2:] == [("past", 250), ("past", 250)]
    assert clock.now == 250
