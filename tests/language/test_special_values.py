"""NaN, infinities, minus zero, rows that are masked as a whole, and integers at their ends, in every family."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.language.running import elementwise, run

NAN, INF = float("nan"), float("inf")
EDGES = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-45, 3e38], np.float32)


@pytest.mark.parametrize(
    ("call", "want"),
    [
        ("tl.exp(a)", np.exp),
        ("tl.exp2(a)", np.exp2),
        ("tl.log(a)", np.log),
        ("tl.log2(a)", np.log2),
        ("tl.sqrt(a)", np.sqrt),
        ("tl.rsqrt(a)", lambda x: 1 / np.sqrt(x)),
        ("tl.abs(a)", np.abs),
        ("tl.floor(a)", np.floor),
        ("tl.ceil(a)", np.ceil),
        ("tl.sin(a)", np.sin),
        ("tl.cos(a)", np.cos),
        ("tl.sigmoid(a)", lambda x: 1 / (1 + np.exp(-x))),
        ("libdevice.tanh(a)", np.tanh),
        ("libdevice.log1p(a)", np.log1p),
        ("a / a", lambda x: x / x),
        ("a - a", lambda x: x - x),
        ("a * 0.0", lambda x: x * 0),
        ("1.0 / a", lambda x: 1 / x),
    ],
)
def test_functions_at_the_ends_of_their_range(call: str, want: Any) -> None:
    x = EDGES[:7] if "sin" in call or "cos" in call else EDGES
    with np.errstate(all="ignore"):
        expected = want(x.astype(np.float64)).astype(np.float32)
        if call in ("a / a", "1.0 / a", "tl.rsqrt(a)"):
            expected = want(x)

    got = elementwise(call, x, out=np.float32)

    np.testing.assert_allclose(expected, got, rtol=2e-6)
    assert np.signbit(expected[~np.isnan(expected)]).tolist() == np.signbit(got[~np.isnan(got)]).tolist()


def test_erf_at_its_ends() -> None:
    got = elementwise("tl.erf(a)", np.array([INF, -INF, NAN, 0.0, 0.5], np.float32), out=np.float32)

    assert [1.0, -1.0, 0.0] == [got[0], got[1], got[3]]
    assert np.isnan(got[2]) and abs(got[4] - 0.5204999) < 1e-6


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_halves_overflow_and_underflow(dtype: Any) -> None:
    """The product is rounded to the half, whatever comes after it."""
    top, least = (65504.0, 2.0**-24) if dtype is np.float16 else (2.0**128 - 2.0**120, 2.0**-133)
    a = np.array([top, -top, top, least], np.float64).astype(dtype)
    b = np.array([2.0, 2.0, 0.5, 0.25], np.float64).astype(dtype)

    got = elementwise("(a * b) * 0.5", a, b, out=np.float32)

    assert [INF, -INF, top / 4, 0.0] == got.tolist()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_every_step_of_a_chain_of_halves_is_rounded(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal(67).astype(dtype) for _ in range(3))

    got = elementwise("(a + b) * c - a * 3.0", a, b, c, out=np.float32)

    assert ((a + b) * c - a * dtype(3.0)).astype(np.float32).tolist() == got.tolist()


def test_a_choice_keeps_the_other_sides_nonsense_out() -> None:
    a = np.array([0.0, 4.0, -1.0, NAN], np.float32)

    assert [7.0, 0.25, 7.0, 7.0] == elementwise("tl.where(a > 0, 1.0 / a, 7.0)", a, out=np.float32).tolist()
    assert [0.0, 4.0, 0.0] == elementwise("tl.maximum(a, 0.0)", a, out=np.float32)[:3].tolist()


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_extremes_with_nan_and_infinity(name: str, dtype: Any) -> None:
    a = np.array([NAN, 1.0, -INF, INF, NAN], np.float64).astype(dtype)
    b = np.array([2.0, NAN, 3.0, 3.0, NAN], np.float64).astype(dtype)
    want = {"maximum": [2.0, 1.0, 3.0, INF], "minimum": [2.0, 1.0, -INF, 3.0]}

    got = elementwise(f"tl.{name}(a, b)", a, b, out=np.float64)

    assert want[name] == got[:4].tolist() and np.isnan(got[4])


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8, np.uint32, np.int64, np.uint64])
def test_integers_at_their_ends(dtype: Any) -> None:
    info = np.iinfo(dtype)
    a, b = np.array([info.min, info.max, info.max, 0], dtype), np.array([info.max, info.min, info.max, 1], dtype)

    assert np.maximum(a, b).tolist() == elementwise("tl.maximum(a, b)", a, b, out=dtype).tolist()
    assert (a < b).tolist() == elementwise("a < b", a, b, out=np.bool_).tolist()
    with np.errstate(over="ignore"):
        assert (a + b).tolist() == elementwise("a + b", a, b, out=dtype).tolist()
        assert (a * b).tolist() == elementwise("a * b", a, b, out=dtype).tolist()
        assert (-a).tolist() == elementwise("-a", a, out=dtype).tolist()
        if info.min < 0:
            assert np.abs(a).tolist() == elementwise("tl.abs(a)", a, out=dtype).tolist()


# --------------------------------------------------------------------------- reductions and scans


ROWS = """
    def k(x_ptr, o_ptr, n, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i, mask=i < n, other={other})
        tl.store(o_ptr, {result})
    """


@pytest.mark.parametrize("n", [0, 1, 5, 7, 8, 9])
def test_reductions_of_what_a_mask_leaves(n: int) -> None:
    x = np.array([-5, -1, -7, -3, -2, -9, -4, -8, -6], np.float32)

    def reduced(result: str, other: str) -> float:
        text = ROWS.replace("{result}", result).replace("{other}", other)
        return float(run(text, {"x_ptr": x, "o_ptr": np.zeros(1, np.float32), "n": n}, N=9)["o_ptr"][0])

    left = x[:n].tolist()
    assert max([-INF, *left]) == reduced("tl.max(x, 0)", '-float("inf")')
    assert min([INF, *left]) == reduced("tl.min(x, 0)", 'float("inf")')
    assert sum(left) == reduced("tl.sum(x, 0)", "0.0")
    assert max([0.0, *left] if n < 9 else left) == reduced("tl.max(x, 0)", "None")


@pytest.mark.parametrize("n", [1, 3, 17, 33])
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_of_primes_along_each_axis(n: int, axis: int) -> None:
    text = """
    def k(x_ptr, s_ptr, m_ptr, a_ptr, R: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
        x = tl.load(x_ptr + tl.arange(0, R)[:, None] * N + tl.arange(0, N)[None, :])
        i = tl.arange(0, R if AXIS == 1 else N)
        tl.store(s_ptr + i, tl.sum(x, AXIS))
        tl.store(m_ptr + i, tl.min(x, axis=AXIS))
        tl.store(a_ptr + i, tl.argmin(x, axis=AXIS))
    """
    x = np.random.default_rng(n).integers(-3, 3, (5, n)).astype(np.int32)
    size = 5 if axis == 1 else n

    args = {"x_ptr": x, **{f"{name}_ptr": np.zeros(size, np.int32) for name in "sma"}}
    got = run(text, args, R=5, N=n, AXIS=axis)

    assert x.sum(axis).tolist() == got["s_ptr"].tolist()
    assert x.min(axis).tolist() == got["m_ptr"].tolist()
    assert x.argmin(axis).tolist() == got["a_ptr"].tolist()


def test_a_softmax_of_fully_masked_and_infinite_rows() -> None:
    text = """
    def k(x_ptr, o_ptr, N: tl.constexpr):
        at = tl.program_id(0) * N + tl.arange(0, N)
        x = tl.load(x_ptr + at)
        e = tl.exp(x - tl.max(x, 0))
        tl.store(o_ptr + at, e / tl.sum(e, 0))
    """
    x = np.array(
        [[-INF] * 4, [0.0, -INF, 0.0, -INF], [INF, 0, 0, 0], [NAN, 0, 0, 0], [80.0, 80, -80, -1e30]], np.float32
    )

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros_like(x)}, grid=(5,), N=4)["o_ptr"]

    assert np.isnan(got[0]).all() and np.isnan(got[2, 0]) and np.isnan(got[3]).all()
    assert [[0.5, 0.0, 0.5, 0.0], [0.5, 0.5, 0.0, 0.0]] == [got[1].tolist(), got[4].tolist()]


def test_integer_sums_and_running_sums_wrap() -> None:
    text = """
    def k(x_ptr, o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i)
        tl.store(o_ptr + i, tl.cumsum(x, 0))
        tl.store(o_ptr + N, tl.sum(x, 0))
        tl.store(o_ptr + N + 1, tl.max(tl.cumsum(x, 0), 0))
    """
    x = np.array([2**31 - 1, 1, 2**31 - 1, 5], np.int32)
    with np.errstate(over="ignore"):
        running = np.cumsum(x, dtype=np.int32)

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros(6, np.int32)}, N=4)["o_ptr"]

    assert [*running.tolist(), int(running[-1]), int(running.max())] == got.tolist()


def test_the_extreme_of_unsigned_numbers_with_the_top_bit_set() -> None:
    text = "def k(x_ptr, o_ptr):\n    x = tl.load(x_ptr + tl.arange(0, 3))\n    tl.store(o_ptr, tl.max(x, 0))\n"
    text += "    tl.store(o_ptr + 1, tl.argmax(x, 0))\n    tl.store(o_ptr + 2, tl.min(x, 0))\n"
    x = np.array([7, 2**31 + 5, 9], np.uint32)

    assert [2**31 + 5, 1, 7] == run(text, {"x_ptr": x, "o_ptr": np.zeros(3, np.int64)})["o_ptr"].tolist()


def test_nan_in_scans_and_in_order() -> None:
    text = """
    def k(x_ptr, o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i)
        tl.store(o_ptr + i, tl.cumsum(x, 0))
        tl.store(o_ptr + N + i, tl.flip(x))
        tl.store(o_ptr + 2 * N + i, tl.sort(tl.where(x == x, x, float("inf"))))
    """
    x = np.array([1.0, NAN, -INF, 2.0], np.float32)

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros(12, np.float32)}, N=4)["o_ptr"]

    np.testing.assert_array_equal([1.0, NAN, NAN, NAN], got[:4])
    np.testing.assert_array_equal(x[::-1], got[4:8])
    assert [-INF, 1.0, 2.0, INF] == got[8:].tolist()


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (2, 3, 5), (17, 1, 7)])
def test_a_product_carries_nan_and_infinity_to_their_row_and_column_only(m: int, n: int, k: int) -> None:
    text = """
    def k(a_ptr, b_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
        m, n, d = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
        a = tl.load(a_ptr + m * K + d[None, :])
        b = tl.load(b_ptr + d[:, None] * N + n)
        tl.store(o_ptr + m * N + n, tl.dot(a, b))
    """
    rng = np.random.default_rng(0)
    a, b = rng.integers(1, 5, (m, k)).astype(np.float32), rng.integers(1, 5, (k, n)).astype(np.float32)
    a[0, 0], b[k - 1, n - 1] = NAN, INF
    with np.errstate(invalid="ignore"):
        want = a @ b

    got = run(text, {"a_ptr": a, "b_ptr": b, "o_ptr": np.zeros((m, n), np.float32)}, M=m, N=n, K=k)["o_ptr"]

    np.testing.assert_array_equal(want, got)


def test_fp64_functions_keep_their_precision() -> None:
    x = np.array([0.1, 1.0, 2.5, 1e-300], np.float64)

    for call, want in (
        ("tl.exp(a)", np.exp),
        ("tl.sqrt(a)", np.sqrt),
        ("tl.log(a)", np.log),
        ("a / 3.0", lambda v: v / 3),
    ):
        np.testing.assert_allclose(want(x), elementwise(call, x, out=np.float64), rtol=1e-15)
    text = "def k(x_ptr, o_ptr):\n    tl.store(o_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, 3)), 0))\n"
    total = run(text, {"x_ptr": np.array([1.0, 2**-40, 2**-52], np.float64), "o_ptr": np.zeros(1, np.float64)})["o_ptr"]
    assert [1 + 2**-40 + 2**-52] == total.tolist()
