"""Compile, place, launch, read back: the one file that sees compiler, runtime and simulator.

    device = open("ahbm_4x4")
    kernel = compile("kernels/softmax.tl", constexprs={"BLOCK": 1024})
    run = device.run(kernel, args={"x": x, "y": y, "n_cols": 781}, grid=(1823,))

Does not know the command line, and prints nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np

from kernbench.commands import Target
from kernbench.compiler.pipeline import CompiledKernel
from kernbench.compiler.source import SourceText
from kernbench.diagnostics import (
    EXIT_INPUT,
    EXIT_INTERRUPTED,
    EXIT_SIMULATION,
    EXIT_USAGE,
    Diagnostic,
    KernBenchError,
    did_you_mean,
    shown,
)
from kernbench.dtypes import BY_NAME, DType
from kernbench.kernel import Kernel, make_kernel, named_values, unknown_parameter
from kernbench.messages import ScalarArg, Tag
from kernbench.run import Run, type_name
from kernbench.runtime.api import DeviceTensor, Runtime, failure_of
from kernbench.runtime.arguments import (
    Argument,
    ConstexprArgument,
    ScalarArgument,
    TensorArgument,
    classify,
    grid_of,
)
from kernbench.runtime.errors import error
from kernbench.runtime.placement import (
    CopiesOn,
    DeviceShape,
    Placement,
    Shard,
    resolve,
    told_of,
)
from kernbench.runtime.tensor import Array, HostTensor, host_tensor
from kernbench.sim.engine import GraphEngine, Limits, without_garbage_collection
from kernbench.sim.host_request import Handle
from kernbench.sim.launch_context import Mode, Sanitize
from kernbench.sim.topology import load_topology
from kernbench.sim.topology_graph import TopologyGraph
from kernbench.stores import stored_params

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
        arguments = _Arguments(kernel, values, places, casts)
        axes = grid_of(grid, {**kernel.constexprs, **arguments.constexprs})
        compiled = kernel.specialise(arguments.signature, arguments.constexprs, self.target)
        return _Launch(self, kernel, compiled, arguments, axes, MODES[mode]).run()


class _Arguments:
    """The arguments of one run, typed; everything that is wrong with them is told together."""

    def __init__(
        self,
        kernel: Kernel,
        values: Mapping[str, Any],
        placements: Mapping[str, Placement],
        casts: Mapping[str, str | DType],
    ) -> None:
        self.kernel, self.placements = kernel, placements
        self.found: dict[str, Argument] = {}
        self.wrong: list[Diagnostic] = []
        self._check_names(values, placements, casts)
        for name, place in placements.items():
            if not isinstance(place, Placement):
                text = f"the placement of `{name}` is {shown(place)}"
                self.wrong.append(error("E_PLACEMENT", text, help="use kb.replicate(), kb.shard(...) or kb.on(...)"))
        for name, value in values.items():
            if kernel.parameters.get(name):
                self.found[name] = ConstexprArgument(value)
            elif name in kernel.parameters:
                self._classify(name, value, casts.get(name))
        for name in placements:
            if name in self.found and not isinstance(self.found[name], TensorArgument):
                text = f"a placement is given for `{name}`, which is no array"
                self.wrong.append(error("E_PLACEMENT", text, help="only arrays lie in memory; leave it out"))
        if self.wrong:
            raise KernBenchError(self.wrong, EXIT_INPUT)

    def _check_names(self, values: Mapping[str, Any], *others: Mapping[str, Any]) -> None:
        known = list(self.kernel.params)
        for name in dict.fromkeys([*values, *(name for other in others for name in other)]):
            if name not in known:
                self.wrong.append(unknown_parameter(name, self.kernel.function, known))
        for name in values:
            if name in self.kernel.constexprs:
                self.wrong.append(error("E_ARG_TWICE", f"`{name}` is a constexpr of the kernel and an argument"))
        for param in self.kernel.function.params:
            bound = param.name in values or param.name in self.kernel.constexprs
            if not bound and not param.is_constexpr and param.default is None:
                text = f"kernel `{self.kernel.name}` has no argument for its parameter `{param.name}`"
                self.wrong.append(error("E_ARG_MISSING", text, self.kernel.source.label(param.span, "this parameter")))

    def _classify(self, name: str, value: Any, cast: str | DType | None) -> None:
        pinned = self.kernel.pinned.get(name)
        try:
            made = classify(name, value, cast, pinned)
        except KernBenchError as wrong:
            self.wrong.extend(wrong.diagnostics)
            return
        if isinstance(made, TensorArgument) and pinned is not None and not _same_type(pinned, made.signature):
            text = f"argument `{name}` is {made.signature}, and the kernel was compiled for {pinned}"
            self.wrong.append(error("E_ARG_DTYPE", text))
        self.found[name] = made

    @property
    def signature(self) -> dict[str, str]:
        return {n: a.signature for n, a in self.found.items() if not isinstance(a, ConstexprArgument)}

    @property
    def constexprs(self) -> dict[str, Any]:
        return {n: a.value for n, a in self.found.items() if isinstance(a, ConstexprArgument)}

    @property
    def tensors(self) -> dict[str, TensorArgument]:
        return {n: a for n, a in self.found.items() if isinstance(a, TensorArgument)}

    @property
    def scalars(self) -> dict[str, ScalarArgument]:
        return {n: a for n, a in self.found.items() if isinstance(a, ScalarArgument)}

    def scalar(self, name: str) -> ScalarArgument:
        return self.scalars[name]


def _same_type(pinned: str, signature: str) -> bool:
    named = BY_NAME.get(pinned.removeprefix("*").split(":")[0])
    return pinned.startswith("*") and named is not None and f"*{named}" == signature


def _fact(array: Array, what: str, axis: int) -> int:
    """What a descriptor says of its array: an extent, or a stride in elements."""
    return array.shape[axis] if what == "shape" else array.strides[axis] // array.itemsize


class _Launch:
    """One run, on a device of its own."""

    def __init__(
        self,
        device: Device,
        kernel: Kernel,
        compiled: CompiledKernel,
        arguments: _Arguments,
        grid: tuple[int, ...] | None,
        mode: Mode,
    ) -> None:
        self.device, self.kernel, self.compiled = device, kernel, compiled
        self.arguments, self.grid = arguments, grid
        self.engine = GraphEngine(device.graph, mode=mode, **device.options)
        self.runtime = Runtime(self.engine, device.shape)
        self.targets = self._targets()
        self.tensors: dict[str, DeviceTensor] = {}
        self.result = Run(
            kernel=kernel.name,
            topology=device.name,
            mode=mode,
            config_hash=device.graph.config_hash,
            sent=self.runtime.sent,
            phases_ps=self.runtime.phases_ps,
            compiled=compiled,
        )

    def run(self) -> Run:
        found: list[Diagnostic] = [*self.kernel.remarks, *self.compiled.diagnostics]
        exit_code = EXIT_SIMULATION
        try:
            with without_garbage_collection():
                self._upload()
                self._launch(found)
                self._read_back(found)
        except KernBenchError as wrong:  # a request that failed, or a tensor without room
            failed_launch = any(each.severity == "error" for each in found)
            exit_code = EXIT_SIMULATION if failed_launch else wrong.exit_code
            found.extend(wrong.diagnostics)
        except KeyboardInterrupt:
            found.append(
                error("E_INTERRUPTED", f"the run of `{self.kernel.name}` was interrupted{self.engine.whereabouts}")
            )
            exit_code = EXIT_INTERRUPTED
        found.extend(self.compiled.imports.shown(each) for each in self.engine.diagnostics)
        self.result.diagnostics = tuple(dict.fromkeys(found))
        self.result.op_log = self.engine.op_log
        errors = [each for each in self.result.diagnostics if each.severity == "error"]
        if errors:
            raise KernBenchError(errors, exit_code, run=self.result)
        return self.result

    # -- before the launch

    def _targets(self) -> tuple[Tag, ...]:
        """With a grid every PE; without one those of the tensors whose place was stated, or every PE."""
        shape = self.device.shape
        everywhere = tuple(itertools.product(range(shape.sips), range(shape.cubes), range(shape.pes)))
        stated = self.arguments.placements
        if self.grid is not None or not stated:
            return everywhere
        tensors = self.arguments.tensors
        found: set[Tag] = set()
        for name in stated:
            host = self._host(name, tensors[name], stated[name])
            with told_of(name):
                found |= {piece.tag for piece in resolve(host.placement, host.shape, host.dtype.nbytes, shape)}
        return tuple(sorted(found))

    def _host(self, name: str, tensor: TensorArgument, default: Placement) -> HostTensor:
        return host_tensor(name, tensor.array, tensor.dtype, self.arguments.placements.get(name), default)

    def _upload(self) -> None:
        """Place every tensor, then write them; an array that is given twice is one tensor."""
        default = CopiesOn(self.targets) if self.grid is None else Shard(0)
        known: dict[object, DeviceTensor] = {}
        for name, tensor in self.arguments.tensors.items():
            place = self.arguments.placements.get(name, default)
            key = (_memory_of(tensor.array), tensor.dtype, place)
            if key not in known:
                known[key] = self.runtime.place(self._host(name, tensor, default))
            self.tensors[name] = known[key]
        self._check_shared()
        for placed in known.values():
            self.runtime.upload(placed)

    def _check_shared(self) -> None:
        """Arrays that overlap and are two tensors on the device must not be stored to."""
        stored = stored_params(self.compiled.program)
        arrays = {name: tensor.array for name, tensor in self.arguments.tensors.items()}
        shared = [
            (a, b)
            for a, b in itertools.combinations(arrays, 2)
            if self.tensors[a] is not self.tensors[b]
            and (a in stored or b in stored)
            and _overlap(arrays[a], arrays[b])
        ]
        if shared:
            text = "`{}` and `{}` share memory that the kernel stores to, and are not one tensor"
            help_text = "give both the same array with one placement, or a copy to one of them"
            raise KernBenchError(
                [error("E_ARG_SHARED", text.format(*pair), help=help_text) for pair in shared], EXIT_INPUT
            )

    def _launch(self, found: list[Diagnostic]) -> None:
        binary = self.compiled.binary
        assert binary is not None, "a kernel for a target has a binary"
        kernel = self.runtime.deploy(self.compiled.program.name, binary.code, self.targets[0])
        args = {param.name: self._value(param.name) for param in self.compiled.program.params}
        handle = self.runtime.launch(kernel, args, self.grid, self.targets, binary.debug)
        assert isinstance(handle, Handle), "the engine gives handles of its own"
        self.result.handle = handle
        if handle.results:
            self.result.times = self.engine.summary(handle)
        failure = failure_of(handle, f"the launch of `{kernel.name}`")
        if failure is not None:
            found.append(self._located(failure, handle))

    def _located(self, failure: Diagnostic, handle: Handle) -> Diagnostic:
        """A device fault at the kernel line that caused it."""
        fault = handle.fault
        if fault is None or fault.span is None:
            return failure
        text, help = fault.hint or ("", None)
        label = self.compiled.imports.label(fault.span, text)
        return Diagnostic(fault.code, fault.message, label, notes=fault.more, help=help)

    def _value(self, param: str) -> DeviceTensor | ScalarArg:
        if param in self.tensors:
            return self.tensors[param]
        name, *fact = param.split(".")
        if fact:
            return ScalarArg(dtype="i64", value=_fact(self.arguments.tensors[name].array, fact[0], int(fact[1])))
        return self.arguments.scalar(param).message()

    # -- after it

    def _read_back(self, found: list[Diagnostic]) -> None:
        stored = stored_params(self.compiled.program)
        changed = {id(self.tensors[name]) for name in stored}
        done: dict[int, Array | None] = {}
        for name, tensor in self.tensors.items():
            if id(tensor) not in done:
                done[id(tensor)] = self._final(tensor, id(tensor) in changed, found)
            array = done[id(tensor)]
            self.result.arrays[name] = array
            source = self.arguments.tensors[name].array
            self.result.shapes[name] = (tuple(source.shape), type_name(source))
        self.result.stored = tuple(name for name in self.tensors if id(self.tensors[name]) in changed)

    def _final(self, tensor: DeviceTensor, changed: bool, found: list[Diagnostic]) -> Array | None:
        """The array as the device left it; what no store can reach is as it was sent."""
        if not changed:
            return tensor.host.restore(tensor.host.placed())
        array, differ = self.runtime.read(tensor)
        if differ:
            text = f"the copies of `{tensor.host.name}` differ after the launch; the first one's is given"
            found.append(error("W_COPIES_DIFFER", text, severity="warning"))
        return array


MAX_OVERLAP_WORK = 100_000  # of the search for a common element of two views; what takes longer counts as shared


def _overlap(a: Array, b: Array) -> bool:
    try:
        return bool(np.shares_memory(a, b, max_work=MAX_OVERLAP_WORK))  # type: ignore[arg-type]  # any number, NumPy's manual says
    except np.exceptions.TooHardError:
        return True


def _memory_of(array: Array) -> object:
    """Equal for two views of the same elements."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str, array.size == 0
