"""Which blocks of a residual program may not share memory: those of which one is needed where the other is written.

Blocks that are views of another count as the block that owns their memory, their root. Knows liveness and layouts.
Does not know which blocks would like to share, nor buffers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kernbench.commands import contiguous_strides
from kernbench.compiler.block_uses import read_blocks, regions, slots_of, written_blocks
from kernbench.compiler.residual import (
    BlockCarry,
    BlockOp,
    BlockRef,
    BlockRegion,
    CompositeCall,
    CopyBlock,
    Dot,
    ExitRegion,
    ForRegion,
    IfRegion,
    Instr,
    Reshape,
    ScratchScope,
    ViewOf,
    WhileRegion,
)
from kernbench.dtypes import DType
from kernbench.micro_ops import MICRO_OPS


@dataclass(frozen=True, slots=True)
class Layout:
    """How a block lies in the memory of the block that owns it (its root)."""

    root: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType

    @property
    def is_dense(self) -> bool:
        """True where the elements lie one behind the other in row-major order."""
        wanted = contiguous_strides(self.shape)
        return all(e == 1 or s == w for e, s, w in zip(self.shape, self.strides, wanted, strict=True))


def layouts_of(body: tuple[Instr, ...]) -> dict[int, Layout]:
    found: dict[int, Layout] = {}
    _collect_layouts(body, found)
    return found


def _collect_layouts(body: tuple[Instr, ...], found: dict[int, Layout]) -> None:
    for instr in body:
        for slot in slots_of(instr):
            found[slot.id] = _own(slot)
        for region in regions(instr):
            _collect_layouts(region, found)
        if isinstance(instr, ViewOf):
            found[instr.result.id] = _view(instr, found[instr.source.id])
        elif isinstance(instr, Reshape) and found[instr.source.id].is_dense:
            shape = instr.result.shape
            source = found[instr.source.id]
            found[instr.result.id] = Layout(source.root, shape, contiguous_strides(shape), source.dtype)
        else:
            for ref in written_blocks(instr):
                found[ref.id] = _own(ref)


def _own(ref: BlockRef) -> Layout:
    return Layout(ref.id, ref.shape, contiguous_strides(ref.shape), ref.dtype)


def _view(view: ViewOf, source: Layout) -> Layout:
    strides = tuple(0 if axis is None else source.strides[axis] for axis in view.axes)
    return Layout(source.root, view.result.shape, strides, source.dtype)


# --------------------------------------------------------------------------- liveness and interference


@dataclass
class Liveness:
    """One backward walk. Each loop body is walked once: what is needed at its head is needed all through it."""

    layouts: dict[int, Layout]
    edges: dict[int, set[int]] = field(default_factory=dict)
    defined: list[int] = field(default_factory=list)  # roots, in the order of the walk (backward)
    labels: dict[int, frozenset[int]] = field(default_factory=dict)
    at_start: dict[int, frozenset[int]] = field(default_factory=dict)  # by id() of a loop: roots needed at its head
    bodies: dict[int, frozenset[int]] = field(default_factory=dict)  # by id() of a loop: roots made inside
    live_after: dict[int, frozenset[int]] = field(default_factory=dict)

    def root(self, ref: BlockRef) -> int:
        return self.layouts[ref.id].root

    def roots(self, refs: Iterable[BlockRef]) -> set[int]:
        return {self.root(ref) for ref in refs}

    def define(self, root: int, others: Iterable[int]) -> None:
        self.defined.append(root)
        self.conflict(root, others)

    def conflict(self, root: int, others: Iterable[int]) -> None:
        mine = self.edges.setdefault(root, set())
        for other in others:
            if other != root:
                mine.add(other)
                self.edges.setdefault(other, set()).add(root)

    def sequence(self, body: tuple[Instr, ...], live: set[int]) -> set[int]:
        """The roots needed before `body`, given those needed after it."""
        for instr in reversed(body):
            live = self.step(instr, live)
        return live

    def step(self, instr: Instr, live: set[int]) -> set[int]:
        match instr:
            case ForRegion():
                return self.loop(instr, (), instr.body, instr.blocks, live)
            case WhileRegion():
                return self.loop(instr, instr.header, instr.body, instr.blocks, live)
            case IfRegion():
                return self.branch(instr, live)
            case BlockRegion():
                return self.block(instr, live)
            case ExitRegion():
                return self.exit(instr)
            case ScratchScope():
                return self.sequence(instr.body, live)
            case _:
                return self.plain(instr, live)

    def plain(self, instr: Instr, live: set[int]) -> set[int]:
        if isinstance(instr, ViewOf) or (isinstance(instr, Reshape) and self.root(instr.result) != instr.result.id):
            return live  # a use of the view is a use of its root
        reads = self.roots(read_blocks(instr))
        if isinstance(instr, CompositeCall):
            self.live_after[id(instr)] = frozenset(live)
            reads |= self.roots(old for old, _ in instr.updates)
        for ref in written_blocks(instr):
            self.define(ref.id, live)
            self.conflict(ref.id, unsafe_in_place(instr, ref, self.layouts))
        made = {ref.id for ref in written_blocks(instr)}
        for new in made:
            self.conflict(new, made)
        return (live - made) | reads

    def loop(
        self,
        region: ForRegion | WhileRegion,
        header: tuple[Instr, ...],
        body: tuple[Instr, ...],
        carries: tuple[BlockCarry, ...],
        live: set[int],
    ) -> set[int]:
        slots = self.roots(carry.slot for carry in carries)
        nexts = self.roots(carry.nexts[0] for carry in carries)
        first = len(self.defined)
        through = live - slots
        head = self.sequence(header, self.sequence(body, nexts | through) | live)
        made = self.defined[first:]
        needed = head - slots
        for root in made:
            self.conflict(root, needed)
        for slot in sorted(slots):
            self.define(slot, head | live | slots)
        self.at_start[id(region)] = frozenset(head)
        self.bodies[id(region)] = frozenset(made)
        inits = self.roots(carry.init for carry in carries if carry.init is not None)
        return needed | through | inits

    def branch(self, region: IfRegion, live: set[int]) -> set[int]:
        slots = self.roots(carry.slot for carry in region.blocks)
        for slot in sorted(slots):
            self.define(slot, live | slots)
        rest = live - slots
        paths = [
            self.sequence(body, rest | self.roots(carry.nexts[k] for carry in region.blocks))
            for k, body in enumerate((region.then, region.orelse))
        ]
        return paths[0] | paths[1]

    def block(self, region: BlockRegion, live: set[int]) -> set[int]:
        slots = self.roots(region.slots)
        for slot in sorted(slots):
            self.define(slot, live | slots)
        self.labels[region.label] = frozenset(live - slots)
        return self.sequence(region.body, live - slots)

    def exit(self, instr: ExitRegion) -> set[int]:
        values = self.roots(value for _, value in instr.blocks)
        return set(self.labels[instr.label]) | values


def unsafe_in_place(instr: Instr, result: BlockRef, layouts: dict[int, Layout]) -> set[int]:
    """Roots among the operands that `result` must not overwrite while the instruction works."""
    reads = {layouts[ref.id].root: ref for ref in read_blocks(instr)}
    match instr:
        case BlockOp() if not MICRO_OPS[instr.kind].mixes:
            return {
                root for ref in read_blocks(instr) for root in [layouts[ref.id].root] if not _same(ref, result, layouts)
            }
        case CopyBlock():
            return {root for root, ref in reads.items() if not _same(ref, result, layouts)}
        case Dot():
            unsafe = {layouts[instr.a.id].root, layouts[instr.b.id].root}
            if instr.acc is not None and not _same(instr.acc, result, layouts):
                unsafe.add(layouts[instr.acc.id].root)
            return unsafe
        case CompositeCall():
            own = {layouts[old.id].root for old, new in instr.updates if new.id == result.id}
            olds = {layouts[old.id].root for old, _ in instr.updates}
            return (set(reads) | olds) - own
        case _:
            return set(reads)


def _same(ref: BlockRef, result: BlockRef, layouts: dict[int, Layout]) -> bool:
    """True where `ref` names all of its root, element for element as `result` does."""
    layout = layouts[ref.id]
    return layout.shape == result.shape and layout.is_dense and layout.dtype == result.dtype
