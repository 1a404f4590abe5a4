"""Bandwidth shared by transfers, at the level of flows: who is on which pools, at what rate, until when.

A flow occupies all its pools from its start until it has drained. Flows share pools max-min fairly. Rates change
only where a flow starts or ends, once an instant, and only in the connected part of the network that is affected.

The integer rules. A rate is an exact fraction p/q of bytes a second. With what remains counted in units of
2^-20 x 10^-12 bytes, a flow that keeps its rate for dt picoseconds has moved floor(p x 2^20 x dt / q) units, and
finishes after the least dt with p x 2^20 x dt >= remaining x q. So a flow whose rate never changes drains in exactly
ceil(bytes x weight x 10^12 / bandwidth), and two equal flows over one link in ceil(2 x bytes x 10^12 / bandwidth). A
rate whose reduced denominator has more than 64 bits is rounded down to 2^-20 bytes a second.

What limits the model: no packets, no virtual channels, no head-of-line blocking.
Does not know paths, messages or memories; `routing` names the pools of a path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import Any

from kernbench.sim.clock import Clock
from kernbench.sim.filling import PoolLoad, Rate, Weight, fill
from kernbench.sim.routing import Route
from kernbench.sim.topology_graph import Pool, TopologyGraph

Done = Callable[[], object]

_UNIT_BITS = 20
_UNITS_PER_BYTE = 10**12 << _UNIT_BITS
_MAX_DENOMINATOR_BITS = 64
_NO_RATE: Rate = (0, 1)


@dataclass(frozen=True, slots=True)
class PoolUse:
    """What went over a pool in a run."""

    name: str
    bytes_per_s: int
    nbytes: int
    busy_ps: int  # time in which at least one flow occupied it


class _Pool:
    """A pool with the classes that now have flows on it.

    A pool cannot bind while all that can reach it through its flows' tightest pools (`feeders`) is no more than its
    own bandwidth; such pools are left out of every computation.
    """

    __slots__ = (
        "active",
        "binding",
        "busy_ps",
        "cap",
        "fed",
        "feeders",
        "index",
        "mark",
        "members",
        "self_fed",
        "since",
    )

    def __init__(self, pool: Pool) -> None:
        self.index, self.cap = pool.index, pool.bytes_per_s
        self.members: dict[_FlowClass, Weight] = {}
        self.feeders: dict[_Pool, int] = {}  # tightest pools of the members, with how many members have it
        self.fed = 0  # sum of the feeders' bandwidths
        self.self_fed = 0  # members for which no other pool is a bound
        self.binding = False
        self.mark = 0
        self.busy_ps = 0
        self.since = 0

    @property
    def can_bind(self) -> bool:
        return self.self_fed > 0 or self.fed > self.cap

    def join(self, member: _FlowClass, weight: Weight, now: int) -> None:
        if not self.members:
            self.since = now
        self.members[member] = weight
        feeder = member.feeder_of(self, weight)
        if feeder is None:
            self.self_fed += 1
            return
        count = self.feeders.get(feeder, 0)
        self.feeders[feeder] = count + 1
        if count == 0:
            self.fed += feeder.cap

    def leave(self, member: _FlowClass, now: int) -> None:
        weight = self.members.pop(member)
        if not self.members:
            self.busy_ps += now - self.since
        feeder = member.feeder_of(self, weight)
        if feeder is None:
            self.self_fed -= 1
            return
        count = self.feeders[feeder] - 1
        if count:
            self.feeders[feeder] = count
        else:
            del self.feeders[feeder]
            self.fed -= feeder.cap


class _Flow:
    __slots__ = ("done", "finish", "key", "nbytes", "remaining", "since")

    def __init__(self, nbytes: int, key: tuple[Any, ...], done: Done, now: int) -> None:
        self.nbytes, self.key, self.done = nbytes, key, done
        self.remaining = nbytes * _UNITS_PER_BYTE
        self.since = now  # when `remaining` was true
        self.finish = 0


class _FlowClass:
    """All flows with the same pools and weights; they all have the same rate."""

    __slots__ = (
        "active", "bytes_in", "bytes_out", "changed", "flows", "fresh", "group", "lone", "mark", "pools", "rate",
        "solved", "tight_weight", "tightest", "unique_pools",
    )  # fmt: skip

    def __init__(self, pools: dict[_Pool, Weight]) -> None:
        self.pools = tuple(pools.items())
        slack = [(Fraction(pool.cap) / weight, pool.index, pool, weight) for pool, weight in self.pools]
        rate, _, self.tightest, self.tight_weight = min(slack, key=lambda entry: entry[:2])
        self.lone: Rate = rate.as_integer_ratio()
        self.flows: dict[_Flow, None] = {}
        self.fresh: list[_Flow] = []  # started in this instant
        self.rate: Rate = _NO_RATE
        self.solved = 0  # number of flows for which `rate` was computed
        self.active = self.changed = False
        self.group: _Group | None = None
        self.mark = 0
        self.bytes_in = self.bytes_out = 0

    def feeder_of(self, pool: _Pool, weight: Weight) -> _Pool | None:
        """The pool whose bandwidth bounds what this class sends over `pool`, if there is another."""
        return None if pool is self.tightest or weight > self.tight_weight else self.tightest


class _Group:
    """Classes that bind one another now, and when their flows finish if nothing changes."""

    __slots__ = ("alive", "finishes", "timer_at")

    def __init__(self) -> None:
        self.alive = True
        self.finishes: list[tuple[int, tuple[Any, ...], int, _FlowClass, _Flow]] = []
        self.timer_at = -1


class Network:
    """All pools of a graph. Its decisions come after those of every component of the instant."""

    def __init__(self, clock: Clock, graph: TopologyGraph) -> None:
        self.clock = clock
        self.topology_index = len(graph.nodes)
        self._graph = graph
        self._pools = [_Pool(pool) for pool in graph.pools]
        self._classes: dict[tuple[tuple[int, ...], tuple[Weight, ...] | None], _FlowClass] = {}
        self._changed: list[_FlowClass] = []
        self._serial = 0
        self._epoch = 0

    # What components call

    def send(
        self,
        route: Route,
        nbytes: int,
        key: tuple[Any, ...],
        done: Done,
        weights: tuple[Weight, ...] | None = None,
    ) -> None:
        """Head latency of the route, which occupies nothing; then the flow; then `done`."""
        if nbytes == 0:
            self.clock.call_after(route.head_ps, done)
            return
        self.clock.call_after(route.head_ps, self.start_flow, route.pools, nbytes, key, done, weights)

    def start_flow(
        self,
        pools: tuple[int, ...],
        nbytes: int,
        key: tuple[Any, ...],
        done: Done,
        weights: tuple[Weight, ...] | None = None,
    ) -> None:
        """Occupy `pools` from now until `nbytes` have drained, then call `done`.

        `weights` say how much of each pool a byte takes, 1 by default. Flows of one instant and rate finish in the
        order of their keys. `done` is never called at once; with nothing to drain it is called in this instant.
        """
        assert nbytes >= 0, f"a flow of {nbytes} bytes"
        if nbytes == 0 or not pools:
            self.clock.call_after(0, done)
            return
        flow_class = self._classes.get((pools, weights)) or self._new_class(pools, weights)
        flow = _Flow(nbytes, key, done, self.clock.now)
        flow_class.flows[flow] = None
        flow_class.fresh.append(flow)
        flow_class.bytes_in += nbytes
        self._change(flow_class)

    # What runs and tests look at

    def uses(self) -> list[PoolUse]:
        """What went over every pool that carried anything, in topology order."""
        moved = [0] * len(self._pools)
        for flow_class in self._classes.values():
            for pool, _ in flow_class.pools:
                moved[pool.index] += flow_class.bytes_out
        now = self.clock.now
        return [
            PoolUse(pool.name, pool.bytes_per_s, moved[pool.index], self._busy_ps(self._pools[pool.index], now))
            for pool in self._graph.pools
            if moved[pool.index]
        ]

    @property
    def flows(self) -> int:
        """How many flows have not drained yet."""
        return sum(len(flow_class.flows) for flow_class in self._classes.values())

    def check_idle(self) -> None:
        """The end of a run: nothing under way, bytes in are bytes out, no pool busier than the time that passed."""
        now = self.clock.now
        for (pools, _), flow_class in self._classes.items():
            assert not flow_class.flows, f"{len(flow_class.flows)} flows have not drained over pools {pools}"
            assert flow_class.bytes_in == flow_class.bytes_out, f"bytes in and out differ over pools {pools}"
        for pool in self._pools:
            assert not pool.members, f"pool {pool.index} is still occupied"
            assert pool.busy_ps <= now, f"pool {pool.index} was busy for longer than the run"

    def _busy_ps(self, pool: _Pool, now: int) -> int:
        return pool.busy_ps + (now - pool.since if pool.members else 0)

    # One instant

    def decide(self) -> None:
        """Settle the starts and ends of this instant; called by the clock."""
        now = self.clock.now
        changed, self._changed = self._changed, []
        unsolved: list[_FlowClass] = []
        for flow_class in changed:
            flow_class.changed = False
            if len(flow_class.flows) != flow_class.solved:
                unsolved.append(flow_class)
            elif flow_class.group is not None:  # one ended and another began: all rates stay
                self._admit(flow_class.group, flow_class)
                self._set_timer(flow_class.group)
        if unsolved:
            self._solve(unsolved, now)

    def _new_class(self, pools: tuple[int, ...], weights: tuple[Weight, ...] | None) -> _FlowClass:
        total: dict[_Pool, Weight] = {}
        for index, weight in zip(pools, weights or (1,) * len(pools), strict=True):
            assert weight > 0, f"a weight of {weight}"
            pool = self._pools[index]
            total[pool] = total.get(pool, 0) + weight
        made = self._classes[pools, weights] = _FlowClass(total)
        return made

    def _change(self, flow_class: _FlowClass) -> None:
        if not flow_class.changed:
            flow_class.changed = True
            self._changed.append(flow_class)
            self.clock.defer(self)

    def _admit(self, group: _Group, flow_class: _FlowClass) -> None:
        """Put the flows that have just started among the finishes, at the rate that the class has."""
        for flow in flow_class.fresh:
            self._expect(flow_class, flow)
            heappush(group.finishes, self._entry(flow_class, flow))
        flow_class.fresh.clear()

    def _entry(self, flow_class: _FlowClass, flow: _Flow) -> tuple[int, tuple[Any, ...], int, _FlowClass, _Flow]:
        self._serial += 1
        return flow.finish, flow.key, self._serial, flow_class, flow

    def _expect(self, flow_class: _FlowClass, flow: _Flow) -> None:
        top, bottom = flow_class.rate
        flow.finish = flow.since - (-flow.remaining * bottom // (top << _UNIT_BITS))

    def _set_timer(self, group: _Group) -> None:
        if not group.finishes:
            return
        due = group.finishes[0][0]
        if group.timer_at < 0 or due < group.timer_at:
            group.timer_at = due
            self.clock.call_at(due, self._fire, group)

    def _fire(self, group: _Group) -> None:
        """The next flows of a group have drained, unless the group has been solved anew since."""
        if not group.alive:
            return
        now, finishes = self.clock.now, group.finishes
        if group.timer_at == now:
            group.timer_at = -1
        while finishes and finishes[0][0] <= now:
            _, _, _, flow_class, flow = heappop(finishes)
            del flow_class.flows[flow]
            flow_class.bytes_out += flow.nbytes
            self._change(flow_class)
            flow.done()

    # Solving what has changed

    def _solve(self, unsolved: list[_FlowClass], now: int) -> None:
        flipped = self._occupy(unsolved, now)
        self._epoch += 1
        for flow_class in unsolved:
            if flow_class.active:
                self._solve_part([flow_class], now)
            else:
                for pool, _ in flow_class.pools:
                    if pool.binding:
                        self._solve_part(pool.members, now)
        for pool in flipped:  # one that has become slack still links its flows this once
            for member in pool.members:
                self._solve_part([member], now)

    def _occupy(self, unsolved: list[_FlowClass], now: int) -> list[_Pool]:
        """Let classes take or leave their pools; the pools that can bind now and could not, or the reverse."""
        touched: dict[_Pool, None] = {}
        for flow_class in unsolved:
            active = bool(flow_class.flows)
            if active == flow_class.active:
                continue
            flow_class.active = active
            for pool, weight in flow_class.pools:
                touched[pool] = None
                if active:
                    pool.join(flow_class, weight, now)
                else:
                    pool.leave(flow_class, now)
            if not active:
                self._retire(flow_class)
        flipped = [pool for pool in touched if pool.binding != pool.can_bind]
        for pool in flipped:
            pool.binding = not pool.binding
        return flipped

    def _retire(self, flow_class: _FlowClass) -> None:
        flow_class.solved = 0
        flow_class.rate = _NO_RATE
        if flow_class.group is not None:
            flow_class.group.alive = False
            flow_class.group = None

    def _solve_part(self, sources: Iterable[_FlowClass], now: int) -> None:
        """Solve the part of the network that binds with `sources`, unless this has been done in this instant."""
        epoch = self._epoch
        classes: list[_FlowClass] = []
        pools: list[_Pool] = []
        for source in sources:
            if source.mark != epoch:
                source.mark = epoch
                classes.append(source)
        for flow_class in classes:  # grows while it is walked
            for pool, _ in flow_class.pools:
                if pool.binding and pool.mark != epoch:
                    pool.mark = epoch
                    pools.append(pool)
                    for member in pool.members:
                        if member.mark != epoch:
                            member.mark = epoch
                            classes.append(member)
        if classes:
            self._apply(classes, _rates(classes, pools), now)

    def _apply(self, classes: list[_FlowClass], rates: list[Rate], now: int) -> None:
        """Give classes their rates, and make one new group of them."""
        group = _Group()
        for flow_class, rate in zip(classes, rates, strict=True):
            old = flow_class.group
            if old is not None:
                old.alive = False
            flow_class.group = group
            flow_class.solved = len(flow_class.flows)
            if rate[0] * flow_class.rate[1] == flow_class.rate[0] * rate[1]:
                for flow in flow_class.fresh:
                    self._expect(flow_class, flow)
            else:
                self._change_rate(flow_class, rate, now)
            flow_class.fresh.clear()
            group.finishes.extend(self._entry(flow_class, flow) for flow in flow_class.flows)
        heapify(group.finishes)
        self._set_timer(group)

    def _change_rate(self, flow_class: _FlowClass, rate: Rate, now: int) -> None:
        old_top, old_bottom = flow_class.rate
        old_top <<= _UNIT_BITS
        flow_class.rate = rate
        top, bottom = rate
        top <<= _UNIT_BITS
        for flow in flow_class.flows:
            if flow.since != now:
                flow.remaining -= old_top * (now - flow.since) // old_bottom
                flow.since = now
            flow.finish = now - (-flow.remaining * bottom // top)


def _rates(classes: list[_FlowClass], pools: list[_Pool]) -> list[Rate]:
    """The max-min fair rates of classes that bind one another."""
    if len(classes) == 1:
        (one,) = classes
        return [(one.lone[0], one.lone[1] * len(one.flows))]
    if len(pools) == 1:
        pool = pools[0]
        load = sum(len(flow_class.flows) * pool.members[flow_class] for flow_class in classes)
        return [(pool.cap * load.denominator, load.numerator)] * len(classes)
    place = {flow_class: index for index, flow_class in enumerate(classes)}
    loads = [
        PoolLoad(pool.cap, [(place[member], len(member.flows) * weight) for member, weight in pool.members.items()])
        for pool in pools
    ]
    return [_rounded(rate) for rate in fill(loads, len(classes))]


def _rounded(rate: Rate) -> Rate:
    top, bottom = rate
    if bottom.bit_length() <= _MAX_DENOMINATOR_BITS:
        return rate
    return (top << _UNIT_BITS) // bottom, 1 << _UNIT_BITS
