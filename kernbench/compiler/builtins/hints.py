"""Hints and debugging aids: accepted, without effect on values."""

from __future__ import annotations

from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.values import NONE, Value


@builtin("multiple_of", "max_contiguous", "max_constancy")
def hint(call: Call, input: Value, values: Value) -> Value:
    """The value as it is: what is promised of it changes no result."""
    return input


@builtin("assume")
def assume(call: Call, cond: Value) -> Value:
    """Nothing: what is promised changes no result."""
    return NONE


@builtin("gdc_wait", "gdc_launch_dependents")
def order_of_launches(call: Call) -> Value:
    """Nothing: a launch begins when the one before it is complete."""
    return NONE


@builtin("static_print", "device_print", "builtins.print")
def silent_print(call: Call, *values: Value, **options: Value) -> Value:
    """Nothing is printed: a program's output is its stores."""
    return NONE
