"""Every error code of the program, gathered from the tables of the parts, with the command line's own.

`kernbench list errors` and `explain` print it.
"""

from __future__ import annotations

OWN_ERRORS: dict[str, str] = {
    "E_INTERNAL": "a fault of KernBench itself",
    "E_OUTPUT_FILE": "a file that was to be written cannot be",
    "E_INPUT_FILE": "a file named on the command line cannot be read",
    "E_KERNEL_FILE": "there is no kernel file of that name",
    "E_RUN_DIR": "a run directory is damaged, or its files were changed",
    "E_LOG_RECORD": "a line of an op log is no record",
    "E_BENCH_NEEDED": "a run needs a bench file that says what to run",
    "E_OPTION": "an option has a value that it may not have, or two options contradict each other",
    "E_EXPLAIN_WHAT": "`explain` knows no such code or topic",
}


def all_errors() -> dict[str, str]:
    """Code → one line, sorted by code."""
    from kernbench.compiler.errors import ERRORS as COMPILER
    from kernbench.probe.errors import ERRORS as PROBE
    from kernbench.runtime.errors import ERRORS as RUNTIME
    from kernbench.sim.errors import ERRORS as SIMULATOR

    return dict(sorted({**COMPILER, **RUNTIME, **SIMULATOR, **PROBE, **OWN_ERRORS}.items()))
