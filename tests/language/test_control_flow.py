"""Control flow at run time, with real values: `while`, loops over loaded bounds, early returns, carried types."""

from __future__ import annotations

import numpy as np
import pytest

from tests.language.running import run


def test_while_runs_as_long_as_its_condition_holds() -> None:
    """Collatz: the number of steps of each program's number."""
    text = """
    def k(x_ptr, o_ptr):
        pid = tl.program_id(0)
        n = tl.load(x_ptr + pid)
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        tl.store(o_ptr + pid, steps)
    """

    got = run(text, {"x_ptr": np.array([1, 6, 7, 27], np.int32), "o_ptr": np.zeros(4, np.int32)}, grid=(4,))["o_ptr"]

    assert [0, 8, 16, 111] == got.tolist()


@pytest.mark.parametrize("start", [0.0, 5.0])
def test_while_over_a_block_reduces_its_condition(start: float) -> None:
    """Halve a block until its largest value is below 1; of zero trips nothing changes."""
    text = """
    def k(x_ptr, o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i)
        trips = 0
        while (tl.max(x, 0) >= 1.0) & (trips < 100):
            x = x * 0.5
            trips += 1
        tl.store(o_ptr + i, x)
        tl.store(o_ptr + N, trips)
    """
    x = np.array([start, start / 2, 0.0, 0.25], np.float32)
    trips = 0 if start < 1 else 3

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros(5, np.float32)}, N=4)["o_ptr"]

    assert [*(x * 0.5**trips).tolist(), trips] == got.tolist()


def test_a_while_that_carries_a_pointer_and_searches() -> None:
    """The number of elements before the first negative one."""
    text = """
    def k(x_ptr, o_ptr, n):
        at = x_ptr
        count = 0
        found = tl.load(at) < 0
        while (count < n) and not found:
            at += 1
            count += 1
            found = tl.load(at) < 0
        tl.store(o_ptr, count)
    """
    args = {"x_ptr": np.array([3, 2, 9, -1, 4], np.int32), "o_ptr": np.zeros(1, np.int32), "n": 4}

    assert [3] == run(text, args)["o_ptr"].tolist()


@pytest.mark.parametrize(("start", "stop", "step"), [(0, 0, 1), (5, 2, 1), (7, 0, -2), (2, 9, 3), (3, 4, 1)])
def test_loaded_bounds_with_any_step(start: int, stop: int, step: int) -> None:
    text = """
    def k(b_ptr, o_ptr, step):
        total = 0
        last = -1
        for i in range(tl.load(b_ptr), tl.load(b_ptr + 1), step):
            total += i
            last = i
        tl.store(o_ptr, total)
        tl.store(o_ptr + 1, last)
    """
    trips = list(range(start, stop, step))

    args = {"b_ptr": np.array([start, stop], np.int32), "o_ptr": np.zeros(2, np.int32), "step": step}

    assert [sum(trips), trips[-1] if trips else -1] == run(text, args)["o_ptr"].tolist()


def test_programs_that_stride_through_the_work() -> None:
    text = """
    def k(o_ptr, n):
        for i in range(tl.program_id(0), n, tl.num_programs(0)):
            tl.store(o_ptr + i, tl.program_id(0) + 1)
    """

    got = run(text, {"o_ptr": np.zeros(7, np.int32), "n": 7}, grid=(3,))["o_ptr"]

    assert [1, 2, 3, 1, 2, 3, 1] == got.tolist()


def test_nested_loops_whose_bounds_are_loaded_inside() -> None:
    text = """
    def k(ptr_ptr, x_ptr, o_ptr, rows):
        for r in range(rows):
            total = 0.0
            for j in range(tl.load(ptr_ptr + r), tl.load(ptr_ptr + r + 1)):
                total += tl.load(x_ptr + j)
            tl.store(o_ptr + r, total)
    """
    args = {
        "ptr_ptr": np.array([0, 3, 3, 5], np.int32),
        "x_ptr": np.array([1, 2, 3, 10, 20], np.float32),
        "o_ptr": np.full(3, -1.0, np.float32),
        "rows": 3,
    }

    assert [6.0, 0.0, 30.0] == run(text, args)["o_ptr"].tolist()


def test_an_early_return_leaves_what_follows_undone() -> None:
    text = """
    def k(x_ptr, o_ptr):
        pid = tl.program_id(0)
        v = tl.load(x_ptr + pid)
        if v < 0:
            return
        if v == 7:
            tl.store(o_ptr + pid, 70)
            return
        tl.store(o_ptr + pid, v + 1)
    """

    got = run(text, {"x_ptr": np.array([-1, 7, 3], np.int32), "o_ptr": np.zeros(3, np.int32)}, grid=(3,))["o_ptr"]

    assert [0, 70, 4] == got.tolist()


def test_a_helper_that_returns_early_with_values() -> None:
    text = """
    def clipped(v, low, high):
        if v < low:
            return low, 1
        if v > high:
            return high, 2
        return v, 0

    def k(x_ptr, o_ptr):
        pid = tl.program_id(0)
        value, how = clipped(tl.load(x_ptr + pid), 0, 10)
        tl.store(o_ptr + 2 * pid, value)
        tl.store(o_ptr + 2 * pid + 1, how)
    """

    got = run(text, {"x_ptr": np.array([-5, 99, 4], np.int32), "o_ptr": np.zeros(6, np.int32)}, grid=(3,))["o_ptr"]

    assert [0, 1, 10, 2, 4, 0] == got.tolist()


def test_a_zero_before_a_loop_takes_the_type_of_what_is_added() -> None:
    text = """
    def k(x_ptr, o_ptr, n):
        total = 0
        for i in range(n):
            total += tl.load(x_ptr + i)
        tl.store(o_ptr, total)
    """
    x = np.array([0.5, 0.25], np.float32)

    assert [0.75] == run(text, {"x_ptr": x, "o_ptr": np.zeros(1, np.float32), "n": 2})["o_ptr"].tolist()
    assert [0.0] == run(text, {"x_ptr": x, "o_ptr": np.ones(1, np.float32), "n": 0})["o_ptr"].tolist()


def test_a_branch_picks_between_tensors() -> None:
    text = """
    def k(a_ptr, b_ptr, o_ptr, N: tl.constexpr):
        pid = tl.program_id(0)
        src = a_ptr if pid % 2 == 0 else b_ptr
        if pid >= 2:
            src += N
        i = tl.arange(0, N)
        tl.store(o_ptr + pid * N + i, tl.load(src + i))
    """
    a, b = np.arange(4, dtype=np.float32), np.arange(10, 14, dtype=np.float32)

    got = run(text, {"a_ptr": a, "b_ptr": b, "o_ptr": np.zeros(8, np.float32)}, grid=(4,), N=2)["o_ptr"]

    assert [0, 1, 10, 11, 2, 3, 12, 13] == got.tolist()


def test_and_or_not_on_blocks_are_elementwise_and_on_scalars_short_circuit() -> None:
    text = """
    def k(x_ptr, o_ptr, n, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i)
        tl.store(o_ptr + i, ((x > 1) and (x < 4)).to(tl.int32) + 2 * ((x < 1) or not (x < 5)).to(tl.int32))
        if n > 100 and tl.load(x_ptr + n) > 0:
            tl.store(o_ptr, 99)
    """
    x = np.arange(6, dtype=np.int32)

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros(6, np.int32), "n": 6}, N=6)["o_ptr"]

    assert [2, 0, 1, 1, 0, 2] == got.tolist()


def test_data_dependent_control_flow_of_inputs_works_in_timing_mode_too() -> None:
    text = """
    def k(b_ptr, x_ptr, o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        total = tl.zeros((N,), tl.float32)
        for j in range(tl.load(b_ptr)):
            page = tl.load(b_ptr + 1 + j)
            if page >= 0:
                total += tl.load(x_ptr + page * N + i)
        tl.store(o_ptr + i, total)
    """
    args = {
        "b_ptr": np.array([3, 2, -1, 0], np.int32),
        "x_ptr": np.arange(24, dtype=np.float32),
        "o_ptr": np.zeros(8, np.float32),
    }

    data, timing = (run(text, args, mode=mode, N=8) for mode in ("data", "timing"))

    assert (np.arange(8) + np.arange(16, 24)).tolist() == data["o_ptr"].tolist()
    assert data.total_ns == timing.total_ns


@pytest.mark.parametrize("opt_level", [0, 1])
def test_a_block_first_bound_in_a_loop_that_surely_runs_is_there_after_it(opt_level: int) -> None:
    text = """
    def k(x_ptr, o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        for r in range(tl.program_id(0), 2):
            total = tl.zeros((N,), tl.float32)
            for j in range(0, 3):
                x = tl.load(x_ptr + j * N + i)
                total += x
            for j in range(0, 3):
                x = tl.load(x_ptr + j * N + i) - x
                total += x * (r + 1)
            tl.store(o_ptr + r * N + i, total + x)
    """
    x = np.arange(6, dtype=np.float32).reshape(3, 2) ** 2
    want = []
    for r in range(2):
        total, last = x.sum(0), x[2]
        for j in range(3):
            last = x[j] - last
            total = total + last * (r + 1)
        want.append((total + last).tolist())

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros((2, 2), np.float32)}, opt_level=opt_level, N=2)["o_ptr"]

    assert want == got.tolist()


def test_a_return_in_a_loop_that_is_walked_again_keeps_its_block_apart() -> None:
    """The loop's first walk is thrown away, because `b` widens; the place of the result must not be given out again."""
    text = """
    def outer(x, limit, N: tl.constexpr):
        b = 3
        for i in range(0, 4):
            x = x + 1
            if tl.sum(x, 0) > limit:
                return x * 100
            square = x[:, None] * x[None, :]
            b += tl.sum(tl.sum(square, 0), 0) * 0.5
        return x + b

    def k(x_ptr, o_ptr, limit, N: tl.constexpr):
        at = tl.program_id(0) * N + tl.arange(0, N)
        tl.store(o_ptr + at, outer(tl.load(x_ptr + at), limit, N))
    """
    x = np.array([[4, 9, 2, 0], [-9, 1, 0, 0], [0, 0, 1, 1]], np.float32)

    def outer(row: np.ndarray) -> np.ndarray:
        b = 3.0
        for _ in range(4):
            row = row + 1
            if row.sum() > 8:
                return row * 100
            b += np.outer(row, row).sum() * 0.5
        return row + b

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros_like(x), "limit": 8}, grid=(3,), N=4)["o_ptr"]

    assert [outer(row).tolist() for row in x] == got.tolist()


@pytest.mark.parametrize(
    ("result", "told"), [("", []), ("None", []), ("0", ["R_RETURN_DROPPED"]), ("(N, 1)", ["R_RETURN_DROPPED"])]
)
def test_a_kernel_that_returns_a_constant_runs_as_in_triton(result: str, told: list[str]) -> None:
    text = f"""
    def k(x_ptr, n, N: tl.constexpr):
        if n > 3:
            return {result}
        tl.store(x_ptr, 1.0)
    """
    for n, stored in ((3, 1.0), (4, 0.0)):
        found = run(text, {"x_ptr": np.zeros(1, np.float32), "n": n}, N=8)

        assert told == [each.code for each in found.diagnostics]
        assert [stored] == found["x_ptr"].tolist()
