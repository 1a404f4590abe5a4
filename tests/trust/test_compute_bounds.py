"""GEMMs against closed-form figures: the roofline, and overlap of load, compute and store."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kernbench.session as kb
from kernbench.dtypes import fp16
from kernbench.run import Run
from kernbench.sim.topology import load_topology
from kernbench.sim.topology_graph import TopologyGraph
from tests.sim.pe_helpers import Bench, composite, gemm_op, hbm, pointer, program
from tests.trust.helpers import gemm_in_tcm, gemm_spec, one_pe, one_pe_text, run_bodies

UNOVERLAPPED = """
import triton
import triton.language as tl

@triton.jit
def k(A, B, C, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    a = tl.load(A + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :])
    b = tl.load(B + tl.arange(0, K)[:, None] * N + tl.arange(0, N)[None, :])
    c = tl.dot(a, b)
    tl.store(C + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], c)
"""
STREAMED = """
import triton
import kernbench.language as tl

@triton.jit
def k(A, B, C, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    a = tl.ref(A, (M, K))
    b = tl.ref(B, (K, N))
    c = tl.ref(C, (M, N))
    tl.composite(op="gemm", a=a, b=b, out=c)
"""


def run(text: str, graph: TopologyGraph, m: int, k: int, n: int, dtype: Any = np.float16) -> Run:
    kernel = kb.compile(text, {"M": m, "K": k, "N": n})
    args = {"A": np.zeros((m, k), dtype), "B": np.zeros((k, n), dtype), "C": np.zeros((m, n), np.float32)}
    return kb.open(graph).run(kernel, args, grid=(1,), mode="timing")


def exec_ns(result: Run) -> float:
    (span,) = result.pe_exec_ns.values()
    return span


def test_a_roofline_gemv_is_bound_by_memory_and_a_gemm_by_compute(tmp_path: Path) -> None:
    """FC-TI01 (astra-sim #217): 100 TFLOP/s and 1,000 GB/s; about 33.6 us and 1,374 us."""
    file = tmp_path / "roofline.yaml"
    file.write_text(
        one_pe_text(
            hbm_gbs=1000, links_gbs=2000, macs=50_000, tile=(512, 512, 512), tcm_bytes=64 << 20, tcm_rate=1 << 18
        )
    )

    def time_ns(m: int, k: int, n: int) -> float:
        bench = Bench("timing", str(file))
        a, b, out = (hbm(pointer(i), shape, fp16) for i, shape in enumerate(((m, k), (k, n), (m, n))))
        rings = tuple((name, 4 << 20 << i, 2, 512 * 512 * 2) for i, name in enumerate(("a", "b", "out")))
        windows = [bench.put(np.zeros(shape, np.float16))[0] for shape in ((m, k), (k, n), (m, n))]
        body = [composite(0, gemm_op(a, b, out, rings=rings))]
        bench.run(program(body, 3), windows)
        return bench.records("kernel")[0].duration_ps / 1000

    assert 2 * (4096 * 4096 + 2 * 4096) / 1000 <= time_ns(1, 4096, 4096) <= 1.05 * 33_600
    assert 2 * 4096**3 / 100_000 <= time_ns(4096, 4096, 4096) <= 1.05 * 1_374_000


def test_load_compute_store_one_after_the_other_and_overlapped() -> None:
    """A 512^3 product of fp32 at 512 B a cycle on two 128 x 128 arrays: 4,096 + 4,096 + 2,048 cycles and latency.

    The figures of an unoverlapped load-compute-store loop as accelerator handbooks give them; with the tiles of the
    operands streamed ahead the same product goes below their sum.
    """
    macs = 2 * 128 * 128
    whole = one_pe(hbm_gbs=512, links_gbs=2048, macs=macs, tile=(512, 512, 512), tcm_bytes=16 << 20, tcm_rate=1 << 20)
    tiled = one_pe(hbm_gbs=512, links_gbs=2048, macs=macs, tile=(512, 128, 512), tcm_bytes=16 << 20, tcm_rate=1 << 20)
    apart = run(UNOVERLAPPED, whole, 512, 512, 512, np.float32)
    together = run(STREAMED, tiled, 512, 512, 512, np.float32)
    cycles = 4096 + 4096 + 2048

    assert apart.op_log is not None and together.op_log is not None
    read, multiplied, written = (
        sum(record.duration_ps for record in apart.op_log if (record.op_kind, record.op_name) == (name, name)) / 1000
        for name in ("dma_read", "gemm", "dma_write")
    )
    assert multiplied == 4096
    assert 2048 <= written <= 2048 + 60 and 4096 <= read <= 4096 + 2048 + 120
    assert cycles <= exec_ns(apart) <= cycles + 500
    assert 4096 + 2048 <= exec_ns(together) <= 4096 + 1024 + 2048 + 500 < cycles


@pytest.mark.parametrize("shape", [(12544, 27, 32), (1, 1, 1), (64, 2, 64), (3, 4096, 5)])
def test_no_time_is_negative_and_busy_and_idle_make_up_the_makespan(shape: tuple[int, int, int]) -> None:
    """FC-TI06 (scalesim #100): thin products, with operands where they cost nothing."""
    records = run_bodies([gemm_in_tcm(*shape)])
    makespan = max(record.t_end_ps for record in records)
    for kind in ("gemm", "fetch", "store"):
        spans = sorted((r.t_start_ps, r.t_end_ps) for r in records if r.op_kind == kind)
        idle = spans[0][0] + sum(b[0] - a[1] for a, b in pairwise(spans)) + makespan - spans[-1][1]
        busy = sum(end - start for start, end in spans)

        assert all(end > start >= 0 for start, end in spans)
        assert all(b[0] >= a[1] for a, b in pairwise(spans))
        assert busy + idle == makespan


def test_one_row_is_cheaper_than_256_and_uses_the_array_badly() -> None:
    """FC-TI08 (SCALE-Sim #51): M = 1 against M = 256, K = 768, N = 256."""
    spec = gemm_spec(dataflow="ws", rows=128, cols=128, tile=(256, 768, 256))

    def busy(m: int) -> int:
        return sum(r.duration_ps for r in run_bodies([gemm_in_tcm(m, 768, 256)], pe_gemm=spec) if r.op_kind == "gemm")

    one, many = busy(1), busy(256)
    assert one < many
    assert 768 * 256 * 1000 / (one * 128 * 128) < 0.01 < 256 * 768 * 256 * 1000 / (many * 128 * 128) < 1


def test_halving_the_rate_doubles_a_compute_bound_product() -> None:
    """FC-TI23 (astra-sim #139)."""
    fast = exec_ns(run(STREAMED, one_pe(hbm_gbs=1000, links_gbs=2000, macs=2048, tcm_rate=4096), 512, 512, 512))
    slow = exec_ns(run(STREAMED, one_pe(hbm_gbs=1000, links_gbs=2000, macs=1024, tcm_rate=4096), 512, 512, 512))

    assert 512**3 / 1024 <= slow
    assert slow - fast == pytest.approx(512**3 / 2048, rel=0.001)


def test_traffic_goes_with_the_size_of_an_element() -> None:
    """FC-TI11 (SCALE-Sim #50): bytes in the ratio 1 : 2 : 4 with the tiles held fixed."""
    graph = load_topology("ahbm_1x1")
    moved = []
    for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, np.float32):
        result = run(STREAMED, graph, 128, 128, 128, dtype)
        assert result.op_log is not None
        moved.append(sum(r.nbytes for r in result.op_log.where(op_kind="dma_read") if r.op_name in ("a", "b")))

    assert moved == [moved[0], 2 * moved[0], 4 * moved[0]] and moved[0] >= 2 * 128 * 128
