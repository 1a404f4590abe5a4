"""PE_SCHEDULER: takes commands in program order, finds their hazards, and issues each when it may start.

Composites have one queue, plain reads, plain writes and sends one each. A plain DMA or a send waits for the older
commands that it conflicts with. A composite waits for older DMAs and sends that it conflicts with; if at the head of
the queue it conflicts with a composite in flight, it waits for all composites before it. Nothing overtakes
a blocked composite, unless `issue: rw_aware` lets through those that conflict with nothing before them.

Room: commands that have not issued take a place in the queue of `queue_depth`; as many composites may be in flight.
Decisions are made once an instant. Knows what commands touch. Does not know what they do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from kernbench.sim.access_eval import Part
from kernbench.sim.clock import Clock
from kernbench.sim.dma_command import DmaCommand
from kernbench.sim.engines.pe_dma import Channel
from kernbench.sim.faults import DeviceFault
from kernbench.sim.hazards import Hazard, Range, hbm_conflict, overlap
from kernbench.sim.pe_command import Command, RepeatedCommand
from kernbench.sim.pe_messages import SendCommand
from kernbench.sim.pe_parts import PeParts
from kernbench.sim.topology_schema import Issue, PeSpec

_NONE = Hazard.NONE


class Owner(Protocol):
    """PE_CPU, as PE_SCHEDULER sees it."""

    def changed(self) -> None:
        """A command has issued, so its place in the queue is free, or is complete."""

    def failed(self, command: Command, fault: DeviceFault) -> None:
        """A command has met a fault."""


class PeScheduler:
    __slots__ = (
        "__weakref__", "_clock", "_composites", "_depth", "_dma", "_in_flight", "_ipcq", "_issue", "_lone", "_owner",
        "_reads", "_room", "_sends", "_tape", "_writes", "live", "topology_index",
    )  # fmt: skip

    def __init__(self, clock: Clock, topology_index: int, spec: PeSpec, parts: PeParts, owner: Owner) -> None:
        self.topology_index = topology_index
        self.live: dict[Command, None] = {}  # not complete yet, oldest first
        self._clock = clock
        self._issue: Issue = spec.pe_scheduler.issue
        self._depth = self._room = spec.pe_cpu.queue_depth
        self._dma, self._ipcq, self._tape = parts.dma, parts.ipcq, parts.tape
        for channel in (parts.dma.read, parts.dma.write, parts.ipcq.sends):
            channel.on_room = self._channel_has_room
        self._owner = owner
        self._composites: deque[Command] = deque()
        self._reads: deque[Command] = deque()
        self._writes: deque[Command] = deque()
        self._sends: deque[Command] = deque()
        self._in_flight = 0  # composites issued and not complete
        self._lone: Command | None = None  # the composite under way that started alone, while it is

    @property
    def idle(self) -> bool:
        return not self.live

    @property
    def has_room(self) -> bool:
        return self._room > 0

    # ----------------------------------------------------------------- taking commands in

    def enqueue(self, command: Command) -> None:
        """Take a command; all that it must wait for is before it."""
        assert self._room > 0, "PE_CPU hands over a command only when there is room"
        self._room -= 1
        if self._tape.runs:
            self._tape.note_conflicts(command, self.live)
        self._find_hazards(command)
        self.live[command] = None
        self._queue_of(command).append(command)
        self._clock.defer(self)

    def state(self, now: int, cmd: int) -> tuple[Any, ...] | None:
        """All that what comes next depends on: times counted from `now`, commands from `cmd`.

        None where a command is none of those that may be skipped over.
        """
        under_way = []
        for command in self.live:
            if not isinstance(command, RepeatedCommand):
                return None
            under_way.append((command.likeness, command.state(now, cmd)))
        queues = (self._composites, self._reads, self._writes, self._sends)
        return (
            tuple(under_way),
            tuple([tuple([command.origin.cmd - cmd for command in queue]) for queue in queues]),
            self._room,
            self._in_flight,
            None if self._lone is None else self._lone.origin.cmd - cmd,
        )

    def _queue_of(self, command: Command) -> deque[Command]:
        if isinstance(command, DmaCommand):
            return self._reads if command.is_read else self._writes
        return self._sends if isinstance(command, SendCommand) else self._composites

    def _find_hazards(self, command: Command) -> None:
        footprint = command.footprint
        known = footprint.conflicts
        reads, writes = command.hbm_reads, command.hbm_writes
        for older in self.live:
            hazard = known.get(older.footprint)
            if hazard is None:
                hazard = footprint.conflict(older.footprint)
            if hazard is _NONE and not (
                ((older.hbm_writes and (reads or writes)) or (writes and older.hbm_reads))
                and hbm_conflict(reads, writes, older.hbm_reads, older.hbm_writes)
            ):
                continue
            if command.is_composite and older.is_composite:
                command.conflicts += 1
                older.waiters.append((command, True))
            else:
                command.older += 1
                older.waiters.append((command, False))

    # ----------------------------------------------------------------- issue

    def decide(self) -> None:
        if self._reads:
            self._issue_dmas(self._reads, self._dma.read)
        if self._writes:
            self._issue_dmas(self._writes, self._dma.write)
        if self._sends:
            self._issue_dmas(self._sends, self._ipcq.sends)
        if not self._composites:
            return
        if self._issue == "in_order":
            self._issue_in_order()
        else:
            self._issue_rw_aware()

    def _issue_dmas(self, queue: deque[Command], channel: Channel) -> None:
        while queue and queue[0].older == 0 and channel.has_room:
            self._start(queue.popleft())

    def _issue_in_order(self) -> None:
        queue = self._composites
        while queue and self._in_flight < self._depth and self._may_issue(queue[0], self._in_flight == 0):
            self._start(queue.popleft())

    def _may_issue(self, command: Command, first: bool) -> bool:
        """For the head of the queue. `first`: every composite before it is complete."""
        if command.conflicts:
            command.strict = True
        return command.older == 0 and (first if command.strict else command.conflicts == 0)

    def _issue_rw_aware(self) -> None:
        """A blocked composite may be passed by those that conflict with none before them."""
        blocked: deque[Command] = deque()
        queue = self._composites
        while queue and self._in_flight < self._depth:
            command = queue.popleft()
            free = command.older == command.conflicts == 0
            if free if blocked else self._may_issue(command, self._is_oldest(command)):
                self._start(command)
            else:
                blocked.append(command)
        blocked.extend(queue)
        self._composites = deque(command for command in blocked if command in self.live)  # a fault drops them all

    def _is_oldest(self, command: Command) -> bool:
        """Those that passed a blocked composite are younger; it does not wait for them."""
        return next(other for other in self.live if other.is_composite) is command

    def _start(self, command: Command) -> None:
        self._room += 1
        if command.is_composite:
            self._in_flight += 1
            self._share_engines(command)
        try:
            command.start(self)
        except DeviceFault as fault:
            self._owner.failed(command, fault)
            self.completed(command)
            return
        self._owner.changed()

    def _share_engines(self, command: Command) -> None:
        """A composite alone is told when it is not any more."""
        if self._lone is not None:
            self._lone.share((self.topology_index, ()))
        command.alone = self._in_flight == 1
        self._lone = command if command.alone else None

    def _channel_has_room(self) -> None:
        self._clock.defer(self)

    # ----------------------------------------------------------------- ends

    def completed(self, command: Command) -> None:
        command.complete = True
        del self.live[command]
        if command.is_composite:
            self._in_flight -= 1
            if command is self._lone:
                self._lone = None
        for waiter, as_composite in command.waiters:
            if as_composite:
                waiter.conflicts -= 1
            else:
                waiter.older -= 1
        if self._room < self._depth:  # some have not issued
            self._clock.defer(self)
        self._owner.changed()

    def failed(self, command: Command, fault: DeviceFault) -> None:
        self._owner.failed(command, fault)

    def drop_waiting(self) -> None:
        """Forget what has not issued: the PE stops."""
        for queue in (self._composites, self._reads, self._writes, self._sends):
            for command in queue:
                del self.live[command]
                self._room += 1
            queue.clear()

    # ----------------------------------------------------------------- what PE_CPU asks

    def touching(self, ranges: Sequence[Range], writers_only: bool = False) -> list[Command]:
        """The commands not complete yet that touch these bytes of TCM."""
        return [command for command in self.live if _touches(command, ranges, writers_only)]

    def conflicting(self, reads: Sequence[Part], writes: Sequence[Part]) -> list[Command]:
        """The commands not complete yet that an access of PE_CPU to memory must come after."""
        return [c for c in self.live if hbm_conflict(reads, writes, c.hbm_reads, c.hbm_writes)]


def _touches(command: Command, ranges: Sequence[Range], writers_only: bool) -> bool:
    footprint = command.footprint
    if overlap(ranges, footprint.writes):
        return True
    return not writers_only and overlap(ranges, (*footprint.reads, *footprint.rings))
