"""What the walker asks of values: one method for each thing an expression can do with them.

A facade: the work is done by the modules it names. Does not know statements, names or scopes.
Every method returns `ERROR` where an operand is an `ErrorValue`, and raises `Fault` for a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernbench.commands import Operand, Reg
from kernbench.compiler import attributes, common_structure, conversions, operators, shapes, structure
from kernbench.compiler.builtins import call
from kernbench.compiler.emitter import Emitter
from kernbench.compiler.residual import BlockRef
from kernbench.compiler.structure import Key, Leaf
from kernbench.compiler.values import (
    ERROR,
    BoundMethod,
    BuiltinValue,
    Pointer,
    Scalar,
    TupleValue,
    Value,
    int_of,
)
from kernbench.diagnostics import Span
from kernbench.dtypes import DType, i64

Apply = Callable[[Value, tuple[Value, ...]], Value]  # call a function of the language on values
WrittenOperands = Callable[[str], frozenset[str]]  # recipe or micro-op name -> operands that it writes in place


class Builder(Emitter):
    """One for each kernel.

    `written_operands` tells which operands of a recipe are written in place. With `power_of_two`, block sides must
    be powers of two, as Triton demands.
    """

    def __init__(self, written_operands: WrittenOperands = lambda recipe: frozenset(), power_of_two: bool = False):
        super().__init__()
        self.written_operands = written_operands
        self.power_of_two = power_of_two
        # Blocks that calls have written in place, and their new values, until the walker has bound these.
        self.updates: list[tuple[BlockRef, Value]] = []
        self.apply: Apply | None = None  # how the call under way may call functions that it was given; the walker's

    # ------------------------------------------------------------------ operators

    def binary(self, op: str, lhs: Value, rhs: Value, at: Span) -> Value:
        """`+ - * / // % ** << >> & | ^ @`"""
        return ERROR if _broken(lhs, rhs) else operators.binary(self, op, lhs, rhs, at)

    def compare(self, op: str, lhs: Value, rhs: Value, at: Span) -> Value:
        """`== != < <= > >= is "is not" in "not in"`; of constants a constant."""
        return ERROR if _broken(lhs, rhs) else operators.compare(self, op, lhs, rhs, at)

    def unary(self, op: str, value: Value, at: Span) -> Value:
        """`+ - ~ not`"""
        return ERROR if _broken(value) else operators.unary(self, op, value, at)

    def logical(self, op: str, lhs: Value, rhs: Value, at: Span) -> Value:
        """`and` or `or` where the left side is a run-time value; both sides were evaluated. Elementwise on blocks."""
        return ERROR if _broken(lhs, rhs) else operators.logical(self, op, lhs, rhs, at)

    def select(self, condition: Value, then: Value, orelse: Value, at: Span) -> Value:
        """`tl.where`, and the ternary whose branches have no effects."""
        return ERROR if _broken(condition, then, orelse) else operators.select(self, condition, then, orelse, at)

    def truth(self, value: Value, at: Span) -> bool | Operand:
        """A condition: a `bool` where it is known now, else a `Reg` of type i1. An error for a block of many."""
        return operators.truth(self, value, at)

    # ------------------------------------------------------------------ parts of values

    def subscript(self, value: Value, indices: tuple[Value | slice, ...], at: Span) -> Value:
        """`value[i, :, None]`; a full slice is `slice(None)`, `None` is `NONE`, an index of a tuple a `Const`."""
        return ERROR if _broken(value) else shapes.subscript(self, value, indices, at)

    def attribute(self, value: Value, name: str, at: Span) -> Value:
        """`.dtype .shape .T .to .element_ty …`, members of modules; methods come back as `BoundMethod`."""
        return ERROR if _broken(value) else attributes.attribute(self, value, name, at)

    def call_builtin(
        self,
        function: BuiltinValue | BoundMethod | Value,
        args: tuple[Value, ...],
        kwargs: Mapping[str, Value],
        at: Span,
    ) -> Value:
        """Call anything that is not a jit function of the file."""
        if _broken(function, *args, *kwargs.values()):
            return ERROR
        return call(self, function, args, kwargs, at)

    # ------------------------------------------------------------------ conversions

    def to_runtime(self, value: Value, at: Span, dtype: DType | None = None) -> Value:
        """A constant as a typed scalar (Triton's type for it, or `dtype`); run-time values as they are."""
        return ERROR if _broken(value) else conversions.to_runtime(self, value, at, dtype)

    def cast(self, value: Value, dtype: DType, at: Span) -> Value:
        return ERROR if _broken(value) else conversions.cast(self, value, dtype, at)

    def operand(self, value: Value, at: Span) -> tuple[Operand, DType]:
        """A scalar as an operand (register or literal, wrapped to its type) and that type; an error for a block."""
        return conversions.scalar_operand(self, value, at)

    def loop_bound(self, value: Value, at: Span, what: str) -> tuple[Operand, DType]:
        """An integer for `range`; `what` names it in the error. May stay an exact `Affine`."""
        return conversions.loop_bound(self, value, at, what)

    # ------------------------------------------------------------------ values that regions carry

    def flatten(self, value: Value) -> tuple[Key, tuple[Leaf, ...]]:
        """Structure and leaves; equal leaves need no phi. Emits nothing."""
        return structure.flatten(value)

    def rebuild(self, key: Key, leaves: tuple[Leaf, ...]) -> Value:
        return structure.rebuild(key, leaves)

    def join(self, a: Key, b: Key) -> Key | str:
        """The structure that values of both can be converted to, or the reason why there is none."""
        return common_structure.join(a, b)

    def convert(self, value: Value, key: Key, at: Span) -> Value:
        """The value in structure `key`. Scalars come out wrapped to their type, so that the leaves of the result
        may be the sources of moves; emits what that takes into the current region."""
        return common_structure.convert(self, value, key, at)

    def phi(self, leaf: Leaf, name: str) -> Leaf:
        """A fresh register or block id that can stand for `leaf` in `rebuild`."""
        return common_structure.phi(self, leaf, name)

    # ------------------------------------------------------------------ parameters

    def bind_tensor(self, name: str, element: DType) -> tuple[Pointer, int]:
        """A tensor parameter, and its register."""
        register = self.new_register(i64, name)
        return Pointer(int_of(Reg(register)), element), register

    def bind_scalar(self, name: str, dtype: DType) -> tuple[Scalar, int]:
        """A scalar parameter, and its register."""
        register = self.new_register(dtype, name)
        return Scalar(Reg(register), dtype), register


def _broken(*values: Value | None) -> bool:
    return any(value == ERROR or (isinstance(value, TupleValue) and _broken(*value.items)) for value in values)
