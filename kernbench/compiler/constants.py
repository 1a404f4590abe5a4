"""Python's arithmetic on constants, within limits: constexprs, strings, tuples, types.

Does not know run-time values, but that they are never None.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.values import Const, DTypeValue, TupleValue, Value, type_text
from kernbench.diagnostics import Span

MAX_BITS = 4096  # of a constant; larger ones are mistakes, and would cost time and memory
MAX_ITEMS = 4096  # of a tuple or string

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "is": lambda a, b: a is b or (type(a) is type(b) and a == b),
    "is not": lambda a, b: not (a is b or (type(a) is type(b) and a == b)),
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "+": operator.pos,
    "-": operator.neg,
    "~": operator.invert,
    "not": operator.not_,
}
_REFUSED = (TypeError, ValueError, ArithmeticError)


def plain(value: Value) -> Any:
    """A constant as Python has it; other values stand for themselves."""
    match value:
        case Const():
            return value.value
        case TupleValue():
            return tuple(plain(item) for item in value.items)
        case DTypeValue():
            return value.dtype
        case _:
            return value


def wrap_constant(value: Any) -> Value:
    """The value of a Python object that `plain` gave or an operator made of such."""
    if isinstance(value, tuple):
        return TupleValue(tuple(wrap_constant(item) for item in value))
    if isinstance(value, bool | int | float | str) or value is None:
        return Const(value)
    return value  # type: ignore[no-any-return]


def fold_binary(op: str, lhs: Const | TupleValue, rhs: Const | TupleValue, at: Span) -> Value:
    if isinstance(lhs, TupleValue) and isinstance(rhs, TupleValue) and op == "+":
        if len(lhs.items) + len(rhs.items) > MAX_ITEMS:
            raise fault("E_CONSTANT_ARITHMETIC", f"`{op}` makes a tuple of more than {MAX_ITEMS} items", at)
        return TupleValue(lhs.items + rhs.items)
    a, b = plain(lhs), plain(rhs)
    if _too_large(op, a, b):
        raise fault("E_CONSTANT_ARITHMETIC", f"`{op}` makes a constant of more than {MAX_BITS} bits", at)
    if isinstance(a, str) and op == "%":
        raise _refused(op, lhs, rhs, at)
    try:
        result = _BINARY[op](a, b)
    except _REFUSED as error:
        raise _refused(op, lhs, rhs, at, str(error)) from None
    if isinstance(result, complex) or (isinstance(result, int) and result.bit_length() > MAX_BITS):
        raise fault("E_CONSTANT_ARITHMETIC", f"`{op}` makes no constant that a kernel can use", at)
    return wrap_constant(result)


def _too_large(op: str, a: Any, b: Any) -> bool:
    """Whether the result would be too large to be worth computing."""
    if op == "*" and (isinstance(a, str | tuple) or isinstance(b, str | tuple)):
        sequence, times = (a, b) if isinstance(a, str | tuple) else (b, a)
        return isinstance(times, int) and len(sequence) * max(times, 0) > MAX_ITEMS
    if isinstance(a, str) and isinstance(b, str):
        return len(a) + len(b) > MAX_ITEMS
    if not (isinstance(a, int) and isinstance(b, int)):
        return False
    if op == "**":
        return abs(a) > 1 and b > 0 and a.bit_length() * b > MAX_BITS
    return op == "<<" and b > 0 and a.bit_length() + b > MAX_BITS


def _refused(op: str, lhs: Value, rhs: Value, at: Span, why: str = "") -> Fault:
    message = f"`{op}` of {type_text(lhs)} and {type_text(rhs)} has no value"
    return fault("E_CONSTANT_ARITHMETIC", message, at, why)


def fold_compare(op: str, lhs: Value, rhs: Value, at: Span) -> Const:
    try:
        return Const(bool(_COMPARE[op](plain(lhs), plain(rhs))))
    except _REFUSED:
        raise fault(
            "E_CONSTANT_ARITHMETIC", f"`{op}` does not compare {type_text(lhs)} with {type_text(rhs)}", at
        ) from None


def fold_unary(op: str, value: Value, at: Span) -> Const:
    if op == "not":
        return Const(not plain(value))
    try:
        return Const(_UNARY[op](plain(value)))
    except _REFUSED:
        raise fault("E_CONSTANT_ARITHMETIC", f"`{op}` of {type_text(value)} has no value", at) from None
