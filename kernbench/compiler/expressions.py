"""Evaluate expressions: find names, evaluate operands in order, and hand the values to the builder.

Knows the syntax of expressions; what operators do to values is the builder's matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kernbench.compiler import ast
from kernbench.compiler.branches import evaluate_bool, evaluate_ternary
from kernbench.compiler.calls import evaluate_call
from kernbench.compiler.constants import MAX_ITEMS
from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.frame import Frame
from kernbench.compiler.values import Const, DictValue, FileValue, TupleValue, Value, type_text
from kernbench.diagnostics import Span, nearest

MAX_NESTING = 16  # of tuples in tuples
MAX_WIDTH = 200  # of a number in an f-string's format


def evaluate_name(frame: Frame, node: ast.Name) -> Value:
    at = frame.at(node.span)
    value = frame.scope.read(node.id, at)
    if value is not None:
        return value
    if frame.function is not None and node.id in frame.live.bound:
        message = f"`{node.id}` is read before it has a value"
        raise fault("E_UNBOUND_NAME", message, at, "read here", help=f"bind `{node.id}` before this line")
    value = frame.globals.read(node.id, at)
    if value is None:
        raise unknown_name(frame, node.id, at)
    return value


_HABITUAL_IMPORTS = {"tl": "import triton.language as tl", "triton": "import triton"}


def unknown_name(frame: Frame, name: str, at: Span) -> Fault:
    advice = _in_language(frame, name, at)
    if advice is None and (near := nearest(name, [*frame.scope, *frame.globals.names()])) is not None:
        advice = f"did you mean `{near}`?"
    if name in _HABITUAL_IMPORTS and name not in frame.globals.names():
        advice = f"begin the file with `{_HABITUAL_IMPORTS[name]}`"
    return fault("E_UNKNOWN_NAME", f"the name `{name}` is not known", at, "not found", help=advice)


def _in_language(frame: Frame, name: str, at: Span) -> str | None:
    """Whether an imported module of the language has the name."""
    modules = [(alias, module) for alias in frame.globals.names() if (module := frame.globals.module(alias))]
    for alias, module in sorted(modules, key=lambda item: item[1].name != "tl"):
        try:
            frame.builder.attribute(module, name, at)
        except Fault:
            continue
        return f"did you mean `{alias}.{name}`?"
    return None


def evaluate_constant(frame: Frame, node: ast.Constant) -> Value:
    return Const(node.value)


def evaluate_unary(frame: Frame, node: ast.UnaryOp) -> Value:
    return frame.builder.unary(node.op, frame.evaluate(node.operand), frame.at(node.span))


def evaluate_binary(frame: Frame, node: ast.BinOp) -> Value:
    left, right = frame.evaluate_all((node.left, node.right))
    return frame.builder.binary(node.op, left, right, frame.at(node.span))


def evaluate_compare(frame: Frame, node: ast.Compare) -> Value:
    if len(node.ops) > 1:
        text = "a comparison of more than two values is not in the language"
        raise fault(
            "E_UNSUPPORTED_SYNTAX", text, frame.at(node.span), "this comparison", help="write `a < b and b < c`"
        )
    left, right = frame.evaluate_all((node.left, node.comparators[0]))
    return frame.builder.compare(node.ops[0], left, right, frame.at(node.span))


def evaluate_attribute(frame: Frame, node: ast.Attribute) -> Value:
    at = frame.at(node.attr_span)
    if isinstance(node.value, ast.Name) and node.value.id not in frame.scope:
        member = frame.globals.read_member(node.value.id, node.attr, at)
        if member is not None:
            return member
    if isinstance(node.value, ast.Attribute) and (file := _file(frame, node.value.value)) is not None:
        member = frame.globals.read_member_from_file(file, node.value.attr, node.attr, at)
        if member is not None:
            return member
    value = frame.evaluate(node.value)
    if isinstance(value, FileValue):
        return frame.globals.read_from_file(value, node.attr, at)
    return frame.builder.attribute(value, node.attr, at)


def _file(frame: Frame, node: ast.Expr) -> FileValue | None:
    """The file that a dotted name stands for, if it is one."""
    value: Value | None = None
    if isinstance(node, ast.Name):
        value = None if node.id in frame.scope else frame.globals.file(node.id, frame.at(node.span))
    elif isinstance(node, ast.Attribute) and (outer := _file(frame, node.value)) is not None:
        try:
            value = frame.globals.read_from_file(outer, node.attr, frame.at(node.attr_span))
        except Fault:
            return None
    return value if isinstance(value, FileValue) else None


def evaluate_subscript(frame: Frame, node: ast.Subscript) -> Value:
    value = frame.evaluate(node.value)
    items = node.index.elements if isinstance(node.index, ast.Tuple) else (node.index,)
    indices = tuple(_index(frame, item) for item in items)
    return frame.builder.subscript(value, indices, frame.at(node.span))


def _index(frame: Frame, node: ast.Expr) -> Value | slice:
    if not isinstance(node, ast.Slice):
        return frame.evaluate(node)
    bounds = [None if part is None else _slice_bound(frame, part) for part in (node.lower, node.upper, node.step)]
    return slice(*bounds)


def _slice_bound(frame: Frame, node: ast.Expr) -> int | None:
    value = frame.evaluate(node)
    if isinstance(value, Const) and (value.value is None or isinstance(value.value, int)):
        return value.value
    message = f"a slice's bound is {type_text(value)}, a constexpr integer is needed"
    raise fault("E_CONSTEXPR_NEEDED", message, frame.at(node.span), "this bound")


def evaluate_slice(frame: Frame, node: ast.Slice) -> Value:
    raise fault("E_BAD_SUBSCRIPT", "a slice stands where a value is needed", frame.at(node.span), "this slice")


def evaluate_sequence(frame: Frame, node: ast.Tuple | ast.List) -> Value:
    value = TupleValue(tuple(frame.evaluate(element) for element in node.elements))
    _check_size(frame, value, node.span)
    return value


def _check_size(frame: Frame, value: TupleValue | DictValue, span: Span) -> None:
    size, depth = _extent(value)
    if size > MAX_ITEMS:
        message = f"a tuple, list or dict has more than {MAX_ITEMS} items"
        raise fault("E_CONSTANT_ARITHMETIC", message, frame.at(span), "items of inner ones included")
    if depth > MAX_NESTING:
        message = f"tuples, lists and dicts are nested deeper than {MAX_NESTING} levels"
        raise fault("E_NESTING_TOO_DEEP", message, frame.at(span), "this one")


def _extent(value: Value) -> tuple[int, int]:
    """How many values a value holds, itself included, and how deep they are nested."""
    if isinstance(value, DictValue):
        inner = [_extent(item) for _, item in value.items]
    elif isinstance(value, TupleValue):
        inner = [_extent(item) for item in value.items]
    else:
        return 1, 0
    return 1 + sum(size for size, _ in inner), 1 + max((depth for _, depth in inner), default=0)


def evaluate_dict(frame: Frame, node: ast.Dict) -> Value:
    items: dict[str, Value] = {}
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        key = frame.evaluate(key_node)
        if not isinstance(key, Const) or not isinstance(key.value, str):
            message = f"a key is {type_text(key)}, a string is needed"
            raise fault("E_DICT_KEY", message, frame.at(key_node.span), "this key")
        items[key.value] = frame.evaluate(value_node)
    value = DictValue(tuple(items.items()))
    _check_size(frame, value, node.span)
    return value


def evaluate_fstring(frame: Frame, node: ast.JoinedStr) -> Value:
    """A text with the values that are known now; a run-time value shows as its type."""
    text = "".join(part if isinstance(part, str) else _formatted(frame, part) for part in node.parts)
    if len(text) > MAX_ITEMS:
        message = f"this text has {len(text)} characters, at most {MAX_ITEMS} are kept"
        raise fault("E_CONSTANT_ARITHMETIC", message, frame.at(node.span))
    return Const(text)


def _formatted(frame: Frame, part: ast.FormattedValue) -> str:
    value = frame.evaluate(part.value)
    if not isinstance(value, Const):
        return type_text(value)
    known = repr(value.value) if part.conversion in ("r", "a") else value.value
    try:
        if any(int(number) > MAX_WIDTH for number in re.findall("[0-9]{1,9}", part.format_spec or "")):
            raise ValueError
        return format(known, part.format_spec or "")
    except (ValueError, TypeError):
        message = f"`{part.format_spec}` is no format for {type_text(value)}"
        raise fault("E_FORMAT", message, frame.at(part.span), "in this text") from None


EXPRESSIONS: Mapping[type, Callable[[Frame, Any], Value]] = {
    ast.Name: evaluate_name,
    ast.Constant: evaluate_constant,
    ast.UnaryOp: evaluate_unary,
    ast.BinOp: evaluate_binary,
    ast.Compare: evaluate_compare,
    ast.BoolOp: evaluate_bool,
    ast.Ternary: evaluate_ternary,
    ast.Call: evaluate_call,
    ast.Attribute: evaluate_attribute,
    ast.Subscript: evaluate_subscript,
    ast.Slice: evaluate_slice,
    ast.Tuple: evaluate_sequence,
    ast.List: evaluate_sequence,
    ast.Dict: evaluate_dict,
    ast.JoinedStr: evaluate_fstring,
}
