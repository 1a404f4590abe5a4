"""Data mode, simulation included, against the same tiles in plain NumPy: a bf16 GEMM of 1024³."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from measure import best_seconds, report

import kernbench as kb
from kernbench.data_files import data_dir

SIZE = 1024
TILES = ((256, 256, 128), (256, 128, 128), (128, 128, 128))  # m, n, k; the first takes the device the least time
TOPOLOGIES = ("ahbm_1x1", "ahbm_4x4")


def numpy_tiles(a: np.ndarray, b: np.ndarray, tile: tuple[int, int, int]) -> np.ndarray:
    """What the kernel computes: tiles are widened, multiplied, accumulated in fp32 and rounded once."""
    m, n, k = tile
    c = np.empty((SIZE, SIZE), ml_dtypes.bfloat16)
    for i in range(0, SIZE, m):
        for j in range(0, SIZE, n):
            acc = np.zeros((m, n), np.float32)
            for s in range(0, SIZE, k):
                acc += a[i : i + m, s : s + k].astype(np.float32) @ b[s : s + k, j : j + n].astype(np.float32)
            c[i : i + m, j : j + n] = acc.astype(ml_dtypes.bfloat16)
    return c


def measure(a: np.ndarray, b: np.ndarray, tile: tuple[int, int, int], topology: str) -> None:
    m, n, k = tile
    kernel = kb.compile(
        data_dir("kernels") / "matmul.tl", constexprs={"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 4}
    )
    strides = {f"stride_{name}": SIZE if name in ("am", "bk", "cm") else 1 for name in STRIDES}
    arguments = {"a_ptr": a, "b_ptr": b, "c_ptr": np.zeros_like(a), "M": SIZE, "N": SIZE, "K": SIZE, **strides}
    grid = (-(-SIZE // m) * -(-SIZE // n),)
    device = kb.open(topology)
    result, expected = device.run(kernel, arguments, grid=grid), numpy_tiles(a, b, tile)
    assert np.allclose(result["c_ptr"].astype(np.float32), expected.astype(np.float32), rtol=2e-2, atol=2e-1)
    anchor = best_seconds(lambda: numpy_tiles(a, b, tile))
    seconds = best_seconds(lambda: device.run(kernel, arguments, grid=grid))
    name = f"data mode, GEMM 1024^3 bf16, {topology}, {m}x{n}x{k}"
    report(name, seconds, anchor, "s", "<= 5 (then 3)", simulated_ns=result.total_ns)


def main() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SIZE, SIZE), np.float32).astype(ml_dtypes.bfloat16) for _ in "ab")
    for topology in TOPOLOGIES:
        for tile in TILES:
            measure(a, b, tile, topology)


STRIDES = ("am", "ak", "bk", "bn", "cm", "cn")

if __name__ == "__main__":
    main()
