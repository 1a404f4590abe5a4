"""Put an example of an explanation through the checker that a user's own input would meet."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import kernbench as kb
from kernbench.cli.main import main
from kernbench.cli.options import parse_sets, parse_signature
from kernbench.compiler.pipeline import compile_kernel
from kernbench.compiler.source import SourceText
from kernbench.diagnostics import Diagnostic, KernBenchError
from kernbench.explain.model import (
    Bench,
    CommandLine,
    Example,
    Expression,
    Kernel,
    KernelRun,
    Messages,
    Python,
    Topology,
    clean,
    file_text,
)
from kernbench.message_text import read_requests
from kernbench.messages import Completion
from kernbench.runtime.bench import check_bench
from kernbench.runtime.expressions import ExpressionError, evaluate, parse_expression
from kernbench.sim.engine import GraphEngine
from kernbench.sim.topology import check_topology

SMALLEST = "ahbm_1x1"
_HEADLINE = re.compile(r"^(error|warning|remark)\[(\w+)\]: (.*)$", re.MULTILINE)


class Told(NamedTuple):
    """A diagnostic as far as an explanation speaks of it."""

    severity: str
    code: str
    message: str


@functools.cache
def smallest_device() -> kb.Device:
    return kb.open(SMALLEST)


def _kernel(example: Kernel) -> Iterable[Diagnostic]:
    sets = parse_sets(tuple(text.strip() for text in example.sets.split(",") if text))
    constexprs = {name: evaluate(parse_expression(text), {}) for name, text in sets.items()}
    source = SourceText.from_text("k.tl", file_text(example.text))
    signature = parse_signature(example.signature)
    return compile_kernel(source, None, constexprs, signature, smallest_device().target).diagnostics


def _topology(example: Topology) -> Iterable[Diagnostic]:
    return check_topology("mine.yaml", clean(example.text))


def _bench(example: Bench) -> Iterable[Diagnostic]:
    Path("k.yaml").write_text(clean(example.text), "utf-8")
    return check_bench(Path("k.yaml"))


def _messages(example: Messages) -> Iterable[Diagnostic]:
    requests = read_requests(clean(example.text), "messages.jsonl")
    if not example.on_device:
        return []
    engine = GraphEngine(smallest_device().graph)
    handles = [engine.submit(request) for request in requests]
    engine.run()
    ended = [handle.completion for handle in handles]
    return [Diagnostic(str(end.error_code), str(end.error_message)) for end in ended if not end.ok]


def _expression(example: Expression) -> Iterable[Diagnostic]:
    try:
        evaluate(parse_expression(example.text), {})
    except ExpressionError as wrong:
        return [wrong.diagnostic("expression")]
    return []


def _python(example: Python) -> Iterable[Diagnostic]:
    Path("k.tl").write_text(file_text(example.kernel), "utf-8")
    result: dict[str, Any] = {"kb": kb, "np": np}
    exec(compile(clean(example.text), "example.py", "exec"), result)
    return [found for value in result.values() for found in _told_by(value)]


def _told_by(value: object) -> Iterable[Diagnostic]:
    """What a script's value has to say of what went wrong."""
    if isinstance(value, kb.Run | GraphEngine):
        return value.diagnostics
    if isinstance(value, Completion) and not value.ok:
        return [Diagnostic(str(value.error_code), str(value.error_message))]
    return []


_IN_PYTHON: dict[type, Callable[[Any], Iterable[Diagnostic]]] = {
    Kernel: _kernel,
    Topology: _topology,
    Bench: _bench,
    Messages: _messages,
    Expression: _expression,
    Python: _python,
}


def told(example: Example, folder: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[Told]:
    """What the checker tells about an example, in `folder`."""
    patch.chdir(folder)
    if isinstance(example, KernelRun):
        example = CommandLine(example.command, {"k.tl": file_text(example.text), "k.yaml": example.bench})
    if isinstance(example, CommandLine):
        return _command_line(example, capsys)
    try:
        found = _IN_PYTHON[type(example)](example)
    except KernBenchError as wrong:
        found = wrong.diagnostics
    return [Told(each.severity, each.code, each.message) for each in found]


def _command_line(example: CommandLine, capsys: pytest.CaptureFixture[str]) -> list[Told]:
    for name, data in example.files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else clean(data).encode())
    for line in example.command.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "kernbench", "an example's command line is one of kernbench"
        main(arguments)
    return [Told(*match) for match in _HEADLINE.findall(capsys.readouterr().err)]
