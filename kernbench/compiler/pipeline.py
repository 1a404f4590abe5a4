"""The compiler as one tuple of passes, and the loop that runs and dumps them.

Dumps are asked for by pass name, checked before work starts, and written by the loop; a pass never prints. Without
a target the passes that need one (from `schedule` on) wait for `finish`.
Does not know what a pass does, who asked, or where dumps go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kernbench.commands import KernelBinary, Program, Target
from kernbench.compiler import allocate, ast, elaborate, encode, fuse, lower, schedule
from kernbench.compiler.ast_printer import print_ast
from kernbench.compiler.errors import error
from kernbench.compiler.fault_log import FaultLog
from kernbench.compiler.faults import Fault
from kernbench.compiler.imports import Imports
from kernbench.compiler.kernel_select import select_kernel
from kernbench.compiler.name_check import check_names
from kernbench.compiler.printer import print_program
from kernbench.compiler.python_source import parse_file
from kernbench.compiler.recipes import written_operands
from kernbench.compiler.residual import Residual
from kernbench.compiler.source import SourceText
from kernbench.compiler.typed_printer import print_residual
from kernbench.diagnostics import EXIT_KERNEL, EXIT_USAGE, Diagnostic, KernBenchError, Sink, Span, did_you_mean

Emit = Callable[[int, str, str], None]  # index of the pass, its name, the text


def _ignore(index: int, name: str, text: str) -> None:
    """Where nobody asked for dumps."""


@dataclass
class Context:
    """What passes know beside their input."""

    imports: Imports
    kernel_name: str | None = None
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    signature: Mapping[str, str] = field(default_factory=dict)
    target: Target | None = None
    opt_level: int = 1
    sink: Sink = field(default_factory=Sink)

    @property
    def source(self) -> SourceText:
        return self.imports.main


@dataclass(frozen=True)
class Pass:
    """`apply` goes from one form to the next; `dump` shows what came out. `doc` is what `list passes` prints."""

    name: str
    doc: str
    apply: Callable[[Any, Context], Any]
    dump: Callable[[Any], str]
    needs_target: bool = False


def _parse(source: SourceText, context: Context) -> ast.Module:
    return parse_file(source, context.kernel_name, context.sink)


def _elaborate(module: ast.Module, context: Context) -> Residual:
    residual = elaborate.elaborate(
        module,
        context.source,
        context.kernel_name,
        context.constexprs,
        context.signature,
        context.sink,
        written_operands,
        power_of_two=context.source.name.endswith(".py"),
        imports=context.imports,
    )
    _stop_at_errors(context.sink)
    assert residual is not None, "elaboration without an error has a result"
    return residual


def _lower(residual: Residual, context: Context) -> Program:
    faults = FaultLog(context.source, context.imports)
    program = lower.lower(residual, faults, context.opt_level)
    faults.publish(context.sink)
    _stop_at_errors(context.sink)
    assert program is not None, "lowering without an error has a result"
    return program


def _fuse(program: Program, context: Context) -> Program:
    return fuse.fuse(program) if context.opt_level else program


def _schedule(program: Program, context: Context) -> Program:
    """Buffers that loads ahead take are given back where TCM has no room for them."""
    if not context.opt_level:
        return program
    assert context.target is not None
    early = schedule.schedule(program)
    takes_more = early.buffers != program.buffers
    return program if takes_more and not allocate.fits(early, context.target) else early


def _allocate(program: Program, context: Context) -> Program:
    assert context.target is not None
    return allocate.allocate(program, context.target, context.imports)


@dataclass(frozen=True)
class Encoded:
    program: Program
    binary: KernelBinary


def _encode(program: Program, context: Context) -> Encoded:
    return Encoded(program, encode.encode(program))


def _stop_at_errors(sink: Sink) -> None:
    if sink.errors:
        raise KernBenchError(sink.diagnostics, EXIT_KERNEL)


PASSES: tuple[Pass, ...] = (
    Pass("parse", "text to syntax tree", _parse, print_ast),
    Pass("elaborate", "syntax tree to typed residual program", _elaborate, print_residual),
    Pass("lower", "block operations to command templates; recipes are expanded", _lower, print_program),
    Pass("fuse", "chains of elementwise commands become one", _fuse, print_program),
    Pass("schedule", "loads are issued a trip early", _schedule, print_program, needs_target=True),
    Pass("allocate", "buffers get rings and addresses", _allocate, print_program, needs_target=True),
    Pass("encode", "program to binary", _encode, lambda e: encode.describe(e.binary), needs_target=True),
)


@dataclass(frozen=True)
class CompiledKernel:
    """What a compilation leaves. `binary` is None, and `program` has no addresses, until there is a target."""

    module: ast.Module
    residual: Residual
    fused: Program  # before anything that depends on the target
    program: Program
    binary: KernelBinary | None
    imports: Imports
    target: Target | None
    diagnostics: tuple[Diagnostic, ...] = ()  # warnings and remarks

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def source(self) -> SourceText:
        return self.imports.main

    def finish(self, target: Target, dump_after: frozenset[str] = frozenset(), emit: Emit = _ignore) -> CompiledKernel:
        """The same kernel for a target: what `compile_kernel` with it would have given."""
        context = Context(self.imports, self.name, target=target, opt_level=self.fused.opt_level)
        forms = _run([p for p in PASSES if p.needs_target], self.fused, context, dump_after, emit)
        encoded: Encoded = forms["encode"]
        return replace(self, program=encoded.program, binary=encoded.binary, target=target)


def compile_kernel(
    source: SourceText,
    kernel_name: str | None = None,
    constexprs: Mapping[str, Any] | None = None,
    signature: Mapping[str, str] | None = None,
    target: Target | None = None,
    opt_level: int = 1,
    dump_after: frozenset[str] = frozenset(),
    emit: Emit = _ignore,
) -> CompiledKernel:
    """Text to binary. Raises with all errors of the pass that found some."""
    check_pass_names(dump_after)
    context = Context(Imports(source), kernel_name, constexprs or {}, signature or {}, target, opt_level)
    passes = [p for p in PASSES if target is not None or not p.needs_target]
    forms = _run(passes, source, context, dump_after, emit)
    encoded: Encoded | None = forms.get("encode")
    return CompiledKernel(
        module=forms["parse"],
        residual=forms["elaborate"],
        fused=forms["fuse"],
        program=forms["fuse"] if encoded is None else encoded.program,
        binary=None if encoded is None else encoded.binary,
        imports=context.imports,
        target=target,
        diagnostics=tuple(context.sink.diagnostics),
    )


def finish(program: Program, target: Target, source: SourceText | None = None) -> tuple[Program, KernelBinary]:
    """The passes that need a target, on a program that was compiled without one."""
    context = Context(Imports(source or SourceText("", "")), target=target, opt_level=program.opt_level)
    encoded: Encoded = _run([p for p in PASSES if p.needs_target], program, context, frozenset(), _ignore)["encode"]
    return encoded.program, encoded.binary


def front_check(source: SourceText, kernel: str | None = None) -> list[Diagnostic]:
    """All that is wrong with a file, or with one kernel of a Python file and what it uses, and remarks on it, as far
    as that shows without a specialisation."""
    sink = Sink()
    if not source.text.strip():
        label = source.label(Span(source.file, 1, 1, 1, 1))
        return [error("E_NO_KERNEL", "the file is empty", label, help="write a function under `@triton.jit`")]
    try:
        module = parse_file(source, kernel, sink)
        if kernel is not None:
            select_kernel(module, kernel)
        check_names(module, source, sink)
    except KernBenchError as found:
        return list(found.diagnostics)
    except Fault as found:
        return [found.diagnostic]
    return sink.diagnostics


def check_pass_names(names: frozenset[str]) -> None:
    known = [p.name for p in PASSES]
    unknown = sorted(names - set(known))
    if unknown:
        raise KernBenchError(
            [
                error("E_UNKNOWN_PASS", f"`{name}` is no pass", help=did_you_mean(name, known, "passes"))
                for name in unknown
            ],
            EXIT_USAGE,
        )


def _run(passes: list[Pass], value: Any, context: Context, dump_after: frozenset[str], emit: Emit) -> dict[str, Any]:
    """The form after each pass, by its name."""
    forms: dict[str, Any] = {}
    for index, step in enumerate(PASSES):
        if step not in passes:
            continue
        value = forms[step.name] = step.apply(value, context)
        if step.name in dump_after:
            emit(index, step.name, step.dump(value))
    return forms
