"""Matrix products beyond the plain one: small integers, fp8, batches, scaled formats; against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.language.running import refused, run

DOT = """
    def k(a_ptr, b_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
        m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
        a = tl.load(a_ptr + m[:, None] * K + d[None, :])
        b = tl.load(b_ptr + d[:, None] * N + n[None, :])
        tl.store(o_ptr + m[:, None] * N + n[None, :], {dot})
    """


def product(a: Any, b: Any, out: Any, dot: str = "tl.dot(a, b)") -> Any:
    (m, k), n = a.shape, b.shape[1]
    args = {"a_ptr": a, "b_ptr": b, "o_ptr": np.zeros((m, n), out)}
    return run(DOT.replace("{dot}", dot), args, M=m, N=n, K=k)["o_ptr"]


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (3, 31, 33), (16, 16, 16), (33, 4, 127), (65, 130, 66)])
def test_products_of_int8_accumulate_in_int32(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(m)
    a, b = rng.integers(-128, 128, (m, k)).astype(np.int8), rng.integers(-128, 128, (k, n)).astype(np.int8)

    assert (a.astype(np.int64) @ b).tolist() == product(a, b, np.int32).tolist()


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.float16, np.float32])
def test_products_of_floats_accumulate_in_fp32(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((17, 17)).astype(dtype) for _ in range(2))

    got = product(a, b, np.float32)

    np.testing.assert_allclose(a.astype(np.float64) @ b.astype(np.float64), got, rtol=1e-5, atol=1e-5)


def test_a_half_result_rounds_once() -> None:
    a, b = np.full((1, 64), 32.0, np.float16), np.ones((64, 1), np.float16)
    a[0, 0] = 1.0

    # 63 x 32 + 1 = 2017 is a half; were every partial sum rounded it would be too, so add 1 more beyond 2048
    got = product(np.concatenate([a, a], 1), np.concatenate([b, b]), np.float16, "tl.dot(a, b, out_dtype=tl.float16)")

    assert [[float(np.float16(4034))]] == got.tolist()


@pytest.mark.parametrize("batch", [1, 3, 4])
def test_a_batch_of_products_with_an_accumulator(batch: int) -> None:
    text = """
    def k(a_ptr, b_ptr, o_ptr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
        i, m, n, d = tl.arange(0, B)[:, None, None], tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
        a = tl.load(a_ptr + i * M * K + m[None, :, None] * K + d[None, None, :])
        b = tl.load(b_ptr + i * K * N + d[None, :, None] * N + n[None, None, :])
        acc = tl.full((B, M, N), 2.0, tl.float32)
        tl.store(o_ptr + i * M * N + m[None, :, None] * N + n[None, None, :], tl.dot(a, b, acc))
    """
    rng = np.random.default_rng(batch)
    a, b = rng.standard_normal((batch, 4, 8)).astype(np.float32), rng.standard_normal((batch, 8, 5)).astype(np.float32)

    args = {"a_ptr": a, "b_ptr": b, "o_ptr": np.zeros((batch, 4, 5), np.float32)}

    np.testing.assert_allclose(a @ b + 2, run(text, args, B=batch, M=4, N=5, K=8)["o_ptr"], rtol=1e-5, atol=1e-5)


# --------------------------------------------------------------------------- scaled

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def halves(packed: Any) -> Any:
    """Bytes of two 4-bit floats along the last axis, the low one first."""
    return np.stack([E2M1[packed & 15], E2M1[packed >> 4]], -1).reshape(packed.shape[0], -1)


def spread(scale: Any) -> Any:
    return np.repeat(2.0 ** (scale.astype(np.float64) - 127), 32, 1)


@pytest.mark.parametrize(("left", "right"), [("e2m1", "e2m1"), ("e4m3", "e2m1"), ("e2m1", "e5m2"), ("bf16", "e4m3")])
def test_scaled_products(left: str, right: str) -> None:
    text = f"""
    def k(a_ptr, sa_ptr, b_ptr, sb_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
        m, n, s = tl.arange(0, M), tl.arange(0, N), tl.arange(0, 2)
        a = tl.load(a_ptr + m[:, None] * A + tl.arange(0, A)[None, :])
        b = tl.load(b_ptr + tl.arange(0, B)[:, None] * N + n[None, :])
        sa = tl.load(sa_ptr + m[:, None] * 2 + s[None, :])
        sb = tl.load(sb_ptr + n[:, None] * 2 + s[None, :])
        acc = tl.dot_scaled(a, sa, "{left}", b, sb, "{right}", acc=tl.full((M, N), 1.0, tl.float32))
        tl.store(o_ptr + m[:, None] * N + n[None, :], acc)
    """
    rng = np.random.default_rng(0)
    a, wide_a = operand(rng, left, 8)
    b, wide_b = operand(rng, right, 16)
    sa, sb = rng.integers(121, 132, (8, 2)).astype(np.uint8), rng.integers(121, 132, (16, 2)).astype(np.uint8)
    want = (wide_a * spread(sa)) @ (wide_b * spread(sb)).T + 1

    args = {"a_ptr": a, "sa_ptr": sa, "b_ptr": np.ascontiguousarray(b.T), "sb_ptr": sb}
    args["o_ptr"] = np.zeros((8, 16), np.float32)
    got = run(text, args, M=8, N=16, A=a.shape[1], B=b.shape[1])["o_ptr"]

    np.testing.assert_allclose(want, got, rtol=1e-5, atol=1e-4)


def operand(rng: np.random.Generator, kind: str, rows: int) -> tuple[Any, Any]:
    """(as stored, as numbers), k = 64 last."""
    if kind == "e2m1":
        packed = rng.integers(0, 256, (rows, 32)).astype(np.uint8)
        return packed, halves(packed)
    types = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16}
    stored = rng.standard_normal((rows, 64)).astype(types[kind])
    return stored, stored.astype(np.float64)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("tl.dot(x, tl.trans(x[None, :, :]))", "E_DOT_SHAPE"),
        ('tl.dot_scaled(x, None, "e3m2", x, None, "bf16")', "E_CALL_ARGUMENTS"),
        ('tl.dot_scaled(x, None, "e2m1", x, None, "e2m1")', "E_DOT_TYPE"),
    ],
)
def test_mistakes(call: str, code: str) -> None:
    text = f"""
    def k(x_ptr):
        x = tl.load(x_ptr + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :])
        y = {call}
    """

    assert code == refused(text, {"x_ptr": np.zeros((16, 16), np.float32)}).code
