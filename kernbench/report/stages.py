"""The stages that each command of a program becomes, as text: what runs where, and why each DMA is there.

Asks the scheduler's own planner; does not plan anything itself.
"""

from __future__ import annotations

from kernbench.commands import (
    Atomic,
    Command,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Gather,
    Program,
    ReadScalar,
    Recv,
    ScalarLoad,
    ScalarStore,
    Scatter,
    Send,
    Wait,
    walk,
)
from kernbench.compiler.program_json import KINDS
from kernbench.sim.plan import StageNote, describe_plan
from kernbench.sim.topology_schema import PeSpec


def stages_of(command: Command, spec: PeSpec) -> list[StageNote]:
    """What a command becomes, in the order of the first runs."""
    match command:
        case CompositeTemplate():
            return describe_plan(command, spec)
        case DmaRead(dst=handle) | Gather(dst=handle):
            return [StageNote("dma_read", handle.name, "command", 1, handle.nbytes, "the kernel loads it; at most")]
        case DmaWrite(src=handle) | Scatter(src=handle):
            return [StageNote("dma_write", handle.name, "command", 1, handle.nbytes, "the kernel stores it; at most")]
        case Atomic(src=handle, dst=old):
            notes = [StageNote("dma_write", handle.name, "command", 1, handle.nbytes, "an atomic's values; at most")]
            if old is not None:
                notes.append(StageNote("dma_read", old.name, "command", 1, old.nbytes, "the old values come back"))
            return notes
        case ScalarLoad(dtype=dtype):
            return [StageNote("dma_read", "scalar", "command", 1, dtype.nbytes, "pe_cpu waits for it")]
        case ScalarStore(dtype=dtype):
            return [StageNote("dma_write", "scalar", "command", 1, dtype.nbytes, "pe_cpu stores it")]
        case Send(src=handle):
            return [StageNote("send", handle.name, "command", 1, handle.nbytes, "the kernel sends it to another PE")]
        case Recv(dst=handle):
            return [StageNote("recv", handle.name, "command", 1, handle.nbytes, "pe_cpu waits for it")]
        case ReadScalar() | Wait():
            return []


def print_stages(program: Program, spec: PeSpec) -> str:
    """One kind of stage a line under each command."""
    lines = [f"stages of {program.name}"]
    for node in walk(program.body):
        if isinstance(node, Command):
            lines.append(_head(node))
            lines.extend(f"    {_note(note)}" for note in stages_of(node, spec))
    return "\n".join(lines) + "\n"


def _head(command: Command) -> str:
    words = f"%{command.id} {KINDS[type(command)]}"
    return words if command.span is None else f"{words:<60}  # {command.span}"


def _note(note: StageNote) -> str:
    size = f"{note.nbytes} B" if note.nbytes else ""
    return f"{note.kind:<10} {note.name:<12} {note.scope:<12} x{note.runs:<6} {size:<12} {note.why}"
