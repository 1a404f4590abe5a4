"""What control flow computes: loops, branches, early returns, helpers, and what they carry."""

from __future__ import annotations

import numpy as np
import pytest

from kernbench.compiler import frame
from kernbench.compiler.residual import BlockRegion, CompositeCall, ForRegion, IfRegion, StoreBlock
from tests.compiler.elaborating import error_of, errors_of, residual_of, run, typed


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def out(n: int = 1, dtype: type = np.int32) -> np.ndarray:
    return np.full(n, -1, dtype)


# --------------------------------------------------------------------------- rolled loops


def test_a_loop_carries_scalars_in_parallel() -> None:
    text = """
    def k(o, n):
        a = 0
        b = 1
        for i in range(n):
            a, b = b, a + b
        tl.store(o, a)
        tl.store(o + 1, b)
    """

    assert [55, 89] == list(run(text, {"o": out(2), "n": 10})["o"])
    assert [0, 1] == list(run(text, {"o": out(2), "n": 0})["o"])


def test_zero_widens_to_the_type_of_what_is_added_even_without_a_trip() -> None:
    text = """
    def k(o, n, x):
        total = 0
        for i in range(n):
            total += x
        tl.store(o, total)
    """

    assert 7.5 == run(text, {"o": out(1, np.float32), "n": 3, "x": 2.5})["o"][0]
    assert 0.0 == run(text, {"o": out(1, np.float32), "n": 0, "x": 2.5})["o"][0]


def test_loops_stay_loops_whatever_their_trip_count() -> None:
    text = """
    def k(o, N: tl.constexpr):
        total = 0
        for i in range(N):
            total += i
        tl.store(o, total)
    """
    short = residual_of(text, {"o": "*i32"}, {"N": 10})
    long = residual_of(text, {"o": "*i32"}, {"N": 1_000_000})

    assert len(short.register_dtypes) == len(long.register_dtypes)
    assert [1] == [len([i for i in r.body if isinstance(i, ForRegion)]) for r in (long,)]


def test_a_name_that_does_not_change_is_not_carried() -> None:
    text = """
    def k(o, n, m):
        same = m + 1
        total = 0
        for i in range(n):
            same = same
            total += same
        tl.store(o, total)
    """
    loop = next(i for i in residual_of(text, {"o": "*i32", "n": "i32", "m": "i32"}).body if isinstance(i, ForRegion))

    assert 1 == len(loop.moves)


def test_a_name_that_is_bound_anew_in_each_trip_is_not_carried() -> None:
    text = """
    def k(x, o, n, B: tl.constexpr):
        columns = tl.arange(0, B)
        for i in range(n):
            t = tl.load(x + columns)
            tl.store(o + columns, t)
        for i in range(n):
            t = tl.load(x + columns + B)
            tl.store(o + columns + B, t)
    """
    residual = residual_of(text, {"x": "*fp32", "o": "*fp32", "n": "i32"}, {"B": 4})

    assert [(), ()] == [i.blocks for i in residual.body if isinstance(i, ForRegion)]


def test_pointers_advance_and_swap() -> None:
    text = """
    def k(x, y, o, n):
        for i in range(n):
            tl.store(o + i, tl.load(x) * 100 + tl.load(y))
            x, y = y, x + 1
    """

    result = run(text, {"x": ints(1, 2, 3, 4), "y": ints(5, 6, 7, 8), "o": out(4), "n": 4})["o"]

    assert [105, 502, 206, 603] == list(result)


def test_blocks_swap_in_a_loop() -> None:
    text = """
    def k(x, o, n, B: tl.constexpr):
        at = tl.arange(0, B)
        a = tl.load(x + at)
        b = tl.load(x + B + at)
        for i in range(n):
            a, b = b, a
        tl.store(o + at, a)
        tl.store(o + B + at, b)
    """
    x = np.arange(8, dtype=np.float32)

    assert [4, 5, 6, 7, 0, 1, 2, 3] == list(run(text, {"x": x, "o": out(8, np.float32), "n": 3}, {"B": 4})["o"])
    assert list(x) == list(run(text, {"x": x, "o": out(8, np.float32), "n": 0}, {"B": 4})["o"])


def test_nested_loops_carry_through_each_other() -> None:
    text = """
    def k(o, n):
        total = 0
        for i in range(n):
            for j in range(i):
                for l in range(j):
                    total += l + 1
        tl.store(o, total)
    """
    expected = sum(m + 1 for i in range(6) for j in range(i) for m in range(j))

    assert expected == run(text, {"o": out(), "n": 6})["o"][0]


def test_work_does_not_double_with_each_level_of_nesting() -> None:
    depth = 14
    lines = ["def k(o, n):", "    total = 0"]
    for level in range(depth):
        lines.append("    " * (level + 1) + f"for i{level} in range(n):")
        lines.append("    " * (level + 2) + "total += 1")
    lines.append("    tl.store(o, total)")

    assert typed("\n".join(lines), {"o": "*i32", "n": "i32"}).count("for ") == depth


def test_bounds_step_and_negative_steps() -> None:
    text = """
    def k(o, a, b, s):
        n = 0
        for i in range(a, b, s):
            tl.store(o + n, i)
            n += 1
    """
    for bounds in ((0, 10, 3), (10, 0, -4), (5, 5, 1), (-3, 4, 2)):
        a, b, s = bounds
        expected = list(range(*bounds))

        assert expected + [-1] * (8 - len(expected)) == list(run(text, {"o": out(8), "a": a, "b": b, "s": s})["o"])


def test_the_loop_variable_keeps_its_last_value() -> None:
    text = """
    def k(o):
        for i in range(0, 4):
            pass
        tl.store(o, i)
    """

    assert 3 == run(text, {"o": out()})["o"][0]


def test_a_name_reused_as_loop_variable_keeps_its_value_without_a_trip() -> None:
    text = """
    def k(o, n):
        i = 42
        for i in range(n):
            pass
        tl.store(o, i)
    """

    assert [42, 4] == [run(text, {"o": out(), "n": n})["o"][0] for n in (0, 5)]


def test_a_name_first_bound_in_a_loop_that_surely_runs() -> None:
    text = """
    def k(o, x, B: tl.constexpr):
        at = tl.arange(0, B)
        for i in range(0, 3):
            v = tl.load(x + i * B + at)
            w = i * 10
        tl.store(o + at, v + w)
    """
    x = np.arange(12, dtype=np.float32)

    assert list(x[8:] + 20) == list(run(text, {"o": out(4, np.float32), "x": x}, {"B": 4})["o"])


def test_a_name_first_bound_in_a_loop_that_may_not_run_is_told_at_its_use() -> None:
    text = """
    def k(o, n):
        for i in range(n):
            v = 1.0
        tl.store(o, v)
    """
    error = error_of(text, {"o": "*fp32", "n": "i32"})

    assert ("E_MAYBE_UNBOUND", 8) == (error.code, error.primary and error.primary.span.line)
    assert [7, 6] == [label.span.line for label in error.secondary]


def test_a_type_that_changes_in_a_loop_is_told_with_both_places() -> None:
    text = """
    def k(o, n, B: tl.constexpr):
        acc = tl.zeros((B,), tl.float32)
        for i in range(n):
            acc = acc[:, None]
        tl.store(o + tl.arange(0, B), acc)
    """
    error = error_of(text, {"o": "*fp32", "n": "i32"}, {"B": 8})

    assert ("E_CARRIED_TYPE", 8) == (error.code, error.primary and error.primary.span.line)
    assert [6] == [label.span.line for label in error.secondary]


def test_a_specialised_constant_and_a_variable_behave_alike_in_a_loop() -> None:
    text = """
    def k(o, stride, other, n):
        for i in range(n):
            tl.store(o + i, stride)
            stride = other
    """

    assert [1, 9, 9] == list(run(text, {"o": out(3), "other": 9, "n": 3}, {"stride": 1})["o"])
    assert [2, 9, 9] == list(run(text, {"o": out(3), "stride": 2, "other": 9, "n": 3})["o"])


# --------------------------------------------------------------------------- unrolled loops


def test_static_range_unrolls_with_constexpr_variables() -> None:
    text = """
    def k(o, N: tl.constexpr):
        for i in tl.static_range(N):
            a: tl.constexpr = 2
            if i % a == 0:
                tl.store(o + i, i * 10)
    """

    assert [0, -1, 20, -1, 40] == list(run(text, {"o": out(5)}, {"N": 5})["o"])


def test_static_range_of_too_many_trips() -> None:
    text = """
    def k(o):
        for i in tl.static_range(1000000):
            tl.store(o + i, i)
    """

    assert "E_UNROLL_TOO_LARGE" == error_of(text, {"o": "*i32"}).code


def test_unrolling_within_unrolling_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "MAX_STEPS", 1500)
    text = """
    def k(o):
        for i in tl.static_range(1000):
            for j in tl.static_range(1000):
                tl.store(o + i, j)
    """

    assert "E_PROGRAM_TOO_LARGE" == error_of(text, {"o": "*i32"}).code


def test_a_limit_passed_within_a_loop_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "MAX_STEPS", 1500)
    text = """
    def k(o, n):
        for i in range(n):
            while n > 3:
                for j in tl.static_range(1000):
                    for l in tl.static_range(1000):
                        n -= 1
    """

    assert "E_PROGRAM_TOO_LARGE" == error_of(text, {"o": "*i32", "n": "i32"}).code


def test_a_mistake_in_an_unrolled_loop_is_told_once() -> None:
    text = """
    def k(o, n):
        for i in range(n):
            for j in tl.static_range(1000):
                tl.store(o, missing)
    """

    assert ["E_UNKNOWN_NAME"] == [e.code for e in errors_of(text, {"o": "*i32", "n": "i32"})]


# --------------------------------------------------------------------------- branches


def test_a_run_time_branch_joins_names() -> None:
    text = """
    def k(o, n):
        x = 5
        if n > 3:
            x = n * 2
        elif n > 1:
            x = 7
            y = 1
        else:
            y = 2
        tl.store(o, x)
    """

    assert [5, 7, 20] == [run(text, {"o": out(), "n": n})["o"][0] for n in (1, 2, 10)]


def test_a_run_time_branch_joins_blocks_and_pointers() -> None:
    text = """
    def k(x, y, o, n, B: tl.constexpr):
        at = tl.arange(0, B)
        if n > 0:
            p = x + at
            v = tl.load(p) + 1
        else:
            p = y + at
            v = tl.load(y + at)
        tl.store(o + at, v * 100 + tl.load(p))
    """
    x, y = np.arange(4, dtype=np.float32), np.arange(4, dtype=np.float32) + 10

    assert list((x + 1) * 100 + x) == list(run(text, {"x": x, "y": y, "o": out(4, np.float32), "n": 1}, {"B": 4})["o"])
    assert list(y * 100 + y) == list(run(text, {"x": x, "y": y, "o": out(4, np.float32), "n": 0}, {"B": 4})["o"])


def test_a_branch_not_taken_at_compile_time_is_not_looked_at() -> None:
    text = """
    def k(o, x, MODE: tl.constexpr):
        if MODE == 0 or x is None:
            tl.store(o, 1)
        else:
            nonsense.that.does(not_exist)
    """

    assert 1 == run(text, {"o": out()}, {"MODE": 0, "x": None})["o"][0]


def test_a_name_bound_on_one_path_is_told_where_it_is_read() -> None:
    text = """
    def k(o, n):
        if n > 0:
            v = 1
        tl.store(o, v)
    """
    error = error_of(text, {"o": "*i32", "n": "i32"})

    assert ("E_MAYBE_UNBOUND", 8) == (error.code, error.primary and error.primary.span.line)


def test_a_name_bound_on_one_path_and_never_read_is_fine() -> None:
    text = """
    def k(o, n):
        if n > 0:
            v = 1
        tl.store(o, n)
    """

    assert 3 == run(text, {"o": out(), "n": 3})["o"][0]


def test_types_that_do_not_join_are_told_where_the_name_is_read() -> None:
    text = """
    def k(o, n, B: tl.constexpr):
        if n > 0:
            v = tl.zeros((B,), tl.float32)
        else:
            v = tl.zeros((2 * B,), tl.float32)
        tl.store(o + tl.arange(0, B), v)
    """
    error = error_of(text, {"o": "*fp32", "n": "i32"}, {"B": 8})

    assert ("E_BRANCH_TYPES", 10) == (error.code, error.primary and error.primary.span.line)
    assert [7, 9] == [label.span.line for label in error.secondary]


def test_ternaries() -> None:
    text = """
    def k(o, x, n, C: tl.constexpr):
        a = tl.load(x) if n > 0 else 9
        b = n if C else nonsense
        tl.store(o, a * 100 + b)
    """

    assert [701, 900] == [run(text, {"o": out(), "x": ints(7), "n": n}, {"C": True})["o"][0] for n in (1, 0)]


def test_run_time_conditions_short_circuit() -> None:
    text = """
    def k(o, x, n, m):
        if n < m and tl.load(x + n) > 0:
            tl.store(o, 1)
        elif n == 99 or tl.load(x) > 100 or not n < m:
            tl.store(o, 2)
        else:
            tl.store(o, 3)
    """
    x = ints(-5, 5)

    assert [3, 1, 2, 2] == [run(text, {"o": out(), "x": x, "n": n, "m": 2})["o"][0] for n in (0, 1, 99, 50_000_000)]


def test_boolean_chains_of_scalars_and_constants() -> None:
    text = """
    def k(o, a, b, c, F: tl.constexpr):
        u = a > 0 or b > 0 or c > 0
        v = F and a > 0
        w = a > 0 and F
        tl.store(o, u)
        tl.store(o + 1, v)
        tl.store(o + 2, w)
    """

    assert [1, 0, 0] == list(run(text, {"o": out(3), "a": 0, "b": 0, "c": 3}, {"F": True})["o"])
    assert [1, 1, 1] == list(run(text, {"o": out(3), "a": 1, "b": 0, "c": 0}, {"F": True})["o"])
    assert [1, 0, 0] == list(run(text, {"o": out(3), "a": 1, "b": 0, "c": 0}, {"F": False})["o"])


# --------------------------------------------------------------------------- early returns


EARLY = """
def k(o, n):
    if n < 0:
        return
    tl.store(o, 1)
    if n > 10:
        if n > 20:
            tl.store(o, 3)
            return
        tl.store(o, 2)
    for i in range(n):
        if i == 5:
            return
        tl.store(o + 1, i)
"""


@pytest.mark.parametrize(
    ("n", "expected"), [(-1, [-1, -1]), (0, [1, -1]), (3, [1, 2]), (8, [1, 4]), (15, [2, 4]), (30, [3, -1])]
)
def test_early_returns(n: int, expected: list[int]) -> None:
    assert expected == list(run(EARLY, {"o": out(2), "n": n})["o"])


def test_what_follows_an_early_return_is_not_copied() -> None:
    lines = ["def k(o, n):"]
    for i in range(40):
        lines += [f"    if n == {i}:", "        return", f"    tl.store(o + {i}, {i})"]

    text = typed("\n".join(lines), {"o": "*i32", "n": "i32"})

    assert 40 == text.count("store [")


def test_an_if_whose_else_leaves() -> None:
    text = """
    def k(o, n):
        if n > 0:
            x = n
        else:
            return
        tl.store(o, x)
    """

    assert [-1, 7] == [run(text, {"o": out(), "n": n})["o"][0] for n in (0, 7)]


# --------------------------------------------------------------------------- while


def test_while_counts() -> None:
    text = """
    def k(o, n):
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        tl.store(o, steps)
    """

    assert [0, 111] == [run(text, {"o": out(), "n": n})["o"][0] for n in (1, 27)]


def test_while_over_memory_with_a_short_circuit() -> None:
    text = """
    def k(o, x, n):
        i = 0
        while i < n and tl.load(x + i) != 0:
            i += 1
        tl.store(o, i)
    """
    x = ints(3, 2, 1, 0, 5)

    assert [3, 2] == [run(text, {"o": out(), "x": x, "n": n})["o"][0] for n in (5, 2)]


def test_a_loop_that_nothing_ends() -> None:
    assert "E_ENDLESS_LOOP" == error_of("def k(o):\n    while True:\n        tl.store(o, 1)", {"o": "*i32"}).code


def test_while_true_left_by_a_return() -> None:
    text = """
    def k(o, n):
        i = 0
        while True:
            i += 2
            if i > n:
                tl.store(o, i)
                return
    """

    assert 8 == run(text, {"o": out(), "n": 7})["o"][0]


# --------------------------------------------------------------------------- helpers


def test_helpers_with_tuples_defaults_and_keywords() -> None:
    text = """
    def pair(a, b=3, *, c: tl.constexpr = 10):
        return a + b, a * c

    def k(o, n):
        x, y = pair(n)
        z, _ = pair(n, c=2, b=1)
        tl.store(o, x)
        tl.store(o + 1, y)
        tl.store(o + 2, z)
    """

    assert [7, 40, 5] == list(run(text, {"o": out(3), "n": 4})["o"])


def test_a_helper_with_run_time_returns_of_two_types() -> None:
    text = """
    def sign(x):
        if x > 0:
            return 1
        if x < 0:
            return -1.5
        return 0

    def k(o, x):
        tl.store(o, sign(x) * 2)
    """

    assert [2, -3, 0] == [run(text, {"o": out(1, np.float32), "x": x})["o"][0] for x in (5, -5, 0)]


def test_a_helper_that_returns_blocks_early() -> None:
    text = """
    def pick(x, at, n):
        v = tl.load(x + at)
        if n > 0:
            return v + 1
        return v * 10

    def k(x, o, n, B: tl.constexpr):
        at = tl.arange(0, B)
        tl.store(o + at, pick(x, at, n))
    """
    x = np.arange(4, dtype=np.float32)

    assert list(x + 1) == list(run(text, {"x": x, "o": out(4, np.float32), "n": 1}, {"B": 4})["o"])
    assert list(x * 10) == list(run(text, {"x": x, "o": out(4, np.float32), "n": 0}, {"B": 4})["o"])


def test_a_helper_without_run_time_returns_needs_no_block() -> None:
    text = """
    def twice(x, FLAG: tl.constexpr):
        if FLAG:
            return x * 2
        else:
            return x

    def k(o, n):
        tl.store(o, twice(n, True))
    """
    residual = residual_of(text, {"o": "*i32", "n": "i32"})

    assert not any(isinstance(instr, BlockRegion | IfRegion) for instr in residual.body)


def test_a_helper_that_gives_a_value_on_some_paths_only() -> None:
    text = """
    def some(x):
        if x > 0:
            return x

    def k(o, n):
        tl.store(o, some(n))
    """

    assert "E_RETURN_TYPES" == error_of(text, {"o": "*i32", "n": "i32"}).code


def test_recursion_is_refused() -> None:
    text = """
    def f(x):
        return g(x)

    def g(x):
        return f(x)

    def k(o, n):
        tl.store(o, f(n))
    """

    assert "E_RECURSION" == error_of(text, {"o": "*i32", "n": "i32"}).code


def test_helpers_that_call_helpers_have_a_limit() -> None:
    lines = ["def f0(x):", "    return x"]
    for i in range(1, 40):
        lines += [f"def f{i}(x):", f"    return f{i - 1}(x)"]
    lines += ["def k(o, n):", "    tl.store(o, f39(n))"]

    assert "E_INLINE_TOO_DEEP" == error_of("\n".join(lines), {"o": "*i32", "n": "i32"}).code


def test_helpers_that_multiply_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "MAX_STEPS", 1500)
    lines = ["def f0(x):", "    return x"]
    for i in range(1, 30):
        lines += [f"def f{i}(x):", f"    return f{i - 1}(x) + f{i - 1}(x)"]
    lines += ["def k(o, n):", "    tl.store(o, f29(n))"]

    assert "E_PROGRAM_TOO_LARGE" == error_of("\n".join(lines), {"o": "*i32", "n": "i32"}).code


# --------------------------------------------------------------------------- assertions and scratch scopes


def test_assertions() -> None:
    text = """
    def k(o, n, B: tl.constexpr):
        tl.static_assert(B % 4 == 0, f"B is {B}")
        assert n > 0, "n must be positive"
        tl.store(o, n)
    """

    assert "assertion failed: B is 6" == error_of(text, {"o": "*i32", "n": "i32"}, {"B": 6}).message
    assert "assert $" in typed(text, {"o": "*i32", "n": "i32"}, {"B": 8})


@pytest.mark.parametrize(
    "arguments", ["B == 8, 'it is not 8'", "B == 8, msg='it is not 8'", "msg='it is not 8', cond=B == 8"]
)
@pytest.mark.parametrize("word", ["static_assert", "device_assert"])
def test_an_assertion_takes_its_arguments_by_name(word: str, arguments: str) -> None:
    text = f"""
    def k(o, B: tl.constexpr):
        tl.{word}({arguments})
        tl.store(o, B)
    """

    assert 8 == run(text, {"o": out()}, {"B": 8})["o"][0]
    assert "assertion failed: it is not 8" == error_of(text, {"o": "*i32"}, {"B": 6}).message


def test_a_raise_that_is_reached_and_one_that_is_not() -> None:
    text = """
    def k(o, D: tl.constexpr):
        if D == 1:
            tl.store(o, 1)
        else:
            raise ValueError("D is odd")
    """

    assert 1 == run(text, {"o": out()}, {"D": 1})["o"][0]
    assert "E_RAISE_REACHED" == error_of(text, {"o": "*i32"}, {"D": 2}).code


def test_what_is_made_in_a_scratch_scope_does_not_leave_it() -> None:
    text = """
    def k(o, x, B: tl.constexpr):
        at = tl.arange(0, B)
        with tl.scratch_scope():
            v = tl.load(x + at)
            n = 3
        tl.store(o + at, v * n)
    """
    error = error_of(text, {"o": "*fp32", "x": "*fp32"}, {"B": 4})

    assert ("E_SCRATCH_ESCAPES", 10) == (error.code, error.primary and error.primary.span.line)


def test_all_errors_of_a_kernel_are_told_once() -> None:
    text = """
    def helper(x):
        return x + missing

    def k(o, n):
        a = unknwon
        b = a + 1
        for i in range(n):
            c = b + helper(i)
            d = also_missing
        e, f = (1, 2, 3)
        tl.store(o, a + c)
    """
    errors = errors_of(text, {"o": "*i32", "n": "i32"})

    assert [("E_UNKNOWN_NAME", 6), ("E_UNKNOWN_NAME", 12), ("E_UNKNOWN_NAME", 16), ("E_UNPACK", 17)] == sorted(
        (e.code, e.primary.span.line if e.primary else 0) for e in errors
    )


def test_an_error_in_a_helper_names_the_calls_around_it() -> None:
    text = """
    def inner(x):
        return x + missing

    def outer(x):
        return inner(x) * 2

    def k(o, n):
        tl.store(o, outer(n))
        tl.store(o + 1, outer(n + 1))
    """
    error = error_of(text, {"o": "*i32", "n": "i32"})

    assert ("E_UNKNOWN_NAME", 6) == (error.code, error.primary and error.primary.span.line)
    assert [12, 18] == [label.span.line for label in error.secondary]


# --------------------------------------------------------------------------- blocks that are written in place


def test_a_composite_writes_the_named_block_and_loops_carry_it() -> None:
    text = """
    def k(x, o, n, B: tl.constexpr):
        a = tl.zeros((B, B), tl.float32)
        other = a
        for i in range(n):
            t = tl.ref(x + i * B, (B, B))
            tl.composite(op="gemm", a=t, b=t, out=a, epilogue=[{"op": "add", "other": a}])
        at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
        tl.store(o + at, a)
        tl.store(o + at + B * B, other)
    """
    residual = residual_of(text, {"x": "*fp16", "o": "*fp32", "n": "i32"}, {"B": 4})
    loop = next(instr for instr in residual.body if isinstance(instr, ForRegion))
    stores = [instr.value for instr in residual.body if isinstance(instr, StoreBlock)]
    (composite,) = [instr for instr in loop.body if isinstance(instr, CompositeCall)]
    (carry,) = loop.blocks

    assert [(carry.slot, carry.nexts[0])] == list(composite.updates)
    assert [carry.slot, carry.init] == stores


@pytest.mark.parametrize("early", ["", "        if n > 5:\n            return\n"])
def test_a_helper_writes_its_callers_block(early: str) -> None:
    text = f"""
    def add(a, t, n):
{early}        tl.composite(op="gemm", a=t, b=t, out=a, epilogue=[{{"op": "add", "other": a}}])

    def through(a, t, n):
        add(a, t, n)

    def k(x, o, n, B: tl.constexpr):
        acc = tl.zeros((B, B), tl.float32)
        t = tl.ref(x, (B, B))
        through(acc, t, n)
        at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
        tl.store(o + at, acc)
    """
    residual = residual_of(text, {"x": "*fp16", "o": "*fp32", "n": "i32"}, {"B": 4})
    (store,) = [instr for instr in residual.body if isinstance(instr, StoreBlock)]
    blocks = [instr for instr in residual.body if isinstance(instr, BlockRegion)]
    composites = [instr for instr in residual.body if isinstance(instr, CompositeCall)]
    written = blocks[0].slots if early else [new for composite in composites for _, new in composite.updates]

    assert [store.value] == list(written)


def test_a_helper_that_leaves_early_writes_a_block_that_loops_carry() -> None:
    text = """
    def add(a, t, n):
        if n > 5:
            return
        tl.composite(op="gemm", a=t, b=t, out=a, epilogue=[{"op": "add", "other": a}])

    def k(x, o, n, B: tl.constexpr):
        acc = tl.zeros((B, B), tl.float32)
        total = 0
        for i in range(n):
            for j in range(i):
                add(acc, tl.ref(x, (B, B)), i)
                total += 1.5
        at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
        tl.store(o + at, acc + total)
    """
    residual = residual_of(text, {"x": "*fp16", "o": "*fp32", "n": "i32"}, {"B": 4})
    outer = next(instr for instr in residual.body if isinstance(instr, ForRegion))
    inner = next(instr for instr in outer.body if isinstance(instr, ForRegion))
    (block,) = [instr for instr in inner.body if isinstance(instr, BlockRegion)]

    assert [block.slots, (inner.blocks[0].slot,)] == [inner.blocks[0].nexts, outer.blocks[0].nexts]
