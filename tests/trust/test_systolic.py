"""Systolic GEMMs against SCALE-Sim's published cycles (Samajdar et al., "SCALE-Sim: Systolic CNN Accelerator
Simulator", and the goldens of its repository for a 32 x 32 array).

SCALE-Sim's figure is the index of the last cycle, counted from 0. PE_GEMM counts lengths, so ours is one more.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.sim.plan import gemm_cycles
from tests.trust.helpers import gemm_in_tcm, gemm_spec, run_bodies

Dataflow = Literal["ws", "os", "is"]
PUBLISHED: dict[Dataflow, int] = {"ws": 11_199, "os": 10_175, "is": 14_207}


def cycles(dataflow: str, m: int, k: int, n: int, rows: int, cols: int, **fields: Any) -> int:
    """Of one product that is one tile, from the log of the simulated PE at 1 GHz."""
    spec = gemm_spec(dataflow=dataflow, rows=rows, cols=cols, tile=(m, k, n), **fields)
    (record,) = [record for record in run_bodies([gemm_in_tcm(m, k, n)], pe_gemm=spec) if record.op_kind == "gemm"]
    return record.duration_ps // 1000


@pytest.mark.parametrize("dataflow", PUBLISHED)
def test_the_published_cycles_of_a_256_by_128_by_256_product(dataflow: Dataflow) -> None:
    assert PUBLISHED[dataflow] + 1 == cycles(dataflow, 256, 256, 128, 32, 32)


def test_a_4_by_4_by_4_product_on_a_4_by_4_array_takes_10_cycles() -> None:
    """FC-TI05: R + C + K - 2, to the end of the last cycle and not to its index."""
    assert 10 == cycles("os", 4, 4, 4, 4, 4)


def streamed(dataflow: str, m: int, k: int, n: int, rows: int, cols: int) -> int:
    """The array played fold by fold: filled where it holds an operand, then fed in a skew until the last cell is done.

    A cell (r, c) gets step t of its stream at t + r + c; the fold ends when the last cell has done its last step.
    """
    held = {"ws": (k, n, m), "os": (m, n, k), "is": (k, m, n)}[dataflow]
    fill = 0 if dataflow == "os" else rows
    total = 0
    for _ in range(0, held[0], rows):
        for _ in range(0, held[1], cols):
            last_step, last_row, last_column = held[2] - 1, rows - 1, cols - 1
            total += fill + last_step + last_row + last_column + 1
    return total


@given(
    st.sampled_from(["ws", "os", "is"]), st.integers(1, 70), st.integers(1, 70), st.integers(1, 70),
    st.integers(1, 17), st.integers(1, 17),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_closed_forms_are_what_a_skewed_array_does(
    dataflow: str, m: int, k: int, n: int, rows: int, cols: int
) -> None:
    spec = gemm_spec(dataflow=dataflow, rows=rows, cols=cols)

    assert streamed(dataflow, m, k, n, rows, cols) == gemm_cycles(spec, 2048, m, k, n)


def test_the_rate_of_the_ideal_engine_does_not_matter_to_an_array() -> None:
    assert cycles("ws", 64, 64, 64, 16, 16) == cycles("ws", 64, 64, 64, 16, 16, macs_per_cycle={"fp16": 1})
