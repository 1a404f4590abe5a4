"""The error codes of `probe`, each with what it means in one line.

`kernbench list errors` and `explain` print this table. Does not know where an error is raised.
"""

from __future__ import annotations

from kernbench.diagnostics import KernBenchError

ERRORS: dict[str, str] = {
    "E_PROBE_CASE": "`probe` has no traffic case of that name",
}


def usage(code: str, message: str, help: str) -> KernBenchError:
    """What a person asked for and `probe` does not have."""
    assert code in ERRORS, f"{code} is not in the table of probe errors"
    return KernBenchError.usage(code, message, help=help)
