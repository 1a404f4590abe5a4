"""Damage to kernel texts and to the arguments of their launches, drawn from one generator of random numbers.

Knows texts as tokens, as lines and as Python's trees. Does not know what a kernel means.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.case import Case

TOKEN = re.compile(
    r"\"\"\"[\s\S]*?\"\"\"|\"[^\"\n]*\"|'[^'\n]*'|#[^\n]*|[^\W\d]\w*|\d+\.?\d*(?:[eE][+-]?\d+)?"
    r"|\*\*=?|//=?|<<=?|>>=?|[<>=!+\-*/%&|^@]=|->|\n[ \t]*|[ \t]+|[\s\S]"
)
NAME = re.compile(r"[^\W\d]\w*\Z")
NUMBERS = (
    "0", "-1", "1", "2", "3", "7", "16", "31", "33", "0.5", "-0.0", "1e30", "1e400", "1e-320", "2147483647",
    "-2147483648", "4294967296", "9223372036854775807", "18446744073709551616", "1" + "0" * 40, "0x7f", "0b1", "1_0",
    "True", "None", '"fp16"', "float('nan')", "float('inf')", "1j",
)  # fmt: skip
OPERATORS = (
    "+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>", "<", ">", "<=", ">=", "==", "!=", "and", "or",
    "is", "in", "not in", "=", "+=", "*=", "//=", "**=", ",", ".", ":", "->", ":=", "if", "else",
)  # fmt: skip
ODD = (
    "\r", "\r\n", "\t", "\f", "\0", "\x1b", "\ufeff", "\u00a0", "\u2028", "é", "ﬁ", "𝐱", "²", "٣", "\u202e", "\ud800",
    "\\", "\\\n", "`", "$", "?", "!", ";", "“", "−", "×", "😀", "#", "'''", '"""', "f'{x!r:>{n}}'", "lambda: 0",
)  # fmt: skip
WORDS = (
    "if", "else", "elif", "for", "while", "return", "pass", "assert", "with", "def", "class", "import", "from",
    "lambda", "try", "yield", "await", "global", "del", "not", "None", "True", "tl", "tl.constexpr", "tl.float16",
    "tl.int1", "tl.int64", "tl.uint8", "tl.float8e4nv", "tl.float64", "tl.zeros", "tl.arange", "tl.dot", "tl.load",
    "tl.store", "tl.sum", "tl.static_range", "tl.program_id", "range", "[:, None]", "[None]", "[0]", "[...]", ".T",
    ".to", ".dtype", ".shape", "()", "(,)", "{}", "*", "**",
)  # fmt: skip
BRACKETS = "()[]{}"

Mutation = Callable[[Random, str], str]


def tokens_of(text: str) -> list[str]:
    return TOKEN.findall(text)


# Tokens


def _delete(rng: Random, tokens: list[str]) -> None:
    start = rng.randrange(len(tokens))
    del tokens[start : start + rng.choice((1, 1, 1, 2, 5))]


def _duplicate(rng: Random, tokens: list[str]) -> None:
    start = rng.randrange(len(tokens))
    tokens[start:start] = tokens[start : start + rng.choice((1, 1, 2, 5, 20))]


def _swap(rng: Random, tokens: list[str]) -> None:
    first, second = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    tokens[first], tokens[second] = tokens[second], tokens[first]


def _one_of(rng: Random, tokens: list[str], fits: Callable[[str], bool]) -> int:
    """The place of a token that fits, or any place where none does."""
    places = [index for index, token in enumerate(tokens) if fits(token)]
    return rng.choice(places or range(len(tokens)))


def _is_name(token: str) -> bool:
    return NAME.match(token) is not None


def _rename(rng: Random, tokens: list[str]) -> None:
    names = sorted({token for token in tokens if _is_name(token)}) or ["x"]
    tokens[_one_of(rng, tokens, _is_name)] = rng.choice(names)


def _number(rng: Random, tokens: list[str]) -> None:
    tokens[_one_of(rng, tokens, lambda token: token[0].isdigit())] = rng.choice(NUMBERS)


def _name_to_number(rng: Random, tokens: list[str]) -> None:
    tokens[_one_of(rng, tokens, _is_name)] = rng.choice(NUMBERS)


def _operator(rng: Random, tokens: list[str]) -> None:
    tokens[_one_of(rng, tokens, lambda token: token in OPERATORS)] = rng.choice(OPERATORS)


def _bracket(rng: Random, tokens: list[str]) -> None:
    place = _one_of(rng, tokens, lambda token: token in BRACKETS)
    tokens[place] = rng.choice(("", *BRACKETS, tokens[place] * 2, "(" * 120))


def _insert_word(rng: Random, tokens: list[str]) -> None:
    tokens.insert(rng.randrange(len(tokens) + 1), rng.choice((" ", "")) + rng.choice(WORDS) + " ")


def _insert_odd(rng: Random, tokens: list[str]) -> None:
    tokens.insert(rng.randrange(len(tokens) + 1), rng.choice(ODD))


def _on_tokens(change: Callable[[Random, list[str]], None]) -> Mutation:
    def mutate(rng: Random, text: str) -> str:
        tokens = tokens_of(text) or [""]
        change(rng, tokens)
        return "".join(tokens)

    return mutate


# Lines


def _lines(change: Callable[[Random, list[str]], None]) -> Mutation:
    def mutate(rng: Random, text: str) -> str:
        lines = text.split("\n")
        change(rng, lines)
        return "\n".join(lines)

    return mutate


def _drop_line(rng: Random, lines: list[str]) -> None:
    del lines[rng.randrange(len(lines))]


def _move_line(rng: Random, lines: list[str]) -> None:
    lines.insert(rng.randrange(len(lines)), lines.pop(rng.randrange(len(lines))))


def _repeat_line(rng: Random, lines: list[str]) -> None:
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))


def _indent_line(rng: Random, lines: list[str]) -> None:
    place = rng.randrange(len(lines))
    lines[place] = rng.choice(("    ", "\t", " ", "        ")) + lines[place]


def _dedent_line(rng: Random, lines: list[str]) -> None:
    place = rng.randrange(len(lines))
    lines[place] = lines[place][rng.choice((1, 4)) :]


def _put_in_block(rng: Random, lines: list[str]) -> None:
    """A line under a header of its own."""
    place = rng.randrange(len(lines))
    body = lines[place].lstrip()
    indent = lines[place][: len(lines[place]) - len(body)]
    header = rng.choice(
        (
            "if tl.program_id(0) == 0:", "if 0:", "for _ in range(3):", "for _ in tl.static_range(2):", "while False:",
            "with tl.scratch_scope():", "for _ in range(0):", "while tl.program_id(0) < 0:",
        )
    )  # fmt: skip
    lines[place : place + 1] = [indent + header, f"{indent}    {body}"]


def _line_ends(rng: Random, text: str) -> str:
    return text.replace("\n", rng.choice(("\r\n", "\r", "\n\n", "\n\t")), rng.choice((-1, 1, 3)))


def _cut(rng: Random, text: str) -> str:
    return text[: rng.randrange(len(text) + 1)]


# Trees


def _places(text: str, kinds: tuple[type[ast.AST], ...]) -> list[tuple[int, int]]:
    """Where nodes of these kinds begin and end in the text; none where Python cannot read it, or counts other lines."""
    if "\r" in text:
        return []
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line.encode("utf-8", "surrogatepass")) + 1)
    raw = text.encode("utf-8", "surrogatepass")
    found = []
    for node in ast.walk(tree):
        if isinstance(node, kinds) and getattr(node, "end_lineno", None) is not None:
            place: Any = node
            begin = starts[place.lineno - 1] + place.col_offset
            end = starts[place.end_lineno - 1] + place.end_col_offset
            found.append((len(raw[:begin].decode("utf-8", "replace")), len(raw[:end].decode("utf-8", "replace"))))
    return sorted(set(found))


def _graft(rng: Random, text: str) -> str:
    """One expression in another's place."""
    places = _places(text, (ast.expr,))
    if not places:
        return _cut(rng, text)
    (begin, end), (first, last) = rng.choice(places), rng.choice(places)
    return f"{text[:begin]}{text[first:last]}{text[end:]}"


def _wrap(rng: Random, text: str) -> str:
    """An expression inside of a call, a subscript or an operator."""
    places = _places(text, (ast.expr,))
    if not places:
        return _cut(rng, text)
    begin, end = rng.choice(places)
    form = rng.choice(
        (
            "tl.sum({})", "tl.max({}, axis=0)", "tl.exp({})", "({})[:, None]", "({})[None, :]", "({}).to(tl.float16)",
            "({}).to(tl.int8)", "-({})", "not ({})", "~({})", "({}, 1)", "[{}]", "tl.trans({})", "tl.load({})",
            "tl.constexpr({})", "({}) + 1", "({}) * 0.5", "({}) % 3", "1 // ({})", "({}) << 40", "({}) ** 2",
            "tl.where({0} > 0, {0}, 0)", "tl.reshape({}, (2, -1))", "tl.cdiv({}, 0)", "tl.dot({0}, {0})", "int({})",
            "float({})", "len({})", "({}).T", "tl.broadcast_to({}, (16, 16))", "tl.cumsum({}, 0)", "tl.cat({0}, {0})",
            "tl.sort({})", "tl.argmax({}, 0)", "{} if tl.program_id(0) else 0", "{{'op': {}}}", "tl.join({0}, {0})",
        )
    )  # fmt: skip
    return text[:begin] + form.format(text[begin:end]) + text[end:]


def _swap_arguments(rng: Random, text: str) -> str:
    calls = _places(text, (ast.Call,))
    if not calls:
        return _cut(rng, text)
    begin, end = rng.choice(calls)
    head, _, inner = text[begin:end].partition("(")
    parts = inner.removesuffix(")").split(", ")
    rng.shuffle(parts)
    if rng.random() < 0.3:
        parts = parts[1:]
    return f"{text[:begin]}{head}({', '.join(parts)}){text[end:]}"


def _drop_statement(rng: Random, text: str) -> str:
    places = _places(text, (ast.stmt,))
    if not places:
        return _cut(rng, text)
    begin, end = rng.choice(places)
    return text[:begin] + rng.choice(("pass", "return", "")) + text[end:]


def _repeat_statement(rng: Random, text: str) -> str:
    """A whole statement, with what is in it, a second time at another place of the same indentation."""
    places = _places(text, (ast.stmt,))
    if not places:
        return _cut(rng, text)
    (begin, end), (there, _) = rng.choice(places), rng.choice(places)
    indent = text[text.rfind("\n", 0, there) + 1 : there]
    return f"{text[:there]}{text[begin:end]}\n{indent}{text[there:]}"


ON_TEXT: tuple[tuple[Mutation, int], ...] = (
    *((_on_tokens(each), 2) for each in (_delete, _duplicate, _swap, _bracket, _insert_word, _insert_odd)),
    *((_on_tokens(each), 8) for each in (_rename, _number, _name_to_number, _operator)),
    *((_lines(each), 3) for each in (_drop_line, _move_line, _repeat_line, _put_in_block)),
    *((_lines(each), 1) for each in (_indent_line, _dedent_line)),
    (_line_ends, 1),
    (_cut, 1),
    *((each, 10) for each in (_graft, _wrap)),
    *((each, 4) for each in (_swap_arguments, _drop_statement, _repeat_statement)),
)

# Arguments

VALUES: tuple[Any, ...] = (
    0, 1, -1, 3, 17, 1 << 20, 1 << 31, -(1 << 31), 1 << 40, -(1 << 63), 1 << 70, 0.5, -0.0, 1e30, 1e300, float("nan"),
    float("inf"), True, False, None, "relu", "", (1, 2), (), np.int8(3), np.float16(2), np.uint64((1 << 64) - 1),
)  # fmt: skip
ARRAY_TYPES = (
    np.float32, np.float16, np.float64, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64, np.bool_,
    np.complex64,
)  # fmt: skip


def _other_array(rng: Random, array: Any) -> Any:
    change = rng.randrange(5)
    if change == 0:
        with np.errstate(all="ignore"):
            return array.astype(np.float64).astype(rng.choice(ARRAY_TYPES))
    if change == 1:
        return array.reshape(-1)[: rng.choice((0, 1, 3, 16))].copy()
    if change == 2:
        return array.T
    if change == 3:
        return array.reshape(-1)[::-1] if rng.random() < 0.5 else array.reshape(-1)[::2]
    return np.zeros((), array.dtype)


def _other_inputs(rng: Random, case: Case) -> Case:
    inputs = dict(case.inputs)
    name = rng.choice(sorted(inputs))
    if rng.random() < 0.2:
        other = rng.choice(sorted(inputs))
        inputs[name], inputs[other] = inputs[other], inputs[name]
    elif isinstance(inputs[name], np.ndarray) and rng.random() < 0.8:
        inputs[name] = _other_array(rng, inputs[name])
    else:
        inputs[name] = rng.choice(VALUES)
    return replace(case, inputs=inputs)


def mutate_text(rng: Random, text: str) -> str:
    changes, weights = zip(*ON_TEXT, strict=True)
    for change in rng.choices(changes, weights, k=rng.choice((1, 1, 1, 2, 3))):
        text = change(rng, text)
    return text


def mutated(rng: Random, case: Case) -> Case:
    """The case with one to three changes of its text, or of what it is launched with."""
    if rng.random() < 0.12:
        return _other_inputs(rng, case)
    changed = replace(case, text=mutate_text(rng, case.text))
    return _other_inputs(rng, changed) if rng.random() < 0.05 else changed
