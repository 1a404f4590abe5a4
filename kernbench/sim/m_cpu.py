"""M_CPU: passes launches on to the PEs of its cube and gathers how they ended.

Knows its PEs and the way to its IO_CPU. Does not know kernels, tensors or other cubes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kernbench.messages import Tag
from kernbench.sim.component import Component, Courier
from kernbench.sim.device_messages import KernelLaunchMsg, LaunchPorts
from kernbench.sim.launch_context import LaunchContext, PeResult
from kernbench.sim.op_log import KIND

_LAUNCH = KIND["launch"]


class PePort(Protocol):
    """What M_CPU sees of a PE."""

    def launch(self, context: LaunchContext, target_start_ps: int | None, done: Callable[[PeResult], None]) -> None: ...

    def abort(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PeEnd:
    """A PE and its end of the control network."""

    tag: Tag
    pe: PePort
    node: str  # of its pe_cpu
    topology_index: int


@dataclass(slots=True)
class _Fanout:
    """One launch under way in this cube."""

    msg: KernelLaunchMsg
    io_cpu: str
    ports: LaunchPorts
    results: dict[Tag, PeResult] = field(default_factory=dict)
    aborting: bool = False

    @property
    def complete(self) -> bool:
        return len(self.results) == len(self.msg.contexts)


class MCpu(Component):
    """The management CPU of one cube. Its own overhead is paid when a message arrives."""

    __slots__ = ("_courier", "_ends", "_fanouts")

    def __init__(self, base: Component, courier: Courier, ends: Mapping[Tag, PeEnd]) -> None:
        super().__init__(base.node, base.topology_index, base.overhead_ps, base.clock, base.log)
        self._courier = courier
        self._ends = dict(ends)
        self._fanouts: dict[int, _Fanout] = {}

    def launch(self, msg: KernelLaunchMsg, io_cpu: str, sent_ps: int, ports: LaunchPorts) -> None:
        """Start the PEs that `msg` names; a stamp passes unchanged, and only without one is there one of ours."""
        self.record("launch", sent_ps, "KernelLaunchMsg", msg.request)
        target_ps = self._local_barrier(msg) if msg.target_start_ps is None else msg.target_start_ps
        self._fanouts[msg.request] = _Fanout(msg, io_cpu, ports)
        for tag, context in sorted(msg.contexts.items(), key=lambda item: self._ends[item[0]].topology_index):
            end = self._ends[tag]
            arguments = (msg.request, end, context, target_ps, self.clock.now)
            self._courier.control(self.node, end.node, self.overhead_ps, self._arrive, *arguments)

    def _local_barrier(self, msg: KernelLaunchMsg) -> int:
        ways = [self._courier.latency_ps(self.node, self._ends[tag].node, self.overhead_ps) for tag in msg.contexts]
        return self.clock.now + max(ways)

    def _arrive(self, request: int, end: PeEnd, context: LaunchContext, target_ps: int, sent_ps: int) -> None:
        log = self.log
        name = log.intern("KernelLaunchMsg")
        log.add(sent_ps, self.clock.now, end.topology_index, _LAUNCH, name, request)

        def done(result: PeResult) -> None:
            self._courier.control(end.node, self.node, 0, self._collect, request, end, result, self.clock.now)

        end.pe.launch(context, target_ps, done)

    def abort(self, request: int) -> None:
        """Stop the PEs of a launch that have not ended yet; they answer like any other."""
        fanout = self._fanouts.get(request)
        if fanout is None or fanout.aborting:
            return
        fanout.aborting = True
        waiting = [self._ends[tag] for tag in fanout.msg.contexts if tag not in fanout.results]
        for end in sorted(waiting, key=lambda e: e.topology_index):
            self._courier.control(self.node, end.node, self.overhead_ps, end.pe.abort)

    def _collect(self, request: int, end: PeEnd, result: PeResult, sent_ps: int) -> None:
        self.record("complete", sent_ps, "KernelDoneMsg", request)
        fanout = self._fanouts[request]
        assert end.tag not in fanout.results, f"{end.node} ended twice"
        fanout.results[end.tag] = result
        if fanout.complete:
            del self._fanouts[request]
            self._courier.control(self.node, fanout.io_cpu, self.overhead_ps, fanout.ports.done, fanout.results)
        elif not result.ok and fanout.msg.failure_policy == "fail_fast" and not fanout.aborting:
            self.abort(request)
            self._courier.control(self.node, fanout.io_cpu, self.overhead_ps, fanout.ports.failed)

    @property
    def idle(self) -> bool:
        return not self._fanouts
