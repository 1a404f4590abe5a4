"""An `Access` prepared once a template, resolved at every dispatch: registers in, parts and lane layout out.

Chooses between the box form and lane by lane. Does not know which way the bytes go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernbench.commands import Access
from kernbench.sim.access_eval import (
    BoxForm,
    Part,
    box_mask,
    element_offsets,
    evaluate_index,
    index_registers,
    locate_box,
    locate_lanes,
)
from kernbench.sim.registers import Registers, Taint, reader, tuple_reader
from kernbench.sim.windows import Window, Windows

Box = tuple[tuple[int, ...], tuple[int, ...]]  # lowest live index and extent of each axis
_MAX_BOXES = 4096  # boxes remembered for one access; a mask whose bounds move makes a new one each time


class Resolved:
    """An access at one dispatch. The buffer that its bytes pass through is laid out by `form`, or in lane order.

    `lows` and `extents` are the live box; `live` marks the live lanes where they are no box. No parts: no live lane.
    """

    __slots__ = ("box", "buffer_bytes", "form", "live", "parts", "window")

    def __init__(self, parts: tuple[Part, ...], buffer_bytes: int) -> None:
        self.parts = parts
        self.buffer_bytes = buffer_bytes
        self.window: Window | None = None
        self.form: BoxForm | None = None
        self.box: Box | None = None
        self.live: NDArray[np.bool_] | None = None

    @property
    def whole(self) -> bool:
        """Every lane of the block is live."""
        return self.form is not None and self.live is None and self.box is None


class AccessForm:
    """`dense`: the addresses or the mask are not a box."""

    __slots__ = (
        "_base",
        "_box",
        "_boxes",
        "_preds",
        "_rest",
        "_strides",
        "_whole",
        "access",
        "dense",
        "used",
    )  # fmt: skip

    def __init__(self, access: Access, dense: bool, taint: Taint) -> None:
        self.access = access
        self.dense = dense or access.rest is not None or access.mask is not None
        self._base = reader(access.base)
        self._strides = tuple_reader(access.strides)
        self._preds = tuple_reader(access.preds)
        rank = len(access.shape)
        self._box = _box_reader(access) if any(access.lo) or any(access.hi) else None
        self._whole = (0,) * rank, access.shape
        self._boxes: dict[tuple[Any, ...], BoxForm] = {}
        known = not (index_registers(access.rest) | index_registers(access.mask))
        self._rest = evaluate_index(access.rest, rank, access.shape, ()) if known and access.rest is not None else None
        bounds = [bound for axis in (*access.lo, *access.hi) for bound in axis]
        indexed = tuple(sorted((index_registers(access.rest) | index_registers(access.mask)) & taint.registers))
        self.used = (*taint.of(access.base, *access.strides, *bounds, *access.preds), *indexed)

    def resolve(
        self, registers: Registers, windows: Windows, index: Any = None, mask: NDArray[np.bool_] | None = None
    ) -> Resolved:
        """`index` (elements) and `mask` are blocks loaded from TCM, of gathers and scatters."""
        if not all(self._preds(registers)):
            return Resolved((), 0)
        lows, extents = self._whole if self._box is None else self._box(registers)
        if 0 in extents:
            return Resolved((), 0)
        strides = self._strides(registers)
        if self.dense:
            return self._lanes(registers, windows, strides, (lows, extents), index, mask)
        key = (strides, lows, extents)
        form = self._boxes.get(key)
        if form is None:
            if len(self._boxes) >= _MAX_BOXES:
                self._boxes.clear()
            form = self._boxes[key] = BoxForm(self.access.dtype.nbytes, strides, lows, extents)
        if form.sparse:
            return self._lanes(registers, windows, strides, (lows, extents), None, None)
        access = self.access
        window, parts = locate_box(windows, self._base(registers), form, access.offset_bits)
        resolved = Resolved(parts, form.cover)
        resolved.window, resolved.form = window, form
        resolved.box = None if extents == access.shape else (lows, extents)
        return resolved

    def window(self, registers: Registers, windows: Windows) -> Window:
        """The tensor that the base points into."""
        return windows.split(self._base(registers))[0]

    def _lanes(
        self,
        registers: Registers,
        windows: Windows,
        strides: tuple[int, ...],
        box: Box,
        index: Any,
        mask: NDArray[np.bool_] | None,
    ) -> Resolved:
        access = self.access
        rank, shape = len(access.shape), access.shape
        rest = self._rest
        if rest is None and access.rest is not None:
            rest = evaluate_index(access.rest, rank, shape, registers)
        elements = element_offsets(strides, shape, rest, index)
        live = box_mask(shape, box[0], [low + extent for low, extent in zip(*box, strict=True)])
        if access.mask is not None:
            live &= np.asarray(evaluate_index(access.mask, rank, shape, registers)) != 0
        if mask is not None:
            live &= mask
        itemsize = access.dtype.nbytes
        window, parts = locate_lanes(windows, self._base(registers), itemsize, elements[live], access.offset_bits)
        resolved = Resolved(parts, itemsize * int(np.count_nonzero(live)))
        resolved.window, resolved.live = window, live
        return resolved


def _box_reader(access: Access) -> Callable[[Registers], Box]:
    """The live box, from the bounds of each axis."""
    bounded = []
    for axis, extent in enumerate(access.shape):
        lower = [reader(bound) for bound in (access.lo[axis] if access.lo else ())]
        upper = [reader(bound) for bound in (access.hi[axis] if access.hi else ())]
        if lower or upper:
            bounded.append((axis, extent, lower, upper))

    def read(registers: Registers) -> Box:
        lows, extents = [0] * len(access.shape), list(access.shape)
        for axis, extent, lower, upper in bounded:
            low, high = 0, extent
            for bound in lower:
                low = max(low, bound(registers))
            for bound in upper:
                high = min(high, bound(registers))
            lows[axis], extents[axis] = low, max(0, high - low)
        return tuple(lows), tuple(extents)

    return read


def scalar_part(windows: Windows, address: int, nbytes: int) -> tuple[Window, Part]:
    """The place of one element."""
    window, offset = windows.split(address)
    (segment,) = window.segments(offset, nbytes)
    held = window.shards[segment.shard]
    low = held.slice_offset + segment.pa - held.pa
    return window, Part((segment.sip, segment.cube, segment.pe), low, low + nbytes, nbytes, nbytes)
