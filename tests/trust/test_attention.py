"""Decode attention against published figures: intensity, traffic and its bound, and what splitting adds.

Sources: Llama-3-8B's shapes (32 query heads, 8 KV heads, head size 128; Meta's model card); grouped-query attention
(Ainslie et al., 2023), whose decode reads K and V once for a whole group; Flash-Decoding (Dao et al., 2023) for the
split of the context, whose parts leave m, l and O each.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kernbench.session as kb
from kernbench.data_files import data_dir
from kernbench.run import Run
from kernbench.runtime.placement import Shard

HEADS, KV_HEADS, D, CONTEXT = 32, 8, 128, 8192
GROUP = HEADS // KV_HEADS
KV_BYTES = 2 * KV_HEADS * CONTEXT * D * 2
SLICE_BYTES_PER_NS = 135.9

PARTIAL = """
    tl.store(out_ptr + rows * D + columns, O)
    tl.store(ML + tl.arange(0, G), m)
    tl.store(ML + G + tl.arange(0, G), l)
"""


def kernel_text(partial: bool) -> str:
    text = (data_dir("kernels") / "gqa_decode_opt2.tl").read_text("utf-8")
    if partial:
        text = text.replace("Q, K, V, O, S", "Q, K, V, O, ML, S")
        text = text.replace("    tl.store(out_ptr + rows * D + columns, O / l[:, None])\n", PARTIAL)
        assert "ML + G" in text
    return text


def decode(pes: int, context: int, partial: bool) -> Run:
    """One layer's attention for one token, one part of one KV head a PE."""
    kernel = kb.compile(kernel_text(partial), {"G": GROUP, "D": D, "TILE": 64})
    cache = np.zeros((pes, context, D), ml_dtypes.bfloat16)
    args: dict[str, Any] = {
        "Q": np.zeros((pes, GROUP, D), ml_dtypes.bfloat16), "K": cache, "V": cache.copy(),
        "O": np.zeros((pes, GROUP, D), np.float32), "S": context,
    }  # fmt: skip
    if partial:
        args["ML"] = np.zeros((pes, 2 * GROUP), np.float32)
    places = {name: Shard(0, ("cube", "pe")) for name in args if name != "S"}
    return kb.open("ahbm_4x4").run(kernel, args, placements=places, mode="timing")


def moved(run: Run, kind: str, host: str) -> int:
    assert run.op_log is not None
    return sum(record.nbytes for record in run.op_log.where(op_kind=kind) if record.op_name != host)


@pytest.fixture(scope="module")
def layer() -> Run:
    return decode(KV_HEADS, CONTEXT, partial=False)


def test_a_layer_reads_33_55_megabytes_of_k_and_v(layer: Run) -> None:
    q_bytes = HEADS * D * 2

    assert KV_BYTES == 33_554_432
    assert moved(layer, "dma_read", "MemoryRead") == KV_BYTES + q_bytes


def test_the_intensity_of_bf16_decode_is_the_size_of_the_group(layer: Run) -> None:
    assert layer.op_log is not None
    flops = sum(record.flops for record in layer.op_log.where(op_kind="gemm"))

    assert flops / KV_BYTES == GROUP


def test_no_time_is_below_the_bytes_over_the_bandwidth(layer: Run) -> None:
    bound_ns = KV_BYTES / (KV_HEADS * SLICE_BYTES_PER_NS)
    times = layer.pe_exec_ns.values()

    assert len(times) == KV_HEADS
    assert bound_ns <= min(times)


def test_splitting_the_context_over_16_workers_adds_0_8_percent_of_traffic() -> None:
    """Each worker leaves m, l and O of its group in fp32."""
    workers = 16
    split = decode(workers * KV_HEADS, CONTEXT // workers, partial=True)
    left = moved(split, "dma_write", "MemoryWrite")

    assert left == workers * HEADS * (D + 2) * 4
    assert 0.0075 <= left / KV_BYTES <= 0.0085
    assert KV_BYTES <= moved(split, "dma_read", "MemoryRead") <= 1.005 * KV_BYTES
    assert min(split.pe_exec_ns.values()) >= KV_BYTES / (workers * KV_HEADS * SLICE_BYTES_PER_NS)
