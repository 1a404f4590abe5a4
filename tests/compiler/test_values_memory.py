"""Loads and stores: masks, `other`, casts to the pointee, scalars, references."""

from __future__ import annotations

import numpy as np
import pytest

from kernbench.compiler.residual import LoadBlock, LoadScalar, StoreBlock, StoreScalar
from tests.compiler.elaborating import error_of, errors_of, residual_of, run

X = {"x": "*fp32", "i": "*i32", "n": "i32"}


def kinds(text: str) -> list[str]:
    return [type(instr).__name__ for instr in residual_of(text, X).body]


def test_other_fills_the_lanes_that_the_mask_stops() -> None:
    text = """
    def k(o, x, n):
        i = tl.arange(0, 256)
        v = tl.load(x + i, mask=i < n, other=0.0)
        tl.store(o, tl.sum(v))
        tl.store(o + 1 + i, tl.load(x + i, mask=i < n, other=-1))
        tl.store(o + 257 + i, tl.load(x + i, mask=i < n))
    """
    x = np.arange(1, 257, dtype=np.float32)

    found = run(text, {"o": np.zeros(520, np.float32), "x": x, "n": 16})["o"]

    assert 136 == found[0]
    assert (1.0, -1.0, -1.0) == (found[1], found[17], found[256])
    assert (16.0, 0.0) == (found[257 + 15], found[257 + 16])


def test_a_block_as_other_is_cast_and_broadcast() -> None:
    text = """
    def k(o, x):
        i = tl.arange(0, 4)
        j = tl.arange(0, 2)
        v = tl.load(x + i[None, :] + j[:, None] * 0, mask=i < 2, other=(i * 2)[None, :])
        tl.store(o + j[:, None] * 4 + i, v)
    """

    found = run(text, {"o": np.zeros(8, np.float16), "x": np.full(4, 9, np.float16)})["o"]

    assert [9, 9, 4, 6] * 2 == list(found)


def test_a_false_mask_moves_nothing() -> None:
    text = "def k(x, i, n):\n    a = tl.load(x, mask=False, other=1.0)\n    tl.store(x, a, mask=False)\n"
    blocks = """
    def k(x, i, n):
        at = tl.arange(0, 4)
        a = tl.load(x + at, mask=False, other=1.0)
        tl.store(x + at, a, mask=False)
        b = tl.load(x + at, mask=at < 0, other=1.0)
    """

    assert [] == kinds(text)
    assert ["CopyBlock", "CopyBlock"] == kinds(blocks)


def test_a_false_scalar_mask_gives_other() -> None:
    text = """
    def k(o, x, n):
        tl.store(o, tl.load(x, mask=n > 5, other=1.0))
        tl.store(o + 1, 7.0, mask=n > 5)
        tl.store(o + 2, tl.load(x, mask=n < 5, other=1.0), mask=n < 5)
    """

    found = run(text, {"o": np.full(3, -1, np.float32), "x": np.full(1, 4, np.float32), "n": 3})["o"]

    assert [1, -1, 4] == list(found)


def test_values_are_cast_to_the_pointee() -> None:
    text = """
    def k(o, h, x):
        i = tl.arange(0, 2)
        v = tl.load(x + i)
        tl.store(o + i, v)
        tl.store(h + i, v)
        tl.store(o + 2, 300.7)
        tl.store(h + 2, tl.load(x))
    """
    found = run(
        text, {"o": np.zeros(3, np.uint8), "h": np.zeros(3, np.float16), "x": np.array([1.9, 2.0001], np.float32)}
    )

    assert [1, 2] == list(found["o"][:2])
    assert [np.float16(1.9), 2, np.float16(1.9)] == list(found["h"])


def test_a_scalar_value_fills_a_block() -> None:
    text = """
    def k(o, n):
        i = tl.arange(0, 4)
        tl.store(o + i, n + 1, mask=i < 3)
        tl.store(o + 4 + i, 2.5)
    """

    found = run(text, {"o": np.zeros(8, np.float32), "n": 4})["o"]

    assert [5, 5, 5, 0, 2.5, 2.5, 2.5, 2.5] == list(found)


def test_a_reduction_is_stored_as_a_scalar() -> None:
    text = """
    def k(o, x):
        v = tl.load(x + tl.arange(0, 8))
        tl.store(o, tl.sum(v) / 8)
    """

    assert 3.5 == run(text, {"o": np.zeros(1, np.float32), "x": np.arange(8, dtype=np.float32)})["o"][0]


def test_a_loaded_scalar_leads_to_an_address() -> None:
    text = """
    def k(o, table, x):
        page = tl.load(table + tl.program_id(0))
        i = tl.arange(0, 4)
        tl.store(o + tl.program_id(0) * 4 + i, tl.load(x + page * 4 + i))
    """
    x = np.arange(12, dtype=np.int32)

    found = run(text, {"o": np.zeros(8, np.int32), "table": np.array([2, 0], np.int64), "x": x}, grid=(2,))["o"]

    assert [8, 9, 10, 11, 0, 1, 2, 3] == list(found)


def test_negative_strides_and_pointer_differences() -> None:
    text = """
    def k(o, x):
        i = tl.arange(0, 4)
        tl.store(o + i, tl.load(x + 3 - i))
    """

    assert [3, 2, 1, 0] == list(run(text, {"o": np.zeros(4, np.int32), "x": np.arange(4, dtype=np.int32)})["o"])


def test_pointers_as_integers_and_back() -> None:
    text = """
    def k(o, x, n):
        address = (x + n).to(tl.int64) + 4
        p = address.to(tl.pointer_type(tl.float32))
        tl.store(o, tl.load(p))
        q = x if n > 5 else x + 1
        tl.store(o + 1, tl.load(q))
        tl.store(o + 2, tl.load(tl.where(n > 1, x, x + 1)))
    """

    found = run(text, {"o": np.zeros(3, np.float32), "x": np.arange(8, dtype=np.float32), "n": 2})["o"]

    assert [3, 1, 0] == list(found)


def test_a_scatter_by_loaded_indices() -> None:
    text = """
    def k(o, at, x):
        i = tl.arange(0, 4)
        tl.store(o + tl.load(at + i), tl.load(x + i), mask=tl.load(x + i) > 0)
    """
    args = {"o": np.zeros(4, np.int32), "at": np.array([3, 0, 2, 1], np.int32), "x": np.array([5, -6, 7, 8], np.int32)}

    assert [0, 8, 7, 5] == list(run(text, args)["o"])


def test_unsigned_offsets_are_not_negative() -> None:
    text = """
    def k(o, at, x):
        i = tl.arange(0, 2)
        tl.store(o + i, tl.load(x + tl.load(at + i)))
    """
    args = {"o": np.zeros(2, np.int32), "at": np.array([200, 3], np.uint8), "x": np.arange(256, dtype=np.int32)}

    assert [200, 3] == list(run(text, args)["o"])


def test_offset_bits() -> None:
    text = """
    def k(x, i, n):
        at = tl.arange(0, 4)
        a = tl.load(x + n * 4 + at)
        b = tl.load(x + (n * 4 + at))
        c = tl.load(x + (n * 4 + at).to(tl.int64))
    """
    loads = [instr for instr in residual_of(text, X).body if isinstance(instr, LoadBlock)]

    assert [64, 32, 64] == [load.access.offset_bits for load in loads]


def test_a_reference_loads_with_its_strides() -> None:
    text = """
    def k(o, x, s):
        r = tl.ref(x, (2, 3), strides=(s, 1))
        i = tl.arange(0, 3)[:, None]
        j = tl.arange(0, 2)[None, :]
        tl.store(o + i * 2 + j, tl.load(r.T))
    """
    x = np.arange(10, dtype=np.float32)

    found = run(text, {"o": np.zeros(6, np.float32), "x": x, "s": 5})["o"]

    assert [0, 5, 1, 6, 2, 7] == list(found)


def test_scalar_transfers_are_scalar_instructions() -> None:
    residual = residual_of("def k(x, i, n):\n    tl.store(x, tl.load(x + n), mask=n > 0)\n", X)

    load, store = residual.body[0], residual.body[-1]
    assert isinstance(load, LoadScalar) and () == load.preds
    assert isinstance(store, StoreScalar) and 1 == len(store.preds)
    assert not any(isinstance(instr, StoreBlock) for instr in residual.body)


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ("tl.load(n)", "E_POINTER_EXPECTED", "int32 is given"),
        ("tl.store(1.5, 2)", "E_POINTER_EXPECTED", "tl.store needs a pointer"),
        ("tl.load(x, other=1.0)", "E_CALL_ARGUMENTS", "without a `mask`"),
        ("tl.load(x, mask=tl.arange(0, 4) < n)", "E_SCALAR_EXPECTED", "`mask` of tl.load is int1[4]"),
        ("tl.store(x, tl.arange(0, 4))", "E_SCALAR_EXPECTED", "`value` of tl.store is int32[4]"),
        ("tl.store(x + tl.arange(0, 4), 1, mask=(tl.arange(0, 8) < n)[:, None])", "E_SHAPE_MISMATCH", "[8, 1]"),
        ("tl.load(x + tl.arange(0, 4), mask=tl.arange(0, 8) < n)", "E_SHAPE_MISMATCH", "[4] and [8]"),
        ("tl.load(x + tl.arange(0, 4), boundary_check=(0,))", "E_CALL_ARGUMENTS", "block pointers"),
        ("tl.ref(n, (4,))", "E_POINTER_EXPECTED", "tl.ref needs a pointer"),
        ("tl.ref(x, (4, 4), strides=(1,))", "E_CALL_ARGUMENTS", "1 strides"),
        ("a = tl.sum(x + tl.arange(0, 4))", "E_BLOCK_EXPECTED", "pointer<float32>[4]"),
        ("tl.store(x + tl.arange(0, 4), x + tl.arange(0, 4))", "E_VALUE_EXPECTED", "pointer"),
    ],
)
def test_mistakes_at_loads_and_stores(body: str, code: str, says: str) -> None:
    found = error_of(f"def k(x, i, n):\n    {body}\n", X)

    assert code == found.code
    assert says in found.message


def test_a_reference_may_be_larger_than_a_block() -> None:
    text = """
    def k(a, c, N: tl.constexpr):
        whole = tl.ref(a, (N, N))
        tl.composite(op="gemm", a=whole, b=whole, out=tl.ref(c, (N, N)))
    """

    assert [] == errors_of(text, {"a": "*fp16", "c": "*fp32"}, {"N": 4096})
