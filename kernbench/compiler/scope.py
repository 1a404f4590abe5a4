"""Names and what they stand for while one function is evaluated, names that cannot be read included.

Knows bindings and their places; not how values are made or joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.values import ErrorValue, Value
from kernbench.diagnostics import Span


class Silenced(Exception):
    """A value is missing because of a mistake that was told already; tell nothing more."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """The name has no value that could be read here: bound on some paths only, of two types, or freed."""

    code: str
    message: str
    others: tuple[tuple[Span, str], ...]
    help: str

    def at(self, place: Span) -> Fault:
        return fault(self.code, self.message, place, "used here", help=self.help, others=self.others)


Content = Value | Unusable


@dataclass(frozen=True, slots=True)
class Binding:
    content: Content
    span: Span


class Scope:
    """The local names of one function's evaluation, in the order in which they were first bound."""

    def __init__(self, names: Mapping[str, Binding] | None = None) -> None:
        self._names: dict[str, Binding] = dict(names or {})

    def copy(self) -> Scope:
        return Scope(self._names)

    def bind(self, name: str, content: Content, span: Span) -> None:
        self._names[name] = Binding(content, span)

    def keep(self, name: str, binding: Binding) -> None:
        self._names[name] = binding

    def drop(self, name: str) -> None:
        self._names.pop(name, None)

    def get(self, name: str) -> Binding | None:
        return self._names.get(name)

    def value(self, name: str) -> Value | None:
        """The value of a name that can be read; None for every other."""
        binding = self._names.get(name)
        if binding is None or isinstance(binding.content, Unusable | ErrorValue):
            return None
        return binding.content

    def read(self, name: str, at: Span) -> Value | None:
        """The value of a local name for use at `at`; None where there is no such local name."""
        binding = self._names.get(name)
        if binding is None:
            return None
        match binding.content:
            case ErrorValue():
                raise Silenced
            case Unusable() as unusable:
                raise unusable.at(at)
            case value:
                return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names
