"""What goes wrong in a helper of another file is shown with the line there, whichever half finds it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kernbench as kb

HELPERS = """
import triton
import triton.language as tl


@triton.jit
def read(x_ptr, offsets):
    return tl.load(x_ptr + offsets)


@triton.jit
def large(x):
    return tl.exp(tl.zeros([1024, 1024], tl.float32) + x)


@triton.jit
def write(x_ptr, offsets):
    tl.store(x_ptr + offsets, 1.0)
"""
KERNEL = """
import triton
import triton.language as tl
from .helpers import large, read, write


@triton.jit
def k(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    {statement}
"""


def run(folder: Path, statement: str, length: int = 64) -> kb.Run:
    (folder / "helpers.py").write_text(HELPERS)
    (folder / "k.py").write_text(KERNEL.format(statement=statement))
    kernel = kb.compile(f"{folder}/k.py::k", BLOCK=64)
    return kb.open("ahbm_1x1").run(kernel, x_ptr=np.zeros(length, np.float32), grid=(2,))


@pytest.mark.parametrize(
    ("statement", "code", "line"),
    [
        ("tl.store(x_ptr + offsets, read(x_ptr, offsets))", "E_OUT_OF_BOUNDS", "    return tl.load(x_ptr + offsets)"),
        (
            "tl.store(x_ptr, tl.sum(large(tl.program_id(0))))",
            "E_TCM_OVERFLOW",
            "    return tl.exp(tl.zeros([1024, 1024], tl.float32) + x)",
        ),
    ],
)
def test_errors(tmp_path: Path, statement: str, code: str, line: str) -> None:
    with pytest.raises(kb.KernBenchError) as caught:
        run(tmp_path, statement, length=60)

    (found,) = caught.value.diagnostics
    assert found.primary is not None
    assert (code, line) == (found.code, found.primary.source)


def test_warnings(tmp_path: Path) -> None:
    (found,) = run(tmp_path, "write(x_ptr, offsets)").diagnostics

    assert found.primary is not None
    assert ("E_UNORDERED_STORES", "    tl.store(x_ptr + offsets, 1.0)") == (found.code, found.primary.source)
