"""Cut a source text into the tokens of the grammar, and turn its layout into tokens.

A token is `(kind, text, start, end)` with offsets into the text. What is no token becomes a diagnostic and one
ERROR token, at which the parser goes on silently. Does not know which tokens may follow which.
"""

from __future__ import annotations

import ast as python_ast
import re
import unicodedata
import warnings

from kernbench.compiler.reporter import Reporter
from kernbench.compiler.tables import END, MARK, UNKNOWN, Tables

Token = tuple[str, str, int, int]

ERROR = "$ERROR"
END_OF_FILE = "$END"
MAX_BRACKETS = 100  # Python's own parser stops at 200
MAX_BLOCKS = 90  # Python's own parser stops at 100

_CLOSING = {")": "(", "]": "[", "}": "{"}
_OPENING = frozenset(_CLOSING.values())
# Words that only begin a statement: at the head of a line they show that a bracket above was never closed.
_STATEMENT_WORDS = frozenset(
    (
        "def", "class", "return", "while", "with", "assert", "raise", "import", "pass", "elif",
        "try", "except", "finally", "del", "global", "nonlocal", "break", "continue",
    )
)  # fmt: skip
_BLANK_LINES = re.compile(r"(?:[ \t\f]*(?:#[^\n]*)?\n)*(?P<indent>[ \t\f]*)")
_DECORATOR_NAME = re.compile(r"@[ \t]*(?P<name>[^\W\d]\w*(?:[ \t]*\.[ \t]*[^\W\d]\w*)*)")
_WORD = re.compile(r"\w*")


class Lexer:
    """Reads one file, or one bracketed piece of it (an f-string's expression)."""

    def __init__(self, tables: Tables, reporter: Reporter) -> None:
        self.tables, self.reporter, self.source = tables, reporter, reporter.source
        self.text = self.source.text
        self.tokens: list[Token] = []
        self.brackets: list[tuple[str, int, int]] = []  # mark, offset, how many tokens come before
        self.indents: list[tuple[int, int]] = [(0, 0)]  # width with tabs of 8, width with tabs of 1
        self.end = len(self.text)  # of the last token that is not layout

    def file(self) -> list[Token]:
        """All tokens of the file with its layout."""
        position = self._line_start(0)
        while position is not None:
            position = self._line(position)
        for _ in self.indents[1:]:
            self._layout("_DEDENT")
        self._layout(END_OF_FILE)
        return self.tokens

    def piece(self, start: int, end: int) -> list[Token]:
        """The tokens of a part that stands in brackets of its own."""
        self.brackets.append(("{", start, 0))
        self._scan(start, end)
        self.tokens.append((END_OF_FILE, self.text[end], end, end + 1))
        return self.tokens

    def _line(self, start: int) -> int | None:
        """Read one logical line and the layout before the next; None at the end of the file."""
        if self.text.startswith("\\\n", start):
            self._fault("a line cannot begin with a backslash", start, start + 1, "join it to the line before")
        end = self._decorator(start) if self.text[start] == "@" else self._scan(start, len(self.text))
        self._layout("_NEWLINE")
        return self._line_start(end)

    def _line_start(self, position: int) -> int | None:
        """Skip blank lines and comments; say by tokens how the next line is indented."""
        lines = _BLANK_LINES.match(self.text, position)
        assert lines is not None
        start = lines.end()
        if start == len(self.text) or self.text[start] == "#":
            return None
        indent = lines["indent"].rpartition("\f")[2]
        if self.source.indents:
            indent = indent.removeprefix(self.source.indents.get(self.source.position(start)[0], ""))
        self._indent(_widths(indent), start)
        return start

    def _indent(self, width: tuple[int, int], start: int) -> None:
        deeper = width[0] > self.indents[-1][0]
        if deeper and width[1] > self.indents[-1][1]:
            self.indents.append(width)
            self._layout("_INDENT")
            if len(self.indents) > MAX_BLOCKS:
                raise self.reporter.too_deep("blocks", MAX_BLOCKS, self.source.span(start, start + 1))
            return
        while width[0] < self.indents[-1][0]:
            self.indents.pop()
            self._layout("_DEDENT")
        if width == self.indents[-1]:
            return
        message, help_line = "tabs and spaces do not line up with the lines around", "indent by spaces only"
        if not deeper and width[0] != self.indents[-1][0]:
            message, help_line = "this line is indented like no block around it", "indent it as the lines before"
        self._report("E_INDENTATION", message, start, start + 1, help_line)

    def _scan(self, position: int, limit: int) -> int:
        """Read to the end of the logical line or of the text; return where the next line begins."""
        match, words, text = self.tables.scan.match, self.tables.words, self.text
        push, brackets = self.tokens.append, self.brackets
        while True:
            found = match(text, position, limit)
            assert found is not None, "the scanner has a group for every character"
            kind = found.lastgroup
            assert kind is not None
            start, position = found.span(kind)
            if kind == "NAME":
                word = text[start:position]
                kind = words.get(word, "NAME")
                if word in _STATEMENT_WORDS and brackets and self._begins_line(start):
                    return self._unclosed(start)
                if not word.isascii():
                    word = self._unicode_name(word, start, position)
                push((kind, word, start, position))
            elif kind == MARK:
                mark = text[start:position]
                if mark in _OPENING:
                    self._open(mark, start)
                elif mark in _CLOSING and not self._close(mark, start):
                    kind = ERROR
                push((words[mark] if kind == MARK else kind, mark, start, position))
            elif kind == "_NEWLINE":
                if not brackets:
                    return position
                continue
            elif kind == END:
                self._check_end(start, limit)
                return start
            elif kind == UNKNOWN:
                push((ERROR, text[start:position], start, position))
                position = self._unknown(start, limit)
            else:
                position = self._literal(kind, start, position)
            self.end = position

    def _literal(self, kind: str, start: int, end: int) -> int:
        """A number or string; a number may not run into a word, which would read as two tokens."""
        rest = _WORD.match(self.text, end)
        assert rest is not None
        if kind == "STRING" or rest.end() == end:
            self.tokens.append((kind, self.text[start:end], start, end))
            return end
        whole = self.text[start : rest.end()]
        self._report("E_BAD_LITERAL", f"`{whole[:40]}` is no number", start, rest.end())
        self.tokens.append((ERROR, whole, start, rest.end()))
        return rest.end()

    def _unicode_name(self, word: str, start: int, end: int) -> str:
        """Names are compared in their normal form, as Python does."""
        if not word.isidentifier():
            self._fault(f"`{word}` is no name", start, end, "use letters, digits and `_`")
        return unicodedata.normalize("NFKC", word)

    def _open(self, mark: str, start: int) -> None:
        self.brackets.append((mark, start, len(self.tokens)))
        if len(self.brackets) > MAX_BRACKETS:
            raise self.reporter.too_deep("brackets", MAX_BRACKETS, self.source.span(start, start + 1))

    def _close(self, mark: str, start: int) -> bool:
        """Whether the bracket fits; where it does not, the brackets that it leaves open are given up."""
        if self.brackets and self.brackets[-1][0] == _CLOSING[mark]:
            self.brackets.pop()
            return True
        if not self.brackets:
            self._report("E_SYNTAX", f"`{mark}` closes no bracket", start, start + 1)
            return False
        opening, opened, _ = self.brackets[-1]
        span = self.source.span(start, start + 1)
        other = self.source.label(self.source.span(opened, opened + 1), "opened here")
        self.reporter.report("E_SYNTAX", f"`{mark}` does not close `{opening}`", span, other)
        while self.brackets and self.brackets.pop()[0] != _CLOSING[mark]:
            pass
        return False

    def _begins_line(self, start: int) -> bool:
        line_start = self.text.rfind("\n", 0, start) + 1
        return not self.text[line_start:start].strip()

    def _unclosed(self, next_line: int) -> int:
        """Report the innermost open bracket and go on at a line that can only be a new statement."""
        mark, opened, first = self.brackets[-1]
        self._report("E_SYNTAX", f"`{mark}` is never closed", opened, opened + 1)
        self.tokens[first:] = [(ERROR, mark, opened, opened + 1)]
        self.brackets.clear()
        return self.text.rfind("\n", 0, next_line) + 1

    def _check_end(self, start: int, limit: int) -> None:
        """The end may come neither in brackets nor right after a backslash."""
        if limit < len(self.text):
            return
        if self.brackets:
            self._unclosed(start)
        elif self.text[:start].rstrip(" \t\f").endswith("\\\n"):
            self._fault("the file ends where a backslash says that the line goes on", start - 1, start)

    def _unknown(self, start: int, limit: int) -> int:
        """Report a character that begins no token; return where to go on."""
        mark = self.text[start]
        line_end = self.text.find("\n", start, limit)
        line_end = limit if line_end < 0 else line_end
        if mark in "'\"":
            triple = self.text.startswith(mark * 3, start)
            self._report("E_SYNTAX", "this string is never closed", start, start + (3 if triple else 1))
            return limit if triple else line_end
        shown = f"`{mark}`" if mark.isascii() and mark.isprintable() else _character_name(mark)
        help_line = None
        if mark == "\\":
            help_line = "a backslash joins lines only where it is the last character of its line"
        self._report("E_SYNTAX", f"{shown} has no meaning here", start, start + 1, help_line)
        return start + 1

    def _decorator(self, start: int) -> int:
        """Skip a decorator by its brackets; Python's own parser says whether it is one."""
        name = _DECORATOR_NAME.match(self.text, start)
        first = len(self.tokens)
        end = self._scan(start + 1, len(self.text))
        skipped = self.tokens[first:]
        del self.tokens[first:]
        text = self.text[start + 1 : self.end]
        if all(token[0] != ERROR for token in skipped) and not _is_python_decorator(text):
            self._report("E_SYNTAX", "this decorator is no expression", start, self.end)
        dotted = "".join(name["name"].split()) if name else ""
        self.tokens.append(("DECORATOR", dotted, start, self.end))
        return end

    def _layout(self, kind: str) -> None:
        self.tokens.append((kind, "", self.end, self.end))

    def _fault(self, message: str, start: int, end: int, help_line: str | None = None) -> None:
        self._report("E_SYNTAX", message, start, end, help_line)
        self.tokens.append((ERROR, "", start, end))

    def _report(self, code: str, message: str, start: int, end: int, help_line: str | None = None) -> None:
        self.reporter.report(code, message, self.source.span(start, end), help=help_line)


def _widths(indent: str) -> tuple[int, int]:
    """Python measures twice, with tab stops of 8 and of 1, and wants both to agree."""
    if "\t" not in indent:
        return len(indent), len(indent)
    return len(indent.expandtabs(8)), len(indent)


def _character_name(mark: str) -> str:
    return f"the character U+{ord(mark):04X} ({unicodedata.name(mark, 'without a name').lower()})"


def _is_python_decorator(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            python_ast.parse(f"@{text}\ndef f(): pass\n")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
