"""Short ways from the text of a kernel to its residual program, to its errors, and to what it computes."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from kernbench.compiler.elaborate import elaborate
from kernbench.compiler.parse import parse
from kernbench.compiler.residual import Residual
from kernbench.compiler.source import SourceText
from kernbench.compiler.typed_printer import print_residual
from kernbench.diagnostics import Diagnostic, Sink
from kernbench.dtypes import from_numpy
from tests.compiler import residual_machine

HEAD = "import triton\nimport triton.language as tl\n\n"


def source_of(text: str) -> SourceText:
    body = textwrap.dedent(text)
    if "import " not in body:
        body = HEAD + "\n\n".join(f"@triton.jit\n{part}" for part in _functions(body))
    return SourceText.from_text("k.tl", body)


def _functions(body: str) -> list[str]:
    parts = ("\n" + body.strip("\n")).split("\ndef ")
    assert parts[0].strip() == "", "a test's text without imports holds functions only"
    return [f"def {part}\n" for part in parts[1:]]


def attempt(
    text: str, signature: Mapping[str, str], constexprs: Mapping[str, Any] | None = None, kernel: str | None = None
) -> tuple[Residual | None, list[Diagnostic]]:
    source, sink = source_of(text), Sink()
    residual = elaborate(parse(source), source, kernel, constexprs or {}, signature, sink)
    return residual, sink.diagnostics


def residual_of(text: str, signature: Mapping[str, str], constexprs: Mapping[str, Any] | None = None) -> Residual:
    residual, diagnostics = attempt(text, signature, constexprs)
    assert residual is not None, "\n".join(d.render() for d in diagnostics)
    return residual


def typed(text: str, signature: Mapping[str, str], constexprs: Mapping[str, Any] | None = None) -> str:
    return print_residual(residual_of(text, signature, constexprs))


def errors_of(text: str, signature: Mapping[str, str], constexprs: Mapping[str, Any] | None = None) -> list[Diagnostic]:
    return attempt(text, signature, constexprs)[1]


def error_of(text: str, signature: Mapping[str, str], constexprs: Mapping[str, Any] | None = None) -> Diagnostic:
    """The one error of a text."""
    diagnostics = errors_of(text, signature, constexprs)
    assert len(diagnostics) == 1, "\n".join(d.render() for d in diagnostics)
    return diagnostics[0]


def run(
    text: str, args: Mapping[str, Any], constexprs: Mapping[str, Any] | None = None, grid: tuple[int, ...] = (1,)
) -> dict[str, Any]:
    """Elaborate for these arguments, run, and give the arrays back."""
    signature = {name: _type_of(value) for name, value in args.items()}
    return residual_machine.run(residual_of(text, signature, constexprs), args, grid)


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    if isinstance(value, float):
        return "fp32"
    dtype = from_numpy(value.dtype)
    assert dtype is not None
    return f"*{dtype.name}"
