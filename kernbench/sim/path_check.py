"""Whether all nodes of a device that need a path have one.

Does not know how paths are found. Every pair is joined as long as no override takes a link away.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernbench.diagnostics import Diagnostic, KernBenchError
from kernbench.sim.routing import PathRouter
from kernbench.sim.topology_graph import GraphNode, TopologyGraph

MAX_REPORTED = 20


def check_paths(graph: TopologyGraph) -> list[Diagnostic]:
    """A diagnostic for each pair of nodes that needs a path and has none, up to `MAX_REPORTED`."""
    router = PathRouter(graph)
    found: list[Diagnostic] = []
    for src, dst in _needed_pairs(graph):
        try:
            router.find_node_path(src, dst)
        except KernBenchError as error:
            found.extend(error.diagnostics)
        if len(found) == MAX_REPORTED:
            break
    return found


def _needed_pairs(graph: TopologyGraph) -> Iterator[tuple[str, str]]:
    """Within a cube all pairs, between cubes one source for each connection, and every cube with every chiplet."""
    spec = graph.spec
    slots = range(min(spec.cube.pes, spec.cube.ucie.connections))
    for sip in range(spec.sip.count):
        cubes = [f"sip{sip}.cube{cube}" for cube in range(graph.cubes_per_sip)]
        chiplets = [f"sip{sip}.io{io}" for io in range(len(spec.io_chiplets))]
        for cube in cubes:
            ends = [node for node in graph.nodes if node.startswith(f"{cube}.") and _is_end(graph.nodes[node])]
            yield from ((a, b) for a in ends for b in ends if a != b)
        for cube in cubes:
            for other in cubes:
                yield from ((f"{cube}.pe0.pe_dma", f"{other}.hbm_ctrl.pe{pe}") for pe in slots if other != cube)
        for chiplet in chiplets:
            for cube in cubes:
                yield from ((f"{chiplet}.pcie_ep", f"{cube}.hbm_ctrl.pe{pe}") for pe in slots)
                yield f"{cube}.hbm_ctrl.pe0", f"{chiplet}.pcie_ep"
                yield f"{chiplet}.io_cpu", f"{cube}.m_cpu"
                yield f"{cube}.m_cpu", f"{chiplet}.io_cpu"
            yield from (("host", f"{chiplet}.io_cpu"), (f"{chiplet}.io_cpu", "host"))
        for other_sip in range(spec.sip.count):
            if other_sip != sip:
                yield f"sip{sip}.cube0.pe0.pe_dma", f"sip{other_sip}.cube0.hbm_ctrl.pe0"


def _is_end(node: GraphNode) -> bool:
    return node.kind in ("m_cpu", "hbm_ctrl", "pe_cpu", "pe_dma", "tcm", "pe_ipcq")
