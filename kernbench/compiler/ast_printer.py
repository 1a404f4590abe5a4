"""Show a syntax tree: as an indented tree for people and comparisons, and as kernel text that parses back.

Does not know types or values; places are shown only where asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from types import EllipsisType
from typing import Any, assert_never

from kernbench.compiler import ast
from kernbench.diagnostics import Span

_INDENT = "    "
# How tightly each operator binds; a child that binds less than its place asks for gets parentheses.
_TERNARY, _OR, _AND, _NOT, _COMPARE, _UNARY, _POWER, _PRIMARY = 1, 2, 3, 4, 5, 12, 13, 15
_BINARY: dict[ast.BinaryOperator, int] = {
    "|": 6, "^": 7, "&": 8, "<<": 9, ">>": 9, "+": 10, "-": 10,
    "*": 11, "/": 11, "//": 11, "%": 11, "@": 11, "**": _POWER,
}  # fmt: skip
_QUOTES = ("'", '"', "'''", '"""')  # of f-strings that hold no string, a string, an f-string with a string, ...


def print_ast(module: ast.Module, *, places: bool = False) -> str:
    """One line a node, children indented; with `places`, each with its line and column."""
    return "\n".join(_tree(module, 0, "", places)) + "\n"


def _tree(node: Any, depth: int, label: str, places: bool) -> Iterator[str]:
    own = [(f.name, getattr(node, f.name)) for f in fields(node) if not f.name.endswith("span")]
    shown = [f"{name}={_scalar(value)}" for name, value in own if _is_scalar(value)]
    place = f"  @{node.span.line}:{node.span.column}" if places else ""
    yield f"{'  ' * depth}{label}{' '.join([type(node).__name__, *shown])}{place}"
    for name, value in own:
        if isinstance(value, tuple) and not _is_scalar(value):
            yield f"{'  ' * (depth + 1)}{name}:"
            for item in value:
                yield from _item(item, depth + 2, "", places)
        elif not _is_scalar(value):
            yield from _item(value, depth + 1, f"{name}: ", places)


def _item(value: Any, depth: int, label: str, places: bool) -> Iterator[str]:
    if isinstance(value, str):  # the plain text between the fields of an f-string
        return iter((f"{'  ' * depth}{label}{value!r}",))
    return _tree(value, depth, label, places)


def _is_scalar(value: Any) -> bool:
    """What stands on its node's own line: plain values, and tuples of texts or of nothing."""
    if isinstance(value, tuple):
        return all(isinstance(item, str) for item in value)
    return value is None or isinstance(value, bool | int | float | str | EllipsisType)


def _scalar(value: Any) -> str:
    return "..." if value is ... else repr(value)


def unparse(module: ast.Module) -> str:
    """Kernel text whose tree is `module`, places aside; imports, constants, classes, functions in this order."""
    head = [repr(module.docstring)] if module.docstring is not None else []
    parts = [head, [_import(item) for item in module.imports]]
    parts.append([line for item in module.constants for line in _statement(item, 0)])
    parts += [list(_class(item)) for item in module.classes]
    parts += [list(_function(item)) for item in module.functions]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _import(node: ast.Import) -> str:
    alias = f" as {node.alias}" if node.alias else ""
    if node.name is None:
        return f"import {node.module}{alias}"
    return f"from {node.module} import {node.name}{alias}"


def _class(node: ast.ClassDef) -> Iterator[str]:
    yield from (f"@{name}" for name in node.decorators)
    yield f"class {node.name}({_listed(node.bases)}):"
    body = [line for constant in node.constants for line in _statement(constant, 1)]
    for function in node.functions:
        name = function.name.removeprefix(f"{node.name}.")
        body += [f"{_INDENT}{line}" for line in _function(replace(function, name=name))]
    yield from _block([f"{_INDENT}{node.docstring!r}"] if node.docstring is not None else [], body)


def _function(node: ast.FunctionDef) -> Iterator[str]:
    yield from (f"@{name}" for name in node.decorators)
    params = [_param(param) for param in node.params]
    keyword_only = [index for index, param in enumerate(node.params) if param.keyword_only]
    if keyword_only:
        params.insert(keyword_only[0], "*")
    returns = f" -> {_expr(node.returns)}" if node.returns is not None else ""
    yield f"def {node.name}({', '.join(params)}){returns}:"
    docstring = [f"{_INDENT}{node.docstring!r}"] if node.docstring is not None else []
    yield from _block(docstring, [line for item in node.body for line in _statement(item, 1)])


def _block(docstring: list[str], body: list[str]) -> list[str]:
    return docstring + body or [f"{_INDENT}pass"]


def _param(node: ast.Param) -> str:
    annotation = f": {_expr(node.annotation)}" if node.annotation is not None else ""
    default = f" = {_expr(node.default)}" if node.default is not None else ""
    return f"{node.name}{annotation}{default}"


def _statement(node: ast.Stmt, depth: int) -> Iterator[str]:
    """The lines of a statement and of the blocks in it."""
    indent = _INDENT * depth
    match node:
        case ast.For(target=target, iter=iter, body=body):
            yield f"{indent}for {_expr(target, _PRIMARY)} in {_expr(iter)}:"
            yield from _statements(body, depth + 1)
        case ast.While(test=test, body=body):
            yield f"{indent}while {_expr(test)}:"
            yield from _statements(body, depth + 1)
        case ast.With(items=items, body=body):
            yield f"{indent}with {', '.join(map(_with_item, items))}:"
            yield from _statements(body, depth + 1)
        case ast.If():
            yield from _if(node, depth, "if")
        case _:
            yield indent + _simple(node)


def _statements(nodes: tuple[ast.Stmt, ...], depth: int) -> Iterator[str]:
    for node in nodes:
        yield from _statement(node, depth)


def _if(node: ast.If, depth: int, word: str) -> Iterator[str]:
    yield f"{_INDENT * depth}{word} {_expr(node.test)}:"
    yield from _statements(node.body, depth + 1)
    match node.orelse:
        case (ast.If() as other,):
            yield from _if(other, depth, "elif")
        case ():
            return
        case orelse:
            yield f"{_INDENT * depth}else:"
            yield from _statements(orelse, depth + 1)


def _with_item(node: ast.WithItem) -> str:
    return _expr(node.context) + (f" as {_expr(node.target, _PRIMARY)}" if node.target is not None else "")


def _simple(node: ast.Stmt) -> str:
    match node:
        case ast.Assign(targets=targets, value=value):
            return " = ".join(_expr(side) for side in (*targets, value))
        case ast.AugAssign(target=target, op=op, value=value):
            return f"{_expr(target)} {op}= {_expr(value)}"
        case ast.AnnAssign(target=target, annotation=annotation, value=value):
            assigned = f" = {_expr(value)}" if value is not None else ""
            return f"{_expr(target)}: {_expr(annotation)}{assigned}"
        case ast.Return(value=value):
            return f"return {_optional(value)}".rstrip()
        case ast.Assert(test=test, message=message):
            return f"assert {_expr(test)}" + (f", {_expr(message)}" if message is not None else "")
        case ast.Raise(exception=exception, cause=cause):
            return f"raise {_optional(exception)}".rstrip() + (f" from {_expr(cause)}" if cause is not None else "")
        case ast.ExprStmt(value=value):
            return _expr(value)
        case ast.Pass():
            return "pass"
        case ast.For() | ast.While() | ast.With() | ast.If():
            raise AssertionError("a statement with a block has lines of its own")
        case _:
            assert_never(node)


def _optional(node: ast.Expr | None) -> str:
    return "" if node is None else _expr(node)


def _listed(nodes: tuple[ast.Expr, ...]) -> str:
    return ", ".join(map(_expr, nodes))


def _expr(node: ast.Expr, least: int = 0) -> str:
    """The text of an expression, in parentheses where it binds less tightly than `least`."""
    text, binds = _bound(node)
    return f"({text})" if binds < least else text


def _bound(node: ast.Expr) -> tuple[str, int]:
    match node:
        case ast.UnaryOp(op="not", operand=operand):
            return f"not {_expr(operand, _NOT)}", _NOT
        case ast.UnaryOp(op=op, operand=operand):
            return f"{op}{_expr(operand, _UNARY)}", _UNARY
        case ast.BinOp(op="**", left=left, right=right):
            return f"{_expr(left, _PRIMARY)} ** {_expr(right, _UNARY)}", _POWER
        case ast.BinOp(op=op, left=left, right=right):
            binds = _BINARY[op]
            return f"{_expr(left, binds)} {op} {_expr(right, binds + 1)}", binds
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            rest = (f" {op} {_expr(right, _COMPARE + 1)}" for op, right in zip(ops, comparators, strict=True))
            return _expr(left, _COMPARE + 1) + "".join(rest), _COMPARE
        case ast.BoolOp(op=word, values=values):
            binds = _AND if word == "and" else _OR
            return f" {word} ".join(_expr(value, binds + 1) for value in values), binds
        case ast.Ternary(test=test, body=body, orelse=orelse):
            return f"{_expr(body, _OR)} if {_expr(test, _OR)} else {_expr(orelse)}", _TERNARY
        case ast.Slice(lower=lower, upper=upper, step=step):
            stride = f":{_expr(step)}" if step is not None else ""
            return f"{_optional(lower)}:{_optional(upper)}{stride}", 0
        case _:
            return _primary(node), _PRIMARY


def _primary(node: ast.Expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=value):
            return _constant(value)
        case ast.Call(func=func, args=args, keywords=keywords):
            given = [*map(_expr, args), *(f"{item.name}={_expr(item.value)}" for item in keywords)]
            return f"{_callee(func)}({', '.join(given)})"
        case ast.Attribute(value=value, attr=attr):
            return f"{_callee(value)}.{attr}"
        case ast.Subscript(value=value, index=index):
            return f"{_callee(value)}[{_index(index)}]"
        case ast.Tuple(elements=(only,)):
            return f"({_expr(only)},)"
        case ast.Tuple(elements=elements):
            return f"({_listed(elements)})"
        case ast.List(elements=elements):
            return f"[{_listed(elements)}]"
        case ast.Dict(keys=keys, values=values):
            entries = (f"{_expr(key)}: {_expr(value)}" for key, value in zip(keys, values, strict=True))
            return f"{{{', '.join(entries)}}}"
        case ast.JoinedStr():
            return _joined(node)
        case _:
            raise AssertionError(f"{type(node).__name__} is no primary expression")


def _callee(node: ast.Expr) -> str:
    """`1.real` would read as a number."""
    return f"({_expr(node)})" if isinstance(node, ast.Constant) else _expr(node, _PRIMARY)


def _index(node: ast.Expr) -> str:
    """Slices stand only in brackets, so their tuple has no parentheses."""
    if isinstance(node, ast.Tuple) and any(isinstance(item, ast.Slice) for item in node.elements):
        return _listed(node.elements) + ("," if len(node.elements) == 1 else "")
    return _expr(node)


def _constant(value: bool | int | float | str | EllipsisType | None) -> str:
    if isinstance(value, float) and math.isinf(value):
        return "1e999"  # the only way to write it
    return _scalar(value)


def _joined(node: ast.JoinedStr) -> str:
    quote = _QUOTES[_quoting(node)]
    return f"f{quote}{''.join(_part(part, quote) for part in node.parts)}{quote}"


def _part(part: str | ast.FormattedValue, quote: str) -> str:
    if isinstance(part, str):
        return _escaped(part).replace("{", "{{").replace("}", "}}")
    conversion = f"!{part.conversion}" if part.conversion else ""
    spec = f":{_escaped(part.format_spec)}" if part.format_spec is not None else ""
    return f"{{({_expr(part.value)}){conversion}{spec}}}"


def _escaped(text: str) -> str:
    """As in a string literal of any quotes."""
    return repr(text + "\"'")[1:-4].replace('"', '\\"')


def _quoting(node: Any) -> int:
    """How many kinds of quotes the strings inside an f-string take up."""
    inner = [child for part in node.parts if not isinstance(part, str) for child in _walk(part.value)]
    strings = [child for child in inner if isinstance(child, ast.JoinedStr)]
    plain = any(isinstance(child, ast.Constant) and isinstance(child.value, str) for child in inner)
    return max([1 + _quoting(child) for child in strings] + [int(plain)])


def _walk(node: Any) -> Iterator[Any]:
    yield node
    for field in fields(node):
        value = getattr(node, field.name)
        for child in value if isinstance(value, tuple) else (value,):
            if is_dataclass(child) and not isinstance(child, Span):
                yield from _walk(child)
