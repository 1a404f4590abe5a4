"""Say how an access leaves its tensor: along which dimension, how far, and what mask would stop it.

Knows shapes and strides, all in elements. Does not know addresses, memories or who accesses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

Shape = tuple[int, ...]


class Axis(NamedTuple):
    """A side of the block that is accessed: elements of the tensor from one lane to the next, and how many lanes."""

    stride: int
    extent: int


class Overrun(NamedTuple):
    """In the words of the kernel's writer."""

    text: str
    help: str


def overrun(shape: Shape, first: int, axes: Sequence[Axis]) -> Overrun:
    """How lanes that start at element `first` leave a tensor of this shape.

    A side that steps along a dimension of the tensor is counted there, so a block that is wider than a row is told
    as that, though its last lanes but those of the last row lie within the tensor. Where sides and dimensions do not
    go together, elements are counted.
    """
    if not shape:
        return _flat(shape, first, axes)
    steps = row_major(shape)
    low, high = _indices(first, steps), _indices(first, steps)
    for stride, extent in axes:
        dim = _dimension(steps, abs(stride))
        if stride % steps[dim]:
            return _flat(shape, first, axes)
        reach = stride // steps[dim] * (extent - 1)
        low[dim], high[dim] = low[dim] + min(reach, 0), high[dim] + max(reach, 0)
    if len(axes) == 1 and low[-1] and _dimension(steps, abs(axes[0].stride)) > 0:
        return _flat(shape, first, axes)  # a plain range of elements that happens to start within a row
    for dim, size in enumerate(shape):
        if low[dim] < 0 or high[dim] >= size:
            return _told(f"dimension {dim} of {list(shape)}", "index", low[dim], high[dim], size)
    return _flat(shape, first, axes)


def row_major(shape: Shape) -> list[int]:
    """Elements between neighbours along each dimension."""
    return [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]


def _indices(element: int, steps: Sequence[int]) -> list[int]:
    """The outermost index takes what lies outside of the tensor."""
    found = []
    for step in steps:
        index, element = divmod(element, step)
        found.append(index)
    return found


def _dimension(steps: Sequence[int], stride: int) -> int:
    """The outermost dimension along which a stride makes at least one step."""
    return next((dim for dim, step in enumerate(steps) if stride >= step), len(steps) - 1)


def _flat(shape: Shape, first: int, axes: Sequence[Axis]) -> Overrun:
    reaches = [axis.stride * (axis.extent - 1) for axis in axes]
    low, high = (first + sum(limit(reach, 0) for reach in reaches) for limit in (min, max))
    return _told(f"the tensor of shape {list(shape)}", "element", low, high, math.prod(shape))


def _told(what: str, unit: str, low: int, high: int, size: int) -> Overrun:
    if low < 0:
        text, allowed = f"{unit} {low}, {-low} before its first", f"{unit} >= 0"
    else:
        text, allowed = f"{unit} {high}, {high - size + 1} beyond its last", f"{unit} < {size}"
    return Overrun(f"{what} is left at {text}", f"give a `mask` that lets only lanes of {allowed} pass")
