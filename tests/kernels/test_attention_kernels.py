"""The shipped kernels of windowed and of paged attention against NumPy, at sizes that fit no block."""

from __future__ import annotations

import numpy as np
import pytest

import kernbench as kb
from tests.kernels.running import moved, run, shipped

f16, f32 = np.float16, np.float32


def normal(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(f16)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Of rows of q over all rows of k and v that `seen` says, in fp64."""
    s = np.where(seen, q.astype(float) @ k.astype(float).swapaxes(-1, -2) / np.sqrt(q.shape[-1]), -np.inf)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    made: np.ndarray = p / p.sum(axis=-1, keepdims=True) @ v.astype(float)
    return made


# --------------------------------------------------------------------------- a window


def windowed(
    n_ctx: int, window: int, topology: str = "ahbm_1x1", heads: int = 2, group: int = 1, m: int = 16, n: int = 16
) -> tuple[kb.Run, np.ndarray]:
    d = 16
    q = normal(heads, n_ctx, d, seed=1)
    k, v = (normal(heads // group, n_ctx, d, seed=seed) for seed in (2, 3))
    made = shipped("flash_attention_window", GROUP=group, D=d, BLOCK_M=m, BLOCK_N=n)
    found = run(
        made,
        grid=(-(-n_ctx // m), heads),
        topology=topology,
        q_ptr=q,
        k_ptr=k,
        v_ptr=v,
        o_ptr=np.full_like(q, np.nan),
        n_ctx=n_ctx,
        window=window,
        sm_scale=1 / d**0.5,
        stride_head=n_ctx * d,
        stride_row=d,
    )
    behind = np.arange(n_ctx)[:, None] - np.arange(n_ctx)[None, :]
    k, v = (np.repeat(block, group, axis=0) for block in (k, v))
    return found, attention(q, k, v, (behind >= 0) & (behind < window))


@pytest.mark.parametrize(
    ("n_ctx", "window"),
    [(1, 1), (15, 13), (16, 16), (16, 1), (17, 17), (33, 15), (53, 1), (53, 17), (53, 18), (53, 1000)],
)
def test_a_window_of_any_width_over_any_length(n_ctx: int, window: int) -> None:
    found, expected = windowed(n_ctx, window)
    assert np.allclose(found["o_ptr"], expected, rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize(("m", "n"), [(32, 16), (16, 32), (64, 8)])
def test_blocks_of_queries_and_keys_of_unequal_size(m: int, n: int) -> None:
    """A block of keys that some rows of the block of queries do not see at all gives them no NaN."""
    found, expected = windowed(67, 5, m=m, n=n)
    assert np.allclose(found["o_ptr"], expected, rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize("topology", ["ahbm_1x1", "ahbm_2x2"])
def test_heads_of_queries_share_keys_and_values(topology: str) -> None:
    found, expected = windowed(37, 20, topology, heads=6, group=3)
    assert np.allclose(found["o_ptr"], expected, rtol=1e-2, atol=2e-3)


def test_keys_outside_the_window_are_not_read() -> None:
    """Each block of queries but the first reads its own block of keys and the one before it."""
    found, _ = windowed(64, 9, heads=1)
    tile = 16 * 16 * 2
    assert [tile] * (4 + 2 * (1 + 3 * 2)) == moved(found, "dma_read")


# --------------------------------------------------------------------------- pages


def paged(
    lengths: list[int], topology: str = "ahbm_1x1", group: int = 3, kv_heads: int = 2, page: int = 8
) -> tuple[kb.Run, np.ndarray]:
    """The pages of all sequences lie in any order, and of those that no sequence has every value is NaN."""
    d, seqs = 16, len(lengths)
    pages = -(-max(lengths) // page)
    rng = np.random.default_rng(0)
    table = rng.permutation(seqs * pages + 3)[: seqs * pages].reshape(seqs, pages).astype(np.int32)
    k, v = (normal(seqs * pages + 3, page, kv_heads, d, seed=seed) for seed in (2, 3))
    q = normal(seqs, kv_heads, group, d, seed=1)
    seen = np.arange(pages * page) < np.array(lengths)[:, None]
    gathered = [cache[table].reshape(seqs, pages * page, kv_heads, d).swapaxes(1, 2) for cache in (k, v)]
    expected = attention(q, gathered[0], gathered[1], seen[:, None, None, :])
    unused = np.ones((seqs * pages + 3, page), bool)
    unused[table.reshape(-1)] = ~seen.reshape(seqs * pages, page)
    k[unused] = v[unused] = np.nan
    made = shipped("paged_attention", GROUP=group, GROUP_BLOCK=4, D=d, PAGE=page)
    found = run(
        made,
        grid=(seqs, kv_heads),
        topology=topology,
        q_ptr=q,
        k_cache_ptr=k,
        v_cache_ptr=v,
        block_table_ptr=table,
        context_len_ptr=np.array(lengths, np.int32),
        o_ptr=np.full_like(q, np.nan),
        sm_scale=1 / d**0.5,
        stride_q_seq=kv_heads * group * d,
        stride_page=page * kv_heads * d,
        stride_slot=kv_heads * d,
        stride_kv_head=d,
        stride_table=pages,
    )
    return found, expected


@pytest.mark.parametrize("topology", ["ahbm_1x1", "ahbm_2x2"])
def test_contexts_of_any_length(topology: str) -> None:
    found, expected = paged([1, 7, 8, 9, 23, 31], topology)
    assert np.allclose(found["o_ptr"], expected, rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize(("group", "kv_heads"), [(1, 1), (4, 1), (1, 3)])
def test_groups_of_one_head_and_of_a_whole_block(group: int, kv_heads: int) -> None:
    found, expected = paged([13, 2], group=group, kv_heads=kv_heads)
    assert np.allclose(found["o_ptr"], expected, rtol=1e-2, atol=2e-3)


def test_only_the_slots_of_the_context_are_read() -> None:
    found, _ = paged([11], group=4, kv_heads=1)
    row = 16 * 2
    assert [4 * row, 8 * row, 8 * row, 3 * row, 3 * row] == moved(found, "dma_read")
