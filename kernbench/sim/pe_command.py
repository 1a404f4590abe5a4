"""A command on its way through a PE: what it touches, whom it waits for, who waits for it.

Knows hazards in bytes. Does not know what the command does; `dma_command` and `composite_command` do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from kernbench.diagnostics import Span
from kernbench.sim.access_eval import Part
from kernbench.sim.engines.server import Origin
from kernbench.sim.faults import DeviceFault
from kernbench.sim.hazards import Footprint
from kernbench.sim.tape import Likeness


class Completion(Protocol):
    """Who is told when a command is complete, or has met a fault."""

    def completed(self, command: Command) -> None: ...

    def failed(self, command: Command, fault: DeviceFault) -> None: ...


class Command(ABC):
    """Concrete: every address is known. `older` counts the commands that must be complete before it starts."""

    __slots__ = (
        "alone", "complete", "conflicts", "footprint", "hbm_reads", "hbm_writes", "is_composite", "older",
        "origin", "program", "span", "strict", "waiters",
    )  # fmt: skip

    is_composite: bool

    def __init__(self, origin: Origin, program: int, footprint: Footprint, span: Span | None) -> None:
        self.origin = origin
        self.program = program  # linear program id
        self.footprint = footprint
        self.span = span
        self.hbm_reads: Sequence[Part] = ()
        self.hbm_writes: Sequence[Part] = ()
        self.older = 0  # conflicting commands before it; for a composite, DMAs only
        self.conflicts = 0  # of a composite: conflicting composites before it
        self.alone = False  # of a composite: no other is under way when it starts
        self.strict = False  # of a composite: found a conflict at the head of the queue, waits for all before it
        self.complete = False
        self.waiters: list[tuple[Command, bool]] = []  # younger ones; True: both are composites

    @property
    def likeness(self) -> Likeness:
        """All that its own times depend on; nothing is known of those that are never repeated."""
        return ()

    def share(self, server_place: tuple[int, tuple[int, ...]]) -> None:
        """Another composite starts, decided by the server at `server_place`."""
        self.alone = False

    @abstractmethod
    def start(self, completion: Completion) -> None:
        """Begin the work; `completion` is told of its end."""


class RepeatedCommand(Command):
    """One of those that a PE may be skipped over (`laps.py`)."""

    __slots__ = ()

    def state(self, now: int, cmd: int) -> tuple[Any, ...]:
        """How far it is: times counted from `now`, commands from `cmd`."""
        waiters = tuple([(waiter.origin.cmd - cmd, as_composites) for waiter, as_composites in self.waiters])
        return self.origin.cmd - cmd, self.older, self.conflicts, self.alone, self.strict, waiters, *self._progress(now)

    @abstractmethod
    def _progress(self, now: int) -> tuple[Any, ...]:
        """How far its own work is, with times counted from `now`."""

    def load(self) -> tuple[Any, ...]:
        """What it works on, for one of the same likeness that stands where this would."""
        return self.origin, self.program, self.hbm_reads, self.hbm_writes

    def take_load(self, load: tuple[Any, ...]) -> None:
        """Work on what another one would."""
        self.origin, self.program, self.hbm_reads, self.hbm_writes = load

    def skip(self, ps: int) -> None:
        """Let it have begun later."""

    @abstractmethod
    def redo(self, step: int, last: bool) -> None:
        """Move the bytes or compute the values that it noted on the tape as (itself, `step`, `last`)."""
