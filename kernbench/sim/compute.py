"""Values in data mode: evaluates a composite's ops on views of TCM, with the functions of `numerics.py` alone.

An op is prepared once a template (`ValueOp`); registers enter at dispatch (`bind`). In timing mode it runs for
static commands only, and what depends on unknown bytes stays unknown. Does not know time, hazards or engines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernbench import numerics
from kernbench.commands import Affine, Operand, OpSpec, Reg, TensorHandle
from kernbench.dtypes import DType, cast, compute_dtype, wrap
from kernbench.micro_ops import MICRO_OPS
from kernbench.sim.access_eval import affine_ints, evaluate_index
from kernbench.sim.plan import Along, tile_axes
from kernbench.sim.registers import Read, Registers, reader

Array = NDArray[Any]
ACC = -1  # the place of an operand that is the accumulator


class Arg(NamedTuple):
    """Where an operand comes from: view number `view` (or `ACC`), or a scalar read from registers."""

    view: int
    axes: tuple[Along, ...] = ()
    read: Read | None = None
    is_immediate: bool = False  # what it reads is the same each time


@dataclass(frozen=True, slots=True)
class ValueOp:
    """One MATH op with its operands found. `out` is None where it writes the accumulator without naming it."""

    kind: str
    args: tuple[Arg, ...]
    out: Arg
    dtype: DType
    shape: tuple[int, ...]  # of the result, for ops that make a block from nothing
    extra: Mapping[str, Any]

    @property
    def is_generator(self) -> bool:
        return not self.args

    @property
    def is_fixed(self) -> bool:
        """The same at every dispatch."""
        return not self.is_generator and all(arg.read is None or arg.is_immediate for arg in self.args)


class BoundOp(NamedTuple):
    """A `ValueOp` at one dispatch: scalars and attributes are values now."""

    op: ValueOp
    scalars: tuple[Any, ...]  # one an arg, None where it is a view
    extra: Mapping[str, Any]


def make_value_op(
    op: OpSpec,
    views: Mapping[TensorHandle, int],
    accumulator: DType,
    dtypes: Sequence[DType],
    output: tuple[int, int] | None = None,
) -> ValueOp:
    """`views` numbers the TCM handles of the composite; `dtypes` are those of the registers; `output` is m by n."""
    places = _Places(op, views, output)
    args = tuple(_arg(op, name, places, dtypes) for name in MICRO_OPS[op.kind].operands)
    attributes = {key: op.extra[key] for key in MICRO_OPS[op.kind].attributes if key in op.extra}
    if op.out is None:
        return ValueOp(op.kind, args, Arg(ACC), accumulator, (), attributes)
    return ValueOp(op.kind, args, places.arg(op.out), op.out.dtype, op.out.shape, attributes)


class _Places(NamedTuple):
    """Where the handles of an op are found."""

    op: OpSpec
    views: Mapping[TensorHandle, int]
    output: tuple[int, int] | None

    def arg(self, handle: TensorHandle) -> Arg:
        if handle.is_accumulator:
            return Arg(ACC)
        bcast = self.op.extra.get("bcast_axis")
        return Arg(self.views[handle], tile_axes(handle, bcast, self.op.scope, self.output))


def _arg(op: OpSpec, name: str, places: _Places, dtypes: Sequence[DType]) -> Arg:
    handle = op.operands.get(name)
    if handle is not None:
        return places.arg(handle)
    operand = op.extra[name]
    return Arg(0, (), _scalar_reader(operand, dtypes), not isinstance(operand, Reg | Affine))


def _scalar_reader(operand: Operand, dtypes: Sequence[DType]) -> Read:
    """A register has a type, which the op promotes; an immediate takes the type that it meets."""
    read = reader(operand)
    if not isinstance(operand, Reg):
        return read
    dtype = dtypes[operand.index]
    if dtype.is_float:
        return lambda registers: cast(np.float64(read(registers)), dtype)
    wide = np.int64 if dtype.kind == "int" else np.uint64
    return lambda registers: cast(np.asarray(wrap(int(read(registers)), dtype), wide), dtype)


def bind(op: ValueOp, registers: Registers) -> BoundOp:
    scalars = tuple([None if arg.read is None else arg.read(registers) for arg in op.args])
    extra = _generator_extra(op, registers) if op.is_generator else op.extra
    return BoundOp(op, scalars, extra)


def _generator_extra(op: ValueOp, registers: Registers) -> dict[str, Any]:
    """The attributes of an op that makes a block from numbers, with registers read."""
    extra: dict[str, Any] = {"shape": op.shape, "preds": (), "lo": (), "hi": ()}
    for key, value in op.extra.items():
        match key:
            case "base":
                extra[key] = affine_ints((value,), registers)[0]
            case "strides":
                extra[key] = affine_ints(value, registers)
            case "lo" | "hi":
                extra[key] = tuple(affine_ints(bounds, registers) for bounds in value)
            case "preds":
                extra[key] = tuple(reader(pred)(registers) for pred in value)
            case "rest" | "mask":
                dense = None if value is None else evaluate_index(value, len(op.shape), op.shape, registers)
                extra[key] = dense
            case _:
                extra[key] = value
    rank = len(op.shape)
    for key in ("lo", "hi"):
        extra[key] = extra[key] or ((),) * rank
    return extra


class TileBox(NamedTuple):
    """A tile of the output, and of the product's depth."""

    m0: int
    m1: int
    n0: int
    n1: int
    k0: int
    k: int  # of the whole product


def cut(view: Array, axes: tuple[Along, ...], tile: TileBox) -> Array:
    """The part of an operand that belongs to a tile."""
    return view[tuple(_picked(view, axis, along, tile) for axis, along in enumerate(axes))]


def _picked(view: Array, axis: int, along: Along, tile: TileBox) -> slice | int:
    match along:
        case Along.M:
            return slice(tile.m0, tile.m1)
        case Along.N:
            return slice(tile.n0, tile.n1)
        case Along.K:
            group: int = tile.k0 * view.shape[axis] // tile.k
            return group
        case Along.TILE:
            from_m = axis == view.ndim - 2
            return slice(0, tile.m1 - tile.m0 if from_m else tile.n1 - tile.n0)
        case Along.WHOLE:
            return slice(None)


def run_op(
    bound: BoundOp, views: Sequence[Array], tile: TileBox | None = None, acc: Array | None = None
) -> Array | None:
    """Evaluate one op. Gives the new accumulator where the op writes that, else None."""
    op = bound.op
    values = [_value(arg, scalar, views, tile, acc) for arg, scalar in zip(op.args, bound.scalars, strict=True)]
    result = numerics.evaluate_quietly(op.kind, values, op.dtype, bound.extra)
    if op.out.view == ACC:
        assert acc is not None
        return result if result.shape == acc.shape else np.broadcast_to(_fit(result, acc.shape), acc.shape)
    target = views[op.out.view]
    if tile is not None:
        target = cut(target, op.out.axes, tile)
    target[...] = result if result.shape == target.shape else _fit(result, target.shape)
    return None


UfuncCall = tuple[np.ufunc, Sequence[Any], Array]  # with its operands, and where its result goes


def ufunc_call(bound: BoundOp | None, views: Sequence[Array]) -> UfuncCall | None:
    """The one call of NumPy's that is all of an op on whole views, where it is one."""
    if bound is None or bound.op.out.view == ACC or any(arg.view == ACC for arg in bound.op.args):
        return None
    op, target = bound.op, views[bound.op.out.view]
    values = [_value(arg, scalar, views, None, None) for arg, scalar in zip(op.args, bound.scalars, strict=True)]
    found = numerics.as_ufunc(op.kind, values, target)
    return None if found is None else (*found, target)


def _value(arg: Arg, scalar: Any, views: Sequence[Array], tile: TileBox | None, acc: Array | None) -> Any:
    if arg.read is not None:
        return scalar
    if arg.view == ACC:
        return acc
    view = views[arg.view]
    return view if tile is None else cut(view, arg.axes, tile)


def _fit(result: Array, shape: tuple[int, ...]) -> Array:
    """A reduction that keeps its axis has as many elements, but one axis more, in its handle."""
    size = 1
    for extent in shape:
        size *= extent
    return result.reshape(shape) if result.size == size else result


# --------------------------------------------------------------------------- GEMM


def operand_values(tile: Array, own: DType, other: DType) -> Array:
    """A tile as PE_GEMM holds it: FETCH rounds it where the other operand's float type is narrower."""
    if own.is_float and other.is_float and other.bits < own.bits:
        tile = cast(tile, other)
    if not own.is_float:
        return np.array(tile)
    wide: Array = tile.astype(compute_dtype(own).numpy)  # a copy: the place that it came from may be overwritten
    return wide
