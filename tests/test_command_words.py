"""A dispatched command is as long as its words are."""

from dataclasses import replace

import pytest

from kernbench.command_words import OPCODES, Tables, pack_command
from kernbench.commands import (
    Access,
    Affine,
    CompletionHandle,
    CompositeCmd,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Gather,
    OpSpec,
    Reg,
    Scope,
    TensorHandle,
    walk,
)
from kernbench.dtypes import fp32, i32
from tests.compiler.kernels import compiled

X = TensorHandle(1, "x", 64, (4, 8), (8, 1), fp32, "tcm")
Y = TensorHandle(2, "y", Affine(256, ((0, 64),)), (4, 8), (8, 1), fp32, "tcm")
FAR = TensorHandle(0, "far", (1 << 48) + 4096, (4, 8), (Affine(0, ((1, 1),)), 1), fp32, "hbm")
ACCESS = Access(1 << 48, fp32, (4, 8), (Affine(0, ((1, 1),)), 1), hi=((Affine(4, ((0, 1),)),), (8,)))


def add(**extra: object) -> OpSpec:
    return OpSpec("add", Scope.KERNEL, {"src_a": X}, dict(extra), Y)


@pytest.mark.parametrize(
    "command",
    [
        CompositeTemplate(0, (add(src_b=1.5),)),
        CompositeTemplate(1, (add(src_b=0.1), add(src_b=Reg(1))), (X, Y)),
        CompositeTemplate(2, (OpSpec("gemm", Scope.KERNEL, {"a": FAR, "b": X}, {"m": 4, "k": 8, "n": 8}, Y),)),
        CompositeCmd(CompletionHandle(7), (add(src_b=2.0),), (X,)),
        DmaRead(3, X, ACCESS),
        DmaWrite(4, Y, replace(ACCESS, hi=(), strides=(8, 1))),
        Gather(5, X, ACCESS, index=replace(X, dtype=i32), mask=X),
    ],
)
def test_the_words_of_a_command_are_its_logical_bytes(command: CompositeTemplate | DmaRead) -> None:
    packed = pack_command(command, registers=(3, 16))

    assert command.logical_bytes == len(packed)
    assert OPCODES[type(command)] == packed[0]


def test_registers_change_words_and_not_their_number() -> None:
    one, other = (pack_command(DmaRead(3, Y, ACCESS), registers=(register, 16)) for register in (1, 2))

    assert one != other
    assert len(one) == len(other)


def test_names_change_no_word() -> None:
    renamed = CompositeTemplate(0, (replace(add(src_b=1.5), operands={"src_a": replace(X, name="z")}),))

    assert pack_command(CompositeTemplate(0, (add(src_b=1.5),)), registers=(0,)) == pack_command(
        renamed, registers=(0,)
    )


def test_equal_shapes_share_a_descriptor() -> None:
    tables = Tables()
    for number in range(5):
        pack_command(CompositeTemplate(number, (add(src_b=float(number)),)), tables, (number,))

    assert 1 == len(tables.descriptors)


def test_every_command_of_a_kernel_packs() -> None:
    text = """
def k(x, w, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at[:, None] * n + at[None, :], mask=at[:, None] < n, other=0.0)
    p = kb.composite(op="gemm", a=v, b=kb.ref(w, (BLOCK, BLOCK)), epilogue=[{"op": "mul", "other": 0.5}])
    tl.store(out + at[:, None] * n + at[None, :], tl.exp(p - tl.max(p, axis=1)[:, None]))
"""
    program = compiled(text, {"x": "*fp32", "w": "*fp32", "out": "*fp32", "n": "i32"}, BLOCK=16).program
    registers = [1] * len(program.register_dtypes)
    commands = [node for node in walk(program.body) if type(node) in OPCODES]

    assert len(commands) >= 5
    assert [c.logical_bytes for c in commands] == [len(pack_command(c, registers=registers)) for c in commands]
