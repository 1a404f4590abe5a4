"""Stop the evaluation of one expression with a diagnostic; the statement around it is given up.

Values and operators raise `fault(...)`; the walker catches it, keeps what it says, and goes on with the next statement.
Does not know what went wrong, nor who collects it.
"""

from __future__ import annotations

from dataclasses import replace

from kernbench.compiler.errors import error
from kernbench.diagnostics import Diagnostic, Label, Severity, Span


class Fault(Exception):
    """One user mistake. `diagnostic` has no source lines yet; its place knows the inlined calls that lead there.

    `about` is the value that is to blame, or the name of a keyword: where it is an argument of a call, the walker
    shows that argument.
    """

    def __init__(self, diagnostic: Diagnostic, about: object = None) -> None:
        self.diagnostic = diagnostic
        self.about = about
        super().__init__(diagnostic.message)

    def point_at(self, span: Span) -> None:
        """Show a part of the place that the mistake was told at."""
        primary = self.diagnostic.primary
        assert primary is not None
        self.diagnostic = replace(self.diagnostic, primary=replace(primary, span=span.within(primary.span.calls)))
        self.about = None


def fault(
    code: str,
    message: str,
    at: Span,
    text: str = "",
    *,
    help: str | None = None,
    others: tuple[tuple[Span, str], ...] = (),
    notes: tuple[str, ...] = (),
    about: object = None,
    severity: Severity = "error",
) -> Fault:
    """What to raise for a mistake at `at`; `others` are further places with their remarks ("first bound here")."""
    labels = [Label(at, text), *(Label(span, remark) for span, remark in others)]
    return Fault(error(code, message, *labels, help=help, notes=notes, severity=severity), about)
