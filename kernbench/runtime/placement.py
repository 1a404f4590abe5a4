"""Where a tensor goes: replicate it, shard it, or put it on one PE, said declaratively.

Knows counts of SIPs, cubes and PEs. Does not know addresses or what connects the PEs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, get_args

from kernbench.diagnostics import KernBenchError, did_you_mean
from kernbench.messages import Tag
from kernbench.runtime.errors import fail

Axis = Literal["sip", "cube", "pe"]
AXES: tuple[Axis, ...] = get_args(Axis)


@dataclass(frozen=True, slots=True)
class DeviceShape:
    """What the host knows of a device."""

    sips: int
    cubes: int  # a SIP
    pes: int  # a cube
    hbm_bytes: int  # a PE's slice

    def extent(self, axis: Axis) -> int:
        return {"sip": self.sips, "cube": self.cubes, "pe": self.pes}[axis]


@dataclass(frozen=True, slots=True)
class Replicate:
    """A full copy on every PE along `over`."""

    over: tuple[Axis, ...] = AXES


@dataclass(frozen=True, slots=True)
class Shard:
    """Dimension `dim` in equal contiguous blocks over the PEs along `over`; the last axis of it varies fastest.

    Blocks are of ⌈extent / PEs⌉; the last ones may be smaller, and PEs beyond hold none. Axes that `over` does
    not name stay at 0.
    """

    dim: int
    over: tuple[Axis, ...] = AXES


@dataclass(frozen=True, slots=True)
class On:
    """The whole tensor on one PE."""

    sip: int
    cube: int
    pe: int


@dataclass(frozen=True, slots=True)
class CopiesOn:
    """A full copy on each of some PEs."""

    places: tuple[Tag, ...]


Placement = Replicate | Shard | On | CopiesOn


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of a tensor's placed bytes that lies on one PE."""

    tag: Tag
    offset_bytes: int
    nbytes: int


def replicate(over: Sequence[str] = AXES) -> Replicate:
    """A full copy of a tensor on every PE."""
    return Replicate(_axes(over))


def shard(dim: int, over: Sequence[str] = AXES) -> Shard:
    """Dimension `dim` of a tensor in equal blocks over the PEs."""
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise fail("E_PLACEMENT", f"a dimension to shard is {dim!r}, which is no integer")
    return Shard(dim, _axes(over))


def on(sip: int, cube: int, pe: int) -> On:
    """A whole tensor on one PE."""
    for axis, index in zip(AXES, (sip, cube, pe), strict=True):
        if isinstance(index, bool) or not isinstance(index, int):
            raise fail("E_PLACEMENT", f"{axis} of a placement is {index!r}, which is no integer")
    return On(sip, cube, pe)


def _axes(over: Sequence[str]) -> tuple[Axis, ...]:
    names = (over,) if isinstance(over, str) else tuple(over)
    found: list[Axis] = []
    for name in names:
        axis = next((axis for axis in AXES if axis == name), None)
        if axis is None:
            raise fail("E_PLACEMENT", f"`{name}` is no axis of a device", help=did_you_mean(str(name), AXES, "axes"))
        if axis in found:
            raise fail("E_PLACEMENT", f"a placement names the axis `{name}` twice")
        found.append(axis)
    if not found:
        raise fail("E_PLACEMENT", "a placement is over no axis", help=f"axes are {', '.join(AXES)}")
    return tuple(found)


def tags(placement: Placement, device: DeviceShape) -> tuple[Tag, ...]:
    """The PEs that a placement names, in its order, with or without a part of the tensor."""
    if isinstance(placement, On):
        _check_on(placement, device)
        return ((placement.sip, placement.cube, placement.pe),)
    if isinstance(placement, CopiesOn):
        return placement.places
    found: list[Tag] = []
    for indices in itertools.product(*(range(device.extent(axis)) for axis in placement.over)):
        at = dict(zip(placement.over, indices, strict=True))
        found.append((at.get("sip", 0), at.get("cube", 0), at.get("pe", 0)))
    return tuple(found)


def _check_on(place: On, device: DeviceShape) -> None:
    for axis, index in zip(AXES, (place.sip, place.cube, place.pe), strict=True):
        if not 0 <= index < device.extent(axis):
            extent = device.extent(axis)
            raise fail("E_PLACEMENT", f"{axis} {index} of a placement is not below {extent}, what the device has")


@contextmanager
def told_of(name: str) -> Iterator[None]:
    """What is wrong with a placement is told of the tensor of this name."""
    try:
        yield
    except KernBenchError as wrong:
        told = [replace(found, path=f"the placement of tensor `{name}`") for found in wrong.diagnostics]
        raise KernBenchError(told, wrong.exit_code) from None


def resolve(placement: Placement, shape: tuple[int, ...], itemsize: int, device: DeviceShape) -> tuple[Piece, ...]:
    """The pieces of a tensor; there is always one, if of 0 bytes."""
    nbytes = math.prod(shape) * itemsize
    places = tags(placement, device)
    if not isinstance(placement, Shard):
        return tuple(Piece(tag, 0, nbytes) for tag in places)
    extent = shape[shard_axis(placement, shape)] if shape else 1
    if nbytes == 0 or extent == 0:
        return (Piece(places[0], 0, 0),)
    block = -(-extent // len(places))
    row = nbytes // extent
    starts = range(0, extent, block)
    return tuple(
        Piece(tag, start * row, min(block, extent - start) * row) for tag, start in zip(places, starts, strict=False)
    )


def shard_axis(placement: Shard, shape: tuple[int, ...]) -> int:
    """The sharded dimension, counted from the front."""
    rank = max(len(shape), 1)
    if not -rank <= placement.dim < rank:
        text = f"dimension {placement.dim} to shard is not one of a tensor of shape {shape}"
        raise fail("E_PLACEMENT", text)
    return placement.dim % rank
