"""Decide which blocks of a residual program share one buffer, so that loop-carried values need no copies.

A carried block, the value that a trip yields for it, its first value, and what a composite updates in place would
all like to be one buffer. Two blocks may be one buffer if neither is still needed where the other is written.
Where a loop rotates values by hand (`k = k_next` while `k` is still needed), they take turns in a ring.

Knows liveness and layouts. Does not know commands, recipes or addresses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kernbench.commands import Int, Move, Reg, TensorHandle, affine, contiguous_strides
from kernbench.compiler.handles import in_slot
from kernbench.compiler.residual import (
    AtomicBlock,
    BlockCarry,
    BlockOp,
    BlockRef,
    BlockRegion,
    BlockToScalar,
    CompositeCall,
    CopyBlock,
    Dot,
    ExitRegion,
    ForRegion,
    IfRegion,
    IndexBlock,
    Instr,
    LoadBlock,
    MaskBlock,
    RecvBlock,
    Reshape,
    Residual,
    ScratchScope,
    SendBlock,
    StoreBlock,
    ViewOf,
    WaitFor,
    WhileRegion,
)
from kernbench.dtypes import DType
from kernbench.numerics import MICRO_OPS


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


# --------------------------------------------------------------------------- what an instruction reads and writes


def read_blocks(instr: Instr) -> list[BlockRef]:
    """Blocks that a plain instruction (no region) reads."""
    match instr:
        case BlockOp():
            return [arg for arg in instr.args if isinstance(arg, BlockRef)]
        case ViewOf() | Reshape() | BlockToScalar():
            return [instr.source]
        case CopyBlock():
            return [instr.source] if isinstance(instr.source, BlockRef) else []
        case Dot():
            return [instr.a, instr.b, *([instr.acc] if instr.acc else [])]
        case LoadBlock():
            return [ref for ref in (instr.other, instr.index, instr.mask) if isinstance(ref, BlockRef)]
        case AtomicBlock():
            return [ref for ref in (instr.value, instr.compare, instr.index, instr.mask) if ref is not None]
        case StoreBlock():
            return [ref for ref in (instr.value, instr.index, instr.mask) if ref is not None]
        case WaitFor():
            return list(instr.blocks)
        case SendBlock():
            return [instr.value]
        case CompositeCall():
            return composite_reads(instr)
        case _:
            return []


def composite_reads(call: CompositeCall) -> list[BlockRef]:
    values = [*call.operands.values()]
    for entry in (*call.prologue, *call.epilogue):
        values.extend(entry.operands.values())
    return [value for value in values if isinstance(value, BlockRef)]


def written_blocks(instr: Instr) -> list[BlockRef]:
    """Blocks that a plain instruction makes."""
    match instr:
        case BlockOp() | IndexBlock() | MaskBlock() | Reshape() | Dot() | CopyBlock():
            return [instr.result]
        case LoadBlock() | AtomicBlock() | RecvBlock():
            return [instr.result]
        case CompositeCall():
            results = [new for _, new in instr.updates]
            return results if instr.result is None else [*results, instr.result]
        case _:
            return []


def regions(instr: Instr) -> tuple[tuple[Instr, ...], ...]:
    match instr:
        case ForRegion() | BlockRegion() | ScratchScope():
            return (instr.body,)
        case WhileRegion():
            return (instr.header, instr.body)
        case IfRegion():
            return (instr.then, instr.orelse)
        case _:
            return ()


def slots_of(instr: Instr) -> tuple[BlockRef, ...]:
    match instr:
        case ForRegion() | WhileRegion() | IfRegion():
            return tuple(carry.slot for carry in instr.blocks)
        case BlockRegion():
            return instr.slots
        case _:
            return ()


# --------------------------------------------------------------------------- layouts


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
    instrs = list(_walk(residual.body))
    _merge_yields(instrs, classes)
    homes = Homes(layouts, {}, {}, {}, {}, {}, len(residual.register_dtypes), liveness.live_after, _read(instrs))
    groups = _find_rings(instrs, classes, liveness)
    _merge_rest(instrs, classes)
    _number(instrs, classes, groups, homes)
    return homes


def _walk(body: tuple[Instr, ...]) -> Iterable[Instr]:
    for instr in body:
        yield instr
        for region in regions(instr):
            yield from _walk(region)


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
