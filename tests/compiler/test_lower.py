"""Lowering of residual programs that are built by hand, instruction by instruction."""

import pytest

from kernbench.commands import (
    Access,
    Affine,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Gather,
    If,
    Loop,
    Program,
    ReadScalar,
    Reg,
    ScalarOp,
    Scatter,
    TensorHandle,
    Wait,
    walk,
)
from kernbench.compiler.fault_log import FaultLog
from kernbench.compiler.lower import lower
from kernbench.compiler.residual import (
    BlockCarry,
    BlockOp,
    BlockRef,
    BlockToScalar,
    CopyBlock,
    Dot,
    ForRegion,
    IndexBlock,
    Instr,
    LoadBlock,
    MaskBlock,
    Reshape,
    Residual,
    StoreBlock,
    ViewOf,
    WaitFor,
)
from kernbench.compiler.source import SourceText
from kernbench.diagnostics import Span
from kernbench.dtypes import DType, fp16, fp32, i1, i32, i64

AT = Span("k.tl", 1, 1, 1, 2)


def block(number: int, *shape: int, dtype: DType = fp32, name: str = "") -> BlockRef:
    return BlockRef(number, dtype, shape, name)


def access(*shape: int, dtype: DType = fp32, **more: object) -> Access:
    strides = tuple(reversed([1, *shape[:0:-1]])) if shape else ()
    return Access(Affine(0, ((0, 1),)), dtype, shape, strides, **more)  # type: ignore[arg-type]


def load(ref: BlockRef) -> LoadBlock:
    return LoadBlock(ref, access(*ref.shape, dtype=ref.dtype), None, None, None, AT)


def store(ref: BlockRef) -> StoreBlock:
    return StoreBlock(access(*ref.shape, dtype=ref.dtype), ref, None, None, AT)


def lowered(*body: Instr, registers: int = 3) -> Program:
    residual = Residual("k", (), (), (), (i64,) * registers, ("",) * registers, tuple(body))
    program = lower(residual, FaultLog(SourceText("k.tl", "")), 0)
    assert program is not None
    return program


def ops(program: Program) -> list[tuple[str, dict[str, TensorHandle], dict[str, object], TensorHandle | None]]:
    nodes = [node for node in walk(program.body) if isinstance(node, CompositeTemplate)]
    return [(op.kind, op.operands, op.extra, op.out) for node in nodes for op in node.ops]


def test_an_elementwise_op_gets_its_operands_by_name_and_repeats_them_by_strides() -> None:
    a, b, c = block(1, 4, 8), block(2, 8), block(3, 4, 8)
    program = lowered(load(a), load(b), BlockOp(c, "add", (a, b), {}, AT), store(c))
    ((kind, operands, extra, out),) = ops(program)

    assert ("add", ["src_a", "src_b"], {}) == (kind, list(operands), extra)
    assert [(8, 1), (0, 1)] == [operand.strides for operand in operands.values()]
    assert {(4, 8)} == {operand.shape for operand in operands.values()}
    assert out is not None
    assert out.shape == (4, 8)


def test_numbers_and_registers_stand_in_extra_and_affine_ones_get_a_register() -> None:
    a, b = block(1, 4), block(2, 4)
    program = lowered(
        load(a), BlockOp(b, "fma", (a, 2.0, Reg(1)), {}, AT), BlockOp(a, "mul", (b, Affine(1, ((1, 1),))), {}, AT)
    )
    (_, _, first, _), (_, _, second, _) = ops(program)

    assert {"src_b": 2.0, "src_c": Reg(1)} == first
    (made,) = [node for node in program.body if isinstance(node, ScalarOp)]
    assert {"src_b": Reg(made.dst)} == second


@pytest.mark.parametrize(
    ("axis", "kept", "shape"), [(0, (8,), (8,)), (1, (4,), (4,)), (-1, (4, 1), (4,)), (None, (), ())]
)
def test_a_reduction_writes_the_rest_of_the_axes(
    axis: int | None, kept: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    a, b = block(1, 4, 8), block(2, *kept)
    ((_, _, extra, out),) = ops(lowered(load(a), BlockOp(b, "rsum", (a,), {"axis": axis}, AT)))

    assert {"axis": None if axis is None else axis % 2} == extra
    assert out is not None
    assert shape == out.shape


def test_views_cost_nothing_and_share_their_buffer() -> None:
    a, t, w = block(1, 4, 8, name="a"), block(2, 8, 4), block(3, 8, 4)
    program = lowered(load(a), ViewOf(t, a, (1, 0), AT), BlockOp(w, "exp", (t,), {}, AT))
    ((_, operands, _, _),) = ops(program)

    assert ((8, 4), (1, 8), 2) == (operands["src"].shape, operands["src"].strides, len(program.buffers))


def test_a_reshape_is_free_where_the_source_is_dense_and_a_copy_where_not() -> None:
    a, t, flat, bent = block(1, 4, 8), block(2, 8, 4), block(3, 32), block(4, 32)
    program = lowered(
        load(a), Reshape(flat, a, AT), ViewOf(t, a, (1, 0), AT), Reshape(bent, t, AT), store(flat), store(bent)
    )
    ((kind, operands, _, out),) = ops(program)

    assert ("copy", (1, 8)) == (kind, operands["src"].strides)
    assert out is not None
    assert ((8, 4), (4, 1)) == (out.shape, out.strides)
    assert [1, out.id] == [node.src.id for node in program.body if isinstance(node, DmaWrite)]


def test_an_access_is_a_dma_or_a_gather_by_its_form() -> None:
    from kernbench.commands import AxisIndex, IndexOp

    a, rows, b = block(1, 4), block(2, 4, dtype=i32), block(3, 4)
    rest = IndexOp("mul", (AxisIndex(0), AxisIndex(0)), i32)
    program = lowered(
        load(a),
        load(rows),
        LoadBlock(b, access(4), 0.0, rows, None, AT),
        LoadBlock(b, access(4, rest=rest), None, None, None, AT),
        StoreBlock(access(4), b, None, rows, AT),
        store(b),
    )

    assert [DmaRead, DmaRead, Gather, Gather, Scatter, DmaWrite] == [type(node) for node in program.body]
    assert isinstance(program.body[1], DmaRead)
    assert program.body[1].static
    assert not program.body[0].static  # type: ignore[union-attr]


def test_symbolic_blocks_are_made_by_generators() -> None:
    index, mask = block(1, 4, dtype=i32), block(2, 4, dtype=i1)
    found = ops(
        lowered(
            IndexBlock(index, Affine(3, ((1, 1),)), (2,), None, AT),
            MaskBlock(mask, (), ((Affine(0, ((1, 1),)),),), (Reg(2),), None, AT),
        )
    )

    assert ["index", "mask"] == [kind for kind, _, _, _ in found]
    assert (Affine(3, ((1, 1),)), (2,)) == (found[0][2]["base"], found[0][2]["strides"])
    assert (((),), ((Affine(0, ((1, 1),)),),), (Reg(2),)) == tuple(found[1][2][key] for key in ("lo", "hi", "preds"))


def test_a_product_is_a_gemm_and_its_sum_a_tile_epilogue() -> None:
    a, b, c, d = block(1, 4, 8, dtype=fp16), block(2, 8, 2, dtype=fp16), block(3, 4, 2), block(4, 4, 2)
    program = lowered(load(a), load(b), CopyBlock(c, 0.0, AT), Dot(d, a, b, c, AT))
    _, gemm, add = ops(program)

    assert ("gemm", 4, 8, 2, fp32) == (gemm[0], *(gemm[2][key] for key in ("m", "k", "n", "acc_dtype")))
    assert add[1]["src_a"].is_accumulator
    assert gemm[3] is not None
    assert gemm[3].id == add[1]["src_b"].id  # the sum is in place


def test_a_scalar_is_read_from_a_block_and_makes_what_it_depends_on_static() -> None:
    a, total = block(1, 4), block(2)
    program = lowered(
        load(a),
        BlockOp(total, "rsum", (a,), {"axis": 0}, AT),
        BlockToScalar(1, total, AT),
        LoadBlock(a, access(4, lo=((Affine(0, ((1, 1),)),),)), None, None, None, AT),
    )

    assert [True, True, True, True] == [node.static for node in program.body]  # type: ignore[union-attr]
    assert isinstance(program.body[2], ReadScalar)


def test_a_carried_block_that_another_name_still_needs_is_copied() -> None:
    first, slot, after = block(1, 4, name="acc"), block(2, 4, name="acc"), block(3, 4, name="acc")
    body = (BlockOp(after, "add", (slot, 1.0), {}, AT),)
    carry = BlockCarry(slot, first, (after,))
    loop = ForRegion(1, 0, 3, 1, body, "i", (), (), (carry,), 1, AT)
    alone = lowered(load(first), loop, store(slot))
    shared = lowered(load(first), loop, store(slot), store(first))

    assert 0 == [kind for kind, _, _, _ in ops(alone)].count("copy")
    assert 1 == [kind for kind, _, _, _ in ops(shared)].count("copy")
    assert [Loop] == [type(node) for node in alone.body[1:2]]


def test_a_wait_names_the_blocks() -> None:
    a = block(1, 4, name="a")
    program = lowered(load(a), WaitFor((a,), AT), WaitFor((), AT))
    waits = [node for node in program.body if isinstance(node, Wait)]

    assert [["a"], []] == [[handle.name for handle in node.handles] for node in waits]
    assert not any(isinstance(node, If) for node in program.body)
