"""The graph of a device: nodes, links, bandwidth pools, and the specification that they were made from.

A node's place in the graph (`index`) is the order in which things of one instant are decided. Quantities are kept
twice: as the exact decimals that people wrote, and as the integers that the simulator counts in.

Does not know YAML, routes or time.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kernbench.sim.topology_schema import TopologySpec, ns_to_ps

if TYPE_CHECKING:
    import networkx


@dataclass(eq=False)
class GraphNode:
    """A component. `spec` is the section of the topology that describes it, with this node's overrides in it."""

    id: str
    kind: str  # "host", "router", "ucie", "ucie_conn", "hbm_ctrl", "pe_dma", ...
    index: int
    spec: Any
    sip: int = -1  # -1: of none
    cube: int = -1
    pe: int = -1
    io: int = -1  # IO chiplet
    xy: tuple[int, int] | None = None  # column and row of a router in its cube

    @cached_property
    def overhead_ps(self) -> int:
        return ns_to_ps(self.spec.overhead_ns)

    @cached_property
    def attrs(self) -> dict[str, Any]:
        """The figures of this node by their names in the topology; `overhead_ns` is always there."""
        return {f.name: getattr(self.spec, f.name) for f in dataclasses.fields(self.spec)}


@dataclass(eq=False)
class Edge:
    """A link in one direction. Without a bandwidth it never is what limits a transfer."""

    src: str
    dst: str
    index: int
    bw_gbs: Decimal | None
    distance_mm: Decimal
    wire_ps: int
    bytes_per_s: int | None
    pool: int  # index of the bandwidth pool that it draws on, -1 for none

    @property
    def id(self) -> str:
        return f"{self.src} -> {self.dst}"


@dataclass(frozen=True, slots=True)
class Pool:
    """Bandwidth that transfers share: a link's in one direction, or an HBM slice's in both."""

    index: int
    name: str
    bytes_per_s: int


@dataclass(eq=False)
class TopologyGraph:
    """A device: `graph` as networkx has it, and the same by name for those who need no networkx."""

    spec: TopologySpec
    nodes: dict[str, GraphNode]
    edges: dict[tuple[str, str], Edge]
    pools: tuple[Pool, ...]
    overrides: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)  # plain values, JSON as it stands

    @property
    def name(self) -> str:
        return self.spec.name

    @cached_property
    def by_index(self) -> tuple[GraphNode, ...]:
        return tuple(self.nodes.values())

    @cached_property
    def graph(self) -> networkx.DiGraph:
        """The nodes under `node`, the links under `edge`; networkx is imported only where this is asked for."""
        import networkx

        graph = networkx.DiGraph()
        graph.add_nodes_from((node.id, {"node": node}) for node in self.nodes.values())
        graph.add_edges_from((edge.src, edge.dst, {"edge": edge}) for edge in self.edges.values())
        return graph

    @cached_property
    def successors(self) -> dict[str, tuple[Edge, ...]]:
        found: dict[str, list[Edge]] = {name: [] for name in self.nodes}
        for edge in self.edges.values():
            found[edge.src].append(edge)
        return {name: tuple(edges) for name, edges in found.items()}

    def edge(self, src: str, dst: str) -> Edge:
        return self.edges[src, dst]

    @property
    def cubes_per_sip(self) -> int:
        return self.spec.sip.cube_mesh.w * self.spec.sip.cube_mesh.h

    def cube_id(self, x: int, y: int) -> int:
        return y * self.spec.sip.cube_mesh.w + x

    def cube_xy(self, cube: int) -> tuple[int, int]:
        return cube % self.spec.sip.cube_mesh.w, cube // self.spec.sip.cube_mesh.w

    def pe_tags(self) -> tuple[tuple[int, int, int], ...]:
        """(sip, cube, pe) of every PE, in topology order."""
        spec = self.spec
        return tuple(
            (sip, cube, pe)
            for sip in range(spec.sip.count)
            for cube in range(self.cubes_per_sip)
            for pe in range(spec.cube.pes)
        )

    def resolved_config(self) -> dict[str, Any]:
        """What this device was made from, as plain values that JSON can hold and `load_topology` reads again."""
        copy: dict[str, Any] = json.loads(json.dumps(self.config))
        return copy

    @cached_property
    def config_hash(self) -> str:
        canonical = json.dumps(self.config, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()
