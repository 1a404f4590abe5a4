"""Collect what is wrong with one source text, by offsets into it, and stop where going on helps nobody.

Does not know the language.
"""

from __future__ import annotations

from kernbench.compiler.errors import error
from kernbench.compiler.source import SourceText
from kernbench.diagnostics import Diagnostic, Label, Span

MAX_ERRORS = 40  # more are not read, and each costs time on hostile input


class GiveUp(Exception):
    """The text is not read further. Never leaves `parse`."""


class Reporter:
    """Diagnostics of one parse, in the order in which they were found."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []
        self.remarks: list[Diagnostic] = []

    def span(self, start: int, end: int) -> Span:
        return self.source.span(start, end)

    def report(
        self,
        code: str,
        message: str,
        span: Span,
        *others: Label,
        label: str = "",
        help: str | None = None,
    ) -> None:
        """Keep an error; `label` is written at the place itself."""
        found = error(code, message, self.source.label(span, label), *others, help=help)
        if found in self.diagnostics:
            return
        self.diagnostics.append(found)
        if len(self.diagnostics) == MAX_ERRORS:
            self.diagnostics.append(error("E_TOO_MANY_ERRORS", f"only the first {MAX_ERRORS} errors are shown"))
            raise GiveUp

    def too_deep(self, what: str, limit: int, span: Span) -> GiveUp:
        """Say that nesting passed its limit; the caller raises what comes back."""
        message = f"{what} are nested deeper than {limit} levels"
        help_line = "split this into helpers or steps"
        self.report("E_NESTING_TOO_DEEP", message, span, label=f"level {limit + 1}", help=help_line)
        return GiveUp()

    def remark(self, code: str, message: str, span: Span) -> None:
        """Keep something that is no error but that the user should know."""
        label = self.source.label(span)
        self.remarks.append(error(code, message, label, severity="remark"))
