"""Run residual programs on NumPy, instruction by instruction, one program after the other.

Independent of lowering and of the simulator, so that elaboration can be tested by what its programs compute. Memory
is one byte array; everything is checked: no register or block is read before it is written on the path taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernbench.commands import Access, AxisIndex, IndexOp, Move, Reg, evaluate
from kernbench.compiler import residual as r
from kernbench.dtypes import BY_NAME, DType, cast, i1
from kernbench.numerics import evaluate as evaluate_op
from kernbench.numerics import evaluate_scalar, gemm

PAGE = 1 << 12  # every tensor begins at a page, with one unused before and behind


class Left(Exception):
    def __init__(self, label: int) -> None:
        self.label = label


class AssertionFailed(Exception):
    pass


def run(
    program: r.Residual, args: Mapping[str, Any], grid: Sequence[int] = (1,), max_trips: int = 10_000
) -> dict[str, Any]:
    """Every array argument as the programs left it. Scalars are Python numbers."""
    machine = Machine(program, max_trips)
    machine.place(args)
    for index in itertools.product(*(range(extent) for extent in reversed(grid))):
        machine.start(tuple(reversed(index)), tuple(grid))
    return machine.arrays()


class Machine:
    def __init__(self, program: r.Residual, max_trips: int) -> None:
        self.program, self.max_trips = program, max_trips
        self.registers: dict[int, Any] = {}
        self.blocks: dict[int, Any] = {}
        self.memory = np.zeros(0, np.uint8)
        self.first: dict[int, Any] = {}
        self.tensors: dict[str, tuple[int, Any]] = {}

    def place(self, args: Mapping[str, Any]) -> None:
        address = PAGE
        for parameter in self.program.parameters:
            if parameter.register is None:
                continue
            value = args[parameter.name]
            if parameter.kind == "tensor":
                assert parameter.dtype is not None and value.dtype == parameter.dtype.numpy, parameter
                self.tensors[parameter.name] = (address, value)
                self.first[parameter.register] = address
                address += (value.nbytes // PAGE + 2) * PAGE
            else:
                self.first[parameter.register] = value
        self.memory = np.zeros(address, np.uint8)
        for start, value in self.tensors.values():
            self.memory[start : start + value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)

    def arrays(self) -> dict[str, Any]:
        return {
            name: np.frombuffer(self.memory[start : start + value.nbytes].tobytes(), value.dtype).reshape(value.shape)
            for name, (start, value) in self.tensors.items()
        }

    def start(self, index: tuple[int, ...], grid: tuple[int, ...]) -> None:
        self.registers, self.blocks = dict(self.first), {}
        known: dict[str, int] = {}
        for axis in range(3):
            known[f"program_id_{axis}"] = index[axis] if axis < len(index) else 0
            known[f"num_programs_{axis}"] = grid[axis] if axis < len(grid) else 1
        for what, register in self.program.specials:
            self.registers[register] = known.get(what, 0)
        self.sequence(self.program.body)

    def sequence(self, body: Sequence[r.Instr]) -> None:
        for instr in body:
            getattr(self, f"do_{type(instr).__name__}")(instr)

    # ------------------------------------------------------------------ operands

    def scalar(self, operand: Any) -> Any:
        return self.registers[operand.index] if isinstance(operand, Reg) else evaluate(operand, self.registers)

    def moves(self, moves: Sequence[Move]) -> None:
        values = [(move.dst, self.scalar(move.src)) for move in moves]  # parallel
        for register, value in values:
            dtype = self.program.register_dtypes[register]
            assert not dtype.is_int or dtype.min <= int(value) <= dtype.max, f"{value} does not fit {dtype}"
            self.registers[register] = value

    def block(self, ref: r.BlockRef) -> Any:
        value = self.blocks[ref.id]
        assert value.shape == ref.shape and value.dtype == ref.dtype.numpy, f"{ref}: {value.shape} {value.dtype}"
        return value

    def set(self, ref: r.BlockRef, value: Any) -> None:
        array = np.array(np.broadcast_to(np.asarray(value), ref.shape))
        assert array.dtype == ref.dtype.numpy, f"{ref}: {array.dtype}"
        self.blocks[ref.id] = array

    def operand(self, value: Any, dtype: DType) -> Any:
        """A block, or a scalar of the type in which it is read."""
        if isinstance(value, r.BlockRef):
            return self.block(value)
        found = self.scalar(value)
        if isinstance(value, Reg):
            dtype = self.program.register_dtypes[value.index]
        elif isinstance(found, float) and dtype.is_int:
            dtype = BY_NAME["fp32"]
        return cast(np.asarray(found), dtype)

    def index(self, expr: Any, shape: tuple[int, ...]) -> Any:
        if isinstance(expr, AxisIndex):
            lift = [-1 if k == expr.axis else 1 for k in range(len(shape))]
            return np.arange(shape[expr.axis], dtype=np.int64).reshape(lift)
        if isinstance(expr, IndexOp):
            args = [np.asarray(self.index(arg, shape)) for arg in expr.args]
            return evaluate_op(expr.kind, args, expr.dtype).astype(np.bool_ if expr.dtype is i1 else np.int64)
        return np.asarray(self.scalar(expr), np.int64)

    def addresses(self, access: Access, index: r.BlockRef | None) -> Any:
        shape = access.shape
        elements = np.zeros(shape, np.int64)
        for axis, stride in enumerate(access.strides):
            elements = elements + self.scalar(stride) * self.index(AxisIndex(axis), shape)
        if access.rest is not None:
            elements = elements + self.index(access.rest, shape)
        if index is not None:
            elements = elements + self.block(index).astype(np.int64)
        return self.scalar(access.base) + access.dtype.nbytes * elements

    def lanes(self, shape: tuple[int, ...], lo: Any, hi: Any, preds: Any, known: Any, mask: Any = None) -> Any:
        lanes = np.full(shape, all(bool(self.scalar(pred)) for pred in preds))
        for axis, bounds in enumerate(lo):
            for bound in bounds:
                lanes = lanes & (self.index(AxisIndex(axis), shape) >= self.scalar(bound))
        for axis, bounds in enumerate(hi):
            for bound in bounds:
                lanes = lanes & (self.index(AxisIndex(axis), shape) < self.scalar(bound))
        if known is not None:
            lanes = lanes & (self.index(known, shape) != 0)
        return lanes if mask is None else lanes & self.block(mask)

    def read(self, address: int, dtype: DType) -> Any:
        assert PAGE <= address <= len(self.memory) - dtype.nbytes, f"read at {address}"
        return np.frombuffer(self.memory[address : address + dtype.nbytes].tobytes(), dtype.numpy)[0]

    def write(self, address: int, value: Any) -> None:
        assert PAGE <= address <= len(self.memory) - value.nbytes, f"write at {address}"
        self.memory[address : address + value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)

    # ------------------------------------------------------------------ scalars

    def do_ScalarOp(self, i: Any) -> None:
        self.registers[i.dst] = evaluate_scalar(i.kind, [self.scalar(a) for a in i.args], i.arg_dtypes, i.dtype)

    def do_LoadScalar(self, i: Any) -> None:
        if all(self.scalar(pred) for pred in i.preds):
            value = self.read(self.scalar(i.address), i.dtype)
            self.registers[i.result] = int(value) if i.dtype.is_int else float(value)
        else:
            self.registers[i.result] = self.scalar(i.other)

    def do_StoreScalar(self, i: Any) -> None:
        if all(self.scalar(pred) for pred in i.preds):
            value = evaluate_scalar("copy", [self.scalar(i.value)], [i.value_dtype], i.dtype)
            self.write(self.scalar(i.address), np.asarray(value).astype(i.dtype.numpy))

    def do_BlockToScalar(self, i: Any) -> None:
        value = self.block(i.source).reshape(-1)
        assert value.size == 1
        self.registers[i.result] = int(value[0]) if i.source.dtype.is_int else float(value[0])

    def do_AssertScalar(self, i: Any) -> None:
        if not self.scalar(i.condition):
            raise AssertionFailed(i.message)

    # ------------------------------------------------------------------ blocks

    def do_BlockOp(self, i: Any) -> None:
        blocks = [a.dtype for a in i.args if isinstance(a, r.BlockRef)]
        reading = blocks[-1] if blocks else i.result.dtype
        # An immediate has no type of its own: `numerics.evaluate` gives it the one it computes in.
        args = [arg if isinstance(arg, bool | int | float) else self.operand(arg, reading) for arg in i.args]
        value = np.asarray(evaluate_op(i.kind, args, i.result.dtype, i.attrs))
        self.set(i.result, value.reshape(i.result.shape) if value.size == np.prod(i.result.shape) else value)

    def do_IndexBlock(self, i: Any) -> None:
        shape = i.result.shape
        value = np.full(shape, self.scalar(i.base), np.int64)
        for axis, stride in enumerate(i.strides):
            value = value + self.scalar(stride) * self.index(AxisIndex(axis), shape)
        if i.rest is not None:
            value = value + self.index(i.rest, shape)
        self.set(i.result, cast(value, i.result.dtype))

    def do_MaskBlock(self, i: Any) -> None:
        self.set(i.result, self.lanes(i.result.shape, i.lo, i.hi, i.preds, i.mask))

    def do_ViewOf(self, i: Any) -> None:
        source = self.block(i.source)
        kept = [axis for axis in i.axes if axis is not None]
        order = kept + [axis for axis in range(source.ndim) if axis not in kept]
        moved = source.transpose(order).reshape([source.shape[axis] for axis in kept])
        lifted = moved.reshape([1 if axis is None else source.shape[axis] for axis in i.axes])
        self.set(i.result, lifted)

    def do_Reshape(self, i: Any) -> None:
        self.set(i.result, self.block(i.source).reshape(i.result.shape))

    def do_CopyBlock(self, i: Any) -> None:
        self.set(i.result, cast(self.operand(i.source, i.result.dtype), i.result.dtype))

    def do_Dot(self, i: Any) -> None:
        value = gemm(self.block(i.a), self.block(i.b))
        if i.acc is not None:
            value = value + self.block(i.acc).astype(value.dtype)
        self.set(i.result, cast(value, i.result.dtype))

    def do_LoadBlock(self, i: Any) -> None:
        access, dtype = i.access, i.access.dtype
        addresses = self.addresses(access, i.index)
        lanes = self.lanes(access.shape, access.lo, access.hi, access.preds, access.mask, i.mask)
        other = np.zeros((), dtype.numpy) if i.other is None else cast(self.operand(i.other, dtype), dtype)
        result = np.array(np.broadcast_to(other, access.shape))
        for lane in zip(*np.nonzero(lanes), strict=True):
            result[lane] = self.read(int(addresses[lane]), dtype)
        self.set(i.result, cast(result, i.result.dtype))

    def do_StoreBlock(self, i: Any) -> None:
        access = i.access
        addresses, value = self.addresses(access, i.index), np.broadcast_to(self.block(i.value), access.shape)
        lanes = self.lanes(access.shape, access.lo, access.hi, access.preds, access.mask, i.mask)
        for lane in zip(*np.nonzero(lanes), strict=True):
            self.write(int(addresses[lane]), value[lane])

    def do_WaitFor(self, i: Any) -> None:
        return

    # ------------------------------------------------------------------ regions

    def carry(self, pairs: Sequence[tuple[r.BlockRef, r.BlockRef | None]]) -> None:
        values = [(slot, self.block(value)) for slot, value in pairs if value is not None]  # parallel
        for slot, value in values:
            self.set(slot, value)

    def do_ForRegion(self, i: Any) -> None:
        self.moves(i.init)
        self.carry([(c.slot, c.init) for c in i.blocks])
        trips = range(self.scalar(i.start), self.scalar(i.stop), self.scalar(i.step))
        assert len(trips) <= self.max_trips
        for position in trips:
            self.registers[i.var] = position
            self.sequence(i.body)
            self.carry([(c.slot, c.nexts[0]) for c in i.blocks])
            self.moves(i.moves)

    def do_WhileRegion(self, i: Any) -> None:
        self.moves(i.init)
        self.carry([(c.slot, c.init) for c in i.blocks])
        for _ in range(self.max_trips):
            self.sequence(i.header)
            if not self.scalar(i.condition):
                return
            self.sequence(i.body)
            self.carry([(c.slot, c.nexts[0]) for c in i.blocks])
            self.moves(i.moves)
        raise AssertionError("the loop does not end")

    def do_IfRegion(self, i: Any) -> None:
        taken = 0 if self.scalar(i.condition) else 1
        self.sequence((i.then, i.orelse)[taken])
        self.carry([(c.slot, c.nexts[taken]) for c in i.blocks])
        self.moves((i.then_moves, i.else_moves)[taken])

    def do_BlockRegion(self, i: Any) -> None:
        try:
            self.sequence(i.body)
        except Left as left:
            if left.label != i.label:
                raise

    def do_ExitRegion(self, i: Any) -> None:
        self.carry(list(i.blocks))
        self.moves(i.moves)
        raise Left(i.label)

    def do_ScratchScope(self, i: Any) -> None:
        self.sequence(i.body)
