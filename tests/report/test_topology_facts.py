"""`topo show` and `topo schema`: the machine as a table, as JSON, as a drawing."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest

from kernbench.cli.main import main
from kernbench.report.topology_drawing import topology_dot, topology_svg
from kernbench.report.topology_facts import Facts, facts_of
from kernbench.report.topology_text import facts_text
from kernbench.sim.topology import load_topology, load_topology_text


@pytest.fixture(scope="module")
def facts() -> Facts:
    return facts_of(load_topology("ahbm_4x4"))


def level(facts: Facts, name: str) -> tuple[int, float | None, float | None]:
    (found,) = [level for level in facts.bandwidths if level.name.startswith(name)]
    return found.count, found.most_gbs, found.total_gbs


def test_counts_and_capacities_are_those_of_the_device(facts: Facts) -> None:
    assert (facts.counts["cubes"], facts.counts["pes"], facts.counts["routers"]) == (16, 128, 192)
    assert facts.capacities_bytes == {
        "hbm_a_pe": 3 << 30, "hbm": 384 << 30, "tcm_a_pe": 3 << 19, "tcm": 192 << 20,
    }  # fmt: skip


def test_peak_and_ridge_point_follow_from_rate_clock_and_bandwidth(facts: Facts) -> None:
    """2,048 multiply-accumulates a cycle at 1 GHz are 4.096 TFLOP/s (Tenstorrent Wormhole Tensix)."""
    assert facts.pe_peak_flops["fp16"] == 4_096 * 10**9
    assert facts.peak_flops["fp16"] == 128 * 4_096 * 10**9
    assert facts.peak_flops["fp8"] == 2 * facts.peak_flops["fp16"] == 4 * facts.peak_flops["fp32"]
    assert facts.ridge_flop_per_byte["fp16"] == pytest.approx(4096 / 135.9)
    assert facts.math_ops_per_s == 128 * 128 * 10**9


def test_bandwidth_at_each_level(facts: Facts) -> None:
    assert level(facts, "HBM slice") == (128, 135.9, pytest.approx(128 * 135.9))
    assert level(facts, "cube to cube") == (48, 1024.0, 48 * 1024.0)
    assert level(facts, "chiplet to cube") == (8, 256.0, 8 * 256.0)
    assert level(facts, "host") == (2, 63.0, 126.0)
    assert "pcie_ep to fabric" not in [level.name for level in facts.bandwidths]


def test_a_gather_has_the_efficiency_of_its_runs(facts: Facts) -> None:
    """64 B an access and 128 B a page (tests/trust/test_hbm.py derives them)."""
    assert facts.hbm_efficiency == {
        "streaming": 1.0, "random, 128 B each": 1.0, "random, 64 B each": 0.5, "random, 32 B each": 0.25,
        "random, 4 B each": 1 / 32,
    }  # fmt: skip


def test_bisection_is_what_crosses_the_middle_in_one_direction(facts: Facts) -> None:
    package, inside = facts.bisections

    assert (package.links, package.total_gbs) == (4, 4096.0)
    assert (inside.links, inside.total_gbs) == (3, 768.0)
    assert facts_of(load_topology("ahbm_1x1")).bisections == (inside,)


def test_overrides_and_missing_links_count() -> None:
    text = """
extends: ahbm_2x2
overrides:
  "sip0.cube0.ucie-E -> sip0.cube1.ucie-W": {bw_gbs: 100}
  sip0.cube0.pe0.pe_gemm: {macs_per_cycle: {fp16: 1024}}
"""
    facts = facts_of(load_topology_text(text.lstrip()))

    assert facts.bisections[0].total_gbs == 1124.0
    assert facts.peak_flops["fp16"] == (31 * 2048 + 1024) * 2 * 10**9
    assert next(level for level in facts.bandwidths if level.name == "cube to cube").least_gbs == 100.0
    assert facts.notes[-1] == "2 node(s) or link(s) are overridden"


def test_a_systolic_array_has_its_cells_as_peak() -> None:
    text = "extends: ahbm_1x1\npe: {pe_gemm: {dataflow: ws, rows: 32, cols: 16}}\n"

    assert facts_of(load_topology_text(text)).pe_peak_flops["fp16"] == 2 * 32 * 16 * 10**9


def test_the_table_says_that_connections_of_a_phy_add_no_bandwidth(facts: Facts) -> None:
    """ADR-0016 D5."""
    text = facts_text(facts)

    assert "its 4 connections add none there" in text
    assert re.search(r"fp16 +4\.096 TFLOP/s +524\.288 TFLOP/s +30\.1\n", text)
    assert re.search(r"HBM of the device +412316860416 B \(384 GiB\)", text)


@pytest.mark.parametrize("name", ["ahbm_1x1", "ahbm_2x2", "ahbm_2sip"])
def test_the_drawing_shows_every_router_pe_and_cube_link(name: str) -> None:
    graph = load_topology(name)
    root = ElementTree.fromstring(topology_svg(graph))
    titles = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
    drawn = ("router", "pe_dma", "hbm_ctrl", "m_cpu", "io_cpu", "pcie_ep", "io_ucie", "host")

    assert {node.id for node in graph.nodes.values() if node.kind in drawn} <= set(titles)
    between = [e for e in graph.edges.values() if graph.nodes[e.src].kind == graph.nodes[e.dst].kind == "ucie"]
    assert len(between) == 2 * sum(title.count(".ucie-") == 2 and ".conn" not in title for title in titles)


def test_a_faster_link_is_drawn_wider() -> None:
    root = ElementTree.fromstring(topology_svg(load_topology("ahbm_2x2")))
    space = "{http://www.w3.org/2000/svg}"
    widths = {
        line.findtext(f"{space}title"): float(line.get("stroke-width", "0")) for line in root.iter(f"{space}line")
    }
    between = widths["sip0.cube0.ucie-E <-> sip0.cube1.ucie-W: 1024 GB/s"]
    inside = widths["sip0.cube0.noc.r0c0 <-> sip0.cube0.noc.r0c1: 256 GB/s"]

    assert between > inside > widths["host <-> sip0.io0.pcie_ep: 63.0 GB/s"]


def test_dot_has_every_node_and_both_directions() -> None:
    graph = load_topology("ahbm_1x1")
    text = topology_dot(graph)
    edges = re.findall(r'^  "(.+)" -> "(.+)" \[label=".*?"(, dir=both)?\];$', text, re.M)

    assert len(re.findall(r"^  \"[^\"]+\" \[label=", text, re.M)) == len(graph.nodes)
    assert sum(2 if both else 1 for _, _, both in edges) == len(graph.edges)


def test_the_command_prints_text_json_and_drawings(capsys: Any) -> None:
    assert 0 == main(["topo", "show", "ahbm_1x1"])
    assert capsys.readouterr().out.startswith("topology ahbm_1x1\n")
    assert 0 == main(["topo", "show", "ahbm_1x1", "--format", "json"])
    shown = json.loads(capsys.readouterr().out)
    assert (shown["schema"], shown["counts"]["pes"]) == ("kernbench.topology-facts/1", 1)
    assert 0 == main(["topo", "show", "ahbm_1x1", "--format", "svg"])
    assert capsys.readouterr().out.startswith("<svg ")
    assert 2 == main(["topo", "show", "ahbm_1x1", "--format", "png"])
    assert 2 == main(["topo", "show", "ahbm_9x9"])
    assert 2 == main(["topo", "show", "ahbm_1x1", "--format", "svg", "--json"])


def test_the_schema_lists_every_key_with_its_meaning(capsys: Any) -> None:
    assert 0 == main(["topo", "schema"])
    lines = capsys.readouterr().out.splitlines()

    assert "cube.hbm.bw_gbs: a number, required. bandwidth of one slice, reads and writes together" in lines
    assert any(line.startswith("io_chiplets[].memory_route: direct | via_cpus, default direct. ") for line in lines)
    assert any(line.startswith("overrides: ") for line in lines)
    assert 0 == main(["topo", "schema", "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert "pe.pe_dma.outstanding" in [key["path"] for key in shown["keys"]]
