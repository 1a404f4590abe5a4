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
from typing import Any

Weight = int | Fraction
Rate = tuple[int, int]  # numerator, denominator

NO_RATE: Rate = (0, 1)

_BITS = 256  # of the fraction of a fixed-point level, and of a fixed-point weight
_NOISE = 1 << _BITS - 136  # above what rounding adds up to; fractions of 64 bits differ by 2 ** -128 or more
_DRIFT = 1 << _BITS - 190  # how far levels may be from the exact ones, so that errors do not add up over time
_UNLIMITED = 1 << _BITS + 128  # the level of a channel that is not full


class Channel:
    """A bandwidth, and the demands on it.

    It cannot limit anything while all that can reach it through its demands' tightest channels (`feeders`) is no more
    than its own bandwidth. Until that is so for the first time since it was empty, it is left out of every computation.
    """

    __slots__ = (
        "cap", "demands", "exact", "fed", "feeders", "fixed_cap", "index", "key",
        "level", "limited", "limits", "open", "self_fed", "share", "stale", "taken",
    )  # fmt: skip

    def __init__(self, index: int, cap: int) -> None:
        self.index, self.cap = index, cap
        self.fixed_cap = cap << 2 * _BITS
        self.demands: dict[Demand, int] = {}  # with their weights, in fixed point
        self.feeders: dict[Channel, int] = {}  # tightest channels of the demands, with how many have it
        self.fed = 0  # sum of the feeders' bandwidths
        self.self_fed = 0  # demands for which no other channel is a bound
        self.limits = False
        self.level = _UNLIMITED
        self.exact: Rate = NO_RATE  # the level, while it has one
        self.limited: dict[Demand, None] = {}  # the demands that have this level
        self.taken = 0  # what the demands that other channels limit take, in fixed point
        self.open = 0  # what a unit of rate of the others takes, in fixed point
        self.share = _UNLIMITED  # what the level should be, unless `stale`
        self.stale = False
        self.key = -1  # its place in the heap; -1: in none

    @property
    def state(self) -> tuple[Any, ...]:
        """All that what comes next depends on, beside the demands."""
        return self.index, self.limits, self.level, self.exact, self.open, self.taken, self.stale, self.key

    def count(self, load: int, limiter: Channel) -> None:
        """Count in, or with a negative load out, demands that `limiter` limits."""
        if limiter is self or limiter is NOWHERE:
            self.open += load
        else:
            self.taken += limiter.level * load

    def find_share(self) -> int:
        """The level at which this channel is full, as far as other channels let its demands rise.

        No demand has more than the present level, so where the share is no less, none needs to be looked at.
        """
        if not self.open:
            if self.taken <= self.fixed_cap:
                return _UNLIMITED
        else:
            share = (self.fixed_cap - self.taken) // self.open
            if share >= self.level or len(self.limited) == len(self.demands):
                return share
        return self._fill()

    def _fill(self) -> int:
        left, load = self.fixed_cap, self.open
        others = []
        for demand in self.demands:
            limiter = demand.limiter
            if limiter is not self and limiter is not NOWHERE:
                part = demand.bounds[self]
                load += part
                others.append((limiter.level, part))
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
        lower: dict[Channel, Rate] = {}
        load = NO_RATE
        for demand in self.demands:
            weight = demand.weights.get(self, 1)
            top, bottom = demand.solved * weight.numerator, weight.denominator
            limiter = demand.limiter
            if limiter.level >= near:
                load = _add(load, top, bottom)
            else:
                lower[limiter] = _add(lower.get(limiter, NO_RATE), top, bottom)
        left = (self.cap, 1)
        for limiter, (top, bottom) in lower.items():
            left = _add(left, -top * limiter.exact[0], bottom * limiter.exact[1])
        top, bottom = left[0] * load[1], left[1] * load[0]
        common = gcd(top, bottom)
        return top // common, bottom // common


def _add(rate: Rate, top: int, bottom: int) -> Rate:
    """A sum of two fractions, not reduced."""
    if bottom == rate[1]:
        return rate[0] + top, bottom
    common = gcd(rate[1], bottom)
    return rate[0] * (bottom // common) + top * (rate[1] // common), rate[1] // common * bottom


NOWHERE = Channel(-1, 0)  # what limits a demand that no full channel limits


class Demand:
    """A number of equal takers with the same channels and weights."""

    __slots__ = ("bounds", "count", "limiter", "solved", "tightest", "uses", "weights")

    def __init__(self, uses: dict[Channel, Weight]) -> None:
        self.weights = {channel: weight for channel, weight in uses.items() if weight != 1}
        fixed = {channel: _fixed(weight) for channel, weight in uses.items()}
        tightest, most = next(iter(fixed.items()))
        for channel, weight in fixed.items():
            if channel.cap * most < tightest.cap * weight:
                tightest, most = channel, weight
        self.uses = tuple(
            (channel, weight, None if channel is tightest or weight > most else tightest)
            for channel, weight in fixed.items()
        )  # each with the channel that bounds what comes over it, if there is another
        self.tightest = tightest  # the channel that is full first where there are no other demands
        self.count = 0  # takers that there are
        self.solved = 0  # takers that have been counted in
        self.bounds: dict[Channel, int] = {}  # its channels that can limit it, with what a unit of rate takes of them
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
                if demand.limiter is not least:
                    self._limit(demand, least)
            else:  # where the sweep starts from is free; this leaves it the least to do
                self._changed[demand.tightest] = None
                demand.tightest.share = demand.tightest.find_share()
                self._lower(demand.tightest)
        self._examine(touched)
        self._sweep()
        return self._finish()

    # Coming and going

    def _join(self, demand: Demand, touched: dict[Channel, None]) -> None:
        demand.solved = count = demand.count
        for channel, weight, feeder in demand.uses:
            channel.demands[demand] = weight
            if feeder is None:
                channel.self_fed += 1
            else:
                feeding = channel.feeders.get(feeder, 0)
                channel.feeders[feeder] = feeding + 1
                if not feeding:
                    channel.fed += feeder.cap
            if channel.limits:
                demand.bounds[channel] = load = count * weight
                channel.open += load
                touched[channel] = None
            elif channel.self_fed or channel.fed > channel.cap:
                self._take_part(channel)
                touched[channel] = None

    def _take_part(self, channel: Channel) -> None:
        """From now on the channel can limit its demands."""
        channel.limits = True
        for demand, weight in channel.demands.items():
            demand.bounds[channel] = load = demand.solved * weight
            channel.count(load, demand.limiter)

    def _leave(self, demand: Demand, touched: dict[Channel, None]) -> None:
        demand.solved = 0
        limiter = demand.limiter
        for channel, load in demand.bounds.items():
            channel.count(-load, limiter)
            if channel.level < _UNLIMITED:
                touched[channel] = None
        for channel, _, feeder in demand.uses:
            del channel.demands[demand]
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
                assert not channel.taken and not channel.open, "what was counted in is not what was counted out"
                channel.limits = False
                channel.level = _UNLIMITED
                touched.pop(channel, None)
        limiter.limited.pop(demand, None)
        self._moved[demand] = limiter
        demand.limiter = NOWHERE
        demand.bounds.clear()

    def _recount(self, demand: Demand, touched: dict[Channel, None]) -> None:
        more = demand.count - demand.solved
        demand.solved = demand.count
        for channel, weight, _ in demand.uses:
            if channel.limits:
                demand.bounds[channel] += more * weight
                channel.count(more * weight, demand.limiter)
                touched[channel] = None

    def _limit(self, demand: Demand, channel: Channel) -> None:
        before = demand.limiter
        self._moved.setdefault(demand, before)
        before.limited.pop(demand, None)
        demand.limiter = channel
        channel.limited[demand] = None
        for bound, load in demand.bounds.items():
            bound.count(-load, before)
            bound.count(load, channel)

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
        concerned = self._shift(channel, channel.share)
        for demand in channel.demands:
            if demand.limiter is not channel and demand.limiter.level > channel.level:
                self._limit(demand, channel)
                concerned.update(dict.fromkeys(demand.bounds))
        concerned.pop(channel, None)
        for other in concerned:
            other.stale = True
            if other.key < 0 and other.level < _UNLIMITED:
                self._queue(other, other.level)

    def _raise(self, channel: Channel) -> None:
        """Its demands take more or get another limiter, so levels of other channels can fall, but not below here."""
        concerned = self._shift(channel, channel.share)
        for demand in list(channel.limited):
            if len(demand.bounds) > 1:
                least = min(demand.bounds, key=_level_of)
                if least.level < channel.level:
                    self._limit(demand, least)
                    concerned[channel] = None
        self._examine(concerned)

    def _shift(self, channel: Channel, level: int) -> dict[Channel, None]:
        """Give a channel and the demands it limits another level; what other channels this concerns."""
        concerned: dict[Channel, None] = {}
        more = level - channel.level
        channel.level = level
        for demand in channel.limited:
            if len(demand.bounds) > 1:
                for bound, load in demand.bounds.items():
                    if bound is not channel:
                        bound.taken += more * load
                        concerned[bound] = None
        return concerned

    def _finish(self) -> tuple[list[Channel], list[tuple[Demand, Channel]]]:
        changed = sorted(self._changed, key=_order)
        for channel in changed:
            if channel.level < _UNLIMITED:
                channel.exact = channel.find_exact()
                level = (channel.exact[0] << _BITS) // channel.exact[1]
                if not -_DRIFT < level - channel.level < _DRIFT:
                    self._shift(channel, level)
        moved = [(demand, before) for demand, before in self._moved.items() if demand.limiter is not before]
        self._changed.clear()
        self._moved.clear()
        return changed, moved


def _fixed(weight: Weight) -> int:
    return weight << _BITS if type(weight) is int else (weight.numerator << _BITS) // weight.denominator


def _level_of(channel: Channel) -> int:
    return channel.level


def _order(channel: Channel) -> tuple[int, int]:
    return channel.level, channel.index
