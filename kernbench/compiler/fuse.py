"""Merge chains of elementwise commands into one MATH-only composite, so that they cost one dispatch.

Every op stays as it is, in its order, with its rounding; only the commands around them change. What stands between
two links of a chain and neither reads nor writes what the chain touches moves in front of it.
Does not know recipes, addresses or time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kernbench.commands import (
    CompositeTemplate,
    DmaRead,
    Gather,
    Node,
    Program,
    ScalarOp,
)
from kernbench.compiler.liveness import steps
from kernbench.compiler.program_nodes import map_bodies
from kernbench.compiler.static_slice import registers_of
from kernbench.diagnostics import Span
from kernbench.micro_ops import MICRO_OPS

MAX_OPS = 16  # of a fused composite: what one command of the queue may hold
LOOK_AHEAD = 12  # nodes in which the op that joins two chains must come


def fuse(program: Program) -> Program:
    return replace(program, body=_sequence(program.body))


def _sequence(body: tuple[Node, ...]) -> tuple[Node, ...]:
    out: list[Node] = []
    chain = _Chain()
    nodes = [map_bodies(node, _sequence) for node in body]
    for index, node in enumerate(nodes):
        if isinstance(node, CompositeTemplate) and is_elementwise(node):
            if not chain.takes(node, nodes[index + 1 : index + 1 + LOOK_AHEAD]):
                chain.flush(out)
            chain.add(node)
        elif chain.may_pass(node):
            out.append(node)
        else:
            chain.flush(out)
            out.append(node)
    chain.flush(out)
    return tuple(out)


def is_elementwise(node: CompositeTemplate) -> bool:
    """True where no op mixes elements and nothing is in place by hand."""
    return not node.rw_handles and all(
        op.kind != "gemm" and not MICRO_OPS[op.kind].mixes and "bcast_axis" not in op.extra for op in node.ops
    )


@dataclass
class _Chain:
    """The composite that is growing."""

    links: list[CompositeTemplate] = field(default_factory=list)
    reads: set[int] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)
    registers: set[int] = field(default_factory=set)

    def takes(self, node: CompositeTemplate, behind: list[Node]) -> bool:
        """True where `node` continues the chain (reads what it made, or makes what is joined to it), with room."""
        room = sum(len(link.ops) for link in self.links) + len(node.ops) <= MAX_OPS
        alike = bool(self.links) and self.links[0].static == node.static  # timing mode computes all of it or nothing
        return alike and room and (not self.writes.isdisjoint(_reads(node)) or self.is_joined(node, behind))

    def is_joined(self, node: CompositeTemplate, behind: list[Node]) -> bool:
        """True where an elementwise op soon reads both what the chain made and what comes of `node`."""
        made = _writes(node)
        for later in behind:
            if isinstance(later, CompositeTemplate) and is_elementwise(later):
                reads = _reads(later)
                if reads & made and reads & self.writes:
                    return True
                made = made | _writes(later) if reads & made else made
            elif not isinstance(later, ScalarOp | DmaRead | Gather):
                return False
        return False

    def add(self, node: CompositeTemplate) -> None:
        self.links.append(node)
        self.reads |= _reads(node)
        self.writes |= _writes(node)
        for op in node.ops:
            self.registers.update(registers_of((tuple(op.extra.values()), *op.operands.values())))
            if op.out is not None:
                self.registers.update(registers_of(op.out))

    def may_pass(self, node: Node) -> bool:
        """True where `node` may as well stand before the chain."""
        match node:
            case ScalarOp():
                return node.dst not in self.registers
            case DmaRead() | Gather():
                touched = _reads(node) | _writes(node)
                return _writes(node).isdisjoint(self.reads | self.writes) and touched.isdisjoint(self.writes)
            case _:
                return False

    def flush(self, out: list[Node]) -> None:
        if self.links:
            out.append(_merged(self.links))
        self.links, self.reads, self.writes, self.registers = [], set(), set(), set()


def _reads(node: Node) -> set[int]:
    return {buffer for reads, _ in steps(node) for buffer in reads}


def _writes(node: Node) -> set[int]:
    return {buffer for _, writes in steps(node) for buffer in writes}


def _merged(links: list[CompositeTemplate]) -> CompositeTemplate:
    first = links[0]
    if len(links) == 1:
        return first
    ops = tuple(op for link in links for op in link.ops)
    return replace(first, ops=ops, span=_joined([link.span for link in links]))


def _joined(spans: list[Span | None]) -> Span | None:
    """From the first link's place to the last one's, where they follow each other in one file."""
    known = [span for span in spans if span is not None]
    if not known:
        return None
    first, last = known[0], known[-1]
    follows = first.file == last.file and (last.line, last.column) >= (first.line, first.column)
    return replace(first, end_line=last.end_line, end_column=last.end_column) if follows else first
