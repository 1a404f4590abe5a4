"""What kernels import from `triton.language.standard` beside the functions of `tl` themselves."""

from __future__ import annotations

from collections.abc import Callable

from kernbench.compiler import operators
from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.faults import fault
from kernbench.compiler.values import Const, Value

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
