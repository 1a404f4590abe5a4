"""What tests of whole kernels share: one text, run in data mode and in timing mode, whose logs must be equal."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import kernbench as kb
from kernbench.data_files import data_dir

HEAD = "import triton\nimport triton.language as tl\n\n\n"


def kernel(text: str, **constexprs: Any) -> kb.Kernel:
    """A kernel whose text leaves the imports out."""
    return kb.compile(HEAD + text.lstrip("\n"), constexprs)


@functools.cache
def shipped(name: str, **constexprs: Any) -> kb.Kernel:
    """A kernel of the folder `kernels`; the same one for the same constexprs, so that it is compiled once."""
    return kb.compile(data_dir("kernels") / f"{name}.tl", constexprs)


def run(text: str | kb.Kernel, grid: Any = (1,), topology: str = "ahbm_1x1", **args: Any) -> kb.Run:
    """The run in data mode, after it was held against the one in timing mode: every record is the same."""
    made = kernel(text) if isinstance(text, str) else text
    options = {key: args.pop(key) for key in ("placements", "dtypes") if key in args}
    device = kb.open(topology)
    data = device.run(made, args, grid=grid, **options)
    timing = device.run(made, args, grid=grid, mode="timing", **options)
    assert data.op_log is not None and timing.op_log is not None
    assert list(data.op_log) == list(timing.op_log)
    assert data.total_ns == timing.total_ns
    return data


def codes(caught: pytest.ExceptionInfo[kb.KernBenchError]) -> list[str]:
    return [diagnostic.code for diagnostic in caught.value.diagnostics]


def moved(found: kb.Run, kind: str) -> list[int]:
    """The bytes of every transfer of a kind that a PE made, in the order of the log."""
    assert found.op_log is not None
    return [record.nbytes for record in found.op_log if record.op_kind == kind and record.component.endswith(".pe_dma")]
