"""The words of a program's text: lines with their places, registers, numbers, shapes, handles and accesses.

The lower half of `program_parser.py`. Does not know nodes or commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from kernbench.commands import (
    ACCUMULATOR_ADDRESS,
    Access,
    Affine,
    AxisIndex,
    IndexOp,
    Int,
    Reg,
    TensorHandle,
    add,
    affine,
    contiguous_strides,
)
from kernbench.compiler.handles import in_slot
from kernbench.compiler.printer import INDENT
from kernbench.diagnostics import Span
from kernbench.dtypes import BY_NAME, DType

_PLACE = re.compile(r"\s+; (?P<file>.*):(?P<line>\d+):(?P<column>\d+)-(?P<end>\d+):(?P<last>\d+)$")
_TOKEN = re.compile(
    r"\s*(?P<token>%\d+|\$[\w.]+|\"(?:\\.|[^\"\\])*\"|->|~\.\d+|[^\W\d]\w*(?:\.\w+)*|-inf\b"
    r"|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)|\d+x[\dx]*|\S)"
)
_ESCAPES = {"n": "\n", "r": "\r", '"': '"', "\\": "\\"}


class ProgramTextError(ValueError):
    """Text that is no program; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        self.line = line
        super().__init__(f"line {line}: {message}")


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    depth: int
    text: str
    span: Span | None


def read_lines(text: str) -> list[Line]:
    found = []
    for number, raw in enumerate(text.splitlines(), 1):
        if not raw.strip():
            continue
        place = _PLACE.search(raw)
        body = raw[: place.start()] if place else raw
        depth = (len(body) - len(body.lstrip(" "))) // len(INDENT)
        found.append(Line(number, depth, body.strip(), _span(place) if place else None))
    return found


def _span(place: re.Match[str]) -> Span:
    line, column, end, last = (int(place[name]) for name in ("line", "column", "end", "last"))
    return Span(place["file"], line, column, end, last)


@dataclass
class Words:
    """The tokens of one line."""

    line: Line
    names: dict[str, int]  # registers
    at: int = 0
    tokens: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = [match["token"] for match in _TOKEN.finditer(self.line.text)]

    def fail(self, wanted: str) -> ProgramTextError:
        found = self.tokens[self.at] if self.at < len(self.tokens) else "the end of the line"
        return ProgramTextError(f"{found!r} stands where {wanted} should", self.line.number)

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        if self.at >= len(self.tokens):
            raise self.fail("more")
        self.at += 1
        return self.tokens[self.at - 1]

    def take(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise self.fail(f"`{token}`")

    def whole(self) -> int:
        if not re.fullmatch(r"-?\d+", self.peek()):
            raise self.fail("a whole number")
        return int(self.next())

    def dtype(self) -> DType:
        name = self.next()
        if name not in BY_NAME:
            self.at -= 1
            raise self.fail("an element type")
        return BY_NAME[name]

    def register(self) -> int:
        token = self.next()
        if not token.startswith("$") or token[1:] not in self.names:
            self.at -= 1
            raise self.fail("a register")
        return self.names[token[1:]]

    def text(self) -> str:
        token = self.next()
        if not token.startswith('"'):
            self.at -= 1
            raise self.fail("a text in quotes")
        return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), token[1:-1])

    # ------------------------------------------------------------------ values

    def integer(self, closing: tuple[str, ...]) -> Int:
        """A sum of whole numbers and registers, up to one of `closing` (which stays)."""
        total: Int = 0
        sign = 1
        while self.peek() not in closing:
            if self.take("+"):
                sign = 1
            elif self.take("-"):
                sign = -1
            elif self.peek().startswith("$"):
                total = add(total, affine(0, {self.register(): sign}))
            else:
                number = sign * self.whole()
                total = add(total, affine(0, {self.register(): number}) if self.take("*") else number)
                sign = 1
        return total

    def bracketed(self) -> Affine:
        self.expect("[")
        value = self.integer(("]",))
        self.expect("]")
        if not isinstance(value, Affine):
            raise self.fail("an expression over registers")
        return value

    def value(self) -> Any:
        token = self.peek()
        if token == "[":
            return self.bracketed()
        if token.startswith("$"):
            return Reg(self.register())
        if token == "(":
            return self.items()
        if token.startswith('"'):
            return self.text()
        self.at += 1
        if token in _CONSTANTS:
            return _CONSTANTS[token]
        if re.fullmatch(r"axis\d+", token):
            return AxisIndex(int(token[4:]))
        if re.fullmatch(r"-?\d+", token):
            return int(token)
        if re.fullmatch(r"-?\d[\d.]*(e[+-]?\d+)?", token):
            return float(token)
        if self.peek() == "(":
            args = self.items()
            self.expect(":")
            return IndexOp(token, args, self.dtype())
        if token in BY_NAME:
            return BY_NAME[token]
        self.at -= 1
        raise self.fail("a value")

    def items(self) -> tuple[Any, ...]:
        self.expect("(")
        found = []
        while not self.take(")"):
            found.append(self.value())
            if not self.take(","):
                self.expect(")")
                break
        return tuple(found)

    def shape(self) -> tuple[int, ...]:
        token = self.next()
        if token == "scalar":
            return ()
        if not re.fullmatch(r"\d+(x\d+)*", token):
            self.at -= 1
            raise self.fail("a shape")
        return tuple(int(extent) for extent in token.split("x"))

    def handle(self) -> TensorHandle:
        name, _, number = self.next().rpartition(".")
        name = "" if name == "~" else name
        if not number.isdigit():
            self.at -= 1
            raise self.fail("a handle")
        self.expect("@")
        space = self.next()
        if space not in ("acc", "tcm", "hbm"):
            self.at -= 1
            raise self.fail("`tcm`, `hbm` or `acc`")
        address = ACCUMULATOR_ADDRESS if space == "acc" else self.address()
        self.expect(":")
        shape = self.shape()
        self.expect(":")
        dtype = self.dtype()
        strides: tuple[Int, ...] = contiguous_strides(shape)
        if self.take("/"):
            strides = self.integers()
        return TensorHandle(int(number), name, address, shape, strides, dtype, "hbm" if space == "hbm" else "tcm")

    def address(self) -> Int:
        if self.take("["):
            value = self.integer(("]",))
            self.expect("]")
            return value
        slot = self.integer(("byte", ":")) if self.take("slot") else 0
        offset = self.whole() if self.take("byte") else 0
        return add(in_slot(slot), offset)

    def integers(self) -> tuple[Int, ...]:
        self.expect("(")
        items: list[Int] = []
        while not self.take(")"):
            items.append(self.integer((",", ")")))
            self.take(",")
        return tuple(items)

    def access(self) -> Access:
        self.expect("hbm")
        self.expect("[")
        base = self.integer(("]",))
        self.expect("]")
        self.expect(":")
        shape = self.shape()
        self.expect(":")
        dtype = self.dtype()
        self.expect("strides")
        found = Access(base, dtype, shape, self.integers())
        while self.peek() in _ACCESS_PARTS and not self.is_option():
            name = self.next()
            found = replace(found, **{name: _ACCESS_PARTS[name](self)})
        if re.fullmatch(r"bits\d+", self.peek()):
            found = replace(found, offset_bits=int(self.next()[4:]))
        return found

    def is_option(self) -> bool:
        """`mask=` is the command's, `mask (` the access's."""
        return self.tokens[self.at + 1 : self.at + 2] == ["="]

    def inner(self) -> Any:
        self.expect("(")
        value = self.value()
        self.expect(")")
        return value

    def either(self) -> Any:
        """A handle or a value."""
        if self.at + 1 < len(self.tokens) and self.tokens[self.at + 1] == "@":
            return self.handle()
        return self.value()

    def word(self) -> tuple[Int, DType, tuple[Any, ...]]:
        self.expect("hbm")
        self.expect("[")
        address = self.integer(("]",))
        self.expect("]")
        self.expect(":")
        dtype = self.dtype()
        preds = self.items() if self.take("preds") else ()
        return address, dtype, preds

    def lanes(self) -> tuple[TensorHandle | None, TensorHandle | None]:
        """The index and the mask of what moves lane by lane, where they are given."""
        return self.option("index", self.handle), self.option("mask", self.handle)

    def option(self, name: str, read: Callable[[], Any]) -> Any:
        if self.peek() != name:
            return None
        self.at += 1
        self.expect("=")
        return read()


_CONSTANTS: dict[str, Any] = {
    "True": True,
    "False": False,
    "None": None,
    "inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
}
_ACCESS_PARTS: dict[str, Callable[[Words], Any]] = {
    "lo": Words.items,
    "hi": Words.items,
    "preds": Words.items,
    "rest": Words.inner,
    "mask": Words.inner,
}
