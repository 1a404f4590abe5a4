"""What is told of a bench's names beside its kernel's parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernbench.data_files import data_dir
from kernbench.kernel import make_kernel
from kernbench.runtime.bench import case_names, load_bench
from kernbench.runtime.bench_names import name_remarks

BENCH = """\
kernel: k.tl
constexprs: {BLOCK: 64}
scalars: {ROWS: 2, n_cols: ROWS * 30}
tensors:
  x_ptr: {shape: [60], dtype: fp32}
  table: {shape: [60], dtype: fp32}
  y_ptr: {shape: [60], dtype: fp32}
expect: {y_ptr: 2 * x_ptr + table}
cases:
  tiny: {scalars: {n_cols: 4}}
"""
PARAMETERS = {"x_ptr": False, "y_ptr": False, "n_cols": False, "BLOCK": True, "eps": False}


def told(tmp_path: Path, before: str, after: str, case: str | None = None) -> list[tuple[str, str, str]]:
    assert before in BENCH
    path = tmp_path / "k.yaml"
    path.write_text(BENCH.replace(before, after), encoding="utf-8")
    found = name_remarks(load_bench(path, case), PARAMETERS)
    assert all(each.primary is not None and each.severity != "error" for each in found)
    return [(each.code, str(each.path), str(each.help)) for each in found]


def test_names_of_the_kernel_and_of_expressions_are_used(tmp_path: Path) -> None:
    assert [] == told(tmp_path, "+ table", "+ table")
    assert [] == told(tmp_path, "+ table", "+ table", case="tiny")


@pytest.mark.parametrize(
    ("before", "after", "case", "path", "help"),
    [
        ("tiny: {scalars: {n_cols", "tiny: {scalars: {n_col", "tiny", "cases.tiny.scalars.n_col", "`n_cols`?"),
        ("tiny: {scalars: {n_cols", "tiny: {scalars: {eqs", "tiny", "cases.tiny.scalars.eqs", "`eps`?"),
        (" + table", "", None, "tensors.table", "leave it out"),
        ("{BLOCK: 64}", "{BLOCK: 64, WARPS: 4}", None, "constexprs.WARPS", "leave it out"),
        ("ROWS * 30", "60", None, "scalars.ROWS", "leave it out"),
    ],
)
def test_a_name_that_nothing_takes_is_told_with_the_nearest(
    tmp_path: Path, before: str, after: str, case: str | None, path: str, help: str
) -> None:
    ((code, where, advice),) = told(tmp_path, before, after, case)

    assert ("W_BENCH_UNUSED", path) == (code, where)
    assert help in advice


def test_a_name_that_only_another_case_uses_is_used(tmp_path: Path) -> None:
    before, after = "{ROWS: 2, n_cols: ROWS * 30}", "{m: 3, n_cols: 60}"

    assert ["scalars.m"] == [path for _, path, _ in told(tmp_path, before, after)]
    with_case = BENCH.replace(before, after).replace("{scalars: {n_cols: 4}}", "{grid: [m]}")
    assert [] == told(tmp_path, BENCH, with_case)


@pytest.mark.parametrize(
    ("value", "fixed"),
    [
        ("60", True),
        ("ROWS + 58", True),
        ("0.5", True),
        ("true", True),
        ("null", False),
        ("\"'x'\"", False),
        ("fp16", False),
    ],
)
def test_a_number_for_a_run_time_parameter_among_the_constexprs_is_told(
    tmp_path: Path, value: str, fixed: bool
) -> None:
    found = told(tmp_path, "{BLOCK: 64}", f"{{BLOCK: 64, eps: {value}}}")

    assert [("R_BENCH_CONSTEXPR", "constexprs.eps")] * fixed == [(code, path) for code, path, _ in found]


def test_nothing_is_told_of_the_shipped_benches() -> None:
    for path in sorted(data_dir("kernels").glob("*.yaml")):
        kernel = load_bench(path).kernel
        parameters = make_kernel(kernel).parameters
        for case in (None, *case_names(path)):
            assert [] == name_remarks(load_bench(path, case), parameters), path
