"""fp8: every pattern of bits, rounding and saturation by a table of neighbours, arithmetic, reductions; every value."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.language.running import elementwise, run

KINDS = [("tl.float8e4nv", ml_dtypes.float8_e4m3fn, 448.0), ("tl.float8e5", ml_dtypes.float8_e5m2, 57344.0)]


def finite(dtype: Any) -> Any:
    """All finite values that are not negative, ascending."""
    values = np.arange(128, dtype=np.uint8).view(dtype).astype(np.float64)
    return values[np.isfinite(values)]


@pytest.mark.parametrize(("name", "dtype", "top"), KINDS)
def test_every_value_goes_to_wider_types_and_back(name: str, dtype: Any, top: float) -> None:
    bits = np.arange(256, dtype=np.uint8)
    x = bits.view(dtype)

    wide = elementwise("a.to(tl.float32)", x, out=np.float32)
    half = elementwise("a.to(tl.float16)", x, out=np.float32)
    back = elementwise(f"a.to(tl.float32).to({name})", x, out=dtype)

    np.testing.assert_array_equal(x.astype(np.float32), wide)
    np.testing.assert_array_equal(x.astype(np.float32), half)
    kept = np.isfinite(x.astype(np.float32))
    assert bits[kept].tolist() == back.view(np.uint8)[kept].tolist()
    assert np.isnan(back.astype(np.float32)[np.isnan(x.astype(np.float32))]).all()


@pytest.mark.parametrize(("name", "dtype", "top"), KINDS)
def test_what_lies_between_two_values_goes_to_the_nearer_and_ties_to_the_even(
    name: str, dtype: Any, top: float
) -> None:
    values = finite(dtype)
    below, above = values[:-1], values[1:]
    middle = (below + above) / 2
    even = np.where(np.arange(len(below)) % 2 == 0, below, above)  # bits ascend by 1, so every second one is even
    step = (above - below) / 16
    x = np.concatenate([middle, middle - step, middle + step, -middle]).astype(np.float32)

    got = elementwise(f"a.to({name})", x, out=dtype).astype(np.float64)

    assert np.concatenate([even, below, above, -even]).tolist() == got.tolist()


@pytest.mark.parametrize(("name", "dtype", "top"), KINDS)
@pytest.mark.parametrize("source", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
def test_what_is_too_large_is_the_largest_and_nan_stays(name: str, dtype: Any, top: float, source: Any) -> None:
    beyond = [60000.0, -60000.0, np.inf, -np.inf] if top < 50000 else [65000.0, -65000.0, 1e30, -1e30]
    if source is np.float16 and top > 50000:
        beyond[2:] = [65504.0, -65504.0]
    x = np.array([*beyond, top, -top, np.nan, 0.0, -0.0], np.float64).astype(source)

    got = elementwise(f"a.to({name})", x, out=dtype).astype(np.float64)

    assert [top, -top] * 3 == got[:6].tolist()
    assert np.isnan(got[6]) and [False, True] == np.signbit(got[7:]).tolist()


def test_stores_saturate_wherever_the_value_comes_from() -> None:
    text = """
    def k(x_ptr, o_ptr, s, C: tl.constexpr):
        i = tl.arange(0, 2)
        tl.store(o_ptr + i, tl.load(x_ptr + i))
        tl.store(o_ptr + 2, s)
        tl.store(o_ptr + 3, C)
        tl.store(o_ptr + 4 + i, tl.full((2,), C, tl.float32))
        tl.store(o_ptr + 6, tl.load(x_ptr + 1))
        tl.store(o_ptr + 7 + i, (i - 1) * 1000)
    """
    args = {"x_ptr": np.array([449.0, -1e9], np.float32), "o_ptr": np.zeros(9, ml_dtypes.float8_e4m3fn), "s": 1e9}

    got = run(text, args, C=500.0)["o_ptr"].astype(np.float32)

    assert [448.0, -448.0, 448.0, 448.0, 448.0, 448.0, -448.0, -448.0, 0.0] == got.tolist()


def test_sums_and_extremes_of_fp8() -> None:
    text = """
    def k(x_ptr, o_ptr, N: tl.constexpr):
        x = tl.load(x_ptr + tl.arange(0, N)).to(tl.float32)
        tl.store(o_ptr, tl.sum(x, 0))
        tl.store(o_ptr + 1, tl.max(x, 0))
    """
    x = np.full(61, 240.0).astype(ml_dtypes.float8_e4m3fn)

    assert [61 * 240.0, 240.0] == run(text, {"x_ptr": x, "o_ptr": np.zeros(2, np.float32)}, N=61)["o_ptr"].tolist()
