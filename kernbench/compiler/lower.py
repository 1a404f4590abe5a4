"""Residual program → Program: regions become structured nodes, carried blocks get their homes, operations commands.

The commands themselves are made by `TLContext`. Does not know addresses in TCM, the device or time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from kernbench.commands import (
    Block,
    Exit,
    If,
    Loop,
    Node,
    Param,
    Program,
    TensorHandle,
    While,
)
from kernbench.compiler.block_uses import regions
from kernbench.compiler.fault_log import FaultLog
from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.handles import in_slot
from kernbench.compiler.homes import Homes, Ring, find_homes, ring_key
from kernbench.compiler.residual import (
    BlockCarry,
    BlockRef,
    BlockRegion,
    ExitRegion,
    ForRegion,
    IfRegion,
    Instr,
    Residual,
    ScalarOp,
    ScratchScope,
    WhileRegion,
)
from kernbench.compiler.static_slice import mark_static
from kernbench.compiler.tl_context import PLAIN, TLContext
from kernbench.diagnostics import Span

MAX_REGION_DEPTH = 120


@dataclass(frozen=True, slots=True)
class _Copy:
    source: TensorHandle
    target: TensorHandle

    @property
    def reads(self) -> tuple[int, object]:
        return self.source.id, self.source.address

    @property
    def writes(self) -> tuple[int, object]:
        return self.target.id, self.target.address


def lower(residual: Residual, faults: FaultLog, opt_level: int = 1) -> Program | None:
    """The program; mistakes that only show here (composites, recipes) go to `faults`. None if it is too deep."""
    try:
        _check_depth(residual)
    except Fault as found:
        faults.add(found)
        return None
    homes = find_homes(residual)
    context = TLContext(homes, residual.register_dtypes, residual.register_names)
    body = _Lowering(context, homes, faults).region(residual.body)
    program = Program(
        name=residual.name,
        params=tuple(
            Param(p.name, "tensor" if p.kind == "tensor" else "scalar", p.dtype, p.register)
            for p in residual.parameters
            if p.register is not None and p.dtype is not None
        ),
        specials=residual.specials,
        register_dtypes=tuple(context.register_dtypes),
        register_names=tuple(context.register_names),
        buffers=tuple(context.buffers),
        body=body,
        constexprs=residual.constexprs,
        opt_level=opt_level,
    )
    return mark_static(program)


def _check_depth(residual: Residual) -> None:
    """Inlined helpers may nest deeper than any text does; passes behind this one walk regions by recursion."""
    todo: list[tuple[Instr, int]] = [(instr, 1) for instr in residual.body]
    while todo:
        instr, depth = todo.pop()
        if depth > MAX_REGION_DEPTH:
            assert not isinstance(instr, ScalarOp), "a scalar instruction has no regions"
            message = f"loops and branches, with those of inlined helpers, are nested deeper than {MAX_REGION_DEPTH}"
            raise fault("E_NESTING_TOO_DEEP", message, instr.span)
        for region in regions(instr):
            todo.extend((inner, depth + 1) for inner in region if regions(inner))


class _Lowering:
    """Walks regions; `context.nodes` is the list that commands go to."""

    def __init__(self, context: TLContext, homes: Homes, faults: FaultLog) -> None:
        self.context = context
        self.homes = homes
        self.faults = faults

    def region(
        self, body: tuple[Instr, ...], at_end: Iterable[_Copy] = (), span: Span | None = None
    ) -> tuple[Node, ...]:
        outer, self.context.nodes = self.context.nodes, []
        for instr in body:
            self.instr(instr)
        self.copy_all(at_end, span)
        nodes, self.context.nodes = tuple(self.context.nodes), outer
        return nodes

    def instr(self, instr: Instr) -> None:
        method = PLAIN.get(type(instr))
        try:
            if method is not None:
                method(self.context, instr)
            else:
                _REGIONS[type(instr)](self, instr)
        except Fault as found:
            self.faults.add(found)

    # ------------------------------------------------------------------ regions

    def for_region(self, region: ForRegion) -> None:
        rings = self.rings(region)
        span = region.span
        self.copy_all(self.entry(region.blocks, rings), span)
        body = self.region(region.body, self.back_edge(region.blocks, rings), span)
        self.context.nodes.append(
            Loop(
                var=region.var,
                start=region.start,
                stop=region.stop,
                step=region.step,
                body=body,
                name=region.name,
                init=(*region.init, *(move for ring in rings for move in ring.init)),
                moves=(*region.moves, *(move for ring in rings for move in ring.moves)),
                num_stages=region.num_stages,
                span=span,
            )
        )

    def while_region(self, region: WhileRegion) -> None:
        rings = self.rings(region)
        span = region.span
        self.copy_all(self.entry(region.blocks, rings), span)
        header = self.region(region.header)
        body = self.region(region.body, self.back_edge(region.blocks, rings), span)
        init = (*region.init, *(move for ring in rings for move in ring.init))
        moves = (*region.moves, *(move for ring in rings for move in ring.moves))
        self.context.nodes.append(While(header, region.condition, body, init, moves, span=span))

    def if_region(self, region: IfRegion) -> None:
        span = region.span
        then, orelse = (
            self.region(body, self.copies((carry.slot, carry.nexts[k]) for carry in region.blocks), span)
            for k, body in enumerate((region.then, region.orelse))
        )
        self.context.nodes.append(If(region.condition, then, orelse, region.then_moves, region.else_moves, span))

    def block_region(self, region: BlockRegion) -> None:
        self.context.nodes.append(Block(region.label, self.region(region.body), region.span))

    def exit_region(self, region: ExitRegion) -> None:
        self.copy_all(self.copies(region.blocks), region.span)
        self.context.nodes.append(Exit(region.label, region.moves, region.span))

    def scratch_scope(self, region: ScratchScope) -> None:
        self.context.scratch_scopes += 1
        self.context.nodes.extend(self.region(region.body))
        self.context.scratch_scopes -= 1

    # ------------------------------------------------------------------ carried blocks

    def rings(self, region: ForRegion | WhileRegion) -> list[Ring]:
        return self.homes.rings.get(ring_key(region), []) if region.blocks else []

    def entry(self, carries: tuple[BlockCarry, ...], rings: list[Ring]) -> list[_Copy]:
        """First values into the homes; a ring's registers are not set yet, so its slots go by number."""
        slot_of = {root: number for ring in rings for number, root in enumerate(ring.slots)}
        copies = []
        for carry in carries:
            if carry.init is None:
                continue  # first bound in the body of a loop that surely runs
            target = self.context.handle(carry.slot)
            if carry.slot.id in slot_of:
                target = _at_slot(target, slot_of[carry.slot.id])
            copies.append(_Copy(self.context.handle(carry.init), target))
        return copies

    def back_edge(self, carries: tuple[BlockCarry, ...], rings: list[Ring]) -> list[_Copy]:
        turned = {root for ring in rings for root in ring.slots}
        return self.copies((carry.slot, carry.nexts[0]) for carry in carries if carry.slot.id not in turned)

    def copies(self, pairs: Iterable[tuple[BlockRef, BlockRef]]) -> list[_Copy]:
        return [_Copy(self.context.handle(value), self.context.handle(slot)) for slot, value in pairs]

    def copy_all(self, copies: Iterable[_Copy], span: Span | None) -> None:
        """All at once: one that another still reads from is written after it, and a cycle goes by a fresh buffer."""
        pending = [copy for copy in copies if not _is_in_place(copy)]
        while pending:
            read = [copy.reads for copy in pending]
            free = next((k for k, copy in enumerate(pending) if _free(copy, k, read)), None)
            if free is None:
                pending[0] = self.set_aside(pending[0], span)
                continue
            copy = pending.pop(free)
            self.context.copy(copy.source, copy.target, span)

    def set_aside(self, copy: _Copy, span: Span | None) -> _Copy:
        aside = self.context.new_handle(copy.source.name, copy.source.shape, copy.source.dtype)
        self.context.copy(copy.source, aside, span)
        return _Copy(aside, copy.target)


def _free(copy: _Copy, index: int, read: list[tuple[int, object]]) -> bool:
    return all(copy.writes != place for k, place in enumerate(read) if k != index)


def _is_in_place(copy: _Copy) -> bool:
    source, target = copy.source, copy.target
    return copy.reads == copy.writes and source.strides == target.strides


def _at_slot(handle: TensorHandle, number: int) -> TensorHandle:
    return replace(handle, address=in_slot(number))


_REGIONS: dict[type, Callable[[_Lowering, Any], None]] = {
    ForRegion: _Lowering.for_region,
    WhileRegion: _Lowering.while_region,
    IfRegion: _Lowering.if_region,
    BlockRegion: _Lowering.block_region,
    ExitRegion: _Lowering.exit_region,
    ScratchScope: _Lowering.scratch_scope,
}
