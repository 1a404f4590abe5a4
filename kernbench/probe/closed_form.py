"""The closed form of a transfer, from the figures of the topology alone.

    latency = sum of node overheads + sum of distance x ns_per_mm + bytes / least bandwidth

Overheads of both end points count, a node where two legs join counts once, the drain counts once. Each overhead and
each wire is rounded up to a picosecond on its own, the drain once: the rule that the simulator states, written here
anew from the decimals of the file. Knows paths and figures. Takes nothing from the simulator's timing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from kernbench.probe.results import RouteHop
from kernbench.sim.topology_graph import Edge, TopologyGraph

EdgeMap = Mapping[tuple[str, str], Edge]


@dataclass(frozen=True, slots=True)
class Leg:
    """A path taken in one go; with `joined`, its first node has been paid by the leg before."""

    name: str
    path: tuple[str, ...]
    carries_data: bool
    joined: bool = False


@dataclass(frozen=True, slots=True)
class Bottleneck:
    edge: Edge
    bytes_per_s: int


class ClosedForm:
    def __init__(self, graph: TopologyGraph, edges: EdgeMap) -> None:
        self._graph, self._edges = graph, edges

    def overhead_ps(self, legs: Sequence[Leg]) -> int:
        paid = [node for leg in legs for node in (leg.path[1:] if leg.joined else leg.path)]
        return sum(self._node_ps(node) for node in paid)

    def wire_ps(self, legs: Sequence[Leg]) -> int:
        return sum(self._wire_ps(edge) for leg in legs for edge in self.edges_of(leg))

    def bottleneck(self, legs: Sequence[Leg]) -> Bottleneck | None:
        """The slowest link that the data passes, the first of equals; None where nothing limits it."""
        limited = [
            Bottleneck(edge, rate_of(edge))
            for leg in legs
            if leg.carries_data
            for edge in self.edges_of(leg)
            if edge.bw_gbs is not None
        ]
        return min(limited, key=lambda each: each.bytes_per_s, default=None)

    def drain_ps(self, legs: Sequence[Leg], nbytes: int) -> int:
        slowest = self.bottleneck(legs)
        return 0 if slowest is None else -(-nbytes * 10**12 // slowest.bytes_per_s)

    def total_ps(self, legs: Sequence[Leg], nbytes: int) -> int:
        return self.overhead_ps(legs) + self.wire_ps(legs) + self.drain_ps(legs, nbytes)

    def edges_of(self, leg: Leg) -> list[Edge]:
        return [self._edges[pair] for pair in pairwise(leg.path)]

    def hop_timestamps(self, legs: Sequence[Leg], nbytes: int) -> tuple[RouteHop, ...]:
        """ADR-0049 D6: every node with the cumulative wire and overhead up to it; the drain at the terminal hop."""
        slowest = self.bottleneck(legs)
        hops: list[RouteHop] = []
        at = 0
        for number, leg in enumerate(legs):
            previous: str | None = None
            for place, node in enumerate(leg.path):
                edge = None if previous is None else self._edges[previous, node]
                reached = at + (0 if edge is None else self._wire_ps(edge))
                at = reached + (0 if place == 0 and leg.joined else self._node_ps(node))
                last = number == len(legs) - 1 and place == len(leg.path) - 1
                drain = self.drain_ps(legs, nbytes) if last else 0
                marked = leg.carries_data and edge is not None and slowest is not None and edge is slowest.edge
                limit = None if edge is None or edge.bw_gbs is None else rate_of(edge)
                hops.append(RouteHop(leg.name, node, reached, at, limit, marked, drain))
                previous = node
        return tuple(hops)

    def _node_ps(self, node: str) -> int:
        overhead: Decimal = self._graph.nodes[node].attrs["overhead_ns"]
        return _whole_ps(overhead)

    def _wire_ps(self, edge: Edge) -> int:
        return _whole_ps(edge.distance_mm * self._graph.spec.ns_per_mm)


def rate_of(edge: Edge) -> int:
    """Whole bytes a second; the topology's loader refuses bandwidths that are none."""
    assert edge.bw_gbs is not None, f"{edge.id} has no bandwidth"
    return int(edge.bw_gbs * 10**9)


def _whole_ps(ns: Decimal) -> int:
    top, bottom = ns.as_integer_ratio()
    return -(-top * 1000 // bottom)
