"""Walk an `if` whose condition is a block, in functions that are written for one element: both ways, then selected.

That is how the functions of reductions and scans are meant. Such a function has no effects, so that both branches may
be walked. Does not know who calls it.
"""

from __future__ import annotations

from kernbench.compiler import ast, operators
from kernbench.compiler.faults import fault
from kernbench.compiler.frame import Frame
from kernbench.compiler.returns import Returns
from kernbench.compiler.scope import Binding, Scope, Unusable
from kernbench.compiler.unify import same
from kernbench.compiler.values import NONE, ErrorValue, TupleValue, Value
from kernbench.diagnostics import Span


def run_lanewise(frame: Frame, node: ast.If, condition: Value) -> None:
    before, returns, earlier, at = frame.scope, frame.returns, frame.returned, frame.at(node.span)
    then, a = _walk(frame, node.body, before)
    orelse, b = _walk(frame, node.orelse, before)
    frame.returns, frame.returned = returns, earlier
    if a is not None and b is not None:
        returns.value = with_earlier_returns(frame, select(frame, condition, a, b, at), at)
        frame.terminated = True
    elif a is not None:
        earlier.append((condition, True, a))
        frame.scope = orelse
    elif b is not None:
        earlier.append((condition, False, b))
        frame.scope = then
    else:
        frame.scope = _joined(frame, condition, then, orelse, at)


def with_earlier_returns(frame: Frame, value: Value, at: Span) -> Value:
    """What comes out where some elements have returned already."""
    while frame.returned:
        condition, way, earlier = frame.returned.pop()
        value = select(frame, condition, *((earlier, value) if way else (value, earlier)), at)
    return value


def _walk(frame: Frame, body: tuple[ast.Stmt, ...], before: Scope) -> tuple[Scope, Value | None]:
    """The names that one way leaves behind, and what it returns."""
    frame.scope, frame.returns, frame.returned = before.copy(), Returns(), []
    frame.run(body)
    left, frame.terminated = frame.terminated, False
    if frame.returned and not left:
        message = "some elements return in this branch and others go on behind it"
        at = frame.at(body[0].span)
        raise fault("E_UNSUPPORTED_VALUE", message, at, "this branch", help="return at the end of the branch too")
    value = NONE if frame.returns.value is None else frame.returns.value
    return frame.scope, value if left else None


def _joined(frame: Frame, condition: Value, then: Scope, orelse: Scope, at: Span) -> Scope:
    scope = Scope()
    for name in dict.fromkeys((*then, *orelse)):
        a, b = then.get(name), orelse.get(name)
        if a is None or b is None:
            continue  # bound on one way only: no name behind
        if a is b or same(a.content, b.content) or isinstance(a.content, Unusable | ErrorValue):
            scope.keep(name, a)
        elif isinstance(b.content, Unusable | ErrorValue):
            scope.keep(name, b)
        else:
            scope.keep(name, Binding(select(frame, condition, a.content, b.content, at), b.span))
    return scope


def select(frame: Frame, condition: Value, a: Value, b: Value, at: Span) -> Value:
    if isinstance(a, TupleValue) and isinstance(b, TupleValue) and len(a.items) == len(b.items):
        pairs = zip(a.items, b.items, strict=True)
        return TupleValue(tuple(select(frame, condition, one, other, at) for one, other in pairs))
    return operators.select(frame.builder, condition, a, b, at)
