"""Read string literals: join neighbours, take f-strings apart.

The expressions of an f-string go back to the parser by their place in the file. Does not know statements.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import groupby
from typing import Literal, cast

from kernbench.compiler import ast
from kernbench.compiler.lexer import Token
from kernbench.compiler.literals import BadLiteral, split_string, unescape
from kernbench.compiler.reporter import Reporter
from kernbench.diagnostics import Span

Part = str | ast.FormattedValue
Conversion = Literal["s", "r", "a"]

_PAIRS = {"(": ")", "[": "]", "{": "}"}
_COMPARES = frozenset(("==", "!=", "<=", ">="))


class _BadString(Exception):
    """The string is not read further; the reason is reported."""


class StringReader:
    """`parse_piece` reads the expression between two offsets of the file; None where it is no expression."""

    def __init__(self, reporter: Reporter, parse_piece: Callable[[int, int], ast.Expr | None]) -> None:
        self.reporter, self.parse_piece = reporter, parse_piece
        self.text = reporter.source.text

    def join(self, tokens: Sequence[Token], span: Span) -> ast.Constant | ast.JoinedStr:
        """One node of all neighbouring literals."""
        parts: list[Part] = []
        is_format = False
        for _, text, start, _ in tokens:
            prefix, quote_end, body_end = split_string(text)
            is_format = is_format or "f" in prefix
            try:
                parts.extend(self._body(prefix, start + quote_end, start + body_end))
            except _BadString:
                continue  # so that the strings after it are read too
        merged = _merge(parts)
        if is_format:
            return ast.JoinedStr(merged, span)
        return ast.Constant("".join(part for part in merged if isinstance(part, str)), span)

    def _body(self, prefix: str, start: int, end: int) -> Iterator[Part]:
        if "b" in prefix:
            raise self._refuse("bytes literals", start, end, "use numbers or a string")
        if "f" in prefix:
            return self._format(start, end, "r" in prefix)
        return iter((self._plain(start, end, "r" in prefix),))

    def _plain(self, start: int, end: int, raw: bool) -> str:
        body = self.text[start:end]
        try:
            return body if raw else unescape(body)
        except BadLiteral as fault:
            raise self._bad(str(fault), start, end) from None

    def _format(self, start: int, end: int, raw: bool) -> Iterator[Part]:
        """The parts of an f-string's body."""
        text, position = self.text, start
        while position < end:
            mark = text[position]
            if mark not in "{}":
                stop = self._plain_end(position, end, raw)
                yield self._plain(position, stop, raw)
                position = stop
            elif text.startswith(mark * 2, position, end):
                yield mark
                position += 2
            elif mark == "}":
                raise self._bad("a single `}` in an f-string", position, position + 1, "write `}}` for a brace")
            else:
                position = yield from self._field(position, end, raw)

    def _plain_end(self, position: int, end: int, raw: bool) -> int:
        r"""Where the text up to the next brace ends; the braces of `\N{...}` belong to the text."""
        text = self.text
        while position < end and text[position] not in "{}":
            if text[position] != "\\" or raw:
                position += 1
            elif text.startswith("N{", position + 1):
                close = text.find("}", position, end)
                position = end if close < 0 else close + 1
            else:
                position += 1 if text[position + 1] in "{}" else 2
        return min(position, end)

    def _field(self, start: int, end: int, raw: bool) -> Generator[Part, None, int]:
        """`{value=!conversion:spec}`; the generator's result is the place behind it."""
        value_end = self._expression_end(start, end)
        position = self._equals_end(value_end, end)
        conversion, position = self._conversion(position, end)
        spec, close = self._spec(position, end, raw)
        if not self.text.startswith("}", close, end):
            raise self._bad("this field of an f-string is never closed", start, start + 1)
        if not self.text[start + 1 : value_end].strip():
            raise self._bad("an f-string's field holds no expression", start, close + 1)
        value = self.parse_piece(start + 1, value_end)
        if value is None:
            raise _BadString
        if self.text[value_end] == "=":
            yield self.text[start + 1 : position if conversion is None else position - 2]
            conversion = conversion or ("r" if spec is None else None)
        yield ast.FormattedValue(value, conversion, spec, self.reporter.span(start, close + 1))
        return close + 1

    def _equals_end(self, position: int, end: int) -> int:
        """Behind the `=` of a field that shows its own text, and the blanks after it."""
        if self.text[position] != "=":
            return position
        position += 1
        while position < end and self.text[position].isspace():
            position += 1
        return position

    def _conversion(self, position: int, end: int) -> tuple[Conversion | None, int]:
        if not self.text.startswith("!", position, end):
            return None, position
        name = self.text[position + 1]
        if name not in "sra":
            raise self._bad("a conversion is `!s`, `!r` or `!a`", position, position + 2)
        return cast(Conversion, name), position + 2

    def _spec(self, position: int, end: int, raw: bool) -> tuple[str | None, int]:
        if not self.text.startswith(":", position, end):
            return None, position
        close = self.text.find("}", position, end)
        close = end if close < 0 else close
        if "{" in self.text[position:close]:
            raise self._refuse("fields inside a format", position, close, "write the format as plain text")
        return self._plain(position + 1, close, raw), close

    def _expression_end(self, start: int, end: int) -> int:
        """The place of the `}`, `:`, `!` or `=` that ends a field's expression."""
        text, position = self.text, start + 1
        open_brackets: list[str] = []
        while position < end:
            mark = text[position]
            if mark in "\\#":
                what = "a backslash" if mark == "\\" else "a comment"
                help_line = "bind the value to a name before"
                raise self._refuse(f"{what} in an f-string's expression", position, position + 1, help_line)
            if mark in "'\"":
                position = self._string_end(position, end)
            elif mark in _PAIRS:
                open_brackets.append(mark)
                position += 1
            elif open_brackets and mark in _PAIRS.values():
                if _PAIRS[open_brackets.pop()] != mark:
                    raise self._bad(f"`{mark}` does not close the bracket before", position, position + 1)
                position += 1
            elif not open_brackets and text[position : position + 2] in _COMPARES:
                position += 2
            elif not open_brackets and mark in "}:!=":
                return position
            else:
                position += 1
        raise self._bad("this field of an f-string is never closed", start, start + 1)

    def _string_end(self, start: int, end: int) -> int:
        """Where a string in a field ends; it may hold neither quotes nor invisible characters."""
        mark = self.text[start]
        quote = mark * 3 if self.text.startswith(mark * 3, start, end) else mark
        close = self.text.find(quote, start + len(quote), end)
        if close < 0:
            raise self._bad("this string is never closed", start, start + 1)
        body = self.text[start + len(quote) : close]
        if not body.isprintable() or "'" in body or '"' in body:
            help_line = "bind the string to a name before"
            raise self._refuse("quotes or line ends in an f-string's strings", start, close, help_line)
        return close + len(quote)

    def _bad(self, message: str, start: int, end: int, help_line: str | None = None) -> _BadString:
        self.reporter.report("E_BAD_LITERAL", message, self.reporter.span(start, end), help=help_line)
        return _BadString()

    def _refuse(self, what: str, start: int, end: int, help_line: str) -> _BadString:
        span = self.reporter.span(start, end)
        self.reporter.report("E_UNSUPPORTED_SYNTAX", f"{what} are not supported", span, help=help_line)
        return _BadString()


def _merge(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Neighbouring texts become one; empty ones go."""
    merged: list[Part] = []
    for is_text, group in groupby(parts, lambda part: isinstance(part, str)):
        if is_text:
            text = "".join(part for part in group if isinstance(part, str))
            merged.extend([text] if text else [])
        else:
            merged.extend(group)
    return tuple(merged)
