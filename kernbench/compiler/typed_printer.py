"""The residual program as text: what elaboration made of a kernel, one typed instruction a line.

    $name       a scalar register      8 + 4*$i    an exact integer over registers
    x.3         block 3, which the kernel calls x; its type stands where it is made
    axis0       the position along axis 0

Regions are indented; what they carry stands in their heads. The source place is at the right margin. Deterministic;
knows the instructions' fields, not what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kernbench.commands import Access, Affine, AxisIndex, IndexOp, Move, Reg
from kernbench.compiler.printer import INDENT, unique_names
from kernbench.compiler.residual import (
    AssertScalar,
    AtomicBlock,
    BlockCarry,
    BlockOp,
    BlockRef,
    BlockRegion,
    BlockToScalar,
    CompositeCall,
    CompositeEntry,
    CopyBlock,
    Dot,
    ExitRegion,
    ForRegion,
    HbmRef,
    IfRegion,
    IndexBlock,
    Instr,
    LoadBlock,
    LoadScalar,
    MaskBlock,
    Parameter,
    RecvBlock,
    Reshape,
    Residual,
    ScalarOp,
    ScratchScope,
    SendBlock,
    StoreBlock,
    StoreScalar,
    ViewOf,
    WaitFor,
    WhileRegion,
)
from kernbench.diagnostics import Span

MARGIN = 100  # where source places begin


def print_residual(residual: Residual) -> str:
    """The text of `--emit=typed`."""
    printer = Printer(residual)
    lines = [f"kernel {residual.name}"]
    lines += [printer.parameter(parameter) for parameter in residual.parameters if parameter.kind != "constexpr"]
    lines += [f"constexpr {name} = {value!r}" for name, value in residual.constexprs]
    lines += [f"special {printer.register(register)} = {what}" for what, register in residual.specials]
    lines.append("body")
    lines += printer.sequence(residual.body, 1)
    lines += ["names", *(f"{INDENT}{name}: {text}" for name, text in residual.bindings)]
    return "\n".join(lines) + "\n"


class Printer:
    """Knows the types and names of registers."""

    def __init__(self, residual: Residual) -> None:
        self._dtypes = residual.register_dtypes
        self._registers = [f"${name}" for name in unique_names(residual.register_names)]

    def parameter(self, parameter: Parameter) -> str:
        assert parameter.register is not None
        star = "*" if parameter.kind == "tensor" else ""
        return f"param {parameter.name}: {star}{parameter.dtype} = {self.register(parameter.register)}"

    def sequence(self, body: Sequence[Instr], depth: int) -> Iterator[str]:
        for instr in body:
            yield from self.instr(instr, depth)

    def instr(self, instr: Instr, depth: int) -> Iterator[str]:
        region = REGIONS.get(type(instr))
        if region is not None:
            yield from region(self, instr, depth)
            return
        yield line(LINES[type(instr)](self, instr), depth, instr.span)

    # ------------------------------------------------------------------ operands

    def register(self, index: int) -> str:
        return self._registers[index]

    def typed_register(self, index: int) -> str:
        return f"{self.register(index)}:{self._dtypes[index]}"

    def value(self, value: Any) -> str:
        """An operand of any kind."""
        match value:
            case Reg(index):
                return self.register(index)
            case Affine():
                return self._affine(value)
            case BlockRef():
                return block(value)
            case HbmRef():
                return self._hbm(value)
            case AxisIndex(axis):
                return f"axis{axis}"
            case IndexOp(kind, args, dtype):
                return f"{kind}({self.values(args)}):{dtype}"
            case tuple() | list():
                return f"({self.values(value)})"
            case None:
                return "none"
            case str():
                return repr(value)
            case _:
                return str(value)

    def values(self, values: Sequence[Any]) -> str:
        return ", ".join(self.value(value) for value in values)

    def _affine(self, value: Affine) -> str:
        terms = [f"{'' if c == 1 else f'{c}*'}{self.register(register)}" for register, c in value.terms]
        return " + ".join([*([str(value.const)] if value.const else []), *terms])

    def _hbm(self, ref: HbmRef) -> str:
        name = ref.name or "ref"
        return f"{name}@hbm[{self.value(ref.base)}]:{shape(ref.shape)}:{ref.dtype}/{self.value(ref.strides)}"

    def access(self, access: Access) -> str:
        """Base in bytes, strides in elements, then what narrows it."""
        parts = [f"[{self.value(access.base)}]:{shape(access.shape)}:{access.dtype}/{self.value(access.strides)}"]
        parts += [f"rest={self.value(access.rest)}"] if access.rest is not None else []
        parts += self.mask(access.lo, access.hi, access.preds, access.mask)
        parts += ["offset32"] if access.offset_bits == 32 else []
        return " ".join(parts)

    def mask(self, lo: Sequence[Any], hi: Sequence[Any], preds: Sequence[Any], known: Any) -> list[str]:
        parts = [f"axis{axis}>={self.value(bound)}" for axis, bounds in enumerate(lo) for bound in bounds]
        parts += [f"axis{axis}<{self.value(bound)}" for axis, bounds in enumerate(hi) for bound in bounds]
        parts += [f"if {self.value(pred)}" for pred in preds]
        return parts + ([f"where {self.value(known)}"] if known is not None else [])

    def moves(self, moves: Sequence[Move]) -> str:
        return ", ".join(f"{self.register(move.dst)} <- {self.value(move.src)}" for move in moves)

    def entry(self, entry: CompositeEntry) -> str:
        named = [f"{name}={self.value(value)}" for name, value in (*entry.operands.items(), *entry.extra.items())]
        return f"{entry.op}({', '.join(named)})" + (f"@{entry.scope}" if entry.scope is not None else "")


def shape(extents: tuple[int, ...]) -> str:
    return "x".join(str(extent) for extent in extents) or "scalar"


def block(ref: BlockRef) -> str:
    return f"{ref.name or 'b'}.{ref.id}"


def typed_block(ref: BlockRef) -> str:
    return f"{block(ref)}:{shape(ref.shape)}:{ref.dtype}"


def line(text: str, depth: int, span: Span | None) -> str:
    """One instruction with its source place at the right margin."""
    indented = INDENT * depth + text
    return indented if span is None else f"{indented:<{MARGIN}}  ; {span.line}:{span.column}"


def _attributes(attrs: Mapping[str, Any]) -> str:
    return "".join(f" {name}={value}" for name, value in attrs.items())


# --------------------------------------------------------------------------- one line each


def _scalar_op(p: Printer, i: ScalarOp) -> str:
    return f"{p.typed_register(i.dst)} = {i.kind} {p.values(i.args)}"


def _block_op(p: Printer, i: BlockOp) -> str:
    return f"{typed_block(i.result)} = {i.kind} {p.values(i.args)}{_attributes(i.attrs)}"


def _index_block(p: Printer, i: IndexBlock) -> str:
    rest = f" rest={p.value(i.rest)}" if i.rest is not None else ""
    return f"{typed_block(i.result)} = index {p.value(i.base)} strides={p.value(i.strides)}{rest}"


def _mask_block(p: Printer, i: MaskBlock) -> str:
    return " ".join([f"{typed_block(i.result)} = mask", *p.mask(i.lo, i.hi, i.preds, i.mask)])


def _view(p: Printer, i: ViewOf) -> str:
    return f"{typed_block(i.result)} = view {block(i.source)} axes={p.value(i.axes)}"


def _reshape(p: Printer, i: Reshape) -> str:
    return f"{typed_block(i.result)} = reshape {block(i.source)}"


def _dot(p: Printer, i: Dot) -> str:
    acc = f" acc={block(i.acc)}" if i.acc is not None else ""
    return f"{typed_block(i.result)} = dot {block(i.a)}, {block(i.b)}{acc}"


def _tcm_parts(p: Printer, i: LoadBlock | StoreBlock | AtomicBlock) -> str:
    index = f" index={block(i.index)}" if i.index is not None else ""
    return index + (f" mask={block(i.mask)}" if i.mask is not None else "")


def _load_block(p: Printer, i: LoadBlock) -> str:
    other = f" other={p.value(i.other)}" if i.other is not None else ""
    return f"{typed_block(i.result)} = load {p.access(i.access)}{_tcm_parts(p, i)}{other}"


def _store_block(p: Printer, i: StoreBlock) -> str:
    return f"store {p.access(i.access)}{_tcm_parts(p, i)} <- {block(i.value)}"


def _atomic_block(p: Printer, i: AtomicBlock) -> str:
    compare = "" if i.compare is None else f" compare={block(i.compare)}"
    place = f"{p.access(i.access)}{_tcm_parts(p, i)}"
    return f"{typed_block(i.result)} = atomic {i.kind} {place} <- {block(i.value)}{compare}"


def _load_scalar(p: Printer, i: LoadScalar) -> str:
    preds = "".join(f" if {p.value(pred)}" for pred in i.preds)
    other = f" other={p.value(i.other)}" if i.preds else ""
    return f"{p.typed_register(i.result)} = load [{p.value(i.address)}]:{i.dtype}{preds}{other}"


def _store_scalar(p: Printer, i: StoreScalar) -> str:
    preds = "".join(f" if {p.value(pred)}" for pred in i.preds)
    return f"store [{p.value(i.address)}]:{i.dtype}{preds} <- {p.value(i.value)}:{i.value_dtype}"


def _block_to_scalar(p: Printer, i: BlockToScalar) -> str:
    return f"{p.typed_register(i.result)} = element {block(i.source)}"


def _composite(p: Printer, i: CompositeCall) -> str:
    named = [f"{name}={p.value(value)}" for name, value in (*i.operands.items(), *i.extra.items())]
    parts = [f"composite {i.op or 'chain'}", *named]
    parts += [f"prologue=[{', '.join(p.entry(e) for e in i.prologue)}]"] if i.prologue else []
    parts += [f"epilogue=[{', '.join(p.entry(e) for e in i.epilogue)}]"] if i.epilogue else []
    parts += [f"out={p.value(i.out)}"] if i.out is not None else []
    parts += [f"updates {', '.join(f'{block(old)}->{block(new)}' for old, new in i.updates)}"] if i.updates else []
    return (f"{typed_block(i.result)} = " if i.result is not None else "") + " ".join(parts)


def _wait(p: Printer, i: WaitFor) -> str:
    return f"wait {', '.join(block(ref) for ref in i.blocks) or 'all'}"


def _send(p: Printer, i: SendBlock) -> str:
    return f"send {block(i.value)} to {p.values(i.to)}"


def _recv(p: Printer, i: RecvBlock) -> str:
    return f"{typed_block(i.result)} = recv from {p.values(i.source)}"


def _assert(p: Printer, i: AssertScalar) -> str:
    return f"assert {p.value(i.condition)} {i.message!r}"


def _copy(p: Printer, i: CopyBlock) -> str:
    return f"{typed_block(i.result)} = copy {p.value(i.source)}"


def _exit(p: Printer, i: ExitRegion) -> str:
    blocks = [f"{block(slot)} <- {block(value)}" for slot, value in i.blocks]
    return " ".join([f"exit {i.label}", ", ".join([*([p.moves(i.moves)] if i.moves else []), *blocks])]).rstrip()


LINES: Mapping[type, Callable[[Printer, Any], str]] = {
    ScalarOp: _scalar_op,
    BlockOp: _block_op,
    IndexBlock: _index_block,
    MaskBlock: _mask_block,
    ViewOf: _view,
    Reshape: _reshape,
    Dot: _dot,
    LoadBlock: _load_block,
    StoreBlock: _store_block,
    AtomicBlock: _atomic_block,
    LoadScalar: _load_scalar,
    StoreScalar: _store_scalar,
    BlockToScalar: _block_to_scalar,
    CompositeCall: _composite,
    WaitFor: _wait,
    SendBlock: _send,
    RecvBlock: _recv,
    AssertScalar: _assert,
    CopyBlock: _copy,
    ExitRegion: _exit,
}

# --------------------------------------------------------------------------- regions


def _tail(p: Printer, word: str, moves: Sequence[Move], blocks: Sequence[str], depth: int) -> Iterator[str]:
    """What a path hands on at its end."""
    texts = [*([p.moves(moves)] if moves else []), *blocks]
    if texts:
        yield line(f"{word} {', '.join(texts)}", depth, None)


def _nexts(carries: Sequence[BlockCarry], path: int) -> list[str]:
    return [f"{block(carry.slot)} <- {block(carry.nexts[path])}" for carry in carries]


def _carried(p: Printer, init: Sequence[Move], carries: Sequence[BlockCarry]) -> str:
    texts = [f"{p.typed_register(move.dst)} = {p.value(move.src)}" for move in init]
    texts += [f"{typed_block(c.slot)} = {block(c.init) if c.init is not None else 'none'}" for c in carries]
    return f" carry {', '.join(texts)}" if texts else ""


def _for(p: Printer, i: ForRegion, depth: int) -> Iterator[str]:
    stages = f" num_stages={i.num_stages}" if i.num_stages > 1 else ""
    bounds = p.values((i.start, i.stop, i.step))
    head = f"for {p.typed_register(i.var)} in range({bounds}){stages}{_carried(p, i.init, i.blocks)}"
    yield line(head, depth, i.span)
    yield from p.sequence(i.body, depth + 1)
    yield from _tail(p, "next", i.moves, _nexts(i.blocks, 0), depth + 1)


def _while(p: Printer, i: WhileRegion, depth: int) -> Iterator[str]:
    yield line(f"while{_carried(p, i.init, i.blocks)}", depth, i.span)
    yield from p.sequence(i.header, depth + 1)
    yield line(f"do if {p.value(i.condition)}", depth, None)
    yield from p.sequence(i.body, depth + 1)
    yield from _tail(p, "next", i.moves, _nexts(i.blocks, 0), depth + 1)


def _if(p: Printer, i: IfRegion, depth: int) -> Iterator[str]:
    slots = [typed_block(carry.slot) for carry in i.blocks]
    registers = [p.typed_register(move.dst) for move in i.then_moves]
    gives = f" gives {', '.join([*registers, *slots])}" if registers or slots else ""
    yield line(f"if {p.value(i.condition)}{gives}", depth, i.span)
    yield from p.sequence(i.then, depth + 1)
    yield from _tail(p, "give", i.then_moves, _nexts(i.blocks, 0), depth + 1)
    if i.orelse or i.else_moves or i.blocks:
        yield line("else", depth, None)
        yield from p.sequence(i.orelse, depth + 1)
        yield from _tail(p, "give", i.else_moves, _nexts(i.blocks, 1), depth + 1)


def _block_region(p: Printer, i: BlockRegion, depth: int) -> Iterator[str]:
    slots = f" gives {', '.join(typed_block(slot) for slot in i.slots)}" if i.slots else ""
    yield line(f"block {i.label}{slots}", depth, i.span)
    yield from p.sequence(i.body, depth + 1)


def _scratch(p: Printer, i: ScratchScope, depth: int) -> Iterator[str]:
    yield line("scratch", depth, i.span)
    yield from p.sequence(i.body, depth + 1)


REGIONS: Mapping[type, Callable[[Printer, Any, int], Iterator[str]]] = {
    ForRegion: _for,
    WhileRegion: _while,
    IfRegion: _if,
    BlockRegion: _block_region,
    ScratchScope: _scratch,
}
