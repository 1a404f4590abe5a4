"""A composite template prepared once: its plan, its places, and what the log says of each stage.

Makes the concrete command at dispatch. Knows operands by name, position and space. Does not know time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kernbench.commands import CompositeTemplate, IndexOp, OpSpec, Reg, TensorHandle, operand_registers
from kernbench.dtypes import DType
from kernbench.micro_ops import MICRO_OPS
from kernbench.numerics import accumulator_dtype
from kernbench.sim.access_eval import BoxForm, affine_ints, index_registers
from kernbench.sim.compute import BoundOp, ValueOp, bind, make_value_op
from kernbench.sim.dma_command import checked_range
from kernbench.sim.engines.pe_math import ChainOp
from kernbench.sim.faults import DeviceFault
from kernbench.sim.form_context import FormContext
from kernbench.sim.hazards import Footprint, Range
from kernbench.sim.plan import Along, MathStage, PlanError, Tile, make_plan
from kernbench.sim.registers import Registers, reader, tuple_reader
from kernbench.sim.rehearsal import Rehearsal

Strides = tuple[int, ...]
Chain = tuple[ChainOp, ...]


_STEPS_KEPT = 1 << 14
_GENERATORS_KEPT = 256
_ELEMENTS_KEPT = 1 << 20  # of the arrays of all of a form's kept generators


class Step(NamedTuple):
    """One step of a tile loop: its tile, its epilogues, where it lies in the product."""

    tile: Tile
    k_chain: Chain
    out_chain: Chain
    m0: int
    k0: int
    n0: int


class HbmOperand:
    """`a`, `b` or `out` of the GEMM in HBM: where it is, and the boxes of its tiles."""

    __slots__ = ("_boxes", "handle", "name", "name_id", "params_id", "read_base", "read_strides", "slots")

    def __init__(self, name: str, handle: TensorHandle, slots: int, context: FormContext, template: int) -> None:
        self.name = name
        self.handle = handle
        self.slots = slots
        self.read_base = reader(handle.address)
        self.read_strides = tuple_reader(handle.strides)
        self.name_id = context.log.intern(name)
        self.params_id = context.log.intern_params({"operand": name, "template": template})
        self._boxes: dict[tuple[Strides, tuple[int, ...]], BoxForm] = {}

    def box(self, strides: Strides, extents: tuple[int, ...]) -> BoxForm:
        found = self._boxes.get((strides, extents))
        if found is None:
            if len(self._boxes) >= 1024:
                self._boxes.clear()
            found = BoxForm(self.handle.dtype.nbytes, strides, (0,) * len(extents), extents)
            self._boxes[strides, extents] = found
        return found


class CompositeForm:
    """`views` are the composite's blocks in TCM, each once, in the order of their first mention."""

    def __init__(self, template: CompositeTemplate, context: FormContext) -> None:
        self.template = template
        self.static = template.static
        self._context = context
        try:
            self.plan = make_plan(template.ops, context.spec)
        except PlanError as error:
            raise DeviceFault(error.code, str(error), template.span) from None
        self.head = next((op for op in template.ops if op.kind == "gemm"), None)
        self.views = _tcm_handles(template)
        numbers = {handle: index for index, handle in enumerate(self.views)}
        self.numbers = numbers
        self.rings: dict[str, tuple[int, ...]] = {}  # operand → address, slots, bytes of a slot
        if self.head is not None:
            self.rings = {
                name: (address, slots, size) for name, address, slots, size in self.head.extra.get("rings", ())
            }
        self.hbm = self._hbm_operands(context)
        self._read_key = tuple_reader([value for h in self.views for value in (h.address, *h.strides)])
        self._bindings: dict[tuple[int, ...], Binding] = {}
        self._prepare_log(context)
        self.values = self._value_ops(context, numbers) if context.computes or template.static else ()
        self.used = self._used(context)
        self.is_local = not self.hbm
        self.can_be_rehearsed = self.is_local and self.plan.loop is not None
        self.rehearsals: dict[int, Rehearsal] = {}  # by the topology index of PE_GEMM
        self.values_at_once = self._values_at_once()
        # One an op; None for the GEMM, for generators, and for what reads registers
        self.fixed_ops = [bind(op, []) if op is not None and op.is_fixed else None for op in self.values]
        self._generators: dict[tuple[int, ...], BoundOp] = {}  # by op and what it reads in registers, integers all
        self._elements_kept = 0
        self._generator_registers = [_registers_of(op) for op in template.ops]
        self.value_registers = context.taint.of(*_scalars(template.ops)) if self.values else ()

    def _hbm_operands(self, context: FormContext) -> dict[str, HbmOperand]:
        if self.head is None:
            return {}
        assert self.head.out is not None
        default = context.spec.tcm.tile_buffers
        named = {"a": self.head.operands["a"], "b": self.head.operands["b"], "out": self.head.out}
        return {
            name: HbmOperand(
                name, handle, self.rings[name][1] if name in self.rings else default, context, self.template.id
            )
            for name, handle in named.items()
            if handle.space == "hbm"
        }

    def _prepare_log(self, context: FormContext) -> None:
        template, log = self.template, context.log
        self.name_id = log.intern(self.name)
        self.src_id = context.place(template.span)
        self.params_id = log.intern_params({"template": template.id})
        self.before = self._chain(self.plan.before, context)
        self.after = self._chain(self.plan.after, context)
        self._steps: dict[int, Step] = {}
        self.tiles: dict[tuple[int, int, int], tuple[Tile, Chain, Chain]] = {}  # by extents; K_TILE, OUTPUT_TILE ops
        if self.plan.loop is not None:
            for extents, tile in self.plan.loop.tiles.items():
                self.tiles[extents] = tile, self._chain(tile.k_ops, context), self._chain(tile.out_ops, context)

    def _chain(self, stages: Sequence[MathStage], context: FormContext) -> Chain:
        log, ops, template = context.log, self.template.ops, self.template.id
        return tuple(
            ChainOp(
                stage.duration_ps, log.intern(ops[stage.op].kind), stage.nbytes, stage.flops,
                log.intern_params({"op": stage.op, "template": template}),
            )
            for stage in stages
        )  # fmt: skip

    def _value_ops(self, context: FormContext, numbers: dict[TensorHandle, int]) -> tuple[ValueOp | None, ...]:
        """One an op; the GEMM has none."""
        acc = (
            None
            if self.head is None
            else accumulator_dtype(self.head.operands["a"].dtype, self.head.operands["b"].dtype)
        )
        output = None if self.head is None else (int(self.head.extra["m"]), int(self.head.extra["n"]))
        return tuple(
            None if op.kind == "gemm" else make_value_op(op, numbers, acc or _result_dtype(op), context.dtypes, output)
            for op in self.template.ops
        )

    def bound_ops(self, registers: Registers) -> list[BoundOp | None]:
        """The MATH ops at a dispatch, one an op; the GEMM has none."""
        return [
            fixed if fixed is not None or op is None else self._bound_op(index, op, registers)
            for index, (fixed, op) in enumerate(zip(self.fixed_ops, self.values, strict=True))
        ]

    def _bound_op(self, index: int, op: ValueOp, registers: Registers) -> BoundOp:
        if not op.is_generator:
            return bind(op, registers)
        key = index, *[registers[register] for register in self._generator_registers[index]]
        found = self._generators.get(key)
        if found is None:
            found = self._generators[key] = bind(op, registers)
            self._elements_kept += math.prod(op.shape)
            if len(self._generators) > _GENERATORS_KEPT or self._elements_kept > _ELEMENTS_KEPT:
                self._generators.clear()
                self._elements_kept = 0
        return found

    def _values_at_once(self) -> bool:
        """The output can be computed as one tile: every element depends on its own place alone, and on all of k."""
        ops = [self.values[index] for index in self.plan.out_ops if self.values]
        axes = [along for op in ops if op is not None for arg in (*op.args, op.out) for along in arg.axes]
        mixes = any(MICRO_OPS[op.kind].mixes for op in ops if op is not None)
        return not self.plan.k_ops and not mixes and Along.TILE not in axes

    def _used(self, context: FormContext) -> tuple[int, ...]:
        """Registers that its addresses need; values that are not known may stay so in scalars."""
        handles = [*self.views, *(operand.handle for operand in self.hbm.values())]
        return context.taint.of(*(value for h in handles for value in (h.address, *h.strides)))

    def step(self, j: int) -> Step:
        """Step `j` of the tile loop. Those of a loop of usual size are kept."""
        found = self._steps.get(j)
        if found is None:
            loop = self.plan.loop
            assert loop is not None
            at = loop.at(j)
            tile, k_chain, out_chain = self.tiles[loop.extents(*at)]
            found = Step(tile, k_chain, out_chain, *at)
            if j < _STEPS_KEPT:
                self._steps[j] = found
        return found

    def operand_dtypes(self, name: str) -> tuple[DType, DType]:
        """The type of `a` or `b`, and of the other one."""
        assert self.head is not None
        a, b = self.head.operands["a"].dtype, self.head.operands["b"].dtype
        return (a, b) if name == "a" else (b, a)

    @property
    def name(self) -> str:
        """The GEMM, or the one op, or that there are several."""
        if self.head is not None:
            return "gemm"
        return self.template.ops[0].kind if len(self.template.ops) == 1 else "chain"

    def bind(self, registers: Registers, capacity: int) -> Binding:
        """Places in TCM at this dispatch, made once for each set of addresses."""
        key = self._read_key(registers)
        found = self._bindings.get(key)
        if found is None:
            found = self._bindings[key] = self._bind(registers, capacity)
        return found

    def _bind(self, registers: Registers, capacity: int) -> Binding:
        places: list[tuple[int, Strides]] = []
        ranges: dict[TensorHandle, Range] = {}
        for handle in self.views:
            address, strides = affine_ints((handle.address,), registers)[0], affine_ints(handle.strides, registers)
            ranges[handle] = checked_range(handle, address, strides, capacity)
            places.append((address, strides))
        reads, writes = self._sides()
        rings = [(address, address + slots * size) for address, slots, size in self.rings.values()]
        footprint = self._context.footprints.make([ranges[h] for h in reads], [ranges[h] for h in writes], rings)
        return Binding(
            len(self._bindings), footprint, tuple(places), [ranges[h] for h in reads], [ranges[h] for h in writes]
        )

    def _sides(self) -> tuple[list[TensorHandle], list[TensorHandle]]:
        """The blocks read and those written; an RW handle is both."""
        known = self.numbers.keys()
        reads = [handle for op in self.template.ops for handle in op.operands.values()]
        writes = [op.out for op in self.template.ops if op.out is not None]
        both = list(self.template.rw_handles)
        return [h for h in (*reads, *both) if h in known], [h for h in (*writes, *both) if h in known]


class Binding:
    """A composite's places in TCM at some dispatch: (address, strides) of each view, and what it touches."""

    __slots__ = ("footprint", "number", "places", "reads", "writes")

    def __init__(
        self, number: int, footprint: Footprint, places: tuple[tuple[int, Strides], ...], reads: list[Range],
        writes: list[Range],
    ) -> None:  # fmt: skip
        self.number = number
        self.footprint = footprint
        self.places = places
        self.reads = reads
        self.writes = writes


def _tcm_handles(template: CompositeTemplate) -> list[TensorHandle]:
    found: dict[TensorHandle, None] = {}
    for op in template.ops:
        for handle in (*op.operands.values(), *([op.out] if op.out is not None else [])):
            if handle.space == "tcm" and not handle.is_accumulator:
                found[handle] = None
    for handle in template.rw_handles:
        if handle.space == "tcm" and not handle.is_accumulator:
            found[handle] = None
    return list(found)


def _scalars(ops: Sequence[OpSpec]) -> Iterator[object]:
    """Everything in `extra` that may read a register."""
    for op in ops:
        for value in op.extra.values():
            yield from _leaves(value)


def _registers_of(op: OpSpec) -> tuple[int, ...]:
    return tuple(sorted({register for value in _scalars([op]) for register in operand_registers(value)}))


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, IndexOp):
        yield from (Reg(register) for register in sorted(index_registers(value)))
    else:
        yield value


def _result_dtype(op: OpSpec) -> DType:
    assert op.out is not None, "an op outside of a tile loop names its result"
    return op.out.dtype
