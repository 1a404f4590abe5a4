"""Values as regions carry them: taken apart, joined, converted and put together again."""

from __future__ import annotations

from typing import Any

import pytest

from kernbench.commands import Reg
from kernbench.compiler.builder import Builder
from kernbench.compiler.residual import BlockRef
from kernbench.compiler.structure import BlockKey, Key, ScalarKey, ScalarLeaf
from kernbench.compiler.values import (
    Block,
    Const,
    IntBlock,
    MaskValue,
    Pointer,
    PtrBlock,
    Scalar,
    TupleValue,
    Value,
    type_text,
)
from kernbench.diagnostics import Span
from kernbench.dtypes import bf16, fp16, fp32, i1, i32, i64

AT = Span("k.tl", 1, 1, 1, 2)


class Some:
    """Values of every kind, made in one builder."""

    def __init__(self) -> None:
        self.b = Builder()
        self.n = self.b.bind_scalar("n", i32)[0]
        self.x = self.b.bind_tensor("x", fp16)[0]

    def op(self, op: str, a: Value, b: Value) -> Value:
        return self.b.binary(op, a, b, AT)

    def arange(self, stop: int = 8) -> Value:
        return self.b.call_builtin(self.b.attribute(_tl(), "arange", AT), (Const(0), Const(stop)), {}, AT)

    def block(self, dtype: Any = fp32, shape: tuple[int, ...] = (8,)) -> Block:
        return Block(self.b.new_block(dtype, shape))

    def everything(self) -> list[Value]:
        i = self.arange()
        rows = self.op("%", self.op("+", i, self.n), Const(5))
        gather = self.op("+", self.op("*", self.block(i32), self.n), i)
        return [
            Const(3),
            self.n,
            self.x,
            self.block(),
            self.block(fp32, ()),
            i,
            rows,
            gather,
            self.op("+", self.x, i),
            self.op("+", self.x, rows),
            self.op("+", self.x, gather),
            self.b.compare("<", i, self.n, AT),
            self.b.compare("!=", rows, i, AT),
            TupleValue((self.n, TupleValue((i, Const(None))))),
        ]


def _tl() -> Value:
    from kernbench.compiler.values import ModuleValue

    return ModuleValue("tl")


def joined(some: Some, a: Value, b: Value) -> Key | str:
    return some.b.join(some.b.flatten(a)[0], some.b.flatten(b)[0])


def test_rebuild_undoes_flatten() -> None:
    some = Some()

    for value in some.everything():
        key, leaves = some.b.flatten(value)
        assert value == some.b.rebuild(key, leaves), type_text(value)


def test_a_key_joins_with_itself() -> None:
    some = Some()

    for value in some.everything():
        key, _ = some.b.flatten(value)
        assert key == some.b.join(key, key)


def test_phis_have_the_types_of_their_leaves() -> None:
    some = Some()

    for value in some.everything():
        key, leaves = some.b.flatten(value)
        phis = tuple(some.b.phi(leaf, "p") for leaf in leaves)
        again = some.b.rebuild(key, phis)
        assert type_text(value) == type_text(again)
        assert key == some.b.flatten(again)[0]


def test_a_moved_pointer_block_differs_in_its_base_only() -> None:
    some = Some()
    before = some.op("+", some.x, some.op("*", some.arange(), some.n))
    after = some.op("+", before, Const(64))

    (key, a), (other, b) = some.b.flatten(before), some.b.flatten(after)

    assert key == other
    assert [True, False, False] == [x != y for x, y in zip(a, b, strict=True)]


def test_a_changed_stride_is_a_leaf() -> None:
    some = Some()
    before, after = some.arange(), some.op("*", some.arange(), some.n)

    (key, a), (other, b) = some.b.flatten(before), some.b.flatten(after)

    assert key == other
    assert [ScalarLeaf(1, i64), ScalarLeaf(Reg(0), i64)] == [a[1], b[1]]


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        (Const(0), Scalar(Reg(0), fp32), ScalarKey(fp32)),
        (Const(0.0), Scalar(Reg(0), fp16), ScalarKey(fp32)),
        (Const(0), Scalar(Reg(0), i64), ScalarKey(i64)),
        (Const(1), Const(2), ScalarKey(i32)),
        (Const(1), Const(2.5), ScalarKey(fp32)),
        (Const(False), Scalar(Reg(0), i1), ScalarKey(i1)),
        (Const(0.0), Block(BlockRef(1, fp32, ())), BlockKey(fp32, ())),
        (Scalar(Reg(0), fp32), Block(BlockRef(1, fp32, ())), BlockKey(fp32, ())),
    ],
)
def test_constants_widen(first: Value, then: Value, expected: Key) -> None:
    assert expected == joined(Some(), first, then)


def test_symbolic_blocks_that_do_not_agree_become_dense() -> None:
    some = Some()
    i = some.arange()

    assert BlockKey(i32, (8,)) == joined(some, i, some.op("%", i, some.n))
    assert BlockKey(i32, (8,)) == joined(some, i, some.block(i32))
    two = some.b.compare("<", i, some.n, AT), some.b.compare("!=", i, some.n, AT)
    assert BlockKey(i1, (8,)) == joined(some, *two)


@pytest.mark.parametrize(
    ("first", "then", "says"),
    [
        (Scalar(Reg(0), i32), Scalar(Reg(0), i64), "int32 first and int64 then"),
        (Block(BlockRef(1, fp32, (8,))), Block(BlockRef(2, fp16, (8,))), "float32[8] first and float16[8] then"),
        (Block(BlockRef(1, fp32, (8,))), Block(BlockRef(2, fp32, (4,))), "float32[8] first and float32[4] then"),
        (Const(0.0), Block(BlockRef(2, fp32, (4,))), "constexpr 0.0 first and float32[4] then"),
        (Pointer(0, fp32), Pointer(0, bf16), "points to float32 first and to bfloat16 then"),
        (Pointer(0, fp32), Scalar(0, i32), "pointer<float32> first and int32 then"),
        (Const(None), Pointer(0, fp32), "None first and pointer<float32> then"),
        (TupleValue((Const(1),)), TupleValue((Const(1), Const(2))), "1 items first and 2 then"),
    ],
)
def test_what_cannot_be_joined(first: Value, then: Value, says: str) -> None:
    reason = joined(Some(), first, then)

    assert isinstance(reason, str) and says in reason


def test_conversion_wraps_scalars_and_fills_blocks() -> None:
    some = Some()
    grown = some.op("+", some.n, some.n)

    scalar = some.b.convert(grown, ScalarKey(i32), AT)
    block = some.b.convert(Const(0), BlockKey(fp32, ()), AT)

    assert isinstance(scalar, Scalar) and isinstance(scalar.operand, Reg)
    assert i32 is some.b.register_dtypes[scalar.operand.index]
    assert isinstance(block, Block) and (fp32, ()) == (block.dtype, block.shape)


def test_pointer_blocks_of_two_structures_meet_in_dense_offsets() -> None:
    some = Some()
    plain = some.op("+", some.x, some.arange())
    split = some.op("+", some.x, some.op("%", some.arange(), some.n))

    key = joined(some, plain, split)
    assert not isinstance(key, str)
    both = [some.b.convert(value, key, AT) for value in (plain, split)]

    assert all(isinstance(value, PtrBlock) and value.offsets.dense is not None for value in both)
    assert [key, key] == [some.b.flatten(value)[0] for value in both]


def test_kinds_of_the_samples() -> None:
    kinds = {type(value) for value in Some().everything()}

    assert {Const, Scalar, Pointer, Block, IntBlock, PtrBlock, MaskValue, TupleValue} == kinds
