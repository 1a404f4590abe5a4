"""Boxes of any strides moved between a slice and a buffer, against plain arrays of bytes and of their states."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kernbench.sim import part_io
from kernbench.sim.access_eval import BoxForm, box_part
from kernbench.sim.memory import KNOWN, UNKNOWN, UNWRITTEN, MemorySlice

CHUNK = 1 << 20
BYTES = 3 * CHUNK
STRIDES = st.sampled_from([0, 1, 1, 2, 3, -1, -2, 5, -7, 8, 16, 100, -64, 4097, 131_072, -131_072])
EXTENTS = st.sampled_from([1, 2, 3, 4, 8, 17, 33])
AXES = st.lists(st.tuples(STRIDES, st.integers(0, 2), EXTENTS), min_size=1, max_size=4)
PLACES = st.sampled_from([0, 1, 8, CHUNK - 64, CHUNK - 1, CHUNK, 2 * CHUNK - 5]) | st.integers(0, BYTES)


def touched(form: BoxForm) -> NDArray[np.int64]:
    """The bytes of a box, from its first on, by the definition of strides."""
    at = np.zeros(1, np.int64)
    for stride, low, extent in zip(form.strides, form.lows, form.extents, strict=True):
        at = (at[:, None] + stride * np.arange(low, low + extent)).reshape(-1)
    return np.unique(at[:, None] + np.arange(form.itemsize)) - form.delta


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    moves=st.lists(
        st.tuples(st.sampled_from(["write", "forget", "run"]), st.sampled_from([1, 2, 4, 8]), AXES, PLACES),
        min_size=1,
        max_size=5,
    )
)
def test_boxes_move_as_in_a_plain_array(moves: list[tuple[str, int, list[tuple[int, int, int]], int]]) -> None:
    memory = MemorySlice("m", BYTES)
    plain, states = np.zeros(BYTES, np.uint8), np.full(BYTES, UNWRITTEN, np.uint8)
    for number, (move, itemsize, axes, place) in enumerate(moves):
        strides, lows, extents = zip(*axes, strict=True)
        form = BoxForm(itemsize, strides, lows, extents)
        if form.cover > BYTES:
            continue
        low = min(place, BYTES - form.cover)
        part, where = box_part((0, 0, 0), low, form), low + touched(form)
        data = np.random.default_rng(number).integers(1, 256, form.cover, np.uint8)
        if move == "write":
            part_io.write_part(memory, part, data)
            plain[where], states[where] = data[where - low], KNOWN
        elif move == "forget":
            part_io.forget_part(memory, part)
            states[where] = UNKNOWN
        else:
            memory.write(low, data)
            plain[low : low + form.cover], states[low : low + form.cover] = data, KNOWN

        assert part.nbytes == len(where)
        assert (part_io.cover(memory, part) == plain[low : low + form.cover]).all()
        buffer = np.zeros(form.cover, np.uint8)
        part_io.read_part(memory, part, buffer)
        assert (buffer[where - low] == plain[where]).all()
        for state in (UNWRITTEN, KNOWN, UNKNOWN):
            assert part_io.part_has(memory, part, state) == bool((states[where] == state).any())
            assert memory.has(state, low, form.cover) == bool((states[low : low + form.cover] == state).any())
    assert (memory.read(0, BYTES) == plain).all()
