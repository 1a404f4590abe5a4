"""What the functions of a file see outside themselves: imports, constants, classes, other functions.

Constants are evaluated once, in order; what is wrong with one is told where it is used, for the Python around a
kernel may hold much that no kernel needs. Does not know local names.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernbench.compiler import ast
from kernbench.compiler.errors import error
from kernbench.compiler.fault_log import GiveUp
from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.frame import Frame, Walker
from kernbench.compiler.global_names import (
    Broken,
    Elsewhere,
    Entry,
    Foreign,
    absent,
    imported_by,
    unreadable,
    usable,
)
from kernbench.compiler.imports import find_module, find_submodule
from kernbench.compiler.library import PREFIX, library_names, read_library
from kernbench.compiler.live_names import assigned_names
from kernbench.compiler.modules import PYTHON_BUILTINS, imported, members
from kernbench.compiler.returns import Returns
from kernbench.compiler.scope import Scope, Silenced
from kernbench.compiler.source import SourceText
from kernbench.compiler.statements import as_constexpr
from kernbench.compiler.targets import assign
from kernbench.compiler.values import FileValue, FunctionValue, ModuleValue, Value
from kernbench.diagnostics import Diagnostic, KernBenchError, Span, did_you_mean


class ModuleScope:
    """The names of one file."""

    def __init__(self, module: ast.Module, walker: Walker, source: SourceText) -> None:
        self._walker = walker
        self._source = source
        # Of a Python file's name all that is left is what it may be: what a kernel can use counts
        self._alternatives = source.name.endswith(".py")
        self._names: dict[str, Entry] = dict(PYTHON_BUILTINS)
        self._classes: dict[str, dict[str, Entry]] = {}
        self._unnamed: dict[str, None] = {}  # what imports of all bring; the file's own definitions hide it
        self._unread: list[tuple[Diagnostic, ast.Import]] = []  # why a file cannot be read of which all is imported
        self.defined = tuple(function.name for function in module.functions)
        self.defined += tuple(name for constant in module.constants for name in assigned_names(constant))
        for node in module.imports:
            self._import(node)
        for function in module.functions:
            self._put(function.name, FunctionValue(function.name, function, self))
        for constant in sorted((*module.constants, *module.classes), key=lambda item: item.span.line):
            if isinstance(constant, ast.ClassDef):
                self._define_class(constant)
            else:
                self._define(constant)

    def _put(self, name: str, entry: Entry) -> None:
        before = self._names.get(name)
        is_alternative = self._alternatives and before is not None and before is not PYTHON_BUILTINS.get(name)
        if name in self._unnamed and not isinstance(entry, Foreign | Broken):
            is_alternative = False
            del self._unnamed[name]
        if not is_alternative or (isinstance(before, Foreign | Broken) and not isinstance(entry, Foreign | Broken)):
            self._names[name] = entry

    def names(self) -> list[str]:
        return list(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def module(self, name: str) -> ModuleValue | None:
        """The module of the language that a name stands for."""
        entry = self._names.get(name)
        return entry if isinstance(entry, ModuleValue) else None

    def file(self, name: str, at: Span) -> FileValue | None:
        """The file that a name stands for, where it is imported as a module."""
        entry = self._names.get(name)
        try:
            value = self._read_elsewhere(entry, at) if isinstance(entry, Elsewhere) else None
        except Fault:
            return None
        return value if isinstance(value, FileValue) else None

    def read(self, name: str, at: Span) -> Value | None:
        """The value of a global name for use at `at`; None where there is no such name."""
        entry = self._names.get(name)
        if isinstance(entry, ast.ClassDef):
            advice = f"use one of its constants, `{name}.NAME`"
            raise fault("E_CLASS_VALUE", f"class `{name}` is no value", at, "used here", help=advice)
        if isinstance(entry, Elsewhere):
            return self._read_elsewhere(entry, at)
        if entry is None and self._unread:
            diagnostic, node = self._unread[0]
            with imported_by(node.span.within(at.calls)):
                raise unreadable(diagnostic, at)
        return None if entry is None else usable(name, entry, at)

    def read_member(self, owner: str, name: str, at: Span) -> Value | None:
        """A constant or kernel of a class; None where `owner` is no class."""
        entry = self._names.get(owner)
        if isinstance(entry, Elsewhere) and entry.name is not None:
            with imported_by(entry.node.span.within(at.calls)):
                return self._member_elsewhere(entry.path, entry.name, name, at)
        constants = self._classes.get(owner)
        if constants is None:
            return None
        if name not in constants:
            advice = did_you_mean(name, list(constants), f"names of `{owner}`")
            raise fault(
                "E_UNKNOWN_NAME", f"class `{owner}` has no constant or kernel `{name}`", at, "not found", help=advice
            )
        return usable(f"{owner}.{name}", constants[name], at)

    def _member_elsewhere(self, path: Path, owner: str, name: str, at: Span) -> Value | None:
        reading, scope = self._walker.reading, self._file_scope(path, owner, at)
        if scope is None or (path, owner) in reading:
            return None
        reading.add((path, owner))
        try:
            return scope.read_member(owner, name, at)
        finally:
            reading.remove((path, owner))

    def evaluate(self, node: ast.Expr, scope: Scope | None = None) -> Value:
        """An expression among the file's own names, and those of a class: a parameter's default, a constant."""
        with self._walker.builder.region() as instrs:
            value = self._frame(Scope() if scope is None else scope).evaluate(node)
        known = as_constexpr(value)
        if instrs or known is None:
            raise fault("E_CONSTEXPR_NEEDED", "this is no compile-time constant", node.span, "computed at run time")
        return known

    def _frame(self, scope: Scope) -> Frame:
        return Frame(self._walker, self, None, Returns(), scope=scope)

    def _import(self, node: ast.Import) -> None:
        if node.name is not None and node.module.startswith(PREFIX):
            self._import_helpers(node, node.name)
        elif node.name == "*":
            names = members(node.module) or self._all_elsewhere(node, self._source, node.module, self._own())
            self._names.update(names)
            self._unnamed.update(dict.fromkeys(names))
        else:
            module = node.module if node.alias or node.name else node.module.split(".")[0]
            value = imported(module if node.name is None else f"{module}.{node.name}")
            self._put(node.bound, self._elsewhere(node, module) if value is None else value)

    def _elsewhere(self, node: ast.Import, module: str) -> Elsewhere | Foreign:
        path, name = find_module(self._source, module), node.name
        of_itself = path is not None and path.resolve() in self._own()  # a package imports a module of its own folder
        if name is not None and (path is None or of_itself):
            path, name = find_module(self._source, _inside(module, name)), None
        return Foreign(node) if path is None else Elsewhere(node, path, name)

    def _own(self) -> set[Path]:
        """The file itself: what it imports of itself by a detour it has already."""
        return set() if self._source.path is None else {self._source.path.resolve()}

    def _all_elsewhere(
        self, node: ast.Import, importer: SourceText, module: str, seen: set[Path]
    ) -> dict[str, Elsewhere]:
        """What `from module import *` binds, where the module is a file; its own names hide those that it imports so.

        What is wrong with a file matters where a name is missing that it may have.
        """
        path = find_module(importer, module)
        if path is None or path.is_dir() or path.resolve() in seen:
            return {}
        seen.add(path.resolve())
        try:
            file = self._walker.log.imports.file(path, importer)
            names, modules = file.names(), file.modules_of_all()
        except OSError:
            return {}
        except KernBenchError as wrong:
            self._unread.append((wrong.diagnostics[0], node))
            return {}
        found: dict[str, Elsewhere] = {}
        for inner in modules:
            found.update(self._all_elsewhere(node, file.source, inner, seen))
        found.update({name: Elsewhere(node, path, name) for name in names if name[0] not in "_*"})
        return found

    def read_from_file(self, module: FileValue, name: str, at: Span) -> Value:
        """A member of a file that was imported as a module."""
        with imported_by(module.imported.within(at.calls)):
            scope = self._file_scope(module.path, name, at, module.importer)
            value = None if scope is None else scope.read_once(module.path, name, at)
        if value is not None:
            return value
        inner = find_submodule(module.path, name)
        if inner is None:
            message = f"module `{module.name}` ({_file_of(module.path)}) has no `{name}`"
            raise fault("E_UNKNOWN_NAME", message, at, "used here")
        return replace(module, name=_inside(module.name, name), path=inner)

    def read_member_from_file(self, module: FileValue, owner: str, name: str, at: Span) -> Value | None:
        """A constant or kernel of a class of a file that was imported as a module; None where `owner` is no class."""
        with imported_by(module.imported.within(at.calls)):
            return self._member_elsewhere(module.path, owner, name, at)

    def _read_elsewhere(self, entry: Elsewhere, at: Span) -> Value:
        node = entry.node
        if entry.name is not None:
            module = FileValue(node.module, entry.path, self._source, node.span)
            return self.read_from_file(module, entry.name, at)
        if node.name is not None:
            name = _inside(node.module, node.name)
        else:
            name = node.module if node.alias else node.module.split(".")[0]
        return FileValue(name, entry.path, self._source, node.span)

    def read_once(self, path: Path, name: str, at: Span) -> Value | None:
        """Read a name for another file, which itself may have got it from there."""
        reading = self._walker.reading
        if (path, name) in reading:
            message = f"`{name}` is imported in a circle: no file of it defines it"
            raise fault("E_UNKNOWN_NAME", message, at, "used here")
        reading.add((path, name))
        try:
            return self.read(name, at)
        finally:
            reading.remove((path, name))

    def _file_scope(self, path: Path, name: str, at: Span, importer: SourceText | None = None) -> ModuleScope | None:
        """The names of another file that one of them needs; None where the file does not have it."""
        known, key = self._walker.files, (str(path), name)
        if key not in known:
            known[key] = None  # a file that imports itself by a detour finds nothing
            try:
                known[key] = None if path.is_dir() else self._open(path, name, at, importer or self._source)
            except Fault:
                del known[key]  # the next use is told the same
                raise
        return known[key]

    def _open(self, path: Path, name: str, at: Span, importer: SourceText) -> ModuleScope | None:
        try:
            file = self._walker.log.imports.file(path, importer)
            if file.is_host_code(name):
                message = f"`{name}` of `{file.source.name}` is host code, which a kernel cannot use"
                advice = "give it `@triton.jit`, or write what it does into the kernel"
                raise fault("E_FOREIGN_NAME", message, at, "used here", help=advice)
            scope = ModuleScope(file.take(name), self._walker, file.source)
        except OSError as wrong:
            message = f"`{path}` cannot be read: {(wrong.strerror or 'unknown reason').lower()}"
            raise unreadable(error("E_FOREIGN_NAME", message), at) from None
        except KernBenchError as found:
            raise unreadable(found.diagnostics[0], at) from None
        return scope if name in scope else None

    def _import_helpers(self, node: ast.Import, name: str) -> None:
        """Helpers or constants of a file of the library, which sees that file's names."""
        library = node.module.removeprefix(PREFIX)
        scope = self._library_scope(library)
        if scope is None:
            advice = did_you_mean(library, library_names(), "helper files")
            self._names[node.bound] = absent(f"the library of helpers has no file `{library}`", node, advice)
        elif name == "*":
            self._names.update({each: scope._names[each] for each in scope.defined})
        elif name in scope.defined:
            self._names[node.bound] = scope._names[name]
        else:
            advice = did_you_mean(name, scope.defined, f"names of `{node.module}`")
            self._names[node.bound] = absent(f"`{node.module}` has no `{name}`", node, advice)

    def _library_scope(self, library: str) -> ModuleScope | None:
        known = self._walker.libraries
        if library not in known:
            found = read_library(library)
            known[library] = None  # a file that imports itself by a detour finds nothing
            known[library] = None if found is None else ModuleScope(found[0], self._walker, found[1])
        return known[library]

    def _define(self, node: ast.Assign | ast.AnnAssign) -> None:
        for name, entry in self._values(node).items():
            before = self._names.get(name)
            if isinstance(before, FunctionValue) and isinstance(before.definition, ast.FunctionDef):
                stands_first = node.span.line < before.definition.span.line
                if stands_first and not isinstance(entry, Foreign | Broken):
                    self._names.pop(name)
            self._put(name, entry)

    def _values(self, node: ast.Assign | ast.AnnAssign, inside: Scope | None = None) -> dict[str, Entry]:
        """What each name of a constant's statement stands for; `inside` holds the class's names before it."""
        targets = node.targets if isinstance(node, ast.Assign) else (node.target,)
        if node.value is None:
            return {}
        scope, steps = Scope(), self._walker.steps
        with self._walker.log.trial() as told:
            problem: Fault | Silenced | GiveUp | None = None
            try:
                value = self.evaluate(node.value, inside)
                for target in targets:
                    assign(self._frame(scope), target, value)
            except (Fault, Silenced, GiveUp) as found:
                problem = found
        self._walker.steps = steps  # the kernel's own are counted
        wrong = [found for found in told if found.severity == "error"]
        if problem is None and not wrong:
            self._walker.log.accept(told)
            return {name: entry for name in scope if (entry := scope.value(name)) is not None}
        first = problem if isinstance(problem, Fault) else Fault(wrong[0]) if wrong else None
        return dict.fromkeys(assigned_names(node), Broken(first))

    def _define_class(self, node: ast.ClassDef) -> None:
        self._names[node.name] = node
        kernels = ((function.name.rpartition(".")[2], function) for function in node.functions)
        constants: dict[str, Entry] = {name: FunctionValue(function.name, function, self) for name, function in kernels}
        inside = Scope()
        for constant in node.constants:
            found = self._values(constant, inside)
            constants.update(found)
            for name, entry in found.items():
                if not isinstance(entry, Foreign | Elsewhere | Broken | ast.ClassDef):
                    inside.bind(name, entry, constant.span)
        self._classes[node.name] = constants


def _inside(module: str, name: str) -> str:
    return f"{module}{name}" if module.endswith(".") else f"{module}.{name}"


def _file_of(path: Path) -> str:
    return f"folder `{path.name}`" if path.is_dir() else f"file `{path.name}`"
