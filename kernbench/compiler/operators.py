"""Operators on values, with Triton's promotion: constants fold, integers stay symbolic, the rest is emitted.

Does not know builtins or statements.
"""

from __future__ import annotations

from kernbench.commands import Operand
from kernbench.compiler.arithmetic import arithmetic, as_condition, elementwise, invert_mask, known_select
from kernbench.compiler.constants import fold_binary, fold_compare, fold_unary
from kernbench.compiler.conversions import (
    READ_IT,
    SYMBOLIC,
    cast,
    cast_scalar,
    read_scalar,
    require_numbers,
    scalar_of,
    to_runtime,
)
from kernbench.compiler.emitter import Emitter
from kernbench.compiler.faults import fault
from kernbench.compiler.pointers import is_pointer, offset_pointer, select_pointer
from kernbench.compiler.promotion import result_type
from kernbench.compiler.shapes import broadcast_shapes
from kernbench.compiler.values import (
    Block,
    Const,
    DTypeValue,
    Pointer,
    TupleValue,
    Value,
    element_type,
    is_block,
    type_text,
)
from kernbench.diagnostics import Span
from kernbench.dtypes import DType, fp32, i1, i64

# operator -> micro-op. `/` and `//`, and `>>` of any sign, are told apart by type where they are evaluated.
BINARY = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "idiv", "%": "mod",
    "&": "and", "|": "or", "^": "xor", "<<": "shl", ">>": "shr", "**": "pow",
}  # fmt: skip
COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_DIVISIONS = ("/", "//", "%")
_INTEGER_ONLY = ("//", "&", "|", "^", "<<", ">>")


# --------------------------------------------------------------------------- entry points


def binary(emitter: Emitter, op: str, lhs: Value, rhs: Value, at: Span) -> Value:
    if op == "@":
        raise fault("E_UNSUPPORTED_OPERATOR", "`@` is not an operator on blocks", at, help="write tl.dot(a, b)")
    if isinstance(lhs, Const | TupleValue) and isinstance(rhs, Const | TupleValue):
        return fold_binary(op, lhs, rhs, at)
    if is_pointer(lhs) or is_pointer(rhs):
        return offset_pointer(emitter, op, lhs, rhs, at)
    require_numbers(at, lhs, rhs)
    dtype = result_type(lhs, rhs, at, division=op in _DIVISIONS)
    if dtype.is_float and op in _INTEGER_ONLY:
        raise fault(
            "E_OPERAND_TYPE",
            f"`{op}` takes integers, {type_text(lhs)} and {type_text(rhs)} are given",
            at,
            help="use tl.floor(a / b)" if op == "//" else None,
        )
    if op == "/" and dtype.is_int:
        dtype = fp32
    return arithmetic(emitter, BINARY[op], lhs, rhs, dtype, at)


def compare(emitter: Emitter, op: str, lhs: Value, rhs: Value, at: Span) -> Value:
    if op in ("is", "is not", "in", "not in") or not (_is_run_time(lhs) or _is_run_time(rhs)):
        return fold_compare(op, lhs, rhs, at)
    if _is_none(lhs) or _is_none(rhs):
        # `ptr == None`: a run-time value is never None.
        return fold_compare("is not" if op == "!=" else "is", lhs, rhs, at)
    if is_pointer(lhs) or is_pointer(rhs):
        lhs, rhs = _addresses(emitter, op, lhs, rhs, at)
    require_numbers(at, lhs, rhs)
    dtype = result_type(lhs, rhs, at)
    return arithmetic(emitter, COMPARE[op], lhs, rhs, dtype, at, out=i1)


def unary(emitter: Emitter, op: str, value: Value, at: Span) -> Value:
    if isinstance(value, Const | TupleValue | DTypeValue):
        return fold_unary(op, value, at)
    if op == "not":
        return invert_mask(emitter, _condition(emitter, value, at), at)
    require_numbers(at, value)
    dtype = element_type(value)
    assert isinstance(dtype, DType)
    if op == "+":
        return value
    if op == "-":
        # 0 - x, as Triton has it: the negative of 0.0 is 0.0, not -0.0.
        return arithmetic(emitter, "sub", Const(0), value, dtype, at)
    if dtype.is_float:
        raise fault("E_OPERAND_TYPE", f"`~` takes integers, {type_text(value)} is given", at)
    if dtype is i1:
        return invert_mask(emitter, value, at)
    return arithmetic(emitter, "xor", value, Const(-1 if dtype.is_signed else dtype.max), dtype, at)


def logical(emitter: Emitter, op: str, lhs: Value, rhs: Value, at: Span) -> Value:
    """`and` and `or` of a run-time left side: elementwise, as int1."""
    kind = "&" if op == "and" else "|"
    return binary(emitter, kind, _condition(emitter, lhs, at), _condition(emitter, rhs, at), at)


def select(emitter: Emitter, condition: Value, then: Value, orelse: Value, at: Span) -> Value:
    condition = _condition(emitter, condition, at)
    if is_pointer(then) or is_pointer(orelse):
        return select_pointer(emitter, condition, then, orelse, at)
    require_numbers(at, then, orelse)
    dtype = result_type(then, orelse, at)
    shape = broadcast_shapes(at, condition, then, orelse)
    if shape and dtype in SYMBOLIC and (known := known_select(emitter, condition, then, orelse, dtype, shape, at)):
        return known
    if isinstance(condition, Const):
        condition = to_runtime(emitter, condition, at)
    return elementwise(emitter, "select", (condition, then, orelse), dtype, at)


def truth(emitter: Emitter, value: Value, at: Span) -> bool | Operand:
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, TupleValue):
        return bool(value.items)
    if isinstance(value, Pointer):
        value = _condition(emitter, value, at)
    if isinstance(value, Block) and value.ref.shape != () and all(extent == 1 for extent in value.shape):
        value = read_scalar(emitter, value, at)
    if is_block(value):
        raise fault(
            "E_SCALAR_EXPECTED",
            f"a condition is one value, {type_text(value)} is given",
            at,
            help="reduce it first, for example with tl.max(x, axis=0), or select with tl.where",
        )
    scalar = cast_scalar(emitter, scalar_of(emitter, value, at, "a condition"), i1, at)
    return bool(scalar.operand) if isinstance(scalar.operand, bool | int | float) else scalar.operand


def _condition(emitter: Emitter, value: Value, at: Span) -> Value:
    """As int1; a pointer is true where it is not null."""
    if is_pointer(value):
        return compare(emitter, "!=", value, Const(0), at)
    return as_condition(emitter, value, at)


def _is_run_time(value: Value) -> bool:
    return element_type(value) is not None


def _is_none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None


def _addresses(emitter: Emitter, op: str, lhs: Value, rhs: Value, at: Span) -> list[Value]:
    """Pointers compare as the integers that they are, and with integers only."""
    if any(_is_fraction(value) for value in (lhs, rhs)):
        message = f"`{op}` of {type_text(lhs)} and {type_text(rhs)}"
        raise fault("E_OPERAND_TYPE", message, at, "a pointer compares with integers only", help=READ_IT)
    return [cast(emitter, value, i64, at) if is_pointer(value) else value for value in (lhs, rhs)]


def _is_fraction(value: Value) -> bool:
    if isinstance(value, Const):
        return isinstance(value.value, float)
    dtype = None if is_pointer(value) else element_type(value)
    return isinstance(dtype, DType) and dtype.is_float
