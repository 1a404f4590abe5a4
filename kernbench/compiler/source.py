"""A source text as it is shown and as it is read: decoded once, line ends made one kind, places kept true.

Line ends change no line or column, and a byte-order mark stands before column 1, so a place in the normalised
text is the place that an editor shows. Does not know the language.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from kernbench.compiler.errors import error
from kernbench.diagnostics import EXIT_KERNEL, KernBenchError, Label, Span

MAX_BYTES = 1 << 20  # hand-written files are far below; a larger one is generated or hostile

# Python's source may not hold NUL; the other two would be read as part of a name or hide a line's true order.
_FORBIDDEN = re.compile("[\0\ufeff]")
_LINE_END = re.compile("\r\n?")


@dataclass(frozen=True)
class SourceText:
    """`name` is the file as the person named it. Places carry only its last part (`file`), so that programs and logs
    are the same from whatever folder they are made; labels show the whole. `indents` gives lines of an indented
    piece of a larger file the indentation that counts as none. `path` is where a file's imports are looked for;
    `short` stands for the last part of the name where that is not unique. `host_functions` need no decorator, since
    functions that are computed at compile time call them."""

    name: str
    text: str
    indents: Mapping[int, str] = field(default_factory=dict)
    host_functions: frozenset[str] = frozenset()
    path: Path | None = None
    short: str | None = None
    starts: tuple[int, ...] = ()  # offset of each line's first character

    def __post_init__(self) -> None:
        starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        object.__setattr__(self, "starts", tuple(starts))

    @classmethod
    def from_bytes(cls, name: str, raw: bytes) -> SourceText:
        """Decode a file's bytes, or say where they are no text."""
        if len(raw) > MAX_BYTES:
            found = f"`{name}` has more than {MAX_BYTES} bytes, and no more are read"
            advice = "move the kernels and what they use into a file of their own"
            raise KernBenchError([error("E_SOURCE_TOO_LARGE", found, help=advice)], EXIT_KERNEL)
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as fault:
            sound = cls.from_text(name, raw[: fault.start].decode("utf-8"))
            found = f"byte 0x{raw[fault.start]:02x} is not UTF-8"
            raise _encoding_error(sound, len(sound.text), found) from None
        return cls.from_text(name, text)

    @classmethod
    def from_text(cls, name: str, text: str) -> SourceText:
        """Normalise a text that is decoded already."""
        source = cls(name, _LINE_END.sub("\n", text.removeprefix("\ufeff")))
        if bad := _FORBIDDEN.search(source.text):
            what = "a NUL character" if bad.group() == "\0" else "a byte-order mark after the file's beginning"
            raise _encoding_error(source, bad.start(), f"the text holds {what}")
        return source

    @classmethod
    def read(cls, path: Path, name: str | None = None) -> SourceText:
        """Read a file; `name` is how messages call it."""
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        return replace(cls.from_bytes(name or str(path), raw), path=path.absolute())

    @property
    def file(self) -> str:
        return self.short or PurePath(self.name).name

    @property
    def lines(self) -> int:
        return len(self.starts)

    def line(self, number: int) -> str:
        """The text of a line, counted from 1, without its end."""
        start = self.starts[number - 1]
        end = self.starts[number] - 1 if number < len(self.starts) else len(self.text)
        return self.text[start:end]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, from 1, of an offset in `text`."""
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def span(self, start: int, end: int) -> Span:
        """The range between two offsets in `text`."""
        starts = self.starts
        line = bisect_right(starts, start)
        column = start - starts[line - 1] + 1
        if line == len(starts) or end < starts[line]:
            return Span(self.file, line, column, line, column + end - start)
        return Span(self.file, line, column, *self.position(end))

    def label(self, span: Span, text: str = "") -> Label:
        """A label with its source line; a span of another file gets none."""
        if span.file != self.file or not 1 <= span.line <= len(self.starts):
            return Label(span, text)
        return Label(replace(span, file=self.name), text, self.line(span.line))


def _encoding_error(source: SourceText, offset: int, message: str) -> KernBenchError:
    label = source.label(source.span(offset, offset + 1), "here")
    help_line = "save the file as UTF-8 text"
    return KernBenchError([error("E_SOURCE_ENCODING", message, label, help=help_line)], EXIT_KERNEL)
