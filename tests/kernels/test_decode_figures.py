"""The tables of docs/decode-kernels.md are what is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernbench.run import Run
from tests.kernels.helpers import records, rw_aware, shipped

PAGE = (Path(__file__).parents[2] / "docs" / "decode-kernels.md").read_text("utf-8")
KERNELS = ("gqa_decode_opt2", "gqa_decode_opt3")
CONTEXTS = [1024, pytest.param(8192, marks=pytest.mark.slow)]


def row(*first: str) -> list[str]:
    """The cells of the row of a table that begins so."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:1] == "|"]
    (found,) = [cells for cells in rows if tuple(cells[: len(first)]) == first]
    return found[len(first) :]


def decode(name: str, tile: int, context: int, topology: Any = None) -> Run:
    return shipped(name, topology=topology, mode="timing", TILE=tile, S=context)[0]


def exec_ns(run: Run) -> float:
    (taken,) = run.pe_exec_ns.values()
    return taken


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("tile", [64, 128, 256])
def test_times_shares_and_dispatch(context: int, tile: int) -> None:
    runs = [decode(name, tile, context) for name in KERNELS]
    times = [exec_ns(run) for run in runs]
    read = [sum(r.nbytes for r in records(run, "dma_read")) for run in runs]
    dispatched = [sum(r.duration_ps for r in records(run, "dispatch")) / 1000 for run in runs]

    assert row(f"{context:,}", str(tile)) == [
        *(f"{ns:,.0f}" for ns in times),
        f"{times[1] / times[0]:.2f}",
        *(f"{100 * nbytes / 135.9 / ns:.1f} %" for nbytes, ns in zip(read, times, strict=True)),
        *(f"{ns:,.0f}" for ns in dispatched),
        f"{dispatched[1] / dispatched[0]:.2f}",
    ]


@pytest.mark.parametrize("context", CONTEXTS)
def test_what_passing_gains(context: int) -> None:
    cells = row(f"context {context:,}")
    for tile, cell in zip((64, 128, 256), cells, strict=False):
        plain, passing = (exec_ns(decode(KERNELS[0], tile, context, where)) for where in (None, rw_aware()))
        assert cell == f"{100 * (1 - passing / plain):.2f} %"
        assert exec_ns(decode(KERNELS[1], tile, context)) == exec_ns(decode(KERNELS[1], tile, context, rw_aware()))


def test_one_pe_tells_the_time_of_all() -> None:
    one, many = (
        shipped("gqa_decode_opt2", topology=topology, mode="timing", CACHES=caches)[0]
        for topology, caches in (("ahbm_1x1", 1), ("ahbm_2x2", 32))
    )

    assert {exec_ns(one)} == set(many.pe_exec_ns.values())


def test_pes_without_a_cache_are_left_out() -> None:
    run, _ = shipped("gqa_decode_opt2", topology="ahbm_8x8", mode="timing", CACHES=12)

    assert 12 == len(run.pe_exec_ns)
    assert {"cube0", "cube1"} == {name.split(".")[1] for name in run.pe_exec_ns}
