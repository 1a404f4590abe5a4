"""Make the nodes and links of a device from its specification.

The order in which nodes are made is the topology order: host, fabric, then package by package its chiplets, then
its cubes, each with its network before its PEs. Overrides are put on while making.

Does not know YAML files, routes or time. What it finds wrong goes to the sink, all at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kernbench.diagnostics import Diagnostic, Sink, did_you_mean
from kernbench.sim.topology_graph import Edge, GraphNode, Pool
from kernbench.sim.topology_schema import ZERO, CubePortSpec, IoChipletSpec, PlainSpec, TopologySpec, ns_to_ps
from kernbench.yaml_schema import key, put_over, read_fields
from kernbench.yaml_source import Node

SIDES = ("N", "E", "S", "W")
OPPOSITE = {"N": "S", "S": "N", "E": "W", "W": "E"}
STEP = {"N": (0, -1), "S": (0, 1), "E": (1, 0), "W": (-1, 0)}

PE_PARTS = ("pe_cpu", "pe_scheduler", "pe_dma", "pe_gemm", "pe_math", "tcm", "pe_ipcq")
ON_ROUTER = ("pe_cpu", "pe_dma", "tcm", "pe_ipcq")  # the parts of a PE that the mesh reaches


@dataclass(frozen=True, kw_only=True)
class HbmNodeSpec:
    """What an `hbm_ctrl` node has."""

    overhead_ns: Decimal = key("latency of the controller and the device", low=0)
    capacity_bytes: int = key("capacity of the slice", low=1, high=1 << 39)
    bw_gbs: Decimal = key("bandwidth of the slice, reads and writes together", above=0)


@dataclass(frozen=True, kw_only=True)
class LinkOverride:
    """What an override can say of a link."""

    bw_gbs: Decimal | None = key("bandwidth in this direction", above=0, default=None)
    distance_mm: Decimal | None = key("length of the wire", low=0, default=None)


class Builder:
    """Fills `nodes`, `edges` and `pools`. One object makes one device."""

    def __init__(self, spec: TopologySpec, overrides: dict[str, Node], sink: Sink) -> None:
        self.spec, self.sink = spec, sink
        self.nodes: dict[str, GraphNode] = {}
        self.edges: dict[tuple[str, str], Edge] = {}
        self.pools: list[Pool] = []
        self._node_overrides = {name: node for name, node in overrides.items() if "->" not in name}
        self._link_overrides = {_link_name(name): node for name, node in overrides.items() if "->" in name}
        self._used: set[str] = set()

    def build(self) -> None:
        self._node("host", "host", self.spec.host)
        self._node("fabric", "fabric", self.spec.fabric)
        for sip in range(self.spec.sip.count):
            for io, chiplet in enumerate(self.spec.io_chiplets):
                self._chiplet(sip, io, chiplet)
            for cube in range(self.spec.sip.cube_mesh.w * self.spec.sip.cube_mesh.h):
                self._cube(sip, cube)
            self._cube_links(sip)
            for io, chiplet in enumerate(self.spec.io_chiplets):
                for port in chiplet.cube_ports:
                    self._phy_link(sip, io, chiplet, port)
        self._unused_overrides()

    # Nodes and links

    def _node(self, id: str, kind: str, spec: Any, **where: Any) -> GraphNode:
        override = self._node_overrides.get(id)
        if override is not None:
            self._used.add(id)
            spec = put_over(override, spec, self.sink)
        node = GraphNode(id, kind, len(self.nodes), spec, **where)
        self.nodes[id] = node
        return node

    def _link(self, src: str, dst: str, bw_gbs: Decimal | None, distance_mm: Decimal = ZERO) -> None:
        """One link in one direction, with a pool of its own where its bandwidth is limited."""
        drawn = self._drawn(src, dst, bw_gbs, distance_mm)
        if drawn is None:
            return
        bw_gbs, distance_mm = drawn
        self._edge(src, dst, bw_gbs, distance_mm, self._pool(f"{src} -> {dst}", bw_gbs))

    def _both(self, a: str, b: str, bw_gbs: Decimal | None, distance_mm: Decimal = ZERO) -> None:
        self._link(a, b, bw_gbs, distance_mm)
        self._link(b, a, bw_gbs, distance_mm)

    def _slice_links(self, router: str, hbm: GraphNode) -> None:
        """Both directions of an HBM slice draw on one pool; an override of one holds for the other."""
        there = self._drawn(router, hbm.id, hbm.spec.bw_gbs, ZERO)
        back = self._drawn(hbm.id, router, hbm.spec.bw_gbs, ZERO)
        given = {d[0] for d in (there, back) if d is not None and d[0] is not None} - {hbm.spec.bw_gbs}
        if len(given) > 1:
            low, high = sorted(given)
            message = f"`{hbm.id}` has one bandwidth for both directions, but {low} and {high} GB/s are given"
            self.sink.add(Diagnostic("E_TOPO_LINK_ENDS", message, help="override `bw_gbs` of the node instead"))
        bw_gbs = min(given, default=hbm.spec.bw_gbs)
        pool = self._pool(hbm.id, bw_gbs)
        for src, dst, drawn in ((router, hbm.id, there), (hbm.id, router, back)):
            if drawn is not None:
                self._edge(src, dst, bw_gbs, drawn[1], pool)

    def _drawn(
        self, src: str, dst: str, bw_gbs: Decimal | None, distance_mm: Decimal
    ) -> tuple[Decimal | None, Decimal] | None:
        """Bandwidth and distance of a link with its override; None where the override takes the link away."""
        name = f"{src} -> {dst}"
        node = self._link_overrides.get(name)
        if node is None:
            return bw_gbs, distance_mm
        self._used.add(name)
        if node.value is None:
            return None
        given = read_fields(node, LinkOverride, self.sink)
        if given is None:
            return bw_gbs, distance_mm
        return given.bw_gbs or bw_gbs, distance_mm if given.distance_mm is None else given.distance_mm

    def _edge(self, src: str, dst: str, bw_gbs: Decimal | None, distance_mm: Decimal, pool: int) -> None:
        wire_ps = ns_to_ps(distance_mm * self.spec.ns_per_mm)
        rate = self.pools[pool].bytes_per_s if pool >= 0 else None
        self.edges[src, dst] = Edge(src, dst, len(self.edges), bw_gbs, distance_mm, wire_ps, rate, pool)

    def _pool(self, name: str, bw_gbs: Decimal | None) -> int:
        if bw_gbs is None:
            return -1
        top, bottom = bw_gbs.as_integer_ratio()
        rate, rest = divmod(top * 10**9, bottom)
        assert rate > 0 and not rest, f"{bw_gbs} GB/s of {name} has been checked"
        self.pools.append(Pool(len(self.pools), name, rate))
        return len(self.pools) - 1

    # Sections of the device

    def _chiplet(self, sip: int, io: int, chiplet: IoChipletSpec) -> None:
        at = f"sip{sip}.io{io}"
        where = {"sip": sip, "io": io}
        self._node(f"{at}.pcie_ep", "pcie_ep", chiplet.pcie_ep, **where)
        pcie_gbs = self.nodes[f"{at}.pcie_ep"].spec.bw_gbs
        self._node(f"{at}.io_noc", "io_noc", chiplet.io_noc, **where)
        noc_gbs = self.nodes[f"{at}.io_noc"].spec.bw_gbs
        self._node(f"{at}.io_cpu", "io_cpu", chiplet.io_cpu, **where)
        self._both("host", f"{at}.pcie_ep", pcie_gbs)
        self._both(f"{at}.pcie_ep", "fabric", self.nodes["fabric"].spec.bw_gbs)
        self._both(f"{at}.pcie_ep", f"{at}.io_noc", noc_gbs)
        self._both(f"{at}.io_cpu", f"{at}.io_noc", noc_gbs)
        for port in chiplet.cube_ports:
            phy = f"{at}.io_ucie-{port.phy}"
            self._node(phy, "io_ucie", PlainSpec(overhead_ns=chiplet.io_ucie.overhead_ns), **where)
            for conn in range(chiplet.io_ucie.connections):
                self._node(f"{phy}.conn{conn}", "ucie_conn", PlainSpec(), **where)
                self._both(f"{at}.io_noc", f"{phy}.conn{conn}", chiplet.io_ucie.per_connection_bw_gbs)
                self._both(f"{phy}.conn{conn}", phy, chiplet.io_ucie.per_connection_bw_gbs)

    def _cube(self, sip: int, cube: int) -> None:
        at = f"sip{sip}.cube{cube}"
        spec, where = self.spec.cube, {"sip": sip, "cube": cube}
        mesh = spec.router_mesh
        for y in range(mesh.h):
            for x in range(mesh.w):
                router = PlainSpec(overhead_ns=mesh.overhead_ns)
                self._node(f"{at}.noc.r{y}c{x}", "router", router, xy=(x, y), **where)
        for x, y, dx, dy in _mesh_links(mesh.w, mesh.h):
            self._both(f"{at}.noc.r{y}c{x}", f"{at}.noc.r{y + dy}c{x + dx}", mesh.bw_gbs, mesh.distance_mm)
        self._node(f"{at}.m_cpu", "m_cpu", PlainSpec(overhead_ns=spec.m_cpu.overhead_ns), **where)
        self._both(f"{at}.m_cpu", f"{at}.noc.{spec.m_cpu.router}", mesh.bw_gbs)
        for side in SIDES:
            self._ucie_side(at, side, where)
        for pe in range(spec.pes):
            hbm = HbmNodeSpec(
                overhead_ns=spec.hbm.overhead_ns, capacity_bytes=spec.hbm.capacity_bytes, bw_gbs=spec.hbm.bw_gbs
            )
            node = self._node(f"{at}.hbm_ctrl.pe{pe}", "hbm_ctrl", hbm, pe=pe, **where)
            self._slice_links(f"{at}.noc.{pe_router(self.spec, pe)}", node)
        for pe in range(spec.pes):
            self._pe(at, pe, where)

    def _ucie_side(self, at: str, side: str, where: dict[str, int]) -> None:
        ucie, mesh = self.spec.cube.ucie, self.spec.cube.router_mesh
        self._node(f"{at}.ucie-{side}", "ucie", PlainSpec(overhead_ns=ucie.overhead_ns), **where)
        for conn in range(ucie.connections):
            name = f"{at}.ucie-{side}.conn{conn}"
            self._node(name, "ucie_conn", PlainSpec(), **where)
            router = f"{at}.noc.{side_router(mesh.w, mesh.h, side, conn, ucie.connections)}"
            self._both(name, router, ucie.per_connection_bw_gbs, edge_distance_mm(self.spec, side))
            self._both(name, f"{at}.ucie-{side}", ucie.per_connection_bw_gbs)

    def _pe(self, at: str, pe: int, where: dict[str, int]) -> None:
        router = f"{at}.noc.{pe_router(self.spec, pe)}"
        for part in PE_PARTS:
            name = f"{at}.pe{pe}.{part}"
            self._node(name, part, getattr(self.spec.pe, part), pe=pe, **where)
            if part in ON_ROUTER:
                self._both(name, router, self.spec.cube.router_mesh.bw_gbs)

    def _cube_links(self, sip: int) -> None:
        """A side's link carries what all its connections carry."""
        ucie, mesh = self.spec.cube.ucie, self.spec.sip.cube_mesh
        for x, y, dx, dy in _mesh_links(mesh.w, mesh.h):
            side = "E" if dx else "S"
            here, there = y * mesh.w + x, (y + dy) * mesh.w + x + dx
            a, b = f"sip{sip}.cube{here}.ucie-{side}", f"sip{sip}.cube{there}.ucie-{OPPOSITE[side]}"
            self._both(a, b, ucie.per_connection_bw_gbs * ucie.connections, ucie.distance_mm)

    def _phy_link(self, sip: int, io: int, chiplet: IoChipletSpec, port: CubePortSpec) -> None:
        """ADR-0016 D5: the link to the cube carries one connection's bandwidth."""
        x, y = port.cube.xy
        cube = f"sip{sip}.cube{y * self.spec.sip.cube_mesh.w + x}.ucie-{port.cube_side}"
        phy = f"sip{sip}.io{io}.io_ucie-{port.phy}"
        self._both(phy, cube, chiplet.io_ucie.per_connection_bw_gbs, port.distance_mm)

    def _unused_overrides(self) -> None:
        links = [f"{src} -> {dst}" for src, dst in self.edges]
        for name, node in {**self._node_overrides, **self._link_overrides}.items():
            if name in self._used:
                continue
            what, known = ("link", links) if "->" in name else ("node", list(self.nodes))
            message = f"there is no {what} `{name}` to override"
            help = _near_in(name, known) or did_you_mean(name, known[:12], f"{what}s")
            self.sink.add(Diagnostic("E_TOPO_OVERRIDE", message, node.key_label(), help=help, path=node.path))


def pe_router(spec: TopologySpec, pe: int) -> str:
    """The router of a PE: the first half of the PEs on the first row, the other on the last (ADR-0049's halves)."""
    cube = spec.cube
    if cube.pe_routers is not None:
        return cube.pe_routers[pe]
    w = cube.router_mesh.w
    half = max(w, -(-cube.pes // 2))
    row = 0 if pe < half else cube.router_mesh.h - 1
    return f"r{row}c{pe % half * w // half}"


def side_router(w: int, h: int, side: str, conn: int, connections: int) -> str:
    """The border router of a connection: connections are spread evenly along their side."""
    if side in "NS":
        return f"r{0 if side == 'N' else h - 1}c{conn * w // connections}"
    return f"r{conn * h // connections}c{0 if side == 'W' else w - 1}"


def edge_distance_mm(spec: TopologySpec, side: str) -> Decimal:
    """From a border router to its side's UCIe port: what pitch, mesh and the wire between cubes leave, halved."""
    mesh, ucie = spec.cube.router_mesh, spec.cube.ucie
    across = mesh.w if side in "EW" else mesh.h
    return (spec.sip.cube_pitch_mm - (across - 1) * mesh.distance_mm - ucie.distance_mm) / 2


def _mesh_links(w: int, h: int) -> Iterator[tuple[int, int, int, int]]:
    """(x, y, dx, dy) of every pair of neighbours, once."""
    for y in range(h):
        for x in range(w):
            if x + 1 < w:
                yield x, y, 1, 0
            if y + 1 < h:
                yield x, y, 0, 1


def _link_name(name: str) -> str:
    src, _, dst = name.partition("->")
    return f"{src.strip()} -> {dst.strip()}"


def _near_in(name: str, known: list[str]) -> str | None:
    """The known id that shares the longest start with `name`; a comparison of all would take seconds."""
    best = max(known, key=lambda other: _common(name, other))
    return f"did you mean `{best}`?" if _common(name, best) * 2 >= len(name) else None


def _common(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
