"""A device as a drawing: SVG with places and link widths by bandwidth, and the graph as DOT.

Knows where things lie in a package. Does not know figures beyond bandwidth, or time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from kernbench.sim.topology_graph import Edge, GraphNode, TopologyGraph

STEP, BORDER, GAP = 44, 30, 26  # pixels: between routers, from a cube's border to its routers, between cubes
MIN_WIDTH = 640.0  # of the legend
CHIPLET_TOP = float(GAP + 60)
COLOURS = {
    "host": "#333",
    "fabric": "#777",
    "router": "#5b7083",
    "ucie": "#8a6fae",
    "io_ucie": "#8a6fae",
    "m_cpu": "#b5854b",
    "io_cpu": "#b5854b",
    "io_noc": "#5b7083",
    "pcie_ep": "#4f8a6b",
    "pe_dma": "#3d7fb8",
    "hbm_ctrl": "#a14d4d",
}
SHOWN_AS = {"pe_dma": "PE", "hbm_ctrl": "HBM slice", "ucie": "UCIe side", "io_ucie": "PHY"}
_SIDE = {"N": (0.5, 0.0), "S": (0.5, 1.0), "W": (0.0, 0.5), "E": (1.0, 0.5)}


@dataclass
class _Sheet:
    """Where every drawn node lies."""

    at: dict[str, tuple[float, float]] = field(default_factory=dict)
    boxes: list[tuple[float, float, float, float, str]] = field(default_factory=list)
    width: float = 0
    height: float = 0


def topology_svg(graph: TopologyGraph) -> str:
    sheet = _Sheet()
    left = float(GAP)
    for sip in range(graph.spec.sip.count):
        left = _package(graph, sip, left, sheet) + 2 * GAP
    sheet.width = max(left, MIN_WIDTH)
    sheet.at["host"] = (sheet.width / 2 - 40, GAP)
    if graph.spec.sip.count > 1:
        sheet.at["fabric"] = (sheet.width / 2 + 40, GAP)
    return "\n".join(_svg(graph, sheet)) + "\n"


# Places


def _package(graph: TopologyGraph, sip: int, left: float, sheet: _Sheet) -> float:
    mesh, routers = graph.spec.sip.cube_mesh, graph.spec.cube.router_mesh
    w, h = (routers.w - 1) * STEP + 2 * BORDER, (routers.h - 1) * STEP + 2 * BORDER
    top = CHIPLET_TOP + 86
    for cube in range(graph.cubes_per_sip):
        x, y = graph.cube_xy(cube)
        corner = (left + x * (w + GAP), top + y * (h + GAP))
        sheet.boxes.append((*corner, w, h, f"sip{sip}.cube{cube}"))
        _cube(graph, f"sip{sip}.cube{cube}", corner, (w, h), sheet)
    right = left + mesh.w * (w + GAP) - GAP
    bottom = top + mesh.h * (h + GAP)
    count = len(graph.spec.io_chiplets)
    for io in range(count):
        _chiplet(graph, f"sip{sip}.io{io}", left + (right - left) * (2 * io + 1) / (2 * count), sheet)
    sheet.height = max(sheet.height, bottom + 40)
    return right


def _cube(graph: TopologyGraph, at: str, corner: tuple[float, float], size: tuple[float, float], sheet: _Sheet) -> None:
    crowd: dict[str, int] = {}
    for node in _nodes_of(graph, at):
        if node.kind == "router" and node.xy is not None:
            sheet.at[node.id] = (corner[0] + BORDER + node.xy[0] * STEP, corner[1] + BORDER + node.xy[1] * STEP)
    for side, (u, v) in _SIDE.items():
        sheet.at[f"{at}.ucie-{side}"] = (corner[0] + u * size[0], corner[1] + v * size[1])
    for node in _nodes_of(graph, at):
        if node.kind not in ("m_cpu", "pe_dma", "hbm_ctrl"):
            continue
        router = next((edge.dst for edge in graph.successors[node.id] if edge.dst in sheet.at), None)
        if router is not None:
            turn = crowd[router] = crowd.get(router, -1) + 1
            x, y = sheet.at[router]
            dx, dy = ((12, -12), (-12, -12), (12, 12), (-12, 12))[turn % 4]
            sheet.at[node.id] = (x + dx * (1 + turn // 4 * 0.5), y + dy)


def _chiplet(graph: TopologyGraph, at: str, middle: float, sheet: _Sheet) -> None:
    top = CHIPLET_TOP
    sheet.boxes.append((middle - 110, top - 24, 220, 62, at))
    for number, part in enumerate(("pcie_ep", "io_noc", "io_cpu")):
        sheet.at[f"{at}.{part}"] = (middle - 60 + 60 * number, top - 4)
    phys = [node for node in graph.nodes.values() if node.kind == "io_ucie" and node.id.startswith(f"{at}.")]
    for number, node in enumerate(phys):
        sheet.at[node.id] = (middle - 90 + 180 * (2 * number + 1) / (2 * len(phys)), top + 28)


def _nodes_of(graph: TopologyGraph, at: str) -> Iterator[GraphNode]:
    prefix = f"{at}."
    return (node for name, node in graph.nodes.items() if name.startswith(prefix))


# The drawing


def _svg(graph: TopologyGraph, sheet: _Sheet) -> Iterator[str]:
    width, height = round(sheet.width), round(sheet.height)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="9">'
    )
    yield f"<title>{escape(graph.name)}</title>"
    yield '<rect width="100%" height="100%" fill="#fff"/>'
    for x, y, w, h, name in sheet.boxes:
        yield f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="4" fill="#f3f4f1" stroke="#b9bdb4"/>'
        yield f'<text x="{x + 4:.1f}" y="{y + 10:.1f}" fill="#555">{escape(name)}</text>'
    yield from _links(graph, sheet)
    for name, (x, y) in sheet.at.items():
        node = graph.nodes[name]
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"' if node.kind == "router" else _square(x, y)
        yield f'{shape} fill="{COLOURS[node.kind]}"><title>{escape(name)}</title>{_close(node)}'
    yield from _legend(sheet)
    yield "</svg>"


def _close(node: GraphNode) -> str:
    return "</circle>" if node.kind == "router" else "</rect>"


def _square(x: float, y: float) -> str:
    return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"'


def _links(graph: TopologyGraph, sheet: _Sheet) -> Iterator[str]:
    """One line for both directions; a side's connections are drawn as lines from their routers to the side."""
    drawn: set[frozenset[str]] = set()
    most = max((edge.bytes_per_s or 0 for edge in graph.edges.values()), default=1)
    for edge in graph.edges.values():
        ends = _ends(edge, sheet)
        if ends is None or frozenset((edge.src, edge.dst)) in drawn:
            continue
        drawn.add(frozenset((edge.src, edge.dst)))
        (x, y), (u, v) = ends
        wide = 0.6 if edge.bytes_per_s is None else 0.6 + 5.4 * edge.bytes_per_s / most
        label = f"{edge.src} <-> {edge.dst}: {_gbs(edge)}"
        yield (
            f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{u:.1f}" y2="{v:.1f}" stroke="#9aa59a" stroke-width="{wide:.2f}">'
            f"<title>{escape(label)}</title></line>"
        )


def _ends(edge: Edge, sheet: _Sheet) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Connections are not drawn as nodes: a link to one ends at its side."""
    ends = [sheet.at.get(name) or sheet.at.get(name.rpartition(".conn")[0]) for name in (edge.src, edge.dst)]
    if ends[0] is None or ends[1] is None or ends[0] == ends[1]:
        return None
    return ends[0], ends[1]


def _gbs(edge: Edge) -> str:
    return "no limit" if edge.bw_gbs is None else f"{edge.bw_gbs:f} GB/s"


def _legend(sheet: _Sheet) -> Iterator[str]:
    x, y = float(GAP), sheet.height - 22
    for kind, colour in COLOURS.items():
        shown = SHOWN_AS.get(kind, kind)
        yield f'<rect x="{x:.1f}" y="{y:.1f}" width="8" height="8" fill="{colour}"/>'
        yield f'<text x="{x + 11:.1f}" y="{y + 8:.1f}" fill="#333">{shown}</text>'
        x += 22 + 5 * len(shown)
    yield f'<text x="{GAP}" y="{y + 20:.1f}" fill="#555">line width by bandwidth</text>'


# DOT


def topology_dot(graph: TopologyGraph) -> str:
    """The whole graph; both directions of a link as one edge where they are alike."""
    lines = [f"digraph {quoteattr(graph.name)} {{", "  node [shape=box];"]
    lines += [f'  "{node.id}" [label="{node.id}\\n{node.spec.overhead_ns} ns"];' for node in graph.nodes.values()]
    for (src, dst), edge in graph.edges.items():
        back = graph.edges.get((dst, src))
        alike = back is not None and (back.bw_gbs, back.distance_mm) == (edge.bw_gbs, edge.distance_mm)
        if alike and back is not None and back.index < edge.index:
            continue
        lines.append(f'  "{src}" -> "{dst}" [label="{_gbs(edge)}"{", dir=both" if alike else ""}];')
    return "\n".join([*lines, "}", ""])
