"""Turn a YAML tree into a frozen dataclass, and tell everything that does not fit in one go.

A schema is a dataclass whose fields are made with `key(...)`: the type says what is read, `key` says the bounds, the
choices and one line of documentation. Field types: int, Decimal, str, bool, a dataclass, `Node` (taken as it is),
`tuple[T, ...]`, `dict[str, T]`, `Literal[...]`, and `T | None`. A field without a default must be in the file.

    @dataclass(frozen=True, kw_only=True)
    class LinkSpec:
        bw_gbs: Decimal = key("bandwidth a direction", above=0)

    spec = read_fields(node, LinkSpec, sink)      # None, and diagnostics in the sink, where it does not fit

Does not know any particular file format.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, is_dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from kernbench.diagnostics import Diagnostic, Sink, nearest
from kernbench.yaml_source import Node

T = TypeVar("T")
Found = tuple[Any, bool]  # a value, and whether it is good


@dataclass(frozen=True, slots=True)
class Rule:
    """What `key` says of a field beyond its type."""

    doc: str
    low: int | None = None  # the least value, or the least length of a list
    above: int | None = None  # an exclusive lower bound
    high: int | None = None


def key(
    doc: str,
    *,
    low: int | None = None,
    above: int | None = None,
    high: int | None = None,
    default: Any = MISSING,
) -> Any:
    """A field of a schema dataclass."""
    rule = Rule(doc, low, above, high)
    if default is MISSING:
        return dataclasses.field(metadata={"rule": rule})
    return dataclasses.field(default=default, metadata={"rule": rule})


def read_fields(node: Node, schema: type[T], sink: Sink) -> T | None:
    """An instance of `schema` from a mapping; None where anything is wrong, which then is in `sink`."""
    value, good = _dataclass(node, schema, sink)
    return value if good else None


def put_over(node: Node, base: T, sink: Sink) -> T:
    """`base` with the keys that `node` has put over it; nested mappings change only what they name."""
    assert is_dataclass(base) and not isinstance(base, type)
    if not isinstance(node.value, dict):
        sink.add(_wrong_type(node, "a mapping"))
        return base
    types_of = _types(type(base))
    _unknown_keys(node, tuple(types_of), sink)
    changes: dict[str, Any] = {}
    for name, child in node.value.items():
        if name not in types_of:
            continue
        old = getattr(base, name)
        if is_dataclass(old) and not isinstance(old, Node):
            changes[name] = put_over(child, old, sink)
            continue
        value, good = _read(child, types_of[name], _rule(type(base), name), sink)
        if good:
            changes[name] = value
    return dataclasses.replace(base, **changes)


@dataclass(frozen=True, slots=True)
class KeyDoc:
    """One line of a printed schema."""

    path: str
    type: str
    required: bool
    default: Any
    doc: str


def describe(schema: type, path: str = "") -> Iterator[KeyDoc]:
    """Every key of a schema, in its order, nested ones after their parent."""
    for field in dataclasses.fields(schema):
        hint = _types(schema)[field.name]
        here = f"{path}.{field.name}" if path else field.name
        required = field.default is MISSING
        yield KeyDoc(here, _type_name(hint), required, None if required else field.default, _doc(field))
        inner, suffix = _inner_schema(hint)
        if inner is not None:
            yield from describe(inner, here + suffix)


def to_plain(value: Any) -> Any:
    """A schema instance as dicts, lists and plain values, `Decimal` kept; keys at None are left out."""
    if isinstance(value, Node):
        return value.plain()
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {name: to_plain(item) for name, item in pairs if item is not None}
    if isinstance(value, Mapping):
        return {name: to_plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return value


def _doc(field: dataclasses.Field[Any]) -> str:
    rule = field.metadata.get("rule")
    return rule.doc if isinstance(rule, Rule) else ""


def _inner_schema(hint: Any) -> tuple[Any, str]:
    hint, _ = _optional(hint)
    places = {tuple: (0, "[]"), dict: (1, ".NAME")}
    at, suffix = places.get(get_origin(hint), (0, ""))
    inner: Any = get_args(hint)[at] if suffix else hint
    return (inner, suffix) if is_dataclass(inner) and inner is not Node else (None, "")


@cache
def _types(schema: Any) -> dict[str, Any]:
    hints = get_type_hints(schema)
    return {field.name: hints[field.name] for field in dataclasses.fields(schema)}


@cache
def _rules(schema: Any) -> dict[str, Rule]:
    return {f.name: f.metadata["rule"] for f in dataclasses.fields(schema) if "rule" in f.metadata}


def _rule(schema: type, name: str) -> Rule:
    return _rules(schema).get(name, Rule(""))


def _optional(hint: Any) -> tuple[Any, bool]:
    """The type without `| None`, and whether it had that."""
    if get_origin(hint) in (Union, types.UnionType):
        others = [arg for arg in get_args(hint) if arg is not type(None)]
        assert len(others) == 1, f"{hint} is no `T | None`"
        return others[0], True
    return hint, False


def _read(node: Node, hint: Any, rule: Rule, sink: Sink) -> Found:
    """The value of `node` as type `hint`. A node that the reader refused is told of already."""
    if node.refused:
        return None, False
    hint, may_be_null = _optional(hint)
    if node.value is None and may_be_null:
        return None, True
    if hint is Node:
        return node, True
    if is_dataclass(hint):
        return _dataclass(node, hint, sink)
    origin = get_origin(hint)
    if origin is Literal:
        return _choice(node, get_args(hint), sink)
    if origin is tuple:
        return _list(node, get_args(hint)[0], rule, sink)
    if origin is dict:
        return _table(node, get_args(hint)[1], rule, sink)
    return _SCALARS[hint](node, rule, sink)


def _dataclass(node: Node, schema: Any, sink: Sink) -> Found:
    if not isinstance(node.value, dict):
        sink.add(_wrong_type(node, "a mapping"))
        return None, False
    types_of = _types(schema)
    good = _unknown_keys(node, tuple(types_of), sink)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(schema):
        child = node.value.get(field.name)
        if child is not None:
            values[field.name], fits = _read(child, types_of[field.name], _rule(schema, field.name), sink)
            good = good and fits
        elif field.default is MISSING:
            sink.add(_missing(node, field.name, types_of[field.name], _doc(field)))
            good = False
    return (schema(**values), True) if good else (None, False)


def _list(node: Node, item: Any, rule: Rule, sink: Sink) -> Found:
    if not isinstance(node.value, tuple):
        sink.add(_wrong_type(node, "a list"))
        return None, False
    if rule.low is not None and len(node.value) < rule.low:
        sink.add(node.error("E_YAML_RANGE", f"{len(node.value)} entries, at least {rule.low} are needed"))
        return None, False
    inner = Rule(rule.doc, None, rule.above, rule.high)
    found = [_read(element, item, inner, sink) for element in node.value]
    return tuple(value for value, _ in found), all(good for _, good in found)


def _table(node: Node, item: Any, rule: Rule, sink: Sink) -> Found:
    if not isinstance(node.value, dict):
        sink.add(_wrong_type(node, "a mapping"))
        return None, False
    found = {name: _read(child, item, rule, sink) for name, child in node.value.items()}
    return {name: value for name, (value, _) in found.items()}, all(good for _, good in found.values())


def _choice(node: Node, choices: tuple[Any, ...], sink: Sink) -> Found:
    if any(node.value == choice and type(node.value) is type(choice) for choice in choices):
        return node.value, True
    names = [str(choice) for choice in choices]
    near = nearest(str(node.value), names) if isinstance(node.value, str) else None
    help = f"did you mean `{near}`?" if near else f"possible are {', '.join(names)}"
    sink.add(node.error("E_YAML_CHOICE", f"`{node.path}` is {node.shown}", f"none of {', '.join(names)}", help))
    return None, False


def _whole(node: Node, rule: Rule, sink: Sink) -> Found:
    value = node.value
    if isinstance(value, Decimal) and value == value.to_integral_value():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return _refuse(node, "a whole number", sink)
    return value, _in_range(node, value, rule, sink)


def _number(node: Node, rule: Rule, sink: Sink) -> Found:
    if isinstance(node.value, bool) or not isinstance(node.value, int | Decimal):
        return _refuse(node, "a number", sink)
    value = Decimal(node.value)
    return value, _in_range(node, value, rule, sink)


def _text(node: Node, _: Rule, sink: Sink) -> Found:
    return (node.value, True) if isinstance(node.value, str) else _refuse(node, "a text", sink)


def _flag(node: Node, _: Rule, sink: Sink) -> Found:
    return (node.value, True) if isinstance(node.value, bool) else _refuse(node, "true or false", sink)


_SCALARS: dict[type, Callable[[Node, Rule, Sink], Found]] = {
    int: _whole,
    Decimal: _number,
    str: _text,
    bool: _flag,
}


def _refuse(node: Node, expected: str, sink: Sink) -> Found:
    sink.add(_wrong_type(node, expected))
    return None, False


def _in_range(node: Node, value: int | Decimal, rule: Rule, sink: Sink) -> bool:
    if rule.above is not None and value <= rule.above:
        problem = f"it must be above {rule.above}"
    elif rule.low is not None and value < rule.low:
        problem = f"the least is {rule.low}"
    elif rule.high is not None and value > rule.high:
        problem = f"the most is {rule.high}"
    else:
        return True
    sink.add(node.error("E_YAML_RANGE", f"`{node.path}` is {node.shown}", problem))
    return False


def _wrong_type(node: Node, expected: str) -> Diagnostic:
    name = node.path or "the document"
    return node.error("E_YAML_TYPE", f"`{name}` is {node.shown}", f"expected {expected}, found {node.kind}")


def _missing(node: Node, name: str, hint: Any, doc: str) -> Diagnostic:
    here = f"{node.path}.{name}" if node.path else name
    message = f"key `{here}` is missing"
    help = f"`{name}` is {_type_name(hint)}: {doc}" if doc else f"`{name}` is {_type_name(hint)}"
    label = node.key_label() if node.path else node.label()
    return Diagnostic("E_YAML_MISSING_KEY", message, label, help=help, path=here)


def _unknown_keys(node: Node, known: tuple[str, ...], sink: Sink) -> bool:
    assert isinstance(node.value, dict)
    unknown = [name for name in node.value if name not in known]
    for name in unknown:
        child = node.value[name]
        sink.add(
            Diagnostic(
                "E_YAML_UNKNOWN_KEY",
                f"there is no key `{name}` here",
                child.key_label(),
                help=_key_help(name, known),
                path=child.path,
            )
        )
    return not unknown


_UNITS = ("ns", "gbs", "bytes", "mm", "ghz", "ns_per_mm", "bytes_per_ns")


def _key_help(name: str, known: tuple[str, ...]) -> str:
    with_unit = next((k for k in known if k in {f"{name}_{unit}" for unit in _UNITS}), None)
    if with_unit is not None:
        return f"did you mean `{with_unit}`? units live in the key"
    near = nearest(name, known)
    return f"did you mean `{near}`?" if near else f"possible keys are {', '.join(sorted(known))}"


_TYPE_NAMES: dict[Any, str] = {
    int: "a whole number",
    Decimal: "a number",
    str: "a text",
    bool: "true or false",
    Node: "any value",
}


def _type_name(hint: Any) -> str:
    hint, may_be_null = _optional(hint)
    if get_origin(hint) is Literal:
        name = " | ".join(str(arg) for arg in get_args(hint))
    elif get_origin(hint) is tuple:
        name = "a list"
    else:
        name = _TYPE_NAMES.get(hint, "a mapping")
    return f"{name}, or null" if may_be_null else name
