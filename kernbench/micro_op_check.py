"""Say what of a micro-op has no sense: types that its function does not take, attributes, shapes that do not fit.

Holds one op against the micro-op table. Does not know registers, programs or how long anything takes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kernbench import numerics
from kernbench.commands import OpSpec
from kernbench.dtypes import DType
from kernbench.micro_ops import MICRO_OPS, MicroOp

MAX_ELEMENTS = 1 << 24  # of a block; more would not fit in any TCM, but as the same element again and again
Problems = Iterator[str]
Shape = tuple[int, ...]
# What the attributes of whole-block micro-ops are, where types are tried out.
_ANY_ATTRIBUTES = {"axis": 0, "start": 0, "step": 1, "count": 1, "descending": False, "reverse": False, "bins": 1}


def type_problems(kind: str, forms: tuple[str, ...], dtypes: Sequence[DType | None], out: DType) -> Problems:
    """`dtypes` has None for an immediate; `forms` names each operand's type, an immediate's as Python calls it."""
    if not _tried(kind, forms, tuple(dtypes), out):
        yield f"`{kind}` has no result of type {out} for operands of {', '.join(forms)}"


@functools.lru_cache(maxsize=4096)
def _tried(kind: str, forms: tuple[str, ...], dtypes: tuple[DType | None, ...], out: DType) -> bool:
    """Whether the table's function takes values of these types: it is the only one who knows."""
    numbers: dict[str, int | float] = {"float": 1.0, "int": 1, "bool": True, "Affine": 1}
    values = [
        numbers[form] if dtype is None else np.ones((1,), dtype.numpy)
        for form, dtype in zip(forms, dtypes, strict=True)
    ]
    extra = _ANY_ATTRIBUTES if MICRO_OPS[kind].mixes else {}
    if kind == "bitcast" and dtypes[0] is not None and dtypes[0].nbytes != out.nbytes:
        return False
    try:
        numerics.evaluate(kind, values, out, extra)
    except TypeError:
        return False
    return True


def attribute_problems(op: OpSpec, entry: MicroOp) -> Problems:
    for name in entry.attributes:
        value = op.extra.get(name)
        if name == "bcast_axis" and (value is None or type(value) is int):
            continue
        if name in ("base", "strides", "rest", "lo", "hi", "preds", "mask"):
            continue  # of generators
        if name in ("descending", "reverse") and isinstance(value, bool | int):
            continue
        if type(value) is not int or abs(value) > MAX_ELEMENTS:
            yield f"`{op.kind}` has the {name} {value!r}"


def result_shape(op: OpSpec, entry: MicroOp, shapes: Sequence[Shape]) -> Shape | None:
    """The shape of the result, or None where there is none."""
    axis = op.extra.get("axis", 0)
    if entry.mixes and op.kind not in ("join", "histogram") and not -len(shapes[0]) <= axis < len(shapes[0]):
        return None
    special = _SHAPES.get(op.kind)
    if special is not None:
        return special(op, shapes)
    if entry.reduces:
        at = axis % len(shapes[0])
        return (*shapes[0][:at], *shapes[0][at + 1 :]) if shapes[0][at] else None
    if entry.whole:
        return shapes[0]
    bcast = op.extra.get("bcast_axis")
    if bcast is not None and "bcast_axis" in entry.attributes and len(shapes[1]) < len(shapes[0]):
        rank = len(shapes[1]) + 1
        if not -rank <= bcast < rank:
            return None
        at = bcast % rank
        shapes = (shapes[0], (*shapes[1][:at], 1, *shapes[1][at:]))
    return _broadcast(*shapes)


def _broadcast(*shapes: Shape) -> Shape | None:
    rank = max(map(len, shapes))
    sides = list(zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True))
    grown = [{extent for extent in side if extent != 1} or {1} for side in sides]
    return None if any(len(side) > 1 for side in grown) else tuple(side.pop() for side in grown)


def _part(op: OpSpec, shapes: Sequence[Shape]) -> Shape | None:
    axis = op.extra["axis"] % len(shapes[0])
    start, step, count = (op.extra[name] for name in ("start", "step", "count"))
    ends = (start, start + step * (count - 1))
    if not 0 <= count <= MAX_ELEMENTS or (count and not all(0 <= end < shapes[0][axis] for end in ends)):
        return None
    return (*shapes[0][:axis], count, *shapes[0][axis + 1 :])


def _cat(op: OpSpec, shapes: Sequence[Shape]) -> Shape | None:
    first, second = shapes
    axis = op.extra["axis"] % len(first)
    if len(first) != len(second) or any(
        x != y for at, (x, y) in enumerate(zip(first, second, strict=True)) if at != axis
    ):
        return None
    return (*first[:axis], first[axis] + second[axis], *first[axis + 1 :])


def _join(op: OpSpec, shapes: Sequence[Shape]) -> Shape | None:
    return (*shapes[0], 2) if shapes[0] == shapes[1] else None


def _take(op: OpSpec, shapes: Sequence[Shape]) -> Shape | None:
    source, index = shapes
    axis = op.extra["axis"] % len(source)
    if len(source) != len(index) or source[axis] == 0:
        return None
    beside = [(*shape[:axis], 1, *shape[axis + 1 :]) for shape in shapes]
    made = _broadcast(*beside)
    return None if made is None else (*made[:axis], index[axis], *made[axis + 1 :])


def _histogram(op: OpSpec, shapes: Sequence[Shape]) -> Shape | None:
    return (op.extra["bins"],) if op.extra["bins"] > 0 and _broadcast(*shapes) == shapes[0] else None


_SHAPES: dict[str, Callable[[OpSpec, Sequence[Shape]], Shape | None]] = {
    "part": _part,
    "cat": _cat,
    "join": _join,
    "take": _take,
    "histogram": _histogram,
}


def fills(made: Shape, wanted: Shape) -> bool:
    """A result goes into a handle of as many elements, or repeats itself in one that it broadcasts to."""
    return math.prod(made) == math.prod(wanted) or _broadcast(made, wanted) == wanted


def tile_shape_problems(op: OpSpec, head: OpSpec | None) -> Problems:
    """Operands of a tile are the output's, a row, a column or one element of it, or hold one tile."""
    assert head is not None and head.out is not None
    if MICRO_OPS[op.kind].mixes or MICRO_OPS[op.kind].arity == 0:
        yield f"`{op.kind}` needs whole blocks, and stands at the scope {op.scope.value}"
        return
    m, n = head.out.shape
    for name, handle in (*op.operands.items(), ("out", op.out)):
        if handle is None or handle.is_accumulator:
            continue
        lead, last = handle.shape[:-2], (1, *handle.shape)[-2:]
        if len(handle.shape) == 1 and op.extra.get("bcast_axis") in (1, -1):
            last = (handle.shape[0], 1)
        if len(lead) > 1 or last[0] > m or last[1] > n:
            yield f"`{name}` of `{op.kind}` has the shape {list(handle.shape)} beside a product of {[m, n]}"
