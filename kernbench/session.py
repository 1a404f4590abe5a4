"""What people call from Python: compile a kernel, open a device, run the one on the other.

    device = open("ahbm_4x4")
    kernel = compile("kernels/softmax.tl", constexprs={"BLOCK": 1024})
    run = device.run(kernel, args={"x": x, "y": y, "n_cols": 781}, grid=(1823,))

Does not know the command line, and prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from kernbench.commands import Target
from kernbench.compiler.source import SourceText
from kernbench.diagnostics import EXIT_INPUT, EXIT_USAGE, KernBenchError, did_you_mean, shown
from kernbench.dtypes import DType
from kernbench.kernel import Kernel, make_kernel, named_values
from kernbench.launch import Launch
from kernbench.run import Run
from kernbench.run_arguments import RunArguments
from kernbench.runtime.arguments import grid_of
from kernbench.runtime.errors import error
from kernbench.runtime.placement import DeviceShape, Placement
from kernbench.sim.engine import Limits
from kernbench.sim.launch_context import Mode, Sanitize
from kernbench.sim.topology import load_topology
from kernbench.sim.topology_graph import TopologyGraph

OPTIONS = ("hops", "sanitize", "limits", "on_progress")  # of a device, as the engine takes them
SANITIZE: tuple[str, ...] = get_args(Sanitize)
MODES: dict[str, Mode] = {"data": "data", "timing": "timing"}


def compile(
    source: str | Path | SourceText,
    constexprs: Mapping[str, Any] | None = None,
    signature: Mapping[str, str] | None = None,
    target: Target | Device | str | Path | None = None,
    opt_level: int = 1,
    dump_after: str | Iterable[str] = (),
    dump_dir: str | Path | None = None,
    **more_constexprs: Any,
) -> Kernel:
    """A kernel of a file (`"file.tl"`, `"file.py::name"`) or of a text with line ends.

    With a `signature` (`{"x": "*fp32", "n": "i32"}`) it is finished at once, else when a run shows the types.
    """
    given = _joined(named_values("constexprs", constexprs), more_constexprs)
    where = target if target is None or isinstance(target, Target) else _device(target).target
    return make_kernel(source, given, signature, where, opt_level, dump_after, dump_dir)


def _device(target: Device | str | Path) -> Device:
    return target if isinstance(target, Device) else open(target)


def _joined(named: Mapping[str, Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Values given in a mapping and as keywords."""
    twice = [name for name in keywords if name in named]
    if twice:
        raise KernBenchError([error("E_ARG_TWICE", f"`{name}` is given twice") for name in twice], EXIT_INPUT)
    return {**named, **keywords}


def open(topology: str | Path | TopologyGraph, **options: Any) -> Device:
    """A device of a shipped topology, of a file, or of a topology that is loaded already.

    `options` are the engine's: hops, sanitize ("warn", "error" or "off"), limits, on_progress.
    """
    wrong = [
        error("E_OPTION_UNKNOWN", f"a device has no option `{name}`", help=did_you_mean(name, OPTIONS, "options"))
        for name in options
        if name not in OPTIONS
    ]
    level = options.get("sanitize", "warn")
    if not isinstance(level, str) or level not in SANITIZE:
        help_text = did_you_mean(shown(level), SANITIZE, "values")
        wrong.append(error("E_OPTION_VALUE", f"`sanitize` is {shown(level)}", help=help_text))
    if (limits := options.get("limits")) is not None and not isinstance(limits, Limits):
        wrong.append(error("E_OPTION_VALUE", f"`limits` is {shown(limits)}", help="pass a kernbench.sim.engine.Limits"))
    if wrong:
        raise KernBenchError(wrong, EXIT_USAGE)
    graph = topology if isinstance(topology, TopologyGraph) else load_topology(topology)
    return Device(graph, options)


class Device:
    """A topology to run kernels on. Each run has a fresh device of its own, so runs do not see each other."""

    def __init__(self, graph: TopologyGraph, options: Mapping[str, Any] | None = None) -> None:
        self.graph = graph
        self.options = dict(options or {})

    @property
    def name(self) -> str:
        return self.graph.spec.name

    @property
    def shape(self) -> DeviceShape:
        spec = self.graph.spec
        cubes = spec.sip.cube_mesh.w * spec.sip.cube_mesh.h
        return DeviceShape(spec.sip.count, cubes, spec.cube.pes, spec.cube.hbm.capacity_bytes)

    @property
    def target(self) -> Target:
        pe = self.graph.spec.pe
        tile = pe.pe_gemm.tile
        return Target(
            tcm_bytes=pe.tcm.capacity_bytes,
            gemm_tile=(tile.m, tile.k, tile.n),
            tile_buffers=pe.tcm.tile_buffers,
            dtypes=tuple(pe.pe_gemm.macs_per_cycle),
        )

    def run(
        self,
        kernel: Kernel,
        args: Mapping[str, Any] | None = None,
        grid: Any = None,
        placements: Mapping[str, Placement] | None = None,
        dtypes: Mapping[str, str | DType] | None = None,
        mode: str = "data",
        **more_args: Any,
    ) -> Run:
        """Upload the arrays, deploy the kernel, launch it, read back what it may have stored to."""
        if not isinstance(mode, str) or mode not in MODES:
            help_text = did_you_mean(shown(mode), tuple(MODES), "modes")
            raise KernBenchError.usage("E_MODE", f"the mode is {shown(mode)}", help=help_text)
        if not isinstance(kernel, Kernel):
            help_text = "pass what `kb.compile` gives"
            raise KernBenchError.usage("E_ARG_FORM", f"the kernel is {shown(kernel)}", help=help_text)
        values = _joined(named_values("args", args), more_args)
        places, casts = named_values("placements", placements), named_values("dtypes", dtypes)
        arguments = RunArguments(kernel, values, places, casts)
        axes = grid_of(grid, {**kernel.constexprs, **arguments.constexprs})
        compiled = kernel.specialise(arguments.signature, arguments.constexprs, self.target)
        return Launch(self, kernel, compiled, arguments, axes, MODES[mode]).run()
