"""The functions of one element that the micro-op table names beyond NumPy's own: Triton's libdevice and bit tricks.

Each takes arrays of the type in which it computes. Does not know types of results, rounding or blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

Function = Callable[..., Any]


def _each(function: Callable[[float], float], beyond: Callable[[float], float] = float) -> Function:
    """A function of one Python float on every element, in fp64; `beyond` where it raises."""

    def guarded(x: float) -> float:
        try:
            return function(x)
        except (OverflowError, ValueError):
            return beyond(x)

    elements = np.frompyfunc(guarded, 1, 1)
    return lambda x: np.asarray(elements(np.asarray(x, np.float64)), np.float64)


def _gamma_beyond(x: float) -> float:
    """Γ overflows, or it has a pole: at 0 one with a sign, at negative integers one without."""
    return math.copysign(math.inf, x) if x > -1 else math.nan


def _quantile_beyond(x: float) -> float:
    return -math.inf if x == 0 else math.inf if x == 1 else math.nan


erf, erfc = _each(math.erf), _each(math.erfc)
lgamma, tgamma = _each(math.lgamma, lambda x: math.inf), _each(math.gamma, _gamma_beyond)
normcdfinv = _each(NormalDist().inv_cdf, _quantile_beyond)

# Giles, "Approximating the erfinv function" (GPU Computing Gems 2): a start for Newton's steps below.
_CENTRE = (1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.000218580870, -4.39150654e-6, -3.5233877e-6,
           3.43273939e-7, 2.81022636e-8)  # fmt: skip
_TAIL = (2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322,
         0.000100950558, -0.000200214257)  # fmt: skip
_HALF_ROOT_PI = math.sqrt(math.pi) / 2


def erfinv(x: Any) -> Any:
    """The x whose error function this is."""
    y = np.asarray(x, np.float64)
    w = -np.log((1 - y) * (1 + y))
    near = w < 5
    start = np.where(near, _polynomial(_CENTRE, w - 2.5), _polynomial(_TAIL, np.sqrt(np.maximum(w, 5)) - 3)) * y
    for _ in range(2):
        start = start - (erf(start) - y) * _HALF_ROOT_PI * np.exp(np.minimum(start * start, 700))
    edge = np.where(np.abs(y) == 1, np.copysign(np.inf, y), np.nan)
    return np.where(np.abs(y) < 1, start, edge)


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    total = np.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def normcdf(x: Any) -> Any:
    return 0.5 * erfc(-np.asarray(x, np.float64) / math.sqrt(2))


_ERFCX_FAR = 25.0  # erfc underflows from 26 on; the series below is exact to fp64 from about 20 on


def erfcx(x: Any) -> Any:
    """erfc(x) × exp(x²), by its asymptotic series where the factors leave the range."""
    y = np.asarray(x, np.float64)
    far = np.maximum(y, _ERFCX_FAR)
    t = 1 / (2 * far * far)
    series = (1 - t + 3 * t**2 - 15 * t**3 + 105 * t**4 - 945 * t**5) / (far * math.sqrt(math.pi))
    near = np.minimum(y, _ERFCX_FAR)
    return np.where(y < _ERFCX_FAR, erfc(near) * np.exp(near**2), series)


def away_round(x: Any) -> Any:
    """The nearest integer; ties away from zero. The number before ½ leaves what is just below ½ below 1."""
    below_half = np.nextafter(x.dtype.type(0.5), x.dtype.type(0))
    return np.trunc(x + np.copysign(below_half, x))


def exponent(x: Any) -> Any:
    """floor(log2 |x|), exact."""
    return np.where(x == 0, -np.inf, np.where(np.isfinite(x), np.frexp(x)[1] - 1, np.abs(x)))


def scaled(a: Any, b: Any) -> Any:
    """a × 2 to the b, rounded once; no power outside ±5000 makes a difference."""
    return np.ldexp(a, np.clip(b, -5000, 5000).astype(np.int32))


def remainder(a: Any, b: Any) -> Any:
    """a − b × the integer nearest to a / b (ties to even): exact, as IEEE 754 defines it."""
    size = np.abs(b)
    rest = np.fmod(np.abs(a), 2 * size)
    once = rest - size
    twice = np.where(once >= size - once, once - size, once)
    rest = np.where(rest > size - rest, twice, rest)
    return np.where(np.signbit(a), -rest, rest)


def positive_difference(a: Any, b: Any) -> Any:
    """a − b where that is positive, else 0; NaN where either is."""
    return np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(a > b, a - b, 0))


def _quarter_turns(x: Any) -> tuple[Any, Any]:
    """πx as a number of quarter turns (0 to 3) and an angle of at most π/4, without the error of π times x."""
    rest = np.fmod(x, 2)
    quarter = np.rint(2 * rest)
    turns = np.where(np.isfinite(quarter), quarter, 0).astype(np.int64) % 4
    return turns, np.pi * (rest - quarter / 2)


def sinpi(x: Any) -> Any:
    turns, angle = _quarter_turns(x)
    return np.choose(turns, (np.sin(angle), np.cos(angle), -np.sin(angle), -np.cos(angle)))


def cospi(x: Any) -> Any:
    turns, angle = _quarter_turns(x)
    return np.choose(turns, (np.cos(angle), -np.sin(angle), -np.cos(angle), np.sin(angle)))


def power(a: Any, b: Any) -> Any:
    """a to the b. Integers wrap; a negative power of an integer is that of 1 and −1, else 0."""
    if np.result_type(a, b).kind == "f":
        return np.power(a, b)
    positive = np.power(a, np.where(b < 0, np.zeros_like(b), b))
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(b & 1, -1, 1), 0)) if np.result_type(a).kind == "i" else 0
    return np.where(b < 0, inverse, positive)


# --------------------------------------------------------------------------- bits of integers


def _unsigned(x: Any) -> Any:
    """The bits of integers, of any strides, as numbers without a sign."""
    return x.astype(np.dtype(f"u{x.dtype.itemsize}"), copy=False)


def high_product(a: Any, b: Any) -> Any:
    """The high half of the product of two integers of one type."""
    a, b = np.broadcast_arrays(a, b)
    bits = a.dtype.itemsize * 8
    if bits < 64:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return (a.astype(wide) * b.astype(wide)) >> np.asarray(bits, wide)
    high = _unsigned_high64(_unsigned(a), _unsigned(b))
    if a.dtype.kind == "u":
        return high
    return high.view(np.int64) - np.where(a < 0, b, 0) - np.where(b < 0, a, 0)


def unsigned_high_product(a: Any, b: Any) -> Any:
    """The same of the bits taken without a sign, whatever the type says."""
    high = high_product(_unsigned(a), _unsigned(b))
    return high.astype(_unsigned(a).dtype).view(a.dtype)


def _unsigned_high64(a: Any, b: Any) -> Any:
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (other >> half)


def population(x: Any) -> Any:
    return np.bitwise_count(_unsigned(x))


def leading_zeros(x: Any) -> Any:
    """Zero bits above the highest set one."""
    value, bits = _unsigned(x), x.dtype.itemsize * 8
    length = np.zeros(value.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        if step < bits:
            high = value >> np.asarray(step, value.dtype)
            length = np.where(high != 0, length + step, length)
            value = np.where(high != 0, high, value)
    return bits - length - (value != 0)


def lowest_set(x: Any) -> Any:
    """The place of the lowest set bit, counted from 1; 0 where none is."""
    value = _unsigned(x)
    below = np.bitwise_count((value & (~value + np.asarray(1, value.dtype))) - np.asarray(1, value.dtype))
    return np.where(value == 0, 0, below + 1)


def reversed_bits(x: Any) -> Any:
    value, bits = _unsigned(x), x.dtype.itemsize * 8
    total = np.zeros_like(value)
    one = np.asarray(1, value.dtype)
    for _ in range(bits):
        total = (total << one) | (value & one)
        value = value >> one
    return total.view(x.dtype)


# --------------------------------------------------------------------------- small formats

_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def from_e2m1(x: Any) -> Any:
    """The value of a float of 4 bits (sign, two of exponent, one of mantissa) in the low half of a byte."""
    return _E2M1[np.asarray(x).astype(np.int64) & 15]


def from_e8m0(x: Any) -> Any:
    """The power of two that a scale byte stands for; 255 is NaN."""
    code = np.asarray(x).astype(np.int64) & 255
    return np.where(code == 255, np.float32(np.nan), np.ldexp(np.float32(1), code - 127)).astype(np.float32)
