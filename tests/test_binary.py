"""The binary: exact inverse, names kept apart, hostile bytes refused."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.binary import BinaryError, decode, encode
from kernbench.commands import (
    Access,
    Affine,
    AxisIndex,
    Block,
    Buffer,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Exit,
    Gather,
    IndexOp,
    KernelBinary,
    Loop,
    Move,
    OpSpec,
    Param,
    Program,
    Reg,
    ScalarOp,
    Scope,
    TensorHandle,
    contiguous_strides,
)
from kernbench.diagnostics import Span
from kernbench.dtypes import fp32, i32, i64

SPAN = Span("k.tl", 3, 5, 3, 9)


def handle(number: int, name: str, shape: tuple[int, ...] = (64,)) -> TensorHandle:
    return TensorHandle(number, name, 64 * number, shape, contiguous_strides(shape), fp32, "tcm")


def program(name: str = "x") -> Program:
    x, y = handle(1, name), handle(2, "y")
    access = Access(
        Affine(8, ((0, 1), (2, 256))), fp32, (64,), (1,), lo=((0,),), hi=((Affine(0, ((1, 1),)), 64),), preds=(Reg(3),)
    )
    rest = IndexOp("mod", (AxisIndex(0), 7), i32)
    body = (
        DmaRead(0, x, access, other=-1.5, span=SPAN, static=True),
        Gather(1, y, replace(access, rest=rest, offset_bits=32), other=x),
        CompositeTemplate(
            2, (OpSpec("add", Scope.KERNEL, {"src_a": x}, {"src_b": Reg(3), "axes": (1, None, "k")}, y),), (x,), SPAN
        ),
        DmaWrite(3, y, access),
        Exit(0, (Move(3, 1.0),)),
    )
    loop = Loop(2, 0, Reg(1), 64, body, name="i", init=(Move(3, True),), rotations=((3, 2),), span=SPAN)
    scalar = ScalarOp(3, "mul", (Reg(1), Affine(1, ((1, -(2**70)),))), i64, (i32, i64), SPAN)
    return Program(
        name="kernel",
        params=(Param("x_ptr", "tensor", fp32, 0), Param("n", "scalar", i32, 1)),
        specials=(("program_id_0", 2),),
        register_dtypes=(i64, i32, i32, i64),
        register_names=("x_ptr", "n", "i", ""),
        buffers=(Buffer(1, "x", 256, 2, 64), Buffer(2, "y", 256, persistent=True)),
        body=(Block(0, (scalar, loop)),),
        tcm_bytes=1024,
        constexprs=(("BLOCK", 64), ("SCALE", 0.5), ("FLAG", True), ("T", (fp32, None, "s"))),
        opt_level=0,
    )


def test_decode_gives_the_program_back() -> None:
    assert program() == decode(encode(program()))


def test_names_and_spans_change_no_byte_of_the_code() -> None:
    renamed = replace(program("another_name"), name="other", constexprs=())

    assert encode(program()).code == encode(renamed).code


def test_without_a_debug_section_names_are_empty_and_the_rest_is_there() -> None:
    found = decode(KernelBinary(encode(program()).code))

    assert (found.name, found.body[0].span) == ("", None)
    assert encode(program()).code == encode(found).code


def test_a_debug_section_of_another_binary_is_refused() -> None:
    other = replace(program(), tcm_bytes=0)

    with pytest.raises(BinaryError, match="another binary"):
        decode(KernelBinary(encode(program()).code, encode(other).debug))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_end_in_a_program_or_a_binary_error(data: bytes) -> None:
    with pytest.raises(BinaryError):
        decode(KernelBinary(data))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_corrupted_stream_with_a_right_checksum_ends_in_a_program_or_a_binary_error(data: st.DataObject) -> None:
    import zlib

    code = bytearray(encode(program()).code)
    for _ in range(data.draw(st.integers(1, 3))):
        code[data.draw(st.integers(8, len(code) - 1))] = data.draw(st.integers(0, 255))
    code[4:8] = zlib.crc32(bytes(code[8:])).to_bytes(4, "little")
    try:
        decode(KernelBinary(bytes(code)))
    except BinaryError as fault:
        assert 0 <= fault.offset <= len(code)


@pytest.mark.parametrize("cut", [0, 3, 7, 8, 20])
def test_a_truncated_binary_is_refused_with_its_offset(cut: int) -> None:
    with pytest.raises(BinaryError):
        decode(KernelBinary(encode(program()).code[:cut]))


def test_a_very_deep_program_is_refused_rather_than_overflowing_the_stack() -> None:
    import zlib

    block = bytes([14, 0, 1])  # a Block with label 0 and one node
    head = bytes([0, 0, 0, 0, 1])
    body = head + block * 5000
    with pytest.raises(BinaryError, match="nested deeper"):
        decode(KernelBinary(b"KBC1" + zlib.crc32(body).to_bytes(4, "little") + body))
