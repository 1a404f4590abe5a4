"""Atomics on memory: `tl.atomic_add` and its kin, on blocks of pointers, single ones, and descriptors.

Memory orders and scopes are accepted: every atomic happens at the controller that owns its element, in the order of
simulated time, which is the strongest of them.
"""

from __future__ import annotations

from collections.abc import Callable

from kernbench.compiler import access
from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.builtins.tiles import descriptor_lanes
from kernbench.compiler.conversions import to_runtime
from kernbench.compiler.faults import fault
from kernbench.compiler.values import NONE, PtrBlock, Value, is_block, type_text
from kernbench.dtypes import DType, i1

_ORDERS = (None, "acquire", "release", "acq_rel", "relaxed")
_SCOPES = (None, "gpu", "cta", "sys")

# function -> micro-op
_KINDS = {
    "atomic_add": "add",
    "atomic_max": "max_elem",
    "atomic_min": "min_elem",
    "atomic_and": "and",
    "atomic_or": "or",
    "atomic_xor": "xor",
    "atomic_xchg": "xchg",
}
_DOCS = {
    "add": "Add to memory",
    "max_elem": "Keep the larger in memory",
    "min_elem": "Keep the smaller in memory",
    "and": "Bitwise and with memory",
    "or": "Bitwise or with memory",
    "xor": "Bitwise exclusive or with memory",
    "xchg": "Put values into memory",
}
_OF_BITS = ("and", "or", "xor")


def _check(call: Call, kind: str, element: DType, sem: Value, scope: Value) -> None:
    for value, parameter, known in ((sem, "sem", _ORDERS), (scope, "scope", _SCOPES)):
        found = call.constant(value, parameter)
        if found not in known:
            listed = ", ".join(repr(name) for name in known[1:])
            raise fault("E_CALL_ARGUMENTS", f"`{parameter}` of {call.name} is {found!r}, none of {listed}", call.at)
    if element is i1 or (kind in _OF_BITS and element.is_float):
        raise fault("E_OPERAND_TYPE", f"{call.name} does not change {element.triton} in memory", call.at)


def _pointer_function(kind: str) -> Callable[..., Value]:
    def function(
        call: Call, pointer: Value, val: Value, mask: Value = NONE, sem: Value = NONE, scope: Value = NONE
    ) -> Value:
        return _atomic(call, kind, pointer, val, NONE, mask, sem, scope)

    function.__doc__ = f"{_DOCS[kind]}; the elements before it, lane by lane."
    return function


for _name, _kind in _KINDS.items():
    builtin(_name)(_pointer_function(_kind))


@builtin("atomic_cas")
def atomic_cas(call: Call, pointer: Value, cmp: Value, val: Value, sem: Value = NONE, scope: Value = NONE) -> Value:
    """Put `val` where `cmp` is in memory; the elements before it, lane by lane."""
    return _atomic(call, "cas", pointer, val, cmp, NONE, sem, scope)


def _atomic(
    call: Call, kind: str, pointer: Value, val: Value, cmp: Value, mask: Value, sem: Value, scope: Value
) -> Value:
    element = access.element_of(call.name, pointer, call.at)
    _check(call, kind, element, sem, scope)
    if not isinstance(pointer, PtrBlock):
        for argument, parameter in ((val, "val"), (cmp, "cmp"), (mask, "mask")):
            if is_block(argument):
                raise access.block_with_scalar(call.name, parameter, argument, call.at)
    value = to_runtime(call.builder, val, call.at)
    return access.atomic(call.builder, kind, pointer, value, cmp, mask, call.at)


def _descriptor_function(kind: str) -> Callable[..., Value]:
    def function(call: Call, desc: Value, offsets: Value, value: Value) -> Value:
        tile, pointer, lanes = descriptor_lanes(call, desc, offsets)
        _check(call, kind, tile.base.element, NONE, NONE)
        if not is_block(value):
            raise fault("E_BLOCK_EXPECTED", f"{call.name} takes a block, {type_text(value)} is given", call.at)
        access.atomic(call.builder, kind, pointer, value, NONE, lanes, call.at)
        return NONE

    function.__doc__ = f"{_DOCS[kind]}, in the tile that starts at `offsets`."
    return function


for _name, _kind in _KINDS.items():
    if _kind != "xchg":
        builtin(f"descriptor.{_name}")(_descriptor_function(_kind))
