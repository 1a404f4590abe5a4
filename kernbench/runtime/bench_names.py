"""The names of a bench file beside the parameters of the kernel that it is for: what is told without stopping a run.

Knows names and whether a parameter is a constexpr. Does not know kernels, or what a value is needed for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from kernbench.diagnostics import Diagnostic, Sink, nearest
from kernbench.runtime.bench import BenchCase
from kernbench.runtime.bench_schema import case_root, read_bench_text
from kernbench.runtime.errors import error
from kernbench.yaml_source import Node

_NAME = re.compile(r"[A-Za-z_]\w*")
_NO_EXPRESSIONS = ("kernel", "extends", "topology")  # keys whose texts are names of files


def name_remarks(case: BenchCase, parameters: Mapping[str, bool]) -> list[Diagnostic]:
    """What a case gives that no parameter takes and no expression uses, and run-time parameters that are constexprs.

    `parameters` says of each parameter of the kernel whether it is a constexpr.
    """
    sink = Sink()  # `case` came of this text, so nothing is wrong with it
    text = read_bench_text(case.bench, str(case.bench), sink)
    root = None if text is None else case_root(text, case.name, sink)
    if text is None or root is None:
        return []
    given = {what: dict(_entries(root.get(what))) for what in ("constexprs", "scalars", "tensors")}
    fixed = {name: node for name, node in given["constexprs"].items() if _is_number(case.constexprs[name])}
    together = {name: node for nodes in given.values() for name, node in nodes.items()}
    return [*_unused(together, _names_in(text.root), parameters), *_fixed(fixed, parameters)]


def _entries(node: Node | None) -> Iterable[tuple[str, Node]]:
    return node.items() if node is not None and isinstance(node.value, dict) else ()


def _is_number(value: object) -> bool:
    """A text, None or a type is a constexpr wherever it is given."""
    return isinstance(value, int | float | np.generic)


def _unused(given: Mapping[str, Node], used: set[str], parameters: Mapping[str, bool]) -> Iterator[Diagnostic]:
    free = [name for name in parameters if name not in given]
    for name, node in given.items():
        if name in parameters or name in used:
            continue
        near = nearest(name, free) or nearest(name, parameters)
        advice = "leave it out" if near is None else f"did you mean `{near}`? else leave it out"
        message = f"`{name}` is no parameter of the kernel, and no expression uses it"
        label = node.key_label("nothing takes this")
        yield error("W_BENCH_UNUSED", message, label, path=node.path or None, help=advice, severity="warning")


def _names_in(root: Node) -> set[str]:
    """The names in all texts of a file, also of its other cases: these may be expressions."""
    found: set[str] = set()
    todo = [root]
    while todo:
        node = todo.pop()
        if isinstance(node.value, str):
            found.update(_NAME.findall(node.value))
        elif isinstance(node.value, tuple):
            todo.extend(node.value)
        elif isinstance(node.value, dict):
            todo.extend(inner for key, inner in node.items() if key not in _NO_EXPRESSIONS)
    return found


def _fixed(given: Mapping[str, Node], parameters: Mapping[str, bool]) -> Iterator[Diagnostic]:
    for name, node in given.items():
        if parameters.get(name) is not False:
            continue
        message = f"`{name}` is a run-time parameter of the kernel, and its value is compiled in"
        advice = f"move it to `scalars`; Triton takes it as a constexpr where the kernel says `{name}: tl.constexpr`"
        label = node.key_label("given as a constexpr")
        yield error("R_BENCH_CONSTEXPR", message, label, path=node.path or None, help=advice, severity="remark")
