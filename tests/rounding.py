"""Rounding to every element type, by exact fractions: what casts and micro-ops are held against.

Shares nothing with the package but the types' names. The formats are those of IEEE 754 (fp16, fp32, fp64), of the
OCP 8-bit floating point specification (fp8e4nv is its E4M3, fp8e5 its E5M2) and bfloat16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from kernbench.dtypes import DType


@dataclass(frozen=True)
class Format:
    precision: int  # bits of the significand, the hidden one too
    least_exponent: int  # of a normal number
    largest: Fraction
    saturates: bool = False  # where finite values are too large
    infinite: bool = True


FORMATS = {
    "fp8e4nv": Format(4, -6, Fraction(448), saturates=True, infinite=False),
    "fp8e5": Format(3, -14, Fraction(57344), saturates=True),
    "bf16": Format(8, -126, (2 - Fraction(1, 2**7)) * 2**127),
    "fp16": Format(11, -14, Fraction(65504)),
    "fp32": Format(24, -126, (2 - Fraction(1, 2**23)) * 2**127),
    "fp64": Format(53, -1022, (2 - Fraction(1, 2**52)) * 2**1023),
}


def nearest(value: float | Fraction, dtype: DType) -> float:
    """The value of a float type that is nearest, of two the one whose significand is even."""
    form = FORMATS[dtype.name]
    if isinstance(value, float) and not math.isfinite(value):
        return value if math.isnan(value) or form.infinite else math.copysign(float(form.largest), value)
    sign = -1.0 if value < 0 or (value == 0 and math.copysign(1.0, value) < 0) else 1.0
    if isinstance(value, float):
        return math.copysign(_nearest_of_float(abs(value), form), sign)
    size = abs(value)
    step = _step(size, form)
    units, rest = divmod(size, step)
    units += rest > step / 2 or (rest == step / 2 and units % 2)
    return math.copysign(_bounded(units * step, form), sign)


def _nearest_of_float(size: float, form: Format) -> float:
    """The same, many times faster: powers of two scale a float exactly, and Python rounds ties to even."""
    step = max(math.frexp(size)[1] - 1, form.least_exponent) - form.precision + 1
    units = round(math.ldexp(size, -step))
    return math.ldexp(units, step) if size < form.largest else _bounded(units * Fraction(2) ** step, form)


def towards_zero(value: float, dtype: DType) -> float:
    """The value of a float type that is nearest among those that are no larger in size."""
    form = FORMATS[dtype.name]
    if not math.isfinite(value):
        return nearest(value, dtype)
    size = abs(Fraction(value))
    step = _step(size, form)
    return math.copysign(float(min(size // step * step, form.largest)), value)


def _step(size: Fraction, form: Format) -> Fraction:
    """The distance of neighbours around a number."""
    exponent = form.least_exponent
    if size:
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        exponent -= size < Fraction(2) ** exponent
    return Fraction(2) ** (max(exponent, form.least_exponent) - form.precision + 1)


def _bounded(size: Fraction, form: Format) -> float:
    if size <= form.largest:
        return float(size)
    return float(form.largest) if form.saturates else math.inf


def wrapped(value: int, dtype: DType) -> int:
    """An integer without the bits that the type has no room for."""
    rest = value % 2**dtype.bits
    return rest - 2**dtype.bits if dtype.kind == "int" and rest >= 2 ** (dtype.bits - 1) else rest


def same(a: float, b: float) -> bool:
    """Equal, the sign of a zero too; NaNs are equal."""
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b and math.copysign(1, a) == math.copysign(1, b)
