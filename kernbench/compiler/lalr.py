"""Drive the LALR tables over tokens, build values on the way, and go on after an error.

After an error the statement in hand is given up, and reading goes on at the next one; a block under a broken line
is read as if a sound line stood above it. Does not know what the nodes are or how an error is worded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kernbench.compiler.lexer import END_OF_FILE, ERROR, Token
from kernbench.compiler.tables import Rule, Tables

MAX_DEPTH = 100  # of a tree; later passes walk trees by recursion

# Nonterminals at which reading can go on, and whether their value is a list, as of all rules that begin with `_`.
_RESUME = {"statement": False, "_module_part": True, "_class_line": True}
LAYOUT = frozenset(("_NEWLINE", "_INDENT", "_DEDENT"))
# Words that go on after a block; behind a block that was given up they are no errors of their own, nor is the
# rest of a line whose word comes only with such a block.
_CONTINUING = frozenset(("else", "elif", "except", "finally", "case"))
_NEVER_ALONE = frozenset(("except", "case"))
# What is read in place of a broken line that has a block: (kind, text) for each token.
_IF_HEADER = (("IF", "if"), ("NAME", "x"), ("COLON", ":"), ("_NEWLINE", ""))
_DEF_HEADER = (
    ("DECORATOR", "kernel"), ("_NEWLINE", ""), ("DEF", "def"), ("NAME", "x"),
    ("LPAR", "("), ("RPAR", ")"), ("COLON", ":"), ("_NEWLINE", ""),
)  # fmt: skip

Reduction = Callable[..., Any]


class Observer(Protocol):
    """Who makes the values and words the errors."""

    def syntax_error(self, stop: Stop) -> None: ...

    def too_deep(self, start: int, end: int) -> Exception:
        """What to raise where a tree is deeper than `MAX_DEPTH`."""

    def filler(self, start: int, end: int) -> Any:
        """The value of a statement that was given up."""

    def action(self, name: str) -> tuple[Reduction, bool]:
        """The function of a rule, and whether its value is one level deeper than its children."""


class Stop:
    """A place at which no action fits, for who words the error."""

    def __init__(self, tables: Tables, states: list[int], tokens: list[Token], index: int) -> None:
        self._tables, self._states = tables, list(states)
        self.tokens, self.index = tokens, index

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    @property
    def before(self) -> Token | None:
        return self.tokens[self.index - 1] if self.index else None

    @property
    def at_line_start(self) -> bool:
        return self.before is None or self.before[0] in LAYOUT

    def symbols(self) -> list[str]:
        """What was read and not yet reduced away, outermost first."""
        accessing = {to: symbol for row in self._tables.states for symbol, to in row.items() if to >= 0}
        return [accessing[state] for state in self._states[1:]]

    def expected(self) -> frozenset[str]:
        """The terminals that could stand here, each tried out to its shift."""
        row = self._tables.states[self._states[-1]]
        return frozenset(kind for kind in row if not kind.islower() and self._accepts(kind))

    def _accepts(self, kind: str) -> bool:
        states, rows, rules = list(self._states), self._tables.states, self._tables.rules
        while (code := rows[states[-1]].get(kind)) is not None:
            if code >= 0:
                return True
            rule = rules[-1 - code]
            del states[len(states) - rule.length :]
            states.append(rows[states[-1]][rule.origin])
        return False


class Machine:
    """The tables made ready for one observer; serves any number of parses."""

    def __init__(self, tables: Tables, observer: Observer) -> None:
        self.tables, self.observer = tables, observer
        self.reductions = [_reduction(rule, observer) for rule in tables.rules]

    def parse(self, tokens: list[Token], start: str) -> Any:
        """The value of the start symbol; after an error it holds fillers, or is None."""
        return _Parser(self).parse(tokens, start)


class _Parser:
    """Parses one list of tokens, which an error may make it edit."""

    def __init__(self, machine: Machine) -> None:
        self.tables, self.observer = machine.tables, machine.observer
        self.reductions = machine.reductions
        self.states: list[int] = []
        # For each symbol on the stack: its value, first and last offset, and how deep its tree is.
        self.values: list[Any] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.depths: list[int] = []
        self.recovered_at = -1

    def parse(self, tokens: list[Token], start: str) -> Any:
        rows, states, reductions = self.tables.states, self.states, self.reductions
        shortcuts = self.tables.shortcuts
        states.append(self.tables.starts[start])
        index = 0
        while True:
            token = tokens[index]
            kind = token[0]
            code = rows[states[-1]].get(kind)
            while code is not None and code < 0:
                if reductions[-1 - code][2] is None:
                    key = (states[-2], states[-1], kind)
                    states[-1] = shortcuts.get(key) or self._shortcut(key)
                else:
                    self._reduce(-1 - code, token[2])
                code = rows[states[-1]].get(kind)
            if code is None:
                resumed = self._recover(tokens, index)
                if resumed is None:
                    return None
                index = resumed
            elif kind == END_OF_FILE:
                return self.values[-1]
            else:
                self._push(code, token, token[2], token[3], 0)
                index += 1

    def _shortcut(self, key: tuple[int, int, str]) -> int:
        """The state after all reductions that only pass a value on: four of five in an expression's grammar."""
        below, state, kind = key
        rows = self.tables.states
        while (code := rows[state].get(kind)) is not None and code < 0:
            origin, _, make, _ = self.reductions[-1 - code]
            if make is not None:
                break
            state = rows[below][origin]
        self.tables.shortcuts[key] = state
        return state

    def _push(self, state: int, value: Any, start: int, end: int, depth: int) -> None:
        self.states.append(state)
        self.values.append(value)
        self.starts.append(start)
        self.ends.append(end)
        self.depths.append(depth)

    def _reduce(self, number: int, next_start: int) -> None:
        origin, length, make, grows = self.reductions[number]
        states, values, depths = self.states, self.values, self.depths
        if make is None:  # the one child's value, place and depth stay
            states[-1] = self.tables.states[states[-2]][origin]
            return
        if not length:
            state = self.tables.states[states[-1]][origin]
            self._push(state, make(values, 0, next_start, next_start), next_start, next_start, 0)
            return
        start, end = self.starts[-length], self.ends[-1]
        depth = max(depths[-length:]) + grows
        if depth > MAX_DEPTH:
            raise self.observer.too_deep(start, end)
        value = make(values, length, start, end)
        if length > 1:
            drop = 1 - length
            del states[drop:], values[drop:], self.starts[drop:], self.ends[drop:], depths[drop:]
        states[-1] = self.tables.states[states[-2]][origin]
        values[-1], self.ends[-1], depths[-1] = value, end, depth

    # ---- after an error

    def _recover(self, tokens: list[Token], index: int) -> int | None:
        """Report, give up the statement in hand, and say at which token to go on."""
        self._finish(tokens[index][2])
        stop = Stop(self.tables, self.states, tokens, index)
        if stop.token[0] != ERROR and not (self.recovered_at >= 0 and _continues(stop)):
            self.observer.syntax_error(stop)
        lacks_block = "_INDENT" in self.tables.states[self.states[-1]]
        symbol = self._unwind()
        if symbol is None or (index == self.recovered_at and stop.token[0] == END_OF_FILE):
            return None
        forced = index == self.recovered_at
        self.recovered_at = index
        kind = stop.token[0]
        if kind == "_INDENT":
            return _drop_indent(tokens, index)
        if not forced and (lacks_block or kind in ("_DEDENT", END_OF_FILE)):
            self._fill(symbol, stop.token)
            return index
        after = _head_end(tokens, index)
        if tokens[after][0] != "_INDENT":
            self._fill(symbol, stop.token)
            return after
        return self._block_without_head(symbol, tokens, index, after)

    def _finish(self, start: int) -> None:
        """Reduce what is complete whatever follows, so that an error is not blamed on what came before."""
        while len(codes := set(self.tables.states[self.states[-1]].values())) == 1 and max(codes) < 0:
            self._reduce(-1 - codes.pop(), start)

    def _block_without_head(self, symbol: str, tokens: list[Token], index: int, indent: int) -> int:
        """Read a block whose line is broken as that of another, or skip it where it could be anything."""
        header: tuple[tuple[str, str], ...] = _IF_HEADER if symbol == "statement" else ()
        if symbol == "_module_part" and any(t[0] == "DEF" for t in _line_tokens(tokens, index)):
            header = _DEF_HEADER
        if not header:
            self._fill(symbol, tokens[index])
            return _matching_dedent(tokens, indent) + 1
        place = tokens[indent][2]
        tokens[indent:indent] = [(kind, text, place, place) for kind, text in header]
        return indent

    def _unwind(self) -> str | None:
        """Drop what was read since the last place at which reading can go on."""
        closed = 0  # blocks whose end was read: nothing can go on inside them
        while True:
            row = self.tables.states[self.states[-1]]
            symbol = next((symbol for symbol in _RESUME if symbol in row), None)
            if symbol is not None and not closed:
                return symbol
            if not self.values:
                return None
            closed += _nesting(self.values[-1])
            for stack in (self.states, self.values, self.starts, self.ends, self.depths):
                stack.pop()

    def _fill(self, symbol: str, token: Token) -> None:
        value = self.observer.filler(token[2], token[3])
        state = self.tables.states[self.states[-1]][symbol]
        self._push(state, [value] if _RESUME[symbol] else value, token[2], token[3], 0)


def _continues(stop: Stop) -> bool:
    line = _line_tokens(stop.tokens, stop.index)
    never_alone = bool(line) and line[0][1] in _NEVER_ALONE
    return never_alone or (stop.at_line_start and stop.token[1] in _CONTINUING)


def _nesting(value: Any) -> int:
    """1 for the token that closes a block, -1 for the one that opens it."""
    kind = value[0] if isinstance(value, tuple) and value else None
    return int(kind == "_DEDENT") - int(kind == "_INDENT")


def _line_end(tokens: list[Token], index: int) -> int:
    """The place behind the line that holds a token."""
    while tokens[index][0] not in ("_NEWLINE", END_OF_FILE):
        index += 1
    return index + (tokens[index][0] == "_NEWLINE")


def _head_end(tokens: list[Token], index: int) -> int:
    """The place behind the line that holds a token; behind a decorator's line, also behind what it decorates."""
    after = _line_end(tokens, index)
    while tokens[index][0] == "DECORATOR" and tokens[after][0] in ("DECORATOR", "DEF", "CLASS"):
        index, after = after, _line_end(tokens, after)
    return after


def _line_tokens(tokens: list[Token], index: int) -> list[Token]:
    first = index
    while first and tokens[first - 1][0] not in LAYOUT:
        first -= 1
    return tokens[first : _line_end(tokens, index)]


def _matching_dedent(tokens: list[Token], indent: int) -> int:
    depth, index = 1, indent
    while depth:
        index += 1
        depth += (tokens[index][0] == "_INDENT") - (tokens[index][0] == "_DEDENT")
    return index


def _drop_indent(tokens: list[Token], indent: int) -> int:
    """Read the lines of a block that belongs to nothing as if they were not indented."""
    del tokens[_matching_dedent(tokens, indent)]
    del tokens[indent]
    return indent


# origin, length, function of (values, length, start, end) or None where the child passes through, and 1 if
# the value is deeper than its children
_Row = tuple[str, int, Callable[[list[Any], int, int, int], Any] | None, int]


def _reduction(rule: Rule, observer: Observer) -> _Row:
    if rule.action == "":
        return rule.origin, 1, None, 0
    children = _children(rule)
    if rule.action is None:
        return rule.origin, rule.length, lambda values, n, start, end: children(values, n), 0
    make, grows = observer.action(rule.action)

    def reduce(values: list[Any], length: int, start: int, end: int) -> Any:
        return make(start, end, *children(values, length))

    return rule.origin, rule.length, reduce, int(grows)


def _children(rule: Rule) -> Callable[[list[Any], int], list[Any]]:
    """How to pick a rule's children off the top of the value stack."""
    length, keep, splice = rule.length, rule.keep, rule.splice
    if rule.action is None and keep and keep[0] == 0 and splice[0]:
        return _growing_list(length, keep[1:], splice[1:])
    if any(splice):
        return lambda values, n: _spliced([], values, length, keep, splice)
    if not keep:
        return lambda values, n: []
    if len(keep) == length:
        return lambda values, n: values[-n:]
    offsets = tuple(place - length for place in keep)
    return lambda values, n: [values[offset] for offset in offsets]


def _growing_list(
    length: int, keep: tuple[int, ...], splice: tuple[bool, ...]
) -> Callable[[list[Any], int], list[Any]]:
    """Repetition appends to the list so far, or long files would take quadratic time."""
    return lambda values, n: _spliced(values[-length], values, length, keep, splice)


def _spliced(
    into: list[Any], values: list[Any], length: int, keep: tuple[int, ...], splice: tuple[bool, ...]
) -> list[Any]:
    base = len(values) - length
    for place, is_list in zip(keep, splice, strict=True):
        if is_list:
            into.extend(values[base + place])
        else:
            into.append(values[base + place])
    return into
