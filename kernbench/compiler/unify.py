"""Join the values that reach one point by several paths, leaf by leaf: equal leaves stay, others get a phi.

Knows structures and leaves of values, and moves; not names, statements or why paths meet.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernbench.commands import Move, Reg
from kernbench.compiler.builder import Builder
from kernbench.compiler.residual import BlockCarry, BlockRef, Instr
from kernbench.compiler.structure import Key, Leaf, ScalarLeaf
from kernbench.compiler.values import Const, Scalar, TupleValue, Value
from kernbench.diagnostics import Span


def same(a: object, b: object) -> bool:
    """Whether two values or leaves are one and the same; `0.0` and `-0.0` are not."""
    return a is b or (a == b and repr(a) == repr(b))


def differences(a: tuple[Leaf, ...], b: tuple[Leaf, ...]) -> frozenset[int]:
    return frozenset(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if not same(x, y))


def add_move(moves: list[Move], phi: Leaf, source: Leaf) -> None:
    """The move that gives a scalar phi its value."""
    assert isinstance(phi, ScalarLeaf) and isinstance(phi.operand, Reg), "a scalar phi is a register"
    assert isinstance(source, ScalarLeaf), "a scalar phi gets its value from a scalar"
    moves.append(Move(phi.operand.index, source.operand))


def weakened(value: Value) -> Value:
    """The value with its literals as constants, which widen to the type of what they meet: `0` to fp32."""
    match value:
        case Scalar(operand=bool() | int() | float() as literal):
            return Const(bool(literal) if value.dtype.kind == "bool" else literal)
        case TupleValue(items):
            return TupleValue(tuple(weakened(item) for item in items))
        case _:
            return value


def join_values(builder: Builder, a: Value, b: Value) -> Key | str:
    """The structure in which both have room, or why there is none."""
    joined = join_key(builder, builder.flatten(a)[0], b)
    if not isinstance(joined, str):
        return joined
    weak = join_key(builder, builder.flatten(weakened(a))[0], b)
    return joined if isinstance(weak, str) else weak


def join_key(builder: Builder, key: Key, value: Value) -> Key | str:
    """The structure in which `value` and what has structure `key` have room, or why there is none."""
    joined = builder.join(key, builder.flatten(value)[0])
    if not isinstance(joined, str):
        return joined
    weak = builder.join(key, builder.flatten(weakened(value))[0])
    return joined if isinstance(weak, str) else weak


@dataclass
class BranchJoin:
    """Joins the values of two branches whose instructions are `then` and `orelse`; conversions go to their ends."""

    builder: Builder
    at: Span
    then: list[Instr]
    orelse: list[Instr]
    then_moves: list[Move] = field(default_factory=list)
    else_moves: list[Move] = field(default_factory=list)
    blocks: list[BlockCarry] = field(default_factory=list)

    def join(self, name: str, a: Value, b: Value) -> Value | str:
        """One value for both, or the reason why there is none."""
        if same(a, b):
            return a
        (key_a, leaves_a), (key_b, leaves_b) = self.builder.flatten(a), self.builder.flatten(b)
        key = join_values(self.builder, a, b)
        if isinstance(key, str):
            return key
        if key_a == key_b == key and not differences(leaves_a, leaves_b):
            return a
        return self.builder.rebuild(key, self._leaves(name, key, a, b))

    def _leaves(self, name: str, key: Key, a: Value, b: Value) -> tuple[Leaf, ...]:
        converted_a = self._convert(a, key, self.then)
        converted_b = self._convert(b, key, self.orelse)
        raw_a, raw_b = self._raw(a, key, converted_a), self._raw(b, key, converted_b)
        leaves = list(raw_a)
        for i in sorted(differences(raw_a, raw_b)):
            leaves[i] = self._phi(name, converted_a[i], converted_b[i])
        return tuple(leaves)

    def _raw(self, value: Value, key: Key, converted: tuple[Leaf, ...]) -> tuple[Leaf, ...]:
        """Leaves before they were made fit for moves: where they are equal on both sides they need no move."""
        own, leaves = self.builder.flatten(value)
        return leaves if own == key else converted

    def _convert(self, value: Value, key: Key, branch: list[Instr]) -> tuple[Leaf, ...]:
        with self.builder.region() as more:
            converted = self.builder.convert(value, key, self.at)
        branch.extend(more)
        return self.builder.flatten(converted)[1]

    def _phi(self, name: str, a: Leaf, b: Leaf) -> Leaf:
        phi = self.builder.phi(a, name)
        if isinstance(phi, BlockRef):
            assert isinstance(a, BlockRef) and isinstance(b, BlockRef)
            self.blocks.append(BlockCarry(phi, None, (a, b)))
            return phi
        add_move(self.then_moves, phi, a)
        add_move(self.else_moves, phi, b)
        return phi
