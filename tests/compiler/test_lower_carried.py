"""Carried blocks: homes instead of copies, rings where values take turns, copies where nothing else is right."""

import numpy as np
import pytest

from kernbench.commands import CompositeTemplate, walk
from tests.compiler.kernels import TARGET, compiled, run


def copies(program: object) -> int:
    """Copies of one block to another (not fills)."""
    ops = [op for node in walk(program.body) if isinstance(node, CompositeTemplate) for op in node.ops]  # type: ignore[attr-defined]
    return sum(op.kind == "copy" and "src" in op.operands and op.operands["src"].dtype is op.out.dtype for op in ops)


SUM = """
def total(x, out, n):
    at = tl.arange(0, 4)
    acc = tl.zeros((4,), tl.float32)
    for i in range(0, n):
        acc = acc + tl.load(x + i * 4 + at)
    tl.store(out + at, acc)
"""


@pytest.mark.parametrize("opt", [0, 1])
def test_an_accumulator_lives_in_one_home_without_copies(opt: int) -> None:
    x, out = np.arange(12, dtype=np.float32), np.zeros(4, np.float32)
    machine = run(SUM, {"x": x, "out": out, "n": 3}, opt=opt)

    assert [12, 15, 18, 21] == out.tolist()
    assert 0 == copies(machine.program)


def test_a_loop_of_no_trips_leaves_the_first_value() -> None:
    out = np.full(4, 7, np.float32)
    run(SUM, {"x": np.ones(4, np.float32), "out": out, "n": 0})

    assert [0, 0, 0, 0] == out.tolist()


AHEAD = """
def ahead(x, out, n):
    at = tl.arange(0, 4)
    acc = tl.zeros((4,), tl.float32)
    k = tl.load(x + at)
    for i in range(0, n):
        k_next = tl.load(x + (i + 1) * 4 + at, mask=at + (i + 1) * 4 < n * 4, other=0.0)
        acc = acc * 2.0 + k
        k = k_next
    tl.store(out + at, acc + k)
"""


@pytest.mark.parametrize("opt", [0, 1])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_a_value_loaded_ahead_by_hand_takes_turns_in_a_ring(opt: int, n: int) -> None:
    x, out = np.arange(40, dtype=np.float32), np.zeros(4, np.float32)
    machine = run(AHEAD, {"x": x, "out": out, "n": n}, opt=opt)

    expected = np.zeros(4, np.float32)
    for i in range(n):
        expected = expected * 2 + x[4 * i : 4 * i + 4]
    assert (expected + (x[:4] if n == 0 else 0)).tolist() == out.tolist()
    assert 0 == copies(machine.program)
    assert 2 in [buffer.depth for buffer in machine.program.buffers if buffer.name == "k"]


TWO_AHEAD = """
def two_ahead(x, out, n):
    at = tl.arange(0, 4)
    k0 = tl.load(x + at)
    k1 = tl.load(x + 4 + at)
    for i in range(0, n):
        k2 = tl.load(x + (i + 2) * 4 + at)
        tl.store(out + i * 4 + at, k0 + k1 + k2)
        k0 = k1
        k1 = k2
    tl.store(out + n * 4 + at, k0 - k1)
"""


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_values_pass_through_a_ring_of_three(n: int) -> None:
    x, out = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
    machine = run(TWO_AHEAD, {"x": x, "out": out, "n": n})

    rows = x.reshape(10, 4)
    expected = [rows[i] + rows[i + 1] + rows[i + 2] for i in range(n)] + [rows[n] - rows[n + 1]]
    assert np.concatenate(expected).tolist() == out[: 4 * n + 4].tolist()
    assert 0 == copies(machine.program)


SWAP = """
def swap(x, out, n):
    at = tl.arange(0, 4)
    a = tl.load(x + at)
    b = tl.load(x + 4 + at)
    for i in range(0, n):
        a, b = b, a
    tl.store(out + at, a)
    tl.store(out + 4 + at, b)
"""


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_two_values_swap(n: int) -> None:
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    run(SWAP, {"x": x, "out": out, "n": n})

    expected = [*range(4, 8), *range(4)] if n % 2 else list(range(8))
    assert expected == out.tolist()


NESTED = """
def nested(x, out, n, m):
    at = tl.arange(0, 4)
    total = tl.zeros((4,), tl.float32)
    last = tl.zeros((4,), tl.float32)
    for i in range(0, n):
        part = tl.zeros((4,), tl.float32)
        before = total
        for j in range(0, m):
            row = tl.load(x + (i * m + j) * 4 + at)
            part += row - last
            last = row
        total = total + part + before * 0.5
    tl.store(out + at, total + last)
"""


@pytest.mark.parametrize("opt", [0, 1])
@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 0), (2, 3), (4, 1)])
def test_nested_loops_carry_blocks(opt: int, n: int, m: int) -> None:
    x, out = np.arange(64, dtype=np.float32) % 7, np.zeros(4, np.float32)
    run(NESTED, {"x": x, "out": out, "n": n, "m": m}, opt=opt)

    total, last = np.zeros(4), np.zeros(4)
    for i in range(n):
        part, before = np.zeros(4), total
        for j in range(m):
            row = x[(i * m + j) * 4 :][:4]
            part, last = part + row - last, row
        total = total + part + before * 0.5
    assert (total + last).tolist() == out.tolist()


BRANCH = """
def branch(x, out, flag):
    at = tl.arange(0, 4)
    a = tl.load(x + at)
    b = a * 2.0
    if flag > 0:
        c = a + b
    else:
        c = b
    tl.store(out + at, c)
    tl.store(out + 4 + at, b)
"""


@pytest.mark.parametrize("flag", [0, 1])
def test_a_branch_yields_a_block_and_leaves_others_alone(flag: int) -> None:
    x, out = np.arange(4, dtype=np.float32), np.zeros(8, np.float32)
    run(BRANCH, {"x": x, "out": out, "flag": flag})

    assert [*(x * (3 if flag else 2)), *(x * 2)] == out.tolist()


GUARDED = """
def guarded(x, out, n):
    at = tl.arange(0, 4)
    acc = tl.zeros((4,), tl.float32)
    k = tl.load(x + at)
    for i in range(0, n):
        ahead = k
        if i + 1 < n:
            ahead = tl.load(x + (i + 1) * 4 + at)
        acc = acc * 2.0 + k
        k = ahead
    tl.store(out + at, acc + k)
"""


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_guarded_load_ahead(n: int) -> None:
    x, out = np.arange(12, dtype=np.float32), np.zeros(4, np.float32)
    run(GUARDED, {"x": x, "out": out, "n": n})

    acc = np.zeros(4)
    for i in range(n):
        acc = acc * 2 + x[4 * i : 4 * i + 4]
    assert (acc + x[4 * n - 4 : 4 * n]).tolist() == out.tolist()


EARLY = """
@triton.jit
def pick(a, b, flag):
    if flag > 1:
        return a
    if flag > 0:
        return a + b
    return b


@triton.jit
def early(x, out, flag):
    at = tl.arange(0, 4)
    a = tl.load(x + at)
    b = tl.load(x + 4 + at)
    c = pick(a, b, flag)
    tl.store(out + at, c)
    tl.store(out + 4 + at, a)
    tl.store(out + 8 + at, b)
"""


@pytest.mark.parametrize("flag", [0, 1, 2])
def test_early_returns_of_a_helper_yield_blocks(flag: int) -> None:
    x, out = np.arange(8, dtype=np.float32), np.zeros(12, np.float32)
    run(EARLY.removeprefix("\n@triton.jit\n"), {"x": x, "out": out, "flag": flag})

    a, b = x[:4], x[4:]
    assert [*(b, a + b, a)[flag], *a, *b] == out.tolist()


VIEWS = """
def views(x, out, n):
    row = tl.arange(0, 4)
    t = tl.load(x + row[:, None] * 4 + row[None, :])
    for i in range(0, n):
        t = t + tl.trans(t)
    tl.store(out + row[:, None] * 4 + row[None, :], t)
"""


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_block_is_not_overwritten_while_its_transpose_is_read(n: int) -> None:
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    run(VIEWS, {"x": x, "out": out, "n": n})

    t = x.reshape(4, 4)
    for _ in range(n):
        t = t + t.T
    assert t.reshape(-1).tolist() == out.tolist()


WHILE = """
def halve(x, out, limit):
    at = tl.arange(0, 4)
    v = tl.load(x + at)
    i = 0
    while i < limit:
        v = v * 0.5
        i += 1
    tl.store(out + at, v)
"""


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_while_loop_carries_a_block(limit: int) -> None:
    x, out = np.full(4, 8, np.float32), np.zeros(4, np.float32)
    run(WHILE, {"x": x, "out": out, "limit": limit})

    assert [8 / 2**limit] * 4 == out.tolist()


DOT = """
def matmul(a, b, c, K, BM: tl.constexpr, BK: tl.constexpr):
    i = tl.arange(0, BM)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BM), tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a + i[:, None] * K + start + k[None, :])
        y = tl.load(b + (start + k[:, None]) * BM + i[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + i[:, None] * BM + i[None, :], acc.to(tl.float16))
"""


@pytest.mark.parametrize("opt", [0, 1])
def test_a_product_accumulates_in_place_by_a_tile_epilogue(opt: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(16, 64)).astype(np.float16), rng.normal(size=(64, 16)).astype(np.float16)
    c = np.zeros((16, 16), np.float16)
    machine = run(DOT, {"a": a, "b": b, "c": c, "K": 64}, opt=opt, BM=16, BK=16)

    expected = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    assert np.allclose(expected, c, rtol=2e-3, atol=2e-3)
    kinds = [[op.kind for op in node.ops] for node in walk(machine.program.body) if isinstance(node, CompositeTemplate)]
    assert ["gemm", "add"] in kinds
    assert TARGET.tcm_bytes >= machine.program.tcm_bytes


def test_static_marks_follow_loaded_offsets_and_bounds_only() -> None:
    text = """
def pages(table, lengths, x, out):
    at = tl.arange(0, 4)
    page = tl.load(table)
    rows = tl.load(lengths + at)
    v = tl.load(x + page * 4 + at)
    w = tl.load(x + rows)
    tl.store(out + at, v + w)
"""
    types = {"table": "*i32", "lengths": "*i32", "x": "*fp32", "out": "*fp32"}
    program = compiled(text, types, opt=0).program
    marks = {type(n).__name__ + str(n.id): n.static for n in walk(program.body) if hasattr(n, "static")}

    assert [True, True, False, False, False] == list(marks.values())
