"""Which way transfers go, what it costs, and which memory an address belongs to."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.address_map import encode_pa
from kernbench.diagnostics import KernBenchError
from kernbench.sim.faults import DeviceFault
from kernbench.sim.mesh_table import MeshTable
from kernbench.sim.routing import AddressResolver, PathRouter
from kernbench.sim.topology import load_topology, load_topology_text
from kernbench.sim.topology_graph import TopologyGraph

FORWARDERS = {"router", "ucie", "ucie_conn", "io_ucie", "io_noc", "fabric", "pcie_ep"}


@cache
def router_of(name: str) -> PathRouter:
    return PathRouter(load_topology(name))


def with_overrides(text: str, base: str = "ahbm_2x2") -> PathRouter:
    return PathRouter(load_topology_text(f"extends: {base}\nname: mine\noverrides:\n{text}"))


def two_chiplets() -> PathRouter:
    """One chiplet above the mesh as shipped, one below it."""
    chiplet = (
        "  - {pcie_ep: {overhead_ns: 50, bw_gbs: 63}, io_cpu: {overhead_ns: 10}, "
        "io_noc: {impl: forwarding_v1, overhead_ns: 0}, "
        "io_ucie: {overhead_ns: 8, connections: 2, per_connection_bw_gbs: 256}, cube_ports: [%s]}\n"
    )
    north = ", ".join(f"{{cube: {{xy: [{x}, 0]}}, cube_side: N, phy: P{x}, distance_mm: 2}}" for x in range(4))
    south = ", ".join(f"{{cube: {{xy: [{x}, 3]}}, cube_side: S, phy: P{x}, distance_mm: 2}}" for x in range(4))
    text = f"extends: ahbm_4x4\nname: two\nio_chiplets:\n{chiplet % north}{chiplet % south}"
    return PathRouter(load_topology_text(text))


def cubes_of(path: tuple[str, ...]) -> list[str]:
    """The cubes that a path goes through, in order."""
    parts = [name.split(".")[1] for name in path if ".cube" in name]
    return list(dict.fromkeys(parts))


def test_a_local_transfer_passes_one_router() -> None:
    path = router_of("ahbm_4x4").find_node_path("sip0.cube5.pe3.pe_dma", "sip0.cube5.hbm_ctrl.pe3")

    assert ("sip0.cube5.pe3.pe_dma", "sip0.cube5.noc.r0c3", "sip0.cube5.hbm_ctrl.pe3") == path


def test_memory_goes_around_the_cpus() -> None:
    """ADR-0016 D3: pcie_ep, io_noc, conn, io_ucie, the cube's UCIe, router mesh, hbm_ctrl."""
    router = router_of("ahbm_4x4")

    assert (
        "sip0.io0.pcie_ep", "sip0.io0.io_noc", "sip0.io0.io_ucie-P0.conn0", "sip0.io0.io_ucie-P0",
        "sip0.cube0.ucie-N", "sip0.cube0.ucie-N.conn0", "sip0.cube0.noc.r0c0", "sip0.cube0.hbm_ctrl.pe0",
    ) == router.find_memory_path("sip0.io0.pcie_ep", "sip0.cube0.hbm_ctrl.pe0")  # fmt: skip


def test_a_launch_goes_through_io_cpu_and_m_cpu_in_legs() -> None:
    """ADR-0016 D4."""
    router = router_of("ahbm_4x4")

    assert ("host", "sip0.io0.pcie_ep", "sip0.io0.io_noc", "sip0.io0.io_cpu") == router.find_node_path(
        "host", "sip0.io0.io_cpu"
    )
    to_cube = router.find_node_path("sip0.io0.io_cpu", "sip0.cube4.m_cpu")
    assert ("sip0.io0.io_cpu", "sip0.io0.io_noc") == to_cube[:2]
    assert ("sip0.cube4.noc.r1c0", "sip0.cube4.m_cpu") == to_cube[-2:]
    to_pe = router.find_node_path("sip0.cube4.m_cpu", "sip0.cube4.pe7.pe_cpu")
    assert "sip0.cube4.noc.r1c0" == to_pe[1]
    assert "sip0.cube4.noc.r2c3" == to_pe[-2]


def test_the_head_latency_is_the_sum_of_its_parts() -> None:
    """50 + 0 + 8 + 8 + 1 + 48.1 ns of nodes, 2 mm of wire to the cube and 3 mm to its first row at 0.01 ns/mm."""
    route = router_of("ahbm_4x4").route("sip0.io0.pcie_ep", "sip0.cube0.hbm_ctrl.pe0")

    assert 115_100 + 20 + 30 == route.head_ps
    assert 50_000 == route.first_overhead_ps
    assert 135_900_000_000 == route.bottleneck_bytes_per_s
    assert 115.15 == router_of("ahbm_4x4").compute_path_latency_ns(route.path)


@pytest.mark.parametrize("name", ["ahbm_1x1", "ahbm_2x2", "ahbm_4x4", "ahbm_2sip", "ahbm_8x8"])
def test_latency_from_the_decimals_of_the_graph(name: str) -> None:
    """The same rule in other words: each node's overhead and each wire become whole picoseconds on their own."""
    router = router_of(name)
    graph = router.graph
    last = graph.pe_tags()[-1]
    path = router.find_node_path("sip0.cube0.pe0.pe_dma", "sip{}.cube{}.hbm_ctrl.pe{}".format(*last))
    nodes = sum(ceil(graph.nodes[n].attrs["overhead_ns"] * 1000) for n in path)
    wires = sum(ceil(graph.edge(*pair).distance_mm * graph.spec.ns_per_mm * 1000) for pair in pairwise(path))

    assert nodes + wires == router.compute_path_latency_ps(path)


def test_hops_are_rows_for_the_host() -> None:
    """ADR-0049 D1: cubes 0, 4, 8, 12 are 1, 2, 3, 4 cubes away."""
    router = router_of("ahbm_4x4")
    paths = [router.find_memory_path("sip0.io0.pcie_ep", f"sip0.cube{cube}.hbm_ctrl.pe0") for cube in (0, 4, 8, 12)]
    back = [router.find_memory_path(f"sip0.cube{cube}.hbm_ctrl.pe0", "sip0.io0.pcie_ep") for cube in (0, 4, 8, 12)]

    assert [1, 2, 3, 4] == [len(cubes_of(path)) for path in paths]
    assert [path[::-1] for path in paths] == back


def test_between_cubes_x_comes_before_y() -> None:
    path = router_of("ahbm_4x4").find_node_path("sip0.cube0.pe0.pe_dma", "sip0.cube15.hbm_ctrl.pe0")
    back = router_of("ahbm_4x4").find_node_path("sip0.cube15.pe0.pe_dma", "sip0.cube0.hbm_ctrl.pe0")

    assert ["cube0", "cube1", "cube2", "cube3", "cube7", "cube11", "cube15"] == cubes_of(path)
    assert ["cube15", "cube14", "cube13", "cube12", "cube8", "cube4", "cube0"] == cubes_of(back)


def test_the_connection_is_the_destination_modulo_their_number_on_every_side() -> None:
    router = router_of("ahbm_4x4")
    for pe in range(8):
        path = router.find_node_path("sip0.cube0.pe1.pe_dma", f"sip0.cube10.hbm_ctrl.pe{pe}")
        connections = {name.rsplit(".", 1)[1] for name in path if ".conn" in name}
        assert {f"conn{pe % 4}"} == connections
    far = router_of("ahbm_2sip").find_node_path("sip0.cube5.pe1.pe_dma", "sip1.cube5.hbm_ctrl.pe3")
    assert {"conn3"} == {name.rsplit(".", 1)[1] for name in far if ".conn" in name}


def test_ties_inside_a_cube_go_x_first_whatever_the_order_of_the_links() -> None:
    """FC-NO07: 3 x 3 routers, corner to corner, links in normal and in reversed order."""
    links = {}
    for y in range(3):
        for x in range(3):
            for u, v in ((x + 1, y), (x, y + 1)):
                if u < 3 and v < 3:
                    links[y * 3 + x, v * 3 + u] = links[v * 3 + u, y * 3 + x] = 25
    reversed_links = dict(reversed(list(links.items())))

    assert (0, 1, 2, 5, 8) == MeshTable((1000,) * 9, links, 3).path(0, 8)
    assert (0, 1, 2, 5, 8) == MeshTable((1000,) * 9, reversed_links, 3).path(0, 8)
    assert (8, 7, 6, 3, 0) == MeshTable((1000,) * 9, links, 3).path(8, 0)


def test_latency_decides_not_hops() -> None:
    """FC-NO06: the direct link is made longer than the way round."""
    router = with_overrides('  "sip0.cube0.noc.r0c0 -> sip0.cube0.noc.r0c1": {distance_mm: 1000}\n')
    there = router.find_node_path("sip0.cube0.pe0.pe_dma", "sip0.cube0.hbm_ctrl.pe1")
    back = router.find_node_path("sip0.cube0.pe1.pe_dma", "sip0.cube0.hbm_ctrl.pe0")

    assert ["r0c0", "r1c0", "r1c1", "r0c1"] == [name.split(".")[-1] for name in there[1:-1]]
    assert ["r0c1", "r0c0"] == [name.split(".")[-1] for name in back[1:-1]]


def test_a_slow_router_is_avoided_in_its_cube_alone() -> None:
    router = with_overrides("  sip0.cube0.noc.r0c1: {overhead_ns: 100}\n")

    def routers(cube: int) -> list[str]:
        path = router.find_node_path(f"sip0.cube{cube}.pe0.pe_dma", f"sip0.cube{cube}.hbm_ctrl.pe2")
        return [name.split(".")[-1] for name in path[1:-1]]

    assert ["r0c0", "r1c0", "r1c1", "r1c2", "r0c2"] == routers(0)
    assert ["r0c0", "r0c1", "r0c2"] == routers(1)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_inside_a_cube_no_path_is_shorter(data: st.DataObject) -> None:
    """Against Bellman-Ford on a random mesh with random latencies."""
    w, h = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    overheads = tuple(data.draw(st.lists(st.integers(0, 3), min_size=w * h, max_size=w * h)))
    links = {}
    for here in range(w * h):
        for there in (here + 1, here - 1, here + w, here - w):
            close = abs(there % w - here % w) + abs(there // w - here // w) == 1
            if 0 <= there < w * h and close:
                links[here, there] = data.draw(st.integers(0, 4))
    src, dst = data.draw(st.integers(0, w * h - 1)), data.draw(st.integers(0, w * h - 1))
    best = {src: (0, 0)}
    for _ in range(w * h):
        for (a, b), wire in links.items():
            if a in best:
                found = (best[a][0] + wire + overheads[b], best[a][1] + 1)
                best[b] = min(best.get(b, found), found)
    path = MeshTable(overheads, links, w).path(src, dst)

    assert path is not None
    cost = sum(links[pair] + overheads[pair[1]] for pair in pairwise(path))
    assert best[dst] == (cost, len(path) - 1)


ENDS = ("pe{p}.pe_dma", "pe{p}.pe_cpu", "pe{p}.tcm", "hbm_ctrl.pe{p}", "m_cpu")


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_paths_are_walks_that_pass_forwarders_only_and_nothing_twice(data: st.DataObject) -> None:
    router = router_of(data.draw(st.sampled_from(["ahbm_1x1", "ahbm_4x4", "ahbm_2sip"])))
    graph = router.graph

    def end() -> str:
        sip, cube, pe = data.draw(st.sampled_from(graph.pe_tags()))
        inside = f"sip{sip}.cube{cube}.{data.draw(st.sampled_from(ENDS)).format(p=pe)}"
        return data.draw(st.sampled_from([inside, inside, f"sip{sip}.io0.pcie_ep", f"sip{sip}.io0.io_cpu", "host"]))

    src, dst = end(), end()
    path = router.find_node_path(src, dst)

    assert (src, dst) == (path[0], path[-1])
    assert all(pair in graph.edges for pair in pairwise(path))
    assert len(path) == len(set(path))
    assert {graph.nodes[name].kind for name in path[1:-1]} <= FORWARDERS
    if _inside_one_sip(graph, src, dst):
        assert not {"fabric", "pcie_ep"} & {graph.nodes[name].kind for name in path[1:-1]}


def _inside_one_sip(graph: TopologyGraph, src: str, dst: str) -> bool:
    return graph.nodes[src].sip == graph.nodes[dst].sip >= 0


def test_another_package_is_reached_over_the_fabric() -> None:
    path = router_of("ahbm_2sip").find_node_path("sip0.cube0.pe0.pe_dma", "sip1.cube0.hbm_ctrl.pe0")
    middle = path.index("fabric")

    assert ("sip0.io0.pcie_ep", "fabric", "sip1.io0.pcie_ep") == path[middle - 1 : middle + 2]


def test_memory_traffic_takes_the_nearest_chiplet() -> None:
    router = two_chiplets()
    nearest = [router.nearest_pcie_ep(0, f"sip0.cube{cube}.hbm_ctrl.pe0") for cube in (0, 12)]

    assert ["sip0.io0.pcie_ep", "sip0.io1.pcie_ep"] == nearest
    assert ("host", "sip0.io1.pcie_ep") == router.find_node_path("host", "sip0.cube12.hbm_ctrl.pe0")[:2]
    assert ("host", "sip0.io0.pcie_ep") == router.find_node_path("host", "sip0.cube0.hbm_ctrl.pe0")[:2]


def test_chiplets_of_one_package_meet_over_the_cubes() -> None:
    router = two_chiplets()
    path = router.find_node_path("sip0.io0.io_cpu", "sip0.io1.io_cpu")

    assert ["cube0", "cube4", "cube8", "cube12"] == cubes_of(path)
    assert "fabric" not in path


def test_the_phy_of_least_latency_is_taken() -> None:
    router = with_overrides("  sip0.io0.io_ucie-P1: {overhead_ns: 500}\n")
    path = router.find_memory_path("sip0.io0.pcie_ep", "sip0.cube1.hbm_ctrl.pe0")

    assert ["cube0", "cube1"] == cubes_of(path)


def test_every_phy_is_considered_even_where_the_nearest_is_not_best() -> None:
    """Against a search over all PHYs: no cube is entered by a way that is longer than another."""
    router = with_overrides(
        "  sip0.io0.io_ucie-P0: {overhead_ns: 17}\n  sip0.io0.io_ucie-P2: {overhead_ns: 3}\n", "ahbm_4x4"
    )
    for cube in range(16):
        path = router.find_memory_path("sip0.io0.pcie_ep", f"sip0.cube{cube}.hbm_ctrl.pe1")
        others = [router.compute_path_latency_ps(_by_phy(router, x, f"sip0.cube{cube}.hbm_ctrl.pe1")) for x in range(4)]
        assert min(others) == router.compute_path_latency_ps(path)


def _by_phy(router: PathRouter, x: int, dst: str) -> tuple[str, ...]:
    phy = f"sip0.io0.io_ucie-P{x}"
    entry = f"sip0.cube{x}.noc.r0c1"
    head = (
        "sip0.io0.pcie_ep",
        "sip0.io0.io_noc",
        f"{phy}.conn1",
        phy,
        f"sip0.cube{x}.ucie-N",
        f"sip0.cube{x}.ucie-N.conn1",
    )
    return head + router.find_node_path(entry, dst)


def test_pools_are_those_of_the_links_each_once() -> None:
    router = router_of("ahbm_4x4")
    route = router.route("sip0.cube0.pe0.pe_dma", "sip0.cube0.hbm_ctrl.pe0")
    names = [router.graph.pools[pool].name for pool in route.pools]

    assert ["sip0.cube0.pe0.pe_dma -> sip0.cube0.noc.r0c0", "sip0.cube0.hbm_ctrl.pe0"] == names
    assert router.route("sip0.cube0.pe0.pe_dma", "sip0.cube0.hbm_ctrl.pe0") is route


def test_parts_that_are_on_no_router_have_no_path() -> None:
    with pytest.raises(KernBenchError, match=r"no path from `sip0\.cube0\.pe0\.pe_gemm` to `sip0\.cube0\.m_cpu`"):
        router_of("ahbm_1x1").find_node_path("sip0.cube0.pe0.pe_gemm", "sip0.cube0.m_cpu")


def test_latencies_below_a_nanosecond_add_up() -> None:
    """FC-TI15: 0.3 ns a hop is 0.9 ns for three."""
    text = "extends: ahbm_1x1\nname: x\ncube: {router_mesh: {overhead_ns: 0.3, distance_mm: 0}}\n"
    router = PathRouter(load_topology_text(text))

    assert 900 == router.compute_path_latency_ps(tuple(f"sip0.cube0.noc.r0c{x}" for x in range(3)))
    assert Decimal("0.3") == router.graph.nodes["sip0.cube0.noc.r0c0"].attrs["overhead_ns"]


# Addresses


def resolver() -> AddressResolver:
    return AddressResolver(load_topology("ahbm_2x2"))


def test_an_address_names_its_memory() -> None:
    place = resolver().resolve(0, encode_pa(3, 7, "hbm", 64), 64, tags=(3, 7), space="hbm")
    tcm = resolver().resolve(0, encode_pa(0, 1, "tcm", 0), 1_572_864)

    assert ("sip0.cube3.hbm_ctrl.pe7", 64) == (place.node, place.offset)
    assert "sip0.cube0.pe1.tcm" == tcm.node


@pytest.mark.parametrize(
    ("pa", "nbytes", "tags", "code"),
    [
        (encode_pa(4, 0, "hbm", 0), 1, None, "E_PA_UNMAPPED"),
        (encode_pa(0, 8, "hbm", 0), 1, None, "E_PA_UNMAPPED"),
        (encode_pa(0, 0, "hbm", 3 << 30), 1, None, "E_PA_UNMAPPED"),
        (encode_pa(0, 0, "tcm", 1_572_865), 0, None, "E_PA_UNMAPPED"),
        (-1, 1, None, "E_PA_UNMAPPED"),
        (1 << 64, 1, None, "E_PA_UNMAPPED"),
        (encode_pa(0, 0, "hbm", (3 << 30) - 4), 8, None, "E_PA_STRADDLES"),
        (encode_pa(0, 0, "hbm", 0), 1, (0, 1), "E_PA_TAG_MISMATCH"),
        (encode_pa(1, 0, "hbm", 0), 1, (0, 0), "E_PA_TAG_MISMATCH"),
    ],
)
def test_addresses_that_do_not_fit(pa: int, nbytes: int, tags: tuple[int, int] | None, code: str) -> None:
    with pytest.raises(DeviceFault) as caught:
        resolver().resolve(0, pa, nbytes, tags)

    assert code == caught.value.code


def test_a_request_for_the_other_kind_of_memory_is_refused() -> None:
    with pytest.raises(DeviceFault) as caught:
        resolver().resolve(0, encode_pa(0, 0, "hbm", 0), 4, space="tcm")

    assert "E_PA_TAG_MISMATCH" == caught.value.code


def test_an_empty_range_at_the_very_end_is_fine() -> None:
    assert 3 << 30 == resolver().resolve(0, encode_pa(0, 0, "hbm", 3 << 30), 0).offset
