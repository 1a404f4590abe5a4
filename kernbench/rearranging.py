"""The functions of whole blocks that the micro-op table names: moving elements about, scans, searches, sorting.

Each takes arrays in their stored types, and the attributes of the micro-op. Does not know costs or result types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernbench.dtypes import cast, from_numpy

Extra = Mapping[str, Any]


def _comparable(x: Any) -> Any:
    """Types that NumPy does not order (bf16, fp8) as fp32, which holds all their values."""
    return x if x.dtype.kind in "biuf" else x.astype(np.float32)


def part(x: Any, extra: Extra) -> Any:
    """`count` positions along an axis, from `start` on, `step` apart."""
    picked = extra["start"] + extra["step"] * np.arange(extra["count"])
    return np.take(x, picked, axis=extra["axis"])


def cat(a: Any, b: Any, extra: Extra) -> Any:
    return np.concatenate((a, b), axis=extra["axis"])


def join(a: Any, b: Any, extra: Extra) -> Any:
    """Both side by side along a new last axis of 2."""
    return np.stack((a, b), axis=-1)


def flip(x: Any, extra: Extra) -> Any:
    return np.flip(x, axis=extra["axis"])


def gather(x: Any, index: Any, extra: Extra) -> Any:
    """x at the positions `index` along an axis; positions outside wrap into the axis, which Triton leaves open."""
    axis = extra["axis"]
    return np.take_along_axis(x, np.asarray(index).astype(np.int64) % x.shape[axis], axis=axis)


def sort(x: Any, extra: Extra) -> Any:
    """Ascending along an axis, or descending; NaNs stand at the high end."""
    axis = extra["axis"]
    order = np.argsort(_comparable(x), axis=axis, kind="stable")
    ordered = np.take_along_axis(x, order, axis=axis)
    return np.flip(ordered, axis=axis) if extra["descending"] else ordered


def histogram(x: Any, mask: Any, extra: Extra) -> Any:
    """How often each of 0 … bins−1 occurs in the lanes of `mask`; others are not counted."""
    values = np.asarray(x).astype(np.int64)
    counted = np.broadcast_to(np.asarray(mask) != 0, values.shape) & (values >= 0) & (values < extra["bins"])
    return np.bincount(values[counted], minlength=extra["bins"])


def _scan(function: np.ufunc, x: Any, extra: Extra) -> Any:
    """Running results along an axis, each step rounded to the type of x, from the last position on if `reverse`."""
    axis = extra["axis"]
    if extra["reverse"]:
        return np.flip(_running(function, np.flip(x, axis=axis), axis), axis=axis)
    return _running(function, x, axis)


def _running(function: np.ufunc, x: Any, axis: int) -> Any:
    dtype = from_numpy(x.dtype)
    if dtype is None or not (dtype.is_float and dtype.bits == 8):
        return function.accumulate(x, axis=axis, dtype=x.dtype)
    # NumPy does not saturate, so step by step
    lines = np.moveaxis(np.array(x), axis, 0)
    for step in range(1, len(lines)):
        lines[step] = cast(function(lines[step - 1].astype(np.float32), lines[step].astype(np.float32)), dtype)
    return np.moveaxis(lines, 0, axis)


def cumsum(x: Any, extra: Extra) -> Any:
    return _scan(np.add, x, extra)


def cumprod(x: Any, extra: Extra) -> Any:
    return _scan(np.multiply, x, extra)


def _first(x: Any, extra: Extra, least: bool) -> Any:
    """The position of the extreme along an axis, the first of equals; a NaN loses, of NaNs alone the first stands."""
    values, axis = _comparable(x), extra["axis"]
    extreme = (np.fmin if least else np.fmax).reduce(values, axis=axis, keepdims=True)
    return np.argmax(values == extreme, axis=axis)


def argmax(x: Any, extra: Extra) -> Any:
    return _first(x, extra, least=False)


def argmin(x: Any, extra: Extra) -> Any:
    return _first(x, extra, least=True)
