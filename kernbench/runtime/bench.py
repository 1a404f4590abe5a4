"""Bench files: what to run beside a kernel and what must come out, resolved to arrays, numbers and references.

Knows the file's keys, expressions and NumPy. Does not know kernels, devices or how anything is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernbench.diagnostics import EXIT_INPUT, Diagnostic, KernBenchError, Sink, did_you_mean
from kernbench.runtime.bench_schema import BenchKeys, BenchText, read_bench_text, read_case
from kernbench.runtime.bench_tensors import TensorEntry, TensorSpec
from kernbench.runtime.bench_values import Files, Values, whole_expressions
from kernbench.runtime.errors import error
from kernbench.runtime.expressions import ExpressionError
from kernbench.runtime.init import generator, initial
from kernbench.runtime.placement import Placement
from kernbench.runtime.reference import Reference
from kernbench.runtime.tensor import Array
from kernbench.yaml_source import Node

DEFAULT_TOPOLOGY = "ahbm_4x4"


@dataclass(frozen=True)
class BenchCase:
    """One case, resolved: everything that a run needs, and the references to hold its results against."""

    name: str | None
    bench: Path
    kernel: str  # path, with ::name where the bench has one
    topology: str | None
    opt_level: int
    seed: int
    constexprs: dict[str, Any]
    scalars: dict[str, Any]
    tensors: dict[str, TensorSpec]
    grid: tuple[int, ...] | None
    references: dict[str, Reference]
    rtol: float
    atol: float
    remarks: tuple[Diagnostic, ...] = field(default=(), compare=False)  # what stops no run
    _arrays: dict[str, Array] = field(default_factory=dict, repr=False, compare=False)

    def arrays(self) -> Mapping[str, Array]:
        """The tensors' initial values in their device types, made once."""
        for name, spec in self.tensors.items():
            if name not in self._arrays:
                rng = generator(self.seed, name)
                self._arrays[name] = initial(spec.init, spec.shape, spec.dtype, rng)
        return self._arrays

    @property
    def placements(self) -> dict[str, Placement]:
        return {n: spec.placement for n, spec in self.tensors.items() if spec.placement is not None}

    def check(self, results: Mapping[str, Array]) -> dict[str, dict[str, Any]]:
        """Each result with a reference: `{ok, max_abs_err, max_rel_err}`, and where it differs if it does."""
        names = {**self.constexprs, **self.scalars, **self.arrays()}
        return {
            name: reference.check(results[name], names, self.tensors[name].dtype, self.rtol, self.atol)
            for name, reference in self.references.items()
        }


def bench_beside(kernel: Path) -> Path | None:
    """The bench file that stands beside a kernel file, if any."""
    found = kernel.with_suffix(".yaml")
    return found if found.is_file() else None


def load_bench(
    path: Path,
    case: str | None = None,
    sets: Mapping[str, str] | None = None,
    seed: int = 0,
    shown_as: str | None = None,
    parameters: Mapping[str, bool] | None = None,
) -> BenchCase:
    """A case of a bench file (the file's own keys where `case` is None), with the values of `sets` put over it.

    `parameters` says of each parameter of the kernel whether it is a constexpr, so that `sets` may give one that
    the file does not name.
    """
    sink = Sink()
    text = read_bench_text(path, shown_as or str(path), sink)
    if text is None or sink.errors:
        raise KernBenchError(sink.errors, EXIT_INPUT)
    if case is not None and case not in text.cases:
        help_text = did_you_mean(case, tuple(text.cases), "cases")
        raise KernBenchError.usage("E_BENCH_CASE", f"`{text.shown_as}` has no case `{case}`", help=help_text)
    made = _resolve(text, case, dict(sets or {}), seed, parameters or {}, sink)
    if made is None or sink.errors:
        raise KernBenchError(sink.errors, EXIT_INPUT)
    return made


def check_bench(path: Path, shown_as: str | None = None) -> list[Diagnostic]:
    """Everything that is wrong with a bench file, in all its cases."""
    sink = Sink()
    text = read_bench_text(path, shown_as or str(path), sink)
    if text is not None and not sink.errors:
        for case in (None, *text.cases):
            _resolve(text, case, {}, 0, {}, sink)
    return sink.diagnostics


def case_names(path: Path, shown_as: str | None = None) -> tuple[str, ...]:
    sink = Sink()
    text = read_bench_text(path, shown_as or str(path), sink)
    return () if text is None else tuple(text.cases)


def kernel_word(path: Path, shown_as: str | None = None) -> str:
    """What a bench file says as its `kernel:`; "" where it does not say so in a text."""
    text = read_bench_text(path, shown_as or str(path), Sink())
    node = None if text is None else text.root.get("kernel")
    return node.value if node is not None and isinstance(node.value, str) else ""


def _resolve(
    text: BenchText,
    case: str | None,
    sets: Mapping[str, str],
    seed: int,
    parameters: Mapping[str, bool],
    sink: Sink,
) -> BenchCase | None:
    keys = read_case(text, case, sink)
    if keys is None:
        return None
    values = Values(keys, sets, parameters, sink)
    constexprs = {name: values[name] for name in values.constexprs}
    scalars = {name: values[name] for name in values.scalars}
    files = Files(text.path.parent, sink)
    tensors: dict[str, TensorSpec] = {}
    for name, tensor in (keys.tensors or {}).items():
        spec = TensorEntry(name, tensor, values, files).spec()
        if spec is not None:
            tensors[name] = spec
    references = _references(keys, values, files, sink)
    grid = _grid(keys.grid, values)
    return BenchCase(
        case,
        text.path,
        str(text.path.parent / keys.kernel),
        keys.topology,
        keys.opt,
        seed if keys.seed is None else keys.seed + seed,
        constexprs,
        scalars,
        tensors,
        grid,
        references,
        float(keys.tolerance.rtol),
        float(keys.tolerance.atol),
    )


def _grid(node: Node | None, values: Values) -> tuple[int, ...] | None:
    if node is None or node.value is None:
        return None
    axes = whole_expressions(node.value) if isinstance(node.value, tuple) else (node,)
    if not 1 <= len(axes) <= 3:
        values.report(node, "E_GRID", f"a grid has {len(axes)} axes, expected one to three")
        return None
    return tuple(values.integer(axis, "a number of programs") for axis in axes)


def _references(keys: BenchKeys, values: Values, files: Files, sink: Sink) -> dict[str, Reference]:
    found: dict[str, Reference] = {}
    for name, node in (keys.expect or {}).items():
        if name not in (keys.tensors or {}):
            help_text = did_you_mean(name, tuple(keys.tensors or {}), "tensors")
            sink.add(error("E_BENCH_NAME", f"`{name}` is no tensor", node.key_label(), path=node.path, help=help_text))
            continue
        made = _reference(node, {*values, *(keys.tensors or {})}, files, values)
        if made is not None:
            found[name] = made
    return found


def _reference(node: Node, names: set[str], files: Files, values: Values) -> Reference | None:
    if isinstance(node.value, dict):
        file = node.get("npy")
        if file is None or len(node.value) != 1:
            values.report(node, "E_BENCH_VALUE", "a reference is an expression or {npy: file}")
            return None
        array = files.load(file)
        return None if array is None else Reference(node.path, node.label(), array=array)
    text = node.value if isinstance(node.value, str) else str(node.value)
    try:
        return Reference.of_text(node.path, node.label(), text, names)
    except ExpressionError as wrong:
        values.report(node, wrong.code, wrong.message, wrong.help)
        return None
