"""An in-order server of one PE: what arrives in one instant is sorted, then each job is booked behind the last.

A server of one PE can be booked ahead, since nobody else uses it and its order is that of arrival; so a job costs
one event, at its end. Does not know what a job is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from operator import itemgetter
from typing import Any, NamedTuple

from kernbench.sim.clock import Clock
from kernbench.sim.op_log import OpLog

_ORDER = itemgetter(0, 1, 2)


class Origin(NamedTuple):
    """Whom a stage belongs to, as the log has it."""

    request: int
    cmd: int
    src_id: int


class InOrderServer(ABC):
    """Subclasses `submit` tuples that start with (command, tile, stage), and `serve` them."""

    __slots__ = ("__weakref__", "_inbox", "_part", "busy_ps", "clock", "free_ps", "log", "topology_index")

    def __init__(self, clock: Clock, log: OpLog, topology_index: int, part: int = 0) -> None:
        self.clock = clock
        self.log = log
        self.topology_index = topology_index
        self.free_ps = 0
        self.busy_ps = 0
        self._part = (part,)  # tells servers of one component apart
        self._inbox: list[tuple[Any, ...]] = []

    def _arrive(self, job: tuple[Any, ...]) -> None:
        if not self._inbox:
            self.clock.defer(self, self._part)
        self._inbox.append(job)

    def decide(self) -> None:
        jobs, self._inbox = self._inbox, []
        if len(jobs) > 1:
            jobs.sort(key=_ORDER)
        now = self.clock.now
        for job in jobs:
            self.serve(now, job)

    def idle_at(self, now: int) -> bool:
        """Nothing is booked that is not over."""
        return self.free_ps <= now and not self._inbox

    def state(self, now: int) -> tuple[int, ...] | None:
        """All that what comes next depends on, with times counted from `now`; None in the middle of an instant."""
        return None if self._inbox else (max(0, self.free_ps - now),)

    def skip(self, ps: int) -> None:
        """Let everything be later."""
        self.free_ps += ps

    def follow(self, rehearsed: InOrderServer, start_ps: int) -> None:
        """Stand as one does that has done the same work, begun at `start_ps` rather than at 0."""
        assert type(rehearsed) is type(self)
        if rehearsed.free_ps:
            self.free_ps = start_ps + rehearsed.free_ps
        self.busy_ps += rehearsed.busy_ps

    @abstractmethod
    def serve(self, now: int, job: tuple[Any, ...]) -> None:
        """Book one job that arrived at `now`."""
