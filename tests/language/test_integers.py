"""Integers at run time: division, shifts, wrapping, promotion; against C's rules worked by hand, and in every width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.language.running import elementwise, run

SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]


@pytest.mark.parametrize("dtype", SIGNED)
def test_division_truncates_towards_zero(dtype: Any) -> None:
    a, b = np.array([-7, 7, -7, 7, -1, 0], dtype), np.array([2, 2, -2, -2, 3, 5], dtype)

    assert [-3, 3, 3, -3, 0, 0] == elementwise("a // b", a, b, out=dtype).tolist()
    assert [-1, 1, -1, 1, -1, 0] == elementwise("a % b", a, b, out=dtype).tolist()


def test_division_of_a_scalar_and_in_an_address_truncates_too() -> None:
    text = """
    def k(x_ptr, o_ptr, n, N: tl.constexpr):
        i = tl.arange(0, N)
        v = tl.load(x_ptr + (i - 3) // 2 + 1)
        tl.store(o_ptr + i, v * 100 + n // 2 * 10 + n % 3)
    """
    x = np.arange(10, dtype=np.int32)

    # (−3, −2, −1, 0, …) // 2 is −1, −1, 0, 0, 0, 1, 1, 2 towards zero; −7 // 2 = −3, −7 % 3 = −1
    got = run(text, {"x_ptr": x, "o_ptr": np.zeros(8, np.int32), "n": -7}, N=8)["o_ptr"]

    assert [i * 100 - 31 for i in (0, 0, 1, 1, 1, 2, 2, 3)] == got.tolist()


@pytest.mark.parametrize("dtype", SIGNED)
def test_a_shift_to_the_right_keeps_the_sign(dtype: Any) -> None:
    got = elementwise("a >> 1", np.array([-8, -1, 8, np.iinfo(dtype).min], dtype), out=dtype)

    assert [-4, -1, 4, int(np.iinfo(dtype).min) >> 1] == got.tolist()


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_a_shift_of_an_unsigned_fills_with_zeros(dtype: Any) -> None:
    top = np.iinfo(dtype).max

    assert [int(top) >> 3, 1] == elementwise("a >> 3", np.array([top, 8], dtype), out=dtype).tolist()


def test_a_shift_of_a_run_time_scalar_keeps_the_sign() -> None:
    text = "def k(o_ptr, n):\n    tl.store(o_ptr, n >> 2)\n    tl.store(o_ptr + 1, (n - 1) >> 1)\n"

    assert [-3, -6] == run(text, {"o_ptr": np.zeros(2, np.int32), "n": -10})["o_ptr"].tolist()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.uint32])
def test_sums_and_products_wrap(dtype: Any) -> None:
    info = np.iinfo(dtype)
    a = np.array([info.max, info.min, info.max], dtype)

    with np.errstate(over="ignore"):
        assert (a + dtype(1)).tolist() == elementwise("a + b", a, np.ones(3, dtype), out=dtype).tolist()
        assert (a * dtype(3)).tolist() == elementwise("a * b", a, np.full(3, 3, dtype), out=dtype).tolist()


def test_an_int32_index_wraps_where_it_is_data() -> None:
    text = "def k(o_ptr, n, N: tl.constexpr):\n    i = tl.arange(0, N)\n    tl.store(o_ptr + i, i * n)\n"
    n = 2**30

    got = run(text, {"o_ptr": np.zeros(4, np.int32), "n": n}, N=4)["o_ptr"]

    assert [0, 2**30, -(2**31), -(2**30)] == got.tolist()


def test_a_hash_wraps_at_every_step() -> None:
    text = """
    def k(o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        h = (i * 73856093 ^ i * 19349663) * 83492791
        tl.store(o_ptr + i, h % 1021)
    """
    i = np.arange(64, dtype=np.int32)
    with np.errstate(over="ignore"):
        h = (i * np.int32(73856093) ^ i * np.int32(19349663)) * np.int32(83492791)

    assert np.fmod(h, 1021).tolist() == run(text, {"o_ptr": np.zeros(64, np.int32)}, N=64)["o_ptr"].tolist()


def test_types_of_one_rank_meet_in_the_unsigned_one() -> None:
    got = elementwise("(a + b) >> 31", np.array([-1], np.int32), np.array([0], np.uint32), out=np.int64)

    assert [1] == got.tolist()


def test_bit_31_survives_the_way_into_uint32() -> None:
    got = elementwise("(a.to(tl.uint32) >> 16).to(tl.int64)", np.array([-(2**31)], np.int32), out=np.int64)

    assert [0x8000] == got.tolist()


def test_int_by_int_gives_fp32() -> None:
    got = elementwise("(a / b).to(tl.float32)", np.array([1], np.int32), np.array([3], np.int32), out=np.float64)

    assert [float(np.float32(1) / np.float32(3))] == got.tolist()


def test_bitwise_operators() -> None:
    a, b = np.array([0b1100, -1], np.int16), np.array([0b1010, 0xF0], np.int16)

    assert (a & b).tolist() == elementwise("a & b", a, b, out=np.int16).tolist()
    assert (a | b).tolist() == elementwise("a | b", a, b, out=np.int16).tolist()
    assert (a ^ b).tolist() == elementwise("a ^ b", a, b, out=np.int16).tolist()
    assert (~a).tolist() == elementwise("~a", a, out=np.int16).tolist()


def test_powers_of_integers_wrap() -> None:
    a, b = np.array([3, -2, 2, 7], np.int32), np.array([4, 3, 33, 0], np.int32)

    assert [81, -8, 0, 1] == elementwise("a ** b", a, b, out=np.int32).tolist()


def test_a_bitcast_reads_the_same_bits() -> None:
    x = np.array([1.0, -0.0, np.inf, -2.5], np.float32)

    assert x.view(np.int32).tolist() == elementwise("a.to(tl.int32, bitcast=True)", x, out=np.int32).tolist()
    back = elementwise("a.to(tl.float32, bitcast=True)", x.view(np.int32), out=np.float32)
    assert x.tobytes() == back.tobytes()
    half = elementwise("a.to(tl.uint16, bitcast=True)", x.astype(np.float16), out=np.uint16)
    assert x.astype(np.float16).view(np.uint16).tolist() == half.tolist()


def test_high_products() -> None:
    a, b = np.array([2**31 + 5, 2**32 - 1], np.uint32), np.array([7, 2**32 - 1], np.uint32)
    want = [int(x) * int(y) >> 32 for x, y in zip(a, b, strict=True)]

    assert want == elementwise("tl.umulhi(a, b)", a, b, out=np.uint32).tolist()
    wide = [int(x) << 32 for x in a], [int(y) << 31 for y in b]
    x, y = (np.array(side, np.uint64) for side in wide)
    want = [p * q >> 64 for p, q in zip(*wide, strict=True)]
    assert want == elementwise("tl.umulhi(a, b)", x, y, out=np.uint64).tolist()


@settings(max_examples=8, deadline=None)
@given(data=st.data(), kind=st.sampled_from(["//", "%", ">>", "+", "*", "-", "&", "^"]))
def test_folding_and_run_time_agree(data: st.DataObject, kind: str) -> None:
    """A literal operand, a scalar argument, and a block give one answer."""
    number = st.integers(-(2**31), 2**31 - 1)
    a = data.draw(number)
    b = data.draw(st.integers(0, 31)) if kind == ">>" else data.draw(number.filter(lambda n: n not in (0, -1)))
    text = f"""
    def k(x_ptr, o_ptr, a, b):
        tl.store(o_ptr, tl.full((1,), {a}, tl.int32) {kind} tl.full((1,), {b}, tl.int32) + tl.arange(0, 1))
        tl.store(o_ptr + 1, a {kind} b)
        i = tl.arange(0, 1)
        tl.store(o_ptr + 2 + i, tl.load(x_ptr + i) {kind} tl.load(x_ptr + 1 + i))
        tl.store(o_ptr + 3 + i, a {kind} tl.load(x_ptr + 1 + i))
    """.replace("tl.store(o_ptr, ", "tl.store(o_ptr + tl.arange(0, 1), ")

    got = run(text, {"x_ptr": np.array([a, b], np.int32), "o_ptr": np.zeros(4, np.int32), "a": a, "b": b})["o_ptr"]

    assert 1 == len(set(got.tolist())), got
