"""The shipped kernels of cross entropy, top-k and dropout against NumPy, at sizes that fit no block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench as kb
from tests.kernels.running import moved, run, shipped

f32 = np.float32


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(f32)


# --------------------------------------------------------------------------- cross entropy


def losses(
    logits: np.ndarray, labels: Any, smoothing: float = 0.0, gradient: int = 1, topology: str = "ahbm_1x1"
) -> kb.Run:
    n_rows, n_cols = logits.shape
    return run(
        shipped("cross_entropy", SMOOTHING=smoothing, GRADIENT=gradient, BLOCK=16),
        grid=(n_rows,),
        topology=topology,
        logits_ptr=logits,
        labels_ptr=np.array(labels, np.int64),
        loss_ptr=np.full(n_rows, np.nan, f32),
        grad_ptr=np.full_like(logits, np.nan),
        row_stride=n_cols,
        n_cols=n_cols,
        ignore_index=-100,
    )


def cross_entropy(logits: np.ndarray, labels: np.ndarray, smoothing: float) -> tuple[np.ndarray, np.ndarray]:
    """The loss of the smoothed target, -Σ target log softmax, and softmax - target; in fp64."""
    x = logits.astype(float)
    log_p = x - x.max(axis=1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(axis=1, keepdims=True))
    target = (1 - smoothing) * (np.arange(x.shape[1]) == labels[:, None]) + smoothing / x.shape[1]
    return -(target * log_p).sum(axis=1), np.exp(log_p) - target


@pytest.mark.parametrize(
    ("n_cols", "smoothing", "topology"),
    [
        (1, 0.0, "ahbm_1x1"),
        (15, 0.25, "ahbm_1x1"),
        (16, 0.0, "ahbm_1x1"),
        (17, 0.25, "ahbm_1x1"),
        (53, 0.25, "ahbm_2x2"),
    ],
)
def test_rows_of_any_length(n_cols: int, smoothing: float, topology: str) -> None:
    logits = 3 * normal(3, n_cols, seed=n_cols)
    labels = np.array([0, n_cols - 1, n_cols // 2])
    loss, grad = cross_entropy(logits, labels, smoothing)

    found = losses(logits, labels, smoothing, topology=topology)

    assert np.allclose(found["loss_ptr"], loss, rtol=1e-5, atol=1e-6)
    assert np.allclose(found["grad_ptr"], grad, rtol=1e-5, atol=1e-6)


def test_large_logits_do_not_overflow() -> None:
    """The largest comes in the second block, so that what was summed before it shrinks to nothing."""
    logits = np.zeros((1, 20), f32)
    logits[0, 3], logits[0, 18] = 500.0, 1000.0
    found = losses(logits, [3])
    assert [500.0] == found["loss_ptr"].tolist()
    assert (-1.0, 1.0) == (found["grad_ptr"][0, 3], found["grad_ptr"][0, 18])


def test_an_ignored_row_is_not_read() -> None:
    logits = normal(2, 20)
    logits[0] = np.nan
    found = losses(logits, [-100, 7])
    assert 0.0 == found["loss_ptr"][0] and not found["grad_ptr"][0].any()
    assert [64, 16, 64, 16] == moved(found, "dma_read")
    assert np.allclose(found["loss_ptr"][1], cross_entropy(logits[1:], np.array([7]), 0.0)[0], rtol=1e-5)


def test_without_gradient_nothing_is_stored_for_it() -> None:
    found = losses(normal(2, 20), [-100, 7], gradient=0)
    assert np.isnan(found["grad_ptr"]).all() and not np.isnan(found["loss_ptr"]).any()
    assert [] == moved(found, "dma_write")


# --------------------------------------------------------------------------- top-k


def largest(x: np.ndarray, k: int, topology: str = "ahbm_1x1") -> tuple[np.ndarray, np.ndarray]:
    n_rows, n_cols = x.shape
    block_k = 1 << (k - 1).bit_length()
    found = run(
        shipped("topk", K=k, BLOCK_K=block_k, BLOCK=16),
        grid=(n_rows,),
        topology=topology,
        x_ptr=x,
        values_ptr=np.full((n_rows, k), np.nan, f32),
        indices_ptr=np.full((n_rows, k), -1, np.int64),
        row_stride=n_cols,
        n_cols=n_cols,
    )
    return found["values_ptr"], found["indices_ptr"]


@pytest.mark.parametrize(
    ("n_cols", "k", "topology"),
    [
        (1, 1, "ahbm_1x1"),
        (5, 3, "ahbm_1x1"),
        (15, 1, "ahbm_1x1"),
        (16, 16, "ahbm_1x1"),
        (17, 4, "ahbm_1x1"),
        (64, 8, "ahbm_1x1"),
        (53, 7, "ahbm_2x2"),
    ],
)
def test_the_k_largest_of_rows_of_any_length(n_cols: int, k: int, topology: str) -> None:
    x = normal(3, n_cols, seed=n_cols)
    order = np.argsort(-x, axis=1, kind="stable")[:, :k]

    values, indices = largest(x, k, topology)

    assert np.array_equal(indices, order)
    assert np.array_equal(values, np.take_along_axis(x, order, axis=1))


def test_equal_values_come_in_the_order_of_columns() -> None:
    x = np.array([[1, 2] * 20], f32)
    values, indices = largest(x, 4)
    assert ([[2, 2, 2, 2]], [[1, 3, 5, 7]]) == (values.tolist(), indices.tolist())


def test_negative_infinite_and_lowest_values() -> None:
    """-inf is a value as others are: it comes before the columns that a row does not have."""
    x = np.array([[-np.inf, -3, -np.inf, np.inf, -np.finfo(f32).max, -0.5]], f32)
    values, indices = largest(x, 6)
    assert [[np.inf, -0.5, -3, -np.finfo(f32).max, -np.inf, -np.inf]] == values.tolist()
    assert [[3, 5, 1, 4, 0, 2]] == indices.tolist()


# --------------------------------------------------------------------------- dropout


def dropped(x: np.ndarray, p: float, seed: int, topology: str = "ahbm_1x1", block: int = 32) -> np.ndarray:
    found = run(
        shipped("dropout", BLOCK=block),
        grid=(-(-x.size // block),),
        topology=topology,
        x_ptr=x,
        y_ptr=np.full_like(x, np.nan),
        n_elements=x.size,
        p=p,
        seed=seed,
    )
    result: np.ndarray = found["y_ptr"]
    return result


def test_the_first_random_numbers_of_a_seed() -> None:
    """Counters 0 and 1 with the key 0: the first words are 0x6627e8d5 and, above half of the range, mirrored."""
    first = 0x6627E8D5 * 4.6566127342e-10  # the answer of Random123 for counter 0 and key 0
    one = np.ones(1, f32)
    assert [1 / (1 - f32(first - 1e-6))] == dropped(one, first - 1e-6, 0).tolist()
    assert [0.0] == dropped(one, first + 1e-6, 0).tolist()


@pytest.mark.parametrize("n", [1, 33])
def test_the_same_elements_are_kept_whatever_the_block_and_the_machine(n: int) -> None:
    x = 1 + np.abs(normal(n, seed=n))
    found = dropped(x, 0.4, 123)
    for topology, block in (("ahbm_1x1", 8), ("ahbm_2x2", 64)):
        assert np.array_equal(found, dropped(x, 0.4, 123, topology, block))
    kept = found != 0
    assert np.allclose(found[kept], x[kept] / f32(0.6), rtol=1e-6)


def test_shares_and_seeds() -> None:
    x = np.ones(4096, f32)
    kept = dropped(x, 0.25, 5, block=1024) != 0
    assert 0.73 < kept.mean() < 0.77
    assert not np.array_equal(kept, dropped(x, 0.25, 6, block=1024) != 0)
    assert np.array_equal(x, dropped(x, 0.0, 5, block=1024))  # no number of this seed is exactly 0
