"""Find what a loop carries: the least structure that holds each name's value before and after every trip.

A walk of the body starts from what earlier walks found ("unchanged" at first) and reports what it changed. Structures
are remembered by loop and inline path, so nested loops do not double the work at each level. Knows names and values;
not what kind of loop it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernbench.commands import Move
from kernbench.compiler import ast
from kernbench.compiler.builder import Builder
from kernbench.compiler.faults import fault
from kernbench.compiler.frame import Frame
from kernbench.compiler.residual import BlockCarry, BlockRef, Instr
from kernbench.compiler.scope import Binding, Scope, Unusable
from kernbench.compiler.structure import Key, Leaf
from kernbench.compiler.unify import add_move, differences, join_key, join_values, same
from kernbench.compiler.values import ERROR, Value, element_type, shape_of, type_text
from kernbench.diagnostics import Span
from kernbench.dtypes import DType


@dataclass(frozen=True, slots=True)
class Carried:
    """What is known of one name: its structure, which leaves change, and whether it is first bound in the body."""

    key: Key
    varying: frozenset[int]
    first_bound: bool = False


States = dict[str, Carried]


def usable_states(builder: Builder, remembered: States, outer: Scope) -> States:
    """What an earlier walk found, as far as the values before the loop still fit it."""
    kept = {}
    for name, state in remembered.items():
        value = outer.value(name)
        if value is None or state.first_bound:
            fits = value is None and state.first_bound
        else:
            fits = join_key(builder, state.key, value) == state.key
        if fits:
            kept[name] = state
    return kept


@dataclass
class Entered:
    """A carried name in one walk: its leaves inside, and those that its phis start from."""

    state: Carried
    inside: tuple[Leaf, ...]
    start: tuple[Leaf, ...]
    value: Value


@dataclass
class Carry:
    """One walk of a loop's body. `enter` before it, `leave` at its end; then `changed` says whether to walk again."""

    frame: Frame
    node: ast.For | ast.While
    certain: bool  # the body runs at least once
    states: States
    outer: Scope
    at: Span
    prologue: list[Instr] = field(default_factory=list)
    init: list[Move] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    blocks: list[BlockCarry] = field(default_factory=list)
    found: States = field(default_factory=dict)
    _entered: dict[str, Entered] = field(default_factory=dict)
    _after: dict[str, Binding] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        return self.found != self.states

    # ------------------------------------------------------------------ before the body

    def enter(self) -> None:
        """Bind the carried names to phis in a fresh scope."""
        inner = self.outer.copy()
        for name, state in self.states.items():
            value = self.outer.value(name)
            if state.first_bound or value is None:
                continue
            entered = self._enter(name, state, value)
            binding = self.outer.get(name)
            assert binding is not None
            self._entered[name] = entered
            inner.bind(name, entered.value, binding.span)
        self.frame.scope = inner

    def _enter(self, name: str, state: Carried, value: Value) -> Entered:
        builder = self.frame.builder
        own, raw = builder.flatten(value)
        with builder.region() as instrs:
            start = builder.flatten(builder.convert(value, state.key, self.at))[1]
        self.prologue.extend(instrs)
        fixed = raw if own == state.key else start
        inside = tuple(builder.phi(leaf, name) if i in state.varying else leaf for i, leaf in enumerate(fixed))
        return Entered(state, inside, start, builder.rebuild(state.key, inside))

    # ------------------------------------------------------------------ after the body, still in its region

    def leave(self) -> None:
        """Compare each name with what it was at the head, and emit the conversions and moves of the next trip."""
        head = self.frame.live.head[self.node]
        inner = None if self.frame.terminated else self.frame.scope
        for name in dict.fromkeys((*self.outer, *(inner or ()), *self.states)):
            if name in head:
                self._leave(name, inner.get(name) if inner is not None else None)

    def _leave(self, name: str, binding: Binding | None) -> None:
        before = self.outer.get(name)
        state = self.states.get(name)
        start = self.outer.value(name)
        value = self.frame.scope.value(name) if binding is not None else None
        if binding is None or value is None:
            self._leave_unbound(name, binding, before, state)
        elif start is None:
            self._leave_first_bound(name, binding, before, value, state)
        else:
            assert before is not None
            self._leave_value(name, binding, before, start, value, state)

    def _leave_unbound(self, name: str, binding: Binding | None, before: Binding | None, state: Carried | None) -> None:
        """Nothing comes round: the path ended, or the name has no value."""
        self._keep_phis(name, state)
        entered = self._entered.get(name)
        if binding is None and before is not None and entered is not None:
            self._after[name] = Binding(entered.value, before.span)
        elif (after := binding or before) is not None:
            self._after[name] = after

    def _leave_first_bound(
        self, name: str, binding: Binding, before: Binding | None, value: Value, state: Carried | None
    ) -> None:
        if before is not None:
            self._after[name] = before  # an error was told, or will be where it is read
        elif name not in self.frame.live.after[self.node]:
            return
        elif self.certain:
            self._carry_out(name, binding, value, state)
        else:
            self._after[name] = Binding(self._maybe_unbound(name, binding), binding.span)

    def _carry_out(self, name: str, binding: Binding, value: Value, state: Carried | None) -> None:
        """The body surely runs, so the last trip's value is what is read after the loop."""
        builder = self.frame.builder
        key, leaves = builder.flatten(value)
        joined = builder.join(state.key, key) if state is not None else key
        assert not isinstance(joined, str), "a value joins with itself"
        if state is None or joined != state.key:
            leaves = builder.flatten(builder.convert(value, joined, self.at))[1]
            self.found[name] = Carried(joined, frozenset(range(len(leaves))), first_bound=True)
            return
        self.found[name] = state
        sources = builder.flatten(builder.convert(value, joined, self.at))[1]
        phis = tuple(builder.phi(leaf, name) for leaf in sources)
        for phi, source in zip(phis, sources, strict=True):
            self._add_phi(phi, None, source)
        self._after[name] = Binding(builder.rebuild(joined, phis), binding.span)

    def _leave_value(
        self, name: str, binding: Binding, before: Binding, start: Value, value: Value, state: Carried | None
    ) -> None:
        entered = self._entered.get(name)
        head_value = entered.value if entered is not None else start
        if same(head_value, value):
            self._keep_phis(name, state)
            self._after[name] = Binding(head_value, before.span)
            return
        builder = self.frame.builder
        joined = join_values(builder, head_value, value) if state is None else join_key(builder, state.key, value)
        if isinstance(joined, str):
            self._keep_phis(name, state)
            self._type_changes(name, binding, before, start, value, joined)
            return
        if state is None or joined != state.key:
            self.found[name] = self._new_state(joined, head_value, value)
            return
        assert entered is not None
        self._close(name, binding, value, entered)

    def _keep_phis(self, name: str, state: Carried | None) -> None:
        """The next trip starts with what this one started with."""
        if state is not None:
            self.found[name] = state
        if (entered := self._entered.get(name)) is not None:
            for i in sorted(entered.state.varying):
                self._add_phi(entered.inside[i], entered.start[i], entered.inside[i])

    def _new_state(self, key: Key, head_value: Value, value: Value) -> Carried:
        builder = self.frame.builder
        (own_a, a), (own_b, b) = builder.flatten(head_value), builder.flatten(value)
        if own_a != key or own_b != key:
            a = builder.flatten(builder.convert(head_value, key, self.at))[1]
            b = builder.flatten(builder.convert(value, key, self.at))[1]
        return Carried(key, differences(a, b))

    def _close(self, name: str, binding: Binding, value: Value, entered: Entered) -> None:
        builder, state = self.frame.builder, entered.state
        own, raw = builder.flatten(value)
        sources = builder.flatten(builder.convert(value, state.key, self.at))[1]
        changed = differences(entered.inside, raw if own == state.key else sources)
        self.found[name] = Carried(state.key, state.varying | changed)
        for i in sorted(state.varying):
            self._add_phi(entered.inside[i], entered.start[i], sources[i])
        self._after[name] = Binding(entered.value, binding.span)

    def _add_phi(self, phi: Leaf, start: Leaf | None, source: Leaf) -> None:
        if isinstance(phi, BlockRef):
            assert isinstance(source, BlockRef) and not (start is not None and not isinstance(start, BlockRef))
            self.blocks.append(BlockCarry(phi, start, (source,)))
            return
        if start is not None:
            add_move(self.init, phi, start)
        if phi != source:
            add_move(self.moves, phi, source)

    # ------------------------------------------------------------------ mistakes

    def _type_changes(
        self, name: str, binding: Binding, before: Binding, start: Value, value: Value, reason: str
    ) -> None:
        message = f"`{name}` changes its type in the loop: {reason}"
        found = fault(
            "E_CARRIED_TYPE",
            message,
            self.frame.at(binding.span),
            f"here it is {type_text(value)}",
            others=((before.span, f"before the loop it is {type_text(start)}"),),
            help=_type_advice(name, start, value),
        )
        self.frame.walker.log.add(found)
        self._after[name] = Binding(ERROR, binding.span)

    def _maybe_unbound(self, name: str, binding: Binding) -> Unusable:
        return Unusable(
            "E_MAYBE_UNBOUND",
            f"`{name}` has no value if the loop runs no trip",
            ((binding.span, "bound here"), (self.node.span, "this loop may run no trip")),
            f"bind `{name}` before the loop",
        )

    # ------------------------------------------------------------------ after the loop

    def names_after(self) -> Scope:
        """The scope behind the loop: names that are never read there are gone."""
        after = Scope()
        for name in dict.fromkeys((*self.outer, *self._after)):
            binding = self._after.get(name)
            if binding is not None:
                after.keep(name, binding)
        return after


def _type_advice(name: str, start: Value, value: Value) -> str:
    have, then = element_type(start), element_type(value)
    if isinstance(have, DType) and isinstance(then, DType):
        if shape_of(start) == shape_of(value):
            return f"start `{name}` as {then.triton}, or cast what it gets in the loop: .to(tl.{have.triton})"
        if shape_of(start) == ():
            return f"start `{name}` as a block, for example tl.full({shape_of(value)}, 0, tl.{then.triton})"
    return f"give `{name}` its final type and shape before the loop, or use another name inside"
