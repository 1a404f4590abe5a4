"""Logical pointers: what they resolve to, checked against a byte-by-byte reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.address_map import encode_pa, window_base
from kernbench.sim.faults import DeviceFault
from kernbench.sim.windows import Geometry, Segment, Shard, Window, Windows, run_geometry


def shards_of(sizes: list[int]) -> list[Shard]:
    starts = np.cumsum([0, *sizes])[:-1].tolist()
    return [
        Shard(s, n, 0, k, k, encode_pa(k, k, "hbm", 1000 * k))
        for k, (s, n) in enumerate(zip(starts, sizes, strict=True))
    ]


def test_a_run_over_two_shards_has_two_segments() -> None:
    window = Window("x", run_geometry(10), shards_of([6, 4]))

    found = [(s.offset, s.nbytes, s.cube, s.pa) for s in window.segments(4, 5)]

    assert [(4, 2, 0, encode_pa(0, 0, "hbm", 4)), (6, 3, 1, encode_pa(1, 1, "hbm", 1000))] == found


@pytest.mark.parametrize(("offset", "nbytes"), [(-1, 1), (8, 3), (11, 1), (0, 11)])
def test_a_run_that_leaves_the_tensor_is_a_fault_that_names_it(offset: int, nbytes: int) -> None:
    window = Window("scores", run_geometry(10), shards_of([6, 4]))

    with pytest.raises(DeviceFault, match=f"bytes {offset} to {offset + nbytes - 1} of tensor `scores`") as caught:
        window.segments(offset, nbytes)
    assert caught.value.code == "E_OUT_OF_BOUNDS"


def test_many_runs_tell_the_first_that_leaves_the_tensor() -> None:
    window = Window("x", run_geometry(10), shards_of([10]))

    with pytest.raises(DeviceFault, match="bytes 9 to 10"):
        window.locate(np.array([0, 9, 20]), np.array([4, 2, 2]))


def test_a_pointer_before_a_tensor_stays_in_that_tensor() -> None:
    windows = Windows([Window("a", run_geometry(8), shards_of([8])), Window("b", run_geometry(8), shards_of([8]))])

    window, offset = windows.split(window_base(1) - 4)

    assert (window.name, offset) == ("b", -4)


@pytest.mark.parametrize("address", [0, 40, window_base(1)])
def test_a_pointer_to_no_tensor_is_a_fault(address: int) -> None:
    windows = Windows([Window("a", run_geometry(8), shards_of([8]))])

    with pytest.raises(DeviceFault) as caught:
        windows.resolve(address, 4)
    assert caught.value.code == "E_BAD_POINTER"


def test_a_tensor_that_has_no_bytes_here_says_so() -> None:
    with pytest.raises(DeviceFault, match="has no bytes on this PE"):
        Window("x", run_geometry(0), ()).segments(0, 1)


def bytes_of(window: Window, segment: Segment) -> list[tuple[int, int]]:
    start = 1000 * segment.shard + segment.pa - window.shards[segment.shard].pa
    return [(segment.shard, start + i) for i in range(segment.nbytes)]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_runs_land_where_a_byte_by_byte_walk_says(data: st.DataObject) -> None:
    geometry = Geometry(*(data.draw(st.integers(1, 4)) for _ in range(3)))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, geometry.nbytes - 1)), max_size=3)) - {geometry.nbytes})
    sizes = np.diff([0, *cuts, geometry.nbytes]).tolist()
    window = Window("x", geometry, shards_of(sizes))
    starts = data.draw(st.lists(st.integers(0, geometry.nbytes), max_size=4))
    runs = [(s, data.draw(st.integers(0, geometry.nbytes - s))) for s in starts]

    placed = np.arange(geometry.nbytes).reshape(geometry.extent, geometry.outer, geometry.inner)
    logical = placed.transpose(1, 0, 2).reshape(-1)  # placed byte of each logical byte
    place = [(k, 1000 * k + i) for k, size in enumerate(sizes) for i in range(size)]
    expected = [[place[logical[start + i]] for i in range(size)] for start, size in runs]

    pieces = window.locate(np.array([s for s, _ in runs], np.int64), np.array([n for _, n in runs], np.int64))
    found: list[list[tuple[int, int]]] = [[] for _ in runs]
    for source, at, size, shard, offset in zip(*(column.tolist() for column in pieces), strict=True):
        assert at == len(found[source])
        found[source].extend((shard, offset + i) for i in range(size))
    segments = [[byte for seg in window.segments(s, n) for byte in bytes_of(window, seg)] for s, n in runs]

    assert expected == found
    assert expected == segments
