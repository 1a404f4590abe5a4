"""What every micro-op gives for single numbers, from Python's integers, its floats and its `math` module.

Written beside the table in `kernbench.micro_ops`, not from it. Floats are Python floats, so fp64; a caller rounds them
to the type in which PE_MATH computes, and then to the result's. (For sums, products, quotients and roots of fp32
numbers, rounding the fp64 result gives what rounding the exact one gives.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kernbench.dtypes import ALL, DType, fp32, fp64, i1
from tests.rounding import nearest

FLOATS = tuple(dtype for dtype in ALL if dtype.is_float)
INTS = tuple(dtype for dtype in ALL if dtype.kind in ("int", "uint"))
BITS = (i1, *INTS)

Number = Any  # a Python int or float
NAN, INF = math.nan, math.inf


@dataclass(frozen=True)
class Reference:
    """`function` of single numbers; `error` is how far a float result may be off, in units of its last place.

    `takes` are the operands' types; `gives` that of the result where it is not theirs. If `typed`, the function also
    takes the type in which it computes. `any_zero`: the sign of a zero is left open.
    """

    function: Callable[..., Number]
    takes: tuple[DType, ...]
    error: float = 0
    gives: DType | None = None
    typed: bool = False
    any_zero: bool = False


def guarded(function: Callable[..., float], domain: Any = NAN, overflow: Any = INF) -> Callable[..., float]:
    """With what IEEE 754 gives where Python raises: numbers, or functions of the same operands."""

    def total(*x: float) -> float:
        try:
            return function(*x)
        except (ValueError, ZeroDivisionError):
            return float(domain(*x) if callable(domain) else domain)
        except OverflowError:
            return float(overflow(*x) if callable(overflow) else overflow)

    return total


def _signed_infinity(*x: float) -> float:
    return math.copysign(INF, math.prod(math.copysign(1.0, each) for each in x))


def _at(point: float, value: float) -> Callable[[float], float]:
    return lambda x: value if x == point else NAN


# --------------------------------------------------------------------------- floats


def divide(a: float, b: float) -> float:
    if b == 0:
        return NAN if a == 0 or math.isnan(a) else _signed_infinity(a, b)
    return a / b


def integral(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: math.copysign(float(function(x)), x) if math.isfinite(x) else x


def half_away(x: float) -> int:
    size = abs(Fraction(x))
    return int(size + Fraction(1, 2))


def larger(a: float, b: float) -> float:
    return b if math.isnan(a) else a if math.isnan(b) else max(a, b)


def smaller(a: float, b: float) -> float:
    return b if math.isnan(a) else a if math.isnan(b) else min(a, b)


def either_nan(function: Callable[..., float]) -> Callable[..., float]:
    return lambda *x: NAN if any(math.isnan(each) for each in x) else function(*x)


def erfcx(x: float) -> float:
    """The continued fraction of erfc where that converges, the product where it does not."""
    if x < 2:
        return math.erfc(x) * math.exp(x * x)
    if math.isinf(x):
        return 0.0
    below = 0.0
    for k in range(200, 0, -1):
        below = (k / 2) / (x + below)
    return 1 / ((x + below) * math.sqrt(math.pi))


def inverse(function: Callable[[float], float], low: float, high: float) -> Callable[[float], float]:
    """Where a rising function has a value, by bisection."""

    def solve(y: float) -> float:
        if not function(low) <= y <= function(high):
            return NAN
        below, above = low, high
        for _ in range(200):
            middle = (below + above) / 2
            below, above = (middle, above) if function(middle) < y else (below, middle)
        return above

    return solve


def normal_share(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def erfinv(y: float) -> float:
    if abs(y) == 1:
        return math.copysign(INF, y)
    size = abs(y)
    if size < 1e-10:
        return y * math.sqrt(math.pi) / 2
    # the tail by erfc, whose values near 0 have all their digits
    found = inverse(math.erf, 0, 3)(size) if size < 0.5 else inverse(lambda x: -math.erfc(x), 0, 27)(size - 1)
    return math.copysign(found, y)


def quantile(p: float) -> float:
    if p in (0, 1, 0.5):
        return {0: -INF, 1: INF, 0.5: 0.0}[p]
    if 0 < p < 1e-3:  # by its logarithm, which has all its digits however small p is
        return inverse(lambda x: math.log(erfcx(-x / math.sqrt(2)) / 2) - x * x / 2, -40, 0)(math.log(p))
    return inverse(normal_share, -40, 9)(p)


def turns(function: Callable[[float], float]) -> Callable[[float], float]:
    """sin or cos of πx, of a turn taken exactly."""

    def of_pi(x: float) -> float:
        if not math.isfinite(x):
            return NAN
        rest = Fraction(x) % 2
        exact = {Fraction(k, 2): round(function(k * math.pi / 2)) for k in range(4)}
        return float(exact[rest]) if rest in exact else _near_quarter(function, rest)

    return of_pi


def _near_quarter(function: Callable[[float], float], rest: Fraction) -> float:
    """By the angle to the nearest quarter turn, which is small where the result is."""
    quarter = round(rest * 2)
    angle = math.pi * float(rest - Fraction(quarter, 2))
    steps = (quarter + (1 if function is math.cos else 0)) % 4
    return (math.sin(angle), math.cos(angle), -math.sin(angle), -math.cos(angle))[steps]


def gamma_beyond(x: float) -> float:
    return math.copysign(INF, x) if x == 0 else NAN


def exponent(x: float) -> float:
    if x == 0 or not math.isfinite(x):
        return -INF if x == 0 else abs(x)
    return float(math.frexp(x)[1] - 1)


def power_domain(a: float, b: float) -> float:
    """0 to a negative power is infinite, with the sign of the zero for odd powers; else there is no value."""
    if a == 0 and b < 0:
        return math.copysign(INF, a) if b % 2 == 1 else INF
    return NAN


def power_overflow(a: float, b: float) -> float:
    return -INF if a < 0 and b % 2 == 1 else INF


def exp_diff(a: float, b: float, dtype: DType) -> float:
    if a == -INF:
        return 0.0
    return guarded(math.exp)(nearest(a - b, dtype))


def clamp(x: Number, low: Number, high: Number) -> Number:
    return smaller(larger(x, low), high)


def clamp_nan(x: Number, low: Number, high: Number) -> Number:
    return NAN if any(each != each for each in (x, low, high)) else min(max(x, low), high)


_SINH = guarded(math.sinh, overflow=_signed_infinity)
_LOG_EDGE = {"domain": _at(0, -INF)}

UNARY_FLOATS: dict[str, Reference] = {
    name: Reference(function, FLOATS, error)
    for name, function, error in (
        ("neg", lambda x: -x, 0),
        ("abs", abs, 0),
        ("exp", guarded(math.exp), 4),
        ("exp2", guarded(lambda x: math.pow(2, x)), 4),
        ("exp10", guarded(lambda x: math.pow(10, x)), 4),
        ("expm1", guarded(math.expm1), 4),
        ("log", guarded(math.log, **_LOG_EDGE), 4),
        ("log2", guarded(math.log2, **_LOG_EDGE), 4),
        ("log10", guarded(math.log10, **_LOG_EDGE), 4),
        ("log1p", guarded(math.log1p, _at(-1, -INF)), 4),
        ("sqrt", guarded(math.sqrt), 0),
        ("rsqrt", lambda x: divide(1, math.sqrt(x)) if x >= 0 else NAN, 2),
        ("cbrt", math.cbrt, 4),
        ("rcbrt", lambda x: divide(1, math.cbrt(x)), 4),
        ("sin", guarded(math.sin), 4),
        ("cos", guarded(math.cos), 4),
        ("tan", guarded(math.tan), 4),
        ("asin", guarded(math.asin), 4),
        ("acos", guarded(math.acos), 4),
        ("atan", math.atan, 4),
        ("sinh", _SINH, 4),
        ("cosh", guarded(math.cosh), 4),
        ("tanh", math.tanh, 4),
        ("asinh", math.asinh, 4),
        ("acosh", guarded(math.acosh), 4),
        ("atanh", guarded(math.atanh, lambda x: math.copysign(INF, x) if abs(x) == 1 else NAN), 4),
        ("sinpi", turns(math.sin), 4),
        ("cospi", turns(math.cos), 4),
        ("erf", math.erf, 4),
        ("erfc", math.erfc, 4),
        ("erfcx", guarded(erfcx), 4096),
        ("erfinv", erfinv, 256),
        ("normcdf", normal_share, 4),
        ("normcdfinv", quantile, 256),
        ("lgamma", guarded(math.lgamma, INF), 16),
        ("tgamma", guarded(math.gamma, gamma_beyond, lambda x: math.copysign(INF, x)), 16),
        ("logb", exponent, 0),
        ("floor", integral(lambda x: math.floor(x)), 0),
        ("ceil", integral(lambda x: math.ceil(x)), 0),
        ("trunc", integral(math.trunc), 0),
        ("round", integral(round), 0),
        ("round_away", integral(half_away), 0),
    )
}

UNARY_FLOATS["sigmoid"] = Reference(
    lambda x, dtype: 1 / (1 + nearest(guarded(math.exp)(-x), dtype)), FLOATS, 6, typed=True
)

BINARY_FLOATS: dict[str, Reference] = {
    name: Reference(function, FLOATS, error, any_zero=name in ("max_elem", "min_elem", "max_nan", "min_nan"))
    for name, function, error in (
        ("add", lambda a, b: a + b, 0),
        ("sub", lambda a, b: a - b, 0),
        ("mul", lambda a, b: a * b, 0),
        ("div", divide, 0),
        ("mod", guarded(math.fmod), 0),
        ("max_elem", larger, 0),
        ("min_elem", smaller, 0),
        ("max_nan", either_nan(max), 0),
        ("min_nan", either_nan(min), 0),
        ("pow", guarded(math.pow, power_domain, power_overflow), 4),
        ("atan2", math.atan2, 4),
        ("hypot", math.hypot, 4),
        ("fdim", either_nan(lambda a, b: a - b if a > b else 0.0), 0),
        ("copysign", math.copysign, 0),
        ("remainder", guarded(math.remainder), 0),
    )
}
BINARY_FLOATS["exp_diff"] = Reference(exp_diff, FLOATS, 4, typed=True)

TERNARY_FLOATS: dict[str, Reference] = {
    "clamp": Reference(clamp, FLOATS, any_zero=True),
    "clamp_nan": Reference(clamp_nan, FLOATS, any_zero=True),
    "fma": Reference(lambda a, b, c: a * b + c, FLOATS),
}

# --------------------------------------------------------------------------- integers


def quotient(a: int, b: int) -> int:
    return 0 if b == 0 else math.trunc(Fraction(a, b))


def whole_power(a: int, b: int) -> int:
    """An integer has no inverse but 1 and −1."""
    return pow(a, b, 2**64) if b >= 0 else (a ** (b % 2) if abs(a) == 1 else 0)


def shifted(a: int, b: int, dtype: DType) -> int:
    """A count outside the width shifts every bit out."""
    return a << b if 0 <= b < dtype.bits else 0


def shifted_right(a: int, b: int, dtype: DType) -> int:
    return a >> (b if 0 <= b < dtype.bits else dtype.bits)


def pattern(a: int, dtype: DType) -> int:
    return a % 2**dtype.bits


ONE_INT: dict[str, Reference] = {
    "neg": Reference(lambda x: -x, BITS),
    "abs": Reference(abs, BITS),
    "not": Reference(lambda x, dtype: pattern(~x, dtype), BITS, typed=True),
    "popc": Reference(lambda x, dtype: bin(pattern(x, dtype)).count("1"), INTS, typed=True),
    "clz": Reference(lambda x, dtype: dtype.bits - pattern(x, dtype).bit_length(), INTS, typed=True),
    "ffs": Reference(lambda x: (x & -x).bit_length(), INTS),
    "brev": Reference(lambda x, dtype: int(f"{pattern(x, dtype):0{dtype.bits}b}"[::-1], 2), INTS, typed=True),
}

TWO_INTS: dict[str, Reference] = {
    "add": Reference(lambda a, b: a + b, BITS),
    "sub": Reference(lambda a, b: a - b, BITS),
    "mul": Reference(lambda a, b: a * b, BITS),
    "and": Reference(lambda a, b: a & b, BITS),
    "or": Reference(lambda a, b: a | b, BITS),
    "xor": Reference(lambda a, b: a ^ b, BITS),
    "idiv": Reference(quotient, INTS),
    "mod": Reference(lambda a, b: a - b * quotient(a, b) if b else 0, INTS),
    "max_elem": Reference(max, INTS),
    "min_elem": Reference(min, INTS),
    "max_nan": Reference(max, INTS),
    "min_nan": Reference(min, INTS),
    "shl": Reference(shifted, INTS, typed=True),
    "shr": Reference(shifted_right, INTS, typed=True),
    "pow": Reference(whole_power, INTS),
    "mulhi": Reference(lambda a, b, dtype: a * b >> dtype.bits, INTS, typed=True),
    "umulhi": Reference(
        lambda a, b, dtype: pattern(a, dtype) * pattern(b, dtype) >> dtype.bits,
        INTS,
        typed=True,
    ),
}

THREE_INTS: dict[str, Reference] = {
    "clamp": Reference(clamp, INTS),
    "clamp_nan": Reference(clamp_nan, INTS),
    "fma": Reference(lambda a, b, c: a * b + c, INTS),
}

# --------------------------------------------------------------------------- of either, and to other types

COMPARISONS: dict[str, Reference] = {
    name: Reference(function, ALL, gives=i1)
    for name, function in (
        ("lt", lambda a, b: a < b),
        ("le", lambda a, b: a <= b),
        ("gt", lambda a, b: a > b),
        ("ge", lambda a, b: a >= b),
        ("eq", lambda a, b: a == b),
        ("ne", lambda a, b: a != b),
    )
}
TESTS: dict[str, Reference] = {
    name: Reference(function, FLOATS, gives=i1)
    for name, function in (
        ("isnan", math.isnan),
        ("isinf", math.isinf),
        ("isfinite", math.isfinite),
        ("signbit", lambda x: math.copysign(1, x) < 0),
    )
}


def four_bit_float(code: int) -> float:
    """Sign, two bits of exponent with bias 1, one of mantissa."""
    sign, exponent, mantissa = (-1) ** (code >> 3 & 1), code >> 1 & 3, code & 1
    return sign * (mantissa / 2 if exponent == 0 else (1 + mantissa / 2) * 2.0 ** (exponent - 1))


DECODERS: dict[str, Reference] = {
    "from_e2m1": Reference(four_bit_float, INTS[:1] + INTS[4:5], gives=fp32),
    "from_e8m0": Reference(
        lambda code: NAN if code % 256 == 255 else 2.0 ** (code % 256 - 127),
        INTS[:1] + INTS[4:5],
        gives=fp32,
    ),
}

# In the numbers of the type in which PE_MATH computes, so in no narrower one.
WIDE_ONLY: dict[str, Reference] = {
    "nextafter": Reference(math.nextafter, (fp64,)),
}
