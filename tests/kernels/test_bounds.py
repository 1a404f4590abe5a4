"""A composite takes no less than max(DMA bytes / bandwidth, GEMM cycles, MATH cycles), and in large loops little more.

The bounds are computed here from shapes and the topology's figures, and held against the log. The table in
docs/composites.md is the one of `LARGE`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.run import Run
from kernbench.sim.op_log import OpRecord
from tests.kernels.helpers import records, run_text

TEXT = """
def k(a_ptr, b_ptr, c_ptr, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)
    kb.composite(op="gemm", a=tl.ref(a_ptr, (M, K)), b=tl.ref(b_ptr, (K, N)), out=tl.ref(c_ptr, (M, N)), epilogue=[OPS])
"""
IN_TCM = "tl.load(a_ptr + i[:, None] * K + tl.arange(0, K))"
GBS, MACS, LANES, TILE = 135.9, 2048, 128, 64  # of ahbm_1x1; fp16
GELU = '{"op": "gelu"}'
HALVE = '{"op": "mul", "other": 0.5, "scope": "K_TILE"}'
CYCLES = {"": (0, ()), GELU: (0, (1, 2, 1, 1)), HALVE: (1, ())}  # K_TILE ops; OUTPUT_TILE ops by cycles for 128 lanes


class Case(NamedTuple):
    m: int
    k: int
    n: int
    ops: str
    loaded: bool = False  # `a` is in TCM


class Bound(NamedTuple):
    dma: float
    gemm: int
    math: int


LARGE = {
    "compute": Case(512, 512, 512, "", loaded=True),
    "compute, both operands in HBM": Case(1024, 512, 256, ""),
    "memory, 4 rows": Case(4, 8192, 128, ""),
    "memory, 16 rows": Case(16, 8192, 64, ""),
    "maths: gelu on each tile": Case(256, 64, 2048, GELU, loaded=True),
}


def tiles(extent: int) -> Iterator[int]:
    return (min(TILE, extent - start) for start in range(0, extent, TILE))


def bound_of(case: Case, moved: int) -> Bound:
    """Nanoseconds, which are cycles at 1 GHz."""
    k_ops, out_ops = CYCLES[case.ops]
    gemm = math = 0
    for m in tiles(case.m):
        for n in tiles(case.n):
            passes = ceil(m * n / LANES)
            math += sum(4 + passes * cycles for cycles in out_ops)
            for k in tiles(case.k):
                gemm += ceil(m * k * n / MACS)
                math += k_ops * (4 + passes)
    return Bound(moved / GBS, gemm, math)


def run_case(case: Case) -> tuple[Run, list[OpRecord]]:
    """The stages of the one composite with a GEMM."""
    text = TEXT.replace("OPS", case.ops)
    if case.loaded:
        text = text.replace("    kb.comp", f"    x = {IN_TCM}\n    kb.comp").replace("tl.ref(a_ptr, (M, K))", "x")
    m, k, n = case[:3]
    given = {"a_ptr": np.zeros((m, k), "f2"), "b_ptr": np.zeros((k, n), "f2"), "c_ptr": np.zeros((m, n), "f2")}
    run = run_text(text, given, mode="timing", M=m, K=k, N=n)
    stages = records(run, "dma_read", "dma_write", "fetch", "gemm", "math", "store")
    last = max(record.cmd for record in stages)
    return run, [record for record in stages if record.cmd == last]


def measured(case: Case) -> tuple[Bound, float]:
    """The bound, and what the composite took from the start of its first stage to the end of its last."""
    run, stages = run_case(case)
    moved = sum(r.nbytes for r in stages if r.op_kind.startswith("dma"))
    bound = bound_of(case, moved)
    for kind, cycles in (("gemm", bound.gemm), ("math", bound.math)):
        assert sum(r.duration_ps for r in stages if r.op_kind == kind) == 1000 * cycles
    assert moved >= 2 * (case.k * case.n + case.m * case.n + (0 if case.loaded else case.m * case.k))
    assert run.times is not None and sum(run.times.terms_ps.values()) == run.times.total_ps
    return bound, (max(r.t_end_ps for r in stages) - min(r.t_start_ps for r in stages)) / 1000


@pytest.mark.parametrize("name", LARGE)
def test_a_large_loop_comes_within_five_percent_of_its_bound(name: str) -> None:
    bound, taken = measured(LARGE[name])
    kind = {"c": "gemm", "m": "dma"}[name[0]] if not name.startswith("maths") else "math"

    assert max(bound) == getattr(bound, kind) or name.endswith("HBM")
    assert max(bound) <= taken <= 1.05 * max(bound)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(1, 150), st.integers(1, 200), st.integers(1, 150), st.sampled_from(sorted(CYCLES)), st.booleans()
)  # fmt: skip
def test_no_composite_is_faster_than_its_bound(m: int, k: int, n: int, ops: str, loaded: bool) -> None:
    bound, taken = measured(Case(m, k, n, ops, loaded))

    assert max(bound) <= taken


def test_the_documents_table_is_what_is_measured() -> None:
    page = (Path(__file__).parents[2] / "docs" / "composites.md").read_text("utf-8")
    rows = {cells[0]: cells[1:] for line in page.splitlines() if (cells := re.findall(r"[^|]+", line)) and "×" in line}
    for name, case in LARGE.items():
        bound, taken = measured(case)
        shape = f"{case.m}×{case.k}×{case.n}"
        figures = [f"{value:,.0f}" for value in (*bound, max(bound), taken)]
        expected = [shape, *figures, f"{taken / max(bound):.3f}"]
        found = [cell.strip() for cell in rows[f" {name} "]]
        assert expected == found
