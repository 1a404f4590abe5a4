"""Floats at run time: rounding of every step, types of literals and scalars, NaN, fp8; worked by hand or by NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.language.running import elementwise, run

NAN = float("nan")


def test_half_arithmetic_rounds_at_every_step() -> None:
    # 2048 + 1 is 2048 in fp16 (ties to even), so adding 1 twice never moves it; adding 2 does
    a, one = np.array([2048.0], np.float16), np.array([1.0], np.float16)

    assert [2048.0] == elementwise("a + b + b", a, one, out=np.float32).tolist()
    assert [2050.0] == elementwise("a + (b + b)", a, one, out=np.float32).tolist()


@pytest.mark.parametrize("opt_level", [0, 1])
def test_a_long_half_chain_is_not_kept_in_fp32(opt_level: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(64).astype(np.float16) for _ in range(2))

    got = elementwise("(a * b + a) * b - a", a, b, out=np.float16, opt_level=opt_level)

    assert ((a * b + a) * b - a).tobytes() == got.tobytes()


@pytest.mark.parametrize("literal", ["1.0", "1", "0.5 * 2"])
def test_a_literal_leaves_a_half_block_half(literal: str) -> None:
    assert [2048.0] == elementwise(f"a + {literal}", np.array([2048.0], np.float16), out=np.float32).tolist()


def test_a_literal_under_division_widens_a_half_block() -> None:
    got = elementwise("a / 3.0", np.array([1.0], np.float16), out=np.float32)

    assert [float(np.float32(1) / np.float32(3))] == got.tolist()


def test_a_run_time_fp32_scalar_widens_a_half_block() -> None:
    text = "def k(a_ptr, o_ptr, s):\n    i = tl.arange(0, 1)\n    tl.store(o_ptr + i, tl.load(a_ptr + i) + s)\n"
    args = {"a_ptr": np.array([2048.0], np.float16), "o_ptr": np.zeros(1, np.float32), "s": 1.0}

    assert [2049.0] == run(text, args)["o_ptr"].tolist()


def test_fp16_with_bf16_gives_fp16() -> None:
    a, b = np.array([2048.0], np.float16), np.array([1.0], ml_dtypes.bfloat16)

    assert [2048.0] == elementwise("a + b", a, b, out=np.float32).tolist()


def test_bf16_with_an_integer_gives_fp32() -> None:
    got = elementwise("a + b", np.array([256.0], ml_dtypes.bfloat16), np.array([1], np.int32), out=np.float32)

    assert [257.0] == got.tolist()


def test_a_cast_to_bf16_rounds_to_nearest_even() -> None:
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20], np.float32)

    assert [1.0, 1.015625, 1.0078125] == elementwise("a.to(tl.bfloat16)", x, out=np.float32).tolist()


def test_a_cast_towards_zero() -> None:
    x = np.array([1 + 2**-8 + 2**-9, -(1 + 2**-7 + 2**-8)], np.float32)

    got = elementwise('a.to(tl.bfloat16, fp_downcast_rounding="rtz")', x, out=np.float32)

    assert [1.0, -(1 + 2**-7)] == got.tolist()


@pytest.mark.parametrize(
    ("name", "dtype", "x", "want"),
    [
        ("tl.float8e4nv", ml_dtypes.float8_e4m3fn, [448.0, 449.0, 1e6, -1e6, 17.0, 19.0, 0.0], 448.0),
        ("tl.float8e5", ml_dtypes.float8_e5m2, [57344.0, 57345.0, 1e6, -1e6, 9.0, 11.0, 0.0], 57344.0),
    ],
)
def test_fp8_saturates_and_rounds_ties_to_even(name: str, dtype: Any, x: list[float], want: float) -> None:
    got = elementwise(f"a.to({name})", np.array(x, np.float32), out=dtype).astype(np.float32)

    # e4m3: 17 lies between 16 and 18 and goes to 16, 19 between 18 and 20 to 20; e5m2: 9 to 8, 11 to 12
    ties = [16.0, 20.0] if dtype is ml_dtypes.float8_e4m3fn else [8.0, 12.0]
    assert [want, want, want, -want, *ties, 0.0] == got.tolist()


def test_a_store_casts_to_the_pointee_and_saturates_fp8() -> None:
    text = "def k(a_ptr, o_ptr):\n    i = tl.arange(0, 4)\n    tl.store(o_ptr + i, tl.load(a_ptr + i))\n"
    a = np.array([1.9, -1.9, 500.0, 0.1], np.float32)

    eight = run(text, {"a_ptr": a, "o_ptr": np.zeros(4, ml_dtypes.float8_e4m3fn)})["o_ptr"]
    whole = run(text, {"a_ptr": a, "o_ptr": np.zeros(4, np.int32)})["o_ptr"]

    assert [1.875, -1.875, 448.0, 0.1015625] == eight.astype(np.float32).tolist()
    assert [1, -1, 500, 0] == whole.tolist()


def test_nan_loses_in_maximum_and_minimum_unless_it_is_asked_for() -> None:
    a, b = np.array([NAN, 1.0, NAN], np.float32), np.array([2.0, NAN, NAN], np.float32)

    for name in ("maximum", "minimum"):
        got = elementwise(f"tl.{name}(a, b)", a, b, out=np.float32)
        assert [2.0, 1.0] == got[:2].tolist() and np.isnan(got[2])
        every = elementwise(f"tl.{name}(a, b, propagate_nan=tl.PropagateNan.ALL)", a, b, out=np.float32)
        assert np.isnan(every).all()


def test_a_comparison_with_nan_is_false_and_unequal_true() -> None:
    a = np.array([NAN, 1.0], np.float32)

    assert [0, 1] == elementwise("(a == a).to(tl.int32)", a, out=np.int32).tolist()
    assert [1, 0] == elementwise("(a != a).to(tl.int32)", a, out=np.int32).tolist()
    assert [0, 0] == elementwise("((a < 0) | (a > 2)).to(tl.int32)", a, out=np.int32).tolist()


def test_a_clamp_holds_and_nan_follows_the_rule() -> None:
    a = np.array([-3.0, 0.5, 9.0, NAN], np.float32)

    assert [-1.0, 0.5, 1.0, -1.0] == elementwise("tl.clamp(a, -1.0, 1.0)", a, out=np.float32).tolist()
    wins = elementwise("tl.clamp(a, -1.0, 1.0, propagate_nan=tl.PropagateNan.ALL)", a, out=np.float32)
    assert np.isnan(wins[3]) and [-1.0, 0.5, 1.0] == wins[:3].tolist()


def test_the_remainder_of_floats_has_the_dividends_sign() -> None:
    a, b = np.array([-7.5, 7.5, -1.0], np.float32), np.array([2.0, -2.0, 4.0], np.float32)

    assert np.fmod(a, b).tolist() == elementwise("a % b", a, b, out=np.float32).tolist()


def test_float_powers() -> None:
    a = np.array([2.0, 9.0, -2.0], np.float32)

    assert [4.0, 81.0, 4.0] == elementwise("a ** 2", a, out=np.float32).tolist()
    got = elementwise("a ** 0.5", a, out=np.float32)
    np.testing.assert_allclose([2**0.5, 3.0], got[:2], rtol=1e-6)
    assert np.isnan(got[2])


def test_minus_zero_minus_is_zero() -> None:
    got = elementwise("-a", np.array([0.0], np.float32), out=np.float32)

    assert not np.signbit(got[0])


def test_float_to_int_truncates() -> None:
    got = elementwise("a.to(tl.int32)", np.array([-1.9, 1.9, -0.5, 2.0**40, NAN], np.float32), out=np.int32)

    assert [-1, 1, 0, 2**31 - 1, 0] == got.tolist()


def test_fp64_keeps_its_bits() -> None:
    a = np.array([1 + 2**-40], np.float64)

    assert [(1 + 2**-40) * 3] == elementwise("a * 3.0", a, out=np.float64).tolist()
    assert [(1 + 2**-40) + 1] == elementwise("a + b", a, np.ones(1, np.float32), out=np.float64).tolist()


def test_scalar_arguments_keep_their_values() -> None:
    text = "def k(o_ptr, a, b, c):\n    tl.store(o_ptr, a + b + c)\n    tl.store(o_ptr + 1, a)\n"
    args = {"o_ptr": np.zeros(2, np.float64), "a": np.float16(65500), "b": 1.0, "c": 1}

    assert [65506.0, 65504.0] == run(text, args)["o_ptr"].tolist()


# --------------------------------------------------------------------------- functions


@pytest.mark.parametrize(
    ("call", "want"),
    [
        ("libdevice.log1p(a)", np.log1p),
        ("libdevice.expm1(a)", np.expm1),
        ("libdevice.tanh(a)", np.tanh),
        ("tl.math.tan(a)", np.tan),
        ("libdevice.asinh(a)", np.arcsinh),
        ("libdevice.cbrt(a)", np.cbrt),
        ("libdevice.exp10(a)", lambda x: 10.0**x),
        ("libdevice.rint(a)", np.rint),
        ("libdevice.fast_expf(a)", np.exp),
        ("libdevice.pow(a, 2)", np.square),
        ("libdevice.hypot(a, a)", lambda x: np.hypot(x, x)),
        ("libdevice.copysign(1.0, a)", np.sign),
        ("libdevice.fmod(a, 0.75)", lambda x: np.fmod(x, 0.75)),
        ("libdevice.ldexp(a, 3)", lambda x: x * 8),
    ],
)
def test_libdevice(call: str, want: Any) -> None:
    x = np.array([-2.3, -0.5, 0.25, 1.75], np.float32)

    with np.errstate(invalid="ignore"):
        expected = want(x.astype(np.float64))

    np.testing.assert_allclose(expected, elementwise(call, x, out=np.float32), rtol=2e-6)


def test_tests_and_bits_of_libdevice() -> None:
    x = np.array([np.inf, NAN, -1.0, 0.0], np.float32)

    assert [1, 0, 0, 0] == elementwise("libdevice.isinf(a).to(tl.int32)", x, out=np.int32).tolist()
    assert [0, 1, 0, 0] == elementwise("libdevice.isnan(a).to(tl.int32)", x, out=np.int32).tolist()
    assert [0, 0, 1, 1] == elementwise("libdevice.finitef(a).to(tl.int32)", x, out=np.int32).tolist()
    assert [0, 3, 32] == elementwise("libdevice.popc(a)", np.array([0, 7, -1], np.int32), out=np.int32).tolist()
    assert [32, 29, 0] == elementwise("libdevice.clz(a)", np.array([0, 7, -1], np.int32), out=np.int32).tolist()


def test_round_half_away_and_half_even() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5], np.float32)

    assert [1.0, 2.0, 3.0, -1.0] == elementwise("libdevice.round(a)", x, out=np.float32).tolist()
    assert [0.0, 2.0, 2.0, -0.0] == elementwise("libdevice.rint(a)", x, out=np.float32).tolist()
    assert [0, 2, 2, 0] == elementwise("libdevice.llrint(a)", x, out=np.int64).tolist()


def test_a_type_called_on_a_value_casts_it() -> None:
    assert [2049.0] == elementwise("tl.float32(a) + 1.0", np.array([2048.0], np.float16), out=np.float32).tolist()
    assert [-np.inf] == elementwise('a + tl.float32(float("-inf"))', np.ones(1, np.float32), out=np.float32).tolist()
