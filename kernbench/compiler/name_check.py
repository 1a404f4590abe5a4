"""Check the names of a whole file without specialising a kernel: unknown names, unknown members of modules.

Branches that a specialisation would not take are looked at too. Knows names only; no values or types.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernbench.compiler import ast
from kernbench.compiler.builder import Builder
from kernbench.compiler.expressions import EXPRESSIONS, unknown_name
from kernbench.compiler.fault_log import FaultLog
from kernbench.compiler.faults import Fault
from kernbench.compiler.frame import Frame, Walker
from kernbench.compiler.live_names import children
from kernbench.compiler.module_scope import ModuleScope
from kernbench.compiler.returns import Returns
from kernbench.compiler.scope import Scope
from kernbench.compiler.source import SourceText
from kernbench.compiler.statements import STATEMENTS
from kernbench.compiler.values import ERROR, ModuleValue, Value
from kernbench.diagnostics import Sink


def check_names(module: ast.Module, source: SourceText, sink: Sink) -> None:
    """Tell every name of the file's functions that nothing binds."""
    log = FaultLog(source)
    walker = Walker(Builder(), log, STATEMENTS, EXPRESSIONS)
    names = ModuleScope(module, walker, walker.log.source)
    for function in module.all_functions:
        _check_function(Frame(walker, names, function, Returns(), active=(function,), scope=Scope()), function)
    log.publish(sink)


def _check_function(frame: Frame, function: ast.FunctionDef) -> None:
    for param in function.params:
        frame.scope.bind(param.name, ERROR, param.span)
    for name in sorted(frame.live.bound):
        frame.scope.bind(name, ERROR, function.span)
    for node in _expressions(function):
        try:
            _check(frame, node)
        except Fault as found:
            frame.walker.log.add(found)


def _expressions(function: ast.FunctionDef) -> Iterator[ast.Name | ast.Attribute]:
    """Names and attributes in source order, outer before inner."""
    todo: list[object] = list(reversed(function.body))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name | ast.Attribute):
            yield node
        todo.extend(reversed(list(children(node))))


def _check(frame: Frame, node: ast.Name | ast.Attribute) -> None:
    if isinstance(node, ast.Attribute):
        module = _module(frame, node.value)
        if module is not None:
            frame.builder.attribute(module, node.attr, frame.at(node.attr_span))
    elif node.id not in frame.scope and node.id not in frame.globals:
        raise unknown_name(frame, node.id, frame.at(node.span))


def _module(frame: Frame, node: ast.Expr) -> ModuleValue | None:
    """The module that a dotted name stands for; None for everything else, and where that was told already."""
    value: Value | None = None
    if isinstance(node, ast.Name) and node.id not in frame.scope:
        value = frame.globals.module(node.id)
    elif isinstance(node, ast.Attribute) and (outer := _module(frame, node.value)) is not None:
        try:
            value = frame.builder.attribute(outer, node.attr, frame.at(node.attr_span))
        except Fault:
            return None
    return value if isinstance(value, ModuleValue) else None
