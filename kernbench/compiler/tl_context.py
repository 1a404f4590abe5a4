"""One method for each kind of block operation and access: residual instruction in, command template out.

The one place where recipes are expanded (by way of `composites.py`). Does not know control flow, addresses in TCM,
time or the device.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kernbench.commands import (
    Access,
    Affine,
    Assert,
    Atomic,
    Buffer,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Gather,
    Node,
    Operand,
    OpSpec,
    ReadScalar,
    Recv,
    Reg,
    ScalarLoad,
    ScalarOp,
    ScalarStore,
    Scatter,
    Scope,
    Send,
    TensorHandle,
    Wait,
    accumulator,
    contiguous_strides,
)
from kernbench.compiler import composites
from kernbench.compiler.handles import broadcast, gemm_op, in_slot
from kernbench.compiler.homes import Homes
from kernbench.compiler.residual import (
    AssertScalar,
    AtomicBlock,
    BlockOp,
    BlockOperand,
    BlockRef,
    BlockToScalar,
    CompositeCall,
    CopyBlock,
    Dot,
    IndexBlock,
    LoadBlock,
    LoadScalar,
    MaskBlock,
    RecvBlock,
    Reshape,
    SendBlock,
    StoreBlock,
    StoreScalar,
    ViewOf,
    WaitFor,
)
from kernbench.diagnostics import Span
from kernbench.dtypes import DType, i64
from kernbench.micro_ops import MICRO_OPS
from kernbench.numerics import accumulator_dtype


class TLContext:
    """Emits into `nodes`, which `lower` swaps as it enters and leaves regions."""

    def __init__(self, homes: Homes, register_dtypes: tuple[DType, ...], register_names: tuple[str, ...]) -> None:
        self.homes = homes
        rings = homes.n_registers - len(register_dtypes)
        self.register_dtypes = [*register_dtypes, *[i64] * rings]
        self.register_names = [*register_names, *[""] * rings]
        self.buffers = [
            Buffer(number, name, homes.nbytes[number], homes.depths[number]) for number, name in homes.names.items()
        ]
        self.nodes: list[Node] = []
        self.scratch_scopes = 0
        self._next_id = 0

    # ------------------------------------------------------------------ what everything is made of

    def command_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def handle(self, ref: BlockRef) -> TensorHandle:
        return self.homes.handle(ref)

    def new_handle(self, name: str, shape: tuple[int, ...], dtype: DType) -> TensorHandle:
        """A fresh buffer: of the scratch scope around, else one that lives as long as the kernel."""
        number = max((buffer.id for buffer in self.buffers), default=0) + 1
        handle = TensorHandle(number, name, in_slot(0), shape, contiguous_strides(shape), dtype, "tcm")
        self.buffers.append(Buffer(number, name, handle.nbytes, persistent=not self.scratch_scopes))
        return handle

    def new_register(self, dtype: DType, name: str = "") -> int:
        self.register_dtypes.append(dtype)
        self.register_names.append(name)
        return len(self.register_dtypes) - 1

    def scalar(self, value: Operand, span: Span | None) -> Operand:
        """A number or register, as an op's immediate may be: an affine expression gets a register of its own."""
        if not isinstance(value, Affine):
            return value
        register = self.new_register(i64)
        self.nodes.append(ScalarOp(register, "copy", (value,), i64, (i64,), span))
        return Reg(register)

    def composite(self, ops: tuple[OpSpec, ...], span: Span | None, rw: tuple[TensorHandle, ...] = ()) -> None:
        self.nodes.append(CompositeTemplate(self.command_id(), ops, rw, span))

    def math(
        self,
        kind: str,
        args: tuple[TensorHandle | Operand, ...],
        out: TensorHandle,
        span: Span | None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        """One micro-op as a composite of its own."""
        self.composite((self.math_op(kind, args, out, span, extra),), span)

    def math_op(
        self,
        kind: str,
        args: tuple[TensorHandle | Operand, ...],
        out: TensorHandle,
        span: Span | None,
        extra: dict[str, Any] | None = None,
    ) -> OpSpec:
        operands: dict[str, TensorHandle] = {}
        scalars: dict[str, Any] = {}
        for name, arg in zip(MICRO_OPS[kind].operands, args, strict=True):
            if isinstance(arg, TensorHandle):
                operands[name] = arg
            else:
                scalars[name] = self.scalar(arg, span)
        return OpSpec(kind, Scope.KERNEL, operands, {**scalars, **(extra or {})}, out)

    def copy(self, source: TensorHandle, out: TensorHandle, span: Span | None) -> None:
        self.math("copy", (source,), out, span)

    # ------------------------------------------------------------------ block operations

    def block_op(self, instr: BlockOp) -> None:
        micro = MICRO_OPS[instr.kind]
        extra = {name: instr.attrs[name] for name in micro.attributes if instr.attrs.get(name) is not None}
        out = self.handle(instr.result)
        if micro.reduces:
            (source,) = instr.args
            assert isinstance(source, BlockRef)
            extra, out = _reduction(instr, source, out)
            args: tuple[TensorHandle | Operand, ...] = (self.handle(source),)
        else:
            keep = micro.whole or "bcast_axis" in extra
            args = tuple(self.block_operand(arg, None if keep else instr.result.shape) for arg in instr.args)
        self.math(instr.kind, args, out, instr.span, extra)

    def block_operand(self, arg: BlockOperand, shape: tuple[int, ...] | None) -> TensorHandle | Operand:
        if not isinstance(arg, BlockRef):
            return arg
        handle = self.handle(arg)
        return handle if shape is None else broadcast(handle, shape)

    def index_block(self, instr: IndexBlock) -> None:
        extra = {"base": instr.base, "strides": instr.strides, "rest": instr.rest}
        self.math("index", (), self.handle(instr.result), instr.span, extra)

    def mask_block(self, instr: MaskBlock) -> None:
        rank = len(instr.result.shape)
        extra = {
            "lo": instr.lo or ((),) * rank,
            "hi": instr.hi or ((),) * rank,
            "preds": instr.preds,
            "mask": instr.mask,
        }
        self.math("mask", (), self.handle(instr.result), instr.span, extra)

    def copy_block(self, instr: CopyBlock) -> None:
        source = self.block_operand(instr.source, instr.result.shape)
        out = self.handle(instr.result)
        if isinstance(source, TensorHandle) and (source.id, source.address, source.strides) == (
            out.id,
            out.address,
            out.strides,
        ):
            return  # both are one buffer already
        self.math("copy", (source,), out, instr.span)

    def view_of(self, instr: ViewOf) -> None:
        """Nothing to do: the view's handle has its strides."""

    def reshape(self, instr: Reshape) -> None:
        """Free where the result is a view; else the elements are copied in row-major order."""
        layout = self.homes.layouts[instr.result.id]
        if layout.root != instr.result.id:
            return
        source = self.handle(instr.source)
        whole = self.handle(instr.result)
        out = replace(whole, shape=source.shape, strides=contiguous_strides(source.shape))
        self.copy(source, out, instr.span)

    def dot(self, instr: Dot) -> None:
        a, b, out = self.handle(instr.a), self.handle(instr.b), self.handle(instr.result)
        ops = [gemm_op(a, b, out)]
        if instr.acc is not None:
            acc = accumulator(out.shape, accumulator_dtype(a.dtype, b.dtype))
            other = broadcast(self.handle(instr.acc), out.shape)
            ops.append(OpSpec("add", Scope.OUTPUT_TILE, {"src_a": acc, "src_b": other}, {}, acc))
        self.composite(tuple(ops), instr.span)

    def composite_call(self, instr: CompositeCall) -> None:
        composites.lower_call(self, instr)

    # ------------------------------------------------------------------ memory

    def load_block(self, instr: LoadBlock) -> None:
        out, access, span = self.handle(instr.result), instr.access, instr.span
        other = None if instr.other is None else self.block_operand(instr.other, access.shape)
        if not isinstance(other, TensorHandle | None):
            other = self.scalar(other, span)
        if _is_plain(access, instr.index, instr.mask):
            self.nodes.append(DmaRead(self.command_id(), out, access, other, span))
            return
        index, mask = self._lanes(instr.index, access), self._lanes(instr.mask, access)
        self.nodes.append(Gather(self.command_id(), out, access, index, mask, other, span))

    def store_block(self, instr: StoreBlock) -> None:
        source, access, span = broadcast(self.handle(instr.value), instr.access.shape), instr.access, instr.span
        if _is_plain(access, instr.index, instr.mask):
            self.nodes.append(DmaWrite(self.command_id(), source, access, span))
            return
        index, mask = self._lanes(instr.index, access), self._lanes(instr.mask, access)
        self.nodes.append(Scatter(self.command_id(), source, access, index, mask, span))

    def _lanes(self, ref: BlockRef | None, access: Access) -> TensorHandle | None:
        return None if ref is None else broadcast(self.handle(ref), access.shape)

    def atomic_block(self, instr: AtomicBlock) -> None:
        access = instr.access
        value, compare, index, mask = (
            self._lanes(ref, access) for ref in (instr.value, instr.compare, instr.index, instr.mask)
        )
        assert value is not None
        old = self.handle(instr.result) if instr.result.id in self.homes.read else None
        self.nodes.append(Atomic(self.command_id(), instr.kind, value, access, compare, old, index, mask, instr.span))

    def load_scalar(self, instr: LoadScalar) -> None:
        self.nodes.append(
            ScalarLoad(
                self.command_id(),
                instr.result,
                instr.address,
                instr.dtype,
                instr.preds,
                instr.other,
                instr.span,
            )
        )

    def store_scalar(self, instr: StoreScalar) -> None:
        self.nodes.append(
            ScalarStore(
                self.command_id(),
                instr.address,
                instr.value,
                instr.dtype,
                instr.value_dtype,
                instr.preds,
                instr.span,
            )
        )

    def block_to_scalar(self, instr: BlockToScalar) -> None:
        self.nodes.append(ReadScalar(self.command_id(), instr.result, self.handle(instr.source), instr.span))

    # ------------------------------------------------------------------ the rest

    def wait_for(self, instr: WaitFor) -> None:
        handles = tuple(self.handle(ref) for ref in instr.blocks)
        self.nodes.append(Wait(self.command_id(), handles, instr.span))

    def send_block(self, instr: SendBlock) -> None:
        self.nodes.append(Send(self.command_id(), self.handle(instr.value), instr.to, instr.span))

    def recv_block(self, instr: RecvBlock) -> None:
        self.nodes.append(Recv(self.command_id(), self.handle(instr.result), instr.source, instr.span))

    def assert_scalar(self, instr: AssertScalar) -> None:
        self.nodes.append(Assert(instr.condition, instr.message, instr.span))

    def scalar_op(self, instr: ScalarOp) -> None:
        self.nodes.append(instr)


def _reduction(instr: BlockOp, source: BlockRef, out: TensorHandle) -> tuple[dict[str, Any], TensorHandle]:
    """The axis, counted from 0, and the result's handle without the axis that `keep_dims` leaves in."""
    rank, axis = len(source.shape), instr.attrs.get("axis")
    if axis is None:
        kept: tuple[int, ...] = ()
    else:
        axis %= rank
        kept = tuple(extent for k, extent in enumerate(source.shape) if k != axis)
    assert out.n_elements == _product(kept), f"{instr.kind} of {source.shape} along {axis} into {out.shape}"
    return {"axis": axis}, replace(out, shape=kept, strides=contiguous_strides(kept))


def _product(extents: tuple[int, ...]) -> int:
    n = 1
    for extent in extents:
        n *= extent
    return n


def _is_plain(access: Access, index: BlockRef | None, mask: BlockRef | None) -> bool:
    return index is None and mask is None and access.rest is None and access.mask is None


# Whatever has no regions; `lower` walks the rest.
PLAIN: dict[type, Any] = {
    ScalarOp: TLContext.scalar_op,
    BlockOp: TLContext.block_op,
    IndexBlock: TLContext.index_block,
    MaskBlock: TLContext.mask_block,
    ViewOf: TLContext.view_of,
    Reshape: TLContext.reshape,
    Dot: TLContext.dot,
    LoadBlock: TLContext.load_block,
    StoreBlock: TLContext.store_block,
    AtomicBlock: TLContext.atomic_block,
    LoadScalar: TLContext.load_scalar,
    StoreScalar: TLContext.store_scalar,
    BlockToScalar: TLContext.block_to_scalar,
    CompositeCall: TLContext.composite_call,
    WaitFor: TLContext.wait_for,
    SendBlock: TLContext.send_block,
    RecvBlock: TLContext.recv_block,
    AssertScalar: TLContext.assert_scalar,
    CopyBlock: TLContext.copy_block,
}
