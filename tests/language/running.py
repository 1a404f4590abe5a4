"""Run a kernel given as text on the smallest device, in data mode, and hand back its arrays."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kernbench.compiler.source import SourceText
from kernbench.diagnostics import Diagnostic, KernBenchError
from kernbench.kernel import Kernel
from kernbench.run import Run
from kernbench.session import Device

HEAD = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n"


@functools.cache
def device(name: str = "ahbm_1x1") -> Device:
    return kb.open(name)


def kernel(text: str, opt_level: int = 1, python: bool = False, **constexprs: Any) -> Kernel:
    """`text` holds one kernel `k` and its helpers, without imports; functions need no decorator."""
    body = textwrap.dedent(text).strip("\n")
    lines = []
    for line in body.splitlines():
        lines += ["@triton.jit", line] if line.startswith("def ") else [line]
    source = SourceText.from_text("k.py" if python else "k.tl", HEAD + "\n".join(lines) + "\n")
    return kb.compile(source, constexprs=constexprs, opt_level=opt_level)


def run(
    text: str,
    args: Mapping[str, Any],
    grid: Any = (1,),
    on: str = "ahbm_1x1",
    mode: str = "data",
    dtypes: Mapping[str, str] | None = None,
    opt_level: int = 1,
    **constexprs: Any,
) -> Run:
    """The arrays of `args` are copied, so that a test may use them again."""
    given = {name: value.copy(order="K") if isinstance(value, np.ndarray) else value for name, value in args.items()}
    compiled = kernel(text, opt_level, **constexprs)
    return device(on).run(compiled, args=given, grid=grid, mode=mode, dtypes=dtypes or {})


def refused(text: str, args: Mapping[str, Any], **constexprs: Any) -> Diagnostic:
    """The first mistake that is told."""
    with pytest.raises(KernBenchError) as caught:
        run(text, args, **constexprs)
    return caught.value.diagnostics[0]


def elementwise(
    expression: str, *inputs: Any, out: Any, dtypes: Mapping[str, str] | None = None, opt_level: int = 1
) -> Any:
    """`expression` over blocks `a`, `b`, `c`, stored as `out` (a NumPy type or a name of ours)."""
    arrays = [np.ascontiguousarray(each) for each in inputs]
    names = "abc"[: len(arrays)]
    loads = "\n".join(f"    {name} = tl.load({name}_ptr + i)" for name in names)
    signature = ", ".join(f"{name}_ptr" for name in names)
    text = f"def k({signature}, o_ptr, N: tl.constexpr):\n    i = tl.arange(0, N)\n{loads}\n"
    text += f"    tl.store(o_ptr + i, {expression})\n"
    args = {f"{name}_ptr": array for name, array in zip(names, arrays, strict=True)}
    casts = {f"{name}_ptr": cast for name, cast in (dtypes or {}).items()}
    args["o_ptr"] = np.zeros(arrays[0].size, out)
    return run(text, args, dtypes=casts, opt_level=opt_level, N=arrays[0].size)["o_ptr"]
