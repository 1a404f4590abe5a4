"""The shipped GEMMs that are written without composites, each against NumPy: sides of 1, primes, and the block ± 1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kernbench.data_files import data_dir
from tests.kernels.running import run

f32 = np.float32
SIDES = [(1, 1, 1), (13, 7, 5), (15, 16, 17), (16, 17, 31), (17, 15, 33), (33, 31, 64)]  # blocks of 16, 16 and 16
BLOCKS = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16}


def shipped(name: str, **constexprs: Any) -> kb.Kernel:
    return kb.compile(data_dir("kernels") / f"{name}.tl", {**BLOCKS, **constexprs})


def grid(m: int, n: int) -> tuple[int, int]:
    return -(-m // 16), -(-n // 16)


def strides(m: int, n: int, k: int) -> dict[str, Any]:
    """Of row-major matrices."""
    return {
        "M": m, "N": n, "K": k, "stride_am": k, "stride_ak": 1, "stride_bk": n, "stride_bn": 1, "stride_cm": n,
        "stride_cn": 1,
    }  # fmt: skip


ACTIVATIONS = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * np.vectorize(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)))(x),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("m", "n", "k"), SIDES)
def test_gemm_bias_gelu(m: int, n: int, k: int, activation: str) -> None:
    rng = np.random.default_rng(k)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    bias = rng.standard_normal(n).astype(f32)
    made = run(
        shipped("gemm_bias_gelu", ACTIVATION=activation),
        grid=grid(m, n),
        a_ptr=a, b_ptr=b, bias_ptr=bias, c_ptr=np.zeros((m, n), f32), **strides(m, n, k),
    )  # fmt: skip

    expected = ACTIVATIONS[activation](a.astype(np.float64) @ b.astype(np.float64) + bias)
    np.testing.assert_allclose(made["c_ptr"], expected, rtol=1e-5, atol=1e-5)


def test_an_activation_that_is_none_is_told() -> None:
    with pytest.raises(kb.KernBenchError, match="'gelu', 'relu', 'silu' or 'none'"):
        run(
            shipped("gemm_bias_gelu", ACTIVATION="tanh"),
            a_ptr=np.zeros((1, 1), f32), b_ptr=np.zeros((1, 1), f32), bias_ptr=np.zeros(1, f32),
            c_ptr=np.zeros((1, 1), f32), **strides(1, 1, 1),
        )  # fmt: skip


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), SIDES)
def test_gemm_int8(m: int, n: int, k: int, transposed: bool) -> None:
    """Exact: the products are summed in int32, and the scales are powers of two."""
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    a[0], b[:, 0] = -128, -128  # the largest sum there is
    a_scale, b_scale = (f32(2.0) ** -rng.integers(0, 5, size) for size in (m, n))
    of_b: dict[str, Any] = {"stride_bk": 1, "stride_bn": k} if transposed else {}
    made = run(
        shipped("gemm_int8"),
        grid=grid(m, n),
        a_ptr=a, b_ptr=np.ascontiguousarray(b.T) if transposed else b,
        a_scale_ptr=a_scale.astype(f32), b_scale_ptr=b_scale.astype(f32), c_ptr=np.zeros((m, n), f32),
        **{**strides(m, n, k), **of_b},
    )  # fmt: skip

    expected = (a.astype(np.int64) @ b.astype(np.int64)) * a_scale[:, None] * b_scale
    np.testing.assert_array_equal(made["c_ptr"], expected)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 2), (13, 7, 6), (15, 16, 30), (16, 17, 32), (17, 33, 34), (3, 31, 98)]
)
def test_gemm_int4_packed(m: int, n: int, k: int) -> None:
    """Exact: weights minus zeros are small integers, the scales are powers of two; the last group may be short."""
    rng = np.random.default_rng(k)
    groups = -(-k // 32)
    a = rng.integers(-3, 4, (m, k)).astype(np.float16)
    weights = rng.integers(0, 16, (k, n)).astype(np.uint8)
    zeros = rng.integers(0, 16, (groups, n + n % 2)).astype(np.uint8)
    scale = (2.0 ** -rng.integers(0, 3, (groups, n))).astype(np.float16)
    made = run(
        shipped("gemm_int4_packed", GROUP=32),
        grid=grid(m, n),
        a_ptr=a, q_ptr=weights[::2] | weights[1::2] << 4, scale_ptr=scale, zero_ptr=zeros[:, ::2] | zeros[:, 1::2] << 4,
        c_ptr=np.zeros((m, n), f32), M=m, N=n, K=k, stride_am=k, stride_qk=n, stride_scale=n,
        stride_zero=zeros.shape[1] // 2, stride_cm=n,
    )  # fmt: skip

    of_row = np.arange(k) // 32
    widened = (weights.astype(np.int64) - zeros[of_row, :n]) * scale[of_row].astype(np.float64)
    np.testing.assert_array_equal(made["c_ptr"], a.astype(np.float64) @ widened)


def test_a_block_of_k_over_two_groups_is_told() -> None:
    with pytest.raises(kb.KernBenchError, match="a block of K lies within one group"):
        run(
            shipped("gemm_int4_packed", GROUP=8),
            a_ptr=np.zeros((1, 8), f32), q_ptr=np.zeros((4, 1), np.uint8), scale_ptr=np.zeros((1, 1), f32),
            zero_ptr=np.zeros((1, 1), np.uint8), c_ptr=np.zeros((1, 1), f32), M=1, N=1, K=8, stride_am=8, stride_qk=1,
            stride_scale=1, stride_zero=1, stride_cm=1,
        )  # fmt: skip
