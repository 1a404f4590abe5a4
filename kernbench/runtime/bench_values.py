"""The names of a bench file and what they stand for, computed when asked for; and the NumPy files beside it.

Knows expressions and the file's nodes. Does not know tensors, grids or kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from kernbench import dtypes
from kernbench.diagnostics import EXIT_USAGE, KernBenchError, Sink, did_you_mean
from kernbench.runtime.bench_schema import BenchKeys
from kernbench.runtime.errors import error
from kernbench.runtime.expressions import ExpressionError, evaluate, parse_expression
from kernbench.runtime.tensor import Array
from kernbench.yaml_source import Node

MAX_CHAIN = 32  # values that one value may need, each through the next
_TYPED_SCALARS: dict[str, Callable[[Any], Any]] = {
    "i32": np.int32,
    "i64": np.int64,
    "fp16": np.float16,
    "fp32": np.float32,
    "i1": np.bool_,
}


def whole_expressions(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The elements of a list, with a call that YAML has cut at its commas put together again.

    `[cdiv(M, BM), N]` reaches us as `cdiv(M`, `BM)` and `N`; writing quotes would be right, and is easily forgotten.
    """
    found: list[Node] = []
    open_brackets = 0
    for node in nodes:
        if open_brackets > 0:
            last = found.pop()
            node = replace(last, value=f"{last.value}, {node.value}")
        found.append(node)
        text = node.value if isinstance(node.value, str) else ""
        open_brackets = sum(text.count(c) for c in "([") - sum(text.count(c) for c in ")]")
    return tuple(found)


class Values(Mapping[str, Any]):
    """Constexprs and scalars, each computed when it is first asked for.

    A wrong one is told once and is 1 then, as is what is computed from it, so that nothing is told of what follows.
    """

    def __init__(self, keys: BenchKeys, sets: Mapping[str, str], parameters: Mapping[str, bool], sink: Sink) -> None:
        self.sink = sink
        self.constexprs: dict[str, Node | str] = dict(keys.constexprs or {})
        self.scalars: dict[str, Node | str] = dict(keys.scalars or {})
        self._take(sets, parameters)
        for name in sorted(self.constexprs.keys() & self.scalars.keys()):
            node = self.scalars[name]
            if isinstance(node, Node):
                self.report(node, "E_BENCH_KEY", f"`{name}` is a constexpr and a scalar")
        self._raw: dict[str, Node | str] = {**self.constexprs, **self.scalars}
        self._done: dict[str, Any] = {}
        self._active: list[str] = []
        self._broken: set[str] = set()  # names whose value is wrong, or computed from a wrong one
        self._met_broken = False  # in the expression that is being computed

    def _take(self, sets: Mapping[str, str], parameters: Mapping[str, bool]) -> None:
        for name, text in sets.items():
            if name in self.constexprs or parameters.get(name) is True:
                self.constexprs[name] = text
            elif name in self.scalars or parameters.get(name) is False:
                self.scalars[name] = text
            else:
                known = [*self.constexprs, *self.scalars, *parameters]
                help_text = did_you_mean(name, known, "names")
                raise KernBenchError.usage("E_BENCH_NAME", f"there is no `{name}` to set", help=help_text)

    def __getitem__(self, name: str) -> Any:
        if name not in self._done:
            if name in self._active:
                chain = " → ".join([*self._active[self._active.index(name) :], name])
                raise ExpressionError("E_BENCH_CYCLE", f"values need each other: {chain}")
            raw = self._raw[name]
            if len(self._active) >= MAX_CHAIN:
                raise ExpressionError("E_BENCH_CYCLE", f"more than {MAX_CHAIN} values need each other in one chain")
            self._active.append(name)
            outside, self._met_broken = self._met_broken, False
            try:
                self._done[name] = self._of_text(name, raw) if isinstance(raw, str) else self._of_node(raw)
            finally:
                self._active.pop()
            if self._met_broken:
                self._broken.add(name)
            self._met_broken = outside
        self._met_broken |= name in self._broken
        return self._done[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def _of_text(self, name: str, text: str) -> Any:
        """The value of a `--set`."""
        try:
            return evaluate(parse_expression(text), self)
        except ExpressionError as wrong:
            raise KernBenchError([wrong.diagnostic(f"--set {name}")], EXIT_USAGE) from None

    def _of_node(self, node: Node) -> Any:
        if isinstance(node.value, dict):
            return self._typed(node)
        return self.value(node)

    def _typed(self, node: Node) -> Any:
        """`{value: 1, dtype: fp16}`: a scalar of a stated type."""
        value, dtype = node.get("value"), node.get("dtype")
        assert isinstance(node.value, dict)
        if value is None or dtype is None or len(node.value) != 2:
            self.report(node, "E_BENCH_VALUE", "a typed scalar is {value: ..., dtype: ...}")
            return 1
        known = dtypes.BY_NAME.get(str(dtype.value))
        if known is None or known.name not in _TYPED_SCALARS:
            help_text = f"types are {', '.join(_TYPED_SCALARS)}"
            self.report(dtype, "E_BENCH_VALUE", f"{dtype.shown} is no type of a scalar", help_text)
            return 1
        try:
            return _TYPED_SCALARS[known.name](self.value(value))
        except (OverflowError, TypeError, ValueError):
            self.report(value, "E_BENCH_VALUE", f"{value.shown} does not fit {known.name}")
            return 1

    def value(self, node: Node) -> Any:
        """What a plain value or expression stands for."""
        if isinstance(node.value, str):
            return self.expression(node, node.value, self)
        if isinstance(node.value, tuple):
            return tuple(self.value(element) for element in whole_expressions(node.value))
        if isinstance(node.value, dict):
            self.report(node, "E_BENCH_VALUE", f"`{node.path}` is a mapping, not a value")
            return 1
        return float(node.value) if isinstance(node.value, Decimal) else node.value

    def expression(self, node: Node, text: str, names: Mapping[str, Any]) -> Any:
        outside, self._met_broken = self._met_broken, False
        try:
            value = evaluate(parse_expression(text), names)
        except ExpressionError as wrong:
            help_text = wrong.help
            if wrong.code == "E_EXPRESSION_NAME" and text.isidentifier():
                help_text = f"a text is written \"'{text}'\"; {wrong.help}"
            self.report(node, wrong.code, wrong.message, help_text)
        value = 1 if self._met_broken else value
        self._met_broken |= outside
        return value

    def integer(self, node: Node, what: str, low: int = 0) -> int:
        value = self.value(node)
        if isinstance(value, float | np.generic) and float(value).is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            self.report(node, "E_BENCH_VALUE", f"{what} is {value!r}, expected an integer from {low} on")
            return low
        return value

    def report(self, node: Node, code: str, message: str, help: str | None = None) -> None:
        self._met_broken = True
        self.sink.add(error(code, message, node.label(), path=node.path or None, help=help))


class Files:
    """NumPy files that a bench names, relative to it; nothing of them is ever unpickled."""

    def __init__(self, folder: Path, sink: Sink) -> None:
        self.folder, self.sink = folder, sink

    def load(self, node: Node) -> Array | None:
        if not isinstance(node.value, str):
            self._refuse(node, f"a file name is {node.kind}")
            return None
        try:
            made: Array = np.lib.format.open_memmap(self.folder / node.value, mode="r")
        except (OSError, ValueError, EOFError, MemoryError) as wrong:
            reason = (str(getattr(wrong, "strerror", None) or wrong).splitlines() or ["it cannot be read"])[0]
            self._refuse(node, f"cannot read `{node.value}`: {reason.lower()}")
            return None
        if made.dtype.kind not in "biuf":
            self._refuse(node, f"`{node.value}` holds no array of numbers")
            return None
        return made

    def _refuse(self, node: Node, message: str) -> None:
        self.sink.add(error("E_BENCH_FILE", message, node.label(), path=node.path))
