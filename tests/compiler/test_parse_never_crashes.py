"""Mutated texts: a tree that Python agrees with and that prints back, or diagnostics; nothing else."""

from __future__ import annotations

import ast as python_ast
import re
import warnings
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.compiler.ast_printer import print_ast, unparse
from kernbench.compiler.parse import parse
from kernbench.compiler.source import SourceText
from kernbench.data_files import data_dir
from kernbench.diagnostics import KernBenchError
from tests.compiler.syntax_help import WHOLE, source, tree

KERNELS = sorted(data_dir("kernels").glob("*.tl"))
TEXTS = [WHOLE, *(path.read_text(encoding="utf-8") for path in KERNELS)]
WORDS = [re.findall(r"\w+|[^\w\s]+|\s+", text) for text in TEXTS]
FOREIGN = [
    "(", ")", "[", "]", "{", "}", ":", ",", "=", "==", "\n", "    ", "\t", "\\", "\\\n", "'", '"', '"""', "#",
    "f'{a!r:>{b}}'", "if", "else", "for", "in", "not", "is", "lambda", "*", "**", "def", "@", "0", "1.", "1e", "0x",
    "012", "1_0", "None", ";", "...", "->", ":=", "\r", "\f", "é", "\0", "\ufeff", "await", "elif", "return", "1if",
    "pass", "with", "as", "import a\n", "from", "class", "+=", "!", "~", "x: int\n", "b''", "rb'a'", "1j", "try:\n",
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """One of the texts with a few words dropped, added, doubled or replaced."""
    words = list(draw(st.sampled_from(WORDS)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(words) - 1))
        count = draw(st.sampled_from((0, 0, 1, 1, 5)))
        words[place : place + count] = draw(
            st.sampled_from(([], [draw(st.sampled_from(FOREIGN))], words[place : place + 2]))
        )
        words = words or [""]
    return "".join(words)


def check(text: str) -> None:
    try:
        module = parse(source(text))
    except KernBenchError as error:
        assert error.diagnostics and error.render()
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        python_ast.parse(text.removeprefix("\ufeff"))
    assert print_ast(module) == tree(unparse(module))


@settings(max_examples=150, deadline=None)
@given(mutated())
def test_mutated_kernels(text: str) -> None:
    check(text)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    check(text)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*FOREIGN, "a", " ", "+", "x[", "f("]), max_size=25).map("".join))
def test_any_words_in_a_kernel(text: str) -> None:
    check("@jit\ndef k(a):\n    x = " + text)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes(raw: bytes) -> None:
    try:
        read = SourceText.from_bytes("k.tl", raw)
    except KernBenchError as error:
        assert ["E_SOURCE_ENCODING"] == [found.code for found in error.diagnostics]
        return
    assert "\r" not in read.text
    check(read.text)


def test_the_shipped_kernels_print_back() -> None:
    for path in KERNELS:
        module = parse(SourceText.read(Path(path)))
        assert print_ast(module) == tree(unparse(module))
