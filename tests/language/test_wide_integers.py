"""Integers at the ends of 64 bits: they wrap wherever they are computed, and no place overflows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernbench.diagnostics import KernBenchError
from tests.language.running import run

FAR = (1 << 62, -(1 << 63), (1 << 63) - 1, 12345678901)


def ended(text: str, n: int) -> Any:
    try:
        return run(text, {"x_ptr": np.arange(64, dtype=np.int64), "n": n})["x_ptr"]
    except KernBenchError as error:
        return {each.code for each in error.diagnostics}


@pytest.mark.parametrize("n", FAR)
def test_offsets_beyond_64_bits_leave_the_tensor(n: int) -> None:
    text = """
def k(x_ptr, n):
    offs = tl.arange(0, 16).to(tl.int64)
    tl.store(x_ptr + (offs * n * 9223372036854775807 + 1024), 1)
"""
    assert ended(text, n) in ({"E_OUT_OF_BOUNDS"}, {"E_BAD_POINTER"})


@pytest.mark.parametrize("n", FAR)
def test_products_of_indices_wrap_in_values_and_in_masks(n: int) -> None:
    text = """
def k(x_ptr, n):
    offs = tl.arange(0, 16).to(tl.int64)
    far = offs * n * 9223372036854775807 + n * 7
    tl.store(x_ptr + offs, far)
    tl.store(x_ptr + 16 + offs, 1, mask=far % 5 < n * 9223372036854775807)
"""
    lanes = np.arange(16, dtype=np.int64)
    with np.errstate(all="ignore"):
        wide = np.int64(n)
        far = lanes * wide * np.int64((1 << 63) - 1) + wide * np.int64(7)
        live = np.fmod(far, 5) < wide * np.int64((1 << 63) - 1)
    found = ended(text, n)

    assert np.array_equal(far, found[:16])
    assert np.array_equal(np.where(live, 1, 16 + lanes), found[16:32])


def test_a_masked_lane_gets_an_unsigned_number_of_64_bits() -> None:
    text = """
def k(x_ptr, n):
    offs = tl.arange(0, 16)
    big = n.to(tl.uint64)
    read = tl.load(x_ptr.to(tl.pointer_type(tl.uint64)) + offs, mask=offs < 8, other=big)
    tl.store(x_ptr + offs, read.to(tl.int64))
"""
    assert [*range(8), *([-3] * 8)] == list(ended(text, -3)[:16])


def test_a_masked_lane_gets_a_literal_of_64_bits() -> None:
    text = """
def k(x_ptr, n):
    offs = tl.arange(0, 16)
    read = tl.load(x_ptr.to(tl.pointer_type(tl.uint64)) + offs, mask=offs < 8, other=18446744073709551613)
    tl.store(x_ptr + offs, read.to(tl.int64))
"""
    assert [*range(8), *([-3] * 8)] == list(ended(text, 0)[:16])
