"""The command types: normal forms of register arithmetic, sizes, and the rules of composites (ADR-0065 D1 to D6)."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.commands import (
    COMMAND_BYTES,
    DMA_BYTES,
    DMA_TERM_BYTES,
    HANDLE_BYTES,
    OP_BYTES,
    RW_BYTES,
    STRIDE_BYTES,
    Access,
    Affine,
    Assert,
    AxisIndex,
    Block,
    CompletionHandle,
    CompositeCmd,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Exit,
    Gather,
    If,
    IndexOp,
    Int,
    KernelBinary,
    Loop,
    OpSpec,
    Reg,
    Scatter,
    Scope,
    TensorHandle,
    Wait,
    While,
    accumulator,
    add,
    affine,
    contiguous_strides,
    dynamic_strides,
    evaluate,
    operand_registers,
    parts,
    scale,
    walk,
)
from kernbench.dtypes import bf16, fp32, i32

# --------------------------------------------------------------------------- integers over registers

SMALL = st.integers(-(2**70), 2**70)
INTS: st.SearchStrategy[Int] = st.builds(affine, SMALL, st.dictionaries(st.integers(0, 4), SMALL, max_size=4))
REGISTERS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=5, max_size=5)


def is_normal(value: Int) -> bool:
    if not isinstance(value, Affine):
        return type(value) is int
    registers = [register for register, _ in value.terms]
    return bool(registers) and registers == sorted(set(registers)) and all(c for _, c in value.terms)


@settings(max_examples=150, deadline=None)
@given(INTS, INTS, SMALL, REGISTERS)
def test_sums_and_multiples_are_exact_and_normal(a: Int, b: Int, factor: int, registers: list[int]) -> None:
    total, multiple = add(a, b), scale(a, factor)

    assert evaluate(a, registers) + evaluate(b, registers) == evaluate(total, registers)
    assert evaluate(a, registers) * factor == evaluate(multiple, registers)
    assert is_normal(a) and is_normal(total) and is_normal(multiple)
    assert add(b, a) == total


def test_terms_that_cancel_leave_a_plain_integer() -> None:
    value = affine(4, {2: 8, 0: 0})

    assert Affine(4, ((2, 8),)) == value
    assert 4 == add(value, affine(0, {2: -8})) == affine(4, {})
    assert 0 == scale(value, 0)
    assert (4, {2: 8}) == parts(value)


def test_taking_a_value_apart_does_not_open_it_to_change() -> None:
    value = affine(4, {2: 8})
    parts(value)[1][2] = 9

    assert Affine(4, ((2, 8),)) == value


def test_what_an_operand_reads() -> None:
    assert [3] == list(operand_registers(Reg(3)))
    assert [1, 4] == list(operand_registers(affine(0, {4: 1, 1: 2})))
    assert [] == [*operand_registers(7), *operand_registers(1.5), *operand_registers(None)]


# --------------------------------------------------------------------------- handles


def handle(name: str, shape: tuple[int, ...] = (4, 8), space: str = "tcm", number: int = 1) -> TensorHandle:
    return TensorHandle(number, name, 0, shape, contiguous_strides(shape), bf16, space)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "strides"), [((), ()), ((7,), (1,)), ((2, 3, 5), (15, 5, 1)), ((4, 1), (1, 1)), ((3, 0), (0, 1))]
)
def test_contiguous_strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    assert strides == contiguous_strides(shape)
    assert math.prod(shape) == handle("x", shape).n_elements
    assert 2 * math.prod(shape) == handle("x", shape).nbytes


def test_the_accumulator_is_no_buffer_of_tcm() -> None:
    acc = accumulator((32, 32), fp32)

    assert acc.is_accumulator and not handle("x").is_accumulator
    assert (4096, (32, 1), "acc") == (acc.nbytes, acc.strides, acc.name)
    assert not replace(acc, address=affine(0, {1: 1})).is_accumulator


def test_handles_are_values() -> None:
    assert {handle("x"): 1} == {handle("x"): 1}
    with pytest.raises(FrozenInstanceError):
        handle("x").name = "y"  # type: ignore[misc]


# --------------------------------------------------------------------------- sizes


def test_the_size_of_a_command_is_the_sum_of_its_words() -> None:
    x, y = handle("x"), replace(handle("y"), strides=(affine(0, {1: 8}), 1))
    op = OpSpec("add", Scope.KERNEL, {"src_a": x, "src_b": y}, {}, x)
    command = CompositeTemplate(0, (op, OpSpec("neg", Scope.KERNEL, {"src": x})), (x, y))

    assert (0, 1) == (dynamic_strides(x), dynamic_strides(y))
    assert OP_BYTES + 3 * HANDLE_BYTES + STRIDE_BYTES == op.logical_bytes
    assert COMMAND_BYTES + op.logical_bytes + OP_BYTES + HANDLE_BYTES + 2 * RW_BYTES == command.logical_bytes
    assert command.logical_bytes == CompositeCmd(CompletionHandle(0), command.ops, command.rw_handles).logical_bytes


def test_names_and_spans_are_not_part_of_the_size() -> None:
    short, long = (
        CompositeTemplate(0, (OpSpec("neg", Scope.KERNEL, {"src": handle(name)}),)) for name in ("x", "y" * 99)
    )

    assert short.logical_bytes == long.logical_bytes


def test_run_time_strides_and_bounds_of_an_access_take_words() -> None:
    runs = affine(0, {1: 1})
    plain = Access(runs, bf16, (4, 8), (8, 1), lo=((0,), ()), hi=((4,), (8,)))
    more = replace(plain, strides=(runs, 1), hi=((runs, 4), (runs,)))

    assert (0, 3) == (plain.run_time_terms, more.run_time_terms)
    for access, words in ((plain, 0), (more, 3)):
        size = DMA_BYTES + words * DMA_TERM_BYTES
        assert size == DmaRead(0, handle("x"), access).logical_bytes == DmaWrite(0, handle("x"), access).logical_bytes
        gather = Gather(0, handle("x"), access, index=handle("i"), mask=handle("m"))
        assert size + 2 * HANDLE_BYTES == gather.logical_bytes
        assert size + HANDLE_BYTES == Scatter(0, handle("x"), access, index=handle("i")).logical_bytes


def test_a_binary_is_as_long_as_its_code() -> None:
    assert 3 == KernelBinary(b"abc", b"names and spans").nbytes_code


# --------------------------------------------------------------------------- composites

GEMM = OpSpec("gemm", Scope.KERNEL, {"a": handle("a", space="hbm"), "b": handle("b", (8, 4), "hbm")}, {}, handle("c"))
NEG = OpSpec("neg", Scope.KERNEL, {"src": handle("x")}, {}, handle("x"))


def test_a_composite_has_its_gemm_anywhere_and_its_epilogues_behind_it() -> None:
    tile, step = replace(NEG, scope=Scope.OUTPUT_TILE), replace(NEG, scope=Scope.K_TILE)

    assert 1 == CompositeCmd(CompletionHandle(1), (NEG, GEMM, step, tile, NEG)).gemm_index
    assert None is CompositeCmd(CompletionHandle(1), (NEG, NEG)).gemm_index
    in_tcm = replace(GEMM, operands={"a": handle("a"), "b": handle("b")}, out=handle("c", space="hbm"))
    assert 0 == CompositeCmd(CompletionHandle(1), (in_tcm,)).gemm_index


@pytest.mark.parametrize(
    ("ops", "rule"),
    [
        ((), "no ops"),
        ((GEMM, GEMM), "2 gemm ops, at most 1"),
        ((replace(GEMM, scope=Scope.K_TILE),), "gemm op has scope KERNEL"),
        ((replace(GEMM, out=None),), "operands a and b, and an out"),
        ((replace(GEMM, operands={"a": handle("a")}),), "operands a and b"),
        ((replace(NEG, scope=Scope.OUTPUT_TILE),), r"op 0 \(neg\) has scope OUTPUT_TILE without a gemm before"),
        ((replace(NEG, scope=Scope.K_TILE), GEMM), "without a gemm before"),
        ((NEG, replace(NEG, operands={"src": handle("x", space="hbm")})), r"operand src of op 1 \(neg\) is in hbm"),
        ((replace(NEG, out=handle("x", space="hbm")),), r"operand out of op 0 \(neg\) is in hbm"),
    ],
)
def test_a_composite_that_breaks_a_rule_cannot_be_made(ops: tuple[OpSpec, ...], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        CompositeTemplate(0, ops)
    with pytest.raises(ValueError, match=rule):
        CompositeCmd(CompletionHandle(0), ops)


def test_a_handle_is_read_and_written_once() -> None:
    m, other = handle("m"), handle("m", number=2)

    assert (m, other) == CompositeTemplate(0, (NEG,), (m, other)).rw_handles
    with pytest.raises(ValueError, match="twice"):
        CompositeTemplate(0, (NEG,), (m, replace(m, shape=(2, 2))))


# --------------------------------------------------------------------------- programs


def test_walking_meets_every_node_in_program_order_outer_before_inner() -> None:
    a, b, c, d, e = (Wait(number, ()) for number in range(5))
    loop = Loop(0, 0, 4, 1, (b,))
    branch = If(Reg(0), (c,), (d,))
    repeat = While((Assert(Reg(0), "m"),), Reg(0), (e, Exit(1)))
    block = Block(1, (a, loop, branch, repeat))

    assert [block, a, loop, b, branch, c, d, repeat, *repeat.header, e, Exit(1)] == list(walk((block,)))


def test_index_expressions_are_values() -> None:
    first, second = (IndexOp("mod", (AxisIndex(0), 7), i32) for _ in range(2))

    assert first == second and hash(first) == hash(second)
