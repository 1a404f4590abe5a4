"""A PE's scratchpad: its bytes as NumPy views, and in timing mode which of them are known.

Memory is made at the first view, so timing mode pays only for what its static commands touch. Does not know time
(the engines' ports are in `engines/`), nor commands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernbench.commands import TensorHandle
from kernbench.dtypes import DType
from kernbench.sim.hazards import Range

T = TypeVar("T")


class Tcm:
    """`capacity_bytes` of memory. Addresses are checked at dispatch, here they are asserted."""

    __slots__ = ("_bytes", "_kept", "_unknown", "capacity_bytes")

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._bytes: NDArray[np.uint8] | None = None
        self._unknown: NDArray[np.bool_] | None = None
        self._kept: dict[object, Any] = {}

    def view(self, address: int, dtype: DType, shape: Sequence[int], strides: Sequence[int]) -> NDArray[Any]:
        """Elements in place. `strides` are in elements."""
        if self._bytes is None:
            self._bytes = np.zeros(self.capacity_bytes, np.uint8)
        steps = [stride * dtype.nbytes for stride in strides]
        return _view(self._bytes, address, dtype.numpy, shape, steps)

    def kept(self, owner: object, make: Callable[[], T]) -> T:
        """The views that `make` makes, and what it says of them, made once for an owner: they stay in place."""
        found: T | None = self._kept.get(owner)
        if found is None:
            found = self._kept[owner] = make()
        return found

    def forget(self, low: int, high: int) -> None:
        """Bytes whose values timing mode does not know."""
        if self._unknown is None:
            self._unknown = np.zeros(self.capacity_bytes, np.bool_)
        self._unknown[low:high] = True

    def learn(self, low: int, high: int) -> None:
        if self._unknown is not None:
            self._unknown[low:high] = False

    def knows(self, low: int, high: int) -> bool:
        return self._unknown is None or not self._unknown[low:high].any()


def _view(
    memory: NDArray[np.uint8], address: int, dtype: np.dtype[Any], shape: Sequence[int], steps: Sequence[int]
) -> NDArray[Any]:
    first = address + sum(step * (extent - 1) for step, extent in zip(steps, shape, strict=True) if step < 0)
    last = address + sum(step * (extent - 1) for step, extent in zip(steps, shape, strict=True) if step > 0)
    assert first >= 0 and last + dtype.itemsize <= len(memory), f"tcm[{first}:{last}] is outside of the scratchpad"
    return np.ndarray(tuple(shape), dtype, memory.data, address, tuple(steps))


def handle_range(handle: TensorHandle, address: int, strides: Sequence[int]) -> Range:
    """The bytes from the first to the last element of a block at `address`."""
    if 0 in handle.shape:
        return address, address
    spans = [stride * (extent - 1) for stride, extent in zip(strides, handle.shape, strict=True)]
    size = handle.dtype.nbytes
    low = address + size * sum(span for span in spans if span < 0)
    return low, address + size * (1 + sum(span for span in spans if span > 0))
