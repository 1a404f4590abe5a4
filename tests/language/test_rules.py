"""The rules of values that are easy to get wrong, each by itself: what masks mean, what is known when, what is cast."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernbench.diagnostics import KernBenchError
from tests.language.running import elementwise, kernel, refused, run


@pytest.mark.parametrize(
    ("pointee", "other", "want"),
    [
        (np.int8, "300", 44.0),  # 300 - 256
        (np.int32, "2.75", 2.0),
        (np.float16, "0.1", float(np.float16(0.1))),
        (ml_dtypes.bfloat16, "1.00390625", 1.0),
        (ml_dtypes.float8_e4m3fn, "1000.0", 448.0),
        (np.uint8, "7", 7.0),
    ],
)
def test_other_takes_the_type_of_the_pointee(pointee: Any, other: str, want: float) -> None:
    text = f"""
    def k(x_ptr, o_ptr, n):
        i = tl.arange(0, 4)
        x = tl.load(x_ptr + i, mask=i < n, other={other})
        tl.static_assert(x.dtype == x_ptr.dtype.element_ty)
        tl.store(o_ptr + i, x.to(tl.float32))
    """
    args = {"x_ptr": np.ones(4, pointee), "o_ptr": np.zeros(4, np.float32), "n": 2}

    assert [1.0, 1.0, want, want] == run(text, args)["o_ptr"].tolist()


@pytest.mark.parametrize(
    ("pointee", "x", "want"),
    [
        (np.int32, [1.9, -1.9, 0.5], [1, -1, 0]),
        (np.float16, [1 / 3, 70000.0, -1e-9], [float(np.float16(1 / 3)), np.inf, -0.0]),
        (np.bool_, [0.0, 0.25, -3.0], [False, True, True]),
    ],
)
def test_stored_values_take_the_type_of_the_pointee(pointee: Any, x: list[float], want: list[Any]) -> None:
    text = "def k(x_ptr, o_ptr):\n    i = tl.arange(0, 3)\n    tl.store(o_ptr + i, tl.load(x_ptr + i))\n"

    assert want == run(text, {"x_ptr": np.array(x, np.float32), "o_ptr": np.ones(3, pointee)})["o_ptr"].tolist()


def test_integers_are_stored_by_their_low_bits() -> None:
    got = elementwise("a", np.array([300, -129, 255, -1], np.int32), out=np.int8)

    assert [44, 127, -1, -1] == got.tolist()


def test_a_lower_rank_gets_its_new_axes_in_front() -> None:
    text = """
    def k(x_ptr, o_ptr, A: tl.constexpr, B: tl.constexpr):
        r, c = tl.arange(0, A), tl.arange(0, B)
        tile = tl.load(x_ptr + r[:, None] * B + c)
        tl.store(o_ptr + r[:, None] * B + c, tile + c * 100)
    """
    x = np.arange(9, dtype=np.int32).reshape(3, 3)

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros((3, 3), np.int32)}, A=3, B=3)["o_ptr"]

    assert (x + np.arange(3) * 100).tolist() == got.tolist()


def test_a_lower_rank_does_not_stand_for_rows() -> None:
    text = """
    def k(x_ptr, o_ptr):
        r, c = tl.arange(0, 2), tl.arange(0, 4)
        tl.store(o_ptr + r[:, None] * 4 + c, tl.load(x_ptr + r[:, None] * 4 + c) + r)
    """

    assert "E_SHAPE_MISMATCH" == refused(text, {"x_ptr": np.zeros(8, np.int32), "o_ptr": np.zeros(8, np.int32)}).code


@pytest.mark.parametrize("text", ["tl.load(p, mask=i < 0, other=5)", "tl.load(p + i, mask=i < 0, other=5)"])
def test_a_null_pointer_does_no_harm_in_a_stopped_lane(text: str) -> None:
    body = f"""
    def k(a_ptr, o_ptr):
        i = tl.arange(0, 4)
        p = (tl.load(a_ptr)).to(tl.pointer_type(tl.int32)) + i
        tl.store(o_ptr + i, {text})
        tl.store(p, i, mask=i > 9)
    """
    args = {"a_ptr": np.zeros(1, np.int64), "o_ptr": np.zeros(4, np.int32)}

    assert [5] * 4 == run(body, args)["o_ptr"].tolist()
    assert "E_BAD_POINTER" == refused(body.replace("mask=i < 0, other=5", "mask=i < 1"), args).code


def test_stopped_lanes_of_a_store_may_hold_anything() -> None:
    """NaN, infinities and integers without a quotient, in lanes whose pointers lead nowhere."""
    text = """
    def k(x_ptr, o_ptr, n, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i, mask=i < n)
        y = tl.log(x - 1.0) / x + (i * 7 // (n - i)).to(tl.float32)
        tl.store(o_ptr + tl.where(i < n, i, -1000), tl.where(i < n, x, y), mask=i < n)
    """
    x = np.arange(1, 4, dtype=np.float32)

    got = run(text, {"x_ptr": x, "o_ptr": np.full(3, 9.0, np.float32), "n": 3}, N=8)["o_ptr"]

    assert [1.0, 2.0, 3.0] == got.tolist()


def test_constants_are_pythons_and_run_time_numbers_are_tritons() -> None:
    """A constexpr has Python's `//` and no width; the same number at run time has neither."""
    text = """
    def k(o_ptr, n, N: tl.constexpr):
        tl.store(o_ptr, N // 2)
        tl.store(o_ptr + 1, N % 4)
        tl.store(o_ptr + 2, n // 2)
        tl.store(o_ptr + 3, n % 4)
        tl.store(o_ptr + 4, (N * 2**40) // 2**40)
        tl.store(o_ptr + 5, N >> 1)
        tl.store(o_ptr + 6, n >> 1)
    """

    assert [-4, 1, -3, -3, -7, -4, -4] == run(text, {"o_ptr": np.zeros(7, np.int32), "n": -7}, N=-7)["o_ptr"].tolist()


def test_numbers_that_follow_from_the_program_are_known_in_both_modes() -> None:
    text = """
    def k(x_ptr, o_ptr, n, B: tl.constexpr):
        pid = tl.program_id(0)
        i = tl.arange(0, B)
        if pid % 2 == 0:
            for j in range(pid, n, 2):
                tl.store(o_ptr + (pid * n + j) * B + i, tl.load(x_ptr + (j * pid + i) % 5), mask=i * pid < n)
    """
    args = {"x_ptr": np.arange(8, dtype=np.float32), "o_ptr": np.zeros(96, np.float32), "n": 4}

    data, timing = (run(text, args, grid=(3,), mode=mode, B=8) for mode in ("data", "timing"))

    assert data.op_log is not None and timing.op_log is not None
    assert list(data.op_log) == list(timing.op_log)


@pytest.mark.parametrize(
    "use",
    [
        "tl.store(o_ptr + s, 1)",
        "for j in range(s):\n            tl.store(o_ptr + j, 1)",
        "if s > 1:\n            tl.store(o_ptr, 1)",
        "tl.store(o_ptr + i, i, mask=x * 2 > 3)",
        "tl.store(o_ptr + x * 2, i)",
    ],
)
def test_what_depends_on_computed_data_needs_data_mode(use: str) -> None:
    text = f"""
    def k(x_ptr, o_ptr):
        i = tl.arange(0, 4)
        x = tl.load(x_ptr + i)
        tl.store(x_ptr + i, x + 1)
        x = tl.load(x_ptr + i)
        s = tl.sum(x, 0)
        {use}
    """
    args = {"x_ptr": np.zeros(4, np.int32), "o_ptr": np.zeros(32, np.int32)}

    run(text, args)
    with pytest.raises(KernBenchError) as caught:
        run(text, args, mode="timing")
    assert "E_TIMING_NEEDS_DATA" == caught.value.diagnostics[0].code


def test_a_reference_is_not_loaded_and_a_block_is() -> None:
    text = """
    def k(a_ptr, b_ptr, o_ptr, N: tl.constexpr):
        a = tl.ref(a_ptr, (N, N))
        b = tl.load(b_ptr + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :])
        tl.composite(op="gemm", a=a, b=b, out=tl.ref(o_ptr, (N, N)))
    """
    a, b = (np.arange(64, dtype=np.float16).reshape(8, 8) % 5 for _ in range(2))

    done = run(text, {"a_ptr": a, "b_ptr": b, "o_ptr": np.zeros((8, 8), np.float32)}, N=8)

    assert (a.astype(np.float32) @ b.astype(np.float32)).tolist() == done["o_ptr"].tolist()
    assert 1 == sum(record.op_name == "dma_read" and record.op_kind == "dma_read" for record in done.op_log or ())


def test_affine_pointers_and_box_masks_take_no_block() -> None:
    """One strided transfer each way, and no arithmetic on addresses: nothing but what moves is in TCM."""
    text = """
    def k(x_ptr, o_ptr, stride, n, R: tl.constexpr, C: tl.constexpr):
        r = tl.program_id(0) * R + tl.arange(0, R)
        c = tl.arange(0, C)
        at = r[:, None] * stride + c[None, :]
        mask = (r[:, None] < n) & (c[None, :] >= 1)
        tl.store(o_ptr + at, tl.load(x_ptr + at, mask=mask), mask=mask)
    """
    x = np.arange(70, dtype=np.float32).reshape(7, 10)
    want = np.zeros_like(x)
    want[:, 1:8] = x[:, 1:8]

    done = run(text, {"x_ptr": x, "o_ptr": np.zeros_like(x), "stride": 10, "n": 7}, grid=(2,), R=4, C=8)

    assert want.tolist() == done["o_ptr"].tolist()
    dispatched = [r.op_name for r in done.op_log or () if r.op_kind == "dispatch"]
    assert ["dma_read", "dma_write"] * 2 == dispatched


@pytest.mark.parametrize("size", [6, 100])
def test_sides_are_powers_of_two_where_triton_demands_it(size: int) -> None:
    text = "def k(o_ptr, N: tl.constexpr):\n    tl.store(o_ptr + tl.arange(0, N), tl.zeros((N,), tl.float32))\n"

    with pytest.raises(KernBenchError):
        kernel(text, python=True, N=size).specialise({"o_ptr": "*fp32"})
    assert run(text, {"o_ptr": np.ones(size, np.float32)}, N=size)["o_ptr"].tolist() == [0.0] * size


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_a_quotient_of_integers_is_fp32(dtype: Any) -> None:
    text = """
    def k(x_ptr, o_ptr, n):
        x = tl.load(x_ptr + tl.arange(0, 2))
        tl.static_assert((x / 3).dtype == tl.float32 and (x / x).dtype == tl.float32 and (n / 3).dtype == tl.float32)
        tl.store(o_ptr + tl.arange(0, 2), x / 3)
    """

    got = run(text, {"x_ptr": np.array([1, -7], dtype), "o_ptr": np.zeros(2, np.float64), "n": 1})["o_ptr"]

    assert [float(np.float32(1) / np.float32(3)), float(np.float32(-7) / np.float32(3))] == got.tolist()


def test_the_type_of_a_sum_is_wide_and_signed_where_its_elements_are() -> None:
    """257 is no bf16 number; -3 is below any unsigned one."""
    text = """
    def k(b_ptr, c_ptr, u_ptr, o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(o_ptr, tl.sum(tl.load(b_ptr + i), 0).to(tl.float32).to(tl.int64))
        tl.store(o_ptr + 1, tl.sum(tl.load(c_ptr + i), 0).to(tl.int64))
        tl.store(o_ptr + 2, tl.cumsum(tl.load(c_ptr + i), 0).to(tl.int64)[:, None].sum())
        tl.store(o_ptr + 3, tl.sum(tl.load(u_ptr + i), 0).to(tl.int64))
    """
    n = 257
    c = np.zeros(n, np.int8)
    c[:3] = [-1, -100, 98]
    args = {"b_ptr": np.ones(n, ml_dtypes.bfloat16), "c_ptr": c, "u_ptr": np.full(n, 255, np.uint8)}

    got = run(text, {**args, "o_ptr": np.zeros(4, np.int64)}, N=n)["o_ptr"]

    assert [n, -3, int(np.cumsum(c.astype(int)).sum()), 255 * n] == got.tolist()
