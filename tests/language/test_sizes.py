"""Sizes: 1, primes, block − 1 and + 1, empty loops, axes of extent 1, grids of every rank; against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.language.running import run

AROUND_A_BLOCK = [1, 2, 31, 37, 63, 64, 65, 127, 129]


@pytest.mark.parametrize("n", AROUND_A_BLOCK)
def test_blocks_over_a_length_that_does_not_divide(n: int) -> None:
    text = """
    def k(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        mask = i < n
        tl.store(o_ptr + i, tl.load(x_ptr + i, mask=mask) * 2 + tl.load(y_ptr + i, mask=mask), mask=mask)
    """
    x, y = np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int32)[::-1].copy()

    args = {"x_ptr": x, "y_ptr": y, "o_ptr": np.full(n, -1, np.int32), "n": n}

    assert (2 * x + y).tolist() == run(text, args, grid=(-(-n // 64),), B=64)["o_ptr"].tolist()


@pytest.mark.parametrize("size", [1, 3, 37, 64])
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float16, np.float64])
def test_a_block_of_any_size_and_type(size: int, dtype: Any) -> None:
    text = """
    def k(x_ptr, o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(o_ptr + i, tl.load(x_ptr + i) + tl.load(x_ptr + N - 1 - i))
    """
    x = (np.arange(size) % 50).astype(dtype)

    assert (x + x[::-1]).tolist() == run(text, {"x_ptr": x, "o_ptr": np.zeros(size, dtype)}, N=size)["o_ptr"].tolist()


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 7), (7, 1), (5, 3), (8, 8), (9, 7), (17, 9)])
@pytest.mark.parametrize("topology", ["ahbm_1x1", "ahbm_2x2"])
def test_tiles_over_a_matrix_that_does_not_divide(m: int, n: int, topology: str) -> None:
    text = """
    def k(x_ptr, row_ptr, o_ptr, m, n, B: tl.constexpr):
        r = tl.program_id(0) * B + tl.arange(0, B)[:, None]
        c = tl.program_id(1) * B + tl.arange(0, B)[None, :]
        mask = (r < m) & (c < n)
        x = tl.load(x_ptr + r * n + c, mask=mask, other=0)
        tl.store(o_ptr + c * m + r, x - tl.load(row_ptr + r, mask=r < m), mask=mask)
    """
    x, row = np.arange(m * n, dtype=np.float32).reshape(m, n) ** 2, np.arange(m, dtype=np.float32)

    args = {"x_ptr": x, "row_ptr": row, "o_ptr": np.zeros((n, m), np.float32), "m": m, "n": n}
    got = run(text, args, grid=(-(-m // 8), -(-n // 8)), on=topology, B=8)["o_ptr"]

    assert (x - row[:, None]).T.tolist() == got.tolist()


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 23])
@pytest.mark.parametrize("stages", [1, 3])
def test_a_loop_over_blocks_with_moving_pointers(size: int, stages: int) -> None:
    text = """
    def k(x_ptr, o_ptr, n, B: tl.constexpr, STAGES: tl.constexpr):
        i = tl.arange(0, B)
        at = x_ptr + i
        total = tl.zeros((B,), tl.float32)
        for start in tl.range(0, n, B, num_stages=STAGES):
            total += tl.load(at, mask=start + i < n, other=0.0)
            at += B
        tl.store(o_ptr, tl.sum(total, 0))
    """
    x = np.arange(1, max(size, 1) + 1, dtype=np.float32)

    got = run(text, {"x_ptr": x, "o_ptr": np.full(1, -1, np.float32), "n": size}, B=8, STAGES=stages)["o_ptr"]

    assert [float(size * (size + 1) // 2)] == got.tolist()


@pytest.mark.parametrize(
    ("start", "stop", "step"), [(0, 5, 2), (5, 0, -2), (3, 3, 1), (4, 0, 1), (0, 4, -1), (-3, 4, 3)]
)
def test_constant_and_run_time_bounds_give_one_sequence(start: int, stop: int, step: int) -> None:
    text = """
    def k(o_ptr, start, stop, step, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
        digits = 0
        for i in range(start, stop, step):
            digits = digits * 10 + i
        tl.store(o_ptr, digits)
        digits = 0
        for i in range(A, B, C):
            digits = digits * 10 + i
        tl.store(o_ptr + 1, digits)
        digits = 0
        for i in tl.static_range(A, B, C):
            digits = digits * 10 + i
        tl.store(o_ptr + 2, digits)
    """
    digits = 0
    for i in range(start, stop, step):
        digits = digits * 10 + i

    args = {"o_ptr": np.full(3, -1, np.int32), "start": start, "stop": stop, "step": step}

    assert [digits] * 3 == run(text, args, A=start, B=stop, C=step)["o_ptr"].tolist()


@pytest.mark.parametrize("grid", [(1,), (7,), (3, 1), (1, 5), (2, 3), (1, 1, 2), (3, 2, 5)])
@pytest.mark.parametrize("topology", ["ahbm_1x1", "ahbm_2x2"])
def test_programs_know_their_place_on_every_axis(grid: tuple[int, ...], topology: str) -> None:
    text = """
    def k(o_ptr):
        x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
        X, Y, Z = tl.num_programs(0), tl.num_programs(1), tl.num_programs(2)
        at = (z * Y + y) * X + x
        tl.store(o_ptr + at, x + 10 * y + 100 * z + 1000 * (X + 10 * Y + 100 * Z))
    """
    sides = (*grid, 1, 1)[:3]
    shape = sum(side * 10**axis for axis, side in enumerate(sides)) * 1000
    places = itertools.product(*(range(side) for side in reversed(sides)))

    got = run(text, {"o_ptr": np.zeros(int(np.prod(sides)), np.int32)}, grid=grid, on=topology)["o_ptr"]

    assert [shape + x + 10 * y + 100 * z for z, y, x in places] == got.tolist()


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 4), (3, 1, 5), (1, 7, 2)])
def test_three_axes_broadcast_reduce_and_permute(shape: tuple[int, int, int]) -> None:
    text = """
    def k(x_ptr, s0_ptr, s1_ptr, s2_ptr, p_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
        a, b, c = tl.arange(0, A)[:, None, None], tl.arange(0, B)[None, :, None], tl.arange(0, C)[None, None, :]
        x = tl.load(x_ptr + (a * B + b) * C + c) + a * 100 + b * 10 + c
        i, j, l = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
        tl.store(s0_ptr + j[:, None] * C + l[None, :], tl.sum(x, axis=0))
        tl.store(s1_ptr + i[:, None] * C + l[None, :], tl.max(x, axis=1))
        tl.store(s2_ptr + i[:, None] * B + j[None, :], tl.min(x, axis=2))
        at = (l[:, None, None] * A + i[None, :, None]) * B + j[None, None, :]
        tl.store(p_ptr + at, tl.permute(x, (2, 0, 1)))
    """
    n0, n1, n2 = shape
    x = np.random.default_rng(n0 * n1).integers(-9, 9, shape).astype(np.int32)
    whole = x + np.arange(n0)[:, None, None] * 100 + np.arange(n1)[None, :, None] * 10 + np.arange(n2)

    args = {"x_ptr": x, "p_ptr": np.zeros((n2, n0, n1), np.int32)}
    sums = {"s0_ptr": (n1, n2), "s1_ptr": (n0, n2), "s2_ptr": (n0, n1)}
    got = run(text, {**args, **{name: np.zeros(s, np.int32) for name, s in sums.items()}}, A=n0, B=n1, C=n2)

    assert whole.sum(0).tolist() == got["s0_ptr"].tolist()
    assert whole.max(1).tolist() == got["s1_ptr"].tolist()
    assert whole.min(2).tolist() == got["s2_ptr"].tolist()
    assert whole.transpose(2, 0, 1).tolist() == got["p_ptr"].tolist()


def test_four_axes_reshape_into_each_other() -> None:
    text = """
    def k(x_ptr, o_ptr):
        i = tl.arange(0, 2 * 3 * 1 * 5)
        x = tl.reshape(tl.load(x_ptr + i), (2, 3, 1, 5))
        y = tl.permute(x, (3, 2, 0, 1)) + tl.zeros((5, 4, 1, 1), tl.float32)
        tl.store(o_ptr + tl.arange(0, 120), tl.ravel(y))
    """
    x = np.arange(30, dtype=np.float32)

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros(120, np.float32)})["o_ptr"]

    want = np.broadcast_to(x.reshape(2, 3, 1, 5).transpose(3, 2, 0, 1), (5, 4, 2, 3))
    assert want.ravel().tolist() == got.tolist()


@pytest.mark.parametrize("n", [1, 7, 16])
def test_join_and_its_relatives_at_sizes_of_one_and_primes(n: int) -> None:
    text = """
    def k(x_ptr, o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i)
        a, b = tl.split(tl.join(x, -x))
        two = tl.arange(0, 2 * N)
        tl.store(o_ptr + i, a - b)
        tl.store(o_ptr + N + two, tl.interleave(a, b))
        tl.store(o_ptr + 3 * N + two, tl.cat(a, b, can_reorder=True))
        tl.store(o_ptr + 5 * N + i, tl.flip(x))
    """
    x = np.arange(1, n + 1, dtype=np.float32)

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros(6 * n, np.float32)}, N=n)["o_ptr"]

    want = [2 * x, np.stack([x, -x], 1).ravel(), x, -x, x[::-1]]
    assert np.concatenate(want).tolist() == got.tolist()


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, np.float16])
def test_single_elements_of_every_type_are_loaded_and_stored(dtype: Any) -> None:
    text = """
    def k(x_ptr, o_ptr, n):
        tl.store(o_ptr, tl.load(x_ptr + n))
        tl.store(o_ptr + 1, tl.load(x_ptr + 1, mask=n > 5, other=1))
        last = tl.load(x_ptr + tl.load(x_ptr + 3).to(tl.int32))
        tl.store(o_ptr + 2, last, mask=n < 5)
        tl.store(o_ptr + 3, last, mask=n > 5)
    """
    x = np.array([3, 0, 250, 1], np.int64).astype(dtype)

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros(4, dtype), "n": 2})["o_ptr"]

    assert [x[2], np.ones(1, dtype)[0], x[1], np.zeros(1, dtype)[0]] == got.tolist()


@pytest.mark.parametrize("n", [1, 2, 8])
def test_order_of_one_element_and_of_equal_ones(n: int) -> None:
    text = """
    def k(x_ptr, o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i)
        tl.store(o_ptr + i, tl.sort(x))
        tl.store(o_ptr + N + i, tl.gather(x, N - 1 - i, 0))
        tl.store(o_ptr + 2 * N + i, tl.histogram(x, N))
        tl.store(o_ptr + 3 * N + i, tl.cumsum(x, 0, reverse=True))
    """
    x = (np.arange(n)[::-1] // 2).astype(np.int32)

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros(4 * n, np.int32)}, N=n)["o_ptr"].reshape(4, n)

    want = np.stack([np.sort(x), x[::-1], np.bincount(x, minlength=n), np.cumsum(x[::-1])[::-1]])
    assert want.tolist() == got.tolist()
