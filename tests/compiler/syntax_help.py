"""Short ways to parse a text in a test, and a text that holds every construct of the language."""

from __future__ import annotations

from kernbench.compiler import ast
from kernbench.compiler.ast_printer import print_ast
from kernbench.compiler.parse import parse
from kernbench.compiler.source import SourceText
from kernbench.diagnostics import EXIT_KERNEL, Diagnostic, KernBenchError

WHOLE = '''"""A file with one of everything."""

import triton
import triton.language as tl, kernbench.language
from triton.language import math as m, libdevice
from ..helpers import (
    a,
    b as c,  # a trailing comma
)
from triton.language.extra import *

BLOCK: tl.constexpr = 64
SCALE = 1.5e-3; LOG2E = tl.constexpr(1.4426950408889634)


class Activation(Kind, other.Kind):
    """Codes."""
    NONE = 0; RELU: int = 1

@triton.autotune(
    configs=[triton.Config({"BLOCK": 1 << i}, num_warps=4) for i in range(3)],
    key=["n"],
)
@triton.jit(do_not_specialize=["n"])
def kernel(x_ptr, y: "tl.constexpr", n=1, *, BLOCK: tl.constexpr = 64) -> None:
    """Documented."""
    a = b = 0x_ff + 0b1 - 0o17 * 1_000 / .5 // 1. % 1e3 @ 2.5E-1
    (c, [d, e]), f = (a, [b, ~a]), -b ** +2
    g: tl.constexpr = a << 1 >> 2 & 3 | 4 ^ 5
    h: tl.int32
    x_ptr += 1; y.z[0] //= 2
    k = not a or b and c < d <= e != f == 1 is not None
    l = a in (b,) if k else d not in [] or {} is {"op": a, "scope": b,}
    q = x[:, None] + x[1:2, ..., ::3] - x[a:] * x[:b:c,] @ x.T[-1]
    s = "a" \'b\\n\' r"\\d" """long
text"""
    tl.device_print(f"n = {n:>4} {{}} {a + b!r}{x[0]=}", hex=True)
    for i, j in tl.range(0, n, num_stages=2):
        while i < j and (
            a > b
        ):
            if i: pass
            elif j == \\
                    1:
                return
            else:
                return a, b
    with tl.scratch_scope(), other(1) as (p, o):
        assert a, "message"
        raise ValueError("no") from None
    return
'''


def source(text: str, name: str = "k.tl") -> SourceText:
    return SourceText.from_text(name, text)


def module(text: str) -> ast.Module:
    return parse(source(text))


def body(text: str) -> tuple[ast.Stmt, ...]:
    """The statements of a kernel whose body is `text`."""
    return module(kernel(text)).functions[0].body


def kernel(text: str) -> str:
    """A file with one kernel, whose body begins on line 3."""
    return "@triton.jit\ndef k(a, b):\n" + "".join(f"    {line}\n" for line in text.splitlines())


def expression(text: str) -> ast.Expr:
    (statement,) = body(text)
    assert isinstance(statement, ast.ExprStmt)
    return statement.value


def tree(text: str) -> str:
    return print_ast(module(text))


def errors(text: str) -> tuple[Diagnostic, ...]:
    """The diagnostics of a text that must not parse."""
    try:
        parse(source(text))
    except KernBenchError as error:
        assert error.exit_code == EXIT_KERNEL
        return error.diagnostics
    raise AssertionError("the text parses")


def shown(text: str) -> list[str]:
    """The errors as `CODE line:column message`."""
    lines = []
    for found in errors(text):
        place = f"{found.primary.span.line}:{found.primary.span.column}" if found.primary else "-"
        lines.append(f"{found.code} {place} {found.message}")
    return lines
