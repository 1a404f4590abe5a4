"""Field cases of numerics, from a kernel's text to values, in both modes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kernbench as kb
from tests.kernels.running import codes, kernel, moved, run

f32 = np.float32

SOFTMAX = """
@triton.jit
def online_softmax(x, y, n, TILE: tl.constexpr):
    start = -float("inf")
    m = tl.full((1,), start, tl.float32)
    l = tl.zeros((1,), tl.float32)
    for i in range(0, tl.cdiv(n, TILE)):
        at = i * TILE + tl.arange(0, TILE)
        tile = tl.load(x + at, mask=at < n, other=-float("inf"))
        larger = tl.maximum(m, tl.max(tile, axis=0))
        base = tl.where(larger == -float("inf"), 0.0, larger)
        l = l * tl.exp(m - base) + tl.sum(tl.exp(tile - base), axis=0)
        m = larger
    for i in range(0, tl.cdiv(n, TILE)):
        at = i * TILE + tl.arange(0, TILE)
        tile = tl.load(x + at, mask=at < n, other=-float("inf"))
        tl.store(y + at, tl.exp(tile - m) / l, mask=at < n)
"""

CROSS_ENTROPY = """
@triton.jit
def cross_entropy(x, loss, label, n, TILE: tl.constexpr):
    m = -float("inf")
    l = 0.0
    for i in range(0, tl.cdiv(n, TILE)):
        at = i * TILE + tl.arange(0, TILE)
        tile = tl.load(x + at, mask=at < n, other=-float("inf"))
        larger = tl.maximum(m, tl.max(tile, axis=0))
        base = tl.where(larger == -float("inf"), 0.0, larger)
        l = l * tl.exp(m - base) + tl.sum(tl.exp(tile - base), axis=0)
        m = larger
    tl.store(loss, tl.log(l) + m - tl.load(x + label))
"""


def test_equal_logits_far_below_zero_share_evenly() -> None:
    """FC-NU02: all logits at −60000; the running maximum starts at −inf, not at a finite stand-in."""
    x = np.full(100, -60000.0, f32)

    found = run(kernel(SOFTMAX, TILE=32), x=x, y=np.zeros_like(x), n=100)

    np.testing.assert_allclose(np.full(100, 0.01), found["y"], rtol=1e-6)


@pytest.mark.parametrize("at", [0, 50_000, 99_999])
def test_a_tile_of_minus_infinity_before_the_valid_one(at: int) -> None:
    """FC-NU03: 100,000 × −inf with one 10, the label there: loss 0, wherever it stands."""
    x = np.full(100_000, -np.inf, f32)
    x[at] = 10

    found = run(kernel(CROSS_ENTROPY, TILE=8192), x=x, loss=np.full(1, 7, f32), label=at, n=x.size)

    assert [0.0] == found["loss"].tolist()


def test_a_masked_load_without_or_with_zero_for_the_rest() -> None:
    """FC-NU04: 16 valid of 256, `other` 0.0 or left out: the sum of the 16."""
    text = """
@triton.jit
def total(x, y, n, OTHER: tl.constexpr):
    at = tl.arange(0, 256)
    if OTHER is None:
        value = tl.load(x + at, mask=at < n)
    else:
        value = tl.load(x + at, mask=at < n, other=OTHER)
    tl.store(y, tl.sum(value, axis=0))
"""
    x = np.ones(256, f32)

    assert [[16.0], [16.0], [256.0]] == [
        run(kernel(text, OTHER=other), x=x, y=np.zeros(1, f32), n=16)["y"].tolist() for other in (0.0, None, 1.0)
    ]


@pytest.mark.parametrize("mask", ["False", "n < 0"])
def test_a_scalar_mask_that_is_false(mask: str) -> None:
    """FC-NU06: the load gives `other`, the store writes nothing, and neither moves a byte; folded or at run time."""
    text = f"""
@triton.jit
def nothing(x, y, z, n):
    at = tl.arange(0, 16)
    value = tl.load(x + at, mask={mask}, other=1.0)
    one = tl.load(x, mask={mask}, other=2.0)
    tl.store(y + at, value + one)
    tl.store(z + at, value, mask={mask})
    tl.store(z, one, mask={mask})
"""
    x, z = np.full(16, 9, f32), np.full(16, 5, f32)

    found = run(text, x=x, y=np.zeros(16, f32), z=z, n=1)

    assert {3.0} == set(found["y"].tolist())
    assert {5.0} == set(found["z"].tolist())
    assert 0 == sum(moved(found, "dma_read"))
    assert 64 == sum(moved(found, "dma_write"))


def test_a_tail_that_is_masked_in_memory_but_not_in_arithmetic() -> None:
    """FC-NU07: 130 elements in tiles of 128; what lies behind the destination is not touched."""
    text = """
@triton.jit
def add(x, y, z, n):
    at = tl.program_id(0) * 128 + tl.arange(0, 128)
    tl.store(z + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)
"""
    x, y = np.arange(130, dtype=f32), np.full(130, 0.5, f32)
    z = np.full(256, np.nan, f32)

    found = run(text, grid=(2,), x=x, y=y, z=z, n=130)

    np.testing.assert_array_equal(x + y, found["z"][:130])
    assert np.isnan(found["z"][130:]).all()
    assert 2 * 130 * 4 == sum(moved(found, "dma_read"))
    assert 130 * 4 == sum(moved(found, "dma_write"))


# --------------------------------------------------------------------------- products

GEMM = """
@triton.jit
def gemm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        left = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0)
        right = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0)
        acc = tl.dot(left, right, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))
"""

REF_GEMM = """
@triton.jit
def whole(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    tl.composite(op="gemm", a=tl.ref(a, (M, K)), b=tl.ref(b, (K, N)), out=tl.ref(c, (M, N)))
"""

SIZES = [(1, 1, 1), (3, 4, 31), (33, 1, 127), (31, 130, 3), (127, 33, 130), (129, 31, 1), (4, 129, 129), (130, 3, 33)]


def factors(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two matrices in fp16, NaN behind each, and their exact product."""
    rng = np.random.default_rng(m * n + k)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    behind = np.full(4096, np.nan, np.float16)
    return np.append(a.ravel(), behind), np.append(b.ravel(), behind), a.astype(np.float64) @ b.astype(np.float64)


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
@pytest.mark.parametrize("block", [32, 128])
def test_products_of_any_size_by_blocks(m: int, n: int, k: int, block: int) -> None:
    """FC-NU08: sizes below, at and beside the block; what lies behind a matrix, NaN here, adds nothing."""
    a, b, exact = factors(m, n, k)
    made = kernel(GEMM, BM=block, BN=block, BK=block)
    grid = (-(-m // block), -(-n // block))

    found = run(made, grid=grid, a=a, b=b, c=np.zeros((m, n), f32), M=m, N=n, K=k)

    np.testing.assert_array_equal(exact, found["c"])


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_products_of_any_size_by_the_engines_own_tiles(m: int, n: int, k: int) -> None:
    """FC-NU08: the same where PE_SCHEDULER cuts the tiles, whose edges are padded."""
    a, b, exact = factors(m, n, k)

    found = run(kernel(REF_GEMM, M=m, N=n, K=k), a=a, b=b, c=np.zeros((m, n), f32))

    np.testing.assert_array_equal(exact, found["c"])


# --------------------------------------------------------------------------- strides and sizes


@pytest.mark.parametrize("topology", ["ahbm_1x1", "ahbm_2x2"])
def test_a_matrix_that_two_programs_share_keeps_its_row_stride(topology: str) -> None:
    """FC-NU09: rows split in two, one half a program; the second half is at the row stride of the whole."""
    text = """
@triton.jit
def copy(x, y, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = rows[:, None] * stride + tl.arange(0, COLUMNS)[None, :]
    tl.store(y + at, tl.load(x + at))
"""
    x = np.arange(32 * 4096, dtype=np.int32).astype(np.uint16).view(np.float16).reshape(32, 4096)
    x = np.nan_to_num(x)

    made = kernel(text, ROWS=16, COLUMNS=4096)
    found = run(made, grid=(2,), topology=topology, x=x, y=np.zeros_like(x), stride=4096)

    np.testing.assert_array_equal(x, found["y"])


def test_a_transfer_is_counted_in_bytes() -> None:
    """FC-NU10: 64 × 64 of bf16 are 8192 bytes, in the log and in memory."""
    text = """
@triton.jit
def copy(x, y):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(y + at, tl.load(x + at))
"""
    x = np.arange(4096).astype(ml_dtypes.bfloat16).reshape(64, 64)

    found = run(text, x=x, y=np.zeros_like(x))

    assert ([8192], [8192]) == (moved(found, "dma_read"), moved(found, "dma_write"))
    np.testing.assert_array_equal(x, found["y"])


STRIDED = """
@triton.jit
def copy(x, y, row, column, R: tl.constexpr, C: tl.constexpr):
    rows, columns = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    tl.store(y + rows * C + columns, tl.load(x + rows * row + columns * column))
"""


@pytest.mark.parametrize("view", ["transposed", "sliced", "stepped", "backwards"])
def test_an_operand_that_is_a_view_is_read_by_its_strides(view: str) -> None:
    """FC-NU11: a transposed view, and rows of 256 of a matrix whose rows are 512; never row-major by force."""
    base = np.arange(64 * 64, dtype=f32).reshape(64, 64)
    wide = np.arange(16 * 512, dtype=f32).reshape(16, 512)
    x = {
        "transposed": base.T,
        "sliced": wide[:, :256],
        "stepped": wide[::2, ::4],
        "backwards": np.ascontiguousarray(base),
    }[view]
    rows, columns = x.shape
    row, column = (stride // 4 for stride in x.strides)
    if view == "backwards":
        text = STRIDED.replace("x + rows", "x + (R - 1) * row + rows * -1")
        x_read, expected = kernel(text, R=rows, C=columns), x[::-1]
    else:
        x_read, expected = kernel(STRIDED, R=rows, C=columns), x

    found = run(x_read, x=x, y=np.zeros(x.shape, f32), row=row, column=column)

    np.testing.assert_array_equal(expected, found["y"])


# --------------------------------------------------------------------------- sums


@pytest.mark.parametrize(
    ("kind", "count", "total"), [(np.float16, 4096, 4096.0), (ml_dtypes.bfloat16, 512, 512.0), (np.int8, 300, 300.0)]
)
def test_sums_of_narrow_types_do_not_stall(kind: Any, count: int, total: float) -> None:
    """FC-NU16, FC-NU18: 4096 ones in fp16, 512 in bf16, 300 in int8, by a sum and by a loop that carries fp32 lanes."""
    text = """
@triton.jit
def total(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y, tl.sum(tl.load(x + at), axis=0).to(tl.float32))
    carried = tl.zeros((8,), tl.float32)
    for i in range(0, N, 8):
        carried += tl.load(x + i + tl.arange(0, 8), mask=i + tl.arange(0, 8) < N)
    tl.store(y + 1, tl.sum(carried, axis=0))
"""
    found = run(kernel(text, N=count), x=np.ones(count, kind), y=np.zeros(2, f32))

    assert [total, total] == found["y"].tolist()


def test_a_nan_is_not_lost_in_a_sum_of_bf16() -> None:
    """FC-NU13: one NaN among 64."""
    text = """
@triton.jit
def total(x, y):
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, 64)), axis=0))
"""
    x = np.ones(64, ml_dtypes.bfloat16)
    x[40] = np.nan

    assert np.isnan(run(text, x=x, y=np.zeros(1, f32))["y"][0])


def test_bf16_stores_round_to_nearest_even() -> None:
    """FC-NU14: from a kernel, by a load, by a run-time argument and by a constant that is folded."""
    text = """
@triton.jit
def rounded(x, y, a, A: tl.constexpr):
    at = tl.arange(0, 4)
    tl.store(y + at, tl.load(x + at))
    tl.store(y + 4, a)
    tl.store(y + 5, A)
    tl.store(y + 6 + at, tl.full((4,), A, tl.float32).to(tl.bfloat16))
"""
    values = [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20]
    for value, wanted in zip(values, [1.0, 1.015625, 1.0078125], strict=True):
        y = np.zeros(10, ml_dtypes.bfloat16)
        found = run(kernel(text, A=value), x=np.full(4, value, f32), y=y, a=value)

        assert {wanted} == set(found["y"].astype(f32).tolist())


# --------------------------------------------------------------------------- indices


def test_duplicate_indices() -> None:
    """FC-NU21: of a scatter the last lane stays, an atomic add adds all; the same in every run."""
    text = """
@triton.jit
def scatter(x, index, plain, total):
    at = tl.arange(0, 4)
    value, where = tl.load(x + at), tl.load(index + at)
    tl.store(plain + where, value)
    tl.atomic_add(total + where, value)
"""
    x, index = np.array([1, 2, 3, 4], f32), np.array([0, 0, 1, 3], np.int32)

    for _ in range(2):
        found = run(text, x=x, index=index, plain=np.zeros(4, f32), total=np.full(4, 10, f32))

        assert [2.0, 3.0, 0.0, 4.0] == found["plain"].tolist()
        assert [13.0, 13.0, 10.0, 14.0] == found["total"].tolist()


@pytest.mark.parametrize(("factor", "by", "offset"), [(319, 7_864_320, 2_508_718_080), (524_288, 4096, 2**31)])
@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("x + factor * by + at", "E_OUT_OF_BOUNDS"),  # a scalar moves the pointer, in 64 bits
        ("x + factor.to(tl.int64) * by + at", "E_OUT_OF_BOUNDS"),
        ("x + (factor * by + at)", "E_INT32_OFFSET"),
        ("x + (factor + at) * by", "E_INT32_OFFSET"),
    ],
)
def test_an_offset_beyond_32_bits_is_never_a_wrapped_address(
    factor: int, by: int, offset: int, address: str, code: str
) -> None:
    """FC-NU23: 319 × 7,864,320 and 524,288 × 4,096: the true address, or the fault that int32 does not hold it."""
    text = f"""
@triton.jit
def far(x, y, factor, by):
    at = tl.arange(0, 4)
    tl.store(y + at, tl.load({address}))
"""
    x = np.zeros(16, np.int8)

    for mode in ("data", "timing"):
        with pytest.raises(kb.KernBenchError) as caught:
            kb.open("ahbm_1x1").run(kernel(text), x=x, y=x.copy(), factor=factor, by=by, grid=(1,), mode=mode)

        assert [code] == codes(caught)
        assert any(str(beyond) in str(caught.value) for beyond in (offset, offset + 3, offset + 3 * by))
        assert "tl.load(" in str(caught.value)


def test_an_offset_of_64_bits_stays_exact_in_a_value() -> None:
    """FC-NU23: as a value, in int32 it wraps as Triton's does, in int64 it does not; folded too."""
    text = """
@triton.jit
def product(y, factor, by, FACTOR: tl.constexpr, BY: tl.constexpr):
    tl.store(y, factor * by)
    tl.store(y + 1, factor.to(tl.int64) * by)
    tl.store(y + 2, FACTOR * BY)
"""
    y = np.zeros(3, np.int64)

    found = run(kernel(text, FACTOR=319, BY=7_864_320), y=y, factor=319, by=7_864_320)

    assert [2_508_718_080 - 2**32, 2_508_718_080, 2_508_718_080] == found["y"].tolist()


def test_scalar_arguments_keep_their_types() -> None:
    """FC-NU24: 1 as fp16, fp32 and fp64 adds up to 3; 65500 in fp16 stays the number it is there."""
    text = """
@triton.jit
def total(y, a, b, c, large):
    tl.store(y, a + b + c)
    tl.store(y + 1, large)
"""
    found = run(
        text, y=np.zeros(2, np.float64), a=np.float16(1), b=np.float32(1), c=np.float64(1), large=np.float16(65500)
    )

    assert [3.0, 65504.0] == found["y"].tolist()


# --------------------------------------------------------------------------- order in time


@pytest.mark.parametrize("topology", ["ahbm_1x1", "ahbm_2x2"])
def test_a_read_of_what_was_just_written_sees_all_of_it(topology: str) -> None:
    """FC-NU28: 500 bytes are stored and loaded again, in the PE's own slice and in one far away."""
    text = """
@triton.jit
def back(x, y):
    at = tl.arange(0, 512)
    tl.store(x + at, at.to(tl.int8), mask=at < 500)
    tl.store(y + at, tl.load(x + at, mask=at < 500), mask=at < 500)
"""
    far = {"ahbm_1x1": kb.on(0, 0, 0), "ahbm_2x2": kb.on(0, 3, 7)}[topology]
    x = np.full(500, 99, np.int8)

    found = run(text, topology=topology, x=x, y=x.copy(), placements={"x": far})

    wanted = np.arange(500).astype(np.int8)
    np.testing.assert_array_equal(wanted, found["x"])
    np.testing.assert_array_equal(wanted, found["y"])


def depths() -> Iterator[tuple[int, int]]:
    yield from ((trips, stages) for trips in (0, 1, 2, 17) for stages in (1, 2, 3, 5))


@pytest.mark.parametrize(("trips", "stages"), list(depths()))
def test_prefetched_slots_are_not_written_while_they_are_read(trips: int, stages: int) -> None:
    """FC-NU29: 17 steps with every depth of prefetch, and 0, 1 and 2: values in order, sums right."""
    text = """
@triton.jit
def steps(x, y, total, n, STAGES: tl.constexpr):
    at = tl.arange(0, 64)
    acc = tl.zeros((64,), tl.float32)
    for i in tl.range(0, n, num_stages=STAGES):
        tile = tl.load(x + i * 64 + at)
        acc += tile * (i + 1)
        tl.store(y + i * 64 + at, tile + 1)
    tl.store(total + at, acc)
"""
    x = np.arange(17 * 64, dtype=f32).reshape(17, 64)

    found = run(kernel(text, STAGES=stages), x=x, y=np.zeros_like(x), total=np.full(64, 7, f32), n=trips)

    np.testing.assert_array_equal(x[:trips] + 1, found["y"][:trips])
    assert not found["y"][trips:].any()
    np.testing.assert_array_equal((x[:trips] * np.arange(1, trips + 1)[:, None]).sum(axis=0), found["total"])


@pytest.mark.parametrize("level", [0, 1])
def test_a_buffer_that_a_loop_reads_is_not_given_away_in_it(level: int) -> None:
    """FC-NU30: a block made before a loop and read in each trip; others are made after its last use in the text."""
    text = """
@triton.jit
def reads(x, y, n):
    at = tl.arange(0, 256)
    kept = tl.load(x + at)
    for i in range(0, n):
        first = kept + i
        second = first * first
        third = second - first
        tl.store(y + i * 256 + at, third + second)
"""
    x = np.arange(256, dtype=f32)
    made = kb.compile(f"import triton\nimport triton.language as tl\n{text}", opt_level=level)

    found = run(made, x=x, y=np.zeros((5, 256), f32), n=5)

    first = x[None, :] + np.arange(5)[:, None]
    np.testing.assert_array_equal(2 * first * first - first, found["y"])
