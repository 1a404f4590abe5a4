"""Kernels of several PEs have one log, whether flows and composites by themselves are booked to their end or not.

Round figures for bandwidths and latencies make much happen in one instant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernbench as kb
from kernbench.diagnostics import KernBenchError
from kernbench.sim.composite_command import CompositeCommand
from kernbench.sim.network import Network
from kernbench.sim.topology import load_topology_text
from tests.kernels.helpers import HEAD, log_text

SIZE = 16
STEPS = (
    "p = tl.dot(a, b, p)",
    "p = tl.dot(tl.load(x_ptr + next), b, p)",
    "p = p * 0.5 + 1.0",
    "p = p + tl.sum(p, axis=1)[:, None]",
    "a = tl.load(x_ptr + own)",
    "b = tl.load(x_ptr + next)",
    "b = tl.load(x_ptr + tile)",
    "p = p + tl.load(x_ptr + across)",
    "p = p + tl.load(o_ptr + own)",
    "tl.store(o_ptr + own, p)",
    "tl.store(o_ptr + own, p, mask=tile < pid * 70)",
    "tl.atomic_add(c_ptr + pid % 2, 1)",
    "tl.device_assert(pid * 3 + turn < 9)",
    "if pid % 2 == 0:\n            p = p + 1.0",
)


@st.composite
def topologies(draw: st.DrawFn) -> Any:
    link = draw(st.sampled_from([64, 1000]))
    pick = {
        "base": draw(st.sampled_from(["ahbm_2sip_1x1", "ahbm_2x2"])),
        "issue": draw(st.sampled_from(["in_order", "rw_aware"])),
        "depth": draw(st.sampled_from([1, 2, 8])),
        "rate": draw(st.sampled_from([2, 1000, 100_000])),
        "outstanding": draw(st.sampled_from([1, 2, 8])),
        "hbm": draw(st.sampled_from([link, link // 2, 2 * link])),
        "latency": draw(st.sampled_from([0, 1, 16])),
        "link": link,
        "hop": draw(st.sampled_from([0, 1, 4])),
    }
    text = """
extends: {base}
ns_per_mm: 0
pe:
  pe_scheduler: {{issue: {issue}}}
  pe_cpu: {{queue_depth: {depth}, dispatch: {{fixed_ns: 0, bytes_per_ns: {rate}}}}}
  pe_dma: {{outstanding: {outstanding}}}
cube:
  hbm: {{bw_gbs: {hbm}, overhead_ns: {latency}}}
  router_mesh: {{bw_gbs: {link}, overhead_ns: {hop}}}
"""
    return load_topology_text(text.format(**pick))


def kernel(steps: list[str], programs: int) -> str:
    lines = [
        "def k(x_ptr, o_ptr, c_ptr):",
        "pid = tl.program_id(0)",
        f"tile = tl.arange(0, {SIZE})[:, None] * {SIZE} + tl.arange(0, {SIZE})[None, :]",
        f"across = tl.arange(0, {SIZE})[:, None] + tl.arange(0, {SIZE})[None, :] * {SIZE}",
        f"own, next = tile + pid * {SIZE * SIZE}, tile + (pid * 5 + 3) % {programs} * {SIZE * SIZE}",
        "a, b = tl.load(x_ptr + own), tl.load(x_ptr + next)",
        f"p = tl.zeros(({SIZE}, {SIZE}), tl.float32)",
        "for turn in range(2):",
        *(f"    {step}" for step in steps),
        "tl.store(o_ptr + own, p)",
    ]
    return HEAD + "\n    ".join(lines)


def outcome(text: str, programs: int, device: Any, mode: str) -> tuple[Any, ...]:
    """The log, what it sums up to, what was found and what was stored."""
    x = np.random.default_rng(0).standard_normal(programs * SIZE * SIZE, np.float32).astype(np.float16)
    arguments = {"x_ptr": x, "o_ptr": np.zeros(x.shape, np.float32), "c_ptr": np.zeros(2, np.int32)}
    try:
        run = kb.open(device).run(kb.compile(text, {}), arguments, (programs,), mode=mode)
    except KernBenchError as failed:
        assert failed.run is not None
        run = failed.run
    values = [run[name].tobytes() for name in ("o_ptr", "c_ptr")] if mode == "data" and run.ok else []
    return log_text(run), run.to_json(), [found.render() for found in run.diagnostics], values


def booked_stage_by_stage(measure: Callable[[], Any]) -> Any:
    def share(self: Network, flow: Any) -> bool:
        self._arriving.update(dict.fromkeys(flow.flow_class.channels))
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network, "_make_alone", share)
        patch.setattr(CompositeCommand, "_engines_are_idle", lambda self: False)
        return measure()


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    steps=st.lists(st.sampled_from(STEPS), min_size=2, max_size=6),
    programs=st.sampled_from([2, 3, 4, 7]),
    device=topologies(),
    mode=st.sampled_from(["timing", "data"]),
)
def test_kernels_of_several_pes_have_one_log(steps: list[str], programs: int, device: Any, mode: str) -> None:
    text = kernel(steps, programs)

    assert outcome(text, programs, device, mode) == booked_stage_by_stage(lambda: outcome(text, programs, device, mode))
