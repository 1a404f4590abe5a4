"""`kernbench check`: every error in kernels, benches, topologies and messages, without simulating anything.

Does not know what is wrong with them: each kind has its own checker.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from kernbench.cli.cases import Asked, case_of
from kernbench.cli.locate import KERNEL_SUFFIXES, KernelFile
from kernbench.cli.options import json_option
from kernbench.cli.output import document, print_json, say
from kernbench.diagnostics import EXIT_INPUT, EXIT_KERNEL, EXIT_USAGE, Diagnostic, KernBenchError

Checker = Callable[[Path], list[Diagnostic]]


@click.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@json_option
def check(files: tuple[str, ...], as_json: bool) -> int:
    """Find every error in FILES: kernels (.tl, .py), bench files, topologies (.yaml), messages (.jsonl).

    `FILE.py::NAME` is one kernel of a file and what it uses; `-` is a kernel on stdin.

    A kernel with a bench file beside it is compiled for the bench's first case; without one, what can be known
    without argument types is checked.
    """
    code = 0
    found: list[tuple[str, Diagnostic]] = []
    for name in files:
        worst, diagnostics = _check_file(name)
        code = max(code, worst)
        found.extend((name, each) for each in diagnostics)
    if as_json:
        print_json(document("kernbench.check/1", {"ok": code == 0, "errors": _rows(found)}))
    else:
        for _, each in found:
            say(each.render())
        click.echo(f"{len(files)} file(s), {sum(d.severity == 'error' for _, d in found)} error(s)")
    return code


def _rows(found: list[tuple[str, Diagnostic]]) -> list[dict[str, object]]:
    return [{"file": name, **each.to_json()} for name, each in found]


def _check_file(name: str) -> tuple[int, list[Diagnostic]]:
    file, _, kernel = name.partition("::")
    path = Path(file)
    if name != "-" and not path.is_file():
        return EXIT_USAGE, [Diagnostic("E_INPUT_FILE", f"there is no file `{file}`")]
    checker, exit_code = (_stdin, EXIT_KERNEL) if name == "-" else _checker(path)
    if kernel and checker is not _kernel:
        text = f"`{file}` is no kernel file, so `{kernel}` is not looked for in it"
        return EXIT_USAGE, [Diagnostic("E_INPUT_FILE", text, help=f"give `{file}` alone, or a .tl or .py file")]
    try:
        found = _one_kernel(path, kernel) if kernel else checker(path)
    except KernBenchError as error:
        return error.exit_code, list(error.diagnostics)
    return (exit_code if any(each.severity == "error" for each in found) else 0), found


def _stdin(_: Path) -> list[Diagnostic]:
    from kernbench.compiler.pipeline import front_check
    from kernbench.compiler.source import SourceText

    return front_check(SourceText.from_bytes("<stdin>", sys.stdin.buffer.read()))


def _checker(path: Path) -> tuple[Checker, int]:
    if path.suffix in KERNEL_SUFFIXES:
        return _kernel, EXIT_KERNEL
    if path.suffix == ".jsonl":
        return _messages, EXIT_INPUT
    return (_topology if _is_topology(path) else _bench), EXIT_INPUT


def _is_topology(path: Path) -> bool:
    """A topology says `schema:` or `extends:`; a bench says `kernel:`, even where it extends another bench."""
    heads = {line.split(":")[0].strip() for line in path.read_text("utf-8", "replace").splitlines() if ":" in line[:40]}
    return "kernel" not in heads and bool({"schema", "extends"} & heads)


def _kernel(path: Path) -> list[Diagnostic]:
    from kernbench.compiler.pipeline import front_check
    from kernbench.kernel import read_kernel_file

    found = front_check(read_kernel_file(path))
    file = KernelFile(path, None)
    if file.bench is None or any(each.severity == "error" for each in found):
        return found
    from kernbench.cli.compile import specialise

    asked = Asked(file)
    case = case_of(asked)
    found.extend(() if case is None else case.remarks)
    try:
        compiled, kernel = specialise(asked, case)
    except KernBenchError as wrong:
        raise KernBenchError([*found, *wrong.diagnostics], wrong.exit_code) from None
    return list(dict.fromkeys([*found, *kernel.remarks, *compiled.diagnostics]))  # some are told by more than one


def _one_kernel(path: Path, name: str) -> list[Diagnostic]:
    from kernbench.compiler.pipeline import front_check
    from kernbench.kernel import read_kernel_file

    return front_check(read_kernel_file(path), name)


def _bench(path: Path) -> list[Diagnostic]:
    from kernbench.kernel import make_kernel
    from kernbench.runtime.bench import case_names, check_bench, kernel_word, load_bench
    from kernbench.runtime.bench_names import name_remarks

    found = check_bench(path)
    if any(each.severity == "error" for each in found):
        return found
    try:
        parameters = make_kernel(str(path.parent / kernel_word(path))).parameters
    except KernBenchError:  # a kernel file is checked for itself, and a run may name another
        return found
    for name in (None, *case_names(path)):
        found.extend(name_remarks(load_bench(path, name), parameters))
    return list(dict.fromkeys(found))


def _topology(path: Path) -> list[Diagnostic]:
    from kernbench.sim.topology import check_topology

    return check_topology(path)


def _messages(path: Path) -> list[Diagnostic]:
    from kernbench.message_text import read_requests

    try:
        read_requests(path.read_text("utf-8"), str(path))
    except UnicodeDecodeError as error:
        return [Diagnostic("E_MESSAGE_JSON", f"`{path}` is no UTF-8 text: byte {error.start} does not fit")]
    return []
