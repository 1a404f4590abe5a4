"""Moves the bytes of one part of an access between a slice and the buffer of a command.

Few runs are copied one by one, many as words with NumPy. Does not know time or what the bytes mean.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kernbench.sim.access_eval import Part, Runs
from kernbench.sim.memory import UNWRITTEN, MemorySlice

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

_FEW = 16  # runs copied one by one


def cover(memory: MemorySlice, part: Part) -> Bytes:
    """The bytes from the first to the last of a part, gaps and all; a view where that can be."""
    return memory.read(part.low, part.high - part.low)


def read_part(memory: MemorySlice, part: Part, buffer: Bytes) -> None:
    if part.runs is None:
        buffer[: part.nbytes] = memory.read(part.low, part.nbytes)
        return
    if len(part.runs[0]) <= _FEW:
        for offset, size, at in _each(part.runs):
            buffer[at : at + size] = memory.read(offset, size)
        return
    word, offsets, places = _words_of(part, len(buffer))
    _as_words(buffer, word)[places] = memory.gather(offsets, word)


def write_part(memory: MemorySlice, part: Part, buffer: Bytes) -> None:
    if part.form is not None and memory.write_box(part.low, buffer, *part.form.steps):
        return
    if part.runs is None:
        memory.write(part.low, buffer[: part.nbytes])
        return
    if len(part.runs[0]) <= _FEW:
        for offset, size, at in _each(part.runs):
            memory.write(offset, buffer[at : at + size])
        return
    word, offsets, places = _words_of(part, len(buffer))
    memory.scatter(offsets, _as_words(buffer, word)[places])


def forget_part(memory: MemorySlice, part: Part) -> None:
    """Timing mode: somebody wrote here, without values."""
    if part.form is None and part.runs is None:
        memory.forget(part.low, part.nbytes)
        return
    if part.form is not None and memory.forget_box(part.low, part.high - part.low, *part.form.steps):
        return
    word, offsets, _ = _words_of(part, 0)
    memory.forget_elements(offsets, word)


def part_has(memory: MemorySlice, part: Part, state: int) -> bool:
    """Any byte of the part is in that state of `memory.py`."""
    if part.form is None and part.runs is None:
        return memory.has(state, part.low, part.nbytes)
    if state == UNWRITTEN and memory.is_written(part.low, part.high):
        return False
    word, offsets, _ = _words_of(part, 0)
    return memory.any_element(state, offsets, word)


def part_runs(part: Part) -> tuple[Ints, Ints] | tuple[tuple[int, ...], tuple[int, ...]]:
    """Offsets and sizes of its runs."""
    if part.runs is None:
        return (part.low,), (part.nbytes,)
    return part.runs[0], part.runs[1]


def _each(runs: Runs) -> Iterator[tuple[int, int, int]]:
    offsets, sizes, places = runs
    return zip(offsets.tolist(), sizes.tolist(), places.tolist(), strict=True)


def _words_of(part: Part, buffer_bytes: int) -> tuple[int, Ints, Ints]:
    """The runs cut into words: (bytes a word, offset of each in the slice, place of each in the buffer in words)."""
    if part.form is not None:
        word, offsets = part.form.words(part.low)
        return word, offsets + part.low, offsets // word
    assert part.runs is not None
    return _words(part.runs, buffer_bytes)


def _words(runs: Runs, buffer_bytes: int) -> tuple[int, Ints, Ints]:
    starts, sizes, at = runs
    bits = int(np.bitwise_or.reduce(starts | sizes | at)) | buffer_bytes | 8
    word = bits & -bits  # the largest power of two, up to 8, that divides all of them
    counts = sizes // word
    before = np.cumsum(counts) - counts
    step = np.arange(int(counts.sum()), dtype=np.int64)
    offsets: Ints = np.repeat(starts - before * word, counts) + step * word
    places: Ints = np.repeat(at // word - before, counts) + step
    return word, offsets, places


def _as_words(buffer: Bytes, word: int) -> NDArray[np.unsignedinteger]:
    return buffer.view(np.dtype(f"u{word}"))
