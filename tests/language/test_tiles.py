"""Block pointers and tensor descriptors: edges, orders, padding, helpers, host descriptors; against NumPy slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench as kb
from tests.language.running import refused, run


def copy_tile(checks: str, offsets: tuple[int, int], padding: str = "") -> Any:
    """An 8 x 8 block of a 10 x 12 tensor, copied through block pointers."""
    text = f"""
    def k(x_ptr, o_ptr, m, n, r, c, B: tl.constexpr):
        src = tl.make_block_ptr(x_ptr, shape=(m, n), strides=(n, 1), offsets=(r, c), block_shape=(B, B), order=(1, 0))
        dst = tl.make_block_ptr(o_ptr, (B, B), (B, 1), (0, 0), (B, B), (1, 0))
        tl.store(dst, tl.load(src, boundary_check={checks}{padding}))
    """
    x = np.arange(120, dtype=np.float32).reshape(10, 12)
    args = {"x_ptr": x, "o_ptr": np.zeros((8, 8), np.float32), "m": 10, "n": 12, "r": offsets[0], "c": offsets[1]}
    return run(text, args, B=8)["o_ptr"]


def padded(offsets: tuple[int, int], fill: float) -> Any:
    whole = np.full((40, 40), fill, np.float32)
    whole[10:20, 10:22] = np.arange(120, dtype=np.float32).reshape(10, 12)
    r, c = offsets[0] + 10, offsets[1] + 10
    return whole[r : r + 8, c : c + 8]


@pytest.mark.parametrize("offsets", [(0, 0), (5, 7), (-3, -2), (9, 11), (12, 0)])
def test_lanes_outside_of_the_tensor_read_as_zero_or_nan(offsets: tuple[int, int]) -> None:
    np.testing.assert_array_equal(padded(offsets, 0.0), copy_tile("(0, 1)", offsets))
    nan = copy_tile("(0, 1)", offsets, ', padding_option="nan"')
    np.testing.assert_array_equal(padded(offsets, np.nan), nan)


def test_an_axis_that_is_not_checked_reads_on() -> None:
    """Only the rows are checked: the columns run into the next row, as the memory does."""
    got = copy_tile("(0,)", (0, 8))

    want = [[float(row * 12 + 8 + column) for column in range(8)] for row in range(8)]
    assert want == got.tolist()


def test_a_transposed_order_goes_by_the_strides() -> None:
    text = """
    def k(x_ptr, o_ptr, m, n, B: tl.constexpr):
        src = tl.make_block_ptr(x_ptr, (n, m), (1, n), (0, 0), (B, B), (0, 1))
        dst = tl.make_block_ptr(o_ptr, (n, m), (m, 1), (0, 0), (B, B), (1, 0))
        tl.store(dst, tl.load(src, boundary_check=(0, 1)), boundary_check=(0, 1))
    """
    x = np.arange(15, dtype=np.float32).reshape(3, 5)

    got = run(text, {"x_ptr": x, "o_ptr": np.full((5, 3), -1.0, np.float32), "m": 3, "n": 5}, B=8)["o_ptr"]

    assert x.T.tolist() == got.tolist()


def test_block_pointers_that_a_loop_advances_and_a_helper_takes() -> None:
    text = """
    def product(a, b, acc, steps, B: tl.constexpr):
        for _ in range(steps):
            acc += tl.dot(tl.load(a, boundary_check=(1,)), tl.load(b, boundary_check=(0,)))
            a = tl.advance(a, (0, B))
            b = tl.advance(b, [B, 0])
        return acc

    def k(a_ptr, b_ptr, o_ptr, K, M: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
        a = tl.make_block_ptr(a_ptr, (M, K), (K, 1), (0, 0), (M, B), (1, 0))
        b = tl.make_block_ptr(b_ptr, (K, N), (N, 1), (0, 0), (B, N), (1, 0))
        acc = product(a, b, tl.zeros((M, N), tl.float32), tl.cdiv(K, B), B)
        o = tl.make_block_ptr(o_ptr, (M, N), (N, 1), (0, 0), (M, N), (1, 0))
        tl.store(o, acc.to(o.type.element_ty))
    """
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((16, 37)).astype(np.float32), rng.standard_normal((37, 16)).astype(np.float32)

    args = {"a_ptr": a, "b_ptr": b, "o_ptr": np.zeros((16, 16), np.float32), "K": 37}

    np.testing.assert_allclose(a @ b, run(text, args, M=16, N=16, B=16)["o_ptr"], rtol=1e-5, atol=1e-5)


def test_a_branch_picks_a_block_pointer() -> None:
    text = """
    def k(a_ptr, b_ptr, o_ptr, n, N: tl.constexpr):
        p = tl.make_block_ptr(a_ptr, (n,), (1,), (0,), (N,), (0,))
        if tl.program_id(0) == 1:
            p = tl.make_block_ptr(b_ptr, (n,), (1,), (2,), (N,), (0,))
        tl.store(o_ptr + tl.program_id(0) * N + tl.arange(0, N), tl.load(p, boundary_check=(0,)))
    """
    a, b = np.arange(5, dtype=np.float32), np.arange(10, 15, dtype=np.float32)

    args = {"a_ptr": a, "b_ptr": b, "o_ptr": np.zeros(8, np.float32), "n": 5}

    assert [0, 1, 2, 3, 12, 13, 14, 0] == run(text, args, grid=(2,), N=4)["o_ptr"].tolist()


DESCRIPTORS = """
    def k(x_ptr, o_ptr, m, n, r, c, B: tl.constexpr):
        x = tl.make_tensor_descriptor(x_ptr, shape=[m, n], strides=[n, 1], block_shape=[B, B])
        o = tl.make_tensor_descriptor(o_ptr, [m, n], [n, 1], [B, B])
        o.store([r, c], x.load([r, c]) + 1.0)
    """


def test_a_descriptor_checks_every_side() -> None:
    x = np.arange(120, dtype=np.float32).reshape(10, 12)
    for r, c in ((0, 0), (6, 9), (-4, 3)):
        args = {"x_ptr": x, "o_ptr": np.zeros((10, 12), np.float32), "m": 10, "n": 12, "r": r, "c": c}
        want = np.zeros((10, 12), np.float32)
        want[max(r, 0) : r + 8, c : c + 8] = x[max(r, 0) : r + 8, c : c + 8] + 1

        np.testing.assert_array_equal(want, run(DESCRIPTORS, args, B=8)["o_ptr"])


def test_descriptors_that_the_host_makes() -> None:
    text = """
    def k(x, o, B: tl.constexpr):
        r = tl.program_id(0) * B
        o.store([r, 0], x.load([r, 2]) * x.shape[1])
    """
    x = np.arange(70, dtype=np.float16).reshape(10, 7)
    args = {"x": kb.TensorDescriptor(x, [4, 4]), "o": kb.TensorDescriptor(np.zeros((10, 4), np.float16), (4, 4))}

    assert (x[:, 2:6] * np.float16(7)).tolist() == run(text, args, grid=(3,), B=4)["o"].tolist()


def test_rows_by_number_and_sums_in_memory() -> None:
    text = """
    def k(x_ptr, i_ptr, o_ptr, m, n, N: tl.constexpr):
        x = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [1, N])
        o = tl.make_tensor_descriptor(o_ptr, [m, n], [n, 1], [1, N])
        rows = tl.load(i_ptr + tl.arange(0, 4))
        found = x.gather(rows, 1)
        o.scatter(found, rows, 0)
        sums = tl.make_tensor_descriptor(o_ptr, [m, n], [n, 1], [2, N])
        sums.atomic_add([0, 0], tl.full((2, N), 100.0, tl.float32))
    """
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    rows = np.array([3, 0, 9, 1], np.int32)
    want = np.zeros((5, 4), np.float32)
    want[[3, 0, 1], :2] = x[[3, 0, 1], 1:3]
    want[:2, :2] += 100

    args = {"x_ptr": x, "i_ptr": rows, "o_ptr": np.zeros((5, 4), np.float32), "m": 5, "n": 4}

    np.testing.assert_array_equal(want, run(text, args, N=2)["o_ptr"])


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("tl.load(p, mask=True)", "E_CALL_ARGUMENTS"),
        ("tl.load(p, boundary_check=(2,))", "E_BAD_AXIS"),
        ("tl.make_block_ptr(x_ptr, (8,), (1, 1), (0,), (4,), (0,))", "E_CALL_ARGUMENTS"),
        ("tl.advance(x_ptr, (1,))", "E_POINTER_EXPECTED"),
        ("tl.load(d)", "E_POINTER_EXPECTED"),
        ("d.load([0, 0])", "E_CALL_ARGUMENTS"),
        ("d.loda([0])", "E_UNKNOWN_ATTRIBUTE"),
        ('tl.load(p, boundary_check=(0,), padding_option="one")', "E_CALL_ARGUMENTS"),
    ],
)
def test_mistakes(call: str, code: str) -> None:
    text = f"""
    def k(x_ptr):
        p = tl.make_block_ptr(x_ptr, (8,), (1,), (0,), (4,), (0,))
        d = tl.make_tensor_descriptor(x_ptr, [8], [1], [4])
        r = {call}
    """

    assert code == refused(text, {"x_ptr": np.zeros(8, np.float32)}).code
