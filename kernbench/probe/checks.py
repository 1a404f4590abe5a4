"""What must hold between the cases of a probe (ADR-0049 D5), and what is only worth knowing.

A comparison that lacks one of its sides is left out. Knows results. Does not know how they were got.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from kernbench.probe.measure import HopTimes
from kernbench.probe.results import ROWS, Category, Check, ProbeCase, Remark

Cases = tuple[ProbeCase, ...]


def checks_of(cases: Cases, hops: dict[str, HopTimes]) -> tuple[Check, ...]:
    found = [check for make in MAKERS for check in make(cases)]
    return (*found, *_hop_times(cases, hops))


def info_of(cases: Cases) -> tuple[Remark, ...]:
    """ADR-0049 D5: local against remote bandwidth, as information."""
    by_name = {case.name: case for case in cases}
    local = by_name.get("pe-local-hbm")
    remote = by_name.get("pe-cross-cube-hbm-best")
    if local is None or remote is None:
        return ()
    text = f"local BN.BW {_gbs(local)}, remote BN.BW {_gbs(remote)}"
    return (Remark("pe_dma local against remote", text),)


def _gbs(case: ProbeCase) -> str:
    return "-" if case.bn_bw_gbs is None else f"{case.bn_bw_gbs:g} GB/s"


def _of(cases: Cases, category: Category) -> list[ProbeCase]:
    return [case for case in cases if case.category == category]


def _monotonic(cases: Cases) -> Iterator[Check]:
    for category in ROWS:
        rows = _of(cases, category)
        if len(rows) < 2:
            continue
        wrong = next(((a, b) for a, b in pairwise(rows) if a.actual_ps >= b.actual_ps), None)
        detail = " < ".join(f"{case.actual_ns:.3f}" for case in rows) + " ns"
        if wrong is not None:
            a, b = wrong
            detail = f"{b.name} takes {b.actual_ns:.3f} ns, which is not above {a.name} with {a.actual_ns:.3f} ns"
        yield Check(f"{category.upper()} monotonic increase", wrong is None, detail)


def _d2h_not_below_h2d(cases: Cases) -> Iterator[Check]:
    back = {case.hops: case for case in _of(cases, "d2h")}
    pairs = [(case, back[case.hops]) for case in _of(cases, "h2d") if case.hops in back]
    if not pairs:
        return
    wrong = next(((h2d, d2h) for h2d, d2h in pairs if d2h.actual_ps < h2d.actual_ps), None)
    detail = f"at {len(pairs)} distance{'s' * (len(pairs) > 1)}"
    if wrong is not None:
        h2d, d2h = wrong
        detail = f"{d2h.name} takes {d2h.actual_ns:.3f} ns, {h2d.name} takes {h2d.actual_ns:.3f} ns"
    yield Check("D2H >= H2D", wrong is None, detail)


def _best_below_worst(cases: Cases) -> Iterator[Check]:
    by_name = {case.name: case for case in cases}
    best, worst = by_name.get("pe-cross-cube-hbm-best"), by_name.get("pe-cross-cube-hbm-worst")
    if best is None or worst is None:
        return
    detail = f"{best.actual_ns:.3f} against {worst.actual_ns:.3f} ns"
    yield Check("PE DMA best < worst", best.actual_ps < worst.actual_ps, detail)


def _residuals(cases: Cases) -> Iterator[Check]:
    lone = [case for case in cases if case.category != "contention"]
    shared = _of(cases, "contention")
    for name, group in (("residual of lone flows", lone), ("residual of shared flows", shared)):
        if not group:
            continue
        worst = max(group, key=lambda case: _worst_ps(case))
        detail = f"{_worst_ps(worst) / 1000:.3f} ns at most, in {len(group)} case{'s' * (len(group) > 1)}"
        yield Check(name, _worst_ps(worst) == 0, detail if _worst_ps(worst) == 0 else f"{detail}, {worst.name}")


def _worst_ps(case: ProbeCase) -> int:
    return max([abs(case.residual_ps), *(abs(flow.actual_ps - flow.expected_ps) for flow in case.flows)])


MAKERS: tuple[Callable[[Cases], Iterator[Check]], ...] = (
    _monotonic,
    _d2h_not_below_h2d,
    _best_below_worst,
    _residuals,
)


def _hop_times(cases: Cases, hops: dict[str, HopTimes]) -> Iterator[Check]:
    """The hop trace of the simulator against the route detail."""
    lone = [case for case in cases if case.category != "contention"]
    if not lone:
        return
    wrong = [case.name for case in lone if _expected_hops(case) != hops[case.name]]
    count = sum(len(hops[case.name]) for case in lone)
    detail = f"{count} hops in {len(lone)} case{'s' * (len(lone) > 1)}" if not wrong else f"differ in {wrong[0]}"
    yield Check("hop times", not wrong, detail)


def _expected_hops(case: ProbeCase) -> HopTimes:
    route = case.route
    return tuple((hop.node, hop.in_ps) for i, hop in enumerate(route) if i == 0 or route[i - 1].node != hop.node)
