"""Kernels as a script holds them: parsed and checked at once, finished for each set of argument types they meet.

Knows the compiler's entry points. Does not know devices, arrays or launches.
"""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernbench.commands import Target
from kernbench.compiler import ast
from kernbench.compiler.faults import Fault
from kernbench.compiler.fitting import with_advice
from kernbench.compiler.kernel_select import select_kernel
from kernbench.compiler.pipeline import PASSES, CompiledKernel, check_pass_names, compile_kernel
from kernbench.compiler.python_source import parse_file
from kernbench.compiler.source import SourceText
from kernbench.diagnostics import EXIT_INPUT, EXIT_KERNEL, Diagnostic, KernBenchError, Sink, did_you_mean, shown
from kernbench.runtime.errors import error

MAX_SPECIALISATIONS = 64  # of one kernel; the least recently used goes first
DUMP_VARIABLE = "KERNBENCH_DUMP"  # PASS[,PASS]|all, and :FOLDER


@dataclass(frozen=True, slots=True)
class Dump:
    """What a pass left, as text."""

    index: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How a kernel is compiled, whatever its arguments are."""

    target: Target | None = None
    opt_level: int = 1
    dump_after: frozenset[str] = frozenset()
    dump_dir: Path | None = None


@dataclass(eq=False)
class Kernel:
    """A kernel that is parsed, and finished for each set of argument types that it meets.

    `pinned` are types that were stated when it was compiled; a run takes the others from its arguments.
    """

    source: SourceText
    function: ast.FunctionDef
    constexprs: Mapping[str, Any]
    pinned: Mapping[str, str]
    options: CompileOptions
    remarks: tuple[Diagnostic, ...] = ()
    dumps: list[Dump] = field(default_factory=list)  # of the latest specialisation
    _cache: OrderedDict[object, CompiledKernel] = field(default_factory=OrderedDict)

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def params(self) -> tuple[str, ...]:
        return tuple(param.name for param in self.function.params)

    @property
    def parameters(self) -> dict[str, bool]:
        """Each parameter, and whether it is a constexpr."""
        return {param.name: param.is_constexpr for param in self.function.params}

    @property
    def imported_files(self) -> list[Path]:
        """The files beside its own that its specialisations were made from."""
        return sorted({path for made in self._cache.values() for path in made.imports.paths})

    def specialise(
        self, signature: Mapping[str, str], constexprs: Mapping[str, Any] | None = None, target: Target | None = None
    ) -> CompiledKernel:
        """The kernel for these types of arguments; made once, kept while it is used. Without a target it has no
        binary yet."""
        known = {**self.constexprs, **(constexprs or {})}
        where = self.options.target or target
        try:
            return self._specialised(signature, known, where)
        except KernBenchError as wrong:
            if where is None:
                raise
            name, level = self.name, self.options.opt_level
            raise with_advice(
                wrong, known, lambda smaller: compile_kernel(self.source, name, smaller, signature, where, level)
            ) from None

    def _specialised(
        self, signature: Mapping[str, str], known: Mapping[str, Any], where: Target | None
    ) -> CompiledKernel:
        types = (tuple(sorted(signature.items())), tuple(sorted((n, _identity(v)) for n, v in known.items())))
        dumps = self.options.dump_after
        if (types, None) not in self._cache:
            self.dumps.clear()
        found = self._kept(
            (types, None),
            lambda: compile_kernel(
                self.source, self.name, known, signature, None, self.options.opt_level, dumps, self._emit
            ),
        )
        if where is None:
            return found
        return self._kept((types, where), lambda: found.finish(where, dumps, self._emit))

    def _kept(self, key: object, make: Callable[[], CompiledKernel]) -> CompiledKernel:
        found = self._cache.get(key)
        if found is None:
            found = self._cache[key] = make()
        self._cache.move_to_end(key)
        while len(self._cache) > MAX_SPECIALISATIONS:
            self._cache.popitem(last=False)
        return found

    def _emit(self, index: int, name: str, text: str) -> None:
        self.dumps.append(Dump(index, name, text))
        if self.options.dump_dir is not None:
            _write_dump(self.options.dump_dir / f"{index:02d}_{name}.txt", text)


def _identity(value: Any) -> str:
    """Tells apart what Python's `==` does not: 1, 1.0 and True compile to different programs."""
    if isinstance(value, tuple | list):
        return f"({','.join(_identity(item) for item in value)})"
    if isinstance(value, int):
        return f"{type(value).__name__}:{value:x}"  # Python writes no decimals of integers without measure
    return f"{type(value).__name__}:{value!r}"


def _write_dump(path: Path, text: str) -> None:
    """Under a temporary name first, so that nobody reads half a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as wrong:
        raise KernBenchError.usage("E_DUMP_DIR", f"cannot write `{path}`: {wrong.strerror}") from None


def read_kernel_file(path: Path, shown_as: str | None = None) -> SourceText:
    try:
        return SourceText.read(path, shown_as)
    except OSError as wrong:
        reason = (wrong.strerror or "it cannot be read").lower()
        raise KernBenchError.usage("E_KERNEL_UNREADABLE", f"cannot read `{path}`: {reason}") from None


def make_kernel(
    source: str | Path | SourceText,
    constexprs: Mapping[str, Any] | None = None,
    signature: Mapping[str, str] | None = None,
    target: Target | None = None,
    opt_level: int = 1,
    dump_after: str | Iterable[str] = (),
    dump_dir: str | Path | None = None,
) -> Kernel:
    """A kernel of a file (`"file.tl"`, `"file.py::name"`) or of a text with line ends.

    With a `signature` (`{"x": "*fp32", "n": "i32"}`) it is finished at once, else when a run shows the types.
    """
    given = named_values("constexprs", constexprs)
    types = named_values("signature", signature)
    text, name = _source_of(source)
    sink = Sink()
    module = parse_file(text, name, sink)
    function = _select(module, text, name)
    _check_names("constexpr", given, function)
    _check_names("argument", types, function)
    if not isinstance(opt_level, int) or opt_level not in (0, 1):
        raise KernBenchError.usage("E_OPT_LEVEL", f"the optimisation level is {shown(opt_level)}, expected 0 or 1")
    passes, folder = _dump_options(dump_after, dump_dir)
    options = CompileOptions(target, opt_level, passes, folder)
    kinds = {name: kind if isinstance(kind, str) else shown(kind) for name, kind in types.items()}
    kernel = Kernel(text, function, given, kinds, options, tuple(sink.diagnostics))
    if signature is not None:
        kernel.specialise(kernel.pinned)
    return kernel


def named_values(what: str, given: object) -> dict[str, Any]:
    """A mapping from names that a caller passed, or none."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        help_text = 'pass a mapping from names, such as {"name": ...}'
        raise KernBenchError.usage("E_ARG_FORM", f"`{what}` is {shown(given)}", help=help_text)
    return dict(given)


def _source_of(source: str | Path | SourceText) -> tuple[SourceText, str | None]:
    if isinstance(source, SourceText):
        return source, None
    if isinstance(source, str) and "\n" in source:
        return SourceText.from_text("<text>", source), None
    file, _, name = str(source).partition("::")
    return read_kernel_file(Path(file)), name or None


def _select(module: ast.Module, source: SourceText, name: str | None) -> ast.FunctionDef:
    try:
        return select_kernel(module, name)
    except Fault as wrong:
        raise KernBenchError([wrong.diagnostic], EXIT_KERNEL) from None


def _check_names(what: str, given: Mapping[str, Any], function: ast.FunctionDef) -> None:
    known = [param.name for param in function.params]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise KernBenchError([unknown_parameter(name, function, known) for name in unknown], EXIT_INPUT)


def unknown_parameter(name: str, function: ast.FunctionDef, known: list[str]) -> Diagnostic:
    help_text = did_you_mean(name, known, f"parameters of `{function.name}`")
    return error("E_ARG_UNKNOWN", f"kernel `{function.name}` has no parameter `{name}`", help=help_text)


def _dump_options(dump_after: str | Iterable[str], dump_dir: str | Path | None) -> tuple[frozenset[str], Path | None]:
    """What to dump. The variable counts only where the call says nothing: it is for code that one cannot edit."""
    if not isinstance(dump_after, Iterable):
        help_text = "pass the name of a pass, or several"
        raise KernBenchError.usage("E_ARG_FORM", f"`dump_after` is {shown(dump_after)}", help=help_text)
    passes = (dump_after,) if isinstance(dump_after, str) else tuple(dump_after)
    folder = None if dump_dir is None else Path(dump_dir)
    wanted = os.environ.get(DUMP_VARIABLE, "")
    if not passes and wanted not in ("", "0"):
        named, _, place = wanted.partition(":")
        passes, folder = tuple(named.split(",")), folder or Path(place or "kernbench_dump")
    chosen = frozenset(step.name for step in PASSES) if "all" in passes else frozenset(passes)
    check_pass_names(chosen)
    return chosen, folder
