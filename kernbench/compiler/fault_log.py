"""Collect the faults of an elaboration, with source lines and inlined calls, in trials that may be dropped.

Does not know statements or values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from kernbench.compiler.errors import error
from kernbench.compiler.faults import Fault
from kernbench.compiler.imports import Imports
from kernbench.compiler.source import SourceText
from kernbench.diagnostics import Diagnostic, Sink, Span

MAX_ERRORS = 40  # more help nobody, and each costs time on hostile input
MAX_FOUND = 200  # an unrolled loop finds one mistake many times
MAX_AT_ONE_PLACE = 3  # of one code, with different messages


class GiveUp(Exception):
    """Elaboration goes no further: a limit was passed. Never leaves `elaborate`."""


class FaultLog:
    """A loop's body is walked until its types are stable; only what the last walk finds is told."""

    def __init__(self, source: SourceText, imports: Imports | None = None) -> None:
        self.source = source
        self.imports = imports or Imports(source)
        self._found: list[Diagnostic] = []  # without source lines and calls until they are published

    def add(self, fault: Fault) -> None:
        self._found.append(fault.diagnostic)
        if len(self._found) >= MAX_FOUND:
            raise GiveUp

    @contextmanager
    def trial(self) -> Iterator[list[Diagnostic]]:
        """Collect into a list of its own what is found inside; `accept` it, or let it go.

        What is found in a trial that ends by an exception is kept: there is no later walk to find it again.
        """
        outer, self._found = self._found, []
        try:
            yield self._found
        except Exception:
            outer.extend(self._found)
            raise
        finally:
            self._found = outer

    def accept(self, found: list[Diagnostic]) -> None:
        self._found.extend(found)

    def publish(self, sink: Sink) -> None:
        """Hand on what was found, in order. A helper that is called often is wrong in one place all the same."""
        told: dict[tuple[str, Span | None], list[str]] = {}
        shown = 0
        for diagnostic in self._found:
            place = diagnostic.primary.span if diagnostic.primary is not None else None
            messages = told.setdefault((diagnostic.code, place), [])
            if diagnostic.message in messages or len(messages) == MAX_AT_ONE_PLACE:
                continue
            messages.append(diagnostic.message)
            sink.add(self._located(diagnostic))
            shown += 1
            if shown == MAX_ERRORS:
                sink.add(error("E_TOO_MANY_ERRORS", f"only the first {MAX_ERRORS} errors are shown"))
                return

    def _located(self, diagnostic: Diagnostic) -> Diagnostic:
        calls = () if diagnostic.primary is None else diagnostic.primary.span.calls
        called = (*diagnostic.secondary, *self.imports.call_labels(calls))
        return self.imports.shown(replace(diagnostic, secondary=called))
