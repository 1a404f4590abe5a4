"""The instructions of PE_CPU that leave it: dispatch, waits, scalars from TCM and from memory.

Knows what each asks of the scheduler and the network. Does not know how a composite or a DMA runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kernbench.commands import (
    Atomic,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Gather,
    Node,
    ReadScalar,
    Recv,
    ScalarLoad,
    ScalarStore,
    Scatter,
    Send,
    TensorHandle,
    Wait,
)
from kernbench.diagnostics import Span
from kernbench.dtypes import DType, cast
from kernbench.sim import part_io
from kernbench.sim.access_eval import Part, affine_ints
from kernbench.sim.access_form import scalar_part
from kernbench.sim.atomic_command import AtomicCommand
from kernbench.sim.composite_command import CompositeCommand
from kernbench.sim.composite_form import CompositeForm
from kernbench.sim.dma_command import DmaForm, checked_range, require_writable
from kernbench.sim.dma_command import Template as Dma
from kernbench.sim.engines.server import Origin
from kernbench.sim.faults import DeviceFault
from kernbench.sim.form_context import FormContext
from kernbench.sim.hazards import Range
from kernbench.sim.memory import UNKNOWN
from kernbench.sim.pe_code import Instruction, Reader
from kernbench.sim.pe_command import Command
from kernbench.sim.pe_messages import RecvStep, SendStep
from kernbench.sim.registers import Unknown, reader, require_known, tuple_reader
from kernbench.sim.topology_schema import PeSpec, ns_to_ps

if TYPE_CHECKING:
    from kernbench.sim.pe_cpu import PeCpu


def dispatch_ps(spec: PeSpec, logical_bytes: int) -> int:
    """Time from PE_CPU's start on a command until PE_SCHEDULER has it."""
    cost = spec.pe_cpu.dispatch
    top, bottom = cost.bytes_per_ns.as_integer_ratio()
    moving_ps = -(-logical_bytes * 1000 * bottom // top)
    return max(1, ns_to_ps(cost.fixed_ns) + moving_ps + ns_to_ps(spec.pe_scheduler.overhead_ns))


def make_command(node: Node, at: int, context: FormContext) -> Instruction:
    """The instruction of a command node."""
    match node:
        case CompositeTemplate():
            return DispatchStep(_CompositeMaker(node, context), node, at, context)
        case DmaRead() | DmaWrite() | Gather() | Scatter() | Atomic():
            return DispatchStep(_DmaMaker(node, context), node, at, context)
        case ReadScalar():
            return ReadScalarStep(node, at, context)
        case ScalarLoad():
            return ScalarLoadStep(node, at, context)
        case ScalarStore():
            return ScalarStoreStep(node, at, context)
        case Send():
            return SendStep(node, at, context, dispatch_ps(context.spec, node.logical_bytes))
        case Recv():
            return RecvStep(node, at, context, dispatch_ps(context.spec, node.logical_bytes))
        case Wait():
            return WaitStep(node, at, context)
        case _:
            raise AssertionError(f"{type(node).__name__} is no command")


# --------------------------------------------------------------------------- dispatch


class _Maker(Protocol):
    """A prepared template."""

    @property
    def used(self) -> tuple[int, ...]: ...

    def make(self, cpu: Reader, origin: Origin) -> Command: ...


class _CompositeMaker:
    __slots__ = ("form", "used")

    def __init__(self, node: CompositeTemplate, context: FormContext) -> None:
        self.form = CompositeForm(node, context)
        self.used = self.form.used

    def make(self, cpu: Reader, origin: Origin) -> Command:
        command = CompositeCommand.make(self.form, origin, cpu.program, cpu.registers, cpu.windows, cpu.parts)
        command.rings = cpu.rings
        return command


class _DmaMaker:
    __slots__ = ("form", "used")

    def __init__(self, node: Dma, context: FormContext) -> None:
        self.form = DmaForm(node, context)
        if isinstance(node, Atomic):
            self.form.command = AtomicCommand
        self.used = self.form.used

    def make(self, cpu: Reader, origin: Origin) -> Command:
        return self.form.make(origin, cpu.program, cpu.registers, cpu.windows, cpu.parts)


class DispatchStep:
    """Make a template concrete and hand it to PE_SCHEDULER."""

    __slots__ = ("_cost_ps", "_form", "_maker", "_nbytes", "_span", "next")

    def __init__(
        self, maker: _CompositeMaker | _DmaMaker, node: CompositeTemplate | Dma,
        at: int, context: FormContext,
    ) -> None:  # fmt: skip
        self._maker: _Maker = maker
        self._form = maker.form
        self._span = node.span
        self._nbytes = node.logical_bytes
        self._cost_ps = dispatch_ps(context.spec, self._nbytes)
        self.next = at + 1

    @property
    def can_be_skipped(self) -> bool:
        """Its commands do what their addresses and their own form say alone."""
        form = self._form
        if isinstance(form, CompositeForm):
            return form.is_local
        return not form.lazy and not isinstance(form.template, Atomic)

    def step(self, cpu: Reader) -> int:
        if self._maker.used:
            require_known(cpu.registers, self._maker.used, "an address", self._span)
        form = self._form
        origin = Origin(cpu.request, cpu.take_number(), form.src_id)
        try:
            command = self._maker.make(cpu, origin)
        except DeviceFault as fault:
            fault.span = fault.span or self._span
            raise
        return cpu.dispatch(command, self._cost_ps, form.name_id, self._nbytes, form.params_id, self.next)


# --------------------------------------------------------------------------- waits


class WaitStep:
    """Wait for the commands that touch some blocks, or for all."""

    __slots__ = ("_checked", "_node", "_src", "next")

    def __init__(self, node: Wait, at: int, context: FormContext) -> None:
        self._node = node
        fields = [value for handle in node.handles for value in (handle.address, *handle.strides)]
        self._checked = context.taint.of(*fields)
        self._src = context.place(node.span)
        self.next = at + 1

    def step(self, cpu: PeCpu) -> int:
        cpu.scalar(self._src)
        require_known(cpu.registers, self._checked, "an address", self._node.span)
        return cpu.at_local_time(self._wait, cpu, self.next)

    def _wait(self, cpu: PeCpu, after: int) -> None:
        scheduler, node = cpu.scheduler, self._node
        if not node.handles:
            commands = list(scheduler.live)
        else:
            commands = scheduler.touching([self._range(cpu, handle) for handle in node.handles])
        cpu.when_complete(commands, "wait", node.span, self._src, cpu.resume, after)

    def _range(self, cpu: PeCpu, handle: TensorHandle) -> Range:
        address, *strides = affine_ints((handle.address, *handle.strides), cpu.registers)
        return checked_range(handle, address, strides, cpu.parts.tcm.capacity_bytes)


class ReadScalarStep:
    """Wait for the commands that write a block of one element, and read it."""

    __slots__ = ("_address", "_checked", "_name", "_node", "_reads", "_src", "next")

    def __init__(self, node: ReadScalar, at: int, context: FormContext) -> None:
        self._node = node
        self._address = reader(node.src.address)
        self._checked = context.taint.of(node.src.address)
        self._reads = context.computes or node.static
        self._src = context.place(node.span)
        self._name = node.src.name
        self.next = at + 1

    def step(self, cpu: PeCpu) -> int:
        require_known(cpu.registers, self._checked, "an address", self._node.span)
        cpu.scalar(self._src)
        return cpu.at_local_time(self._wait, cpu)

    def _wait(self, cpu: PeCpu) -> None:
        address = self._address(cpu.registers)
        nbytes = self._node.src.dtype.nbytes
        ranges = [(address, address + nbytes)]
        commands = cpu.scheduler.touching(ranges, writers_only=True)
        cpu.when_complete(commands, "read_scalar", self._node.span, self._src, self._read, cpu, address)

    def _read(self, cpu: PeCpu, address: int) -> None:
        node = self._node
        tcm = cpu.parts.tcm
        if not self._reads or not tcm.knows(address, address + node.src.dtype.nbytes):
            cpu.registers[node.dst] = Unknown(self._name, node.span)
        else:
            cpu.registers[node.dst] = python_number(tcm.view(address, node.src.dtype, (1,), (1,)), node.src.dtype)
        cpu.resume(self.next)


def python_number(element: Any, dtype: DType) -> int | float:
    """The one element of an array as a register holds it."""
    value = element.reshape(()).astype(np.float64 if dtype.is_float else dtype.numpy).item()
    return float(value) if dtype.is_float else int(value)


# --------------------------------------------------------------------------- scalars in memory


class ScalarLoadStep:
    """Load one element from memory; PE_CPU stands still meanwhile."""

    __slots__ = ("_address", "_checked", "_name", "_node", "_other", "_preds", "_reads", "_src", "next")

    def __init__(self, node: ScalarLoad, at: int, context: FormContext) -> None:
        self._node = node
        self._address = reader(node.address)
        self._preds = tuple_reader(node.preds)
        self._other = reader(node.other)
        self._checked = context.taint.of(node.address, *node.preds)
        self._reads = context.computes or node.static
        self._src = context.place(node.span)
        self._name = context.taint.names[node.dst]
        self.next = at + 1

    def step(self, cpu: PeCpu) -> int:
        node = self._node
        require_known(cpu.registers, self._checked, "the address of a scalar load", node.span)
        cpu.scalar(self._src)
        if not all(self._preds(cpu.registers)):
            cpu.registers[node.dst] = self._other(cpu.registers)
            return self.next
        return cpu.at_local_time(self._wait, cpu)

    def _wait(self, cpu: PeCpu) -> None:
        node = self._node
        window, part = _scalar_place(cpu, self._address(cpu.registers), node.dtype, node.span)
        commands = cpu.scheduler.conflicting((part,), ())
        cpu.when_complete(commands, "scalar_load", node.span, self._src, self._move, cpu, part, window.name)

    def _move(self, cpu: PeCpu, part: Part, tensor: str) -> None:
        cpu.access_memory("read", part, "scalar_load", self._src, self._land, cpu, part, tensor)

    def _land(self, cpu: PeCpu, part: Part, tensor: str) -> None:
        node = self._node
        memory = cpu.parts.memory.slice(*part.place)
        cpu.watch_read(part, tensor, node.span)
        if not self._reads or (not cpu.parts.computes and part_io.part_has(memory, part, UNKNOWN)):
            cpu.registers[node.dst] = Unknown(self._name, node.span)
        else:
            value = memory.read(part.low, part.nbytes).view(node.dtype.numpy)
            cpu.registers[node.dst] = python_number(value, node.dtype)
        cpu.resume(self.next)


class ScalarStoreStep:
    """Store one element to memory; PE_CPU stands still meanwhile."""

    __slots__ = ("_address", "_checked", "_node", "_preds", "_src", "_unknown", "_value", "next")

    def __init__(self, node: ScalarStore, at: int, context: FormContext) -> None:
        self._node = node
        self._address = reader(node.address)
        self._preds = tuple_reader(node.preds)
        self._value = reader(node.value)
        self._checked = context.taint.of(node.address, *node.preds)
        self._unknown = context.taint.of(node.value)
        self._src = context.place(node.span)
        self.next = at + 1

    def step(self, cpu: PeCpu) -> int:
        require_known(cpu.registers, self._checked, "the address of a scalar store", self._node.span)
        cpu.scalar(self._src)
        if not all(self._preds(cpu.registers)):
            return self.next
        return cpu.at_local_time(self._wait, cpu)

    def _wait(self, cpu: PeCpu) -> None:
        node = self._node
        window, part = _scalar_place(cpu, self._address(cpu.registers), node.dtype, node.span)
        require_writable(window)
        commands = cpu.scheduler.conflicting((), (part,))
        cpu.when_complete(commands, "scalar_store", node.span, self._src, self._move, cpu, part)

    def _move(self, cpu: PeCpu, part: Part) -> None:
        cpu.access_memory("write", part, "scalar_store", self._src, self._land, cpu, part)

    def _land(self, cpu: PeCpu, part: Part) -> None:
        node = self._node
        memory = cpu.parts.memory.slice(*part.place)
        cpu.watch_write(part, node.span)
        if not cpu.parts.computes or any(isinstance(cpu.registers[r], Unknown) for r in self._unknown):
            part_io.forget_part(memory, part)
        else:
            value = self._value(cpu.registers)
            typed = np.float64(value) if node.value_dtype.is_float else np.int64(int(value))
            memory.write(part.low, np.atleast_1d(cast(cast(typed, node.value_dtype), node.dtype)).view(np.uint8))
        cpu.resume(self.next)


def _scalar_place(cpu: PeCpu, address: int, dtype: DType, span: Span | None) -> tuple[Any, Part]:
    try:
        return scalar_part(cpu.windows, address, dtype.nbytes)
    except DeviceFault as fault:
        fault.span = fault.span or span
        raise
