"""What kernels import from `triton.language.standard` beside the functions of `tl`, and ask of their device."""

from __future__ import annotations

from collections.abc import Callable

from kernbench.compiler import operators
from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.faults import fault
from kernbench.compiler.values import FALSE, Const, ModuleValue, Value

_COMBINES = {"sum": "+", "prod": "*", "xor": "^", "or": "|"}


def _combine(op: str) -> Callable[[Call, Value, Value], Value]:
    def combine(call: Call, a: Value, b: Value) -> Value:
        return operators.binary(call.builder, op, a, b, call.at)

    combine.__doc__ = f"a {op} b, as a function that reductions and scans take."
    return combine


for _name, _op in _COMBINES.items():
    builtin(f"standard.{_name}_combine")(_combine(_op))


@builtin("standard.log2")
def log2(call: Call, i: Value) -> Value:
    """The exponent of a power of two."""
    number = call.integer(i, "i")
    if number < 1:
        raise fault("E_CONSTANT_ARITHMETIC", f"{number} has no logarithm", call.at)
    return Const(number.bit_length() - 1)


@builtin("standard.is_power_of_two")
def is_power_of_two(call: Call, i: Value) -> Value:
    """Whether a constant is a power of two."""
    number = call.integer(i, "i")
    return Const(number > 0 and number & (number - 1) == 0)


@builtin("standard.constexpr_function")
def constexpr_function(call: Call, function: Value) -> Value:
    """A function that is computed when the kernel is compiled, as it is."""
    return function


TARGET_QUESTIONS = (
    "is_cuda",
    "is_hip",
    "is_hip_cdna3",
    "is_hip_cdna4",
    "is_hip_gfx1250",
    "is_xpu",
    "cuda_capability_geq",
)


def _register_question(name: str) -> None:
    @builtin(f"target_info.{name}")
    def ask(call: Call, *version: Value, **named: Value) -> Value:
        return FALSE

    ask.__doc__ = "Whether the device is a GPU of a kind, which no device here is."


for _name in TARGET_QUESTIONS:
    _register_question(_name)


TARGET = "the target"


@builtin("target_info.get_current_target")
def get_current_target(call: Call) -> Value:
    """The device as Triton's driver tells it: its `backend` is none of Triton's."""
    return ModuleValue(TARGET)
