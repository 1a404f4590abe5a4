"""The element types: names, bits, NumPy types, casts and promotion.

Knows numbers only; not where they are stored or what computes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np

Kind = Literal["bool", "int", "uint", "float"]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type. `name` is the short form used in files and outputs, `triton` Triton's."""

    name: str
    triton: str
    kind: Kind
    bits: int

    @property
    def nbytes(self) -> int:
        """Bytes one element takes in memory; a bool takes one."""
        return max(1, self.bits // 8)

    @property
    def numpy(self) -> np.dtype[Any]:
        return _NUMPY[self.name]

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """True for integers and bools, as Triton's `is_int` of int1."""
        return self.kind != "float"

    @property
    def is_signed(self) -> bool:
        return self.kind in ("int", "float")

    @property
    def min(self) -> int:
        assert self.is_int
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def max(self) -> int:
        assert self.is_int
        return (1 << (self.bits - (self.kind == "int"))) - 1

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


i1 = DType("i1", "int1", "bool", 1)
i8, i16, i32, i64 = (DType(f"i{b}", f"int{b}", "int", b) for b in (8, 16, 32, 64))
u8, u16, u32, u64 = (DType(f"u{b}", f"uint{b}", "uint", b) for b in (8, 16, 32, 64))
fp8e4nv = DType("fp8e4nv", "float8e4nv", "float", 8)
fp8e5 = DType("fp8e5", "float8e5", "float", 8)
bf16 = DType("bf16", "bfloat16", "float", 16)
fp16 = DType("fp16", "float16", "float", 16)
fp32 = DType("fp32", "float32", "float", 32)
fp64 = DType("fp64", "float64", "float", 64)

ALL: tuple[DType, ...] = (i1, i8, i16, i32, i64, u8, u16, u32, u64, fp8e4nv, fp8e5, bf16, fp16, fp32, fp64)

_NUMPY: dict[str, np.dtype[Any]] = {
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "fp8e4nv": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8e5": np.dtype(ml_dtypes.float8_e5m2),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp16": np.dtype(np.float16),
    "fp32": np.dtype(np.float32),
    "fp64": np.dtype(np.float64),
}

# Every spelling that kernels, bench files, signatures and messages use.
_ALIASES = {
    "bool": i1,
    "fp8e4m3": fp8e4nv,
    "fp8e5m2": fp8e5,
    "float8_e4m3fn": fp8e4nv,
    "float8_e5m2": fp8e5,
}
BY_NAME: dict[str, DType] = {
    **{d.name: d for d in ALL},
    **{d.triton: d for d in ALL},
    **_ALIASES,
}
_BY_NUMPY: dict[np.dtype[Any], DType] = {numpy: BY_NAME[name] for name, numpy in _NUMPY.items()}


def from_numpy(dtype: np.dtype[Any]) -> DType | None:
    """The element type of a NumPy array, or None where we have none."""
    return _BY_NUMPY.get(np.dtype(dtype))


def compute_dtype(dtype: DType) -> DType:
    """The type in which MATH computes values of `dtype`: fp32 for floats (fp64 in fp64), itself for integers."""
    if dtype.is_float:
        return fp64 if dtype is fp64 else fp32
    return dtype


def cast(values: Any, to: DType) -> Any:
    """Convert an array (or NumPy scalar) as the hardware does.

    float → float and int → float round once, to nearest even. fp8 saturates: fp8e4nv at ±448 (it has no infinity),
    finite values in fp8e5 at ±57344; fp16, bf16 and fp32 overflow to infinity, as in Triton. float → int truncates
    towards zero, to 8 and 16 bits by way of int32, as processors without such a conversion do; what does not fit
    int32 or a wider type, which Triton leaves undefined, clamps, and NaN is 0. int → int wraps.
    anything → i1 is `!= 0`.
    """
    array = np.asarray(values)
    if array.dtype == to.numpy:
        return array
    source_float = array.dtype.kind == "f" or array.dtype in _ML_FLOATS
    if to.kind == "bool":
        return _is_nonzero(array) if source_float else array != 0
    if to.is_float:
        return _to_float(array, to, source_float)
    if source_float:
        return _float_to_int(array, to) if to.bits >= 32 else _float_to_int(array, i32).astype(to.numpy)
    return array.astype(to.numpy)


_ML_FLOATS = {
    np.dtype(ml_dtypes.bfloat16),
    np.dtype(ml_dtypes.float8_e4m3fn),
    np.dtype(ml_dtypes.float8_e5m2),
}


def _to_float(array: Any, to: DType, source_float: bool) -> Any:
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if to.bits < 32 and to is not fp16:
            array = _fp32_to_be_rounded(array, source_float)
        if to is fp8e4nv:
            array = np.where(np.isnan(array), array, np.clip(array, -448.0, 448.0))
        elif to is fp8e5:
            array = np.where(np.isfinite(array), np.clip(array, -57344.0, 57344.0), array)
        return array.astype(to.numpy)


def _fp32_to_be_rounded(array: Any, source_float: bool) -> Any:
    """Values as fp32 from which a rounding to a smaller type gives what one from the values themselves gives.

    What fp32 does not hold goes to the neighbour whose last bit is set: it then lies on its side of any tie.
    """
    if array.dtype.itemsize < 4 or array.dtype == np.float32:
        return array.astype(np.float32, copy=False)
    if not source_float and array.dtype.itemsize == 8:
        array = _in_53_bits(array)
    exact = array.astype(np.float64)
    nearest = np.asarray(exact.astype(np.float32))
    back = nearest.astype(np.float64)
    bits = nearest.view(np.uint32)
    odd = (bits - (np.abs(back) > np.abs(exact)).astype(np.uint32)) | np.uint32(1)
    inexact = (back != exact) & np.isfinite(nearest)
    return np.where(inexact, odd, bits).view(np.float32)


def _in_53_bits(integers: Any) -> Any:
    """64-bit integers, large ones with their low 12 bits drawn into one that says whether any was set."""
    low, large = integers & 0xFFF, np.abs(integers.astype(np.float64)) >= 2.0**53
    return np.where(large, integers - low + np.where(low != 0, 0x800, 0).astype(integers.dtype), integers)


def _is_nonzero(array: Any) -> Any:
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        return array != 0


def _float_to_int(array: Any, to: DType) -> Any:
    with np.errstate(invalid="ignore"):  # of signalling NaNs, and of what does not fit
        wide = np.trunc(array.astype(np.float64))
        wide = np.where(np.isnan(wide), 0.0, wide)
        # float(max) of 64-bit types rounds up to 2**63 or 2**64, which does not fit; compare before converting.
        low, high = to.min, to.max
        clipped = np.clip(wide, float(low), float(high))
        result = clipped.astype(np.uint64 if to is u64 else np.int64).astype(to.numpy)
    return np.where(clipped >= float(high), np.array(high, to.numpy), result).astype(to.numpy)


def wrap(value: int, dtype: DType) -> int:
    """An integer brought into the range of `dtype` by dropping high bits; i1 is `!= 0`."""
    if dtype.kind == "bool":
        return int(value != 0)
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def reinterpret(values: Any, to: DType) -> Any:
    """The same bits read as another type of equal size; to and from i1 the values, as a bool has one bit."""
    array = np.asarray(values)
    if to.kind == "bool" or array.dtype == np.bool_:
        return cast(array, to)
    assert array.dtype.itemsize == to.nbytes, f"{array.dtype} does not have the bits of {to}"
    return np.ascontiguousarray(array).view(to.numpy).reshape(array.shape)


def truncated(values: Any, to: DType) -> Any:
    """Floats rounded towards zero: what rounding to nearest took too far goes back by one."""
    array = np.asarray(values)
    nearest = np.ascontiguousarray(cast(array, to))
    wide = np.float64 if array.dtype == np.float64 else np.float32
    with np.errstate(invalid="ignore"):
        beyond = np.abs(nearest.astype(wide)) > np.abs(array.astype(wide))
    bits = nearest.view(np.dtype(f"u{to.nbytes}"))
    return (bits - beyond.astype(bits.dtype)).view(to.numpy).reshape(array.shape)


def promote(a: DType, b: DType, *, division: bool = False) -> DType:
    """Triton's type of `a OP b` for two non-constant operands (`semantic.computation_type_impl`).

    fp64 > fp32 > fp16 (with bf16 too) > bf16; bf16 with an integer or an fp8 gives fp32; fp16 or bf16 under `/` or
    `%` give fp32 (`division`); two fp8 give fp16; ints of one rank and different signedness give the unsigned one.
    """
    if a is fp64 or b is fp64:
        return fp64
    if a is fp32 or b is fp32:
        return fp32
    if a is fp16 or b is fp16:
        return fp32 if division else fp16
    if a is bf16 or b is bf16:
        return bf16 if a is b and not division else fp32
    if a.is_float and b.is_float:
        return a if a is b else fp16
    if a.is_float or b.is_float:
        # an fp8 with an integer
        return fp16
    if a.bits == b.bits:
        return a if a.kind == b.kind else (a if a.kind == "uint" else b)
    return a if a.bits > b.bits else b
