"""What it costs to share bandwidth anew, against bare SimPy timeouts.

A recomputation is one instant in which flows start or end and the others get new rates. `common pool`: 128 flows over
one pool. `random remote`: each of 128 PEs of `ahbm_4x4` reads from slices drawn at random, one after the other.
"""

from __future__ import annotations

import random
import time

from measure import report, simpy_timeouts_per_second

from kernbench.sim.clock import Clock
from kernbench.sim.network import Network
from kernbench.sim.routing import PathRouter, Route
from kernbench.sim.topology import load_topology
from kernbench.sim.topology_graph import TopologyGraph

FLOWS = 128
READS = 12
CUBES, PES = range(16), range(8)


class Reader:
    """Reads along its routes, one at a time; no two readers start or end in one instant."""

    def __init__(self, network: Network, number: int, routes: list[Route]) -> None:
        self.network, self.number, self.routes = network, number, iter(routes)

    def read(self) -> None:
        route = next(self.routes, None)
        if route is not None:
            nbytes = 4096 + 64 * self.number + 1
            self.network.start_flow(route.pools, nbytes, (self.number,), self.done)

    def done(self) -> None:
        self.network.clock.call_after(1009 + self.number, self.read)


def play(graph: TopologyGraph, routes: list[list[Route]]) -> tuple[float, int]:
    """Seconds, and recomputations."""
    clock = Clock()
    network = Network(clock, graph)
    for number, own in enumerate(routes):
        clock.call_at(101 * number, Reader(network, number, own).read)
    start = time.process_time()
    clock.run()
    seconds = time.process_time() - start
    network.check_idle()
    return seconds, 2 * sum(len(own) for own in routes)


def common_pool(router: PathRouter) -> list[list[Route]]:
    """All PEs read one slice; their paths from it differ."""
    slice_ = "sip0.cube0.hbm_ctrl.pe0"
    return [[router.route(slice_, f"sip0.cube{c}.pe{p}.pe_dma")] * READS for c in CUBES for p in PES]


def random_remote(router: PathRouter) -> list[list[Route]]:
    draw = random.Random(1)
    slices = [f"sip0.cube{c}.hbm_ctrl.pe{p}" for c in CUBES for p in PES]
    return [
        [router.route(draw.choice(slices), f"sip0.cube{c}.pe{p}.pe_dma") for _ in range(READS)]
        for c in CUBES
        for p in PES
    ]


def main() -> None:
    graph = load_topology("ahbm_4x4")
    router = PathRouter(graph)
    patterns = (("common pool", common_pool, "<= 300"), ("random remote", random_remote, "<= 600"))
    for name, pattern, goal in patterns:
        routes = pattern(router)
        anchor = 1 / simpy_timeouts_per_second()
        seconds, times = min(play(graph, routes) for _ in range(2))
        report(f"recomputation, {FLOWS} flows, {name} / timeout", seconds / times, anchor, "s", goal)


if __name__ == "__main__":
    main()
