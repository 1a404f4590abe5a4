"""One recomputation of fair rates with 128 flows in one component, against a bare SimPy timeout."""

from __future__ import annotations

import time

from measure import report, simpy_timeouts_per_second

from kernbench.sim.clock import Clock
from kernbench.sim.network import Network
from kernbench.sim.routing import PathRouter
from kernbench.sim.topology import load_topology

FLOWS = 128


def seconds_a_change(target: str) -> float:
    """128 PEs read one slice, with ends spread out, so that each end is a change of its own."""
    graph = load_topology("ahbm_4x4")
    clock = Clock()
    network, router = Network(clock, graph), PathRouter(graph)
    sources = [node.id for node in graph.by_index if node.id.endswith(".pe_dma")]
    changes = 0

    def ended() -> None:
        nonlocal changes
        changes += 1

    for number, source in enumerate(sources[:FLOWS]):
        route = router.route(target, source)
        network.start_flow(route.pools, 65536 + 4096 * number, (number,), ended)
    start = time.perf_counter()
    clock.run()
    assert changes == FLOWS
    return (time.perf_counter() - start) / FLOWS


def main() -> None:
    anchor = 1 / simpy_timeouts_per_second()
    figure = min(seconds_a_change("sip0.cube5.hbm_ctrl.pe3") for _ in range(3))
    report("recomputation, 128 flows on one slice", figure * 1e6, anchor * 1e6, "us", "<= 600")


if __name__ == "__main__":
    main()
