"""Source beside what it became: for each line its commands, ops, stages, bytes and FLOPs, and the time it took.

Lines of helpers that stand in other files come after those of the kernel's file.

Reads a program and an op log; compiles and runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kernbench.commands import Command, CompositeTemplate, OpSpec, Program, walk
from kernbench.compiler.imports import Imports
from kernbench.compiler.program_json import KINDS
from kernbench.report.stages import stages_of
from kernbench.sim.op_log import OpTable
from kernbench.sim.topology_schema import PeSpec

DMA_KINDS = ("dma_read", "dma_write")


@dataclass
class LineUse:
    """What one source line became. Bytes and FLOPs are those of one run of each of its commands."""

    file: str
    line: int
    text: str
    commands: list[int] = field(default_factory=list)  # ids
    ops: list[str] = field(default_factory=list)
    stages: int = 0
    nbytes: int = 0  # moved between HBM and TCM
    flops: int = 0
    time_ns: float | None = None  # of all its log records, with `run`
    moved_bytes: int | None = None
    done_flops: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "line": self.line,
            "text": self.text,
            "commands": self.commands,
            "ops": self.ops,
            "stages": self.stages,
            "bytes": self.nbytes,
            "flops": self.flops,
            "time_ns": self.time_ns,
            "run_bytes": self.moved_bytes,
            "run_flops": self.done_flops,
        }


class LineUses:
    """All lines of `source`, the kernel's file, and of other files those that became something.

    `imports` has the texts of the files that the kernel imports.
    """

    def __init__(self, imports: Imports) -> None:
        source = imports.main
        self.file = source.file
        self.own = [
            LineUse(source.file, number, text)
            for number, text in enumerate(source.text.removesuffix("\n").split("\n"), 1)
        ]
        self._imports = imports
        self._others: dict[tuple[str, int], LineUse] = {}

    def __iter__(self) -> Iterator[LineUse]:
        yield from self.own
        yield from (self._others[place] for place in sorted(self._others))

    def at(self, file: str, line: int) -> LineUse:
        if file == self.file:
            return self.own[line - 1]
        if (file, line) not in self._others:
            self._others[file, line] = LineUse(file, line, self._imports.source(file).line(line))
        return self._others[file, line]


def inspect_program(program: Program, imports: Imports, spec: PeSpec) -> LineUses:
    """What the commands of a program count up to, line by line."""
    uses = LineUses(imports)
    for node in walk(program.body):
        if isinstance(node, Command) and node.span is not None:
            _count(uses.at(node.span.file, node.span.line), node, spec)
    return uses


def _count(use: LineUse, command: Command, spec: PeSpec) -> None:
    use.commands.append(command.id)
    use.ops.extend(_op_names(command))
    for note in stages_of(command, spec):
        use.stages += note.runs
        use.nbytes += note.nbytes if note.kind in DMA_KINDS else 0
    if isinstance(command, CompositeTemplate):
        use.flops += sum(op_flops(op) for op in command.ops)


def _op_names(command: Command) -> list[str]:
    if isinstance(command, CompositeTemplate):
        return [op.kind for op in command.ops]
    return [KINDS[type(command)]]


def op_flops(op: OpSpec) -> int:
    """2·m·k·n of a GEMM, as the log counts it; one an element of the largest block of a MATH op."""
    if op.kind == "gemm":
        return 2 * int(op.extra["m"]) * int(op.extra["k"]) * int(op.extra["n"])
    blocks = [*op.operands.values(), *([op.out] if op.out is not None else [])]
    return max(handle.n_elements for handle in blocks)


def add_run(uses: LineUses, log: OpTable) -> None:
    """Put the records of an op log to the lines that caused them; times of overlapping records add up."""
    for use in uses:
        use.time_ns, use.moved_bytes, use.done_flops = 0.0, 0, 0
    for use in uses:
        use.time_ns, use.moved_bytes, use.done_flops = 0.0, 0, 0
    for record in log:
        place = _place_of(record.src)
        if place is None:
            continue
        use = uses.at(*place)
        use.time_ns = (use.time_ns or 0.0) + record.duration_ps / 1000
        use.moved_bytes = (use.moved_bytes or 0) + (record.nbytes if record.op_kind in DMA_KINDS else 0)
        use.done_flops = (use.done_flops or 0) + record.flops


def _place_of(src: str) -> tuple[str, int] | None:
    """File and line of `file:line:col`; records that no kernel line caused have none."""
    parts = src.rsplit(":", 2)
    return (parts[0], int(parts[1])) if len(parts) == 3 and parts[1].isdigit() else None


def inspect_text(uses: Iterable[LineUse], *, with_run: bool) -> str:
    """A table; lines that became nothing show their text alone, a file after the first its name."""
    head = f"{'line':>4}  {'commands':<10} {'ops':<40} {'stages':>7} {'bytes':>10} {'flops':>12}"
    lines = [head + (f" {'time ns':>14}" if with_run else "") + "  source"]
    file = None
    for use in uses:
        if use.file != file and file is not None:
            lines.append(f"in {use.file}")
        file = use.file
        if use.commands or use.time_ns:
            ids = ",".join(f"%{number}" for number in use.commands)
            row = f"{use.line:>4}  {_cut(ids, 10):<10} {_cut(' '.join(use.ops), 40):<40} "
            row += f"{use.stages:>7} {use.nbytes:>10} {use.flops:>12}"
            row += f" {use.time_ns:>14.3f}" if with_run and use.time_ns is not None else ""
        else:
            row = f"{use.line:>4}{' ' * (len(head) - 4 + (15 if with_run else 0))}"
        lines.append(f"{row}  {use.text}".rstrip())
    return "\n".join(lines) + "\n"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
