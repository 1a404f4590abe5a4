"""Say in the user's words why the text cannot go on as it does: the construct that we do not have, or what was
expected.

Does not know how the parser goes on after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernbench.compiler.lalr import LAYOUT, Stop
from kernbench.compiler.lexer import Token
from kernbench.compiler.reporter import Reporter
from kernbench.compiler.tables import REFUSED_WORD, Tables


@dataclass(frozen=True, slots=True)
class Refusal:
    """A Python construct that the language does not have, and what to write instead."""

    construct: str
    instead: str


_HELPER = "write a helper under `@triton.jit` at module level"
_TRY = Refusal("`try`", "a kernel raises nothing; test the condition with `if`")
_ASYNC = "loads are asynchronous already; `tl.wait(h)` waits"
_SCOPE = "a kernel's names are its own; pass values as arguments and return them"
_UNPACK = "write the arguments out one by one"

# Words of Python that the grammar does not use, and words that it uses elsewhere.
_REFUSED_WORDS = {
    "lambda": Refusal("`lambda`", _HELPER),
    "try": _TRY,
    "except": _TRY,
    "finally": _TRY,
    "yield": Refusal("`yield`", "return a tuple"),
    "async": Refusal("`async`", _ASYNC),
    "await": Refusal("`await`", _ASYNC),
    "del": Refusal("`del`", "leave it out; its place in TCM is free after a value's last use"),
    "global": Refusal("`global`", _SCOPE),
    "nonlocal": Refusal("`nonlocal`", _SCOPE),
    "break": Refusal("`break`", "write the condition into the loop: `while running and ...`"),
    "continue": Refusal("`continue`", "put the rest of the loop's body under an `if`"),
}
_IN_FUNCTION = {
    "IMPORT": Refusal("an import in a function", "import at the head of the file"),
    "FROM": Refusal("an import in a function", "import at the head of the file"),
    "DEF": Refusal("a function in a function", _HELPER),
    "DECORATOR": Refusal("a function in a function", _HELPER),
    "CLASS": Refusal("a class in a function", "put its constants at module level"),
}
_STATEMENT_HEADS = ("IF", "FOR", "WHILE", "WITH", "RETURN", "ASSERT", "RAISE")
_SOFT_WORDS = {
    "match": Refusal("`match`", "write `if`, `elif` and `else`"),
    "type": Refusal("a `type` statement", "leave it out"),
}
_STARRED = Refusal("a starred name or argument", _UNPACK)
_DOUBLE_STARRED = Refusal("`**` before an argument", _UNPACK)
_COMPREHENSION = Refusal("a comprehension", "write the elements out, or a loop over `tl.static_range`")
_WALRUS = Refusal("`:=`", "assign on a line of its own")
_SET = Refusal("a set", "write a list or a tuple")
_LOOP_ELSE = Refusal("`else` on a loop", "put what follows the loop after it")

_ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>")
_AUGMENTED = frozenset(f"{op}=" for op in _ARITHMETIC)
# What can stand behind a finished expression. It is named only where nothing else could stand there.
_CONTINUES = _AUGMENTED.union(
    _ARITHMETIC,
    ("==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "not", "is", "if"),
    (".", "(", "[", ",", "=", ";", "from", "as", "->"),
)
_BRACKETS = frozenset(("LPAR", "RPAR", "LSQB", "RSQB", "LBRACE", "RBRACE"))
_SHOWN_KINDS = {
    "_NEWLINE": "the end of the line",
    "_DEDENT": "the end of the block",
    "$END": "the end of the file",
    "DECORATOR": "a decorator",
    "NAME": "a name",
}
_OTHER_LANGUAGES = {"&": "write `and`", "|": "write `or`", "=": "`==` compares; one `=` assigns"}


class SyntaxErrors:
    """Words the errors of one file."""

    def __init__(self, tables: Tables, reporter: Reporter) -> None:
        self.literals, self.reporter = tables.literals, reporter

    def report(self, stop: Stop) -> None:
        """Say what is wrong where the parser stopped."""
        refused = next(filter(None, (rule(stop) for rule in _REFUSALS)), None)
        token = _line_head(stop) if refused in _SOFT_WORDS.values() else stop.token
        span = self.reporter.span(token[2], token[3])
        if refused is not None:
            message = f"{refused.construct} is not supported"
            self.reporter.report("E_UNSUPPORTED_SYNTAX", message, span, help=refused.instead)
        elif token[0] == "_INDENT":
            self._indentation(stop, "this line is indented, but no block begins here", "indent it as the line above")
        elif "_INDENT" in stop.expected():
            self._indentation(stop, "expected an indented block", "indent the lines of the block")
        elif token[0] in ("ELSE", "ELIF") and stop.at_line_start:
            self.reporter.report("E_SYNTAX", f"`{token[1]}` belongs to no `if`", span)
        else:
            message = f"expected {self._expected(stop)}, found {_found(token)}"
            self.reporter.report("E_SYNTAX", message, span, help=_other_language(stop))

    def _indentation(self, stop: Stop, message: str, help_line: str) -> None:
        following = stop.tokens[stop.index + (stop.token[0] == "_INDENT")]
        span = self.reporter.span(following[2], following[3])
        self.reporter.report("E_INDENTATION", message, span, help=help_line)

    def _expected(self, stop: Stop) -> str:
        kinds = stop.expected()
        if "INTEGER" in kinds:
            return "a statement" if stop.at_line_start else "an expression"
        if "_NEWLINE" in kinds:
            return _SHOWN_KINDS["_NEWLINE"]
        if "$END" in kinds:  # of an expression in an f-string
            return "`}`"
        texts = {self.literals[kind] for kind in kinds if kind in self.literals}
        shown = sorted(texts - _CONTINUES) or sorted(texts)
        if "in" in texts and "not" not in texts:  # behind the target of a loop, where nothing is compared
            shown = ["in"]
        if "," in texts and texts & {")", "]", "}"}:
            shown.insert(0, ",")
        names = [_SHOWN_KINDS[kind] for kind in sorted(kinds) if kind in _SHOWN_KINDS]
        return " or ".join([f"`{text}`" for text in shown] + names)


def _found(token: Token) -> str:
    if not token[1]:
        return _SHOWN_KINDS[token[0]]
    first_line = token[1].partition("\n")[0]
    return f"`{first_line[:30]}`" if len(first_line) <= 30 else f"`{first_line[:30]}...`"


def _other_language(stop: Stop) -> str | None:
    """The help for what other languages write."""
    text = stop.token[1]
    if text == "=":
        return _OTHER_LANGUAGES["="] if _line_head(stop)[0] in ("IF", "ELIF", "WHILE", "ASSERT") else None
    return _OTHER_LANGUAGES.get(text) if stop.before is not None and stop.before[1] == text else None


def _line_head(stop: Stop, index: int | None = None) -> Token:
    """The first token of the line of the stop, or of another token."""
    index = stop.index if index is None else index
    while index and stop.tokens[index - 1][0] not in LAYOUT:
        index -= 1
    return stop.tokens[index]


def _head_before(stop: Stop) -> Token | None:
    """The first token of the statement before, which may have a block."""
    index, depth = stop.index - 1, 0
    while index > 0 and (depth or stop.tokens[index][0] in LAYOUT):
        depth += (stop.tokens[index][0] == "_DEDENT") - (stop.tokens[index][0] == "_INDENT")
        index -= 1
    return _line_head(stop, index) if index >= 0 else None


def _line_last(stop: Stop) -> Token:
    index = stop.index
    while stop.tokens[index][0] not in ("_NEWLINE", "$END"):
        index += 1
    return stop.tokens[max(index - 1, 0)]


# ---- one function for each way to know a construct; None where it is not that one


def _refused_word(stop: Stop) -> Refusal | None:
    return _REFUSED_WORDS.get(stop.token[1]) if stop.token[0] == REFUSED_WORD else None


def _out_of_place(stop: Stop) -> Refusal | None:
    """A statement where only others may stand."""
    kind, text = stop.token[:2]
    symbols = stop.symbols()
    if "DEF" in symbols:
        return _IN_FUNCTION.get(kind) if stop.at_line_start else None
    if "CLASS" in symbols:
        return _only_constants(kind, text, "in a class", stop)
    return _only_constants(kind, text, "at module level", stop)


def _only_constants(kind: str, text: str, where: str, stop: Stop) -> Refusal | None:
    help_line = "assign constants here and put the rest into a function"
    if (kind in _STATEMENT_HEADS and stop.at_line_start) or text in _AUGMENTED:
        return Refusal(f"`{text}` {where}", help_line)
    return None


def _soft_word(stop: Stop) -> Refusal | None:
    head = _line_head(stop)
    if head is stop.token or head[0] != "NAME":
        return None
    is_statement = head[1] == "type" if stop.before is head else _line_last(stop)[1] == ":"
    is_statement = is_statement or (head[1] == "match" and stop.before is head and _line_last(stop)[1] == ":")
    return _SOFT_WORDS.get(head[1]) if is_statement else None


def _star(stop: Stop) -> Refusal | None:
    token = stop.token
    if token[1] in ("*", "**") and "NAME" in stop.expected():
        return _STARRED if token[1] == "*" else _DOUBLE_STARRED
    is_param = token[0] == "NAME" and stop.before is not None and stop.before[1] == "*"  # no product stops here
    return _STARRED if is_param else None


def _walrus(stop: Stop) -> Refusal | None:
    following = stop.tokens[min(stop.index + 1, len(stop.tokens) - 1)]
    for colon, equals in ((stop.before, stop.token), (stop.token, following)):
        if colon is not None and colon[1] == ":" and equals[1] == "=" and colon[3] == equals[2]:
            return _WALRUS
    return None


def _comprehension(stop: Stop) -> Refusal | None:
    brackets = [symbol for symbol in stop.symbols() if symbol in _BRACKETS]
    is_open = bool(brackets) and brackets[-1].startswith("L")
    return _COMPREHENSION if stop.token[0] == "FOR" and is_open else None


def _set(stop: Stop) -> Refusal | None:
    is_set = stop.symbols()[-2:] == ["LBRACE", "test"] and stop.token[1] in (",", "}")
    return _SET if is_set else None


def _loop_else(stop: Stop) -> Refusal | None:
    if stop.token[0] != "ELSE" or not stop.at_line_start:
        return None
    head = _head_before(stop)
    return _LOOP_ELSE if head is not None and head[0] in ("FOR", "WHILE") else None


_REFUSALS: tuple[Callable[[Stop], Refusal | None], ...] = (
    _refused_word,
    _out_of_place,
    _soft_word,
    _star,
    _walrus,
    _comprehension,
    _set,
    _loop_else,
)
