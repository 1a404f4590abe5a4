"""`tl.send` and `tl.recv` on their way through the compiler."""

from __future__ import annotations

import re

import pytest

from kernbench.binary import decode
from kernbench.command_words import OPCODES, pack_command
from kernbench.commands import Affine, DmaRead, Node, Program, Recv, Reg, Send, Target, TensorHandle, walk
from kernbench.compiler.pipeline import CompiledKernel, compile_kernel
from kernbench.compiler.printer import print_program
from kernbench.compiler.program_json import program_document
from kernbench.compiler.program_parser import parse_program
from kernbench.dtypes import fp32
from kernbench.report.dataflow import dataflow
from tests.compiler.elaborating import error_of, source_of, typed

TYPES = {"x": "*fp32", "y": "*fp32"}
HEAD = """
def k(x, y):
    o = tl.arange(0, 64)
    me = tl.pe_index()
    a = tl.load(x + o)
"""
RING = """
    for i in range(tl.num_pes() - 1):
        tl.send(a, to=(me + 1) % tl.num_pes())
        a = a + tl.recv((64,), tl.float32, source=(0, 0, me))
    tl.store(y + o, a)
"""


def compiled(body: str) -> CompiledKernel:
    return compile_kernel(source_of(HEAD + body), None, {}, TYPES, Target(1 << 20, (64, 64, 64)))


def nodes(program: Program, kind: type) -> list[Node]:
    return [node for node in walk(program.body) if isinstance(node, kind)]


def test_a_message_is_a_typed_instruction() -> None:
    text = typed(HEAD + RING, TYPES)

    assert re.search(r"send \S+ to \$\d+", text)
    assert re.search(r"= recv from 0, 0, \$", text)


def test_text_and_binary_give_the_program_back() -> None:
    made = compiled(RING)
    assert made.binary is not None

    assert made.program == parse_program(print_program(made.program))
    assert made.program == decode(made.binary)
    kinds = [command["kind"] for command in program_document(made.program, made.binary, "1")["commands"]]
    assert {"send", "recv"} <= set(kinds)


def test_a_send_reads_and_a_receive_writes_its_block() -> None:
    program = compiled(RING).program
    (send,), (receive,) = nodes(program, Send), nodes(program, Recv)
    assert isinstance(send, Send) and isinstance(receive, Recv)
    readers = {target for source, target in dataflow(program).edges if source == receive.id}

    assert readers and send.id not in readers


@pytest.mark.parametrize(
    "command",
    [
        Send(3, TensorHandle(1, "a", 64, (64,), (1,), fp32, "tcm"), (Reg(0),)),
        Recv(4, TensorHandle(1, "a", Affine(0, ((1, 64),)), (64,), (1,), fp32, "tcm"), (0, Affine(1, ((1, 2),)), 7)),
    ],
)
def test_its_words_are_its_logical_bytes(command: Send | Recv) -> None:
    packed = pack_command(command, registers=(5, 6))

    assert (command.logical_bytes, OPCODES[type(command)]) == (len(packed), packed[0])


def test_only_what_control_depends_on_is_static() -> None:
    plain = compiled(RING).program
    bound = compiled(
        """
    tl.send(a, to=0)
    b = tl.recv((64,), tl.float32, source=0)
    for i in range(tl.max(b, axis=0).to(tl.int32)):
        tl.store(y + o, a)
"""
    ).program

    assert [False, False] == [node.static for node in (*nodes(plain, Send), *nodes(plain, Recv))]  # type: ignore
    assert [True, True] == [node.static for node in (*nodes(bound, Send), *nodes(bound, Recv))]  # type: ignore
    assert [True] == [node.static for node in nodes(bound, DmaRead)]  # type: ignore


def test_loads_are_not_moved_over_messages() -> None:
    body = """
    for i in tl.range(0, 8, num_stages=2):
        b = tl.load(x + i * 64 + o)
        {}
        tl.store(y + o, b)
"""
    quiet = body.replace("tl.store(y + o, b)", "a += b").format("pass") + "    tl.store(y + o, a)\n"
    loud = quiet.replace("pass", "tl.send(b, to=me)")

    assert len(nodes(compiled(quiet).program, DmaRead)) == 3  # the first trip's and the next trip's beside a's
    assert len(nodes(compiled(loud).program, DmaRead)) == 2


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("tl.send(3.0, to=1)", "E_BLOCK_EXPECTED"),
        ("tl.send(x + o, to=1)", "E_VALUE_EXPECTED"),
        ("tl.send(a, to=1.5)", "E_OPERAND_TYPE"),
        ("tl.send(a, to=a)", "E_SCALAR_EXPECTED"),
        ("tl.send(a, to=(0, 1))", "E_CALL_ARGUMENTS"),
        ("tl.send(a)", "E_CALL_ARGUMENTS"),
        ("tl.recv((64,), 3, source=1)", "E_DTYPE_EXPECTED"),
        ("tl.recv((me,), tl.float32, source=1)", "E_CONSTEXPR_NEEDED"),
        ("tl.recv((0,), tl.float32, source=1)", "E_BAD_SHAPE"),
    ],
)
def test_a_mistake_is_told_by_its_code(call: str, code: str) -> None:
    assert error_of(f"{HEAD}    {call}\n", TYPES).code == code


def test_symbolic_integers_and_masks_are_sent_as_data() -> None:
    program = compiled(
        """
    tl.send(o, to=me)
    tl.send(o < 3, to=me)
    i = tl.recv((64,), tl.int32, source=me)
    m = tl.recv((64,), tl.int1, source=me)
    tl.store(y + i, a, mask=m)
"""
    ).program

    assert ["i32", "i1"] == [node.src.dtype.name for node in nodes(program, Send)]  # type: ignore
