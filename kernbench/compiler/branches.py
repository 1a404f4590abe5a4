"""Walk `if`, the ternary and short-circuit operators: at compile time where the condition is known, else as regions.

A branch that is not taken at compile time is never looked at. Behind a run-time condition both are walked, and the
names that may still be read are joined. Does not know loops, calls or operators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernbench.commands import Operand, ScalarOp
from kernbench.compiler import ast
from kernbench.compiler.faults import fault
from kernbench.compiler.frame import Frame
from kernbench.compiler.lanewise import run_lanewise, select
from kernbench.compiler.residual import IfRegion, Instr
from kernbench.compiler.scope import Binding, Content, Scope, Unusable
from kernbench.compiler.unify import BranchJoin, same
from kernbench.compiler.values import ERROR, Const, ErrorValue, Scalar, Value, is_block, type_text
from kernbench.diagnostics import Span
from kernbench.dtypes import i1


@dataclass
class Walked:
    """What one branch left behind."""

    instrs: list[Instr]
    scope: Scope
    terminated: bool


def run_if(frame: Frame, node: ast.If) -> None:
    test = frame.evaluate(node.test)
    if frame.lanewise and is_block(test):
        run_lanewise(frame, node, test)
        return
    condition = frame.builder.truth(test, frame.at(node.test.span))
    if isinstance(condition, bool):
        frame.run(node.body if condition else node.orelse)
        return
    before = frame.scope
    then = _walk_branch(frame, node.body, before)
    if then.terminated:
        # What follows belongs to the other path alone, so it needs no region of its own.
        frame.builder.emit(_if_region(condition, then.instrs, [], frame.at(node.span)))
        frame.scope = before
        frame.run(node.orelse)
        return
    orelse = _walk_branch(frame, node.orelse, before)
    if orelse.terminated:
        _leave_in_else(frame, node, condition, then, orelse)
        return
    _join_branches(frame, node, condition, then, orelse)


def _walk_branch(frame: Frame, body: tuple[ast.Stmt, ...], before: Scope) -> Walked:
    frame.scope = before.copy()
    frame.depth += 1
    with frame.builder.region() as instrs:
        frame.run(body)
    frame.depth -= 1
    walked = Walked(instrs, frame.scope, frame.terminated)
    frame.terminated = False
    return walked


def _leave_in_else(frame: Frame, node: ast.If, condition: Operand, then: Walked, orelse: Walked) -> None:
    """The else branch always leaves, so the instructions of the then branch follow flat."""
    at = frame.at(node.span)
    inverse = frame.builder.truth(frame.builder.unary("not", Scalar(condition, i1), at), at)
    assert not isinstance(inverse, bool), "the inverse of a run-time condition is one too"
    frame.builder.emit(_if_region(inverse, orelse.instrs, [], at))
    for instr in then.instrs:
        frame.builder.emit(instr)
    frame.scope = then.scope


def _join_branches(frame: Frame, node: ast.If, condition: Operand, then: Walked, orelse: Walked) -> None:
    at = frame.at(node.span)
    join = BranchJoin(frame.builder, at, then.instrs, orelse.instrs)
    live = frame.live.after[node]
    scope = Scope()
    for name in dict.fromkeys((*then.scope, *orelse.scope)):
        joined = _join_name(join, name, then.scope.get(name), orelse.scope.get(name), live=name in live)
        if joined is not None:
            scope.keep(name, joined)
    frame.scope = scope
    region = _if_region(condition, then.instrs, orelse.instrs, at, join)
    frame.builder.emit(region)


def _if_region(
    condition: Operand, then: list[Instr], orelse: list[Instr], at: Span, join: BranchJoin | None = None
) -> IfRegion:
    if join is None:
        return IfRegion(condition, tuple(then), tuple(orelse), (), (), (), at)
    moves = tuple(join.then_moves), tuple(join.else_moves)
    return IfRegion(condition, tuple(then), tuple(orelse), *moves, tuple(join.blocks), at)


def _join_name(join: BranchJoin, name: str, a: Binding | None, b: Binding | None, *, live: bool) -> Binding | None:
    if a is not None and b is not None and (a is b or same(a.content, b.content)):
        return a
    if not live:
        return None
    if a is None or b is None:
        found = a or b
        assert found is not None
        return Binding(_one_path_only(name, found, join.at), found.span)
    return Binding(_join_contents(join, name, a, b), b.span)


def _one_path_only(name: str, found: Binding, where: Span) -> Content:
    if isinstance(found.content, Unusable | ErrorValue):
        return found.content
    return Unusable(
        "E_MAYBE_UNBOUND",
        f"`{name}` is bound on some paths only",
        ((found.span, "bound here"), (where, "not on the other path of this `if`")),
        f"bind `{name}` before the `if`, or in both branches",
    )


def _join_contents(join: BranchJoin, name: str, a: Binding, b: Binding) -> Content:
    for content in (a.content, b.content):
        if isinstance(content, Unusable | ErrorValue):
            return content
    assert not isinstance(a.content, Unusable) and not isinstance(b.content, Unusable)
    joined = join.join(name, a.content, b.content)
    if not isinstance(joined, str):
        return joined
    return Unusable(
        "E_BRANCH_TYPES",
        f"`{name}` has two types here: {joined}",
        ((a.span, type_text(a.content)), (b.span, type_text(b.content))),
        "give it one type on both paths of the `if`, or another name on one of them",
    )


# --------------------------------------------------------------------------- expressions


def evaluate_ternary(frame: Frame, node: ast.Ternary) -> Value:
    test = frame.evaluate(node.test)
    if frame.lanewise and is_block(test):
        a, b = frame.evaluate_all((node.body, node.orelse))
        return select(frame, test, a, b, frame.at(node.span))
    condition = frame.builder.truth(test, frame.at(node.test.span))
    if isinstance(condition, bool):
        return frame.evaluate(node.body if condition else node.orelse)
    at = frame.at(node.span)
    then, a = _walk_value(frame, lambda: frame.evaluate(node.body))
    orelse, b = _walk_value(frame, lambda: frame.evaluate(node.orelse))
    join = BranchJoin(frame.builder, at, then, orelse)
    joined = join.join("", a, b)
    if isinstance(joined, str):
        places = ((node.body.span, type_text(a)), (node.orelse.span, type_text(b)))
        message = f"the two values of this expression have two types: {joined}"
        raise fault("E_BRANCH_TYPES", message, at, "in this expression", others=places)
    if then or orelse or join.then_moves or join.else_moves or join.blocks:
        frame.builder.emit(_if_region(condition, then, orelse, at, join))
    return joined


def _walk_value(frame: Frame, evaluate: Callable[[], Value]) -> tuple[list[Instr], Value]:
    frame.depth += 1
    with frame.builder.region() as instrs:
        value = evaluate()
    frame.depth -= 1
    return instrs, value


def evaluate_bool(frame: Frame, node: ast.BoolOp) -> Value:
    """`and` and `or`: constants fold and short-circuit as in Python, run-time scalars short-circuit, blocks do not."""
    value = frame.evaluate(node.values[0])
    for index, right in enumerate(node.values[1:]):
        at = frame.at(node.span)
        known = known_truth(frame, value, frame.at(node.values[index].span))
        if known is not None:
            if known == (node.op == "or"):
                return value
            value = frame.evaluate(right)
        else:
            value = _run_time_bool(frame, node.op, value, right, at)
    return value


def known_truth(frame: Frame, value: Value, at: Span) -> bool | None:
    """The truth of a value that is known now, else None; blocks are not asked."""
    if is_block(value):
        return None
    truth = frame.builder.truth(value, at)
    return truth if isinstance(truth, bool) else None


def _run_time_bool(frame: Frame, op: str, left: Value, node: ast.Expr, at: Span) -> Value:
    builder = frame.builder
    instrs, right = _walk_value(frame, lambda: frame.evaluate(node))
    if is_block(left) or is_block(right) or all(isinstance(instr, ScalarOp) for instr in instrs):
        # Elementwise, or cheap and without effects: straight-line code.
        for instr in instrs:
            builder.emit(instr)
        return _combine(frame, op, left, right, at)
    condition = builder.truth(left, at)
    assert not isinstance(condition, bool)
    with builder.region() as more:
        value = _combine(frame, op, Const(op == "and"), right, at)
    instrs.extend(more)
    empty: list[Instr] = []
    then, orelse = (instrs, empty) if op == "and" else (empty, instrs)
    short = Scalar(op == "or", i1)
    join = BranchJoin(builder, at, then, orelse)
    joined = join.join("", value, short) if op == "and" else join.join("", short, value)
    assert not isinstance(joined, str), "both sides are int1"
    builder.emit(_if_region(condition, then, orelse, at, join))
    return joined


def _combine(frame: Frame, op: str, left: Value, right: Value, at: Span) -> Value:
    if isinstance(right, Const) or isinstance(left, Const):
        known = left if isinstance(left, Const) else right
        other = right if isinstance(left, Const) else left
        truth = bool(frame.builder.truth(known, at))
        if truth == (op == "or"):
            return known if known is left else Scalar(truth, i1)
        return other if is_block(other) else _as_bool(frame, other, at)
    value = frame.builder.logical(op, left, right, at)
    return ERROR if isinstance(value, ErrorValue) else value


def _as_bool(frame: Frame, value: Value, at: Span) -> Value:
    truth = frame.builder.truth(value, at)
    return Scalar(truth, i1)
