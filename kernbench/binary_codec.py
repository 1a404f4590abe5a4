"""Codecs: how values stand in a tagged stream of varints, and how they come back from hostile bytes.

A codec writes a value into two sections side by side, the code and the debug section, and reads it from them; larger
codecs are made of smaller ones. Whatever the bytes are, reading ends in a value or in a `BinaryError`, in time and
memory bounded by their length. Does not know what a program is made of (see `binary.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from kernbench.diagnostics import Span
from kernbench.dtypes import BY_NAME, DType

MAX_VARINT_BYTES = 20  # 140 bits: the products of 64-bit numbers that affine terms may hold
WIDE_BYTES = 5  # of a varint of 32 bits
MAX_DEPTH = 150  # of nested nodes and index expressions


class BinaryError(ValueError):
    """Bytes that are no program; `offset` is where reading stopped."""

    def __init__(self, message: str, offset: int) -> None:
        self.offset = offset
        super().__init__(f"{message} at byte {offset}")


# --------------------------------------------------------------------------- streams


@dataclass
class Writer:
    out: bytearray = field(default_factory=bytearray)
    seen: dict[Hashable, int] = field(default_factory=dict)  # (kind, value) → number within its kind
    counts: dict[str, int] = field(default_factory=dict)

    def unsigned(self, value: int) -> None:
        assert value >= 0, f"{value} is negative"
        while value > 0x7F:
            self.out.append(value & 0x7F | 0x80)
            value >>= 7
        self.out.append(value)

    def signed(self, value: int) -> None:
        self.unsigned(value << 1 if value >= 0 else (~value << 1) | 1)

    def wide(self, value: int) -> None:
        """As `signed`, but all numbers of 32 bits other than 0 take as many bytes as the largest of them."""
        start = len(self.out)
        self.signed(value)
        missing = WIDE_BYTES - (len(self.out) - start)
        if value and missing > 0:
            self.out[-1] |= 0x80
            self.out += b"\x80" * (missing - 1) + b"\x00"

    def text(self, value: str) -> None:
        raw = value.encode("utf-8", "surrogatepass")
        self.unsigned(len(raw))
        self.out += raw

    def interned(self, kind: str, key: Hashable, write: Callable[[], None]) -> None:
        """The number of `key` among its kind; where it is new, what `write` writes stands behind it."""
        number = self.seen.get((kind, key))
        if number is not None:
            self.unsigned(number)
            return
        number = self.counts.get(kind, 0)
        self.unsigned(number)
        write()
        # what `write` interned of the same kind would have taken this number; kinds do not nest in themselves
        self.seen[(kind, key)] = number
        self.counts[kind] = number + 1


@dataclass
class Reader:
    data: bytes
    offset: int = 0
    longest: int = MAX_VARINT_BYTES
    seen: dict[str, list[Any]] = field(default_factory=dict)

    def fail(self, message: str) -> BinaryError:
        return BinaryError(message, self.offset)

    def byte(self) -> int:
        if self.offset >= len(self.data):
            raise self.fail("the binary ends too early")
        self.offset += 1
        return self.data[self.offset - 1]

    def take(self, n: int) -> bytes:
        if n > len(self.data) - self.offset:
            raise self.fail(f"{n} bytes are announced, {len(self.data) - self.offset} are left")
        self.offset += n
        return self.data[self.offset - n : self.offset]

    def unsigned(self) -> int:
        value = 0
        for index in range(self.longest):
            byte = self.byte()
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise self.fail(f"a number has more than {self.longest} bytes")

    def signed(self) -> int:
        value = self.unsigned()
        return ~(value >> 1) if value & 1 else value >> 1

    def count(self) -> int:
        """A number of elements of at least one byte each."""
        n = self.unsigned()
        if n > len(self.data) - self.offset:
            raise self.fail(f"{n} elements are announced, {len(self.data) - self.offset} bytes are left")
        return n

    def text(self) -> str:
        try:
            return self.take(self.unsigned()).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise self.fail("a text is not UTF-8") from None

    def index(self, n: int, what: str) -> int:
        value = self.unsigned()
        if value >= n:
            raise self.fail(f"{what} {value} is not below {n}")
        return value

    def interned(self, kind: str, read: Callable[[], Any]) -> Any:
        table = self.seen.setdefault(kind, [])
        number = self.unsigned()
        if number > len(table):
            raise self.fail(f"{kind} {number} is used before it is given")
        if number == len(table):
            table.append(read())
        return table[number]


# --------------------------------------------------------------------------- codecs of single values


class Encoder:
    """Code and debug section side by side; the codecs below say what goes where."""

    def __init__(self) -> None:
        self.code = Writer()
        self.debug = Writer()
        self.depth = 0


class Decoder:
    """As `Encoder`; without a debug section names are empty and spans None."""

    def __init__(self, code: Reader, debug: Reader | None) -> None:
        self.code = code
        self.debug = debug
        self.depth = 0
        self.registers = 0
        self.labels: list[int] = []


@dataclass(frozen=True)
class Codec:
    write: Callable[[Encoder, Any], None]
    read: Callable[[Decoder], Any]


UNSIGNED = Codec(lambda e, v: e.code.unsigned(v), lambda d: d.code.unsigned())
SIGNED = Codec(lambda e, v: e.code.signed(v), lambda d: d.code.signed())
WIDE = Codec(lambda e, v: e.code.wide(v), lambda d: d.code.signed())
BOOL = Codec(lambda e, v: e.code.unsigned(int(v)), lambda d: bool(d.code.index(2, "a bool")))
REGISTER = Codec(lambda e, v: e.code.unsigned(v), lambda d: d.code.index(d.registers, "register"))


def _write_symbol(e: Encoder, value: str) -> None:
    e.code.interned("symbol", value, lambda: e.code.text(value))


def _read_symbol(d: Decoder) -> str:
    symbol: str = d.code.interned("symbol", d.code.text)
    return symbol


SYMBOL = Codec(_write_symbol, _read_symbol)


def _read_dtype(d: Decoder) -> DType:
    name = _read_symbol(d)
    if name not in BY_NAME:
        raise d.code.fail(f"`{name[:40]}` is no element type")
    return BY_NAME[name]


DTYPE = Codec(lambda e, v: _write_symbol(e, v.name), _read_dtype)


def _write_name(e: Encoder, value: str) -> None:
    e.debug.interned("name", value, lambda: e.debug.text(value))


def _read_name(d: Decoder) -> str:
    if d.debug is None:
        return ""
    name: str = d.debug.interned("name", d.debug.text)
    return name


NAME = Codec(_write_name, _read_name)


def _write_span(e: Encoder, span: Span | None) -> None:
    e.debug.interned("span", span, lambda: _write_new_span(e.debug, span))


def _write_new_span(out: Writer, span: Span | None) -> None:
    out.unsigned(span is not None)
    if span is not None:
        out.interned("file", span.file, lambda: out.text(span.file))
        for number in (span.line, span.column, span.end_line, span.end_column):
            out.unsigned(number)


def _read_span(d: Decoder) -> Span | None:
    if d.debug is None:
        return None
    debug = d.debug
    span: Span | None = debug.interned("span", lambda: _read_new_span(debug))
    return span


def _read_new_span(debug: Reader) -> Span | None:
    if not debug.index(2, "a bool"):
        return None
    file = debug.interned("file", debug.text)
    return Span(file, debug.unsigned(), debug.unsigned(), debug.unsigned(), debug.unsigned())


SPAN = Codec(_write_span, _read_span)


def _write_float(e: Encoder, value: float) -> None:
    e.code.out += struct.pack("<d", value)


FLOAT = Codec(_write_float, lambda d: struct.unpack("<d", d.code.take(8))[0])
NOTHING = Codec(lambda e, v: None, lambda d: None)


# --------------------------------------------------------------------------- combinators


def one_of(values: tuple[Any, ...], what: str) -> Codec:
    return Codec(
        lambda e, v: e.code.unsigned(values.index(v)),
        lambda d: values[d.code.index(len(values), what)],
    )


def many(item: Codec) -> Codec:
    def write(e: Encoder, values: tuple[Any, ...]) -> None:
        e.code.unsigned(len(values))
        for value in values:
            item.write(e, value)

    return Codec(write, lambda d: tuple([item.read(d) for _ in range(d.code.count())]))


def pair(first: Codec, second: Codec) -> Codec:
    def write(e: Encoder, value: tuple[Any, Any]) -> None:
        first.write(e, value[0])
        second.write(e, value[1])

    return Codec(write, lambda d: (first.read(d), second.read(d)))


def optional(item: Codec) -> Codec:
    def write(e: Encoder, value: Any) -> None:
        e.code.unsigned(value is not None)
        if value is not None:
            item.write(e, value)

    return Codec(write, lambda d: item.read(d) if d.code.index(2, "a bool") else None)


def mapping(value: Codec) -> Codec:
    """A dict by symbols, in its own order."""
    items = many(pair(SYMBOL, value))
    return Codec(lambda e, v: items.write(e, tuple(v.items())), lambda d: dict(items.read(d)))


def record(cls: type[Any], **fields: Codec) -> Codec:
    """The fields one after the other, in the order in which they are listed here."""

    def write(e: Encoder, value: Any) -> None:
        for name, codec in fields.items():
            codec.write(e, getattr(value, name))

    def read(d: Decoder) -> Any:
        values = {name: codec.read(d) for name, codec in fields.items()}
        try:
            return cls(**values)
        except ValueError as fault:
            raise d.code.fail(f"a {cls.__name__} is illegal: {fault};") from None

    return Codec(write, read)


def tagged(*cases: tuple[type[Any], Codec], what: str) -> Codec:
    """One of several types, by its place in the list; a bool is not taken for an int."""
    numbers = {cls: index for index, (cls, _) in enumerate(cases)}

    def write(e: Encoder, value: Any) -> None:
        number = numbers[type(value)]
        e.code.unsigned(number)
        cases[number][1].write(e, value)

    return Codec(write, lambda d: cases[d.code.index(len(cases), what)][1].read(d))


def nested(codec: Callable[[], Codec]) -> Codec:
    """A codec that contains itself, with a limit to how deep."""

    def write(e: Encoder, value: Any) -> None:
        e.depth += 1
        assert e.depth <= MAX_DEPTH, "a program is nested deeper than a binary may be"
        codec().write(e, value)
        e.depth -= 1

    def read(d: Decoder) -> Any:
        d.depth += 1
        if d.depth > MAX_DEPTH:
            raise d.code.fail(f"the program is nested deeper than {MAX_DEPTH}")
        value = codec().read(d)
        d.depth -= 1
        return value

    return Codec(write, read)
