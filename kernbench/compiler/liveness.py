"""When each TCM buffer of a Program is in use, and which loop its contents never outlive.

Positions count commands in program order; a buffer whose value a loop carries is in use all through the loop.
Does not know sizes or addresses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kernbench.commands import (
    Atomic,
    Block,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Exit,
    Gather,
    If,
    Loop,
    Node,
    ReadScalar,
    Recv,
    Scatter,
    Scope,
    Send,
    TensorHandle,
    Wait,
    While,
)
from kernbench.diagnostics import Span


@dataclass(frozen=True, slots=True)
class Range:
    """A loop's positions, and the buffers whose values flow in at its head."""

    first: int
    last: int
    exposed: frozenset[int]
    parent: int | None  # index of the loop around


@dataclass
class Lifetimes:
    """`loops` in program order, outer before inner; `first`, `last` positions of each buffer's uses."""

    loops: list[Range] = field(default_factory=list)
    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    home: dict[int, int | None] = field(default_factory=dict)  # loop whose trips the buffer does not outlive
    loaded: set[int] = field(default_factory=set)  # written by DMA
    made_at: dict[int, Span | None] = field(default_factory=dict)  # where its first value comes from
    rings: set[int] = field(default_factory=set)  # tile rings of composites
    spans: dict[int, Span] = field(default_factory=dict)  # by position
    end: int = 0


@dataclass
class _Flow:
    """Buffers that a piece of program needs from before, and those that it surely writes."""

    exposed: set[int] = field(default_factory=set)
    defined: set[int] = field(default_factory=set)

    def then(self, other: _Flow) -> None:
        self.exposed |= other.exposed - self.defined
        self.defined |= other.defined


def find_lifetimes(body: tuple[Node, ...]) -> Lifetimes:
    lifetimes = Lifetimes()
    uses: dict[int, list[int]] = {}
    _Scan(lifetimes, uses).sequence(body, None)
    for buffer, positions in sorted(uses.items()):
        _extend(lifetimes, buffer, positions)
    return lifetimes


def _extend(lifetimes: Lifetimes, buffer: int, positions: list[int]) -> None:
    first, last = positions[0], positions[-1]
    lifetimes.home[buffer] = None
    for index, loop in enumerate(lifetimes.loops):
        touches = any(loop.first <= position <= loop.last for position in positions)
        if not touches:
            continue
        inside = loop.first <= positions[0] and positions[-1] <= loop.last
        if inside and buffer not in loop.exposed:
            lifetimes.home[buffer] = index
        else:
            first, last = min(first, loop.first), max(last, loop.last)
    lifetimes.first[buffer], lifetimes.last[buffer] = first, last


@dataclass
class _Scan:
    lifetimes: Lifetimes
    uses: dict[int, list[int]]
    position: int = 0

    def sequence(self, body: tuple[Node, ...], loop: int | None) -> _Flow:
        flow = _Flow()
        for node in body:
            flow.then(self.node(node, loop))
        return flow

    def node(self, node: Node, loop: int | None) -> _Flow:
        match node:
            case Loop():
                return self.loop((), node.body, loop)
            case While():
                return self.loop(node.header, node.body, loop)
            case If():
                return self.branch(node, loop)
            case Block():
                inner = self.sequence(node.body, loop)
                return _Flow(inner.exposed, set() if _leaves(node.body) else inner.defined)
            case _:
                return self.command(node)

    def loop(self, header: tuple[Node, ...], body: tuple[Node, ...], parent: int | None) -> _Flow:
        index = len(self.lifetimes.loops)
        first = self.position
        self.lifetimes.loops.append(Range(first, first, frozenset(), parent))
        flow = self.sequence(header, index)
        sure = set(flow.defined)
        flow.then(self.sequence(body, index))
        self.position += 1  # the back edge: what is in use there is in use at the head again
        self.lifetimes.end = max(self.lifetimes.end, self.position)
        self.lifetimes.loops[index] = Range(first, self.position - 1, frozenset(flow.exposed), parent)
        return _Flow(flow.exposed, sure)

    def branch(self, node: If, loop: int | None) -> _Flow:
        then, orelse = self.sequence(node.then, loop), self.sequence(node.orelse, loop)
        return _Flow(then.exposed | orelse.exposed, then.defined & orelse.defined)

    def command(self, node: Node) -> _Flow:
        flow = _Flow()
        for reads, writes in steps(node):
            flow.exposed |= reads - flow.defined
            flow.defined |= writes
        for buffer in sorted(flow.exposed | flow.defined):
            self.uses.setdefault(buffer, []).append(self.position)
            self.lifetimes.made_at.setdefault(buffer, getattr(node, "span", None))
        if isinstance(node, DmaRead | Gather):
            self.lifetimes.loaded.add(node.dst.id)
        span = getattr(node, "span", None)
        if span is not None:
            self.lifetimes.spans[self.position] = span
        self.position += 1
        self.lifetimes.end = max(self.lifetimes.end, self.position)
        return flow


def _leaves(body: tuple[Node, ...]) -> bool:
    """True where an Exit stands inside, so that what follows it may not happen."""
    for node in body:
        match node:
            case Exit():
                return True
            case Loop() | While() | Block():
                found = _leaves(node.body)
            case If():
                found = _leaves(node.then) or _leaves(node.orelse)
            case _:
                found = False
        if found:
            return True
    return False


def tcm_handles(handles: Iterator[TensorHandle | None] | list[TensorHandle | None]) -> set[int]:
    """Buffers among handles: not HBM operands, not the accumulator."""
    return {h.id for h in handles if h is not None and h.space == "tcm" and not h.is_accumulator}


def steps(node: Node) -> list[tuple[set[int], set[int]]]:
    """(buffers read, buffers written) of a command, step by step."""
    match node:
        case CompositeTemplate():
            return _composite_steps(node)
        case DmaRead():
            return [(_other(node.other), tcm_handles([node.dst]))]
        case Gather():
            return [(_other(node.other) | tcm_handles([node.index, node.mask]), tcm_handles([node.dst]))]
        case DmaWrite():
            return [(tcm_handles([node.src]), set())]
        case Scatter():
            return [(tcm_handles([node.src, node.index, node.mask]), set())]
        case Send():
            return [(tcm_handles([node.src]), set())]
        case Recv():
            return [(set(), tcm_handles([node.dst]))]
        case Atomic():
            return [(tcm_handles([node.src, node.compare, node.index, node.mask]), tcm_handles([node.dst]))]
        case ReadScalar():
            return [(tcm_handles([node.src]), set())]
        case Wait():
            return [(tcm_handles(list(node.handles)), set())]
        case _:
            return []


def _other(other: object) -> set[int]:
    return tcm_handles([other]) if isinstance(other, TensorHandle) else set()


def _composite_steps(node: CompositeTemplate) -> list[tuple[set[int], set[int]]]:
    """A GEMM writes its `out` after the tile epilogues, which may read its old contents."""
    found: list[tuple[set[int], set[int]]] = []
    held: set[int] = set()
    for op in node.ops:
        if op.scope is Scope.KERNEL and held:
            found.append((set(), held))
            held = set()
        reads, writes = tcm_handles(list(op.operands.values())), tcm_handles([op.out])
        if op.kind == "gemm":
            held, writes = writes, set()
        found.append((reads, writes))
    found.append((set(), held))
    return found
