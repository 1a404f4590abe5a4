"""Field cases of the language that show in values: the same in data mode, in timing mode and folded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kernbench.diagnostics import EXIT_INPUT, EXIT_KERNEL
from tests.kernels.running import HEAD, codes, kernel, run

f32 = np.float32


def stored(text: str, count: int = 4, **args: Any) -> list[float]:
    """What a kernel stores to `out`."""
    constexprs = {name: args.pop(name) for name in list(args) if name.isupper()}
    return run(kernel(text, **constexprs), out=np.full(count, -1, f32), **args)["out"].tolist()


def both(text: str, count: int = 4, **values: int) -> list[float]:
    """The same with its parameters at run time and as constexprs; they must agree."""
    folded = text
    for name in values:
        folded = folded.replace(f", {name}", f", {name}: tl.constexpr", 1)
    found = stored(text, count, **values)
    assert found == run(kernel(folded, **values), out=np.full(count, -1, f32))["out"].tolist()
    return found


@pytest.mark.parametrize("text", ["    v = 1.0\n    # end", "    v = 1.0\n# end", "    v = 1.0\n  # end\n"])
def test_a_comment_at_the_end_of_the_file(text: str) -> None:
    """FC-LA02: after an indented body, at any column, with or without a last newline."""
    source = f"@triton.jit\ndef k(out, n):\n  v = 0.0\n  if n > 1:\n{text}"

    assert kernel(source).name == "k"
    assert [1.0] == stored(source.replace("# end", "# end\n").rstrip() + "\n  tl.store(out, v)", 1, n=2)


@pytest.mark.parametrize("end", ["\r\n", "mixed"])
def test_line_ends_and_a_byte_order_mark(end: str, tmp_path: Path) -> None:
    """FC-LA05, FC-LA07: a file of any line ends, with a mark at its start, is the same kernel at the same lines."""
    text = f"{HEAD}@triton.jit\ndef k(out, n):\n    tl.store(out, n + 1.0)\n    tl.store(out + n, 2.0)\n"
    lines = text.splitlines()
    ends = ["\r\n" if end == "\r\n" or index % 2 else "\n" for index in range(len(lines))]
    (tmp_path / "k.tl").write_bytes(b"\xef\xbb\xbf" + "".join(map("".join, zip(lines, ends, strict=True))).encode())
    made = kb.compile(tmp_path / "k.tl")

    assert [2.0, 2.0] == run(made, out=np.zeros(2, f32), n=1)["out"].tolist()
    with pytest.raises(kb.KernBenchError) as caught:
        run(made, out=np.zeros(2, f32), n=9)
    assert "k.tl:8:5" in str(caught.value)


@pytest.mark.parametrize(
    "expression",
    ["(" * 1000 + "n" + ")" * 1000, "-" * 1000 + "n", " + ".join(["n"] * 2000)],
    ids=["parentheses", "minus", "sum"],
)
def test_depth_has_a_limit_that_is_told_with_its_line(expression: str) -> None:
    """FC-LA08: deep expressions compile to the right value, or are refused with the limit and the line."""
    text = f"@triton.jit\ndef k(out, n):\n    tl.store(out, {expression})\n"
    try:
        assert [{"n": 3.0, "-": 3.0, "(": 3.0}[expression[0]] * (2000 if "+" in expression else 1)] == stored(
            text, 1, n=3
        )
    except kb.KernBenchError as error:
        assert EXIT_KERNEL == error.exit_code
        assert "E_NESTING_TOO_DEEP" in [each.code for each in error.diagnostics]
        assert ":7:" in str(error)


def test_300_nested_ifs() -> None:
    """FC-LA08: blocks too."""
    body = "".join(f"{'  ' * (depth + 1)}if n > {depth}:\n" for depth in range(300))
    text = f"@triton.jit\ndef k(out, n):\n{body}{'  ' * 301}tl.store(out, 1.0)\n"
    try:
        assert [1.0] == stored(text, 1, n=1000)
    except kb.KernBenchError as error:
        assert "E_NESTING_TOO_DEEP" in [each.code for each in error.diagnostics]


def test_a_shape_error_is_at_the_inner_operator() -> None:
    """FC-LA10: of `a + (b * d)` only the product does not fit; in a helper of a helper too."""
    text = """
@triton.jit
def inner(a, b, d):
    return a + (b * d)


@triton.jit
def k(out):
    a, b, d = tl.zeros((8,), tl.float32), tl.zeros((8,), tl.float32), tl.zeros((16,), tl.float32)
    tl.store(out + tl.arange(0, 8), inner(a, b, d))
"""
    with pytest.raises(kb.KernBenchError) as caught:
        stored(text, 8)

    assert ["E_SHAPE_MISMATCH"] == codes(caught)
    first = caught.value.diagnostics[0].primary
    assert first is not None
    assert "b * d" == first.source[first.span.column - 1 : first.span.end_column - 1].strip("()")
    assert "8" in str(caught.value) and "16" in str(caught.value)


@pytest.mark.parametrize(
    ("statement", "counts"),
    [
        ("a, b = (1, 2, 3)", ("2", "3")),
        ("a, b = (1,)", ("2", "1")),
        ("(a, b), c = ((1, 2, 3), 4)", ("2", "3")),
        ("a, *b = (1, 2, 3)", ("*",)),
    ],
)
def test_unpacking_tells_what_does_not_fit(statement: str, counts: tuple[str, ...]) -> None:
    """FC-LA12: nothing is dropped."""
    with pytest.raises(kb.KernBenchError) as caught:
        stored(f"@triton.jit\ndef k(out):\n    {statement}\n    tl.store(out, a)\n")

    assert EXIT_KERNEL == caught.value.exit_code
    assert all(count in str(caught.value) for count in counts)


def test_a_loop_variable_after_its_loop() -> None:
    """FC-LA13: Python's value; a name that was set before keeps its value where the loop has no trip."""
    text = """
@triton.jit
def k(out, n):
    i = 7
    for i in range(0, n):
        tl.store(out + 1, i)
    tl.store(out, i)
"""
    assert [3.0, 3.0] == both(text, 2, n=4)
    assert [7.0, -1.0] == both(text, 2, n=0)


def test_a_name_first_bound_in_a_block() -> None:
    """FC-LA14: right where the block surely runs, told at its use where it may not."""
    text = "@triton.jit\ndef k(out, n):\n    for _ in range(0, {trips}):\n        v = 5.0\n    tl.store(out, v)\n"

    assert [5.0] == stored(text.format(trips=1), 1, n=1)
    for may_not in (text.format(trips="n"), text.replace("for _ in range(0, {trips})", "if n > 0")):
        with pytest.raises(kb.KernBenchError) as caught:
            stored(may_not, 1, n=1)
        assert ["E_MAYBE_UNBOUND"] == codes(caught)


@pytest.mark.parametrize("stride", [1, 2])
def test_an_argument_that_is_1_is_like_any_other(stride: int) -> None:
    """FC-LA15: assigned anew in a loop, at a launch with 1 and with 2."""
    text = """
@triton.jit
def k(out, stride, other):
    at = 0
    for i in range(0, 3):
        tl.store(out + at, i)
        at += stride
        stride = other
"""
    expected = [-1.0] * 4
    for i, at in enumerate((0, stride, stride + 1)):
        expected[at] = i

    assert expected == both(text, 4, stride=stride, other=1)


def test_a_constexpr_in_an_unrolled_loop() -> None:
    """FC-LA16: annotated in each trip."""
    text = """
@triton.jit
def k(out):
    for i in tl.static_range(0, 2):
        a: tl.constexpr = 2
        tl.store(out + i, a + i)
"""
    assert [2.0, 3.0] == stored(text, 2)


def test_a_constant_over_an_argument_of_its_value_changes_nothing() -> None:
    """FC-LA17: bit for bit, for sums whose order would show."""
    text = """
@triton.jit
def k(out, x, n, N: tl.constexpr):
    at = tl.arange(0, 1024)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out, tl.sum(value / n, axis=0))
"""
    x = np.random.default_rng(3).standard_normal(1000).astype(f32)
    with_line = text.replace("    at =", "    n = 1000\n    at =")

    assert stored(text, 1, x=x, n=1000, N=1) == stored(with_line, 1, x=x, n=1000, N=1)


@pytest.mark.parametrize("bits", range(8))
def test_boolean_chains(bits: int) -> None:
    """FC-LA19: `or` and `and` of run-time scalars, and `is not None` that keeps its right side unread."""
    text = """
@triton.jit
def k(out, a, b, c, x):
    if a or b or c:
        tl.store(out, 1.0)
    if a and b and c:
        tl.store(out + 1, 1.0)
    if not a or b:
        tl.store(out + 2, 1.0)
    if (x is not None) and x.dtype == tl.float32:
        tl.store(out + 3, 1.0)
"""
    a, b, c = (bool(bits >> k & 1) for k in range(3))
    expected = [1.0 if true else -1.0 for true in (a or b or c, a and b and c, not a or b, False)]

    assert expected == stored(text, 4, a=int(a), b=int(b), c=int(c), x=None)


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("tl.arange(0, 0)", ("0",)),
        ("tl.arange(5, 5)", ("5",)),
        ("tl.arange(8, 4)", ("8", "4")),
        ("tl.zeros((0,), tl.float32)", ("0",)),
        ("tl.zeros((4, 0), tl.float32)", ("0",)),
        ("tl.zeros((-4,), tl.float32)", ("-4",)),
    ],
)
def test_blocks_of_no_element(block: str, told: tuple[str, ...]) -> None:
    """FC-LA22: refused at compile time with the value."""
    with pytest.raises(kb.KernBenchError) as caught:
        stored(f"@triton.jit\ndef k(out):\n    value = {block}\n    tl.store(out, 1.0)\n")

    assert EXIT_KERNEL == caught.value.exit_code
    assert all(value in str(caught.value) for value in told)


def test_a_block_of_200_where_a_power_of_two_is_required(tmp_path: Path) -> None:
    """FC-LA22: Triton's rule holds in a `.py` file; a `.tl` kernel may use any size."""
    text = f"{HEAD}@triton.jit\ndef k(out):\n    tl.store(out + tl.arange(0, 200), 1.0)\n"
    for ending in ("py", "tl"):
        (tmp_path / f"k.{ending}").write_text(text, encoding="utf-8")

    assert {1.0} == set(run(kb.compile(tmp_path / "k.tl"), out=np.zeros(200, f32))["out"].tolist())
    with pytest.raises(kb.KernBenchError) as caught:
        run(kb.compile(tmp_path / "k.py"), out=np.zeros(200, f32))
    assert EXIT_KERNEL == caught.value.exit_code
    assert "200" in str(caught.value) and "power of two" in str(caught.value)


def test_a_run_time_number_where_a_constexpr_is_needed() -> None:
    """FC-LA23: told by its name."""
    with pytest.raises(kb.KernBenchError) as caught:
        stored("@triton.jit\ndef k(out, n):\n    tl.store(out + tl.arange(0, n), 1.0)\n", n=4)

    assert ["E_CONSTEXPR_NEEDED"] == codes(caught)
    assert "`n`" in str(caught.value) and "constexpr" in str(caught.value)


CONSTANT = "SHIFT: tl.constexpr = {value}\n\n\n@triton.jit\ndef k(out):\n    tl.store(out, SHIFT)\n"


def test_a_module_constant_that_changes(tmp_path: Path) -> None:
    """FC-LA24: 123, then 124 in the same process, and again in processes of their own."""
    path, found = tmp_path / "k.tl", []
    program = "import sys, numpy, kernbench; k = kernbench.compile(sys.argv[1]); print(int(kernbench.open('ahbm_1x1').run(k, out=numpy.zeros(1, 'f4'), grid=1)['out'][0]))"  # noqa: E501
    for value in (123, 124):
        path.write_text(HEAD + CONSTANT.format(value=value), encoding="utf-8")
        found.append(int(run(kb.compile(path), out=np.zeros(1, f32))["out"][0]))
        outside = subprocess.run(
            [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True, env={**os.environ}
        )
        found.append(int(outside.stdout))

    assert [123, 123, 124, 124] == found


@pytest.mark.parametrize("grid", [4, [4], (4,), (4, 1), (4, 1, 1), np.int64(4)], ids=str)
def test_a_grid_may_be_a_number_a_list_or_a_tuple(grid: Any) -> None:
    """FC-LA26"""
    text = "@triton.jit\ndef k(out):\n    tl.store(out + tl.program_id(0), tl.num_programs(0))\n"

    assert [4.0] * 4 == run(text, grid=grid, out=np.zeros(4, f32))["out"].tolist()


@pytest.mark.parametrize("grid", [(4, 1, 1, 1), (), "4", 4.0, (-1,), (True,), [[4]]], ids=str)
def test_any_other_grid_is_refused(grid: Any) -> None:
    """FC-LA26: four axes, none, and what is no number of programs, with the form that is accepted."""
    text = "@triton.jit\ndef k(out):\n    tl.store(out, 1.0)\n"

    with pytest.raises(kb.KernBenchError) as caught:
        run(text, grid=grid, out=np.zeros(4, f32))

    assert (["E_GRID"], EXIT_INPUT) == (codes(caught), caught.value.exit_code)
    assert "(x, y, z)" in str(caught.value)
