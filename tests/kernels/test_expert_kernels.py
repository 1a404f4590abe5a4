"""The shipped kernels of a mixture of experts, each against NumPy, and one after the other as a layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kernbench import dtypes
from tests.kernels.running import run, shipped

f32, i32 = np.float32, np.int32


def power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


# --------------------------------------------------------------------------- routing


def routed(logits: np.ndarray, top_k: int, renormalize: int = 1, topology: str = "ahbm_1x1") -> kb.Run:
    n_tokens, n_experts = logits.shape
    block_e, block_k = power_of_two(n_experts), power_of_two(top_k)
    made = shipped("moe_routing", TOP_K=top_k, RENORMALIZE=renormalize, BLOCK_T=4, BLOCK_E=block_e, BLOCK_K=block_k)
    return run(
        made,
        grid=(-(-n_tokens // 4),),
        topology=topology,
        logits_ptr=logits,
        weights_ptr=np.full((n_tokens, top_k), np.nan, f32),
        ids_ptr=np.full((n_tokens, top_k), -1, i32),
        count_ptr=np.zeros(n_experts, i32),
        n_tokens=n_tokens,
        n_experts=n_experts,
    )


def routing(logits: np.ndarray, top_k: int, renormalize: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights and ids; of equal shares the first."""
    share = np.exp(logits - logits.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    ids = np.argsort(-share, axis=1, kind="stable")[:, :top_k]
    weights = np.take_along_axis(share, ids, axis=1)
    return weights / weights.sum(axis=1, keepdims=True) if renormalize else weights, ids


@pytest.mark.parametrize(
    ("n_tokens", "n_experts", "top_k", "renormalize"),
    [(1, 1, 1, 0), (3, 2, 1, 1), (5, 7, 3, 0), (5, 7, 3, 1), (4, 8, 8, 1), (13, 17, 2, 0)],
)
def test_any_number_of_tokens_experts_and_choices(n_tokens: int, n_experts: int, top_k: int, renormalize: int) -> None:
    logits = np.random.default_rng(n_experts).standard_normal((n_tokens, n_experts)).astype(f32)
    weights, ids = routing(logits, top_k, renormalize)

    found = routed(logits, top_k, renormalize)

    assert np.array_equal(found["ids_ptr"], ids)
    assert np.allclose(found["weights_ptr"], weights, rtol=1e-5, atol=0)
    assert np.array_equal(found["count_ptr"], np.bincount(ids.reshape(-1), minlength=n_experts))


def test_equal_and_impossible_experts() -> None:
    """Of equals the first is chosen, and an expert with -inf comes last, with weight 0."""
    logits = np.array([[1, 2, 2, 2], [0, 0, 0, 0], [-np.inf, 5, -np.inf, -np.inf], [300, -300, 300, 0]], f32)
    found = routed(logits, 2)
    assert [[1, 2], [0, 1], [1, 0], [0, 2]] == found["ids_ptr"].tolist()
    assert [[0.5, 0.5], [0.5, 0.5], [1, 0], [0.5, 0.5]] == found["weights_ptr"].tolist()


# --------------------------------------------------------------------------- sorting


def aligned(ids: np.ndarray, n_experts: int, block_m: int, topology: str = "ahbm_1x1") -> kb.Run:
    """With room for a block more than there are, which stays as it was."""
    counts = np.bincount(ids, minlength=n_experts).astype(i32)
    blocks = int((-(-counts // block_m)).sum())
    return run(
        shipped("moe_align", BLOCK_M=block_m, BLOCK_E=power_of_two(n_experts), BLOCK=8),
        grid=(n_experts,),
        topology=topology,
        ids_ptr=ids.astype(i32),
        count_ptr=counts,
        sorted_ptr=np.full((blocks + 1) * block_m, -7, i32),
        expert_ptr=np.full(blocks + 1, -7, i32),
        total_ptr=np.zeros(1, i32),
        n_slots=len(ids),
        n_experts=n_experts,
    )


def alignment(ids: np.ndarray, n_experts: int, block_m: int) -> tuple[list[int], list[int]]:
    slots: list[int] = []
    experts: list[int] = []
    for expert in range(n_experts):
        mine = np.flatnonzero(ids == expert).tolist()
        mine += [len(ids)] * (-len(mine) % block_m)
        slots += mine
        experts += [expert] * (len(mine) // block_m)
    return slots, experts


@pytest.mark.parametrize(
    ("n_slots", "n_experts", "block_m", "topology"),
    [
        (1, 1, 4, "ahbm_1x1"),
        (7, 3, 1, "ahbm_1x1"),
        (8, 5, 4, "ahbm_1x1"),
        (50, 2, 2, "ahbm_1x1"),
        (41, 6, 8, "ahbm_2x2"),
    ],
)
def test_slots_are_sorted_by_expert(n_slots: int, n_experts: int, block_m: int, topology: str) -> None:
    """More blocks an expert than a store holds, and experts that have none, are among them."""
    ids = np.random.default_rng(n_slots).integers(0, max(1, n_experts - 1), n_slots)
    slots, experts = alignment(ids, n_experts, block_m)

    found = aligned(ids, n_experts, block_m, topology)

    assert [*slots, *[-7] * block_m] == found["sorted_ptr"].tolist()
    assert [*experts, -7] == found["expert_ptr"].tolist()
    assert [len(slots)] == found["total_ptr"].tolist()


# --------------------------------------------------------------------------- products


def grouped(
    a: np.ndarray,
    b: np.ndarray,
    weights: np.ndarray,
    slots: Any,
    experts: Any,
    topology: str,
    block_m: int,
    mul: int = 1,
) -> kb.Run:
    """Launched for one block of rows more than there are, as a grid for the worst case is."""
    n_slots, top_k = weights.size, weights.shape[1]
    _, k, n = b.shape
    return run(
        shipped("grouped_gemm", TOP_K=top_k, MUL_WEIGHTS=mul, BLOCK_M=block_m, BLOCK_N=16, BLOCK_K=16),
        grid=(-(-n // 16), len(experts) + 1),
        topology=topology,
        a_ptr=dtypes.cast(a, dtypes.bf16),
        b_ptr=dtypes.cast(b, dtypes.bf16),
        c_ptr=dtypes.cast(np.full((n_slots, n), np.nan), dtypes.bf16),
        weights_ptr=weights.reshape(-1),
        sorted_ptr=np.array(slots, i32),
        expert_ptr=np.array(experts, i32),
        total_ptr=np.array([len(slots)], i32),
        n_slots=n_slots,
        N=n,
        K=k,
        stride_am=k,
        stride_be=k * n,
        stride_bk=n,
        stride_cm=n,
    )


@pytest.mark.parametrize(
    ("tokens", "top_k", "k", "n", "mul", "topology"),
    [
        (1, 1, 1, 1, 1, "ahbm_1x1"),
        (5, 2, 15, 17, 0, "ahbm_1x1"),
        (7, 3, 16, 16, 1, "ahbm_1x1"),
        (6, 2, 33, 31, 1, "ahbm_2x2"),
    ],
)
def test_rows_meet_the_matrix_of_their_expert(tokens: int, top_k: int, k: int, n: int, mul: int, topology: str) -> None:
    """Numbers are small integers, so that bf16 holds the products."""
    rng = np.random.default_rng(tokens)
    a, b = rng.integers(-2, 3, (tokens, k)), rng.integers(-1, 2, (4, k, n))
    ids = rng.integers(0, 4, tokens * top_k)
    weights = rng.integers(1, 3, (tokens, top_k)).astype(f32)
    slots, experts = alignment(ids, 4, 4)

    found = grouped(a, b, weights, slots, experts, topology, 4, mul)

    rows = [a[slot // top_k] @ b[ids[slot]] for slot in range(tokens * top_k)]
    expected = np.array(rows) * (weights.reshape(-1, 1) if mul else 1)
    assert np.array_equal(found["c_ptr"].astype(f32), expected)


@pytest.mark.parametrize("topology", ["ahbm_1x1", "ahbm_2x2"])
def test_a_layer_of_experts(topology: str) -> None:
    """Routing, sorting and products, each with what the kernel before it has made."""
    tokens, n_experts, top_k, k, n = 11, 5, 2, 20, 18
    rng = np.random.default_rng(3)
    logits = rng.standard_normal((tokens, n_experts)).astype(f32)
    a, b = rng.standard_normal((tokens, k)), rng.standard_normal((n_experts, k, n))

    gate = routed(logits, top_k, topology=topology)
    order = aligned(gate["ids_ptr"].reshape(-1), n_experts, 4, topology)
    total = int(order["total_ptr"][0])
    slots, experts = order["sorted_ptr"][:total], order["expert_ptr"][: total // 4]
    rows = grouped(a, b, gate["weights_ptr"], slots, experts, topology, 4)["c_ptr"].astype(f32)

    weights, ids = routing(logits, top_k, 1)
    expected = np.einsum("tr,tk,trkn->tn", weights, a, b[ids])
    assert np.allclose(rows.reshape(tokens, top_k, n).sum(axis=1), expected, rtol=2e-2, atol=1e-1)
