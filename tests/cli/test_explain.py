"""`kernbench explain` as a person meets it."""

from __future__ import annotations

import json

import pytest

from kernbench.cli.main import main
from kernbench.explain.index import SUBJECTS, metrics, topics

Capture = pytest.CaptureFixture[str]


def said(capsys: Capture, *argv: str) -> str:
    assert 0 == main(["explain", *argv])
    return capsys.readouterr().out


def test_a_code_is_told_with_both_examples_and_what_the_diagnostic_says(capsys: Capture) -> None:
    text = said(capsys, "E_TWO_GEMMS")

    order = ["E_TWO_GEMMS: ", "Wrong:", '{"op": "gemm", "b": b}', "It says: the composite has 2 gemms", "Right:"]
    places = [text.index(part) for part in order]
    assert sorted(places) == places
    assert '$ kernbench compile k.tl --signature "a_ptr=*fp16' in text


def test_a_code_without_an_example_says_why(capsys: Capture) -> None:
    assert "There is no example: " in said(capsys, "E_INTERNAL")


def test_codes_may_be_written_small(capsys: Capture) -> None:
    assert said(capsys, "e_syntax").startswith("E_SYNTAX: ")


@pytest.mark.parametrize("name", [*topics(), *metrics()])
def test_topics_and_metrics_are_told_in_lines_that_fit(capsys: Capture, name: str) -> None:
    lines = said(capsys, name).splitlines()

    assert lines[0].startswith(name)
    assert [] == [line for line in lines if len(line) > 100]


def test_a_topic_keeps_its_paragraphs(capsys: Capture) -> None:
    lines = said(capsys, "network").splitlines()

    listed = [index for index, line in enumerate(lines) if line.startswith("- ")]
    assert len(listed) >= 3
    assert "" in lines[listed[-1] :]


def test_a_metric_that_has_a_topic_tells_the_topic(capsys: Capture) -> None:
    assert said(capsys, "bound_by").startswith(f"bound_by: {topics()['bound_by'].title}")


@pytest.mark.parametrize(("word", "near"), [("netwrok", "network"), ("E_TWO_GEMM", "E_TWO_GEMMS"), ("e_synt", "E_S")])
def test_an_unknown_word_exits_2_with_the_nearest(capsys: Capture, word: str, near: str) -> None:
    assert 2 == main(["explain", word])
    told = capsys.readouterr().err
    assert "E_EXPLAIN_WHAT" in told
    assert f"did you mean `{near}" in told


def test_a_word_near_nothing_leads_to_the_list(capsys: Capture) -> None:
    assert 2 == main(["explain", "zzzz"])
    assert "`kernbench explain` lists" in capsys.readouterr().err


def test_without_a_word_everything_is_listed(capsys: Capture) -> None:
    words = said(capsys).split()

    assert set() == {*topics(), *metrics()} - set(words)
    assert set() == {entry.code for entries in SUBJECTS.values() for entry in entries} - set(words)


def test_json_has_the_same_parts(capsys: Capture) -> None:
    code = json.loads(said(capsys, "E_TWO_GEMMS", "--json"))
    assert ("kernbench.explain/1", "error") == (code["schema"], code["kind"])
    assert {"name", "title", "story", "wrong", "says", "right"} <= set(code)

    topic = json.loads(said(capsys, "hbm", "--json"))
    assert ("hbm", "topic") == (topic["name"], topic["kind"])

    listed = json.loads(said(capsys, "--json"))
    assert list(topics()) == listed["topics"]
    assert set(SUBJECTS) == set(listed["errors"])
