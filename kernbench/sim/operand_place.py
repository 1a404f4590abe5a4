"""Where an operand of a composite lies in HBM at one dispatch, and its tiles on their way to and from there.

Does not know when a tile moves, nor the ring in TCM that it moves to.
"""

from __future__ import annotations

from kernbench.sim.access_eval import BoxForm, Part, Place, box_part, locate_box
from kernbench.sim.composite_form import HbmOperand, Strides
from kernbench.sim.registers import Registers
from kernbench.sim.windows import Windows


class OperandPlace:
    """An HBM operand at one dispatch. `alone`: the slice that holds all of it, with the offset of its base there."""

    __slots__ = ("alone", "base", "operand", "strides", "window")

    def __init__(self, operand: HbmOperand, registers: Registers, windows: Windows) -> None:
        self.operand = operand
        self.base = operand.read_base(registers)
        self.strides: Strides = operand.read_strides(registers)
        self.alone: tuple[Place, int] | None = None
        self.window = windows.split(self.base)[0]

    def locate(self, windows: Windows) -> tuple[Part, ...]:
        """All that the operand touches; a fault where it leaves its tensor."""
        box = self.operand.box(self.strides, self.operand.handle.shape)
        parts = locate_box(windows, self.base, box, 64)[1]
        if len(parts) == 1 and self.window.geometry.is_row_major:
            self.alone = parts[0].place, parts[0].low - box.delta
        return parts

    def tile(self, first: tuple[int, int], extents: tuple[int, int], windows: Windows) -> TileMove:
        operand, strides = self.operand, self.strides
        offset = operand.handle.dtype.nbytes * (first[0] * strides[0] + first[1] * strides[1])
        box = operand.box(strides, extents)
        if self.alone is not None:
            place, low = self.alone
            return TileMove(operand.name, box, (box_part(place, low + offset + box.delta, box),))
        return TileMove(operand.name, box, locate_box(windows, self.base + offset, box, 64)[1])


class TileMove:
    """A tile on its way between memory and its ring."""

    __slots__ = ("box", "left", "name", "parts", "slot")

    def __init__(self, name: str, box: BoxForm, parts: tuple[Part, ...]) -> None:
        self.name = name
        self.box = box
        self.parts = parts
        self.left = len(parts)
        self.slot = -1
