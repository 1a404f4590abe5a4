"""Symbolic integers and masks against plain NumPy: what stays symbolic computes what the dense block would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.compiler.residual import IndexBlock, Instr, LoadBlock, MaskBlock, Residual, ViewOf
from tests.compiler.elaborating import residual_of, run

N = 16


def loads(residual: Residual) -> list[LoadBlock]:
    return [instr for instr in residual.body if isinstance(instr, LoadBlock)]


def dense(residual: Residual) -> list[Instr]:
    return [instr for instr in residual.body if isinstance(instr, IndexBlock | MaskBlock)]


# --------------------------------------------------------------------------- random index arithmetic


def _truncated(a: Any, b: Any) -> Any:
    safe = np.where(b == 0, 1, b)
    quotient = np.abs(a) // np.abs(safe) * np.sign(a) * np.sign(safe)
    return np.where(b == 0, 0, quotient)


OPERATORS: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": _truncated,
    "%": lambda a, b: np.where(b == 0, 0, a - b * _truncated(a, b)),
    "&": lambda a, b: a & b,
    "^": lambda a, b: a ^ b,
}

Expression = tuple[str, Any]  # its text, and a function from the names' values to its value


def _binary(op: str, a: Expression, b: Expression) -> Expression:
    if not any(letter.isalpha() for letter in a[0] + b[0]):
        a = _leaf("i")  # two constants are Python's, which floors
    function = OPERATORS[op]
    return f"({a[0]} {op} {b[0]})", lambda env: function(a[1](env), b[1](env))


def _leaf(name: str) -> Expression:
    return name, lambda env: np.asarray(env[name], np.int64)


LEAVES = st.one_of(
    st.sampled_from(["i", "j", "s", "n", "d", "t"]).map(_leaf),
    st.integers(-5, 9).map(lambda value: (f"({value})", lambda env, value=value: np.int64(value))),
)
TREES = st.recursive(
    LEAVES, lambda inner: st.builds(_binary, st.sampled_from(list(OPERATORS)), inner, inner), max_leaves=5
)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(TREES, TREES, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.integers(-9, 9), st.integers(-9, 40))
def test_index_arithmetic_and_masks_mean_what_numpy_says(a: Expression, b: Expression, op: str, s: int, n: int) -> None:
    text = f"""
    def k(o, m, x, y, s, n):
        i = tl.arange(0, 4)[:, None]
        j = tl.arange(0, {N})[None, :]
        d = tl.load(y + i)
        t = tl.max(tl.load(y + tl.arange(0, 4)))
        at = i * {N} + j
        v = {a[0]} + i * 0 + j * 0
        mask = (v {op} {b[0]}) & (i < 3)
        tl.store(o + at, v)
        tl.store(m + at, mask)
        tl.store(x + at, v, mask=mask)
    """
    out, y = np.zeros(4 * N, np.int32), np.array([3, -7, 0, 5], np.int32)

    found = run(text, {"o": out, "m": out.astype(np.bool_), "x": out - 77, "y": y, "s": s, "n": n})

    env = {"i": np.arange(4)[:, None], "j": np.arange(N)[None, :], "s": s, "n": n, "d": y[:, None], "t": 5}
    v = np.broadcast_to(a[1](env), (4, N))
    w = b[1](env)
    compared = {"<": v < w, "<=": v <= w, ">": v > w, ">=": v >= w, "==": v == w, "!=": v != w}[op]
    mask = np.broadcast_to(compared & (env["i"] < 3), (4, N))
    assert np.array_equal(v.astype(np.int32).reshape(-1), found["o"])
    assert np.array_equal(mask.reshape(-1), found["m"])
    assert np.array_equal(np.where(mask, v, -77).astype(np.int32).reshape(-1), found["x"])


# --------------------------------------------------------------------------- what stays symbolic


@pytest.mark.parametrize("s", [-5, -1, 0, 1, 2, 7])
@pytest.mark.parametrize("n", [-3, 0, 1, 16, 40])
def test_a_coefficient_whose_sign_is_known_at_run_time_only(s: int, n: int) -> None:
    text = """
    def k(o, s, n):
        i = tl.arange(0, 16)
        tl.store(o + i, 1, mask=i * s < n)
        tl.store(o + 16 + i, 1, mask=i * s >= n)
        tl.store(o + 32 + i, 1, mask=n == i * s)
    """
    i = np.arange(16)

    found = run(text, {"o": np.zeros(48, np.int32), "s": s, "n": n})["o"].reshape(3, 16)

    assert np.array_equal([i * s < n, i * s >= n, i * s == n], found.astype(np.bool_))


def test_a_box_mask_and_affine_pointers_need_no_block() -> None:
    text = """
    def k(x, M, N, stride):
        rows = tl.program_id(0) * 8 + tl.arange(0, 8)
        cols = tl.arange(0, 4)
        mask = (rows[:, None] < M) & (cols[None, :] < N) & (rows[:, None] >= 0)
        a = tl.load(x + rows[:, None] * stride + cols[None, :], mask=mask, other=0.0)
    """

    residual = residual_of(text, {"x": "*fp32", "M": "i32", "N": "i32", "stride": "i32"})

    (load,) = loads(residual)
    assert [] == dense(residual)
    assert [(1), (1)] == [len(bounds) for bounds in load.access.hi]
    assert (1, 0) == tuple(len(bounds) for bounds in load.access.lo)
    assert load.access.strides[1] == 1 and load.access.rest is None and load.access.mask is None


def test_bounds_that_always_hold_are_dropped() -> None:
    text = """
    def k(x):
        i = tl.arange(0, 16)
        a = tl.load(x + i, mask=(i < 16) & (i >= 0) & (i < 99) & True, other=0.0)
    """

    (load,) = loads(residual_of(text, {"x": "*fp32"}))

    assert ((), (), ()) == (load.access.lo, load.access.hi, load.access.preds)


def test_division_in_an_address_stays_known() -> None:
    text = """
    def k(x, n):
        i = tl.arange(0, 16)
        a = tl.load(x + i // 4 * n + i % 4)
    """

    (load,) = loads(residual_of(text, {"x": "*fp32", "n": "i32"}))

    assert load.access.rest is not None and load.index is None


def test_loaded_rows_gather_with_an_index_of_one_column() -> None:
    text = """
    def k(o, rows, x, n):
        r = tl.load(rows + tl.arange(0, 4))
        c = tl.arange(0, 8)
        v = tl.load(x + r[:, None] * n + c[None, :], mask=(r[:, None] >= 0) & (c[None, :] < n), other=0.5)
        tl.store(o + tl.arange(0, 4)[:, None] * 8 + c[None, :], v)
    """
    rows, x = np.array([3, -1, 9, 0]), np.arange(60, dtype=np.float32)
    expected = np.full((4, 8), 0.5, np.float32)
    for lane, row in enumerate(rows):
        expected[lane, :6] = x[row * 6 : row * 6 + 6] if row >= 0 else 0.5

    residual = residual_of(text, {"o": "*fp32", "rows": "*i64", "x": "*fp32", "n": "i32"})
    found = run(text, {"o": np.zeros(32, np.float32), "rows": rows, "x": x, "n": 6})["o"]

    gather = loads(residual)[1]
    views = {instr.result: instr.source.shape for instr in residual.body if isinstance(instr, ViewOf)}
    assert gather.index is not None and (4, 1) == views[gather.index]
    assert (0, 1) == gather.access.strides
    assert np.array_equal(expected.reshape(-1), found)


def test_a_hash_wraps() -> None:
    text = """
    def k(o, seed):
        i = tl.arange(0, 8)
        h = (i + seed) * 1664525 + 1013904223
        h = h ^ (h >> 15)
        tl.store(o + i, h)
        tl.store(o + 8 + i, (h > 0).to(tl.int32))
        tl.store(o + 16 + i, h.to(tl.int64))
    """
    h = ((np.arange(8) + 5) * 1664525 + 1013904223).astype(np.int32)
    h = h ^ (h >> 15)

    found = run(text, {"o": np.zeros(24, np.int64), "seed": 5})["o"].reshape(3, 8)

    assert np.array_equal([h, h > 0, h], found)


def test_expressions_that_grow_become_dense() -> None:
    body = "\n".join("        v = v ^ (v >> 1)" for _ in range(10))
    text = f"""
    def k(o):
        v = tl.arange(0, 8)
{body}
        tl.store(o + tl.arange(0, 8), v)
    """
    v = np.arange(8)
    for _ in range(10):
        v = v ^ (v >> 1)

    assert np.array_equal(v, run(text, {"o": np.zeros(8, np.int32)})["o"])


def test_a_mask_is_materialised_once_and_inverts() -> None:
    text = """
    def k(o, x, n):
        i = tl.arange(0, 8)
        m = i < n
        v = tl.load(x + i)
        tl.store(o + i, tl.where(m, v, 0.0) + tl.where(m, v, 1.0) + tl.where(~m, 10.0, 0.0))
    """
    x = np.arange(8, dtype=np.float32)

    residual = residual_of(text, {"o": "*fp32", "x": "*fp32", "n": "i32"})

    assert 2 == sum(isinstance(instr, MaskBlock) for instr in residual.body)
    expected = np.where(np.arange(8) < 3, 2 * x, 11)
    assert np.array_equal(expected, run(text, {"o": np.zeros(8, np.float32), "x": x, "n": 3})["o"])


def test_what_a_branch_materialised_is_gone_behind_it() -> None:
    text = """
    def k(o, n):
        i = tl.arange(0, 4)
        if n > 0:
            tl.store(o + i, i)
        tl.store(o + 4 + i, i)
    """

    found = run(text, {"o": np.full(8, -1, np.int32), "n": 0})["o"]

    assert [-1, -1, -1, -1, 0, 1, 2, 3] == list(found)


def test_known_selections_and_masks_as_numbers_stay_in_addresses() -> None:
    text = """
    def k(o, x, n):
        i = tl.arange(0, 8)
        at = tl.where(i < n, i, 7 - i) + (i >= 6).to(tl.int32) * 0 + tl.minimum(i, 0)
        tl.store(o + i, tl.load(x + at))
    """
    x, i = np.arange(8, dtype=np.int32) * 3, np.arange(8)

    residual = residual_of(text, {"o": "*i32", "x": "*i32", "n": "i32"})

    assert [] == dense(residual)
    expected = x[np.where(i < 3, i, 7 - i)]
    assert np.array_equal(expected, run(text, {"o": np.zeros(8, np.int32), "x": x, "n": 3})["o"])
