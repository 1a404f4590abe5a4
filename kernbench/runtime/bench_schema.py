"""The keys of a bench file, as dataclasses that `yaml_schema` reads.

Knows which keys there are and their types; `bench.py` knows what they mean together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from pathlib import Path

from kernbench.diagnostics import Diagnostic, Sink
from kernbench.runtime.errors import error
from kernbench.yaml_schema import describe, key, read_fields
from kernbench.yaml_source import Node, merge, parse_yaml_file

MAX_EXTENDS = 8


@dataclass(frozen=True, kw_only=True)
class TensorKeys:
    shape: tuple[Node, ...] = key("the sides, each a number or an expression")
    dtype: str = key("the element type: fp16, bf16, fp32, i32 ...")
    init: Node | None = key(
        "zeros (the default), ones, normal, uniform, arange, or one of {fill: 2}, {randint: [low, high]}, "
        "{value: expression}, {npy: file}",
        default=None,
    )
    place: Node | None = key('replicate, {shard: dim, over: [...]} or {"on": [sip, cube, pe]}', default=None)
    descriptor: tuple[Node, ...] | None = key("the block shape of a host tensor descriptor", default=None)


@dataclass(frozen=True, kw_only=True)
class ToleranceKeys:
    rtol: Decimal = key("the error allowed relative to the reference", low=0, default=Decimal(0))
    atol: Decimal = key("the error allowed on top of it", low=0, default=Decimal(0))


@dataclass(frozen=True, kw_only=True)
class BenchKeys:
    """What a bench file, or a case of it put over the rest, may say."""

    kernel: str = key("the kernel file, relative to the bench file; ::name where it holds several")
    extends: str | None = key("a bench file whose keys this one puts its own over", default=None)
    topology: str | None = key("the device: a shipped name or a path", default=None)
    opt: int = key("the optimisation level", low=0, high=1, default=1)
    seed: int | None = key("the seed of initial values", low=0, default=None)
    constexprs: dict[str, Node] | None = key(
        "compile-time parameters: numbers or expressions; a text is written \"'relu'\"", default=None
    )
    scalars: dict[str, Node] | None = key("numbers: parameters of the kernel, or names for expressions", default=None)
    tensors: dict[str, TensorKeys] | None = key("tensor parameters", default=None)
    grid: Node | None = key(
        "one to three numbers of programs; null starts one on each PE that a `place` names", default=None
    )
    expect: dict[str, Node] | None = key(
        "references by tensor: an expression (`list bench-functions`), or {npy: file}", default=None
    )
    tolerance: ToleranceKeys = key("how far results may be off; nothing is allowed without it", default=ToleranceKeys())
    cases: dict[str, Node] | None = key("named sets of keys put over the rest", default=None)


_NOT_IN_A_CASE = ("kernel", "extends", "cases")


@dataclass(frozen=True)
class BenchText:
    """A bench file as read, with what it extends merged in."""

    path: Path
    shown_as: str
    root: Node

    @property
    def cases(self) -> dict[str, Node]:
        node = self.root.get("cases")
        return dict(node.items()) if node is not None and isinstance(node.value, dict) else {}


def read_bench_text(path: Path, shown_as: str, sink: Sink) -> BenchText | None:
    root = _read_with_bases(path, shown_as, (), sink)
    return None if root is None else BenchText(path, shown_as, root)


def _read_with_bases(path: Path, shown_as: str, seen: tuple[Path, ...], sink: Sink) -> Node | None:
    root = parse_yaml_file(path, shown_as, sink)
    base = None if root is None else root.get("extends")
    if root is None or base is None or not isinstance(base.value, str):
        return root
    target = (path.parent / base.value).resolve()
    if target in (*seen, path.resolve()) or len(seen) >= MAX_EXTENDS:
        sink.add(_at(base, "E_BENCH_CYCLE", f"`{base.value}` extends this file, or the chain is too long"))
        return root
    shown = str(Path(shown_as).parent / base.value)
    below = _read_with_bases(target, shown, (*seen, path.resolve()), sink)
    return root if below is None else merge(below, root)


def case_root(text: BenchText, name: str | None, sink: Sink) -> Node | None:
    """The file with the keys of one case put over it, or the file itself."""
    if name is None:
        return text.root
    case = text.cases[name]
    if not isinstance(case.value, dict):
        sink.add(_at(case, "E_BENCH_VALUE", f"case `{name}` is {case.kind}, not a mapping"))
        return None
    for forbidden in _NOT_IN_A_CASE:
        if (found := case.get(forbidden)) is not None:
            sink.add(_at(found, "E_BENCH_KEY", f"a case cannot change `{forbidden}`"))
    return merge(text.root, case)


def read_case(text: BenchText, name: str | None, sink: Sink) -> BenchKeys | None:
    """The keys of one case, or of the file itself."""
    root, found = case_root(text, name, sink), Sink()
    keys = None if root is None else read_fields(root, BenchKeys, found)
    for diagnostic in found.diagnostics:
        sink.add(_with_form(diagnostic))
    return keys


def _with_form(found: Diagnostic) -> Diagnostic:
    """Where a value is of the wrong type, with what the key takes."""
    if found.code != "E_YAML_TYPE" or found.help is not None or not found.path:
        return found
    parts = found.path.split(".")
    if parts[0] == "cases" and len(parts) > 2:
        parts = parts[2:]
    keys = {tuple(doc.path.split(".")): doc for doc in describe(BenchKeys)}
    here = {path[len(parts) :]: doc for path, doc in keys.items() if _stands_for(path[: len(parts)], parts)}
    if not here:
        return found
    doc = here.pop((), None)
    words = ", ".join(f"{path[-1]}: {inner.type}" for path, inner in here.items())
    form = f"{{NAME: {{{words}}}}}" if any(len(path) > 1 for path in here) else f"{{{words}}}"
    told = f"`{parts[-1]}` is {form if here or doc is None else doc.type}"
    return replace(found, help=told if doc is None else f"{told}: {doc.doc}")


def _stands_for(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether a path of the schema, with NAME for any name, is that of a key."""
    return len(pattern) == len(parts) and all(p in ("NAME", part) for p, part in zip(pattern, parts, strict=True))


def _at(node: Node, code: str, message: str, help: str | None = None) -> Diagnostic:
    return error(code, message, node.label(), path=node.path or None, help=help)


KEYS: tuple[str, ...] = tuple(field.name for field in fields(BenchKeys))
