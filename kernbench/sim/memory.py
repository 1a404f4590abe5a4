"""Storage of the device: the bytes of each HBM slice, and what is known of them.

Chunks are made when something is first written, so a slice of gigabytes costs nothing. Knows offsets in a slice.
Does not know tensors, time, or whether the run moves values: in timing mode the host's bytes are kept too, and
what a PE wrote is forgotten, that is, marked unknown.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

# What a byte of memory is: nobody wrote it; written with a value; written by a PE in timing mode, without one.
UNWRITTEN, KNOWN, UNKNOWN = 0, 1, 2

_LONG = 4096  # bytes of a run that is worth remembering as written
_CHUNK_BITS = 20
_CHUNK = 1 << _CHUNK_BITS
_WORDS: Mapping[int, np.dtype[Any]] = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


class _Chunk:
    __slots__ = ("data", "state")

    def __init__(self) -> None:
        self.data = np.zeros(_CHUNK, np.uint8)
        self.state = np.zeros(_CHUNK, np.uint8)


class MemorySlice:
    """The bytes of one memory. Offsets are checked by whoever resolved the address; here they are asserted.

    `read` may give a view, which holds until the next write.
    """

    __slots__ = ("_chunks", "_written", "capacity_bytes", "node")

    def __init__(self, node: str, capacity_bytes: int) -> None:
        self.node = node
        self.capacity_bytes = capacity_bytes
        self._chunks: dict[int, _Chunk] = {}
        self._written: list[tuple[int, int]] = []  # long runs written at once, sorted, joined; memory stays written

    def _chunk(self, index: int) -> _Chunk:
        chunk = self._chunks.get(index)
        if chunk is None:
            chunk = self._chunks[index] = _Chunk()
        return chunk

    def _spans(self, offset: int, nbytes: int) -> Iterator[tuple[int, slice, slice]]:
        """(chunk, bytes in the chunk, bytes in the run) of a run."""
        assert offset >= 0 and offset + nbytes <= self.capacity_bytes, f"{self.node}: {offset}+{nbytes}"
        end = offset + nbytes
        at = offset
        while at < end:
            index = at >> _CHUNK_BITS
            stop = min(end, (index + 1) << _CHUNK_BITS)
            start = at - (index << _CHUNK_BITS)
            yield index, slice(start, start + stop - at), slice(at - offset, stop - offset)
            at = stop

    # ----------------------------------------------------------------- runs

    def read(self, offset: int, nbytes: int) -> Bytes:
        """The bytes of a run; those that nobody wrote are 0."""
        inside = offset & (_CHUNK - 1)
        if inside + nbytes <= _CHUNK:
            chunk = self._chunks.get(offset >> _CHUNK_BITS)
            return np.zeros(nbytes, np.uint8) if chunk is None else chunk.data[inside : inside + nbytes]
        out = np.zeros(nbytes, np.uint8)
        for index, inner, outer in self._spans(offset, nbytes):
            chunk = self._chunks.get(index)
            if chunk is not None:
                out[outer] = chunk.data[inner]
        return out

    def write(self, offset: int, data: Bytes) -> None:
        if len(data) >= _LONG:
            self._note_written(offset, offset + len(data))
        inside = offset & (_CHUNK - 1)
        if inside + len(data) <= _CHUNK:
            self._write_in_chunk(offset, inside, data)
            return
        for index, inner, outer in self._spans(offset, len(data)):
            chunk = self._chunk(index)
            chunk.data[inner] = data[outer]
            chunk.state[inner] = KNOWN

    def _write_in_chunk(self, offset: int, inside: int, data: Bytes) -> None:
        assert offset >= 0 and offset + len(data) <= self.capacity_bytes, f"{self.node}: {offset}+{len(data)}"
        chunk, end = self._chunk(offset >> _CHUNK_BITS), inside + len(data)
        chunk.data[inside:end] = data
        chunk.state[inside:end] = KNOWN

    def forget(self, offset: int, nbytes: int) -> None:
        """Mark a run as written without a value."""
        for index, inner, _ in self._spans(offset, nbytes):
            self._chunk(index).state[inner] = UNKNOWN

    def has(self, state: int, offset: int, nbytes: int) -> bool:
        """Any byte of a run is in that state."""
        if state == UNWRITTEN and self.is_written(offset, offset + nbytes):
            return False
        for index, inner, _ in self._spans(offset, nbytes):
            chunk = self._chunks.get(index)
            found = state == UNWRITTEN if chunk is None else bool((chunk.state[inner] == state).any())
            if found:
                return True
        return False

    def _note_written(self, low: int, high: int) -> None:
        written = self._written
        at = bisect_left(written, (low, high))
        if at and written[at - 1][1] >= low:
            at -= 1
            low = written[at][0]
        end = at
        while end < len(written) and written[end][0] <= high:
            high = max(high, written[end][1])
            end += 1
        written[at:end] = [(low, high)]

    def is_written(self, low: int, high: int) -> bool:
        """The run lies in one that was written whole; False says nothing."""
        at = bisect_right(self._written, (low, self.capacity_bytes)) - 1
        return at >= 0 and self._written[at][1] >= high

    # ----------------------------------------------------------------- boxes

    def write_box(self, offset: int, data: Bytes, extents: Sequence[int], strides: Sequence[int]) -> bool:
        """Write the bytes of `data` that a box of bytes picks to the same places from `offset` on.

        False, with nothing done, where that crosses chunks.
        """
        found = self._box(offset, len(data))
        if found is None:
            return False
        chunk, inside = found
        target = np.ndarray(extents, np.uint8, chunk.data.data, inside, strides)
        target[...] = np.ndarray(extents, np.uint8, data.data, 0, strides)
        np.ndarray(extents, np.uint8, chunk.state.data, inside, strides)[...] = KNOWN
        return True

    def forget_box(self, offset: int, cover: int, extents: Sequence[int], strides: Sequence[int]) -> bool:
        """Mark such a box as written without a value."""
        found = self._box(offset, cover)
        if found is None:
            return False
        chunk, inside = found
        np.ndarray(extents, np.uint8, chunk.state.data, inside, strides)[...] = UNKNOWN
        return True

    def _box(self, offset: int, cover: int) -> tuple[_Chunk, int] | None:
        assert offset >= 0 and offset + cover <= self.capacity_bytes, f"{self.node}: {offset}+{cover}"
        inside = offset & (_CHUNK - 1)
        return (self._chunk(offset >> _CHUNK_BITS), inside) if inside + cover <= _CHUNK else None

    # ----------------------------------------------------------------- many elements at once

    def gather(self, offsets: Ints, itemsize: int) -> NDArray[Any]:
        """The elements at byte offsets, as unsigned integers of `itemsize` bytes, to be viewed as their type."""
        word = _WORDS[itemsize]
        if not _aligned(offsets, itemsize):
            return self.gather(_bytes_of(offsets, itemsize), 1).view(word)
        out = np.zeros(len(offsets), word)
        for where, inside, chunk in self._elements(offsets, itemsize):
            if chunk is not None:
                out[where] = chunk.data.view(word)[inside]
        return out

    def scatter(self, offsets: Ints, values: NDArray[Any]) -> None:
        """Write elements to byte offsets; of equal offsets the last stays."""
        word = _WORDS[values.dtype.itemsize]
        words = np.ascontiguousarray(values).view(word)
        if not _aligned(offsets, word.itemsize):
            offsets, words = _bytes_of(offsets, word.itemsize), words.view(np.uint8)
        for where, inside, chunk in self._elements(offsets, words.dtype.itemsize, make=True):
            assert chunk is not None
            chunk.data.view(words.dtype)[inside] = words[where]
            chunk.state.reshape(-1, words.dtype.itemsize)[inside] = KNOWN

    def forget_elements(self, offsets: Ints, itemsize: int) -> None:
        """Mark elements as written without a value."""
        if not _aligned(offsets, itemsize):
            offsets, itemsize = _bytes_of(offsets, itemsize), 1
        for _, inside, chunk in self._elements(offsets, itemsize, make=True):
            assert chunk is not None
            chunk.state.reshape(-1, itemsize)[inside] = UNKNOWN

    def any_element(self, state: int, offsets: Ints, itemsize: int) -> bool:
        """Any byte of any of the elements is in that state."""
        if not _aligned(offsets, itemsize):
            offsets, itemsize = _bytes_of(offsets, itemsize), 1
        for _, inside, chunk in self._elements(offsets, itemsize):
            found = state == UNWRITTEN
            if chunk is not None:
                found = bool((chunk.state.reshape(-1, itemsize)[inside] == state).any())
            if found:
                return True
        return False

    def _elements(
        self, offsets: Ints, itemsize: int, *, make: bool = False
    ) -> Iterator[tuple[slice | NDArray[np.bool_], Ints, _Chunk | None]]:
        """(which elements, their places in the chunk counted in elements, the chunk), chunk by chunk."""
        if not len(offsets):
            return
        chunks = offsets >> _CHUNK_BITS
        first, last = int(chunks.min()), int(chunks.max())
        assert first >= 0 and int(offsets.max()) + itemsize <= self.capacity_bytes, self.node
        for index in [first] if first == last else np.unique(chunks).tolist():
            where: slice | NDArray[np.bool_] = slice(None) if first == last else chunks == index
            inside = (offsets[where] & (_CHUNK - 1)) // itemsize
            yield where, inside, self._chunk(index) if make else self._chunks.get(index)


def _aligned(offsets: Ints, itemsize: int) -> bool:
    return itemsize == 1 or not (offsets & (itemsize - 1)).any()


def _bytes_of(offsets: Ints, itemsize: int) -> Ints:
    found: Ints = (offsets[:, None] + np.arange(itemsize, dtype=np.int64)).reshape(-1)
    return found


class MemoryMap:
    """The HBM slices of a device by (sip, cube, pe)."""

    def __init__(self, slices: Mapping[tuple[int, int, int], MemorySlice]) -> None:
        self._slices = dict(slices)

    def slice(self, sip: int, cube: int, pe: int) -> MemorySlice:
        return self._slices[sip, cube, pe]
