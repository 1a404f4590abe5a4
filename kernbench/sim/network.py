"""Bandwidth shared by transfers, at the level of flows: who is on which pools, at what rate, until when.

A flow occupies all its pools from its start until it has drained. Flows share pools max-min fairly. Rates change
only where a flow starts or ends, once an instant, and only pools whose level this can change are looked at.

A flow that has its pools to itself is booked to its end; only where another flow comes over one of them does it take
part in the sharing, as if it always had.

Flows that a full pool limits have one rate, so they are one stream, and a new rate costs the same for two of them as
for two hundred. A class of flows (those over the same pools) moves to another stream where another pool limits it.

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
from heapq import heappop, heappush
from typing import Any

from kernbench.sim.clock import Clock
from kernbench.sim.filling import Channel, Filling, Rate, Weight
from kernbench.sim.routing import Route
from kernbench.sim.streams import Flow, FlowClass, Stream
from kernbench.sim.topology_graph import TopologyGraph

Done = Callable[[], object]
Key = tuple[Any, ...]

_KEPT_CLASSES = 4096
_TOLD_CLASSES = 64  # the state of more is too much to tell


@dataclass(frozen=True, slots=True)
class PoolUse:
    """What went over a pool in a run."""

    name: str
    bytes_per_s: int
    nbytes: int
    busy_ps: int  # time of what it carried at full bandwidth, weights counted


class Network:
    """All pools of a graph. Its decisions come after those of every component of the instant."""

    def __init__(self, clock: Clock, graph: TopologyGraph) -> None:
        self.clock = clock
        self.topology_index = len(graph.nodes)
        self._graph = graph
        self._filling = Filling()
        self._channels = [Channel(pool.index, pool.bytes_per_s) for pool in graph.pools]
        self._streams = [Stream(pool.index) for pool in graph.pools]  # of the flows that each pool limits
        self._classes: dict[tuple[tuple[int, ...], tuple[Weight, ...] | None], FlowClass] = {}
        self._changed: list[FlowClass] = []
        self._alone: list[Flow | None] = [None] * len(graph.pools)  # by pool: the flow that has it to itself
        self._arriving: dict[Channel, None] = {}  # pools of flows that started in this instant and share
        self._wakes: list[tuple[int, int]] = []  # (time, stream), outdated ones too
        self._alarm = -1  # the time of the event that wakes this network; -1: there is none
        self._touched: dict[int, None] = {}  # streams that lost or got flows or rates in this instant
        self._moved = [0] * len(graph.pools)  # bytes by pool, and the same with weights, of classes that are gone
        self._taken: list[Weight] = [0] * len(graph.pools)

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
        name = pools, weights
        flow_class = self._classes.get(name) or self._new_class(name)
        flow = Flow(flow_class, nbytes, key, done, self.clock.now)
        if self._make_alone(flow):
            flow_class.count += 1
            self.clock.call_at(flow.due_alone(), self._end_alone, flow)
        else:
            flow_class.fresh.append(flow)
            flow_class.count += 1
            self._change(flow_class)
        flow_class.bytes_in += nbytes

    # A flow by itself

    def _make_alone(self, flow: Flow) -> bool:
        """Give a flow its pools if nobody is on them; else let those that have one of them to themselves share it.

        A flow that is done in this instant is off its pools already: it has nothing left that it could share.
        """
        alone, arriving, now = self._alone, self._arriving, self.clock.now
        channels = flow.flow_class.channels
        free = True
        for channel in channels:
            other = alone[channel.index]
            if other is not None and other.due_alone() > now:
                self._share(other)
            if channel.demands or channel in arriving:
                free = False
        if free:
            flow.is_alone = True
            for channel in channels:
                alone[channel.index] = flow
        else:
            arriving.update(dict.fromkeys(channels))
        return free

    def _share(self, flow: Flow) -> None:
        """Let a flow take part in the sharing from now on, with what it has moved since its start."""
        flow.is_alone = False
        flow_class = flow.flow_class
        for channel in flow_class.channels:
            self._alone[channel.index] = None
        self._settle([flow_class], self.clock.now, self._touched)
        flow_class.flows[flow] = None
        self._streams[flow_class.limiter.index].add(flow)
        self._touched[flow_class.limiter.index] = None

    def _end_alone(self, flow: Flow) -> None:
        if not flow.is_alone:
            return  # it has shared since
        flow_class = flow.flow_class
        for channel in flow_class.channels:
            if self._alone[channel.index] is flow:  # not yet that of one that starts in this instant
                self._alone[channel.index] = None
        flow_class.count -= 1
        flow_class.bytes_out += flow.nbytes
        if not flow_class.count:
            self._retire(flow_class)
        flow.done()

    # What runs and tests look at

    def uses(self) -> list[PoolUse]:
        """What went over every pool that carried anything, in topology order."""
        moved, taken = list(self._moved), list(self._taken)
        for flow_class in self._classes.values():
            _account(flow_class, moved, taken)
        return [
            PoolUse(pool.name, pool.bytes_per_s, moved[pool.index], _drain_ps(taken[pool.index], pool.bytes_per_s))
            for pool in self._graph.pools
            if moved[pool.index]
        ]

    @property
    def flows(self) -> int:
        """How many flows have not drained yet."""
        return sum(flow_class.count for flow_class in self._classes.values())

    def check_idle(self) -> None:
        """The end of a run: nothing under way, bytes in are bytes out, no pool busier than the time that passed."""
        for (pools, _), flow_class in self._classes.items():
            assert not flow_class.count, f"{flow_class.count} flows have not drained over pools {pools}"
            assert flow_class.bytes_in == flow_class.bytes_out, f"bytes in and out differ over pools {pools}"
        for use in self.uses():
            assert use.busy_ps <= self.clock.now, f"{use.name} was busy for longer than the run"

    # Skipping time

    def state(self, now: int, named: Callable[[Flow], Any]) -> tuple[Any, ...] | None:
        """All that what comes next depends on, with times counted from `now`; `named` tells flows apart.

        None in the middle of an instant, where `named` does not know a flow, and where there is too much to tell.
        """
        if self._changed or self._touched or self._arriving or len(self._classes) > _TOLD_CLASSES:
            return None
        busy = [flow_class for flow_class in self._classes.values() if flow_class.count]
        shared = [flow_class for flow_class in busy if flow_class.flows]
        flows = [flow for flow_class in shared for flow in flow_class.flows]
        alone = dict.fromkeys(
            flow for flow_class in busy for c in flow_class.channels if (flow := self._alone[c.index]) is not None
        )
        if any(named(flow) is None for flow in (*flows, *alone)):
            return None
        streams = dict.fromkeys(flow_class.limiter.index for flow_class in shared)
        channels = dict.fromkeys(channel for flow_class in shared for channel in flow_class.channels)
        return (
            tuple((flow_class.name, flow_class.count, flow_class.limiter.index) for flow_class in busy),
            tuple((named(flow), flow.state(now)) for flow in alone),
            tuple(self._streams[index].state(now, named) for index in streams),
            tuple(channel.state for channel in channels),
            self._alarm - now if self._alarm >= 0 else -1,
        )

    def skip(self, ps: int, rename: Callable[[Key], Key]) -> None:
        """Let everything be later, and flows have other keys of the same order."""
        for flow in dict.fromkeys(flow for flow in self._alone if flow is not None):
            flow.since += ps
            flow.key = rename(flow.key)
        for flow_class in self._classes.values():
            for flow in flow_class.flows:
                flow.key = rename(flow.key)
        streams = self._streams
        self._wakes = [(at + ps, index) for at, index in sorted(self._wakes) if streams[index].due_at == at]
        for stream in streams:
            if stream.live:
                stream.skip(ps)
        if self._alarm >= 0:
            self._alarm += ps

    def moved(self) -> dict[FlowClass, tuple[int, int]]:
        """The bytes that have gone in and out so far, by class."""
        return {flow_class: (flow_class.bytes_in, flow_class.bytes_out) for flow_class in self._classes.values()}

    # One instant

    def decide(self) -> None:
        """Settle the starts and ends of this instant; called by the clock."""
        now = self.clock.now
        changed, self._changed = self._changed, []
        touched, self._touched = self._touched, {}
        self._arriving.clear()
        self._settle([flow_class for flow_class in changed if flow_class.count != flow_class.solved], now, touched)
        for flow_class in changed:
            flow_class.changed = False
            if flow_class.fresh:
                index = flow_class.limiter.index
                for flow in flow_class.fresh:
                    flow_class.flows[flow] = None
                    self._streams[index].add(flow)
                flow_class.fresh.clear()
                touched[index] = None
            elif not flow_class.count:
                self._retire(flow_class)
        self._set_wakes(touched)

    def _settle(self, changed: list[FlowClass], now: int, touched: dict[int, None]) -> None:
        """New rates for new numbers of flows; flows under way move to the streams of what limits them now."""
        streams = self._streams
        channels, moved = self._filling.settle(changed)
        between: list[tuple[Flow, Rate, Stream]] = []
        for flow_class, before in moved:
            assert isinstance(flow_class, FlowClass)
            for flow in flow_class.flows:
                source = streams[before.index]
                source.remove(flow)
                between.append((flow, source.rate, streams[flow_class.limiter.index]))
                touched[before.index] = None
        for channel in channels:
            streams[channel.index].set_rate(channel.exact, now)
            touched[channel.index] = None
        for flow, rate, target in between:
            if rate != target.rate:
                flow.move_on(rate, now)
            target.add(flow)
            touched[target.index] = None

    def _new_class(self, name: tuple[tuple[int, ...], tuple[Weight, ...] | None]) -> FlowClass:
        pools, weights = name
        uses: dict[Channel, Weight] = {}
        for index, weight in zip(pools, weights or (1,) * len(pools), strict=True):
            assert weight.numerator > 0, f"a weight of {weight}"
            channel = self._channels[index]
            uses[channel] = uses[channel] + weight if channel in uses else weight
        made = self._classes[name] = FlowClass(name, uses)
        return made

    def _retire(self, flow_class: FlowClass) -> None:
        """Classes that come back are worth keeping; where there are very many, few do."""
        if len(self._classes) > _KEPT_CLASSES:
            _account(flow_class, self._moved, self._taken)
            del self._classes[flow_class.name]

    def _change(self, flow_class: FlowClass) -> None:
        if not flow_class.changed:
            flow_class.changed = True
            self._changed.append(flow_class)
            self.clock.defer(self)

    # When flows are done

    def _set_wakes(self, touched: dict[int, None]) -> None:
        """Note when the next flow of these streams is done, and be woken for the first of all."""
        for index in touched:
            stream = self._streams[index]
            due = stream.due()
            if due != stream.due_at:
                stream.due_at = due
                if due >= 0:
                    heappush(self._wakes, (due, index))
        self._set_alarm()

    def _set_alarm(self) -> None:
        wakes = self._wakes
        while wakes and self._streams[wakes[0][1]].due_at != wakes[0][0]:
            heappop(wakes)
        if wakes and (self._alarm < 0 or wakes[0][0] < self._alarm):
            self._alarm = wakes[0][0]
            self.clock.call_at(self._alarm, self._wake)

    def _wake(self) -> None:
        """Flows that are done now leave in the order of their keys."""
        alarm = self.clock.now
        if alarm != self._alarm:
            return  # there has been an earlier one since
        self._alarm = -1
        done: list[Flow] = []
        while self._wakes and self._wakes[0][0] <= alarm:
            at, index = heappop(self._wakes)
            stream = self._streams[index]
            if stream.due_at == at:
                stream.due_at = -1
                stream.take(alarm, done)
                self._touched[index] = None
        if len(done) > 1:
            done.sort(key=_by_key)
        for flow in done:
            flow_class = flow.flow_class
            flow_class.count -= 1
            flow_class.bytes_out += flow.nbytes
            del flow_class.flows[flow]
            self._change(flow_class)
        for flow in done:
            flow.done()
        if not done:
            self._set_alarm()


def _account(flow_class: FlowClass, moved: list[int], taken: list[Weight]) -> None:
    nbytes = flow_class.bytes_out
    for channel, _, _ in flow_class.uses:
        moved[channel.index] += nbytes
        taken[channel.index] += nbytes * flow_class.weights.get(channel, 1)


def _by_key(flow: Flow) -> tuple[Any, ...]:
    return flow.key


def _drain_ps(nbytes: Weight, bytes_per_s: int) -> int:
    """The time of so many bytes at full bandwidth, rounded down: what of the run a pool was fully used."""
    return nbytes.numerator * 10**12 // (nbytes.denominator * bytes_per_s)
