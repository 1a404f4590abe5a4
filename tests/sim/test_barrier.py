"""The barrier of ADR-0009 D5 on real PEs, what travels inside the device for a launch, and code before the barrier."""

from __future__ import annotations

from typing import Any

import pytest

from kernbench.binary import encode
from kernbench.messages import Tag
from kernbench.runtime.api import Runtime
from kernbench.runtime.placement import DeviceShape
from kernbench.sim.component import Courier
from kernbench.sim.engine import GraphEngine
from kernbench.sim.io_cpu import IoCpu
from kernbench.sim.windows import Windows
from tests.sim.launch_helpers import Host, a_program, tensor_arg
from tests.sim.pe_helpers import Bench
from tests.sim.pe_helpers import program as bench_program
from tests.sim.test_launch import graph_of, sets_of
from tests.sim.test_launch_real import fails_on, launch, program


def launched(topology: str, which: str, params: str = "", **fields: Any) -> tuple[Host, Any]:
    """A launch of an empty kernel on real PEs."""
    host = Host(GraphEngine(graph_of(topology), mode="timing"))
    ref, _ = host.deploy(a_program(params))
    handle = host.launch(ref, sets_of(graph_of(topology))[which], **fields)
    host.engine.run()
    return host, handle


def many_shards(count: int) -> dict[str, Any]:
    """The argument of a launch whose message is large."""
    return {"params": "x", "args": (tensor_arg([((0, 0, 0), 1 << 21 | 64 * k, 64, 64 * k) for k in range(count)]),)}


@pytest.mark.parametrize("topology", ["ahbm_4x4", "ahbm_8x8"])
@pytest.mark.parametrize("which", ["one", "cube", "ragged", "all"])
def test_kernel_records_start_at_one_instant(topology: str, which: str) -> None:
    host, handle = launched(topology, which)
    kernels = host.engine.op_log.where(op_kind="kernel")

    assert handle.completion.ok, handle.completion
    assert len(sets_of(graph_of(topology))[which]) == len(kernels)
    assert 1 == len({record.t_start_ps for record in kernels})


def test_a_large_payload_delays_the_barrier_by_its_drain_and_nothing_behind_it() -> None:
    (host, small), (other, large) = (launched("ahbm_4x4", "all", **many_shards(count)) for count in (1, 20_000))

    assert large.completion.ok, large.completion
    assert [1, 1] == [len({result.exec_start_ps for result in h.results.values()}) for h in (small, large)]
    before, after = host.engine.summary(small).terms_ps, other.engine.summary(large).terms_ps
    assert after["to_io_cpu"] - before["to_io_cpu"] > 10_000_000  # 640 kB at 63 GB/s
    assert [before[term] for term in ("code_fetch", "dispatch_to_pes")] == [
        after[term] for term in ("code_fetch", "dispatch_to_pes")
    ]


def one_path(self: IoCpu, tag: Tag) -> int:
    """What ADR-0009 D5 warns of: a path from IO_CPU to PE_CPU that does not pass M_CPU."""
    courier, pe = self._ports.courier, self._ports.pe_nodes[tag]
    return courier.latency_ps(self.node, pe.node, self.overhead_ps)


def test_a_barrier_predicted_by_one_path_makes_pes_late(monkeypatch: pytest.MonkeyPatch) -> None:
    assert launched("ahbm_4x4", "all")[1].completion.ok
    monkeypatch.setattr(IoCpu, "_dispatch_ps", one_path)

    _, handle = launched("ahbm_4x4", "all")

    assert "E_LATE_LAUNCH" == handle.completion.error_code
    assert "ps after its barrier" in handle.completion.error_message


def test_every_message_inside_the_device_names_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """ADR-0009 D4, on a launch that fetches code, fails and is aborted."""
    seen: list[Any] = []
    send = Courier.control

    def watched(self: Courier, source: str, target: str, paid_ps: int, fn: Any, *args: Any) -> None:
        seen.append((fn.__name__, [each for each in args if hasattr(each, "launch")]))
        send(self, source, target, paid_ps, fn, *args)

    monkeypatch.setattr(Courier, "control", watched)

    _, handle = launch(program(*fails_on(13)))

    assert not handle.completion.ok
    assert seen and all(messages for _, messages in seen), [name for name, messages in seen if not messages]
    ids = {(m.launch.correlation_id, m.launch.request_id) for _, messages in seen for m in messages if m is not None}
    assert {handle.key} == {pair for pair in ids if pair[0]}
    kinds = {type(m).__name__ for _, messages in seen for m in messages}
    assert {"KernelLaunchMsg", "CodeFetchMsg", "CodeFetchedMsg", "PeDoneMsg", "CubeDoneMsg", "AbortMsg"} <= kinds


def test_a_first_launch_takes_longer_by_exactly_its_code_fetch() -> None:
    engine = GraphEngine(graph_of("ahbm_2x2"), mode="timing")
    runtime = Runtime(engine, DeviceShape(1, 4, 8, 3 << 30))
    ref = runtime.deploy("k", encode(a_program()).code, (0, 0, 0))
    targets = [(0, 0, 1), (0, 3, 5)]
    took: list[int] = []
    handles: list[Any] = []
    for _ in range(2):
        before = runtime.phases_ps["launch"]
        handles.append(runtime.launch(ref, {}, None, targets))
        took.append(runtime.phases_ps["launch"] - before)
    fetches = list(engine.op_log.where(op_kind="code_fetch"))
    first, second = (engine.summary(handle) for handle in handles)

    assert ["sip0.cube0.pe1.pe_cpu", "sip0.cube3.pe5.pe_cpu"] == sorted(record.component for record in fetches)
    assert all(record.nbytes == ref.nbytes_code and record.duration_ps > 0 for record in fetches)
    assert took[0] - took[1] == first.terms_ps["code_fetch"] > 0
    assert "code_fetch" not in second.terms_ps
    kernels = [record.t_start_ps for record in engine.op_log.where(op_kind="kernel")]
    assert max(record.t_end_ps for record in fetches) < min(kernels)


def test_without_a_stamp_a_pe_starts_when_its_launch_arrives() -> None:
    bench = Bench(topology="ahbm_2x2")
    results: list[Any] = []
    for at, tag in ((0, (0, 0, 0)), (5_000, (0, 3, 7))):
        context = bench.context(bench_program([], tensors=0), Windows(()))
        bench.clock.call_at(at, bench.pes[tag].launch, context, None, results.append)
    bench.clock.run()

    assert [0, 5_000] == [result.exec_start_ps for result in results]
