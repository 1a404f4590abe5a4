"""Atomics: elements changed in memory when their values arrive there, lane after lane, and the old values brought back.

A write transfer a slice touched carries the values; the change happens in the instant at which it has drained, so
atomics of several PEs follow the order of simulated time. Old values that are wanted come back as a read transfer.
The slice is charged with a read and a write of each element. Does not know queues or hazards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernbench import numerics
from kernbench.commands import Atomic
from kernbench.dtypes import DType
from kernbench.sim import part_io
from kernbench.sim.access_eval import Part
from kernbench.sim.access_form import Resolved
from kernbench.sim.dma_command import DmaCommand, require_writable
from kernbench.sim.engines.pe_dma import Transfer
from kernbench.sim.memory import UNKNOWN, UNWRITTEN, MemorySlice
from kernbench.sim.tcm import handle_range

Array = NDArray[Any]
Ints = NDArray[np.int64]


class AtomicCommand(DmaCommand):
    """One atomic under way: its parts go out, and where it has a result they come back."""

    __slots__ = ("_answers", "_known", "_old")

    def settle(self, resolved: Resolved) -> None:
        if resolved.window is not None:
            require_writable(resolved.window)
        self._resolved = resolved
        self._answers = resolved.parts
        self._known = self.moves_values
        self._old: Array | None = None
        resolved.parts = tuple(_charged_twice(part) for part in resolved.parts)
        self.touch(resolved.parts)

    # ----------------------------------------------------------------- under way

    def _drained(self, transfer: Transfer) -> None:
        if transfer.part is not None:
            self._change(transfer.part)
        self._left -= 1
        if self._left:
            return
        if self._form.result is None:
            self._completion.completed(self)
            return
        form, answers = self._form, self._answers
        self._left = max(1, len(answers))
        for stage, part in enumerate(answers or (None,)):
            answer = Transfer(self.origin, 0, stage, part, self._answered, form.name_id, form.params_id)
            self._parts.dma.read.submit(answer)

    def _answered(self, transfer: Transfer) -> None:
        self._left -= 1
        if self._left == 0:
            self._place_result()
            self._completion.completed(self)

    # ----------------------------------------------------------------- values

    def _change(self, part: Part) -> None:
        memory = self._parts.memory.slice(*part.place)
        sanitizer = self._parts.sanitizer
        if sanitizer.active and part_io.part_has(memory, part, UNWRITTEN):
            window = self._resolved.window
            sanitizer.unwritten_read(window.name if window is not None else "", self.span)
        if self._known and not self._parts.computes:
            self._known = self._operands_known() and not part_io.part_has(memory, part, UNKNOWN)
        if not self._known:
            part_io.forget_part(memory, part)
            return
        self._apply(memory, part)

    def _operands_known(self) -> bool:
        blocks = [0] if self._form.compare is None else [0, self._form.blocks.index(self._form.compare)]
        return all(self._parts.tcm.knows(*self._range(number)) for number in blocks)

    def _range(self, number: int) -> tuple[int, int]:
        return handle_range(self._form.blocks[number], self._addresses[number], self.strides[number])

    def _view(self, number: int) -> Array:
        handle = self._form.blocks[number]
        return self._parts.tcm.view(self._addresses[number], handle.dtype, handle.shape, self.strides[number])

    def _live(self, number: int) -> Array:
        """A block's live lanes, in their order."""
        assert self._resolved.live is not None, "an atomic is resolved lane by lane"
        live: Array = self._view(number)[self._resolved.live]
        return live

    def _apply(self, memory: MemorySlice, part: Part) -> None:
        """Change the part's elements. Lanes that name one element take turns."""
        template, form = self._form.template, self._form
        assert isinstance(template, Atomic)
        dtype = template.access.dtype
        values = self._live(0)
        compare = None if form.compare is None else self._live(form.blocks.index(form.compare))
        if self._old is None:
            self._old = np.zeros(len(values), dtype.numpy)
        offsets, lanes = _elements(part, dtype.nbytes)
        for turn in _turns(offsets):
            here, mine = offsets[turn], lanes[turn]
            old = memory.gather(here, dtype.nbytes).view(dtype.numpy)
            wanted = None if compare is None else compare[mine]
            self._old[mine] = old
            memory.scatter(here, changed(template.kind, old, values[mine], wanted, dtype))

    def _place_result(self) -> None:
        number = len(self._form.blocks) - 1
        if not self._known:
            if self.moves_values:
                self._parts.tcm.forget(*self._range(number))
            return
        self._parts.tcm.learn(*self._range(number))
        result = self._view(number)
        result[...] = np.zeros((), result.dtype)
        if self._old is not None:
            result[self._resolved.live] = self._old


def changed(kind: str, old: Array, values: Array, compare: Array | None, dtype: DType) -> Array:
    """The elements after the atomic."""
    if kind == "xchg":
        return values
    if kind == "cas":
        return np.where(old == compare, values, old)
    result: Array = numerics.evaluate(kind, [old, values], dtype)
    return result


def _charged_twice(part: Part) -> Part:
    return Part(part.place, part.low, part.high, part.nbytes, 2 * part.charged, part.runs)


def _elements(part: Part, size: int) -> tuple[Ints, Ints]:
    """Where each element of a part lies in the slice, and its place among the live lanes; in the order of lanes."""
    assert part.runs is not None, "an atomic is resolved lane by lane"
    starts, sizes, at = part.runs
    counts = sizes // size
    step = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    lanes = np.repeat(at // size, counts) + step
    order = np.argsort(lanes, kind="stable")
    return (np.repeat(starts, counts) + step * size)[order], lanes[order]


def _turns(offsets: Ints) -> list[Ints]:
    """Lanes in groups that name no element twice; of one element's lanes an earlier one is in an earlier group."""
    order = np.argsort(offsets, kind="stable")
    ordered = offsets[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    rank = np.arange(len(ordered)) - np.repeat(first, np.diff(np.concatenate((first, [len(ordered)]))))
    return [order[rank == turn] for turn in range(int(rank.max(initial=-1)) + 1)]
