"""Bind what stands left of an assignment to a value.

Knows names and tuples of names; a kernel has no other targets.
"""

from __future__ import annotations

from kernbench.compiler import ast
from kernbench.compiler.faults import fault
from kernbench.compiler.frame import Frame
from kernbench.compiler.values import TupleValue, Value, type_text


def assign(frame: Frame, target: ast.Expr, value: Value) -> None:
    match target:
        case ast.Name(name):
            frame.scope.bind(name, value, target.span)
            frame.walker.name_value(name, value)
            if frame.is_kernel:
                frame.walker.bindings[name] = type_text(value)
        case ast.Tuple(elements) | ast.List(elements):
            for element, item in zip(elements, _unpacked(frame, target, len(elements), value), strict=True):
                assign(frame, element, item)
        case _:
            raise fault(
                "E_BAD_TARGET",
                "only names and tuples of names can be assigned to",
                frame.at(target.span),
                "this is neither",
                help="values of a kernel do not change: bind a new name, or use `tl.store`",
            )


def _unpacked(frame: Frame, target: ast.Expr, expected: int, value: Value) -> tuple[Value, ...]:
    if not isinstance(value, TupleValue):
        message = f"{expected} values are expected, {type_text(value)} is one value"
        raise fault("E_UNPACK", message, frame.at(target.span), f"{expected} names")
    found = len(value.items)
    if found != expected:
        plural = "value" if found == 1 else "values"
        message = f"{expected} values are expected, {found} {plural} found"
        advice = f"name all {found} of them, or take some by their index: t[0]" if found > expected else None
        raise fault("E_UNPACK", message, frame.at(target.span), f"{expected} names for {found} {plural}", help=advice)
    return value.items
