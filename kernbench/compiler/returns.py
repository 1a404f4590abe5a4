"""How one evaluation of a function's body is left, and what value comes out of it.

A return that is reached for certain gives its value directly. One behind a run-time condition leaves the Block around
the body (copying what follows into both branches would be exponential), with its value in result registers and slots
that all such returns share. Knows neither calls nor statements.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kernbench.commands import Affine, Move, Reg
from kernbench.compiler import ast
from kernbench.compiler.builder import Builder
from kernbench.compiler.residual import BlockRef, ExitRegion
from kernbench.compiler.structure import Key, Leaf, ScalarLeaf
from kernbench.compiler.unify import add_move, join_key, same, weakened
from kernbench.compiler.values import Value
from kernbench.diagnostics import Span


@dataclass(frozen=True, slots=True)
class ReturnShape:
    """What all returns of a body have in common. `leaves` count where they are not in `varying`."""

    key: Key
    leaves: tuple[Leaf, ...]
    varying: frozenset[int]


@dataclass
class Returns:
    """`shape` may come from an earlier walk; `changed` says that this walk found more and must be done again."""

    shape: ReturnShape | None = None
    label: int | None = None  # of the Block, once a return behind a run-time condition was met
    value: Value | None = None  # of the return that is reached for certain
    spoiled: bool = False  # a return was given up, so nothing is known of the result
    changed: bool = False
    reason: str | None = None  # why the values of two returns cannot be joined
    exits: int = 0
    slots: dict[int, Leaf] = field(default_factory=dict)

    def copy(self) -> Returns:
        """As it is now: a loop whose walk is thrown away takes back the label and the slots that it gave out."""
        return replace(self, slots=dict(self.slots))

    @property
    def block_slots(self) -> tuple[BlockRef, ...]:
        return tuple(
            slot for _, slot in sorted(self.slots.items(), key=lambda item: item[0]) if isinstance(slot, BlockRef)
        )

    def leave(self, builder: Builder, value: Value, at: Span) -> None:
        """A return behind a run-time condition: emit the exit with the result moves."""
        assert self.label is not None
        leaves = self._absorb(builder, value, at)
        if self.reason is not None:
            return
        moves: list[Move] = []
        blocks: list[tuple[BlockRef, BlockRef]] = []
        for i in sorted(self.slots):
            slot, leaf = self.slots[i], leaves[i]
            if isinstance(slot, BlockRef):
                assert isinstance(leaf, BlockRef)
                blocks.append((slot, leaf))
            else:
                add_move(moves, slot, leaf)
        self.exits += 1
        builder.emit(ExitRegion(self.label, tuple(moves), tuple(blocks), at))

    def result(self, builder: Builder) -> Value:
        """The value after the Block."""
        assert self.shape is not None
        leaves = tuple(self.slots.get(i, leaf) for i, leaf in enumerate(self.shape.leaves))
        return builder.rebuild(self.shape.key, leaves)

    def _absorb(self, builder: Builder, value: Value, at: Span) -> tuple[Leaf, ...]:
        """Widen the common shape to this value; its leaves in that shape."""
        if self.shape is None:
            self._widen(ReturnShape(*builder.flatten(weakened(value)), frozenset()))
        assert self.shape is not None
        key = join_key(builder, self.shape.key, value)
        if isinstance(key, str):
            self.reason = key
            return ()
        leaves = builder.flatten(builder.convert(value, key, at))[1]
        if key != self.shape.key:
            self._widen(ReturnShape(key, leaves, frozenset()))
        fixed = {i for i, leaf in enumerate(leaves) if is_literal(leaf) and same(leaf, self.shape.leaves[i])}
        varying = frozenset(range(len(leaves))) - fixed | self.shape.varying
        if varying != self.shape.varying:
            self._widen(ReturnShape(key, self.shape.leaves, varying))
        for i in sorted(varying - self.slots.keys()):
            self.slots[i] = builder.phi(leaves[i], "result")
        return leaves

    def _widen(self, shape: ReturnShape) -> None:
        self.shape = shape
        self.changed |= self.exits > 0  # earlier exits went out in the narrower shape
        self.slots.clear()


def is_literal(leaf: Leaf) -> bool:
    """Whether a leaf means the same wherever it is read."""
    return isinstance(leaf, ScalarLeaf) and not isinstance(leaf.operand, Reg | Affine)


def has_return(node: object) -> bool:
    """Whether a statement is a return, or holds one."""
    match node:
        case ast.Return():
            return True
        case ast.If(_, body, orelse):
            return any(has_return(statement) for statement in (*body, *orelse))
        case ast.For() | ast.While() | ast.With():
            return any(has_return(statement) for statement in node.body)
        case _:
            return False


def may_exit(function: ast.FunctionDef) -> bool:
    """Whether some return of a function may stand behind a run-time condition."""
    return any(has_return(statement) and not isinstance(statement, ast.Return) for statement in function.body)
