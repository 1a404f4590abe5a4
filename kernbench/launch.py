"""One run of a kernel on a fresh device: place and upload, deploy, launch, read back.

Does not know how a kernel was compiled, nor how its arguments came to their types.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from kernbench.commands import walk
from kernbench.compiler.pipeline import CompiledKernel
from kernbench.diagnostics import EXIT_INPUT, EXIT_INTERRUPTED, EXIT_SIMULATION, Diagnostic, KernBenchError, Span
from kernbench.kernel import Kernel
from kernbench.messages import ScalarArg, Tag
from kernbench.run import Run, type_name
from kernbench.run_arguments import RunArguments
from kernbench.runtime.api import DeviceTensor, Runtime, failure_of
from kernbench.runtime.arguments import TensorArgument
from kernbench.runtime.errors import error
from kernbench.runtime.placement import CopiesOn, Placement, Shard, resolve, told_of
from kernbench.runtime.tensor import Array, HostTensor, host_tensor
from kernbench.sim.engine import GraphEngine, without_garbage_collection
from kernbench.sim.host_request import Handle
from kernbench.sim.launch_context import Mode
from kernbench.stores import stored_params

if TYPE_CHECKING:
    from kernbench.session import Device


_MAX_OVERLAP_WORK = 100_000  # of the search for a common element of two views; what takes longer counts as shared


class Launch:
    """One run, on a device of its own."""

    def __init__(
        self,
        device: Device,
        kernel: Kernel,
        compiled: CompiledKernel,
        arguments: RunArguments,
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
        """A device fault at the kernel line that caused it, with the calls of helpers that lead there."""
        fault = handle.fault
        if fault is None or fault.span is None:
            return failure
        text, help = fault.hint or ("", None)
        primary, *calls = self.compiled.imports.labels(self._as_called(fault.span), text)
        return Diagnostic(fault.code, fault.message, primary, tuple(calls), notes=fault.more, help=help)

    def _as_called(self, span: Span) -> Span:
        """A place in a helper as calls lead to it; the device knows the place alone, so only where one way does."""
        ways = {node.span.calls for node in walk(self.compiled.program.body) if node.span and node.span == span}
        return span.within(ways.pop()) if len(ways) == 1 else span

    def _value(self, param: str) -> DeviceTensor | ScalarArg:
        if param in self.tensors:
            return self.tensors[param]
        name, *fact = param.split(".")
        if fact:
            return ScalarArg(dtype="i64", value=_fact(self.arguments.tensors[name].array, fact[0], int(fact[1])))
        return self.arguments.scalars[param].message()

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


def _fact(array: Array, what: str, axis: int) -> int:
    """What a descriptor says of its array: an extent, or a stride in elements."""
    return array.shape[axis] if what == "shape" else array.strides[axis] // array.itemsize


def _overlap(a: Array, b: Array) -> bool:
    try:
        return bool(np.shares_memory(a, b, max_work=_MAX_OVERLAP_WORK))  # type: ignore[arg-type]  # any number, NumPy's manual says
    except np.exceptions.TooHardError:
        return True


def _memory_of(array: Array) -> object:
    """Equal for two views of the same elements."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str, array.size == 0
