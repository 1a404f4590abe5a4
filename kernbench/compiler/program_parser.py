"""The structured text of a Program, read back: `parse_program(print_program(p)) == p`.

For tests that are written as text, and for people who edit a dump. The text is no interface of the device: what is
malformed is a `ProgramTextError` with its line. Does not know passes, or whether the program makes sense.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kernbench.commands import (
    UNALLOCATED,
    Assert,
    Atomic,
    Block,
    Buffer,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Exit,
    Gather,
    If,
    Loop,
    Move,
    Node,
    OpSpec,
    Param,
    Program,
    ReadScalar,
    Recv,
    ScalarLoad,
    ScalarOp,
    ScalarStore,
    Scatter,
    Scope,
    Send,
    TensorHandle,
    Wait,
    While,
)
from kernbench.compiler.program_words import Line, ProgramTextError, Words, read_lines
from kernbench.dtypes import BY_NAME, DType


def parse_program(text: str) -> Program:
    parser = _Parser(read_lines(text))
    try:
        return parser.program()
    except ProgramTextError:
        raise
    except ValueError as wrong:  # a command's own checks
        raise ProgramTextError(str(wrong), parser.lines[parser.at - 1].number) from None


class _Parser:
    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines
        self.at = 0
        self.names: dict[str, int] = {}

    def words(self, line: Line) -> Words:
        return Words(line, self.names)

    def peek(self) -> Line | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    def pop(self) -> Line:
        line = self.peek()
        if line is None:
            raise ProgramTextError("the program ends too early", self.lines[-1].number if self.lines else 1)
        self.at += 1
        return line

    # ------------------------------------------------------------------ the head

    def program(self) -> Program:
        head = re.fullmatch(r"program (.*?)  opt (\d+)  tcm (\d+) B", self.pop().text)
        if head is None:
            raise ProgramTextError("the first line is no `program NAME  opt N  tcm N B`", 1)
        found: dict[str, list[Any]] = {word: [] for word in ("constexpr", "param", "special", "register", "buffer")}
        while (line := self.pop()).text != "body":
            word, _, rest = line.text.partition(" ")
            if word not in found:
                raise ProgramTextError(f"`{word}` is no word of a program's head", line.number)
            found[word].append(self.head_line(word, rest, line))
        self.name_registers([name for _, name in found["register"]])
        body = self.sequence(1)
        if (rest_line := self.peek()) is not None:
            raise ProgramTextError("this line belongs to nothing", rest_line.number)
        return Program(
            name=head[1],
            params=tuple(found["param"]),
            specials=tuple(found["special"]),
            register_dtypes=tuple(dtype for dtype, _ in found["register"]),
            register_names=tuple(name for _, name in found["register"]),
            buffers=tuple(found["buffer"]),
            body=body,
            tcm_bytes=int(head[3]),
            constexprs=tuple(found["constexpr"]),
            opt_level=int(head[2]),
        )

    def head_line(self, word: str, rest: str, line: Line) -> Any:
        match = re.fullmatch(_HEAD[word], rest)
        if match is None:
            raise ProgramTextError(f"this is no line of a {word}", line.number)
        return getattr(self, f"{word}_line")(match, line)

    def constexpr_line(self, match: re.Match[str], line: Line) -> tuple[str, Any]:
        return match["name"], self.words(replace(line, text=match["value"])).value()

    def param_line(self, match: re.Match[str], line: Line) -> Param:
        kind = "tensor" if match["star"] else "scalar"
        return Param(match["name"], kind, BY_NAME[match["dtype"]], int(match["register"]))  # type: ignore[arg-type]

    def special_line(self, match: re.Match[str], line: Line) -> tuple[str, int]:
        return match["name"], int(match["register"])

    def register_line(self, match: re.Match[str], line: Line) -> tuple[DType, str]:
        return BY_NAME[match["dtype"]], match["name"] or ""

    def buffer_line(self, match: re.Match[str], line: Line) -> Buffer:
        address = UNALLOCATED if match["address"] is None else int(match["address"])
        number, depth = int(match["id"]), int(match["depth"] or 1)
        return Buffer(number, match["name"], int(match["nbytes"]), depth, address, bool(match["persistent"]))

    def name_registers(self, names: list[str]) -> None:
        for index, name in enumerate(names):
            shown = name if names.count(name) == 1 else f"{name}.{index}"
            self.names[shown if name else str(index)] = index

    # ------------------------------------------------------------------ nodes

    def sequence(self, depth: int) -> tuple[Node, ...]:
        nodes = []
        while (line := self.peek()) is not None and line.depth == depth and not _is_tail(line.text):
            nodes.append(self.node(depth))
        return tuple(nodes)

    def node(self, depth: int) -> Node:
        line = self.pop()
        words = self.words(line)
        first = words.peek()
        if first.startswith("%"):
            return self.command(words, depth)
        if first.startswith("$"):
            return self.scalar_op(words)
        read = _NODES.get(first)
        if read is None:
            raise words.fail("a command or a word like `loop`")
        words.next()
        return read(self, words, depth)

    def scalar_op(self, words: Words) -> ScalarOp:
        dst = words.register()
        words.expect("=")
        kind = words.next()
        words.expect("(")
        args, dtypes = [], []
        while not words.take(")"):
            args.append(words.value())
            words.expect(":")
            dtypes.append(words.dtype())
            words.take(",")
        words.expect(":")
        return ScalarOp(dst, kind, tuple(args), words.dtype(), tuple(dtypes), words.line.span)

    def moves(self, word: str, depth: int) -> tuple[Move, ...]:
        line = self.peek()
        if line is None or line.depth != depth or not line.text.startswith(f"{word} "):
            return ()
        words = self.words(self.pop())
        words.next()
        found = []
        while words.peek():
            dst = words.register()
            words.expect("=")
            found.append(Move(dst, words.value()))
            words.take(",")
        return tuple(found)

    def turns(self, words: Words) -> tuple[tuple[int, int], ...]:
        found = []
        while words.take("turn"):
            words.expect("(")
            register = words.register()
            words.expect(",")
            found.append((register, words.whole()))
            words.expect(")")
        return tuple(found)

    def loop(self, words: Words, depth: int) -> Loop:
        var = words.register()
        words.expect("in")
        start, stop, step = words.items()
        name = words.text() if words.peek().startswith('"') else ""
        stages = words.whole() if words.take("stages") else 1
        turns = self.turns(words)
        init = self.moves("init", depth + 1)
        body = self.sequence(depth + 1)
        moves = self.moves("next", depth + 1)
        return Loop(var, start, stop, step, body, name, init, moves, turns, stages, words.line.span)

    def while_(self, words: Words, depth: int) -> While:
        turns = self.turns(words)
        init = self.moves("init", depth + 1)
        header = self.sequence(depth + 1)
        test = self.words(self.pop())
        test.expect("do")
        condition = test.value()
        body = self.sequence(depth + 1)
        return While(header, condition, body, init, self.moves("next", depth + 1), turns, words.line.span)

    def if_(self, words: Words, depth: int) -> If:
        condition = words.value()
        then = self.sequence(depth + 1)
        then_moves = self.moves("set", depth + 1)
        orelse: tuple[Node, ...] = ()
        else_moves: tuple[Move, ...] = ()
        line = self.peek()
        if line is not None and line.depth == depth and line.text == "else":
            self.pop()
            orelse = self.sequence(depth + 1)
            else_moves = self.moves("set", depth + 1)
        return If(condition, then, orelse, then_moves, else_moves, words.line.span)

    def block(self, words: Words, depth: int) -> Block:
        label = words.whole()
        return Block(label, self.sequence(depth + 1), words.line.span)

    def exit(self, words: Words, depth: int) -> Exit:
        label = words.whole()
        return Exit(label, self.moves("set", depth + 1), words.line.span)

    def assert_(self, words: Words, depth: int) -> Assert:
        return Assert(words.value(), words.text(), words.line.span)

    # ------------------------------------------------------------------ commands

    def command(self, words: Words, depth: int) -> Node:
        number = int(words.next()[1:])
        static = words.take("static")
        word = words.next()
        read = _COMMANDS.get(word)
        if read is not None:
            node: Node = read(self, words, number)
        elif word.startswith("atomic."):
            node = self.atomic(words, number, word.removeprefix("atomic."))
        elif word == "composite":
            node = self.composite(words, number, depth)
        else:
            words.at -= 1
            node = CompositeTemplate(number, (self.op(words),), (), words.line.span)
        if words.peek():
            raise words.fail("the end of the line")
        if not static:
            return node
        if not isinstance(node, CompositeTemplate | DmaRead | Gather | Atomic | ScalarLoad | ReadScalar | Send | Recv):
            raise words.fail("a command that can be static")
        return replace(node, static=True)

    def composite(self, words: Words, number: int, depth: int) -> CompositeTemplate:
        rw = []
        if words.take("rw"):
            words.expect("(")
            while not words.take(")"):
                rw.append(words.handle())
                words.take(",")
        ops = []
        while (line := self.peek()) is not None and line.depth == depth + 1 and line.text.startswith("| "):
            op_words = self.words(self.pop())
            op_words.next()
            ops.append(self.op(op_words))
        return CompositeTemplate(number, tuple(ops), tuple(rw), words.line.span)

    def op(self, words: Words) -> OpSpec:
        kind, scope = words.next(), Scope(words.next())
        operands: dict[str, TensorHandle] = {}
        extra: dict[str, Any] = {}
        while words.peek() not in ("->", ""):
            name = words.next()
            words.expect("=")
            value = words.either()
            if isinstance(value, TensorHandle):
                operands[name] = value
            else:
                extra[name] = value
        return OpSpec(kind, scope, operands, extra, words.handle() if words.take("->") else None)

    def dma_read(self, words: Words, number: int) -> DmaRead:
        access = words.access()
        other = words.option("other", words.either)
        words.expect("->")
        return DmaRead(number, words.handle(), access, other, words.line.span)

    def dma_write(self, words: Words, number: int) -> DmaWrite:
        source = words.handle()
        words.expect("->")
        return DmaWrite(number, source, words.access(), words.line.span)

    def gather(self, words: Words, number: int) -> Gather:
        access = words.access()
        index, mask = words.lanes()
        other = words.option("other", words.either)
        words.expect("->")
        return Gather(number, words.handle(), access, index, mask, other, words.line.span)

    def scatter(self, words: Words, number: int) -> Scatter:
        source = words.handle()
        words.expect("->")
        access = words.access()
        index, mask = words.lanes()
        return Scatter(number, source, access, index, mask, words.line.span)

    def atomic(self, words: Words, number: int, kind: str) -> Atomic:
        source, compare = words.handle(), words.option("compare", words.handle)
        words.expect("->")
        access = words.access()
        index, mask = words.lanes()
        old = words.option("old", words.handle)
        return Atomic(number, kind, source, access, compare, old, index, mask, words.line.span)

    def load(self, words: Words, number: int) -> ScalarLoad:
        address, dtype, preds = words.word()
        other = words.option("other", words.value)
        words.expect("->")
        return ScalarLoad(number, words.register(), address, dtype, preds, other, words.line.span)

    def store(self, words: Words, number: int) -> ScalarStore:
        value = words.value()
        words.expect(":")
        value_dtype = words.dtype()
        words.expect("->")
        address, dtype, preds = words.word()
        return ScalarStore(number, address, value, dtype, value_dtype, preds, words.line.span)

    def read(self, words: Words, number: int) -> ReadScalar:
        source = words.handle()
        words.expect("->")
        return ReadScalar(number, words.register(), source, words.line.span)

    def send(self, words: Words, number: int) -> Send:
        source = words.handle()
        words.expect("to")
        return Send(number, source, words.items(), words.line.span)

    def recv(self, words: Words, number: int) -> Recv:
        source = words.items()
        words.expect("->")
        return Recv(number, words.handle(), source, words.line.span)

    def wait(self, words: Words, number: int) -> Wait:
        handles = []
        if not words.take("all"):
            while words.peek():
                handles.append(words.handle())
                words.take(",")
        return Wait(number, tuple(handles), words.line.span)


def _is_tail(text: str) -> bool:
    """Lines that end a sequence at their own depth."""
    return text == "else" or text.startswith(("next ", "set ", "do ", "| "))


_HEAD = {
    "constexpr": r"(?P<name>\S+) = (?P<value>.*)",
    "param": r"(?P<name>\S+): (?P<star>\*?)(?P<dtype>\w+) = (?P<register>\d+)",
    "special": r"(?P<name>\w+) = (?P<register>\d+)",
    "register": r"\d+: (?P<dtype>\w+)(?: (?P<name>\S+))?",
    "buffer": r"(?P<name>.*)\.(?P<id>\d+): (?P<nbytes>\d+) B(?: x (?P<depth>\d+))?(?: at (?P<address>\d+))?"
    r"(?P<persistent> persistent)?",
}
_NODES: dict[str, Callable[[_Parser, Words, int], Node]] = {
    "loop": _Parser.loop,
    "while": _Parser.while_,
    "if": _Parser.if_,
    "block": _Parser.block,
    "exit": _Parser.exit,
    "assert": _Parser.assert_,
}
_COMMANDS: dict[str, Callable[[_Parser, Words, int], Any]] = {
    "dma.read": _Parser.dma_read,
    "dma.write": _Parser.dma_write,
    "gather": _Parser.gather,
    "scatter": _Parser.scatter,
    "load": _Parser.load,
    "store": _Parser.store,
    "read": _Parser.read,
    "send": _Parser.send,
    "recv": _Parser.recv,
    "wait": _Parser.wait,
}
