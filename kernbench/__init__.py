"""KernBench: kernels compiled to readable device commands, run with real numbers and real time.

    import kernbench as kb

    device = kb.open("ahbm_4x4")
    kernel = kb.compile("kernels/softmax.tl", constexprs={"BLOCK": 1024})
    run = device.run(kernel, args={"x": x, "y": y, "n_cols": 781}, grid=(1823,))

Names are loaded when they are first used, so that `kernbench --help` need not wait for NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernbench.diagnostics import Diagnostic as Diagnostic
    from kernbench.diagnostics import KernBenchError as KernBenchError
    from kernbench.kernel import Kernel as Kernel
    from kernbench.run import Run as Run
    from kernbench.runtime.arguments import TensorDescriptor as TensorDescriptor
    from kernbench.runtime.placement import on as on
    from kernbench.runtime.placement import replicate as replicate
    from kernbench.runtime.placement import shard as shard
    from kernbench.session import Device as Device
    from kernbench.session import compile as compile
    from kernbench.session import open as open
    from kernbench.sim.topology import load_topology as load_topology

    __version__: str

_HOMES = {
    "Diagnostic": "kernbench.diagnostics",
    "KernBenchError": "kernbench.diagnostics",
    "Kernel": "kernbench.kernel",
    "Run": "kernbench.run",
    "TensorDescriptor": "kernbench.runtime.arguments",
    "on": "kernbench.runtime.placement",
    "replicate": "kernbench.runtime.placement",
    "shard": "kernbench.runtime.placement",
    "Device": "kernbench.session",
    "compile": "kernbench.session",
    "open": "kernbench.session",
    "load_topology": "kernbench.sim.topology",
}


def __getattr__(name: str) -> Any:
    """A name of the table above, the version, or an element type under Triton's name (`float16`)."""
    if name == "__version__":
        return importlib.import_module("kernbench.version").VERSION
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if not name.startswith("_"):
        found = _element_types().get(name)
        if found is not None:
            return found
    raise AttributeError(f"module `kernbench` has no `{name}`")


def _element_types() -> dict[str, Any]:
    return {dtype.triton: dtype for dtype in importlib.import_module("kernbench.dtypes").ALL}


def __dir__() -> list[str]:
    return sorted([*_HOMES, *_element_types(), "__version__"])
