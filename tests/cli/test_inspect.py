"""`inspect`: what each source line became."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernbench.cli.main import main


def inspect(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[int, dict[str, object]]:
    assert 0 == main(["inspect", *arguments, "--json"])
    return {row["line"]: row for row in json.loads(capsys.readouterr().out)["lines"]}


def test_the_dot_of_a_matmul_is_two_flops_a_product(capsys: pytest.CaptureFixture[str]) -> None:
    lines = inspect(capsys, "matmul.tl", "--case", "tiny")
    dots = [row for row in lines.values() if "gemm" in row["ops"]]  # type: ignore[operator]

    assert 1 == len(dots)
    assert 2 * 32**3 + 32 * 32 == dots[0]["flops"]
    assert "tl.dot" in str(dots[0]["text"])


def test_bytes_of_a_load_are_those_of_its_block(capsys: pytest.CaptureFixture[str]) -> None:
    lines = inspect(capsys, "vector_add.tl", "--case", "tiny")

    assert [1024, 1024, 1024] == [row["bytes"] for row in lines.values() if row["bytes"]]


def test_a_run_puts_time_and_bytes_to_lines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = inspect(capsys, "vector_add.tl", "--case", "tiny", "--run")
    moved = [row["run_bytes"] for row in lines.values() if row["run_bytes"]]

    assert [4000, 4000, 4000] == moved
    assert all(row["time_ns"] for row in lines.values() if row["commands"])


HELPER = """
import triton
import triton.language as tl






@triton.jit
def double(x):
    return x * 2.0
"""
KERNEL = """
import triton
import triton.language as tl
from .helpers import double

@triton.jit
def k(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    # no op comes from here
    tl.store(x_ptr + offsets, double(x))
"""


def test_what_a_helper_of_another_file_becomes_stands_at_its_line_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "helpers.py").write_text(HELPER)
    (tmp_path / "k.py").write_text(KERNEL)
    (tmp_path / "k.yaml").write_text(
        "{kernel: k.py::k, topology: ahbm_1x1, constexprs: {BLOCK: 64}, grid: [1],"
        " tensors: {x_ptr: {shape: [64], dtype: fp32}}}"
    )
    assert 0 == main(["inspect", str(tmp_path / "k.py::k"), "--run", "--json"])
    rows = json.loads(capsys.readouterr().out)["lines"]
    worked = {(row["file"], row["line"]): row for row in rows if row["ops"]}

    assert [("k.py", 9), ("k.py", 11), ("helpers.py", 12)] == list(worked)
    assert "    return x * 2.0" == worked["helpers.py", 12]["text"]
    assert worked["helpers.py", 12]["time_ns"] > 0

    assert 0 == main(["inspect", str(tmp_path / "k.py::k")])
    assert "\nin helpers.py\n  12  " in capsys.readouterr().out


def test_what_a_helper_of_the_library_becomes_stands_at_its_line_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["inspect", "gqa_decode_long.tl", "--case", "tiny", "--json"])
    rows = [row for row in json.loads(capsys.readouterr().out)["lines"] if "recv" in row["ops"]]

    assert {"kernbench.lib.attention"} == {row["file"] for row in rows}
    assert all("tl.recv" in row["text"] for row in rows)


@pytest.mark.parametrize("arguments", [("--line", "999"), ("--op", "999")])
def test_what_is_not_there_is_refused(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["inspect", "softmax.tl", "--case", "tiny", *arguments])
    assert arguments[0] in capsys.readouterr().err
