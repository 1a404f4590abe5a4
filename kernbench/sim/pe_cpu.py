"""PE_CPU: waits for the barrier, then runs its programs one after the other, and reports how they ended.

It interprets scalar instructions ahead of the clock, in its own local time, and meets the clock where an instruction
leaves it: a dispatch, a wait, a scalar in memory, or after a microsecond of scalars. One event a command.
A fault ends the program; what is in flight finishes, and the fault is the result. Does not know how commands run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kernbench.diagnostics import Span
from kernbench.messages import Tag
from kernbench.sim import part_io
from kernbench.sim.access_eval import Part, place_number
from kernbench.sim.deadlock import Waiter
from kernbench.sim.engines.pe_dma import Direction, Ways
from kernbench.sim.engines.pe_ipcq import name_of
from kernbench.sim.faults import DeviceFault
from kernbench.sim.laps import Laps, can_be_skipped
from kernbench.sim.launch_context import LaunchContext, PeResult
from kernbench.sim.memory import UNWRITTEN
from kernbench.sim.op_log import KIND
from kernbench.sim.pe_code import SUSPEND, Code
from kernbench.sim.pe_command import Command
from kernbench.sim.pe_parts import PeParts
from kernbench.sim.pe_scheduler import PeScheduler
from kernbench.sim.pe_services import PeServices
from kernbench.sim.registers import Registers
from kernbench.sim.rings import Ring
from kernbench.sim.turns import Turns
from kernbench.sim.windows import Windows

_SCALAR, _DISPATCH, _STALL, _WAIT, _KERNEL = (KIND[k] for k in ("scalar", "dispatch", "stall", "wait", "kernel"))
_MEMORY = {"read": KIND["dma_read"], "write": KIND["dma_write"]}
AHEAD_PS = 1_000_000  # how far local time may run ahead of the clock


class _Wait(NamedTuple):
    """What a wait is for the log and the register of waiters."""

    kind: int
    name: str
    what: str
    span: Span | None
    src_id: int


@dataclass(slots=True)
class _Blocked:
    """PE_CPU waits until `ready()` says so."""

    ready: Callable[[], bool]
    since_ps: int
    kind: int
    name: str
    src_id: int
    ticket: int  # in the register of waiters
    then: Callable[..., None]
    args: tuple[Any, ...]


class PeCpu:
    __slots__ = (
        "__weakref__", "_aborted", "_blocked", "_clock", "_code", "_context", "_cycle_ps", "_done", "_epoch",
        "_failed_ps", "_fault", "_horizon_ps", "_in_memory", "_laps", "_log", "_pending", "_scalar_count",
        "_scalar_start", "_services", "_stopped", "_ways", "busy_ps", "commands", "exec_start_ps", "may_repeat",
        "number", "parts", "program", "registers", "request", "rings", "scalar_src", "scheduler",
        "time_ps", "topology_index", "turn", "turns", "windows",
    )  # fmt: skip

    def __init__(self, services: PeServices, node: str, parts: PeParts) -> None:
        self.topology_index = services.node_index[node]
        self.parts = parts
        self.scheduler: PeScheduler
        self.rings: dict[int, Ring] = {}
        self.registers: Registers = []
        self.busy_ps = 0  # handing commands over
        self.windows = Windows(())
        self.program = 0  # linear id of the running one
        self.request = 0
        self.number = 0  # of the next command of this launch
        self.commands = 0  # of all launches
        self.time_ps = 0  # local time
        self.exec_start_ps: int | None = None
        self._services = services
        self._clock = services.clock
        self._log = services.log
        self._cycle_ps = services.spec.cycles_to_ps(1)
        self._ways = Ways(node, services.router)
        self.may_repeat = False  # back at an instruction that it has met before, or in the next program
        self._laps: Laps | None = None
        self._epoch = 0  # of the launch; a call that was made for an earlier one is void
        self._done: Callable[[PeResult], None] | None = None
        self._reset()

    def _reset(self) -> None:
        self._stopped = False
        self._aborted = False
        self._fault: DeviceFault | None = None
        self._failed_ps: int | None = None
        self._blocked: _Blocked | None = None
        self._pending: Command | None = None
        self._in_memory = 0
        self._scalar_count = 0
        self.scalar_src = 0  # the line of the last scalar instruction
        self._scalar_start = 0
        self._horizon_ps = 0
        self.exec_start_ps = None

    @property
    def idle(self) -> bool:
        return self._done is None

    @property
    def place(self) -> str:
        """The line of the last scalar instruction, as the log has it; empty before the first."""
        return self._log.interned.texts[self.scalar_src]

    @property
    def node(self) -> str:
        return self._log.interned.components[self.topology_index]

    # ----------------------------------------------------------------- launch

    def launch(
        self, context: LaunchContext, code: Callable[[], Code], target_ps: int | None, done: Callable[[PeResult], None]
    ) -> None:
        assert self.idle, f"{self.node} is launched while it runs"
        self._reset()
        self._epoch += 1
        self._done = done
        self._context = context
        self.request = context.request
        self.number = 0
        self.parts.ipcq.open(self.request)
        now = self._clock.now
        if target_ps is not None and now > target_ps:
            text = f"the launch arrived {now - target_ps} ps after its barrier"
            self._stop(DeviceFault("E_LATE_LAUNCH", text))
            return
        self._clock.call_at(now if target_ps is None else target_ps, self._begin, self._epoch, code)

    def _begin(self, epoch: int, code: Callable[[], Code]) -> None:
        if epoch != self._epoch or self._stopped:
            return
        self.exec_start_ps = self.time_ps = self._clock.now
        self._services.running.add(self.topology_index)
        try:
            self._code = code()
        except DeviceFault as fault:
            self._stop(fault)
            return
        self.rings.clear()
        self.registers = [0] * self._code.registers
        self.windows = self._context.windows
        self.turns = Turns(self._context, self._code.program)
        self.turn = 0
        self._laps = self._make_laps()
        self._run(self.next_program())

    def next_program(self) -> int:
        """The first instruction of the next program, with its registers set; at the end, wait for what is left."""
        if self.turn == len(self.turns):
            return self.at_local_time(self._drain)
        self.program = self.turns.enter(self.turn, self.registers)
        self.turn += 1
        self.may_repeat = True
        return 0

    def _make_laps(self) -> Laps | None:
        """Only where no other PE runs can what one does be foreseen."""
        instructions = self._code.instructions
        if not self.runs_alone or self.parts.sanitizer.raises or not can_be_skipped(instructions):
            return None
        return Laps(self, instructions, self._clock, self._log, self._services.network)

    # ----------------------------------------------------------------- running

    def _run(self, at: int) -> None:
        """Interpret from instruction `at` until one suspends."""
        self._horizon_ps = self._clock.now + AHEAD_PS
        instructions, path = self._code.instructions, self.parts.tape.path
        try:
            if self.parts.tape.runs:
                while at >= 0:
                    path.append(at)
                    at = instructions[at].step(self)
            while at >= 0:  # the usual way, which pays for no tape
                at = instructions[at].step(self)
        except DeviceFault as fault:
            self._flush_scalars()
            self._clock.call_at(self.time_ps, self._late_stop, self._epoch, fault)

    def _late_stop(self, epoch: int, fault: DeviceFault) -> None:
        if epoch == self._epoch:
            self._stop(fault)

    def resume(self, at: int) -> None:
        """Go on with instruction `at`, now."""
        self.time_ps = self._clock.now
        self._run(at)

    def _resume_guarded(self, epoch: int, then: Callable[..., None], args: tuple[Any, ...]) -> None:
        if epoch != self._epoch or self._stopped:
            return
        try:
            then(*args)
        except DeviceFault as fault:
            self._stop(fault)

    def at_local_time(self, then: Callable[..., None], *args: Any) -> int:
        """Let the clock come up to local time, then call `then(*args)`."""
        self._flush_scalars()
        self._clock.call_at(self.time_ps, self._resume_guarded, self._epoch, then, args)
        return SUSPEND

    @property
    def runs_alone(self) -> bool:
        """No other PE runs a program."""
        return len(self._services.running) == 1

    @property
    def is_far_ahead(self) -> bool:
        return self.time_ps > self._horizon_ps

    def pause(self, at: int) -> int:
        """Go on with `at` when the clock has come up; so a run's limits are met inside of an endless loop."""
        return self.at_local_time(self.resume, at)

    def scalar(self, src_id: int) -> None:
        """One scalar instruction; those of one line in a row are one record."""
        if self._scalar_count == 0:
            self.scalar_src, self._scalar_start = src_id, self.time_ps
        elif src_id != self.scalar_src:
            self._flush_scalars()
            self.scalar_src, self._scalar_start = src_id, self.time_ps
        self._scalar_count += 1
        self.time_ps += self._cycle_ps

    def _flush_scalars(self) -> None:
        if self._scalar_count:
            log = self._log
            log.add(
                self._scalar_start, self.time_ps, self.topology_index, _SCALAR, log.intern("scalar"), self.request,
                src_id=self.scalar_src, params=log.counted("instructions", self._scalar_count),
            )  # fmt: skip
            self._scalar_count = 0

    def meet_clock(self) -> None:
        """Local time goes on from now, after a wait."""
        self.time_ps = self._clock.now

    @property
    def targets(self) -> tuple[Tag, ...]:
        """The PEs of the launch, by their index."""
        return self._context.targets

    # ----------------------------------------------------------------- dispatch

    def take_number(self) -> int:
        number = self.number
        self.number = number + 1
        self.commands += 1
        return number

    def charge(self, cost_ps: int, number: int, name_id: int, nbytes: int, src_id: int, params_id: int) -> None:
        """The time of handing something over."""
        if self._scalar_count:
            self._flush_scalars()
        start = self.time_ps
        self.time_ps = start + cost_ps
        self.busy_ps += cost_ps
        self._log.add(
            start, self.time_ps, self.topology_index, _DISPATCH, name_id, self.request, number, -1, 0, nbytes, 0,
            src_id, params_id,
        )  # fmt: skip

    def dispatch(self, command: Command, cost_ps: int, name_id: int, nbytes: int, params_id: int, after: int) -> int:
        """Hand a command over; go on with instruction `after` when the queue has taken it."""
        origin = command.origin
        if self.parts.tape.runs:
            self.parts.tape.likenesses.append(command.likeness)
        self.charge(cost_ps, origin.cmd, name_id, nbytes, origin.src_id, params_id)
        self._clock.call_at(self.time_ps, self._hand_over, self._epoch, command, after)
        return SUSPEND

    def _hand_over(self, epoch: int, command: Command, after: int) -> None:
        if epoch != self._epoch or self._stopped:
            return
        if self.may_repeat and self._laps is not None:
            command = self._laps.skip_from(command, after)
        if self.scheduler.has_room:
            self.scheduler.enqueue(command)
            self._run(after)
            return
        origin = command.origin
        self._pending = command
        wait = _Wait(_STALL, "queue full", "room in the command queue", command.span, origin.src_id)
        self._block(lambda: self.scheduler.has_room, wait, self._enqueue_pending, (after,))

    def _enqueue_pending(self, after: int) -> None:
        assert self._pending is not None
        command, self._pending = self._pending, None
        self.scheduler.enqueue(command)
        self.resume(after)

    # ----------------------------------------------------------------- waits

    def when_complete(
        self, commands: list[Command], name: str, span: Span | None, src_id: int, then: Callable[..., None], *args: Any
    ) -> None:
        """Call `then(*args)` once all these commands are complete: now, where they are."""
        if commands:
            wait = _Wait(_WAIT, name, f"{len(commands)} commands ({name})", span, src_id)
            self._block(lambda: all(command.complete for command in commands), wait, then, args)
        else:
            then(*args)

    def wait_until(
        self, ready: Callable[[], bool], name: str, what: str, span: Span | None, src_id: int,
        then: Callable[..., None], *args: Any,
    ) -> None:  # fmt: skip
        """Call `then(*args)` once `ready()`: now, where it is so. Who changes that calls `changed`."""
        if ready():
            then(*args)
        else:
            self._block(ready, _Wait(_WAIT, name, what, span, src_id), then, args)

    def stall_until(
        self, ready: Callable[[], bool], name: str, what: str, span: Span | None, src_id: int,
        then: Callable[..., None], *args: Any,
    ) -> None:  # fmt: skip
        """The same for something that has no room, which the log has as a stall."""
        if ready():
            then(*args)
        else:
            self._block(ready, _Wait(_STALL, name, what, span, src_id), then, args)

    def _block(self, ready: Callable[[], bool], wait: _Wait, then: Callable[..., None], args: tuple[Any, ...]) -> None:
        waiter = Waiter(self.topology_index, self.node, wait.what, wait.span, self.request)
        ticket = self._services.waits.add(waiter)
        self._blocked = _Blocked(ready, self._clock.now, wait.kind, wait.name, wait.src_id, ticket, then, args)

    def changed(self) -> None:
        """A command has issued or is complete, a block has come, or there is room for one."""
        if self._blocked is not None or self._stopped:
            self._clock.defer(self)

    def decide(self) -> None:
        if self._stopped:
            self._finish_if_quiet()
            return
        blocked = self._blocked
        if blocked is None:
            return
        if not blocked.ready():
            return
        self._unblock(blocked)
        self._resume_guarded(self._epoch, blocked.then, blocked.args)

    def _unblock(self, blocked: _Blocked) -> None:
        self._blocked = None
        self._services.waits.remove(blocked.ticket)
        now = self._clock.now
        if now > blocked.since_ps:
            name_id = self._log.intern(blocked.name)
            self._log.add(
                blocked.since_ps, now, self.topology_index, blocked.kind, name_id, self.request, src_id=blocked.src_id
            )

    # ----------------------------------------------------------------- scalars in memory

    def access_memory(
        self, direction: Direction, part: Part, name: str, src_id: int, then: Callable[..., None], *args: Any
    ) -> None:
        """Move one element; `then(*args)` samples or writes it when it has drained."""
        head_ps, pools = self._ways.way(direction, part.place)
        number = self.take_number()
        start = self._clock.now
        self._in_memory += 1

        def drained() -> None:
            self._in_memory -= 1
            self._log.add(
                start, self._clock.now, self.topology_index, _MEMORY[direction], self._log.intern(name), self.request,
                number, -1, 0, part.nbytes, 0, src_id,
            )  # fmt: skip
            if self._stopped:
                self._finish_if_quiet()
            else:
                self._resume_guarded(self._epoch, then, args)

        key = (self.topology_index, number, -1, 0)
        self._clock.call_after(head_ps, self._services.network.start_flow, pools, part.nbytes, key, drained)

    def hold(self, ps: int, then: Callable[..., None], *args: Any) -> None:
        """PE_CPU stands still for some time while something is moved for it; then `then(*args)`."""
        self._in_memory += 1

        def passed() -> None:
            self._in_memory -= 1
            if self._stopped:
                self._finish_if_quiet()
            else:
                self._resume_guarded(self._epoch, then, args)

        self._clock.call_after(ps, passed)

    def watch_read(self, part: Part, tensor: str, span: Span | None) -> None:
        sanitizer = self.parts.sanitizer
        if sanitizer.active and part_io.part_has(self.parts.memory.slice(*part.place), part, UNWRITTEN):
            sanitizer.unwritten_read(tensor, span)

    def watch_write(self, part: Part, span: Span | None) -> None:
        if self.parts.sanitizer.active:
            starts, sizes = part_io.part_runs(part)
            self.parts.sanitizer.stored(self.request, place_number(part.place), self.program, starts, sizes, span)

    # ----------------------------------------------------------------- ends

    def _drain(self) -> None:
        """All programs are dispatched: wait for what is in flight."""
        self.when_complete(list(self.scheduler.live), "end of kernel", None, 0, self._settle)

    def _settle(self) -> None:
        """Nothing is in flight: wait until every block that was sent is received, so that all queues are empty."""
        ipcq = self.parts.ipcq
        if ipcq.all_received:
            self._end()
            return
        sent = ipcq.unreceived()
        counts = [f"{name_of(to)} to receive {count} block{'s' * (count > 1)}" for to, count, _ in sent]
        span = sent[0][2]
        src_id = self._log.intern("" if span is None else str(span))
        self.wait_until(lambda: ipcq.unreceived() != sent, "received", ", ".join(counts), span, src_id, self._settle)

    def _end(self) -> None:
        self._stopped = True
        self._finish_if_quiet()

    def failed(self, command: Command, fault: DeviceFault) -> None:
        """A command met a fault."""
        fault.span = fault.span or command.span
        self._stop(fault)

    def abort(self) -> None:
        """Stop at the next command; what is in flight finishes, a wait ends."""
        if not self.idle and not self._stopped:
            self._aborted = True
            self._stop(None)

    def _stop(self, fault: DeviceFault | None) -> None:
        if self._stopped:
            return
        self._stopped = True
        self._fault = fault
        self._failed_ps = None if fault is None else self._clock.now
        if self._blocked is not None:
            self._unblock(self._blocked)
        self.scheduler.drop_waiting()
        self._clock.defer(self)

    def _finish_if_quiet(self) -> None:
        if self._done is None or not self.scheduler.idle or self._in_memory:
            return
        now = self._clock.now
        if self.exec_start_ps is not None:
            name_id = self._log.intern(self._context.program.name)
            self._log.add(self.exec_start_ps, now, self.topology_index, _KERNEL, name_id, self.request)
        self.parts.ipcq.close()
        self._services.running.discard(self.topology_index)
        self.parts.tape.stop()
        self._laps = None
        done, self._done = self._done, None
        self._epoch += 1
        done(self._result(now))

    def _result(self, now: int) -> PeResult:
        fault, start = self._fault, self.exec_start_ps
        return PeResult(
            ok=fault is None and not self._aborted,
            error_code=None if fault is None else fault.code,
            message="" if fault is None else fault.message,
            span=None if fault is None else fault.span,
            hint=None if fault is None else fault.hint,
            failed_ps=self._failed_ps,
            exec_start_ps=start,
            exec_end_ps=None if start is None else now,
            commands=self.number,
            aborted=self._aborted,
        )
