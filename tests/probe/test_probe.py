"""`run_probe` (ADR-0049): cases from the topology, closed forms against the simulator, checks, tables, JSON."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

import kernbench.probe.closed_form
import kernbench.probe.fair
import kernbench.probe.measure
from kernbench.cli.main import main
from kernbench.diagnostics import KernBenchError
from kernbench.probe.probe import probe_graph, run_probe
from kernbench.probe.results import SWEEP_SIZES
from kernbench.probe.tables import render
from kernbench.sim.engine import GraphEngine
from kernbench.sim.topology import load_topology_text

LONE = [
    "h2d-1hop", "h2d-2hop", "h2d-3hop", "h2d-4hop",
    "d2h-1hop", "d2h-2hop", "d2h-3hop", "d2h-4hop",
    "pe-local-hbm", "pe-same-half-hbm", "pe-cross-half-hbm", "pe-cross-cube-hbm-best", "pe-cross-cube-hbm-worst",
]  # fmt: skip
SHARED = ["contention-two-pes", "contention-all-pes", "contention-all-cubes"]
VIA_CPUS = """
extends: ahbm_2x2
io_chiplets:
  - pcie_ep: {overhead_ns: 50, bw_gbs: 63.0}
    io_cpu: {overhead_ns: 10}
    io_noc: {impl: forwarding_v1, overhead_ns: 0}
    io_ucie: {overhead_ns: 8, connections: 4, per_connection_bw_gbs: 256}
    memory_route: via_cpus
    cube_ports:
      - {cube: {xy: [0, 0]}, cube_side: N, phy: P0, distance_mm: 2.0}
"""
FASTER_THIRD = """
extends: ahbm_4x4
overrides:
  sip0.cube4.hbm_ctrl.pe0: {overhead_ns: 3000}
"""


@pytest.fixture(scope="module")
def default() -> Any:
    return run_probe("ahbm_4x4")


def mesh(w: int, h: int, pes: int = 8, ports: str = "") -> Any:
    ports = ports or "".join(
        f"\n      - {{cube: {{xy: [{x}, 0]}}, cube_side: N, phy: P{x}, distance_mm: 2.0}}" for x in range(w)
    )
    chiplet = VIA_CPUS.replace("via_cpus", "direct").split("cube_ports:")[0]
    text = f"{chiplet}cube_ports:{ports}\nsip: {{cube_mesh: {{w: {w}, h: {h}}}}}\ncube: {{pes: {pes}}}\n"
    return load_topology_text(text.lstrip())


def test_the_default_topology_has_the_thirteen_cases_of_the_record_and_no_residual(default: Any) -> None:
    lone = [case for case in default.cases if case.category != "contention"]

    assert [case.name for case in lone] == LONE
    assert [case.name for case in default.cases[13:]] == SHARED
    assert [case.residual_ps for case in default.cases] == [0] * 16
    assert [case.hops for case in lone] == [1, 2, 3, 4, 1, 2, 3, 4, 0, 0, 0, 1, 6]
    assert {case.nbytes for case in lone} == {32768}
    assert default.ok and default.not_applicable == ()


def test_cases_end_where_the_record_says(default: Any) -> None:
    ends = {case.name: case.route[-1].node for case in default.of("h2d") + default.of("pe_dma")}

    assert ends == {
        "h2d-1hop": "sip0.cube0.hbm_ctrl.pe0",
        "h2d-2hop": "sip0.cube4.hbm_ctrl.pe0",
        "h2d-3hop": "sip0.cube8.hbm_ctrl.pe0",
        "h2d-4hop": "sip0.cube12.hbm_ctrl.pe0",
        "pe-local-hbm": "sip0.cube0.hbm_ctrl.pe0",
        "pe-same-half-hbm": "sip0.cube0.hbm_ctrl.pe1",
        "pe-cross-half-hbm": "sip0.cube0.hbm_ctrl.pe4",
        "pe-cross-cube-hbm-best": "sip0.cube1.hbm_ctrl.pe0",
        "pe-cross-cube-hbm-worst": "sip0.cube15.hbm_ctrl.pe0",
    }


def test_every_lone_flow_carries_32_kib_in_simulation_and_closed_form(default: Any) -> None:
    """ADR-0049 D2."""
    for case in default.cases[:13]:
        assert case.nbytes == 32768
        assert case.drain_ps == -(-32768 * 10**12 // case.bn_bytes_per_s)
        assert case.eff_bw_gbs * case.actual_ns == pytest.approx(32768)


def test_every_case_has_an_engine_of_its_own(monkeypatch: Any) -> None:
    """ADR-0049 D8: so a case alone and among the others is the same."""
    made: list[Any] = []

    class Counted(GraphEngine):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self)

    monkeypatch.setattr(kernbench.probe.measure, "GraphEngine", Counted)
    together = run_probe("ahbm_2x2")

    assert len(made) == len(set(map(id, made))) == len(together.cases)
    for name in ("h2d-2hop", "pe-cross-cube-hbm-worst", "contention-all-pes"):
        assert run_probe("ahbm_2x2", name).cases == (together.case(name),)


def test_the_closed_form_by_hand() -> None:
    """h2d-1hop: pcie_ep 50, two UCIe ends 8, a router 1, the slice 48.1; 2 mm and 3 mm and no more of wire."""
    case = run_probe("ahbm_4x4", "h2d-1hop").case("h2d-1hop")

    assert case.overhead_ps == 50_000 + 2 * 8_000 + 1_000 + 48_100
    assert case.wire_ps == 20 + 30
    assert case.drain_ps == -(-32768 * 10**12 // 135_900_000_000)
    assert case.actual_ps == case.overhead_ps + case.wire_ps + case.drain_ps
    assert case.eff_bw_gbs == pytest.approx(32768 / case.actual_ns)
    assert case.util_pct == pytest.approx(100 * case.eff_bw_gbs / 135.9)


def test_a_read_is_a_command_leg_and_a_data_leg_and_the_slice_is_paid_once(default: Any) -> None:
    write, read = default.case("h2d-2hop"), default.case("d2h-2hop")

    assert [hop.leg for hop in read.route] == ["forward"] * len(write.route) + ["reverse"] * len(write.route)
    assert read.overhead_ps == 2 * write.overhead_ps - 48_100
    assert read.wire_ps == 2 * write.wire_ps
    assert read.drain_ps == write.drain_ps


@pytest.mark.parametrize("name", ["ahbm_1x1", "ahbm_2x2", "ahbm_2sip"])
def test_every_check_holds_on_the_shipped_topologies(name: str) -> None:
    result = run_probe(name)

    assert [check.name for check in result.checks if not check.ok] == []
    assert {case.residual_ps for case in result.cases} == {0}


@pytest.mark.slow
def test_every_check_holds_on_eight_by_eight() -> None:
    result = run_probe("ahbm_8x8")

    assert result.ok
    assert [case.name for case in result.of("h2d")] == [f"h2d-{hops}hop" for hops in range(1, 9)]


@pytest.mark.parametrize(
    ("w", "h", "pes", "lone"),
    [
        (1, 1, 1, ["h2d-1hop", "d2h-1hop", "pe-local-hbm"]),
        (1, 3, 2, ["h2d-1hop", "h2d-2hop", "h2d-3hop", "d2h-1hop", "d2h-2hop", "d2h-3hop", "pe-local-hbm",
                   "pe-same-half-hbm", "pe-cross-cube-hbm-best", "pe-cross-cube-hbm-worst"]),
        (2, 1, 5, ["h2d-1hop", "d2h-1hop", "pe-local-hbm", "pe-same-half-hbm", "pe-cross-half-hbm",
                   "pe-cross-cube-hbm-best"]),
        (3, 2, 8, ["h2d-1hop", "h2d-2hop", "d2h-1hop", "d2h-2hop", *LONE[8:]]),
    ],
)  # fmt: skip
def test_any_shape_of_mesh_has_the_cases_that_it_can_have(w: int, h: int, pes: int, lone: list[str]) -> None:
    result = probe_graph(mesh(w, h, pes))

    assert [case.name for case in result.cases if case.category != "contention"] == lone
    assert [check for check in result.checks if not check.ok] == []
    missing = {remark.name for remark in result.not_applicable}
    assert missing == set(LONE + SHARED) - {case.name for case in result.cases}


def test_rows_are_counted_away_from_the_chiplet_wherever_it_is() -> None:
    south = mesh(2, 3, 8, "\n      - {cube: {xy: [0, 2]}, cube_side: S, phy: P0, distance_mm: 2.0}")
    result = probe_graph(south)

    assert [case.route[-1].node for case in result.of("h2d")] == [
        "sip0.cube4.hbm_ctrl.pe0", "sip0.cube2.hbm_ctrl.pe0", "sip0.cube0.hbm_ctrl.pe0",
    ]  # fmt: skip
    assert result.ok


def test_through_the_cpus_the_three_legs_of_the_record_are_printed() -> None:
    result = probe_graph(load_topology_text(VIA_CPUS.lstrip()))
    case = result.case("h2d-2hop")
    legs: dict[str, list[str]] = {}
    for hop in case.route:
        legs.setdefault(hop.leg, []).append(hop.node)

    assert [(nodes[0], nodes[-1]) for nodes in legs.values()] == [
        ("sip0.io0.pcie_ep", "sip0.io0.io_cpu"),
        ("sip0.io0.io_cpu", "sip0.cube2.m_cpu"),
        ("sip0.cube2.m_cpu", "sip0.cube2.hbm_ctrl.pe0"),
    ]
    assert list(legs) == ["leg1", "leg2", "leg3"]
    assert [hop.leg for hop in result.case("d2h-1hop").route if hop.node.endswith("m_cpu")] == [
        "forward2", "forward3", "reverse1", "reverse2",
    ]  # fmt: skip
    assert result.ok and {each.residual_ps for each in result.cases} == {0}
    assert re.search(r"leg1\n.*\n.*\n.*io_cpu\n +leg2\n", render(result))


def test_the_sweep_is_the_closed_form_at_each_size_and_the_simulator_agrees() -> None:
    from kernbench.probe.catalog import catalog_of
    from kernbench.probe.measure import measure
    from kernbench.sim.topology import load_topology

    graph = load_topology("ahbm_2x2")
    result = probe_graph(graph)
    for case in catalog_of(graph).cases[:5:4]:
        points = result.case(case.name).sweep
        assert [point.nbytes for point in points] == list(SWEEP_SIZES)
        assert [point.total_ps for point in points] == [measure(graph, case, n).total_ps[0] for n in SWEEP_SIZES]
        assert [point.util_pct for point in points] == sorted(point.util_pct for point in points)


def test_contention_is_max_min_fair(default: Any) -> None:
    two, every, cubes = (default.case(name) for name in SHARED)
    drain = -(-2 * 32768 * 10**12 // 135_900_000_000)

    assert len(two.flows) == 2 and len(every.flows) == 8 and len(cubes.flows) == 16
    assert max(flow.actual_ps for flow in two.flows) - max(flow.start_ps for flow in two.flows) <= drain
    assert all(flow.actual_ps == flow.expected_ps for case in (two, every, cubes) for flow in case.flows)
    assert every.actual_ps > 3 * two.actual_ps
    assert every.bn_bw_gbs == 135.9


def test_a_case_is_chosen_by_its_exact_name() -> None:
    assert [case.name for case in run_probe("ahbm_2x2", "pe-local-hbm").cases] == ["pe-local-hbm"]
    assert len(run_probe("ahbm_1x1", "all").cases) == 3
    with pytest.raises(KernBenchError, match="E_PROBE_CASE") as caught:
        run_probe("ahbm_1x1", "h2d")
    assert caught.value.exit_code == 2
    assert all(name in str(caught.value) for name in ("h2d-1hop", "pe-local-hbm"))
    with pytest.raises(KernBenchError, match="did you mean `pe-local-hbm`"):
        run_probe("ahbm_1x1", "pe-local")


@pytest.mark.parametrize("name", ["h2d-2hop", "d2h-9hop", "pe-cross-cube-hbm-best", "contention-all-pes"])
def test_a_case_that_the_topology_cannot_have_does_not_apply(name: str, capsys: Any) -> None:
    assert 0 == main(["probe", "-t", "ahbm_1x1", "--case", name, "--strict"])
    assert f"  {name}: " in capsys.readouterr().out


def test_a_third_row_that_is_faster_than_the_second_fails_the_check(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "faster.yaml"
    file.write_text(FASTER_THIRD)

    assert 0 == main(["probe", "-t", str(file)])
    out = capsys.readouterr().out
    assert re.search(r"^\[x\] FAIL H2D monotonic increase: h2d-3hop takes .* not above h2d-2hop", out, re.M)
    assert re.search(r"^\[v\] PASS residual of lone flows: 0.000 ns", out, re.M)
    assert 1 == main(["probe", "-t", str(file), "--strict"])


def test_json_has_the_documented_keys(capsys: Any) -> None:
    assert 0 == main(["probe", "--case", "h2d-2hop", "--json"])
    shown = json.loads(capsys.readouterr().out)

    assert list(shown)[:2] == ["schema", "version"]
    assert shown["schema"] == "kernbench.probe/1"
    (case,) = shown["cases"]
    assert list(case) == [
        "name", "category", "hops", "nbytes", "actual_ns", "overhead_ns", "drain_ns", "wire_ns", "residual_ns",
        "eff_bw_gbs", "bn_bw_gbs", "util_pct", "route",
    ]  # fmt: skip
    assert (case["name"], case["category"], case["hops"], case["residual_ns"]) == ("h2d-2hop", "h2d", 2, 0.0)
    assert case["route"][-1]["bottleneck"] and case["route"][-1]["drain_ns"] == case["drain_ns"]
    assert {"name", "ok"} <= set(shown["checks"][0])
    assert all(check["ok"] for check in shown["checks"])


def test_json_says_where_nothing_limits_a_transfer_or_a_case_is_shared(capsys: Any) -> None:
    assert 0 == main(["probe", "-t", "ahbm_2x2", "--json"])
    shown = json.loads(capsys.readouterr().out)

    assert {case["category"] for case in shown["cases"]} == {"h2d", "d2h", "pe_dma", "contention"}
    assert [entry["name"] for entry in shown["info"]] == ["pe_dma local against remote"]
    assert "h2d-3hop" in [entry["name"] for entry in shown["not_applicable"]]
    assert [len(case["flows"]) for case in shown["cases"] if case["category"] == "contention"] == [2, 8, 4]
    assert len(shown["sweep"]) == 9


def test_the_tables_mark_bottleneck_and_drain(capsys: Any) -> None:
    assert 0 == main(["probe", "-t", "ahbm_2x2"])
    out = capsys.readouterr().out

    assert out.count("<BN:135.9GB/s>") == 9
    assert out.count("drain:241.119ns") == 9
    assert re.search(r"h2d-2hop +2 +375\.389 +134\.100 +241\.119 +0\.170 +0\.000 ", out)
    assert out.count("[v] PASS") == 7 and "[x]" not in out


def test_an_unknown_case_exits_two(capsys: Any) -> None:
    assert 2 == main(["probe", "-t", "ahbm_1x1", "--case", "nonsense"])
    assert "pe-cross-half-hbm" in capsys.readouterr().err


def test_the_closed_forms_share_nothing_with_the_simulators_timing() -> None:
    for module in (kernbench.probe.closed_form, kernbench.probe.fair):
        imports = re.findall(r"^from (\S+) import", inspect.getsource(module), re.M)
        inner = [name for name in imports if name.startswith("kernbench.sim")]
        assert inner in ([], ["kernbench.sim.topology_graph"])
    source = inspect.getsource(kernbench.probe.closed_form)
    for kept in (".head_ps", "edge.wire_ps", "edge.bytes_per_s", ".pool", "ns_to_ps"):
        assert kept not in source
