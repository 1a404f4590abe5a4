"""Every construct of Python and every name of Triton is taken, or refused by name; no error code is without a test."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from kernbench.cli.errors import all_errors
from kernbench.compiler.errors import ERRORS
from kernbench.compiler.modules import UNSUPPORTED
from kernbench.compiler.parse import parse
from kernbench.explain.index import explanations
from tests.compiler.syntax_help import errors, kernel, source
from tests.language.running import refused

# Python's nodes that may stand in a function: a text that has one, and whether the grammar takes it.
CONSTRUCTS: dict[str, tuple[str, bool]] = {
    "FunctionDef": ("def f():\n    pass", False),
    "AsyncFunctionDef": ("async def f():\n    pass", False),
    "ClassDef": ("class A:\n    x = 1", False),
    "Return": ("return x", True),
    "Delete": ("del x", False),
    "Assign": ("x = 1", True),
    "AugAssign": ("x += 1", True),
    "AnnAssign": ("x: int = 1", True),
    "TypeAlias": ("type X = int", False),
    "For": ("for i in y:\n    pass", True),
    "AsyncFor": ("async for i in y:\n    pass", False),
    "While": ("while x:\n    pass", True),
    "If": ("if x:\n    pass", True),
    "With": ("with x:\n    pass", True),
    "AsyncWith": ("async with x:\n    pass", False),
    "Match": ("match x:\n    case 1:\n        pass", False),
    "Raise": ("raise x", True),
    "Try": ("try:\n    pass\nfinally:\n    pass", False),
    "TryStar": ("try:\n    pass\nexcept* E:\n    pass", False),
    "Assert": ("assert x", True),
    "Import": ("import x", False),
    "ImportFrom": ("from x import y", False),
    "Global": ("global x", False),
    "Nonlocal": ("nonlocal x", False),
    "Expr": ("x", True),
    "Pass": ("pass", True),
    "Break": ("while x:\n    break", False),
    "Continue": ("while x:\n    continue", False),
    "BoolOp": ("x and y", True),
    "NamedExpr": ("f(x := 1)", False),
    "BinOp": ("x @ y", True),
    "UnaryOp": ("not x", True),
    "Lambda": ("f(lambda: 1)", False),
    "IfExp": ("x if y else z", True),
    "Dict": ("{x: 1}", True),
    "Set": ("{x}", False),
    "ListComp": ("[x for x in y]", False),
    "SetComp": ("{x for x in y}", False),
    "DictComp": ("{x: 1 for x in y}", False),
    "GeneratorExp": ("f(x for x in y)", False),
    "Await": ("await x", False),
    "Yield": ("yield x", False),
    "YieldFrom": ("yield from x", False),
    "Compare": ("x < y", True),
    "Call": ("f(x)", True),
    "FormattedValue": ("f'{x}'", True),
    "JoinedStr": ("f'{x} and text'", True),
    "Constant": ("'text'", True),
    "Attribute": ("x.y", True),
    "Subscript": ("x[y]", True),
    "Starred": ("f(*x)", False),
    "Name": ("x", True),
    "List": ("[x]", True),
    "Tuple": ("x, y", True),
    "Slice": ("x[1:2]", True),
    "TemplateStr": ("t'{x}'", False),
    "Interpolation": ("t'{x}'", False),
}


def test_every_node_of_python_has_its_line() -> None:
    nodes = {node.__name__ for kind in (ast.stmt, ast.expr) for node in kind.__subclasses__()}

    assert set() == {name for name in nodes if not name.startswith("_")} - set(CONSTRUCTS)


@pytest.mark.parametrize("name", sorted(CONSTRUCTS))
def test_a_construct_is_taken_or_refused_by_name(name: str) -> None:
    text, taken = CONSTRUCTS[name]

    if taken:
        assert parse(source(kernel(text)))
    elif name not in ("TemplateStr", "Interpolation"):  # later versions of Python have these
        found = errors(kernel(text))
        assert {"E_UNSUPPORTED_SYNTAX"} == {each.code for each in found}
        assert all(each.help for each in found)


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in sorted(UNSUPPORTED.items()) for name in sorted(names)]
)
def test_a_name_of_triton_without_a_meaning_here_is_refused_by_name(module: str, name: str) -> None:
    spoken = f"{module.replace('tl.extra', 'tl.extra.cuda')}.{name}"
    found = refused(f"def k(x_ptr):\n    y = {spoken}\n    tl.store(x_ptr, 1.0)\n", {"x_ptr": np.zeros(4, np.float32)})

    assert "E_UNSUPPORTED_BUILTIN" == found.code
    assert name in found.message


X = {"x_ptr": np.zeros(16, np.float32)}
I = "    i = tl.arange(0, 16)\n"  # noqa: E741


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("E_CLASS_VALUE", "class A:\n    n = 1\n\ndef k(x_ptr):\n    tl.store(x_ptr, A)\n"),
        ("E_DICT_KEY", f"def k(x_ptr):\n{I}    y = tl.load(x_ptr + i)\n    tl.composite(prologue=[{{1: y}}])\n"),
        ("E_FORMAT", "def k(x_ptr, N: tl.constexpr = 3):\n    tl.static_assert(N == 3, f'{N:q}')\n"),
        ("E_FORMAT", "def k(x_ptr, N: tl.constexpr = 3):\n    tl.static_assert(N == 3, f'{N:>99999999999}')\n"),
        ("E_FORMAT", "def k(x_ptr, N: tl.constexpr = 3):\n    tl.static_assert(N == 3, f'{N:.999999999f}')\n"),
        ("E_UNSUPPORTED_VALUE", f"def k(x_ptr):\n{I}    p = tl.reshape(x_ptr + i, (4, 4))\n    tl.store(p, 1.0)\n"),
    ],
)
def test_a_refusal(code: str, text: str) -> None:
    assert code == refused(text, X).code


def test_each_error_is_raised_by_its_example_or_by_a_test_of_its_own() -> None:
    """Examples are run by `tests/cli/test_explain_errors.py`."""
    tests = [path for path in Path(__file__).parents[1].rglob("*.py") if path != Path(__file__)]
    text = "\n".join(path.read_text("utf-8") for path in tests)
    known = explanations()

    assert set() == set(ERRORS) - set(known)
    assert [] == [code for code in all_errors() if known[code].wrong is None and f'"{code}' not in text]
