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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernbench.sim.clock import Clock
from kernbench.sim.filling import Weight
from kernbench.sim.flow_parts import Flow, FlowClass, Part, PoolState, part_of
from kernbench.sim.routing import Route
from kernbench.sim.topology_graph import TopologyGraph

Done = Callable[[], object]


@dataclass(frozen=True, slots=True)
class PoolUse:
    """What went over a pool in a run."""

    name: str
    bytes_per_s: int
    nbytes: int
    busy_ps: int  # time of what it carried at full bandwidth, weights counted


class Network:
    """All pools of a graph. Its decisions come after those of every component of the instant."""

    def __init__(self, clock: Clock, graph: TopologyGraph, quiet_after: int = 32) -> None:
        """Classes without a flow are taken off their pools after about `quiet_after` changes around them."""
        self.clock = clock
        self._quiet_after = quiet_after
        self.topology_index = len(graph.nodes)
        self._graph = graph
        self._pools = [PoolState(pool) for pool in graph.pools]
        self._classes: dict[tuple[tuple[int, ...], tuple[Weight, ...] | None], FlowClass] = {}
        self._changed: list[FlowClass] = []
        self._active: list[FlowClass] = []  # whose traffic is not in the totals yet, so that looking at them is cheap
        self._moved = [0] * len(self._pools)
        self._taken: list[Weight] = [0] * len(self._pools)
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
        flow_class.fresh.append(Flow(flow_class, nbytes, key, done, self.clock.now))
        flow_class.count += 1
        flow_class.bytes_in += nbytes
        if not flow_class.active:
            flow_class.active = True
            self._active.append(flow_class)
        self._change(flow_class)

    # What runs and tests look at

    def uses(self) -> list[PoolUse]:
        """What went over every pool that carried anything, in topology order."""
        self._count()
        return [self._use(index) for index, nbytes in enumerate(self._moved) if nbytes]

    def _use(self, index: int) -> PoolUse:
        pool = self._graph.pools[index]
        return PoolUse(pool.name, pool.bytes_per_s, self._moved[index], _drain_ps(self._taken[index], pool.bytes_per_s))

    def _count(self) -> None:
        """Bring the totals up to now."""
        active, self._active = self._active, []
        for flow_class in active:
            nbytes = flow_class.bytes_out - flow_class.counted
            flow_class.counted = flow_class.bytes_out
            for pool, weight in flow_class.pools:
                self._moved[pool.index] += nbytes
                self._taken[pool.index] += nbytes * weight
            flow_class.active = flow_class.count > 0
            if flow_class.active:
                self._active.append(flow_class)

    @property
    def flows(self) -> int:
        """How many flows have not drained yet."""
        return sum(flow_class.count for flow_class in self._classes.values())

    def check_idle(self) -> None:
        """The end of a run: nothing under way, bytes in are bytes out, no pool busier than the time that passed.

        Only what had traffic since the last time is looked at; the rest was right then and still is.
        """
        used: dict[int, None] = {}
        for flow_class in self._active:
            used.update((pool.index, None) for pool, _ in flow_class.pools)
            assert not flow_class.count, f"{flow_class.count} flows have not drained over pools {list(used)}"
            assert flow_class.bytes_in == flow_class.bytes_out, f"bytes in and out differ over pools {list(used)}"
        self._count()
        for index in used:
            use = self._use(index)
            assert use.busy_ps <= self.clock.now, f"{use.name} was busy for longer than the run"

    # One instant

    def decide(self) -> None:
        """Settle the starts and ends of this instant; called by the clock."""
        now = self.clock.now
        changed, self._changed = self._changed, []
        joining: list[FlowClass] = []
        parts: list[Part] = []
        for flow_class in changed:
            flow_class.changed = False
            part = flow_class.part
            if part is None:
                joining.append(flow_class)
            elif flow_class.count != flow_class.solved:
                if not part.changed:
                    parts.append(part)
                part.changed.append(flow_class)
            elif flow_class.fresh:  # one ended and another began: all rates stay
                self._admit(part, flow_class)
        if joining:
            self._regroup(joining, [], now)
        for part in parts:
            if part.alive:
                self._solve(part, now)

    def _new_class(self, pools: tuple[int, ...], weights: tuple[Weight, ...] | None) -> FlowClass:
        total: dict[PoolState, Weight] = {}
        for index, weight in zip(pools, weights or (1,) * len(pools), strict=True):
            assert weight > 0, f"a weight of {weight}"
            pool = self._pools[index]
            total[pool] = total.get(pool, 0) + weight
        made = self._classes[pools, weights] = FlowClass(total)
        return made

    def _change(self, flow_class: FlowClass) -> None:
        if not flow_class.changed:
            flow_class.changed = True
            self._changed.append(flow_class)
            self.clock.defer(self)

    def _admit(self, part: Part, flow_class: FlowClass) -> None:
        for flow in flow_class.fresh:
            flow_class.stream.add(flow)
        flow_class.fresh.clear()
        self._set_timer(part)

    def _solve(self, part: Part, now: int) -> None:
        part.solve(now)
        self._set_timer(part)
        if part.solves % self._quiet_after == 0 and len(part.classes) > 2 and (idle := part.long_idle()):
            self._regroup([], idle, now)

    def _set_timer(self, part: Part) -> None:
        """Wake up when the next flow of a part is done, unless that is already arranged."""
        due = part.due()
        if due >= 0 and due != part.timer_at:
            part.timer_at = due
            self.clock.call_at(due, self._fire, part)

    def _fire(self, part: Part) -> None:
        """The next flows of a part are done, unless it has been solved or regrouped since."""
        now = self.clock.now
        if not part.alive or part.timer_at != now:
            return
        part.timer_at = -1
        done = part.take(now)
        for flow in done:
            flow_class = flow.flow_class
            flow_class.count -= 1
            flow_class.bytes_out += flow.nbytes
        if not part.rest(now):
            for flow in done:
                self._change(flow.flow_class)
        for flow in done:
            flow.done()

    # Which classes bind one another

    def _regroup(self, joining: list[FlowClass], leaving: list[FlowClass], now: int) -> None:
        """Let classes take or leave their pools, and make new parts of all that this concerns."""
        touched: dict[PoolState, None] = {}
        loose: dict[FlowClass, None] = dict.fromkeys(joining)
        for flow_class in joining:
            for pool, weight in flow_class.pools:
                pool.join(flow_class, weight)
                touched[pool] = None
        for flow_class in leaving:
            self._loosen(flow_class, loose)
            for pool, _ in flow_class.pools:
                pool.leave(flow_class)
                touched[pool] = None
        for pool in touched:
            pool.binding = pool.can_bind
            if pool.binding:  # of one that has become slack, all members were in the part that has been loosened
                for member in pool.members:
                    self._loosen(member, loose)
        for flow_class in leaving:
            del loose[flow_class]
        self._make_parts(loose, now)

    def _loosen(self, flow_class: FlowClass, loose: dict[FlowClass, None]) -> None:
        part = flow_class.part
        if part is not None:
            part.dissolve()
            loose.update(dict.fromkeys(part.classes))

    def _make_parts(self, loose: dict[FlowClass, None], now: int) -> None:
        self._epoch += 1
        epoch = self._epoch
        for source in loose:
            if source.mark == epoch:
                continue
            source.mark = epoch
            classes, pools = [source], []
            for flow_class in classes:  # grows while it is walked
                for pool, _ in flow_class.pools:
                    if pool.binding and pool.mark != epoch:
                        pool.mark = epoch
                        pools.append(pool)
                        fresh = [member for member in pool.members if member.mark != epoch]
                        for member in fresh:
                            member.mark = epoch
                        classes.extend(fresh)
            part = part_of(classes, pools)
            part.start(now)
            self._set_timer(part)


def _drain_ps(nbytes: Weight, bytes_per_s: int) -> int:
    """The time of so many bytes at full bandwidth, rounded down: what of the run a pool was fully used."""
    return nbytes.numerator * 10**12 // (nbytes.denominator * bytes_per_s)
