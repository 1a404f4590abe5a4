"""Addresses: signs of strides, division, loaded bases, gathers and scatters of every shape, masks that stop all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.language.running import refused, run

BOTH = pytest.mark.parametrize("topology", ["ahbm_1x1", "ahbm_2x2"])


@BOTH
@pytest.mark.parametrize(("stride", "start"), [(1, 0), (-1, 16), (3, 0), (-2, 32), (0, 4), (7, 1)])
@pytest.mark.parametrize("n", [1, 16, 17])
def test_loads_and_stores_along_any_stride(stride: int, start: int, n: int, topology: str) -> None:
    text = """
    def k(x_ptr, o_ptr, start, stride, n, B: tl.constexpr):
        i = tl.arange(0, B)
        mask = i < n
        tl.store(o_ptr + i, tl.load(x_ptr + start + i * stride, mask=mask, other=-1.0))
        tl.store(o_ptr + 200 + start + i * stride, i + 1.0, mask=mask)
    """
    x = np.arange(130, dtype=np.float32)
    want = np.zeros(400, np.float32)
    want[:17] = -1
    want[:n] = x[start + stride * np.arange(n)]
    want[200 + start + stride * np.arange(n)] = np.arange(n) + 1.0  # of equal places the last one stays

    args = {"x_ptr": x, "o_ptr": np.zeros(400, np.float32), "start": start, "stride": stride, "n": n}

    assert want.tolist() == run(text, args, on=topology, B=17)["o_ptr"].tolist()


@BOTH
@pytest.mark.parametrize("width", [1, 3, 7, 16, 100])
def test_division_and_remainder_split_loads_and_stores(width: int, topology: str) -> None:
    text = """
    def k(x_ptr, o_ptr, w, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        at = i // w * 128 + i % w
        tl.store(o_ptr + at, tl.load(x_ptr + at, mask=i < n) + 1.0, mask=i < n)
    """
    i = np.arange(29)
    at = i // width * 128 + i % width
    x = np.arange(29 * 128, dtype=np.float32)
    want = np.zeros_like(x)
    want[at] = x[at] + 1

    args = {"x_ptr": x, "o_ptr": np.zeros_like(x), "w": width, "n": 29}

    assert want.tolist() == run(text, args, grid=(2,), on=topology, B=16)["o_ptr"].tolist()


@pytest.mark.parametrize("divisor", [2, -2, 3, -5, 7])
def test_division_of_negative_indices_truncates_in_addresses_and_in_data(divisor: int) -> None:
    text = """
    def k(x_ptr, v_ptr, o_ptr, d, B: tl.constexpr):
        i = tl.arange(0, B) - 8
        tl.store(o_ptr + i + 8, tl.load(x_ptr + 16 + i // d))
        tl.store(o_ptr + B + i + 8, tl.load(x_ptr + 16 + i % d))
        v = tl.load(v_ptr + i + 8)
        tl.store(o_ptr + 2 * B + i + 8, v // d)
        tl.store(o_ptr + 3 * B + i + 8, v % d)
        s = tl.load(v_ptr)
        tl.store(o_ptr + 4 * B, s // d * 100 + s % d)
    """
    i = np.arange(17) - 8
    quotient = np.trunc(i / divisor).astype(int)
    remainder = i - quotient * divisor

    args = {"x_ptr": np.arange(-16, 17, dtype=np.int32), "v_ptr": i.astype(np.int32), "o_ptr": np.zeros(69, np.int32)}
    got = run(text, {**args, "d": divisor}, B=17)["o_ptr"]

    both = [*quotient.tolist(), *remainder.tolist()]
    assert [*both, *both, int(quotient[0] * 100 + remainder[0])] == got.tolist()


@pytest.mark.parametrize("name", ["cdiv", "minimum", "maximum"])
def test_helpers_of_index_arithmetic(name: str) -> None:
    text = f"""
    def k(o_ptr, a, b, A: tl.constexpr, B: tl.constexpr):
        i = tl.arange(0, 4)
        tl.store(o_ptr, tl.{name}(a, b))
        tl.store(o_ptr + 1, tl.{name}(A, B))
        tl.store(o_ptr + 2 + i, tl.{name}(i + a, b))
    """
    python: Any = {"cdiv": lambda a, b: -(-a // b), "minimum": min, "maximum": max}[name]
    for a, b in ((1, 1), (7, 3), (0, 5), (9, 3)):
        got = run(text, {"o_ptr": np.zeros(6, np.int32), "a": a, "b": b}, A=a, B=b)["o_ptr"]
        assert [python(a, b)] * 2 + [python(a + i, b) for i in range(4)] == got.tolist()


@BOTH
def test_pages_that_a_table_names(topology: str) -> None:
    """Lengths that end inside of a page, a page that is used twice, a sequence of no element."""
    text = """
    def k(table_ptr, len_ptr, page_ptr, o_ptr, PAGE: tl.constexpr, PAGES: tl.constexpr):
        seq = tl.program_id(0)
        n = tl.load(len_ptr + seq)
        i = tl.arange(0, PAGE)
        total = tl.zeros((PAGE,), tl.float32)
        for p in range(tl.cdiv(n, PAGE)):
            page = tl.load(table_ptr + seq * PAGES + p)
            total += tl.load(page_ptr + page * PAGE + i, mask=p * PAGE + i < n, other=0.0)
        tl.store(o_ptr + seq, tl.sum(total, 0))
    """
    table, lengths = np.array([[2, 0, 9], [1, 1, 3], [9, 9, 9]], np.int32), np.array([5, 11, 0], np.int32)
    pages = np.arange(16, dtype=np.float32).reshape(4, 4)
    want = [sum(pages[table[s, j // 4], j % 4] for j in range(n)) for s, n in enumerate(lengths)]

    args = {"table_ptr": table, "len_ptr": lengths, "page_ptr": pages, "o_ptr": np.full(3, -1.0, np.float32)}

    for mode in ("data", "timing"):
        done = run(text, args, grid=(3,), on=topology, mode=mode, PAGE=4, PAGES=3)
        assert mode == "timing" or want == done["o_ptr"].tolist()


@BOTH
def test_gathers_and_scatters_of_two_axes(topology: str) -> None:
    text = """
    def k(x_ptr, row_ptr, col_ptr, o_ptr, n, R: tl.constexpr, C: tl.constexpr, W: tl.constexpr):
        row, col = tl.load(row_ptr + tl.arange(0, R)), tl.load(col_ptr + tl.arange(0, C))
        at = row[:, None] * W + col[None, :]
        live = (row >= 0)[:, None] & (tl.arange(0, C) < n)[None, :]
        x = tl.load(x_ptr + at, mask=live, other=-1.0)
        tl.store(o_ptr + at, x * 2.0, mask=live)
    """
    x = np.arange(77, dtype=np.float32).reshape(7, 11)
    rows, cols = np.array([6, -1, 0, 3, 3], np.int32), np.array([10, 0, 5], np.int64)
    want = np.zeros_like(x)
    want[np.ix_([6, 0, 3], [10, 0])] = 2 * x[np.ix_([6, 0, 3], [10, 0])]

    args = {"x_ptr": x, "row_ptr": rows, "col_ptr": cols, "o_ptr": np.zeros_like(x), "n": 2}

    assert want.tolist() == run(text, args, on=topology, R=5, C=3, W=11)["o_ptr"].tolist()


@pytest.mark.parametrize("kind", ["load", "gather", "store", "scatter", "atomic"])
@pytest.mark.parametrize("mask", ["i < n", "m != 0", "i % 2 > n + 1", "(i < n) & (m == 0)"])
def test_masks_that_stop_every_lane_touch_nothing(kind: str, mask: str) -> None:
    """Every pointer leads far outside of its tensor."""
    accesses = {
        "load": "tl.store(o_ptr + i, tl.load(x_ptr + far + i, mask=mask, other=7))",
        "gather": "tl.store(o_ptr + i, tl.load(x_ptr + far + v, mask=mask, other=7))",
        "store": "tl.store(x_ptr + far + i, i, mask=mask)",
        "scatter": "tl.store(x_ptr + far + v, i, mask=mask)",
        "atomic": "tl.store(o_ptr + i, tl.atomic_add(x_ptr + far + v, i, mask=mask) + 7)",
    }
    text = f"""
    def k(x_ptr, v_ptr, m_ptr, o_ptr, n, far, B: tl.constexpr):
        i = tl.arange(0, B)
        v, m = tl.load(v_ptr + i), tl.load(m_ptr + i)
        mask = {mask}
        {accesses[kind]}
    """
    x, v = np.arange(5, dtype=np.int32), np.array([3, 0, 2, 2, 1], np.int32)
    args = {"x_ptr": x, "v_ptr": v, "m_ptr": np.zeros(5, np.int32), "o_ptr": np.full(5, 7, np.int32)}

    got = run(text, {**args, "n": 0, "far": 1 << 30}, B=5)

    assert ([7] * 5, x.tolist()) == (got["o_ptr"].tolist(), got["x_ptr"].tolist())


@pytest.mark.parametrize("bad", [-1, 5, 10**6])
def test_a_scatter_between_stopped_lanes_that_point_far_away_stores_its_own(bad: int) -> None:
    text = """
    def k(x_ptr, v_ptr, limit, B: tl.constexpr):
        i = tl.arange(0, B)
        v = tl.load(v_ptr + i)
        tl.store(x_ptr + v, 10 + i, mask=(v >= 0) & (v < limit))
    """
    v = np.array([3, bad, 0], np.int32)

    out = run(text, {"x_ptr": np.arange(5, dtype=np.int32), "v_ptr": v, "limit": 5}, B=3)

    assert [12, 1, 2, 10, 4] == out["x_ptr"].tolist()


@pytest.mark.parametrize("bad", [-1, 5, 10**6])
def test_a_loaded_index_outside_of_the_tensor_faults_in_a_live_lane_only(bad: int) -> None:
    text = """
    def k(x_ptr, v_ptr, o_ptr, limit, B: tl.constexpr):
        i = tl.arange(0, B)
        v = tl.load(v_ptr + i)
        tl.store(o_ptr + i, tl.load(x_ptr + v, mask=(v >= 0) & (v < limit), other=-1))
    """
    v = np.array([3, bad, 0], np.int32)
    args: dict[str, Any] = {"x_ptr": np.arange(5, dtype=np.int32), "v_ptr": v, "o_ptr": np.zeros(3, np.int32)}

    assert [3, -1, 0] == run(text, {**args, "limit": 5}, B=3)["o_ptr"].tolist()
    unmasked = text.replace("mask=(v >= 0) & (v < limit), other=-1", "mask=i < limit")
    assert "E_OUT_OF_BOUNDS" == refused(unmasked, {**args, "limit": 5}, B=3).code


@pytest.mark.parametrize("compare", ["<", "<=", ">", ">=", "==", "!="])
@pytest.mark.parametrize("index", ["i", "-i", "2 * i - 3", "s * i + 1", "n - i"])
def test_masks_of_every_comparison_with_every_slope(compare: str, index: str) -> None:
    """The bound is a constant, a run-time scalar, or on the left; the slope a constant of either sign or a scalar."""
    text = f"""
    def k(o_ptr, n, s, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(o_ptr + i, 1, mask={index} {compare} 3)
        tl.store(o_ptr + N + i, 1, mask={index} {compare} n)
        tl.store(o_ptr + 2 * N + i, 1, mask=n {compare} {index})
    """
    for n, s in ((4, 2), (-3, -2), (0, 0)):
        known = {"i": np.arange(9), "n": n, "s": s}
        want = [
            eval(test, {}, known) for test in (f"{index} {compare} 3", f"{index} {compare} n", f"n {compare} {index}")
        ]

        got = run(text, {"o_ptr": np.zeros(27, np.int32), "n": n, "s": s}, N=9)["o_ptr"]

        assert np.concatenate(want).astype(int).tolist() == got.tolist()


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("tl.store(x_ptr + at, tl.load(x_ptr + 15 - at))", ["E_UNORDERED_LOAD"]),
        ("tl.store(x_ptr + at, tl.load(x_ptr + at) + 1)", []),
        ("tl.store(o_ptr + at, tl.load(x_ptr + 15 - at))", []),
        ("tl.atomic_add(o_ptr, 1)\n        tl.store(x_ptr + at, tl.load(x_ptr + 15 - at))", []),
        # columns of a matrix in place: the programs' bytes interleave and do not meet
        ("p = x_ptr + tl.arange(0, 8) * 2 + tl.program_id(0)\n        tl.store(p, tl.load(p) * 2)", []),
    ],
)
@BOTH
def test_reads_of_what_another_program_stores_are_warned_of(body: str, codes: list[str], topology: str) -> None:
    text = f"""
    def k(x_ptr, o_ptr):
        at = tl.program_id(0) * 8 + tl.arange(0, 8)
        {body}
    """
    args = {"x_ptr": np.arange(16, dtype=np.int32), "o_ptr": np.zeros(16, np.int32)}

    assert codes == [found.code for found in run(text, args, grid=(2,), on=topology).diagnostics]
