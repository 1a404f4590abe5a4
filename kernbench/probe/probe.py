"""`run_probe`: every traffic case of a topology, simulated alone and by its closed form, with the checks between them.

    result = run_probe("ahbm_4x4")               # data; `tables` prints it
    result = run_probe("mine.yaml", "h2d-2hop")  # one case, by its exact name

Does not know how results are shown.
"""

from __future__ import annotations

from pathlib import Path

from kernbench.probe.catalog import Case, catalog_of
from kernbench.probe.checks import checks_of, info_of
from kernbench.probe.closed_form import ClosedForm, EdgeMap, Leg, rate_of
from kernbench.probe.fair import Flow, fair_rates, finish_times
from kernbench.probe.legs import LegFinder, slice_of
from kernbench.probe.measure import HopTimes, is_read, measure
from kernbench.probe.results import (
    NBYTES,
    SWEEP_LABELS,
    SWEEP_SIZES,
    FlowResult,
    ProbeCase,
    ProbeResult,
    SweepPoint,
)
from kernbench.sim.routing import AddressResolver, PathRouter
from kernbench.sim.topology import load_topology
from kernbench.sim.topology_graph import TopologyGraph


def run_probe(topology_path: str | Path, case_filter: str | None = None) -> ProbeResult:
    """ADR-0049's harness. `topology_path` is a file, or the name of a shipped topology."""
    path = Path(topology_path).expanduser().resolve()
    graph = load_topology(path if path.is_file() else topology_path)
    return probe_graph(graph, case_filter)


def probe_graph(graph: TopologyGraph, case_filter: str | None = None) -> ProbeResult:
    """`run_probe` of a topology that is loaded already."""
    prober = _Prober(graph, _build_edge_map(graph))
    catalog = catalog_of(graph).chosen(case_filter)
    hops: dict[str, HopTimes] = {}
    cases = tuple(prober.run(case, hops) for case in catalog.cases)
    return ProbeResult(
        graph.name, graph.config_hash, cases, checks_of(cases, hops), info_of(cases), catalog.not_applicable
    )


def _build_edge_map(graph: TopologyGraph) -> EdgeMap:
    return {(edge.src, edge.dst): edge for edge in graph.edges.values()}


class _Prober:
    def __init__(self, graph: TopologyGraph, edges: EdgeMap) -> None:
        self._graph = graph
        self._form = ClosedForm(graph, edges)
        self._resolver = AddressResolver(graph)
        self._finder = LegFinder(graph, PathRouter(graph), self._form)

    def run(self, case: Case, hops: dict[str, HopTimes]) -> ProbeCase:
        return self._shared(case) if case.category == "contention" else self._alone(case, hops)

    def _legs(self, case: Case, number: int) -> tuple[Leg, ...]:
        source, target = case.flows[number]
        if source is not None:
            return self._finder.pe_write(source, target)
        return self._finder.host_read(target) if is_read(case) else self._finder.host_write(target)

    def _alone(self, case: Case, hops: dict[str, HopTimes]) -> ProbeCase:
        legs, form = self._legs(case, 0), self._form
        measured = measure(self._graph, case, NBYTES)
        hops[case.name] = measured.hops
        slowest = form.bottleneck(legs)
        return ProbeCase(
            case.name, case.category, case.hops, NBYTES, measured.total_ps[0], form.overhead_ps(legs),
            form.drain_ps(legs, NBYTES), form.wire_ps(legs), None if slowest is None else slowest.bytes_per_s,
            form.hop_timestamps(legs, NBYTES), self._sweep(legs),
        )  # fmt: skip

    def _sweep(self, legs: tuple[Leg, ...]) -> tuple[SweepPoint, ...]:
        slowest = self._form.bottleneck(legs)
        points: list[SweepPoint] = []
        for label, nbytes in zip(SWEEP_LABELS, SWEEP_SIZES, strict=True):
            total = self._form.total_ps(legs, nbytes)
            effective = nbytes * 1000 / total
            share = 0.0 if slowest is None else 100 * effective * 10**9 / slowest.bytes_per_s
            points.append(SweepPoint(label, nbytes, total, effective, share))
        return tuple(points)

    def _shared(self, case: Case) -> ProbeCase:
        legs = [self._legs(case, number) for number in range(len(case.flows))]
        heads = [self._form.overhead_ps(each) + self._form.wire_ps(each) for each in legs]
        capacity: dict[str, int] = {}
        flows = [Flow(head, NBYTES, self._pools(each, capacity)) for head, each in zip(heads, legs, strict=True)]
        ends = finish_times(flows, capacity)
        actual = measure(self._graph, case, NBYTES).total_ps
        last = max(range(len(ends)), key=lambda number: ends[number])
        together = sum(fair_rates(flows, capacity))
        return ProbeCase(
            case.name, case.category, case.hops, NBYTES * len(flows), max(actual), self._form.overhead_ps(legs[last]),
            ends[last] - heads[last], self._form.wire_ps(legs[last]), int(together), (),
            flows=tuple(
                FlowResult(self._flow_name(case, number), heads[number], ends[number], actual[number])
                for number in range(len(flows))
            ),
        )  # fmt: skip

    def _flow_name(self, case: Case, number: int) -> str:
        source, target = case.flows[number]
        if source is None:
            return f"{slice_of(target)} -> pcie_ep"
        return f"sip0.cube{source[0]}.pe{source[1]} -> {slice_of(target)}"

    def _pools(self, legs: tuple[Leg, ...], capacity: dict[str, int]) -> frozenset[str]:
        """What the data of a flow draws on: each link in its direction, and a slice in both as one."""
        found: set[str] = set()
        for leg in legs:
            for edge in self._form.edges_of(leg) if leg.carries_data else []:
                if edge.bw_gbs is None:
                    continue
                slices = [end for end in (edge.src, edge.dst) if self._graph.nodes[end].kind == "hbm_ctrl"]
                pool = slices[0] if slices else edge.id
                capacity[pool] = rate_of(edge)
                found.add(pool)
        return frozenset(found)
