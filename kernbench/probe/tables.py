"""A probe's result as text: a summary, a sweep and a route block for each category, then the checks (ADR-0049 D4-D6).

Lines that begin with `[v]` or `[x]` are stable; the layout of the rest is not. Does not compute anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernbench.probe.metamorphic import KeyResult, Metamorphosis, Move
from kernbench.probe.results import NBYTES, SWEEP_LABELS, Category, Check, ProbeCase, ProbeResult, RouteHop

TITLES: dict[Category, str] = {
    "h2d": "H2D: host to device write",
    "d2h": "D2H: device to host read",
    "pe_dma": "PE DMA: write of a PE",
}
SUMMARY = ("Case", "Hops", "Actual", "Ovhd", "Drain", "Wire", "Residual", "Ovhd%", "Drain%", "Eff.BW", "BN.BW", "Util%")
SHARED = ("Case", "Flows", "KiB", "First end", "Expected", "Actual", "Residual", "Eff.BW", "Fair BW", "Util%")


def render(result: ProbeResult) -> str:
    """Everything that `kernbench probe` prints."""
    return "\n".join(_lines(result))


def _lines(result: ProbeResult) -> Iterator[str]:
    yield f"probe of {result.topology}: {NBYTES // 1024} KiB a flow, every case on a device of its own"
    yield "times in ns, bandwidths in GB/s (10^9 bytes/s)"
    for category, title in TITLES.items():
        cases = result.of(category)
        if cases:
            yield from _category(title, cases)
    shared = result.of("contention")
    if shared:
        yield "\nContention: flows that share bandwidth, expected by max-min fairness"
        yield from table(SHARED, [_shared_row(case) for case in shared])
    if result.not_applicable:
        yield f"\nCases that do not apply to {result.topology}"
        yield from (f"  {remark.name}: {remark.text}" for remark in result.not_applicable)
    if result.info or result.checks:
        yield "\nChecks"
    yield from (f"{remark.name}: {remark.text}" for remark in result.info)
    yield from map(check_line, result.checks)


def check_line(check: Check) -> str:
    verdict = "[v] PASS" if check.ok else "[x] FAIL"
    return f"{verdict} {check.name}: {check.detail}"


def _category(title: str, cases: Sequence[ProbeCase]) -> Iterator[str]:
    yield f"\n{title}"
    yield from table(SUMMARY, [_summary_row(case) for case in cases])
    yield "\n  utilization by size, % of BN.BW"
    sweep = [[case.name, *(f"{point.util_pct:.1f}" for point in case.sweep)] for case in cases]
    yield from table(("Case", *SWEEP_LABELS), sweep)
    for case in cases:
        yield f"\n  route of {case.name}"
        yield from _route(case.route)


def _summary_row(case: ProbeCase) -> list[str]:
    times = (case.actual_ns, case.overhead_ns, case.drain_ns, case.wire_ns, case.residual_ns)
    shares = (100 * case.overhead_ps / case.actual_ps, 100 * case.drain_ps / case.actual_ps)
    return [
        case.name,
        str(case.hops),
        *(f"{ns:.3f}" for ns in times),
        *(f"{share:.1f}" for share in shares),
        f"{case.eff_bw_gbs:.2f}",
        _gbs(case.bn_bw_gbs),
        f"{case.util_pct:.1f}",
    ]


def _shared_row(case: ProbeCase) -> list[str]:
    first = min(flow.actual_ps for flow in case.flows)
    times = (first / 1000, case.formula_ps / 1000, case.actual_ns, case.residual_ns)
    return [
        case.name,
        str(len(case.flows)),
        str(case.nbytes // 1024),
        *(f"{ns:.3f}" for ns in times),
        f"{case.eff_bw_gbs:.2f}",
        _gbs(case.bn_bw_gbs),
        f"{case.util_pct:.1f}",
    ]


def _route(route: Sequence[RouteHop]) -> Iterator[str]:
    width = max(len(hop.node) for hop in route)
    leg = ""
    for hop in route:
        if hop.leg != leg:
            leg = hop.leg
            yield f"    {leg}"
        marks = [f"<BN:{_gbs_of(hop)}GB/s>"] if hop.bottleneck else []
        marks += [f"drain:{hop.drain_ps / 1000:.3f}ns"] if hop is route[-1] else []
        yield f"      {hop.t_ns:>10.3f}  {hop.node:<{width}}  {' '.join(marks)}".rstrip()


def _gbs(bandwidth: float | None) -> str:
    return "-" if bandwidth is None else f"{bandwidth:.10g}"


def _gbs_of(hop: RouteHop) -> str:
    return "-" if hop.bytes_per_s is None else _gbs(hop.bytes_per_s / 10**9)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as they need, the first one left, the others right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        yield f"  {'  '.join(cells)}".rstrip()


def render_metamorphic(result: Metamorphosis) -> str:
    """Which way time went for each key, the moves that went the wrong way, and the keys that change nothing."""
    return "\n".join(_metamorphic_lines(result))


def _metamorphic_lines(result: Metamorphosis) -> Iterator[str]:
    yield f"metamorphic probe of {result.topology}: {len(result.keys)} keys, {len(result.workloads)} workloads"
    yield f"workloads: {', '.join(result.workloads)}\n"
    yield from table(("Key", "Value", "Faster by", "Doubled", "Halved"), [_key_row(key) for key in result.keys])
    refused = [(key, move) for key in result.keys for move in key.moves if move.refused]
    if refused:
        yield "\nMoves that this topology refuses"
        yield from (f"  {key.key} = {move.value}: {move.refused}" for key, move in refused)
    contended = [(key, move, name) for key in result.keys for move, name in key.wrong if name in key.contended]
    if contended:
        yield "\nUnder contention, where that is possible"
        yield from (f"  {key.key} = {move.value}: {name} went the wrong way" for key, move, name in contended)
    yield f"\nKeys without any effect: {', '.join(result.without_effect) or 'none'}"
    flagged = [(key, move, name) for key in result.keys for move, name in key.flagged]
    for key, move, name in flagged:
        yield f"[x] FAIL {key.key} = {move.value}: {name} went the wrong way"
    if not flagged:
        yield "[v] PASS no lone workload went the wrong way"


def _key_row(key: KeyResult) -> list[str]:
    moves = {move.direction: move for move in key.moves}
    better = {"more": "more", "less": "less", "unknown": "-"}[key.better]
    return [key.key, key.value, better, _went(moves.get("up")), _went(moves.get("down"))]


def _went(move: Move | None) -> str:
    if move is None:
        return "-"
    if move.refused:
        return "refused"
    parts = [f"{len(names)} {way}" for way, names in (("slower", move.slower), ("faster", move.faster)) if names]
    return ", ".join(parts) or "same"
