"""When flows that share bandwidth end, by max-min fairness: a plain solver in exact fractions.

Every change of the set of flows fills all pools anew. Progress is rounded down to 2^-20 x 10^-12 byte at a change of
rate and an end is rounded up to a picosecond: the rules that `docs` state, so that ends can be compared exactly.
Knows flows and capacities. Takes nothing from the simulator, which solves only what changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

UNITS_PER_BYTE = 2**20 * 10**12
MAX_DENOMINATOR_BITS = 64


@dataclass(frozen=True, slots=True)
class Flow:
    start_ps: int
    nbytes: int
    pools: frozenset[str]


def fair_rates(flows: Sequence[Flow], capacity: Mapping[str, int]) -> list[Fraction]:
    """Bytes a second of each flow: raise all alike until a pool is full, fix those on it, go on with the others."""
    left = _distinct_pools(flows, capacity)
    rates: dict[int, Fraction] = {}
    while left:
        level = min(Fraction(room, len(members)) for members, room in left.items())
        full = [members for members, room in left.items() if room == level * len(members)]
        fixed = frozenset().union(*full)
        rates.update(dict.fromkeys(fixed, level))
        rest: dict[frozenset[int], Fraction] = {}
        for members, room in left.items():
            others = members - fixed
            if others:
                room_left = room - level * len(members & fixed)
                rest[others] = min(room_left, rest.get(others, room_left))
        left = rest
    return [_kept(rates[number]) for number in range(len(flows))]


def _distinct_pools(flows: Sequence[Flow], capacity: Mapping[str, int]) -> dict[frozenset[int], Fraction]:
    """The least capacity of the pools that the same flows share; only that one can ever decide."""
    members: dict[str, set[int]] = {}
    for number, flow in enumerate(flows):
        for pool in flow.pools:
            members.setdefault(pool, set()).add(number)
    found: dict[frozenset[int], Fraction] = {}
    for pool, numbers in members.items():
        who = frozenset(numbers)
        found[who] = min(Fraction(capacity[pool]), found.get(who, Fraction(capacity[pool])))
    return found


def _kept(rate: Fraction) -> Fraction:
    if rate.denominator.bit_length() <= MAX_DENOMINATOR_BITS:
        return rate
    return Fraction(rate.numerator * 2**20 // rate.denominator, 2**20)


def finish_times(flows: Sequence[Flow], capacity: Mapping[str, int]) -> list[int]:
    """The picosecond in which each flow has drained."""
    since = [flow.start_ps for flow in flows]
    left = [flow.nbytes * UNITS_PER_BYTE for flow in flows]
    rate = [Fraction(0)] * len(flows)
    done: dict[int, int] = {}
    now = min(since, default=0)
    while len(done) < len(flows):
        active = [i for i, flow in enumerate(flows) if flow.start_ps <= now and i not in done]
        for i, fresh in zip(active, fair_rates([flows[i] for i in active], capacity), strict=True):
            if fresh != rate[i]:
                left[i] -= _moved(rate[i], now - since[i])
                since[i], rate[i] = now, fresh
        ends = {i: since[i] + _lasts(left[i], rate[i]) for i in active}
        starts = [flow.start_ps for flow in flows if flow.start_ps > now]
        now = min([*starts, *ends.values()])
        done |= {i: end for i, end in ends.items() if end == now}
    return [done[i] for i in range(len(flows))]


def _moved(rate: Fraction, ps: int) -> int:
    return rate.numerator * 2**20 * ps // rate.denominator


def _lasts(units: int, rate: Fraction) -> int:
    return -(-units * rate.denominator // (rate.numerator * 2**20))
