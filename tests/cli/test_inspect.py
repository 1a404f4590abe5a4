"""`inspect`: what each source line became."""

from __future__ import annotations

import json

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


@pytest.mark.parametrize("arguments", [("--line", "999"), ("--op", "999")])
def test_what_is_not_there_is_refused(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["inspect", "softmax.tl", "--case", "tiny", *arguments])
    assert arguments[0] in capsys.readouterr().err
