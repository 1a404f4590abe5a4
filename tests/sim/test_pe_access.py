"""Boxes and lanes against plain enumeration of every element."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.address_map import encode_pa, window_base
from kernbench.commands import Access, AxisIndex, IndexOp, Program, affine
from kernbench.dtypes import fp32, i32
from kernbench.sim.access_eval import BoxForm, Part, charged_bytes
from kernbench.sim.access_form import AccessForm
from kernbench.sim.memory import MemorySlice
from kernbench.sim.part_io import read_part, write_part
from kernbench.sim.registers import Taint
from kernbench.sim.windows import Geometry, Shard, Window, Windows, run_geometry

NOTHING_UNKNOWN = Taint(Program("k", (), (), (), (), (), ()), True)


@st.composite
def boxes(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = draw(st.integers(1, 3))
    extents = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    strides = tuple(draw(st.sampled_from((0, 1, -1, 2, 3, 4, 5, 20, -20, 25, 100))) for _ in range(rank))
    return strides, extents


def elements(strides: tuple[int, ...], extents: tuple[int, ...]) -> list[int]:
    positions = itertools.product(*(range(extent) for extent in extents))
    return [sum(s * i for s, i in zip(strides, at, strict=True)) for at in positions]


@settings(max_examples=200, deadline=None)
@given(boxes())
def test_a_box_form_names_each_byte_once(shape: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    strides, extents = shape
    form = BoxForm(4, strides, (0,) * len(extents), extents)
    touched = {4 * e + b for e in elements(strides, extents) for b in range(4)}
    covered = {int(start) + form.delta + b for start in form.runs for b in range(form.run)}

    assert touched == covered
    assert (len(touched), min(touched), max(touched) + 1) == (form.nbytes, form.delta, form.delta + form.cover)
    assert form.charged(0) >= form.nbytes


@settings(max_examples=60, deadline=None)
@given(boxes(), boxes(), st.integers(-60, 60))
def test_parts_overlap_exactly_where_bytes_meet(a: Any, b: Any, shift: int) -> None:
    def made(shape: Any, low: int) -> tuple[Part, set[int]]:
        form = BoxForm(4, shape[0], (0,) * len(shape[1]), shape[1])
        part = Part((0, 0, 0), low, low + form.cover, form.nbytes, form.nbytes, form=None if form.contiguous else form)
        return part, {int(s) + low + k for s in form.runs for k in range(form.run)}

    first, its = made(a, 4000)
    second, others = made(b, 4000 + 4 * shift)

    assert bool(its & others) == first.overlaps(second) == second.overlaps(first)


def sharded(rows: int, columns: int, dim: int, places: int) -> tuple[Windows, list[MemorySlice], Any]:
    """A tensor cut along `dim` over slices, and what each byte of it is: its own offset in the tensor."""
    shape = (rows, columns)
    outer = rows if dim == 1 else 1
    inner = 4 if dim == 1 else 4 * columns
    geometry = Geometry(outer, shape[dim], inner)
    tensor = np.arange(rows * columns, dtype=np.int32).reshape(shape)
    placed = np.ascontiguousarray(np.moveaxis(tensor, dim, 0)).view(np.uint8).reshape(-1)
    block = -(-shape[dim] // places) * (tensor.nbytes // shape[dim])
    slices = [MemorySlice(f"m{k}", 1 << 20) for k in range(places)]
    shards = []
    for k, memory in enumerate(slices):
        run = placed[k * block : (k + 1) * block]
        memory.write(4096, run)
        shards.append(Shard(k * block, len(run), 0, 0, k, encode_pa(0, k, "hbm", 4096)))
    return Windows([Window("x", geometry, shards)]), slices, tensor


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1), st.integers(1, 4), st.data())
def test_a_tile_of_a_sharded_tensor_is_that_tile(dim: int, places: int, data: Any) -> None:
    windows, slices, tensor = sharded(12, 10, dim, places)
    r0, c0 = data.draw(st.integers(0, 11)), data.draw(st.integers(0, 9))
    r, c = data.draw(st.integers(1, 12 - r0)), data.draw(st.integers(1, 10 - c0))
    turned = data.draw(st.booleans())
    shape, strides = ((c, r), (1, 10)) if turned else ((r, c), (10, 1))
    access = Access(window_base(0) + 4 * (10 * r0 + c0), i32, shape, strides)
    resolved = AccessForm(access, False, NOTHING_UNKNOWN).resolve([], windows)
    buffer = np.zeros(resolved.buffer_bytes, np.uint8)
    for part in resolved.parts:
        read_part(slices[part.place[2]], part, buffer)
    form = resolved.form
    assert form is not None
    got = np.ndarray(form.extents, np.int32, buffer, form.origin, form.strides)
    expected = tensor[r0 : r0 + r, c0 : c0 + c]

    np.testing.assert_array_equal(expected.T if turned else expected, got)
    assert 4 * r * c == sum(part.nbytes for part in resolved.parts)

    for part in resolved.parts:
        write_part(slices[part.place[2]], part, np.full_like(buffer, 255))
    whole = AccessForm(Access(window_base(0), i32, (12, 10), (10, 1)), False, NOTHING_UNKNOWN).resolve([], windows)
    after = np.zeros(480, np.uint8)
    for part in whole.parts:
        read_part(slices[part.place[2]], part, after)
    changed = tensor.copy()
    changed[r0 : r0 + r, c0 : c0 + c] = -1
    np.testing.assert_array_equal(changed, after.view(np.int32).reshape(12, 10))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(-3, 20), st.integers(0, 8), st.integers(0, 8))
def test_lanes_of_a_known_expression(factor: int, shift: int, low: int, high: int) -> None:
    """x[(i × factor + shift) mod 20] for low ≤ i < high, from registers."""
    index = IndexOp(
        "mod", (IndexOp("add", (IndexOp("mul", (AxisIndex(0), factor), i32), affine(40, {0: 1})), i32), 20), i32
    )
    access = Access(window_base(0), fp32, (8,), (0,), lo=((low,),), hi=((affine(0, {1: 1}),),), rest=index)
    memory = MemorySlice("m", 1 << 20)
    x = np.arange(20, dtype=np.float32)
    memory.write(64, x.view(np.uint8))
    windows = Windows([Window("x", run_geometry(80), [Shard(0, 80, 0, 0, 0, encode_pa(0, 0, "hbm", 64))])])
    resolved = AccessForm(access, False, NOTHING_UNKNOWN).resolve([shift, high], windows)
    buffer = np.zeros(resolved.buffer_bytes, np.uint8)
    for part in resolved.parts:
        read_part(memory, part, buffer)
    lanes = np.arange(8)
    lanes = lanes[(lanes >= low) & (lanes < high)]

    np.testing.assert_array_equal(x[(lanes * factor + shift + 40) % 20], buffer.view(np.float32))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5000), min_size=2, max_size=12, unique=True), st.integers(1, 300))
def test_charged_bytes_are_accesses_and_page_minimums(starts: list[int], size: int) -> None:
    runs = np.array(sorted(starts), np.int64)
    accesses = {a for s in starts for a in range(s // 64, (s + size - 1) // 64 + 1)}
    pages = {a // 16 for a in accesses}
    expected = sum(max(128, 64 * sum(a // 16 == page for a in accesses)) for page in pages)

    assert max(expected, size * len(starts)) == charged_bytes(runs, np.full(len(runs), size, np.int64))
