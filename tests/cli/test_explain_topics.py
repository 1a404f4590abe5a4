"""Topics and metrics: each that the code knows is explained, and figures are those of the code and the documents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kernbench.data_files import data_dir
from kernbench.explain.index import explanations, metrics, topics
from kernbench.run import Run
from kernbench.runtime.api import Sent
from kernbench.sim import access_eval
from kernbench.sim.summary import TERMS
from kernbench.sim.topology import load_topology

TRUST = Path(__file__).parents[2] / "docs" / "trust.md"


def test_every_topic_that_the_models_need_is_there() -> None:
    needed = {"network", "hbm", "gemm", "utilization", "dispatch", "hazards", "modes", "bound_by", "terms"}

    assert set() == needed - set(topics())


def test_every_key_of_a_run_and_every_term_is_a_metric_and_no_other() -> None:
    run = Run("k", "t", "data", "", Sent(), {})
    keys = {key for key in run.to_json() if key != "version"}

    assert keys | {f"terms_ns.{term}" for term in TERMS} == set(metrics())


def test_names_are_told_apart() -> None:
    assert set() == set(explanations()) & {*topics(), *metrics()}


@pytest.mark.parametrize("name", sorted({*topics(), *metrics()}))
def test_stories_have_something_to_say(name: str) -> None:
    story = topics()[name].story if name in topics() else metrics()[name].story

    assert 20 < len(story.strip()), name


def test_codes_that_stories_name_exist() -> None:
    stories = [entry.story for table in (explanations(), topics(), metrics()) for entry in table.values()]
    named = {code for story in stories for code in re.findall(r"\b[EWR]_[A-Z0-9_]+\b", story)}

    assert set() == named - set(explanations())


def test_the_error_of_the_network_is_the_measured_one() -> None:
    rows = [row.split("|")[2:5] for row in TRUST.read_text("utf-8").splitlines() if re.match(r"\| \d+ flits", row)]
    story = " ".join(topics()["network"].story.split())

    assert rows
    for row in rows:
        assert ", ".join(cell.strip() for cell in row) in story


def test_the_figures_of_hbm_are_those_of_the_code() -> None:
    story = topics()["hbm"].story
    hbm = load_topology("ahbm_4x4").spec.cube.hbm

    for figure in (
        f"accesses of {access_eval.ACCESS_BYTES} bytes",
        f"at least {access_eval.PAGE_MINIMUM_BYTES} bytes for each page of {access_eval.PAGE_BYTES}",
        f"= {hbm.bw_gbs} GB/s by default",
        f"{hbm.overhead_ns} ns",
    ):
        assert figure in " ".join(story.split()), figure


def test_the_figures_of_engines_are_those_of_the_default_topology() -> None:
    pe = load_topology("ahbm_4x4").spec.pe

    assert f"{pe.pe_math.startup_cycles} + ⌈n / {pe.pe_math.lanes}⌉" in topics()["math"].story
    cost = pe.pe_cpu.dispatch
    assert f"{cost.fixed_ns} ns and {cost.bytes_per_ns} bytes" in topics()["dispatch"].story


def test_keys_of_topologies_that_stories_name_exist() -> None:
    text = (data_dir("topologies") / "ahbm_4x4.yaml").read_text("utf-8")
    for topic in topics().values():
        for _, key in re.findall(r"`(pe_gemm|pe_cpu|tcm|dispatch|pe_scheduler|cube\.hbm)\.(\w+)", topic.story):
            assert f"{key}:" in text, (topic.name, key)
