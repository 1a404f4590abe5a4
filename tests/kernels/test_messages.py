"""The shipped kernels that send messages: values, equal logs, what the links carry, and that no floor is undercut."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pytest

from kernbench.data_files import data_dir
from kernbench.kernel import make_kernel
from kernbench.run import Run
from kernbench.runtime.bench import BenchCase, load_bench
from kernbench.session import open as open_device
from tests.kernels.helpers import log_text

KERNELS = [
    "all_reduce::ring_all_reduce",
    "all_reduce::tree_all_reduce",
    "gqa_decode_long::gqa_decode_long",
    "gemm_tensor_parallel::gemm_tensor_parallel",
]


@cache
def run(kernel: str, case: str = "tiny", mode: str = "data", **sets: Any) -> tuple[Run, BenchCase]:
    file, _, name = kernel.partition("::")
    bench = load_bench(data_dir("kernels") / f"{file}.yaml", case, {key: str(value) for key, value in sets.items()})
    made = make_kernel(f"{data_dir('kernels') / file}.tl::{name}", dict(bench.constexprs), opt_level=bench.opt_level)
    given: dict[str, Any] = {**bench.scalars, **bench.arrays()}
    arguments = {key: value for key, value in given.items() if key in made.params}
    device = open_device(bench.topology or "ahbm_4x4")
    return device.run(made, arguments, bench.grid, bench.placements, mode=mode), bench


@pytest.mark.parametrize("kernel", KERNELS)
def test_results_are_those_of_the_bench(kernel: str) -> None:
    found, bench = run(kernel)

    checks = bench.check({name: found[name] for name in bench.references})
    assert checks and all(check["ok"] for check in checks.values()), checks


@pytest.mark.parametrize("kernel", KERNELS)
def test_timing_mode_writes_the_same_log(kernel: str) -> None:
    assert log_text(run(kernel)[0]) == log_text(run(kernel, mode="timing")[0])


@pytest.mark.parametrize("kernel", KERNELS)
def test_all_pes_start_at_one_instant(kernel: str) -> None:
    found, _ = run(kernel)
    assert found.op_log is not None

    starts = [record.t_start_ps for record in found.op_log if record.op_kind == "kernel"]
    assert (len(found.pe_exec_ns), 1) == (len(starts), len(set(starts)))


@pytest.mark.parametrize(("case", "size", "block"), [("tiny", 128, 32), ("tiny", 256, 32), ("one_cube", 512, 64)])
def test_each_link_of_the_ring_carries_its_share(case: str, size: int, block: int) -> None:
    found, bench = run("all_reduce::ring_all_reduce", case, "timing", size=size, BLOCK=block)
    pes = bench.scalars["PES"]

    sent = [link.nbytes for link in found.links if ".pe_ipcq -> " in link.name]
    come = [link.nbytes for link in found.links if link.name.endswith(".pe_ipcq")]
    share, rest = divmod(2 * (pes - 1) * size * 4, pes)
    assert (rest, [share] * pes, [share] * pes) == (0, sent, come)


def test_a_tree_sends_less_often_and_more_at_once() -> None:
    ring, tree = (run(f"all_reduce::{name}_all_reduce", "tiny", "timing")[0] for name in ("ring", "tree"))

    def sends(found: Run) -> int:
        assert found.op_log is not None
        return sum(record.op_kind == "send" for record in found.op_log)

    # 4 PEs, blocks of 32: a ring sends 2 × 3 parts of one block each from each PE, a tree 2 × 3 vectors of 4 blocks.
    assert (4 * 2 * 3, 2 * 3 * 4) == (sends(ring), sends(tree))


@pytest.mark.parametrize("positions", [256, 1024])
def test_a_long_context_takes_no_less_than_its_bytes(positions: int) -> None:
    found, bench = run("gqa_decode_long::gqa_decode_long", "tiny", "timing", S=positions)
    slices = open_device(bench.topology or "").graph.spec.cube.hbm.bw_gbs
    nbytes = 2 * positions * bench.constexprs["D"] * 2

    assert max(found.pe_exec_ns.values()) >= Decimal(nbytes) / (slices * 4)


def test_parts_of_a_context_give_the_attention_of_the_whole() -> None:
    """The same inputs over 1, 2 and 4 PEs."""
    whole, _ = run("gqa_decode_long::gqa_decode_long", "tiny")
    bench = load_bench(data_dir("kernels") / "gqa_decode_long.yaml", "tiny")
    made = make_kernel(data_dir("kernels") / "gqa_decode_long.tl", dict(bench.constexprs))
    given: dict[str, Any] = {**bench.scalars, **bench.arrays()}
    alone = open_device("ahbm_1x1").run(made, given, None, bench.placements)

    np.testing.assert_allclose(alone["O"], whole["O"], rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_a_whole_device_is_right() -> None:
    """131,072 positions over 128 PEs, and a product over both packages."""
    for kernel in ("gqa_decode_long::gqa_decode_long", "gemm_tensor_parallel::gemm_tensor_parallel"):
        found, bench = run(kernel, None)  # type: ignore[arg-type]
        checks = bench.check({name: found[name] for name in bench.references})
        assert all(check["ok"] for check in checks.values()), checks
