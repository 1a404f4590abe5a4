"""Wrong texts: every error of a file, at its place, in words that say what to write."""

from __future__ import annotations

import re

import pytest

from kernbench.compiler.errors import ERRORS
from kernbench.compiler.reporter import MAX_ERRORS
from tests.compiler.syntax_help import errors, kernel, shown

UNSUPPORTED = [
    ("x = lambda: 3", "3:5 `lambda`"),
    ("try:\n    pass\nexcept E:\n    pass\nfinally:\n    pass", "3:1 `try`"),
    ("yield x", "3:1 `yield`"),
    ("async def f(): pass", "3:1 `async`"),
    ("x = await y", "3:5 `await`"),
    ("del x", "3:1 `del`"),
    ("global x", "3:1 `global`"),
    ("nonlocal x", "3:1 `nonlocal`"),
    ("for i in range(3):\n    break", "4:5 `break`"),
    ("while a:\n    continue", "4:5 `continue`"),
    ("for i in range(3):\n    pass\nelse:\n    pass", "5:1 `else` on a loop"),
    ("match x:\n    case 1:\n        pass\n    case _:\n        pass", "3:1 `match`"),
    ("match (x):\n    case 1:\n        pass", "3:1 `match`"),
    ("type X = int", "3:1 a `type` statement"),
    ("import os", "3:1 an import in a function"),
    ("from os import path", "3:1 an import in a function"),
    ("def f(x):\n    return x", "3:1 a function in a function"),
    ("@triton.jit\ndef f(x):\n    return x", "3:1 a function in a function"),
    ("class A:\n    x = 1", "3:1 a class in a function"),
    ("x = [i for i in y]", "3:8 a comprehension"),
    ("x = sum(i for i in y)", "3:11 a comprehension"),
    ("x = {i: 1 for i in y}", "3:11 a comprehension"),
    ("f(*a)", "3:3 a starred name or argument"),
    ("f(**a)", "3:3 `**` before an argument"),
    ("a, *b = c", "3:4 a starred name or argument"),
    ("*a, b = c", "3:1 a starred name or argument"),
    ("x = [*a]", "3:6 a starred name or argument"),
    ("if (x := 3): pass", "3:7 `:=`"),
    ("x = {1, 2}", "3:7 a set"),
    ("x = {1}", "3:7 a set"),
    ("x = 1j", "3:5 complex numbers"),
    ("x = b'a'", "3:7 bytes literals"),
    ("x = f'{a:{b}}'", "3:9 fields inside a format"),
]


@pytest.mark.parametrize(("text", "expected"), UNSUPPORTED)
def test_unsupported_constructs_are_named_with_what_to_write(text: str, expected: str) -> None:
    found = errors(kernel(text))

    place, _, construct = expected.partition(" ")
    line, column = map(int, place.split(":"))
    assert [construct] == [re.sub(" (is|are) not supported", "", d.message) for d in found]
    assert found[0].primary is not None
    assert (line, column + 4) == (found[0].primary.span.line, found[0].primary.span.column)
    assert found[0].code == "E_UNSUPPORTED_SYNTAX" and found[0].help


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if a:\n    pass\n", "1:1 `if` at module level is not supported"),
        ("for i in a:\n    pass\nelse:\n    pass\n", "1:1 `for` at module level is not supported"),
        ("x += 1\n", "1:3 `+=` at module level is not supported"),
        ("print(1)\n", "1:1 an expression at module level is not supported"),
        ("def f(): pass\n", "1:5 function `f` has no `@triton.jit` or `@kernel`"),
        ("@foo.bar(1)\n@jit\ndef f(): pass\n", "1:1 the decorator `@foo.bar` is not supported"),
        ("@foo\nclass A:\n    x = 1\n", "1:1 the decorator `@foo` is not supported"),
        ("class A:\n    def f(self): pass\n", "2:9 function `f` has no `@triton.jit` or `@kernel`"),
        ("class A:\n    x = 1\n    f(x)\n", "3:5 an expression in a class is not supported"),
        ("@jit\ndef f(*args): pass\n", "2:8 a starred name or argument is not supported"),
        ("@jit\ndef f(a, *args, b): pass\n", "2:11 a starred name or argument is not supported"),
        ("@jit\ndef f(**args): pass\n", "2:7 `**` before an argument is not supported"),
    ],
)
def test_what_may_stand_outside_of_kernels(text: str, expected: str) -> None:
    assert [f"E_UNSUPPORTED_SYNTAX {expected}"] == shown(text)
    assert errors(text)[0].help


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1 +", "3:8 expected an expression, found the end of the line"),
        ("x = = 1", "3:5 expected an expression, found `=`"),
        ("if a\n    pass", "3:5 expected `:`, found the end of the line"),
        ("f(a b)", "3:5 expected `,` or `)`, found `b`"),
        ("x[a b]", "3:5 expected `,` or `:` or `]`, found `b`"),
        ("x = a if b", "3:11 expected `else`, found the end of the line"),
        ("for i of b:\n    pass", "3:7 expected `in`, found `of`"),
        ("x = 1 2", "3:7 expected the end of the line, found `2`"),
        ("x.1", "3:2 expected the end of the line, found `.1`"),
        ("x.(a)", "3:3 expected a name, found `(`"),
        ("else:\n    pass", "3:1 `else` belongs to no `if`"),
        ("f(", "3:2 `(` is never closed"),
        ("f(a\nx = 1\nreturn", "3:2 `(` is never closed"),
        ("f(a]", "3:4 `]` does not close `(`"),
        ("f(a))", "3:5 `)` closes no bracket"),
        ("x = 'abc", "3:5 this string is never closed"),
        ("x = '''abc", "3:5 this string is never closed"),
        ("x = a ? b : c", "3:7 `?` has no meaning here"),
        ("x = a \\ b", "3:7 `\\` has no meaning here"),
        ("x\u00a0= 1", "3:2 the character U+00A0 (no-break space) has no meaning here"),
        ("x = 1\u200b", "3:6 the character U+200B (zero width space) has no meaning here"),
    ],
)
def test_syntax_errors_say_what_was_expected(text: str, expected: str) -> None:
    line, _, rest = expected.partition(":")
    column, _, message = rest.partition(" ")

    assert [f"E_SYNTAX {line}:{int(column) + 4} {message}"] == shown(kernel(text))


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("f(a) = 3", "E_BAD_TARGET", "a call cannot be assigned to"),
        ("a, f(b) = c", "E_BAD_TARGET", "a call cannot be assigned to"),
        ("3 = a", "E_BAD_TARGET", "a constant cannot be assigned to"),
        ("None = a", "E_BAD_TARGET", "a constant cannot be assigned to"),
        ("a + b = c", "E_BAD_TARGET", "an operation cannot be assigned to"),
        ("a == b = c", "E_BAD_TARGET", "a comparison cannot be assigned to"),
        ("for f(i) in a: pass", "E_BAD_TARGET", "a call cannot be assigned to"),
        ("with a as f(b): pass", "E_BAD_TARGET", "a call cannot be assigned to"),
        ("(a, b) += 1", "E_BAD_TARGET", "a tuple cannot be changed in place"),
        ("a, b: int = 1", "E_SYNTAX", "expected the end of the line, found `:`"),
        ("[a, b]: int = 1", "E_BAD_TARGET", "a list cannot be annotated"),
        ("f(a=1, 2)", "E_ARGUMENT_ORDER", "a positional argument stands behind a keyword argument"),
        ("f(a=1, a=2)", "E_REPEATED_NAME", "keyword `a` is given twice"),
        ("x = 012", "E_BAD_LITERAL", "a decimal number cannot begin with 0"),
        ("x = 1abc", "E_BAD_LITERAL", "`1abc` is no number"),
        ("x = 0xg", "E_BAD_LITERAL", "`0xg` is no number"),
        ("x = 1__0", "E_BAD_LITERAL", "`1__0` is no number"),
        ("x = '\\x4'", "E_BAD_LITERAL", "`\\x` is no complete escape"),
        ("x = '\\N{NO SUCH NAME}'", "E_BAD_LITERAL", "there is no character named `NO SUCH NAME`"),
        ("x = '\\U00110000'", "E_BAD_LITERAL", "`\\U00110000` is beyond the last character, U+10FFFF"),
        ("x = " + "9" * 5000, "E_BAD_LITERAL", "an integer of 5000 digits, at most 4096 bits are read"),
        ("x = 0x" + "f" * 2000, "E_BAD_LITERAL", "an integer of 8000 bits, at most 4096 are read"),
        ("x = f'{}'", "E_BAD_LITERAL", "an f-string's field holds no expression"),
        ("x = f'}'", "E_BAD_LITERAL", "a single `}` in an f-string"),
        ("x = f'{a'", "E_BAD_LITERAL", "this field of an f-string is never closed"),
        ("x = f'{a!x}'", "E_BAD_LITERAL", "a conversion is `!s`, `!r` or `!a`"),
        ("x = f'{a b}'", "E_SYNTAX", "expected `}`, found `b`"),
        ("x = f'{a +}'", "E_SYNTAX", "expected an expression, found `}`"),
        ("x = f'{(a}'", "E_BAD_LITERAL", "`}` does not close the bracket before"),
    ],
)  # fmt: skip
def test_what_lalr_lets_through_is_checked(text: str, code: str, message: str) -> None:
    assert [(code, message)] == [(d.code, d.message) for d in errors(kernel(text))]


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ("a, a", "E_REPEATED_NAME"),
        ("a=1, b", "E_ARGUMENT_ORDER"),
        ("a, *", "E_ARGUMENT_ORDER"),
        ("*, a, *, b", "E_ARGUMENT_ORDER"),
    ],
)
def test_parameters(params: str, code: str) -> None:
    assert [code] == [d.code for d in errors(f"@jit\ndef f({params}): pass\n")]


def test_a_second_place_shows_what_an_error_refers_to() -> None:
    (found,) = errors(kernel("f(a=1, b=2, a=3)"))

    assert [(3, 7)] == [(label.span.line, label.span.column) for label in found.secondary]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("if a && b: pass", "write `and`"),
        ("if a || b: pass", "write `or`"),
        ("if a = b: pass", "`==` compares; one `=` assigns"),
    ],
)
def test_habits_from_other_languages_get_help(text: str, message: str) -> None:
    assert [message] == [d.help for d in errors(kernel(text))]


def test_all_errors_of_a_file_are_told_at_once() -> None:
    text = """\
@triton.jit
def first(a, b c):
    x = 1 +
    if x = 3:
        y = lambda: 3
    elif a b:
        z = (1, 2
        while a:
            break
    return x
for i in range(3):
    pass

@triton.jit
def second(a):
    f(a) = 3
    try:
        g(a=1, 2)
    except E:
        h(*a)
    return 1abc
"""

    assert [
        "E_SYNTAX 2:16 expected `,` or `)` or `:`, found `c`",
        "E_SYNTAX 3:12 expected an expression, found the end of the line",
        "E_SYNTAX 4:10 expected `:`, found `=`",
        "E_UNSUPPORTED_SYNTAX 5:13 `lambda` is not supported",
        "E_SYNTAX 6:12 expected `:`, found `b`",
        "E_SYNTAX 7:13 `(` is never closed",
        "E_UNSUPPORTED_SYNTAX 9:13 `break` is not supported",
        "E_UNSUPPORTED_SYNTAX 11:1 `for` at module level is not supported",
        "E_BAD_TARGET 16:5 a call cannot be assigned to",
        "E_UNSUPPORTED_SYNTAX 17:5 `try` is not supported",
        "E_ARGUMENT_ORDER 18:16 a positional argument stands behind a keyword argument",
        "E_UNSUPPORTED_SYNTAX 20:11 a starred name or argument is not supported",
        "E_BAD_LITERAL 21:12 `1abc` is no number",
    ] == shown(text)


def test_a_file_full_of_errors_stops_after_some() -> None:
    found = errors(kernel("x = = 1\n" * 500))

    assert MAX_ERRORS + 1 == len(found)
    assert "E_TOO_MANY_ERRORS" == found[-1].code


def test_every_code_is_in_the_table() -> None:
    codes = {d.code for text, _ in UNSUPPORTED for d in errors(kernel(text))}

    assert codes <= set(ERRORS)


def test_an_error_is_shown_with_its_line() -> None:
    (found,) = errors(kernel("x = f(a b)"))

    assert """\
error[E_SYNTAX]: expected `,` or `)`, found `b`
 --> k.tl:3:13
  |
3 |     x = f(a b)
  |             ^""" == found.render()
