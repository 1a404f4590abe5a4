"""Topologies: what is shipped, what extends it, what is overridden, and every fault told at its place."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from kernbench.data_files import data_dir
from kernbench.diagnostics import EXIT_INPUT, EXIT_USAGE, KernBenchError
from kernbench.sim.errors import ERRORS
from kernbench.sim.topology import (
    check_topology,
    load_topology,
    load_topology_text,
    shipped_topologies,
)

MCPU_LINE = 1 + (data_dir("topologies") / "ahbm_4x4.yaml").read_text().split("\n").index(
    "  m_cpu: {overhead_ns: 5, router: r1c0}   # our choice: half of io_cpu, on the free row"
)
BASE = "extends: ahbm_2x2\nname: mine\n"


def faults(text: str) -> list[tuple[str, int]]:
    """(code, line) of everything wrong with a topology that extends a shipped one."""
    found = check_topology("mine.yaml", BASE + text)
    assert {d.code for d in found} <= set(ERRORS)
    return [(d.code, d.primary.span.line if d.primary else 0) for d in found]


@pytest.mark.parametrize(
    ("name", "cubes", "pes"),
    [("ahbm_1x1", 1, 1), ("ahbm_2x2", 4, 32), ("ahbm_2sip", 32, 256), ("ahbm_4x4", 16, 128), ("ahbm_8x8", 64, 512)],
)
def test_shipped_topologies_load(name: str, cubes: int, pes: int) -> None:
    graph = load_topology(name)

    assert name == graph.name
    assert name in shipped_topologies()
    assert pes == len(graph.pe_tags())
    assert cubes == graph.spec.sip.count * graph.cubes_per_sip
    assert [] == check_topology(name)


def test_nodes_have_the_documented_ids_kinds_and_order() -> None:
    graph = load_topology("ahbm_2x2")
    expected = {
        "host": "host", "fabric": "fabric", "sip0.io0.pcie_ep": "pcie_ep", "sip0.io0.io_noc": "io_noc",
        "sip0.io0.io_cpu": "io_cpu", "sip0.io0.io_ucie-P1": "io_ucie", "sip0.io0.io_ucie-P1.conn3": "ucie_conn",
        "sip0.cube0.noc.r0c1": "router", "sip0.cube0.m_cpu": "m_cpu", "sip0.cube1.ucie-N": "ucie",
        "sip0.cube1.ucie-N.conn0": "ucie_conn", "sip0.cube3.hbm_ctrl.pe3": "hbm_ctrl",
        "sip0.cube3.pe3.pe_cpu": "pe_cpu", "sip0.cube3.pe3.pe_scheduler": "pe_scheduler",
        "sip0.cube3.pe3.pe_dma": "pe_dma", "sip0.cube3.pe3.pe_gemm": "pe_gemm",
        "sip0.cube3.pe3.pe_math": "pe_math", "sip0.cube3.pe3.tcm": "tcm",
    }  # fmt: skip
    places = [graph.nodes[name].index for name in expected]

    assert expected == {name: graph.nodes[name].kind for name in expected}
    assert sorted(places) == places
    assert list(range(len(graph.nodes))) == [node.index for node in graph.nodes.values()]
    assert all(node.attrs["overhead_ns"] >= 0 for node in graph.nodes.values())


def test_cube_2_comes_before_cube_10() -> None:
    graph = load_topology("ahbm_4x4")

    assert graph.nodes["sip0.cube2.m_cpu"].index < graph.nodes["sip0.cube10.m_cpu"].index


def test_default_figures() -> None:
    graph = load_topology("ahbm_4x4")
    hbm = graph.nodes["sip0.cube0.hbm_ctrl.pe0"]
    spec = graph.spec

    assert (Decimal("48.1"), 48_100, 3 << 30) == (hbm.attrs["overhead_ns"], hbm.overhead_ps, hbm.spec.capacity_bytes)
    assert (64, 2048, 128) == (spec.pe.pe_gemm.tile.m, spec.pe.pe_gemm.macs_per_cycle["bf16"], spec.pe.pe_math.lanes)
    assert (5_000, 1_572_864, 3) == (spec.pe.cycles_to_ps(5), spec.pe.tcm.capacity_bytes, spec.pe.tcm.tile_buffers)


def test_hbm_bandwidth_is_what_refresh_leaves_of_the_peak() -> None:
    """1024 bit at 9.2 Gb/s over 8 PEs, of which 300 ns in 3.9 us go to refresh: 92.3 %."""
    peak = Decimal(1024) * Decimal("9.2") / 8 / 8
    left = Decimal("0.923")

    assert Decimal("147.2") == peak
    assert abs(left - (1 - Decimal(300) / 3900)) < Decimal("0.0002")
    assert Decimal("135.9") == round(peak * left, 1) == load_topology("ahbm_4x4").spec.cube.hbm.bw_gbs


def test_links_have_integer_and_decimal_forms() -> None:
    graph = load_topology("ahbm_4x4")
    mesh = graph.edge("sip0.cube0.noc.r0c0", "sip0.cube0.noc.r0c1")
    port = graph.edge("sip0.cube0.ucie-E", "sip0.cube1.ucie-W")
    phy = graph.edge("sip0.io0.io_ucie-P2", "sip0.cube2.ucie-N")

    assert (256, 256 * 10**9, Decimal("2.5"), 25) == (mesh.bw_gbs, mesh.bytes_per_s, mesh.distance_mm, mesh.wire_ps)
    assert (1024, 10) == (port.bw_gbs, port.wire_ps)
    assert (256, Decimal("2.0"), 20) == (phy.bw_gbs, phy.distance_mm, phy.wire_ps)  # ADR-0016 D5: one connection
    assert graph.edge("sip0.io0.pcie_ep", "sip0.io0.io_noc").bw_gbs is None


def test_both_directions_of_a_slice_are_one_pool_and_of_a_link_two() -> None:
    graph = load_topology("ahbm_4x4")
    router, hbm, dma = "sip0.cube0.noc.r0c0", "sip0.cube0.hbm_ctrl.pe0", "sip0.cube0.pe0.pe_dma"

    assert graph.edge(router, hbm).pool == graph.edge(hbm, router).pool
    assert graph.edge(router, dma).pool != graph.edge(dma, router).pool
    assert "sip0.cube0.hbm_ctrl.pe0" == graph.pools[graph.edge(hbm, router).pool].name


def test_pes_stand_on_the_first_and_the_last_row() -> None:
    graph = load_topology("ahbm_4x4")
    rows = [graph.edge(f"sip0.cube0.pe{pe}.pe_dma", f"sip0.cube0.noc.r{pe // 4 * 2}c{pe % 4}") for pe in range(8)]

    assert 8 == len(rows)


def test_networkx_graph_is_the_same_graph() -> None:
    graph = load_topology("ahbm_1x1")

    assert set(graph.nodes) == set(graph.graph.nodes)
    assert set(graph.edges) == set(graph.graph.edges)
    assert graph.graph.nodes["sip0.io0.io_cpu"]["node"].attrs["overhead_ns"] == 10


def test_extending_by_path_and_by_name(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("extends: ahbm_2x2\nname: one\npe: {clock_ghz: 2.0}\n")
    (tmp_path / "two.yaml").write_text("extends: one.yaml\nname: two\nfabric: {overhead_ns: 7}\n")
    graph = load_topology(tmp_path / "two.yaml")

    assert ("two", Decimal("2.0"), Decimal(7)) == (graph.name, graph.spec.pe.clock_ghz, graph.spec.fabric.overhead_ns)
    assert 2_500 == graph.spec.pe.cycles_to_ps(5)


def test_extends_that_comes_back_to_itself(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("extends: two.yaml\n")
    (tmp_path / "two.yaml").write_text("extends: one.yaml\n")

    assert ["E_TOPO_EXTENDS"] == [d.code for d in check_topology(tmp_path / "two.yaml")]
    assert [("E_TOPO_EXTENDS", 1)] == [
        (d.code, d.primary.span.line) for d in check_topology("x", "extends: ahbm_5x5\n") if d.primary
    ]


def test_overrides_reach_any_node_and_link() -> None:
    graph = load_topology_text(
        BASE + "overrides:\n"
        "  sip0.cube3.hbm_ctrl.pe0: {overhead_ns: 3000, bw_gbs: 50}\n"
        "  sip0.cube0.pe1.pe_gemm: {tile: {m: 32}}\n"
        '  "sip0.cube0.ucie-E -> sip0.cube1.ucie-W": {bw_gbs: 12.5, distance_mm: 3}\n'
    )
    slow, gemm = graph.nodes["sip0.cube3.hbm_ctrl.pe0"], graph.nodes["sip0.cube0.pe1.pe_gemm"]
    link = graph.edge("sip0.cube0.ucie-E", "sip0.cube1.ucie-W")
    back = graph.edge("sip0.cube1.ucie-W", "sip0.cube0.ucie-E")

    assert (3_000_000, 48_100) == (slow.overhead_ps, graph.nodes["sip0.cube3.hbm_ctrl.pe1"].overhead_ps)
    assert 50 * 10**9 == graph.edge("sip0.cube3.noc.r0c0", slow.id).bytes_per_s
    assert (32, 64, 64) == (gemm.spec.tile.m, gemm.spec.tile.k, graph.nodes["sip0.cube0.pe0.pe_gemm"].spec.tile.m)
    assert (12_500_000_000, 30) == (link.bytes_per_s, link.wire_ps)
    assert (1024 * 10**9, 10) == (back.bytes_per_s, back.wire_ps)


def test_one_direction_of_a_slice_cannot_differ_from_the_other() -> None:
    """FC-NO09: both values are named."""
    text = (
        "overrides:\n"
        '  "sip0.cube0.noc.r0c0 -> sip0.cube0.hbm_ctrl.pe0": {bw_gbs: 50}\n'
        '  "sip0.cube0.hbm_ctrl.pe0 -> sip0.cube0.noc.r0c0": {bw_gbs: 60}\n'
    )
    (only,) = check_topology("mine.yaml", BASE + text)

    assert "E_TOPO_LINK_ENDS" == only.code
    assert "50 and 60 GB/s" in only.message


def test_both_ends_of_a_ucie_link_must_agree() -> None:
    """FC-NO09: refused at load, both values quoted with their places."""
    (only,) = check_topology("mine.yaml", BASE + "cube: {ucie: {per_connection_bw_gbs: 128}}\n")

    assert "E_TOPO_LINK_ENDS" == only.code
    assert "256 GB/s" in only.message
    assert "128" in only.message
    assert ["ahbm_2x2.yaml", "mine.yaml"] == [
        label.span.file for label in (only.primary, *only.secondary) if label is not None
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cube: {hbm: {bandwith_gbs: 64}}\n", [("E_YAML_UNKNOWN_KEY", 3)]),  # FC-SC07
        ("cube: {hbm: {bw: 64}}\n", [("E_YAML_UNKNOWN_KEY", 3)]),
        ("pe: {tcm: {capacity_bytes: 64 KiB}}\n", [("E_YAML_TYPE", 3)]),
        ("pe: {tcm: {capacity_bytes: 0}}\n", [("E_YAML_RANGE", 3)]),
        ("pe: {pe_gemm: {tile: {m: 0}}}\n", [("E_YAML_RANGE", 3)]),  # FC-SC14
        ("pe: {pe_gemm: {dataflow: ideel}}\n", [("E_YAML_CHOICE", 3)]),
        ("pe: {pe_gemm: {dataflow: ws}}\n", [("E_TOPO_DATAFLOW", 3)]),
        ("pe: {pe_gemm: {macs_per_cycle: {fp17: 1}}}\n", [("E_YAML_UNKNOWN_KEY", 3)]),
        ("pe: {pe_math: {cycles: {transcendent: 1}}}\n", [("E_YAML_UNKNOWN_KEY", 3)]),
        ("cube: {m_cpu: {router: r3c0}}\n", [("E_TOPO_PLACE", 3)]),
        ("cube: {router_mesh: {w: 1, h: 1}}\n", [("E_TOPO_PLACE", MCPU_LINE)]),
        ("cube: {pes: 4, pe_routers: [r0c0, r0c1, r0c2]}\n", [("E_TOPO_COUNTS", 3)]),  # FC-NO10
        ("cube: {pes: 1, pe_routers: [r9c0]}\n", [("E_TOPO_PLACE", 3)]),
        ("sip: {cube_mesh: {w: 1}}\n", [("E_TOPO_PLACE", 13)]),  # FC-SC13
        ("sip: {cube_mesh: {w: 0}}\n", [("E_YAML_RANGE", 3)]),
        ("sip: {cube_mesh: {w: 64, h: 64}}\n", [("E_TOPO_SIZE", 3)]),
        ("sip: {cube_pitch_mm: 8}\n", [("E_TOPO_GEOMETRY", 3)]),
        ("fabric: {bw_gbs: 0.1234567891}\n", [("E_TOPO_PRECISION", 3)]),
        ("fabric: {bw_gbs: 1e12}\n", [("E_YAML_RANGE", 3)]),
        ("overrides: {sip0.cube0.hbm_ctrl.pe0: {bw_gbs: 1e-10}}\n", [("E_TOPO_PRECISION", 3)]),
        ("overrides: {sip0.cube9.m_cpu: {overhead_ns: 1}}\n", [("E_TOPO_OVERRIDE", 3)]),
        ("overrides: {sip0.cube1.m_cpu: {overhead: 1}}\n", [("E_YAML_UNKNOWN_KEY", 3)]),
        ("overrides: {host -> fabric: {bw_gbs: 1}}\n", [("E_TOPO_OVERRIDE", 3)]),
        ("overrides: [1]\n", [("E_YAML_TYPE", 3)]),
        ("name: [x]\n", [("E_YAML_DUPLICATE_KEY", 3)]),
    ],
)
def test_faults_are_told_at_their_line(text: str, expected: list[tuple[str, int]]) -> None:
    assert expected == faults(text)


@pytest.mark.parametrize(
    "ports",
    [
        "[{cube: {xy: [0, 0]}, cube_side: E, phy: P0, distance_mm: 2}]",  # an inner side
        "[{cube: {xy: [2, 0]}, cube_side: N, phy: P0, distance_mm: 2}]",  # outside of the mesh
        "[{cube: {xy: [0, 0, 1]}, cube_side: N, phy: P0, distance_mm: 2}]",
        "[{cube: {xy: [0, 0]}, cube_side: N, phy: P.0, distance_mm: 2}]",
        "[{cube: {xy: [0, 0]}, cube_side: N, phy: P0, distance_mm: 2}, "
        "{cube: {xy: [1, 0]}, cube_side: N, phy: P0, distance_mm: 2}]",  # one name twice
        "[{cube: {xy: [0, 0]}, cube_side: N, phy: P0, distance_mm: 2}, "
        "{cube: {xy: [0, 0]}, cube_side: N, phy: P1, distance_mm: 2}]",  # one side twice
    ],
)
def test_cube_ports_that_do_not_fit(ports: str) -> None:
    chiplet = (
        "io_chiplets: [{pcie_ep: {overhead_ns: 50, bw_gbs: 63}, io_cpu: {overhead_ns: 10}, io_noc: {impl: "
        "forwarding_v1, overhead_ns: 0}, io_ucie: {overhead_ns: 8, connections: 4, per_connection_bw_gbs: 256}, "
        f"cube_ports: {ports}}}]\n"
    )

    assert {"E_TOPO_PLACE", "E_TOPO_COUNTS"} & {code for code, _ in faults(chiplet)}


def test_all_faults_of_a_file_at_once() -> None:
    found = faults("pe: {clock: 1, pe_dma: {issue_ns: -1}}\ncube: {pes: x}\nsip: {count: 0}\n")

    assert [3, 3, 4, 5] == sorted(line for _, line in found)


@pytest.mark.parametrize("text", ["a: 1\n", "- 1\n", "x\n", ""])
def test_what_is_no_topology(text: str) -> None:
    assert check_topology("x.yaml", text)


def test_a_topology_that_does_not_exist_names_the_nearest() -> None:
    with pytest.raises(KernBenchError, match="did you mean `ahbm_4x4`") as caught:
        load_topology("ahbm4x4")

    assert EXIT_USAGE == caught.value.exit_code


def test_a_bad_file_ends_with_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("extends: ahbm_1x1\npe: {clok_ghz: 1}\n")
    with pytest.raises(KernBenchError) as caught:
        load_topology(tmp_path / "bad.yaml")

    assert EXIT_INPUT == caught.value.exit_code
    assert "did you mean `clock_ghz`?" in str(caught.value)


def test_a_removed_link_is_gone_round_or_named_at_load() -> None:
    """FC-NO15: inside a cube there is another way; between cubes XY has none."""
    around = 'overrides: {"sip0.cube0.noc.r0c0 -> sip0.cube0.noc.r0c1": null}\n'
    between = 'overrides: {"sip0.cube0.ucie-E -> sip0.cube1.ucie-W": null}\n'

    assert [] == faults(around)
    (first, *_) = check_topology("mine.yaml", BASE + between)
    assert "E_ROUTE_MISSING" == first.code
    assert "no path from `sip0.cube0.pe0.pe_dma` to `sip0.cube1.hbm_ctrl.pe0`" in first.message
    assert "sip0.cube0.ucie-E -> sip0.cube1.ucie-W" in first.message


def test_a_node_without_links_is_named_at_load() -> None:
    """FC-NO15: all links of one node removed."""
    ends = ("sip0.cube0.pe1.pe_dma", "sip0.cube0.noc.r0c1")
    text = f'overrides: {{"{ends[0]} -> {ends[1]}": null, "{ends[1]} -> {ends[0]}": null}}\n'
    found = check_topology("mine.yaml", BASE + text)

    assert found
    assert all("sip0.cube0.pe1.pe_dma" in d.message for d in found)


def test_the_resolved_configuration_makes_the_same_device() -> None:
    text = BASE + 'overrides: {sip0.cube0.m_cpu: {overhead_ns: 6.5}, "host -> sip0.io0.pcie_ep": {bw_gbs: 31.5}}\n'
    graph = load_topology_text(text)
    again = load_topology_text(json.dumps(graph.resolved_config()))

    assert graph.config_hash == again.config_hash
    assert 6_500 == again.nodes["sip0.cube0.m_cpu"].overhead_ps
    assert {k: e.bytes_per_s for k, e in graph.edges.items()} == {k: e.bytes_per_s for k, e in again.edges.items()}


def test_the_hash_is_of_what_was_resolved() -> None:
    one = load_topology_text(BASE)
    reordered = load_topology_text("name: mine\nextends: ahbm_2x2\n")
    other = load_topology_text(BASE + "fabric: {overhead_ns: 101}\n")

    assert one.config_hash == reordered.config_hash != other.config_hash
