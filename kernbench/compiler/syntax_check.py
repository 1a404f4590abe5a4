"""Refuse what the LALR grammar lets through and Python or the kernel language does not.

Each check reports and lets the parse go on. Does not know values or whether a name exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from kernbench.compiler import ast
from kernbench.compiler.lexer import Token
from kernbench.compiler.reporter import Reporter
from kernbench.diagnostics import Span

_CONSTEXPR_DECORATORS = frozenset(("constexpr_function", "_constexpr_function", "constexpr"))  # by their last name
_KERNEL_DECORATORS = _CONSTEXPR_DECORATORS | {"jit"}
_SKIPPED_DECORATORS = frozenset(("autotune", "heuristics"))
_OF_A_CLASS = frozenset(("staticmethod",))  # says how Python calls it, which makes no difference here

_SHOWN: dict[type[Any], str] = {
    ast.Constant: "a constant",
    ast.UnaryOp: "an operation",
    ast.BinOp: "an operation",
    ast.Compare: "a comparison",
    ast.BoolOp: "an operation",
    ast.Ternary: "a conditional expression",
    ast.Call: "a call",
    ast.Slice: "a slice",
    ast.Dict: "a dict",
    ast.JoinedStr: "an f-string",
    ast.Tuple: "a tuple",
    ast.List: "a list",
}


def target(reporter: Reporter, node: ast.Expr) -> None:
    """What stands left of `=`, behind `for` or behind `as`."""
    match node:
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return
        case ast.Tuple(elements=elements) | ast.List(elements=elements):
            for element in elements:
                target(reporter, element)
        case (
            ast.Constant()
            | ast.UnaryOp()
            | ast.BinOp()
            | ast.Compare()
            | ast.BoolOp()
            | ast.Ternary()
            | ast.Call()
            | ast.Slice()
            | ast.Dict()
            | ast.JoinedStr()
        ):
            _bad_target(reporter, node, "assigned to", isinstance(node, ast.Compare))
        case _:
            assert_never(node)


def single_target(reporter: Reporter, node: ast.Expr, what: str) -> None:
    """What stands left of an annotation or of `+=`."""
    if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        _bad_target(reporter, node, what, False)


def _bad_target(reporter: Reporter, node: ast.Expr, what: str, compares: bool) -> None:
    help_line = "a target is a name, or a tuple of names"
    if compares:
        help_line = "`==` compares; one `=` assigns"
    reporter.report("E_BAD_TARGET", f"{_SHOWN[type(node)]} cannot be {what}", node.span, help=help_line)


def arguments(reporter: Reporter, given: Sequence[ast.Expr | ast.Keyword]) -> None:
    """Positional arguments come first, and no keyword twice."""
    seen: dict[str, Span] = {}
    for argument in given:
        if not isinstance(argument, ast.Keyword):
            if seen:
                message = "a positional argument stands behind a keyword argument"
                help_line = "put it before, or give it its name"
                reporter.report("E_ARGUMENT_ORDER", message, argument.span, help=help_line)
            continue
        _once(reporter, "keyword", argument.name, argument.span, seen)


def parameters(reporter: Reporter, given: Sequence[ast.Param | Token]) -> tuple[ast.Param, ...]:
    """Mark what stands behind the bare `*`; the order and the names must be as in Python."""
    seen: dict[str, Span] = {}
    checked: list[ast.Param] = []
    star: Token | None = None
    for param in given:
        if not isinstance(param, ast.Param):
            if star is not None:
                _order(reporter, "a second `*`", reporter.span(*param[2:]))
            star = param
            continue
        _once(reporter, "parameter", param.name, param.span, seen)
        if star is None and param.default is None and any(p.default is not None for p in checked):
            _order(reporter, f"`{param.name}` has no default but stands behind one that has", param.span)
        marked = ast.Param(
            param.name, param.annotation, param.default, param.is_constexpr, star is not None, param.span
        )
        checked.append(marked)
    if star is not None and given[-1] is star:
        _order(reporter, "no parameter stands behind `*`", reporter.span(*star[2:]))
    return tuple(checked)


def _once(reporter: Reporter, what: str, name: str, span: Span, seen: dict[str, Span]) -> None:
    if name in seen:
        first = reporter.source.label(seen[name], "first here")
        reporter.report("E_REPEATED_NAME", f"{what} `{name}` is given twice", span, first)
    seen.setdefault(name, span)


def _order(reporter: Reporter, message: str, span: Span) -> None:
    reporter.report("E_ARGUMENT_ORDER", message, span)


def makes_kernel(decorator: str) -> bool:
    """Whether a dotted name marks a kernel or a helper of one; other languages have a `kernel` in a module."""
    return decorator == "kernel" or decorator.rpartition(".")[2] in _KERNEL_DECORATORS


def makes_constexpr_function(decorator: str) -> bool:
    """Whether a dotted name marks a function that is computed when a kernel is compiled."""
    return decorator.rpartition(".")[2] in _CONSTEXPR_DECORATORS


def function_decorators(reporter: Reporter, tokens: Sequence[Token], name: str, span: Span) -> None:
    """A function of a kernel file is a kernel or a helper of one; only decorators that say so are known."""
    for token in tokens:
        place = reporter.span(token[2], token[3])
        if token[1].rpartition(".")[2] in _SKIPPED_DECORATORS:
            message = f"`@{token[1]}` is skipped: constexprs come from the bench file or `--set`"
            reporter.remark("R_DECORATOR_SKIPPED", message, place)
        elif not makes_kernel(token[1]) and token[1] not in _OF_A_CLASS:
            _unsupported_decorator(reporter, token[1], place)
    if not any(makes_kernel(token[1]) for token in tokens) and name not in reporter.source.host_functions:
        message = f"function `{name}` has no `@triton.jit` or `@kernel`"
        help_line = "write `@triton.jit` above it; nothing of a kernel file runs as Python"
        reporter.report("E_UNSUPPORTED_SYNTAX", message, span, help=help_line)


def class_decorators(reporter: Reporter, tokens: Iterable[Token]) -> None:
    for token in tokens:
        _unsupported_decorator(reporter, token[1], reporter.span(token[2], token[3]))


def _unsupported_decorator(reporter: Reporter, name: str, span: Span) -> None:
    shown = f"the decorator `@{name}`" if name else "this decorator"
    help_line = "leave it out; `@triton.jit` and `@kernel` make a kernel"
    reporter.report("E_UNSUPPORTED_SYNTAX", f"{shown} is not supported", span, help=help_line)


def module_statements(reporter: Reporter, parts: Iterable[Any]) -> None:
    """Nothing of a file is executed, so an expression at module level would have no effect."""
    help_line = "keep imports, constants and functions only"
    _no_expressions(reporter, parts, "an expression at module level is not supported", help_line)


def class_statements(reporter: Reporter, parts: Iterable[Any]) -> None:
    help_line = "a class of a kernel file holds constants and kernels only"
    _no_expressions(reporter, parts, "an expression in a class is not supported", help_line)


def _no_expressions(reporter: Reporter, parts: Iterable[Any], message: str, help_line: str) -> None:
    for part in parts:
        match part:
            case ast.ExprStmt(value=ast.Constant(value=str())):
                continue  # a text that documents the line above
            case ast.ExprStmt(span=span):
                reporter.report("E_UNSUPPORTED_SYNTAX", message, span, help=help_line)
