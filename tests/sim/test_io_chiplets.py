"""IO chiplets (ADR-0016): several a package with several PHYs and connections, and hop traces of every request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kernbench.address_map import encode_pa
from kernbench.messages import MemoryRead, MemoryWrite, Pattern, Tag
from kernbench.sim.device_messages import PeDmaMsg
from kernbench.sim.engine import GraphEngine, Limits
from kernbench.sim.topology import load_topology_text
from kernbench.sim.topology_graph import TopologyGraph
from tests.sim.launch_helpers import Host, a_program, kernel_ref, scripted, tensor_arg

CHIPLET = """
  - pcie_ep: {{overhead_ns: 50, bw_gbs: 63.0}}
    io_cpu: {{overhead_ns: {io_cpu_ns}}}
    io_noc: {{impl: forwarding_v1, overhead_ns: 0}}
    io_ucie: {{overhead_ns: 8, connections: 3, per_connection_bw_gbs: 256}}
    memory_route: {route}
    cube_ports:
      - {{cube: {{xy: [{left}, {row}]}}, cube_side: {side}, phy: P0, distance_mm: 2.0}}
      - {{cube: {{xy: [{right}, {row}]}}, cube_side: {side}, phy: P1, distance_mm: 3.5}}"""
NORTH = {"io_cpu_ns": 10, "left": 0, "right": 1, "row": 0, "side": "N"}
SOUTH = {"io_cpu_ns": 30, "left": 2, "right": 3, "row": 1, "side": "S"}


def chiplets(*routes: str, sips: int = 1) -> TopologyGraph:
    """4 x 2 cubes of 4 PEs, one chiplet above the left ones and one below the right ones."""
    io = "".join(CHIPLET.format(**place, route=route) for place, route in zip((NORTH, SOUTH), routes, strict=True))
    head = f"extends: ahbm_4x4\nname: chiplets\nsip: {{count: {sips}, cube_mesh: {{w: 4, h: 2}}}}\ncube: {{pes: 4}}\n"
    return load_topology_text(f"{head}io_chiplets:{io}\n")


GRAPH = chiplets("direct", "direct")
MIXED = chiplets("direct", "via_cpus")
TWO_SIPS = chiplets("direct", "direct", sips=2)


def path_of(handle: Any) -> list[str]:
    return [hop.node.removeprefix("sip0.") for hop in handle.route.hops]


def host(graph: TopologyGraph = GRAPH, **options: Any) -> Host:
    return Host(GraphEngine(graph, **options))


# --------------------------------------------------------------------------- D1, D2, D5: what is built


def test_a_chiplet_is_its_end_point_its_cpu_and_its_phys_around_io_noc() -> None:
    around = {edge.dst.removeprefix("sip0.io1.") for edge in GRAPH.successors["sip0.io1.io_noc"]}
    phys = {f"io_ucie-P{phy}.conn{conn}" for phy in range(2) for conn in range(3)}

    assert {"pcie_ep", "io_cpu", *phys} == around
    noc, ucie = GRAPH.nodes["sip0.io1.io_noc"], GRAPH.nodes["sip0.io1.io_ucie-P1"]
    assert ("forwarding_v1", 0, 8) == (noc.spec.impl, noc.overhead_ps, ucie.attrs["overhead_ns"])
    assert {f"sip0.io1.io_ucie-P1.conn{c}" for c in range(3)} | {"sip0.cube7.ucie-S"} == {
        edge.dst for edge in GRAPH.successors["sip0.io1.io_ucie-P1"]
    }


@pytest.mark.parametrize(
    ("phy", "cube", "mm"),
    [("io0.io_ucie-P0", "cube0.ucie-N", "2.0"), ("io1.io_ucie-P1", "cube7.ucie-S", "3.5")],
)
def test_a_port_is_a_link_of_its_distance_and_of_one_connection_s_bandwidth(phy: str, cube: str, mm: str) -> None:
    for a, b in ((phy, cube), (cube, phy)):
        edge = GRAPH.edge(f"sip0.{a}", f"sip0.{b}")
        assert (mm, 256) == (str(edge.distance_mm), edge.bw_gbs)


# --------------------------------------------------------------------------- D3, D4: the ways of requests


def test_memory_goes_from_pcie_ep_to_its_slice_around_the_cpus() -> None:
    sender = host()
    handle = sender.fill((0, 1, 2), 0, 64)
    sender.engine.run()

    nodes = path_of(handle)
    entry = ["host", "io0.pcie_ep", "io0.io_noc", "io0.io_ucie-P1.conn2", "io0.io_ucie-P1"]
    assert [*entry, "cube1.ucie-N", "cube1.ucie-N.conn2"] == nodes[:7]
    assert all(node.startswith("cube1.noc.r") for node in nodes[7:-1])
    assert "cube1.hbm_ctrl.pe2" == nodes[-1]


def test_a_launch_enters_through_pcie_ep_and_io_cpu() -> None:
    sender = host()
    ref, _ = sender.deploy(a_program())
    handle = sender.launch(ref, [(0, 7, 3)])
    sender.engine.run()

    assert handle.completion.ok
    there = ["host", "io0.pcie_ep", "io0.io_noc", "io0.io_cpu"]
    assert [*there, *reversed(there)] == path_of(handle)
    assert ("sip0.io0.pcie_ep", "sip0.io0.io_cpu") == sender.engine._entry_points(handle.message)
    legs = [r.component.removeprefix("sip0.") for r in sender.engine.op_log.where(op_kind="launch")]
    assert ["io0.io_cpu", "cube7.m_cpu", "cube7.pe3.pe_cpu"] == legs


def test_every_memory_takes_the_chiplet_from_which_it_is_least_far() -> None:
    sender = host()
    router, taken = sender.engine.device.router, set()
    for cube in range(8):
        for pe in range(4):
            handle = sender.fill((0, cube, pe), 0, 0)
            sender.engine.run()
            memory = f"sip0.cube{cube}.hbm_ctrl.pe{pe}"
            ways = [router.find_memory_path(f"sip0.io{io}.pcie_ep", memory) for io in range(2)]
            times = [router.compute_path_latency_ps(way) for way in ways]
            assert f"io{times.index(min(times))}.pcie_ep" == path_of(handle)[1]
            taken.add(next(node for node in path_of(handle) if ".conn" in node))
    everything = {f"io{io}.io_ucie-P{phy}.conn{conn}" for io in range(2) for phy in range(2) for conn in range(3)}
    assert everything == taken


def test_the_log_names_the_chiplet_that_took_a_request() -> None:
    sender = host()
    sender.fill((0, 0, 0), 0, 64)
    sender.fill((0, 7, 0), 0, 64)
    sender.engine.run()

    writes = sender.engine.op_log.where(op_kind="dma_write")
    assert ["sip0.io0.pcie_ep", "sip0.io1.pcie_ep"] == [record.component for record in writes]


def test_each_chiplet_routes_memory_as_it_says() -> None:
    sender = host(MIXED)
    direct, around = sender.fill((0, 0, 0), 0, 64), sender.fill((0, 7, 0), 0, 64)
    sender.engine.run()

    assert [] == [node for node in path_of(direct) if node.endswith("_cpu")]
    assert ["io1.io_cpu", "cube7.m_cpu"] == [node for node in path_of(around) if node.endswith("_cpu")]


def test_no_transfer_between_cubes_goes_through_a_chiplet() -> None:
    router = host().engine.device.router
    for a, b in ((0, 1), (0, 3), (2, 7), (4, 3)):
        path = router.find_node_path(f"sip0.cube{a}.pe0.pe_dma", f"sip0.cube{b}.hbm_ctrl.pe1")
        assert [] == [node for node in path if ".io" in node]


def test_all_pes_of_a_launch_start_together_whatever_chiplet_is_near() -> None:
    for graph in (GRAPH, TWO_SIPS):
        make_pe, seen = scripted(lambda tag: 1000)
        sender = host(graph, make_pe=make_pe)
        ref, _ = sender.deploy(a_program())
        handle = sender.launch(ref, list(graph.pe_tags()))
        sender.engine.run()
        (start,) = {start for _, _, start in seen.values()}

        assert handle.completion.ok
        assert start == max(arrival for _, arrival, _ in seen.values())


def test_a_launch_may_name_pes_of_another_package_only() -> None:
    make_pe, seen = scripted(lambda tag: 1000)
    sender = host(TWO_SIPS, make_pe=make_pe)
    ref, _ = sender.deploy(a_program(), (1, 2, 3))
    handle = sender.launch(ref, [(1, 0, 0), (1, 7, 3)])
    sender.engine.run()

    assert handle.completion.ok
    assert {(1, 0, 0), (1, 7, 3)} == set(seen)


# --------------------------------------------------------------------------- hop traces


def write(sender: Host, tag: Tag, nbytes: int, space: Any = "hbm", **fields: Any) -> Any:
    at = {"dst_sip": tag[0], "dst_cube": tag[1], "dst_pe": tag[2], "dst_pa": encode_pa(tag[1], tag[2], space, 64)}
    zero = Pattern(pattern_kind="zero")
    return sender.engine.submit(
        MemoryWrite(**sender.envelope(), **at, nbytes=nbytes, src_kind="pattern", pattern=zero, **fields)
    )


def read_tcm(sender: Host) -> Any:
    at = {"src_sip": 0, "src_cube": 7, "src_pe": 3, "src_pa": encode_pa(7, 3, "tcm", 64)}
    return sender.engine.submit(MemoryRead(**sender.envelope(), **at, nbytes=64))


def launch(sender: Host, targets: list[Tag], params: str = "", **fields: Any) -> Any:
    ref, _ = sender.deploy(a_program(params))
    return sender.launch(ref, targets, **fields)


REQUESTS: dict[str, Callable[[Host], Any]] = {
    "write": lambda h: write(h, (0, 1, 1), 777),
    "write of nothing": lambda h: write(h, (0, 7, 1), 0),
    "write to a scratchpad": lambda h: write(h, (0, 7, 1), 64, "tcm"),
    "write to another package": lambda h: write(h, (1, 7, 1), 4096),
    "read": lambda h: h.read((0, 7, 3), 0, 4096),
    "read of nothing": lambda h: h.read((0, 7, 3), 0, 0),
    "read to nowhere": lambda h: h.read((0, 7, 3), 0, 64, dst_kind="discard"),
    "read of a scratchpad": read_tcm,
    "refused read": lambda h: h.read((0, 7, 3), (3 << 30) - 1, 2),
    "refused write": lambda h: write(h, (0, 7, 1), 64, dst_mem_kind="TCM"),
    "launch": lambda h: launch(h, [(0, 0, 0), (0, 7, 3)]),
    "launch with tensors": lambda h: launch(h, [(0, 2, 1)], "x", args=(tensor_arg([((0, 2, 1), 256, 64, 0)]),)),
    "refused launch": lambda h: h.launch(kernel_ref("k", (0, 0, 0), 512, 10), [(0, 0, 0)]),
    "lone dma": lambda h: h.engine.submit(PeDmaMsg("p", "0", 0, 0, 0, 0, 7, 3, encode_pa(7, 3, "hbm", 0), 4096)),
}  # fmt: skip


ON: list[Any] = [pytest.param(case, TWO_SIPS, id=f"{case}, direct") for case in REQUESTS]
ON += [pytest.param(case, MIXED, id=f"{case}, mixed") for case in REQUESTS if "package" not in case]


@pytest.mark.parametrize(("case", "graph"), ON)
def test_the_hops_of_every_request_touch_and_add_up(case: str, graph: TopologyGraph) -> None:
    sender = host(graph)
    handle = REQUESTS[case](sender)
    sender.engine.run()
    hops = handle.route.hops

    assert handle.total_ps > 0
    assert (handle.started_ps, handle.completed_ps) == (hops[0].t_in_ps, hops[-1].t_out_ps)
    assert [after.t_in_ps for after in hops[1:]] == [before.t_out_ps for before in hops[:-1]]
    assert handle.total_ps == sum(hop.t_out_ps - hop.t_in_ps for hop in hops)
    assert handle.total_ps / 1000 == handle.trace["total_ns"]
    assert "refused" in case or handle.completion.ok


@pytest.mark.parametrize("until_ns", [1, 60, 130, 300])
def test_the_hops_of_what_a_limit_ends_add_up_too(until_ns: int) -> None:
    sender = host(limits=Limits(max_time_ns=until_ns))
    handles = [sender.fill((0, 7, 3), 0, 4096), sender.read((0, 7, 3), 0, 1 << 20)]
    sender.engine.run()

    for handle in handles:
        hops = handle.route.hops
        assert handle.completed_ps == hops[-1].t_out_ps
        assert handle.total_ps == sum(hop.t_out_ps - hop.t_in_ps for hop in hops) > 0
