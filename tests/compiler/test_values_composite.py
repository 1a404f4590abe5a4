"""`tl.composite`: operands, results, and the blocks that it writes in place."""

from __future__ import annotations

from typing import Any

import pytest

from kernbench.compiler.elaborate import elaborate
from kernbench.compiler.parse import parse
from kernbench.compiler.recipes import written_operands
from kernbench.compiler.residual import BlockRef, CompositeCall, HbmRef, Instr, StoreBlock
from kernbench.diagnostics import Diagnostic, Sink
from tests.compiler.elaborating import source_of

SIGNATURE = {"x": "*fp16", "y": "*fp32", "n": "i32"}
SET_UP = """
def k(x, y, n):
    q = tl.load(x + tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8))
    s = tl.load(y + tl.arange(0, 4)[:, None] * 16 + tl.arange(0, 16))
    k_t = tl.ref(x, (8, 16), strides=(1, 8))
    v = tl.ref(x, (16, 8))
    m = tl.zeros((4,), tl.float32)
    l = tl.zeros((4,), tl.float32)
    acc = tl.zeros((4, 8), tl.float32)
"""


def attempt(body: str) -> tuple[tuple[Instr, ...], list[Diagnostic]]:
    source, sink = source_of(SET_UP + "".join(f"    {line}\n" for line in body.strip().splitlines())), Sink()
    residual = elaborate(parse(source), source, None, {}, SIGNATURE, sink, written_operands)
    return () if residual is None else residual.body, sink.diagnostics


def composite(body: str) -> CompositeCall:
    instrs, diagnostics = attempt(body)
    assert [] == [d.render() for d in diagnostics]
    (call,) = (instr for instr in instrs if isinstance(instr, CompositeCall))
    return call


def test_a_product_without_out_makes_a_block() -> None:
    call = composite('c = tl.composite(op="gemm", a=q, b=k_t, epilogue=[{"op": "mul", "other": 0.5}])')

    assert ("gemm", None, ()) == (call.op, call.out, call.updates)
    assert call.result is not None and ((4, 16), "fp32") == (call.result.shape, call.result.dtype.name)
    assert isinstance(call.operands["b"], HbmRef) and (1, 8) == call.operands["b"].strides
    assert [("mul", {"other": 0.5}, None)] == [(e.op, e.operands, e.scope) for e in call.epilogue]


MERGE = """
tl.composite(
    prologue=[{"op": "softmax_merge", "s": s, "m": m, "l": l, "O": acc}],
    op="gemm", b=v, out=acc, epilogue=[{"op": "add", "other": acc}],
)
tl.store(y + tl.arange(0, 4), m)
tl.store(y + tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8), acc)
"""


def test_what_a_recipe_and_out_write_is_updated_in_order_and_once() -> None:
    call = composite(MERGE)

    assert ["m", "l", "acc"] == [old.name for old, _ in call.updates]
    assert all((old.dtype, old.shape) == (new.dtype, new.shape) and old != new for old, new in call.updates)


def test_names_stand_for_the_new_values_behind_it() -> None:
    instrs, _ = attempt(MERGE)

    call = next(instr for instr in instrs if isinstance(instr, CompositeCall))
    stored = [instr.value for instr in instrs if isinstance(instr, StoreBlock)]
    new: dict[str, BlockRef] = {old.name: value for old, value in call.updates}
    assert [new["m"], new["acc"]] == stored


def test_out_in_memory_gives_no_block() -> None:
    by_ref = composite('tl.composite(op="gemm", a=q, b=v.T, out=tl.ref(y, (4, 16), strides=(n, 1)))')
    by_pointer = composite('tl.composite(op="gemm", a=q, b=k_t, out_ptr=y + 64)')

    assert isinstance(by_ref.out, HbmRef) and by_ref.result is None
    assert isinstance(by_pointer.out, HbmRef) and (16, 1) == by_pointer.out.strides
    assert "fp32" == by_pointer.out.dtype.name


def test_chains_of_maths() -> None:
    recipe = composite('p = tl.composite(prologue=[{"op": "softmax", "x": s}])')
    single = composite('p = tl.composite(op="add", src_a=s, src_b=1.0)')

    assert recipe.op is None and recipe.result is not None and (4, 16) == recipe.result.shape
    assert ("add", 1.0) == (single.op, single.operands["src_b"])
    assert single.result is not None and (4, 16) == single.result.shape


@pytest.mark.parametrize(
    ("call", "code", "says"),
    [
        ('op="gem", a=q, b=k_t', "E_UNKNOWN_OP", "'gem' is no op"),
        ('op="gemm", a=q', "E_BAD_COMPOSITE", "needs `b`"),
        ("a=q, b=k_t", "E_BAD_COMPOSITE", "without `op`"),
        ('op="gemm", a=q, b=v', "E_DOT_SHAPE", "[4, 8] and [16, 8]"),
        ('op="gemm", a=x, b=v', "E_BAD_COMPOSITE", "`a` of tl.composite(op='gemm') is a pointer"),
        ('op="gemm", a=q, b=k_t, out=acc', "E_SHAPE_MISMATCH", "[4, 8], the result [4, 16]"),
        ('op="gemm", a=q, b=k_t, out=n', "E_BAD_COMPOSITE", "`out` must be"),
        ('op="gemm", a=q, b=k_t, out=s, out_ptr=y', "E_BAD_COMPOSITE", "both are given"),
        ('op="gemm", a=q, b=k_t, out_ptr=n', "E_POINTER_EXPECTED", "`out_ptr`"),
        ('op="gemm", a=q, b=k_t, epilogue=[{"op": "ad"}]', "E_UNKNOWN_OP", "'ad'"),
        ('op="gemm", a=q, b=k_t, epilogue=[3]', "E_BAD_COMPOSITE", "must be a dict"),
        ('op="gemm", a=q, b=k_t, epilogue=[{"op": "exp", "scope": "TILE"}]', "E_BAD_COMPOSITE", "'TILE'"),
        ('op="gemm", b=v, prologue=[{"op": "softmax_merge", "m": m}]', "E_BAD_COMPOSITE", "operand `s`"),
        (
            'op="gemm", b=v, prologue=[{"op": "softmax_merge", "s": s, "m": 1.0, "l": l, "O": acc}]',
            "E_BAD_COMPOSITE",
            "`m` of `softmax_merge` is written",
        ),
    ],
)
def test_mistakes_in_composites(call: str, code: str, says: str) -> None:
    found: list[Any] = attempt(f"c = tl.composite({call})")[1]

    assert [code] == [d.code for d in found]
    assert says in found[0].message
