"""Attributes of values: members of modules, `.dtype`, `.shape`, `.T`, methods.

Does not know what a method does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from kernbench.compiler.builtins import BUILTINS
from kernbench.compiler.builtins.registry import Call
from kernbench.compiler.builtins.shaping import trans as transposed
from kernbench.compiler.builtins.tiles import DESCRIPTOR_METHODS
from kernbench.compiler.builtins.types import TYPE_METHODS
from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.modules import MODULES, UNSUPPORTED, unsupported
from kernbench.compiler.values import (
    BlockType,
    BoundMethod,
    BuiltinValue,
    Const,
    DTypeValue,
    ModuleValue,
    PointerType,
    TileValue,
    TorchModule,
    TupleValue,
    Value,
    element_type,
    shape_of,
    type_text,
)
from kernbench.diagnostics import Span, did_you_mean
from kernbench.dtypes import DType

if TYPE_CHECKING:
    from kernbench.compiler.builder import Builder

# Functions that tensors have as methods too, where they are there.
_METHODS = tuple(
    name
    for name in (
        "abs", "argmax", "argmin", "associative_scan", "atomic_add", "atomic_and", "atomic_cas", "atomic_max",
        "atomic_min", "atomic_or", "atomic_xchg", "atomic_xor", "broadcast_to", "cast", "cdiv", "ceil", "cos",
        "cumprod", "cumsum", "erf", "exp", "exp2", "expand_dims", "fdiv", "flip", "floor", "gather", "histogram",
        "log", "log2", "logical_and", "logical_or", "max", "min", "permute", "ravel", "reduce", "reduce_or",
        "reshape", "rsqrt", "sigmoid", "sin", "softmax", "sort", "split", "sqrt", "sqrt_rn", "store", "sum", "to",
        "topk", "trans", "view", "xor_sum",
    )
    if name in BUILTINS
)  # fmt: skip


_HOMES = ("tl", "tl.math")  # where a function is looked for that another module does not have


def attribute(builder: Builder, value: Value, name: str, at: Span) -> Value:
    if isinstance(value, ModuleValue):
        return _member(value, name, at)
    if isinstance(value, DTypeValue):
        return _of_type(value, name, at)
    if isinstance(value, Const):
        if name == "value":
            return value
        if name == "to" and isinstance(value.value, bool | int | float):
            return BoundMethod("to", value)
        raise _unknown(value, name, ["value", "to"], at)
    if isinstance(value, TileValue):
        return _of_tile(value, name, at)
    if element_type(value) is None:
        raise _unknown(value, name, [], at)
    if name in _DATA:
        return _DATA[name](value)
    if name == "T":
        return transposed(Call(builder, "T", at), value)
    if name in _METHODS:
        return BoundMethod(name, value)
    if f"operator.{name}" in BUILTINS:
        return BoundMethod(f"operator.{name}", value)
    raise _unknown(value, name, [*_DATA, "T", *_METHODS], at)


def _member(module: ModuleValue, name: str, at: Span) -> Value:
    members = MODULES[module.name]
    if name in members:
        return members[name]
    spoken = f"{module.name}.{name}"
    if name in UNSUPPORTED.get(module.name, ()):
        raise unsupported(spoken, name, at)
    if isinstance(module, TorchModule):
        advice = (
            "a kernel can use the limits of torch's types, such as `torch.finfo(torch.float32).max`, and its constants"
        )
        raise fault(
            "E_FOREIGN_NAME", f"`{spoken}` is of torch, which a kernel cannot use", at, "used here", help=advice
        )
    home = next((other for other in _HOMES if isinstance(MODULES[other].get(name), BuiltinValue)), None)
    help = did_you_mean(name, list(members), f"names of `{module.name}`") if home is None else f"use `{home}.{name}`"
    raise fault("E_UNKNOWN_NAME", f"there is no `{spoken}`", at, help=help)


def _unknown(value: Value, name: str, known: list[str], at: Span) -> Fault:
    help = did_you_mean(name, known, "its attributes")
    return fault("E_UNKNOWN_ATTRIBUTE", f"{type_text(value)} has no attribute `{name}`", at, help=help)


# --------------------------------------------------------------------------- tensors


def _shape(value: Value) -> Value:
    return TupleValue(tuple(Const(extent) for extent in shape_of(value)))


def _dtype(value: Value) -> Value:
    element = element_type(value)
    assert element is not None
    return DTypeValue(element)


def _type(value: Value) -> Value:
    element, shape = element_type(value), shape_of(value)
    assert element is not None
    return DTypeValue(BlockType(element, shape) if shape else element)


_DATA: dict[str, Callable[[Value], Value]] = {
    "dtype": _dtype,
    "type": _type,
    "shape": _shape,
    "numel": lambda value: Const(math.prod(shape_of(value))),
}

# --------------------------------------------------------------------------- block pointers and descriptors


def _of_tile(value: TileValue, name: str, at: Span) -> Value:
    block = BlockType(value.base.element, value.block_shape)
    pointer = value.kind == "block pointer"
    facts: dict[str, Value] = {
        "dtype": DTypeValue(block if pointer else value.base.element),
        "type": DTypeValue(block),
        "block_type": DTypeValue(block),
        "element_ty": DTypeValue(value.base.element),
        "block_shape": TupleValue(tuple(Const(extent) for extent in value.block_shape)),
        "shape": TupleValue(tuple(Const(extent) for extent in value.block_shape)) if pointer else value.extents,
        "strides": value.strides,
        "base": value.base,
    }
    if name in facts:
        return facts[name]
    methods = ("advance",) if pointer else DESCRIPTOR_METHODS
    if name in methods:
        return BoundMethod(name if pointer else f"descriptor.{name}", value)
    raise _unknown(value, name, [*facts, *methods], at)


# --------------------------------------------------------------------------- types


def _of_type(value: DTypeValue, name: str, at: Span) -> Value:
    dtype = value.dtype
    if name in TYPE_METHODS:
        return BoundMethod(f"type.{name}", value)
    if name == "value":
        return value  # of a constexpr
    if name == "scalar":
        return DTypeValue(dtype.element) if isinstance(dtype, BlockType) else value
    if name in ("element_ty", "dtype") and isinstance(dtype, PointerType | BlockType):
        return DTypeValue(dtype.element)
    if name == "shape" and isinstance(dtype, BlockType):
        return TupleValue(tuple(Const(extent) for extent in dtype.shape))
    facts = _facts(dtype) if isinstance(dtype, DType) else {}
    if name in facts:
        return Const(facts[name])
    known = ["scalar", "element_ty", "primitive_bitwidth", "itemsize", "name", *TYPE_METHODS]
    raise _unknown(value, name, known, at)


def _facts(dtype: DType) -> dict[str, int | str]:
    facts: dict[str, int | str] = {
        "primitive_bitwidth": dtype.bits,
        "itemsize": dtype.nbytes,
        "name": dtype.name,
    }
    if dtype.is_int:
        facts["int_bitwidth"] = dtype.bits
    return facts
