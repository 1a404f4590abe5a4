"""The device as the host meets it: takes messages, lets simulated time pass, gives one completion each.

    engine = GraphEngine(load_topology("ahbm_4x4"), mode="data")
    handle = engine.submit(message)
    engine.run()
    engine.op_log

Requests of one correlation are served one after the other, those of different ones together. Knows how a message
enters and leaves the device. Does not know what kernels do or where messages come from.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from kernbench.diagnostics import EXIT_INPUT, Diagnostic, KernBenchError
from kernbench.messages import KernelLaunch, MemoryRead, MemoryWrite
from kernbench.numerics import quiet
from kernbench.sim.device import Device, MakePe
from kernbench.sim.device_messages import PeDmaMsg
from kernbench.sim.errors import error
from kernbench.sim.faults import DeviceFault
from kernbench.sim.host_memory import HostMemory, HostMemoryPorts
from kernbench.sim.host_request import Handle, HostMessage
from kernbench.sim.io_cpu import LaunchReport
from kernbench.sim.launch_context import Mode, Sanitize
from kernbench.sim.legs import Ways
from kernbench.sim.op_log import KIND, OpTable
from kernbench.sim.pe import Pe
from kernbench.sim.summary import Busy, LaunchTimes, Summary, summarise
from kernbench.sim.topology_graph import TopologyGraph

Buffer = bytes | bytearray | memoryview | NDArray[Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends a run that does not end by itself; None is no limit."""

    max_time_ns: int | None = None  # simulated
    max_commands: int | None = None  # of all PEs together
    max_wall_s: float | None = None
    look_every: int = 20_000  # events between two looks at limits and progress


@dataclass(frozen=True, slots=True)
class Progress:
    """What a run tells now and then about how far it is."""

    now_ps: int
    commands: int
    pes_done: int


class GraphEngine:
    """One device on one topology.

    `entry`: where requests are put in; `probe` measures from `pcie_ep`. `on_progress` is called now and then during
    `run`; it must not change the device. `make_pe` lets tests put in PEs of their own.
    """

    def __init__(
        self,
        graph: TopologyGraph,
        mode: Mode = "data",
        *,
        hops: bool = False,
        sanitize: Sanitize = "warn",
        limits: Limits | None = None,
        entry: str = "host",
        on_progress: Callable[[Progress], None] | None = None,
        make_pe: MakePe = Pe,
    ) -> None:
        self.graph = graph
        self.mode = mode
        self.limits = limits or Limits()
        self.device = Device(graph, mode, sanitize, make_pe)
        self._hops = hops
        self._on_progress = on_progress
        self._ways = Ways(graph, self.device.router, from_host=entry == "host")
        device = self.device
        ports = HostMemoryPorts(device.clock, device.network, self._ways, device.resolver, device.memory, device, mode)
        self._memory = HostMemory(ports)
        self._handles: dict[tuple[str, str], Handle] = {}
        self._queues: dict[str, deque[Callable[[], None]]] = {}
        self._open: dict[int, Handle] = {}
        self._before: dict[int, Busy] = {}  # of launches that have started
        self._times: dict[int, LaunchTimes] = {}
        self._stopped: DeviceFault | None = None

    # ----------------------------------------------------------------- what is seen from outside

    @property
    def now_ps(self) -> int:
        return self.device.clock.now

    @property
    def op_log(self) -> OpTable:
        """What has begun so far, in the log's order; engines that book ahead have noted more."""
        table = self.device.log.table()
        begun = int(np.searchsorted(table.column("t_start"), self.now_ps, side="right"))
        return table if begun == len(table) else OpTable(table.rows[:begun], table.interned)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What the sanitizer found."""
        return self.device.sanitizer.warnings

    @property
    def commands(self) -> int:
        """Commands that the PEs have dispatched so far."""
        return sum(pe.commands for pe in self.device.pes.values())

    def summary(self, handle: Handle) -> Summary:
        """Where the time of a launch went and what bounded it."""
        return summarise(self.device, handle, self._times.get(handle.number), self.device.log.unordered())

    # ----------------------------------------------------------------- requests

    def submit(self, message: HostMessage, buffers: Mapping[str, Buffer] | None = None) -> Handle:
        """Take a request now. `buffers` holds by content hash the bytes that travel beside it.

        `KernBenchError` where no device could take it: an id pair used before, a package or a buffer that is not
        there. What the device itself finds wrong comes back as a completion.
        """
        handle = Handle(message, len(self._handles), self.now_ps)
        self._check_new(handle)
        serve = self._service(handle, buffers or {})
        self._handles[handle.key] = handle
        self._open[handle.number] = handle
        queue = self._queues.setdefault(handle.key[0], deque())
        queue.append(serve)
        if len(queue) == 1:
            self.device.clock.call_after(0, self._begin, handle.key[0])
        return handle

    def _check_new(self, handle: Handle) -> None:
        if handle.key in self._handles:
            correlation_id, request_id = handle.key
            text = f"request `{request_id}` of correlation `{correlation_id}` was submitted before"
            raise KernBenchError([Diagnostic("E_MESSAGE_DUPLICATE_ID", text, path="request_id")], EXIT_INPUT)
        message = handle.message
        sips = self.graph.spec.sip.count
        if not isinstance(message, PeDmaMsg) and message.target_sip >= sips:
            text = f"`target_device` is {message.target_device}, and the device has {sips} packages"
            raise KernBenchError([error("E_DEVICE_UNKNOWN", text, path="target_device")], EXIT_INPUT)
        if self._stopped is not None:
            raise KernBenchError([error(self._stopped.code, self._stopped.message)], EXIT_INPUT)

    def _service(self, handle: Handle, buffers: Mapping[str, Buffer]) -> Callable[[], None]:
        """What serves a request once it is its turn."""
        message = handle.message
        done = partial(self._complete, handle)
        if isinstance(message, MemoryWrite | MemoryRead | PeDmaMsg):
            data = _buffer(message, buffers) if isinstance(message, MemoryWrite) else None
            return partial(self._process_memory_direct, handle, data, done)
        symbols = _symbols(message, buffers)
        return partial(self._process_launch, handle, message, symbols)

    def _begin(self, correlation_id: str) -> None:
        """Serve the request at the head of a correlation's queue."""
        self._queues[correlation_id][0]()

    # ----------------------------------------------------------------- the ways of a request (ADR-0016 D3, D4)

    def _entry_points(self, message: HostMessage) -> tuple[str, ...]:
        """The nodes that take a message in: `pcie_ep`, and for a launch `io_cpu` behind it."""
        if isinstance(message, PeDmaMsg):
            return (f"sip{message.src_sip}.cube{message.src_cube}.pe{message.src_pe}.pe_dma",)
        at = f"sip{message.target_sip}.io0"
        return (f"{at}.pcie_ep", f"{at}.io_cpu") if isinstance(message, KernelLaunch) else (f"{at}.pcie_ep",)

    def _process_memory_direct(
        self, handle: Handle, data: NDArray[np.uint8] | None, done: Callable[[DeviceFault | None], None]
    ) -> None:
        """Memory requests go from `pcie_ep` to their memory, around `io_cpu`, unless the chiplet says otherwise."""
        handle.started_ps = self.now_ps
        message = handle.message
        if isinstance(message, MemoryWrite):
            self._memory.write(handle, message, data, done)
        elif isinstance(message, MemoryRead):
            self._memory.read(handle, message, done)
        else:
            assert isinstance(message, PeDmaMsg)
            self._memory.pe_dma(handle, message, done)

    def _process_launch(self, handle: Handle, launch: KernelLaunch, symbols: bytes) -> None:
        """A launch goes to `io_cpu`, with its bytes; its completion comes back as a message without."""
        handle.started_ps = self.now_ps
        _, io_cpu = self._entry_points(launch)
        request = self.device.log.intern("/".join(handle.key))
        respond = partial(self._respond, handle, launch.target_sip, request)

        def arrive() -> None:
            self._record("launch", io_cpu, handle.started_ps, handle, launch.wire_bytes)
            self.device.io_cpus[io_cpu].receive(launch, request, symbols, partial(self._starts, handle), respond)

        self._memory.travel(handle, self._ways.to_io_cpu(launch.target_sip), launch.wire_bytes, arrive)

    def _starts(self, handle: Handle) -> None:
        """What was at work up to here, code fetches too, does not count as the launch's."""
        self._before[handle.number] = Busy.sample(self.device)

    def _respond(self, handle: Handle, sip: int, request: int, report: LaunchReport) -> None:
        """Everything about a launch has ended: its completion leaves `io_cpu`."""
        handle.route.stretch(self.now_ps)
        handle.results = report.results
        fault = report.fault or self._races(request)
        before = self._before.pop(handle.number, None)
        busy = Busy() if before is None else Busy.sample(self.device) - before
        self._times[handle.number] = LaunchTimes(report, request, busy)
        back = partial(self._complete, handle, fault)
        self._memory.travel(handle, self._ways.from_io_cpu(sip), 0, back, joined=True)

    def _races(self, request: int) -> DeviceFault | None:
        """What the sanitizer finds in a launch as a whole, where findings are faults."""
        try:
            self.device.sanitizer.end_of_launch(request)
        except DeviceFault as fault:
            return fault
        return None

    def _complete(self, handle: Handle, fault: DeviceFault | None) -> None:
        handle.complete(self.now_ps, fault)
        del self._open[handle.number]
        self._log_end(handle)
        queue = self._queues[handle.key[0]]
        queue.popleft()
        if queue:
            self.device.clock.call_after(0, self._begin, handle.key[0])

    # ----------------------------------------------------------------- the log

    def _log_end(self, handle: Handle) -> None:
        message = handle.message
        node = self._entered_at(handle)
        if isinstance(message, KernelLaunch):
            self._record("complete", node, handle.route.hops[-1].t_in_ps, handle, 0)
        else:
            kind = "dma_read" if isinstance(message, MemoryRead) else "dma_write"
            self._record(kind, node, handle.started_ps, handle, message.nbytes if handle.fault is None else 0)
        if self._hops:
            self._log_hops(handle)

    def _entered_at(self, handle: Handle) -> str:
        """The node that took a request in: that of the chiplet which it really went through."""
        return next(hop.node for hop in handle.route.hops if hop.node != "host")

    def _record(self, kind: str, node: str, start_ps: int, handle: Handle, nbytes: int) -> None:
        log, name = self.device.log, type(handle.message).__name__
        request = log.intern("/".join(handle.key))
        index = self.graph.nodes[node].index
        log.add(start_ps, self.now_ps, index, KIND[kind], log.intern(name), request, nbytes=nbytes)

    def _log_hops(self, handle: Handle) -> None:
        log = self.device.log
        name, request = log.intern(type(handle.message).__name__), log.intern("/".join(handle.key))
        for place, hop in enumerate(handle.route.hops):
            index = self.graph.nodes[hop.node].index
            if hop.t_out_ps > hop.t_in_ps:
                log.add(hop.t_in_ps, hop.t_out_ps, index, KIND["hop"], name, request, stage=place)

    # ----------------------------------------------------------------- time

    def run(self) -> None:
        """Let time pass until nothing is left to happen, or a limit is met.

        Every request is complete then. An interrupt from the keyboard leaves what happened so far readable.
        """
        started = time.monotonic()
        with without_garbage_collection(), _one_thread_for_products(), quiet():
            while self._stopped is None:
                if self._step():
                    if not self._open:
                        self.device.check_at_rest()
                        return
                    self._break_deadlock()
                    continue
                fault = self._limit_met(time.monotonic() - started)
                if fault is not None:
                    self._stop(fault)
                elif self._on_progress is not None:
                    self._on_progress(self._progress())

    def _step(self) -> bool:
        """Let some events happen; True where nothing is left."""
        limit = self.limits.max_time_ns
        until_ps = None if limit is None else limit * 1000
        return self.device.clock.run(until_ps, self.limits.look_every)

    def _limit_met(self, wall_s: float) -> DeviceFault | None:
        limits = self.limits
        if limits.max_time_ns is not None and self.now_ps >= limits.max_time_ns * 1000:
            text = f"the run is not over after {limits.max_time_ns} ns of simulated time"
            return DeviceFault("E_TIME_LIMIT", text + self.whereabouts)
        if limits.max_commands is not None and self.commands > limits.max_commands:
            text = f"the PEs have dispatched more than {limits.max_commands} commands"
            return DeviceFault("E_COMMAND_LIMIT", text + self.whereabouts)
        if limits.max_wall_s is not None and wall_s > limits.max_wall_s:
            text = f"the run is not over after {limits.max_wall_s:g} s"
            return DeviceFault("E_WALL_LIMIT", text + self.whereabouts)
        return None

    @property
    def whereabouts(self) -> str:
        """Where the first PE is that still runs a program, to be put behind a text; empty where there is none."""
        found = next((pe.whereabouts for pe in self.device.pes.values() if not pe.idle), "")
        return f"; {found}" if found else ""

    def _progress(self) -> Progress:
        idle = sum(pe.idle for pe in self.device.pes.values())
        return Progress(self.now_ps, self.commands, idle)

    def _stop(self, fault: DeviceFault) -> None:
        """End the device: whatever is open fails with the limit that was met; the log up to now stays."""
        self._stopped = fault
        for number in sorted(self._open):
            handle = self._open[number]
            handle.route.cut(self.now_ps)
            handle.complete(self.now_ps, fault)
        self._open.clear()

    def _break_deadlock(self) -> None:
        """Nothing is left to happen and requests are open: those who wait are told apart, stopped and reported."""
        stuck = [(io_cpu, request) for io_cpu in self.device.io_cpus.values() for request in io_cpu.stuck]
        tried = [io_cpu.give_up(request, self.device.waits.deadlock(request)) for io_cpu, request in stuck]
        if not any(tried):
            # Aborted PEs always end, so only a request that is held up by another can be left; then all are.
            self._stop(self.device.waits.deadlock())


def _buffer(message: MemoryWrite, buffers: Mapping[str, Buffer]) -> NDArray[np.uint8] | None:
    """The bytes of a write from a host buffer; None where the message names none."""
    if message.host_buffer is None:
        return None
    found = buffers.get(message.host_buffer)
    if found is None:
        text = f"the buffer {message.host_buffer} did not come with the message"
        raise KernBenchError([error("E_BUFFER_MISSING", text, path="host_buffer")], EXIT_INPUT)
    data = np.frombuffer(np.ascontiguousarray(found).data if isinstance(found, np.ndarray) else found, np.uint8)
    if data.nbytes != message.nbytes:
        text = f"the buffer has {data.nbytes} bytes, `nbytes` is {message.nbytes}"
        raise KernBenchError([error("E_BUFFER_SIZE", text, path="host_buffer")], EXIT_INPUT)
    return data


def _symbols(launch: KernelLaunch, buffers: Mapping[str, Buffer]) -> bytes:
    """The debug section that travels beside a launch; one that names none runs without names and kernel lines."""
    if launch.symbols is None:
        return b""
    found = buffers.get(launch.symbols)
    if found is None:
        text = f"the debug section {launch.symbols} did not come with the message"
        raise KernBenchError([error("E_BUFFER_MISSING", text, path="meta.symbols")], EXIT_INPUT)
    return bytes(found)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """A run makes many small objects and few cycles; collecting them is a third of its cost."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _one_thread_for_products() -> Iterator[None]:
    """Products are of tiles: waking a second thread for one takes longer, many times so where the cores are busy."""
    with _thread_pools().limit(limits=1, user_api="blas"):
        yield


@cache
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()
