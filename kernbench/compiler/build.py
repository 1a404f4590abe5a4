"""Make the nodes of the syntax tree, one function for each rule or alias of grammar/kernel.lark.

Each gets the offsets of the rule's first character and behind its last, then the rule's children, tokens among
them. What LALR lets through and Python does not goes to `syntax_check`. Does not know how the parser got here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from kernbench.compiler import ast, syntax_check
from kernbench.compiler.lexer import Token
from kernbench.compiler.literals import BadLiteral, integer_value
from kernbench.compiler.reporter import Reporter
from kernbench.compiler.strings import StringReader

Action = Callable[..., Any]
Constants = ast.Assign | ast.AnnAssign

# Rules whose value is no node of its own, so that it adds nothing to a tree's depth.
NO_NODES = frozenset(
    (
        "module", "import_name", "dotted_name", "relative_name", "from_name", "decorators",
        "params", "class_suite", "suite", "line", "augment_operator", "compare_operator", "else_",
        "argument", "parentheses",
    )
)  # fmt: skip


def _binary(op: ast.BinaryOperator) -> Action:
    def build(self: Builder, start: int, end: int, left: ast.Expr, right: ast.Expr) -> ast.BinOp:
        return ast.BinOp(op, left, right, self.span(start, end))

    return build


def _unary(op: ast.UnaryOperator) -> Action:
    def build(self: Builder, start: int, end: int, operand: ast.Expr) -> ast.UnaryOp:
        return ast.UnaryOp(op, operand, self.span(start, end))

    return build


def _bool(op: ast.BoolOperator) -> Action:
    def build(self: Builder, start: int, end: int, *values: ast.Expr) -> ast.BoolOp:
        return ast.BoolOp(op, values, self.span(start, end))

    return build


def _constant(value: bool | None) -> Action:
    def build(self: Builder, start: int, end: int) -> ast.Constant:
        return ast.Constant(value, self.span(start, end))

    return build


class Builder:
    """Node makers for one file; `parse_piece` reads an expression inside an f-string."""

    def __init__(self, reporter: Reporter, parse_piece: Callable[[int, int], ast.Expr | None]) -> None:
        self.reporter = reporter
        self.span = reporter.span
        self.string_reader = StringReader(reporter, parse_piece)

    # ---- files

    def module(self, start: int, end: int, *parts: Any) -> ast.Module:
        flat = [part for part in _flat(parts) if not isinstance(part, ast.Pass)]
        docstring, rest = _split_docstring(flat)
        syntax_check.module_statements(self.reporter, rest)
        return ast.Module(
            imports=tuple(part for part in rest if isinstance(part, ast.Import)),
            constants=tuple(part for part in rest if isinstance(part, Constants)),
            classes=tuple(part for part in rest if isinstance(part, ast.ClassDef)),
            functions=tuple(part for part in rest if isinstance(part, ast.FunctionDef)),
            docstring=docstring,
            span=self.span(0, end),
        )

    def import_(self, start: int, end: int, *names: tuple[str, str | None, int, int]) -> list[ast.Import]:
        return [ast.Import(module, None, alias, self.span(*at)) for module, alias, *at in names]

    def import_name(
        self, start: int, end: int, module: str, alias: Token | None = None
    ) -> tuple[str, str | None, int, int]:
        return module, alias[1] if alias else None, start, end

    def dotted_name(self, start: int, end: int, *parts: Token) -> str:
        return ".".join(part[1] for part in parts)

    def relative_name(self, start: int, end: int, *parts: Token) -> str:
        names = [part[1] for part in parts if part[1].strip(".")]
        return "".join(part[1] for part in parts if not part[1].strip(".")) + ".".join(names)

    def from_import(
        self, start: int, end: int, module: str, *names: tuple[str, str | None, int, int]
    ) -> list[ast.Import]:
        return [ast.Import(module, name, alias, self.span(*at)) for name, alias, *at in names]

    def from_import_all(self, start: int, end: int, module: str) -> list[ast.Import]:
        return [ast.Import(module, "*", None, self.span(start, end))]

    def from_name(
        self, start: int, end: int, name: Token, alias: Token | None = None
    ) -> tuple[str, str | None, int, int]:
        return name[1], alias[1] if alias else None, start, end

    def class_(
        self, start: int, end: int, decorators: Sequence[Token], name: Token, bases: Any, body: Any
    ) -> ast.ClassDef:
        syntax_check.class_decorators(self.reporter, decorators)
        docstring, rest = _split_docstring([part for part in body if not isinstance(part, ast.Pass)])
        syntax_check.class_statements(self.reporter, rest)
        return ast.ClassDef(
            name=name[1],
            bases=bases,
            constants=tuple(part for part in rest if isinstance(part, Constants)),
            functions=tuple(
                replace(part, name=f"{name[1]}.{part.name}") for part in rest if isinstance(part, ast.FunctionDef)
            ),
            decorators=tuple(token[1] for token in decorators),
            docstring=docstring,
            span=self.span(start, end),
            name_span=self.span(name[2], name[3]),
        )

    def class_bases(self, start: int, end: int, *bases: ast.Expr) -> tuple[ast.Expr, ...]:
        return bases

    def class_suite(self, start: int, end: int, *lines: Any) -> list[Any]:
        return _flat(lines)

    def function(self, start: int, end: int, decorators: Sequence[Token], name: Token, *rest: Any) -> ast.FunctionDef:
        params, body = rest
        return self.function_returning(start, end, decorators, name, params, None, body)

    def function_returning(
        self, start: int, end: int, decorators: Sequence[Token], name: Token, *rest: Any
    ) -> ast.FunctionDef:
        params, returns, body = rest
        name_span = self.span(name[2], name[3])
        syntax_check.function_decorators(self.reporter, decorators, name[1], name_span)
        docstring, statements = _split_docstring(body)
        return ast.FunctionDef(
            name=name[1],
            params=params,
            body=tuple(statements),
            decorators=tuple(token[1] for token in decorators),
            docstring=docstring,
            returns=returns,
            span=self.span(start, end),
            name_span=name_span,
        )

    def decorators(self, start: int, end: int, *tokens: Token) -> tuple[Token, ...]:
        return tokens

    def params(self, start: int, end: int, *params: ast.Param | Token) -> tuple[ast.Param, ...]:
        return syntax_check.parameters(self.reporter, params)

    def param(self, start: int, end: int, name: Token) -> ast.Param:
        return self._param(start, end, name, None, None)

    def param_default(self, start: int, end: int, name: Token, default: ast.Expr) -> ast.Param:
        return self._param(start, end, name, None, default)

    def param_annotated(self, start: int, end: int, name: Token, annotation: ast.Expr) -> ast.Param:
        return self._param(start, end, name, annotation, None)

    def param_annotated_default(
        self, start: int, end: int, name: Token, annotation: ast.Expr, default: ast.Expr
    ) -> ast.Param:
        return self._param(start, end, name, annotation, default)

    def param_star(self, start: int, end: int) -> Token:
        return "STAR", "*", start, end

    def _param(
        self, start: int, end: int, name: Token, annotation: ast.Expr | None, default: ast.Expr | None
    ) -> ast.Param:
        is_constexpr = _is_constexpr(annotation)
        return ast.Param(name[1], annotation, default, is_constexpr, False, self.span(start, end))

    # ---- statements

    def suite(self, start: int, end: int, *statements: Any) -> tuple[ast.Stmt, ...]:
        return tuple(_flat(statements))

    def line(self, start: int, end: int, *statements: ast.Stmt) -> list[ast.Stmt]:
        return list(statements)

    def assign(self, start: int, end: int, *sides: ast.Expr) -> ast.Assign:
        *targets, value = sides
        for target in targets:
            syntax_check.target(self.reporter, target)
        return ast.Assign(tuple(targets), value, self.span(start, end))

    def annotate(
        self, start: int, end: int, target: ast.Expr, annotation: ast.Expr, value: ast.Expr | None = None
    ) -> ast.AnnAssign:
        syntax_check.single_target(self.reporter, target, "annotated")
        return ast.AnnAssign(target, annotation, value, _is_constexpr(annotation), self.span(start, end))

    def augment(self, start: int, end: int, target: ast.Expr, op: ast.BinaryOperator, value: ast.Expr) -> ast.AugAssign:
        syntax_check.single_target(self.reporter, target, "changed in place")
        return ast.AugAssign(target, op, value, self.span(start, end))

    def augment_operator(self, start: int, end: int, token: Token) -> ast.BinaryOperator:
        return cast(ast.BinaryOperator, token[1].removesuffix("="))

    def expression_statement(self, start: int, end: int, value: ast.Expr) -> ast.ExprStmt:
        return ast.ExprStmt(value, self.span(start, end))

    def return_(self, start: int, end: int, value: ast.Expr | None = None) -> ast.Return:
        return ast.Return(value, self.span(start, end))

    def assert_(self, start: int, end: int, test: ast.Expr, message: ast.Expr | None = None) -> ast.Assert:
        return ast.Assert(test, message, self.span(start, end))

    def raise_(
        self, start: int, end: int, exception: ast.Expr | None = None, cause: ast.Expr | None = None
    ) -> ast.Raise:
        return ast.Raise(exception, cause, self.span(start, end))

    def pass_(self, start: int, end: int) -> ast.Pass:
        return ast.Pass(self.span(start, end))

    def if_(self, start: int, end: int, test: ast.Expr, body: tuple[ast.Stmt, ...], orelse: Any = ()) -> ast.If:
        otherwise = (orelse,) if isinstance(orelse, ast.If) else orelse
        return ast.If(test, body, otherwise, self.span(start, end))

    elif_ = if_

    def else_(self, start: int, end: int, body: tuple[ast.Stmt, ...]) -> tuple[ast.Stmt, ...]:
        return body

    def for_(self, start: int, end: int, target: ast.Expr, iter: ast.Expr, body: Any) -> ast.For:
        syntax_check.target(self.reporter, target)
        return ast.For(target, iter, body, self.span(start, end))

    def while_(self, start: int, end: int, test: ast.Expr, body: tuple[ast.Stmt, ...]) -> ast.While:
        return ast.While(test, body, self.span(start, end))

    def with_(self, start: int, end: int, *parts: Any) -> ast.With:
        *items, body = parts
        return ast.With(tuple(items), body, self.span(start, end))

    def with_item(self, start: int, end: int, context: ast.Expr, target: ast.Expr | None = None) -> ast.WithItem:
        if target is not None:
            syntax_check.target(self.reporter, target)
        return ast.WithItem(context, target, self.span(start, end))

    # ---- expressions

    def bare_tuple(self, start: int, end: int, *elements: ast.Expr) -> ast.Tuple:
        return ast.Tuple(elements, self.span(start, end))

    tuple_ = bare_tuple

    def ternary(self, start: int, end: int, body: ast.Expr, test: ast.Expr, orelse: ast.Expr) -> ast.Ternary:
        return ast.Ternary(test, body, orelse, self.span(start, end))

    def compare(self, start: int, end: int, left: ast.Expr, *rest: Any) -> ast.Compare:
        return ast.Compare(left, rest[::2], rest[1::2], self.span(start, end))

    def compare_operator(self, start: int, end: int, *words: Token) -> ast.CompareOperator:
        return cast(ast.CompareOperator, " ".join(word[1] for word in words))

    def attribute(self, start: int, end: int, value: ast.Expr, name: Token) -> ast.Attribute:
        return ast.Attribute(value, name[1], self.span(start, end), self.span(name[2], name[3]))

    def call(self, start: int, end: int, func: ast.Expr, *arguments: ast.Expr | ast.Keyword) -> ast.Call:
        args = tuple(a for a in arguments if not isinstance(a, ast.Keyword))
        keywords = tuple(a for a in arguments if isinstance(a, ast.Keyword))
        if keywords:
            syntax_check.arguments(self.reporter, arguments)
        return ast.Call(func, args, keywords, self.span(start, end))

    def argument(self, start: int, end: int, value: ast.Expr) -> ast.Expr:
        return value

    def keyword(self, start: int, end: int, name: Token, value: ast.Expr) -> ast.Keyword:
        return ast.Keyword(name[1], value, self.span(start, end))

    def subscript(self, start: int, end: int, value: ast.Expr, index: ast.Expr) -> ast.Subscript:
        return ast.Subscript(value, index, self.span(start, end))

    def slice_(self, start: int, end: int, *parts: Any) -> ast.Slice:
        bounds: list[ast.Expr | None] = [None]
        for part in parts:
            if isinstance(part, tuple):  # the token `:`
                bounds.append(None)
            else:
                bounds[-1] = part
        lower, upper, step = (*bounds, None)[:3]
        return ast.Slice(lower, upper, step, self.span(start, end))

    def name(self, start: int, end: int, token: Token) -> ast.Name:
        return ast.Name(token[1], self.span(start, end))

    def integer(self, start: int, end: int, token: Token) -> ast.Constant:
        try:
            value = integer_value(token[1])
        except BadLiteral as fault:
            self.reporter.report("E_BAD_LITERAL", str(fault), self.span(start, end))
            value = 0
        return ast.Constant(value, self.span(start, end))

    def float_(self, start: int, end: int, token: Token) -> ast.Constant:
        return ast.Constant(float(token[1].replace("_", "")), self.span(start, end))

    def imaginary(self, start: int, end: int, token: Token) -> ast.Constant:
        span = self.span(start, end)
        help_line = "keep the real and the imaginary part as two values"
        self.reporter.report("E_UNSUPPORTED_SYNTAX", "complex numbers are not supported", span, help=help_line)
        return ast.Constant(0, span)

    def strings(self, start: int, end: int, *tokens: Token) -> ast.Constant | ast.JoinedStr:
        return self.string_reader.join(tokens, self.span(start, end))

    def ellipsis(self, start: int, end: int) -> ast.Constant:
        return ast.Constant(..., self.span(start, end))

    def parentheses(self, start: int, end: int, value: ast.Expr) -> ast.Expr:
        return value

    def list_(self, start: int, end: int, *elements: ast.Expr) -> ast.List:
        return ast.List(elements, self.span(start, end))

    def dict_(self, start: int, end: int, *entries: ast.Expr) -> ast.Dict:
        return ast.Dict(entries[::2], entries[1::2], self.span(start, end))

    true, false, none = _constant(True), _constant(False), _constant(None)
    or_, and_ = _bool("or"), _bool("and")
    not_, plus, minus, invert = _unary("not"), _unary("+"), _unary("-"), _unary("~")
    bit_or, bit_xor, bit_and = _binary("|"), _binary("^"), _binary("&")
    shift_left, shift_right = _binary("<<"), _binary(">>")
    add, subtract, multiply, divide = _binary("+"), _binary("-"), _binary("*"), _binary("/")
    floor_divide, modulo, matmul, power = _binary("//"), _binary("%"), _binary("@"), _binary("**")


def _flat(parts: Sequence[Any]) -> list[Any]:
    """Lines that hold several statements are lists."""
    return [item for part in parts for item in (part if isinstance(part, list) else (part,))]


def _split_docstring(statements: Sequence[Any]) -> tuple[str | None, list[Any]]:
    match list(statements):
        case [ast.ExprStmt(value=ast.Constant(value=str(docstring))), *rest]:
            return docstring, rest
        case rest:
            return None, rest


def _is_constexpr(annotation: ast.Expr | None) -> bool:
    match annotation:
        case ast.Name(id="constexpr") | ast.Attribute(attr="constexpr"):
            return True
        case ast.Constant(value=str(quoted)):  # Python lets an annotation be a string
            return quoted.rpartition(".")[2] == "constexpr"
        case _:
            return False
