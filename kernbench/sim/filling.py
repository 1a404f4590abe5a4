"""Max-min fair rates of demands that share channels, kept up to date as demands come and go.

All rates rise together until a channel is full; its demands stay there, and the others rise on. So a channel has a
level, the rate of those it limits, and a demand has the least level of its channels. The result is unique, so it does
not matter in which order it is found: `Filling` looks only at channels whose level can have changed, lowest first,
as in the dynamic shortest paths of Ramalingam and Reps (an increase of a level leaves all lower ones as they are).

Levels are exact fractions. They are compared as fixed-point numbers with far more digits than two fractions with
denominators of 64 bits need to differ, so what is equal is found equal and what is not is told apart.

Does not know time, bytes or what a channel is.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from heapq import heappop, heappush
from math import gcd

Weight = int | Fraction
Rate = tuple[int, int]  # numerator, denominator

NO_RATE: Rate = (0, 1)

_BITS = 256  # of the fraction of a fixed-point level, and of a fixed-point weight
_NOISE = 1 << _BITS - 136  # above what rounding adds up to; fractions of 64 bits differ by 2 ** -128 or more
_UNLIMITED = 1 << _BITS + 128  # the level of a channel that is not full


class Channel:
    """A bandwidth, and the demands on it.

    It cannot limit anything while all that can reach it through its demands' tightest channels (`feeders`) is no more
    than its own bandwidth. Until that is so for the first time since it was empty, it is left out of every computation.
    """

    __slots__ = (
        "cap", "demands", "exact", "fed", "feeders", "fixed_cap", "index", "key",
        "level", "limited", "limits", "load", "self_fed", "share", "stale",
    )  # fmt: skip

    def __init__(self, index: int, cap: int) -> None:
        self.index, self.cap = index, cap
        self.fixed_cap = cap << 2 * _BITS
        self.demands: dict[Demand, int] = {}  # with their weights, in fixed point
        self.load = 0  # what a unit of rate of all demands takes, in fixed point
        self.feeders: dict[Channel, int] = {}  # tightest channels of the demands, with how many have it
        self.fed = 0  # sum of the feeders' bandwidths
        self.self_fed = 0  # demands for which no other channel is a bound
        self.limits = False
        self.level = _UNLIMITED
        self.exact: Rate = NO_RATE  # the level, while it has one
        self.limited: dict[Demand, None] = {}  # the demands that have this level
        self.share = _UNLIMITED  # what the level should be, unless `stale`
        self.stale = False
        self.key = -1  # its place in the heap; -1: in none

    def find_share(self) -> int:
        """The level at which this channel is full, as far as other channels let its demands rise."""
        limited, load = self.limited, self.load
        if len(limited) == len(self.demands):
            return self.fixed_cap // load if load else _UNLIMITED
        left = self.fixed_cap
        others = [(d.limiter.level, d.solved * weight) for d, weight in self.demands.items() if d not in limited]
        others.sort()
        for level, part in others:
            if level * load >= left:
                break
            left -= level * part
            load -= part
        return left // load if load else _UNLIMITED

    def find_exact(self) -> Rate:
        """The level as a fraction; those of the channels with lower levels are right."""
        near = self.level - _NOISE
        lower: dict[Channel, Weight] = {}
        load: Weight = 0
        for demand in self.demands:
            part = demand.solved * demand.weights.get(self, 1)
            if demand.limiter.level >= near:
                load += part
            else:
                lower[demand.limiter] = lower.get(demand.limiter, 0) + part
        top, bottom = self.cap, 1
        for limiter, part in lower.items():
            over, under = limiter.exact
            under *= part.denominator
            common = gcd(bottom, under)
            top = top * (under // common) - over * part.numerator * (bottom // common)
            bottom *= under // common
        top *= load.denominator
        bottom *= load.numerator
        common = gcd(top, bottom)
        return top // common, bottom // common


NOWHERE = Channel(-1, 0)  # what limits a demand that no full channel limits


class Demand:
    """A number of equal takers with the same channels and weights."""

    __slots__ = ("bounds", "count", "limiter", "solved", "uses", "weights")

    def __init__(self, uses: dict[Channel, Weight]) -> None:
        tightest, most = None, 0
        for channel, weight in uses.items():
            if tightest is None or channel.cap * most < tightest.cap * weight:
                tightest, most = channel, weight
        assert tightest is not None
        self.weights = {channel: weight for channel, weight in uses.items() if weight != 1}
        self.uses = tuple(
            (channel, _fixed(weight), None if channel is tightest or weight > most else tightest)
            for channel, weight in uses.items()
        )  # each with the channel that bounds what comes over it, if there is another
        self.count = 0  # takers that there are
        self.solved = 0  # takers that have been counted in
        self.bounds: dict[Channel, None] = {}  # its channels that can limit it
        self.limiter = NOWHERE

    @property
    def rate(self) -> Rate:
        """What each taker gets."""
        return self.limiter.exact


class Filling:
    """Demands that change, and what this does to the levels of their channels."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Channel]] = []
        self._changed: dict[Channel, None] = {}
        self._moved: dict[Demand, Channel] = {}

    def settle(self, demands: Iterable[Demand]) -> tuple[list[Channel], list[tuple[Demand, Channel]]]:
        """Count in the takers of these demands.

        Returns the channels whose level has changed, and the demands that have another limiter, with the one before.
        """
        touched: dict[Channel, None] = {}
        joining = []
        for demand in demands:
            if not demand.solved:
                joining.append(demand)
            elif demand.count:
                self._recount(demand, touched)
            else:
                self._leave(demand, touched)
        for demand in joining:
            self._join(demand, touched)
        for demand in joining:
            least = min(demand.bounds, key=_level_of)
            if least.level < _UNLIMITED:
                self._limit(demand, least)
        self._examine(touched)
        self._sweep()
        return self._finish()

    # Coming and going

    def _join(self, demand: Demand, touched: dict[Channel, None]) -> None:
        demand.solved = count = demand.count
        for channel, weight, feeder in demand.uses:
            channel.demands[demand] = weight
            channel.load += count * weight
            if feeder is None:
                channel.self_fed += 1
            else:
                feeding = channel.feeders.get(feeder, 0)
                channel.feeders[feeder] = feeding + 1
                if not feeding:
                    channel.fed += feeder.cap
            if channel.limits:
                demand.bounds[channel] = None
                touched[channel] = None
            elif channel.self_fed or channel.fed > channel.cap:
                channel.limits = True
                touched[channel] = None
                for member in channel.demands:
                    member.bounds[channel] = None

    def _leave(self, demand: Demand, touched: dict[Channel, None]) -> None:
        count = demand.solved
        demand.solved = 0
        for channel, weight, feeder in demand.uses:
            del channel.demands[demand]
            channel.load -= count * weight
            if feeder is None:
                channel.self_fed -= 1
            else:
                feeding = channel.feeders[feeder] - 1
                if feeding:
                    channel.feeders[feeder] = feeding
                else:
                    del channel.feeders[feeder]
                    channel.fed -= feeder.cap
            if not channel.demands:
                self._vacate(channel)
                touched.pop(channel, None)
            elif channel.level < _UNLIMITED:
                touched[channel] = None
        demand.limiter.limited.pop(demand, None)
        self._moved[demand] = demand.limiter
        demand.limiter = NOWHERE
        demand.bounds.clear()

    def _vacate(self, channel: Channel) -> None:
        channel.limits = False
        channel.level = channel.share = _UNLIMITED

    def _recount(self, demand: Demand, touched: dict[Channel, None]) -> None:
        more = demand.count - demand.solved
        demand.solved = demand.count
        for channel, weight, _ in demand.uses:
            channel.load += more * weight
        touched.update(demand.bounds)

    def _limit(self, demand: Demand, channel: Channel) -> None:
        before = demand.limiter
        self._moved.setdefault(demand, before)
        before.limited.pop(demand, None)
        demand.limiter = channel
        channel.limited[demand] = None

    # The sweep

    def _examine(self, channels: Iterable[Channel]) -> None:
        """Put channels whose level is not what it should be where the sweep will meet them."""
        for channel in channels:
            channel.stale = False
            channel.share = share = channel.find_share()
            level = channel.level
            if -_NOISE <= share - level <= _NOISE:
                channel.key = -1
            else:
                self._queue(channel, share if share < level else level)

    def _queue(self, channel: Channel, key: int) -> None:
        if channel.key != key:
            channel.key = key
            heappush(self._heap, (key, channel.index, channel))

    def _sweep(self) -> None:
        """From the lowest level up: what lies below is as it will be."""
        heap = self._heap
        while heap:
            key, _, channel = heappop(heap)
            if channel.key != key:
                continue
            channel.key = -1
            if channel.stale:
                self._examine((channel,))
                continue
            self._changed[channel] = None
            if channel.share < channel.level:
                self._lower(channel)
            else:
                self._raise(channel)

    def _lower(self, channel: Channel) -> None:
        """Its demands take less, so levels of other channels can only rise: it will do to look when they are met."""
        channel.level = level = channel.share
        for demand in channel.demands:
            if demand.limiter is not channel:
                if demand.limiter.level <= level:
                    continue
                self._limit(demand, channel)
            for other in demand.bounds:
                if other is not channel:
                    other.stale = True
                    if other.key < 0 and other.level < _UNLIMITED:
                        self._queue(other, other.level)

    def _raise(self, channel: Channel) -> None:
        """Its demands take more or get another limiter, so levels of other channels can fall, but not below here."""
        channel.level = channel.share
        concerned: dict[Channel, None] = {}
        for demand in list(channel.limited):
            bounds = demand.bounds
            if len(bounds) == 1:
                continue
            least = min(bounds, key=_level_of)
            if least.level < channel.level:
                self._limit(demand, least)
            concerned.update(bounds)
        self._examine(concerned)

    def _finish(self) -> tuple[list[Channel], list[tuple[Demand, Channel]]]:
        changed = sorted(self._changed, key=_order)
        for channel in changed:
            if channel.level < _UNLIMITED:
                channel.exact = channel.find_exact()
                channel.level = (channel.exact[0] << _BITS) // channel.exact[1]
        moved = [(demand, before) for demand, before in self._moved.items() if demand.limiter is not before]
        self._changed.clear()
        self._moved.clear()
        return changed, moved


def _fixed(weight: Weight) -> int:
    return (weight.numerator << _BITS) // weight.denominator


def _level_of(channel: Channel) -> int:
    return channel.level


def _order(channel: Channel) -> tuple[int, int]:
    return channel.level, channel.index
