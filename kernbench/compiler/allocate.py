"""Give every buffer its place in TCM: ring depths and first-fit addresses.

A buffer that is written anew in each trip of a loop rotates, so that a trip need not wait for the one before; when
TCM is short, rotation is given up before the program is. Does not know recipes, time, or what a buffer holds.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, replace
from itertools import pairwise

from kernbench.commands import (
    UNALLOCATED,
    Block,
    Buffer,
    CompositeTemplate,
    If,
    Loop,
    Node,
    OpSpec,
    Program,
    Target,
    TensorHandle,
    While,
    add,
    affine,
    scale,
    walk,
)
from kernbench.compiler.errors import error
from kernbench.compiler.handles import slot_and_offset
from kernbench.compiler.imports import Imports
from kernbench.compiler.liveness import Lifetimes, find_lifetimes
from kernbench.compiler.program_nodes import map_bodies, map_handles, map_op_handles
from kernbench.compiler.target_checks import check_target
from kernbench.compiler.tile_rings import TileRings, add_ring_lifetimes, add_rings
from kernbench.compiler.tile_scratch import tile_scratch
from kernbench.diagnostics import EXIT_KERNEL, Diagnostic, KernBenchError
from kernbench.dtypes import i64

ALIGNMENT = 64  # bytes; one line of TCM


@dataclass(frozen=True, slots=True)
class Plan:
    """How freely to use TCM. `share`: buffers may follow each other in one place."""

    depth: int
    share: bool
    rotate: str  # "all", "loaded" (what DMA writes), "none"


@dataclass(slots=True)
class Item:
    """A buffer as it is placed: `[first, last]` are the positions at which its bytes are taken."""

    buffer: Buffer
    slot_bytes: int
    first: int
    last: int
    loop: int | None  # the loop that turns it
    depth: int
    address: int = UNALLOCATED

    @property
    def nbytes(self) -> int:
        return self.slot_bytes * self.depth


@dataclass
class Layout:
    items: dict[int, Item]
    high_water: int


def allocate(program: Program, target: Target, imports: Imports | None = None) -> Program:
    """The program with addresses; `E_TCM_OVERFLOW` where it does not fit."""
    if wrong := check_target(program, target, imports):
        raise KernBenchError(wrong, EXIT_KERNEL)
    program = tile_scratch(program, target)
    with_rings, rings = add_rings(program, target)
    lifetimes = find_lifetimes(program.body)
    add_ring_lifetimes(program, rings, lifetimes)
    plans = _plans(program)
    for plan in plans:
        layout = place(with_rings.buffers, lifetimes, plan, target.tcm_bytes)
        if layout is not None:
            return _apply(with_rings, lifetimes, layout, rings)
    raise KernBenchError([_overflow(with_rings, lifetimes, plans[-1], target, imports)], EXIT_KERNEL)


def fits(program: Program, target: Target) -> bool:
    try:
        allocate(program, target)
    except KernBenchError:
        return False
    return True


def _plans(program: Program) -> list[Plan]:
    """From the most generous to the tightest; the first that fits is taken."""
    deepest = max([2, *(loop.num_stages for loop in walk(program.body) if isinstance(loop, Loop))])
    depths = range(deepest, 1, -1)
    return [
        *(Plan(depth, False, "all") for depth in depths),
        *(Plan(depth, True, "all") for depth in depths),
        Plan(2, True, "loaded"),
        Plan(1, True, "none"),
    ]


# --------------------------------------------------------------------------- placing


def place(buffers: tuple[Buffer, ...], lifetimes: Lifetimes, plan: Plan, limit: int) -> Layout | None:
    """First fit in the order of first use, then (where that leaves holes) the largest first; None if neither fits."""
    items = [_item(buffer, lifetimes, plan) for buffer in buffers if buffer.id in lifetimes.first]
    by_use = sorted(items, key=lambda item: (item.first, item.buffer.id))
    by_size = sorted(items, key=lambda item: (-item.nbytes, item.first, item.buffer.id))
    for order in (by_use, by_size):
        high_water = _first_fit(order, limit)
        if high_water is not None:
            return Layout({item.buffer.id: item for item in items}, high_water)
    return None


def _item(buffer: Buffer, lifetimes: Lifetimes, plan: Plan) -> Item:
    ring = buffer.id in lifetimes.rings
    first, last = lifetimes.first[buffer.id], lifetimes.last[buffer.id]
    loop = lifetimes.home[buffer.id]
    turns = plan.rotate == "all" or (plan.rotate == "loaded" and buffer.id in lifetimes.loaded)
    rotates = loop is not None and turns and buffer.depth == 1 and not buffer.persistent and not ring
    if loop is not None and (rotates or (buffer.depth > 1 and plan.rotate == "all")):
        # a slot must not be lent to another buffer while a later trip fills it
        first, last = lifetimes.loops[loop].first, lifetimes.loops[loop].last
    if buffer.persistent or not plan.share or (ring and plan.rotate != "none"):
        first, last = 0, lifetimes.end
    depth = plan.depth if rotates else buffer.depth
    return Item(buffer, _aligned(buffer.nbytes), first, last, loop if rotates else None, depth)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _first_fit(items: list[Item], limit: int) -> int | None:
    """Place items in their order; what no later item can meet is dropped, where that order is by first use."""
    placed: list[Item] = []  # by address
    high_water = 0
    by_use = all(one.first <= other.first for one, other in pairwise(items))
    together = all((item.first, item.last) == (items[0].first, items[0].last) for item in items)
    for item in items:
        if together:
            item.address = high_water
        else:
            if by_use:
                placed = [other for other in placed if other.last >= item.first]
            taken = [other for other in placed if other.first <= item.last and item.first <= other.last]
            item.address = _lowest(taken, item.nbytes)
            insort(placed, item, key=lambda other: other.address)
        high_water = max(high_water, item.address + item.nbytes)
        if high_water > limit:
            return None
    return high_water


def _lowest(taken: list[Item], nbytes: int) -> int:
    """The lowest address with room beside what is taken, which is sorted by address."""
    address = 0
    for other in taken:
        if other.address - address >= nbytes:
            break
        address = max(address, other.address + other.nbytes)
    return address


# --------------------------------------------------------------------------- rewriting


def _apply(program: Program, lifetimes: Lifetimes, layout: Layout, rings: TileRings) -> Program:
    rewriter = _Rewriter(program, lifetimes, layout, rings)
    body = rewriter.sequence(program.body)
    buffers = tuple(
        replace(buffer, depth=layout.items[buffer.id].depth, address=layout.items[buffer.id].address)
        for buffer in program.buffers
        if buffer.id in layout.items
    )
    return replace(
        program,
        body=body,
        buffers=buffers,
        tcm_bytes=layout.high_water,
        register_dtypes=(*program.register_dtypes, *[i64] * rewriter.n_new),
        register_names=(*program.register_names, *[""] * rewriter.n_new),
    )


class _Rewriter:
    def __init__(self, program: Program, lifetimes: Lifetimes, layout: Layout, rings: TileRings) -> None:
        self.layout = layout
        self.rings = rings
        self.registers = len(program.register_dtypes)
        self.rotations: dict[int, tuple[int, int]] = {}  # by loop: its register and depth
        for item in sorted(layout.items.values(), key=lambda item: item.buffer.id):
            if item.loop is not None and item.loop not in self.rotations:
                self.rotations[item.loop] = (self.registers + len(self.rotations), item.depth)
        self.n_new = len(self.rotations)
        self.loops = 0

    def sequence(self, body: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(self.node(node) for node in body)

    def node(self, node: Node) -> Node:
        match node:
            case Loop() | While():
                turned = replace(node, rotations=(*node.rotations, *self.turns()))
                return map_bodies(turned, self.sequence)
            case Block() | If():
                return map_bodies(node, self.sequence)
            case CompositeTemplate():
                ops = tuple(self.op(node.id, index, op) for index, op in enumerate(node.ops))
                return replace(node, ops=ops, rw_handles=tuple(self.handle(h) for h in node.rw_handles))
            case _:
                return map_handles(node, self.handle)

    def turns(self) -> tuple[tuple[int, int], ...]:
        index = self.loops
        self.loops += 1
        return (self.rotations[index],) if index in self.rotations else ()

    def op(self, template: int, index: int, op: OpSpec) -> OpSpec:
        op = map_op_handles(op, self.handle)
        rings = tuple(self.ring(name, buffer) for name, buffer in self.rings.of.get((template, index), ()))
        return replace(op, extra={**op.extra, "rings": rings}) if op.kind == "gemm" else op

    def ring(self, name: str, buffer: Buffer) -> tuple[str, int, int, int]:
        item = self.layout.items[buffer.id]
        return name, item.address, item.depth, item.slot_bytes

    def handle(self, handle: TensorHandle) -> TensorHandle:
        if handle.space != "tcm" or handle.is_accumulator:
            return handle
        item = self.layout.items[handle.id]
        slot, offset = slot_and_offset(handle.address)
        if item.loop is not None:
            slot = affine(0, {self.rotations[item.loop][0]: 1})
        return replace(handle, address=add(item.address + offset, scale(slot, item.slot_bytes)))


# --------------------------------------------------------------------------- too much


def _overflow(
    program: Program, lifetimes: Lifetimes, plan: Plan, target: Target, imports: Imports | None
) -> Diagnostic:
    """What is alive where the most is, largest first."""
    items = [_item(buffer, lifetimes, plan) for buffer in program.buffers if buffer.id in lifetimes.first]
    peak, live = max(
        ((at, [item for item in items if item.first <= at <= item.last]) for at in sorted({i.first for i in items})),
        key=lambda found: sum(item.nbytes for item in found[1]),
    )
    needed = sum(item.nbytes for item in live)
    live.sort(key=lambda item: (-item.nbytes, item.buffer.id))
    span = lifetimes.spans.get(peak) or lifetimes.made_at.get(live[0].buffer.id)
    text = f"{needed} bytes are needed here, {target.tcm_bytes} are there" if needed > target.tcm_bytes else "here"
    message = f"kernel `{program.name}` does not fit in TCM: {needed} of {target.tcm_bytes} bytes are in use at once"
    notes = tuple(_live_line(item, lifetimes) for item in live[:MAX_SHOWN])
    hidden = len(live) - len(notes)
    if hidden > 0:
        rest = sum(item.nbytes for item in live[MAX_SHOWN:])
        notes = (*notes, f"{rest:>10} bytes  in {hidden} smaller blocks")
    return error(
        "E_TCM_OVERFLOW",
        message,
        *(imports.labels(span, text) if span is not None and imports is not None else ()),
        notes=notes,
        help=_advice(live, needed, target.tcm_bytes),
    )


MAX_SHOWN = 12


def _live_line(item: Item, lifetimes: Lifetimes) -> str:
    span = lifetimes.made_at.get(item.buffer.id)
    place_ = f"  {span.file}:{span.line}" if span is not None else ""
    slots = f" in {item.depth} slots" if item.depth > 1 else ""
    return f"{item.nbytes:>10} bytes  `{item.buffer.name}`{slots}{place_}"


def _advice(live: list[Item], needed: int, limit: int) -> str:
    """How much smaller the largest block must be for the rest to fit beside it."""
    largest = live[0]
    rest = needed - largest.nbytes
    room = (limit - rest) // largest.depth // ALIGNMENT * ALIGNMENT
    if room > 0:
        return f"`{largest.buffer.name}` fits with at most {room} bytes instead of {largest.slot_bytes}"
    return f"the blocks together must shrink by {needed - limit} bytes; use smaller block sizes"
