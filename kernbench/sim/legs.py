"""Legs of a host request's way through the graph: their nodes, times and bandwidth pools.

Knows which nodes a host request passes (ADR-0016 D3, D4). Does not know what is done at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from kernbench.sim.routing import PathRouter
from kernbench.sim.topology_graph import TopologyGraph

Path = tuple[str, ...]


@dataclass(frozen=True)
class Leg:
    """A path taken in one go. `nodes` has each node's own time and that of the wire behind it."""

    nodes: tuple[tuple[str, int], ...]
    pools: tuple[int, ...]

    @cached_property
    def head_ps(self) -> int:
        return sum(ps for _, ps in self.nodes)


class Ways:
    """The ways of host requests, each found once.

    `from_host` is False where requests are put in at `pcie_ep`, as `probe` does; PCIe is then no part of them.
    """

    def __init__(self, graph: TopologyGraph, router: PathRouter, from_host: bool) -> None:
        self._graph = graph
        self._router = router
        self._from_host = from_host
        self._legs: dict[tuple[Path, bool], Leg] = {}
        self._chiplets: dict[tuple[int, str], int] = {}

    def leg(self, path: Path, joined: bool = False) -> Leg:
        """The leg along `path`; with `joined` its first node has been paid by the leg before."""
        leg = self._legs.get((path, joined))
        if leg is None:
            leg = self._legs[path, joined] = self._make(path, joined)
        return leg

    def _make(self, path: Path, joined: bool) -> Leg:
        edges = [self._graph.edge(a, b) for a, b in pairwise(path)]
        wires = [edge.wire_ps for edge in edges] + [0]
        own = [self._graph.nodes[node].overhead_ps for node in path]
        if joined:
            own[0] = 0
        nodes = tuple((node, o + w) for node, o, w in zip(path, own, wires, strict=True))
        pools = tuple(dict.fromkeys(edge.pool for edge in edges if edge.pool >= 0))
        return Leg(nodes, pools)

    # ----------------------------------------------------------------- ends

    def entry(self, sip: int, io: int = 0) -> Path:
        """Where requests enter a package: at the host, and then at `pcie_ep`."""
        pcie_ep = f"sip{sip}.io{io}.pcie_ep"
        return ("host", pcie_ep) if self._from_host else (pcie_ep,)

    def to_io_cpu(self, sip: int) -> Path:
        entry = self.entry(sip)
        return (*entry, *self._router.find_node_path(entry[-1], f"sip{sip}.io0.io_cpu")[1:])

    def from_io_cpu(self, sip: int) -> Path:
        entry = self.entry(sip)
        return (*self._router.find_node_path(f"sip{sip}.io0.io_cpu", entry[-1]), *entry[-2::-1])

    def chiplet(self, sip: int, node: str) -> int:
        """The IO chiplet of a package that is nearest to a memory; of equals the first."""
        io = self._chiplets.get((sip, node))
        if io is None:
            count = len(self._graph.spec.io_chiplets)
            ways = [self.leg(self._direct(sip, number, node)).head_ps for number in range(count)]
            io = self._chiplets[sip, node] = ways.index(min(ways))
        return io

    def _direct(self, sip: int, io: int, node: str) -> Path:
        entry = self.entry(sip, io)
        return (*entry, *self._router.find_memory_path(entry[-1], node)[1:])

    # ----------------------------------------------------------------- memory

    def to_memory(self, sip: int, node: str) -> Path:
        """From the host to a memory; `memory_route: via_cpus` takes it through the CPUs as chained legs."""
        io = self.chiplet(sip, node)
        if not self._via_cpus(io):
            return self._direct(sip, io, node)
        entry = self.entry(sip, io)
        return self._chain((*entry[:-1],), [entry[-1], f"sip{sip}.io{io}.io_cpu", self._m_cpu(node), node])

    def from_memory(self, sip: int, node: str) -> Path:
        io = self.chiplet(sip, node)
        entry = self.entry(sip, io)
        stops = (
            [node, self._m_cpu(node), f"sip{sip}.io{io}.io_cpu", entry[-1]] if self._via_cpus(io) else [node, entry[-1]]
        )
        return (*self._chain((), stops), *entry[-2::-1])

    def _chain(self, start: Path, stops: list[str]) -> Path:
        path = (*start, stops[0])
        for a, b in pairwise(stops):
            path = (*path, *self._router.find_node_path(a, b)[1:])
        return path

    def _via_cpus(self, io: int) -> bool:
        return self._graph.spec.io_chiplets[io].memory_route == "via_cpus"

    def _m_cpu(self, node: str) -> str:
        at = self._graph.nodes[node]
        return f"sip{at.sip}.cube{at.cube}.m_cpu"

    def between(self, source: str, target: str) -> Path:
        """The way inside the device from one end point to another."""
        return self._router.find_node_path(source, target)
