"""Line ends, indentation, comments, brackets, backslashes, and how deep a text may go."""

from __future__ import annotations

import ast as python_ast

import pytest

from kernbench.compiler.ast_printer import print_ast
from kernbench.compiler.lalr import MAX_DEPTH
from kernbench.compiler.lexer import MAX_BLOCKS, MAX_BRACKETS
from kernbench.compiler.parse import parse
from kernbench.compiler.source import MAX_BYTES, SourceText
from kernbench.diagnostics import KernBenchError
from tests.compiler.syntax_help import WHOLE, errors, kernel, module, shown, tree

SMALL = "@jit\ndef k(a):\n    if a:\n        b = 1\n    return b\n"


@pytest.mark.parametrize(
    "text",
    [
        SMALL.replace("    return b\n", "# end"),  # a comment at column 0 as the last line, without a line end
        SMALL.removesuffix("\n"),
        SMALL + "   ",
        SMALL + "# end",
        SMALL + "        # end\n",
        SMALL.replace("        b", "# middle\n            # deeper\n\n        b"),
        SMALL.replace("    if", "\f    if"),
        SMALL.replace("    ", "\t"),
        SMALL.replace("    ", " "),
        SMALL.replace("b = 1", "b = (1 +\n# inside\n\n1)"),
        SMALL.replace("b = 1", "b = \\\n1"),
        SMALL.replace("b = 1", "b = 1 \\\n\n"),
        SMALL.replace("b = 1", "b = 1; c = 2;"),
        SMALL.replace("\n        b", " b"),
        "\n\n  \n" + SMALL,
        "# -*- coding: utf-8 -*-\n" + SMALL,
        "\ufeff" + SMALL,
    ],
)
def test_layouts_that_python_reads_are_read(text: str) -> None:
    python_ast.parse(text.removeprefix("\ufeff"))

    (function,) = module(text).functions
    assert function.body


@pytest.mark.parametrize(("end", "every"), [("\r\n", 1), ("\r\n", 2), ("\r", 1)])
def test_line_ends_change_neither_tree_nor_places(end: str, every: int) -> None:
    lines = WHOLE.split("\n")
    mixed = "".join(line + (end if number % every == 0 else "\n") for number, line in enumerate(lines[:-1]))

    assert print_ast(module(WHOLE), places=True) == print_ast(module(mixed), places=True)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_do_not_move_errors(end: str) -> None:
    assert ["E_SYNTAX 4:10 expected an expression, found the end of the line"] == shown(
        kernel("x = 1\ny = (").replace("y = (", "y = +").replace("\n", end)
    )


def test_a_byte_order_mark_shifts_nothing() -> None:
    source = SourceText.from_bytes("k.tl", b"\xef\xbb\xbfA = +\n")

    with pytest.raises(KernBenchError) as caught:
        parse(source)
    primary = caught.value.diagnostics[0].primary
    assert primary is not None
    assert (1, 6, "A = +") == (primary.span.line, primary.span.column, primary.source)


@pytest.mark.parametrize(
    ("raw", "message", "column"),
    [
        (b"A = 1\nB\xff = 2\n", "byte 0xff is not UTF-8", 2),
        (b"A = 1\n\xc3", "byte 0xc3 is not UTF-8", 1),
        (b"A = 1\nB\x00 = 2\n", "the text holds a NUL character", 2),
        ("A = 1\nB \ufeff= 2\n".encode(), "the text holds a byte-order mark after the file's beginning", 3),
        (b"\xff\xfeA\x00", "byte 0xff is not UTF-8", 1),
    ],
)
def test_bytes_that_are_no_text(raw: bytes, message: str, column: int) -> None:
    with pytest.raises(KernBenchError) as caught:
        SourceText.from_bytes("k.tl", raw)

    (found,) = caught.value.diagnostics
    assert ("E_SOURCE_ENCODING", message) == (found.code, found.message)
    assert found.primary is not None and column == found.primary.span.column


def test_a_file_may_not_be_too_large() -> None:
    with pytest.raises(KernBenchError) as caught:
        SourceText.from_bytes("k.tl", b"#" * (MAX_BYTES + 1))

    assert "E_SOURCE_TOO_LARGE" == caught.value.diagnostics[0].code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if a:\nb = 1", "4:5 expected an indented block"),
        ("if a:", "3:10 expected an indented block"),
        ("b = 1\n  c = 2\nd = 3", "4:7 this line is indented, but no block begins here"),
        ("if a:\n    b = 1\n  c = 2", "5:7 this line is indented like no block around it"),
        ("if a:\n\tb = 1\n    c = 2", "5:9 tabs and spaces do not line up with the lines around"),
        ("if a:\n    b = 1\n\t\tc = 2", "5:7 tabs and spaces do not line up with the lines around"),
    ],
)
def test_wrong_indentation(text: str, expected: str) -> None:
    with pytest.raises(SyntaxError):
        python_ast.parse(kernel(text))

    assert [f"E_INDENTATION {expected}"] == shown(kernel(text))


@pytest.mark.parametrize("text", ["A = 1 \\", "A = 1 \\\n", "\\\nA = 1\n", "A = \\ 1\n", "A = 1\\ \n"])
def test_backslashes_that_join_nothing(text: str) -> None:
    assert ["E_SYNTAX"] == [found.code for found in errors(text)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = " + "(" * 1000 + "a" + ")" * 1000, f"brackets are nested deeper than {MAX_BRACKETS} levels"),
        ("x = " + "[" * 200_000, f"brackets are nested deeper than {MAX_BRACKETS} levels"),
        ("x = " + "-" * 1000 + "a", f"expressions and blocks are nested deeper than {MAX_DEPTH} levels"),
        ("x = " + "a ** " * 1000 + "a", f"expressions and blocks are nested deeper than {MAX_DEPTH} levels"),
        ("x = " + "a + " * 2000 + "a", f"expressions and blocks are nested deeper than {MAX_DEPTH} levels"),
        ("x = a" + ".b" * 1000, f"expressions and blocks are nested deeper than {MAX_DEPTH} levels"),
        ("x = a" + " if a else a" * 1000, f"expressions and blocks are nested deeper than {MAX_DEPTH} levels"),
        ("if a: pass\n" + "elif a: pass\n" * 300, f"expressions and blocks are nested deeper than {MAX_DEPTH} levels"),
        (
            "\n".join("    " * level + "if a:" for level in range(300)) + "\n" + "    " * 300 + "pass",
            f"blocks are nested deeper than {MAX_BLOCKS} levels",
        ),
    ],
)  # fmt: skip
def test_nesting_has_a_limit(text: str, message: str) -> None:
    found = errors(kernel(text))

    assert [("E_NESTING_TOO_DEEP", message)] == [(d.code, d.message) for d in found]
    assert found[0].primary is not None and found[0].primary.span.line >= 3


def test_what_is_long_but_not_deep_is_read() -> None:
    text = kernel(f"x = ({' or '.join('a' * 2000)})\ny = [{'a, ' * 5000}]\nz = f({'a, ' * 2000})\n" + "a = 1\n" * 2000)

    assert 2003 == len(module(text).functions[0].body)


def test_nesting_up_to_the_limit_is_read() -> None:
    sum_of = kernel("x = " + " + ".join("a" * 90))
    brackets = kernel("x = " + "(" * 90 + "a" + ")" * 90)

    assert tree(sum_of) and tree(brackets)


@pytest.mark.parametrize(
    "word", ["1" * 200_000, "1_" * 100_000, "." + "1" * 200_000, "a" * 200_000 + "'", "'" + "\\'" * 100_000]
)
def test_long_words_are_read_in_one_go(word: str) -> None:
    """A pattern that goes back and forth would take minutes here."""
    text = f"A = {word}\n"

    assert ("." in word) == (not _fails(text))


def _fails(text: str) -> bool:
    try:
        parse(SourceText.from_text("k.tl", text))
    except KernBenchError:
        return True
    return False
