"""The shipped kernels of a layer's small parts, each against NumPy, at sizes of 1, primes, and the block ± 1."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kernbench as kb
from kernbench.data_files import data_dir
from tests.kernels.running import run

f32 = np.float32
AWKWARD = (1, 13, 31, 32, 33, 97)  # around a block of 32; three blocks and one element


def shipped(name: str, **constexprs: Any) -> kb.Kernel:
    return kb.compile(data_dir("kernels") / f"{name}.tl", constexprs)


def normal(*shape: int, dtype: Any = f32) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(("n_rows", "n_cols"), [(1, 1), (3, 31), (4, 32), (5, 33), (7, 97)])
def test_layernorm(n_rows: int, n_cols: int) -> None:
    """Far from zero, so that a variance by E[x²] - E[x]² would show."""
    x, w, b = normal(n_rows, n_cols) + f32(300), normal(n_cols), normal(n_cols)
    made = run(
        shipped("layernorm", ROWS=4, BLOCK=32),
        grid=(-(-n_rows // 4),),
        x_ptr=x, w_ptr=w, b_ptr=b, y_ptr=np.zeros_like(x), mean_ptr=np.zeros(n_rows, f32),
        rstd_ptr=np.zeros(n_rows, f32), row_stride=n_cols, n_rows=n_rows, n_cols=n_cols, eps=1e-5,
    )  # fmt: skip

    wide = x.astype(np.float64)
    rstd = 1 / np.sqrt(wide.var(axis=1) + 1e-5)
    np.testing.assert_allclose(made["mean_ptr"], wide.mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(made["rstd_ptr"], rstd, rtol=1e-3)
    expected = (wide - wide.mean(axis=1, keepdims=True)) * rstd[:, None] * w + b
    np.testing.assert_allclose(made["y_ptr"], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("n_heads", "n_kv_heads", "head_dim"), [(1, 1, 2), (5, 1, 14), (7, 3, 16), (8, 4, 6)])
def test_rope_is_a_turn_in_the_complex_plane(n_heads: int, n_kv_heads: int, head_dim: int) -> None:
    """Two sequences of three tokens; the rows lie apart, and what lies between them stays."""
    tokens, seq_len, half = 6, 3, head_dim // 2
    angle = np.arange(seq_len)[:, None] / 100.0 ** (np.arange(half) / half)
    q, k = normal(tokens, n_heads + 1, head_dim), normal(tokens, n_kv_heads + 2, head_dim)
    made = run(
        shipped("rope", HEADS=8, KV_HEADS=4, HALF=8),
        grid=(tokens,),
        q_ptr=q.copy(), k_ptr=k.copy(), cos_ptr=np.cos(angle).astype(f32), sin_ptr=np.sin(angle).astype(f32),
        q_token_stride=q[0].size, k_token_stride=k[0].size, head_stride=head_dim,
        seq_len=seq_len, n_heads=n_heads, n_kv_heads=n_kv_heads, head_dim=head_dim,
    )  # fmt: skip

    turn = np.exp(1j * np.tile(angle, (2, 1)))[:, None, :]
    for name, before, heads in (("q_ptr", q, n_heads), ("k_ptr", k, n_kv_heads)):
        turned = (before[:, :heads, :half] + 1j * before[:, :heads, half:]) * turn
        expected = np.concatenate([turned.real, turned.imag], axis=-1)
        np.testing.assert_allclose(made[name][:, :heads], expected, atol=1e-5)
        np.testing.assert_array_equal(made[name][:, heads:], before[:, heads:])


@pytest.mark.parametrize("n_cols", AWKWARD)
def test_swiglu_rounds_the_gate_before_the_product(n_cols: int) -> None:
    """As the same model does in PyTorch; where the gate is so low that exp overflows, the result is zero."""
    a, b = normal(3, n_cols, dtype=ml_dtypes.bfloat16), normal(3, n_cols, dtype=ml_dtypes.bfloat16)
    a[0, 0] = -200
    made = run(
        shipped("swiglu", BLOCK=32),
        grid=(3, -(-n_cols // 32)),
        a_ptr=a, b_ptr=b, c_ptr=np.zeros_like(a), row_stride=n_cols, n_cols=n_cols,
    )  # fmt: skip

    wide = a.astype(np.float64)
    expected = (wide / (1 + np.exp(-wide))).astype(ml_dtypes.bfloat16) * b
    np.testing.assert_allclose(made["c_ptr"].astype(f32), expected.astype(f32), rtol=2**-7)
    assert 0 == made["c_ptr"][0, 0]


@pytest.mark.parametrize("padding_id", [0, 4, -1])
@pytest.mark.parametrize(("n_tokens", "dim"), [(1, 1), (3, 31), (4, 32), (5, 33), (13, 97)])
def test_embedding(n_tokens: int, dim: int, padding_id: int) -> None:
    """An id of -1 is outside the table: the run would end in a fault, were it read."""
    table = normal(5, dim)
    ids = np.random.default_rng(n_tokens).integers(0, 5, n_tokens).astype(np.int32)
    ids[-1] = padding_id
    made = run(
        shipped("embedding", BLOCK_T=4, BLOCK_D=32),
        grid=(-(-n_tokens // 4), -(-dim // 32)),
        ids_ptr=ids, table_ptr=table, out_ptr=np.full((n_tokens, dim), 9, f32),
        n_tokens=n_tokens, dim=dim, padding_id=padding_id, stride_table=dim, stride_out=dim,
    )  # fmt: skip

    expected = np.where(ids[:, None] == padding_id, 0, table[ids])
    np.testing.assert_array_equal(made["out_ptr"], expected)


@pytest.mark.parametrize("n_cols", AWKWARD)
def test_cumsum_carries_from_block_to_block(n_cols: int) -> None:
    """Whole numbers, so that the order of the additions does not show; the space between the rows stays."""
    x = np.random.default_rng(n_cols).integers(-9, 10, (3, n_cols + 2)).astype(f32)
    made = run(
        shipped("cumsum", BLOCK=32),
        grid=(3,),
        x_ptr=x, y_ptr=np.full_like(x, 77), row_stride=n_cols + 2, n_cols=n_cols,
    )  # fmt: skip

    np.testing.assert_array_equal(made["y_ptr"][:, :n_cols], np.cumsum(x[:, :n_cols], axis=1))
    assert (made["y_ptr"][:, n_cols:] == 77).all()


def test_cumsum_carries_infinity_and_not_a_number_to_the_end_of_the_row() -> None:
    x = np.ones((2, 70), f32)
    x[0, 5], x[1, 40] = np.inf, np.nan
    made = run(shipped("cumsum", BLOCK=32), grid=(2,), x_ptr=x, y_ptr=np.zeros_like(x), row_stride=70, n_cols=70)

    np.testing.assert_array_equal(made["y_ptr"], np.cumsum(x, axis=1))
