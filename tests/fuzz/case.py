"""One input to try: a kernel text with the arguments of a launch, and the shipped kernels as such inputs.

Knows bench files. Does not know how an input is varied or judged.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernbench.data_files import data_dir
from kernbench.kernel import Kernel, read_kernel_file
from kernbench.runtime.arguments import TensorDescriptor
from kernbench.runtime.bench import BenchCase, case_names, load_bench
from kernbench.runtime.placement import Placement

MAX_LAUNCHED = 4  # programs of an axis, so that a case stays short


@dataclass(frozen=True)
class Case:
    """`function` is None where the file's only kernel is meant."""

    text: str
    inputs: Mapping[str, Any]
    grid: Any = (1,)
    function: str | None = None
    placements: Mapping[str, Placement] | None = None
    topology: str = "ahbm_1x1"
    file: str = "k.tl"

    def bound(self, kernel: Kernel) -> dict[str, Any]:
        """What the kernel is launched with: the inputs that it has parameters for, and something for the others."""
        found = {name: self.inputs[name] for name in kernel.params if name in self.inputs}
        for param in kernel.function.params:
            if param.name not in found and param.default is None:
                found[param.name] = _made_up(param.name, param.is_constexpr)
        return found

    def shown(self) -> str:
        lines = [f"# {name} = {_shown(value)}" for name, value in self.inputs.items()]
        return "\n".join([f"# grid={self.grid} on {self.topology}", *lines, self.text])


def _made_up(name: str, is_constexpr: bool) -> Any:
    if is_constexpr:
        return 16
    return np.ones(64, np.float32) if "ptr" in name or name.isupper() else 4


def _shown(value: Any) -> str:
    if isinstance(value, TensorDescriptor):
        return f"descriptor of {_shown(value.array)} in blocks of {value.block_shape}"
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)


@functools.cache
def shipped() -> tuple[Case, ...]:
    """Each bench that comes with the package, in its case `tiny` on few programs."""
    paths = sorted(data_dir("kernels").glob("*.yaml"))
    return tuple(of_bench(load_bench(path, "tiny")) for path in paths if "tiny" in case_names(path))


def of_bench(bench: BenchCase) -> Case:
    """A case of a bench file, on few programs."""
    file, _, function = bench.kernel.partition("::")
    text = read_kernel_file(Path(file)).text
    arrays = bench.arrays()
    described = {
        name: TensorDescriptor(arrays[name], spec.descriptor)
        for name, spec in bench.tensors.items()
        if spec.descriptor is not None
    }
    inputs = {**bench.constexprs, **bench.scalars, **arrays, **described}
    grid = None if bench.grid is None else tuple(min(axis, MAX_LAUNCHED) for axis in bench.grid)
    return Case(text, inputs, grid, function or None, bench.placements, bench.topology or "ahbm_1x1")
