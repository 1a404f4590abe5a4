"""Fusing changes how ops are dispatched, and nothing that they compute."""

import numpy as np
import pytest

from kernbench.commands import CompositeTemplate, OpSpec, Program, walk
from tests.compiler.kernels import compiled, run


def composites(program: Program) -> list[CompositeTemplate]:
    return [node for node in walk(program.body) if isinstance(node, CompositeTemplate)]


def ops(program: Program) -> list[OpSpec]:
    return [op for node in composites(program) for op in node.ops]


CHAIN = """
def chain(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    a = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(y + at, mask=mask, other=0.0).to(tl.float32)
    c = (a * 1.7 + b).to(tl.float16)
    d = tl.exp(c.to(tl.float32) * 0.1) - a
    tl.store(out + at, d.to(tl.bfloat16), mask=mask)
"""
TYPES = {"x": "*fp16", "y": "*fp16", "out": "*bf16", "n": "i32"}


def test_an_elementwise_chain_becomes_one_composite_of_the_same_ops() -> None:
    plain = compiled(CHAIN, TYPES, 0, BLOCK=64).program
    fused = compiled(CHAIN, TYPES, 1, BLOCK=64).program

    assert [op.kind for op in ops(plain)] == [op.kind for op in ops(fused)]
    assert [1] * 10 == [len(node.ops) for node in composites(plain)]
    assert len(composites(fused)) <= 2


def test_no_cast_is_dropped() -> None:
    def casts(program: Program) -> list[str]:
        return [op.out.dtype.name for op in ops(program) if op.kind == "copy" and op.out is not None]

    levels = [casts(compiled(CHAIN, TYPES, opt, BLOCK=64).program) for opt in (0, 1)]

    assert levels[0] == levels[1]
    assert ["fp32", "fp32", "fp16", "fp32", "bf16"] == levels[0]


def test_values_are_bit_equal_at_every_level() -> None:
    import ml_dtypes

    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=64).astype(np.float16) for _ in range(2))
    results = []
    for opt in (0, 1):
        out = np.zeros(64, ml_dtypes.bfloat16)
        run(CHAIN, {"x": x, "y": y, "out": out, "n": 60}, opt=opt, BLOCK=64)
        results.append(out.tobytes())

    assert results[0] == results[1]


REDUCE = """
def softmax(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=-float("inf"))
    v = v - tl.max(v, axis=0)
    e = tl.exp(v)
    tl.store(out + at, e / tl.sum(e, axis=0), mask=at < n)
"""


def test_reductions_stay_commands_of_their_own() -> None:
    program = compiled(REDUCE, {"x": "*fp32", "out": "*fp32", "n": "i32"}, BLOCK=64).program

    assert [["rmax"], ["sub", "exp"], ["rsum"], ["div"]] == [[op.kind for op in n.ops] for n in composites(program)]


LONG = "def long(x, out):\n    v = tl.load(x + tl.arange(0, 16))\n" + "    v = v * 0.5 + 1.0\n" * 20
LONG += "    tl.store(out + tl.arange(0, 16), v)\n"


def test_a_long_chain_is_cut_where_a_command_is_full() -> None:
    program = compiled(LONG, {"x": "*fp32", "out": "*fp32"}).program

    assert [16, 16, 8] == [len(node.ops) for node in composites(program)]


SHARED = """
def shared(x, out, n):
    at = tl.arange(0, 8)
    v = tl.load(x + at)
    w = v * 2.0
    tl.store(out + at, w)
    u = w + v
    tl.store(out + 8 + at, u)
    s = tl.sum(u * w, axis=0)
    tl.store(out + 16, s)
"""


@pytest.mark.parametrize("opt", [0, 1])
def test_intermediates_that_others_read_are_still_there(opt: int) -> None:
    x, out = np.arange(8, dtype=np.float32), np.zeros(17, np.float32)
    run(SHARED, {"x": x, "out": out, "n": 0}, opt=opt)

    assert [*(x * 2), *(x * 3), float((x * x * 6).sum())] == out.tolist()


def test_commands_keep_the_source_order_and_a_place_without_optimisation() -> None:
    program = compiled(CHAIN, TYPES, 0, BLOCK=64).program
    lines = [node.span.line for node in walk(program.body) if getattr(node, "span", None) is not None]

    assert sorted(lines) == lines
    assert all(getattr(node, "span", None) is not None for node in composites(program))
