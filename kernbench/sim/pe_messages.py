"""The instructions of PE_CPU that send and receive blocks.

A send waits for a place in the receiver's queue, and is then a command like a plain DMA: it waits for the older
commands that make its block, and younger ones wait for it. A receive holds PE_CPU until the block is in TCM.
Knows commands and queues. Does not know routes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kernbench.commands import Operand, Recv, Send, TensorHandle
from kernbench.diagnostics import Span
from kernbench.dtypes import DType
from kernbench.sim.access_eval import Place, affine_ints
from kernbench.sim.dma_command import checked_range
from kernbench.sim.engines.pe_ipcq import Message, name_of
from kernbench.sim.engines.server import Origin
from kernbench.sim.faults import DeviceFault
from kernbench.sim.form_context import FormContext
from kernbench.sim.hazards import Footprint, Range
from kernbench.sim.pe_command import Command, Completion
from kernbench.sim.pe_parts import PeParts
from kernbench.sim.registers import require_known, tuple_reader

if TYPE_CHECKING:
    from kernbench.sim.pe_cpu import PeCpu


class _Block:
    """The TCM block of an instruction."""

    __slots__ = ("handle", "used")

    def __init__(self, handle: TensorHandle, context: FormContext) -> None:
        self.handle = handle
        self.used = context.taint.of(handle.address, *handle.strides)

    def place(self, cpu: PeCpu) -> tuple[int, tuple[int, ...], Range]:
        """Address, strides and bytes at this dispatch."""
        address, *strides = affine_ints((self.handle.address, *self.handle.strides), cpu.registers)
        return (
            address,
            tuple(strides),
            checked_range(self.handle, address, strides, cpu.parts.tcm.capacity_bytes),
        )


class _OtherPe:
    """Which PE an instruction names: by its index in the launch, or by (sip, cube, pe)."""

    __slots__ = ("_read", "_span", "used")

    def __init__(self, operands: Sequence[Operand], span: Span | None, context: FormContext) -> None:
        self._read = tuple_reader(operands)
        self._span = span
        self.used = context.taint.of(*operands)

    def place(self, cpu: PeCpu) -> Place:
        targets = cpu.targets
        numbers = tuple(int(number) for number in self._read(cpu.registers))
        if len(numbers) == 1:
            if 0 <= numbers[0] < len(targets):
                return targets[numbers[0]]
            text = f"PE {numbers[0]} of the launch is named, which has {len(targets)}"
            raise DeviceFault("E_MESSAGE_PE", text, self._span)
        sip, cube, pe = numbers
        if (sip, cube, pe) not in targets:
            text = f"{name_of((sip, cube, pe))} is named, which is not in the launch"
            raise DeviceFault("E_MESSAGE_PE", text, self._span)
        return sip, cube, pe


# --------------------------------------------------------------------------- send


class SendCommand(Command):
    """One block on its way out of TCM."""

    __slots__ = ("_address", "_ids", "_moves_values", "_nbytes", "_parts", "_range", "_strides", "_to", "message")

    is_composite = False

    def __init__(
        self, origin: Origin, program: int, footprint: Footprint, message: Message, to: Place, ids: tuple[int, int],
        parts: PeParts,
    ) -> None:  # fmt: skip
        super().__init__(origin, program, footprint, message.span)
        self.message = message
        self._to = to
        self._ids = ids
        self._parts = parts
        self._moves_values = False

    def carry(self, handle: TensorHandle, place: tuple[int, tuple[int, ...], Range], moves_values: bool) -> None:
        self._address, self._strides, self._range = place
        self._nbytes = handle.nbytes
        self._moves_values = moves_values

    def start(self, completion: Completion) -> None:
        def left() -> None:
            if self._moves_values:
                self._read()
            completion.completed(self)

        self._parts.ipcq.send(self.origin, self._to, self.message, self._ids, left, self._nbytes)

    def _read(self) -> None:
        tcm, message = self._parts.tcm, self.message
        if self._parts.computes or tcm.knows(*self._range):
            values = tcm.view(self._address, message.dtype, message.shape, self._strides)
            message.values = np.array(values, order="C")


class SendStep:
    """Wait for a place in the receiver's queue, take it, and hand the command over."""

    __slots__ = ("_block", "_cost_ps", "_footprints", "_log", "_moves", "_name", "_node", "_src", "_to", "next")

    def __init__(self, node: Send, at: int, context: FormContext, cost_ps: int) -> None:
        self._node = node
        self._block = _Block(node.src, context)
        self._to = _OtherPe(node.to, node.span, context)
        self._cost_ps = cost_ps
        self._footprints = context.footprints
        self._moves = context.computes or node.static
        self._src = context.place(node.span)
        self._log = context.log
        self._name = context.log.intern("send")
        self.next = at + 1

    def step(self, cpu: PeCpu) -> int:
        require_known(cpu.registers, (*self._to.used, *self._block.used), "the other PE", self._node.span)
        to = self._to.place(cpu)
        return cpu.at_local_time(self._wait, cpu, to)

    def _wait(self, cpu: PeCpu, to: Place) -> None:
        ipcq, node = cpu.parts.ipcq, self._node
        what = f"{name_of(to)} to receive: its queue is full"
        cpu.stall_until(lambda: ipcq.has_place(to), "send", what, node.span, self._src, self._hand_over, cpu, to)

    def _hand_over(self, cpu: PeCpu, to: Place) -> None:
        node = self._node
        cpu.parts.ipcq.take_place(to, node.span)
        place = self._block.place(cpu)
        origin = Origin(cpu.request, cpu.take_number(), self._src)
        message = Message(cpu.request, cpu.parts.ipcq.place, node.src.shape, node.src.dtype, node.span)
        params = self._log.intern_params({"template": node.id, "to": name_of(to)})
        footprint = self._footprints.make([place[2]], ())
        command = SendCommand(origin, cpu.program, footprint, message, to, (self._name, params), cpu.parts)
        command.carry(node.src, place, self._moves)
        cpu.meet_clock()
        cpu.dispatch(command, self._cost_ps, self._name, node.logical_bytes, params, self.next)


# --------------------------------------------------------------------------- receive


class RecvStep:
    """Wait for the oldest block of a sender, and bring it to TCM."""

    __slots__ = (
        "_block", "_copy_ps", "_cost_ps", "_log", "_moves", "_name", "_node", "_source", "_src", "next",
    )  # fmt: skip

    def __init__(self, node: Recv, at: int, context: FormContext, cost_ps: int) -> None:
        self._node = node
        self._block = _Block(node.dst, context)
        self._source = _OtherPe(node.source, node.span, context)
        self._cost_ps = cost_ps
        cycles = max(1, -(-node.dst.nbytes // context.spec.tcm.bytes_per_cycle))
        self._copy_ps = context.spec.cycles_to_ps(cycles)
        self._moves = context.computes or node.static
        self._src = context.place(node.span)
        self._log = context.log
        self._name = context.log.intern("recv")
        self.next = at + 1

    def step(self, cpu: PeCpu) -> int:
        require_known(cpu.registers, (*self._source.used, *self._block.used), "the other PE", self._node.span)
        source = self._source.place(cpu)
        params = self._log.intern_params({"template": self._node.id, "from": name_of(source)})
        number = cpu.take_number()
        cpu.charge(self._cost_ps, number, self._name, self._node.logical_bytes, self._src, params)
        return cpu.at_local_time(self._wait_for_block, cpu, source, number, params)

    def _wait_for_block(self, cpu: PeCpu, source: Place, number: int, params: int) -> None:
        """What still uses the block's memory must be complete."""
        *_, used = self._block.place(cpu)
        commands = cpu.scheduler.touching([used])
        arguments = (cpu, source, number, params)
        cpu.when_complete(commands, "recv", self._node.span, self._src, self._wait_for_message, *arguments)

    def _wait_for_message(self, cpu: PeCpu, source: Place, number: int, params: int) -> None:
        ipcq, node = cpu.parts.ipcq, self._node
        what = f"a block from {name_of(source)}"
        arguments = (cpu, source, number, params)
        cpu.wait_until(lambda: ipcq.has_come(source), "recv", what, node.span, self._src, self._take, *arguments)

    def _take(self, cpu: PeCpu, source: Place, number: int, params: int) -> None:
        node, message = self._node, cpu.parts.ipcq.oldest(source)
        if (message.shape, message.dtype) != (node.dst.shape, node.dst.dtype):
            where = "" if message.span is None else f" at {message.span}"
            sent = f"{_type_text(message.shape, message.dtype)}, sent by {name_of(source)}{where}"
            text = f"a block of {_type_text(node.dst.shape, node.dst.dtype)} is to be received, the next one is {sent}"
            raise DeviceFault("E_MESSAGE_MISMATCH", text, node.span)
        cpu.hold(self._copy_ps, self._land, cpu, message, number, params)

    def _land(self, cpu: PeCpu, message: Message, number: int, params: int) -> None:
        if self._moves:
            self._place_values(cpu, message)
        ids = (number, self._name, params, self._src)
        cpu.parts.ipcq.record_receipt(cpu.request, self._copy_ps, self._node.dst.nbytes, ids)
        cpu.parts.ipcq.received(message)
        cpu.resume(self.next)

    def _place_values(self, cpu: PeCpu, message: Message) -> None:
        address, strides, used = self._block.place(cpu)
        tcm = cpu.parts.tcm
        if message.values is None:
            tcm.forget(*used)
            return
        tcm.learn(*used)
        tcm.view(address, message.dtype, message.shape, strides)[...] = message.values


def _type_text(shape: Sequence[int], dtype: DType) -> str:
    return f"{'x'.join(str(extent) for extent in shape) or 'one'} {dtype}"
