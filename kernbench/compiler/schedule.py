"""Issue loads early: in a loop with `num_stages` above 1, a trip's first commands are the loads of the next trip.

A load is moved ahead where its address and mask follow from the loop variable and carried registers by pure scalar
instructions, and where the loop writes no memory that it might read. Its buffer becomes a ring of two slots: one is
filled while the other is used. The last trip, and a loop of no trips, load nothing.
Does not know addresses in TCM, how large TCM is, or time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from kernbench.commands import (
    Access,
    Affine,
    Assert,
    Atomic,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Exit,
    Gather,
    If,
    IndexOp,
    Int,
    Loop,
    Move,
    Node,
    Operand,
    Program,
    Recv,
    Reg,
    ScalarOp,
    ScalarStore,
    Scatter,
    Send,
    TensorHandle,
    add,
    affine,
    scale,
    walk,
)
from kernbench.compiler.handles import in_slot
from kernbench.compiler.liveness import steps
from kernbench.compiler.program_nodes import bodies, map_bodies, map_handles
from kernbench.compiler.static_slice import registers_of
from kernbench.compiler.unread import drop_unread
from kernbench.dtypes import DType, i1, i64

Load = DmaRead | Gather
Environment = dict[int, Operand]  # what stands for a register in another trip


def schedule(program: Program) -> Program:
    scheduler = _Scheduler(program)
    body = scheduler.sequence(program.body)
    depths = dict.fromkeys(scheduler.doubled, 2)
    early = replace(
        program,
        body=body,
        buffers=tuple(replace(b, depth=depths.get(b.id, b.depth)) for b in program.buffers),
        register_dtypes=tuple(scheduler.dtypes),
        register_names=tuple(scheduler.names),
    )
    return drop_unread(early)


@dataclass
class _Ahead:
    """What is moved out of one loop: the loads, and the scalar instructions that their addresses take."""

    loads: list[Load] = field(default_factory=list)
    slice: list[ScalarOp] = field(default_factory=list)  # of addresses and masks, in program order
    early: list[ScalarOp] = field(default_factory=list)  # of the next values of carried registers


class _Scheduler:
    def __init__(self, program: Program) -> None:
        self.dtypes: list[DType] = list(program.register_dtypes)
        self.names: list[str] = list(program.register_names)
        self.doubled: set[int] = set()
        self.depths = {buffer.id: buffer.depth for buffer in program.buffers}
        self.uses = Counter(buffer for node in walk(program.body) for buffer in _touched(node))
        self.next_id = max((getattr(node, "id", -1) for node in walk(program.body)), default=-1) + 1

    def new_register(self, dtype: DType, name: str = "") -> int:
        self.dtypes.append(dtype)
        self.names.append(name)
        return len(self.dtypes) - 1

    def command_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def sequence(self, body: tuple[Node, ...]) -> tuple[Node, ...]:
        out: list[Node] = []
        for node in body:
            out.extend(self.node(node))
        return tuple(out)

    def node(self, node: Node) -> tuple[Node, ...]:
        match node:
            case Loop():
                invariant, loop = _hoist(replace(node, body=self.sequence(node.body)))
                return (*invariant, *self.loop(loop))
            case _:
                return (map_bodies(node, self.sequence),)

    # ------------------------------------------------------------------ one loop

    def loop(self, loop: Loop) -> tuple[Node, ...]:
        if loop.num_stages < 2 or type(loop.step) is not int or not _writes_nothing(loop.body):
            return (loop,)
        ahead = _find_loads(loop, self)
        if not ahead.loads:
            return (loop,)
        return self.pipelined(loop, ahead)

    def pipelined(self, loop: Loop, ahead: _Ahead) -> tuple[Node, ...]:
        turn = self.new_register(i64)
        rings = {load.dst.id for load in ahead.loads}
        self.doubled |= rings
        first = self.trip(loop, ahead, _first_trip(loop), 0)
        later = self.trip(loop, ahead, _next_trip(loop), affine(1, {turn: -1}))
        moved = {id(node) for node in (*ahead.loads, *ahead.early)}
        rest = tuple(_in_slot(node, rings, turn) for node in loop.body if id(node) not in moved)
        body = (*ahead.early, *later, *rest)
        flip = Move(turn, affine(1, {turn: -1}))
        turned = replace(loop, body=body, init=(*loop.init, Move(turn, 0)), moves=(*loop.moves, flip))
        return (*first, turned)

    def trip(self, loop: Loop, ahead: _Ahead, environment: Environment, slot: Int) -> tuple[Node, ...]:
        """The loads of the trip that `environment` describes, if there is such a trip."""
        at = environment[loop.var]
        exists = self.new_register(i1)
        kind = "lt" if _ascends(loop) else "gt"
        test = ScalarOp(exists, kind, (at, loop.stop), i1, (i64, i64), loop.span)
        scalars: list[Node] = []
        inside = dict(environment)
        for op in ahead.slice:
            register = self.new_register(op.dtype, self.names[op.dst])
            args = tuple(substitute(arg, inside) for arg in op.args)
            scalars.append(replace(op, dst=register, args=args))
            inside[op.dst] = Reg(register)
        loads = [self.load(load, inside, slot) for load in ahead.loads]
        return test, If(Reg(exists), (*scalars, *loads), span=loop.span)

    def load(self, load: Load, environment: Environment, slot: Int) -> Node:
        dst = replace(load.dst, address=in_slot(slot))
        access, other = substitute_access(load.access, environment), load.other
        if not isinstance(other, TensorHandle | None):
            other = substitute(other, environment)
        return replace(load, id=self.command_id(), dst=dst, access=access, other=other)


# --------------------------------------------------------------------------- what does not change


def _hoist(loop: Loop) -> tuple[tuple[Node, ...], Loop]:
    """Scalar instructions whose arguments no trip changes, and the loop without them. None of them can fail."""
    changing = {loop.var, *_made_registers(loop.body), *(move.dst for move in (*loop.init, *loop.moves))}
    invariant: list[Node] = []
    rest: list[Node] = []
    for node in loop.body:
        if isinstance(node, ScalarOp) and changing.isdisjoint(registers_of(node.args)):
            invariant.append(node)
            changing.discard(node.dst)
        else:
            rest.append(node)
    return tuple(invariant), replace(loop, body=tuple(rest))


# --------------------------------------------------------------------------- what can be moved


def _touched(node: Node) -> set[int]:
    return {buffer for reads, writes in steps(node) for buffer in reads | writes}


def _writes_nothing(body: tuple[Node, ...]) -> bool:
    """True where no command of the loop writes memory or leaves the loop; behind a message others may have written."""
    for node in walk(body):
        if isinstance(node, DmaWrite | Scatter | Atomic | ScalarStore | Send | Recv | Exit | Assert):
            return False
        if isinstance(node, CompositeTemplate) and any(op.out and op.out.space == "hbm" for op in node.ops):
            return False
    return True


def _find_loads(loop: Loop, scheduler: _Scheduler) -> _Ahead:
    """Loads at the top level of the body whose addresses pure scalar code gives in advance."""
    ops = {node.dst: node for node in loop.body if isinstance(node, ScalarOp)}
    made = set(_made_registers(loop.body))
    carried = {move.dst: move.src for move in loop.moves}
    ahead = _Ahead()
    needed: set[int] = set()
    early: set[int] = set()
    for node in loop.body:
        if not isinstance(node, DmaRead | Gather) or not _is_movable(node, loop, scheduler):
            continue
        mine = _closure(registers_of((node.access, node.other)), ops, made)
        nexts = None if mine is None else _next_values(mine, ops, made, carried)
        if mine is not None and nexts is not None:
            ahead.loads.append(node)
            needed |= mine & ops.keys()
            early |= nexts & ops.keys()
    ahead.slice = [op for op in ops.values() if op.dst in needed]
    ahead.early = [op for op in ops.values() if op.dst in early]
    return ahead


def _is_movable(node: Load, loop: Loop, scheduler: _Scheduler) -> bool:
    """Its buffer belongs to this loop alone, and is written by nothing else."""
    if isinstance(node, Gather) and (node.index is not None or node.mask is not None):
        return False
    if isinstance(node.other, TensorHandle) or scheduler.depths[node.dst.id] != 1:
        return False
    inside = list(walk(loop.body))
    uses = sum(node.dst.id in _touched(other) for other in inside)
    writers = sum(any(node.dst.id in writes for _, writes in steps(other)) for other in inside)
    before = loop.body[: next(k for k, other in enumerate(loop.body) if other is node)]
    read_before = any(node.dst.id in _touched(other) for other in walk(before))
    return uses == scheduler.uses[node.dst.id] and writers == 1 and not read_before


def _made_registers(body: tuple[Node, ...]) -> Iterable[int]:
    """Registers that the body writes, by whatever means."""
    for node in walk(body):
        dst = getattr(node, "dst", None)
        if isinstance(dst, int):
            yield dst
        if isinstance(node, Loop):
            yield node.var
        for name in ("init", "moves", "then_moves", "else_moves"):
            for move in getattr(node, name, ()):
                yield move.dst


def _closure(wanted: Iterable[int], ops: dict[int, ScalarOp], made: set[int]) -> set[int] | None:
    """All registers that these depend on within the body; None where something else than scalar code makes one."""
    found: set[int] = set()
    todo = list(wanted)
    while todo:
        register = todo.pop()
        if register in found:
            continue
        found.add(register)
        if register in ops:
            todo.extend(registers_of(ops[register].args))
        elif register in made:
            return None
    return found


def _next_values(
    wanted: set[int], ops: dict[int, ScalarOp], made: set[int], carried: dict[int, Operand]
) -> set[int] | None:
    """Registers of this trip that the next trip's carried registers are made from."""
    sources = [carried[register] for register in sorted(wanted) if register in carried]
    return _closure(registers_of(tuple(sources)), ops, made)


# --------------------------------------------------------------------------- other trips


def _first_trip(loop: Loop) -> Environment:
    return {**{move.dst: move.src for move in loop.init}, loop.var: loop.start}


def _next_trip(loop: Loop) -> Environment:
    assert type(loop.step) is int
    return {**{move.dst: move.src for move in loop.moves}, loop.var: affine(loop.step, {loop.var: 1})}


def substitute(operand: Operand, environment: Environment) -> Operand:
    if isinstance(operand, Reg):
        return environment.get(operand.index, operand)
    return substitute_int(operand, environment) if isinstance(operand, Affine) else operand


def substitute_int(value: Int, environment: Environment) -> Int:
    if not isinstance(value, Affine):
        return value
    total: Int = value.const
    for register, coefficient in value.terms:
        total = add(total, scale(_as_int(environment.get(register, Reg(register))), coefficient))
    return total


def _as_int(operand: Operand) -> Int:
    if isinstance(operand, Reg):
        return affine(0, {operand.index: 1})
    assert not isinstance(operand, float), "an address is no float"
    return operand


def _substitute_any(value: Any, environment: Environment) -> Any:
    """In tuples and index expressions."""
    match value:
        case tuple():
            return tuple(_substitute_any(item, environment) for item in value)
        case IndexOp():
            return replace(value, args=_substitute_any(value.args, environment))
        case Reg() | Affine():
            return substitute(value, environment)
        case _:
            return value


def substitute_access(access: Access, environment: Environment) -> Access:
    changed = {
        name: _substitute_any(getattr(access, name), environment)
        for name in ("strides", "lo", "hi", "preds", "rest", "mask")
    }
    return replace(access, base=substitute_int(access.base, environment), **changed)


def _in_slot(node: Node, rings: set[int], turn: int) -> Node:
    """The node, reading the slot that was filled a trip ago."""

    def change(handle: TensorHandle) -> TensorHandle:
        if handle.id not in rings or handle.space != "tcm":
            return handle
        return replace(handle, address=in_slot(affine(0, {turn: 1})))

    if bodies(node):
        return map_bodies(node, lambda body: tuple(_in_slot(inner, rings, turn) for inner in body))
    return map_handles(node, change)


def _ascends(loop: Loop) -> bool:
    assert isinstance(loop.step, int)
    return loop.step > 0
