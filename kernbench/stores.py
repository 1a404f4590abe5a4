"""Which tensor parameters a program may store to, so that only those are read back, and only their loads watched.

Knows programs as `commands.py` writes them. Errs on the side of too many.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernbench.commands import (
    Atomic,
    CompositeTemplate,
    DmaRead,
    Exit,
    Gather,
    If,
    Loop,
    Move,
    Node,
    Program,
    Recv,
    ScalarLoad,
    ScalarOp,
    Send,
    While,
    operand_registers,
    walk,
)


def stored_params(program: Program) -> frozenset[str]:
    """Names of the tensor parameters that may change."""
    tensors = {param.register: param.name for param in program.params if param.kind == "tensor"}
    sources = _sources(program)
    found: set[str] = set()
    for node in walk(program.body):
        for address in _stored_addresses(node):
            reached = _reach(set(operand_registers(address)), sources) & tensors.keys()
            if not reached:
                return frozenset(tensors.values())  # a pointer from somewhere else: anything may change
            found.update(tensors[register] for register in reached)
    return frozenset(found)


def is_ordered(program: Program) -> bool:
    """Whether programs of a launch may wait for each other: by messages, or through what atomics change."""
    return any(isinstance(node, Atomic | Send | Recv) for node in walk(program.body))


def _stored_addresses(node: Node) -> Iterator[object]:
    if isinstance(node, DmaRead | Gather | ScalarLoad):
        return
    if isinstance(node, CompositeTemplate):
        yield from (op.out.address for op in node.ops if op.out is not None and op.out.space == "hbm")
    elif (access := getattr(node, "access", None)) is not None:
        yield access.base
    elif (address := getattr(node, "address", None)) is not None:
        yield address


def _sources(program: Program) -> dict[int, set[int]]:
    """Register → registers that its value may come from."""
    found: dict[int, set[int]] = {}
    for node in walk(program.body):
        if isinstance(node, ScalarOp):
            for arg in node.args:
                found.setdefault(node.dst, set()).update(operand_registers(arg))
        for move in _moves(node):
            found.setdefault(move[0], set()).update(operand_registers(move[1]))
    return found


def _moves(node: Node) -> Iterator[tuple[int, object]]:
    groups: tuple[Move, ...] = ()
    if isinstance(node, Loop | While):
        groups = (*node.init, *node.moves)
    elif isinstance(node, If):
        groups = (*node.then_moves, *node.else_moves)
    elif isinstance(node, Exit):
        groups = node.moves
    yield from ((move.dst, move.src) for move in groups)


def _reach(registers: set[int], sources: dict[int, set[int]]) -> set[int]:
    todo, seen = list(registers), set(registers)
    while todo:
        for source in sources.get(todo.pop(), ()):
            if source not in seen:
                seen.add(source)
                todo.append(source)
    return seen
