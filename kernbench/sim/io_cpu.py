"""IO_CPU: takes a launch in, holds it until its PEs are ready, starts them at one instant, and reports the end.

A launch goes through: check → wait for its PEs → bring the code where it is not → stamp the barrier (ADR-0009 D5)
→ fan out → gather. Does not know what a kernel does or how messages travel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from kernbench.messages import KernelLaunch, Tag
from kernbench.sim.component import Component, Courier
from kernbench.sim.device_messages import (
    AbortMsg,
    CodeFetchedMsg,
    CodeFetchMsg,
    CubeDoneMsg,
    CubeFailedMsg,
    KernelLaunchMsg,
    LaunchId,
    LaunchPorts,
    Results,
)
from kernbench.sim.faults import DeviceFault
from kernbench.sim.launch_context import LaunchContext, PeResult
from kernbench.sim.launch_plan import DeviceLimits, check_arguments, check_targets, make_contexts
from kernbench.sim.m_cpu import MCpu
from kernbench.sim.op_log import KIND
from kernbench.sim.pe_pool import PePool
from kernbench.sim.program_store import Deployed, ProgramStore
from kernbench.sim.routing import AddressResolver

_CODE_FETCH = KIND["code_fetch"]
MAX_FAILURES_TOLD = 16
Cube = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PeNode:
    """A PE_CPU as the end of code fetches; `resident` holds what code it has."""

    node: str
    topology_index: int
    overhead_ps: int
    resident: set[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """How a launch ended, and the times that split its latency; `results` are in topology order."""

    fault: DeviceFault | None
    arrived_ps: int  # at IO_CPU
    results: Results = field(default_factory=dict)
    granted_ps: int | None = None  # the PEs were idle
    resident_ps: int | None = None  # the code was there
    barrier_ps: int | None = None


@dataclass(slots=True)
class _Job:
    """A launch in this IO_CPU."""

    launch: KernelLaunch
    id: LaunchId
    starting: Callable[[], None]
    respond: Callable[[LaunchReport], None]
    deployed: Deployed
    contexts: dict[Tag, LaunchContext]
    report: LaunchReport
    missing: int = 0  # PEs that wait for code
    waiting: set[Cube] = field(default_factory=set)  # cubes under way
    results: dict[Tag, PeResult] = field(default_factory=dict)
    aborting: bool = False
    fault: DeviceFault | None = None  # of the launch as a whole


@dataclass(frozen=True, slots=True)
class IoCpuPorts:
    """All that an IO_CPU reaches."""

    courier: Courier
    m_cpus: Mapping[Cube, MCpu]
    pe_nodes: Mapping[Tag, PeNode]
    pool: PePool
    programs: ProgramStore
    resolver: AddressResolver
    limits: DeviceLimits


class IoCpu(Component):
    """The command processor of one IO chiplet. Its own overhead is paid when a message arrives."""

    __slots__ = ("_jobs", "_ports")

    def __init__(self, base: Component, ports: IoCpuPorts) -> None:
        super().__init__(base.node, base.topology_index, base.overhead_ps, base.clock, base.log)
        self._ports = ports
        self._jobs: dict[int, _Job] = {}

    def receive(
        self,
        launch: KernelLaunch,
        request: int,
        symbols: bytes,
        starting: Callable[[], None],
        respond: Callable[[LaunchReport], None],
    ) -> None:
        """Take a launch that has arrived.

        `starting` is called when its PEs are idle and have the code; `respond` once, when all of it has ended.
        """
        now = self.clock.now
        try:
            check_targets(launch, self._ports.limits)
            deployed = self._ports.programs.find(launch.kernel_ref, symbols)
            check_arguments(launch, deployed.program, self._ports.resolver)
            contexts = make_contexts(launch, deployed, self._ports.limits, request)
        except DeviceFault as fault:
            respond(LaunchReport(fault, now))
            return
        launch_id, report = LaunchId(*launch.key, request), LaunchReport(None, now)
        job = _Job(launch, launch_id, starting, respond, deployed, contexts, report)
        self._jobs[request] = job
        self._ports.pool.claim((self.topology_index, request), contexts, partial(self._granted, job))

    # ----------------------------------------------------------------- code

    def _granted(self, job: _Job) -> None:
        now = self.clock.now
        if now > job.report.arrived_ps:
            self.record("stall", job.report.arrived_ps, "pes_busy", job.id.request)
        job.report = replace(job.report, granted_ps=now)
        nodes = [self._ports.pe_nodes[tag] for tag in job.contexts]
        absent = sorted((n for n in nodes if job.deployed.residency not in n.resident), key=lambda n: n.topology_index)
        job.missing = len(absent)
        for node in absent:
            self._fetch(job, node, CodeFetchMsg(job.id, node.node, job.deployed.nbytes_code))
        if not absent:
            self._start(job)

    def _fetch(self, job: _Job, node: PeNode, msg: CodeFetchMsg) -> None:
        """Order the code at its memory; it flows to the PE, which tells us that it is there."""
        courier, source, asked_ps = self._ports.courier, job.deployed.node, self.clock.now
        route = courier.router.route(source, node.node)

        def send(order: CodeFetchMsg) -> None:
            key = (node.topology_index, order.launch.request)
            courier.data(route, order.nbytes, key, arrived, route.first_overhead_ps)

        def arrived() -> None:
            name = self.log.intern(job.launch.kernel_ref.name)
            index, request = node.topology_index, msg.launch.request
            self.log.add(asked_ps, self.clock.now, index, _CODE_FETCH, name, request, nbytes=msg.nbytes)
            node.resident.add(job.deployed.residency)
            courier.control(
                node.node, self.node, node.overhead_ps, self._fetched, CodeFetchedMsg(msg.launch, node.node)
            )

        courier.control(self.node, source, self.overhead_ps, send, msg)

    def _fetched(self, msg: CodeFetchedMsg) -> None:
        job = self._jobs[msg.launch.request]
        job.missing -= 1
        if job.missing == 0:
            self._start(job)

    # ----------------------------------------------------------------- start

    def _start(self, job: _Job) -> None:
        """Stamp the barrier and send the launch to every cube; control carries 0 bytes."""
        now = self.clock.now
        barrier = now + max(self._dispatch_ps(tag) for tag in job.contexts)
        job.report = replace(job.report, resident_ps=now, barrier_ps=barrier)
        job.starting()
        by_cube: dict[Cube, dict[Tag, LaunchContext]] = {}
        for tag, context in job.contexts.items():
            by_cube.setdefault(tag[:2], {})[tag] = context
        job.waiting = set(by_cube)
        for cube in sorted(by_cube):
            self._send(job, cube, by_cube[cube], barrier)

    def _dispatch_ps(self, tag: Tag) -> int:
        """ADR-0009 D5: two chained transactions, less what is paid already or would be paid twice."""
        courier, m_cpu, pe = self._ports.courier, self._ports.m_cpus[tag[:2]], self._ports.pe_nodes[tag]
        to_cube = courier.latency_ps(self.node, m_cpu.node)
        to_pe = courier.latency_ps(m_cpu.node, pe.node)
        return to_cube + to_pe - self.overhead_ps - m_cpu.overhead_ps

    def _send(self, job: _Job, cube: Cube, contexts: dict[Tag, LaunchContext], barrier: int) -> None:
        launch, m_cpu = job.launch, self._ports.m_cpus[cube]
        msg = KernelLaunchMsg(job.id, contexts, launch.failure_policy, barrier)
        arguments = (msg, self.clock.now, LaunchPorts(self.node, self._failed, self._collect))
        self._ports.courier.control(self.node, m_cpu.node, self.overhead_ps, m_cpu.launch, *arguments)

    # ----------------------------------------------------------------- end

    def _failed(self, msg: CubeFailedMsg) -> None:
        """A cube reports a failure before all its PEs have ended."""
        self._abort(self._jobs[msg.launch.request])

    def _abort(self, job: _Job) -> None:
        """Stop what still runs of a launch."""
        if job.aborting:
            return
        job.aborting = True
        for cube in sorted(job.waiting):
            m_cpu = self._ports.m_cpus[cube]
            self._ports.courier.control(self.node, m_cpu.node, self.overhead_ps, m_cpu.abort, AbortMsg(job.id))

    def _collect(self, msg: CubeDoneMsg) -> None:
        job = self._jobs[msg.launch.request]
        job.waiting.remove(msg.cube)
        job.results.update(msg.results)
        failed = any(not result.ok for result in msg.results.values())
        if not job.waiting:
            self._finish(job)
        elif failed and job.launch.failure_policy == "fail_fast":
            self._abort(job)

    def _finish(self, job: _Job) -> None:
        del self._jobs[job.id.request]
        order = self._ports.pe_nodes
        results = dict(sorted(job.results.items(), key=lambda item: order[item[0]].topology_index))
        failed = summed_failure(results, job.launch.failure_policy == "collect_all", order)
        fault = failed if job.fault is None else _with_cause(job.fault, failed)
        self._ports.pool.release(job.contexts)
        job.respond(replace(job.report, fault=fault, results=results))

    # ----------------------------------------------------------------- when nothing moves

    @property
    def stuck(self) -> tuple[int, ...]:
        """The requests that are not complete, in order."""
        return tuple(sorted(self._jobs))

    def give_up(self, request: int, fault: DeviceFault) -> bool:
        """End a launch that cannot go on, by aborting its PEs; False where that was tried already."""
        job = self._jobs[request]
        if job.fault is not None or not job.waiting:
            return False
        job.fault = fault
        job.aborting = False
        self._abort(job)
        return True


def summed_failure(results: Results, tell_all: bool, nodes: Mapping[Tag, PeNode]) -> DeviceFault | None:
    """The first failure in simulated time, then topology order; with `tell_all` the message names every one."""
    failed = [
        (result.failed_ps or 0, nodes[tag].topology_index, tag, result)
        for tag, result in results.items()
        if not result.ok and not result.aborted
    ]
    if not failed:
        return None
    failed.sort(key=lambda item: item[:2])
    first, *others = [_fault_of(tag, result) for _, _, tag, result in (failed if tell_all else failed[:1])]
    more = [fault.told for fault in others[: MAX_FAILURES_TOLD - 1]]
    untold = len(others) - len(more)
    tail = [f"and {untold} more"] if untold else []
    return DeviceFault(first.code, first.message, first.span, (*more, *tail), first.hint)


def _with_cause(fault: DeviceFault, failed: DeviceFault | None) -> DeviceFault:
    """A launch that stands still since one of its PEs failed: the failure comes first."""
    if failed is None:
        return fault
    return DeviceFault(failed.code, failed.message, failed.span, (*failed.more, fault.told), failed.hint)


def _fault_of(tag: Tag, result: PeResult) -> DeviceFault:
    assert result.error_code is not None, "a failure has a code"
    return DeviceFault(
        result.error_code, f"sip{tag[0]}.cube{tag[1]}.pe{tag[2]}: {result.message}", result.span, hint=result.hint
    )
