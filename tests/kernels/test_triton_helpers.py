"""The helpers that TorchInductor's kernels import: in a kernel as it writes them, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import kernbench as kb
from kernbench.compiler.source import SourceText

HEAD = """\
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
from torch._inductor.runtime.hints import AutotuneHint

triton_helpers.set_driver_to_gpu()

"""
WELFORD = """\
@triton_heuristics.reduction(size_hints=[4, 64], reduction_hint=None)
@triton.jit
def k(in_ptr0, out_ptr0, out_ptr1, xnumel, rnumel, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rbase = tl.arange(0, RBLOCK)[None, :]
    mean = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    m2 = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    weight = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    for roffset in range(0, rnumel, RBLOCK):
        rindex = roffset + rbase
        rmask = rindex < rnumel
        x = tl.load(in_ptr0 + (rindex + rnumel * xindex), rmask & xmask, other=0.0)
        one = tl.broadcast_to(x, [XBLOCK, RBLOCK])
        mean_next, m2_next, weight_next = triton_helpers.welford_reduce(one, mean, m2, weight, roffset == 0)
        mean = tl.where(rmask & xmask, mean_next, mean)
        m2 = tl.where(rmask & xmask, m2_next, m2)
        weight = tl.where(rmask & xmask, weight_next, weight)
    mean_all, m2_all, weight_all = triton_helpers.welford(mean, m2, weight, 1)
    tl.store(out_ptr0 + xindex, mean_all[:, None], xmask)
    tl.store(out_ptr1 + xindex, libdevice.rsqrt(m2_all[:, None] / rnumel + 1e-5), xmask)
"""


def test_a_welford_reduction() -> None:
    x = np.random.default_rng(0).standard_normal((5, 37)).astype(np.float32) + 3
    kernel = kb.compile(SourceText.from_text("k.py", HEAD + WELFORD), constexprs={"XBLOCK": 2, "RBLOCK": 8})
    outputs = {"out_ptr0": np.zeros(5, np.float32), "out_ptr1": np.zeros(5, np.float32)}

    run = kb.open("ahbm_1x1").run(kernel, args={"in_ptr0": x, **outputs, "xnumel": 5, "rnumel": 37}, grid=(3,))

    np.testing.assert_allclose(x.mean(1), run["out_ptr0"], rtol=1e-5)
    np.testing.assert_allclose(1 / np.sqrt(x.var(1) + 1e-5), run["out_ptr1"], rtol=1e-5)


A = np.array([7, -7, 7, -7, 6, -6, 0, 1], np.int32)
B = np.array([2, 2, -2, -2, 3, 3, 5, -9], np.int32)
F = np.array([1, np.nan, -3, 2, 9, 0, 9, np.nan], np.float32)
G = F[::-1].copy()


@pytest.mark.parametrize(
    ("expression", "a", "b", "want"),
    [
        ("triton_helpers.div_floor_integer(a, b)", A, B, A // B),
        ("triton_helpers.remainder_integer(a, b)", A, B, A % B),
        ("triton_helpers.maximum(a, b)", F, G, np.maximum(F, G)),
        ("triton_helpers.minimum(a, b)", F, G, np.minimum(F, G)),
        ("triton_helpers.maximum(a, b)", A, B, np.maximum(A, B)),
        ("triton_helpers.max2(a, 0) + b * 0", F, B, np.full(8, np.nan)),
        ("triton_helpers.min2(a, 0) + b * 0", A, B, np.full(8, -7)),
        ("triton_helpers.prod(a, 0) + b * 0", B, B, np.full(8, np.prod(B))),
        ("triton_helpers.any(a > 8, 0) + b * 0", F, B, np.full(8, 1)),
        ("triton_helpers.max_with_index(a, tl.arange(0, 8), 0)[1] + b * 0", F, B, np.full(8, 1)),
        ("triton_helpers.min_with_index(a, tl.arange(0, 8), 0)[1] + b * 0", A, B, np.full(8, 1)),
        ("tl_math.exp(triton_helpers.promote_to_tensor(0.0)) + b * 0", A, B, np.full(8, 1)),
    ],
)
def test_each_helper(expression: str, a: np.ndarray, b: np.ndarray, want: np.ndarray) -> None:
    loads = "    i = tl.arange(0, 8)\n    a = tl.load(a_ptr + i)\n    b = tl.load(b_ptr + i)\n"
    text = f"{HEAD}@triton.jit\ndef k(a_ptr, b_ptr, o_ptr):\n{loads}    tl.store(o_ptr + i, {expression})\n"
    args = {"a_ptr": a, "b_ptr": b, "o_ptr": np.zeros(8, np.float32)}

    got = kb.open("ahbm_1x1").run(kb.compile(SourceText.from_text("k.py", text)), args=args, grid=(1,))["o_ptr"]

    np.testing.assert_array_equal(want.astype(np.float32), got)
