"""Say what is wrong with what a user gave us: one type, one renderer, for every half.

Does not know passes, topologies or messages; it knows places in texts and how to show them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning", "remark"]

EXCERPT_LETTERS = 200  # of a source line that is shown; our own lines have 120
EXCERPT_BEFORE = 60  # of these, at most so many stand before the marked part


@dataclass(frozen=True, slots=True)
class Span:
    """A range in a source text. Lines and columns count from 1; `end_column` is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    calls: tuple[Span, ...] = field(default=(), compare=False, repr=False)  # of inlined helpers around it, inner first

    def within(self, calls: tuple[Span, ...]) -> Span:
        """The same range, as these calls lead to it."""
        return Span(self.file, self.line, self.column, self.end_line, self.end_column, calls) if calls else self

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Label:
    """A place with a remark on it; `source` is the text of its first line, without the line end."""

    span: Span
    text: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that a user can put right.

    `message` and label texts are lower case without a full stop, and state demand, bound and unit.
    Only `help` advises. `path` is a key or field path where the input is not a text with lines.
    """

    code: str
    message: str
    primary: Label | None = None
    secondary: tuple[Label, ...] = ()
    help: str | None = None
    severity: Severity = "error"
    path: str | None = None
    notes: tuple[str, ...] = ()  # further lines, for example a live map of TCM

    def render(self) -> str:
        """The text that a person reads, without a newline at the end."""
        lines = [f"{self.severity}[{self.code}]: {self.message}"]
        labels = [label for label in (self.primary, *self.secondary) if label is not None]
        width = max((len(str(label.span.line)) for label in labels), default=1)
        for index, label in enumerate(labels):
            arrow = "-->" if index == 0 else ":::"
            lines.append(f"{' ' * width}{arrow} {label.span}")
            if label.source:
                lines.extend(_excerpt(label, width, "^" if index == 0 else "-"))
            elif label.text:
                lines.append(f"{' ' * width} = {label.text}")
        if self.path:
            lines.append(f"{' ' * width} = at: {self.path}")
        lines.extend(f"{' ' * width} = note: {note}" for note in self.notes)
        if self.help:
            lines.append(f"{' ' * width} = help: {self.help}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """A plain dict for `--json`; keys are stable."""
        place = None if self.primary is None else str(self.primary.span)
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "place": place,
            "path": self.path,
            "help": self.help,
        }


def _excerpt(label: Label, width: int, mark: str) -> list[str]:
    span = label.span
    text = "".join(letter if letter.isprintable() else " " for letter in label.source)  # no tabs, no escape sequences
    start = span.column - 1
    end = span.end_column - 1 if span.end_line == span.line else len(text)
    text, start, end = _cut(text, start, min(end, len(text)))
    gutter = " " * width
    return [
        f"{gutter} |",
        f"{span.line:>{width}} | {text}",
        f"{gutter} | {' ' * start}{mark * max(1, end - start)} {label.text}".rstrip(),
    ]


def _cut(text: str, start: int, end: int) -> tuple[str, int, int]:
    """A line that is too long to read, cut to what lies around its marked part, and where that part is now."""
    if len(text) <= EXCERPT_LETTERS:
        return text, start, end
    first = max(0, min(start - EXCERPT_BEFORE, len(text) - EXCERPT_LETTERS))
    last = min(len(text), first + EXCERPT_LETTERS)
    before, after = "…" if first else "", "…" if last < len(text) else ""
    shift = len(before) - first
    return f"{before}{text[first:last]}{after}", start + shift, min(end, last) + shift


# Exit codes by what went wrong; the command line returns them, and nobody else decides them.
EXIT_USAGE = 2
EXIT_KERNEL = 3
EXIT_INPUT = 4  # topology, bench or message
EXIT_SIMULATION = 5
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130


class KernBenchError(Exception):
    """Everything that a user can get wrong. Its text is the rendered diagnostics.

    `run` is the partial result of a simulation that failed, where there is one.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic], exit_code: int, run: Any = None) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        self.exit_code = exit_code
        self.run = run
        super().__init__(self.render())

    def render(self) -> str:
        return "\n\n".join(diagnostic.render() for diagnostic in self.diagnostics)

    @classmethod
    def usage(cls, code: str, message: str, *, help: str | None = None) -> KernBenchError:
        return cls([Diagnostic(code, message, help=help)], EXIT_USAGE)


@dataclass
class Sink:
    """Collects what a stage finds, so that all errors of an input are told together."""

    diagnostics: list[Diagnostic] = field(default_factory=list)

    def add(self, diagnostic: Diagnostic) -> None:
        if diagnostic not in self.diagnostics:
            self.diagnostics.append(diagnostic)

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.severity == "error"]


_SHOWN_LETTERS = 60


def shown(value: object) -> str:
    """What somebody passed, in one short line, whatever it is."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python writes no decimals of integers without measure
        text = f"a value of type {type(value).__name__} that is too large to write"
    return text if len(text) <= _SHOWN_LETTERS else f"{text[:_SHOWN_LETTERS]}…"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was most likely meant to be, or None."""
    found = difflib.get_close_matches(name, sorted(known), n=5, cutoff=0.6)
    return min(found, key=lambda near: _slips(name, near)) if found else None


def _slips(name: str, meant: str) -> int:
    """How far the hand slipped: 2 for a letter left out, added or changed, 1 for two that are swapped."""
    rows = [[2 * j for j in range(len(meant) + 1)]]
    for i, letter in enumerate(name, 1):
        row = [2 * i]
        for j, other in enumerate(meant, 1):
            ways = [rows[-1][j] + 2, row[-1] + 2, rows[-1][j - 1] + 2 * (letter != other)]
            if i > 1 and j > 1 and letter == meant[j - 2] and name[i - 2] == other:
                ways.append(rows[-2][j - 2] + 1)
            row.append(min(ways))
        rows.append(row)
    return rows[-1][-1]


def did_you_mean(name: str, known: Sequence[str], what: str) -> str:
    """A help line: the nearest name, or the whole list where nothing is near."""
    near = nearest(name, known)
    if near is not None:
        return f"did you mean `{near}`?"
    return f"{what} are {', '.join(sorted(known))}" if known else f"there are no {what}"
