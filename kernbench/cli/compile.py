"""`kernbench compile`: show a kernel in one of its forms, or what each pass made of it.

Does not know how a form is printed: the compiler's and the scheduler's own printers do that.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Mapping
from typing import Any

import click

from kernbench.cli.cases import Asked, case_of, device_of, kernel_of, signature_of
from kernbench.cli.locate import locate_kernel
from kernbench.cli.options import bench_options, choose, opt_option, parse_sets, parse_signature, topology_option
from kernbench.cli.output import say, write_file
from kernbench.compiler.pipeline import PASSES, CompiledKernel
from kernbench.diagnostics import EXIT_USAGE, KernBenchError
from kernbench.kernel import Kernel, make_kernel
from kernbench.runtime.bench import BenchCase
from kernbench.runtime.expressions import ExpressionError, evaluate, parse_expression
from kernbench.session import Device

Form = Callable[[Kernel, CompiledKernel, Device], "str | bytes"]


@click.command("compile")
@click.argument("kernel", metavar="KERNEL[::NAME]")
@topology_option()
@bench_options
@click.option("--signature", metavar="S", help="Types of the run-time arguments: x_ptr=*fp32,n=i32.")
@opt_option
@click.option("-o", "output", metavar="FILE", default="-", help="Where to write the form; - is stdout.")
@click.option("--emit", default="program", metavar="FORM", help="ast|typed|program|ops|stages|binary|dataflow|json")
@click.option("--dump-after", metavar="PASS[,PASS]|all", help="Write the program after these passes.")
@click.option("--dump-dir", metavar="DIR", help="Where the dumps go, numbered; without it they go to stdout.")
@click.option("--dump-diff", is_flag=True, help="Of passes that keep the form, show only the changes.")
@click.option("--time-passes", is_flag=True, help="Say on stderr how long compiling took.")
def compile_(kernel: str, emit: str, output: str, **options: Any) -> int:
    """Compile KERNEL and print what becomes of it.

    Types and constexprs come from the bench file's first case (or --case), --set and --signature.
    """
    choose(emit, tuple(FORMS), "--emit", "the forms")
    passes = _passes(options["dump_after"])
    if options["dump_dir"] is not None and not passes:
        raise KernBenchError.usage("E_OPTION", "--dump-dir needs --dump-after", help="for example --dump-after=all")
    asked = Asked(
        locate_kernel(kernel),
        options["bench"],
        options["case"],
        parse_sets(options["sets"]),
        options["topology"],
        options["opt_level"],
    )
    started = time.perf_counter()
    dumps = {"dump_after": passes, "dump_dir": options["dump_dir"]}
    _, compiled, made = specialise_aloud(asked, options["signature"], dumps)
    if options["time_passes"]:
        say(f"{time.perf_counter() - started:.4f} s")
    if passes and options["dump_dir"] is None:
        write_file(output, _dumps_text(made, options["dump_diff"]))
    elif not passes or output != "-":
        write_file(output, FORMS[emit](made, compiled, device_of(asked, None)))
    return 0


def _passes(text: str | None) -> tuple[str, ...]:
    known = tuple(each.name for each in PASSES)
    if text is None:
        return ()
    wanted = known if text == "all" else tuple(part.strip() for part in text.split(","))
    return tuple(choose(name, known, "--dump-after", "the passes") for name in wanted)


def specialise_aloud(
    asked: Asked, signature: str | None = None, dumps: Mapping[str, Any] | None = None
) -> tuple[BenchCase | None, CompiledKernel, Kernel]:
    """The case, where there is one, and its kernel, with the remarks on each said as soon as they are known."""
    case = case_of(asked)
    for found in () if case is None else case.remarks:
        say(found.render())
    compiled, made = specialise(asked, case, signature, dumps)
    for found in (*made.remarks, *compiled.diagnostics):
        say(found.render())
    return case, compiled, made


def specialise(
    asked: Asked, case: BenchCase | None, signature: str | None = None, dumps: Mapping[str, Any] | None = None
) -> tuple[CompiledKernel, Kernel]:
    """The kernel for the types of a bench case, of `--signature`, or of both."""
    types = parse_signature(signature or "")
    if case is None:
        kernel = make_kernel(
            asked.kernel.argument,
            _constexprs(asked),
            opt_level=1 if asked.opt_level is None else asked.opt_level,
            **(dumps or {}),
        )
        return kernel.specialise(types, target=device_of(asked, None).target), kernel
    kernel = kernel_of(asked, case, **(dumps or {}))
    found = signature_of(kernel, case)
    return kernel.specialise({**found, **types}, target=device_of(asked, case).target), kernel


def _constexprs(asked: Asked) -> dict[str, Any]:
    """`--set` values where there is no bench file."""
    found: dict[str, Any] = {}
    for name, text in (asked.sets or {}).items():
        try:
            found[name] = evaluate(parse_expression(text), {})
        except ExpressionError as error:
            raise KernBenchError([error.diagnostic(f"--set {name}")], EXIT_USAGE) from None
    return found


def _dumps_text(kernel: Kernel, diff: bool) -> str:
    """What each pass left. Where it left another form than the one before, nothing can be set against that."""
    printers = {each.name: each.dump for each in PASSES}
    parts: list[str] = []
    before, printer = "", None
    for dump in kernel.dumps:
        same_form = diff and printers[dump.name] is printer
        parts.append(f"==== {dump.index:02d} {dump.name}\n{_changes(before, dump.text) if same_form else dump.text}")
        before, printer = dump.text, printers[dump.name]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _changes(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    return "\n".join(list(lines)[2:]) or "(nothing changed)"


def _ast(kernel: Kernel, compiled: CompiledKernel, device: Device) -> str:
    from kernbench.compiler.ast_printer import print_ast
    from kernbench.compiler.parse import parse

    return print_ast(parse(kernel.source))


def _typed(kernel: Kernel, compiled: CompiledKernel, device: Device) -> str:
    from kernbench.compiler.typed_printer import print_residual

    return print_residual(compiled.residual)


def _program(kernel: Kernel, compiled: CompiledKernel, device: Device) -> str:
    from kernbench.compiler.printer import print_program

    return print_program(compiled.program)


def _ops(kernel: Kernel, compiled: CompiledKernel, device: Device) -> str:
    from kernbench.compiler.printer import print_ops

    return print_ops(compiled.program)


def _stages(kernel: Kernel, compiled: CompiledKernel, device: Device) -> str:
    from kernbench.report.stages import print_stages

    return print_stages(compiled.program, device.graph.spec.pe)


def _binary(kernel: Kernel, compiled: CompiledKernel, device: Device) -> bytes:
    assert compiled.binary is not None, "a kernel compiled for a target has a binary"
    return compiled.binary.code


def _json(kernel: Kernel, compiled: CompiledKernel, device: Device) -> str:
    import json

    from kernbench.compiler.program_json import program_document
    from kernbench.version import VERSION

    return json.dumps(program_document(compiled.program, compiled.binary, VERSION), indent=2) + "\n"


def _dataflow(kernel: Kernel, compiled: CompiledKernel, device: Device) -> str:
    from kernbench.report.dataflow import dataflow_dot

    return dataflow_dot(compiled.program)


FORMS: dict[str, Form] = {
    "ast": _ast,
    "typed": _typed,
    "program": _program,
    "ops": _ops,
    "stages": _stages,
    "binary": _binary,
    "dataflow": _dataflow,
    "json": _json,
}
