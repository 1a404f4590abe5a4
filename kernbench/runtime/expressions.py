"""Read and evaluate the expressions of bench files: our own grammar, NumPy functions from a table, never `eval`.

Knows values and names; does not know what a bench file is or what its names mean.
"""

from __future__ import annotations

import functools
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from kernbench.data_files import data_dir
from kernbench.diagnostics import Diagnostic, did_you_mean, nearest
from kernbench.runtime.errors import error
from kernbench.runtime.functions import CONSTANTS, FUNCTIONS, MAX_ELEMENTS

MAX_DEPTH = 100
MAX_TEXT = 10_000
MAX_INTEGER_BITS = 4096


@dataclass(frozen=True, slots=True)
class Expression:
    """A node of an expression: what it is, its parts, and the column where it starts (from 1)."""

    kind: str
    parts: tuple[Expression, ...]
    value: Any  # a name, an operator or a constant
    column: int
    depth: int


class ExpressionError(Exception):
    """What is wrong with an expression; `bench.py` adds where it stands."""

    def __init__(self, code: str, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.help = code, message, help

    def diagnostic(self, path: str) -> Diagnostic:
        return error(self.code, self.message, path=path, help=self.help)


# --------------------------------------------------------------------------- text → tree


def _node(kind: str, parts: tuple[Expression, ...], value: Any, column: int) -> Expression:
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > MAX_DEPTH:
        text = f"an expression is nested deeper than {MAX_DEPTH} levels at column {column}"
        raise ExpressionError("E_EXPRESSION_SYNTAX", text)
    return Expression(kind, parts, value, column, depth)


def _column(token: Token) -> int:
    return token.column if token.column is not None else 1


def _parts(children: list[Any]) -> tuple[Expression, ...]:
    return tuple(child for child in children if isinstance(child, Expression))


class _Build(Transformer[Token, Expression]):
    """Makes nodes while the parser runs, so that no walk over a tree recurses."""

    def start(self, children: list[Any]) -> Expression:
        return _parts(children)[0]

    def group(self, children: list[Any]) -> Expression:
        return _parts(children)[0]

    def integer(self, children: list[Any]) -> Expression:
        text = str(children[0])
        if len(text) > MAX_INTEGER_BITS // 4:
            raise ExpressionError("E_EXPRESSION_SYNTAX", f"a number has {len(text)} digits")
        return _node("constant", (), int(text, 16 if text[:2] in ("0x", "0X") else 10), _column(children[0]))

    def float(self, children: list[Any]) -> Expression:
        return _node("constant", (), float(children[0]), _column(children[0]))

    def text(self, children: list[Any]) -> Expression:
        return _node("constant", (), str(children[0])[1:-1], _column(children[0]))

    def name(self, children: list[Any]) -> Expression:
        return _node("name", (), str(children[0]), _column(children[0]))

    def unary(self, children: list[Any]) -> Expression:
        return _node("unary", (children[1],), str(children[0]), _column(children[0]))

    def binary(self, children: list[Any]) -> Expression:
        return _node("binary", (children[0], children[2]), str(children[1]), _column(children[1]))

    def call(self, children: list[Any]) -> Expression:
        given = children[1].parts if children[1] is not None else ()
        return _node("call", given, str(children[0]), _column(children[0]))

    def method(self, children: list[Any]) -> Expression:
        given = children[2].parts if children[2] is not None else ()
        return _node("call", (children[0], *given), str(children[1]), _column(children[1]))

    def attribute(self, children: list[Any]) -> Expression:
        return _node("attribute", (children[0],), str(children[1]), _column(children[1]))

    def index(self, children: list[Any]) -> Expression:
        return _node("index", (children[0], *children[1].parts), None, children[0].column)

    def tuple(self, children: list[Any]) -> Expression:
        parts = _parts(children)
        return _node("tuple", parts, None, parts[0].column if parts else 1)

    def arguments(self, children: list[Any]) -> Expression:
        return _node("arguments", _parts(children), None, 1)

    def subscripts(self, children: list[Any]) -> Expression:
        return _node("subscripts", _parts(children), len(_parts(children)), 1)

    def keyword(self, children: list[Any]) -> Expression:
        return _node("keyword", (children[1],), str(children[0]), _column(children[0]))

    def slice(self, children: list[Any]) -> Expression:
        return _node("slice", _parts(children), None, 1)

    def bound(self, children: list[Any]) -> Expression:
        return (*_parts(children), _node("constant", (), None, 1))[0]

    def ellipsis(self, children: list[Any]) -> Expression:
        return _node("constant", (), Ellipsis, 1)


@functools.cache
def _parser() -> Lark:
    grammar = (data_dir("grammar") / "expression.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", transformer=_Build(), maybe_placeholders=True)


def parse_expression(text: str) -> Expression:
    """The tree of an expression, or an `ExpressionError`."""
    if len(text) > MAX_TEXT:
        raise ExpressionError("E_EXPRESSION_SYNTAX", f"an expression has {len(text)} characters, at most {MAX_TEXT}")
    try:
        made = _parser().parse(text)
    except UnexpectedInput as wrong:
        raise ExpressionError("E_EXPRESSION_SYNTAX", _syntax_message(wrong, text)) from None
    assert isinstance(made, Expression)
    return made


def _syntax_message(wrong: UnexpectedInput, text: str) -> str:
    if isinstance(wrong, UnexpectedCharacters):
        return f"`{text[wrong.pos_in_stream or 0]}` at column {wrong.column} is no part of an expression"
    ended = isinstance(wrong, UnexpectedEOF) or (isinstance(wrong, UnexpectedToken) and wrong.token.type == "$END")
    if ended:
        return "the expression ends too early" if text.strip() else "the expression is empty"
    assert isinstance(wrong, UnexpectedToken)
    return f"`{wrong.token}` at column {wrong.column} does not fit what stands before it"


def names_in(expression: Expression) -> tuple[str, ...]:
    """Names that the expression reads and that are no constants, in order of first use."""
    found: dict[str, None] = {}
    todo = [expression]
    while todo:
        node = todo.pop()
        if node.kind == "name" and node.value not in CONSTANTS:
            found[node.value] = None
        todo.extend(reversed(node.parts))
    return tuple(found)


# --------------------------------------------------------------------------- tree → value


def evaluate(expression: Expression, names: Mapping[str, Any]) -> Any:
    """The value of an expression; what cannot be computed is an `ExpressionError`."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, about empty means and the like; the result says it too
        return _evaluate(expression, names)


def _evaluate(node: Expression, names: Mapping[str, Any]) -> Any:
    return _EVALUATORS[node.kind](node, names)


def _constant(node: Expression, names: Mapping[str, Any]) -> Any:
    return node.value


def _name(node: Expression, names: Mapping[str, Any]) -> Any:
    if node.value in names:
        return names[node.value]
    if node.value in CONSTANTS:
        return CONSTANTS[node.value]
    given = [str(name) for name in names]
    near = nearest(node.value, [*given, *CONSTANTS])
    help_text = did_you_mean(node.value, given if near is None else [near], "names")  # types are many, and seldom meant
    message = f"`{node.value}` at column {node.column} stands for nothing"
    raise ExpressionError("E_EXPRESSION_NAME", message, help_text)


def _tuple(node: Expression, names: Mapping[str, Any]) -> Any:
    return tuple(_evaluate(part, names) for part in node.parts)


_UNARY: dict[str, Callable[[Any], Any]] = {"+": operator.pos, "-": operator.neg, "~": operator.invert}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "@": operator.matmul, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _unary(node: Expression, names: Mapping[str, Any]) -> Any:
    return _guarded(node, _UNARY[node.value], (_evaluate(node.parts[0], names),), {})


def _binary(node: Expression, names: Mapping[str, Any]) -> Any:
    left, right = (_evaluate(part, names) for part in node.parts)
    return _guarded(node, functools.partial(_combine, node.value), (left, right), {})


def _combine(sign: str, left: Any, right: Any) -> Any:
    if any(isinstance(value, str | tuple) for value in (left, right)):
        raise TypeError("operands are numbers or arrays")
    if isinstance(left, int) and isinstance(right, int):
        _check_growth(sign, left, right)
    elif sign != "@":
        _check_size(math.prod(np.broadcast_shapes(np.shape(left), np.shape(right))))
    return _BINARY[sign](left, right)


def _check_growth(sign: str, left: int, right: int) -> None:
    """Python integers grow without end; ours do not."""
    bits = {"**": left.bit_length() * max(right, 0), "<<": left.bit_length() + max(right, 0)}.get(sign, 0)
    if bits > MAX_INTEGER_BITS:
        raise ValueError(f"the result has more than {MAX_INTEGER_BITS} bits")


def _check_size(elements: int) -> None:
    if elements > MAX_ELEMENTS:
        raise ValueError(f"the result has {elements} elements, at most {MAX_ELEMENTS}")


def _call(node: Expression, names: Mapping[str, Any]) -> Any:
    function = FUNCTIONS.get(node.value)
    if function is None:
        help_text = did_you_mean(node.value, tuple(FUNCTIONS), "functions")
        message = f"`{node.value}` at column {node.column} is no function of expressions"
        raise ExpressionError("E_EXPRESSION_NAME", message, help_text)
    keywords: dict[str, Any] = {}
    for part in node.parts:
        if part.kind == "keyword":
            if part.value not in function.keywords or part.value in keywords:
                message = f"`{node.value}` takes no argument `{part.value}` (column {part.column})"
                known = ", ".join(function.keywords) or "none"
                raise ExpressionError("E_EXPRESSION_NAME", message, f"its keyword arguments: {known}")
            keywords[part.value] = _evaluate(part.parts[0], names)
    given = tuple(_evaluate(part, names) for part in node.parts if part.kind != "keyword")
    return _guarded(node, function.call, given, keywords)


def _attribute(node: Expression, names: Mapping[str, Any]) -> Any:
    value = _evaluate(node.parts[0], names)
    known: dict[str, Callable[[Any], Any]] = {
        "T": np.transpose,
        "shape": np.shape,
        "ndim": np.ndim,
        "size": np.size,
    }
    if node.value not in known:
        message = f"`.{node.value}` at column {node.column} is nothing that a value has"
        help_text = did_you_mean(node.value, tuple(known), "attributes")
        raise ExpressionError("E_EXPRESSION_NAME", message, help_text)
    return known[node.value](value)


def _index(node: Expression, names: Mapping[str, Any]) -> Any:
    value, *keys = (_evaluate(part, names) for part in node.parts)
    key = keys[0] if len(keys) == 1 else tuple(keys)
    return _guarded(node, operator.getitem, (value, key), {})


def _slice(node: Expression, names: Mapping[str, Any]) -> Any:
    return slice(*(_evaluate(part, names) for part in node.parts))


_EVALUATORS: dict[str, Callable[[Expression, Mapping[str, Any]], Any]] = {
    "constant": _constant,
    "name": _name,
    "tuple": _tuple,
    "unary": _unary,
    "binary": _binary,
    "call": _call,
    "attribute": _attribute,
    "index": _index,
    "slice": _slice,
}


def _guarded(node: Expression, function: Callable[..., Any], given: Any, keywords: Mapping[str, Any]) -> Any:
    """Call with values that a user chose: what NumPy refuses is the user's mistake."""
    try:
        return function(*given, **keywords)
    except ExpressionError:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as wrong:
        shapes = ", ".join(_face(value) for value in given)
        what = {"call": "function", "index": "subscript"}.get(node.kind, "operator")
        name = "[]" if node.kind == "index" else node.value
        reason = (str(wrong).splitlines() or ["not enough memory"])[0][:160]
        message = f"{what} `{name}` at column {node.column} fails on ({shapes}): {reason}"
        raise ExpressionError("E_EXPRESSION_VALUE", message) from None


def _face(value: Any) -> str:
    """A value as a message shows it."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
