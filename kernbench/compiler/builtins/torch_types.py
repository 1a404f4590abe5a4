"""What kernel files take of `torch`: the limits of its types. Nothing of torch itself is imported.

A torch type is no type of the language; only its limits can be asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes

from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.faults import fault
from kernbench.compiler.values import BuiltinValue, Const, ModuleValue, Value, type_text
from kernbench.dtypes import BY_NAME, DType

_TORCH_NAMES: Mapping[str, str] = {
    "float16": "fp16", "half": "fp16", "bfloat16": "bf16", "float32": "fp32", "float": "fp32", "float64": "fp64",
    "double": "fp64", "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5", "int8": "i8", "int16": "i16",
    "short": "i16", "int32": "i32", "int": "i32", "int64": "i64", "long": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "bool": "i1",
}  # fmt: skip
TORCH_TYPES: Mapping[str, DType] = {f"torch.{torch}": BY_NAME[ours] for torch, ours in _TORCH_NAMES.items()}


def _limits_of(dtype: DType) -> dict[str, Value]:
    """What `torch.finfo` or `torch.iinfo` of a type holds."""
    if dtype.is_int:
        return {"min": Const(dtype.min), "max": Const(dtype.max), "bits": Const(dtype.bits)}
    limits: Any = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    smallest = float(limits.smallest_normal)
    floats = {"min": limits.min, "max": limits.max, "eps": limits.eps, "tiny": smallest, "smallest_normal": smallest}
    return {"bits": Const(dtype.bits), **{name: Const(float(value)) for name, value in floats.items()}}


def _module(dtype: DType) -> str:
    return f"torch.{'iinfo' if dtype.is_int else 'finfo'}({dtype})"


TORCH_LIMITS: Mapping[str, Mapping[str, Value]] = {
    _module(dtype): _limits_of(dtype) for dtype in TORCH_TYPES.values() if dtype.kind != "bool"
}


@builtin("torch.finfo")
def finfo(call: Call, type_: Value) -> Value:
    """The limits of a float type of torch: `torch.finfo(torch.float32).max`."""
    return _limits(call, type_, "a float")


@builtin("torch.iinfo")
def iinfo(call: Call, type_: Value) -> Value:
    """The limits of an integer type of torch: `torch.iinfo(torch.int32).max`."""
    return _limits(call, type_, "an integer")


def _limits(call: Call, given: Value, kind: str) -> Value:
    dtype = TORCH_TYPES.get(given.name) if isinstance(given, BuiltinValue) else None
    if dtype is None or dtype.kind == "bool" or dtype.is_float != (kind == "a float"):
        message = f"{call.name} takes {kind} type of torch, {type_text(given)} is given"
        example = "torch.float32" if kind == "a float" else "torch.int32"
        raise fault("E_DTYPE_EXPECTED", message, call.at, help=f"for example {example}", about=given)
    return ModuleValue(_module(dtype))
