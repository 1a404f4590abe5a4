"""PE_CPU's registers: functions that read operands from them, and the values that timing mode does not know.

A register is a Python number, or an `Unknown` where timing mode has moved no value. Operands that cannot be unknown
(`Taint` says which can) are read without a check. Does not know instructions or time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from kernbench.commands import (
    Affine,
    Int,
    Loop,
    Operand,
    Program,
    ReadScalar,
    Reg,
    ScalarLoad,
    ScalarOp,
    moves_of,
    operand_registers,
    walk,
)
from kernbench.diagnostics import Span
from kernbench.sim.faults import DeviceFault

Registers = list[Any]
Read = Callable[[Registers], Any]


class Unknown:
    """The value of a register that depends on data which timing mode did not compute."""

    __slots__ = ("name", "span")

    def __init__(self, name: str, span: Span | None) -> None:
        self.name = name
        self.span = span


def reader(operand: Operand) -> Read:
    """A function that reads an operand from the registers."""
    if isinstance(operand, Reg):
        return itemgetter(operand.index)
    if isinstance(operand, Affine):
        return _affine_reader(operand)
    return lambda registers: operand


def _affine_reader(value: Affine) -> Read:
    const, terms = value.const, value.terms
    if len(terms) == 1:
        ((register, coefficient),) = terms
        return lambda registers: const + coefficient * registers[register]
    if len(terms) == 2:
        (r0, c0), (r1, c1) = terms
        return lambda registers: const + c0 * registers[r0] + c1 * registers[r1]
    return lambda registers: const + sum([c * registers[r] for r, c in terms])


def tuple_reader(values: Iterable[Int | Operand]) -> Callable[[Registers], tuple[Any, ...]]:
    """The same for several at once; only those that need registers are read."""
    fields = tuple(values)
    moving = [(place, reader(value)) for place, value in enumerate(fields) if isinstance(value, Reg | Affine)]
    if not moving:
        return lambda registers: fields

    def read(registers: Registers) -> tuple[Any, ...]:
        found: list[Any] = list(fields)
        for place, read_one in moving:
            found[place] = read_one(registers)
        return tuple(found)

    return read


class Taint:
    """Which registers of a program may be unknown: those that a load or a reduction sets, and what follows."""

    def __init__(self, program: Program, every_value_known: bool) -> None:
        self.names = program.register_names
        self.registers: frozenset[int] = frozenset() if every_value_known else _closure(program)

    def of(self, *operands: object) -> tuple[int, ...]:
        """The registers among these operands that must be checked before they are used."""
        if not self.registers:
            return ()
        found = {register for operand in operands for register in operand_registers(operand)}
        return tuple(sorted(found & self.registers))


def _closure(program: Program) -> frozenset[int]:
    nodes = list(walk(program.body))
    unknown = {node.dst for node in nodes if isinstance(node, ReadScalar | ScalarLoad)}
    edges: list[tuple[int, set[int]]] = []
    for node in nodes:
        if isinstance(node, ScalarOp):
            edges.append((node.dst, {r for arg in node.args for r in operand_registers(arg)}))
        elif isinstance(node, Loop):
            edges.append((node.var, {r for o in (node.start, node.stop, node.step) for r in operand_registers(o)}))
        edges.extend((move.dst, set(operand_registers(move.src))) for move in moves_of(node))
    while more := {dst for dst, sources in edges if dst not in unknown and sources & unknown}:
        unknown |= more
    return frozenset(unknown)


def require_known(registers: Registers, used: tuple[int, ...], what: str, span: Span | None) -> None:
    """Refuse to go on where a needed register is unknown."""
    for register in used:
        value = registers[register]
        if isinstance(value, Unknown):
            name = f"`{value.name}`" if value.name else "a value"
            place = f", computed at {value.span}," if value.span is not None else ""
            text = f"{what} depends on {name}{place} which timing mode does not compute; data mode does"
            raise DeviceFault("E_TIMING_NEEDS_DATA", text, span)
