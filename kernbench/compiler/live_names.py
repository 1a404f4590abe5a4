"""Which names of a function may still be read: at each loop's head, and after each compound statement.

Only names that may be read are carried by loops and joined after branches. Sees names and statements only; a
compile-time branch that is never taken counts as taken. Knows no values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import get_args

from kernbench.compiler import ast

Names = frozenset[str]
NONE: Names = frozenset()


@dataclass(frozen=True, slots=True)
class Flow:
    """`reads` are needed before; `binds` are certainly bound anew, so that what was before is not needed."""

    reads: Names
    binds: Names

    def then(self, after: Flow) -> Flow:
        return Flow(self.reads | (after.reads - self.binds), self.binds | after.binds)

    def before(self, live: Names) -> Names:
        """What is live before, where `live` is live after."""
        return self.reads | (live - self.binds)


class LiveNames:
    """`after[s]`: live after the compound statement `s`; `head[s]`: live at the head of loop `s`, `after` included.

    `bound`: every name that the function binds somewhere, which makes it local throughout, as in Python.
    `handed`: parameters that the function only hands on to calls, which may write them in place for its caller.
    """

    def __init__(self, function: ast.FunctionDef) -> None:
        self.after: dict[ast.Stmt, Names] = {}
        self.head: dict[ast.Stmt, Names] = {}
        self.bound = frozenset(name for statement in function.body for name in assigned_names(statement))
        operands = frozenset[str]().union(*(handed_names(call) for call in _calls(function.body)))
        self.handed = tuple(p.name for p in function.params if p.name in operands - self.bound)
        self._everything = frozenset(_all_names(function.body))
        self._flows: dict[ast.Stmt, Flow] = {}
        for statement in function.body:
            self._flow(statement)
        self._walk(function.body, frozenset(self.handed))

    def _flow(self, statement: ast.Stmt) -> Flow:
        if statement not in self._flows:
            self._flows[statement] = self._new_flow(statement)
        return self._flows[statement]

    def _new_flow(self, statement: ast.Stmt) -> Flow:
        match statement:
            case ast.If(test, body, orelse):
                then, other = self._sequence(body), self._sequence(orelse)
                return Flow(reads(test), NONE).then(Flow(then.reads | other.reads, then.binds & other.binds))
            case ast.For(target, iterable, body):
                inside = Flow(NONE, bound_names(target)).then(self._sequence(body))
                return Flow(reads(iterable) | inside.reads, NONE)
            case ast.While(test, body):
                return Flow(reads(test) | self._sequence(body).reads, NONE)
            case ast.With(items, body):
                heads = frozenset[str]().union(*(reads(item.context) for item in items))
                return Flow(heads, NONE).then(self._sequence(body))
            case ast.Return() | ast.Raise():
                return Flow(reads(statement) | frozenset(self.handed), self._everything)
            case ast.Assign(targets, value):
                bound = frozenset[str]().union(*(bound_names(target) for target in targets))
                return Flow(reads(value).union(*(target_reads(target) for target in targets)), bound)
            case ast.AugAssign(target, _, value):
                return Flow(reads(value) | reads(target), bound_names(target))
            case ast.AnnAssign(target, _, value):
                bound = bound_names(target) if value is not None else NONE
                return Flow((reads(value) if value is not None else NONE) | target_reads(target), bound)
            case _:
                return Flow(reads(statement), NONE)

    def _sequence(self, body: tuple[ast.Stmt, ...]) -> Flow:
        flow = Flow(NONE, NONE)
        for statement in reversed(body):
            flow = self._flow(statement).then(flow)
        return flow

    def _walk(self, body: tuple[ast.Stmt, ...], live: Names) -> None:
        for statement in reversed(body):
            self._record(statement, live)
            live = self._flow(statement).before(live)

    def _record(self, statement: ast.Stmt, live: Names) -> None:
        match statement:
            case ast.If(_, body, orelse):
                self.after[statement] = live
                self._walk(body, live)
                self._walk(orelse, live)
            case ast.For() | ast.While():
                self.after[statement] = live
                # A loop may have no trip, so what is live after it is live at its head too.
                at_test = reads(statement.test) if isinstance(statement, ast.While) else NONE
                bound = bound_names(statement.target) if isinstance(statement, ast.For) else NONE
                self.head[statement] = live | at_test | (self._sequence(statement.body).reads - bound)
                self._walk(statement.body, self.head[statement])
            case ast.With(_, body):
                self.after[statement] = live
                self._walk(body, live)


_SKIPPED = frozenset(("span", "name_span", "attr_span", "annotation", "decorators", "docstring", "returns"))
_CHILD_FIELDS = {kind: tuple(f.name for f in fields(kind) if f.name not in _SKIPPED) for kind in get_args(ast.Node)}


def children(node: object) -> Iterator[object]:
    """The nodes under a node, in source order, annotations left out."""
    for name in _CHILD_FIELDS.get(type(node), ()):
        value = getattr(node, name)
        for item in value if isinstance(value, tuple) else (value,):
            if type(item) in _CHILD_FIELDS:
                yield item


def reads(node: object) -> Names:
    """Every name that stands in an expression or simple statement."""
    found: set[str] = set()
    todo = [node]
    while todo:
        item = todo.pop()
        if isinstance(item, ast.Name):
            found.add(item.id)
        todo.extend(children(item))
    return frozenset(found)


def handed_names(call: ast.Call) -> Names:
    """Names that stand alone as an argument, or as a value in an argument's lists and dicts."""
    found: set[str] = set()
    todo: list[ast.Expr] = [*call.args, *(keyword.value for keyword in call.keywords)]
    while todo:
        match todo.pop():
            case ast.Name(name):
                found.add(name)
            case ast.List(elements) | ast.Tuple(elements):
                todo.extend(elements)
            case ast.Dict(_, values):
                todo.extend(values)
    return frozenset(found)


def _calls(body: tuple[ast.Stmt, ...]) -> Iterator[ast.Call]:
    todo: list[object] = list(body)
    while todo:
        item = todo.pop()
        if isinstance(item, ast.Call):
            yield item
        todo.extend(children(item))


def bound_names(target: object) -> Names:
    """The names that an assignment to `target` binds."""
    match target:
        case ast.Name(name):
            return frozenset((name,))
        case ast.Tuple(elements) | ast.List(elements):
            return frozenset[str]().union(*(bound_names(element) for element in elements))
        case _:
            return NONE


def target_reads(target: object) -> Names:
    """The names that an assignment to `target` reads: `x` in `x[i] = …`."""
    match target:
        case ast.Name():
            return NONE
        case ast.Tuple(elements) | ast.List(elements):
            return frozenset[str]().union(*(target_reads(element) for element in elements))
        case _:
            return reads(target)


def _all_names(body: tuple[ast.Stmt, ...]) -> Iterator[str]:
    for statement in body:
        yield from reads(statement)


def assigned_names(statement: ast.Stmt) -> list[str]:
    """Every name that a statement may bind, inner statements included, in source order."""
    found: dict[str, None] = {}
    todo: list[object] = [statement]
    while todo:
        item = todo.pop(0)
        match item:
            case ast.Assign(targets):
                found.update(dict.fromkeys(name for target in targets for name in sorted(bound_names(target))))
            case ast.AugAssign(target) | ast.AnnAssign(target):
                found.update(dict.fromkeys(sorted(bound_names(target))))
            case ast.For(target, _, body):
                found.update(dict.fromkeys(sorted(bound_names(target))))
                todo.extend(body)
            case ast.While(_, body) | ast.With(_, body):
                todo.extend(body)
            case ast.If(_, body, orelse):
                todo.extend((*body, *orelse))
    return list(found)
