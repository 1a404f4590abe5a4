"""What a global name of a file may stand for, also where a kernel cannot use it; what is wrong is told at its use.

Does not know where names come from, nor how one of another file is looked up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kernbench.compiler import ast
from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.values import ERROR, Value
from kernbench.diagnostics import Diagnostic, Label, Span

_OF_A_FILE = "write what it does into this file, or give the file it is in beside this one"
_OF_A_PACKAGE = (
    "write it with functions of `tl` (`kernbench list functions`) and a constant as its number,"
    " or give the file it is in beside this one"
)


@dataclass(frozen=True, slots=True)
class Foreign:
    """Imported from where this compiler does not look. Only its use is a mistake."""

    node: ast.Import

    def at(self, name: str, place: Span) -> Fault:
        node = self.node
        origin = f"from `{node.module}`" if node.name is not None else f"as module `{node.module}`"
        message = f"`{name}` is imported {origin}, which a kernel cannot use"
        others = ((node.span, "imported here"),)
        advice = _OF_A_FILE if node.module.startswith(".") else _OF_A_PACKAGE
        return fault("E_FOREIGN_NAME", message, place, "used here", help=advice, others=others)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A name of another file, or that file as a module. It is looked up when it is used."""

    node: ast.Import
    path: Path
    name: str | None  # None: the module itself


class Unreadable(Fault):
    """Nothing can be taken from a file. Where no line of it is to blame, the import is shown in its place."""


@contextmanager
def imported_by(span: Span) -> Iterator[None]:
    """Each import that leads to an unreadable file adds its line."""
    try:
        yield
    except Unreadable as found:
        label, told = Label(span, "imported here"), found.diagnostic
        if told.primary is None:
            raise Unreadable(replace(told, primary=label)) from None
        raise Unreadable(replace(told, secondary=(*told.secondary, label))) from None


def unreadable(told: Diagnostic, at: Span) -> Unreadable:
    """As it was told of the file; the calls that lead to the use at `at` lead to the place there."""
    if told.primary is None:
        return Unreadable(told)
    return Unreadable(replace(told, primary=replace(told.primary, span=told.primary.span.within(at.calls))))


@dataclass(frozen=True, slots=True)
class Broken:
    """A constant whose value is no constant of the kernel language."""

    found: Fault | None


Entry = Value | Foreign | Elsewhere | Broken | ast.ClassDef


def usable(name: str, entry: Entry, at: Span) -> Value:
    """The value of a name that is used at `at`; raises why it has none."""
    match entry:
        case Foreign():
            raise entry.at(name, at)
        case Broken(None):
            return ERROR
        case Broken(found):
            assert found is not None
            raise found
        case ast.ClassDef() | Elsewhere():
            raise AssertionError("classes hold constants and kernels only, no imports")
        case value:
            return value


def absent(message: str, node: ast.Import, advice: str | None) -> Broken:
    """A name that is imported from where it is not."""
    return Broken(fault("E_UNKNOWN_NAME", message, node.span, "imported here", help=advice))
