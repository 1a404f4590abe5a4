"""YAML as a hostile text: exact numbers, places for everything, surprises refused."""

from __future__ import annotations

import time
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.diagnostics import EXIT_INPUT, KernBenchError
from kernbench.yaml_source import YAML_ERRORS, merge, read_yaml, read_yaml_file


def faults(text: str) -> list[tuple[str, int, str | None]]:
    """(code, line, key path) of each."""
    with pytest.raises(KernBenchError) as caught:
        read_yaml(text, "f.yaml")
    assert EXIT_INPUT == caught.value.exit_code
    assert {d.code for d in caught.value.diagnostics} <= set(YAML_ERRORS)
    return [(d.code, d.primary.span.line if d.primary else 0, d.path) for d in caught.value.diagnostics]


@pytest.mark.parametrize("text", ["1e9", "1e+9", "1.0e9", "1.0e+9"])
def test_exponents_are_numbers_however_written(text: str) -> None:
    """FC-SC02."""
    assert {"a": Decimal(10**9)} == read_yaml(f"a: {text}", "f.yaml").plain()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("48.1", Decimal("48.1")),
        ("0.1", Decimal("0.1")),
        ("-3", -3),
        ("0x10", 16),
        ("3221225472", 3221225472),
        ("true", True),
        ("null", None),
        ("N", "N"),
        ("2001-01-01", "2001-01-01"),
        ("'010'", "010"),
        ('"no"', "no"),
        ("r1c0", "r1c0"),
    ],
)
def test_values(text: str, value: object) -> None:
    found = read_yaml(f"a: {text}", "f.yaml").plain()["a"]

    assert value == found
    assert type(value) is type(found)


@pytest.mark.parametrize(
    "text",
    ["yes", "no", "on", "Off", "TRUE", "08", "010", "0100", "00.5", "0o17", "0b1", "1:30", "1_000", ".inf", ".nan"],
)
def test_what_readers_take_differently_is_refused(text: str) -> None:
    """FC-SC03 and the kind of it."""
    assert [("E_YAML_AMBIGUOUS", 2, "b.c")] == faults(f"b:\n  c: {text}\n")


def test_a_repeated_key_names_both_lines() -> None:
    """FC-SC01."""
    with pytest.raises(KernBenchError) as caught:
        read_yaml("node:\n  bw_gbs: 1\n  x: 2\n  bw_gbs: 3\n", "f.yaml")
    (only,) = caught.value.diagnostics

    assert "key `bw_gbs` stands twice, at lines 2 and 4" == only.message
    assert "node.bw_gbs" == only.path


def test_all_faults_of_a_text_are_told_at_once() -> None:
    text = "a: &x 1\nb: *x\nc: !!python/object/apply:os.system [echo]\n<<: {d: 1}\ne:\nf: no\n"

    assert [
        ("E_YAML_FEATURE", 1, "a"),
        ("E_YAML_FEATURE", 2, "b"),
        ("E_YAML_FEATURE", 3, "c"),
        ("E_YAML_FEATURE", 4, None),
        ("E_YAML_EMPTY", 5, "e"),
        ("E_YAML_AMBIGUOUS", 6, "f"),
    ] == faults(text)


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    """FC-SC05."""
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    start = time.monotonic()

    assert {"E_YAML_FEATURE"} == {code for code, _, _ in faults("\n".join(lines))}
    assert time.monotonic() - start < 1


@pytest.mark.parametrize(
    ("text", "help"),
    [
        ("a:\n\tb: 1\n", "indent with spaces, not with tabs"),
        ("a: {b: zeros([n, m])}\n", 'a text with brackets in it is quoted, as in "zeros([n, m])"'),
        ("a: {b: 1\n", None),
    ],
)
def test_what_helps_against_a_text_that_is_not_yaml(text: str, help: str | None) -> None:
    with pytest.raises(KernBenchError) as caught:
        read_yaml(text, "f.yaml")

    assert [help] == [found.help for found in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("E_YAML_EMPTY", 0, None)),
        ("# only a comment\n", ("E_YAML_EMPTY", 0, None)),
        ("---\n", ("E_YAML_EMPTY", 2, None)),
        ("a: 1\n---\nb: 2\n", ("E_YAML_DOCUMENTS", 2, None)),
        ("a:\n\tb: 1\n", ("E_YAML_SYNTAX", 2, None)),
        ("a: [1\n", ("E_YAML_SYNTAX", 2, None)),
        ("a: \x01\n", ("E_YAML_SYNTAX", 1, None)),
        ("? [1]\n: 2\n", ("E_YAML_KEY", 1, None)),
        ("a: 0.1234567890123456789\n", ("E_YAML_NUMBER", 1, "a")),
        ("a: 1e99\n", ("E_YAML_NUMBER", 1, "a")),
        ("[" * 100, ("E_YAML_SIZE", 1, "[0]" * 24)),
        ("a: 1\n" * (1 << 18), ("E_YAML_SIZE", 0, None)),
    ],
)
def test_texts_that_are_no_document(text: str, expected: tuple[str, int, str | None]) -> None:
    """FC-SC06 and its kind."""
    assert expected == faults(text)[0]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: caf\xe9\n")
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")

    with pytest.raises(KernBenchError, match="2:7"):
        read_yaml_file(tmp_path / "latin.yaml", "latin.yaml")
    with pytest.raises(KernBenchError, match=r"cannot read `gone\.yaml`: no such file"):
        read_yaml_file(tmp_path / "gone.yaml", "gone.yaml")
    with pytest.raises(KernBenchError, match="cannot read"):
        read_yaml_file(tmp_path, "folder")
    assert {"a": 1, "b": 2} == read_yaml_file(tmp_path / "bom.yaml").plain()


def test_places_and_paths() -> None:
    root = read_yaml("io:\n  - {ep: 1}\n  - {ep: 22}\n", "f.yaml")
    (_, second) = root.value["io"].elements()  # type: ignore[index,call-overload,union-attr]
    node = second.get("ep")

    assert node is not None
    assert ("f.yaml:3:10", "io[1].ep", "  - {ep: 22}") == (str(node.span), node.path, node.line)


def test_merging_keeps_the_place_of_each_value() -> None:
    base = read_yaml("a: {x: 1, y: [1, 2]}\nb: 2\n", "base.yaml")
    merged = merge(base, read_yaml("a: {y: [3]}\nc: 4\n", "over.yaml"))
    inner = merged.get("a")

    assert {"a": {"x": 1, "y": [3]}, "b": 2, "c": 4} == merged.plain()
    assert inner is not None
    assert ["base.yaml", "over.yaml"] == [node.span.file for _, node in inner.items()]


@given(st.text(alphabet="ab:-[]{},&*!#|>'\"%@`? \n\t0123.e~<", max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_ends_in_a_tree_or_in_diagnostics(text: str) -> None:
    try:
        read_yaml(text, "f.yaml").plain()
    except KernBenchError as error:
        assert error.diagnostics
        assert error.render()
