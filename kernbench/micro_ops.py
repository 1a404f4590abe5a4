"""The MATH micro-op table: name, operands, cost class, NumPy function.

Functions get operands in the type that they compute in; `numerics.py` brings them there, and rounds the result.
Knows nothing of blocks' places, of time, or of recipes. Sources: Triton's `triton.language` reference for the meaning
of each op; the cost classes are those of `pe_math` in the topology.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kernbench import elementary, rearranging
from kernbench.dtypes import i64, wrap

CostClass = Literal["simple", "transcendental", "reduce", "move"]
Function = Callable[..., Any]  # (*operands, extra) -> array; operands already in the type they compute in


@dataclass(frozen=True, slots=True)
class MicroOp:
    """One MATH micro-op. `operands` are the names under which an OpSpec carries them.

    `cost` is the class by which PE_MATH takes its cycles an element (of the largest operand, or of the result).
    `boolean` results are i1 whatever the operands are.
    """

    name: str
    operands: tuple[str, ...]
    cost: CostClass
    function: Function
    doc: str
    boolean: bool = False
    attributes: tuple[str, ...] = ()  # keys of `extra` that it reads
    whole: bool = False  # rearranges or scans: reads its operands in their own shapes and stored types

    @property
    def arity(self) -> int:
        return len(self.operands)

    @property
    def reduces(self) -> bool:
        """Takes one axis away."""
        return self.cost == "reduce" and not self.whole

    @property
    def mixes(self) -> bool:
        """An element of the result depends on other elements of the operands than those at its own place."""
        return self.whole or self.reduces


def _unary(function: Function) -> Function:
    return lambda x, extra: function(x)


def _binary(function: Function) -> Function:
    return lambda a, b, extra: function(a, b)


def _is_python_int(*values: Any) -> bool:
    return all(type(value) is int for value in values)


def _idiv(a: Any, b: Any) -> Any:
    """Integer division that truncates towards zero, as Triton's `//` on run-time integers; x // 0 is 0."""
    if _is_python_int(a, b):
        if b == 0:
            return 0
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    safe = np.where(b == 0, np.ones_like(b), b)
    quotient = a // safe  # floors
    inexact = (quotient * safe != a) & ((a < 0) != (safe < 0))
    return np.where(b == 0, np.zeros_like(quotient), quotient + inexact.astype(quotient.dtype))


def _mod(a: Any, b: Any) -> Any:
    """Remainder with the sign of the dividend (C's `%`, and fmod for floats); x % 0 is 0 for integers."""
    if _is_python_int(a, b):
        return 0 if b == 0 else a - b * _idiv(a, b)
    if np.result_type(a).kind == "f":
        return np.fmod(a, b)
    return np.where(b == 0, np.zeros_like(a), a - b * _idiv(a, b))


def _div(a: Any, b: Any) -> Any:
    return np.true_divide(a, b)


def _shift_right(a: Any, b: Any) -> Any:
    """Arithmetic for signed operands, logical for unsigned ones: NumPy's and Python's `>>` by type.

    A count outside the width (a negative one too) shifts every bit out, as NumPy's does.
    """
    return a >> (b if b >= 0 else 64) if _is_python_int(a, b) else a >> b


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _negate(x: Any) -> Any:
    return -x if type(x) is int else np.negative(x)


def _not(x: Any) -> Any:
    """Bitwise; on i1 logical."""
    return ~x if type(x) is int else np.invert(x)


def _copy(x: Any, extra: Mapping[str, Any]) -> Any:
    return x


def _select(condition: Any, a: Any, b: Any, extra: Mapping[str, Any]) -> Any:
    return np.where(np.asarray(condition) != 0, a, b)


def _fma(a: Any, b: Any, c: Any, extra: Mapping[str, Any]) -> Any:
    """a × b + c. In fp32 by way of fp64, where the product is exact: it differs from a fused one only where the sum
    in fp64 lies on a tie of fp32, about once in 2^29. In fp64 the product rounds too."""
    if np.result_type(a, b, c) == np.float32:
        wide = np.asarray(a, np.float64) * np.asarray(b, np.float64) + np.asarray(c, np.float64)
        return wide.astype(np.float32)
    return a * b + c


def _clamp(x: Any, low: Any, high: Any, extra: Mapping[str, Any]) -> Any:
    return np.fmin(np.fmax(x, low), high)


def _along(value: Any, other: Any, extra: Mapping[str, Any]) -> Any:
    """The smaller operand, repeated along `bcast_axis` of the larger one (errata of ADR-0065 D5)."""
    axis = extra.get("bcast_axis")
    if axis is None or np.ndim(value) >= np.ndim(other):
        return value
    return np.expand_dims(value, axis)


def _exp_diff(a: Any, b: Any, extra: Mapping[str, Any]) -> Any:
    """exp(a − b), and 0 where a = −inf, so that a fully masked row gives no NaN."""
    b = _along(b, a, extra)
    dead = np.isneginf(a)
    return np.where(dead, 0, np.exp(np.where(dead, 0, a) - np.where(dead & np.isneginf(b), 0, b)))


def _mul_bcast(a: Any, b: Any, extra: Mapping[str, Any]) -> Any:
    return a * _along(b, a, extra)


def _add_bcast(a: Any, b: Any, extra: Mapping[str, Any]) -> Any:
    return a + _along(b, a, extra)


def _sub_bcast(a: Any, b: Any, extra: Mapping[str, Any]) -> Any:
    return a - _along(b, a, extra)


def _reduce_sum(x: Any, extra: Mapping[str, Any]) -> Any:
    return np.sum(x, axis=extra["axis"], dtype=x.dtype)


def _reduce_max(x: Any, extra: Mapping[str, Any]) -> Any:
    return np.fmax.reduce(x, axis=extra["axis"])


def _reduce_min(x: Any, extra: Mapping[str, Any]) -> Any:
    return np.fmin.reduce(x, axis=extra["axis"])


def _reduce_bits(function: np.ufunc) -> Function:
    return lambda x, extra: function.reduce(x, axis=extra["axis"])


def _clamp_nan(x: Any, low: Any, high: Any, extra: Mapping[str, Any]) -> Any:
    return np.minimum(np.maximum(x, low), high)


_UNARY: tuple[tuple[str, CostClass, Function, str], ...] = (
    ("neg", "simple", _negate, "−x"),
    ("abs", "simple", abs, "|x|"),
    ("not", "simple", _not, "bitwise not; logical on i1"),
    ("exp", "transcendental", np.exp, "e to the x"),
    ("exp2", "transcendental", np.exp2, "2 to the x"),
    ("log", "transcendental", np.log, "natural logarithm"),
    ("log2", "transcendental", np.log2, "logarithm to base 2"),
    ("sqrt", "transcendental", np.sqrt, "square root"),
    ("rsqrt", "transcendental", _rsqrt, "1 / √x"),
    ("sin", "transcendental", np.sin, "sine"),
    ("cos", "transcendental", np.cos, "cosine"),
    ("tanh", "transcendental", np.tanh, "hyperbolic tangent"),
    ("erf", "transcendental", elementary.erf, "error function"),
    ("erfc", "transcendental", elementary.erfc, "1 − error function"),
    ("erfcx", "transcendental", elementary.erfcx, "erfc(x) × exp(x²)"),
    ("erfinv", "transcendental", elementary.erfinv, "inverse of the error function"),
    ("normcdf", "transcendental", elementary.normcdf, "share of the normal distribution below x"),
    ("normcdfinv", "transcendental", elementary.normcdfinv, "inverse of normcdf"),
    ("lgamma", "transcendental", elementary.lgamma, "logarithm of |Γ(x)|"),
    ("tgamma", "transcendental", elementary.tgamma, "Γ(x)"),
    ("tan", "transcendental", np.tan, "tangent"),
    ("asin", "transcendental", np.arcsin, "arc sine"),
    ("acos", "transcendental", np.arccos, "arc cosine"),
    ("atan", "transcendental", np.arctan, "arc tangent"),
    ("sinh", "transcendental", np.sinh, "hyperbolic sine"),
    ("cosh", "transcendental", np.cosh, "hyperbolic cosine"),
    ("asinh", "transcendental", np.arcsinh, "inverse of sinh"),
    ("acosh", "transcendental", np.arccosh, "inverse of cosh"),
    ("atanh", "transcendental", np.arctanh, "inverse of tanh"),
    ("exp10", "transcendental", lambda x: elementary.power(x.dtype.type(10), x), "10 to the x"),
    ("expm1", "transcendental", np.expm1, "e to the x, minus 1"),
    ("log10", "transcendental", np.log10, "logarithm to base 10"),
    ("log1p", "transcendental", np.log1p, "natural logarithm of 1 + x"),
    ("logb", "transcendental", elementary.exponent, "exponent of x"),
    ("cbrt", "transcendental", np.cbrt, "cube root"),
    ("rcbrt", "transcendental", lambda x: 1 / np.cbrt(x), "1 / cube root"),
    ("sinpi", "transcendental", elementary.sinpi, "sine of πx"),
    ("cospi", "transcendental", elementary.cospi, "cosine of πx"),
    ("round_away", "simple", elementary.away_round, "nearest integer, ties away from zero"),
    ("popc", "simple", elementary.population, "set bits"),
    ("clz", "simple", elementary.leading_zeros, "zero bits above the highest set one"),
    ("ffs", "simple", elementary.lowest_set, "place of the lowest set bit, from 1; 0 without one"),
    ("brev", "simple", elementary.reversed_bits, "bits in reverse order"),
    ("from_e2m1", "simple", elementary.from_e2m1, "value of a 4-bit float"),
    ("from_e8m0", "simple", elementary.from_e8m0, "power of two of a scale byte"),
    ("sigmoid", "transcendental", _sigmoid, "1 / (1 + exp(−x))"),
    ("floor", "simple", np.floor, "largest integer not above x"),
    ("ceil", "simple", np.ceil, "smallest integer not below x"),
    ("trunc", "simple", np.trunc, "x without its fraction"),
    ("round", "simple", np.rint, "nearest integer, ties to even"),
)

_BINARY: tuple[tuple[str, CostClass, Function, str], ...] = (
    ("add", "simple", operator.add, "a + b"),
    ("sub", "simple", operator.sub, "a − b"),
    ("mul", "simple", operator.mul, "a × b"),
    ("div", "transcendental", _div, "a / b of floats"),
    ("idiv", "transcendental", _idiv, "integer division, towards zero"),
    ("mod", "transcendental", _mod, "remainder with the dividend's sign"),
    ("max_elem", "simple", np.fmax, "larger of the two; a NaN loses"),
    ("min_elem", "simple", np.fmin, "smaller of the two; a NaN loses"),
    ("max_nan", "simple", np.maximum, "larger of the two; a NaN wins"),
    ("min_nan", "simple", np.minimum, "smaller of the two; a NaN wins"),
    ("and", "simple", operator.and_, "bitwise and"),
    ("or", "simple", operator.or_, "bitwise or"),
    ("xor", "simple", operator.xor, "bitwise exclusive or"),
    ("shl", "simple", operator.lshift, "a shifted left by b bits"),
    ("shr", "simple", _shift_right, "a shifted right by b bits; arithmetic if signed"),
    ("pow", "transcendental", elementary.power, "a to the b"),
    ("mulhi", "simple", elementary.high_product, "high half of the product"),
    ("umulhi", "simple", elementary.unsigned_high_product, "high half of the product of the bits without a sign"),
    ("atan2", "transcendental", np.arctan2, "angle of the point (b, a)"),
    ("hypot", "transcendental", np.hypot, "√(a² + b²)"),
    ("fdim", "simple", elementary.positive_difference, "a − b, or 0"),
    ("copysign", "simple", np.copysign, "|a| with the sign of b"),
    ("nextafter", "simple", np.nextafter, "next number after a towards b"),
    ("remainder", "transcendental", elementary.remainder, "a − b × nearest integer to a / b"),
    ("ldexp", "simple", elementary.scaled, "a × 2 to the b"),
)

_COMPARE: tuple[tuple[str, Function, str], ...] = (
    ("lt", operator.lt, "a < b"),
    ("le", operator.le, "a ≤ b"),
    ("gt", operator.gt, "a > b"),
    ("ge", operator.ge, "a ≥ b"),
    ("eq", operator.eq, "a = b"),
    ("ne", operator.ne, "a ≠ b"),
)

_TESTS: tuple[tuple[str, Function, str], ...] = (
    ("isnan", np.isnan, "x is NaN"),
    ("isinf", np.isinf, "x is infinite"),
    ("isfinite", np.isfinite, "x is neither infinite nor NaN"),
    ("signbit", np.signbit, "the sign of x is set"),
)

_OTHERS: tuple[MicroOp, ...] = (
    MicroOp("copy", ("src",), "move", _copy, "the same values, rounded to the result's type"),
    MicroOp("bitcast", ("src",), "move", _copy, "the same bits, read as the result's type"),
    MicroOp("copy_toward_zero", ("src",), "move", _copy, "the same values, rounded towards zero to the result's type"),
    MicroOp("select", ("cond", "src_a", "src_b"), "simple", _select, "src_a where cond, else src_b"),
    MicroOp("fma", ("src_a", "src_b", "src_c"), "simple", _fma, "a × b + c; the product is exact but in fp64"),
    MicroOp("clamp", ("src", "low", "high"), "simple", _clamp, "x held between low and high"),
    MicroOp("clamp_nan", ("src", "low", "high"), "simple", _clamp_nan, "x held between low and high; a NaN wins"),
    MicroOp(
        "exp_diff",
        ("src_a", "src_b"),
        "transcendental",
        _exp_diff,
        "exp(a − b), and 0 where a = −inf",
        attributes=("bcast_axis",),
    ),
    MicroOp(
        "mul_bcast",
        ("src_a", "src_b"),
        "simple",
        _mul_bcast,
        "a × b repeated along an axis",
        attributes=("bcast_axis",),
    ),
    MicroOp(
        "add_bcast",
        ("src_a", "src_b"),
        "simple",
        _add_bcast,
        "a + b repeated along an axis",
        attributes=("bcast_axis",),
    ),
    MicroOp(
        "sub_bcast",
        ("src_a", "src_b"),
        "simple",
        _sub_bcast,
        "a − b repeated along an axis",
        attributes=("bcast_axis",),
    ),
    MicroOp("rsum", ("src",), "reduce", _reduce_sum, "sum along an axis", attributes=("axis",)),
    MicroOp("rmax", ("src",), "reduce", _reduce_max, "largest along an axis; a NaN loses", attributes=("axis",)),
    MicroOp("rmin", ("src",), "reduce", _reduce_min, "smallest along an axis; a NaN loses", attributes=("axis",)),
    *(
        MicroOp(name, ("src",), "reduce", _reduce_bits(function), f"bitwise {word} along an axis", attributes=("axis",))
        for name, function, word in (
            ("rxor", np.bitwise_xor, "exclusive or"),
            ("ror", np.bitwise_or, "or"),
            ("rand", np.bitwise_and, "and"),
        )
    ),
)


def _whole(
    name: str, operands: tuple[str, ...], cost: CostClass, function: Function, doc: str, *attributes: str
) -> MicroOp:
    return MicroOp(name, operands, cost, function, doc, attributes=attributes, whole=True)


_WHOLE: tuple[MicroOp, ...] = (
    _whole("part", ("src",), "move", rearranging.part, "positions along an axis", "axis", "start", "step", "count"),
    _whole("cat", ("src_a", "src_b"), "move", rearranging.cat, "one behind the other along an axis", "axis"),
    _whole("join", ("src_a", "src_b"), "move", rearranging.join, "side by side along a new last axis"),
    _whole("flip", ("src",), "move", rearranging.flip, "an axis in reverse order", "axis"),
    _whole("take", ("src", "index"), "move", rearranging.gather, "src at the positions `index` along an axis", "axis"),
    _whole("sort", ("src",), "reduce", rearranging.sort, "sorted along an axis", "axis", "descending"),
    _whole("histogram", ("src", "mask"), "reduce", rearranging.histogram, "how often each value occurs", "bins"),
    _whole("cumsum", ("src",), "reduce", rearranging.cumsum, "running sums along an axis", "axis", "reverse"),
    _whole("cumprod", ("src",), "reduce", rearranging.cumprod, "running products along an axis", "axis", "reverse"),
)

_PLACES: tuple[MicroOp, ...] = (
    MicroOp("argmax", ("src",), "reduce", rearranging.argmax, "place of the largest, the first of equals",
            attributes=("axis",)),
    MicroOp("argmin", ("src",), "reduce", rearranging.argmin, "place of the smallest, the first of equals",
            attributes=("axis",)),
)  # fmt: skip

# Blocks made from symbolic values: they have no data operands, and their function takes the numbers in `extra`.
GENERATORS = {
    "index": "base + Σ strides × position + rest (extra: base, strides, rest)",
    "mask": "a box mask and its predicates (extra: lo, hi, preds, mask)",
}


def _index(extra: Mapping[str, Any]) -> Any:
    """`extra`: shape, base, strides (concrete ints, exact), rest (an evaluated array or None)."""
    shape = extra["shape"]
    result = np.full(shape, wrap(extra["base"], i64), np.int64)
    for axis, stride in enumerate(extra["strides"]):
        if stride:
            result += (wrap(stride, i64) * np.arange(shape[axis], dtype=np.int64)).reshape(_lift(axis, len(shape)))
    rest = extra.get("rest")
    return result if rest is None else result + rest


def _lift(axis: int, rank: int) -> tuple[int, ...]:
    return tuple(-1 if k == axis else 1 for k in range(rank))


def _mask(extra: Mapping[str, Any]) -> Any:
    """`extra`: shape, lo, hi (a tuple of concrete ints an axis), preds (bools), mask (an array or None)."""
    shape = extra["shape"]
    result = np.full(shape, all(bool(p) for p in extra["preds"]), np.bool_)
    for axis, (lows, highs) in enumerate(zip(extra["lo"], extra["hi"], strict=True)):
        position = np.arange(shape[axis]).reshape(_lift(axis, len(shape)))
        for low in lows:
            result &= position >= low
        for high in highs:
            result &= position < high
    dense = extra.get("mask")
    return result if dense is None else result & dense


MICRO_OPS: dict[str, MicroOp] = {
    **{name: MicroOp(name, ("src",), cost, _unary(f), doc) for name, cost, f, doc in _UNARY},
    **{name: MicroOp(name, ("src_a", "src_b"), cost, _binary(f), doc) for name, cost, f, doc in _BINARY},
    **{name: MicroOp(name, ("src_a", "src_b"), "simple", _binary(f), doc, boolean=True) for name, f, doc in _COMPARE},
    **{name: MicroOp(name, ("src",), "simple", _unary(f), doc, boolean=True) for name, f, doc in _TESTS},
    **{op.name: op for op in (*_OTHERS, *_WHOLE, *_PLACES)},
    "index": MicroOp("index", (), "move", _index, GENERATORS["index"], attributes=("base", "strides", "rest")),
    "mask": MicroOp(
        "mask",
        (),
        "simple",
        _mask,
        GENERATORS["mask"],
        boolean=True,
        attributes=("lo", "hi", "preds", "mask"),
    ),
}

# Micro-ops whose functions take Python integers as they are (exact, wrapped afterwards).
EXACT_ON_INTS = frozenset(
    (
        *("neg", "abs", "not", "add", "sub", "mul", "idiv", "mod", "and", "or", "xor", "shr"),
        *("min_elem", "max_elem"),
        *(name for name, _, _ in _COMPARE),
    )
)

# Micro-ops that are one function of NumPy's on arrays in fp32.
UFUNCS: Mapping[str, np.ufunc] = {
    **{name: function for name, _, function, _ in (*_UNARY, *_BINARY) if isinstance(function, np.ufunc)},
    "abs": np.absolute,
    "add": np.add,
    "div": np.true_divide,
    "mul": np.multiply,
    "neg": np.negative,
    "sub": np.subtract,
}
