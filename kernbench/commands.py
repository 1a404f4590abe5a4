"""The contract between compiler and simulator: programs, command templates, flat composites.

Frozen data and the invariants that hold wherever a command is built. Knows neither kernel source nor recipes
nor how long anything takes.

A *template* may hold an `Affine` over scalar registers in any integer field; PE_CPU makes the concrete command
at dispatch by evaluating them. A template without registers is itself concrete.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kernbench.diagnostics import Span
from kernbench.dtypes import DType

# --------------------------------------------------------------------------- integers over registers


@dataclass(frozen=True, slots=True)
class Reg:
    """A scalar register of PE_CPU as an operand."""

    index: int


@dataclass(frozen=True, slots=True)
class Affine:
    """`const + Σ coefficient × register`, exact (Python integers). Terms are sorted by register, none is zero."""

    const: int
    terms: tuple[tuple[int, int], ...]  # (register, coefficient)


Int = int | Affine
Operand = Reg | Affine | int | float | bool  # what a scalar instruction or an immediate may be


def affine(const: int, terms: Mapping[int, int]) -> Int:
    """The normal form: an `int` where no register is left."""
    kept = tuple(sorted((register, c) for register, c in terms.items() if c))
    return Affine(const, kept) if kept else const


def parts(value: Int) -> tuple[int, dict[int, int]]:
    return (value.const, dict(value.terms)) if isinstance(value, Affine) else (value, {})


def add(a: Int, b: Int) -> Int:
    const, terms = parts(a)
    other, more = parts(b)
    for register, coefficient in more.items():
        terms[register] = terms.get(register, 0) + coefficient
    return affine(const + other, terms)


def scale(a: Int, factor: int) -> Int:
    const, terms = parts(a)
    return affine(const * factor, {register: c * factor for register, c in terms.items()})


def evaluate(value: Int, registers: Mapping[int, Any] | list[Any]) -> int:
    """The value with each register's present content."""
    if isinstance(value, Affine):
        return value.const + sum(c * int(registers[register]) for register, c in value.terms)
    return value


def operand_registers(value: object) -> Iterator[int]:
    """Registers that an operand or integer field reads."""
    if isinstance(value, Reg):
        yield value.index
    elif isinstance(value, Affine):
        yield from (register for register, _ in value.terms)


# --------------------------------------------------------------------------- index expressions


@dataclass(frozen=True, slots=True)
class AxisIndex:
    """The position along one axis of the block, 0, 1, 2 …"""

    axis: int


@dataclass(frozen=True, slots=True)
class IndexOp:
    """A MATH micro-op over known integers; the result wraps to `dtype`."""

    kind: str
    args: tuple[IndexExpr, ...]
    dtype: DType


IndexExpr = AxisIndex | IndexOp | Reg | Affine | int

# --------------------------------------------------------------------------- handles

Space = Literal["hbm", "tcm"]

# The accumulator of a composite's GEMM is an operand of its tile epilogues. It lives in the engine, not in TCM;
# this address, beyond any TCM, says so.
ACCUMULATOR_ADDRESS = 1 << 47
UNALLOCATED = -1


@dataclass(frozen=True, slots=True)
class TensorHandle:
    """A block in TCM, or a tensor tile in HBM.

    `id` names the buffer (`Buffer.id`) of a TCM handle; views of one buffer share it. `address` is in bytes: the
    offset in this PE's TCM (`UNALLOCATED` before the pass `allocate`), or the logical pointer of an HBM operand
    (see `address_map.py`). `strides` are in elements; 0 repeats an element.
    """

    id: int
    name: str
    address: Int
    shape: tuple[int, ...]
    strides: tuple[Int, ...]
    dtype: DType
    space: Space

    @property
    def n_elements(self) -> int:
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    @property
    def nbytes(self) -> int:
        """Bytes of the elements named, without gaps."""
        return self.n_elements * self.dtype.nbytes

    @property
    def is_accumulator(self) -> bool:
        return self.address == ACCUMULATOR_ADDRESS


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def accumulator(shape: tuple[int, ...], dtype: DType) -> TensorHandle:
    """The operand `acc` of tile epilogues: fp32, or int32 for integer GEMMs, of the whole output's shape."""
    return TensorHandle(0, "acc", ACCUMULATOR_ADDRESS, shape, contiguous_strides(shape), dtype, "tcm")


@dataclass(frozen=True, slots=True)
class Buffer:
    """Room in TCM that `allocate` places. `depth` > 1: a ring that rotates once a trip of loop `loop`."""

    id: int
    name: str
    nbytes: int  # of one slot
    depth: int = 1
    address: int = UNALLOCATED  # of slot 0; slots follow each other at `slot_bytes`
    persistent: bool = False  # lives as long as the kernel


# --------------------------------------------------------------------------- composites (ADR-0065 D1, D2)


class Scope(enum.Enum):
    KERNEL = "KERNEL"
    K_TILE = "K_TILE"
    OUTPUT_TILE = "OUTPUT_TILE"


@dataclass(frozen=True, slots=True)
class CompletionHandle:
    """Names a command in its program; `wait` refers to it."""

    id: int


@dataclass(frozen=True, slots=True)
class OpSpec:
    """One MATH or GEMM op with named operands.

    GEMM: operands `a` (m, k), `b` (k, n); `extra` has m, k, n (ints), and `rings`, a tuple of
    (operand name, TCM address, slots, slot bytes), one for each HBM operand (`allocate` fills it in), and
    `acc_dtype`. `out` is written once, after the OUTPUT_TILE ops. A tile of it goes to TCM or HBM by its space.
    MATH: operands `src`, or `src_a`, `src_b`, `src_c`, or the names that the micro-op's table entry gives. A
    scalar operand stands in `extra` under the same name (a number or `Reg`). `extra` also has `axis` of a
    reduction, `bcast_axis`, and what else `micro_ops.py` says for the kind. A tile epilogue op reads and writes
    handles of the whole output's shape (or of a row, a column or one element of it, broadcast by strides), which
    PE_SCHEDULER cuts to the tile; the accumulator is the handle `acc`.
    """

    kind: str  # "gemm" or a micro-op of micro_ops.py
    scope: Scope
    operands: dict[str, TensorHandle]
    extra: dict[str, Any] = field(default_factory=dict)
    out: TensorHandle | None = None

    @property
    def logical_bytes(self) -> int:
        """Size of this op in an encoded command: its word and one word a handle (see `HANDLE_BYTES`)."""
        handles = [*self.operands.values(), *([self.out] if self.out is not None else [])]
        return OP_BYTES + sum(HANDLE_BYTES + STRIDE_BYTES * dynamic_strides(handle) for handle in handles)


def dynamic_strides(handle: TensorHandle) -> int:
    """Strides known only at dispatch (template: registers; command: marked in the handle); each takes a word."""
    return sum(isinstance(stride, Affine) for stride in handle.strides)


# Command words, as PE_CPU writes them to PE_SCHEDULER's queue; `command_words.py` packs exactly these.
COMMAND_BYTES = 8  # opcode, counts, completion id
OP_BYTES = 8  # kind, scope, axis, flags, one 32-bit immediate
HANDLE_BYTES = 8  # descriptor index (shape, strides, dtype, space) 16 bits, address 48 bits
STRIDE_BYTES = 8  # a stride that is known at dispatch only
RW_BYTES = 2  # an operand index
DMA_BYTES = 24  # command word, address in HBM, TCM handle
DMA_TERM_BYTES = 8  # each run-time stride or bound of a DMA descriptor
MESSAGE_BYTES = 24  # command word, TCM handle, the other PE


@dataclass(frozen=True, slots=True)
class CompositeCmd:
    """A flat ordered list of MATH and GEMM ops (ADR-0065 D1). Position and scope place them in the tile loop (D3).

    Raises `ValueError` where D3, D4 or D6 is broken; the compiler checks beforehand and tells the user.
    """

    completion: CompletionHandle
    ops: tuple[OpSpec, ...]
    rw_handles: tuple[TensorHandle, ...] = ()
    data_op: bool = True

    def __post_init__(self) -> None:
        check_composite(self.ops, self.rw_handles)

    @property
    def gemm_index(self) -> int | None:
        return next((index for index, op in enumerate(self.ops) if op.kind == "gemm"), None)

    @property
    def logical_bytes(self) -> int:
        """Bytes that dispatch moves (ADR-0064 D2), without names and spans."""
        return COMMAND_BYTES + sum(op.logical_bytes for op in self.ops) + RW_BYTES * len(self.rw_handles)


def check_composite(ops: tuple[OpSpec, ...], rw_handles: tuple[TensorHandle, ...]) -> None:
    if not ops:
        raise ValueError("a composite has no ops")
    gemms = [index for index, op in enumerate(ops) if op.kind == "gemm"]
    if len(gemms) > 1:
        raise ValueError(f"a composite has {len(gemms)} gemm ops, at most 1 is allowed")
    head = gemms[0] if gemms else None
    for index, op in enumerate(ops):
        _check_op(index, op, head)
    if len({(handle.id, handle.name) for handle in rw_handles}) != len(rw_handles):
        raise ValueError("rw_handles names a handle twice")


def _check_op(index: int, op: OpSpec, head: int | None) -> None:
    if op.kind == "gemm":
        if op.scope is not Scope.KERNEL:
            raise ValueError("a gemm op has scope KERNEL")
        if not {"a", "b"} <= op.operands.keys() or op.out is None:
            raise ValueError("a gemm op needs operands a and b, and an out")
        return
    if op.scope is not Scope.KERNEL and (head is None or index < head):
        raise ValueError(f"op {index} ({op.kind}) has scope {op.scope.value} without a gemm before it")
    for name, handle in (*op.operands.items(), ("out", op.out)):
        if handle is not None and handle.space != "tcm":
            raise ValueError(f"operand {name} of op {index} ({op.kind}) is in {handle.space}; only gemm reads HBM")


# --------------------------------------------------------------------------- accesses


@dataclass(frozen=True, slots=True)
class Access:
    """The elements of a tensor that a block touches, and which of them a mask lets through.

    Element (i0, i1, …) lies at byte `base + itemsize × (Σ strides[k] × i_k + rest + index element)`.
    The mask is `lo[k] ≤ i_k < hi[k]` for every bound of every axis (a tuple of bounds an axis: the largest `lo`,
    the smallest `hi`), and all of `preds`, and `mask` where it is not None (plus a TCM mask on Gather/Scatter).
    `offset_bits` is 32 where the offset was int32 in the kernel: one outside int32 is the fault
    `E_INT32_OFFSET`, never a silent wrap.
    """

    base: Int  # logical address in bytes
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[Int, ...]  # elements
    lo: tuple[tuple[Int, ...], ...] = ()  # () : no bound on any axis
    hi: tuple[tuple[Int, ...], ...] = ()
    preds: tuple[Operand, ...] = ()
    rest: IndexExpr | None = None  # elements; known integers only
    mask: IndexExpr | None = None  # known integers only
    offset_bits: int = 64

    @property
    def run_time_terms(self) -> int:
        """Words beyond the plain DMA descriptor that dispatch moves."""
        bounds = [bound for axis in (*self.lo, *self.hi) for bound in axis]
        return sum(isinstance(value, Affine) for value in (*self.strides, *bounds))


# --------------------------------------------------------------------------- program nodes


@dataclass(frozen=True, slots=True)
class Move:
    """Register `dst` takes the value of `src`. A tuple of moves is parallel."""

    dst: int
    src: Operand


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """A scalar instruction of PE_CPU: a micro-op of micro_ops.py on registers and immediates, result in `dtype`.

    `arg_dtypes` are the types in which the arguments are read.
    """

    dst: int
    kind: str
    args: tuple[Operand, ...]
    dtype: DType
    arg_dtypes: tuple[DType, ...]
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class CompositeTemplate:
    id: int
    ops: tuple[OpSpec, ...]
    rw_handles: tuple[TensorHandle, ...] = ()
    span: Span | None = None
    static: bool = False  # values matter for addresses, masks or control: computed in timing mode too

    def __post_init__(self) -> None:
        check_composite(self.ops, self.rw_handles)

    @property
    def logical_bytes(self) -> int:
        return COMMAND_BYTES + sum(op.logical_bytes for op in self.ops) + RW_BYTES * len(self.rw_handles)


@dataclass(frozen=True, slots=True)
class DmaRead:
    """HBM → TCM. Lanes that the mask stops get `other` (0 without one) and cost nothing."""

    id: int
    dst: TensorHandle
    access: Access
    other: Operand | TensorHandle | None = None
    span: Span | None = None
    static: bool = False

    @property
    def logical_bytes(self) -> int:
        return DMA_BYTES + DMA_TERM_BYTES * self.access.run_time_terms


@dataclass(frozen=True, slots=True)
class DmaWrite:
    """TCM → HBM; values are cast to the pointee by an earlier op, so dtypes agree."""

    id: int
    src: TensorHandle
    access: Access
    span: Span | None = None

    @property
    def logical_bytes(self) -> int:
        return DMA_BYTES + DMA_TERM_BYTES * self.access.run_time_terms


@dataclass(frozen=True, slots=True)
class Gather:
    """A read whose addresses are not affine: `access.rest` (known at dispatch) and/or `index` (in TCM, elements).

    `mask` is an int1 block in TCM. The pieces that are contiguous are found when the command issues; the cost goes
    by them.
    """

    id: int
    dst: TensorHandle
    access: Access
    index: TensorHandle | None = None
    mask: TensorHandle | None = None
    other: Operand | TensorHandle | None = None
    span: Span | None = None
    static: bool = False

    @property
    def logical_bytes(self) -> int:
        extra = HANDLE_BYTES * ((self.index is not None) + (self.mask is not None))
        return DMA_BYTES + DMA_TERM_BYTES * self.access.run_time_terms + extra


@dataclass(frozen=True, slots=True)
class Scatter:
    """A write whose addresses or mask are not affine; see `Gather`. Of equal addresses the last lane stays."""

    id: int
    src: TensorHandle
    access: Access
    index: TensorHandle | None = None
    mask: TensorHandle | None = None
    span: Span | None = None

    @property
    def logical_bytes(self) -> int:
        extra = HANDLE_BYTES * ((self.index is not None) + (self.mask is not None))
        return DMA_BYTES + DMA_TERM_BYTES * self.access.run_time_terms + extra


ATOMIC_KINDS = ("add", "max_elem", "min_elem", "and", "or", "xor", "xchg", "cas")


@dataclass(frozen=True, slots=True)
class Atomic:
    """Elements in memory changed where they lie, at the controller that owns them, in the order of the lanes.

    `kind`: a micro-op of (old, `src`); `xchg` writes `src`; `cas` writes it where the old value equals `compare`.
    Atomics of several PEs happen in the order of simulated time. `dst` gets the old values, 0 in stopped lanes.
    """

    id: int
    kind: str
    src: TensorHandle
    access: Access
    compare: TensorHandle | None = None
    dst: TensorHandle | None = None
    index: TensorHandle | None = None
    mask: TensorHandle | None = None
    span: Span | None = None
    static: bool = False

    @property
    def logical_bytes(self) -> int:
        extra = HANDLE_BYTES * sum(h is not None for h in (self.index, self.mask, self.compare, self.dst))
        return DMA_BYTES + DMA_TERM_BYTES * self.access.run_time_terms + extra


@dataclass(frozen=True, slots=True)
class ScalarLoad:
    """Register `dst` ← memory at logical byte `address`; PE_CPU waits for it. Not done where a pred is false."""

    id: int
    dst: int
    address: Int
    dtype: DType
    preds: tuple[Operand, ...] = ()
    other: Operand = 0
    span: Span | None = None
    static: bool = False


@dataclass(frozen=True, slots=True)
class ScalarStore:
    id: int
    address: Int
    value: Operand
    dtype: DType  # the pointee's; the value is cast
    value_dtype: DType
    preds: tuple[Operand, ...] = ()
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class ReadScalar:
    """Register `dst` ← the one element of a TCM block (a reduction to a scalar, say); PE_CPU waits for it."""

    id: int
    dst: int
    src: TensorHandle
    span: Span | None = None
    static: bool = False


@dataclass(frozen=True, slots=True)
class Send:
    """A block to the queue of another PE: `to` is (index in the launch,) or (sip, cube, pe).

    PE_CPU waits for room in that queue; the block then leaves by itself, in the order of the sends of this PE.
    """

    id: int
    src: TensorHandle
    to: tuple[Operand, ...]
    span: Span | None = None
    static: bool = False

    @property
    def logical_bytes(self) -> int:
        return MESSAGE_BYTES


@dataclass(frozen=True, slots=True)
class Recv:
    """The oldest block from `source`, of the shape and type of `dst`; PE_CPU waits until it is in TCM."""

    id: int
    dst: TensorHandle
    source: tuple[Operand, ...]
    span: Span | None = None
    static: bool = False

    @property
    def logical_bytes(self) -> int:
        return MESSAGE_BYTES


@dataclass(frozen=True, slots=True)
class Wait:
    """PE_CPU waits until every command that touches these handles is complete; `()` means all commands."""

    id: int
    handles: tuple[TensorHandle, ...]
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Assert:
    """A fault `E_KERNEL_ASSERT` where `condition` is false."""

    condition: Operand
    message: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """`for var in range(start, stop, step)`; bounds are read once, at entry. `step` may be negative, never 0.

    `init` moves run before the first trip, `moves` (parallel) at the end of each; carried registers hold their last
    values after the loop. `rotations`: (register, depth) pairs; each register is 0 at entry and counts trips modulo
    its depth, at no cost: the index registers that turn buffer rings.
    """

    var: int
    start: Operand
    stop: Operand
    step: Operand
    body: tuple[Node, ...]
    name: str = ""
    init: tuple[Move, ...] = ()
    moves: tuple[Move, ...] = ()
    rotations: tuple[tuple[int, int], ...] = ()
    num_stages: int = 1
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class While:
    """`header` computes `condition`; while it is true: `body`, then `moves`."""

    header: tuple[Node, ...]
    condition: Operand
    body: tuple[Node, ...]
    init: tuple[Move, ...] = ()
    moves: tuple[Move, ...] = ()
    rotations: tuple[tuple[int, int], ...] = ()
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class If:
    condition: Operand
    then: tuple[Node, ...]
    orelse: tuple[Node, ...] = ()
    then_moves: tuple[Move, ...] = ()
    else_moves: tuple[Move, ...] = ()
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A body that `Exit(label)` leaves early; the kernel and inlined helpers with a run-time return are Blocks."""

    label: int
    body: tuple[Node, ...]
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Exit:
    label: int
    moves: tuple[Move, ...] = ()
    span: Span | None = None


Command = (
    CompositeTemplate
    | DmaRead
    | DmaWrite
    | Gather
    | Scatter
    | ScalarLoad
    | ScalarStore
    | ReadScalar
    | Atomic
    | Send
    | Recv
    | Wait
)
Node = Command | ScalarOp | Assert | Loop | While | If | Block | Exit

# --------------------------------------------------------------------------- programs

# Registers that PE_CPU sets before each program's body.
Special = Literal[
    "program_id_0", "program_id_1", "program_id_2", "num_programs_0", "num_programs_1", "num_programs_2",
    "pe_id", "cube_id", "sip_id", "pe_index", "num_pes", "num_cubes", "num_sips", "pes_per_cube",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Param:
    """A run-time argument: a tensor (its register gets the logical base address) or a scalar (its value)."""

    name: str
    kind: Literal["tensor", "scalar"]
    dtype: DType
    register: int


@dataclass(frozen=True, slots=True)
class Target:
    """What the compiler knows of a device."""

    tcm_bytes: int
    gemm_tile: tuple[int, int, int]  # m, k, n of the engine's native tile
    tile_buffers: int = 2  # slots of an operand ring
    dtypes: tuple[str, ...] = ()  # short names that PE_GEMM multiplies


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel, specialised and lowered; rolled, so its size does not depend on trip counts or PEs."""

    name: str
    params: tuple[Param, ...]
    specials: tuple[tuple[Special, int], ...]  # (what, register)
    register_dtypes: tuple[DType, ...]  # index = register
    register_names: tuple[str, ...]  # "" where the kernel gives none
    buffers: tuple[Buffer, ...]
    body: tuple[Node, ...]
    tcm_bytes: int = 0  # high-water mark, set by `allocate`
    constexprs: tuple[tuple[str, Any], ...] = ()
    opt_level: int = 1


@dataclass(frozen=True, slots=True)
class KernelBinary:
    """An encoded program: what a launch fetches (`code`) and what only people need (`debug`: names and spans)."""

    code: bytes
    debug: bytes = b""

    @property
    def nbytes_code(self) -> int:
        return len(self.code)


def walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Every node, in program order, outer before inner."""
    for node in nodes:
        yield node
        if isinstance(node, Loop | Block):
            yield from walk(node.body)
        elif isinstance(node, While):
            yield from walk(node.header)
            yield from walk(node.body)
        elif isinstance(node, If):
            yield from walk(node.then)
            yield from walk(node.orelse)


def moves_of(node: Node) -> tuple[Move, ...]:
    """All moves that a program node makes itself."""
    match node:
        case Loop() | While():
            return (*node.init, *node.moves)
        case If():
            return (*node.then_moves, *node.else_moves)
        case Exit():
            return node.moves
        case _:
            return ()
