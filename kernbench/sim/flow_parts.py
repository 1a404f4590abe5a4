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
        "bytes_in", "bytes_out", "carried", "carried_rate", "changed", "count",
        "fresh", "idle", "lone", "mark", "part", "pools", "solved",
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
        for _, _, _, flow in self.own:
            flow.remaining -= self.top * (now - flow.since) // self.bottom
        self.moved += self.top * (now - self.since) // self.bottom
        self.since = now
        self.rate = rate
        self.top, self.bottom = rate[0] << UNIT_BITS, rate[1]
        if self.own:
            waiting, self.own = self.own, []
            for _, key, serial, flow in waiting:
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

    __slots__ = ("_filler", "_memo", "alive", "classes", "load", "pools", "solves", "streams", "timer_at", "uniform")

    def __init__(self, classes: list[FlowClass], pools: list[PoolState], now: int) -> None:
        self.classes, self.pools = classes, pools
        self.uniform = len(classes) == 1 or len(pools) == 1
        self.alive = True
        self.timer_at = -1
        self.solves = 0
        self.load: Weight = 0  # of the one binding pool, if it is uniform
        self._memo: dict[tuple[int, ...], list[Rate]] = {}
        self._make_streams()
        for flow_class in classes:
            flow_class.part = self
            flow_class.solved = 0
        self._solve_first(now)

    def _make_streams(self) -> None:
        if self.uniform:
            self.streams = [Stream()]
            for flow_class in self.classes:
                flow_class.stream = self.streams[0]
            return
        self.streams = [Stream() for _ in self.classes]
        for flow_class, stream in zip(self.classes, self.streams, strict=True):
            flow_class.stream = stream
        place = {flow_class: index for index, flow_class in enumerate(self.classes)}
        rows = [(p.cap, [(place[member], weight) for member, weight in p.members.items()]) for p in self.pools]
        self._filler = Filler(rows, len(self.classes))

    def _solve_first(self, now: int) -> None:
        """Take the flows over; those whose rate stays keep their progress as it is."""
        fresh = [flow for flow_class in self.classes for flow in flow_class.fresh]
        for flow_class in self.classes:
            flow_class.fresh = []
        self.solve(self.classes, now)
        for flow_class in self.classes:
            top, bottom = flow_class.carried_rate
            stream = flow_class.stream
            stays = top * stream.rate[1] == stream.rate[0] * bottom
            for flow in flow_class.carried:
                if not stays:
                    flow.remaining -= (top << UNIT_BITS) * (now - flow.since) // bottom
                    flow.since = now
                stream.add(flow)
            flow_class.carried = []
        for flow in fresh:
            flow.flow_class.stream.add(flow)

    def dissolve(self) -> None:
        """Give every class its flows back, with the rate they had; the part is of no use afterwards."""
        self.alive = False
        for flow_class in self.classes:
            flow_class.part = None
            flow_class.carried_rate = flow_class.stream.rate
        for stream in self.streams:
            for flow in stream.release():
                flow.flow_class.carried.append(flow)

    def solve(self, changed: list[FlowClass], now: int) -> None:
        """New rates after the numbers of flows of `changed` have changed; their fresh flows join their streams."""
        self.solves += 1
        if self.uniform:
            self._solve_uniform(changed, now)
        else:
            self._solve_each(changed, now)
        for flow_class in changed:
            if flow_class.fresh:
                for flow in flow_class.fresh:
                    flow_class.stream.add(flow)
                flow_class.fresh.clear()

    def _solve_uniform(self, changed: list[FlowClass], now: int) -> None:
        single = self.pools[0] if len(self.pools) == 1 else None
        load = self.load
        for flow_class in changed:
            weight = 1 if single is None else single.members[flow_class]
            load += (flow_class.count - flow_class.solved) * weight
            flow_class.solved = flow_class.count
        self.load = load
        if load == 0:
            self.streams[0].set_rate(NO_RATE, now)
        elif single is None:
            top, bottom = self.classes[0].lone
            self.streams[0].set_rate((top, bottom * self.classes[0].count), now)
        else:
            self.streams[0].set_rate((single.cap * load.denominator, load.numerator), now)

    def _solve_each(self, changed: list[FlowClass], now: int) -> None:
        for flow_class in changed:
            flow_class.solved = flow_class.count
        counts = tuple([flow_class.count for flow_class in self.classes])
        rates = self._memo.get(counts)
        if rates is None:
            if len(self._memo) >= _MEMO_ENTRIES:
                self._memo.clear()
            rates = self._memo[counts] = [_rounded(rate) for rate in self._filler.rates(counts)]
        for stream, rate in zip(self.streams, rates, strict=True):
            stream.set_rate(rate, now)

    def due(self) -> int:
        """When the next flow is done; -1 where there is none."""
        if self.uniform:
            return self.streams[0].due()
        return min((due for stream in self.streams if (due := stream.due()) >= 0), default=-1)

    def take(self, now: int) -> list[Flow]:
        """The flows that are done by now, in the order of their keys."""
        done: list[Flow] = []
        for stream in self.streams:
            stream.take(now, done)
        if len(done) > 1:
            done.sort(key=lambda flow: flow.key)
        return done

    def long_idle(self) -> list[FlowClass]:
        """Classes without a flow both now and when this was last asked."""
        found = [flow_class for flow_class in self.classes if flow_class.idle and not flow_class.count]
        for flow_class in self.classes:
            flow_class.idle = not flow_class.count
        return found


def _rounded(rate: Rate) -> Rate:
    top, bottom = rate
    if bottom.bit_length() <= _MAX_DENOMINATOR_BITS:
        return rate
    return (top << UNIT_BITS) // bottom, 1 << UNIT_BITS
