"""The functions that bench expressions may call, as one table over NumPy.

Does not know expressions or bench files. A reference computes wide: halves and fp8 come in as float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernbench import dtypes
from kernbench.dtypes import DType
from kernbench.runtime.philox import rand

MAX_ELEMENTS = 1 << 28


@dataclass(frozen=True, slots=True)
class Function:
    """A function and the keywords that an expression may give it."""

    call: Callable[..., Any]
    keywords: tuple[str, ...] = ()


def _sized(count: Any) -> int:
    """A number of elements that is small enough to make."""
    size = int(count)
    if size > MAX_ELEMENTS:
        raise ValueError(f"{size} elements are more than an expression may make ({MAX_ELEMENTS})")
    return size


def _shape(shape: Any) -> tuple[int, ...]:
    sides = tuple(int(side) for side in shape) if isinstance(shape, Sequence | np.ndarray) else (int(shape),)
    _sized(math.prod(sides))
    return sides


def wide(values: Any) -> Any:
    """Values in the type in which references are computed: floats in float64, integers and bools as they are."""
    dtype = dtypes.from_numpy(values.dtype) if isinstance(values, np.ndarray | np.generic) else None
    return np.asarray(values, np.float64) if dtype is not None and dtype.is_float else values


def _astype(x: Any, dtype: Any) -> Any:
    """Round to an element type; floats come back wide, with the rounded values."""
    if not isinstance(dtype, DType):
        raise TypeError("the second argument of astype is an element type such as fp16")
    return wide(dtypes.cast(x, dtype))


def _cdiv(a: Any, b: Any) -> Any:
    return -(-a // b)


def _transpose(x: Any, axes: Any = None) -> Any:
    """The last two axes swapped, or the axes in the order given."""
    return np.swapaxes(x, -1, -2) if axes is None else np.transpose(x, axes)


def _softmax(x: Any, axis: Any = -1) -> Any:
    top = np.max(x, axis=axis, keepdims=True)
    grown = np.exp(x - np.where(np.isfinite(top), top, 0))
    return grown / np.sum(grown, axis=axis, keepdims=True)


def _logsumexp(x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
    top = np.max(x, axis=axis, keepdims=True)
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis=axis)


def _erf(x: Any) -> Any:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-np.asarray(x, np.float64)))


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _extreme(pairwise: Callable[..., Any], reduce: Callable[..., Any], scalar: Callable[..., Any]) -> Any:
    """`max` and `min`: of several values, or of one block along an axis."""

    def call(x: Any, *others: Any, **along: Any) -> Any:
        if not others:
            return reduce(x, **along)
        if all(isinstance(value, int | float) for value in (x, *others)):
            return scalar(x, *others)
        for other in others:
            x = pairwise(x, other)
        return x

    return call


def _einsum(spec: Any, *operands: Any) -> Any:
    if not isinstance(spec, str):
        raise TypeError("the first argument of einsum is a text such as 'ij,jk->ik'")
    return np.einsum(spec, *operands)


def _repeat(x: Any, count: Any, axis: Any = None) -> Any:
    _sized(np.size(x) * int(count))
    return np.repeat(x, int(count), axis=axis)


def _tile(x: Any, counts: Any) -> Any:
    _sized(np.size(x) * math.prod(_shape(counts)))
    return np.tile(x, counts)


def _arange(*bounds: Any) -> Any:
    numbers = tuple(int(bound) for bound in bounds)
    _sized(len(range(*numbers)))
    return np.arange(*numbers, dtype=np.int64)


def _broadcast_to(x: Any, shape: Any) -> Any:
    return np.broadcast_to(x, _shape(shape))


def _eye(rows: Any, columns: Any = None) -> Any:
    height, width = _shape((rows, rows if columns is None else columns))
    return np.eye(height, width)


_REDUCE = ("axis", "keepdims")

FUNCTIONS: dict[str, Function] = {
    # elementwise
    **{
        name: Function(getattr(np, name))
        for name in (
            "exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "sqrt", "cbrt", "square", "reciprocal",
            "sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh",
            "floor", "ceil", "trunc", "sign", "fmod", "hypot", "maximum", "minimum", "isnan", "isinf", "isfinite",
            "where", "logical_and", "logical_or", "logical_not", "logical_xor", "nan_to_num",
        )
    },
    "abs": Function(np.abs),
    "round": Function(np.round),
    "clip": Function(np.clip),
    "rsqrt": Function(lambda x: 1 / np.sqrt(x)),
    "erf": Function(_erf),
    "sigmoid": Function(_sigmoid),
    "silu": Function(lambda x: x * _sigmoid(x)),
    "relu": Function(lambda x: np.maximum(x, 0)),
    "gelu": Function(_gelu),
    "cdiv": Function(_cdiv),
    "astype": Function(_astype),
    # reductions and scans
    **{name: Function(getattr(np, name), _REDUCE) for name in ("sum", "mean", "prod", "var", "std", "any", "all")},
    "max": Function(_extreme(np.maximum, np.max, max), _REDUCE),
    "min": Function(_extreme(np.minimum, np.min, min), _REDUCE),
    "argmax": Function(np.argmax, _REDUCE),
    "argmin": Function(np.argmin, _REDUCE),
    **{name: Function(getattr(np, name), ("axis",)) for name in ("cumsum", "cumprod", "sort", "argsort", "flip")},
    "softmax": Function(_softmax, ("axis",)),
    "logsumexp": Function(_logsumexp, _REDUCE),
    # shapes
    "transpose": Function(_transpose, ("axes",)),
    "swapaxes": Function(np.swapaxes),
    "moveaxis": Function(np.moveaxis),
    "reshape": Function(lambda x, *shape: np.reshape(x, shape[0] if len(shape) == 1 else shape)),
    "expand_dims": Function(np.expand_dims, ("axis",)),
    "squeeze": Function(np.squeeze, ("axis",)),
    "broadcast_to": Function(_broadcast_to),
    "concatenate": Function(np.concatenate, ("axis",)),
    "stack": Function(np.stack, ("axis",)),
    "repeat": Function(_repeat, ("axis",)),
    "tile": Function(_tile),
    "roll": Function(np.roll, ("axis",)),
    "tril": Function(np.tril),
    "triu": Function(np.triu),
    "take": Function(np.take, ("axis",)),
    "take_along_axis": Function(np.take_along_axis, ("axis",)),
    # products
    "matmul": Function(np.matmul),
    "dot": Function(np.matmul),
    "outer": Function(lambda a, b: np.outer(a, b) if _sized(np.size(a) * np.size(b)) else np.zeros((0,))),
    "einsum": Function(_einsum),
    # made from nothing
    "arange": Function(_arange),
    "zeros": Function(lambda shape: np.zeros(_shape(shape))),
    "ones": Function(lambda shape: np.ones(_shape(shape))),
    "full": Function(lambda shape, value: np.full(_shape(shape), value)),
    "eye": Function(_eye),
    "rand": Function(rand),
    # scalars
    "int": Function(lambda x: int(x)),
    "float": Function(lambda x: float(x)),
    "len": Function(len),
}  # fmt: skip

CONSTANTS: dict[str, Any] = {
    "True": True,
    "False": False,
    "None": None,
    "pi": math.pi,
    "inf": math.inf,
    "nan": math.nan,
    **dtypes.BY_NAME,
}
