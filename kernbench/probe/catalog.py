"""Which traffic cases a topology has: their names, ends and distances, from its mesh and its PEs (ADR-0049 D1).

H2D and D2H walk the first column of cubes away from the IO chiplet, one case a row; PE DMA takes the PE's own slice,
one of its own half, one of the other half, the adjacent cube and the far corner. What a topology does not have is
told with the reason. Does not know routes, times or messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kernbench.diagnostics import did_you_mean
from kernbench.probe.errors import usage
from kernbench.probe.results import ROWS, Category, Remark
from kernbench.sim.topology_graph import TopologyGraph

PeAt = tuple[int, int]  # cube, pe; all in package 0
_ROW_CASE = re.compile(r"(h2d|d2h)-[1-9]\d*hop\Z")
ADR_ROWS = 4  # the rows of the default topology, by which ADR-0049 names its cases


@dataclass(frozen=True, slots=True)
class Case:
    """A traffic pattern. `source` is None where the host sends or asks; several `flows` share bandwidth."""

    name: str
    category: Category
    hops: int
    flows: tuple[tuple[PeAt | None, PeAt], ...]


@dataclass(frozen=True, slots=True)
class Catalog:
    cases: tuple[Case, ...]
    not_applicable: tuple[Remark, ...]

    def chosen(self, case_filter: str | None) -> Catalog:
        """All of it, or the case of exactly that name (ADR-0049 D7); `E_PROBE_CASE` where nothing has it."""
        if case_filter is None or case_filter == "all":
            return self
        cases = tuple(case for case in self.cases if case.name == case_filter)
        missing = tuple(remark for remark in self.not_applicable if remark.name == case_filter)
        if not cases and not missing and _ROW_CASE.match(case_filter):
            rows = sum(case.category == "h2d" for case in self.cases)
            missing = (Remark(case_filter, f"the first column has cubes at {rows} distances only"),)
        if not cases and not missing:
            names = ["all", *(case.name for case in self.cases), *(remark.name for remark in self.not_applicable)]
            help = did_you_mean(case_filter, names, "cases")
            listed = help if help.startswith("cases are") else f"{help} cases are {', '.join(names)}"
            raise usage("E_PROBE_CASE", f"there is no case `{case_filter}`", listed)
        return Catalog(cases, missing)


def catalog_of(graph: TopologyGraph) -> Catalog:
    rows = [case for category in ROWS for case in _rows(graph, category)]
    found = [*rows, *_missing_rows(rows), *_pe_dma(graph), *_contention(graph)]
    cases = tuple(each for each in found if isinstance(each, Case))
    return Catalog(cases, tuple(each for each in found if isinstance(each, Remark)))


def _rows(graph: TopologyGraph, category: Category) -> list[Case]:
    """One case a distance; of two cubes at one distance the first."""
    found: dict[int, int] = {}
    for row in range(graph.spec.sip.cube_mesh.h):
        cube = graph.cube_id(0, row)
        found.setdefault(_from_io(graph, cube), cube)
    return [Case(f"{category}-{hops}hop", category, hops, ((None, (found[hops], 0)),)) for hops in sorted(found)]


def _missing_rows(rows: list[Case]) -> Iterator[Remark]:
    present = {case.name for case in rows}
    for name in (f"{way}-{hops}hop" for way in ROWS for hops in range(1, ADR_ROWS + 1)):
        if name not in present:
            yield Remark(name, "the first column has no cube at that distance")


def _from_io(graph: TopologyGraph, cube: int) -> int:
    """Borders between the nearest PHY and a cube."""
    x, y = graph.cube_xy(cube)
    ports = [port.cube.xy for chiplet in graph.spec.io_chiplets for port in chiplet.cube_ports]
    return 1 + min(abs(u - x) + abs(v - y) for u, v in ports)


def _pe_dma(graph: TopologyGraph) -> list[Case | Remark]:
    row = [_router_row(graph, pe) for pe in range(graph.spec.cube.pes)]
    same = next((pe for pe in range(1, len(row)) if row[pe] == row[0]), None)
    other = next((pe for pe in range(1, len(row)) if row[pe] != row[0]), None)
    mesh = graph.spec.sip.cube_mesh
    cubes = graph.cubes_per_sip
    size = f"a mesh of {mesh.w} x {mesh.h} cubes"
    return [
        _dma("pe-local-hbm", 0, (0, 0), ""),
        _dma("pe-same-half-hbm", 0, None if same is None else (0, same), "PE 0 has no neighbour in its half"),
        _dma("pe-cross-half-hbm", 0, None if other is None else (0, other), "all PEs of a cube are in one half"),
        _dma("pe-cross-cube-hbm-best", 1, (1, 0) if cubes > 1 else None, f"{size} has no adjacent cube"),
        _dma(
            "pe-cross-cube-hbm-worst",
            mesh.w + mesh.h - 2,
            (cubes - 1, 0) if cubes > 2 else None,
            f"{size} has no corner beyond the adjacent cube",
        ),
    ]


def _dma(name: str, hops: int, target: PeAt | None, why_not: str) -> Case | Remark:
    return Remark(name, why_not) if target is None else Case(name, "pe_dma", hops, (((0, 0), target),))


def _router_row(graph: TopologyGraph, pe: int) -> int:
    """The row of routers that a PE hangs on: its half of the cube."""
    neighbours = [graph.nodes[edge.dst] for edge in graph.successors[f"sip0.cube0.pe{pe}.pe_dma"]]
    return next(node.xy[1] for node in neighbours if node.xy is not None)


def _contention(graph: TopologyGraph) -> list[Case | Remark]:
    """Several flows at once (probe.md): two PEs on one slice, all PEs of a cube, all cubes on the IO chiplet."""
    pes, cubes = graph.spec.cube.pes, graph.cubes_per_sip
    far = max(_from_io(graph, cube) for cube in range(cubes))
    found: list[Case | Remark] = []
    for name, count in (("contention-two-pes", 2), ("contention-all-pes", pes)):
        flows = tuple(((0, pe), (0, 0)) for pe in range(count))
        found.append(Case(name, "contention", 0, flows) if pes > 1 else Remark(name, "a cube has one PE"))
    name = "contention-all-cubes"
    reads = tuple((None, (cube, 0)) for cube in range(cubes))
    found.append(Case(name, "contention", far, reads) if cubes > 1 else Remark(name, "a package has one cube"))
    return found
