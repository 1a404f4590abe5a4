"""Read YAML as a hostile text: every value keeps its place, numbers are exact, surprises of YAML 1.1 are refused.

`read_yaml(text, file_name) -> Node`. Integers come as `int`, other numbers as `Decimal` (never a float), texts as
`str`, `true`/`false`, `null`; a mapping is a dict in the order of the file, a sequence a tuple. Repeated keys,
anchors, aliases, merge keys, tags, `on/no/yes`, leading zeros, `1:30` and a second document are errors with their
place, and all of them in one go.

Does not know what the keys mean: `yaml_schema` checks that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from kernbench.diagnostics import EXIT_INPUT, Diagnostic, KernBenchError, Label, Sink, Span

# By what the reader says of it
_SYNTAX_HELP = {
    "\\t": "indent with spaces, not with tabs",
    "but got '['": 'a text with brackets in it is quoted, as in "zeros([n, m])"',
}

YAML_ERRORS: dict[str, str] = {
    "E_YAML_FILE": "a YAML file cannot be read",
    "E_YAML_ENCODING": "a YAML file is not UTF-8 text",
    "E_YAML_SIZE": "a YAML file is larger or deeper than what is read",
    "E_YAML_SYNTAX": "a text is not YAML",
    "E_YAML_EMPTY": "a YAML file or value is empty",
    "E_YAML_DOCUMENTS": "a YAML file holds more than one document",
    "E_YAML_DUPLICATE_KEY": "one key stands twice in one mapping",
    "E_YAML_KEY": "a key of a mapping is not a plain text",
    "E_YAML_FEATURE": "anchors, aliases, merge keys and tags are not used here",
    "E_YAML_AMBIGUOUS": "a value that YAML readers understand in different ways",
    "E_YAML_NUMBER": "a number that cannot be kept exactly",
    "E_YAML_UNKNOWN_KEY": "a key that does not exist at this place",
    "E_YAML_MISSING_KEY": "a key that must be there is missing",
    "E_YAML_TYPE": "a value of the wrong type",
    "E_YAML_RANGE": "a value outside its range",
    "E_YAML_CHOICE": "a value that is none of those possible",
}

MAX_BYTES = 1 << 20
MAX_DEPTH = 24
MAX_DIGITS = 15  # what a double, and so any JSON reader, gives back unchanged

Scalar = int | Decimal | str | bool | None

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}\Z")
_NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?\Z")
_WORDS: dict[str, Scalar] = {"true": True, "True": True, "false": False, "False": False, "null": None, "~": None}
_SURPRISES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i:yes|no|on|off)\Z|TRUE\Z|FALSE\Z"), "write true or false, or put a text in quotes"),
    (re.compile(r"N(ull|ULL)\Z"), "write null, or put a text in quotes"),
    (re.compile(r"[-+]?0[0-9_]+(\.[0-9_]*)?([eE][-+]?[0-9]+)?\Z"), "write the number without leading zeros"),
    (re.compile(r"[-+]?0[oObB][0-9_]+\Z|0X[0-9a-fA-F]+\Z"), "write a decimal number, or 0x for hexadecimal"),
    (re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?\Z"), "YAML 1.1 reads it in base 60; use quotes"),
    (re.compile(r"[-+]?[0-9][0-9]*(_[0-9]*)+(\.[0-9_]*)?\Z"), "write the number without underscores"),
    (re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z"), "only finite numbers are read"),
)


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the file and where it stands."""

    value: Scalar | tuple[Node, ...] | dict[str, Node]
    span: Span
    path: str = ""  # "cube.hbm.bw_gbs", "io_chiplets[0].pcie_ep"; "" for the whole document
    line: str = ""  # text of the line on which it starts
    key: Label | None = None  # where its key stands, for a value of a mapping
    refused: bool = False  # what is wrong with it has been told; it has no value

    @property
    def kind(self) -> str:
        """What it is, as a person would call it."""
        if isinstance(self.value, dict):
            return "a mapping"
        if isinstance(self.value, tuple):
            return "a list"
        return _SCALAR_KINDS[type(self.value)]

    @property
    def shown(self) -> str:
        """The value as text where that is short, else what kind it is."""
        if isinstance(self.value, (dict, tuple)):
            return self.kind
        return _SHOWN.get(str(self.value), str(self.value)) if not isinstance(self.value, str) else repr(self.value)

    def label(self, text: str = "") -> Label:
        return Label(self.span, text, self.line)

    def key_label(self, text: str = "") -> Label:
        """The place of the key, or of the value where there is no key."""
        return Label(self.key.span, text, self.key.source) if self.key else self.label(text)

    def get(self, key: str) -> Node | None:
        return self.value.get(key) if isinstance(self.value, dict) else None

    def items(self) -> Iterator[tuple[str, Node]]:
        assert isinstance(self.value, dict), f"{self.path} is {self.kind}"
        yield from self.value.items()

    def elements(self) -> tuple[Node, ...]:
        assert isinstance(self.value, tuple), f"{self.path} is {self.kind}"
        return self.value

    def plain(self) -> Any:
        """The value in Python's own types, `Decimal` included."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value

    def error(self, code: str, message: str, label: str = "", help: str | None = None) -> Diagnostic:
        """A diagnostic at this value."""
        assert code.startswith("E_"), code
        return Diagnostic(code, message, self.label(label), help=help, path=self.path or None)


_SCALAR_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    Decimal: "a number",
    str: "a text",
    type(None): "null",
}
_SHOWN = {"True": "true", "False": "false", "None": "null"}


def merge(base: Node, over: Node) -> Node:
    """`base` with the keys of `over` put over it, mapping by mapping; lists and plain values are replaced."""
    if not (isinstance(base.value, dict) and isinstance(over.value, dict)):
        return over
    merged = dict(base.value)
    for key, node in over.value.items():
        merged[key] = merge(merged[key], node) if key in merged else node
    return Node(merged, over.span, over.path, over.line, over.key)


def read_yaml(text: str, file_name: str) -> Node:
    """The one document of `text`; `KernBenchError` with everything that is wrong with it."""
    sink = Sink()
    node = parse_yaml(text, file_name, sink)
    if sink.errors or node is None:
        raise KernBenchError(sink.diagnostics, EXIT_INPUT)
    return node


def read_yaml_file(path: Path, shown_as: str | None = None) -> Node:
    """`read_yaml` of a file; what cannot be read as a text is a diagnostic too."""
    sink = Sink()
    node = parse_yaml_file(path, shown_as or str(path), sink)
    if sink.errors or node is None:
        raise KernBenchError(sink.diagnostics, EXIT_INPUT)
    return node


def parse_yaml_file(path: Path, shown_as: str, sink: Sink) -> Node | None:
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        sink.add(Diagnostic("E_YAML_FILE", f"cannot read `{shown_as}`: {reason}"))
        return None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        span = Span(shown_as, line, column, line, column + 1)
        message = f"byte 0x{raw[error.start]:02x} is no UTF-8 text"
        sink.add(Diagnostic("E_YAML_ENCODING", message, Label(span, ""), help="save the file as UTF-8"))
        return None
    return parse_yaml(text, shown_as, sink)


def parse_yaml(text: str, file_name: str, sink: Sink) -> Node | None:
    """As `read_yaml`, with what is wrong put in `sink`; None where there is no tree at all."""
    return _Reader(text.removeprefix("\ufeff"), file_name, sink).read()


@dataclass(slots=True)
class _Open:
    """A mapping or sequence whose end has not come yet."""

    start: Any
    is_mapping: bool
    path: str
    key: Label | None  # of this collection itself
    entries: dict[str, Node] = field(default_factory=dict)
    items: list[Node] = field(default_factory=list)
    pending: tuple[str, Label] | None = None  # the key that waits for its value
    refused_key: bool = False  # what is wrong with that key has been told, so its value is left out


class _Reader:
    """One pass over the events of PyYAML's parser. No recursion, and no object is ever constructed from a tag."""

    def __init__(self, text: str, file_name: str, sink: Sink) -> None:
        self.text, self.file, self.sink = text, file_name, sink
        self.lines = re.split(r"\r\n|\n|\r", text)
        self.stack: list[_Open] = []
        self.root: Node | None = None
        self.documents = 0

    def read(self) -> Node | None:
        if len(self.text) > MAX_BYTES:
            self._refuse("E_YAML_SIZE", None, f"`{self.file}` is larger than {MAX_BYTES} bytes")
            return None
        try:
            for event in yaml.parse(self.text, Loader=yaml.SafeLoader):
                if not self._take(event):
                    return None
        except yaml.YAMLError as error:
            self._syntax(error)
            return None
        if self.documents == 0 or self.root is None:
            if not self.sink.errors:
                self._refuse("E_YAML_EMPTY", None, f"`{self.file}` is empty")
            return None
        return self.root

    def _take(self, event: Event) -> bool:
        """Handle one event; False stops the reading."""
        if isinstance(event, DocumentStartEvent):
            return self._document(event)
        if isinstance(event, (MappingStartEvent, SequenceStartEvent)):
            return self._open(event)
        if isinstance(event, (MappingEndEvent, SequenceEndEvent)):
            self._close(event)
        elif isinstance(event, ScalarEvent):
            self._scalar(event)
        elif isinstance(event, AliasEvent):
            self._refuse("E_YAML_FEATURE", event, f"alias `*{event.anchor}` is not read", "write the value out")
            self._place_value(Node(None, self._span(event), self._value_path(), self._line(event), refused=True))
        return True

    def _document(self, event: Event) -> bool:
        self.documents += 1
        if self.documents > 1:
            self._refuse("E_YAML_DOCUMENTS", event, "a second document starts here", "keep one document in a file")
        return self.documents == 1

    def _open(self, event: Any) -> bool:
        self._features(event)
        if len(self.stack) >= MAX_DEPTH:
            self._refuse("E_YAML_SIZE", event, f"nested deeper than {MAX_DEPTH} levels")
            return False
        path, key = self._value_path(), self._value_key(event)
        self.stack.append(_Open(event, isinstance(event, MappingStartEvent), path, key))
        return True

    def _close(self, event: Any) -> None:
        done = self.stack.pop()
        start, end = done.start.start_mark, event.end_mark
        span = Span(self.file, start.line + 1, start.column + 1, end.line + 1, end.column + 1)
        value = done.entries if done.is_mapping else tuple(done.items)
        self._place_value(Node(value, span, done.path, self._text(start.line), done.key))

    def _scalar(self, event: Any) -> None:
        self._features(event)
        top = self.stack[-1] if self.stack else None
        if top is not None and top.is_mapping and top.pending is None:
            self._key(event, top)
            return
        told = len(self.sink.diagnostics)
        value = event.value if event.style is not None else self._plain(event)
        refused = len(self.sink.diagnostics) > told
        key = top.pending[1] if top is not None and top.pending else None
        self._place_value(Node(value, self._span(event), self._value_path(), self._line(event), key, refused))

    def _key(self, event: Any, top: _Open) -> None:
        name, label = event.value, Label(self._span(event), "", self._line(event))
        told = len(self.sink.diagnostics)
        if event.style is None and name == "<<":
            self._refuse("E_YAML_FEATURE", event, "merge keys are not read", "write the keys out, or use `extends`")
        elif event.style is None and (hint := _surprise(name)):
            self._refuse("E_YAML_AMBIGUOUS", event, f"`{name}` is ambiguous as a key", hint)
        elif not name:
            self._refuse("E_YAML_KEY", event, "an empty key")
        top.pending, top.refused_key = (name, label), len(self.sink.diagnostics) > told

    def _place_value(self, node: Node) -> None:
        if not self.stack:
            if node.value is None:
                self._refuse("E_YAML_EMPTY", None, f"`{self.file}` is empty")
            self.root = node
            return
        top = self.stack[-1]
        if not top.is_mapping:
            top.items.append(node)
            return
        if top.pending is None:  # a mapping, list or alias in the place of a key
            self.sink.add(Diagnostic("E_YAML_KEY", f"a key is {node.kind}, not a text", node.label()))
            top.pending, top.refused_key = ("", node.label()), True
            return
        name, label = top.pending
        top.pending = None
        if top.refused_key:
            return
        if name in top.entries:
            self._duplicate(name, label, top.entries[name], top.path)
            return
        top.entries[name] = node

    def _duplicate(self, name: str, label: Label, first: Node, path: str) -> None:
        old, new = first.key_label("first here"), Label(label.span, "again here", label.source)
        message = f"key `{name}` stands twice, at lines {old.span.line} and {new.span.line}"
        self.sink.add(Diagnostic("E_YAML_DUPLICATE_KEY", message, new, (old,), path=_join(path, name)))

    def _plain(self, event: Any) -> Scalar:
        text: str = event.value
        if text == "":
            self._refuse("E_YAML_EMPTY", event, "there is no value here", "write the value, or null")
            return None
        if text in _WORDS:
            return _WORDS[text]
        if hint := _surprise(text):
            self._refuse("E_YAML_AMBIGUOUS", event, f"`{text}` is ambiguous", hint)
            return None
        if not text[0].isascii() or text[0].isalpha():
            return text
        return self._number(event, text)

    def _number(self, event: Any, text: str) -> Scalar:
        if _HEX.match(text):
            return int(text, 16)
        if not _NUMBER.match(text):
            return text
        if len(text) > 40:
            self._refuse("E_YAML_NUMBER", event, f"a number of {len(text)} characters")
            return None
        if _INTEGER.match(text):
            return int(text)
        number = Decimal(text)
        digits, exponent = number.normalize().as_tuple()[1:]
        if len(digits) > MAX_DIGITS or not -30 <= int(exponent) <= 30:
            help = f"at most {MAX_DIGITS} significant digits, and exponents from -30 to 30"
            self._refuse("E_YAML_NUMBER", event, f"`{text}` cannot be kept exactly", help)
            return None
        return number

    def _features(self, event: Any) -> None:
        if event.anchor is not None:
            self._refuse("E_YAML_FEATURE", event, f"anchor `&{event.anchor}` is not read", "write the value out")
        if event.tag is not None:
            self._refuse("E_YAML_FEATURE", event, f"tag `{event.tag}` is not read", "remove the tag")

    def _value_path(self) -> str:
        if not self.stack:
            return ""
        top = self.stack[-1]
        if top.is_mapping:
            return _join(top.path, top.pending[0]) if top.pending else top.path
        return f"{top.path}[{len(top.items)}]"

    def _value_key(self, event: Event) -> Label | None:
        top = self.stack[-1] if self.stack else None
        return top.pending[1] if top is not None and top.is_mapping and top.pending else None

    def _span(self, event: Any) -> Span:
        start, end = event.start_mark, event.end_mark
        return Span(self.file, start.line + 1, start.column + 1, end.line + 1, end.column + 1)

    def _line(self, event: Any) -> str:
        return self._text(event.start_mark.line)

    def _text(self, line: int) -> str:
        return self.lines[line] if line < len(self.lines) else ""

    def _refuse(self, code: str, event: Event | None, message: str, help: str | None = None) -> None:
        label = Label(self._span(event), "", self._line(event)) if event is not None else None
        path = self._value_path() or None
        self.sink.add(Diagnostic(code, message, label, help=help, path=path))

    def _syntax(self, error: yaml.YAMLError) -> None:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
        label = None
        if mark is not None:
            span = Span(self.file, mark.line + 1, mark.column + 1, mark.line + 1, mark.column + 2)
            label = Label(span, "", self._text(mark.line))
        elif isinstance(position := getattr(error, "position", None), int):
            label = self._at(position)
        help = next((help for sign, help in _SYNTAX_HELP.items() if sign in str(problem)), None)
        self.sink.add(Diagnostic("E_YAML_SYNTAX", f"this is not YAML: {problem}", label, help=help))

    def _at(self, position: int) -> Label:
        before = self.text[:position]
        line = before.count("\n")
        column = position - (before.rfind("\n") + 1)
        return Label(Span(self.file, line + 1, column + 1, line + 1, column + 2), "", self._text(line))


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _surprise(text: str) -> str | None:
    return next((hint for pattern, hint in _SURPRISES if pattern.match(text)), None)
