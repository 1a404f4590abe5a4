"""A schema tells everything that does not fit at once, and puts overrides over what is there."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from kernbench.diagnostics import Sink
from kernbench.yaml_schema import _key_help, describe, key, put_over, read_fields, to_plain
from kernbench.yaml_source import Node, read_yaml


@dataclass(frozen=True, kw_only=True)
class Inner:
    bw_gbs: Decimal = key("bandwidth", above=0)
    depth: int = key("queue", low=1, high=8, default=2)


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str = key("name")
    side: Literal["N", "S"] = key("side", default="N")
    inner: Inner = key("inner part")
    list: tuple[Inner, ...] = key("parts", low=1)
    rates: dict[str, int] = key("rates", low=1, default=None)
    note: str | None = key("note", default=None)
    raw: Node | None = key("anything", default=None)


def read(text: str) -> tuple[Outer | None, list[tuple[str, str | None, str | None]]]:
    sink = Sink()
    value = read_fields(read_yaml(text, "f.yaml"), Outer, sink)
    return value, [(d.code, d.path, d.help) for d in sink.diagnostics]


GOOD = "name: a\ninner: {bw_gbs: 1.5}\nlist: [{bw_gbs: 2, depth: 8.0}]\nrates: {fp16: 3}\nraw: [1]\n"


def test_a_good_text_becomes_an_instance() -> None:
    value, faults = read(GOOD)

    assert [] == faults
    assert value is not None
    assert (Decimal("1.5"), 2, 8, {"fp16": 3}) == (
        value.inner.bw_gbs,
        value.inner.depth,
        value.list[0].depth,
        value.rates,
    )
    assert {"bw_gbs": Decimal("1.5"), "depth": 2} == to_plain(value)["inner"]
    assert [1] == to_plain(value)["raw"]


def test_everything_wrong_is_told_at_once() -> None:
    """FC-SC07 among them: a misspelt key is an error with the near name."""
    value, faults = read(
        "nam: a\nside: E\ninner: {bw: 1, bw_gsb: 2, depth: 9}\nlist: []\nrates: {fp16: x}\nnote: [1]\n"
    )

    assert value is None
    assert [
        ("E_YAML_UNKNOWN_KEY", "nam", "did you mean `name`?"),
        ("E_YAML_MISSING_KEY", "name", "`name` is a text: name"),
        ("E_YAML_CHOICE", "side", "possible are N, S"),
        ("E_YAML_UNKNOWN_KEY", "inner.bw", "did you mean `bw_gbs`? units live in the key"),
        ("E_YAML_UNKNOWN_KEY", "inner.bw_gsb", "did you mean `bw_gbs`?"),
        ("E_YAML_MISSING_KEY", "inner.bw_gbs", "`bw_gbs` is a number: bandwidth"),
        ("E_YAML_RANGE", "inner.depth", None),
        ("E_YAML_RANGE", "list", None),
        ("E_YAML_TYPE", "rates.fp16", None),
        ("E_YAML_TYPE", "note", None),
    ] == faults


def test_bounds_are_kept() -> None:
    for text in ("bw_gbs: 0", "bw_gbs: -1", "bw_gbs: 1, depth: 0", "bw_gbs: 1, depth: 1.5", "bw_gbs: true"):
        assert read(GOOD.replace("bw_gbs: 1.5", text))[0] is None


def test_overrides_change_only_what_they_name() -> None:
    base, _ = read(GOOD)
    assert base is not None
    sink = Sink()
    changed = put_over(read_yaml("inner: {depth: 3}\nnote: x", "o.yaml"), base, sink)

    assert [] == sink.diagnostics
    assert (Inner(bw_gbs=Decimal("1.5"), depth=3), "x", base.list) == (changed.inner, changed.note, changed.list)


def test_overrides_are_checked_as_the_rest() -> None:
    base, _ = read(GOOD)
    assert base is not None
    sink = Sink()
    changed: Any = put_over(read_yaml("inner: {depht: 3, depth: 0}", "o.yaml"), base, sink)

    assert base == changed
    assert ["E_YAML_UNKNOWN_KEY", "E_YAML_RANGE"] == [d.code for d in sink.diagnostics]


def test_a_schema_describes_itself() -> None:
    docs = {doc.path: (doc.type, doc.required) for doc in describe(Outer)}

    assert ("a mapping", True) == docs["inner"]
    assert ("a number", True) == docs["list[].bw_gbs"]
    assert ("a text, or null", False) == docs["note"]
    assert ("any value, or null", False) == docs["raw"]
    assert "raw.value" not in docs


def test_units_are_spoken_of_only_where_one_is_missing() -> None:
    assert _key_help("bw", ("bw_gbs", "pe_routers")) == "did you mean `bw_gbs`? units live in the key"
    assert "units" not in _key_help("pe", ("bw_gbs", "pe_routers"))
