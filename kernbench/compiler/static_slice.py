"""Mark the commands whose values addresses, masks or control flow depend on: they are computed in timing mode too.

One backward slice over registers and buffers, without regard to order (a buffer written twice is needed twice).
Does not know what an op computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from kernbench.commands import (
    Access,
    Affine,
    Assert,
    Atomic,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Gather,
    If,
    IndexOp,
    Loop,
    Node,
    Program,
    ReadScalar,
    Recv,
    Reg,
    ScalarLoad,
    ScalarOp,
    ScalarStore,
    Scatter,
    Send,
    TensorHandle,
    While,
    moves_of,
    operand_registers,
    walk,
)
from kernbench.compiler.program_nodes import map_bodies


def mark_static(program: Program) -> Program:
    slice_ = _Slice()
    nodes = list(walk(program.body))
    for node in nodes:
        slice_.seed(node)
    while slice_.changed:
        slice_.changed = False
        for node in reversed(nodes):
            slice_.follow(node)
    return replace(program, body=_marked(program.body, slice_))


def registers_of(value: object) -> Iterator[int]:
    """Registers anywhere inside an operand, an index expression, an access, or a tuple of them."""
    if isinstance(value, Reg | Affine):
        yield from operand_registers(value)
    elif isinstance(value, IndexOp):
        yield from registers_of(value.args)
    elif isinstance(value, tuple):
        for item in value:
            yield from registers_of(item)
    elif isinstance(value, TensorHandle):
        yield from registers_of((value.address, *value.strides))
    elif isinstance(value, Access):
        yield from registers_of((value.base, value.strides, value.lo, value.hi, value.preds, value.rest, value.mask))


@dataclass
class _Slice:
    registers: set[int] = field(default_factory=set)
    buffers: set[int] = field(default_factory=set)
    atomics: bool = False  # the values that atomics leave in memory are needed
    messages: bool = False  # something that is needed comes from another PE, which runs the same program
    changed: bool = True

    def need(self, *values: object) -> None:
        for register in registers_of(values):
            if register not in self.registers:
                self.registers.add(register)
                self.changed = True

    def need_block(self, handle: Any) -> None:
        if isinstance(handle, TensorHandle) and handle.id and handle.id not in self.buffers:  # 0: HBM, accumulator
            self.buffers.add(handle.id)
            self.changed = True

    def need_atomics(self) -> None:
        """What one atomic finds in memory others may have left there."""
        self.changed |= not self.atomics
        self.atomics = True

    def need_messages(self) -> None:
        self.changed |= not self.messages
        self.messages = True

    def seed(self, node: Node) -> None:
        """What addresses, masks and control read themselves."""
        match node:
            case DmaRead():
                self.need(node.access, node.dst)
            case DmaWrite():
                self.need(node.access, node.src)
            case Gather() | Scatter():
                self.need(node.access, node.dst if isinstance(node, Gather) else node.src)
                self.need_block(node.index)
                self.need_block(node.mask)
            case Atomic():
                self.need(node.access, node.src, node.compare, node.dst)
                self.need_block(node.index)
                self.need_block(node.mask)
            case ScalarLoad() | ScalarStore():
                self.need(node.address, node.preds)
            case Send():
                self.need(node.src, node.to)
            case Recv():
                self.need(node.dst, node.source)
            case CompositeTemplate():
                for op in node.ops:
                    self.need(*op.operands.values(), op.out)
            case Assert() | If() | While():
                self.need(node.condition)
            case Loop():
                self.need(node.start, node.stop, node.step)
            case _:
                pass

    def follow(self, node: Node) -> None:
        """What makes something that is needed needs its own inputs."""
        for move in moves_of(node):
            if move.dst in self.registers:
                self.need(move.src)
        match node:
            case ScalarOp() if node.dst in self.registers:
                self.need(node.args)
            case ScalarLoad() if node.dst in self.registers:
                self.need(node.other)
            case ReadScalar() if node.dst in self.registers:
                self.need_block(node.src)
            case CompositeTemplate() if is_static(node, self):
                for op in node.ops:
                    self.need(tuple(op.extra.values()))
                    for handle in op.operands.values():
                        self.need_block(handle)
            case Atomic() if is_static(node, self):
                self.need_atomics()
                self.need_block(node.src)
                self.need_block(node.compare)
            case Recv() if node.dst.id in self.buffers:
                self.need_messages()
            case Send() if self.messages:
                self.need_block(node.src)
            case DmaRead() | Gather() if node.dst.id in self.buffers:
                self.need_block(node.other)
                if not isinstance(node.other, TensorHandle):
                    self.need(node.other)
            case _:
                pass


def is_static(node: Node, slice_: _Slice) -> bool:
    match node:
        case CompositeTemplate():
            return any(op.out is not None and op.out.space == "tcm" and op.out.id in slice_.buffers for op in node.ops)
        case DmaRead() | Gather() | Recv():
            return node.dst.id in slice_.buffers
        case Atomic():
            return slice_.atomics or (node.dst is not None and node.dst.id in slice_.buffers)
        case Send():
            return slice_.messages
        case ScalarLoad() | ReadScalar():
            return node.dst in slice_.registers
        case _:
            return False


def _marked(body: Iterable[Node], slice_: _Slice) -> tuple[Node, ...]:
    return tuple(_mark(node, slice_) for node in body)


def _mark(node: Node, slice_: _Slice) -> Node:
    match node:
        case CompositeTemplate() | DmaRead() | Gather() | Atomic() | ScalarLoad() | ReadScalar() | Send() | Recv():
            return replace(node, static=True) if is_static(node, slice_) else node
        case _:
            return map_bodies(node, lambda body: _marked(body, slice_))
