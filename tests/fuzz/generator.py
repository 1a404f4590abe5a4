"""Random kernels out of the rules of grammar/kernel.lark, with pieces that mean something in many places.

Knows productions and how layout is written. What the pieces mean is in `idioms.py`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from lark import Lark

from kernbench.compiler.builtins import BUILTINS
from kernbench.data_files import data_dir
from tests.fuzz.case import Case
from tests.fuzz.idioms import HEAD, HELPERS, KINDS, PARAMS, Words

Production = tuple[str, ...]
FUNCTIONS = sorted(name for name in BUILTINS if name.startswith(("tl.", "libdevice.", "math.")))
ARGUMENTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("axis", "dim"), ("0", "0", "1", "-1", "None")),
    **dict.fromkeys(("dtype", "out_dtype", "element_ty"), ("tl.float32", "tl.float16", "tl.int8", "tl.int32", "x_ptr")),
    **dict.fromkeys(("shape", "block_shape"), ("(BLOCK,)", "(BLOCK, BLOCK)", "(1, BLOCK)", "BLOCK", "()")),
    **dict.fromkeys(
        ("pointer", "ptr", "base"), ("x_ptr + offs", "c_ptr + offs", "y_ptr", "x_ptr + places", "x_ptr + n")
    ),
    **dict.fromkeys(("mask", "cond", "condition"), ("inside", "offs < n", "FLAG == 1", "places < n", "None")),
    **dict.fromkeys(("combine_fn",), ("larger", "pick", "both")),
    **dict.fromkeys(("seed", "start", "num_bins", "k", "n_rounds"), ("0", "n", "BLOCK", "3")),
    **dict.fromkeys(("end",), ("BLOCK", "16", "n")),
    **dict.fromkeys(("keep_dims", "reverse", "descending", "return_indices"), ("True", "False", "FLAG")),
    **dict.fromkeys(("to", "source"), ("0", "n", "(0, 0, 0)")),
}
LITERALS: dict[str, tuple[str, ...]] = {
    "INTEGER": ("0", "1", "2", "3", "16", "0x1F", "1_000", "0b101", "4294967296"),
    "FLOAT": ("0.5", "1e-3", "2.", ".25", "1e300"),
    "IMAGINARY": ("1j", "2.5J"),
    "STRING": ('"fp16"', "'a'", '"""text"""', "f'{n}'", "r'\\d'", "b'x'", '"relu"'),
    "DECORATOR": ("@triton.jit", "@kernel", "@triton.jit(debug=True)", "@triton.autotune(configs=[], key=[])"),
}


@dataclass(frozen=True)
class Grammar:
    """`heights`: of each symbol, how deep its least deep derivation is."""

    rules: dict[str, tuple[Production, ...]]
    words: dict[str, str]
    heights: dict[str, int]

    def height(self, production: Production) -> int:
        return max((self.heights.get(symbol, 0) for symbol in production), default=0)


@functools.cache
def grammar() -> Grammar:
    text = (data_dir("grammar") / "kernel.lark").read_text(encoding="utf-8")
    read = Lark(text, parser="lalr", lexer="basic", start=["module", "tests"], maybe_placeholders=False)
    rules: dict[str, list[Production]] = {}
    for rule in read.rules:
        rules.setdefault(str(rule.origin.name), []).append(tuple(str(symbol.name) for symbol in rule.expansion))
    words = {str(each.name): str(each.pattern.value) for each in read.terminals if each.pattern.type == "str"}
    kept = {origin: tuple(productions) for origin, productions in rules.items()}
    return Grammar(kept, words, _heights(kept))


def _heights(rules: dict[str, tuple[Production, ...]]) -> dict[str, int]:
    far = 1 << 20
    heights = dict.fromkeys(rules, far)
    changed = True
    while changed:
        changed = False
        for origin, productions in rules.items():
            best = min(1 + max((heights.get(symbol, 0) for symbol in each), default=0) for each in productions)
            if best < heights[origin]:
                heights[origin], changed = best, True
    return heights


@dataclass
class Derivation:
    """One text under way. `meaning` is how often a symbol becomes a piece that means something."""

    rng: Random
    meaning: float
    words: Words
    out: list[str] = field(default_factory=list)
    indent: int = 0
    used: set[tuple[str, Production]] = field(default_factory=set)
    seeks_new: bool = False  # prefers productions that are not in `used` yet

    def derive(self, symbol: str, depth: int) -> None:
        known = grammar()
        if symbol not in known.rules:
            self._terminal(symbol)
            return
        if self.rng.random() < self.meaning and self._piece(symbol, depth):
            return
        choices = known.rules[symbol]
        if symbol == "_simple" and self.meaning > 0.5:
            choices = tuple(each for each in choices if each != ("raise_",))
        fitting = [each for each in choices if known.height(each) < depth]
        lowest = min(known.height(each) for each in choices)
        fitting = fitting or [each for each in choices if known.height(each) == lowest]
        if self.seeks_new:
            fitting = [each for each in fitting if (symbol, each) not in self.used] or fitting
        production = self.rng.choice(fitting)
        self.used.add((symbol, production))
        for each in production:
            self.derive(each, depth - 1)

    def _terminal(self, symbol: str) -> None:
        if symbol == "_NEWLINE":
            self.out.append("\n" + "    " * self.indent)
        elif symbol == "_INDENT":
            self.indent += 1
            self.out.append("    ")
        elif symbol == "_DEDENT":
            self.indent -= 1
            self.out.append("\n" + "    " * self.indent)
        else:
            self.out.append(self._word(symbol) + " ")

    def _word(self, symbol: str) -> str:
        if symbol == "NAME":
            return self.words.any_name() if self.rng.random() < 0.8 else self.rng.choice(("tl", "x_ptr", "q", "range"))
        if symbol in LITERALS:
            return self.rng.choice(LITERALS[symbol])
        return grammar().words[symbol]

    # ---- pieces

    def _piece(self, symbol: str, depth: int) -> bool:
        if symbol == "statement":
            self._statement(depth)
        elif symbol in ("test", "comparison", "argument"):
            self.out.append(self._expression() + " ")
        else:
            return False
        return True

    def _expression(self) -> str:
        choice = self.rng.random()
        if choice < 0.15:
            return self._call()
        kind = self.rng.choice(tuple(self.words.names))
        return self.words.text(kind, 2)

    def _call(self) -> str:
        """A function of the language with about the arguments that it takes."""
        name = self.rng.choice(FUNCTIONS)
        parameters = [
            each for each in BUILTINS[name].signature.parameters.values() if each.kind is not each.VAR_KEYWORD
        ]
        needed = [each for each in parameters if each.default is each.empty]
        count = self.rng.choice((len(needed), len(needed), len(needed) + 1, self.rng.randrange(5)))
        return f"{name}({', '.join(self._argument(each.name) for each in parameters[:count])})"

    def _argument(self, parameter: str) -> str:
        """A text of the kind that a parameter's name speaks of, most of the time."""
        if self.rng.random() < 0.1:
            return self.words.text(self.rng.choice(KINDS), 1)
        if parameter in ARGUMENTS:
            return self.rng.choice(ARGUMENTS[parameter])
        return self.words.text(self.rng.choice(("block", "block", "iblock", "tile", "float", "int")), 1)

    def _statement(self, depth: int) -> None:
        if depth > 3 and self.rng.random() < 0.22:
            self._block(depth)
        elif self.rng.random() < 0.08:
            call = self._call()
            self.out.append(f"{self.words.fresh('block')} = {call}")
            self._terminal("_NEWLINE")
        else:
            self.out.append(self.words.statement())
            self._terminal("_NEWLINE")

    def _block(self, depth: int) -> None:
        header = self.words.header()
        self.out.append(header)
        self._suite(depth - 2, header.startswith("while"))
        if header.startswith("if") and self.rng.random() < 0.5:
            self.out.append("else:")
            self._suite(depth - 2, False)

    def _suite(self, depth: int, must_end: bool) -> None:
        """Names that are first bound in it are forgotten behind it, most of the time."""
        before = {kind: list(names) for kind, names in self.words.names.items()}
        self._terminal("_NEWLINE")
        self._terminal("_INDENT")
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            self.derive("statement", depth)
        if must_end:
            self.out.append("n -= 1")
        elif self.rng.random() < 0.1:
            self.out.append("return")
        else:
            self.out.append("pass")
        self._terminal("_DEDENT")
        if self.rng.random() < 0.85:
            self.words.names = before


def kernel_text(derivation: Derivation) -> str:
    """A kernel that begins with a few names to work with."""
    derivation.indent = 1
    for _ in range(derivation.rng.choice((2, 4, 6, 10))):
        derivation.derive("statement", derivation.rng.choice((4, 6, 9)))
    body = "".join(derivation.out)
    start = "    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    inside = offs < n\n"
    start += "    places = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]\n"
    return f"{HEAD}{HELPERS}@triton.jit\ndef kern({PARAMS}):\n{start}    {body}\n"


def module_text(derivation: Derivation) -> str:
    derivation.derive("module", 25)
    return HEAD + "".join(derivation.out)


def inputs(rng: Random) -> dict[str, Any]:
    """Arguments of `PARAMS`, filled so that loaded numbers make good addresses, or none."""
    block, values = rng.choice((1, 4, 8, 8, 16, 16, 5)), np.random.default_rng(rng.randrange(1 << 30))
    size = 4 * 16 * 16
    index_top = rng.choice((4, block, size, 1 << 20))
    return {
        "x_ptr": values.standard_normal(size, np.float32),
        "y_ptr": np.zeros(size, np.float32),
        "h_ptr": values.standard_normal(size).astype(np.float16),
        "i_ptr": values.integers(0, index_top, size).astype(np.int32),
        "c_ptr": np.zeros(size, np.int32),
        "n": rng.choice((0, 1, block - 1, block, 2 * block, 61)),
        "k": rng.choice((0, 1, 2, 3, -1, 100)),
        "alpha": rng.choice((0.5, -1.25, 3.0)),
        "BLOCK": block,
        "FLAG": rng.choice((0, 1, 2)),
    }


def generated(rng: Random) -> Case:
    """Mostly kernels of pieces; some with more of the bare grammar, and some whole files of it."""
    meaning = rng.choice((0.99, 0.98, 0.97, 0.95, 0.8))
    derivation = Derivation(rng, meaning, Words(rng))
    if rng.random() < 0.1:
        derivation.meaning = 0.2
        return Case(module_text(derivation), inputs(rng))
    return Case(kernel_text(derivation), inputs(rng), (rng.choice((1, 1, 2, 3)),), "kern")
