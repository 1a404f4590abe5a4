"""The state of flows that share bandwidth: pools, classes of flows, streams of one rate, and the parts they form.

A part is a set of classes that bind one another through pools that can bind; parts do not touch. Within a part that
one pool binds (or that has one class) every flow has the same rate, so one stream holds them all and a change costs
the same for two flows as for two hundred; elsewhere each class has a stream of its own.

Does not know the clock, nor when parts are solved: `network` decides that.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from heapq import heappop, heappush
from typing import Any

from kernbench.sim.filling import Filler, Rate, Weight
from kernbench.sim.topology_graph import Pool

UNIT_BITS = 20
UNITS_PER_BYTE = 10**12 << UNIT_BITS
NO_RATE: Rate = (0, 1)

_MAX_DENOMINATOR_BITS = 64
_MEMO_ENTRIES = 1024

Entry = tuple[int, tuple[Any, ...], int, "Flow"]  # (units or ps, key, serial, flow)


class PoolState:
    """A pool and the classes that are on it.

    It cannot bind while all that can reach it through its members' tightest pools (`feeders`) is no more than its own
    bandwidth; such pools are left out of every computation.
    """

    __slots__ = ("binding", "cap", "fed", "feeders", "index", "mark", "members", "self_fed")

    def __init__(self, pool: Pool) -> None:
        self.index, self.cap = pool.index, pool.bytes_per_s
        self.members: dict[FlowClass, Weight] = {}
        self.feeders: dict[PoolState, int] = {}  # tightest pools of the members, with how many members have it
        self.fed = 0  # sum of the feeders' bandwidths
        self.self_fed = 0  # members for which no other pool is a bound
        self.binding = False
        self.mark = 0

    @property
    def can_bind(self) -> bool:
        return self.self_fed > 0 or self.fed > self.cap

    def join(self, member: FlowClass, weight: Weight) -> None:
        self.members[member] = weight
        feeder = member.feeder_of(self, weight)
        if feeder is None:
            self.self_fed += 1
            return
        count = self.feeders.get(feeder, 0)
        self.feeders[feeder] = count + 1
        if count == 0:
            self.fed += feeder.cap

    def leave(self, member: FlowClass) -> None:
        feeder = member.feeder_of(self, self.members.pop(member))
        if feeder is None:
            self.self_fed -= 1
            return
        self.feeders[feeder] -= 1
        if not self.feeders[feeder]:
            del self.feeders[feeder]
            self.fed -= feeder.cap


class Flow:
    """One transfer. In a stream's `targets` its own `since` and `remaining` are stale; the stream's hold."""

    __slots__ = ("done", "flow_class", "key", "nbytes", "remaining", "since")

    def __init__(
        self, flow_class: FlowClass, nbytes: int, key: tuple[Any, ...], done: Callable[[], object], now: int
    ) -> None:
        self.flow_class, self.nbytes, self.key, self.done = flow_class, nbytes, key, done
        self.remaining = nbytes * UNITS_PER_BYTE
        self.since = now  # when `remaining` was true


class FlowClass:
    """All flows with the same pools and weights; they all have the same rate."""

    __slots__ = (
        "active", "bytes_in", "bytes_out", "carried", "carried_rate", "changed", "count",
        "counted", "fresh", "idle", "lone", "mark", "part", "pools", "solved",
        "stream", "tight_weight", "tightest",
    )  # fmt: skip

    def __init__(self, pools: dict[PoolState, Weight]) -> None:
        self.pools = tuple(pools.items())
        bounds = [(Fraction(pool.cap) / weight, pool.index, pool, weight) for pool, weight in self.pools]
        rate, _, self.tightest, self.tight_weight = min(bounds, key=lambda bound: bound[:2])
        self.lone: Rate = rate.as_integer_ratio()
        self.count = 0  # flows under way
        self.solved = 0  # flows for which the rate was computed
        self.fresh: list[Flow] = []  # started in this instant
        self.part: Part | None = None  # None while it is on no pool
        self.stream = Stream()
        self.carried: list[Flow] = []  # between two parts: flows under way, and the rate they had
        self.carried_rate = NO_RATE
        self.changed = self.idle = False
        self.mark = 0
        self.bytes_in = self.bytes_out = 0
        self.counted = 0  # of `bytes_out`, what the network's totals hold
        self.active = False  # it had a flow since the totals were made

    def feeder_of(self, pool: PoolState, weight: Weight) -> PoolState | None:
        """The pool whose bandwidth bounds what this class sends over `pool`, if there is another."""
        return None if pool is self.tightest or weight > self.tight_weight else self.tightest


class Stream:
    """Flows of one rate. `moved` is what a flow of this stream has moved since the stream began, at time `since`.

    Flows whose progress counts from `since` wait in `targets`, by the `moved` at which they are done; those that
    came while the rate stayed wait in `own`, by their finish, since their progress counts from their own start.
    """

    __slots__ = ("bottom", "moved", "own", "rate", "serial", "since", "targets", "top")

    def __init__(self) -> None:
        self.rate = NO_RATE
        self.top, self.bottom = NO_RATE
        self.since = self.moved = self.serial = 0
        self.targets: list[Entry] = []
        self.own: list[Entry] = []

    def set_rate(self, rate: Rate, now: int) -> None:
        """From now on at `rate`; with an equal rate nothing at all changes."""
        if rate[0] * self.rate[1] == self.rate[0] * rate[1]:
            return
        if self.top and (self.targets or self.own):
            self._move_on(now)
        self.since = now
        self.rate = rate
        self.top, self.bottom = rate[0] << UNIT_BITS, rate[1]

    def _move_on(self, now: int) -> None:
        """Count the progress at the present rate, after which all flows are in `targets`."""
        self.moved += self.top * (now - self.since) // self.bottom
        waiting, self.own = self.own, []
        for _, key, serial, flow in waiting:
            flow.remaining -= self.top * (now - flow.since) // self.bottom
            heappush(self.targets, (self.moved + flow.remaining, key, serial, flow))

    def add(self, flow: Flow) -> None:
        """Take a flow whose `remaining` is true at its `since`, at the present rate."""
        self.serial += 1
        if flow.since == self.since:
            heappush(self.targets, (self.moved + flow.remaining, flow.key, self.serial, flow))
        else:
            finish = flow.since - (-flow.remaining * self.bottom // self.top)
            heappush(self.own, (finish, flow.key, self.serial, flow))

    def due(self) -> int:
        """When the next flow is done; -1 where there is none."""
        first = self.own[0][0] if self.own else -1
        if not self.targets:
            return first
        target = self.since - ((self.moved - self.targets[0][0]) * self.bottom // self.top)
        return target if first < 0 else min(first, target)

    def take(self, now: int, into: list[Flow]) -> None:
        """Move the flows that are done by now."""
        own, targets = self.own, self.targets
        while own and own[0][0] <= now:
            into.append(heappop(own)[3])
        while targets and self.since - ((self.moved - targets[0][0]) * self.bottom // self.top) <= now:
            into.append(heappop(targets)[3])

    def release(self) -> list[Flow]:
        """All flows, each with what remains of it at its own `since`; the stream is of no use afterwards."""
        for target, _, _, flow in self.targets:
            flow.remaining, flow.since = target - self.moved, self.since
        return [entry[3] for entry in self.targets] + [entry[3] for entry in self.own]


class Part:
    """Classes that bind one another. `solve` gives them their rates for the flows that there are."""

    __slots__ = ("alive", "changed", "classes", "solves", "timer_at")

    def __init__(self, classes: list[FlowClass]) -> None:
        self.classes = classes
        self.changed: list[FlowClass] = []  # those of this instant whose number of flows is new
        self.alive = True
        self.timer_at = -1
        self.solves = 0

    def start(self, now: int) -> None:
        """Take all classes with the flows they have; those whose rate stays keep their progress as it is."""
        fresh = [flow for flow_class in self.classes for flow in flow_class.fresh]
        for flow_class in self.classes:
            flow_class.part = self
            flow_class.solved = 0
            flow_class.fresh.clear()
        self.changed = list(self.classes)
        self.solve(now)
        for flow_class in self.classes:
            self._take_over(flow_class, now)
        for flow in fresh:
            flow.flow_class.stream.add(flow)

    def _take_over(self, flow_class: FlowClass, now: int) -> None:
        top, bottom = flow_class.carried_rate
        stream = flow_class.stream
        stays = top * stream.rate[1] == stream.rate[0] * bottom
        for flow in flow_class.carried:
            if not stays:
                flow.remaining -= (top << UNIT_BITS) * (now - flow.since) // bottom
                flow.since = now
            stream.add(flow)
        flow_class.carried.clear()

    def dissolve(self) -> None:
        """Give every class its flows back, with the rate they had; the part is of no use afterwards."""
        self.alive = False
        for flow_class in self.classes:
            flow_class.part = None
            flow_class.carried_rate = flow_class.stream.rate
        for stream in self.streams():
            for flow in stream.release():
                flow.flow_class.carried.append(flow)

    def long_idle(self) -> list[FlowClass]:
        """Classes without a flow both now and when this was last asked."""
        found = [flow_class for flow_class in self.classes if flow_class.idle and not flow_class.count]
        for flow_class in self.classes:
            flow_class.idle = not flow_class.count
        return found

    def streams(self) -> list[Stream]:
        raise NotImplementedError

    def solve(self, now: int) -> None:
        """New rates for the numbers of flows of `changed`; their fresh flows join their streams."""
        raise NotImplementedError

    def due(self) -> int:
        """When the next flow is done; -1 where there is none."""
        raise NotImplementedError

    def take(self, now: int) -> list[Flow]:
        """The flows that are done by now, in the order of their keys."""
        raise NotImplementedError

    def rest(self, now: int) -> bool:
        """Stand still at once if no flow is left, so that no new rates are needed; whether that is so."""
        raise NotImplementedError


class UniformPart(Part):
    """A part whose flows all have one rate: it has one class, or one pool that binds."""

    __slots__ = ("cap", "load", "stream", "weights")

    def __init__(self, classes: list[FlowClass], pools: list[PoolState]) -> None:
        super().__init__(classes)
        self.stream = Stream()
        self.load: Weight = 0  # what a unit of rate of all flows takes of `cap`
        if len(classes) == 1:
            top, bottom = classes[0].lone
            self.cap = top
            self.weights: dict[FlowClass, Weight] = {classes[0]: bottom}
        else:
            self.cap = pools[0].cap
            self.weights = dict(pools[0].members)
        for flow_class in classes:
            flow_class.stream = self.stream

    def streams(self) -> list[Stream]:
        return [self.stream]

    def solve(self, now: int) -> None:
        self.solves += 1
        load, stream = self.load, self.stream
        for flow_class in self.changed:
            load += (flow_class.count - flow_class.solved) * self.weights[flow_class]
            flow_class.solved = flow_class.count
        self.load = load
        if type(load) is int:
            stream.set_rate((self.cap, load) if load else NO_RATE, now)
        else:
            stream.set_rate((self.cap * load.denominator, load.numerator) if load else NO_RATE, now)
        for flow_class in self.changed:
            if flow_class.fresh:
                for flow in flow_class.fresh:
                    stream.add(flow)
                flow_class.fresh.clear()
        self.changed.clear()

    def due(self) -> int:
        return self.stream.due()

    def take(self, now: int) -> list[Flow]:
        done: list[Flow] = []
        self.stream.take(now, done)
        if len(done) > 1:
            done.sort(key=_by_key)
        return done

    def rest(self, now: int) -> bool:
        if self.stream.targets or self.stream.own:
            return False  # flows that have just started are in neither; they make their class changed
        self.load = 0
        self.stream.set_rate(NO_RATE, now)
        for flow_class in self.classes:
            flow_class.solved = 0
        return True


class MixedPart(Part):
    """A part with several pools that bind: each class has a rate, and a stream, of its own."""

    __slots__ = ("_filler", "_memo", "_streams")

    def __init__(self, classes: list[FlowClass], pools: list[PoolState]) -> None:
        super().__init__(classes)
        self._streams = [Stream() for _ in classes]
        self._memo: dict[tuple[int, ...], list[Rate]] = {}
        for flow_class, stream in zip(classes, self._streams, strict=True):
            flow_class.stream = stream
        place = {flow_class: index for index, flow_class in enumerate(classes)}
        rows = [(pool.cap, [(place[member], weight) for member, weight in pool.members.items()]) for pool in pools]
        self._filler = Filler(rows, len(classes))

    def streams(self) -> list[Stream]:
        return self._streams

    def solve(self, now: int) -> None:
        self.solves += 1
        for flow_class in self.changed:
            flow_class.solved = flow_class.count
        counts = tuple([flow_class.count for flow_class in self.classes])
        rates = self._memo.get(counts)
        if rates is None:
            if len(self._memo) >= _MEMO_ENTRIES:
                self._memo.clear()
            rates = self._memo[counts] = [_rounded(rate) for rate in self._filler.rates(counts)]
        for stream, rate in zip(self._streams, rates, strict=True):
            if rate is not stream.rate:
                stream.set_rate(rate, now)
        for flow_class in self.changed:
            for flow in flow_class.fresh:
                flow_class.stream.add(flow)
            flow_class.fresh.clear()
        self.changed.clear()

    def due(self) -> int:
        return min((due for stream in self._streams if (due := stream.due()) >= 0), default=-1)

    def take(self, now: int) -> list[Flow]:
        done: list[Flow] = []
        for stream in self._streams:
            stream.take(now, done)
        if len(done) > 1:
            done.sort(key=_by_key)
        return done

    def rest(self, now: int) -> bool:
        return False


def part_of(classes: list[FlowClass], pools: list[PoolState]) -> Part:
    """A part of classes that bind one another over these pools."""
    uniform = len(classes) == 1 or len(pools) == 1
    return UniformPart(classes, pools) if uniform else MixedPart(classes, pools)


def _by_key(flow: Flow) -> tuple[Any, ...]:
    return flow.key


def _rounded(rate: Rate) -> Rate:
    top, bottom = rate
    if bottom.bit_length() <= _MAX_DENOMINATOR_BITS:
        return rate
    return (top << UNIT_BITS) // bottom, 1 << UNIT_BITS
