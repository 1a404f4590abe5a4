"""What `kernbench list functions` shows: every function with a sentence that says what it does."""

from __future__ import annotations

from kernbench.compiler.builtins import BUILTINS
from kernbench.report.function_signatures import function_rows


def test_every_function_says_what_it_does_in_one_sentence() -> None:
    rows = function_rows()

    assert [] == [row["name"] for row in rows if len(row["doc"].split()) < 1 or not row["doc"].endswith(".")]
    assert len(BUILTINS) - len(rows) < 20  # only a few are the compiler's own


def test_a_function_of_one_micro_op_has_the_words_of_its_table() -> None:
    docs = {row["name"].partition("(")[0]: row["doc"] for row in function_rows()}

    assert ("e to the x.", "Hyperbolic tangent.") == (docs["tl.exp"], docs["tl.tanh"])
    assert "Nearest integer, ties to even, as int64." == docs["libdevice.llrint"]
    assert "Remainder with the dividend's sign, in the type of its floats." == docs["libdevice.fmod"]
