"""Check, read, write and describe frozen records whose annotations say what their fields may hold.

Does not know any message: the types in `messages.py` are the table, and this file walks it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Protocol,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from kernbench.diagnostics import EXIT_INPUT, Diagnostic, KernBenchError, did_you_mean

ERRORS: dict[str, str] = {
    "E_MESSAGE_MISSING": "a message lacks a field that it must have",
    "E_MESSAGE_UNKNOWN_FIELD": "a message has a field that its type does not have",
    "E_MESSAGE_TYPE": "a field of a message holds a value of the wrong type",
    "E_MESSAGE_VALUE": "a field of a message holds a value outside what it may hold",
    "E_MESSAGE_RULE": "two fields of a message contradict each other",
    "E_MESSAGE_JSON": "a message is not one JSON object",
    "E_MESSAGE_DUPLICATE_ID": "two requests have the same correlation_id and request_id",
}
MAX_JSON_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with the field at `path`; `""` is the record itself."""

    code: str
    path: str
    found: str
    expected: str
    help: str | None = None

    def under(self, prefix: str) -> Problem:
        return dataclasses.replace(self, path=join(prefix, self.path))

    def diagnostic(self) -> Diagnostic:
        assert self.code in ERRORS, f"{self.code} is not in the table of message errors"
        what = f"`{self.path}`" if self.path else "the message"
        text = f"{what}: found {self.found}, expected {self.expected}"
        return Diagnostic(self.code, text, help=self.help, path=self.path or None)


def join(prefix: str, path: str) -> str:
    return f"{prefix}.{path}" if prefix and path and not path.startswith("[") else prefix + path


def describe(value: object) -> str:
    """A short, harmless face of any value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return f"an object of {len(value)} fields"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) >= 1 << 128:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, str | int | float):
        text = json.dumps(value) if isinstance(value, str) else repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    return f"a {type(value).__name__}"


# --------------------------------------------------------------------------- kinds of fields


class Kind(Protocol):
    """What a field may hold."""

    def convert(self, value: Any, path: str, problems: list[Problem]) -> Any: ...

    def schema(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of an integer, both included; stands in `Annotated`."""

    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Matches:
    """The form of a text; stands in `Annotated`."""

    pattern: str
    what: str


def _refuse(problems: list[Problem], path: str, value: object, expected: str, code: str = "E_MESSAGE_TYPE") -> None:
    problems.append(Problem(code, path, describe(value), expected))


@dataclass(frozen=True, slots=True)
class _Text:
    form: Matches | None = None

    def convert(self, value: Any, path: str, problems: list[Problem]) -> Any:
        if not isinstance(value, str):
            _refuse(problems, path, value, "a text")
        elif self.form is not None and not re.fullmatch(self.form.pattern, value, re.ASCII):
            _refuse(problems, path, value, self.form.what, "E_MESSAGE_VALUE")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string"} | ({"pattern": f"^(?:{self.form.pattern})$"} if self.form else {})


@dataclass(frozen=True, slots=True)
class _Integer:
    bounds: Range | None = None

    def convert(self, value: Any, path: str, problems: list[Problem]) -> Any:
        if isinstance(value, bool) or not isinstance(value, int):
            _refuse(problems, path, value, "an integer")
        elif self.bounds is not None and not self.bounds.lo <= value <= self.bounds.hi:
            expected = f"an integer from {self.bounds.lo} to {self.bounds.hi}"
            _refuse(problems, path, value, expected, "E_MESSAGE_VALUE")
        return value

    def schema(self) -> dict[str, Any]:
        bounds = {"minimum": self.bounds.lo, "maximum": self.bounds.hi} if self.bounds else {}
        return {"type": "integer"} | bounds


# JSON has no word for these; protocol buffers' JSON form writes them so.
_NON_FINITE = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


@dataclass(frozen=True, slots=True)
class _Number:
    """An integer, a float or (where `boolean`) a bool; never a text, save the three non-finite numbers."""

    boolean: bool = False

    def convert(self, value: Any, path: str, problems: list[Problem]) -> Any:
        if isinstance(value, str) and value in _NON_FINITE:
            return _NON_FINITE[value]
        if (isinstance(value, bool) and not self.boolean) or not isinstance(value, int | float):
            _refuse(problems, path, value, "a number or a bool" if self.boolean else "a number")
        return value

    def schema(self) -> dict[str, Any]:
        boolean = [{"type": "boolean"}] if self.boolean else []
        return {"anyOf": [{"type": "number"}, *boolean, {"enum": list(_NON_FINITE)}]}


@dataclass(frozen=True, slots=True)
class _Boolean:
    def convert(self, value: Any, path: str, problems: list[Problem]) -> Any:
        if not isinstance(value, bool):
            _refuse(problems, path, value, "true or false")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class _Choice:
    values: tuple[str, ...]

    def convert(self, value: Any, path: str, problems: list[Problem]) -> Any:
        if not isinstance(value, str):
            _refuse(problems, path, value, f"one of {', '.join(self.values)}")
        elif value not in self.values:
            expected = f"one of {', '.join(self.values)}"
            help_text = did_you_mean(value, self.values, "values")
            problems.append(Problem("E_MESSAGE_VALUE", path, describe(value), expected, help_text))
        return value

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.values)}


@dataclass(frozen=True, slots=True)
class _Optional:
    inner: Kind

    def convert(self, value: Any, path: str, problems: list[Problem]) -> Any:
        return None if value is None else self.inner.convert(value, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.inner.schema(), {"type": "null"}]}


@dataclass(frozen=True, slots=True)
class _ListOf:
    inner: Kind

    def convert(self, value: Any, path: str, problems: list[Problem]) -> Any:
        if not isinstance(value, list | tuple):
            _refuse(problems, path, value, "a list")
            return value
        return tuple(self.inner.convert(v, f"{path}[{i}]", problems) for i, v in enumerate(value))

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.inner.schema()}


@dataclass(frozen=True, slots=True)
class _Object:
    """Any JSON object; it is frozen on the way in."""

    def convert(self, value: Any, path: str, problems: list[Problem]) -> Any:
        if not isinstance(value, Mapping):
            _refuse(problems, path, value, "an object")
            return value
        return _freeze(value, path, problems, MAX_JSON_DEPTH)

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}


def _freeze(value: Any, path: str, problems: list[Problem], depth: int) -> Any:
    if depth == 0:
        problems.append(Problem("E_MESSAGE_VALUE", path, "deeper nesting", f"at most {MAX_JSON_DEPTH} levels"))
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                _refuse(problems, path, key, "texts as keys")
        items = {k: _freeze(v, join(path, str(k)), problems, depth - 1) for k, v in value.items()}
        return types.MappingProxyType(items)
    if isinstance(value, list | tuple):
        return tuple(_freeze(v, f"{path}[{i}]", problems, depth - 1) for i, v in enumerate(value))
    if value is not None and not isinstance(value, str | int | float | bool):
        _refuse(problems, path, value, "a JSON value")
    return value


@dataclass(frozen=True, slots=True)
class _RecordOf:
    """One of some record types; with several, the value of `tag` tells which."""

    by_tag: Mapping[str, type[Record]]
    tag: str = ""

    def convert(self, value: Any, path: str, problems: list[Problem]) -> Any:
        if isinstance(value, Record) and type(value) in self.by_tag.values():
            return value
        if not isinstance(value, Mapping):
            _refuse(problems, path, value, "an object")
            return value
        cls = self._type_of(value, path, problems)
        return value if cls is None else build(cls, value, path, problems)

    def _type_of(self, value: Mapping[str, Any], path: str, problems: list[Problem]) -> type[Record] | None:
        if not self.tag:
            return next(iter(self.by_tag.values()))
        return pick(self.by_tag, self.tag, value, path, problems)

    def schema(self) -> dict[str, Any]:
        refs = [{"$ref": f"#/$defs/{cls.__name__}"} for cls in self.by_tag.values()]
        return refs[0] if len(refs) == 1 else {"oneOf": refs}


def pick(
    by_tag: Mapping[str, type[Record]], tag: str, value: Mapping[str, Any], path: str, problems: list[Problem]
) -> type[Record] | None:
    """The record type that the field `tag` of a JSON object names."""
    if tag not in value:
        _missing(problems, join(path, tag), f"one of {', '.join(by_tag)}")
        return None
    before = len(problems)
    name = _Choice(tuple(by_tag)).convert(value[tag], join(path, tag), problems)
    return by_tag[name] if len(problems) == before else None


def _missing(problems: list[Problem], path: str, expected: str) -> None:
    problems.append(Problem("E_MESSAGE_MISSING", path, "nothing", expected))


# --------------------------------------------------------------------------- records


@dataclass(frozen=True, slots=True)
class FieldSpec:
    name: str
    kind: Kind
    required: bool
    default: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """A frozen record that is checked where it is made. `rules` see it once each field is right by itself."""

    rules: ClassVar[tuple[Callable[[Any], Iterator[Problem]], ...]] = ()
    # Fields that JSON must spell out although the type has just one value for them.
    tags: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        for spec in fields_of(type(self)):
            value = spec.kind.convert(getattr(self, spec.name), spec.name, problems)
            object.__setattr__(self, spec.name, value)
        refuse(problems or _broken_rules(self))

    def to_json(self) -> dict[str, Any]:
        """A plain JSON object with every field, defaults too."""
        return {spec.name: _thaw(getattr(self, spec.name)) for spec in fields_of(type(self))}

    @classmethod
    def from_json(cls, value: object) -> Self:
        problems: list[Problem] = []
        made = _RecordOf({"": cls}).convert(value, "", problems)
        refuse(problems)
        assert isinstance(made, cls)
        return made


R = TypeVar("R", bound=Record)


def refuse(problems: Iterable[Problem]) -> None:
    found = [problem.diagnostic() for problem in problems]
    if found:
        raise KernBenchError(found, EXIT_INPUT)


def _broken_rules(record: Record) -> list[Problem]:
    return [problem for rule in record.rules for problem in rule(record)]


def build(cls: type[R], value: Mapping[str, Any], path: str, problems: list[Problem]) -> R | None:
    """The record that a JSON object says, or None with the reasons added to `problems`."""
    before = len(problems)
    specs = fields_of(cls)
    names = tuple(spec.name for spec in specs)
    for name in value:
        if name not in names:
            expected = "a field of " + cls.__name__
            help_text = did_you_mean(str(name), names, "fields")
            where = join(path, str(name)[:60])
            problems.append(Problem("E_MESSAGE_UNKNOWN_FIELD", where, "an unknown field", expected, help_text))
    values: dict[str, Any] = {}
    for spec in specs:
        where = join(path, spec.name)
        if spec.name in value:
            values[spec.name] = spec.kind.convert(value[spec.name], where, problems)
        elif spec.required:
            _missing(problems, where, "a value")
        else:
            values[spec.name] = spec.default
    if len(problems) > before:
        return None
    record = object.__new__(cls)
    for name in names:
        object.__setattr__(record, name, values[name])
    broken = _broken_rules(record)
    problems.extend(problem.under(path) for problem in broken)
    return None if broken else record


def fields_of(cls: type[Record]) -> tuple[FieldSpec, ...]:
    """The table: what each field of a record type may hold; tags first, as they are read first."""
    if cls not in _TABLES:
        _TABLES[cls] = _read_annotations(cls)
    return _TABLES[cls]


def _read_annotations(cls: type[Record]) -> tuple[FieldSpec, ...]:
    hints = get_type_hints(cls, include_extras=True)
    specs = [
        FieldSpec(f.name, _kind_of(hints[f.name]), f.default is MISSING or f.name in cls.tags, f.default)
        for f in dataclasses.fields(cls)
    ]
    return tuple(sorted(specs, key=lambda spec: spec.name not in cls.tags))


# Read once a type: annotations are texts until someone asks what they mean.
_TABLES: dict[type[Record], tuple[FieldSpec, ...]] = {}


def _kind_of(hint: Any) -> Kind:
    """The kind that an annotation means."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _constrained(args[0], args[1])
    if origin is Literal:
        return _Choice(args)
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is tuple:
        return _ListOf(_kind_of(args[0]))
    if origin is Mapping:
        return _Object()
    if isinstance(hint, type) and issubclass(hint, Record):
        return _RecordOf({"": hint})
    return _PLAIN[hint]


_PLAIN: dict[Any, Kind] = {str: _Text(), int: _Integer(), float: _Number(), bool: _Boolean()}
_NUMBERS = frozenset({int, float, bool})


def _constrained(base: Any, constraint: object) -> Kind:
    if isinstance(constraint, Matches):
        return _Text(constraint)
    assert base is int and isinstance(constraint, Range), f"no field kind for {base} with {constraint}"
    return _Integer(constraint)


def _union(args: tuple[Any, ...]) -> Kind:
    rest = tuple(arg for arg in args if arg is not type(None))
    if len(rest) < len(args):
        return _Optional(_kind_of(rest[0]) if len(rest) == 1 else _union(rest))
    if set(rest) <= _NUMBERS:
        return _Number(boolean=bool in rest)
    tag = rest[0].tags[0]
    return _RecordOf({tag_value(cls, tag): cls for cls in rest}, tag)


def tag_value(cls: type[Record], tag: str) -> str:
    """The one value that field `tag` has in every record of a type."""
    return str(next(f.default for f in dataclasses.fields(cls) if f.name == tag))


def _thaw(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, Mapping):
        return {key: _thaw(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_thaw(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


# --------------------------------------------------------------------------- JSON Schema


def schema_of(roots: Iterable[type[Record]], parts: Iterable[type[Record]], ident: str) -> dict[str, Any]:
    """A JSON Schema of which any of `roots` is an instance; the rules between fields are not in it."""
    roots = tuple(roots)
    defs = {cls.__name__: _record_schema(cls) for cls in (*roots, *parts)}
    refs = [{"$ref": f"#/$defs/{cls.__name__}"} for cls in roots]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": ident, "oneOf": refs, "$defs": defs}


def _record_schema(cls: type[Record]) -> dict[str, Any]:
    specs = fields_of(cls)
    properties = {s.name: s.kind.schema() | ({} if s.required else {"default": s.default}) for s in specs}
    return {
        "type": "object",
        "description": (cls.__doc__ or "").strip().splitlines()[0],
        "properties": properties,
        "required": [s.name for s in specs if s.required],
        "additionalProperties": False,
    }
