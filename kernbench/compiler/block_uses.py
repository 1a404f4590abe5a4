"""Which blocks an instruction of the residual program reads and writes, and which instructions stand inside it.

Says what the forms of `residual.py` mention. Does not know layouts, liveness or buffers.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernbench.compiler.residual import (
    AtomicBlock,
    BlockOp,
    BlockRef,
    BlockRegion,
    BlockToScalar,
    CompositeCall,
    CopyBlock,
    Dot,
    ForRegion,
    IfRegion,
    IndexBlock,
    Instr,
    LoadBlock,
    MaskBlock,
    RecvBlock,
    Reshape,
    ScratchScope,
    SendBlock,
    StoreBlock,
    ViewOf,
    WaitFor,
    WhileRegion,
)


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


def walk(body: tuple[Instr, ...]) -> Iterator[Instr]:
    """Every instruction, in program order, outer before inner."""
    for instr in body:
        yield instr
        for region in regions(instr):
            yield from walk(region)
