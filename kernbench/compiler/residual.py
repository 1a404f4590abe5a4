"""The residual program: what is left of a kernel after elaboration. Structured SSA, every value typed.

Compile-time values, helpers, tuples and symbolic pointers are gone: what is left are scalar registers, dense
blocks, accesses with their symbolic addresses, and regions with explicit carried and result lists.

A scalar value *is* a register of the later program (`Reg`); each is assigned once, but for the carried and result
registers of regions, which moves assign. A block value is `BlockRef`: an id with a type. Views (broadcast, transpose,
expand) are `ViewOf` instructions: they compute nothing. An instruction's `span` knows the calls of inlined helpers
that lead to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kernbench.commands import Access, IndexExpr, Int, Move, Operand, ScalarOp, Special
from kernbench.diagnostics import Span
from kernbench.dtypes import DType

__all__ = ["Instr", "Residual", "ScalarOp"]


@dataclass(frozen=True, slots=True)
class BlockRef:
    """A dense block in TCM. `shape` is () for a 0-d block only where a reduction left one element in TCM."""

    id: int
    dtype: DType
    shape: tuple[int, ...]
    name: str = field(default="", compare=False)  # the kernel's own name for it, "" where it has none


BlockOperand = BlockRef | Operand  # a block, a register, or a literal


@dataclass(frozen=True, slots=True)
class BlockOp:
    """result = a MATH micro-op of micro_ops.py, elementwise with broadcasting by shape, or a reduction (`axis`).

    `args` in the order of the micro-op's operand names. `attrs`: what the micro-op's table entry says (axis, …).
    """

    result: BlockRef
    kind: str
    args: tuple[BlockOperand, ...]
    attrs: dict[str, Any]
    span: Span


@dataclass(frozen=True, slots=True)
class IndexBlock:
    """result[i] = base + Σ strides[k] × i_k + rest: a symbolic integer block that is needed as data."""

    result: BlockRef
    base: Int
    strides: tuple[Int, ...]
    rest: IndexExpr | None
    span: Span


@dataclass(frozen=True, slots=True)
class MaskBlock:
    """result = the box mask (as in `Access`) and all preds and `mask`, as an int1 block."""

    result: BlockRef
    lo: tuple[tuple[Int, ...], ...]
    hi: tuple[tuple[Int, ...], ...]
    preds: tuple[Operand, ...]
    mask: IndexExpr | None
    span: Span


@dataclass(frozen=True, slots=True)
class ViewOf:
    """result shares source's memory. `axes[k]` is the source axis that result axis k runs along, or None for a
    repeated (stride 0) axis. Broadcast, expand_dims and transpose are views."""

    result: BlockRef
    source: BlockRef
    axes: tuple[int | None, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Reshape:
    """Same elements in row-major order, other shape; free where the source is contiguous, else a copy."""

    result: BlockRef
    source: BlockRef
    span: Span


@dataclass(frozen=True, slots=True)
class Dot:
    """result (m, n) = a (m, k) @ b (k, n) [+ acc], accumulated in fp32 (int32 for integers), cast to result's dtype."""

    result: BlockRef
    a: BlockRef
    b: BlockRef
    acc: BlockRef | None
    span: Span


@dataclass(frozen=True, slots=True)
class LoadBlock:
    """result = the access; `index` (elements) and `mask` are loaded or computed blocks, None where symbolic."""

    result: BlockRef
    access: Access
    other: BlockOperand | None
    index: BlockRef | None
    mask: BlockRef | None
    span: Span


@dataclass(frozen=True, slots=True)
class StoreBlock:
    access: Access
    value: BlockRef  # already of the pointee's dtype and the access's shape
    index: BlockRef | None
    mask: BlockRef | None
    span: Span


@dataclass(frozen=True, slots=True)
class AtomicBlock:
    """result = the elements before they were changed, as `commands.Atomic` says; `value` is of the pointee's type."""

    result: BlockRef
    kind: str
    access: Access
    value: BlockRef
    compare: BlockRef | None
    index: BlockRef | None
    mask: BlockRef | None
    span: Span


@dataclass(frozen=True, slots=True)
class LoadScalar:
    result: int  # register
    address: Int
    dtype: DType
    preds: tuple[Operand, ...]
    other: Operand
    span: Span


@dataclass(frozen=True, slots=True)
class StoreScalar:
    address: Int
    value: Operand
    dtype: DType
    value_dtype: DType
    preds: tuple[Operand, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class BlockToScalar:
    """register = the one element of a block of one element."""

    result: int
    source: BlockRef
    span: Span


@dataclass(frozen=True, slots=True)
class HbmRef:
    """`tl.ref`: an operand in HBM that is not loaded. Only composites, dot and tl.load read it."""

    name: str
    base: Int  # logical byte address
    shape: tuple[int, ...]
    strides: tuple[Int, ...]  # elements
    dtype: DType


CompositeOperand = BlockRef | HbmRef | Operand


@dataclass(frozen=True, slots=True)
class CompositeEntry:
    """One item of `prologue=` or `epilogue=`: a micro-op or recipe name, its named operands, and its scope."""

    op: str
    operands: dict[str, CompositeOperand]
    extra: dict[str, Any]
    scope: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class CompositeCall:
    """`tl.composite(...)`, operands resolved; recipes are expanded by `lower`, not here.

    `updates` pairs each block that the call writes in place with the BlockRef that names its new value.
    `result` is the fresh TCM block where neither `out` nor `out_ptr` is given.
    """

    op: str | None  # "gemm", a MATH micro-op, or None for a chain of prologue entries only
    operands: dict[str, CompositeOperand]  # a, b or src…
    extra: dict[str, Any]
    prologue: tuple[CompositeEntry, ...]
    epilogue: tuple[CompositeEntry, ...]
    out: BlockRef | HbmRef | None
    result: BlockRef | None
    updates: tuple[tuple[BlockRef, BlockRef], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class WaitFor:
    blocks: tuple[BlockRef, ...]  # () : everything
    span: Span


@dataclass(frozen=True, slots=True)
class SendBlock:
    """A block to another PE: `to` is (index in the launch,) or (sip, cube, pe)."""

    value: BlockRef
    to: tuple[Operand, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class RecvBlock:
    """result = the oldest block from `source`, which must have result's shape and type."""

    result: BlockRef
    source: tuple[Operand, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class AssertScalar:
    condition: Operand
    message: str
    span: Span


@dataclass(frozen=True, slots=True)
class CopyBlock:
    """result = source, same type: makes a value of its own where one is needed (fills with a literal too)."""

    result: BlockRef
    source: BlockOperand
    span: Span


@dataclass(frozen=True, slots=True)
class ScratchScope:
    """`with tl.scratch_scope():` — blocks made inside are dead at its end."""

    body: tuple[Instr, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class BlockCarry:
    """A block that a region carries or yields. `slot` names it inside (and after); `init` is its first value,
    `nexts` its value at the end of each path through the region (loop body; then, else)."""

    slot: BlockRef
    init: BlockRef | None
    nexts: tuple[BlockRef, ...]


@dataclass(frozen=True, slots=True)
class ForRegion:
    """Scalars: `init` and `moves` as in `commands.Loop`. Blocks: one BlockCarry each, `nexts` of length 1."""

    var: int
    start: Operand
    stop: Operand
    step: Operand
    body: tuple[Instr, ...]
    name: str
    init: tuple[Move, ...]
    moves: tuple[Move, ...]
    blocks: tuple[BlockCarry, ...]
    num_stages: int
    span: Span


@dataclass(frozen=True, slots=True)
class WhileRegion:
    """Blocks: `nexts` of length 1."""

    header: tuple[Instr, ...]
    condition: Operand
    body: tuple[Instr, ...]
    init: tuple[Move, ...]
    moves: tuple[Move, ...]
    blocks: tuple[BlockCarry, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class IfRegion:
    """Blocks: `init` None, `nexts` (then, else)."""

    condition: Operand
    then: tuple[Instr, ...]
    orelse: tuple[Instr, ...]
    then_moves: tuple[Move, ...]
    else_moves: tuple[Move, ...]
    blocks: tuple[BlockCarry, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class BlockRegion:
    """Body of a kernel or of an inlined helper with a run-time return. `slots` hold block results."""

    label: int
    body: tuple[Instr, ...]
    slots: tuple[BlockRef, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ExitRegion:
    """Leave the BlockRegion `label`; scalar results by `moves`, block results into its slots."""

    label: int
    moves: tuple[Move, ...]
    blocks: tuple[tuple[BlockRef, BlockRef], ...]  # (slot, value)
    span: Span


Instr = (
    ScalarOp
    | BlockOp
    | IndexBlock
    | MaskBlock
    | ViewOf
    | Reshape
    | Dot
    | LoadBlock
    | StoreBlock
    | AtomicBlock
    | LoadScalar
    | StoreScalar
    | BlockToScalar
    | CompositeCall
    | WaitFor
    | SendBlock
    | RecvBlock
    | AssertScalar
    | CopyBlock
    | ScratchScope
    | ForRegion
    | WhileRegion
    | IfRegion
    | BlockRegion
    | ExitRegion
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """As in the kernel's signature. `register` is None for a constexpr."""

    name: str
    kind: str  # "tensor" | "scalar" | "constexpr"
    dtype: DType | None  # of the element, or of the scalar
    register: int | None


@dataclass(frozen=True, slots=True)
class Residual:
    """A whole kernel after elaboration."""

    name: str
    parameters: tuple[Parameter, ...]
    constexprs: tuple[tuple[str, Any], ...]
    specials: tuple[tuple[Special, int], ...]
    register_dtypes: tuple[DType, ...]
    register_names: tuple[str, ...]
    body: tuple[Instr, ...]
    bindings: tuple[tuple[str, str], ...] = field(default=())  # (name, type as text): what `--emit=typed` shows
