"""The words of a command as PE_CPU writes them to the queues of PE_SCHEDULER and PE_DMA.

A dispatched command is `logical_bytes` long because these are its words. What many commands share (shapes, strides
and types of handles, forms of accesses, constants beyond one number) stands in tables that are loaded with the code;
a word holds an index into them.

    composite   opcode 8 | ops 8 | in-place handles 8 | 0 8 | id 32, then its ops, then 16 bits an in-place handle
    op          kind 8 | scope 2, has-out 1, pooled 1 | handles 8 | axis 8 | immediate 32, then its handles
    handle      descriptor 16 | address 48, then 64 bits for each stride that is known at dispatch only
    dma         opcode 8 | terms 8 | access 16 | id 32, address 64, handle, further handles, 64 bits a run-time term
    message     opcode 8 | numbers of the other PE 8 | 0 16 | id 32, handle, 16 bits a number of the other PE

Does not know names, spans or how long dispatch takes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kernbench.address_map import WINDOW_BITS
from kernbench.commands import (
    ATOMIC_KINDS,
    Access,
    Affine,
    Atomic,
    CompositeCmd,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Gather,
    Int,
    Operand,
    OpSpec,
    Recv,
    Reg,
    Scatter,
    Scope,
    Send,
    TensorHandle,
    evaluate,
)
from kernbench.micro_ops import MICRO_OPS

Dma = DmaRead | DmaWrite | Gather | Scatter | Atomic
Message = Send | Recv
Packable = CompositeTemplate | CompositeCmd | Dma | Message

OPCODES: dict[type, int] = {
    CompositeTemplate: 1,
    CompositeCmd: 1,
    DmaRead: 2,
    DmaWrite: 3,
    Gather: 4,
    Scatter: 5,
    Send: 6,
    Recv: 7,
    Atomic: 16,  # and on, one a kind
}
KINDS = ("gemm", *MICRO_OPS)
_SCOPES = tuple(Scope)
_HAS_OUT, _POOLED = 4, 8
_ADDRESS_MASK = (1 << WINDOW_BITS) - 1
_NO_AXIS = 0xFF


@dataclass
class Tables:
    """What words point into; filled in the order in which commands are packed."""

    descriptors: list[Any] = field(default_factory=list)
    accesses: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    @staticmethod
    def number(table: list[Any], entry: Any) -> int:
        if entry not in table:
            table.append(entry)
        return table.index(entry)


def pack_command(command: Packable, tables: Tables | None = None, registers: Sequence[int] = ()) -> bytes:
    """The words of a command; `registers` give the values of a template's affine fields."""
    packer = _Packer(tables if tables is not None else Tables(), registers)
    if isinstance(command, CompositeTemplate | CompositeCmd):
        return packer.composite(command)
    if isinstance(command, Send | Recv):
        return packer.message(command)
    return packer.dma(command)


@dataclass
class _Packer:
    tables: Tables
    registers: Sequence[int]

    def composite(self, command: CompositeTemplate | CompositeCmd) -> bytes:
        number = command.id if isinstance(command, CompositeTemplate) else command.completion.id
        head = struct.pack(
            "<BBBxI", OPCODES[type(command)], len(command.ops), len(command.rw_handles), number & 0xFFFFFFFF
        )
        handles = [handle for op in command.ops for handle in _handles(op)]
        rw = [struct.pack("<H", handles.index(handle)) for handle in command.rw_handles]
        return b"".join([head, *(self.op(op) for op in command.ops), *rw])

    def op(self, op: OpSpec) -> bytes:
        immediate, pooled = self.immediate(op)
        flags = _SCOPES.index(op.scope) | (_HAS_OUT if op.out is not None else 0) | (_POOLED if pooled else 0)
        axis = op.extra.get("axis", op.extra.get("bcast_axis"))
        handles = _handles(op)
        place = _NO_AXIS if axis is None else axis & 0x7F
        head = struct.pack("<BBBBI", KINDS.index(op.kind), flags, len(handles), place, immediate)
        return head + b"".join(self.handle(handle) for handle in handles)

    def immediate(self, op: OpSpec) -> tuple[int, bool]:
        """One small whole number or fp32 number stands in the word; anything more in the pool."""
        values = {name: value for name, value in op.extra.items() if name not in ("axis", "bcast_axis")}
        if not values:
            return 0, False
        if len(values) == 1:
            (value,) = values.values()
            if type(value) is float and struct.unpack("<f", struct.pack("<f", _clipped(value)))[0] == value:
                return int.from_bytes(struct.pack("<f", value), "little"), False
        entry = (op.kind, tuple((name, type(value).__name__, self.known(value)) for name, value in values.items()))
        return Tables.number(self.tables.constants, entry), True

    def known(self, value: Any) -> Any:
        return self.value(value) if isinstance(value, Reg | Affine) else value

    def handle(self, handle: TensorHandle) -> bytes:
        address = self.value(handle.address)
        fixed = tuple(None if isinstance(stride, Affine) else stride for stride in handle.strides)
        window = None if handle.space == "tcm" else address >> WINDOW_BITS
        entry = (handle.shape, fixed, handle.dtype, handle.space, window)
        number = Tables.number(self.tables.descriptors, entry)
        word = (number & 0xFFFF) | (address & _ADDRESS_MASK) << 16
        dynamic = [stride for stride in handle.strides if isinstance(stride, Affine)]
        return struct.pack("<Q", word) + b"".join(self.term(stride) for stride in dynamic)

    def dma(self, command: Dma) -> bytes:
        access = command.access
        terms = [value for value in _terms(access) if isinstance(value, Affine)]
        entry = (access.dtype, access.shape, _form(access), access.offset_bits)
        number = Tables.number(self.tables.accesses, entry)
        opcode = OPCODES[type(command)] + (ATOMIC_KINDS.index(command.kind) if isinstance(command, Atomic) else 0)
        head = struct.pack("<BBHI", opcode, len(terms), number & 0xFFFF, command.id & 0xFFFFFFFF)
        address = struct.pack("<Q", self.value(access.base) & (1 << 64) - 1)
        tcm = command.dst if isinstance(command, DmaRead | Gather) else command.src
        more = [command.index, command.mask] if isinstance(command, Gather | Scatter | Atomic) else []
        more += [command.compare, command.dst] if isinstance(command, Atomic) else []
        handles = [self.handle(handle) for handle in (tcm, *more) if handle is not None]
        return b"".join([head, address, *handles, *(self.term(term) for term in terms)])

    def message(self, command: Message) -> bytes:
        block, other = (command.src, command.to) if isinstance(command, Send) else (command.dst, command.source)
        head = struct.pack("<BBxxI", OPCODES[type(command)], len(other), command.id & 0xFFFFFFFF)
        numbers = [self.number(value) & 0xFFFF for value in other]
        return head + self.handle(block) + struct.pack("<4H", *numbers, *[0] * (4 - len(numbers)))

    def number(self, value: Operand) -> int:
        return self.value(value) if isinstance(value, Reg | Affine) else int(value)

    def term(self, value: Int) -> bytes:
        return struct.pack("<Q", self.value(value) & (1 << 64) - 1)

    def value(self, value: Int | Reg) -> int:
        if isinstance(value, Reg):
            return int(self.registers[value.index])
        return evaluate(value, list(self.registers))


def _handles(op: OpSpec) -> list[TensorHandle]:
    return [*op.operands.values(), *([op.out] if op.out is not None else [])]


def _terms(access: Access) -> list[Int]:
    return [*access.strides, *(bound for axis in (*access.lo, *access.hi) for bound in axis)]


def _form(access: Access) -> tuple[Any, ...]:
    """What is the same at every dispatch; a run-time term leaves its place open."""
    fixed = [None if isinstance(value, Affine) else value for value in _terms(access)]
    counts = tuple(len(axis) for axis in (*access.lo, *access.hi))
    return tuple(fixed), counts, len(access.preds), access.rest, access.mask


def _clipped(value: float) -> float:
    """A float that `struct` can pack as fp32; one that is out of range is not equal to itself any more."""
    return value if abs(value) < 3.4e38 or value in (float("inf"), float("-inf")) else 0.0
