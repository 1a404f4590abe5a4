"""What a device can do, counted from its graph: how many of what, how much they hold, how fast they are.

Every figure is a sum or an extreme over the nodes and links that are there, so overrides and links taken away count.
Does not know how it is shown, or what any kernel makes of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from kernbench.sim.access_eval import charged_bytes
from kernbench.sim.topology_graph import Edge, TopologyGraph
from kernbench.sim.topology_schema import PeGemmSpec

# Title of each level and the kinds of nodes that its links join, from the engines outward.
LEVELS: tuple[tuple[str, frozenset[str]], ...] = (
    ("HBM slice, both directions together", frozenset({"router", "hbm_ctrl"})),
    ("PE_DMA to router", frozenset({"router", "pe_dma"})),
    ("router to router", frozenset({"router"})),
    ("router to UCIe connection", frozenset({"router", "ucie_conn"})),
    ("UCIe connection to side", frozenset({"ucie", "ucie_conn"})),
    ("cube to cube", frozenset({"ucie"})),
    ("chiplet to cube", frozenset({"io_ucie", "ucie"})),
    ("io_noc to UCIe connection", frozenset({"io_noc", "ucie_conn"})),
    ("host to pcie_ep", frozenset({"host", "pcie_ep"})),
    ("pcie_ep to fabric", frozenset({"pcie_ep", "fabric"})),
)

RANDOM_RUNS = (128, 64, 32, 4)  # bytes of each access of a gather
FAR_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Level:
    """The links of one kind, each direction counted; an HBM slice counts once."""

    name: str
    count: int
    least_gbs: float | None  # None: not limited
    most_gbs: float | None
    total_gbs: float | None


@dataclass(frozen=True, slots=True)
class Bisection:
    """What crosses the middle of a mesh in one direction, over the cut that carries least."""

    name: str
    cut: str
    links: int
    total_gbs: float


@dataclass(frozen=True, slots=True)
class Facts:
    name: str
    config_hash: str
    counts: Mapping[str, int]
    capacities_bytes: Mapping[str, int]
    peak_flops: Mapping[str, int]  # of the device by dtype, multiply and add counted as two
    pe_peak_flops: Mapping[str, int]  # of the fastest PE
    math_ops_per_s: int
    bandwidths: tuple[Level, ...]
    bisections: tuple[Bisection, ...]
    ridge_flop_per_byte: Mapping[str, float]  # peak over HBM bandwidth, both of the device
    hbm_efficiency: Mapping[str, float]  # of a slice's bandwidth by access pattern, 1 for streaming
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def facts_of(graph: TopologyGraph) -> Facts:
    levels = tuple(_levels(graph))
    hbm = sum(rate for rate in _slices(graph).values())
    peak = _peak(graph)
    return Facts(
        graph.name, graph.config_hash, _counts(graph), _capacities(graph), dict(peak), _pe_peak(graph), _math(graph),
        levels, tuple(_bisections(graph)), {dtype: flops / hbm for dtype, flops in peak.items()},
        _efficiency(), tuple(_notes(graph)),
    )  # fmt: skip


def _counts(graph: TopologyGraph) -> dict[str, int]:
    kinds = Counter(node.kind for node in graph.nodes.values())
    return {
        "packages": graph.spec.sip.count,
        "cubes": graph.spec.sip.count * graph.cubes_per_sip,
        "pes": kinds["pe_cpu"],
        "io_chiplets": kinds["io_noc"],
        "routers": kinds["router"],
        "nodes": len(graph.nodes),
        "links": len(graph.edges),
    }


def _capacities(graph: TopologyGraph) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind, shown in (("hbm_ctrl", "hbm"), ("tcm", "tcm")):
        sizes = [node.spec.capacity_bytes for node in graph.nodes.values() if node.kind == kind]
        found |= {f"{shown}_a_pe": max(sizes), f"{shown}": sum(sizes)}
    return found


# Compute


def _macs_per_cycle(gemm: PeGemmSpec) -> dict[str, int]:
    """A systolic array does one multiply-accumulate a cycle in each of its cells, whatever the dtype."""
    if gemm.dataflow == "ideal":
        return dict(gemm.macs_per_cycle)
    assert gemm.rows is not None and gemm.cols is not None
    return dict.fromkeys(gemm.macs_per_cycle, gemm.rows * gemm.cols)


def _flops(graph: TopologyGraph) -> Iterator[dict[str, int]]:
    """Of each PE: two operations a multiply-accumulate, times the clock."""
    hertz = Fraction(graph.spec.pe.clock_ghz) * 10**9
    for node in graph.nodes.values():
        if node.kind == "pe_gemm":
            yield {dtype: int(2 * rate * hertz) for dtype, rate in _macs_per_cycle(node.spec).items()}


def _peak(graph: TopologyGraph) -> Counter[str]:
    total: Counter[str] = Counter()
    for pe in _flops(graph):
        total.update(pe)
    return total


def _pe_peak(graph: TopologyGraph) -> dict[str, int]:
    most: dict[str, int] = {}
    for pe in _flops(graph):
        for dtype, flops in pe.items():
            most[dtype] = max(flops, most.get(dtype, 0))
    return most


def _math(graph: TopologyGraph) -> int:
    hertz = Fraction(graph.spec.pe.clock_ghz) * 10**9
    return int(sum(node.spec.lanes for node in graph.nodes.values() if node.kind == "pe_math") * hertz)


# Bandwidth


def _slices(graph: TopologyGraph) -> dict[str, int]:
    """Bytes a second of every HBM slice that is linked."""
    return {
        edge.dst: edge.bytes_per_s
        for edge in graph.edges.values()
        if graph.nodes[edge.dst].kind == "hbm_ctrl" and edge.bytes_per_s is not None
    }


def _efficiency() -> dict[str, float]:
    """Bytes moved over bytes charged of runs in one page each, so far apart that nothing is shared."""
    found = {"streaming": 1.0}
    for size in RANDOM_RUNS:
        offsets = np.arange(64, dtype=np.int64) * FAR_BYTES
        charged = charged_bytes(offsets, np.full(64, size, np.int64))
        found[f"random, {size} B each"] = 64 * size / charged
    return found


def _levels(graph: TopologyGraph) -> Iterator[Level]:
    hertz = Fraction(graph.spec.pe.clock_ghz) * 10**9
    ports = [int(node.spec.bytes_per_cycle * hertz) for node in graph.nodes.values() if node.kind == "tcm"]
    yield _level("TCM to the engines", ports)
    by_kinds: dict[frozenset[str], list[Edge]] = {}
    for edge in graph.edges.values():
        by_kinds.setdefault(_kinds(graph, edge), []).append(edge)
    for name, kinds in LEVELS:
        edges = by_kinds.get(kinds, [])
        rates: list[int | None] = [edge.bytes_per_s for edge in edges]
        if "hbm_ctrl" in kinds:
            rates = list(_slices(graph).values())
        if edges and ("fabric" not in kinds or graph.spec.sip.count > 1):
            yield _level(name, rates)


def _kinds(graph: TopologyGraph, edge: Edge) -> frozenset[str]:
    return frozenset((graph.nodes[edge.src].kind, graph.nodes[edge.dst].kind))


def _level(name: str, rates: list[int] | list[int | None]) -> Level:
    limited = [rate for rate in rates if rate is not None]
    if len(limited) < len(rates):
        return Level(name, len(rates), None, None, None)
    return Level(name, len(rates), min(limited) / 10**9, max(limited) / 10**9, sum(limited) / 10**9)


def _bisections(graph: TopologyGraph) -> Iterator[Bisection]:
    mesh, routers = graph.spec.sip.cube_mesh, graph.spec.cube.router_mesh
    between = [edge for edge in graph.edges.values() if _kinds(graph, edge) == {"ucie"}]
    inside = [edge for edge in graph.edges.values() if _kinds(graph, edge) == {"router"}]
    cube_at = {node.id: graph.cube_xy(node.cube) for node in graph.nodes.values() if node.kind == "ucie"}
    router_at = {node.id: node.xy for node in graph.nodes.values() if node.kind == "router" and node.xy is not None}
    first_cube = [edge for edge in inside if graph.nodes[edge.src].sip == 0 and graph.nodes[edge.src].cube == 0]
    package = [edge for edge in between if graph.nodes[edge.src].sip == 0]
    for name, edges, at, size in (
        ("cubes of a package", package, cube_at, (mesh.w, mesh.h)),
        ("routers of cube 0", first_cube, router_at, (routers.w, routers.h)),
    ):
        cuts = [cut for axis in (0, 1) for cut in _cut(name, edges, at, axis, size[axis])]
        if cuts:
            yield min(cuts, key=lambda cut: cut.total_gbs)


def _cut(name: str, edges: list[Edge], at: Mapping[str, tuple[int, int]], axis: int, size: int) -> Iterator[Bisection]:
    """The cut through the middle of one axis, forward and backward."""
    middle = size // 2
    for step, sides in ((1, (middle - 1, middle)), (-1, (middle, middle - 1))):
        crossing = [edge for edge in edges if (at[edge.src][axis], at[edge.dst][axis]) == sides]
        if crossing:
            total = sum(edge.bytes_per_s or 0 for edge in crossing) / 10**9
            cut = f"{'columns' if axis == 0 else 'rows'} {sides[0]} to {sides[0] + step}"
            yield Bisection(name, cut, len(crossing), total)


def _notes(graph: TopologyGraph) -> Iterator[str]:
    for io, chiplet in enumerate(graph.spec.io_chiplets):
        if chiplet.io_ucie.connections > 1:
            yield (
                f"io{io}: the link from a PHY to its cube carries one connection's bandwidth (ADR-0016 D5), "
                f"so its {chiplet.io_ucie.connections} connections add none there"
            )
        if chiplet.memory_route == "via_cpus":
            yield f"io{io}: memory requests of the host go through io_cpu and m_cpu (memory_route: via_cpus)"
    if graph.overrides:
        yield f"{len(graph.overrides)} node(s) or link(s) are overridden"
