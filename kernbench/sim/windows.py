"""What a kernel's pointers mean: logical addresses resolved through a launch's shard maps to places in memory.

A pointer names a tensor argument and a byte offset in row-major order of the shape that the program sees
(`address_map.py`). Does not know routes, who moves the bytes, or what they hold.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernbench.address_map import WINDOW_BITS, decode_pa, window_base
from kernbench.sim.bounds import Axis, overrun
from kernbench.sim.faults import DeviceFault, Hint

Ints = NDArray[np.int64]
_HALF = 1 << (WINDOW_BITS - 1)


class Shard(NamedTuple):
    """A run of a tensor's placed bytes in one PE's memory."""

    start: int  # in the window's placed bytes
    nbytes: int
    sip: int
    cube: int
    pe: int
    pa: int

    @property
    def slice_offset(self) -> int:
        return decode_pa(self.pa).offset


class Segment(NamedTuple):
    """A run of bytes of one access that lies in one slice."""

    offset: int  # logical, from the tensor's first byte
    nbytes: int
    sip: int
    cube: int
    pe: int
    pa: int
    shard: int  # index in `Window.shards`


class Pieces(NamedTuple):
    """Many runs at once, as columns; run `k` belongs to the caller's run `source[k]` and starts `at[k]` into it."""

    source: Ints
    at: Ints
    nbytes: Ints
    shard: Ints  # index in `Window.shards`
    slice_offset: Ints  # from the start of the slice


@dataclass(frozen=True, slots=True)
class Geometry:
    """How logical order and placed order go together: index (o, d, i) of (outer, extent, inner bytes).

    Logical byte `(o × extent + d) × inner + i` lies at placed byte `(d × outer + o) × inner + i`.
    """

    outer: int
    extent: int
    inner: int  # bytes

    @property
    def is_row_major(self) -> bool:
        return self.outer == 1

    @property
    def nbytes(self) -> int:
        return self.outer * self.extent * self.inner

    def placed(self, logical: Ints) -> Ints:
        rest, i = np.divmod(logical, self.inner)
        o, d = np.divmod(rest, self.extent)
        placed: Ints = (d * self.outer + o) * self.inner + i
        return placed


def run_geometry(nbytes: int) -> Geometry:
    """A plain run of bytes."""
    return Geometry(1, 1, nbytes)


class Window:
    """What one program sees of one tensor argument: the whole tensor, or this PE's own shard.

    `shards` are sorted, touch each other and cover the window. `read_only` says why stores are refused, or is
    empty. `elements` is the shape and the bytes of an element, where they are known; faults are told in them.
    `watched`: programs of the launch store to it and nothing orders them, so their loads may race.
    """

    __slots__ = (
        "_ends",
        "_is_row_major",
        "_places",
        "_slice_starts",
        "_starts",
        "_starts_list",
        "elements",
        "geometry",
        "name",
        "nbytes",
        "read_only",
        "shards",
        "watched",
    )

    def __init__(
        self,
        name: str,
        geometry: Geometry,
        shards: Sequence[Shard],
        read_only: str = "",
        elements: tuple[tuple[int, ...], int] | None = None,
        watched: bool = False,
    ) -> None:
        self.name = name
        self.watched = watched
        self.elements = elements
        self.geometry = geometry
        self.nbytes = geometry.nbytes
        self.shards = tuple(sorted(shard for shard in shards if shard.nbytes))
        self.read_only = read_only
        self._is_row_major = geometry.is_row_major
        self._places = [((shard.sip, shard.cube, shard.pe), shard.slice_offset) for shard in self.shards]
        self._starts_list = [shard.start for shard in self.shards]
        self._starts = np.array(self._starts_list, np.int64)
        self._ends = self._starts + np.array([shard.nbytes for shard in self.shards], np.int64)
        self._slice_starts = np.array([offset for _, offset in self._places], np.int64)

    def check(self, offset: int, nbytes: int) -> None:
        """Fault where a run of bytes leaves the tensor."""
        if offset < 0 or offset + nbytes > self.nbytes:
            raise self.out_of_bounds(offset, nbytes)

    def out_of_bounds(
        self, offset: int, nbytes: int, origin: int | None = None, axes: Sequence[Axis] | None = None
    ) -> DeviceFault:
        """`origin` is the byte of a box's first lane, and `axes` its sides in bytes; else it is a run of bytes."""
        held = f"holds {self.nbytes} bytes" if self.nbytes else "has no bytes on this PE"
        last = offset + nbytes - 1
        text = f"bytes {offset} to {last} of tensor `{self.name}` are out of bounds, it {held}"
        if self.elements is None or not self.nbytes:
            return DeviceFault("E_OUT_OF_BOUNDS", text)
        shape, size = self.elements
        lanes = [Axis(size, -(-nbytes // size))] if axes is None else axes
        found = overrun(
            shape,
            (offset if origin is None else origin) // size,
            [Axis(stride // size, extent) for stride, extent in lanes if stride and extent > 1],
        )
        return DeviceFault("E_OUT_OF_BOUNDS", text, hint=Hint(found.text, found.help))

    def segments(self, offset: int, nbytes: int) -> list[Segment]:
        """The places of one run of logical bytes, in logical order."""
        self.check(offset, nbytes)
        if nbytes == 0:
            return []
        if not self.geometry.is_row_major:
            pieces = self.locate(np.array([offset], np.int64), np.array([nbytes], np.int64))
            return [
                self._segment(offset + at, size, shard, start)
                for at, size, shard, start in zip(
                    pieces.at.tolist(), pieces.nbytes.tolist(), pieces.shard.tolist(), pieces.slice_offset.tolist(),
                    strict=True,
                )
            ]  # fmt: skip
        return self._row_major_segments(offset, nbytes)

    def in_one_slice(self, offset: int, nbytes: int) -> tuple[tuple[int, int, int], int] | None:
        """The slice that holds a run of logical bytes as a whole, and where it starts there."""
        if not self._is_row_major:
            return None
        index = bisect_right(self._starts_list, offset) - 1
        inside = offset - self._starts_list[index]
        if inside + nbytes > self.shards[index].nbytes:
            return None
        place, slice_offset = self._places[index]
        return place, slice_offset + inside

    def _segment(self, offset: int, nbytes: int, index: int, slice_offset: int) -> Segment:
        shard = self.shards[index]
        pa = shard.pa + slice_offset - int(self._slice_starts[index])
        return Segment(offset, nbytes, shard.sip, shard.cube, shard.pe, pa, index)

    def _row_major_segments(self, offset: int, nbytes: int) -> list[Segment]:
        found: list[Segment] = []
        index = bisect_right(self._starts_list, offset) - 1
        end = offset + nbytes
        while offset < end:
            start, size, sip, cube, pe, pa = self.shards[index]
            taken = min(end, start + size) - offset
            found.append(Segment(offset, taken, sip, cube, pe, pa + offset - start, index))
            offset += taken
            index += 1
        return found

    def locate(self, starts: Ints, sizes: Ints) -> Pieces:
        """The places of many runs of logical bytes; runs are in order, and so are the pieces of each.

        The caller knows which lanes are live, so it gives live runs only; any of them that leaves the tensor is a
        fault, of which the first is told.
        """
        bad = (starts < 0) | (starts + sizes > self.nbytes)
        if bad.any():
            first = int(np.argmax(bad))
            raise self.out_of_bounds(int(starts[first]), int(sizes[first]))
        source, at, lengths = _split_rows(starts, sizes, self.geometry)
        placed = starts[source] + at
        if not self.geometry.is_row_major:
            placed = self.geometry.placed(placed)
        return self._split_shards(source, at, lengths, placed)

    def _split_shards(self, source: Ints, at: Ints, sizes: Ints, placed: Ints) -> Pieces:
        first = np.searchsorted(self._starts, placed, side="right") - 1
        last = np.searchsorted(self._starts, placed + sizes, side="left") - 1
        counts = last - first + 1
        row, step = _expand(counts)
        shard = first[row] + step
        begin = np.maximum(self._starts[shard], placed[row])
        end = np.minimum(self._ends[shard], placed[row] + sizes[row])
        return Pieces(
            source[row], at[row] + begin - placed[row], end - begin, shard,
            self._slice_starts[shard] + begin - self._starts[shard],
        )  # fmt: skip


def _expand(counts: Ints) -> tuple[Ints, Ints]:
    """For counts [2, 1]: rows [0, 0, 1] and steps [0, 1, 0]."""
    row = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    before = np.cumsum(counts) - counts
    return row, np.arange(len(row), dtype=np.int64) - before[row]


def _split_rows(starts: Ints, sizes: Ints, geometry: Geometry) -> tuple[Ints, Ints, Ints]:
    """Runs cut where placed order jumps: (run, start within it, size) of each part; empty runs have no part."""
    if geometry.is_row_major:
        keep = np.flatnonzero(sizes)
        return keep, np.zeros(len(keep), np.int64), sizes[keep]
    inner = geometry.inner
    first = starts // inner
    counts = np.where(sizes > 0, (starts + sizes - 1) // inner - first + 1, 0)
    row, step = _expand(counts)
    begin = np.maximum((first[row] + step) * inner, starts[row])
    end = np.minimum((first[row] + step + 1) * inner, starts[row] + sizes[row])
    return row, begin - starts[row], end - begin


class Windows:
    """The windows of one program's tensor arguments; the index in it is the one in its logical pointers."""

    __slots__ = ("windows",)

    def __init__(self, windows: Sequence[Window]) -> None:
        self.windows = tuple(windows)

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> Window:
        return self.windows[index]

    def base(self, index: int) -> int:
        """The logical pointer to byte 0 of tensor argument `index`."""
        return window_base(index)

    def split(self, address: int) -> tuple[Window, int]:
        """The window that a logical pointer points into and the byte offset, which may be negative."""
        index, offset = divmod(address, 1 << WINDOW_BITS)
        index -= 1
        if offset >= _HALF:  # a little before the next tensor
            index, offset = index + 1, offset - (1 << WINDOW_BITS)
        if 0 <= index < len(self.windows):
            return self.windows[index], offset
        where = "near the null pointer" if index == -1 else "in no tensor argument of this launch"
        raise DeviceFault("E_BAD_POINTER", f"address {address:#x} is {where}")

    def resolve(self, address: int, nbytes: int) -> list[Segment]:
        """The places of `nbytes` bytes from a logical pointer on; a fault where they leave the tensor."""
        window, offset = self.split(address)
        return window.segments(offset, nbytes)
