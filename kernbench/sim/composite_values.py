"""The values of one composite: its blocks in TCM, its tiles, its accumulators. No time passes here.

In timing mode it is there for static commands only; once something that it reads is unknown, all that it writes is.
Does not know when its methods are called, other than in the order of the composite's stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernbench import numerics
from kernbench.dtypes import cast
from kernbench.sim import part_io
from kernbench.sim.access_eval import BoxForm, Part
from kernbench.sim.composite_form import Binding, CompositeForm
from kernbench.sim.compute import Array, BoundOp, TileBox, UfuncCall, operand_values, run_op, ufunc_call
from kernbench.sim.memory import UNKNOWN
from kernbench.sim.pe_parts import PeParts
from kernbench.sim.plan import Loop, MathStage
from kernbench.sim.registers import Registers, Unknown


class CompositeValues:
    """Made at dispatch, when registers are read; everything else is read when its stage is complete."""

    __slots__ = (
        "_accumulators",
        "_binding",
        "_buffers",
        "_form",
        "_ops",
        "_partials",
        "_parts",
        "_staged",
        "_ufunc_calls",
        "_views",
        "unknown",
    )

    def __init__(self, form: CompositeForm, binding: Binding, registers: Registers, parts: PeParts) -> None:
        self._form = form
        self._binding = binding
        self._parts = parts
        self._views: Sequence[Array] = ()
        self._ufunc_calls: Sequence[UfuncCall | None] = ()  # one an op
        self._buffers: dict[tuple[str, int], NDArray[np.uint8]] = {}
        self._partials: dict[int, Array] = {}  # by step
        self._accumulators: dict[int, Array] = {}  # by output tile
        self._staged: dict[int, NDArray[np.uint8]] = {}  # bytes of output tiles on the way to HBM
        self.unknown = any(isinstance(registers[r], Unknown) for r in form.value_registers)
        self._ops: list[BoundOp | None] = []
        if not self.unknown:
            self._ops = form.bound_ops(registers)

    def begin(self) -> None:
        """The command issues: what it reads in TCM is complete."""
        tcm = self._parts.tcm
        if not self._parts.computes and not all(tcm.knows(*read) for read in self._binding.reads):
            self.unknown = True
        if not self.unknown:
            self._views, self._ufunc_calls = tcm.kept(self._binding, self._prepare)

    def _prepare(self) -> tuple[list[Array], list[UfuncCall | None]]:
        """The views of this binding, and the ops on them that are the same single call each time."""
        view = self._parts.tcm.view
        views = [
            view(address, handle.dtype, handle.shape, strides)
            for handle, (address, strides) in zip(self._form.views, self._binding.places, strict=True)
        ]
        return views, [ufunc_call(op, views) for op in self._form.fixed_ops]

    def finish(self) -> None:
        """The command is complete."""
        if self._parts.computes:
            return
        mark = self._parts.tcm.forget if self.unknown else self._parts.tcm.learn
        for low, high in self._binding.writes:
            mark(low, high)

    def run_all(self) -> None:
        """Everything, of a composite whose operands are all in TCM."""
        if self.unknown:
            return
        plan = self._form.plan
        self.run_whole(plan.before)
        if plan.loop is not None:
            if self._form.values_at_once:
                self._run_at_once(plan.loop)
            else:
                self._run_tiles(plan.loop)
        self.run_whole(plan.after)

    def _run_at_once(self, loop: Loop) -> None:
        a = self._operand("a", slice(None), slice(None))
        b = self._operand("b", slice(None), slice(None))
        acc = numerics.gemm(a, b)
        for index in self._form.plan.out_ops:
            written = run_op(self._op(index), self._views, None, acc)
            acc = acc if written is None else written
        self._views[self._form.numbers[loop.out]][...] = cast(acc, loop.out.dtype)

    def _run_tiles(self, loop: Loop) -> None:
        plan = self._form.plan
        for j in range(loop.total):
            self.multiply(loop, j, {})
            if plan.k_ops:
                self.run_partial(plan.k_ops, loop, j)
            if (j + 1) % loop.counts[1] == 0:
                self.run_output(plan.out_ops, loop, j)
                self.store(loop, j)

    # ----------------------------------------------------------------- whole operands

    def run_whole(self, stages: Sequence[MathStage]) -> None:
        if self.unknown:
            return
        for stage in stages:
            if (found := self._ufunc_calls[stage.op]) is not None:
                ufunc, operands, target = found
                ufunc(*operands, out=target)
            else:
                run_op(self._op(stage.op), self._views)

    def _op(self, index: int) -> BoundOp:
        op = self._ops[index]
        assert op is not None, f"op {index} is no MATH op"
        return op

    # ----------------------------------------------------------------- operand tiles

    def read_part(self, name: str, slot: int, box: BoxForm, part: Part, alone: bool) -> None:
        """A part of a tile has drained; `alone`: it is the whole tile."""
        memory = self._parts.memory.slice(*part.place)
        if not self._parts.computes and part_io.part_has(memory, part, UNKNOWN):
            self.unknown = True
        if alone and part.keeps_layout:
            self._buffers[name, slot] = part_io.cover(memory, part)
            return
        buffer = self._buffers.get((name, slot))
        if buffer is None:
            buffer = self._buffers[name, slot] = np.zeros(box.cover, np.uint8)
        part_io.read_part(memory, part, buffer)

    def take_tile(self, name: str, slot: int, box: BoxForm) -> Array:
        """The tile whose last part has come, as the engine will hold it: a copy."""
        buffer = self._buffers.pop((name, slot))
        own, other = self._form.operand_dtypes(name)
        tile: Array = np.ndarray(box.extents, own.numpy, buffer, box.origin, box.strides)
        return operand_values(tile, own, other)

    def _operand(self, name: str, rows: slice, columns: slice) -> Array:
        """A tile of an operand that is in TCM."""
        assert self._form.head is not None
        view = self._views[self._form.numbers[self._form.head.operands[name]]]
        return operand_values(view[rows, columns], *self._form.operand_dtypes(name))

    # ----------------------------------------------------------------- products

    def multiply(self, loop: Loop, j: int, held: dict[str, Any]) -> None:
        """The product of one tile, from operands held by rings or in TCM."""
        if self.unknown:
            return
        m0, k0, n0 = loop.at(j)
        m, k, n = loop.extents(m0, k0, n0)
        a = held["a"] if "a" in held else self._operand("a", slice(m0, m0 + m), slice(k0, k0 + k))
        b = held["b"] if "b" in held else self._operand("b", slice(k0, k0 + k), slice(n0, n0 + n))
        product = numerics.gemm(a, b)
        if self._form.plan.k_ops:
            self._partials[j] = product
        else:
            self._accumulate(loop, j, product)

    def _accumulate(self, loop: Loop, j: int, product: Array) -> None:
        output = j // loop.counts[1]
        if j % loop.counts[1] == 0:
            self._accumulators[output] = product
        else:
            self._accumulators[output] = self._accumulators[output] + product

    def run_partial(self, ops: Sequence[int], loop: Loop, j: int) -> None:
        if not self.unknown:
            self._accumulate(loop, j, self._run_tile(ops, loop, j, self._partials.pop(j)))

    def run_output(self, ops: Sequence[int], loop: Loop, j: int) -> None:
        if not self.unknown:
            output = j // loop.counts[1]
            self._accumulators[output] = self._run_tile(ops, loop, j, self._accumulators[output])

    def _run_tile(self, ops: Sequence[int], loop: Loop, j: int, acc: Array) -> Array:
        m0, k0, n0 = loop.at(j)
        m, _, n = loop.extents(m0, k0, n0)
        tile = TileBox(m0, m0 + m, n0, n0 + n, k0, loop.k)
        for index in ops:
            written = run_op(self._op(index), self._views, tile, acc)
            acc = acc if written is None else written
        return acc

    # ----------------------------------------------------------------- output tiles

    def store(self, loop: Loop, j: int) -> None:
        """The accumulator goes out, rounded once to the type of `out`."""
        if self.unknown:
            return
        m0, k0, n0 = loop.at(j)
        m, _, n = loop.extents(m0, k0, n0)
        result = cast(self._accumulators.pop(j // loop.counts[1]), loop.out.dtype)
        if loop.out.space == "tcm":
            self._views[self._form.numbers[loop.out]][m0 : m0 + m, n0 : n0 + n] = result
        else:
            self._staged[j] = result

    def land(self, j: int, box: BoxForm, part: Part, last: bool) -> None:
        """A part of an output tile has drained to memory."""
        memory = self._parts.memory.slice(*part.place)
        if self.unknown or not self._parts.computes:
            part_io.forget_part(memory, part)
            return
        tile = self._staged[j]
        buffer = np.zeros(box.cover, np.uint8)
        laid: Array = np.ndarray(box.extents, tile.dtype, buffer, box.origin, box.strides)
        laid[...] = tile
        part_io.write_part(memory, part, buffer)
        if last:
            del self._staged[j]
