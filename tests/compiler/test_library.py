"""Helpers that kernels import from the library that comes with the package."""

from __future__ import annotations

import pytest

from kernbench.compiler.elaborate import elaborate
from kernbench.compiler.library import library_names, read_library
from kernbench.compiler.parse import parse
from kernbench.compiler.source import SourceText
from kernbench.compiler.typed_printer import print_residual
from kernbench.diagnostics import Diagnostic, Sink

HEAD = "import triton\nimport kernbench.language as tl\n"


def attempt(imports: str, body: str) -> tuple[str, list[Diagnostic]]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    source = SourceText.from_text("k.tl", f"{HEAD}{imports}\n\n@triton.jit\ndef k(x, n):\n{lines}")
    sink = Sink()
    residual = elaborate(parse(source), source, None, {}, {"x": "*fp32", "n": "i32"}, sink)
    return ("" if residual is None else print_residual(residual)), sink.diagnostics


@pytest.mark.parametrize("name", library_names())
def test_every_file_of_the_library_is_a_kernel_file_with_a_docstring(name: str) -> None:
    found = read_library(name)

    assert found is not None
    assert found[0].docstring and all(function.body for function in found[0].functions)


def test_a_helper_is_inlined_under_any_name() -> None:
    body = "first, behind = {}(n, 4, tl.pe_index())\ntl.store(x + first, 1.0)"
    one, wrong = attempt("from kernbench.lib.split import part", body.format("part"))
    other, _ = attempt("from kernbench.lib.split import part as share", body.format("share"))
    star, _ = attempt("from kernbench.lib.split import *", body.format("part"))

    assert wrong == []
    assert one.replace("part", "") == other.replace("share", "").replace("part", "")
    assert one == star


def test_a_helper_sees_the_names_of_its_own_file() -> None:
    """`tree_merge` calls `merge`, which the importing file binds to something else."""
    body = """merge = n
m = tl.full((4,), 0.0, tl.float32)
m, l, o = tree_merge(m, m, tl.zeros((4, 8), tl.float32), merge, 2)
tl.store(x + tl.arange(0, 4), m)"""
    text, wrong = attempt("from kernbench.lib.attention import tree_merge", body)

    assert (wrong, "recv" in text) == ([], True)


@pytest.mark.parametrize(
    ("imports", "message", "help"),
    [
        ("from kernbench.lib.splits import part", "the library of helpers has no file `splits`", "`split`"),
        ("from kernbench.lib.split import parts as part", "`kernbench.lib.split` has no `parts`", "`part`"),
        ("from kernbench.lib.split import triton as part", "`kernbench.lib.split` has no `triton`", None),
        ("from kernbench.lib.sub.split import part", "the library of helpers has no file `sub.split`", None),
    ],
)
def test_what_is_not_there_is_told_where_it_is_imported(imports: str, message: str, help: str | None) -> None:
    _, wrong = attempt(imports, "first, behind = part(n, 4, 0)\ntl.store(x + first, 1.0)")

    assert message in wrong[0].message
    assert help is None or help in (wrong[0].help or "")


def test_a_mistake_inside_a_helper_shows_its_line_and_the_call() -> None:
    _, (error,) = attempt("from kernbench.lib.collectives import exchange", "y = exchange(n, 1)")
    assert error.primary is not None

    assert error.code == "E_BLOCK_EXPECTED"
    assert (error.primary.span.file, error.primary.source.strip()) == (
        "kernbench.lib.collectives",
        "tl.send(x, to=other)",
    )
    assert [label.span.file for label in error.secondary] == ["k.tl"]
