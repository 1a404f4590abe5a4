"""Compile a kernel text for tests, and run it on the reference machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench.commands import Program, Target
from kernbench.compiler.pipeline import CompiledKernel, compile_kernel
from kernbench.compiler.source import SourceText
from kernbench.dtypes import from_numpy
from tests.compiler.program_machine import Machine

TARGET = Target(1 << 20, (64, 64, 64), 2, ("fp16", "bf16", "fp32", "i8"))
HEAD = "import triton\nimport triton.language as tl\nimport kernbench.language as kb\n\n\n@triton.jit\n"


def source(text: str) -> SourceText:
    return SourceText.from_text("k.tl", HEAD + text)


def compiled(
    text: str, signature: dict[str, str], opt: int = 1, target: Target | None = TARGET, **constexprs: Any
) -> CompiledKernel:
    return compile_kernel(source(text), None, constexprs, signature, target, opt)


def signature_of(**args: Any) -> dict[str, str]:
    """Types of the arguments: arrays are pointers, ints i32, floats fp32."""
    types = {}
    for name, value in args.items():
        if isinstance(value, np.ndarray):
            dtype = from_numpy(value.dtype)
            assert dtype is not None
            types[name] = f"*{dtype.name}"
        else:
            types[name] = "fp32" if isinstance(value, float) else "i32"
    return types


def run_program(program: Program, args: dict[str, Any], special: dict[str, int] | None = None) -> Machine:
    tensors = [value.reshape(-1) for value in args.values() if isinstance(value, np.ndarray)]
    scalars = [value for value in args.values() if not isinstance(value, np.ndarray)]
    machine = Machine(program, tensors, scalars, special or {})
    machine.run()
    return machine


def run(
    text: str,
    args: dict[str, Any],
    opt: int = 1,
    target: Target = TARGET,
    special: dict[str, int] | None = None,
    **constexprs: Any,
) -> Machine:
    """Arrays among `args` (in parameter order) are changed in place."""
    kernel = compiled(text, signature_of(**args), opt, target, **constexprs)
    return run_program(kernel.program, args, special)
