"""The first pass: source text to syntax tree, or all syntax errors of the file at once.

Puts lexer, tables, node makers and error wording together. Does not know what names mean.
"""

from __future__ import annotations

import sys
from typing import Any

from kernbench.compiler import ast, tables
from kernbench.compiler.build import NO_NODES, Builder
from kernbench.compiler.lalr import MAX_DEPTH, Machine, Reduction, Stop
from kernbench.compiler.lexer import Lexer
from kernbench.compiler.reporter import GiveUp, Reporter
from kernbench.compiler.source import SourceText
from kernbench.compiler.syntax_errors import SyntaxErrors
from kernbench.diagnostics import EXIT_KERNEL, Diagnostic, KernBenchError, Sink

__all__ = ["MAX_DEPTH", "parse"]


def parse(source: SourceText, sink: Sink | None = None) -> ast.Module:
    """The tree of a kernel file; remarks go to `sink`. Raises with every syntax error that was found."""
    reporter = Reporter(source)
    module = _FileParser(reporter).module()
    if reporter.diagnostics:
        reporter.diagnostics.sort(key=_place)
        raise KernBenchError(reporter.diagnostics, EXIT_KERNEL)
    assert isinstance(module, ast.Module), "a parse without an error has a tree"
    if sink is not None:
        for remark in reporter.remarks:
            sink.add(remark)
    return module


def _place(diagnostic: Diagnostic) -> tuple[int, int]:
    if diagnostic.primary is None:
        return sys.maxsize, 0
    return diagnostic.primary.span.line, diagnostic.primary.span.column


class _FileParser:
    """What one file's parse shares; observes the LALR driver."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.tables = tables.load()
        self.errors = SyntaxErrors(self.tables, reporter)
        self.builder = Builder(reporter, self.piece)
        self.machine = Machine(self.tables, self)

    def module(self) -> ast.Module | None:
        try:
            tokens = Lexer(self.tables, self.reporter).file()
            found: ast.Module | None = self.machine.parse(tokens, "module")
        except GiveUp:
            return None
        return found

    def piece(self, start: int, end: int) -> ast.Expr | None:
        """The expression between two offsets, inside an f-string."""
        tokens = Lexer(self.tables, self.reporter).piece(start, end)
        found: ast.Expr | None = self.machine.parse(tokens, "tests")
        return found

    # ---- as lalr.Observer

    def syntax_error(self, stop: Stop) -> None:
        self.errors.report(stop)

    def too_deep(self, start: int, end: int) -> GiveUp:
        return self.reporter.too_deep("expressions and blocks", MAX_DEPTH, self.reporter.span(start, end))

    def filler(self, start: int, end: int) -> ast.Pass:
        return ast.Pass(self.reporter.span(start, end))

    def action(self, name: str) -> tuple[Reduction, bool]:
        make: Any = getattr(self.builder, name)
        return make, name not in NO_NODES
