"""Turn grammar/kernel.lark into the tables of the lexer and the LALR parser, once.

lark reads the grammar and makes the tables; they are kept beside the grammar as plain JSON, because making them
takes ten times as long as reading them. A file that was not made from the grammar as it stands is not used.
Does not know texts or trees.
"""

from __future__ import annotations

import hashlib
import json
import keyword
import re
import sys
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from kernbench.data_files import data_dir

FORMAT = 1
START_SYMBOLS = ("module", "tests")
REFUSED_WORD = "$REFUSED"  # a word of Python's that the grammar has no use for
MARK, END, UNKNOWN = "MARK", "END", "UNKNOWN"  # groups of the scanner that are no terminals


@dataclass(frozen=True, slots=True)
class Rule:
    """How the children of one reduction become a value."""

    origin: str
    length: int
    keep: tuple[int, ...]  # places of the children that the action gets
    splice: tuple[bool, ...]  # for each kept child: it is a list, whose items are children too
    action: str | None  # name of the function that builds; None collects a list, "" passes the one child on


@dataclass(frozen=True, slots=True)
class Tables:
    scan: re.Pattern[str]  # ignored text, then one named group
    words: dict[str, str]  # keyword or literal -> terminal
    literals: dict[str, str]  # terminal -> the text that it stands for
    rules: tuple[Rule, ...]
    states: tuple[dict[str, int], ...]  # symbol -> next state, or -1 - rule to reduce by
    starts: dict[str, int]
    # What the parser found out about (state below, state, terminal); depends on nothing but the tables.
    shortcuts: dict[tuple[int, int, str], int] = field(default_factory=dict)


@cache
def load() -> Tables:
    """The tables of the grammar that comes with the package."""
    grammar = data_dir("grammar") / "kernel.lark"
    text = grammar.read_text(encoding="utf-8")
    kept = stored_path()
    data = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    fresh = data.get("format") == FORMAT and data.get("grammar") == _digest(text)
    return _tables(data if fresh else generate(text))


def stored_path() -> Path:
    return data_dir("grammar") / "kernel.tables.json"


def generate(grammar: str) -> dict[str, Any]:
    """The tables as plain data, made by lark."""
    from lark import Lark  # only here: reading stored tables must not cost the import
    from lark import grammar as lark_grammar
    from lark.lexer import TerminalDef

    lark = Lark(grammar, parser="lalr", lexer="basic", start=list(START_SYMBOLS), maybe_placeholders=False)
    stored, memo = lark.memo_serialize([TerminalDef, lark_grammar.Rule])
    parser, lexer = stored["parser"]["parser"], stored["parser"]["lexer_conf"]
    rules = [reference["@"] for reference in stored["rules"]]
    terminals = [memo[reference["@"]] for reference in lexer["terminals"]]
    return {
        "format": FORMAT,
        "grammar": _digest(grammar),
        "ignored": [t["pattern"]["value"] for t in terminals if t["name"] in lexer["ignore"]],
        "terminals": [_terminal(t) for t in terminals if t["name"] not in lexer["ignore"]],
        "rules": [_rule(memo[number]) for number in rules],
        **_automaton(parser, {number: index for index, number in enumerate(rules)}),
    }


def _digest(grammar: str) -> str:
    return hashlib.sha256(grammar.encode()).hexdigest()


def _terminal(stored: dict[str, Any]) -> dict[str, Any]:
    pattern = stored["pattern"]
    is_literal = pattern["__type__"] == "PatternStr"
    text = pattern["value"]
    return {"name": stored["name"], "literal": is_literal, "text": text, "priority": stored["priority"]}


def _rule(stored: dict[str, Any]) -> dict[str, Any]:
    symbols = stored["expansion"]
    keep_all = stored["options"]["keep_all_tokens"]
    keep = [i for i, symbol in enumerate(symbols) if keep_all or not symbol.get("filter_out")]
    origin, alias = stored["origin"]["name"], stored["alias"]
    action = alias or origin
    if alias is None and origin.startswith("_"):
        action = None
    elif alias is None and stored["options"]["expand1"] and len(keep) == 1:
        action = ""
    splice = [symbols[i]["name"].startswith("_") and symbols[i]["name"].islower() for i in keep]
    assert action != "" or (len(symbols) == 1 and not splice[0]), f"{origin} cannot pass its child on"
    return {"origin": origin, "length": len(symbols), "keep": keep, "splice": splice, "action": action}


def _automaton(parser: dict[str, Any], rules: dict[int, int]) -> dict[str, Any]:
    """Start states and rows, numbered in the order in which a walk from the starts meets them.

    lark's own numbers differ from process to process.
    """
    symbols, rows = parser["tokens"], parser["states"]
    todo = [parser["start_states"][start] for start in START_SYMBOLS]
    order = {old: new for new, old in enumerate(todo)}
    table: list[dict[str, int]] = []
    for old in todo:  # grows while it is walked
        row = sorted(((symbols[i], *action) for i, action in rows[old].items()), key=itemgetter(0))
        for _, reduce, to in row:
            if not reduce and to not in order:
                order[to] = len(order)
                todo.append(to)
        table.append({name: -1 - rules[to["@"]] if reduce else order[to] for name, reduce, to in row})
    for end in parser["end_states"].values():
        table[order[end]]["$END"] = order[end]  # where the start symbol is complete
    return {"starts": {start: number for number, start in enumerate(START_SYMBOLS)}, "states": table}


def _tables(data: dict[str, Any]) -> Tables:
    terminals = data["terminals"]
    literals = {sys.intern(t["name"]): t["text"] for t in terminals if t["literal"]}
    words = {text: name for name, text in literals.items()}
    words |= {word: REFUSED_WORD for word in keyword.kwlist if word not in words}
    return Tables(
        scan=_scanner(terminals, data["ignored"]),
        words=words,
        literals=literals,
        rules=tuple(
            Rule(r["origin"], r["length"], tuple(r["keep"]), tuple(r["splice"]), r["action"]) for r in data["rules"]
        ),
        states=tuple({sys.intern(symbol): to for symbol, to in row.items()} for row in data["states"]),
        starts=data["starts"],
    )


def _scanner(terminals: list[dict[str, Any]], ignored: list[str]) -> re.Pattern[str]:
    """One pattern for the next token: the highest priority first, and of literals the longest."""
    shaped = [t for t in terminals if not t["literal"]]
    shaped.sort(key=lambda t: (-t["priority"], t["name"]))
    marks = [t["text"] for t in terminals if t["literal"] and not t["text"].isalpha()]
    marks.sort(key=lambda text: (-len(text), text))
    groups = [f"(?P<{t['name']}>{t['text']})" for t in shaped]
    groups.append(f"(?P<{MARK}>{'|'.join(map(re.escape, marks))})")
    groups.append(f"(?P<{END}>\\Z)")
    groups.append(f"(?P<{UNKNOWN}>[\\s\\S])")
    return re.compile(f"(?:{'|'.join(ignored)})*(?:{'|'.join(groups)})")


def main() -> None:
    """Write the tables of the grammar beside it."""
    data = generate((data_dir("grammar") / "kernel.lark").read_text(encoding="utf-8"))
    tables = json.dumps(data["states"]).replace("}, {", "},\n{")
    head = {key: value for key, value in data.items() if key != "states"}
    text = json.dumps(head, indent=None).replace("}, {", "},\n{")
    stored_path().write_text(f'{text[:-1]},\n"states": {tables}}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
