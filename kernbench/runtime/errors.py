"""Every error code of the host side, with its meaning, and the one way to make a diagnostic of it.

Does not know what raises them.
"""

from __future__ import annotations

from kernbench import message_fields
from kernbench.diagnostics import EXIT_INPUT, Diagnostic, KernBenchError, Label, Severity

ERRORS: dict[str, str] = message_fields.ERRORS | {
    # kernels and the arguments of a launch
    "E_ARG_UNKNOWN": "an argument has a name that the kernel has no parameter for",
    "E_ARG_MISSING": "a parameter of the kernel has no argument and no default",
    "E_ARG_TYPE": "an argument is neither an array, a number, a bool, a descriptor nor a constexpr",
    "E_ARG_DTYPE": "an array has an element type that no device has, or another than the kernel was compiled for",
    "E_ARG_RANGE": "a number does not fit the type of its parameter",
    "E_ARG_STRIDES": "an array's strides cannot be laid out in device memory",
    "E_ARG_FORM": "a parameter of the Python face is not the mapping, the names or the kernel that it takes",
    "E_ARG_TWICE": "an argument is given twice",
    "E_ARG_SHARED": "two arrays that cannot be one tensor share memory that the kernel stores to",
    "E_GRID": "a launch's grid is not one to three numbers of programs",
    "E_MODE": "a run's mode is neither timing nor data",
    "E_OPTION_UNKNOWN": "a device is opened with an option that it does not have",
    "E_OPTION_VALUE": "a device is opened with an option of a value that it may not have",
    "E_OPT_LEVEL": "there is no optimisation level of that number",
    "E_KERNEL_UNREADABLE": "a kernel file cannot be read",
    "E_DUMP_DIR": "a dump cannot be written to its folder",
    "E_INTERRUPTED": "somebody stopped the run from the keyboard",
    "E_NO_DATA": "a result's values were asked for, and the run has none",
    # memory
    "E_PLACEMENT": "a placement names a dimension, an axis or a PE that is not there",
    "E_HBM_FULL": "a PE's HBM slice has no room for a tensor or a kernel",
    "E_NO_COMPLETION": "the device became idle without completing a request",
    "W_COPIES_DIFFER": "the copies of a replicated tensor differ after a launch",
    # bench files
    "E_BENCH_KEY": "a bench file has a key that it may not have, or lacks one that it must have",
    "E_BENCH_VALUE": "a value in a bench file is of the wrong type or outside what it may be",
    "E_BENCH_NAME": "a name in a bench file or a --set stands for nothing",
    "E_BENCH_CYCLE": "values in a bench file need each other",
    "E_BENCH_CASE": "a bench file has no case of that name",
    "E_BENCH_FILE": "a file that a bench file names cannot be read",
    "W_BENCH_UNUSED": "a bench file gives a name that its kernel does not take and no expression uses",
    "R_BENCH_CONSTEXPR": "a bench file gives a run-time parameter of its kernel as a constexpr",
    "E_EXPRESSION_SYNTAX": "an expression does not follow the expression grammar",
    "E_EXPRESSION_NAME": "an expression uses a name or a function that is not known",
    "E_EXPRESSION_VALUE": "an expression cannot be evaluated on these values",
}


def error(
    code: str,
    message: str,
    *labels: Label,
    path: str | None = None,
    help: str | None = None,
    severity: Severity = "error",
) -> Diagnostic:
    """A diagnostic whose first label is the primary one."""
    assert code in ERRORS, f"{code} is not in the table of host errors"
    primary, secondary = (labels[0], labels[1:]) if labels else (None, ())
    return Diagnostic(code, message, primary, secondary, path=path, help=help, severity=severity)


def fail(code: str, message: str, *, path: str | None = None, help: str | None = None) -> KernBenchError:
    """One error of an input, ready to be raised."""
    return KernBenchError([error(code, message, path=path, help=help)], EXIT_INPUT)
