"""Field cases on networks, timing and topologies that have no test beside the code they concern.

Their sources are public issues of neighbouring tools; each test names its case.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kernbench.session as kb
from kernbench.cli.main import main
from kernbench.dtypes import i8
from kernbench.probe.catalog import catalog_of
from kernbench.probe.measure import measure
from kernbench.sim.topology import check_topology, load_topology_text
from tests.sim.pe_helpers import Bench, box, pointer, program, read, tcm
from tests.trust.helpers import DEFAULT, one_pe

LOOP = """
import triton
import triton.language as tl

@triton.jit
def k(A, B, C, K: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.arange(0, 32)[:, None]
    columns = tl.arange(0, 32)[None, :]
    depth = tl.arange(0, BLOCK)
    acc = tl.zeros((32, 32), tl.float32)
    for k0 in tl.range(0, K, BLOCK, num_stages=STAGES):
        a = tl.load(A + rows * BLOCK + (k0 + depth)[None, :])
        b = tl.load(B + (k0 + depth)[:, None] * 32 + columns)
        acc += tl.dot(a, b)
    tl.store(C + rows * 32 + columns, acc)
"""
SCALE = """
import triton
import triton.language as tl

@triton.jit
def k(X, Y, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(Y + at, tl.load(X + at) * 2.0)
"""
PRODUCT = """
import triton
import kernbench.language as tl

@triton.jit
def k(A, B, C, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    tl.composite(op="gemm", a=tl.ref(A, (M, K)), b=tl.ref(B, (K, N)), out=tl.ref(C, (M, N)))
"""


def mesh(w: int, h: int) -> Any:
    ports = [{"cube": {"xy": [x, 0]}, "cube_side": "N", "phy": f"P{x}", "distance_mm": 2} for x in range(w)]
    chiplet = {**json.loads(json.dumps(DEFAULT.config["io_chiplets"][0])), "cube_ports": ports}
    config = {"extends": "ahbm_1x1", "sip": {"cube_mesh": {"w": w, "h": h}}, "io_chiplets": [chiplet]}
    return load_topology_text(json.dumps(config))


@pytest.mark.parametrize(("w", "h"), [(10, 10), (3, 5), (5, 3), (7, 1)])
def test_every_case_of_any_mesh_ends_inside_of_it(w: int, h: int) -> None:
    """FC-NO11 (noxim #140): no pattern needs a power of two, and none leaves the mesh."""
    graph = mesh(w, h)
    catalog = catalog_of(graph)
    for case in catalog.cases:
        for source, (cube, pe) in case.flows:
            assert f"sip0.cube{cube}.hbm_ctrl.pe{pe}" in graph.nodes
            assert source is None or f"sip0.cube{source[0]}.pe{source[1]}.pe_dma" in graph.nodes
    corner = next(case for case in catalog.cases if case.name == "pe-cross-cube-hbm-worst")
    assert corner.flows[0][1] == (w * h - 1, 0)
    assert measure(graph, corner, 64).total_ps[0] > 0


@pytest.mark.parametrize("window", [1, 4])
def test_never_more_transfers_are_under_way_than_the_window_holds(window: int) -> None:
    """FC-NO14 (booksim #33): counted at every start and end, and back to 0 at the end."""
    bench = Bench("timing", pe_dma=replace(DEFAULT.spec.pe.pe_dma, outstanding=window))
    tensor, _ = bench.put(np.zeros(16 * 16384, np.int8))
    body = [read(n, tcm(n * 16384, (16384,), i8), box(pointer(0, n * 16384), (16384,), i8)) for n in range(16)]
    bench.run(program(body), [tensor])
    records = bench.records("dma_read")
    changes = sorted([(r.t_end_ps, -1) for r in records] + [(r.t_start_ps, 1) for r in records])
    under_way = np.cumsum([change for _, change in changes])

    assert len(records) == 16
    assert under_way.max() == window and under_way[-1] == 0


def test_operands_in_hbm_cost_their_transfer_and_nothing_happens_before_zero() -> None:
    """FC-TI10 (SCALE-Sim #15)."""
    arrays = {
        "A": np.zeros((64, 64), np.float16),
        "B": np.zeros((64, 64), np.float16),
        "C": np.zeros((64, 64), np.float32),
    }
    kernel = kb.compile(PRODUCT, {"M": 64, "K": 64, "N": 64})
    run = kb.open("ahbm_1x1").run(kernel, arrays, grid=(1,), mode="timing")
    assert run.op_log is not None
    bound_ns = (2 * 8192 + 16384) / 135.9 + 54.1

    assert min(record.t_start_ps for record in run.op_log) == 0
    assert next(iter(run.pe_exec_ns.values())) >= bound_ns


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("depth", [0, 32])
def test_a_loop_of_one_trip_or_none_ends_and_gives_the_unpipelined_result(stages: int, depth: int) -> None:
    """FC-TI24 (tilelang #2566)."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(32, 32)).astype(np.float16), rng.normal(size=(32, 32)).astype(np.float16)
    kernel = kb.compile(LOOP.replace("STAGES", str(stages)), {"K": depth, "BLOCK": 32})
    run = kb.open("ahbm_1x1").run(kernel, {"A": a, "B": b, "C": np.full((32, 32), 7, np.float32)}, grid=(1,))
    expected = a.astype(np.float64) @ b.astype(np.float64) if depth else np.zeros((32, 32))

    np.testing.assert_allclose(run["C"], expected, atol=1e-2)


def test_tcm_size_is_what_compiler_and_simulator_both_follow() -> None:
    """FC-SC16 (PyTorchSim #43, #64): a block of 32 KiB and its product in 1 MiB, in 64 KiB, in 32 KiB."""
    kernel = kb.compile(SCALE, {"B": 8192})
    args = {"X": np.ones(8192, np.float32), "Y": np.zeros(8192, np.float32)}
    for size in (1 << 20, 1 << 16):
        run = kb.open(one_pe(tcm_bytes=size)).run(kernel, args, grid=(1,))
        np.testing.assert_array_equal(run["Y"], np.full(8192, 2, np.float32))
    with pytest.raises(kb.KernBenchError, match="E_TCM"):
        kb.open(one_pe(tcm_bytes=1 << 14)).run(kernel, args, grid=(1,))


def test_the_tile_of_the_matrix_engine_is_what_both_follow() -> None:
    """FC-SC16: an engine of 128 and of 8; small tiles work and cost more of them."""
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(40, 50)).astype(np.float16), rng.normal(size=(50, 30)).astype(np.float16)
    tiles = []
    for size in (128, 8):
        kernel = kb.compile(PRODUCT, {"M": 40, "K": 50, "N": 30})
        run = kb.open(one_pe(tile=(size, size, size))).run(
            kernel, {"A": a, "B": b, "C": np.zeros((40, 30), np.float32)}, grid=(1,)
        )
        np.testing.assert_allclose(run["C"], a.astype(np.float64) @ b.astype(np.float64), atol=2e-2)
        assert run.op_log is not None
        tiles.append(len(list(run.op_log.where(op_kind="gemm"))))

    assert tiles == [1, 5 * 7 * 4]


def test_a_tag_that_would_make_an_object_is_refused(tmp_path: Any) -> None:
    """FC-SC17 (PyYAML): nothing is executed, and the place is told."""
    witness = tmp_path / "witness"
    text = f"extends: ahbm_1x1\nname: !!python/object/apply:os.mkdir ['{witness}']\n"
    found = check_topology("evil.yaml", text)

    assert [each.code for each in found if each.severity == "error"]
    assert found[0].primary is not None and found[0].primary.span.line == 2
    assert not witness.exists()


def test_a_listing_into_a_closed_pipe_ends_quietly() -> None:
    """FC-CL01 (Backblaze B2 CLI #1071): `probe` into a reader that takes one line."""
    command = [sys.executable, "-u", "-m", "kernbench", "probe", "-t", "ahbm_1x1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        first = process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        code = process.wait()

    assert first.startswith(b"probe of ahbm_1x1")
    assert (code in (0, 141), errors) == (True, b"")


def test_times_do_not_change_with_the_unit_that_a_rate_is_read_in(capsys: Any) -> None:
    """FC-TI03 (scalesim #24): 4096 B over 32 GB/s take 128 ns of drain, whatever the type of the elements."""
    graph = one_pe(hbm_gbs=32)
    case = next(case for case in catalog_of(graph).cases if case.name == "pe-local-hbm")
    head = measure(graph, case, 0).total_ps[0]

    assert measure(graph, case, 4096).total_ps[0] - head == 128_000
    assert 0 == main(["topo", "show", "ahbm_1x1"])
    assert "GB/s" in capsys.readouterr().out
