"""What a person reads of a mistake: places, marks, advice; and what programs read of it."""

from __future__ import annotations

import pytest

from kernbench.diagnostics import (
    EXIT_USAGE,
    Diagnostic,
    KernBenchError,
    Label,
    Sink,
    Span,
    did_you_mean,
    nearest,
)

PLACE = Label(Span("k.tl", 3, 9, 3, 16), "needs 262144 bytes, 196608 are free", "    a = tl.load(a_ptr + offs)")
FULL = Diagnostic(
    "E_TCM_FULL",
    "tile does not fit in TCM",
    PLACE,
    (Label(Span("helpers.tl", 120, 1, 120, 4), "asked for here", "for i in range(4):"),),
    help="a tile of at most 256x384 fits",
    path="args[0].shape",
    notes=("0..4096 x", "4096..8192 y"),
)


def test_a_diagnostic_shows_place_marks_notes_and_help() -> None:
    expected = """\
error[E_TCM_FULL]: tile does not fit in TCM
   --> k.tl:3:9
    |
  3 |     a = tl.load(a_ptr + offs)
    |         ^^^^^^^ needs 262144 bytes, 196608 are free
   ::: helpers.tl:120:1
    |
120 | for i in range(4):
    | --- asked for here
    = at: args[0].shape
    = note: 0..4096 x
    = note: 4096..8192 y
    = help: a tile of at most 256x384 fits"""

    assert expected == FULL.render()


@pytest.mark.parametrize(
    ("span", "source", "marks"),
    [
        (Span("f", 1, 1, 1, 1), "abc", "^"),  # nothing is one place
        (Span("f", 1, 3, 1, 4), "abc", "  ^"),
        (Span("f", 1, 4, 1, 4), "abc", "   ^"),  # the end of the line
        (Span("f", 1, 2, 1, 99), "abc", " ^^"),  # not beyond the line
        (Span("f", 1, 2, 3, 2), "abc", " ^^"),  # of several lines the first is shown
        (Span("f", 1, 2, 1, 3), "\tx", " ^"),  # a tab takes one column, as columns are counted
    ],
)
def test_marks_stand_under_the_span(span: Span, source: str, marks: str) -> None:
    lines = Diagnostic("E_X", "m", Label(span, "", source)).render().splitlines()

    assert f"  | {marks}" == lines[-1]
    assert "\t" not in lines[-2]


@pytest.mark.parametrize("column", [1, 7, 3000, 5900, 6000])
def test_of_a_long_line_only_what_lies_around_the_span_is_shown(column: int) -> None:
    source = "".join(chr(ord("a") + index % 26) for index in range(6000))
    lines = Diagnostic("E_X", "m", Label(Span("f", 1, column, 1, column + 3), "", source)).render().splitlines()

    marked = lines[-2][lines[-1].index("^") : len(lines[-1])]
    assert source[column - 1 : column + 2] == marked
    assert max(map(len, lines)) < 220


def test_marks_of_a_long_span_end_with_what_is_shown() -> None:
    lines = Diagnostic("E_X", "m", Label(Span("f", 1, 5, 1, 9000), "", "x" * 9000)).render().splitlines()

    assert len(lines[-1]) <= len(lines[-2]) < 220


def test_a_source_sends_nothing_to_the_terminal_but_letters() -> None:
    found = Diagnostic("E_X", "m", Label(Span("f", 1, 1, 1, 2), "", "a\x1b[2Jb\x07\r")).render()

    assert not {"\x1b", "\x07", "\r"} & set(found)


def test_a_place_without_its_text_is_still_told() -> None:
    found = Diagnostic("E_X", "message", Label(Span("f.yaml", 7, 1, 7, 2), "this key")).render()

    assert "error[E_X]: message\n --> f.yaml:7:1\n  = this key" == found


def test_severity_is_the_first_word() -> None:
    assert "warning[W_X]: m" == Diagnostic("W_X", "m", severity="warning").render()


def test_a_program_gets_stable_keys() -> None:
    assert {
        "code": "E_TCM_FULL",
        "severity": "error",
        "message": "tile does not fit in TCM",
        "place": "k.tl:3:9",
        "path": "args[0].shape",
        "help": "a tile of at most 256x384 fits",
    } == FULL.to_json()
    assert None is Diagnostic("E_X", "m").to_json()["place"]


def test_an_error_carries_all_its_diagnostics_and_the_run() -> None:
    error = KernBenchError(iter([FULL, Diagnostic("E_X", "m")]), 4, run="partial")

    assert ("E_TCM_FULL", "E_X") == tuple(each.code for each in error.diagnostics)
    assert f"{FULL.render()}\n\nerror[E_X]: m" == str(error)
    assert (4, "partial") == (error.exit_code, error.run)


def test_a_usage_error_exits_2() -> None:
    error = KernBenchError.usage("E_OPTION", "no option `--x`", help="did you mean `--y`?")

    assert (EXIT_USAGE, "did you mean `--y`?") == (error.exit_code, error.diagnostics[0].help)


def test_a_sink_keeps_order_drops_repeats_and_tells_errors_apart() -> None:
    sink = Sink()
    first, second = Diagnostic("E_B", "m"), Diagnostic("W_A", "m", severity="warning")
    for each in (first, second, Diagnostic("E_B", "m")):
        sink.add(each)

    assert [first, second] == sink.diagnostics
    assert [first] == sink.errors


def test_the_nearest_name_does_not_depend_on_the_order_of_names() -> None:
    assert "bandwidth_gbps" == nearest("bandwith_gbps", {"latency_ns", "bandwidth_gbps"})
    assert nearest("ab", ["aa", "bb"]) == nearest("ab", ["bb", "aa"])
    assert None is nearest("qqq", ["bandwidth"])


def test_advice_names_the_nearest_or_all() -> None:
    assert "did you mean `sum`?" == did_you_mean("sun", ["max", "sum"], "functions")
    assert "functions are max, sum" == did_you_mean("qqq", ["sum", "max"], "functions")
    assert "there are no functions" == did_you_mean("x", [], "functions")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("tahn", "tanh"),
        ("lod", "load"),
        ("exq", "exp"),
        ("stroe", "store"),
        ("BLOCK_SZIE", "BLOCK_SIZE"),
        ("zzz", None),
    ],
)
def test_the_nearest_name_is_the_one_that_the_hand_meant(name: str, meant: str | None) -> None:
    known = ["tan", "tanh", "log", "load", "exp", "exp2", "store", "sort", "BLOCK", "BLOCK_SIZE"]

    assert meant == nearest(name, known)
