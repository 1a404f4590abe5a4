"""What is skipped is as if it had been played: log, sums, findings and values are those of the plain way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernbench as kb
from kernbench.diagnostics import KernBenchError
from kernbench.sim.engine import Limits
from kernbench.sim.laps import Laps
from kernbench.sim.pe_command import Command
from kernbench.sim.pe_state import PeState
from kernbench.sim.topology import load_topology_text
from tests.kernels.helpers import HEAD, log_text, shipped

SIZE = 16
BLOCK = SIZE * SIZE
STEPS = (
    "p = tl.dot(a, b, p)",
    "p = p * 0.5 + 1.0",
    "p = p + tl.sum(p, axis=1)[:, None]",
    "a = tl.load(x_ptr + own)",
    "a = tl.load(x_ptr + own + turn * 8)",
    "b = tl.load(x_ptr + next, mask=next < n - turn * 40, other=0.0)",
    "b = tl.load(x_ptr + across)",
    "p = p + tl.load(o_ptr + own)",
    "p = p + tl.load(o_ptr + (next + turn * 64) % (n - 256))",
    "tl.store(o_ptr + own, p)",
    "tl.store(o_ptr + own, p, mask=tile < turn * 70)",
    "tl.store(o_ptr + next, p, mask=tile < 100)",
    "if turn % 3 == 1:\n            p = p + 1.0",
    "for _ in range(turn % 2 + 1):\n            p = p * 2.0",
    "tl.device_assert(pid * 3 + turn < 40)",
)


@st.composite
def topologies(draw: st.DrawFn) -> Any:
    """Round figures for bandwidths and latencies make much happen in one instant."""
    link = draw(st.sampled_from([64, 1000]))
    text = """
extends: ahbm_1x1
ns_per_mm: 0
pe:
  pe_scheduler: {{issue: {issue}}}
  pe_cpu: {{queue_depth: {depth}, dispatch: {{fixed_ns: {fixed}, bytes_per_ns: {rate}}}}}
  pe_dma: {{outstanding: {outstanding}}}
cube:
  hbm: {{bw_gbs: {hbm}, overhead_ns: {latency}}}
  router_mesh: {{bw_gbs: {link}, overhead_ns: {hop}}}
"""
    return load_topology_text(
        text.format(
            issue=draw(st.sampled_from(["in_order", "rw_aware"])),
            depth=draw(st.sampled_from([1, 2, 8])),
            fixed=draw(st.sampled_from([0, 1, 7])),
            rate=draw(st.sampled_from([2, 1000, 100_000])),
            outstanding=draw(st.sampled_from([1, 2, 8])),
            hbm=draw(st.sampled_from([link, link // 2, 2 * link])),
            latency=draw(st.sampled_from([0, 1, 16])),
            link=link,
            hop=draw(st.sampled_from([0, 1, 4])),
        )
    )


def kernel(steps: list[str]) -> str:
    lines = [
        "def k(x_ptr, o_ptr, n, TURNS: tl.constexpr):",
        "pid = tl.program_id(0)",
        f"tile = tl.arange(0, {SIZE})[:, None] * {SIZE} + tl.arange(0, {SIZE})[None, :]",
        f"across = tl.arange(0, {SIZE})[:, None] + tl.arange(0, {SIZE})[None, :] * {SIZE}",
        f"own, next = tile + pid * {BLOCK}, tile + (pid * 5 + 3) % tl.num_programs(0) * {BLOCK}",
        "a, b = tl.load(x_ptr + own), tl.load(x_ptr + next)",
        f"p, m = tl.zeros(({SIZE}, {SIZE}), tl.float32), 0",
        "for turn in range(TURNS):",
        *(f"    {step}" for step in steps),
        "tl.store(o_ptr + own, p)",
    ]
    return HEAD + "\n    ".join(lines)


def outcome(
    steps: list[str], programs: int, turns: int, device: Any, mode: str, limits: Limits | None = None
) -> tuple[Any, ...]:
    """The log, what it sums up to, what was found and what was stored."""
    x = np.random.default_rng(0).standard_normal((programs + 1) * BLOCK, np.float32).astype(np.float16)
    arguments = {"x_ptr": x, "o_ptr": np.zeros(x.shape, np.float32), "n": x.size}
    try:
        made = kb.compile(kernel(steps), {"TURNS": turns})
        run = kb.open(device, limits=limits).run(made, arguments, (programs,), mode=mode)
    except KernBenchError as failed:
        assert failed.run is not None
        run = failed.run
    values = run["o_ptr"].tobytes() if mode == "data" and run.ok else b""
    return log_text(run), run.to_json(), [found.render() for found in run.diagnostics], values


def played(measure: Callable[[], Any]) -> Any:
    """What `measure` finds where nothing is skipped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Laps, "skip_from", lambda self, command, after: command)
        return measure()


@contextmanager
def skipped() -> Iterator[list[int]]:
    """The numbers of commands that are skipped meanwhile."""
    counts: list[int] = []
    skip_from = Laps.skip_from

    def counted(self: Laps, command: Command, after: int) -> Command:
        later = skip_from(self, command, after)
        counts.append(later.origin.cmd - command.origin.cmd)
        return later

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Laps, "skip_from", counted)
        yield counts


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=5),
    programs=st.sampled_from([1, 2, 9, 24]),
    turns=st.sampled_from([1, 3, 6, 20]),
    device=topologies(),
    mode=st.sampled_from(["timing", "data"]),
)
def test_a_run_with_laps_skipped_is_the_same(
    steps: list[str], programs: int, turns: int, device: Any, mode: str
) -> None:
    found = outcome(steps, programs, turns, device, mode)

    assert found == played(lambda: outcome(steps, programs, turns, device, mode))


@pytest.mark.parametrize("bw_gbs", [10, 40, 100, 256])
@pytest.mark.parametrize(("block", "block_k"), [(32, 16), (32, 64), (64, 64)])
def test_laps_within_laps_are_the_same(block: int, block_k: int, bw_gbs: int) -> None:
    """Trips of a program are skipped first; then programs, whose laps hold such trips.

    Where memory is slow, commands that are under way when trips are skipped are on the tape already.
    """
    device = load_topology_text(f"extends: ahbm_1x1\ncube: {{hbm: {{bw_gbs: {bw_gbs}}}}}\n")
    size = {"M": 8 * block, "N": 4 * block, "K": 8 * block_k, "GROUP_M": 4}
    blocks = {"BLOCK_M": block, "BLOCK_N": block, "BLOCK_K": block_k}

    def measure() -> tuple[str, str, bytes]:
        run, _ = shipped("matmul", topology=device, **size, **blocks)
        return log_text(run), run.to_json(), run["c_ptr"].tobytes()

    with skipped() as counts:
        found = measure()

    assert found == played(measure)
    assert sum(counts) > found[0].count('"op_kind":"dispatch"') / 2


@pytest.mark.parametrize("mode", ["timing", "data"])
@pytest.mark.parametrize(
    ("steps", "programs", "turns"),
    [
        (["a = tl.load(x_ptr + own + turn * 8)", "p = tl.dot(a, b, p)"], 1, 60),
        (["a = tl.load(x_ptr + own)", "p = p + a", "tl.store(o_ptr + own, p)"], 40, 2),
        (["p = p * 0.5 + 1.0", "p = p + tl.sum(p, axis=1)[:, None]"], 3, 40),
    ],
)
def test_most_of_a_long_run_is_skipped(steps: list[str], programs: int, turns: int, mode: str) -> None:
    """The property above would hold for nothing if no state came back."""
    with skipped() as counts:
        found = outcome(steps, programs, turns, "ahbm_1x1", mode)

    assert sum(counts) > found[0].count('"op_kind":"dispatch"') / 2


@pytest.mark.parametrize("mode", ["timing", "data"])
@pytest.mark.parametrize(
    "name",
    [
        "cross_entropy", "cumsum", "dropout", "embedding", "flash_attention", "flash_attention_window",
        "gemm_bias_gelu", "gemm_int8", "gqa_decode_opt2", "gqa_decode_opt3", "layernorm", "matmul", "rmsnorm", "rope",
        "softmax", "swiglu", "topk", "vector_add",
    ],
)  # fmt: skip
def test_shipped_kernels_are_the_same(name: str, mode: str) -> None:
    def measure() -> tuple[str, str]:
        run, _ = shipped(name, mode=mode, topology="ahbm_1x1")
        return log_text(run), run.to_json()

    assert measure() == played(measure)


TURNS_AT_RANDOM = [
    "m = (m * 1103515245 + 12345) & 0x7FFFFFFF",
    "if (m >> 16) & 1:\n            p = p + 1.0\n        else:\n            p = tl.exp(p)",
]
LOAD_AND_STORE = ["a = tl.load(x_ptr + own)", "p = p + a", "tl.store(o_ptr + own, p)"]


@pytest.mark.parametrize("stop_ns", range(3000, 40_000, 3571))
def test_a_limit_of_time_is_met_where_it_is(stop_ns: int) -> None:
    def measure() -> Any:
        return outcome(LOAD_AND_STORE, 40, 4, "ahbm_1x1", "timing", Limits(max_time_ns=stop_ns))

    assert measure() == played(measure)


@pytest.mark.parametrize("look_every", [7, 100, 1000])
def test_a_limit_of_commands_is_noticed_where_it_was(look_every: int) -> None:
    def measure() -> Any:
        limits = Limits(max_commands=250, look_every=look_every)
        return outcome(LOAD_AND_STORE, 40, 4, "ahbm_1x1", "timing", limits)

    found = measure()

    assert found == played(measure)
    assert "E_COMMAND_LIMIT" in str(found)


@pytest.mark.parametrize("stop_ns", range(6000, 7000, 97))
def test_a_limit_tells_the_line_that_it_is_met_at(stop_ns: int) -> None:
    """The queue is full when the limit is met, and PE_CPU came to the skipped laps by way of another line."""
    steps = ["if turn == 15:\n            m = m ^ turn\n        else:\n            m = m | turn", "p = p * 0.5"]
    device = load_topology_text("extends: ahbm_1x1\npe: {pe_cpu: {queue_depth: 1}, pe_math: {lanes: 1}}\n")

    def measure() -> Any:
        return outcome(steps, 1, 200, device, "timing", Limits(max_time_ns=stop_ns))

    with skipped() as counts:
        found = measure()

    assert found == played(measure)
    assert sum(counts)
    assert "E_TIME_LIMIT" in str(found)


def test_a_fault_in_the_middle_is_met_where_it_is() -> None:
    """The block at the end leaves the tensor."""
    steps = ["p = p + tl.load(x_ptr + own + turn * 64)"]

    def measure() -> Any:
        return outcome(steps, 1, 40, "ahbm_1x1", "data")

    found = measure()

    assert found == played(measure)
    assert "E_OUT_OF_BOUNDS" in str(found)


def test_transfers_that_wait_for_the_window_are_skipped() -> None:
    steps = ["a, b = tl.load(x_ptr + own + turn * 8), tl.load(x_ptr + next)", "p = p + a + b"]
    device = load_topology_text("extends: ahbm_1x1\npe: {pe_dma: {outstanding: 1}}\ncube: {hbm: {bw_gbs: 10}}\n")

    def measure() -> Any:
        return outcome(steps, 40, 4, device, "data")

    with skipped() as counts:
        found = measure()

    assert found == played(measure)
    assert "window full" in found[0]
    assert sum(counts) > found[0].count('"op_kind":"dispatch"') / 2


@pytest.mark.parametrize("steps", [LOAD_AND_STORE, TURNS_AT_RANDOM])
def test_looking_in_vain_comes_to_an_end(steps: list[str]) -> None:
    """At random turns states come back, but the program seldom goes on as it did."""
    asked = 0
    at = PeState.at

    def counted(self: PeState, command: Command, after: int) -> Any:
        nonlocal asked
        asked += 1
        return at(self, command, after)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PeState, "at", counted)
        log, *_ = outcome(steps, 1, 2000, "ahbm_1x1", "timing")

    assert log.count('"op_kind":"dispatch"') > 2000
    assert asked < 200


def test_nothing_is_skipped_where_another_pe_runs() -> None:
    with skipped() as counts:
        outcome(LOAD_AND_STORE, 40, 4, "ahbm_2x2", "timing")

    assert not sum(counts)


def test_what_addresses_in_memory_decide_is_not_skipped() -> None:
    """A gather's addresses are read from TCM: what it costs is known only when it issues."""
    steps = ["i = tl.load(x_ptr + own).to(tl.int32) & 63", "p = p + tl.load(x_ptr + i)"]
    with skipped() as counts:
        log, *_ = outcome(steps, 1, 40, "ahbm_1x1", "data")

    assert log.count('"op_kind":"dispatch"') > 2 * 40
    assert not counts


def test_commands_are_numbered_on_from_lap_to_lap() -> None:
    with skipped() as counts:
        log, *_ = outcome(LOAD_AND_STORE, 40, 4, "ahbm_1x1", "timing")

    dispatched = [json.loads(line)["cmd"] for line in log.splitlines() if '"op_kind":"dispatch"' in line]
    assert sum(counts)
    assert list(range(len(dispatched))) == dispatched


@pytest.mark.parametrize("bw_gbs", [10, 40])
def test_a_conflict_in_memory_that_comes_with_a_later_trip_is_met(bw_gbs: int) -> None:
    """What is stored moves into the block that is loaded each time: from then on a load waits for the store."""
    device = load_topology_text(f"extends: ahbm_1x1\ncube: {{hbm: {{bw_gbs: {bw_gbs}}}}}\n")
    steps = ["tl.store(o_ptr + tile + turn * 64, p)", "p = p + tl.load(o_ptr + tile + 2000)"]

    with skipped() as counts:
        found = outcome(steps, 10, 40, device, "data")

    assert found == played(lambda: outcome(steps, 10, 40, device, "data"))
    assert sum(counts)
