"""Run a Program on NumPy, one command after the other, with TCM as one array of bytes.

A reference for tests of the passes: buffers that overlap while both are in use give wrong values here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench import numerics
from kernbench.address_map import split_logical, window_base
from kernbench.commands import (
    Access,
    Affine,
    Assert,
    AxisIndex,
    Block,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Exit,
    Gather,
    If,
    IndexOp,
    Loop,
    Move,
    Node,
    OpSpec,
    Program,
    ReadScalar,
    Reg,
    ScalarLoad,
    ScalarOp,
    ScalarStore,
    Scatter,
    Scope,
    TensorHandle,
    Wait,
    While,
    evaluate,
)
from kernbench.dtypes import cast
from kernbench.micro_ops import MICRO_OPS


class Leave(Exception):
    def __init__(self, label: int) -> None:
        self.label = label


class Machine:
    """`tensors` in parameter order, flat arrays of the pointee's type; they are changed in place."""

    def __init__(self, program: Program, tensors: list[Any], scalars: list[Any] = [], special: Any = {}) -> None:  # noqa: B006
        self.program = program
        self.tensors = tensors
        self.tcm = np.full(max(program.tcm_bytes, 64), 0xAB, np.uint8)
        self.registers: list[Any] = [0] * len(program.register_dtypes)
        self.commands: list[Node] = []
        self.accumulator: Any = None
        arrays, numbers = iter(range(len(tensors))), iter(scalars)
        for param in program.params:
            value = window_base(next(arrays)) if param.kind == "tensor" else next(numbers)
            self.registers[param.register] = value
        for what, register in program.specials:
            self.registers[register] = special.get(what, 0)

    def run(self) -> None:
        self.sequence(self.program.body)

    # ------------------------------------------------------------------ control

    def sequence(self, body: tuple[Node, ...]) -> None:
        for node in body:
            self.node(node)

    def node(self, node: Node) -> None:
        match node:
            case Loop():
                self.loop(node)
            case While():
                self.moves(node.init)
                self.rotate(node.rotations, 0)
                trip = 0
                while True:
                    self.sequence(node.header)
                    if not self.value(node.condition):
                        return
                    self.sequence(node.body)
                    self.moves(node.moves)
                    trip += 1
                    self.rotate(node.rotations, trip)
            case If():
                taken = bool(self.value(node.condition))
                self.sequence(node.then if taken else node.orelse)
                self.moves(node.then_moves if taken else node.else_moves)
            case Block():
                try:
                    self.sequence(node.body)
                except Leave as leave:
                    if leave.label != node.label:
                        raise
            case Exit():
                self.moves(node.moves)
                raise Leave(node.label)
            case ScalarOp():
                args = [self.value(arg) for arg in node.args]
                self.registers[node.dst] = numerics.evaluate_scalar(node.kind, args, node.arg_dtypes, node.dtype)
            case Assert():
                assert self.value(node.condition), node.message
            case _:
                self.commands.append(node)
                self.command(node)

    def loop(self, node: Loop) -> None:
        start, stop, step = (int(self.value(v)) for v in (node.start, node.stop, node.step))
        self.moves(node.init)
        self.rotate(node.rotations, 0)
        for trip, value in enumerate(range(start, stop, step)):
            self.registers[node.var] = value
            self.sequence(node.body)
            self.moves(node.moves)
            self.rotate(node.rotations, trip + 1)

    def rotate(self, rotations: tuple[tuple[int, int], ...], trip: int) -> None:
        for register, depth in rotations:
            self.registers[register] = trip % depth

    def moves(self, moves: tuple[Move, ...]) -> None:
        values = [self.value(move.src) for move in moves]
        for move, value in zip(moves, values, strict=True):
            self.registers[move.dst] = value

    def value(self, operand: Any) -> Any:
        if isinstance(operand, Reg):
            return self.registers[operand.index]
        return evaluate(operand, self.registers) if isinstance(operand, Affine) else operand

    def int(self, value: Any) -> int:
        return evaluate(value, self.registers)

    # ------------------------------------------------------------------ memory

    def view(self, handle: TensorHandle) -> Any:
        """The block in TCM as an array that writes through."""
        address = self.int(handle.address)
        strides = tuple(self.int(s) * handle.dtype.nbytes for s in handle.strides)
        last = sum((e - 1) * s for e, s in zip(handle.shape, strides, strict=True)) + handle.dtype.nbytes
        assert address >= 0 and address + last <= len(self.tcm), f"{handle.name} lies outside of TCM"
        return np.ndarray(handle.shape, handle.dtype.numpy, self.tcm.data, address, strides)

    def elements(self, access: Access, index: Any = None, mask: Any = None) -> tuple[Any, Any, Any]:
        """(tensor, flat element numbers, which lanes are live)"""
        shape = access.shape
        tensor, offset = split_logical(self.int(access.base))
        if offset >> 47:
            tensor, offset = tensor + 1, offset - (1 << 48)
        numbers = np.full(shape, offset // access.dtype.nbytes, np.int64)
        live = np.full(shape, all(bool(self.value(p)) for p in access.preds))
        for axis in range(len(shape)):
            position = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
            numbers = numbers + self.int(access.strides[axis]) * position
            for low in access.lo[axis] if access.lo else ():
                live = live & (position >= self.int(low))
            for high in access.hi[axis] if access.hi else ():
                live = live & (position < self.int(high))
        if access.rest is not None:
            numbers = numbers + self.known(access.rest, shape)
        if index is not None:
            numbers = numbers + self.view(index)
        if access.mask is not None:
            live = live & (self.known(access.mask, shape) != 0)
        if mask is not None:
            live = live & (self.view(mask) != 0)
        return self.tensors[tensor], np.broadcast_to(numbers, shape), np.broadcast_to(live, shape)

    def known(self, expression: Any, shape: tuple[int, ...]) -> Any:
        match expression:
            case AxisIndex():
                axis = expression.axis
                return np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
            case IndexOp():
                args = [np.asarray(self.known(arg, shape)) for arg in expression.args]
                return numerics.evaluate(expression.kind, args, expression.dtype)
            case _:
                return np.int64(self.value(expression))

    def hbm_tile(self, handle: TensorHandle) -> tuple[Any, Any]:
        access = Access(handle.address, handle.dtype, handle.shape, handle.strides)
        tensor, numbers, _ = self.elements(access)
        return tensor, numbers

    def read(self, handle: TensorHandle) -> Any:
        if handle.is_accumulator:
            return self.accumulator
        if handle.space == "tcm":
            return self.view(handle).copy()
        tensor, numbers = self.hbm_tile(handle)
        return tensor[numbers]

    def write(self, handle: TensorHandle, values: Any) -> None:
        if handle.is_accumulator:
            self.accumulator = values
        elif handle.space == "tcm":
            self.view(handle)[...] = cast(values, handle.dtype)
        else:
            tensor, numbers = self.hbm_tile(handle)
            tensor[numbers] = cast(values, handle.dtype)

    # ------------------------------------------------------------------ commands

    def command(self, node: Node) -> None:
        match node:
            case CompositeTemplate():
                self.composite(node.ops)
            case DmaRead() | Gather():
                extra = (node.index, node.mask) if isinstance(node, Gather) else (None, None)
                tensor, numbers, live = self.elements(node.access, *extra)
                other = self.view(node.other) if isinstance(node.other, TensorHandle) else self.value(node.other or 0)
                found = np.empty(node.access.shape, node.access.dtype.numpy)
                found[...] = cast(np.asarray(other), node.access.dtype)
                found[live] = tensor[numbers[live]]
                self.view(node.dst)[...] = found
            case DmaWrite() | Scatter():
                extra = (node.index, node.mask) if isinstance(node, Scatter) else (None, None)
                tensor, numbers, live = self.elements(node.access, *extra)
                tensor[numbers[live]] = self.view(node.src)[live]
            case ScalarLoad():
                if all(bool(self.value(p)) for p in node.preds):
                    tensor, offset = split_logical(self.int(node.address))
                    self.registers[node.dst] = self.tensors[tensor][offset // node.dtype.nbytes].item()
                else:
                    self.registers[node.dst] = self.value(node.other)
            case ScalarStore():
                if all(bool(self.value(p)) for p in node.preds):
                    tensor, offset = split_logical(self.int(node.address))
                    self.tensors[tensor][offset // node.dtype.nbytes] = cast(
                        np.asarray(self.value(node.value)), node.dtype
                    )
            case ReadScalar():
                self.registers[node.dst] = self.view(node.src).reshape(()).item()
            case Wait():
                pass
            case _:
                raise AssertionError(node)

    def composite(self, ops: tuple[OpSpec, ...]) -> None:
        """Ops in order; the GEMM's out is written once, after the ops on its accumulator."""
        head = next((op for op in ops if op.kind == "gemm"), None)
        tiles = [op for op in ops if op.scope is not Scope.KERNEL]
        seen = False
        for op in ops:
            if op is head:
                seen = True
                self.accumulator = numerics.gemm(self.read(op.operands["a"]), self.read(op.operands["b"]))
                for tile_op in tiles:
                    self.math(tile_op)
                assert op.out is not None
                self.write(op.out, self.accumulator)
            elif op.scope is Scope.KERNEL:
                self.math(op)
        assert seen or head is None

    def math(self, op: OpSpec) -> None:
        assert op.out is not None
        micro = MICRO_OPS[op.kind]
        extra = {name: self.attribute(op, name, value) for name, value in op.extra.items() if name in micro.attributes}
        if not micro.operands:
            values = micro.function({**extra, "shape": op.out.shape})
        else:
            floats = [h.dtype for h in op.operands.values() if h.dtype.is_float]
            args = [
                self.read(op.operands[name]) if name in op.operands else self.scalar(self.value(op.extra[name]), floats)
                for name in micro.operands
            ]
            dtype = op.out.dtype
            values = numerics.evaluate(op.kind, args, dtype, extra)
        self.write(op.out, np.broadcast_to(values, op.out.shape))

    def scalar(self, value: Any, floats: list[Any]) -> Any:
        return np.float32(value) if isinstance(value, float) or floats else np.asarray(value)

    def attribute(self, op: OpSpec, name: str, value: Any) -> Any:
        assert op.out is not None
        if name in ("rest", "mask"):
            return None if value is None else self.known(value, op.out.shape)
        if name in ("lo", "hi"):
            return tuple(tuple(self.int(v) for v in axis) for axis in value)
        if name == "strides":
            return tuple(self.int(v) for v in value)
        if name == "preds":
            return tuple(bool(self.value(v)) for v in value)
        return self.value(value)
