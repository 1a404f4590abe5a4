"""Run one case through the Python face and say how it ended: a result, diagnostics, or a failure of ours.

Knows which diagnostics have no place in a text. Does not know where cases come from.
"""

from __future__ import annotations

import functools
import io
import json
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import kernbench as kb
from kernbench.binary import decode, encode
from kernbench.cli.errors import all_errors
from kernbench.compiler.pipeline import CompiledKernel
from kernbench.compiler.printer import print_program
from kernbench.compiler.program_json import program_document
from kernbench.compiler.program_parser import parse_program
from kernbench.diagnostics import Diagnostic, KernBenchError
from kernbench.kernel import Kernel
from kernbench.report.dataflow import dataflow_dot
from kernbench.run import Run
from kernbench.session import Device
from kernbench.sim.engine import Limits
from tests.fuzz.case import Case

SECONDS = 20  # of processor time; a case that takes longer hangs
LIMITS = Limits(max_time_ns=200_000, max_commands=1000, max_wall_s=10.0, look_every=200)
# What is wrong with a launch as a whole, or with what a script passes: these name the argument or the limit instead.
WITHOUT_PLACE = {
    "E_ARG_TYPE", "E_ARG_DTYPE", "E_ARG_RANGE", "E_ARG_STRIDES", "E_GRID", "E_PLACEMENT", "E_HBM_FULL",
    "E_TIME_LIMIT", "E_COMMAND_LIMIT", "E_WALL_LIMIT", "E_UNKNOWN_KERNEL", "E_NO_KERNEL",
    "E_TOO_MANY_ERRORS", "E_YAML_EMPTY", "E_YAML_FILE",
    "E_TOPO_NOT_FOUND", "E_KERNEL_UNREADABLE",
}  # fmt: skip
# A run without values may end at these where the run with values goes through.
TIMING_ONLY = {"E_TIMING_NEEDS_DATA", "E_WALL_LIMIT"}
# One command an operation takes more of these.
MORE_WITHOUT_FUSION = {"E_TCM_OVERFLOW", "E_COMMAND_LIMIT", "E_TIME_LIMIT", "E_WALL_LIMIT"}


@dataclass(frozen=True)
class Verdict:
    """`kind` is "result", "diagnostic" or "failure"; `key` tells distinct failures apart, `detail` shows one."""

    kind: str
    codes: tuple[str, ...] = ()
    key: str = ""
    detail: str = ""

    @property
    def failed(self) -> bool:
        return self.kind == "failure"


class Hang(BaseException):
    """A case took longer than `SECONDS`; no handler in the package may take it for an error of its own."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judged(work: Callable[[], Verdict], where_needed: bool = True) -> Verdict:
    """How `work` ends; warnings are failures, and so is a diagnostic of no table or without a place."""
    try:
        with time_limit(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("error")
            return work()
    except KernBenchError as error:
        return of_diagnostics(error.diagnostics, where_needed)
    except Hang as hang:
        return Verdict("failure", key=f"hang in {_innermost(hang)}", detail="".join(traceback.format_exception(hang)))
    except Exception as wrong:
        key = f"{type(wrong).__name__} in {_innermost(wrong)}"
        return Verdict("failure", key=key, detail="".join(traceback.format_exception(wrong)))


def _innermost(wrong: BaseException) -> str:
    """The last function of the package on the way to the error."""
    frames = [frame for frame in traceback.extract_tb(wrong.__traceback__) if "/kernbench/" in frame.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "a caller"


def of_diagnostics(found: Sequence[Diagnostic], where_needed: bool = True) -> Verdict:
    codes = tuple(sorted({each.code for each in found}))
    for each in found:
        complaint = _complaint(each, where_needed)
        if complaint:
            return Verdict("failure", codes, f"{each.code} {complaint}", each.render())
    if not codes:
        return Verdict("failure", key="an error without a diagnostic")
    return Verdict("diagnostic", codes)


def _complaint(found: Diagnostic, where_needed: bool) -> str:
    if found.code not in all_errors():
        return "stands in no table"
    if where_needed and found.primary is None and not found.path and found.code not in WITHOUT_PLACE:
        return "has no place"
    if not found.message or "\n" in found.message:
        return "has no message of one line"
    return "" if found.render() else "shows as nothing"


@functools.cache
def device(topology: str) -> Device:
    return kb.open(topology, limits=LIMITS)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="kernbench-fuzz-")


def compiled(case: Case, opt_level: int) -> Kernel:
    """From a file, as people do it; a text that no file of UTF-8 can hold becomes one with wrong bytes."""
    path = Path(_folder().name) / case.file
    path.write_bytes(case.text.encode("utf-8", "surrogatepass"))
    return kb.compile(f"{path}::{case.function}" if case.function else path, opt_level=opt_level)


def launched(case: Case, mode: str = "data", kernel: Kernel | None = None) -> Run:
    kernel = kernel or compiled(case, 1)
    values = {
        name: value.copy(order="K") if isinstance(value, np.ndarray) else value
        for name, value in case.bound(kernel).items()
    }
    places = {name: place for name, place in (case.placements or {}).items() if name in kernel.params}
    return device(case.topology).run(kernel, values, case.grid, places, mode=mode)


def judge(case: Case, compare: bool = True) -> Verdict:
    """With `compare`, a result must also be the one of the other mode and of the other optimisation level."""

    def work() -> Verdict:
        kernel = compiled(case, 1)
        run = launched(case, "data", kernel)
        difference = (_difference(case, kernel, run) or _lost(run)) if compare else ""
        if difference:
            return Verdict("failure", key=difference, detail=difference)
        return Verdict("result", tuple(sorted({each.code for each in run.diagnostics})))

    return judged(work)


def _difference(case: Case, kernel: Kernel, run: Run) -> str:
    """What a run has different from the runs that should equal it."""
    timing = _unless_refused(lambda: launched(case, "timing", kernel))
    if isinstance(timing, KernBenchError):
        codes = {each.code for each in timing.diagnostics}
        if not codes <= TIMING_ONLY:
            return f"only timing mode says {', '.join(sorted(codes))}"
    elif _log(timing) != _log(run):
        return "the logs of both modes differ"
    plain = _unless_refused(lambda: launched(case, "data", compiled(case, 0)))
    if isinstance(plain, KernBenchError):
        codes = {each.code for each in plain.diagnostics} - MORE_WITHOUT_FUSION
        return f"only -O 0 says {', '.join(sorted(codes))}" if codes else ""
    for name, array in run.arrays.items():
        if not _same(array, plain.arrays[name]):
            return "the results of both optimisation levels differ"
    return ""


def _lost(run: Run) -> str:
    """Whether the program comes back from its bytes and from its text; what people read of it is made, too."""
    compiled = run.compiled
    assert isinstance(compiled, CompiledKernel) and compiled.binary is not None
    json.dumps(program_document(compiled.program, compiled.binary, ""))
    json.dumps(run.to_json())
    run.summary()
    dataflow_dot(compiled.program)
    text = print_program(compiled.program)
    if encode(decode(compiled.binary)) != compiled.binary:
        return "the binary is another program"
    return "" if print_program(parse_program(text)) == text else "the printed program is another one"


def _unless_refused(work: Callable[[], Run]) -> Run | KernBenchError:
    try:
        return work()
    except KernBenchError as error:
        return error


def _log(run: Run) -> str:
    out = io.StringIO()
    if run.op_log is not None:
        run.op_log.write_jsonl(out)
    return out.getvalue()


def _same(left: Any, right: Any) -> bool:
    return left is None or right is None or bool(left.tobytes() == right.tobytes())
