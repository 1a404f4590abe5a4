"""From an `Access` and the registers to the bytes that it touches: which slice, which runs, at what cost.

A box whose strides are affine is summed up in a `BoxForm`, kept by its numbers, so that a loop pays for it once;
anything else is evaluated lane by lane with NumPy. Live lanes only: a lane that a mask stops is neither checked nor
charged. Does not know when the bytes move or who moves them.

Cost. A transfer that is one run of bytes streams: it costs what it moves. One of several runs costs whole DRAM
accesses (`ACCESS_BYTES`, an HBM3 burst of a pseudo-channel), and at least `PAGE_MINIMUM_BYTES` for each DRAM page
(`PAGE_BYTES`) that it touches: tFAW lets each of a slice's four pseudo-channels open 4 pages in 15 ns, so the slice
opens one in the time of 127 bytes. So random
single elements run at 1/32 (fp32) of the rate, runs of 64 bytes far apart at 1/2, aligned runs of 128 bytes at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernbench import numerics
from kernbench.commands import Affine, AxisIndex, IndexExpr, IndexOp, Int, Reg
from kernbench.dtypes import i64, wrap
from kernbench.sim.bounds import Axis
from kernbench.sim.faults import DeviceFault
from kernbench.sim.windows import Pieces, Window, Windows

Ints = NDArray[np.int64]
Runs = tuple[Ints, Ints, Ints]
Place = tuple[int, int, int]  # (sip, cube, pe) of a slice

ACCESS_BYTES = 64
PAGE_BYTES = 1024
PAGE_MINIMUM_BYTES = 128
_SPARSE = 16  # a box whose cover is larger than this times its bytes is moved lane by lane
_INT32 = 1 << 31


def place_number(place: Place) -> int:
    """A slice as one number, in topology order."""
    sip, cube, pe = place
    return (sip << 16 | cube) << 8 | pe


class Part:
    """What an access touches in one slice: bytes `low` to `high`, in one run or in several with gaps.

    `at` says where each run lies in the buffer through which the command moves its bytes. Runs of a box are made
    when they are asked for, which timing mode seldom does.
    """

    __slots__ = ("_runs", "charged", "form", "high", "low", "nbytes", "place")

    def __init__(
        self, place: Place, low: int, high: int, nbytes: int, charged: int, runs: Runs | None = None,
        form: BoxForm | None = None,
    ) -> None:  # fmt: skip
        self.place = place
        self.low = low
        self.high = high
        self.nbytes = nbytes
        self.charged = charged  # ≥ nbytes; what the slice's bandwidth is charged with
        self._runs = runs
        self.form = form  # of a box with gaps that lies in one slice as a whole

    @property
    def runs(self) -> Runs | None:
        """(offset in the slice, size, place in the buffer) of each run; None for one run from 0 on."""
        if self._runs is None and self.form is not None:
            starts = self.form.runs
            self._runs = starts + self.low, np.full(len(starts), self.form.run, np.int64), starts
        return self._runs

    @property
    def segments(self) -> int:
        """How many runs of bytes it has in the slice."""
        if self.form is not None:
            return len(self.form.runs)
        return 1 if self._runs is None else len(self._runs[0])

    @property
    def keeps_layout(self) -> bool:
        """Its bytes lie in the slice as in the buffer, gaps and all, from `low` on."""
        return self._runs is None

    def overlaps(self, other: Part) -> bool:
        """Any byte in common; exact where both are runs with gaps."""
        if self.low >= other.high or other.low >= self.high or self.place != other.place:
            return False
        mine, theirs = self._sorted_runs(), other._sorted_runs()
        if mine is None and theirs is None:
            return True
        return _runs_meet(mine or _one_run(self), theirs or _one_run(other))

    def _sorted_runs(self) -> tuple[Ints, Ints] | None:
        runs = self.runs
        if runs is None:
            return None
        offsets, sizes, _ = runs
        order = np.argsort(offsets, kind="stable")
        return offsets[order], (offsets + sizes)[order]


def _one_run(part: Part) -> tuple[Ints, Ints]:
    return np.array([part.low]), np.array([part.high])


def _runs_meet(a: tuple[Ints, Ints], b: tuple[Ints, Ints]) -> bool:
    """Any overlap of two sorted lists of runs (runs of one list may overlap each other)."""
    starts, ends = b[0], np.maximum.accumulate(b[1])
    before = np.searchsorted(starts, a[1], side="left")  # runs of b that start before each run of a ends
    has = before > 0
    return bool((ends[before[has] - 1] > a[0][has]).any())


class BoxForm:
    """A box of live elements with fixed strides, relative to where its first byte lies."""

    __slots__ = (
        "_charged", "_runs", "_steps", "_words", "cover", "delta", "extents", "itemsize", "lows", "max_element",
        "min_element", "nbytes",
        "origin", "run", "sparse", "strides",
    )  # fmt: skip

    def __init__(self, itemsize: int, strides: tuple[int, ...], lows: tuple[int, ...], extents: tuple[int, ...]):
        self.itemsize = itemsize
        self.lows = lows
        self.extents = extents
        self.strides = tuple(stride * itemsize for stride in strides)
        spans = [stride * (extent - 1) for stride, extent in zip(strides, extents, strict=True)]
        first = sum(stride * low for stride, low in zip(strides, lows, strict=True))
        self.min_element = first + sum(span for span in spans if span < 0)
        self.max_element = first + sum(span for span in spans if span > 0)
        self.delta = self.min_element * itemsize  # from the access's base to the first byte
        self.origin = (first - self.min_element) * itemsize  # from the first byte to element (0, 0, …) of the box
        self.cover = (self.max_element - self.min_element + 1) * itemsize
        self.nbytes, self.run = self._unique()
        self.sparse = self.cover > _SPARSE * self.nbytes + (1 << 20)
        self._runs: Ints | None = None
        self._steps: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        self._charged: dict[int, int] = {}
        self._words: dict[int, Ints] = {}

    @property
    def axes(self) -> list[Axis]:
        return [Axis(stride, extent) for stride, extent in zip(self.strides, self.extents, strict=True)]

    def _axes(self) -> list[tuple[int, int]]:
        """(stride in bytes, extent) of the axes along which it really moves, smallest stride first."""
        pairs = zip(self.strides, self.extents, strict=True)
        return sorted((abs(stride), extent) for stride, extent in pairs if stride and extent > 1)

    def _unique(self) -> tuple[int, int]:
        """(bytes touched, bytes of a run)."""
        run, rest = self.itemsize, self._axes()
        while rest and rest[0][0] <= run:  # touches or overlaps what is there already
            stride, extent = rest.pop(0)
            run += stride * (extent - 1)
        total, span = run, run
        for stride, extent in rest:
            if stride < span:  # runs of two axes interleave: count them
                return self._count(run, rest)
            total, span = total * extent, span + stride * (extent - 1)
        return total, run

    def _count(self, run: int, axes: list[tuple[int, int]]) -> tuple[int, int]:
        starts = np.unique(_offsets_of(axes))
        gaps = np.minimum(np.diff(starts), run)
        return int(gaps.sum()) + run, run

    @property
    def runs(self) -> Ints:
        """Where each run starts, from the first byte, ascending and each once."""
        if self._runs is None:
            inner = self.run
            axes = [(stride, extent) for stride, extent in self._axes() if stride > inner]
            self._runs = np.unique(_offsets_of(axes))
        return self._runs

    @property
    def steps(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The box as runs in rows: (extents, strides in bytes) over its bytes, from the first on.

        Where runs of two axes interleave some bytes are named twice.
        """
        if self._steps is None:
            axes = [(stride, extent) for stride, extent in reversed(self._axes()) if stride > self.run]
            extents, strides = (*(extent for _, extent in axes), self.run), (*(stride for stride, _ in axes), 1)
            self._steps = extents, strides
        return self._steps

    @property
    def contiguous(self) -> bool:
        return self.run == self.cover

    def charged(self, address: int) -> int:
        """Bytes that the slice is charged with if the first byte lies at `address`."""
        if self.contiguous:
            return self.nbytes
        phase = address % PAGE_BYTES
        if phase not in self._charged:
            runs = self.runs + phase
            self._charged[phase] = charged_bytes(runs, np.full(len(runs), self.run, np.int64))
        return self._charged[phase]

    def words(self, low: int) -> tuple[int, Ints]:
        """The runs of a box at `low` cut into the largest words that fit: (bytes a word, offset of each from `low`)."""
        bits = int(np.bitwise_or.reduce(self.runs)) | self.run | self.cover | low | 8
        word = bits & -bits
        found = self._words.get(word)
        if found is None:
            steps = np.arange(0, self.run, word, dtype=np.int64)
            found = self._words[word] = (self.runs[:, None] + steps).reshape(-1)
        return word, found


def _along(axis: int, rank: int) -> tuple[int, ...]:
    return tuple(-1 if k == axis else 1 for k in range(rank))


def _offsets_of(axes: Sequence[tuple[int, int]]) -> Ints:
    total: Ints = np.zeros(1, np.int64)
    for stride, extent in reversed(axes):
        total = (total[:, None] + stride * np.arange(extent, dtype=np.int64)).reshape(-1)
    return total


def charged_bytes(offsets: Ints, sizes: Ints) -> int:
    """Bytes that a slice is charged with for these runs; see the module's text."""
    nbytes = int(sizes.sum())
    if len(offsets) <= 1:
        return nbytes
    first = offsets // ACCESS_BYTES
    counts = (offsets + sizes - 1) // ACCESS_BYTES - first + 1
    before = np.cumsum(counts) - counts
    accesses = np.repeat(first - before, counts) + np.arange(int(counts.sum()), dtype=np.int64)
    _, per_page = np.unique(np.unique(accesses) // (PAGE_BYTES // ACCESS_BYTES), return_counts=True)
    return max(nbytes, int(np.maximum(per_page * ACCESS_BYTES, PAGE_MINIMUM_BYTES).sum()))


# --------------------------------------------------------------------------- where a box lies


def locate_box(windows: Windows, base: int, form: BoxForm, offset_bits: int) -> tuple[Window, tuple[Part, ...]]:
    """The parts of a box at a logical address; positions count from the box's first byte."""
    window, offset = windows.split(base)
    if offset_bits == 32:
        check_int32(offset // form.itemsize + form.min_element, offset // form.itemsize + form.max_element)
    offset += form.delta
    cover = form.cover
    if offset < 0 or offset + cover > window.nbytes:
        raise window.out_of_bounds(offset, cover, offset + form.origin, form.axes)
    held = window.in_one_slice(offset, cover)
    if held is not None:
        return window, (box_part(*held, form),)
    runs = form.runs
    pieces = window.locate(runs + offset, np.full(len(runs), form.run, np.int64))
    return window, _parts(window, pieces, runs)


def box_part(place: Place, low: int, form: BoxForm) -> Part:
    """A box that lies in one slice as a whole, its first byte at `low`."""
    if form.contiguous:
        return Part(place, low, low + form.cover, form.nbytes, form.nbytes)
    return Part(place, low, low + form.cover, form.nbytes, form.charged(low), form=form)


def _parts(window: Window, pieces: Pieces, starts: Ints) -> tuple[Part, ...]:
    """Pieces gathered by slice, in the order in which the slices are first touched."""
    if not len(pieces.shard):
        return ()
    at = starts[pieces.source] + pieces.at
    shards = pieces.shard
    _, first = np.unique(shards, return_index=True)
    parts = []
    for index in shards[np.sort(first)].tolist():
        mine = shards == index
        parts.append(_part(window, index, pieces.slice_offset[mine], pieces.nbytes[mine], at[mine]))
    return tuple(parts)


def _part(window: Window, shard: int, offsets: Ints, sizes: Ints, at: Ints) -> Part:
    offsets, sizes, at = _joined(offsets, sizes, at)
    held = window.shards[shard]
    low, high = int(offsets.min()), int((offsets + sizes).max())
    nbytes = int(sizes.sum())
    order = np.argsort(offsets, kind="stable")
    streams = bool((offsets[order][1:] == (offsets + sizes)[order][:-1]).all())
    charged = nbytes if streams else charged_bytes(offsets[order], sizes[order])
    return Part((held.sip, held.cube, held.pe), low, high, nbytes, charged, (offsets, sizes, at))


def _joined(offsets: Ints, sizes: Ints, at: Ints) -> tuple[Ints, Ints, Ints]:
    """Runs that follow each other both in the slice and in the buffer made one."""
    ends, at_ends = offsets + sizes, at + sizes
    breaks = np.flatnonzero((offsets[1:] != ends[:-1]) | (at[1:] != at_ends[:-1])) + 1
    first = np.concatenate(([0], breaks))
    last = np.concatenate((breaks - 1, [len(offsets) - 1]))
    return offsets[first], ends[last] - offsets[first], at[first]


def check_int32(lowest: int, highest: int) -> None:
    """Fault where an offset that the kernel computes in int32 does not fit; it would wrap in silence elsewhere."""
    if lowest < -_INT32 or highest >= _INT32:
        bad = highest if highest >= _INT32 else lowest
        raise DeviceFault("E_INT32_OFFSET", f"element offset {bad} does not fit in int32")


# --------------------------------------------------------------------------- lane by lane


def index_registers(expr: IndexExpr | None) -> set[int]:
    """Registers that an index expression reads."""
    match expr:
        case Reg(index=index):
            return {index}
        case Affine(terms=terms):
            return {register for register, _ in terms}
        case IndexOp(args=args):
            return set().union(*(index_registers(arg) for arg in args))
        case _:
            return set()


def evaluate_index(expr: IndexExpr, rank: int, shape: Sequence[int], registers: Sequence[Any]) -> Any:
    """The expression's value at each position, as an array that broadcasts to `shape`; for those who are `quiet`."""
    match expr:
        case AxisIndex(axis=axis):
            return np.arange(shape[axis], dtype=np.int64).reshape(_along(axis, rank))
        case IndexOp(kind=kind, args=args, dtype=dtype):
            operands = [evaluate_index(arg, rank, shape, registers) for arg in args]
            return numerics.evaluate_quietly(kind, operands, dtype)
        case Reg(index=index):
            return _of_64_bits(int(registers[index]))
        case Affine(const=const, terms=terms):
            return _of_64_bits(const + sum(c * int(registers[r]) for r, c in terms))
        case _:
            return _of_64_bits(int(expr))


def _of_64_bits(exact: int) -> Any:
    return np.asarray(wrap(exact, i64), np.int64)


def element_offsets(strides: Sequence[int], shape: Sequence[int], rest: Any, index: Any) -> Ints:
    """Element offset of every position of a block: affine part, known rest, loaded index."""
    total: Ints = np.zeros(tuple(shape), np.int64)
    for axis, stride in enumerate(strides):
        if stride:
            total += (_of_64_bits(stride) * np.arange(shape[axis], dtype=np.int64)).reshape(_along(axis, len(shape)))
    for more in (rest, index):
        if more is not None:
            total += np.asarray(more).astype(np.int64)
    return total


def box_mask(shape: Sequence[int], lows: Sequence[int], highs: Sequence[int]) -> NDArray[np.bool_]:
    live = np.zeros(tuple(shape), np.bool_)
    live[tuple(slice(low, max(low, high)) for low, high in zip(lows, highs, strict=True))] = True
    return live


def locate_lanes(
    windows: Windows, base: int, itemsize: int, elements: Ints, offset_bits: int
) -> tuple[Window, tuple[Part, ...]]:
    """The parts of live lanes, given by element offset from `base` in lane order; positions count in that order."""
    window, offset = windows.split(base)
    if not len(elements):
        return window, ()
    if offset_bits == 32:
        start = offset // itemsize
        check_int32(start + int(elements.min()), start + int(elements.max()))
    starts = offset + elements * itemsize
    breaks = np.flatnonzero(np.diff(starts) != itemsize) + 1
    first = np.concatenate((np.zeros(1, np.int64), breaks))
    last = np.concatenate((breaks, np.array([len(starts)], np.int64)))
    pieces = window.locate(starts[first], (last - first) * itemsize)
    return window, _parts(window, pieces, first * itemsize)


def whole_window(window: Window) -> tuple[Part, ...]:
    """All that an access to this tensor might touch."""
    return tuple(
        Part((s.sip, s.cube, s.pe), s.slice_offset, s.slice_offset + s.nbytes, s.nbytes, s.nbytes)
        for s in window.shards
    )


def affine_ints(values: Sequence[Int], registers: Sequence[Any]) -> tuple[int, ...]:
    """Integer fields with each register's present content."""
    return tuple(
        value.const + sum(c * registers[r] for r, c in value.terms) if isinstance(value, Affine) else value
        for value in values
    )
