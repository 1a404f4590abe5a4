"""Values of micro-ops, and the GEMM product: operands in the type they compute in, the result rounded once.

Constant folding, PE_CPU's scalar instructions and data mode all call the functions of one table (`micro_ops.py`), so
they cannot differ; what data mode does with one call of NumPy's (`as_ufunc`) has the same bits.

Floats compute in fp32 (fp64 if any operand or the result is fp64) and round once to the result type, nearest even;
integers compute in their own width and wrap. Knows nothing of blocks' places, of time, or of recipes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kernbench.dtypes import DType, cast, compute_dtype, fp32, fp64, from_numpy, i32, reinterpret, truncated, wrap
from kernbench.micro_ops import EXACT_ON_INTS, MICRO_OPS, UFUNCS

_OF_PYTHON_INTS: Mapping[str, Callable[..., int]] = {"min_elem": min, "max_elem": max}  # NumPy's give NumPy's integers
_NO_EXTRA: Mapping[str, Any] = {}

# Sums of int1 are modulo 2, which is what they are on any other width. (`neg` of 1 is 1 again, as `abs`.)
_MODULO_2 = {"add": "xor", "sub": "xor", "neg": "abs"}

# Micro-ops whose results depend on the result's type.
_CONVERSIONS: Mapping[str, Callable[[Any, DType], Any]] = {
    "copy": cast,
    "bitcast": reinterpret,
    "copy_toward_zero": truncated,
}


def evaluate(kind: str, args: Sequence[Any], out: DType, extra: Mapping[str, Any] = _NO_EXTRA) -> Any:
    """The result of micro-op `kind` on arrays (or NumPy scalars) in their stored types, as an array of type `out`.

    Operands broadcast as NumPy's do. `extra` holds the micro-op's attributes.
    """
    with quiet():
        return evaluate_quietly(kind, args, out, extra)


def quiet() -> np.errstate:
    """Devices do not tell of overflows, zero divisors and the like. Entering this costs as much as a small block."""
    return np.errstate(all="ignore")


def evaluate_quietly(kind: str, args: Sequence[Any], out: DType, extra: Mapping[str, Any] = _NO_EXTRA) -> Any:
    """`evaluate` for those who are `quiet` already."""
    op = MICRO_OPS[kind]
    if kind in _CONVERSIONS:
        return _CONVERSIONS[kind](args[0], out)
    if op.whole:
        return cast(op.function(*(np.asarray(arg) for arg in args), extra), out)
    operands = _fp32_operands(args) if out is not fp64 else None
    if operands is None:
        operands = _in_compute_type(args, out, op.boolean)
    if kind in _MODULO_2 and all(array.dtype == np.bool_ for array in operands):
        op = MICRO_OPS[_MODULO_2[kind]]
    return cast(op.function(*operands, extra), out)


def as_ufunc(kind: str, args: Sequence[Any], target: Any) -> tuple[np.ufunc, Sequence[Any]] | None:
    """The function of NumPy's and its operands that put the result of a micro-op straight into an array in fp32.

    None where it takes more than one, or `target` is not of the result's rank.
    """
    ufunc = UFUNCS.get(kind)
    if ufunc is None or target.dtype is not _FP32:
        return None
    operands = _fp32_operands(args)
    if operands is None or not all(operand.ndim in (0, target.ndim) for operand in operands):
        return None
    return ufunc, operands


def _fp32_operands(args: Sequence[Any]) -> list[Any] | None:
    """Operands of which one at least is an array in fp32 and the others are floats: the usual case, told at once.

    The first of three may be a condition.
    """
    arrays = 0
    operands: list[Any] = []
    for arg in args:
        kind = type(arg)
        if kind is np.ndarray:
            if arg.dtype is _FP32:
                arrays += 1
            elif arg.dtype is not _BOOL or len(args) != 3 or operands:
                return None
        elif kind is float:
            arg = np.float32(arg)
        elif kind is not np.float32:
            return None
        operands.append(arg)
    return operands if arrays else None


_FP32 = fp32.numpy
_BOOL = np.dtype(np.bool_)


def _in_compute_type(args: Sequence[Any], out: DType, boolean: bool) -> list[Any]:
    """The operands as arrays of the type they compute in. Immediates (Python numbers) have no type of their own."""
    if (boolean or not out.is_float) and all(type(arg) is np.ndarray and arg.dtype.kind in "iub" for arg in args):
        return list(args)  # as below, told at once
    immediate = [type(arg) in (bool, int, float) for arg in args]
    arrays = [np.asarray(arg) for arg in args]
    known = [None if weak else from_numpy(a.dtype) for weak, a in zip(immediate, arrays, strict=True)]
    floats = [dtype for dtype in known if dtype is not None and dtype.is_float]
    if not floats and not (out.is_float and not boolean) and not any(type(arg) is float for arg in args):
        return _immediates_as_met(arrays, known)
    wide = fp64 if fp64 in floats or out is fp64 else fp32
    target = wide.numpy
    return [
        array if dtype is not None and dtype.kind == "bool" and len(arrays) == 3 else array.astype(target, copy=False)
        for array, dtype in zip(arrays, known, strict=True)
    ]


def _immediates_as_met(arrays: list[Any], known: list[DType | None]) -> list[Any]:
    """Integer immediates in the type of the array they meet where they fit it: uint64 with int64 would be a float."""
    met = next((dtype for dtype in known if dtype is not None and dtype.kind != "bool"), None)
    if met is None:
        return arrays
    return [
        array.astype(met.numpy) if dtype is None and met.min <= int(array) <= met.max else array
        for array, dtype in zip(arrays, known, strict=True)
    ]


def _exact(kind: str, values: Sequence[int], dtypes: Sequence[DType]) -> int:
    """A micro-op on Python integers, wrapped to the type in which the operands meet."""
    meet = max(dtypes, key=_width)
    if meet.kind == "bool":
        if kind == "not":
            return int(not values[0])
        kind = _MODULO_2.get(kind, kind)
    exact = _OF_PYTHON_INTS.get(kind)
    result = int(MICRO_OPS[kind].function(*values, _NO_EXTRA)) if exact is None else exact(*values)
    return result if MICRO_OPS[kind].boolean else wrap(result, meet)


def _width(dtype: DType) -> tuple[int, bool]:
    """Orders integer types as promotion does."""
    return dtype.bits, dtype.kind == "uint"


def evaluate_scalar(kind: str, args: Sequence[Any], arg_dtypes: Sequence[DType], out: DType) -> int | float:
    """The same for PE_CPU's registers: Python numbers in, a Python number (int for i1 too) out."""
    if kind in EXACT_ON_INTS and out.is_int and all(dtype.is_int for dtype in arg_dtypes):
        values = [wrap(int(a), dtype) for a, dtype in zip(args, arg_dtypes, strict=True)]
        return wrap(_exact(kind, values, arg_dtypes), out)
    arrays = [_scalar_array(value, dtype) for value, dtype in zip(args, arg_dtypes, strict=True)]
    value = np.asarray(evaluate(kind, arrays, out)).item() if out.name not in _ML_NAMES else None
    if value is None:
        value = float(np.asarray(evaluate(kind, arrays, out)).astype(np.float32))
    return int(value) if out.is_int else float(value)


_ML_NAMES = frozenset(("bf16", "fp8e4nv", "fp8e5"))


def _scalar_array(value: Any, dtype: DType) -> Any:
    if dtype.is_int:
        return np.array(wrap(int(value), dtype), np.int64 if dtype.kind == "int" else np.uint64).astype(dtype.numpy)
    return cast(np.float64(value), dtype)


def gemm(a: Any, b: Any) -> Any:
    """a (m, k) @ b (k, n): floats accumulate in fp32 (fp64 for fp64), integers in int32.

    Where the operands are two different float types, the wider is rounded to the narrower first (FETCH does it).
    For those who are `quiet` already.
    """
    if a.dtype is b.dtype is _FP32:
        return np.matmul(a, b)
    kinds = [from_numpy(a.dtype), from_numpy(b.dtype)]
    if kinds[0] is not kinds[1] and all(kind is not None and kind.is_float for kind in kinds):
        narrow = min((kind for kind in kinds if kind is not None), key=lambda kind: kind.bits)
        a, b = cast(a, narrow), cast(b, narrow)
    dtype = from_numpy(a.dtype)
    assert dtype is not None
    assert all(kind is not None and kind.is_int == dtype.is_int for kind in kinds), f"a product of {kinds}"
    if dtype.is_int:
        exact = _exact_product_type(kinds, a.shape[-1])
        return np.matmul(a.astype(exact), b.astype(exact)).astype(np.int64, copy=False).astype(i32.numpy)
    wide = compute_dtype(dtype).numpy
    return np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False))


def _exact_product_type(kinds: Sequence[DType | None], k: int) -> type[np.generic]:
    """The fastest type in which sums of `k` products of such integers are exact: NumPy multiplies floats with BLAS."""
    largest = k << sum(kind.bits for kind in kinds if kind is not None)
    return np.float32 if largest <= 1 << 24 else np.float64 if largest <= 1 << 53 else np.int64


def accumulator_dtype(a: DType, b: DType) -> DType:
    """The type of the product of `gemm`: int32 for integers, fp64 for fp64, else fp32."""
    if a.is_int and b.is_int:
        return i32
    return fp64 if a is fp64 and b is fp64 else fp32
