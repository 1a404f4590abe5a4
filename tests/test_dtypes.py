"""Element types: their facts, every cast against exact fractions, and Triton's promotion, pair by pair."""

from __future__ import annotations

import itertools
import math
import random
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.dtypes import (
    ALL,
    BY_NAME,
    DType,
    bf16,
    cast,
    compute_dtype,
    fp8e4nv,
    fp8e5,
    fp16,
    fp32,
    fp64,
    from_numpy,
    i1,
    i8,
    i16,
    i32,
    i64,
    promote,
    reinterpret,
    truncated,
    u8,
    u32,
    u64,
    wrap,
)
from tests.rounding import FORMATS, nearest, same, towards_zero, wrapped

FLOATS = tuple(dtype for dtype in ALL if dtype.is_float)
INTS = tuple(dtype for dtype in ALL if dtype.kind in ("int", "uint"))
SPECIAL = (0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan)


def stored(values: list[float], dtype: DType) -> np.ndarray:
    """Values that the type holds exactly, as an array of it."""
    array = np.array(values, np.float64)
    return array if dtype is fp64 else array.astype(np.float32).astype(dtype.numpy)


def numbers(array: np.ndarray) -> list[float]:
    return [float(value) for value in np.asarray(array).astype(np.float64).ravel()]


def assert_same(expected: list[float], found: list[float]) -> None:
    wrong = [(e, f) for e, f in zip(expected, found, strict=True) if not same(e, f)]
    assert [] == wrong


# --------------------------------------------------------------------------- facts


def test_names_sizes_and_ranges() -> None:
    assert [1, 1, 2, 4, 8, 1, 2, 4, 8, 1, 1, 2, 2, 4, 8] == [dtype.nbytes for dtype in ALL]
    assert [dtype.nbytes for dtype in ALL] == [dtype.numpy.itemsize for dtype in ALL]
    assert [(0, 1), (-128, 127), (0, 255), (-(2**63), 2**63 - 1), (0, 2**64 - 1)] == [
        (dtype.min, dtype.max) for dtype in (i1, i8, u8, i64, u64)
    ]
    assert all(BY_NAME[dtype.name] is dtype and BY_NAME[dtype.triton] is dtype for dtype in ALL)
    assert (i1, fp8e4nv, fp8e5) == (BY_NAME["bool"], BY_NAME["fp8e4m3"], BY_NAME["float8_e5m2"])


def test_every_type_is_found_from_its_numpy_type_and_no_other_is() -> None:
    assert list(ALL) == [from_numpy(dtype.numpy) for dtype in ALL]
    assert None is from_numpy(np.dtype(np.complex64))
    assert i32 is from_numpy(np.dtype(">i4").newbyteorder("="))


def test_kinds() -> None:
    assert (True, False, True) == (i1.is_int, i1.is_signed, i8.is_signed)
    assert (False, True) == (u8.is_signed, bf16.is_signed)
    assert [fp32] * 5 + [fp64] == [compute_dtype(dtype) for dtype in FLOATS]
    assert list(INTS) == [compute_dtype(dtype) for dtype in INTS]


# --------------------------------------------------------------------------- float to float


def around_ties(source: DType, to: DType) -> list[float]:
    """Values of `source` at, between and just beside neighbours of `to`, over its whole range."""
    form = FORMATS[to.name]
    draw = random.Random(f"{source} {to}")
    found: list[float] = list(SPECIAL)
    for _ in range(60):
        exponent = draw.randint(form.least_exponent - form.precision, math.frexp(float(form.largest))[1])
        step = Fraction(2) ** max(exponent - form.precision + 1, form.least_exponent - form.precision + 1)
        tie = (draw.randint(2 ** (form.precision - 1), 2**form.precision - 1) + Fraction(1, 2)) * step
        for value in (tie - step / 2, tie, tie * (1 + Fraction(1, 2**21)), tie * (1 - Fraction(1, 2**50))):
            found.extend((nearest(value, source), -nearest(value, source)))
    return [value for value in found if not math.isinf(value) or FORMATS[source.name].infinite]


@pytest.mark.parametrize(("source", "to"), [*itertools.product(FLOATS, FLOATS)], ids=str)
def test_floats_round_once_to_nearest_even(source: DType, to: DType) -> None:
    values = around_ties(source, to)

    assert_same([nearest(value, to) for value in values], numbers(cast(stored(values, source), to)))


@pytest.mark.parametrize("source", [fp8e4nv, fp8e5], ids=str)
def test_all_256_values_of_an_fp8_are_kept_by_wider_types(source: DType) -> None:
    every = np.arange(256, dtype=np.uint8).view(source.numpy)

    for to in (fp16, fp32, fp64):
        assert_same(numbers(every), numbers(cast(every, to)))
    assert_same(numbers(every), numbers(cast(cast(every, fp64), source)))


def test_fc_nu14_bf16_rounds_to_nearest_even() -> None:
    """FC-NU14: 1 + 2^-8, 1 + 3 × 2^-8 and 1 + 2^-8 + 2^-20 in bf16; from fp64 too, a last bit far beyond fp32's."""
    values = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20], np.float32)

    assert [1.0, 1.015625, 1.0078125] == numbers(cast(values, bf16))
    assert [1.0078125, 1.0] == numbers(cast(np.array([1 + 2**-8 + 2**-40, 1 + 2**-8 - 2**-40]), bf16))


def test_fp8_saturates_and_fp16_overflows() -> None:
    values = np.array([464.1, 1e30, -1e30, math.inf, 61441.0, 65519.9, 65520.0], np.float32)

    assert [448.0, 448.0, -448.0, 448.0, 448.0, 448.0, 448.0] == numbers(cast(values, fp8e4nv))
    assert [448.0, 57344.0, -57344.0, math.inf, 57344.0, 57344.0, 57344.0] == numbers(cast(values, fp8e5))
    assert [464.0, math.inf, -math.inf, math.inf, 61440.0, 65504.0, math.inf] == numbers(cast(values, fp16))


def test_nan_stays_nan_in_every_float() -> None:
    for source, to in itertools.product(FLOATS, FLOATS):
        assert math.isnan(float(cast(stored([math.nan], source), to).astype(np.float32)[0])), (source, to)


@pytest.mark.parametrize(("source", "to"), [(a, b) for a in FLOATS for b in FLOATS if a.bits > b.bits], ids=str)
def test_rounding_towards_zero(source: DType, to: DType) -> None:
    values = [value for value in around_ties(source, to) if to is not fp8e4nv or not math.isinf(value)]

    assert_same([towards_zero(value, to) for value in values], numbers(truncated(stored(values, source), to)))


# --------------------------------------------------------------------------- integers


@pytest.mark.parametrize(("source", "to"), [*itertools.product(INTS, INTS)], ids=str)
def test_integers_wrap(source: DType, to: DType) -> None:
    values = [source.min, source.max, source.min + 1, source.max - 1, 0, 1, source.max // 3]

    found = cast(np.array(values, source.numpy), to)

    assert to.numpy == found.dtype
    assert [wrapped(value, to) for value in values] == found.tolist()


@pytest.mark.parametrize(("source", "to"), [*itertools.product(INTS, FLOATS)], ids=str)
def test_integers_round_once_to_floats(source: DType, to: DType) -> None:
    draw = random.Random(f"{source} {to}")
    values = [source.min, source.max, 0, 1, source.max // 3]
    for bits in range(2, source.bits):
        top = 1 << bits
        values.extend(min(source.max, top + draw.choice((0, 1, top >> 8, (top >> 8) + 1, top >> 24))) for _ in range(3))

    found = cast(np.array(values, source.numpy), to)

    assert_same([nearest(Fraction(value), to) for value in values], numbers(found))


@pytest.mark.parametrize(("source", "to"), [*itertools.product(FLOATS, INTS)], ids=str)
def test_floats_drop_their_fraction_and_clamp_in_integers(source: DType, to: DType) -> None:
    """In int32 those that end up in fewer bits, of which the low ones stay."""
    near = [float(to.max), float(to.min), to.max * 0.75, 2.0**31, -(2.0**31), 2.0**63, 3e38, -3e38, 0.99, -0.99, 2.5]
    values = [nearest(value, source) for value in (*SPECIAL, *near, -2.0, -300.0, 256.0, 70000.0)]
    through = to if to.bits >= 32 else i32

    found = cast(stored(values, source), to)

    clamped = [
        0 if math.isnan(value) else int(min(max(value, through.min), through.max)) if math.isfinite(value) else
        (through.max if value > 0 else through.min)
        for value in values
    ]  # fmt: skip
    assert to.numpy == found.dtype
    assert [wrap(value, to) for value in clamped] == found.tolist()


@pytest.mark.parametrize("source", ALL, ids=str)
def test_a_bool_is_whether_it_is_not_zero(source: DType) -> None:
    values = [0.0, 1.0, 0.5, -0.0, math.nan] if source.is_float else [0, 1, 1, 0, 1]

    found = cast(stored(values, source) if source.is_float else np.array(values, source.numpy), i1)

    assert [False, True, True, False, True] == found.tolist()
    assert [0, 1, 1, 0, 1] == cast(found, i32).tolist() == cast(found, fp8e5).astype(np.int32).tolist()


def test_a_cast_takes_any_shape_and_numpy_scalars() -> None:
    for to in ALL:
        for shape in ((), (1,), (3, 0), (2, 3)):
            assert shape == cast(np.ones(shape), to).shape == cast(np.ones(shape, np.int64), to).shape
        assert 3.0 == float(cast(np.float64(3), to).astype(np.float32)) or to is i1


# --------------------------------------------------------------------------- bits


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_bitcast_reads_the_same_bits(bits: int) -> None:
    word = struct.pack("<I", bits)

    assert struct.unpack("<i", word)[0] == reinterpret(np.uint32(bits), i32)
    assert same(struct.unpack("<f", word)[0], float(reinterpret(np.uint32(bits), fp32)))
    assert bits == reinterpret(reinterpret(np.uint32(bits), i32), u32)


def test_a_bitcast_keeps_shapes_and_strides_right() -> None:
    columns = np.arange(6, dtype=np.int16).reshape(2, 3).T

    found = reinterpret(columns, bf16)

    assert (3, 2) == found.shape
    np.testing.assert_array_equal(columns, reinterpret(found, i16))
    assert () == reinterpret(np.float32(1), i32).shape
    assert 0x3F800000 == int(reinterpret(np.float32(1), i32))


# --------------------------------------------------------------------------- promotion

# Triton's `TritonSemantic.computation_type_impl` and `integer_promote_impl` (triton-lang/triton,
# python/triton/language/semantic.py, at 00526b7) worked out by hand for two operands that are not literals. Two of
# its pairs are errors there: an fp8 with an integer, which gives fp16 here, and `/`, `//` and `%` of integers that
# differ in sign, which the compiler refuses.
TABLE = """
         i1   i8   i16  i32  i64  u8   u16  u32  u64  fp8e4nv fp8e5 bf16 fp16 fp32 fp64
i1       i1   i8   i16  i32  i64  u8   u16  u32  u64  fp16    fp16  fp32 fp16 fp32 fp64
i8       i8   i8   i16  i32  i64  u8   u16  u32  u64  fp16    fp16  fp32 fp16 fp32 fp64
i16      i16  i16  i16  i32  i64  i16  u16  u32  u64  fp16    fp16  fp32 fp16 fp32 fp64
i32      i32  i32  i32  i32  i64  i32  i32  u32  u64  fp16    fp16  fp32 fp16 fp32 fp64
i64      i64  i64  i64  i64  i64  i64  i64  i64  u64  fp16    fp16  fp32 fp16 fp32 fp64
u8       u8   u8   i16  i32  i64  u8   u16  u32  u64  fp16    fp16  fp32 fp16 fp32 fp64
u16      u16  u16  u16  i32  i64  u16  u16  u32  u64  fp16    fp16  fp32 fp16 fp32 fp64
u32      u32  u32  u32  u32  i64  u32  u32  u32  u64  fp16    fp16  fp32 fp16 fp32 fp64
u64      u64  u64  u64  u64  u64  u64  u64  u64  u64  fp16    fp16  fp32 fp16 fp32 fp64
fp8e4nv  fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp8e4nv fp16  fp32 fp16 fp32 fp64
fp8e5    fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16    fp8e5 fp32 fp16 fp32 fp64
bf16     fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32    fp32  bf16 fp16 fp32 fp64
fp16     fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16    fp16  fp16 fp16 fp32 fp64
fp32     fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32    fp32  fp32 fp32 fp32 fp64
fp64     fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64    fp64  fp64 fp64 fp64 fp64
"""


def table() -> dict[tuple[str, str], str]:
    head, *rows = [line.split() for line in TABLE.strip().splitlines()]
    return {(row[0], column): result for row in rows for column, result in zip(head, row[1:], strict=True)}


def test_promotion_is_tritons_for_every_pair() -> None:
    found = {(a.name, b.name): promote(a, b).name for a in ALL for b in ALL}

    assert 225 == len(found)
    assert table() == found


def test_halves_divide_in_fp32_and_nothing_else_changes() -> None:
    for (a, b), plain in table().items():
        halves = "fp16" in (a, b) or (a, b) == ("bf16", "bf16")
        expected = "fp32" if halves and plain in ("fp16", "bf16") else plain

        assert expected == promote(BY_NAME[a], BY_NAME[b], division=True).name, (a, b)


@pytest.mark.parametrize("source", ALL, ids=str)
def test_casts_of_any_bits_are_silent(source: DType) -> None:
    """Of signalling NaNs too, of which NumPy warns; warnings fail a test."""
    bits = np.random.default_rng(source.bits).integers(0, 256, 2048 * source.nbytes, np.uint8)
    values = bits.view(source.numpy) if source is not i1 else bits % 2 == 1
    for to in ALL:
        assert cast(values, to).dtype == to.numpy
        if source.is_float and to.is_float:
            assert truncated(values, to).dtype == to.numpy
