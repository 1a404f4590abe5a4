"""The shape and element type of what each op of a composite makes, known before anything is lowered.

A chain starts with the values that its operands have and goes on with what the op before made. Elaboration asks it
for the type of a composite's result, lowering for the type of a value on the way.
Does not know handles, commands or where anything lies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from kernbench.commands import OpSpec, Reg, Scope
from kernbench.compiler.faults import fault
from kernbench.compiler.recipes import RECIPE_DESCRIPTORS, RecipeDescriptor
from kernbench.compiler.residual import BlockRef, CompositeEntry, CompositeOperand, HbmRef
from kernbench.diagnostics import Span
from kernbench.dtypes import DType, fp32, i1, i32, promote
from kernbench.micro_ops import MICRO_OPS, MicroOp
from kernbench.program_check import type_problem

Shape = tuple[int, ...]

_PLACES = ("argmax", "argmin")  # their results are positions
_ALSO_ON_INTS = ("idiv", "mod", "pow")  # costly ops that do not make floats of integers


@dataclass(frozen=True, slots=True)
class Product:
    """A value on its way through a composite."""

    shape: Shape
    dtype: DType


def product_of(value: object) -> Product | None:
    return Product(value.shape, value.dtype) if isinstance(value, BlockRef | HbmRef) else None


# --------------------------------------------------------------------------- one op


def result_dtype(op: MicroOp, blocks: Mapping[str, DType], float_numbers: bool) -> DType:
    """The type of an op's result where nothing else says it: that of its operands together."""
    if op.boolean:
        return i1
    if op.name in _PLACES:
        return i32
    found = reduce(promote, [dtype for name, dtype in blocks.items() if name != "cond" or len(blocks) == 1])
    makes_floats = float_numbers or (op.cost == "transcendental" and op.name not in _ALSO_ON_INTS)
    return fp32 if found.is_int and makes_floats else found


def accumulator_after(op: MicroOp, acc: DType, others: Collection[DType], float_numbers: bool) -> DType:
    """An accumulator of integers becomes fp32 where an op brings in a float; no op leaves it narrower than it was."""
    if acc.is_float:
        return acc
    named = {str(index): dtype for index, dtype in enumerate((acc, *others))}
    return fp32 if result_dtype(op, named, float_numbers).is_float else acc


def reduced_axis(name: str, axis: object, rank: int, at: Span) -> int:
    """The axis along which an op reduces, counted from the front."""
    if isinstance(axis, int) and -rank <= axis < rank:
        return axis % rank
    given = "it has none" if axis is None else f"it is {axis}"
    raise fault("E_COMPOSITE_OPERAND", f"`{name}` needs an `axis` of {-rank} to {rank - 1}, {given}", at)


def result_shape(op: MicroOp, shapes: Mapping[str, Shape], extra: Mapping[str, Any], at: Span) -> Shape:
    """The shape to which the operands of an op repeat, or that is left of the largest after a reduction."""
    largest = max(shapes.values(), key=lambda shape: (len(shape), shape))
    if op.reduces:
        axis = reduced_axis(op.name, extra.get("axis"), len(largest), at)
        return (*largest[:axis], *largest[axis + 1 :])
    repeated = {name: with_axis(shape, len(largest), extra.get("bcast_axis")) for name, shape in shapes.items()}
    result = tuple(max(extents) for extents in zip(*repeated.values(), strict=True))
    for name, shape in repeated.items():
        if any(extent not in (1, want) for extent, want in zip(shape, result, strict=True)):
            message = f"operand `{name}` of `{op.name}` has shape {shapes[name]}, it must repeat to {result}"
            raise fault("E_COMPOSITE_SHAPE", message, at)
    return result


def with_axis(shape: Shape, rank: int, axis: int | None) -> Shape:
    """A smaller shape with the axis along which it is repeated; without one, aligned at the last axis."""
    if axis is not None and len(shape) == rank - 1:
        at = axis % rank
        return (*shape[:at], 1, *shape[at:])
    return (1,) * (rank - len(shape)) + shape


def checked(op: OpSpec, registers: Sequence[DType], at: Span) -> OpSpec:
    """The op, if the micro-op takes operands of its types."""
    problem = type_problem(op, registers)
    if problem is not None:
        raise fault("E_COMPOSITE_OPERAND", problem, at, help="cast an operand with .to(...) before the composite")
    return op


# --------------------------------------------------------------------------- chains


@dataclass(frozen=True, slots=True)
class Types:
    """Types of values of one kernel; a register has its own."""

    registers: Sequence[DType]

    def is_float(self, number: object) -> bool:
        if isinstance(number, Reg):
            return self.registers[number.index].is_float
        return isinstance(number, float)

    def chain(self, entries: Iterable[CompositeEntry], value: Product | None, call: Span) -> Product | None:
        """What a sequence of entries of one call makes of `value`."""
        for entry in entries:
            value = self.entry(entry, value, entry.span.within(call.calls))
        return value

    def entry(self, entry: CompositeEntry, value: Product | None, at: Span) -> Product | None:
        recipe = RECIPE_DESCRIPTORS.get(entry.op)
        if recipe is not None:
            return _recipe(entry, recipe, value, at)
        if entry.op not in MICRO_OPS:
            return value  # a gemm where none may be; `lower` tells
        return self.micro(entry.op, entry.operands, entry.extra, value, at)

    def micro(
        self,
        name: str,
        operands: Mapping[str, CompositeOperand],
        extra: Mapping[str, Any],
        value: Product | None,
        at: Span,
    ) -> Product:
        """An operand that is not given is the value that comes from the op before."""
        op = MICRO_OPS[name]
        target = product_of(operands.get("out"))
        given = {key: operand for key, operand in operands.items() if key != "out"}
        blocks = {key: product for key, operand in given.items() if (product := product_of(operand)) is not None}
        if value is not None and len(given) < len(op.operands):
            blocks["(before)"] = value
        if not blocks:
            raise fault("E_BAD_COMPOSITE", f"the op {name!r} needs a block as an operand", at)
        shape = result_shape(op, {key: product.shape for key, product in blocks.items()}, extra, at)
        floats = any(self.is_float(operand) for operand in given.values())
        dtype = result_dtype(op, {key: product.dtype for key, product in blocks.items()}, floats)
        return target if target is not None else Product(shape, dtype)

    def accumulated(self, entries: Iterable[CompositeEntry], acc: DType) -> DType:
        """The type of a gemm's product after its tile epilogues."""
        for entry in entries:
            acc = self.accumulated_by(entry, acc)
        return acc

    def accumulated_by(self, entry: CompositeEntry, acc: DType) -> DType:
        op = MICRO_OPS.get(entry.op)
        if entry.scope == Scope.KERNEL.value or (op is not None and op.reduces):
            return acc
        if op is None:
            return fp32 if acc.is_int and entry.op in RECIPE_DESCRIPTORS else acc
        blocks = [operand.dtype for operand in entry.operands.values() if isinstance(operand, BlockRef)]
        return accumulator_after(op, acc, blocks, any(self.is_float(v) for v in entry.operands.values()))


def _recipe(entry: CompositeEntry, recipe: RecipeDescriptor, value: Product | None, at: Span) -> Product | None:
    spec = recipe.primary_out
    if spec is None:
        return value
    found: dict[str, Product] = {}
    for name in (spec.from_shape, spec.from_dtype):
        given = entry.operands.get(name)
        product = product_of(given) if isinstance(given, BlockRef) else None
        if given is None and name == recipe.accumulates:
            product = value
        if product is None:
            raise fault("E_BAD_COMPOSITE", f"`{entry.op}` needs its operand `{name}` as a block", at)
        found[name] = product
    return Product(spec.seen(found[spec.from_shape].shape), found[spec.from_dtype].dtype)


def bound_side(entries: Iterable[CompositeEntry]) -> str:
    """The operand of a gemm that the value of a prologue rather becomes."""
    side = "a"
    for entry in entries:
        recipe = RECIPE_DESCRIPTORS.get(entry.op)
        if recipe is not None and recipe.primary_out is not None:
            side = recipe.primary_out.binds
    return side
