"""Memory: `load`, `store`, references into HBM, and waiting."""

from __future__ import annotations

from kernbench.commands import Int, contiguous_strides
from kernbench.compiler import access
from kernbench.compiler.builtins import tiles
from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.conversions import scalar_of
from kernbench.compiler.faults import fault
from kernbench.compiler.residual import BlockRef, HbmRef, WaitFor
from kernbench.compiler.shapes import check_shape
from kernbench.compiler.values import (
    FALSE,
    NONE,
    Block,
    Const,
    HbmRefValue,
    Pointer,
    TileValue,
    TupleValue,
    Value,
    int_of,
    is_block,
    shape_text,
    type_text,
)

_EMPTY = TupleValue(())
_TEXT = Const("")


@builtin("load")
def load(
    call: Call,
    pointer: Value,
    mask: Value = NONE,
    other: Value = NONE,
    boundary_check: Value = _EMPTY,
    padding_option: Value = _TEXT,
    cache_modifier: Value = _TEXT,
    eviction_policy: Value = _TEXT,
    volatile: Value = FALSE,
) -> Value:
    """Elements from memory; lanes that `mask` stops touch nothing and read as `other`, by default 0."""
    if isinstance(pointer, TileValue):
        return tiles.load(call, pointer, mask, other, boundary_check, padding_option)
    _refuse_boundary_check(call, boundary_check, padding_option)
    return access.load(call.builder, pointer, mask, other, call.at)


@builtin("store")
def store(
    call: Call,
    pointer: Value,
    value: Value,
    mask: Value = NONE,
    boundary_check: Value = _EMPTY,
    cache_modifier: Value = _TEXT,
    eviction_policy: Value = _TEXT,
) -> Value:
    """Elements to memory, cast to what the pointers point to; lanes that `mask` stops touch nothing."""
    if isinstance(pointer, TileValue):
        tiles.store(call, pointer, value, mask, boundary_check)
        return NONE
    _refuse_boundary_check(call, boundary_check, _TEXT)
    access.store(call.builder, pointer, value, mask, call.at)
    return NONE


def _refuse_boundary_check(call: Call, boundary_check: Value, padding_option: Value) -> None:
    if boundary_check not in (_EMPTY, NONE) or padding_option not in (_TEXT, NONE):
        message = f"`boundary_check` and `padding_option` of {call.name} belong to block pointers"
        raise fault("E_CALL_ARGUMENTS", message, call.at, help="give a mask")


@builtin("ref")
def ref(call: Call, pointer: Value, shape: Value, strides: Value = NONE) -> Value:
    """An operand in HBM that is not loaded."""
    if not isinstance(pointer, Pointer):
        raise access.pointer_expected("tl.ref", pointer, call.at)
    extents = check_shape(call.shape(shape), call.at, power_of_two=False, in_tcm=False)
    steps: tuple[Int, ...] = contiguous_strides(extents)
    if strides != NONE:
        steps = _strides(call, strides)
    if len(steps) != len(extents):
        message = f"{len(steps)} strides are given for shape {shape_text(extents)}"
        raise fault("E_CALL_ARGUMENTS", message, call.at)
    name = next(
        (call.builder.register_names[r] for r, _ in _terms(pointer.address) if call.builder.register_names[r]), ""
    )
    return HbmRefValue(HbmRef(name, pointer.address, extents, steps, pointer.element))


def _terms(value: Int) -> tuple[tuple[int, int], ...]:
    return () if isinstance(value, int) else value.terms


def _strides(call: Call, strides: Value) -> tuple[Int, ...]:
    items = strides.items if isinstance(strides, TupleValue) else (strides,)
    result: list[Int] = []
    for item in items:
        scalar = scalar_of(call.builder, item, call.at, "a stride")
        if not scalar.dtype.is_int:
            raise fault("E_OPERAND_TYPE", f"a stride must be an integer, {type_text(item)} is given", call.at)
        result.append(int_of(scalar.operand))
    return tuple(result)


@builtin("wait")
def wait(call: Call, *handles: Value) -> Value:
    """Wait until the handles are complete; without one until everything is."""
    blocks: list[BlockRef] = []
    for handle in handles:
        if isinstance(handle, Block):
            blocks.append(handle.ref)
        elif not is_block(handle) and not isinstance(handle, HbmRefValue):
            raise fault("E_BLOCK_EXPECTED", f"tl.wait takes blocks, {type_text(handle)} is given", call.at)
    if blocks or not handles:
        call.builder.emit(WaitFor(tuple(blocks), call.at))
    return NONE


@builtin("debug_barrier")
def debug_barrier(call: Call) -> Value:
    """A program is one thread of control here: what it has issued must be complete."""
    call.builder.emit(WaitFor((), call.at))
    return NONE
