"""The table of fields, walked: each field of each message is dropped, retyped and corrupted, nested ones too.

What is wrong is made from the field's own JSON Schema, so a new field is covered from its first day.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from kernbench.diagnostics import EXIT_INPUT, KernBenchError
from kernbench.message_fields import fields_of
from kernbench.message_text import read_requests
from kernbench.messages import PARTS, REQUESTS, Response
from tests.test_messages import ALL_FIELDS, SAMPLES, Json, corrupted, launch, paths_of, places, read_back

# One value of each JSON type.
BY_TYPE: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "integer": 3,
    "number": 2.5,
    "string": "no such word",
    "array": [3],
    "object": {"no": "such"},
}
# Any text, any bool and any number is right by itself there; what contradicts a neighbour is a rule, tested by name.
TAKES_ALL_OF_ITS_TYPE = {
    "timestamp_tag", "debug_label", "error_code", "error_message", "ok", "value", "grid", "meta",
}  # fmt: skip


def alternatives(schema: Json) -> list[Json]:
    found = schema.get("anyOf", [schema])
    return [inner for each in found for inner in (alternatives(each) if "anyOf" in each else [each])]


def types_of(schema: Json) -> set[str]:
    """The JSON types that a field takes."""
    found: set[str] = set()
    for each in alternatives(schema):
        if "$ref" in each or "oneOf" in each:
            found.add("object")
        elif "enum" in each:
            found.add("string")
        else:
            found.add(each["type"])
    return found | ({"integer"} if "number" in found else set())


def corruptions(schema: Json) -> Iterator[Any]:
    """Values of the right JSON type that the field may not hold."""
    for each in alternatives(schema):
        if "pattern" in each:
            yield from ("", "no\x00such")
        if "minimum" in each:
            yield from (each["minimum"] - 1, each["maximum"] + 1)
        if "enum" in each and "Infinity" not in each["enum"]:
            yield "no such word"
        if "$ref" in each or "oneOf" in each:
            yield {}
        if each.get("type") == "array":
            yield from ([None], [{}])


def told_under(path: str, error: KernBenchError) -> bool:
    """Everything that is told is about the field at `path` or something in it."""
    return all(found == path or found.startswith((f"{path}.", f"{path}[")) for found in paths_of(error))


def spec_of(kind: str, path: str) -> Any:
    _, _, name, record = corrupted(kind, path)
    return next(spec for spec in fields_of(type(record)) if spec.name == name)


def refused_with(kind: str, path: str, value: Any) -> KernBenchError:
    message, holder, name, _ = corrupted(kind, path)
    holder[name] = value
    with pytest.raises(KernBenchError) as caught:
        read_back(kind, message)
    assert EXIT_INPUT == caught.value.exit_code
    return caught.value


def test_the_table_holds_every_field_of_every_type() -> None:
    seen = {(type(r).__name__, n) for k, s in SAMPLES.items() for _, _, n, r in places(s, s.to_json())}
    layouts = {
        ("TensorLayout", spec.name) for cls in PARTS if cls.__name__ == "TensorLayout" for spec in fields_of(cls)
    }
    known = {(cls.__name__, spec.name) for cls in (*REQUESTS, Response, *PARTS) for spec in fields_of(cls)}

    assert known == seen | layouts  # layouts stand in `meta`, below


@pytest.mark.parametrize(("kind", "path"), ALL_FIELDS)
def test_a_field_of_another_json_type_is_refused_by_its_path(kind: str, path: str) -> None:
    allowed = types_of(spec_of(kind, path).kind.schema())
    for name, value in BY_TYPE.items():
        if name in allowed:
            continue
        error = refused_with(kind, path, value)
        assert told_under(path, error), (name, paths_of(error))


@pytest.mark.parametrize(("kind", "path"), ALL_FIELDS)
def test_a_corrupted_field_is_refused_by_its_path(kind: str, path: str) -> None:
    spec = spec_of(kind, path)
    bad = list(corruptions(spec.kind.schema()))

    assert bool(bad) != (spec.name in TAKES_ALL_OF_ITS_TYPE)
    for value in bad:
        error = refused_with(kind, path, value)
        assert told_under(path, error), (value, paths_of(error))


REQUIRED = [(kind, path) for kind, path in ALL_FIELDS if kind != "response" and spec_of(kind, path).required]


@pytest.mark.parametrize(("kind", "path"), REQUIRED)
def test_a_dropped_field_is_told_with_the_line_of_its_message(kind: str, path: str) -> None:
    value, holder, name, _ = corrupted(kind, path)
    del holder[name]

    with pytest.raises(KernBenchError) as caught:
        read_requests(f"\n{json.dumps(value)}\n", "m.jsonl")

    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.primary is not None
    assert ("E_MESSAGE_MISSING", path, 2) == (diagnostic.code, diagnostic.path, diagnostic.primary.span.line)


# --------------------------------------------------------------------------- what `grid` and `meta` hold

OPEN_FIELDS: dict[str, tuple[tuple[str | int, ...], tuple[Any, ...]]] = {
    "grid.x": (("grid", "x"), (None, "4", 1.5, True, [1], -1)),
    "grid.y": (("grid", "y"), (None, "4", 1.5, True, [1], -1)),
    "meta.targets": (("meta", "targets"), ("all", 3, {}, [])),
    "meta.targets[1]": (("meta", "targets", 1), (None, 3, "0.0.0", [0, 0], [0, 0, "1"], [0, 0, -1], [0, 0, 1])),
    "meta.params": (("meta", "params"), ("xn", 3, {}, ["x"], ["x", 1], ["x", "x"])),
    "meta.symbols": (("meta", "symbols"), (3, [], {}, "", "sha256:12")),
    "meta.layouts": (("meta", "layouts"), ("no", 3, {}, [])),
    "meta.layouts[0]": (("meta", "layouts", 0), ("no", 3, [])),
    "meta.layouts[0].shape": (("meta", "layouts", 0, "shape"), (None, 64, "64", {}, [-1], ["64"])),
    "meta.layouts[0].dim": (("meta", "layouts", 0, "dim"), ("0", 1.5, True, [], -1, 2)),
    "meta.layouts[0].dtype": (("meta", "layouts", 0, "dtype"), (None, 16, [], "half")),
    "meta.layouts[1]": (("meta", "layouts", 1), ({}, "fp16", 3)),
}


@pytest.mark.parametrize("path", OPEN_FIELDS)
def test_what_the_device_reads_of_an_open_object_is_refused_by_its_path(path: str) -> None:
    keys, junk = OPEN_FIELDS[path]
    for value in junk:
        message = copy.deepcopy(launch().to_json())
        holder: Any = message
        for key in keys[:-1]:
            holder = holder[key]
        holder[keys[-1]] = value
        with pytest.raises(KernBenchError) as caught:
            read_back("launch", message)
        assert told_under(path, caught.value), (value, paths_of(caught.value))


@pytest.mark.parametrize("name", ["shape", "dtype"])
def test_a_layout_lacks_nothing_that_it_needs(name: str) -> None:
    message = copy.deepcopy(launch().to_json())
    del message["meta"]["layouts"][0][name]

    with pytest.raises(KernBenchError) as caught:
        read_back("launch", message)

    assert {f"meta.layouts[0].{name}"} == paths_of(caught.value)
