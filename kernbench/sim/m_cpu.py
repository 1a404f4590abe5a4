"""M_CPU: passes launches on to the PEs of its cube and gathers how they ended.

Knows its PEs and the way to its IO_CPU. Does not know kernels, tensors or other cubes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from kernbench.messages import Tag
from kernbench.sim.component import Component, Courier
from kernbench.sim.device_messages import (
    AbortMsg,
    CubeDoneMsg,
    CubeFailedMsg,
    KernelLaunchMsg,
    LaunchId,
    LaunchPorts,
    PeDoneMsg,
)
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
    ports: LaunchPorts
    results: dict[Tag, PeResult] = field(default_factory=dict)
    aborting: bool = False

    @property
    def complete(self) -> bool:
        return len(self.results) == len(self.msg.contexts)


class MCpu(Component):
    """The management CPU of one cube. Its own overhead is paid when a message arrives."""

    __slots__ = ("_courier", "_cube", "_ends", "_fanouts")

    def __init__(self, base: Component, cube: tuple[int, int], courier: Courier, ends: Mapping[Tag, PeEnd]) -> None:
        super().__init__(base.node, base.topology_index, base.overhead_ps, base.clock, base.log)
        self._cube = cube
        self._courier = courier
        self._ends = dict(ends)
        self._fanouts: dict[LaunchId, _Fanout] = {}

    @property
    def idle(self) -> bool:
        return not self._fanouts

    def launch(self, msg: KernelLaunchMsg, sent_ps: int, ports: LaunchPorts) -> None:
        """Start the PEs that `msg` names; a stamp passes unchanged, and only without one is there one of ours."""
        self.record("launch", sent_ps, type(msg).__name__, msg.launch.request)
        target_ps = self._local_barrier(msg) if msg.target_start_ps is None else msg.target_start_ps
        self._fanouts[msg.launch] = _Fanout(msg, ports)
        for end in self._in_order(msg.contexts):
            one = replace(msg, contexts={end.tag: msg.contexts[end.tag]}, target_start_ps=target_ps)
            self._courier.control(self.node, end.node, self.overhead_ps, self._arrive, end, one, self.clock.now)

    def _local_barrier(self, msg: KernelLaunchMsg) -> int:
        ways = [self._courier.latency_ps(self.node, self._ends[tag].node, self.overhead_ps) for tag in msg.contexts]
        return self.clock.now + max(ways)

    def _in_order(self, tags: Iterable[Tag]) -> list[PeEnd]:
        return sorted((self._ends[tag] for tag in tags), key=lambda end: end.topology_index)

    def _arrive(self, end: PeEnd, msg: KernelLaunchMsg, sent_ps: int) -> None:
        """At the PE_CPU."""
        log, launch = self.log, msg.launch
        name = log.intern(type(msg).__name__)
        log.add(sent_ps, self.clock.now, end.topology_index, _LAUNCH, name, launch.request)

        def done(result: PeResult) -> None:
            answer = PeDoneMsg(launch, end.tag, result)
            self._courier.control(end.node, self.node, 0, self._collect, answer, self.clock.now)

        end.pe.launch(msg.contexts[end.tag], msg.target_start_ps, done)

    def abort(self, msg: AbortMsg) -> None:
        """Stop the PEs of a launch that have not ended yet; they answer like any other."""
        fanout = self._fanouts.get(msg.launch)
        if fanout is None or fanout.aborting:
            return
        fanout.aborting = True
        for end in self._in_order(tag for tag in fanout.msg.contexts if tag not in fanout.results):
            self._courier.control(self.node, end.node, self.overhead_ps, self._abort_pe, end, msg)

    def _abort_pe(self, end: PeEnd, msg: AbortMsg) -> None:
        """At the PE_CPU, which is idle or still at that launch: a later one would come by the same way, after this."""
        end.pe.abort()

    def _collect(self, answer: PeDoneMsg, sent_ps: int) -> None:
        self.record("complete", sent_ps, type(answer).__name__, answer.launch.request)
        fanout = self._fanouts[answer.launch]
        assert answer.tag not in fanout.results, f"PE {answer.tag} ended twice"
        fanout.results[answer.tag] = answer.result
        if fanout.complete:
            del self._fanouts[answer.launch]
            done = CubeDoneMsg(answer.launch, self._cube, fanout.results)
            self._courier.control(self.node, fanout.ports.node, self.overhead_ps, fanout.ports.done, done)
        elif not answer.result.ok and fanout.msg.failure_policy == "fail_fast" and not fanout.aborting:
            self.abort(AbortMsg(answer.launch))
            failed = CubeFailedMsg(answer.launch)
            self._courier.control(self.node, fanout.ports.node, self.overhead_ps, fanout.ports.failed, failed)
