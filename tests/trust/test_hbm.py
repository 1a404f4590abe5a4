"""HBM against published figures, and its efficiency by size and pattern in closed form.

Sources: JEDEC JESD238 (HBM3: 1,024 bits a stack, 16 channels of 64), the timings of Ramulator 2's HBM3 presets
(tRFC, tREFI, tRP, tRCD, CL), and the field reports named at each test.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.address_map import encode_pa
from kernbench.commands import Access
from kernbench.dtypes import i8
from kernbench.messages import MemoryRead
from kernbench.sim.access_eval import ACCESS_BYTES, PAGE_BYTES, PAGE_MINIMUM_BYTES, charged_bytes
from kernbench.sim.clock import Clock
from kernbench.sim.engine import GraphEngine
from kernbench.sim.network import Network
from kernbench.sim.op_log import OpRecord
from kernbench.sim.routing import PathRouter
from kernbench.sim.topology import load_topology
from tests.sim.pe_helpers import Bench, box, pointer, program, read, tcm
from tests.trust.helpers import one_pe

SPEC = load_topology("ahbm_4x4").spec
HEAD_PS = 54_100  # of a PE's local read: pe_dma and router there and back, the slice once


def stack(slice_gbs: str, slices: int) -> Any:
    return one_pe(hbm_gbs=slice_gbs, links_gbs=4096, pes=slices)


# Peak, refresh, row miss


def test_the_slices_bandwidth_is_peak_less_refresh() -> None:
    """9.2 Gb/s x 1,024 bits over 8 slices; tRFC 300 ns every tREFI 3.9 us leave 92.3 %."""
    peak = Decimal("9.2") * 1024 / 8 / 8
    left = 1 - Decimal(300) / Decimal(3900)

    assert peak == Decimal("147.2")
    assert round(left, 3) == Decimal("0.923")
    assert round(peak * left, 1) == SPEC.cube.hbm.bw_gbs == Decimal("135.9")


def test_the_slices_latency_is_a_row_miss_from_device_timings() -> None:
    """tRC of an HBM3 preset at 6.4 Gb/s, 77 clocks of 0.625 ns: tRP + tRCD + CL + burst and the controller's share."""
    clock_ns = Decimal("0.625")

    assert 77 * clock_ns == Decimal("48.125")
    assert (23 + 23 + 23 + 2) * clock_ns < SPEC.cube.hbm.overhead_ns == Decimal("48.1")


def test_a_page_is_charged_what_four_activates_a_window_leave() -> None:
    """tFAW 15 ns (Ramulator 2, HBM3_2Gbps): 4 pages a pseudo-channel, 4 pseudo-channels of 32 in a slice."""
    pages_a_ns = Decimal(4 * 32 // 8) / 15

    assert abs(SPEC.cube.hbm.bw_gbs / pages_a_ns - PAGE_MINIMUM_BYTES) < 1
    assert ACCESS_BYTES == 64 and PAGE_BYTES == 1024


def test_a_stack_at_6_4_gbps_reads_a_mebibyte_in_1280_ns_and_latency() -> None:
    """FC-TI18 (ramulator2 #104, DRAMsim3 #36): 16 channels x 64 bits x 6.4 Gb/s are 819.2 GB/s, with no factor 2."""
    graph = stack("102.4", 8)
    ends = parallel_reads(graph, 8, (1 << 20) // 8)

    assert 8 * Decimal("102.4") == Decimal(16 * 64) * Decimal("6.4") / 8 == Decimal("819.2")
    assert ends == [HEAD_PS + 1_280_000] * 8


def parallel_reads(graph: Any, pes: int, nbytes: int) -> list[int]:
    """Ends: every PE reads its own slice at once, by the network alone."""
    clock = Clock()
    network, router = Network(clock, graph), PathRouter(graph)
    ends: dict[int, int] = {}
    for pe in range(pes):
        dma, memory = f"sip0.cube0.pe{pe}.pe_dma", f"sip0.cube0.hbm_ctrl.pe{pe}"
        there, back = router.route(dma, memory), router.route(memory, dma)
        head = there.head_ps + back.head_ps - back.first_overhead_ps

        def done(pe: int = pe) -> None:
            ends[pe] = clock.now

        clock.call_after(head, network.start_flow, back.pools, nbytes, (pe,), done, None)
    clock.run()
    return [ends[pe] for pe in range(pes)]


# Spread over slices


def slice_bytes(addresses: list[tuple[int, int]]) -> dict[str, int]:
    """Bytes over each slice for host reads of (slice, offset) stripes of 64 KiB."""
    engine = GraphEngine(stack("102.4", 16), mode="timing", entry="pcie_ep")
    for number, (pe, offset) in enumerate(addresses):
        engine.submit(
            MemoryRead(
                correlation_id=str(number), request_id="0", target_device="sip:0", src_sip=0, src_cube=0, src_pe=pe,
                src_pa=encode_pa(0, pe, "hbm", offset), nbytes=65536, dst_kind="discard",
            )
        )  # fmt: skip
    engine.run()
    return {
        use.name: use.nbytes for use in engine.device.network.uses() if ".hbm_ctrl" in use.name and "->" not in use.name
    }


def test_stripes_spread_evenly_and_a_stride_of_all_stripes_hits_one_slice() -> None:
    """FC-TI19 (ramulator #2, #115; DRAMSys #52): 64 stripes over 16 slices, then 64 stripes of one slice."""
    even = slice_bytes([(stripe % 16, stripe // 16 * 65536) for stripe in range(64)])
    strided = slice_bytes([(0, stripe * 65536) for stripe in range(64)])

    assert set(even.values()) == {4 * 65536} and len(even) == 16
    assert list(strided.values()) == [64 * 65536]


def test_one_slice_runs_at_a_sixteenth_of_all() -> None:
    graph = stack("102.4", 16)
    spread = max(parallel_reads(graph, 16, 1 << 16))
    alone = parallel_reads(graph, 1, 1 << 20)[0]

    assert (alone - HEAD_PS) == 16 * (spread - HEAD_PS)


# Efficiency by size and pattern


def read_time(access: Access, nbytes: int) -> OpRecord:
    bench = Bench("timing")
    window, _ = bench.put(np.zeros(1 << 22, np.int8))
    bench.run(program([read(0, tcm(0, access.shape, i8), access)]), [window])
    (record,) = [record for record in bench.records("dma_read") if record.nbytes == nbytes]
    return record


def drain_ps(nbytes: int) -> int:
    return -(-nbytes * 10**12 // 135_900_000_000)


@pytest.mark.parametrize("nbytes", [1, 63, 64, 65, 4096, 32768, 262144])
def test_a_stream_costs_its_bytes_whatever_its_size(nbytes: int) -> None:
    """FC-TI20 (DRAMsim3 #35): one run costs what it moves; whole accesses of 64 B are charged to scattered runs."""
    assert read_time(box(pointer(0), (nbytes,), i8), nbytes).duration_ps == HEAD_PS + drain_ps(nbytes)


@pytest.mark.parametrize(("size", "accesses"), [(1, 1), (63, 1), (64, 1), (65, 2)])
def test_runs_are_charged_whole_accesses(size: int, accesses: int) -> None:
    """FC-TI20: runs in one page, each at the start of an access."""
    offsets = np.arange(4, dtype=np.int64) * 128

    assert charged_bytes(offsets, np.full(4, size, np.int64)) == 4 * accesses * ACCESS_BYTES


PATTERNS = {  # run length, distance of runs: bytes charged a run
    "stream of 1 KiB rows": (1024, 1024, 1024),
    "rows of 256 B in pages of their own": (256, 4096, 256),
    "128 B each in its page": (128, 4096, 128),
    "64 B each in its page": (64, 4096, 128),
    "32 B each in its page": (32, 4096, 128),
    "4 B each in its page": (4, 4096, 128),
    "every second access of a page": (64, 128, 64),
    "every eighth word": (4, 32, 32),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_is_a_weight_on_the_slice_and_the_time_is_its_closed_form(pattern: str) -> None:
    run, apart, charged = PATTERNS[pattern]
    count = 64
    record = read_time(box(pointer(0), (count, run), i8, strides=(apart, 1)), count * run)
    weighted = count * charged

    assert abs(record.duration_ps - HEAD_PS - drain_ps(weighted)) <= drain_ps(PAGE_MINIMUM_BYTES)
    assert 0.95 <= drain_ps(count * run) / (record.duration_ps - HEAD_PS) / (run / charged) <= 1.05


@given(st.integers(1, 200), st.integers(1, 200))
@settings(max_examples=60, deadline=None)
def test_efficiency_is_never_above_1_and_never_below_one_byte_a_page(count: int, size: int) -> None:
    offsets = np.arange(count, dtype=np.int64) * 2 * PAGE_BYTES
    charged = charged_bytes(offsets, np.full(count, size, np.int64))

    assert count * size <= charged
    assert charged <= max(count * (size + 2 * ACCESS_BYTES), count * PAGE_MINIMUM_BYTES)


def test_a_longer_run_is_never_less_efficient() -> None:
    shares = [size / charged_bytes(np.arange(16) * 4096, np.full(16, size)) for size in (4, 8, 16, 32, 64, 128, 256)]

    assert shares == sorted(shares)
    assert shares[0] * 16 == 4 / PAGE_MINIMUM_BYTES


def test_half_the_bandwidth_is_reached_at_latency_times_bandwidth() -> None:
    """The size curve of a lone transfer: time = latency + bytes / bandwidth, half of it at their product."""
    half = int(HEAD_PS * 135.9 / 1000)
    record = read_time(box(pointer(0), (half,), i8), half)

    assert half * 1000 / record.duration_ps == pytest.approx(135.9 / 2, rel=0.001)
