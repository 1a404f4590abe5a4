"""The size curve of DMA: a stream of transfers takes max(issue, bytes / plateau) each, a lone one latency and drain.

Source of the shape: published DMA measurements of scratchpad accelerators, which all show a flat part set by the cost
of issuing and a straight part set by the plateau (10 % is what the test grants).
"""

from __future__ import annotations

import numpy as np
import pytest

from kernbench.dtypes import i8
from kernbench.sim.pe_issue import dispatch_ps
from kernbench.sim.topology import load_topology
from tests.sim.pe_helpers import Bench, box, pointer, program, read, tcm

PLATEAU_GBS = 135.9
COUNT = 64
SLOTS = 16  # places in TCM: more than transfers are under way, so none waits for the one before in its place


def stream_ps(size: int) -> float:
    """Time a transfer in the middle of a stream of transfers of `size` bytes."""
    bench = Bench("timing")
    window, _ = bench.put(np.zeros(COUNT * size, np.int8))
    body = [read(n, tcm(n % SLOTS * size, (size,), i8), box(pointer(0, n * size), (size,), i8)) for n in range(COUNT)]
    bench.run(program(body), [window])
    ends = [record.t_end_ps for record in bench.records("dma_read")]
    assert len(ends) == COUNT
    return (ends[-1] - ends[15]) / (COUNT - 16)


@pytest.mark.parametrize("size", [64, 512, 2048, 4096, 8192, 16384, 65536])
def test_a_transfer_of_a_stream_takes_the_larger_of_issue_and_drain(size: int) -> None:
    issue_ps = dispatch_ps(load_topology("ahbm_1x1").spec.pe, 24)
    expected = max(issue_ps, size * 1000 / PLATEAU_GBS)

    assert stream_ps(size) == pytest.approx(expected, rel=0.1)


def test_the_curve_never_falls_and_reaches_its_plateau() -> None:
    sizes = [64, 1024, 4096, 6000, 16384, 65536]
    rates = [size * 1000 / stream_ps(size) for size in sizes]

    assert rates == sorted(rates)
    assert 0.98 * PLATEAU_GBS <= rates[-1] <= PLATEAU_GBS + 0.001
