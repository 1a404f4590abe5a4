"""Plain transfers between memory and TCM: affine reads and writes, gathers and scatters.

One transfer a slice touched. A read samples a slice's memory when its last byte has drained, and the block is in
TCM when all have; a write lands likewise. Does not know queues or hazards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernbench.commands import Affine, Atomic, DmaRead, DmaWrite, Gather, Operand, Reg, Scatter, TensorHandle
from kernbench.dtypes import DType, cast, i64, u64, wrap
from kernbench.sim import part_io
from kernbench.sim.access_eval import Part, affine_ints, place_number, whole_window
from kernbench.sim.access_form import AccessForm, Resolved
from kernbench.sim.engines.pe_dma import Transfer
from kernbench.sim.engines.server import Origin
from kernbench.sim.faults import DeviceFault
from kernbench.sim.form_context import FormContext
from kernbench.sim.hazards import Footprint, Range
from kernbench.sim.memory import UNKNOWN, UNWRITTEN
from kernbench.sim.pe_command import Completion, RepeatedCommand
from kernbench.sim.pe_parts import PeParts
from kernbench.sim.registers import Registers, reader, tuple_reader
from kernbench.sim.tape import Likeness
from kernbench.sim.tcm import handle_range
from kernbench.sim.windows import Window, Windows

Template = DmaRead | DmaWrite | Gather | Scatter | Atomic
Array = NDArray[Any]
_NAMES: dict[type[Template], str] = {
    DmaRead: "dma_read",
    DmaWrite: "dma_write",
    Gather: "gather",
    Scatter: "scatter",
    Atomic: "atomic",
}


class DmaForm:
    """A template prepared once. `blocks` are its TCM handles: the one moved first, then those beside it, and the
    result of an atomic last."""

    __slots__ = (
        "_addresses", "_footprints", "_known_footprints", "_other", "_strides", "access", "blocks", "command",
        "compare", "index", "is_read", "lazy", "mask", "name", "name_id", "other", "params_id", "result", "src_id",
        "static", "template", "used",
    )  # fmt: skip

    def __init__(self, template: Template, context: FormContext) -> None:
        self.template = template
        self.is_read = isinstance(template, DmaRead | Gather)
        self.static = isinstance(template, DmaRead | Gather | Atomic) and template.static
        moved = template.dst if isinstance(template, DmaRead | Gather) else template.src
        self.index = template.index if isinstance(template, Gather | Scatter | Atomic) else None
        self.mask = template.mask if isinstance(template, Gather | Scatter | Atomic) else None
        self.compare = template.compare if isinstance(template, Atomic) else None
        self.result = template.dst if isinstance(template, Atomic) else None
        self.lazy = self.index is not None or self.mask is not None  # addresses are in TCM: found at issue
        given = template.other if isinstance(template, DmaRead | Gather) else None
        self.other = given if isinstance(given, TensorHandle) else None
        self._other = _other_reader(None if isinstance(given, TensorHandle) else given, moved.dtype, context.dtypes)
        beside = (self.index, self.mask, self.other, self.compare, self.result)
        self.blocks = [moved, *(h for h in beside if h is not None)]
        self.name = f"atomic_{template.kind}" if isinstance(template, Atomic) else _NAMES[type(template)]
        self.command: type[DmaCommand] = DmaCommand
        self.name_id = context.log.intern(self.name)
        self.src_id = context.place(template.span)
        self.params_id = context.log.intern_params({"template": template.id})
        self.access = AccessForm(template.access, self.lazy or isinstance(template, Atomic), context.taint)
        fixed = all(type(stride) is int for block in self.blocks for stride in block.strides)
        self._strides = [_static_strides(block) for block in self.blocks] if fixed else None
        self._addresses = tuple_reader([block.address for block in self.blocks])
        self._footprints = context.footprints
        self._known_footprints: dict[tuple[int, ...], Footprint] = {}
        operands = [value for block in self.blocks for value in (block.address, *block.strides)]
        self.used = (*self.access.used, *context.taint.of(*operands))

    def make(self, origin: Origin, program: int, registers: Registers, windows: Windows, parts: PeParts) -> DmaCommand:
        """The command at this dispatch; a fault where its addresses are wrong."""
        addresses = self._addresses(registers)
        footprint = self._known_footprints.get(addresses)
        if footprint is None:
            footprint = self._known_footprints[addresses] = self._footprint(addresses, registers, parts)
        command = self.command(self, origin, program, footprint, addresses, parts)
        command.moves_values = parts.computes or self.static
        if command.moves_values:
            command.other = self._other(registers) if self._other is not None else None
            command.strides = self._strides or [affine_ints(block.strides, registers) for block in self.blocks]
        if self.lazy:
            command.late = (list(registers), windows)
            command.touch(whole_window(self.access.window(registers, windows)))
        else:
            command.settle(self.access.resolve(registers, windows))
        return command

    def _footprint(self, addresses: tuple[int, ...], registers: Registers, parts: PeParts) -> Footprint:
        ranges = [
            checked_range(block, address, affine_ints(block.strides, registers), parts.tcm.capacity_bytes)
            for block, address in zip(self.blocks, addresses, strict=True)
        ]
        if self.is_read:
            return self._footprints.make(ranges[1:], ranges[:1])
        if self.result is not None:
            return self._footprints.make(ranges[:-1], ranges[-1:])
        return self._footprints.make(ranges, ())


def checked_range(handle: TensorHandle, address: int, strides: Sequence[int], capacity: int) -> Range:
    """The bytes of a block; a fault where they are not in TCM."""
    low, high = handle_range(handle, address, strides)
    if low < 0 or high > capacity:
        text = f"block `{handle.name}` at {low} to {high} does not fit in the {capacity} bytes of TCM"
        raise DeviceFault("E_TCM_BOUNDS", text)
    return low, high


def _wrapped(dtype: DType) -> Callable[[int], Any]:
    return lambda exact: dtype.numpy.type(wrap(int(exact), dtype))


def _other_reader(other: Operand | None, dtype: DType, dtypes: Sequence[DType]) -> Any:
    """What stopped lanes get, as a function of the registers, in the block's type."""
    if other is None:
        return None
    read = reader(other)
    floats = dtypes[other.index].is_float if isinstance(other, Reg) else isinstance(other, float)
    unsigned = isinstance(other, Reg) and dtypes[other.index].kind == "uint"
    wide: Callable[[Any], Any] = np.float64 if floats else _wrapped(u64 if unsigned else i64)
    if not isinstance(other, Reg | Affine):
        value = cast(wide(other), dtype)
        return lambda registers: value
    return lambda registers: cast(wide(read(registers)), dtype)


class DmaCommand(RepeatedCommand):
    """One plain DMA under way."""

    __slots__ = (
        "_addresses", "_buffer", "_completion", "_form", "_left", "_parts", "_resolved", "late",
        "moves_values", "other", "strides",
    )  # fmt: skip

    is_composite = False

    def __init__(
        self, form: DmaForm, origin: Origin, program: int, footprint: Footprint, addresses: tuple[int, ...],
        parts: PeParts,
    ) -> None:  # fmt: skip
        super().__init__(origin, program, footprint, form.template.span)
        self._form = form
        self._parts = parts
        self._addresses = addresses
        self._resolved = _NOTHING
        self._buffer: NDArray[np.uint8] | None = None
        self._left = 0
        self.late: tuple[Registers, Windows] | None = None
        self.moves_values = False
        self.other: Any = None
        self.strides: list[tuple[int, ...]] = []

    @property
    def is_read(self) -> bool:
        return self._form.is_read

    def touch(self, parts: Sequence[Part]) -> None:
        if self._form.is_read:
            self.hbm_reads = parts
        else:
            self.hbm_writes = parts

    def settle(self, resolved: Resolved) -> None:
        """Addresses are known now."""
        window = resolved.window
        if not self._form.is_read and window is not None:
            require_writable(window)
        self._resolved = resolved
        self.touch(resolved.parts)

    # ----------------------------------------------------------------- under way

    def start(self, completion: Completion) -> None:
        self._completion = completion
        if self.late is not None:
            self._find_late(*self.late)
            self.late = None
        channel = self._parts.dma.read if self._form.is_read else self._parts.dma.write
        form, parts = self._form, self._resolved.parts
        self._left = max(1, len(parts))
        for stage, part in enumerate(parts or (None,)):
            channel.submit(Transfer(self.origin, -1, stage, part, self._drained, form.name_id, form.params_id, self))

    def _find_late(self, registers: Registers, windows: Windows) -> None:
        """Read index and mask from TCM: everything that writes them is complete."""
        index = None if self._form.index is None else self._known_block(self._form.index)
        mask = None if self._form.mask is None else self._known_block(self._form.mask) != 0
        self.settle(self._form.access.resolve(registers, windows, index, mask))

    def _known_block(self, handle: TensorHandle) -> Array:
        at = self._form.blocks.index(handle)
        address = self._addresses[at]
        strides = self.strides[at] if self.strides else _static_strides(handle)
        low, high = handle_range(handle, address, strides)
        if not self._parts.computes and not self._parts.tcm.knows(low, high):
            text = f"addresses depend on `{handle.name}` which timing mode does not compute; data mode does"
            raise DeviceFault("E_TIMING_NEEDS_DATA", text, self.span)
        return self._parts.tcm.view(address, handle.dtype, handle.shape, strides)

    # ----------------------------------------------------------------- skipping time

    @property
    def likeness(self) -> Likeness:
        parts = tuple([(part.place, part.nbytes, part.charged, part.segments) for part in self._resolved.parts])
        return self._form, self.footprint, self._addresses, parts

    def _progress(self, now: int) -> tuple[Any, ...]:
        return (self._left,)

    def load(self) -> tuple[Any, ...]:
        return super().load(), self._resolved, self._buffer, self.other

    def take_load(self, load: tuple[Any, ...]) -> None:
        common, self._resolved, self._buffer, self.other = load
        super().take_load(common)

    def part(self, stage: int) -> Part | None:
        """What transfer number `stage` moves."""
        parts = self._resolved.parts
        return parts[stage] if parts else None

    def redo(self, step: int, last: bool) -> None:
        part = self.part(step)
        if part is not None:
            self._move(part)
        if last and self.moves_values and self._form.is_read:
            self._place()

    # ----------------------------------------------------------------- bytes

    def _drained(self, transfer: Transfer) -> None:
        self._parts.tape.note_step(self.origin.cmd, transfer.stage, self._left == 1)
        if transfer.part is not None:
            try:
                self._move(transfer.part)
            except DeviceFault as fault:
                self._completion.failed(self, fault)
        self._left -= 1
        if self._left == 0:
            if self.moves_values and self._form.is_read:
                self._place()
            self._completion.completed(self)

    def _move(self, part: Part) -> None:
        parts = self._parts
        memory = parts.memory.slice(*part.place)
        if parts.sanitizer.active:
            self._watch(part)
        if not self._form.is_read:
            if parts.computes:
                part_io.write_part(memory, part, self._outgoing())
            else:
                part_io.forget_part(memory, part)
        elif self.moves_values:
            if not parts.computes and part_io.part_has(memory, part, UNKNOWN):
                self._buffer = _UNKNOWN
            elif len(self._resolved.parts) == 1 and part.keeps_layout and self._resolved.form is not None:
                self._buffer = part_io.cover(memory, part)
            elif self._buffer is not _UNKNOWN:
                part_io.read_part(memory, part, self._fresh_buffer())

    def _watch(self, part: Part) -> None:
        parts, window = self._parts, self._resolved.window
        memory = parts.memory.slice(*part.place)
        if not self._form.is_read:
            starts, sizes = part_io.part_runs(part)
            parts.sanitizer.stored(
                self.origin.request, place_number(part.place), self.program, starts, sizes, self.span
            )
            return
        if window is not None and window.watched:
            starts, sizes = part_io.part_runs(part)
            parts.sanitizer.loaded(
                self.origin.request, place_number(part.place), self.program, starts, sizes, self.span
            )
        if part_io.part_has(memory, part, UNWRITTEN):
            parts.sanitizer.unwritten_read(window.name if window is not None else "", self.span)

    # ----------------------------------------------------------------- values

    def _fresh_buffer(self) -> NDArray[np.uint8]:
        if self._buffer is None:
            self._buffer = np.zeros(self._resolved.buffer_bytes, np.uint8)
        return self._buffer

    def _block(self) -> Array:
        return self._parts.tcm.kept((self._form, self._addresses[0], self.strides[0]), self._make_block)

    def _make_block(self) -> Array:
        handle = self._form.blocks[0]
        return self._parts.tcm.view(self._addresses[0], handle.dtype, handle.shape, self.strides[0])

    def _buffer_view(self, buffer: NDArray[np.uint8]) -> Array:
        """The buffer as the live box."""
        form = self._resolved.form
        assert form is not None
        dtype = self._form.template.access.dtype.numpy
        return np.ndarray(form.extents, dtype, buffer, form.origin, form.strides)

    def _place(self) -> None:
        """Put what was read, and `other` in the stopped lanes, into TCM."""
        if not self._parts.computes:
            low, high = handle_range(self._form.blocks[0], self._addresses[0], self.strides[0])
            if self._buffer is _UNKNOWN:
                self._parts.tcm.forget(low, high)
                return
            self._parts.tcm.learn(low, high)
        block, resolved = self._block(), self._resolved
        if not resolved.whole:
            block[...] = self._filling()
        if not resolved.parts:
            return
        buffer = self._fresh_buffer()
        if resolved.live is not None:
            block[resolved.live] = buffer.view(self._form.template.access.dtype.numpy)
        else:
            _box_of(block, resolved)[...] = self._buffer_view(buffer)

    def _filling(self) -> Any:
        handle = self._form.other
        if handle is None:
            return np.zeros((), self._form.blocks[0].dtype.numpy) if self.other is None else self.other
        at = self._form.blocks.index(handle)
        values = self._parts.tcm.view(self._addresses[at], handle.dtype, handle.shape, self.strides[at])
        return cast(values, self._form.blocks[0].dtype)

    def _outgoing(self) -> NDArray[np.uint8]:
        """The bytes to write, in the layout of the buffer."""
        if self._buffer is not None:
            return self._buffer
        block, resolved = self._block(), self._resolved
        if resolved.live is not None:
            self._buffer = np.ascontiguousarray(block[resolved.live]).view(np.uint8)
            return self._buffer
        values = _box_of(block, resolved)
        form = resolved.form
        assert form is not None
        if form.contiguous and form.strides == values.strides and form.origin == 0 and values.flags.c_contiguous:
            return values.reshape(-1).view(np.uint8)
        self._buffer = np.zeros(form.cover, np.uint8)
        self._buffer_view(self._buffer)[...] = values
        return self._buffer


_UNKNOWN: NDArray[np.uint8] = np.zeros(0, np.uint8)  # stands for a buffer of values that timing mode does not know
_NOTHING = Resolved((), 0)


def _box_of(block: Array, resolved: Resolved) -> Array:
    if resolved.box is None:
        return block
    return block[tuple(slice(low, low + extent) for low, extent in zip(*resolved.box, strict=True))]


def _static_strides(handle: TensorHandle) -> tuple[int, ...]:
    return affine_ints(handle.strides, ())


def require_writable(window: Window) -> None:
    if window.read_only:
        raise DeviceFault("E_READ_ONLY", f"tensor `{window.name}` is stored to, {window.read_only}")
