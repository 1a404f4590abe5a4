"""Drop scalar instructions whose results nothing reads; PE_CPU would spend cycles on them.

Knows which registers a node reads. Does not know what an instruction computes; none of them has an effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from kernbench.commands import CompositeTemplate, Node, OpSpec, Program, ScalarOp, moves_of, walk
from kernbench.compiler.program_nodes import map_bodies
from kernbench.compiler.static_slice import registers_of

_NOT_READ = frozenset(("dst", "var", "body", "then", "orelse", "header", "rotations", "init", "moves"))


def drop_unread(program: Program) -> Program:
    nodes = list(walk(program.body))
    read: set[int] = set()
    for node in nodes:
        if not isinstance(node, ScalarOp):
            read.update(read_registers(node))
    makers = {node.dst: node for node in nodes if isinstance(node, ScalarOp)}
    todo = sorted(read)
    while todo:
        maker = makers.get(todo.pop())
        for register in registers_of(maker.args) if maker is not None else ():
            if register not in read:
                read.add(register)
                todo.append(register)
    if all(node.dst in read for node in nodes if isinstance(node, ScalarOp)):
        return program
    return replace(program, body=_kept(program.body, read))


def read_registers(node: Node) -> Iterator[int]:
    """Registers that a node itself reads: operands, addresses, masks, bounds, the sources of its moves."""
    yield from registers_of(tuple(move.src for move in moves_of(node)))
    if isinstance(node, CompositeTemplate):
        for op in node.ops:
            yield from _op_registers(op)
    for item in fields(node):
        if item.name not in _NOT_READ:
            yield from registers_of(getattr(node, item.name))
    handle = getattr(node, "dst", None)
    if not isinstance(handle, int):
        yield from registers_of(handle)


def _op_registers(op: OpSpec) -> Iterator[int]:
    yield from registers_of(tuple(op.extra.values()))
    for handle in op.operands.values():
        yield from registers_of(handle)
    yield from registers_of(op.out)


def _kept(body: tuple[Node, ...], read: set[int]) -> tuple[Node, ...]:
    kept = (node for node in body if not isinstance(node, ScalarOp) or node.dst in read)
    return tuple(map_bodies(node, lambda inner: _kept(inner, read)) for node in kept)
