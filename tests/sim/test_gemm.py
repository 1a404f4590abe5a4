"""Composites with a GEMM: values of every combination of places, order and cost of their stages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.commands import Loop, Node, Scope, TensorHandle, accumulator, affine
from kernbench.dtypes import DType, bf16, fp8e4nv, fp16, fp32, fp64, i8, i32
from kernbench.sim.topology import load_topology
from tests.sim.pe_helpers import (
    Bench,
    box,
    composite,
    gemm_op,
    hbm,
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

RNG = np.random.default_rng(7)
DTYPES = {"fp16": fp16, "bf16": bf16, "fp32": fp32, "fp8": fp8e4nv}


def both_modes(body: list[Node], arrays: list[np.ndarray], **fields: Any) -> tuple[list[np.ndarray], Bench]:
    out, bench, result = run_values(body, arrays, mode="data", **fields)
    _, other, _ = run_values(body, arrays, mode="timing", **fields)
    assert result.ok, result.message
    assert log_text(bench) == log_text(other)
    return out, bench


def product_body(
    m: int, k: int, n: int, spaces: str, dtypes: tuple[DType, DType, DType] = (fp16, fp16, fp32), rings: bool = True
) -> list[Node]:
    """out = a @ b, each in HBM ("h") or TCM ("t"); what is in TCM is loaded before and stored after."""
    places = (0, 400_000, 800_000)
    shapes = ((m, k), (k, n), (m, n))
    handles: list[TensorHandle] = []
    for register, (space, at, shape, dtype) in enumerate(zip(spaces, places, shapes, dtypes, strict=True)):
        if space == "h":
            handles.append(hbm(pointer(register), shape, dtype))
        else:
            handles.append(tcm(at, shape, dtype))
    a, b, out = handles
    extra: dict[str, Any] = {}
    if rings:
        slot = 64 * 64 * 4
        named = zip(("a", "b", "out"), spaces, strict=True)
        extra["rings"] = tuple((name, 1_200_000 + 40_000 * i, 2, slot) for i, (name, s) in enumerate(named) if s == "h")
    body: list[Node] = []
    for register, handle in enumerate((a, b)):
        if handle.space == "tcm":
            body.append(read(10 + register, handle, box(pointer(register), handle.shape, handle.dtype)))
    body.append(composite(1, gemm_op(a, b, out, **extra)))
    if out.space == "tcm":
        body.append(write(20, out, box(pointer(2), out.shape, out.dtype)))
    return body


def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64)


@pytest.mark.parametrize("spaces", ["hhh", "hht", "hth", "thh", "htt", "tht", "tth", "ttt"])
def test_every_combination_of_places(spaces: str) -> None:
    m, k, n = 70, 130, 100
    a, b = RNG.normal(size=(m, k)).astype(np.float16), RNG.normal(size=(k, n)).astype(np.float16)
    out, bench = both_modes(product_body(m, k, n, spaces), [a, b, np.zeros((m, n), np.float32)])
    moved = {record.op_name for record in bench.records() if record.op_name in ("a", "b", "out")}

    np.testing.assert_allclose(out[2], reference(a, b), atol=1e-2)
    assert {name for name, space in zip(("a", "b", "out"), spaces, strict=True) if space == "h"} == moved


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from((1, 3, 63, 64, 65, 130)), st.sampled_from((1, 64, 65, 129)), st.sampled_from((1, 31, 64, 127)),
    st.sampled_from(("hhh", "hht", "tth")),
)  # fmt: skip
def test_edge_shapes(m: int, k: int, n: int, spaces: str) -> None:
    a, b = RNG.normal(size=(m, k)).astype(np.float32), RNG.normal(size=(k, n)).astype(np.float32)
    body = product_body(m, k, n, spaces, (fp32, fp32, fp32))
    out, _ = both_modes(body, [a, b, np.full((m, n), np.nan, np.float32)])

    np.testing.assert_allclose(out[2], reference(a, b), atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_operand_types_accumulate_in_fp32(name: str) -> None:
    dtype = DTYPES[name]
    a = RNG.normal(size=(65, 200)).astype(dtype.numpy)
    b = RNG.normal(size=(200, 33)).astype(dtype.numpy)
    out, _ = both_modes(product_body(65, 200, 33, "hht", (dtype, dtype, fp32)), [a, b, np.zeros((65, 33), np.float32)])

    np.testing.assert_allclose(out[2], reference(a, b), atol=1e-3, rtol=1e-4)


def test_integers_accumulate_in_int32() -> None:
    a, b = RNG.integers(-128, 128, (70, 300)).astype(np.int8), RNG.integers(-128, 128, (300, 9)).astype(np.int8)
    out, _ = both_modes(product_body(70, 300, 9, "hht", (i8, i8, i32)), [a, b, np.zeros((70, 9), np.int32)])

    np.testing.assert_array_equal(a.astype(np.int64) @ b.astype(np.int64), out[2])


def test_the_wider_of_two_float_types_is_rounded_to_the_narrower() -> None:
    a, b = RNG.normal(size=(8, 8)).astype(np.float32), RNG.normal(size=(8, 8)).astype(ml_dtypes.bfloat16)
    out, _ = both_modes(product_body(8, 8, 8, "htt", (fp32, bf16, fp32)), [a, b, np.zeros((8, 8), np.float32)])

    np.testing.assert_allclose(out[2], reference(a.astype(ml_dtypes.bfloat16), b), rtol=1e-5, atol=1e-5)


def test_a_type_that_the_engine_does_not_multiply_is_a_fault() -> None:
    body = product_body(8, 8, 8, "hht", (fp64, fp64, fp64))
    _, _, result = run_values(body, [np.zeros((8, 8))] * 3)

    assert (False, "E_GEMM_DTYPE") == (result.ok, result.error_code)


# --------------------------------------------------------------------------- epilogues


def epilogue_case(scope: Scope, out_space: str) -> tuple[list[Node], list[np.ndarray], np.ndarray]:
    """relu(a @ b + bias + old): bias is a row, `old` a whole block."""
    m, k, n = 130, 70, 100
    a, b = RNG.normal(size=(m, k)).astype(np.float16), RNG.normal(size=(k, n)).astype(np.float16)
    bias, old = RNG.normal(size=n).astype(np.float32), RNG.normal(size=(m, n)).astype(np.float32)
    acc = accumulator((m, n), fp32)
    row = tcm(0, (m, n), strides=(0, 1), name="bias")
    block = tcm(1024, (m, n), name="old")
    out = tcm(100_000, (m, n)) if out_space == "t" else hbm(pointer(4), (m, n))
    target = out if scope is Scope.KERNEL else acc
    ops = [
        math_op("add", target, scope, src_a=target, src_b=row),
        math_op("add", target, scope, src_a=target, src_b=block),
        math_op("max_elem", target, scope, src_a=target, src_b=0.0),
    ]
    head = gemm_op(hbm(pointer(0), (m, k), fp16), hbm(pointer(1), (k, n), fp16), out)
    body: list[Node] = [
        read(0, tcm(0, (n,)), box(pointer(2), (n,))),
        read(1, block, box(pointer(3), (m, n))),
        composite(2, head, *ops),
    ]
    if out_space == "t":
        body.append(write(3, out, box(pointer(4), (m, n))))
    arrays = [a, b, bias, old, np.zeros((m, n), np.float32)]
    return body, arrays, np.maximum(reference(a, b) + bias + old, 0)


@pytest.mark.parametrize(
    ("scope", "out_space"), [(Scope.OUTPUT_TILE, "t"), (Scope.OUTPUT_TILE, "h"), (Scope.KERNEL, "t")]
)
def test_epilogues(scope: Scope, out_space: str) -> None:
    body, arrays, expected = epilogue_case(scope, out_space)
    out, bench = both_modes(body, arrays)
    runs = 6 if scope is Scope.OUTPUT_TILE else 1

    np.testing.assert_allclose(out[4], expected, atol=1e-2)
    assert 3 * runs == len(bench.records("math"))


def test_k_tile_ops_act_on_each_partial_product() -> None:
    """Doubling and halving every partial product; max(partial, 0) is not max(total, 0)."""
    m, k, n = 10, 130, 20
    a, b = RNG.normal(size=(m, k)).astype(np.float32), RNG.normal(size=(k, n)).astype(np.float32)
    acc, out = accumulator((m, n), fp32), tcm(0, (m, n))
    head = gemm_op(hbm(pointer(0), (m, k)), hbm(pointer(1), (k, n)), out)
    relu = math_op("max_elem", acc, Scope.K_TILE, src_a=acc, src_b=0.0)
    body: list[Node] = [composite(0, head, relu), write(1, out, box(pointer(2), (m, n)))]
    values, bench = both_modes(body, [a, b, np.zeros((m, n), np.float32)])
    expected = sum(np.maximum(reference(a[:, s : s + 64], b[s : s + 64]), 0) for s in (0, 64, 128))

    np.testing.assert_allclose(values[2], expected, atol=1e-3)
    assert 3 == len(bench.records("math"))


def test_a_column_is_cut_along_m() -> None:
    m, k, n = 130, 8, 70
    a, b, scale = (RNG.normal(size=s).astype(np.float32) for s in ((m, k), (k, n), (m,)))
    acc, out = accumulator((m, n), fp32), tcm(4096, (m, n))
    head = gemm_op(hbm(pointer(0), (m, k)), hbm(pointer(1), (k, n)), out)
    vector = tcm(0, (m,))
    body: list[Node] = [
        read(0, vector, box(pointer(2), (m,))),
        composite(1, head, math_op("mul_bcast", acc, Scope.OUTPUT_TILE, src_a=acc, src_b=vector, bcast_axis=1)),
        write(2, out, box(pointer(3), (m, n))),
    ]
    values, _ = both_modes(body, [a, b, scale, np.zeros((m, n), np.float32)])

    np.testing.assert_allclose(values[3], reference(a, b) * scale[:, None], atol=1e-4, rtol=1e-4)


# --------------------------------------------------------------------------- stages and time


def test_stages_go_m_n_k_and_each_product_follows_its_fetch() -> None:
    m, k, n = 128, 128, 128
    body = product_body(m, k, n, "tth")
    arrays = [np.zeros((m, k), np.float16), np.zeros((k, n), np.float16), np.zeros((m, n), np.float32)]
    _, bench = both_modes(body, arrays)
    fetches, products = bench.records("fetch"), bench.records("gemm")

    assert list(range(8)) == [r.tile for r in fetches] == [r.tile for r in products]
    assert all(f.t_end_ps <= g.t_start_ps for f, g in zip(fetches, products, strict=True))
    assert [1, 3, 5, 7] == [r.tile for r in bench.records("store")] == [r.tile for r in bench.records("dma_write")]
    assert {2 * 64**3} == {r.flops for r in products}


def test_a_tile_still_in_its_ring_is_not_read_again() -> None:
    """Two depth tiles fit in the ring of `a`, so a row of tiles reads them once for all of its three columns."""
    m, k, n = 128, 128, 192
    arrays = [np.zeros((m, k), np.float16), np.zeros((k, n), np.float16), np.zeros((m, n), np.float32)]
    _, bench = both_modes(product_body(m, k, n, "hht"), arrays)
    reads = bench.records("dma_read")

    assert 4 == sum(r.op_name == "a" for r in reads)
    assert 12 == sum(r.op_name == "b" for r in reads)


def test_tiles_are_read_ahead_as_far_as_their_ring_goes() -> None:
    m, k, n = 64, 512, 64
    arrays = [np.zeros((m, k), np.float16), np.zeros((k, n), np.float16), np.zeros((m, n), np.float32)]
    _, bench = both_modes(product_body(m, k, n, "hht"), arrays)
    fetch = {r.tile: r for r in bench.records("fetch")}
    reads = [r for r in bench.records("dma_read") if r.op_name == "a"]

    assert all(r.t_start_ps >= fetch[r.tile - 2].t_end_ps for r in reads if r.tile >= 2)
    assert any(r.t_start_ps == fetch[r.tile - 2].t_end_ps for r in reads if r.tile >= 2)


@pytest.mark.parametrize(("m", "k", "n"), [(1024, 256, 256), (512, 512, 512), (64, 4096, 64), (256, 256, 1024)])
def test_large_products_come_within_five_percent_of_their_bound(m: int, k: int, n: int) -> None:
    """With operands in TCM the multiplier is the bound."""
    bench = Bench("timing")
    a, b, out = tcm(0, (m, k), fp16), tcm(0, (k, n), fp16), tcm(0, (m, n), fp16)
    handles = [
        TensorHandle(number, "x", 0, h.shape, (0, 0), h.dtype, "tcm") for number, h in enumerate((a, b, out))
    ]  # places do not matter to time
    result = bench.run(program([composite(0, gemm_op(*handles))], 0), [])
    (dispatch,) = bench.records("dispatch")
    bound = -(-m * k * n // 2048) * 1000
    assert result.exec_end_ps is not None
    taken = result.exec_end_ps - dispatch.t_end_ps

    assert bound <= taken <= 1.05 * bound


def test_m_1_is_cheaper_than_m_256() -> None:
    def time(m: int) -> int:
        a, b, out = tcm(0, (m, 768), fp16), tcm(400_000, (768, 256), fp16), tcm(800_000, (m, 256))
        _, bench, _ = run_values([composite(0, gemm_op(a, b, out))], [np.zeros(1, np.float32)], mode="timing")
        return bench.records("kernel")[0].duration_ps

    assert time(1) < time(256) / 3


def test_halving_the_rate_doubles_the_compute_time() -> None:
    spec = load_topology("ahbm_1x1").spec.pe
    half = {name: rate // 2 for name, rate in spec.pe_gemm.macs_per_cycle.items()}
    busy = []
    for gemm in (spec.pe_gemm, replace(spec.pe_gemm, macs_per_cycle=half)):
        bench = Bench("timing", pe_gemm=gemm)
        a, b, out = tcm(0, (256, 256), fp16), tcm(200_000, (256, 256), fp16), tcm(400_000, (256, 256))
        bench.run(program([composite(0, gemm_op(a, b, out))], 0), [])
        busy.append(sum(record.duration_ps for record in bench.records("gemm")))

    assert 2 * busy[0] == busy[1]


def test_operands_in_hbm_take_longer_by_at_least_their_transfer() -> None:
    arrays = [np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float32)]

    def time(spaces: str) -> int:
        body = [node for node in product_body(64, 64, 64, spaces) if type(node).__name__ == "CompositeTemplate"]
        _, bench, _ = run_values(body, arrays, mode="timing")
        return bench.records("kernel")[0].duration_ps

    assert time("hht") - time("ttt") >= 2 * 8192 * 10**12 // 135_900_000_000 + 54_100


# --------------------------------------------------------------------------- several composites


def decode_step(number: int) -> list[Node]:
    """Two composites of an attention step: scores, then a chain before the second product."""
    g, d, t = 4, 128, 64
    q, s = tcm(0, (g, d), fp16), tcm(4096, (g, t))
    m, out = tcm(8192, (g,)), tcm(16384, (g, d))
    k = hbm(pointer(1, affine(0, {3: t * d * 2})), (d, t), fp16, strides=(1, d))
    v = hbm(pointer(2, affine(0, {3: t * d * 2})), (t, d), fp16)
    p, acc = tcm(12288, (g, t)), accumulator((g, d), fp32)
    ring = (("b", 65536, 2, 8192),)
    first = composite(number, gemm_op(q, k, s, rings=ring), line=1)
    second = composite(
        number + 1,
        math_op("rmax", m, src=s, axis=1),
        math_op("exp_diff", p, src_a=s, src_b=m, bcast_axis=1),
        gemm_op(p, v, out, rings=(("b", 98304, 2, 8192),)),
        math_op("add", acc, Scope.OUTPUT_TILE, src_a=acc, src_b=out),
        rw_handles=(m, out),
        line=2,
    )
    return [first, second]


def test_the_second_operand_is_read_when_the_head_starts_and_not_before() -> None:
    loop = Loop(3, 0, 4, 1, tuple(decode_step(0)), span=span(9))
    keys = RNG.normal(size=(256, 128)).astype(np.float16)
    _, bench = both_modes(
        [read(90, tcm(0, (4, 128), fp16), box(pointer(0), (4, 128), fp16)), loop],
        [RNG.normal(size=(4, 128)).astype(np.float16), keys, keys],
        registers=[i32],
    )
    for number in (2, 4, 6, 8):
        before = [r for r in bench.records("math") if r.cmd == number and r.tile == -1]
        reads = [r for r in bench.records("dma_read") if r.cmd == number]
        assert len(reads) == 2 and len(before) == 2
        assert min(r.t_start_ps for r in reads) >= max(r.t_end_ps for r in before)


def test_composites_that_share_state_do_not_interleave() -> None:
    state, other = tcm(0, (1024,)), tcm(8192, (1024,))
    chain = [math_op("exp", state, src=state), math_op("neg", state, src=state)]
    body: list[Node] = [composite(k, *chain, rw_handles=(state,)) for k in range(3)]
    body.append(composite(9, math_op("exp", other, src=other)))
    _, bench, _ = run_values(body, [np.zeros(1, np.float32)])
    order = [record.cmd for record in bench.records("math")]

    assert [0, 0, 1, 1, 2, 2, 3] == order


def test_one_ring_serves_composites_in_turn() -> None:
    """Two products through one ring, issued one after the other without a conflict, share its slots in order."""
    m, k, n = 64, 256, 64
    a, b = RNG.normal(size=(2, m, k)).astype(np.float16), RNG.normal(size=(k, n)).astype(np.float16)
    outs = [tcm(400_000 * i, (m, n)) for i in (0, 1)]
    shared = hbm(pointer(1), (k, n), fp16)
    rings = (("a", 1_000_000, 2, 8192), ("b", 1_100_000, 2, 8192))
    body: list[Node] = [
        composite(i, gemm_op(hbm(pointer(0, 2 * i * m * k), (m, k), fp16), shared, outs[i], rings=rings))
        for i in (0, 1)
    ]
    body += [write(10 + i, outs[i], box(pointer(2, 4 * i * m * n), (m, n))) for i in (0, 1)]
    out, bench = both_modes(body, [a, b, np.zeros((2, m, n), np.float32)])
    fetches = [(r.cmd, r.tile) for r in bench.records("fetch")]
    last_fetch = next(r for r in bench.records("fetch") if (r.cmd, r.tile) == (0, 3))
    early = [r for r in bench.records("dma_read") if r.cmd == 1 and r.t_start_ps < last_fetch.t_end_ps]

    np.testing.assert_allclose(out[2], np.stack([reference(a[0], b), reference(a[1], b)]), atol=1e-2)
    assert [(c, t) for c in (0, 1) for t in range(4)] == fetches
    assert early
