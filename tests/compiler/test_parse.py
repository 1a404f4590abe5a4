"""What parses, and to which tree."""

from __future__ import annotations

import ast as python_ast
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from kernbench.compiler import ast
from kernbench.compiler.ast_printer import print_ast, unparse
from kernbench.diagnostics import Span
from tests.compiler.syntax_help import WHOLE, body, expression, kernel, module, tree


def test_every_construct_parses_here_and_in_python() -> None:
    python_ast.parse(WHOLE)

    assert ["kernel"] == [function.name for function in module(WHOLE).functions]


def test_a_file_in_its_parts() -> None:
    whole = module(WHOLE)

    assert "A file with one of everything." == whole.docstring
    assert ["triton", "tl", "kernbench", "m", "libdevice", "a", "c", "*"] == [i.bound for i in whole.imports]
    assert ["triton.language", "..helpers"] == [whole.imports[1].module, whole.imports[5].module]
    assert 3 == len(whole.constants)
    assert "Codes." == whole.classes[0].docstring
    assert 2 == len(whole.classes[0].constants) == len(whole.classes[0].bases)


def test_a_function_in_its_parts() -> None:
    (function,) = module(WHOLE).functions

    assert ("triton.autotune", "triton.jit") == function.decorators
    assert "Documented." == function.docstring
    assert [False, True, False, True] == [param.is_constexpr for param in function.params]
    assert [False, False, False, True] == [param.keyword_only for param in function.params]
    assert [False, False, True, True] == [param.default is not None for param in function.params]
    assert isinstance(function.returns, ast.Constant)


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("a + b * c", "a + (b * c)"),
        ("a - b - c", "(a - b) - c"),
        ("-a ** -b", "-(a ** (-b))"),
        ("a ** b ** c", "a ** (b ** c)"),
        ("not a == b", "not (a == b)"),
        ("a or b and not c", "a or (b and (not c))"),
        ("a | b ^ c & d << e + f", "a | (b ^ (c & (d << (e + f))))"),
        ("a if b else c if d else e", "a if b else (c if d else e)"),
        ("a < b + 1", "a < (b + 1)"),
        ("a @ b % c", "(a @ b) % c"),
        ("~a.b[0](c)", "~(((a.b)[0])(c))"),
    ],
)
def test_precedence_is_pythons(text: str, grouped: str) -> None:
    assert tree(kernel(text)) == tree(kernel(grouped))
    assert python_ast.dump(python_ast.parse(text)) == python_ast.dump(python_ast.parse(grouped))


def test_a_chained_comparison_is_one_node() -> None:
    found = expression("a < b <= c is not None")

    assert isinstance(found, ast.Compare)
    assert ("<", "<=", "is not") == found.ops


def test_a_chain_of_or_is_one_node() -> None:
    found = expression("a or b or c")

    assert isinstance(found, ast.BoolOp)
    assert 3 == len(found.values)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (":", (False, False, False)),
        ("a:", (True, False, False)),
        (":a", (False, True, False)),
        ("a:b", (True, True, False)),
        ("::a", (False, False, True)),
        ("a::b", (True, False, True)),
        (":a:", (False, True, False)),
        ("a:b:c", (True, True, True)),
    ],
)
def test_slices(text: str, parts: tuple[bool, bool, bool]) -> None:
    found = expression(f"x[{text}]")

    assert isinstance(found, ast.Subscript) and isinstance(found.index, ast.Slice)
    bounds = (found.index.lower, found.index.upper, found.index.step)
    assert parts == tuple(bound is not None for bound in bounds)


@pytest.mark.parametrize(
    "text",
    ["0", "00", "1_0", "0xFf", "0b_10", "0o7", "1.", ".5", "1e3", "1_0.0_1e-1_0", "0.0", "01.5", "0e0"],
)
def test_numbers_have_pythons_value(text: str) -> None:
    found = expression(text)

    assert isinstance(found, ast.Constant)
    expected = python_ast.literal_eval(text)
    assert (type(expected), expected) == (type(found.value), found.value)


@pytest.mark.parametrize(
    "text",
    [
        "''", "'a\\n\\x41\\101\\u00e9\\N{BULLET}'", 'r"\\d\\""', "u'x'", "'''a\n'b' \"\"\" '''", "'a' \"b\"",
        "'\\\n'", "'\\q'", '"""\\"""" ""', "''''a'''", "R'\\\\'",
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_strings_have_pythons_value(text: str) -> None:
    found = expression(f"(1, {text})") if "\n" not in text else None
    value = found.elements[1] if isinstance(found, ast.Tuple) else _constant_on_lines(text)

    assert isinstance(value, ast.Constant)
    assert python_ast.literal_eval(text) == value.value


def _constant_on_lines(text: str) -> ast.Expr:
    (statement,) = module(f"@jit\ndef k():\n    return {text}\n").functions[0].body
    assert isinstance(statement, ast.Return) and statement.value is not None
    return statement.value


@pytest.mark.parametrize(
    "text",
    [
        "f''", "f'a'", "f'{a}'", "f'{a}{b}'", "f'{{{a}}}'", "f'{a!r:>4}'", "f'{a=}'", "f'{a = }'", "f'{a=!s}'",
        "f'{a=:4}'", "f'{a==b}'", "f'{a!=b}'", "f'{(a)}'", "f'{x[1:2]}'", "f'{a:%d}'", "'x' f'{a}' 'y'",
        "f'\\N{BULLET}{a}\\n'", "rf'\\{a}'", "f\"{'}'}\"", "f'{ {1: 2}[1] }'", "f'{a if b else c}'", "f'{a:}'",
        "f'{a, b!r}'", "f\"{f'{a}'}\"",
    ],
)  # fmt: skip
def test_f_strings_are_taken_apart_as_by_python(text: str) -> None:
    found = body(f"return {text}")[0]
    python = python_ast.parse(text, mode="eval").body

    assert isinstance(found, ast.Return) and isinstance(found.value, ast.JoinedStr)
    assert isinstance(python, python_ast.JoinedStr)
    ours = [part if isinstance(part, str) else _field(part) for part in found.value.parts]
    assert [_python_part(part) for part in python.values] == ours


def _field(part: ast.FormattedValue) -> tuple[str | None, str | None]:
    return part.conversion, part.format_spec


def _python_part(part: python_ast.expr) -> object:
    if isinstance(part, python_ast.Constant):
        return part.value
    assert isinstance(part, python_ast.FormattedValue)
    conversion = None if part.conversion < 0 else chr(part.conversion)
    spec = part.format_spec
    assert spec is None or isinstance(spec, python_ast.JoinedStr)
    return conversion, None if spec is None else "".join(v.value for v in spec.values)  # type: ignore[attr-defined]


def test_names_are_compared_in_normal_form() -> None:
    found = expression("ﬁ")

    assert isinstance(found, ast.Name)
    assert "fi" == found.id


def test_spans_are_pythons() -> None:
    ours = {(type(node).__name__, node.span.line, node.span.column) for node in _nodes(module(WHOLE))}
    python = python_ast.parse(WHOLE)
    (function,) = (node for node in python.body if isinstance(node, python_ast.FunctionDef))
    function.decorator_list.clear()  # skipped by us
    kinds = (python_ast.BinOp, python_ast.Call, python_ast.Name, python_ast.If, python_ast.For, python_ast.Assign)
    theirs = {
        (type(node).__name__, node.lineno, node.col_offset + 1)
        for node in python_ast.walk(python)
        if isinstance(node, kinds) and WHOLE.splitlines()[node.lineno - 1].find('f"') < 0  # imprecise in 3.11
    }

    assert set() == theirs - ours
    assert 80 < len(theirs)


def test_ends_are_pythons() -> None:
    (ours,) = module(WHOLE).functions
    (theirs,) = (n for n in python_ast.parse(WHOLE).body if isinstance(n, python_ast.FunctionDef))
    pairs = [
        (a.span.end_line, a.span.end_column, b.end_lineno, (b.end_col_offset or 0) + 1)
        for a, b in zip(ours.body, theirs.body[1:], strict=True)
    ]

    assert pairs == [(c, d, c, d) for _, _, c, d in pairs]


def _nodes(node: Any) -> Iterator[Any]:
    if not is_dataclass(node) or isinstance(node, Span):
        return
    yield node
    for field in fields(node):
        value = getattr(node, field.name)
        for child in value if isinstance(value, tuple) else (value,):
            yield from _nodes(child)


def test_printing_and_parsing_gives_the_same_tree() -> None:
    printed = unparse(module(WHOLE))

    python_ast.parse(printed)
    assert tree(WHOLE) == tree(printed)
    assert printed == unparse(module(printed))


def test_the_printed_tree_shows_places_where_asked() -> None:
    assert "  @1:1\n" in print_ast(module("A = 1\n"), places=True)
    assert "@" not in print_ast(module("A = 1\n"))
