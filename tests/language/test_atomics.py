"""Atomics: duplicates, return values, masks, types, many programs, the cost; worked by hand."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.language.running import refused, run

ONE = """
    def k(v_ptr, i_ptr, m_ptr, old_ptr, N: tl.constexpr):
        lane = tl.arange(0, N)
        old = tl.{name}(m_ptr + tl.load(i_ptr + lane), tl.load(v_ptr + lane){more})
        tl.store(old_ptr + lane, old)
    """


def once(name: str, values: Any, index: list[int], memory: Any, more: str = "") -> tuple[list[Any], list[Any]]:
    """(memory afterwards, what came back)"""
    args = {
        "v_ptr": values,
        "i_ptr": np.array(index, np.int32),
        "m_ptr": memory,
        "old_ptr": np.full(len(values), 77).astype(memory.dtype),
    }
    out = run(ONE.replace("{name}", name).replace("{more}", more), args, N=len(values))
    return out["m_ptr"].astype(np.float64).tolist(), out["old_ptr"].astype(np.float64).tolist()


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.float32, np.float64, np.float16])
def test_lanes_that_name_one_element_take_turns(dtype: Any) -> None:
    memory, old = once("atomic_add", np.array([1, 2, 4, 8], dtype), [0, 1, 0, 0], np.array([10, 20], dtype))

    assert ([23, 22], [10, 20, 11, 15]) == (memory, old)


@pytest.mark.parametrize(
    ("name", "memory", "old"),
    [
        ("atomic_max", [5, -2], [1, -2, 5]),
        ("atomic_min", [1, -9], [1, -2, 1]),
        ("atomic_and", [1 & 5 & 3, -2 & -9], [1, -2, 1 & 5]),
        ("atomic_or", [1 | 5 | 3, -2 | -9], [1, -2, 1 | 5]),
        ("atomic_xor", [1 ^ 5 ^ 3, -2 ^ -9], [1, -2, 1 ^ 5]),
        ("atomic_xchg", [3, -9], [1, -2, 5]),
    ],
)
def test_every_kind(name: str, memory: list[int], old: list[int]) -> None:
    assert (memory, old) == once(name, np.array([5, -9, 3], np.int32), [0, 1, 0], np.array([1, -2], np.int32))


def test_half_sums_round_at_every_step() -> None:
    memory, old = once("atomic_add", np.ones(3, np.float16), [0, 0, 0], np.array([2048], np.float16))

    assert ([2048.0], [2048.0] * 3) == (memory, old)
    memory, _ = once("atomic_add", np.ones(2, ml_dtypes.bfloat16), [0, 0], np.array([256], ml_dtypes.bfloat16))
    assert [256.0] == memory


def test_values_are_cast_to_the_pointee() -> None:
    memory, _ = once("atomic_add", np.array([1.75], np.float32), [0], np.array([3], np.int32))

    assert [4] == memory


def test_stopped_lanes_change_nothing_and_read_as_zero() -> None:
    values, memory = np.array([1, 2, 4], np.int32), np.array([10, 20, 30], np.int32)

    got = once("atomic_add", values, [0, 1, 2], memory, ", mask=lane < 2")

    assert ([11, 22, 30], [10, 20, 0]) == got
    assert ([10, 20, 30], [0, 0, 0]) == once("atomic_add", values, [0, 1, 2], memory, ", mask=lane < 0")
    odd = once("atomic_add", values, [0, 1, 2], memory, ", mask=tl.load(i_ptr + lane) % 2 == 1")
    assert ([10, 22, 30], [0, 20, 0]) == odd


def test_compare_and_swap() -> None:
    text = """
    def k(m_ptr, o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(o_ptr + i, tl.atomic_cas(m_ptr + i, i * 0 + 5, i + 100))
        tl.store(o_ptr + N, tl.atomic_cas(m_ptr, 100, 7))
        tl.store(o_ptr + N + 1, tl.atomic_cas(m_ptr, 100, 8))
    """

    out = run(text, {"m_ptr": np.array([5, 6, 5], np.int32), "o_ptr": np.zeros(5, np.int32)}, N=3)

    assert ([7, 6, 102], [5, 6, 5, 100, 7]) == (out["m_ptr"].tolist(), out["o_ptr"].tolist())


def test_fresh_numbers_for_every_program() -> None:
    text = """
    def k(count_ptr, o_ptr):
        place = tl.atomic_add(count_ptr, 1, sem="relaxed")
        tl.store(o_ptr + place, tl.program_id(0))
        tl.atomic_max(count_ptr + 1, tl.program_id(0) * 10)
    """
    args = {"count_ptr": np.zeros(2, np.int32), "o_ptr": np.full(12, -1, np.int32)}

    for device in ("ahbm_1x1", "ahbm_2x2"):
        first, second = (run(text, args, grid=(12,), on=device) for _ in range(2))
        assert ([12, 110], list(range(12))) == (first["count_ptr"].tolist(), sorted(first["o_ptr"].tolist()))
        assert first["o_ptr"].tolist() == second["o_ptr"].tolist()


def test_sums_of_programs_on_many_pes() -> None:
    text = """
    def k(x_ptr, o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.atomic_add(o_ptr + i, tl.load(x_ptr + tl.program_id(0) * N + i))
    """
    x = np.random.default_rng(0).integers(0, 99, (32, 8)).astype(np.float32)

    out = run(text, {"x_ptr": x, "o_ptr": np.zeros(8, np.float32)}, grid=(32,), on="ahbm_2x2", N=8)

    assert x.sum(0).tolist() == out["o_ptr"].tolist()


def test_a_lock_admits_one_program_at_a_time() -> None:
    text = """
    def k(lock_ptr, o_ptr):
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            pass
        tl.store(o_ptr, tl.load(o_ptr) + 1)
        tl.debug_barrier()
        tl.atomic_xchg(lock_ptr, 0)
    """
    args = {"lock_ptr": np.zeros(1, np.int32), "o_ptr": np.zeros(1, np.int32)}

    assert [6] == run(text, args, grid=(6,), on="ahbm_2x2")["o_ptr"].tolist()


def test_old_values_that_nothing_reads_do_not_come_back() -> None:
    text = "def k(o_ptr):\n    i = tl.arange(0, 64)\n    {}tl.atomic_add(o_ptr + i, i)\n    {}\n"
    args = {"o_ptr": np.zeros(128, np.int32)}

    def transfers(result: Any) -> list[tuple[str, int]]:
        kinds = ("dma_read", "dma_write")
        return [(r.op_kind, r.nbytes) for r in result.op_log if r.op_name == "atomic_add" and r.op_kind in kinds]

    alone = run(text.format("", "pass"), args)
    used = run(text.format("r = ", "tl.store(o_ptr + 64 + i, r)"), args)
    assert [("dma_write", 256)] == transfers(alone)
    assert [("dma_write", 256), ("dma_read", 256)] == transfers(used)


def test_a_counter_of_known_inputs_works_in_timing_mode() -> None:
    text = """
    def k(n_ptr, x_ptr, o_ptr):
        place = tl.atomic_add(n_ptr, 1)
        tl.store(o_ptr + place, tl.load(x_ptr + place))
    """
    args = {"n_ptr": np.zeros(1, np.int32), "x_ptr": np.arange(4, dtype=np.int32), "o_ptr": np.zeros(4, np.int32)}

    data, timing = (run(text, args, grid=(4,), mode=mode) for mode in ("data", "timing"))

    assert [0, 1, 2, 3] == data["o_ptr"].tolist()
    assert data.total_ns == timing.total_ns


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("tl.atomic_and(f_ptr, 1)", "E_OPERAND_TYPE"),
        ('tl.atomic_add(f_ptr, 1, sem="now")', "E_CALL_ARGUMENTS"),
        ("tl.atomic_add(1, 1)", "E_POINTER_EXPECTED"),
        ("tl.atomic_add(f_ptr, tl.arange(0, 4))", "E_SCALAR_EXPECTED"),
        ("tl.atomic_add(f_ptr + tl.arange(0, 4), tl.zeros((2, 4), tl.float32))", "E_SHAPE_MISMATCH"),
    ],
)
def test_mistakes(call: str, code: str) -> None:
    assert code == refused(f"def k(f_ptr):\n    {call}\n", {"f_ptr": np.zeros(8, np.float32)}).code
