"""Initial values of bench tensors: seeded by the bench's seed and the tensor's name, the same in every process.

Does not know bench files; `Init` says what to make.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kernbench import dtypes
from kernbench.dtypes import DType
from kernbench.runtime.tensor import Array

InitKind = Literal["zeros", "ones", "normal", "uniform", "arange", "randint", "fill", "values"]


@dataclass(frozen=True, slots=True)
class Init:
    """`values`: of `fill` a number, of `randint` (low, high), of `values` an array that is broadcast."""

    kind: InitKind
    values: Any = None


def generator(seed: int, name: str) -> np.random.Generator:
    """The numbers that belong to a tensor, whatever else is made before it."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


def problem_of(init: Init, dtype: DType) -> str | None:
    """Why an initial value cannot be made in an element type, or None."""
    if init.kind in ("normal", "uniform") and not dtype.is_float:
        return f"`{init.kind}` makes fractions, which {dtype} cannot hold; use randint"
    if init.kind == "randint":
        low, high = init.values
        if low >= high:
            return f"randint from {low} to below {high} is empty"
        if not dtype.is_float and not dtype.min <= low < high <= dtype.max + 1:
            return f"randint from {low} to below {high} does not fit {dtype}"
    if init.kind == "fill" and not dtype.is_float and not _fits(init.values, dtype):
        return f"fill with {init.values} does not fit {dtype}"
    return None


def _fits(value: int | float, dtype: DType) -> bool:
    return float(value).is_integer() and dtype.min <= value <= dtype.max


def initial(init: Init, shape: tuple[int, ...], dtype: DType, rng: np.random.Generator) -> Array:
    """The array; floats are drawn in fp32 and rounded."""
    made: Array = dtypes.cast(_MAKERS[init.kind](init, shape, rng), dtype)
    return made


def _randint(init: Init, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    low, high = init.values
    kind = np.uint64 if high > 1 << 63 else np.int64
    return rng.integers(low, high, size=shape, dtype=kind)


def _constant(value: int | float, shape: tuple[int, ...]) -> Any:
    return np.full(shape, value, np.uint64 if isinstance(value, int) and value >= 1 << 63 else None)


_MAKERS: dict[str, Callable[[Init, tuple[int, ...], np.random.Generator], Any]] = {
    "zeros": lambda init, shape, rng: np.zeros(shape, np.float32),
    "ones": lambda init, shape, rng: np.ones(shape, np.float32),
    "normal": lambda init, shape, rng: rng.standard_normal(shape, np.float32),
    "uniform": lambda init, shape, rng: rng.random(shape, np.float32),
    "arange": lambda init, shape, rng: np.arange(math.prod(shape)).reshape(shape),
    "randint": _randint,
    "fill": lambda init, shape, rng: _constant(init.values, shape),
    "values": lambda init, shape, rng: np.broadcast_to(init.values, shape),
}
