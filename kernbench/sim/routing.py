"""Which way a transfer goes: paths, their latency, and the memory that an address belongs to.

The rules. Only routers, UCIe end points, connections, `io_noc`, `fabric` and, on the way to the host or to another
package, `pcie_ep` are passed through; CPUs, DMAs and controllers only ever end a path. Inside a cube the path is the
one of least latency; then fewest hops, then X before Y, then topology order. Between cubes the sequence of cubes is
X then Y, and the connection of every side it crosses is the destination's index modulo their number. Where there is
a choice of PHY or chiplet, least latency decides, then fewest hops, then topology order.

Inside-cube tables are made once per kind of cube and shared by all alike; paths are strung together from them.
Does not know messages, time or what is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from kernbench.address_map import PA_BITS, Space, decode_pa
from kernbench.diagnostics import EXIT_INPUT, Diagnostic, KernBenchError
from kernbench.sim.faults import DeviceFault
from kernbench.sim.mesh_table import MeshTable
from kernbench.sim.topology_graph import Edge, GraphNode, TopologyGraph

Path = tuple[str, ...]

_OPPOSITE = {"N": "S", "S": "N", "E": "W", "W": "E"}


class _NoPath(Exception):
    """A link that a path needs is not there; its text says which."""


@dataclass(frozen=True, slots=True)
class Route:
    """A path with what the network needs of it. Overheads of both end points are in `head_ps`."""

    path: Path
    head_ps: int  # sum of node overheads and wires: when the first byte arrives
    first_overhead_ps: int  # of the source; a leg chained to another does not pay its joint node again
    pools: tuple[int, ...]  # bandwidth pools of its links, in the order of the path, each once
    bottleneck_bytes_per_s: int | None  # None: nothing limits it


@dataclass(frozen=True, slots=True)
class _Cube:
    """One cube's mesh: its routers' names and the table of paths between them."""

    routers: tuple[str, ...]
    place: dict[str, int]
    table: MeshTable

    def path(self, src: str, dst: str) -> Path:
        found = self.table.path(self.place[src], self.place[dst])
        if found is None:
            raise _NoPath(f"router {dst} cannot be reached from {src}")
        return tuple(self.routers[index] for index in found)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A choice between the PHYs of a chiplet, for a path that comes from it (`inward`) or goes to it."""

    chiplet: GraphNode
    cube: int  # at the other end
    port: int
    inward: bool
    ends_ps: int  # overheads of both ends: no path is shorter


class PathRouter:
    """Paths between any two nodes of a graph, and their latencies. Everything found is kept."""

    def __init__(self, graph: TopologyGraph) -> None:
        self.graph = graph
        self._nodes, self._edges = graph.nodes, graph.edges
        self._ports = graph.spec.cube.ucie.connections
        self._mesh_tables: dict[object, MeshTable] = {}
        self._cubes: dict[tuple[int, int], _Cube] = {}
        self._chains: dict[tuple[int, int, int, int], Path] = {}
        self._routes: dict[tuple[str, str], Route] = {}

    # What the rest of the simulator asks for

    def route(self, src: str, dst: str) -> Route:
        """The path of a transfer with its latency and pools."""
        found = self._routes.get((src, dst))
        if found is None:
            found = self._routes[src, dst] = self.route_of(self.find_node_path(src, dst))
        return found

    def route_of(self, path: Path) -> Route:
        """The route along a given path."""
        nodes, edges = self._nodes, self._edges
        head_ps = first = nodes[path[0]].overhead_ps
        pools: dict[int, None] = {}
        for pair in pairwise(path):
            edge = edges[pair]
            head_ps += edge.wire_ps + nodes[pair[1]].overhead_ps
            if edge.pool >= 0:
                pools[edge.pool] = None
        slowest = min([self.graph.pools[pool].bytes_per_s for pool in pools], default=None)
        return Route(path, head_ps, first, tuple(pools), slowest)

    def find_node_path(self, src: str, dst: str) -> Path:
        """The path between two nodes by the rules above; `KernBenchError` naming both where there is none."""
        try:
            return self._path(self._nodes[src], self._nodes[dst], max(self._nodes[dst].pe, 0))
        except _NoPath as missing:
            raise KernBenchError([_no_path(src, dst, str(missing))], EXIT_INPUT) from None

    def find_memory_path(self, pcie_ep: str, hbm_ctrl: str) -> Path:
        """ADR-0016 D3: between a PCIe end point and a slice, around `io_cpu` and `m_cpu`; either way."""
        kinds = {self._nodes[pcie_ep].kind, self._nodes[hbm_ctrl].kind}
        assert kinds in ({"pcie_ep", "hbm_ctrl"}, {"pcie_ep", "tcm"}), f"no memory path between {sorted(kinds)}"
        return self.find_node_path(pcie_ep, hbm_ctrl)

    def nearest_pcie_ep(self, sip: int, node: str) -> str:
        """The PCIe end point whose chiplet is nearest to a node of the same package; ties: the lowest index."""
        names = [f"sip{sip}.io{io}.pcie_ep" for io in range(len(self.graph.spec.io_chiplets))]
        return min(names, key=lambda name: self.route(name, node).head_ps)

    def compute_path_latency_ps(self, path: Path) -> int:
        """Overheads of all nodes, both ends too, and all wires."""
        nodes, edges = self._nodes, self._edges
        total = sum([nodes[name].overhead_ps for name in path])
        return total + sum([edges[pair].wire_ps for pair in pairwise(path)])

    def compute_path_latency_ns(self, path: Path) -> float:
        """`compute_path_latency_ps` as people read it."""
        return self.compute_path_latency_ps(path) / 1000

    # Which kind of path it is

    def _path(self, src: GraphNode, dst: GraphNode, port: int) -> Path:
        """`port` is the number by which the final destination takes its connection on every side crossed."""
        if src is dst:
            return (src.id,)
        if src.sip != dst.sip or min(src.sip, dst.sip) < 0:
            return self._between_sips(src, dst, port)
        if src.cube >= 0 and dst.cube >= 0:
            return self._between_cubes(src, dst, port)
        if src.cube >= 0:
            return self._cube_to_chiplet(src, dst, port)
        if dst.cube >= 0:
            return self._chiplet_to_cube(src, dst, port)
        return self._between_chiplets(src, dst, port)

    def _between_sips(self, src: GraphNode, dst: GraphNode, port: int) -> Path:
        """Out through a `pcie_ep` of the source's package, over host link or fabric, in through one of the other."""
        outs: tuple[Path, ...] = ((src.id,),)
        if src.sip >= 0:
            outs = tuple(self._path(src, end, port) for end in self._pcie_eps(src))
        ins: tuple[Path, ...] = ((dst.id,),)
        if dst.sip >= 0:
            ins = tuple(self._path(end, dst, port) for end in self._pcie_eps(dst))
        middle: Path = ("fabric",) if src.sip >= 0 and dst.sip >= 0 else ()
        paths = [one + middle + other for one in outs for other in ins]
        linked = [path for path in paths if all(p in self._edges for p in pairwise(path))]
        if not linked:
            raise _NoPath(f"no chiplet links {src.id} with {dst.id}")
        return min(linked, key=self._rank)

    def _pcie_eps(self, node: GraphNode) -> list[GraphNode]:
        """Where a node's package is left or entered: its own chiplet's end point, or any for a cube's node."""
        chiplets = [node.io] if node.io >= 0 else range(len(self.graph.spec.io_chiplets))
        return [self._nodes[f"sip{node.sip}.io{io}.pcie_ep"] for io in chiplets]

    def _between_cubes(self, src: GraphNode, dst: GraphNode, port: int) -> Path:
        head, start = self._attach(src, outward=True)
        tail, goal = self._attach(dst, outward=False)
        inner = self._over_mesh(src.sip, src.cube, start, dst.cube, goal, port)
        return head + inner + tail

    def _chiplet_to_cube(self, src: GraphNode, dst: GraphNode, port: int) -> Path:
        tail, goal = self._attach(dst, outward=False)
        head = self._to_io_noc(src)

        def via(phy: Path, cube: int, start: str) -> Path:
            return head + phy + self._over_mesh(src.sip, cube, start, dst.cube, goal, port) + tail

        return self._best_phy(_Choice(src, dst.cube, port, True, self._ends_ps(src, dst)), via)

    def _cube_to_chiplet(self, src: GraphNode, dst: GraphNode, port: int) -> Path:
        head, start = self._attach(src, outward=True)
        tail = tuple(reversed(self._to_io_noc(dst)))

        def via(phy: Path, cube: int, goal: str) -> Path:
            return head + self._over_mesh(src.sip, src.cube, start, cube, goal, port) + phy + tail

        return self._best_phy(_Choice(dst, src.cube, port, False, self._ends_ps(src, dst)), via)

    def _between_chiplets(self, src: GraphNode, dst: GraphNode, port: int) -> Path:
        """Within one chiplet over its `io_noc`; else over the cubes, since no other chiplet's `io_noc` forwards."""
        head, tail = self._to_io_noc(src), tuple(reversed(self._to_io_noc(dst)))
        if src.io == dst.io:
            return self._checked(head + tail[1:])

        def via(phy: Path, cube: int, goal: str) -> Path:
            def enter(first: Path, at: int, start: str) -> Path:
                return head + first + self._over_mesh(src.sip, at, start, cube, goal, port) + phy + tail

            return self._best_phy(_Choice(src, cube, port, True, 0), enter)

        return self._best_phy(_Choice(dst, self._first_cube(src), port, False, 0), via)

    # Parts of paths

    def _first_cube(self, chiplet: GraphNode) -> int:
        x, y = self.graph.spec.io_chiplets[chiplet.io].cube_ports[0].cube.xy
        return self.graph.cube_id(x, y)

    def _ends_ps(self, src: GraphNode, dst: GraphNode) -> int:
        return src.overhead_ps + dst.overhead_ps

    def _best_phy(self, choice: _Choice, via: Callable[[Path, int, str], Path]) -> Path:
        """The best path over any PHY of a chiplet; those so far off that they cannot be best are not tried."""
        best: tuple[int, Path] | None = None
        missing: _NoPath | None = None
        for far, phy, at, router in self._phys(choice):
            least_ps = choice.ends_ps + far * self._least_crossing_ps
            if best is not None and least_ps + sum(self._nodes[name].overhead_ps for name in phy) > best[0]:
                continue
            try:
                path = self._checked(via(phy, at, router))
            except _NoPath as error:
                missing = error
                continue
            found = (self.compute_path_latency_ps(path), path)
            if best is None or found[0] < best[0] or (found[0] == best[0] and self._tie(path) < self._tie(best[1])):
                best = found
        if best is None:
            raise missing or _NoPath(f"the chiplet of {choice.chiplet.id} has no PHY")
        return best[1]

    def _phys(self, choice: _Choice) -> list[tuple[int, Path, int, str]]:
        """(cubes to cross, nodes from io_noc's neighbour to the cube's connection, cube, router) of each PHY."""
        chiplet = choice.chiplet
        spec = self.graph.spec.io_chiplets[chiplet.io]
        x, y = self.graph.cube_xy(choice.cube)
        found: list[tuple[int, Path, int, str]] = []
        for entry in spec.cube_ports:
            at = self.graph.cube_id(*entry.cube.xy)
            phy = f"sip{chiplet.sip}.io{chiplet.io}.io_ucie-{entry.phy}"
            side = f"sip{chiplet.sip}.cube{at}.ucie-{entry.cube_side}"
            conn = f"{side}.conn{choice.port % self._ports}"
            nodes: Path = (f"{phy}.conn{choice.port % spec.io_ucie.connections}", phy, side, conn)
            router = self._router_of(self._nodes[conn], outward=choice.inward)
            if router is not None:
                far = abs(entry.cube.xy[0] - x) + abs(entry.cube.xy[1] - y)
                found.append((far, nodes if choice.inward else nodes[::-1], at, router))
        return sorted(found, key=lambda phy: phy[0])

    @cached_property
    def _least_crossing_ps(self) -> int:
        """The least that going from one cube to the next can take."""
        sides = [node.overhead_ps for node in self._nodes.values() if node.kind == "ucie"]
        return 2 * min(sides)

    def _to_io_noc(self, node: GraphNode) -> Path:
        noc = f"sip{node.sip}.io{node.io}.io_noc"
        return (noc,) if node.id == noc else (node.id, noc)

    def _attach(self, node: GraphNode, outward: bool) -> tuple[Path, str]:
        """The nodes from an end point to its router, the router left out, and the router."""
        if node.kind == "router":
            return (), node.id
        router = self._router_of(node, outward)
        if router is None:
            raise _NoPath(f"{node.id} has no link {'to' if outward else 'from'} a router")
        return (node.id,), router

    def _router_of(self, node: GraphNode, outward: bool) -> str | None:
        for edge in self.graph.successors[node.id] if outward else self._predecessors.get(node.id, ()):
            other = edge.dst if outward else edge.src
            if self._nodes[other].kind == "router":
                return other
        return None

    @cached_property
    def _predecessors(self) -> dict[str, list[Edge]]:
        found: dict[str, list[Edge]] = {}
        for edge in self._edges.values():
            found.setdefault(edge.dst, []).append(edge)
        return found

    def _over_mesh(self, sip: int, cube: int, start: str, goal_cube: int, goal: str, port: int) -> Path:
        """From a router of one cube to a router of another, both included."""
        if cube == goal_cube:
            return self._cube(sip, cube).path(start, goal)
        chain = self._chain(sip, cube, goal_cube, port % self._ports)
        leave, enter = chain[0], chain[-1]
        out = self._router_of(self._nodes[leave], outward=False)
        back = self._router_of(self._nodes[enter], outward=True)
        if out is None or back is None:
            raise _NoPath(f"{leave if out is None else enter} has no link to its router")
        return self._cube(sip, cube).path(start, out) + chain + self._cube(sip, goal_cube).path(back, goal)

    def _chain(self, sip: int, src: int, dst: int, conn: int) -> Path:
        """From the connection by which one cube is left to the one by which another is entered, X then Y."""
        found = self._chains.get((sip, src, dst, conn))
        if found is None:
            found = self._chains[sip, src, dst, conn] = self._checked(self._string(sip, src, dst, conn))
        return found

    def _string(self, sip: int, src: int, dst: int, conn: int) -> Path:
        nodes: list[str] = []
        here = src
        for side in self._sides(src, dst):
            if nodes:
                nodes.extend(self._transit(sip, here, nodes[-1], f"sip{sip}.cube{here}.ucie-{side}.conn{conn}"))
            there = self._neighbour(here, side)
            one, other = f"sip{sip}.cube{here}.ucie-{side}", f"sip{sip}.cube{there}.ucie-{_OPPOSITE[side]}"
            nodes.extend((f"{one}.conn{conn}", one, other, f"{other}.conn{conn}"))
            here = there
        return tuple(nodes)

    def _transit(self, sip: int, cube: int, came_by: str, leaves_by: str) -> Path:
        enter = self._router_of(self._nodes[came_by], outward=True)
        leave = self._router_of(self._nodes[leaves_by], outward=False)
        if enter is None or leave is None:
            raise _NoPath(f"{came_by if enter is None else leaves_by} has no link to its router")
        return self._cube(sip, cube).path(enter, leave)

    def _sides(self, src: int, dst: int) -> Iterator[str]:
        (x, y), (u, v) = self.graph.cube_xy(src), self.graph.cube_xy(dst)
        yield from ("E" if u > x else "W" for _ in range(abs(u - x)))
        yield from ("S" if v > y else "N" for _ in range(abs(v - y)))

    def _neighbour(self, cube: int, side: str) -> int:
        return (
            cube + {"E": 1, "W": -1, "S": self.graph.spec.sip.cube_mesh.w, "N": -self.graph.spec.sip.cube_mesh.w}[side]
        )

    def _cube(self, sip: int, cube: int) -> _Cube:
        found = self._cubes.get((sip, cube))
        if found is None:
            found = self._cubes[sip, cube] = self._make_cube(sip, cube)
        return found

    def _make_cube(self, sip: int, cube: int) -> _Cube:
        mesh = self.graph.spec.cube.router_mesh
        names = tuple(f"sip{sip}.cube{cube}.noc.r{y}c{x}" for y in range(mesh.h) for x in range(mesh.w))
        place = {name: index for index, name in enumerate(names)}
        overheads = tuple(self._nodes[name].overhead_ps for name in names)
        links = {
            (place[name], place[edge.dst]): edge.wire_ps
            for name in names
            for edge in self.graph.successors[name]
            if edge.dst in place
        }
        alike = (overheads, tuple(links.items()))
        table = self._mesh_tables.get(alike)
        if table is None:
            table = self._mesh_tables[alike] = MeshTable(overheads, links, mesh.w)
        return _Cube(names, place, table)

    def _checked(self, path: Path) -> Path:
        for pair in pairwise(path):
            if pair not in self._edges:
                raise _NoPath(f"there is no link {pair[0]} -> {pair[1]}")
        return path

    def _rank(self, path: Path) -> tuple[int, tuple[int, tuple[int, ...]]]:
        return self.compute_path_latency_ps(path), self._tie(path)

    def _tie(self, path: Path) -> tuple[int, tuple[int, ...]]:
        return len(path), tuple(self._nodes[name].index for name in path)


def _no_path(src: str, dst: str, why: str) -> Diagnostic:
    return Diagnostic("E_ROUTE_MISSING", f"no path from `{src}` to `{dst}`: {why}")


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """Where a physical address lies."""

    node: str  # an hbm_ctrl or a tcm
    sip: int
    cube: int
    pe: int
    space: Space
    offset: int  # bytes from the start of that memory


class AddressResolver:
    """From a physical address of a package, with the tags that travel beside it, to a memory of the graph."""

    def __init__(self, graph: TopologyGraph) -> None:
        self.graph = graph
        self._kinds: dict[Space, str] = {"hbm": "hbm_ctrl.pe{pe}", "tcm": "pe{pe}.tcm"}

    def resolve(
        self, sip: int, pa: int, nbytes: int = 0, tags: tuple[int, int] | None = None, space: Space | None = None
    ) -> MemoryPlace:
        """The memory at `pa` of package `sip`; `tags` are (cube, pe), `space` the kind that the request wants.

        `DeviceFault` where there is no such memory, where tags or space contradict the address, or where the range
        does not end in the same memory.
        """
        place = self._place(sip, pa)
        if tags is not None and tags != (place.cube, place.pe):
            message = (
                f"address {pa:#x} belongs to cube {place.cube}, pe {place.pe}, "
                f"but the tags beside it say cube {tags[0]}, pe {tags[1]}"
            )
            raise DeviceFault("E_PA_TAG_MISMATCH", message)
        if space is not None and space != place.space:
            message = f"address {pa:#x} lies in {place.space}, but the request names {space}"
            raise DeviceFault("E_PA_TAG_MISMATCH", message)
        capacity = self.capacity_bytes(place)
        if place.offset >= capacity and (nbytes > 0 or place.offset > capacity):
            message = f"address {pa:#x} is byte {place.offset} of `{place.node}`, which holds {capacity}"
            raise DeviceFault("E_PA_UNMAPPED", message)
        if place.offset + nbytes > capacity:
            message = (
                f"{nbytes} bytes at {pa:#x} end at byte {place.offset + nbytes} of `{place.node}`, "
                f"which holds {capacity}"
            )
            raise DeviceFault("E_PA_STRADDLES", message)
        return place

    def capacity_bytes(self, place: MemoryPlace) -> int:
        capacity: int = self.graph.nodes[place.node].spec.capacity_bytes
        return capacity

    def _place(self, sip: int, pa: int) -> MemoryPlace:
        if not 0 <= pa < 1 << PA_BITS:
            raise DeviceFault("E_PA_UNMAPPED", f"address {pa:#x} has more than {PA_BITS} bits")
        at = decode_pa(pa)
        node = f"sip{sip}.cube{at.cube}.{self._kinds[at.space].format(pe=at.pe)}"
        if node not in self.graph.nodes:
            message = f"address {pa:#x} of sip {sip} names cube {at.cube}, pe {at.pe}, which is not there"
            raise DeviceFault("E_PA_UNMAPPED", message)
        return MemoryPlace(node, sip, at.cube, at.pe, at.space, at.offset)
