"""Watch accesses for what public kernels do without noticing: reading what nobody wrote, storing over each other.

Findings are warnings with the kernel's lines, or faults where the user asked for that. Knows places in slices.
Does not know who moves the bytes or when.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernbench.diagnostics import Diagnostic, Label, Span
from kernbench.sim.faults import DeviceFault
from kernbench.sim.launch_context import Sanitize

Ints = NDArray[np.int64]
Runs = Ints | tuple[int, ...]  # where runs of bytes start, or how long they are
MAX_FINDINGS = 100


@dataclass(frozen=True, slots=True)
class _Access:
    program: int
    starts: Runs
    sizes: Runs
    span: Span | None


class Sanitizer:
    """The findings of one device. Components ask `active` first, so that a run without it pays nothing."""

    def __init__(self, level: Sanitize) -> None:
        self.active = level != "off"
        self._level = level
        self._findings: dict[tuple[str, str, Span | None, Span | None], Diagnostic] = {}
        self._stores: dict[int, dict[int, list[_Access]]] = {}  # by launch, by memory
        self._loads: dict[int, dict[int, list[_Access]]] = {}

    @property
    def raises(self) -> bool:
        """Findings are faults."""
        return self._level == "error"

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(self._findings.values())

    def unwritten_read(self, tensor: str, span: Span | None) -> None:
        """Somebody reads bytes of `tensor` that nobody wrote."""
        text = f"reads bytes of tensor `{tensor}` that nobody wrote; they count as 0"
        self._find("E_UNINITIALISED_READ", text, span, None, "")

    def stored(self, launch: int, memory: int, program: int, starts: Runs, sizes: Runs, span: Span | None) -> None:
        """Program number `program` of a launch writes these runs of memory number `memory`."""
        by_memory = self._stores.setdefault(launch, {})
        by_memory.setdefault(memory, []).append(_Access(program, starts, sizes, span))

    def loaded(self, launch: int, memory: int, program: int, starts: Runs, sizes: Runs, span: Span | None) -> None:
        """The same for reads, of tensors that the launch stores to."""
        by_memory = self._loads.setdefault(launch, {})
        by_memory.setdefault(memory, []).append(_Access(program, starts, sizes, span))

    def end_of_launch(self, launch: int) -> None:
        """Look at the accesses of a launch: nothing orders two programs of it, so an overlap is a race."""
        stores, loads = self._stores.pop(launch, {}), self._loads.pop(launch, {})
        for memory in sorted(stores):
            self._overlaps(stores[memory])
            if memory in loads:
                self._read_while_stored(stores[memory], loads[memory])

    def _read_while_stored(self, stores: list[_Access], loads: list[_Access]) -> None:
        """Reads of what another program stores. Where stores race themselves, that is told already."""
        starts, ends, owner, program = _by_place(stores)
        if (starts[1:] < ends[:-1]).any():
            return
        low, high, reader, reads = _by_place(loads)
        first = np.searchsorted(ends, low, side="right")
        last = np.searchsorted(starts, high, side="left") - 1  # of the stores that a read meets
        meets = np.flatnonzero(first <= last)
        changes = np.concatenate([[0], np.cumsum(program[1:] != program[:-1])])
        one = changes[first[meets]] == changes[last[meets]]
        foreign = meets[~one | (program[first[meets]] != reads[meets])]
        for index in foreign.tolist():
            met = range(int(first[index]), int(last[index]) + 1)
            other = next(place for place in met if program[place] != reads[index])
            load, store = loads[int(reader[index])], stores[int(owner[other])]
            text = "a program reads bytes that another one of the launch stores, and nothing orders them"
            self._find("E_UNORDERED_LOAD", text, load.span, store.span, "the store")

    def _overlaps(self, stores: list[_Access]) -> None:
        if len({store.program for store in stores}) < 2:
            return
        starts, ends, owner, program = _by_place(stores)
        # Runs of one program are disjoint here, so of all runs that overlap another program's some two are
        # neighbours in this order.
        hit = np.flatnonzero((starts[1:] < ends[:-1]) & (program[1:] != program[:-1]))
        for index in hit.tolist():
            first, second = sorted((int(owner[index]), int(owner[index + 1])))
            self._race(stores[first], stores[second])

    def _race(self, first: _Access, second: _Access) -> None:
        text = "two programs of a launch store to the same bytes, and nothing orders them"
        self._find("E_UNORDERED_STORES", text, first.span, second.span, "the other store")

    def _find(self, code: str, text: str, span: Span | None, other: Span | None, remark: str) -> None:
        if self._level == "error":
            raise DeviceFault(code, text, span)
        key = (code, text, span, other)
        if key in self._findings or len(self._findings) >= MAX_FINDINGS:
            return
        primary = None if span is None else Label(span, "")
        secondary = () if other is None or other == span else (Label(other, remark),)
        self._findings[key] = Diagnostic(code, text, primary, secondary, severity="warning")


def _by_place(accesses: list[_Access]) -> tuple[Ints, Ints, Ints, Ints]:
    """The same by where they start."""
    starts, ends, owner, program = _merged(accesses)
    order = np.lexsort((program, starts))
    return starts[order], ends[order], owner[order], program[order]


def _merged(stores: list[_Access]) -> tuple[Ints, Ints, Ints, Ints]:
    """Runs as (start, end, first store, program), those of one program joined where they overlap."""
    starts = np.concatenate([store.starts for store in stores], dtype=np.int64)
    ends = starts + np.concatenate([store.sizes for store in stores], dtype=np.int64)
    owner = np.repeat(np.arange(len(stores), dtype=np.int64), [len(store.starts) for store in stores])
    program = np.array([store.program for store in stores], np.int64)[owner]
    order = np.lexsort((starts, program))
    starts, ends, owner, program = starts[order], ends[order], owner[order], program[order]
    _, rank = np.unique(program, return_inverse=True)
    apart = rank * (int(ends.max(initial=0)) + 1)  # keeps programs from running into each other
    reached = np.maximum.accumulate(ends + apart)
    first = np.flatnonzero(np.concatenate([[True], (starts + apart)[1:] >= reached[:-1]]))
    return starts[first], np.maximum.reduceat(ends, first), owner[first], program[first]
