"""Host handles of tensors: a NumPy array as its device bytes, and device bytes as the array they stand for.

Knows arrays, element types and placements. Does not know addresses, messages or kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernbench import dtypes
from kernbench.dtypes import DType
from kernbench.messages import TensorLayout
from kernbench.runtime.errors import fail
from kernbench.runtime.placement import Placement, Shard, shard_axis, told_of

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """What of an array goes to the device: a contiguous array of its elements, in its order or in memory order.

    A view with gaps or in another order than row-major goes as the stretch of memory that it spans, in one
    dimension, since a kernel addresses it by pointer and strides; `strides` leads back to the view.
    """

    values: Array
    shape: tuple[int, ...]  # of the array that came in
    strides: tuple[int, ...] | None  # in elements; None: `values` has the array's shape


def storage_of(array: Array, name: str) -> Storage:
    if array.flags.c_contiguous:
        return Storage(array, array.shape, None)
    steps, odd = zip(*(divmod(stride, array.itemsize) for stride in array.strides), strict=True)
    if any(odd) or any(step < 0 and extent > 1 for step, extent in zip(steps, array.shape, strict=True)):
        text = f"argument `{name}` has strides of {array.strides} bytes, which no pointer and steps upwards follow"
        raise fail("E_ARG_STRIDES", text, help="pass a copy: numpy.ascontiguousarray(...)")
    span = 1 + sum((extent - 1) * step for extent, step in zip(array.shape, steps, strict=True))
    flat = np.lib.stride_tricks.as_strided(array, (span,), (array.itemsize,), writeable=False)
    return Storage(flat, array.shape, tuple(steps))


@dataclass(frozen=True, slots=True, eq=False)
class HostTensor:
    """A tensor argument as the host holds it."""

    name: str
    storage: Storage  # values in the device's element type
    dtype: DType
    placement: Placement
    came_as: np.dtype[Any]  # the element type to give back

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.storage.values.shape)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.nbytes

    @property
    def dim(self) -> int | None:
        """The axis that is outermost on the device, or None where the order is row-major."""
        if not isinstance(self.placement, Shard) or not self.shape:
            return None
        return shard_axis(self.placement, self.shape)

    @property
    def layout(self) -> TensorLayout:
        return TensorLayout(shape=self.shape, dim=self.dim, dtype=self.dtype.name)  # type: ignore[arg-type]

    def placed(self) -> Array:
        """The tensor's bytes in placed order."""
        values = self.storage.values
        if self.dim is not None:
            values = np.moveaxis(values, self.dim, 0)
        return np.ascontiguousarray(values).reshape(-1).view(np.uint8)

    def restore(self, placed: Array) -> Array:
        """The array that bytes in placed order stand for, of the shape, strides and type that came in."""
        values = placed.view(self.dtype.numpy)
        if self.dim is None:
            values = values.reshape(self.shape)
        else:
            rest = (extent for axis, extent in enumerate(self.shape) if axis != self.dim)
            values = np.moveaxis(values.reshape(self.shape[self.dim], *rest), 0, self.dim)
        values = np.ascontiguousarray(values).reshape(self.shape)
        if values.dtype != self.came_as:
            values = _cast_back(values, self.came_as)
        return _strided(values, self.storage)


def _cast_back(values: Array, came_as: np.dtype[Any]) -> Array:
    dtype = dtypes.from_numpy(came_as)
    assert dtype is not None, "an array without a device type came in"
    made: Array = dtypes.cast(values, dtype)
    return made


def _strided(values: Array, storage: Storage) -> Array:
    if storage.strides is None:
        return values
    steps = tuple(step * values.itemsize for step in storage.strides)
    return np.lib.stride_tricks.as_strided(values, storage.shape, steps)


def host_tensor(name: str, array: Array, dtype: DType, placement: Placement | None, default: Placement) -> HostTensor:
    """The handle of an array that is stored as `dtype` on the device, at `default` where no one says otherwise."""
    storage = storage_of(array, name)
    if storage.strides is not None and isinstance(placement, Shard):
        text = f"argument `{name}` is a view with strides of {array.strides} bytes, and its dimensions are not"
        help_text = "pass a copy: numpy.ascontiguousarray(...)"
        raise fail("E_ARG_STRIDES", f"{text} laid out one by one that `shard` could cut", help=help_text)
    place = default if placement is None else placement
    if isinstance(place, Shard):
        with told_of(name):
            shard_axis(place, storage.values.shape)  # refuses a dimension that is not there
    values = dtypes.cast(storage.values, dtype)
    return HostTensor(name, Storage(values, storage.shape, storage.strides), dtype, place, array.dtype)
