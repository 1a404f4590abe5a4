"""Reductions, scans and what orders blocks: narrow types, NaN, ties, functions of the kernel; against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.language.running import refused, run


def reduced(expression: str, x: Any, out: Any, size: int = 1, helpers: str = "") -> Any:
    """`expression` over the block `v`; stored as a block of `size`, or as a scalar where that is 0."""
    n = x.shape[-1]
    rows = x.size // n
    load = "v = tl.load(x_ptr + tl.arange(0, R)[:, None] * N + tl.arange(0, N)[None, :])"
    if x.ndim == 1:
        load = "v = tl.load(x_ptr + tl.arange(0, N))"
    where = f"o_ptr + tl.arange(0, {size})" if size else "o_ptr"
    text = f"{helpers}\ndef k(x_ptr, o_ptr, R: tl.constexpr, N: tl.constexpr):\n    {load}\n"
    text += f"    tl.store({where}, {expression})\n"
    return run(text, {"x_ptr": x, "o_ptr": np.zeros(max(size, 1), out)}, R=rows, N=n)["o_ptr"]


def test_small_integers_are_summed_in_32_bits() -> None:
    assert [127 * 4] == reduced("tl.sum(v, 0)", np.full(4, 127, np.int8), np.int32, 0).tolist()
    assert [255 * 4] == reduced("tl.sum(v, 0)", np.full(4, 255, np.uint8), np.int32, 0).tolist()
    assert [3] == reduced("tl.sum(v > 0, 0)", np.array([1, 0, 5, 9], np.int32), np.int32, 0).tolist()


def test_bf16_is_summed_in_fp32_and_4096_halves_are_4096() -> None:
    assert [512.0] == reduced("tl.sum(v, 0)", np.ones(512, ml_dtypes.bfloat16), np.float32, 0).tolist()
    assert [4096.0] == reduced("tl.sum(v, 0)", np.ones(4096, np.float16), np.float32, 0).tolist()


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32])
def test_a_nan_makes_the_sum_nan_and_loses_in_the_maximum(dtype: Any) -> None:
    x = np.array([1.0, np.nan, 3.0, 2.0], np.float32).astype(dtype)

    assert np.isnan(reduced("tl.sum(v, 0)", x, np.float32, 0)[0])
    assert [3.0] == reduced("tl.max(v, 0)", x, np.float32, 0).tolist()
    assert [1.0] == reduced("tl.min(v, 0)", x, np.float32, 0).tolist()


def test_the_extreme_of_small_integers_keeps_its_sign() -> None:
    assert [-3] == reduced("tl.max(v, 0)", np.array([-3, -9], np.int8), np.int32, 0).tolist()
    assert [200] == reduced("tl.max(v, 0)", np.array([200, 9], np.uint8), np.int32, 0).tolist()


def test_the_first_of_equals_is_the_place_of_the_extreme() -> None:
    x = np.array([1.0, 5.0, 5.0, 0.0, 0.0], np.float32)

    assert [1] == reduced("tl.argmax(v, 0)", x, np.int32, 0).tolist()
    assert [3] == reduced("tl.argmin(v, 0)", x, np.int32, 0).tolist()
    assert [0] == reduced("tl.argmax(v, 0)", np.full(3, -np.inf, np.float32), np.int32, 0).tolist()


def test_extremes_with_their_places_along_an_axis() -> None:
    text = """
    def k(x_ptr, m_ptr, i_ptr, R: tl.constexpr, N: tl.constexpr):
        v = tl.load(x_ptr + tl.arange(0, R)[:, None] * N + tl.arange(0, N)[None, :])
        m, i = tl.max(v, axis=1, return_indices=True)
        tl.store(m_ptr + tl.arange(0, R), m)
        tl.store(i_ptr + tl.arange(0, R), i)
    """
    x = np.random.default_rng(0).integers(-9, 9, (4, 8)).astype(np.float32)

    out = run(text, {"x_ptr": x, "m_ptr": np.zeros(4, np.float32), "i_ptr": np.zeros(4, np.int32)}, R=4, N=8)

    assert x.max(1).tolist() == out["m_ptr"].tolist()
    assert x.argmax(1).tolist() == out["i_ptr"].tolist()


def test_axes_and_kept_axes() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)

    assert x.sum(0).tolist() == reduced("tl.sum(v, axis=0)", x, np.float32, 4).tolist()
    assert x.sum(1).tolist() == reduced("tl.sum(v, axis=-1)", x, np.float32, 3).tolist()
    assert [x.sum()] == reduced("tl.sum(v)", x, np.float32, 0).tolist()
    kept = reduced("tl.sum(v / tl.sum(v, axis=1, keep_dims=True), 0)", x, np.float32, 4)
    np.testing.assert_allclose((x / x.sum(1, keepdims=True)).sum(0), kept, rtol=1e-6)


def test_exclusive_or() -> None:
    x = np.array([5, 9, 12, 5], np.int32)

    assert [9 ^ 12] == reduced("tl.xor_sum(v, 0)", x, np.int32, 0).tolist()


WELFORD = """
def merge(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    delta = mean_b - mean_a
    return mean_a + delta * n_b / n, m2_a + m2_b + delta * delta * n_a * n_b / n, n
"""


@pytest.mark.parametrize("n", [1, 2, 7, 16, 33])
def test_a_reduction_by_a_function_of_three_values(n: int) -> None:
    text = f"""{WELFORD}
def k(x_ptr, o_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    zero = tl.zeros((N,), tl.float32)
    mean, m2, count = tl.reduce((x, zero, zero + 1.0), 0, merge)
    tl.store(o_ptr, mean)
    tl.store(o_ptr + 1, m2 / count)
    tl.store(o_ptr + 2, count)
"""
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros(3, np.float32)}, N=n)["o_ptr"]

    np.testing.assert_allclose([x.mean(), x.var(), n], got, rtol=1e-5, atol=1e-6)


def test_a_reduction_keeps_the_order_of_what_does_not_commute() -> None:
    """Affine maps x -> a x + b compose from left to right."""
    text = """
    def after(a1, b1, a2, b2):
        return a2 * a1, a2 * b1 + b2

    def k(a_ptr, b_ptr, o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        a, b = tl.reduce((tl.load(a_ptr + i), tl.load(b_ptr + i)), 0, after)
        tl.store(o_ptr, a)
        tl.store(o_ptr + 1, b)
    """
    a, b = np.array([2, 3, 5, 7, 11], np.float32), np.array([1, 4, 9, 16, 25], np.float32)
    scale, shift = 1.0, 0.0
    for p, q in zip(a, b, strict=True):
        scale, shift = p * scale, p * shift + q

    got = run(text, {"a_ptr": a, "b_ptr": b, "o_ptr": np.zeros(2, np.float32)}, N=5)["o_ptr"]

    assert [scale, shift] == got.tolist()


@pytest.mark.parametrize("n", [1, 5, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(n: int, reverse: bool) -> None:
    x = np.random.default_rng(n).integers(-4, 5, n).astype(np.float32)
    ahead = x[::-1] if reverse else x

    def want(values: Any) -> list[float]:
        return list((values[::-1] if reverse else values).tolist())

    assert want(np.cumsum(ahead)) == reduced(f"tl.cumsum(v, 0, {reverse})", x, np.float32, n).tolist()
    assert want(np.cumprod(ahead)) == reduced(f"tl.cumprod(v, 0, {reverse})", x, np.float32, n).tolist()
    larger = "def larger(a, b):\n    return tl.maximum(a, b)\n"
    got = reduced(f"tl.associative_scan(v, 0, larger, reverse={reverse})", x, np.float32, n, larger)
    assert want(np.maximum.accumulate(ahead)) == got.tolist()


def test_a_scan_of_pairs_along_the_second_axis() -> None:
    """The recurrence h = a h + b, as a scan."""
    text = """
    def step(a1, b1, a2, b2):
        return a1 * a2, a2 * b1 + b2

    def k(a_ptr, b_ptr, o_ptr, R: tl.constexpr, N: tl.constexpr):
        at = tl.arange(0, R)[:, None] * N + tl.arange(0, N)[None, :]
        _, h = tl.associative_scan((tl.load(a_ptr + at), tl.load(b_ptr + at)), 1, step)
        tl.store(o_ptr + at, h)
    """
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((2, 8)).astype(np.float32) for _ in range(2))
    want = np.zeros((2, 8), np.float32)
    h = np.zeros(2, np.float32)
    for t in range(8):
        h = a[:, t] * h + b[:, t]
        want[:, t] = h

    got = run(text, {"a_ptr": a, "b_ptr": b, "o_ptr": np.zeros((2, 8), np.float32)}, R=2, N=8)["o_ptr"]

    np.testing.assert_allclose(want, got, rtol=1e-4, atol=1e-5)


def test_a_running_sum_of_halves_rounds_at_every_step() -> None:
    x = np.array([2048, 1, 1, 1], np.float16)

    assert [2048.0] * 4 == reduced("tl.cumsum(v, 0)", x, np.float32, 4).tolist()


def test_a_running_sum_of_small_integers_is_in_32_bits() -> None:
    assert [100, 200, 300] == reduced("tl.cumsum(v, 0)", np.full(3, 100, np.int8), np.int32, 3).tolist()


def test_sort_flip_and_top() -> None:
    x = np.array([3, -1, 7, 0, 7, -9, 2, 2], np.float32)

    assert np.sort(x).tolist() == reduced("tl.sort(v)", x, np.float32, 8).tolist()
    assert np.sort(x)[::-1].tolist() == reduced("tl.sort(v, descending=True)", x, np.float32, 8).tolist()
    assert x[::-1].tolist() == reduced("tl.flip(v)", x, np.float32, 8).tolist()
    assert [7.0, 7.0, 3.0, 2.0] == reduced("tl.topk(v, 4)", x, np.float32, 4).tolist()


def test_gather_and_histogram() -> None:
    x = np.array([4, 0, 2, 2, 9, -1], np.int32)

    assert x[[5, 4, 3, 2, 1, 0]].tolist() == reduced("tl.gather(v, 5 - tl.arange(0, N), 0)", x, np.int32, 6).tolist()
    assert [1, 0, 2, 0] == reduced("tl.histogram(v, 4)", x, np.int32, 4).tolist()
    assert [0, 0, 1, 0] == reduced("tl.histogram(v, 4, mask=tl.arange(0, N) == 3)", x, np.int32, 4).tolist()


def test_join_split_interleave_and_cat() -> None:
    text = """
    def k(x_ptr, o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i)
        low, high = tl.split(tl.join(x, x * 10))
        tl.store(o_ptr + i, high - low)
        tl.store(o_ptr + N + tl.arange(0, 2 * N), tl.interleave(x, -x))
        tl.store(o_ptr + 3 * N + tl.arange(0, 2 * N), tl.cat(x, -x, can_reorder=True))
        a, b = tl.split(tl.reshape(x, (N // 2, 2)))
        tl.store(o_ptr + 5 * N + tl.arange(0, N // 2), b)
    """
    x = np.arange(1, 5, dtype=np.float32)

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros(22, np.float32)}, N=4)["o_ptr"]

    want = [*(9 * x), *np.stack([x, -x], 1).ravel(), *x, *-x, *x[1::2]]
    assert [float(value) for value in want] == got.tolist()


def test_mistakes_name_what_is_wrong() -> None:
    x = np.zeros(4, np.float32)

    def told(expression: str, helpers: str = "") -> tuple[str, str]:
        text = f"{helpers}\ndef k(x_ptr, o_ptr):\n    v = tl.load(x_ptr + tl.arange(0, 4))\n    r = {expression}\n"
        found = refused(text, {"x_ptr": x, "o_ptr": x})
        return found.code, found.message

    assert "E_SHAPE_MISMATCH" == told("tl.split(v)")[0]
    assert "E_NOT_CALLABLE" == told("tl.reduce(v, 0, 3)")[0]
    code, message = told("tl.reduce((v, v), 0, one)", "def one(a, b, c, d):\n    return a\n")
    assert ("E_UNPACK", True) == (code, "returns 1 values, 2 are reduced" in message)
    assert "E_BAD_AXIS" == told("tl.cumsum(v, 1)")[0]
    assert "E_CALL_ARGUMENTS" == told("tl.topk(v, 9)")[0]
