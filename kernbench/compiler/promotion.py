"""The type in which an operation computes: Triton's promotion, and its rules for literals.

Does not know operators, nor how values are converted.
"""

from __future__ import annotations

from kernbench.compiler.conversions import literal_type, require_numbers
from kernbench.compiler.faults import fault
from kernbench.compiler.values import Const, Value, element_type
from kernbench.diagnostics import Span
from kernbench.dtypes import DType, fp32, i1, promote


def result_type(lhs: Value, rhs: Value, at: Span, *, division: bool = False) -> DType:
    """Triton's type of an operation: a literal gives way to a run-time value unless its kind is higher."""
    require_numbers(at, lhs, rhs)
    types = [_type_of(value, at) for value in (lhs, rhs)]
    literal = [isinstance(value, Const) for value in (lhs, rhs)]
    if literal[0] != literal[1]:
        mine, other = (types[0], types[1]) if literal[0] else (types[1], types[0])
        if _kind(mine) <= _kind(other):
            dtype = fp32 if division and other.is_float and other.bits == 16 else other
            _check_literal(lhs if literal[0] else rhs, dtype, at)
            return dtype
    a, b = types
    if division and a.is_int and b.is_int and (a.kind == "int") != (b.kind == "int"):
        raise fault(
            "E_OPERAND_TYPE",
            f"division of {a.triton} and {b.triton}, which differ in sign",
            at,
            help="cast one of them to the other's type first",
        )
    dtype = promote(a, b, division=division)
    for value in (lhs, rhs):
        _check_literal(value, dtype, at)
    return dtype


def common_type(at: Span, *values: Value) -> DType:
    """The type of a function of several values: the operands' types joined from left to right."""
    require_numbers(at, *values)
    dtype = _type_of(values[0], at)
    for value in values[1:]:
        dtype = promote(dtype, _type_of(value, at))
    return dtype


def _type_of(value: Value, at: Span) -> DType:
    if isinstance(value, Const):
        assert isinstance(value.value, bool | int | float)
        dtype = literal_type(value.value)
        if dtype is None:
            raise fault("E_LITERAL_RANGE", f"{value.value} fits no integer type, the largest has 64 bits", at)
        return dtype
    dtype = element_type(value)  # type: ignore[assignment]
    assert isinstance(dtype, DType)
    return dtype


def _kind(dtype: DType) -> int:
    return 2 if dtype.is_float else 0 if dtype is i1 else 1


def _check_literal(value: Value, dtype: DType, at: Span) -> None:
    if not isinstance(value, Const) or dtype.is_float:
        return
    assert isinstance(value.value, bool | int | float)
    if not dtype.min <= value.value <= dtype.max:
        span = f"{dtype.min} to {dtype.max}"
        message = f"the literal {value.value} does not fit {dtype.triton}, which holds {span}"
        raise fault("E_LITERAL_RANGE", message, at, help="cast the other operand to a wider type first")
