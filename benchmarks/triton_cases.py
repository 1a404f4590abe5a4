"""The launches that both sides run: which shipped kernel, on what, with which grid. Needs NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

SIZE = 1024  # of the matrices


@dataclass(frozen=True)
class Case:
    """`arrays` are fp32 here and become `dtype` on either side; `results` start as zeros of a shape."""

    kernel: str
    dtype: str  # "fp32" or "fp16"; the interpreter multiplies bf16 as the integers of its bits
    arrays: Mapping[str, tuple[int, ...]]
    results: Mapping[str, tuple[int, ...]]
    scalars: Mapping[str, Any]
    constexprs: Mapping[str, Any]
    grid: tuple[int, ...]

    def inputs(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        return {name: rng.standard_normal(shape, np.float32) for name, shape in self.arrays.items()}


def _matmul(dtype: str, block: int) -> Case:
    strides = {
        f"stride_{name}": SIZE if name in ("am", "bk", "cm") else 1 for name in ("am", "ak", "bk", "bn", "cm", "cn")
    }
    square = (SIZE, SIZE)
    return Case(
        "matmul", dtype, {"a_ptr": square, "b_ptr": square}, {"c_ptr": square},
        {"M": SIZE, "N": SIZE, "K": SIZE, **strides},
        {"BLOCK_M": block, "BLOCK_N": block, "BLOCK_K": block, "GROUP_M": 4}, ((SIZE // block) ** 2,),
    )  # fmt: skip


def _vector_add(block: int) -> Case:
    flat = (SIZE * SIZE,)
    return Case(
        "vector_add", "fp32", {"x_ptr": flat, "y_ptr": flat}, {"z_ptr": flat}, {"n_elements": SIZE * SIZE},
        {"BLOCK": block}, (SIZE * SIZE // block,),
    )  # fmt: skip


def _softmax() -> Case:
    square = (SIZE, SIZE)
    return Case(
        "softmax", "fp32", {"x_ptr": square}, {"y_ptr": square},
        {"x_row_stride": SIZE, "y_row_stride": SIZE, "n_cols": SIZE}, {"BLOCK": SIZE}, (SIZE,),
    )  # fmt: skip


def _attention(heads: int, context: int, block: int) -> Case:
    shape = (heads, context, 64)
    return Case(
        "flash_attention", "fp16", {"q_ptr": shape, "k_ptr": shape, "v_ptr": shape}, {"o_ptr": shape},
        {"n_ctx": context, "stride_head": context * 64, "stride_row": 64},
        {"D": 64, "BLOCK_M": block, "BLOCK_N": 64}, (context // block, heads),
    )  # fmt: skip


CASES: dict[str, Case] = {
    "matmul 1024^3 fp16, blocks of 128": _matmul("fp16", 128),
    "matmul 1024^3 fp32, blocks of 128": _matmul("fp32", 128),
    "attention 2 x 1024 x 64 fp16, blocks of 128 x 64": _attention(2, 1024, 128),
    "softmax 1024 x 1024 fp32": _softmax(),
    "vector add 2^20 fp32, blocks of 4096": _vector_add(4096),
    "vector add 2^20 fp32, blocks of 1024": _vector_add(1024),
}
