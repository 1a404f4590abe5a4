"""Files that kernel files import from: where a module's name leads on disk, and what each file defines.

A relative import is found in the importing file's package, an absolute one below a folder above it. Nothing is
imported or run, and a name is read only when a kernel uses it. Does not know what a name stands for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernbench.compiler import ast
from kernbench.compiler.errors import error
from kernbench.compiler.library import library_path, library_source
from kernbench.compiler.live_names import assigned_names
from kernbench.compiler.parse import parse
from kernbench.compiler.python_source import PythonFile
from kernbench.compiler.source import SourceText
from kernbench.diagnostics import EXIT_KERNEL, Diagnostic, KernBenchError, Label, Span

_MAX_CALLS_SHOWN = 5
_SUFFIXES = (".tl", ".py")
_PACKAGE = "__init__.py"
_ROOT_MARK = ".git"  # no import leads out of a repository, and no link in it
# Modules of host packages whose names kernels use: a helper file of ours stands in for each
_STAND_INS = {
    "torch._inductor.runtime.triton_helpers": "triton_helpers",
    "torch._inductor.triton_helpers": "triton_helpers",
}


def find_module(importer: SourceText, module: str) -> Path | None:
    """The file, or the folder of a package, that an import in a file names."""
    if module in _STAND_INS:
        return library_path(_STAND_INS[module])
    if importer.path is None:
        return None
    name = module.lstrip(".")
    parts = name.split(".") if name else []
    folders = importer.path.parents
    up = len(module) - len(name)
    if up:
        inside = list(_roots(folders))[:up]
        return _below(inside[-1], parts) if len(inside) == up else None
    return next((found for folder in _roots(folders) if (found := _below(folder, parts)) is not None), None)


def _roots(folders: Iterable[Path]) -> Iterator[Path]:
    """Folders from the inside out; the root of the file system holds other things than modules."""
    for folder in folders:
        if folder == folder.parent:
            return
        yield folder
        if os.path.exists(folder / _ROOT_MARK):
            return


def find_submodule(package: Path, name: str) -> Path | None:
    """A module of a package, which is given by its folder or by its `__init__.py`."""
    folder = package.parent if package.name == _PACKAGE else package
    return _below(folder, [name]) if folder.is_dir() else None


def _below(folder: Path, parts: Sequence[str]) -> Path | None:
    """Names that no file can have, as too long ones, lead nowhere: `os.path` does not raise for them."""
    place = folder.joinpath(*parts)
    files = [place.with_name(place.name + suffix) for suffix in _SUFFIXES] if parts else []
    found = next((file for file in (*files, place / _PACKAGE) if os.path.isfile(file)), None)
    return place if found is None and os.path.isdir(place) else found


@dataclass
class ImportedFile:
    """A file that kernels import from; what is taken from it is parsed once."""

    source: SourceText
    _python: PythonFile | None
    _taken: dict[str, ast.Module] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """What `from file import *` binds, and `*` where the file itself has such an import."""
        if self._python is not None:
            return self._python.names()
        module = self._whole()
        constants = (target for constant in module.constants for target in assigned_names(constant))
        bound = (*(item.bound for item in module.imports), *constants, *(item.name for item in module.classes))
        return (*bound, *(function.name for function in module.functions))

    def modules_of_all(self) -> tuple[str, ...]:
        """The modules of which the file imports all names."""
        if self._python is not None:
            return self._python.modules_of_all()
        return tuple(item.module for item in self._whole().imports if item.name == "*")

    def defines(self, name: str) -> bool:
        """Whether the file has the name, host code included."""
        return name in self.names() if self._python is None else self._python.defines(name)

    def is_host_code(self, name: str) -> bool:
        return self._python is not None and self._python.is_host_code(name)

    def take(self, name: str) -> ast.Module:
        """The tree of one name and of what it uses."""
        if self._python is None:
            return self._whole()
        if name not in self._taken:
            self._taken[name] = parse(self._python.take([name]).source)
        return self._taken[name]

    def _whole(self) -> ast.Module:
        if "" not in self._taken:
            self._taken[""] = parse(self.source)
        return self._taken[""]


class Imports:
    """The files that one compilation reads beside its own, and under which name places show each."""

    def __init__(self, main: SourceText) -> None:
        self.sources: dict[str, SourceText] = {main.file: main}  # by the file that places carry
        self.main = main
        self._files: dict[Path, ImportedFile] = {}

    @property
    def paths(self) -> list[Path]:
        """The files that were read beside the main one, without those of the library."""
        shipped = library_path("").parent
        read = (source.path for source in self.sources.values() if source is not self.main)
        return sorted(path.resolve() for path in read if path is not None and path.parent != shipped)

    def source(self, file: str) -> SourceText:
        """The text that a place is in, by the file that the place names."""
        return library_source(file) or self.sources.get(file) or self.main

    def label(self, span: Span, text: str = "") -> Label:
        """A label with its source line, whichever file that stands in."""
        return self.source(span.file).label(span, text)

    def labels(self, span: Span, text: str = "") -> tuple[Label, ...]:
        """A label, and one for each of the calls of helpers that lead to its place."""
        return (self.label(span, text), *self.call_labels(span.calls))

    def call_labels(self, calls: tuple[Span, ...]) -> tuple[Label, ...]:
        return tuple(self.label(call, "called from here") for call in calls[:_MAX_CALLS_SHOWN])

    def shown(self, diagnostic: Diagnostic) -> Diagnostic:
        """The same with the source lines of its places, where it came without."""
        primary = diagnostic.primary and self._with_source(diagnostic.primary)
        return replace(diagnostic, primary=primary, secondary=tuple(map(self._with_source, diagnostic.secondary)))

    def _with_source(self, label: Label) -> Label:
        return label if label.source else self.label(label.span, label.text)

    def file(self, path: Path, importer: SourceText) -> ImportedFile:
        """Raises what is wrong with the file or its text, or `OSError`."""
        key = path.resolve()
        if key not in self._files:
            _check_link(path, importer)
            source = self._named(SourceText.read(path, _shown(path, importer)))
            python = PythonFile.read(source) if source.name.endswith(".py") else None
            self._files[key] = ImportedFile(source, python)
        return self._files[key]

    def _named(self, source: SourceText) -> SourceText:
        """Files of equal names show as much of their folders as tells them apart."""
        assert source.path is not None
        parts = source.path.resolve().parts
        names = ("/".join(parts[-count:]) for count in range(1, len(parts) + 1))
        short = next(name for name in names if name not in self.sources)
        self.sources[short] = source = replace(source, short=short)
        return source


def _check_link(path: Path, importer: SourceText) -> None:
    """A repository that somebody was given may hold links to files that are none of its business."""
    if importer.path is None or path.parent == library_path("").parent:
        return
    *_, top = _roots(importer.path.parents)
    if os.path.exists(top / _ROOT_MARK) and not path.resolve().is_relative_to(top.resolve()):
        message = f"`{_shown(path, importer)}` is a link that leads out of the repository"
        advice = "put the file itself there, or a link to a file of the repository"
        raise KernBenchError([error("E_FOREIGN_NAME", message, help=advice)], EXIT_KERNEL)


def _shown(path: Path, importer: SourceText) -> str:
    """The file's path as seen from where the importing file's path is seen."""
    if importer.path is None:
        return str(path)
    way = os.path.relpath(path, importer.path.parent)
    return os.path.normpath(os.path.join(os.path.dirname(importer.name), way))
