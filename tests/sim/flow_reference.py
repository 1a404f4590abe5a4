"""Reference solvers for the tests of the network, written without its code and without its shortcuts.

`fair_rates` fills pools by the definition of max-min fairness; `finish_exact` plays flows in exact fractions of time;
`finish_by_rules` plays them by the integer rules that `kernbench.sim.network` states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Flow:
    start_ps: int
    nbytes: int
    takes: dict[int, Fraction]  # pool -> weight


def fair_rates(flows: list[dict[int, Fraction]], caps: dict[int, int]) -> list[Fraction]:
    rates: dict[int, Fraction] = {}
    while len(rates) < len(flows):
        shares: dict[int, Fraction] = {}
        for pool, cap in caps.items():
            open_load = sum((f[pool] for i, f in enumerate(flows) if pool in f and i not in rates), Fraction(0))
            if open_load:
                used = sum((rates[i] * f[pool] for i, f in enumerate(flows) if pool in f and i in rates), Fraction(0))
                shares[pool] = (cap - used) / open_load
        least = min(shares.values())
        full = {pool for pool, share in shares.items() if share == least}
        for i, flow in enumerate(flows):
            if i not in rates and full & set(flow):
                rates[i] = least
    return [rates[i] for i in range(len(flows))]


def finish_exact(flows: list[Flow], caps: dict[int, int]) -> list[Fraction]:
    """Finish times in ps without any rounding."""
    left = {i: Fraction(flow.nbytes) for i, flow in enumerate(flows)}
    done: dict[int, Fraction] = {}
    now = Fraction(0)
    while len(done) < len(flows):
        active = [i for i, flow in enumerate(flows) if flow.start_ps <= now and i not in done]
        starts = [Fraction(flow.start_ps) for flow in flows if flow.start_ps > now]
        rates = dict(zip(active, fair_rates([flows[i].takes for i in active], caps), strict=True))
        ends = [now + left[i] * 10**12 / rates[i] for i in active]
        then = min(starts + ends)
        for i in active:
            left[i] -= rates[i] * (then - now) / 10**12
            if left[i] == 0:
                done[i] = then
        now = then
    return [done[i] for i in range(len(flows))]


def finish_by_rules(flows: list[Flow], caps: dict[int, int]) -> list[int]:
    """Finish times in ps by the integer rules: progress rounded down at each change of rate, finishes rounded up."""
    unit = 2**20
    state = {i: (0, flow.nbytes * unit * 10**12, Fraction(0)) for i, flow in enumerate(flows)}  # since, left, rate
    done: dict[int, int] = {}
    now = min(flow.start_ps for flow in flows)
    while len(done) < len(flows):
        active = [i for i, flow in enumerate(flows) if flow.start_ps <= now and i not in done]
        for i, rate in zip(active, fair_rates([flows[i].takes for i in active], caps), strict=True):
            since, left, old = state[i]
            if rate != old:
                moved = old * unit * (now - since)
                state[i] = (now, left - moved.numerator // moved.denominator, rate)
        ends = {i: _end(*state[i], unit) for i in active}
        starts = [flow.start_ps for flow in flows if flow.start_ps > now]
        now = min([*starts, *ends.values()])
        done.update({i: end for i, end in ends.items() if end == now})
    return [done[i] for i in range(len(flows))]


def _end(since: int, left: int, rate: Fraction, unit: int) -> int:
    lasts = Fraction(left) / (rate * unit)
    return since - (-lasts.numerator // lasts.denominator)


Play = Callable[[list[Flow], dict[int, int]], list[int]]
