"""Flows under way, and streams of flows that have one rate: how far each is, and which is done next.

Does not know why a rate is what it is, nor when it changes.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from heapq import heappop, heappush
from typing import Any

from kernbench.sim.filling import NO_RATE, Channel, Demand, Rate, Weight

UNIT_BITS = 20
UNITS_PER_BYTE = 10**12 << UNIT_BITS

_MAX_DENOMINATOR_BITS = 64

Entry = tuple[int, tuple[Any, ...], int, "Flow"]  # (units or ps, key, serial, flow)


def usable(rate: Rate) -> Rate:
    """The rate at which flows move: one whose denominator is too long is rounded down."""
    if rate[1].bit_length() > _MAX_DENOMINATOR_BITS:
        return Fraction((rate[0] << UNIT_BITS) // rate[1], 1 << UNIT_BITS).as_integer_ratio()
    return rate


class FlowClass(Demand):
    """All flows with the same pools and weights; they all have the same rate."""

    __slots__ = ("_alone", "bytes_in", "bytes_out", "changed", "channels", "flows", "fresh", "name")

    def __init__(self, name: tuple[Any, ...], uses: dict[Channel, Weight]) -> None:
        super().__init__(uses)
        self.name = name  # its pools and weights
        self.channels = tuple(uses)
        self._alone: Rate | None = None
        self.flows: dict[Flow, None] = {}  # in streams
        self.fresh: list[Flow] = []  # started in this instant
        self.changed = False
        self.bytes_in = self.bytes_out = 0

    @property
    def alone(self) -> Rate:
        """The rate of a flow that has its pools to itself."""
        if self._alone is None:
            rates = [Fraction(channel.cap) / self.weights.get(channel, 1) for channel in self.channels]
            self._alone = usable(min(rates).as_integer_ratio())
        return self._alone


class Flow:
    """One transfer. Among a stream's `targets` its own `since` and `remaining` are stale; the stream's hold."""

    __slots__ = ("done", "entry", "flow_class", "in_own", "is_alone", "key", "nbytes", "remaining", "since")

    def __init__(
        self, flow_class: FlowClass, nbytes: int, key: tuple[Any, ...], done: Callable[[], object], now: int
    ) -> None:
        self.flow_class, self.nbytes, self.key, self.done = flow_class, nbytes, key, done
        self.remaining = nbytes * UNITS_PER_BYTE
        self.since = now  # when `remaining` was true
        self.entry: Entry | None = None  # where it waits; other entries of it are left over
        self.in_own = False  # in which of its stream's two heaps
        self.is_alone = False  # in no stream: nothing else has been on its pools

    def due_alone(self) -> int:
        """When it is done at the rate of one by itself."""
        top, bottom = self.flow_class.alone
        return self.since - (-self.remaining * bottom // (top << UNIT_BITS))

    def state(self, now: int) -> tuple[Any, ...]:
        """How far it is, with times counted from `now`, for one whose own `since` and `remaining` are true."""
        return self.flow_class.name, self.nbytes, self.remaining, self.since - now

    def move_on(self, rate: Rate, now: int) -> None:
        """Count the progress at the rate that it had."""
        self.remaining -= (rate[0] << UNIT_BITS) * (now - self.since) // rate[1]
        self.since = now


class Stream:
    """Flows of one rate. `moved` is what a flow of this stream has moved since the stream began, at time `since`.

    Flows whose progress counts from `since` wait in `targets`, by the `moved` at which they are done; those that
    came while the rate stayed wait in `own`, by their finish, since their progress counts from their own start.
    """

    __slots__ = ("bottom", "due_at", "index", "live", "moved", "own", "rate", "serial", "since", "targets", "top")

    def __init__(self, index: int) -> None:
        self.index = index
        self.rate = NO_RATE
        self.top, self.bottom = NO_RATE
        self.since = self.moved = self.serial = self.live = 0
        self.targets: list[Entry] = []
        self.own: list[Entry] = []
        self.due_at = -1  # when it has asked to be woken

    def set_rate(self, rate: Rate, now: int) -> None:
        """From now on at `rate`; with an equal rate nothing at all changes."""
        rate = usable(rate)
        if rate == self.rate:
            return
        if self.live:
            self._move_on(now)
        self.since = now
        self.rate = rate
        self.top, self.bottom = rate[0] << UNIT_BITS, rate[1]

    def _move_on(self, now: int) -> None:
        """Count the progress at the present rate, after which all flows are in `targets`."""
        self.moved += self.top * (now - self.since) // self.bottom
        waiting, self.own = self.own, []
        for entry in waiting:
            flow = entry[3]
            if flow.entry is entry:
                flow.remaining -= self.top * (now - flow.since) // self.bottom
                self._enter(self.targets, self.moved + flow.remaining, flow)

    def add(self, flow: Flow) -> None:
        """Take a flow whose `remaining` is true at its `since`, at the present rate."""
        self.live += 1
        if flow.since == self.since:
            self._enter(self.targets, self.moved + flow.remaining, flow)
        else:
            self._enter(self.own, flow.since - (-flow.remaining * self.bottom // self.top), flow)

    def _enter(self, heap: list[Entry], at: int, flow: Flow) -> None:
        self.serial += 1
        flow.entry = entry = (at, flow.key, self.serial, flow)
        flow.in_own = heap is self.own
        heappush(heap, entry)

    def remove(self, flow: Flow) -> None:
        """Give a flow back, with a `remaining` that is true at its `since`."""
        assert flow.entry is not None
        if not flow.in_own:
            flow.remaining, flow.since = flow.entry[0] - self.moved, self.since
        self._drop(flow)

    def due(self) -> int:
        """When the next flow is done; -1 where there is none."""
        own, targets = self.own, self.targets
        while own and own[0][3].entry is not own[0]:
            heappop(own)
        while targets and targets[0][3].entry is not targets[0]:
            heappop(targets)
        first = own[0][0] if own else -1
        if not targets:
            return first
        target = self.since - ((self.moved - targets[0][0]) * self.bottom // self.top)
        return target if first < 0 else min(first, target)

    def take(self, now: int, into: list[Flow]) -> None:
        """Move the flows that are done by now."""
        while 0 <= self.due() <= now:
            own = self.own
            flow = heappop(own if own and own[0][0] <= now else self.targets)[3]
            self._drop(flow)
            into.append(flow)

    def state(self, now: int, named: Callable[[Flow], Any]) -> tuple[Any, ...]:
        """How far its flows are, with times counted from `now`; `named` tells flows apart."""
        entries = [
            (at - (now if flow.in_own else self.moved), flow.in_own, named(flow), flow.flow_class.name, flow.nbytes)
            + ((flow.remaining, flow.since - now) if flow.in_own else ())
            for heap in (self.own, self.targets)
            for at, _, _, flow in sorted(entry for entry in heap if entry[3].entry is entry)
        ]
        due = self.due_at - now if self.due_at >= 0 else -1
        return self.index, self.rate, self.since - now, due, tuple(entries)

    def skip(self, ps: int) -> None:
        """Let everything be later, and note the keys that flows have now."""
        self.since += ps
        if self.due_at >= 0:
            self.due_at += ps
        for heap, later in (self.own, ps), (self.targets, 0):
            waiting = sorted(entry for entry in heap if entry[3].entry is entry)
            heap.clear()
            for at, _, serial, flow in waiting:
                flow.since += later
                flow.entry = entry = (at + later, flow.key, serial, flow)
                heap.append(entry)

    def _drop(self, flow: Flow) -> None:
        flow.entry = None
        self.live -= 1
        if not self.live:
            self.own.clear()
            self.targets.clear()
