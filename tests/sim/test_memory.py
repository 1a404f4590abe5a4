"""Storage of a slice: runs, elements, what is known of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.sim.memory import KNOWN, UNKNOWN, UNWRITTEN, MemorySlice

CHUNK = 1 << 20


def memory() -> MemorySlice:
    return MemorySlice("m", 3 << 30)


@pytest.mark.parametrize("offset", [0, 5, CHUNK - 3, 3 * CHUNK - 1, (3 << 30) - 8])
def test_a_run_comes_back_over_chunk_borders_too(offset: int) -> None:
    slice_, data = memory(), np.arange(1, 9, dtype=np.uint8)
    slice_.write(offset, data)

    assert data.tolist() == slice_.read(offset, 8).tolist()
    assert slice_.has(KNOWN, offset, 8) and not slice_.has(UNWRITTEN, offset, 8)


def test_what_nobody_wrote_is_zero_and_told_apart() -> None:
    slice_ = memory()
    slice_.write(4, np.full(4, 7, np.uint8))

    assert slice_.read(2, 8).tolist() == [0, 0, 7, 7, 7, 7, 0, 0]
    assert slice_.has(UNWRITTEN, 2, 8)
    assert not slice_.has(UNWRITTEN, 4, 4)
    assert slice_.read(2 * CHUNK, 2).tolist() == [0, 0]


def test_what_a_pe_wrote_without_values_is_unknown_until_written_again() -> None:
    slice_ = memory()
    slice_.write(0, np.ones(8, np.uint8))
    slice_.forget(2, 4)

    assert slice_.has(UNKNOWN, 0, 8)
    assert not slice_.has(UNKNOWN, 6, 2)
    slice_.write(2, np.ones(4, np.uint8))
    assert not slice_.has(UNKNOWN, 0, 8)


def test_of_equal_offsets_the_last_lane_stays() -> None:
    slice_ = memory()
    slice_.scatter(np.array([0, 4, 0]), np.array([1, 2, 3], np.uint32))

    assert slice_.gather(np.array([0, 4]), 4).tolist() == [3, 2]


def test_a_run_beyond_the_slice_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        MemorySlice("m", 100).write(98, np.zeros(4, np.uint8))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([1, 2, 4, 8]), st.lists(st.integers(CHUNK - 24, CHUNK + 16), min_size=1, max_size=8))
def test_elements_at_any_offsets_equal_a_plain_array(itemsize: int, places: list[int]) -> None:
    slice_, plain = memory(), np.zeros(CHUNK + 64, np.uint8)
    values = np.arange(1, len(places) + 1, dtype=f"u{itemsize}") * 37
    for place, value in zip(places, values, strict=True):
        plain[place : place + itemsize] = np.frombuffer(value.tobytes(), np.uint8)
    offsets = np.array(places, np.int64)
    slice_.scatter(offsets, values)
    expected = [int.from_bytes(plain[place : place + itemsize].tobytes(), "little") for place in places]

    assert plain[CHUNK - 24 :].tolist() == slice_.read(CHUNK - 24, 88).tolist()
    assert expected == slice_.gather(offsets, itemsize).tolist()
    assert not slice_.any_element(UNWRITTEN, offsets, itemsize)
    slice_.forget_elements(offsets[:1], itemsize)
    assert slice_.any_element(UNKNOWN, offsets, itemsize)
