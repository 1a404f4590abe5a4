"""Every error code of the compiler, with its meaning, and the one way to make a diagnostic of it.

Does not know what raises them.
"""

from __future__ import annotations

from kernbench.diagnostics import Diagnostic, Label, Severity

ERRORS: dict[str, str] = {
    # source text and syntax
    "E_SOURCE_ENCODING": "a source file holds bytes or characters that a text of UTF-8 may not hold",
    "E_SOURCE_TOO_LARGE": "a source file is larger than the compiler reads",
    "E_SYNTAX": "the text does not follow the syntax of the kernel language",
    "E_INDENTATION": "a line's indentation fits no block, or mixes tabs and spaces",
    "E_UNSUPPORTED_SYNTAX": "a Python construct that the kernel language does not have",
    "E_BAD_LITERAL": "a number or string literal is malformed or too large",
    "E_BAD_TARGET": "something that cannot be assigned to stands left of an assignment",
    "E_REPEATED_NAME": "a parameter or keyword is given twice in one list",
    "E_ARGUMENT_ORDER": "arguments or parameters stand in an order that Python does not allow",
    "E_NESTING_TOO_DEEP": "blocks or expressions are nested deeper than the compiler goes",
    "E_TOO_MANY_ERRORS": "a file has more syntax errors than are shown",
    "R_DECORATOR_SKIPPED": "a decorator of a kernel is not read",
}


def error(
    code: str,
    message: str,
    *labels: Label,
    help: str | None = None,
    notes: tuple[str, ...] = (),
    severity: Severity = "error",
) -> Diagnostic:
    """A diagnostic whose first label is the primary one."""
    assert code in ERRORS, f"{code} is not in the table of compiler errors"
    primary, secondary = (labels[0], labels[1:]) if labels else (None, ())
    return Diagnostic(code, message, primary, secondary, help=help, notes=notes, severity=severity)
