"""The shipped kernels, elaborated and run instruction by instruction against NumPy, edges off the block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernbench.compiler.elaborate import elaborate
from kernbench.compiler.parse import parse
from kernbench.compiler.residual import Residual
from kernbench.compiler.source import SourceText
from kernbench.compiler.typed_printer import print_residual
from kernbench.data_files import data_dir
from kernbench.diagnostics import Sink
from tests.compiler import residual_machine
from tests.compiler.elaborating import _type_of


def residual_of(name: str, args: Mapping[str, Any], constexprs: Mapping[str, int]) -> Residual:
    source, sink = SourceText.read(data_dir("kernels") / f"{name}.tl", f"{name}.tl"), Sink()
    signature = {key: _type_of(value) for key, value in args.items()}
    residual = elaborate(parse(source), source, None, constexprs, signature, sink)
    assert residual is not None, "\n".join(d.render() for d in sink.diagnostics)
    return residual


def run(name: str, args: Mapping[str, Any], constexprs: Mapping[str, int], grid: tuple[int, ...]) -> dict[str, Any]:
    return residual_machine.run(residual_of(name, args, constexprs), args, grid)


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(len(shape) + shape[0]).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("n", [1, 7, 16, 17, 40])
def test_vector_add(n: int) -> None:
    x, y = numbers(n), numbers(n, 1)[:, 0]
    result = run("vector_add", {"x_ptr": x, "y_ptr": y, "z_ptr": x * 0, "n_elements": n}, {"BLOCK": 16}, (-(-n // 16),))

    assert list(x + y) == list(result["z_ptr"])


def test_softmax() -> None:
    x = numbers(3, 13)
    args = {"y_ptr": x * 0, "x_ptr": x, "x_row_stride": 13, "y_row_stride": 13, "n_cols": 13}
    expected = np.exp(x - x.max(1, keepdims=True))

    result = run("softmax", args, {"BLOCK": 16}, (3,))["y_ptr"]

    np.testing.assert_allclose(expected / expected.sum(1, keepdims=True), result, rtol=1e-6)


def test_rmsnorm() -> None:
    x, w = numbers(3, 21, dtype=np.float16), numbers(21, dtype=np.float16)
    args = {"x_ptr": x, "w_ptr": w, "y_ptr": x * 0, "row_stride": 21, "n_cols": 21, "eps": 1e-5}
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * w.astype(np.float64)

    result = run("rmsnorm", args, {"BLOCK": 8}, (3,))["y_ptr"]

    np.testing.assert_allclose(expected, result.astype(np.float64), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (17, 23, 19), (32, 16, 16), (31, 9, 33)])
def test_matmul(m: int, n: int, k: int) -> None:
    a, b = numbers(m, k, dtype=ml_dtypes.bfloat16), numbers(k, n, dtype=ml_dtypes.bfloat16)
    args = {"a_ptr": a, "b_ptr": b, "c_ptr": np.zeros((m, n), ml_dtypes.bfloat16), "M": m, "N": n, "K": k}
    args |= {"stride_am": k, "stride_ak": 1, "stride_bk": n, "stride_bn": 1, "stride_cm": n, "stride_cn": 1}
    constexprs = {"BLOCK_M": 16, "BLOCK_N": 8, "BLOCK_K": 16, "GROUP_M": 2}

    result = run("matmul", args, constexprs, (-(-m // 16) * -(-n // 8),))["c_ptr"]

    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(expected, result.astype(np.float64), rtol=1e-2, atol=5e-2)


def test_matmul_of_transposed_operands() -> None:
    a, b = numbers(19, 17), numbers(9, 19)  # both stored transposed
    args = {"a_ptr": a, "b_ptr": b, "c_ptr": np.zeros((17, 9), np.float32), "M": 17, "N": 9, "K": 19}
    args |= {"stride_am": 1, "stride_ak": 17, "stride_bk": 1, "stride_bn": 19, "stride_cm": 9, "stride_cn": 1}
    bf16 = {"a_ptr": a.astype(ml_dtypes.bfloat16), "b_ptr": b.astype(ml_dtypes.bfloat16)}
    args |= bf16 | {"c_ptr": np.zeros((17, 9), ml_dtypes.bfloat16)}
    constexprs = {"BLOCK_M": 16, "BLOCK_N": 8, "BLOCK_K": 16, "GROUP_M": 2}

    result = run("matmul", args, constexprs, (4,))["c_ptr"]

    expected = bf16["a_ptr"].astype(np.float64).T @ bf16["b_ptr"].astype(np.float64).T
    np.testing.assert_allclose(expected, result.astype(np.float64), rtol=1e-2, atol=5e-2)


def test_flash_attention() -> None:
    n, d = 21, 16
    q, k, v = (numbers(2, n, d, dtype=np.float16) * np.float16(s) for s in (1.0, 0.5, 2.0))
    args = {"q_ptr": q, "k_ptr": k, "v_ptr": v, "o_ptr": q * 0, "n_ctx": n, "stride_head": n * d, "stride_row": d}
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / np.sqrt(d)
    scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))

    result = run("flash_attention", args, {"D": d, "BLOCK_M": 8, "BLOCK_N": 8}, (3, 2))["o_ptr"]

    expected = (weights / weights.sum(-1, keepdims=True)) @ v.astype(np.float64)
    np.testing.assert_allclose(expected, result.astype(np.float64), rtol=1e-2, atol=1e-2)


def test_one_kernel_gives_one_text() -> None:
    args = {"y_ptr": numbers(2), "x_ptr": numbers(2), "x_row_stride": 1, "y_row_stride": 1, "n_cols": 1}
    texts = {print_residual(residual_of("softmax", args, {"BLOCK": 16})) for _ in range(2)}

    assert 1 == len(texts)
