"""Plain transfers: what they move, what they cost, where they go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernbench.commands import (
    Access,
    AxisIndex,
    DmaRead,
    Gather,
    IndexOp,
    Loop,
    Scatter,
    affine,
)
from kernbench.dtypes import DType, fp16, fp32, i1, i8, i32, i64
from kernbench.sim.access_eval import charged_bytes
from kernbench.sim.pe_issue import dispatch_ps
from kernbench.sim.topology import load_topology
from tests.sim.pe_helpers import (
    Bench,
    box,
    composite,
    log_text,
    math_op,
    pointer,
    program,
    read,
    run_values,
    span,
    tcm,
    write,
)

HBM_BYTES_PER_S = 135_900_000_000
DISPATCHED = dispatch_ps(load_topology("ahbm_1x1").spec.pe, 24)  # when PE_DMA has the first plain command


def drain_ps(nbytes: int) -> int:
    return -(-nbytes * 10**12 // HBM_BYTES_PER_S)


def both_modes(body: Any, arrays: Any, registers: Any = (), **fields: Any) -> tuple[list[np.ndarray], Bench]:
    """Run in both modes; the logs must agree."""
    out, bench, result = run_values(body, arrays, registers, **fields)
    _, other, _ = run_values(body, arrays, registers, mode="timing", **fields)
    assert result.ok, result.message
    assert log_text(bench) == log_text(other)
    return out, bench


def copy(
    access_in: Access, access_out: Access, shape: tuple[int, ...], dtype: DType = fp32, **fields: Any
) -> list[Any]:
    block = tcm(0, shape, dtype)
    return [read(0, block, access_in, **fields), write(1, block, access_out)]


def times(bench: Bench, kind: str) -> list[tuple[int, int, int]]:
    return [(record.t_start_ps, record.t_end_ps, record.nbytes) for record in bench.records(kind)]


# --------------------------------------------------------------------------- time


def test_a_lone_read_takes_both_head_latencies_and_its_drain() -> None:
    """2 + 1 + 48.1 + 1 + 2 ns; the joint node of the request and the data is paid once."""
    _, bench = both_modes([read(0, tcm(0, (1000,)), box(pointer(0), (1000,)))], [np.zeros(1000, np.float32)])
    ((start, end, nbytes),) = times(bench, "dma_read")

    assert (DISPATCHED, 4000) == (start, nbytes)
    assert 54_100 + drain_ps(4000) == end - start


def test_a_lone_write_takes_one_leg() -> None:
    _, bench = both_modes([write(0, tcm(0, (1000,)), box(pointer(0), (1000,)))], [np.zeros(1000, np.float32)])
    ((start, end, _),) = times(bench, "dma_write")

    assert 51_100 + drain_ps(4000) == end - start


def test_transfers_overlap_their_latency_and_drain_one_after_the_other() -> None:
    spec = load_topology("ahbm_1x1").spec.pe
    quick = replace(spec.pe_cpu, dispatch=replace(spec.pe_cpu.dispatch, fixed_ns=0, bytes_per_ns=24))
    bench = Bench("timing", pe_cpu=quick)
    window, _ = bench.put(np.zeros(4096, np.float32))
    bench.run(
        program([read(k, tcm(4096 * k, (1024,)), box(pointer(0, 4096 * k), (1024,))) for k in range(4)]), [window]
    )
    reads = times(bench, "dma_read")

    assert [1000, 5000, 9000, 13000] == [start for start, _, _ in reads]
    assert [1000 + 54_100 + (k + 1) * drain_ps(4096) for k in range(4)] == [end for _, end, _ in reads]


def test_a_full_window_is_a_logged_stall() -> None:
    spec = load_topology("ahbm_1x1").spec.pe
    narrow = replace(spec.pe_dma, outstanding=2)
    bench = Bench("timing", pe_dma=narrow)
    window, _ = bench.put(np.zeros(65536, np.float32))
    body = [read(k, tcm(65536 * k, (16384,)), box(pointer(0, 65536 * k), (16384,))) for k in range(3)]
    bench.run(program(body), [window])
    first, _, third = times(bench, "dma_read")
    (stall,) = [record for record in bench.records("stall") if record.component.endswith("pe_dma")]

    assert (first[1], first[1]) == (stall.t_end_ps, third[0])
    assert "read window full" == stall.op_name


def test_equal_reads_and_writes_share_the_slice() -> None:
    body = [
        read(0, tcm(0, (65536,)), box(pointer(0), (65536,))),
        write(1, tcm(262144, (65536,)), box(pointer(0, 262144), (65536,))),
    ]
    _, bench = both_modes(body, [np.zeros(131072, np.float32)])
    ends = [*times(bench, "dma_read"), *times(bench, "dma_write")]

    assert DISPATCHED + 54_100 + drain_ps(2 * 262144) == max(end for _, end, _ in ends)


def test_a_read_over_shards_is_a_transfer_each_and_the_far_one_is_later() -> None:
    x = np.arange(2048, dtype=np.float32)
    y = np.zeros(2048, np.float32)
    tags = {0: [(0, 0, 0), (0, 3, 7)]}
    out, bench = both_modes(
        copy(box(pointer(0), (2048,)), box(pointer(1), (2048,)), (2048,)), [x, y], topology="ahbm_2x2", tags=tags
    )
    near, far = sorted(times(bench, "dma_read"), key=lambda t: t[1])

    np.testing.assert_array_equal(x, out[1])
    assert [4096, 4096] == [near[2], far[2]]
    assert far[1] - near[1] > 10_000


# --------------------------------------------------------------------------- cost of patterns


@pytest.mark.parametrize(
    ("offsets", "size", "charged"),
    [
        ([0], 1, 1),
        ([0, 4096], 4, 256),
        ([0, 128, 256, 384], 64, 256),
        ([0, 4096, 8192], 128, 384),
        ([32, 4128], 64, 256),
        ([0, 8, 16, 24], 4, 128),
    ],
    ids=["stream", "random words", "64 of 128 in a page", "128 in each page", "unaligned", "one access"],
)
def test_charged_bytes(offsets: list[int], size: int, charged: int) -> None:
    runs = np.array(offsets, np.int64)

    assert charged == charged_bytes(runs, np.full(len(runs), size, np.int64))


def test_a_transposed_view_of_a_contiguous_tile_streams() -> None:
    x = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    y = np.zeros((32, 64), np.float32)
    body = copy(box(pointer(0), (32, 64), strides=(1, 32)), box(pointer(1), (32, 64)), (32, 64))
    out, bench = both_modes(body, [x, y])
    ((start, end, nbytes),) = times(bench, "dma_read")

    np.testing.assert_array_equal(x.T, out[1])
    assert (54_100 + drain_ps(8192), 8192) == (end - start, nbytes)


def test_a_column_costs_an_access_a_row() -> None:
    x = np.arange(64 * 512, dtype=np.float32).reshape(64, 512)
    body = [read(0, tcm(0, (64,)), box(pointer(0), (64,), strides=(512,)))]
    _, bench = both_modes(body, [x])
    ((start, end, nbytes),) = times(bench, "dma_read")

    assert (256, 54_100 + drain_ps(64 * 128)) == (nbytes, end - start)


# --------------------------------------------------------------------------- values


@pytest.mark.parametrize("strides", [(32, 1), (1, 64), (-32, 1), (0, 1), (32, -1), (64, 2)])
def test_affine_reads(strides: tuple[int, int]) -> None:
    x = np.arange(4096, dtype=np.float32)
    y = np.zeros((8, 16), np.float32)
    base = 1024
    out, _ = both_modes(
        copy(box(pointer(0, 4 * base), (8, 16), strides=strides), box(pointer(1), (8, 16)), (8, 16)), [x, y]
    )
    rows, columns = np.arange(8)[:, None], np.arange(16)

    np.testing.assert_array_equal(x[base + strides[0] * rows + strides[1] * columns], out[1])


@pytest.mark.parametrize("strides", [(32, 1), (1, 64), (-32, 1), (64, 2)])
def test_affine_writes_touch_nothing_else(strides: tuple[int, int]) -> None:
    x = np.arange(128, dtype=np.float32).reshape(8, 16) + 1
    y = np.zeros(4096, np.float32)
    out, _ = both_modes(
        copy(box(pointer(0), (8, 16)), box(pointer(1, 4096), (8, 16), strides=strides), (8, 16)), [x, y]
    )
    expected = np.zeros(4096, np.float32)
    expected[1024 + strides[0] * np.arange(8)[:, None] + strides[1] * np.arange(16)] = x

    np.testing.assert_array_equal(expected, out[1])


def test_masked_lanes_cost_nothing_and_get_other() -> None:
    x = np.arange(130, dtype=np.float32)
    y = np.full(256, -1, np.float32)
    bounds: dict[str, Any] = {"lo": ((),), "hi": ((130,),)}
    body = [
        read(0, tcm(0, (256,)), box(pointer(0), (256,), **bounds), other=7.5),
        write(1, tcm(0, (256,)), box(pointer(1), (256,))),
    ]
    out, bench = both_modes(body, [x, y])

    np.testing.assert_array_equal(np.concatenate([x, np.full(126, 7.5, np.float32)]), out[1])
    assert 520 == times(bench, "dma_read")[0][2]


def test_other_may_be_a_block_and_defaults_to_zero() -> None:
    x, fill, y = np.arange(64, dtype=np.float32), np.arange(64, dtype=np.float32) * 10, np.zeros((2, 64), np.float32)
    masked = box(pointer(0), (64,), lo=((16,),), hi=((48,),))
    blocks = [tcm(256 * k, (64,)) for k in range(3)]
    body = [
        read(0, blocks[0], box(pointer(1), (64,))),
        read(1, blocks[1], masked, other=blocks[0]),
        read(2, blocks[2], masked),
        write(3, blocks[1], box(pointer(2), (64,))),
        write(4, blocks[2], box(pointer(2, 256), (64,))),
    ]
    out, _ = both_modes(body, [x, fill, y])
    inside = (np.arange(64) >= 16) & (np.arange(64) < 48)

    np.testing.assert_array_equal(np.where(inside, x, fill), out[2][0])
    np.testing.assert_array_equal(np.where(inside, x, 0), out[2][1])


def test_a_false_predicate_moves_nothing_and_checks_nothing() -> None:
    y = np.full(64, 3, np.float32)
    nowhere = box(pointer(0, 1 << 30), (64,), preds=(0,))
    body = [
        read(0, tcm(0, (64,)), nowhere, other=1.0),
        write(1, tcm(0, (64,)), nowhere),
        write(2, tcm(0, (64,)), box(pointer(0), (64,))),
    ]
    out, bench = both_modes(body, [y])

    np.testing.assert_array_equal(np.ones(64, np.float32), out[0])
    assert [0, 0, 256] == [nbytes for _, _, nbytes in [*times(bench, "dma_read"), *times(bench, "dma_write")]]
    assert all(start < end for start, end, _ in [*times(bench, "dma_read"), *times(bench, "dma_write")])


def test_bounds_and_strides_from_registers() -> None:
    """Rows of a loop: row i has 10 × i live elements."""
    x = np.arange(8 * 64, dtype=np.float32).reshape(8, 64)
    y = np.zeros((8, 64), np.float32)
    row = affine(0, {2: 256})
    masked = box(pointer(0, row), (64,), hi=((affine(0, {2: 10}),),), lo=((),))
    body = [read(0, tcm(0, (64,)), masked), write(1, tcm(0, (64,)), box(pointer(1, row), (64,)))]
    out, _ = both_modes([Loop(2, 0, 8, 1, tuple(body), span=span(1))], [x, y], [i32])

    np.testing.assert_array_equal(np.where(np.arange(64) < 10 * np.arange(8)[:, None], x, 0), out[1])


def test_known_index_expressions_split_into_pieces() -> None:
    """x[(i + 40) % 64] of 64 elements wraps around once: two pieces, no gather of elements."""
    x = np.arange(64, dtype=np.float32)
    y = np.zeros(64, np.float32)
    shifted = IndexOp("add", (AxisIndex(0), 40), i32)
    access = Access(pointer(0), fp32, (64,), (0,), rest=IndexOp("mod", (shifted, 64), i32))
    out, bench = both_modes(
        [Gather(0, tcm(0, (64,)), access, span=span(1)), write(1, tcm(0, (64,)), box(pointer(1), (64,)))], [x, y]
    )

    np.testing.assert_array_equal(np.roll(x, -40), out[1])
    assert 256 == times(bench, "dma_read")[0][2]


def test_gather_and_scatter_by_loaded_indices_and_masks() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=512).astype(np.float32)
    where = rng.integers(0, 512, 64).astype(np.int32)
    live = rng.integers(0, 2, 64).astype(np.bool_)
    y = np.zeros(512, np.float32)
    index, mask, block = tcm(0, (64,), i32), tcm(256, (64,), i1), tcm(512, (64,))
    access = box(pointer(0), (64,), strides=(0,))
    out_access = box(pointer(3), (64,), strides=(0,))
    body = [
        read(0, index, box(pointer(1), (64,), i32)),
        read(1, mask, box(pointer(2), (64,), i1)),
        Gather(2, block, access, index=index, mask=mask, other=-1.0, span=span(2)),
        Scatter(3, block, out_access, index=index, mask=mask, span=span(3)),
    ]
    out, bench, result = run_values(body, [x, where, live, y])
    expected = np.zeros(512, np.float32)
    expected[where[live]] = x[where[live]]

    assert result.ok, result.message
    np.testing.assert_array_equal(expected, out[3])
    assert 4 * int(live.sum()) == next(r.nbytes for r in bench.records("dma_read") if r.op_name == "gather")


def test_of_equal_addresses_the_last_lane_stays() -> None:
    index, block = tcm(0, (3,), i32), tcm(256, (3,))
    body = [
        read(0, index, box(pointer(0), (3,), i32)),
        read(1, block, box(pointer(1), (3,))),
        Scatter(2, block, box(pointer(2), (3,), strides=(0,)), index=index, span=span(1)),
    ]
    out, _, _ = run_values(
        body, [np.array([0, 0, 1], np.int32), np.array([1, 2, 3], np.float32), np.zeros(2, np.float32)]
    )

    np.testing.assert_array_equal([2, 3], out[2])


def test_small_types_move_their_own_bytes() -> None:
    """64 × 64 bf16-sized elements are 8192 bytes, in the log and in memory."""
    x = np.arange(4096, dtype=np.float16).reshape(64, 64)
    out, bench = both_modes(
        copy(box(pointer(0), (64, 64), fp16), box(pointer(1), (64, 64), fp16), (64, 64), fp16), [x, 0 * x]
    )

    np.testing.assert_array_equal(x, out[1])
    assert 8192 == times(bench, "dma_read")[0][2]
    b = np.arange(100, dtype=np.int8)
    out, _ = both_modes(
        copy(box(pointer(0), (33,), i8, strides=(3,)), box(pointer(1), (33,), i8), (33,), i8), [b, 0 * b]
    )
    np.testing.assert_array_equal(b[:99:3], out[1][:33])


def test_sharded_tensors_are_read_and_written_across_their_shards() -> None:
    x = np.arange(40 * 32, dtype=np.float32).reshape(40, 32)
    y = np.zeros_like(x)
    tags = {0: [(0, 0, k) for k in range(5)], 1: [(0, 1, 2), (0, 0, 1), (0, 3, 4)]}
    column = copy(box(pointer(0), (32, 40), strides=(1, 32)), box(pointer(1), (32, 40), strides=(1, 32)), (32, 40))
    out, bench = both_modes(column, [x, y], topology="ahbm_2x2", tags=tags)

    np.testing.assert_array_equal(x, out[1])
    assert (5, 3) == (len(times(bench, "dma_read")), len(times(bench, "dma_write")))


# --------------------------------------------------------------------------- faults


def fault(body: Any, arrays: Any, mode: Any = "data", registers: Any = ()) -> tuple[str | None, int | None]:
    _, _, result = run_values(body, arrays, registers, mode=mode)
    assert not result.ok
    return result.error_code, None if result.span is None else result.span.line


def test_an_access_outside_of_its_tensor_is_a_fault_at_its_line() -> None:
    x = np.zeros(64, np.float32)
    over = read(0, tcm(0, (64,)), box(pointer(0, 4), (64,)), line=7)
    under = read(0, tcm(0, (64,)), box(pointer(0, -4), (64,)), line=8)
    null = read(0, tcm(0, (64,)), box(8, (64,)), line=9)

    assert ("E_OUT_OF_BOUNDS", 7) == fault([over], [x])
    assert ("E_OUT_OF_BOUNDS", 8) == fault([under], [x], "timing")
    assert ("E_BAD_POINTER", 9) == fault([null], [x])


def test_dead_lanes_may_point_anywhere() -> None:
    x = np.arange(10, dtype=np.float32)
    body = [
        read(0, tcm(0, (64,)), box(pointer(0), (64,), lo=((),), hi=((10,),))),
        write(1, tcm(0, (64,)), box(pointer(0), (64,), lo=((),), hi=((10,),))),
    ]
    out, _ = both_modes(body, [x])

    np.testing.assert_array_equal(x, out[0])


def test_an_int32_offset_that_wraps_is_a_fault() -> None:
    far = Access(pointer(0, affine(0, {1: 4 * 7_864_320})), fp32, (64,), (1,), offset_bits=32)
    body = [DmaRead(0, tcm(0, (64,)), far, span=span(3))]
    loop = [Loop(1, 319, 320, 1, tuple(body), span=span(2))]

    assert ("E_INT32_OFFSET", 3) == fault(loop, [np.zeros(64, np.float32)], registers=[i64])


def test_a_gather_index_out_of_bounds_is_a_fault_when_it_issues() -> None:
    index = tcm(0, (4,), i32)
    body = [
        read(0, index, box(pointer(1), (4,), i32)),
        Gather(1, tcm(256, (4,)), box(pointer(0), (4,), strides=(0,)), index=index, span=span(5)),
    ]

    assert ("E_OUT_OF_BOUNDS", 5) == fault(body, [np.zeros(4, np.float32), np.array([0, 1, 4, 2], np.int32)])


def test_timing_mode_gathers_by_inputs_and_refuses_what_is_computed() -> None:
    where, x, y = np.array([3, 1, 2, 0], np.int32), np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    index = tcm(0, (4,), i32)
    gather = Gather(2, tcm(256, (4,)), box(pointer(0), (4,), strides=(0,)), index=index, span=span(5))
    load = read(0, index, box(pointer(1), (4,), i32), static=True)
    bump = composite(1, math_op("add", index, src_a=index, src_b=0), static=True)
    both_modes([load, bump, gather, write(3, tcm(256, (4,)), box(pointer(2), (4,)))], [x, where, y])

    stored = write(7, index, box(pointer(1), (4,), i32))
    again = [load, stored, read(8, index, box(pointer(1), (4,), i32), static=True), gather]
    assert ("E_TIMING_NEEDS_DATA", 5) == fault(again, [x, where, y], "timing")


def test_a_block_outside_of_tcm_is_a_fault() -> None:
    body = [read(0, tcm(1572864 - 4, (2,)), box(pointer(0), (2,)), line=4)]

    assert ("E_TCM_BOUNDS", 4) == fault(body, [np.zeros(2, np.float32)])


def test_the_sanitizer_tells_reads_of_what_nobody_wrote() -> None:
    bench = Bench("data", sanitize="warn")
    window, places = bench.put(np.zeros(16, np.float32))
    ((tag, _, _),) = places
    bench.services.memory.slice(*tag)._chunks.clear()
    bench.run(program([read(0, tcm(0, (16,)), box(pointer(0), (16,)), line=6)]), [window])
    (warning,) = bench.services.sanitizer.warnings

    assert ("E_UNINITIALISED_READ", "k.tl:6:1") == (warning.code, str(warning.primary.span))  # type: ignore[union-attr]


def test_stores_faster_than_memory_do_not_pile_up() -> None:
    """A loop of stores from one block: PE_CPU is held back by the queues."""
    block = tcm(0, (8192,))
    stores = Loop(1, 0, 200, 1, (write(0, block, box(pointer(0), (8192,))),), span=span(1))
    other = Loop(1, 0, 200, 1, (write(0, block, box(pointer(0, affine(0, {1: 32768})), (8192,))),), span=span(1))
    for loop in (stores, other):
        bench = Bench("timing")
        window, _ = bench.put(np.zeros(200 * 8192, np.float32))
        waiting: list[int] = []
        scheduler = bench.pes[(0, 0, 0)]._cpu.scheduler
        for at in range(0, 20_000_000, 100_000):
            bench.clock.call_at(at, lambda: waiting.append(len(scheduler.live)))  # noqa: B023
        bench.run(program([loop], 1, [i32]), [window])
        assert 8 <= max(waiting) <= 24
        assert [r for r in bench.records("stall") if r.op_name == "queue full"]
