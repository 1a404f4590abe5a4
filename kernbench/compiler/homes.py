"""Decide which blocks of a residual program share one buffer, so that loop-carried values need no copies.

A carried block, the value that a trip yields for it, its first value, and what a composite updates in place would
all like to be one buffer. Two blocks may be one buffer if neither is still needed where the other is written.
Where a loop rotates values by hand (`k = k_next` while `k` is still needed), they take turns in a ring.

What may not share is told by `interference.py`. Does not know commands, recipes or addresses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernbench.commands import Int, Move, Reg, TensorHandle, affine
from kernbench.compiler.block_uses import read_blocks, slots_of, walk, written_blocks
from kernbench.compiler.handles import in_slot
from kernbench.compiler.interference import Layout, Liveness, layouts_of
from kernbench.compiler.residual import (
    BlockCarry,
    BlockRef,
    CompositeCall,
    Dot,
    ExitRegion,
    ForRegion,
    IfRegion,
    Instr,
    Residual,
    WhileRegion,
)


@dataclass(frozen=True, slots=True)
class Room:
    """Where a root lives: a buffer, and the slot of it (0 but in rings)."""

    buffer: int
    slot: Int = 0


@dataclass(slots=True)
class Ring:
    """Values that take turns in the slots of one buffer; slot `j` is named by register `registers[j]`."""

    buffer: int
    slots: tuple[int, ...]  # the carried roots, in the order in which values pass through them
    registers: tuple[int, ...]

    @property
    def init(self) -> tuple[Move, ...]:
        return tuple(Move(register, j) for j, register in enumerate(self.registers))

    @property
    def moves(self) -> tuple[Move, ...]:
        turned = (*self.registers[1:], self.registers[0])
        return tuple(Move(register, Reg(source)) for register, source in zip(self.registers, turned, strict=True))


@dataclass(slots=True)
class Homes:
    layouts: dict[int, Layout]
    rooms: dict[int, Room]  # by root
    names: dict[int, str]  # of buffers
    nbytes: dict[int, int]
    depths: dict[int, int]
    rings: dict[int, list[Ring]]  # by the first slot's root of the region that turns them: `ring_key`
    n_registers: int
    live_after: dict[int, frozenset[int]]  # by id() of each CompositeCall: roots needed after it
    read: frozenset[int]  # blocks that something reads
    unnamed: set[int] = field(default_factory=set)  # buffers that no kernel name has been seen for

    def handle(self, ref: BlockRef) -> TensorHandle:
        layout = self.layouts[ref.id]
        room = self.rooms[layout.root]
        name = ref.name or self.names[room.buffer]
        return TensorHandle(room.buffer, name, in_slot(room.slot), layout.shape, layout.strides, ref.dtype, "tcm")

    def room(self, ref: BlockRef) -> Room:
        return self.rooms[self.layouts[ref.id].root]


# --------------------------------------------------------------------------- classes


@dataclass
class Classes:
    """Roots that share a buffer; merging is refused where two members conflict."""

    edges: dict[int, set[int]]
    layouts: dict[int, Layout]
    leader: dict[int, int] = field(default_factory=dict)
    members: dict[int, set[int]] = field(default_factory=dict)
    locked: set[int] = field(default_factory=set)  # leaders of classes that are in a ring

    def find(self, root: int) -> int:
        return self.leader.get(root, root)

    def all_of(self, root: int) -> set[int]:
        return self.members.get(self.find(root), {root})

    def merge(self, a: BlockRef, b: BlockRef) -> bool:
        """Make the two blocks one buffer where that is safe; true where they are one."""
        if not (self.is_whole(a) and self.is_whole(b)) or (a.shape, a.dtype) != (b.shape, b.dtype):
            return False
        first, second = self.find(self.layouts[a.id].root), self.find(self.layouts[b.id].root)
        if first == second:
            return True
        if {first, second} & self.locked or self.conflicts(first, second):
            return False
        joined = self.all_of(first) | self.all_of(second)
        leader = min(joined)
        for root in joined:
            self.leader[root] = leader
        self.members[leader] = joined
        return True

    def conflicts(self, a: int, b: int) -> bool:
        others = self.all_of(b)
        return any(not others.isdisjoint(self.edges.get(root, ())) for root in self.all_of(a))

    def is_whole(self, ref: BlockRef) -> bool:
        layout = self.layouts[ref.id]
        own = self.layouts[layout.root]
        return layout.is_dense and layout.shape == own.shape


def find_homes(residual: Residual) -> Homes:
    layouts = layouts_of(residual.body)
    liveness = Liveness(layouts)
    liveness.sequence(residual.body, set())
    classes = Classes(liveness.edges, layouts)
    instrs = list(walk(residual.body))
    _merge_yields(instrs, classes)
    homes = Homes(layouts, {}, {}, {}, {}, {}, len(residual.register_dtypes), liveness.live_after, _read(instrs))
    groups = _find_rings(instrs, classes, liveness)
    _merge_rest(instrs, classes)
    _number(instrs, classes, groups, homes)
    return homes


def _read(instrs: list[Instr]) -> frozenset[int]:
    found: set[int] = set()
    for instr in instrs:
        found.update(ref.id for ref in read_blocks(instr))
        if isinstance(instr, ForRegion | WhileRegion | IfRegion):
            found.update(ref.id for carry in instr.blocks for ref in (carry.init, *carry.nexts) if ref is not None)
        elif isinstance(instr, ExitRegion):
            found.update(value.id for _, value in instr.blocks)
    return frozenset(found)


def _merge_yields(instrs: list[Instr], classes: Classes) -> None:
    for instr in instrs:
        if isinstance(instr, CompositeCall):
            for old, new in instr.updates:
                classes.merge(old, new)
        elif isinstance(instr, ForRegion | WhileRegion):
            for carry in instr.blocks:
                classes.merge(carry.slot, carry.nexts[0])


def _merge_rest(instrs: list[Instr], classes: Classes) -> None:
    for instr in instrs:
        if isinstance(instr, ForRegion | WhileRegion | IfRegion):
            for carry in instr.blocks:
                for value in (carry.init, *carry.nexts):
                    if value is not None:
                        classes.merge(carry.slot, value)
        elif isinstance(instr, ExitRegion):
            for slot, value in instr.blocks:
                classes.merge(slot, value)
        elif isinstance(instr, Dot) and instr.acc is not None:
            classes.merge(instr.acc, instr.result)


# --------------------------------------------------------------------------- rings


@dataclass
class Group:
    """Carried blocks whose values pass from one to the next: `slots[0]` takes `slots[1]`, and so on."""

    region: ForRegion | WhileRegion
    slots: list[BlockRef]
    last: BlockRef | None  # what the trip makes for the last of them; None in a cycle
    inits: list[BlockRef | None]


def ring_key(region: ForRegion | WhileRegion) -> int:
    return region.blocks[0].slot.id


def _find_rings(instrs: list[Instr], classes: Classes, liveness: Liveness) -> list[Group]:
    groups: list[Group] = []
    for instr in instrs:
        if isinstance(instr, ForRegion | WhileRegion):
            groups.extend(_rings_of(instr, classes, liveness))
    return groups


def _rings_of(region: ForRegion | WhileRegion, classes: Classes, liveness: Liveness) -> list[Group]:
    carries = {liveness.root(carry.slot): carry for carry in region.blocks}
    passed = {liveness.root(carry.nexts[0]) for carry in region.blocks}
    heads = [root for root in carries if root not in passed] + [root for root in carries if root in passed]
    done: set[int] = set()
    groups = []
    for head in heads:
        chain = _chain(head, carries, classes, liveness, done)
        group = _group(region, chain, carries, classes, liveness)
        if group is not None:
            groups.append(group)
            done.update(chain)
            for root in (*chain, *([liveness.root(group.last)] if group.last else [])):
                classes.locked.add(classes.find(root))
    return groups


def _chain(
    head: int, carries: dict[int, BlockCarry], classes: Classes, liveness: Liveness, done: set[int]
) -> list[int]:
    """Slots of one type from `head` on, each taking the next one's value."""
    chain: list[int] = []
    root = head
    while root in carries and root not in chain and root not in done and classes.is_whole(carries[root].nexts[0]):
        if chain and (carries[root].slot.shape, carries[root].slot.dtype) != (
            carries[head].slot.shape,
            carries[head].slot.dtype,
        ):
            break
        chain.append(root)
        root = liveness.root(carries[root].nexts[0])
    return chain


def _group(
    region: ForRegion | WhileRegion,
    chain: list[int],
    carries: dict[int, BlockCarry],
    classes: Classes,
    liveness: Liveness,
) -> Group | None:
    """The ring of a chain, or None where a plain home (or a copy) is what it takes."""
    if not chain or any(len(classes.all_of(root)) > 1 for root in chain):
        return None
    slots = [carries[root].slot for root in chain]
    inits = [carries[root].init for root in chain]
    last = carries[chain[-1]].nexts[0]
    root = liveness.root(last)
    if root == chain[0]:
        return Group(region, slots, None, inits) if len(chain) > 1 else None
    made = liveness.bodies[id(region)]
    fits = (last.shape, last.dtype) == (slots[0].shape, slots[0].dtype)
    if not fits or classes.find(root) in classes.locked or not classes.all_of(root) <= made:
        return None
    return Group(region, slots, last, inits)


# --------------------------------------------------------------------------- buffers


def _number(instrs: list[Instr], classes: Classes, groups: list[Group], homes: Homes) -> None:
    """Give every class a buffer, in the order of the program, and every ring its registers."""
    in_rings: dict[int, Room] = {}
    for group in groups:
        _number_ring(group, classes, homes, in_rings)
    for instr in instrs:
        for ref in (*written_blocks(instr), *slots_of(instr)):
            if homes.layouts[ref.id].root == ref.id:
                _place(ref, classes, homes, in_rings)


def _place(ref: BlockRef, classes: Classes, homes: Homes, in_rings: dict[int, Room]) -> None:
    leader = classes.find(ref.id)
    room = in_rings.get(leader) or homes.rooms.get(leader)
    if room is None:
        room = Room(_new_buffer(ref, homes))
        homes.rooms[leader] = room
    homes.rooms[ref.id] = room
    if ref.name and room.buffer in homes.unnamed:
        homes.unnamed.discard(room.buffer)
        homes.names[room.buffer] = ref.name


def _new_buffer(ref: BlockRef, homes: Homes) -> int:
    number = len(homes.names) + 1  # 0 is the accumulator and HBM operands
    homes.names[number] = ref.name or f"t{number}"
    if not ref.name:
        homes.unnamed.add(number)
    elements = 1
    for extent in ref.shape:
        elements *= extent
    homes.nbytes[number] = elements * ref.dtype.nbytes
    homes.depths[number] = 1
    return number


def _number_ring(group: Group, classes: Classes, homes: Homes, in_rings: dict[int, Room]) -> None:
    depth = len(group.slots) + (group.last is not None)
    buffer = _new_buffer(group.slots[0], homes)
    homes.depths[buffer] = depth
    registers = tuple(range(homes.n_registers, homes.n_registers + depth))
    homes.n_registers += depth
    members = [*group.slots, *([group.last] if group.last is not None else [])]
    for ref, register in zip(members, registers, strict=True):
        leader = classes.find(homes.layouts[ref.id].root)
        in_rings[leader] = Room(buffer, affine(0, {register: 1}))
    for number, init in enumerate(group.inits):
        if init is not None and _may_start_in_ring(init, members, classes, homes, in_rings):
            in_rings[classes.find(homes.layouts[init.id].root)] = Room(buffer, number)
    slots = tuple(slot.id for slot in group.slots)
    homes.rings.setdefault(ring_key(group.region), []).append(Ring(buffer, slots, registers))


def _may_start_in_ring(
    init: BlockRef, members: list[BlockRef], classes: Classes, homes: Homes, in_rings: dict[int, Room]
) -> bool:
    """True where the first value can be made in its slot: it is alone in its class, and dead once the loop begins.

    No value of the ring may be needed while it is made, since it may lie in any slot by then."""
    root = homes.layouts[init.id].root
    leader = classes.find(root)
    alone = len(classes.all_of(root)) == 1 and leader not in in_rings and leader not in classes.locked
    slot = members[0]
    same = (init.shape, init.dtype) == (slot.shape, slot.dtype) and classes.is_whole(init)
    edges = classes.edges.get(root, set())
    return alone and same and all(edges.isdisjoint(classes.all_of(homes.layouts[ref.id].root)) for ref in members)
