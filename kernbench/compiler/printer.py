"""Programs as text that is made to be read: structured (`--emit=program`) and as a flat list of ops (`--emit=ops`).

One op a line; names are the kernel's own; shape, type and space always shown; the source place at the right margin.
The structured form holds everything that a Program holds, so `program_parser.parse_program` gives it back.
Does not know what ops compute, or addresses beyond those it is given.

    $name        a register            [8 + 4*$i]   an affine expression over registers
    x.3@tcm[64]  buffer 3 at 64        :64x32:fp32  its shape and type    /(1,64)  strides that are not row-major
    ~.0@hbm[…]   an operand without a name
    axis0        position on axis 0    mod(axis0, 7):i32   an index expression
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from kernbench.commands import (
    UNALLOCATED,
    Access,
    Affine,
    Assert,
    Atomic,
    AxisIndex,
    Block,
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
    OpSpec,
    Program,
    ReadScalar,
    Recv,
    Reg,
    ScalarLoad,
    ScalarOp,
    ScalarStore,
    Scatter,
    Send,
    TensorHandle,
    Wait,
    While,
    contiguous_strides,
)
from kernbench.compiler.handles import slot_and_offset
from kernbench.diagnostics import Span
from kernbench.dtypes import DType

MARGIN = 110  # where source places begin
INDENT = "  "


def print_program(program: Program) -> str:
    """The structured form; a Program without addresses prints slots instead."""
    printer = Printer(program)
    lines = [f"program {program.name}  opt {program.opt_level}  tcm {program.tcm_bytes} B"]
    lines += [f"constexpr {name} = {printer.value(value)}" for name, value in program.constexprs]
    lines += [f"param {p.name}: {'*' if p.kind == 'tensor' else ''}{p.dtype} = {p.register}" for p in program.params]
    lines += [f"special {what} = {register}" for what, register in program.specials]
    lines += [printer.register_line(index) for index in range(len(program.register_dtypes))]
    lines += [_buffer_line(buffer) for buffer in program.buffers]
    lines += ["body", *printer.sequence(program.body, 1)]
    return "\n".join(lines) + "\n"


def print_ops(program: Program) -> str:
    """Every command in program order, without control flow: its loop, its ops, its size."""
    printer = Printer(program)
    lines = [f"program {program.name}"]
    for loop, node in commands_with_loops(program.body):
        lines += printer.flat(node, loop)
    return "\n".join(lines) + "\n"


def commands_with_loops(body: tuple[Node, ...], loop: str | None = None) -> Iterator[tuple[str | None, Node]]:
    """Each command with the name of the innermost loop around it."""
    for node in body:
        match node:
            case Loop():
                yield from commands_with_loops(node.body, node.name or "loop")
            case While():
                yield from commands_with_loops((*node.header, *node.body), "while")
            case Block():
                yield from commands_with_loops(node.body, loop)
            case If():
                yield from commands_with_loops((*node.then, *node.orelse), loop)
            case _ if not isinstance(node, ScalarOp | Assert | Exit):
                yield loop, node


def _buffer_line(buffer: Any) -> str:
    place = "" if buffer.address == UNALLOCATED else f" at {buffer.address}"
    slots = f" x {buffer.depth}" if buffer.depth > 1 else ""
    return f"buffer {buffer.name}.{buffer.id}: {buffer.nbytes} B{slots}{place}{' persistent' * buffer.persistent}"


def unique_names(given: Sequence[str]) -> list[str]:
    """How registers are written: by the kernel's own name where one register has it, else with the number."""
    uses = Counter(given)
    return [
        name if name and uses[name] == 1 else f"{name}.{index}" if name else str(index)
        for index, name in enumerate(given)
    ]


class Printer:
    """Knows the program's register names."""

    def __init__(self, program: Program) -> None:
        self.dtypes = program.register_dtypes
        self.given = program.register_names
        self.placed = all(buffer.address != UNALLOCATED for buffer in program.buffers)
        self.names = unique_names(program.register_names)

    # ------------------------------------------------------------------ values

    def register_line(self, index: int) -> str:
        name = f" {self.given[index]}" if self.given[index] else ""
        return f"register {index}: {self.dtypes[index]}{name}"

    def reg(self, index: int) -> str:
        return f"${self.names[index]}"

    def affine(self, value: Affine) -> str:
        terms = [self.reg(r) if c == 1 else f"{c}*{self.reg(r)}" for r, c in value.terms]
        const = [str(value.const)] if value.const else []
        return "[" + " + ".join(const + terms).replace("+ -", "- ") + "]"

    def value(self, value: Any) -> str:
        match value:
            case Affine():
                return self.affine(value)
            case Reg():
                return self.reg(value.index)
            case AxisIndex():
                return f"axis{value.axis}"
            case IndexOp():
                return f"{value.kind}({', '.join(self.value(arg) for arg in value.args)}):{value.dtype}"
            case tuple():
                return "(" + ", ".join(self.value(item) for item in value) + ("," if len(value) == 1 else "") + ")"
            case DType():
                return value.name
            case float():
                return _float(value)
            case str():
                return quoted(value)
            case _:
                return repr(value)

    def integer(self, value: Int) -> str:
        return self.affine(value)[1:-1] if isinstance(value, Affine) else str(value)

    def handle(self, handle: TensorHandle) -> str:
        shape = "x".join(str(extent) for extent in handle.shape) or "scalar"
        strides = ""
        if handle.strides != contiguous_strides(handle.shape):
            strides = "/(" + ",".join(self.integer(stride) for stride in handle.strides) + ")"
        where = f"{handle.space}[{self.integer(handle.address)}]"
        if handle.is_accumulator:
            where = "acc"
        elif handle.space == "tcm" and not self.placed:
            where = self.unplaced(handle)
        return f"{handle.name or '~'}.{handle.id}@{where}:{shape}:{handle.dtype}{strides}"

    def unplaced(self, handle: TensorHandle) -> str:
        """`tcm`, `tcm slot 1 byte 128`: what is known before `allocate`."""
        slot, offset = slot_and_offset(handle.address)
        return "tcm" + (f" slot {self.integer(slot)}" if slot != 0 else "") + (f" byte {offset}" if offset else "")

    def access(self, access: Access) -> str:
        shape = "x".join(str(extent) for extent in access.shape) or "scalar"
        parts = [f"hbm[{self.integer(access.base)}]:{shape}:{access.dtype}"]
        parts.append("strides(" + ", ".join(self.integer(stride) for stride in access.strides) + ")")
        for word, bounds in (("lo", access.lo), ("hi", access.hi)):
            if bounds:
                parts.append(f"{word}{self.value(bounds)}")
        if access.preds:
            parts.append(f"preds{self.value(access.preds)}")
        for word, known in (("rest", access.rest), ("mask", access.mask)):
            if known is not None:
                parts.append(f"{word}({self.value(known)})")
        if access.offset_bits != 64:
            parts.append(f"bits{access.offset_bits}")
        return " ".join(parts)

    def either(self, value: Any) -> str:
        return self.handle(value) if isinstance(value, TensorHandle) else self.value(value)

    def moves(self, word: str, moves: tuple[Move, ...], depth: int) -> list[str]:
        if not moves:
            return []
        return [INDENT * depth + word + " " + ", ".join(f"{self.reg(m.dst)} = {self.value(m.src)}" for m in moves)]

    # ------------------------------------------------------------------ ops and commands

    def op(self, op: OpSpec) -> str:
        parts = [f"{op.kind:<10}", f"{op.scope.value:<11}"]
        parts += [f"{name}={self.handle(handle)}" for name, handle in op.operands.items()]
        parts += [f"{name}={self.value(value)}" for name, value in op.extra.items()]
        if op.out is not None:
            parts += ["->", self.handle(op.out)]
        return " ".join(parts)

    def command(self, node: Node) -> str:
        """A command on one line; a composite of several ops only its head."""
        static = "static " if getattr(node, "static", False) else ""
        match node:
            case CompositeTemplate():
                rw = f" rw({', '.join(self.handle(handle) for handle in node.rw_handles)})" if node.rw_handles else ""
                body = self.op(node.ops[0]) if len(node.ops) == 1 and not rw else f"composite{rw}"
            case DmaRead():
                body = f"dma.read   {self.access(node.access)}{self._other(node.other)} -> {self.handle(node.dst)}"
            case DmaWrite():
                body = f"dma.write  {self.handle(node.src)} -> {self.access(node.access)}"
            case Gather():
                body = f"gather     {self.access(node.access)}{self._lanes(node)}{self._other(node.other)} -> "
                body += self.handle(node.dst)
            case Scatter():
                body = f"scatter    {self.handle(node.src)} -> {self.access(node.access)}{self._lanes(node)}"
            case Atomic():
                compare = "" if node.compare is None else f" compare={self.handle(node.compare)}"
                body = f"atomic.{node.kind} {self.handle(node.src)}{compare} -> {self.access(node.access)}"
                body += self._lanes(node) + ("" if node.dst is None else f" old={self.handle(node.dst)}")
            case ScalarLoad():
                body = (
                    f"load       {self._word(node.address, node.dtype, node.preds)} other={self.value(node.other)} -> "
                )
                body += self.reg(node.dst)
            case ScalarStore():
                body = f"store      {self.value(node.value)}:{node.value_dtype} -> "
                body += self._word(node.address, node.dtype, node.preds)
            case ReadScalar():
                body = f"read       {self.handle(node.src)} -> {self.reg(node.dst)}"
            case Send():
                body = f"send       {self.handle(node.src)} to {self.value(node.to)}"
            case Recv():
                body = f"recv       {self.value(node.source)} -> {self.handle(node.dst)}"
            case Wait():
                body = f"wait       {', '.join(self.handle(handle) for handle in node.handles) or 'all'}"
            case _:
                raise AssertionError(f"{type(node).__name__} is no command")
        return f"%{node.id:<4}{static}{body}"

    def _word(self, address: Int, dtype: DType, preds: tuple[Any, ...]) -> str:
        return f"hbm[{self.integer(address)}]:{dtype}" + (f" preds{self.value(preds)}" if preds else "")

    def _other(self, other: Any) -> str:
        return "" if other is None else f" other={self.either(other)}"

    def _lanes(self, node: Gather | Scatter | Atomic) -> str:
        index = "" if node.index is None else f" index={self.handle(node.index)}"
        mask = "" if node.mask is None else f" mask={self.handle(node.mask)}"
        return index + mask

    def flat(self, node: Any, loop: str | None) -> list[str]:
        where = f"in {loop}" if loop is not None else ""
        lines = [_margin(f"{self.command(node):<9}", node.span, where)]
        if isinstance(node, CompositeTemplate) and (len(node.ops) > 1 or node.rw_handles):
            lines += [f"{INDENT}| {self.op(op)}" for op in node.ops]
        return lines

    # ------------------------------------------------------------------ structure

    def sequence(self, body: tuple[Node, ...], depth: int) -> list[str]:
        lines = []
        for node in body:
            lines += self.node(node, depth)
        return lines

    def node(self, node: Node, depth: int) -> list[str]:
        pad = INDENT * depth
        match node:
            case Loop():
                return self._loop(node, depth)
            case While():
                return self._while(node, depth)
            case If():
                return self._if(node, depth)
            case Block():
                return [_margin(f"{pad}block {node.label}", node.span), *self.sequence(node.body, depth + 1)]
            case Exit():
                return [_margin(f"{pad}exit {node.label}", node.span), *self.moves("set", node.moves, depth + 1)]
            case Assert():
                return [_margin(f"{pad}assert {self.value(node.condition)} {quoted(node.message)}", node.span)]
            case ScalarOp():
                args = ", ".join(f"{self.value(a)}:{d}" for a, d in zip(node.args, node.arg_dtypes, strict=True))
                return [_margin(f"{pad}{self.reg(node.dst)} = {node.kind}({args}):{node.dtype}", node.span)]
            case _:
                lines = [_margin(pad + self.command(node), node.span)]
                if isinstance(node, CompositeTemplate) and (len(node.ops) > 1 or node.rw_handles):
                    lines += [f"{pad}{INDENT}| {self.op(op)}" for op in node.ops]
                return lines

    def _loop(self, node: Loop, depth: int) -> list[str]:
        bounds = ", ".join(self.value(bound) for bound in (node.start, node.stop, node.step))
        stages = f" stages {node.num_stages}" if node.num_stages != 1 else ""
        name = f" {quoted(node.name)}" if node.name else ""
        head = f"{INDENT * depth}loop {self.reg(node.var)} in ({bounds}){name}{stages}{self._turns(node.rotations)}"
        return [
            _margin(head, node.span),
            *self.moves("init", node.init, depth + 1),
            *self.sequence(node.body, depth + 1),
            *self.moves("next", node.moves, depth + 1),
        ]

    def _while(self, node: While, depth: int) -> list[str]:
        pad = INDENT * depth
        return [
            _margin(f"{pad}while{self._turns(node.rotations)}", node.span),
            *self.moves("init", node.init, depth + 1),
            *self.sequence(node.header, depth + 1),
            f"{pad}do {self.value(node.condition)}",
            *self.sequence(node.body, depth + 1),
            *self.moves("next", node.moves, depth + 1),
        ]

    def _if(self, node: If, depth: int) -> list[str]:
        pad = INDENT * depth
        lines = [_margin(f"{pad}if {self.value(node.condition)}", node.span), *self.sequence(node.then, depth + 1)]
        lines += self.moves("set", node.then_moves, depth + 1)
        if node.orelse or node.else_moves:
            lines += [f"{pad}else", *self.sequence(node.orelse, depth + 1)]
            lines += self.moves("set", node.else_moves, depth + 1)
        return lines

    def _turns(self, rotations: tuple[tuple[int, int], ...]) -> str:
        return "".join(f" turn({self.reg(register)}, {depth})" for register, depth in rotations)


def quoted(text: str) -> str:
    """A text in double quotes, on one line."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{plain}"'


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)


def _margin(text: str, span: Span | None, note: str = "") -> str:
    place = "" if span is None else f"; {span}-{span.end_line}:{span.end_column}"
    tail = "  ".join(part for part in (place, note) if part)
    return f"{text:<{MARGIN}} {tail}".rstrip() if tail else text.rstrip()
