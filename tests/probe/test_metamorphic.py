"""`probe --metamorphic`: every numeric key is moved, wrong ways are flagged, keys without effect are listed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.cli.main import main
from kernbench.probe.metamorphic import (
    KeyResult,
    Metamorphosis,
    Move,
    better_of,
    key_groups,
    run_metamorphic,
    shown,
)
from kernbench.probe.probe import probe_graph, run_probe
from kernbench.probe.tables import render_metamorphic
from kernbench.sim.topology import load_topology, load_topology_text
from kernbench.sim.topology_schema import TopologySpec
from kernbench.yaml_schema import describe

SMALL = load_topology("ahbm_1x1")


def test_every_numeric_key_of_the_schema_is_moved_once() -> None:
    groups = key_groups(SMALL.config)
    paths = [".".join(path).replace(".*", "[]") for group in groups for path in group]
    numeric = {doc.path for doc in describe(TopologySpec) if doc.type in ("a number", "a whole number")}

    assert len(paths) == len(set(paths))
    assert numeric <= set(paths)
    assert {"pe.pe_gemm.macs_per_cycle.fp16", "pe.pe_math.cycles.transcendental"} <= set(paths)
    assert not [path for path in paths if path.endswith("xy")]


def test_both_ends_of_a_link_move_together() -> None:
    (joint,) = [shown(group) for group in key_groups(SMALL.config) if len(group) > 1]

    assert joint == "io_chiplets[].io_ucie.per_connection_bw_gbs and cube.ucie.per_connection_bw_gbs"


@pytest.mark.parametrize(
    ("path", "better"),
    [
        ("cube.hbm.bw_gbs", "more"), ("cube.hbm.overhead_ns", "less"), ("pe.pe_cpu.dispatch.bytes_per_ns", "more"),
        ("pe.pe_gemm.macs_per_cycle.fp16", "more"), ("pe.pe_math.cycles.transcendental", "less"),
        ("ns_per_mm", "less"), ("cube.router_mesh.distance_mm", "unknown"), ("cube.pes", "unknown"),
    ],
)  # fmt: skip
def test_units_say_which_way_is_faster(path: str, better: str) -> None:
    assert better == better_of((tuple(path.split(".")),))


MATTERS = ["cube.hbm.bw_gbs", "pe.pe_cpu.dispatch.fixed_ns", "pe.pe_gemm.macs_per_cycle.fp16"]


def test_what_should_matter_does_and_goes_the_right_way() -> None:
    result = run_metamorphic(SMALL, MATTERS)

    assert [key.key for key in result.keys] == MATTERS
    assert result.ok and result.without_effect == ()
    for key in result.keys:
        up, down = {move.direction: move for move in key.moves}.get("up"), key.moves[-1]
        assert up is not None
        assert bool(up.faster) == (key.better == "more")
        assert down.direction == "up" or bool(down.slower) == (key.better == "more")


def test_a_key_that_changes_nothing_is_listed_and_a_move_that_cannot_be_made_is_told() -> None:
    """FC-TI23 (astra-sim #139): the fabric of one package, and a mesh without the router of M_CPU."""
    result = run_metamorphic(SMALL, ["fabric.bw_gbs", "cube.router_mesh.h"])
    text = render_metamorphic(result)

    assert result.without_effect == ("fabric.bw_gbs",)
    assert "Keys without any effect: fabric.bw_gbs\n" in text
    assert "cube.router_mesh.h = 1: there is no router `r1c0`" in text


def some_result(contended: bool) -> Metamorphosis:
    moves = (Move("up", "2", slower=("w",)), Move("down", "0.5", faster=("w",)))
    key = KeyResult("a.bw_gbs", "1", "more", moves, frozenset({"w"} if contended else ()))
    return Metamorphosis("t", ("w",), (key,))


def test_a_lone_workload_that_goes_the_wrong_way_is_flagged_and_a_contended_one_is_a_remark() -> None:
    lone, contended = some_result(False), some_result(True)

    assert not lone.ok and contended.ok
    assert "[x] FAIL a.bw_gbs = 2: w went the wrong way" in render_metamorphic(lone)
    assert "[x]" not in render_metamorphic(contended)
    assert "a.bw_gbs = 0.5: w went the wrong way" in render_metamorphic(contended)


@pytest.mark.slow
def test_the_command_finds_no_wrong_way_on_the_smallest_device(capsys: Any) -> None:
    assert 0 == main(["probe", "--metamorphic", "-t", "ahbm_1x1", "--strict", "--json"])
    shown_json = json.loads(capsys.readouterr().out)

    assert shown_json["schema"] == "kernbench.metamorphic/1"
    assert shown_json["ok"] and len(shown_json["keys"]) > 50
    assert "cube.hbm.capacity_bytes" in shown_json["without_effect"]
    assert "pe.pe_cpu.queue_depth" not in shown_json["without_effect"]


def test_a_case_and_the_metamorphic_probe_contradict_each_other() -> None:
    assert 2 == main(["probe", "--metamorphic", "--case", "pe-local-hbm"])


ROUTE = {case.name: case.route for case in run_probe("ahbm_2x2").cases if case.route}


@given(
    st.sampled_from(sorted(ROUTE)), st.integers(0, 40), st.sampled_from(["node", "link"]), st.sampled_from([2, 4, 8])
)
@settings(max_examples=12, deadline=None, derandomize=True)
def test_a_better_node_or_link_on_its_way_never_makes_a_lone_flow_slower(
    name: str, place: int, what: str, factor: int
) -> None:
    graph = load_topology("ahbm_2x2")
    route = ROUTE[name]
    at = place % (len(route) - 1)
    here, there = route[at], route[at + 1]
    if what == "node":
        override = {here.node: {"overhead_ns": round(float(graph.nodes[here.node].attrs["overhead_ns"]) / factor, 6)}}
    else:
        link = graph.edges.get((here.node, there.node))
        if link is None or link.bw_gbs is None:
            return
        override = {link.id: {"bw_gbs": float(link.bw_gbs) * factor}}
    better = load_topology_text(json.dumps({"extends": "ahbm_2x2", "overrides": override}))

    before, after = run_probe("ahbm_2x2", name).case(name), probe_graph(better, name).case(name)
    assert after.actual_ps <= before.actual_ps
    assert after.residual_ps == 0
    if there.bottleneck and what == "link":
        assert after.drain_ps < before.drain_ps
