"""Loads and stores: masks that are no boxes, padding, strides, gathers, scatters; what the op log says they cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernbench.diagnostics import KernBenchError
from kernbench.run import Run
from tests.language.running import run


def moved(result: Run, name: str) -> int:
    """Bytes that transfers of this name moved."""
    assert result.op_log is not None
    return sum(r.nbytes for r in result.op_log if r.op_name == name and r.op_kind in ("dma_read", "dma_write"))


def test_a_load_moves_what_the_mask_lets_through() -> None:
    text = """
    def k(x_ptr, o_ptr, n, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i, mask=i < n, other=1.5)
        tl.store(o_ptr + i, x + 1.0, mask=i < n - 2)
    """
    x, o = np.arange(130, dtype=np.float32), np.full(256, -7.0, np.float32)

    out = run(text, {"x_ptr": x, "o_ptr": o, "n": 130}, N=256)

    assert [*(np.arange(128) + 1.0), *[-7.0] * 128] == out["o_ptr"].tolist()
    assert (130 * 4, 128 * 4) == (moved(out, "dma_read"), moved(out, "dma_write"))


@pytest.mark.parametrize(
    ("mask", "want"),
    [
        ("(i < 2) | (i > 5)", [0, 1, -1, -1, -1, -1, 6, 7]),
        ("i != 3", [0, 1, 2, -1, 4, 5, 6, 7]),
        ("~(i < 6)", [-1, -1, -1, -1, -1, -1, 6, 7]),
        ("(i % 2 == 0) & (i < n)", [0, -1, 2, -1, 4, -1, -1, -1]),
        ("(i > 1) and (i < 4)", [-1, -1, 2, 3, -1, -1, -1, -1]),
        ("(i < 1) or (i > 6)", [0, -1, -1, -1, -1, -1, -1, 7]),
        ("not (i < 6)", [-1, -1, -1, -1, -1, -1, 6, 7]),
        ("m > 0", [0, -1, 2, -1, -1, 5, -1, -1]),
        ("(m > 0) & (i < 4)", [0, -1, 2, -1, -1, -1, -1, -1]),
        ("i < 0", [-1] * 8),
        ("n > 100", [-1] * 8),
        ("i < n - 100", [-1] * 8),
    ],
)
def test_masks_of_every_kind_stop_exactly_their_lanes(mask: str, want: list[int]) -> None:
    """The pointers of stopped lanes lead far outside of the tensor."""
    text = f"""
    def k(x_ptr, m_ptr, o_ptr, n, N: tl.constexpr):
        i = tl.arange(0, N)
        m = tl.load(m_ptr + i)
        mask = {mask}
        far = tl.where(mask, i, 1 << 28)
        tl.store(o_ptr + i, tl.load(x_ptr + far, mask=mask, other=-1))
        tl.store(o_ptr + 8 + far, i, mask=mask)
    """
    x, m = np.arange(8, dtype=np.int32), np.array([1, 0, 1, 0, 0, 1, 0, 0], np.int32)

    out = run(text, {"x_ptr": x, "m_ptr": m, "o_ptr": np.full(16, -1, np.int32), "n": 5}, N=8)["o_ptr"]

    assert (want, want) == (out[:8].tolist(), out[8:].tolist())


def test_a_masked_lane_without_other_is_zero_wherever_it_goes() -> None:
    text = """
    def k(x_ptr, o_ptr, n, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i, mask=i < n)
        tl.store(o_ptr, tl.sum(x, 0))
        tl.store(o_ptr + 1, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0), 0))
    """
    x = np.ones(16, np.float32)

    assert [16.0, 16.0] == run(text, {"x_ptr": x, "o_ptr": np.zeros(2, np.float32), "n": 16}, N=256)["o_ptr"].tolist()


def test_nonsense_in_lanes_that_are_never_stored_does_no_harm() -> None:
    text = """
    def k(x_ptr, o_ptr, n, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i, mask=i < n)
        tl.store(o_ptr + i, x / x, mask=i < n)
    """

    assert [1.0] * 3 + [9.0] == run(
        text, {"x_ptr": np.full(3, 2.0, np.float32), "o_ptr": np.full(4, 9.0, np.float32), "n": 3}, N=4
    )["o_ptr"].tolist()


@pytest.mark.parametrize("where", ["mask=False", "mask=n > 99"])
def test_a_scalar_mask_that_is_false_touches_nothing(where: str) -> None:
    text = f"""
    def k(x_ptr, o_ptr, n):
        v = tl.load(x_ptr + 1000, {where}, other=1.0)
        tl.store(o_ptr, v)
        tl.store(o_ptr + 1000, v, {where})
        i = tl.arange(0, 4)
        tl.store(o_ptr + 1000 + i, v, {where})
    """
    args = {"x_ptr": np.zeros(1, np.float32), "o_ptr": np.zeros(1, np.float32), "n": 3}

    assert [1.0] == run(text, args)["o_ptr"].tolist()


def test_an_access_outside_of_the_tensor_is_a_fault_at_its_line() -> None:
    text = "def k(x_ptr, o_ptr):\n    i = tl.arange(0, 8)\n    tl.store(o_ptr + i, tl.load(x_ptr + i))\n"

    with pytest.raises(KernBenchError) as caught:
        run(text, {"x_ptr": np.zeros(7, np.float32), "o_ptr": np.zeros(8, np.float32)})

    found = caught.value.diagnostics[0]
    assert "E_OUT_OF_BOUNDS" == found.code
    assert found.primary is not None and 8 == found.primary.span.line


# --------------------------------------------------------------------------- shapes of accesses


def test_a_strided_load_charges_for_its_gaps_and_moves_its_elements() -> None:
    text = """
    def k(x_ptr, o_ptr, stride, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(o_ptr + i, tl.load(x_ptr + i * stride))
    """
    x = np.arange(4096, dtype=np.float32)

    near = run(text, {"x_ptr": x, "o_ptr": np.zeros(64, np.float32), "stride": 1}, N=64)
    far = run(text, {"x_ptr": x, "o_ptr": np.zeros(64, np.float32), "stride": 64}, N=64)

    assert x[::64].tolist() == far["o_ptr"].tolist()
    assert moved(near, "dma_read") == moved(far, "dma_read") == 256
    assert near.total_ns < far.total_ns


def test_a_negative_stride_reads_backwards() -> None:
    text = """
    def k(x_ptr, o_ptr, stride, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(o_ptr + i, tl.load(x_ptr + 7 + i * stride, mask=7 + i * stride >= 2, other=-1.0))
    """
    x = np.arange(8, dtype=np.float32)

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros(8, np.float32), "stride": -1}, N=8)["o_ptr"]

    assert [7, 6, 5, 4, 3, 2, -1, -1] == got.tolist()


def test_a_stride_of_zero_repeats_an_element() -> None:
    text = """
    def k(x_ptr, o_ptr, s, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(o_ptr + i, tl.load(x_ptr + 3 + i * s))
    """

    assert [3.0] * 4 == run(
        text, {"x_ptr": np.arange(8, dtype=np.float32), "o_ptr": np.zeros(4, np.float32), "s": 0}, N=4
    )["o_ptr"].tolist()


def test_addresses_split_by_division_and_remainder() -> None:
    text = """
    def k(x_ptr, o_ptr, W, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(o_ptr + i, tl.load(x_ptr + i // W * 100 + i % W))
    """
    x = np.arange(500, dtype=np.float32)
    i = np.arange(16)

    out = run(text, {"x_ptr": x, "o_ptr": np.zeros(16, np.float32), "W": 5}, N=16)

    assert x[i // 5 * 100 + i % 5].tolist() == out["o_ptr"].tolist()
    assert 16 * 4 == moved(out, "gather")


def test_gather_and_scatter_by_loaded_indices() -> None:
    text = """
    def k(x_ptr, i_ptr, o_ptr, N: tl.constexpr):
        lane = tl.arange(0, N)
        index = tl.load(i_ptr + lane)
        x = tl.load(x_ptr + index, mask=index >= 0, other=0.0)
        tl.store(o_ptr + index, x * 2.0, mask=index >= 0)
    """
    index = np.array([5, -1, 2, 0], np.int64)
    x = np.arange(1, 8, dtype=np.float32)

    out = run(text, {"x_ptr": x, "i_ptr": index, "o_ptr": np.zeros(7, np.float32)}, N=4)

    assert [2.0, 0, 6.0, 0, 0, 12.0, 0] == out["o_ptr"].tolist()
    assert (3 * 4, 3 * 4) == (moved(out, "gather"), moved(out, "scatter"))


def test_of_equal_places_of_a_scatter_the_last_lane_stays() -> None:
    text = """
    def k(i_ptr, o_ptr, N: tl.constexpr):
        lane = tl.arange(0, N)
        tl.store(o_ptr + tl.load(i_ptr + lane), lane + 1)
    """

    got = run(text, {"i_ptr": np.array([0, 0, 1], np.int32), "o_ptr": np.zeros(2, np.int32)}, N=3)["o_ptr"]

    assert [2, 3] == got.tolist()


def test_the_smaller_rank_broadcasts_in_masks_others_and_values() -> None:
    text = """
    def k(x_ptr, o_ptr, n, R: tl.constexpr, N: tl.constexpr):
        r = tl.arange(0, R)
        c = tl.arange(0, N)
        at = r[:, None] * N + c[None, :]
        x = tl.load(x_ptr + at, mask=(c < n)[None, :], other=(r * 10)[:, None])
        tl.store(o_ptr + at, x + c)
    """
    x = np.full((2, 4), 100.0, np.float32)
    want = np.where(np.arange(4) < 3, x, np.array([[0.0], [10.0]])) + np.arange(4)

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros((2, 4), np.float32), "n": 3}, R=2, N=4)["o_ptr"]

    assert want.tolist() == got.tolist()


def test_a_transposed_argument_goes_by_its_strides() -> None:
    text = """
    def k(x_ptr, o_ptr, s0, s1, R: tl.constexpr, N: tl.constexpr):
        r, c = tl.arange(0, R)[:, None], tl.arange(0, N)[None, :]
        tl.store(o_ptr + r * N + c, tl.load(x_ptr + r * s0 + c * s1))
    """
    x = np.arange(24, dtype=np.float32).reshape(6, 4).T

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros((4, 6), np.float32), "s0": 1, "s1": 4}, R=4, N=6)["o_ptr"]

    assert x.tolist() == got.tolist()


def test_storing_and_reloading_in_place_sees_the_new_values() -> None:
    text = """
    def k(x_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(x_ptr + i, tl.load(x_ptr + i) + 1.0)
        back = tl.load(x_ptr + (N - 1 - i))
        tl.store(x_ptr + i, back)
    """
    x = np.arange(8, dtype=np.float32)

    assert (x + 1)[::-1].tolist() == run(text, {"x_ptr": x}, N=8)["x_ptr"].tolist()


# --------------------------------------------------------------------------- widths of offsets


def test_an_int64_offset_is_exact_and_an_int32_one_is_a_fault_where_it_wraps() -> None:
    text = """
    def k(x_ptr, o_ptr, n, stride, N: tl.constexpr):
        i = tl.arange(0, N)
        row = n.to({type}) * stride
        tl.store(o_ptr + i, tl.load(x_ptr + (row + i), mask=i < 0, other=3.0))
        tl.store(o_ptr + i, tl.load(x_ptr + (row + i), mask=i < n, other=3.0))
    """
    args: dict[str, Any] = {"x_ptr": np.zeros(8, np.float32), "o_ptr": np.zeros(4, np.float32)}
    args |= {"n": 319, "stride": 7_864_320}

    for type_, code in (("tl.int32", "E_INT32_OFFSET"), ("tl.int64", "E_OUT_OF_BOUNDS")):
        with pytest.raises(KernBenchError) as caught:
            run(text.replace("{type}", type_), args, N=4)
        assert code == caught.value.diagnostics[0].code


@pytest.mark.parametrize(
    ("offsets", "segments", "nbytes"),
    [
        ("tl.arange(0, 16)", 1, 64),
        ("2 * tl.arange(0, 16)", 16, 64),
        ("15 - tl.arange(0, 16)", 1, 64),
        ("tl.arange(0, 4)[:, None] * 16 + tl.arange(0, 4)[None, :]", 4, 64),
        ("tl.arange(0, 16) // 4 * 8 + tl.arange(0, 16) % 4", 4, 64),
    ],
)
def test_the_log_tells_bytes_and_segments(offsets: str, segments: int, nbytes: int) -> None:
    """Of a read: contiguous, strided, backwards, a tile, and split by // and %."""
    text = f"""
        def k(x_ptr, y_ptr):
            offsets = {offsets}
            tl.store(y_ptr, tl.sum(tl.load(x_ptr + offsets).to(tl.float32)))
    """
    out = run(text, {"x_ptr": np.zeros(512, np.float32), "y_ptr": np.zeros(1, np.float32)})  # 64 elements a slice

    assert out.op_log is not None
    loads = [r for r in out.op_log if r.op_kind == "dma_read" and r.src and r.component.endswith("pe_dma")]
    (load,) = loads
    assert load.params is not None
    assert (segments, nbytes) == (load.params["segments"], load.nbytes)
