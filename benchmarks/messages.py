"""Print the tables of `docs/messages.md`: one long context over more and more PEs, and all-reduce by ring and tree.

Timing mode; simulated time depends on no machine, so the tables are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kernbench.data_files import data_dir
from kernbench.kernel import make_kernel
from kernbench.run import Run
from kernbench.runtime.bench import load_bench
from kernbench.session import open as open_device
from kernbench.sim.op_log import OpRecord

PE0 = "sip0.cube0.pe0"
CONTEXTS = {"one_pe": 1, "one_cube": 8, "four_cubes": 32, None: 128}
SIZES = (1024, 16384, 131072)  # fp32 elements of each of 128 PEs


def run(kernel: str, name: str, case: str | None, **sets: int) -> Run:
    bench = load_bench(data_dir("kernels") / f"{kernel}.yaml", case, {key: str(value) for key, value in sets.items()})
    made = make_kernel(f"{data_dir('kernels') / kernel}.tl::{name}", dict(bench.constexprs), opt_level=bench.opt_level)
    given: dict[str, Any] = {**bench.scalars, **bench.arrays()}
    arguments = {key: value for key, value in given.items() if key in made.params}
    device = open_device(bench.topology or "ahbm_4x4")
    found = device.run(made, arguments, bench.grid, bench.placements, mode="timing")
    return replace(found, arrays={})


def of_pe0(found: Run, kind: str, part: str) -> list[OpRecord]:
    assert found.op_log is not None
    return [record for record in found.op_log if (record.op_kind, record.component) == (kind, f"{PE0}.{part}")]


def long_context() -> Iterator[str]:
    """Of PE 0, which is the last to end: time from the barrier, and of that what comes after its own attention."""
    yield "| PEs | time of PE 0 | HBM floor | share of HBM bandwidth | merging | share of merging |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for case, pes in CONTEXTS.items():
        found = run("gqa_decode_long", "gqa_decode_long", case)
        (kernel,) = of_pe0(found, "kernel", "pe_cpu")
        whole_ps = kernel.duration_ps
        merging_ps = kernel.t_end_ps - of_pe0(found, "gemm", "pe_gemm")[-1].t_end_ps
        floor_ps = 2 * 131072 * 128 * 2 * 10_000 // (1359 * pes)  # K and V over the bandwidth of the slices
        yield (
            f"| {pes} | {whole_ps / 1000:,.0f} ns | {floor_ps / 1000:,.0f} ns | {floor_ps / whole_ps:.1%} "
            f"| {merging_ps / 1000:,.0f} ns | {merging_ps / whole_ps:.1%} |"
        )


def all_reduce() -> Iterator[str]:
    yield "| bytes a PE | ring | tree | ring sends a link | tree sends at most |"
    yield "|---:|---:|---:|---:|---:|"
    for size in SIZES:
        block = min(1024, size // 128)
        ring = run("all_reduce", "ring_all_reduce", None, size=size, BLOCK=block)
        tree = run("all_reduce", "tree_all_reduce", None, size=size, BLOCK=min(4096, size))
        yield (
            f"| {4 * size:,} | {_exec_ns(ring):,.0f} ns | {_exec_ns(tree):,.0f} ns "
            f"| {max(_sent(ring)):,} B | {max(_sent(tree)):,} B |"
        )


def _exec_ns(found: Run) -> float:
    return max(found.pe_exec_ns.values())


def _sent(found: Run) -> list[int]:
    """Bytes over the link from each PE's queues to the network."""
    return [link.nbytes for link in found.links if ".pe_ipcq -> " in link.name]


if __name__ == "__main__":
    for table in (long_context, all_reduce):
        for line in table():
            print(line, flush=True)
        print()
