"""Functions of the language: creation, reductions, elementwise maths, shapes, matrix products, types, arguments."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernbench.compiler.builder import Builder
from kernbench.compiler.builtins import BUILTINS
from kernbench.compiler.builtins.torch_types import TORCH_TYPES
from kernbench.compiler.errors import ERRORS
from kernbench.compiler.faults import Fault
from kernbench.compiler.modules import MODULES, PYTHON_BUILTINS, UNSUPPORTED, imported
from kernbench.compiler.residual import Dot, ViewOf
from kernbench.compiler.values import BuiltinValue, DTypeValue, ModuleValue
from kernbench.diagnostics import Span
from kernbench.dtypes import fp32
from tests.compiler.elaborating import attempt, error_of, residual_of, run

X = {"x": "*fp32", "h": "*fp16", "i": "*i32", "n": "i32"}
RNG = np.random.default_rng(7)


def mistake(body: str, signature: dict[str, str] = X) -> Any:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return error_of(f"def k({', '.join(signature)}):\n{lines}", signature)


# --------------------------------------------------------------------------- creation


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ("tl.arange(0, 0)", "E_BAD_SHAPE", "0 elements"),
        ("tl.arange(5, 5)", "E_BAD_SHAPE", "tl.arange(5, 5)"),
        ("tl.arange(8, 4)", "E_BAD_SHAPE", "tl.arange(8, 4)"),
        ("tl.arange(0, n)", "E_CONSTEXPR_NEEDED", "`n` (int32)"),
        ("tl.zeros((4, 0), tl.float32)", "E_BAD_SHAPE", "a block side is 0"),
        ("tl.zeros((n,), tl.float32)", "E_CONSTEXPR_NEEDED", "must be constexpr"),
        ("tl.zeros((4,), 4)", "E_DTYPE_EXPECTED", "element type"),
        ("tl.zeros((4096, 4096), tl.int8)", "E_BLOCK_TOO_LARGE", "16777216"),
        ("tl.full((4,), tl.arange(0, 4), tl.int32)", "E_SCALAR_EXPECTED", "int32[4]"),
    ],
)
def test_mistakes_at_creation(body: str, code: str, says: str) -> None:
    found = mistake(body)

    assert code == found.code
    assert says in found.message


def test_blocks_of_triton_files_have_sides_of_powers_of_two() -> None:
    at = Span("k.py", 1, 1, 1, 2)
    arange = BuiltinValue("arange")
    sides = {size: Builder(power_of_two=True) for size in (128, 200)}

    from kernbench.compiler.values import Const, shape_of

    made = sides[128].call_builtin(arange, (Const(0), Const(128)), {}, at)
    with pytest.raises(Fault) as found:
        sides[200].call_builtin(arange, (Const(0), Const(200)), {}, at)

    assert (128,) == shape_of(made)
    assert "200 elements, a power of two is needed" in found.value.diagnostic.message


def test_full_and_zeros_of_every_kind() -> None:
    text = """
    def k(o, n):
        i = tl.arange(0, 2)
        tl.store(o + i, tl.full((2,), n, tl.float32) + tl.zeros((2,), tl.int32) + tl.zeros_like(i))
        tl.store(o + 2 + i, tl.where(tl.full((2,), 1, tl.int1), 3, 4))
        tl.store(o + 4 + i, tl.full((2,), 2.9, tl.int32))
        tl.store(o + 6 + i, tl.full((2,), -float("inf"), tl.float16))
    """

    found = run(text, {"o": np.zeros(8, np.float32), "n": 5})["o"]

    assert [5, 5, 3, 3, 2, 2, -np.inf, -np.inf] == list(found)


# --------------------------------------------------------------------------- reductions


def test_reductions_along_axes() -> None:
    text = """
    def k(o, p, q, x):
        i = tl.arange(0, 4)
        j = tl.arange(0, 8)
        v = tl.load(x + i[:, None] * 8 + j)
        tl.store(o + i, tl.sum(v, axis=1))
        tl.store(p + j, tl.max(v, 0))
        tl.store(q, tl.min(v))
        tl.store(q + 1 + i[:, None] * 8 + j, v - tl.max(v, axis=-1, keep_dims=True))
    """
    x = RNG.standard_normal((4, 8)).astype(np.float32)
    args = {"o": np.zeros(4, np.float32), "p": np.zeros(8, np.float32), "q": np.zeros(33, np.float32), "x": x}

    found = run(text, args)

    assert np.allclose(x.sum(1), found["o"], rtol=1e-6)
    assert np.array_equal(x.max(0), found["p"])
    assert x.min() == found["q"][0]
    assert np.array_equal((x - x.max(1, keepdims=True)).reshape(-1), found["q"][1:])


def test_narrow_integers_are_summed_in_32_bits_and_bf16_in_fp32() -> None:
    text = """
    def k(o, u, c, b, h):
        i = tl.arange(0, 512)
        tl.store(o, tl.sum(tl.load(u + i)))
        tl.store(o + 1, tl.sum(tl.load(c + i)))
        tl.store(o + 2, tl.sum(tl.load(b + i)))
        tl.store(o + 3, tl.sum(tl.load(h + i)))
        tl.store(o + 4, tl.sum(tl.load(c + i) > 0))
    """
    args = {
        "o": np.zeros(5, np.float32),
        "u": np.full(512, 255, np.uint8),
        "c": np.full(512, -128, np.int8),
        "b": np.ones(512, ml_dtypes.bfloat16),
        "h": np.full(512, 8, np.float16),
    }

    assert [255 * 512, -128 * 512, 512, 4096, 0] == list(run(text, args)["o"])


def test_nan_in_sums_and_extremes() -> None:
    text = """
    def k(o, x, b):
        i = tl.arange(0, 4)
        v = tl.load(x + i)
        tl.store(o, tl.sum(tl.load(b + i)))
        tl.store(o + 1, tl.max(v))
        tl.store(o + 2 + i, tl.maximum(v, 2.0))
        tl.store(o + 6 + i, tl.minimum(v, 2.0, propagate_nan=tl.PropagateNan.ALL))
    """
    x = np.array([np.nan, 1, 3, -np.inf], np.float32)

    found = run(text, {"o": np.zeros(10, np.float32), "x": x, "b": x.astype(ml_dtypes.bfloat16)})["o"]

    assert np.isnan(found[0]) and 3 == found[1]
    assert [2, 2, 3, 2] == list(found[2:6])
    assert np.isnan(found[6]) and [1, 2, -np.inf] == list(found[7:])


def test_a_reduction_stays_in_tcm_until_it_is_needed() -> None:
    text = """
    def k(o, x):
        i = tl.arange(0, 8)
        v = tl.load(x + i)
        tl.store(o + i, v / (tl.sum(v) * 2 + 1))
    """

    names = [type(instr).__name__ for instr in residual_of(text, {"o": "*fp32", "x": "*fp32"}).body]

    assert "BlockToScalar" not in names


# --------------------------------------------------------------------------- elementwise


def test_elementwise_maths() -> None:
    text = """
    def k(o, x):
        i = tl.arange(0, 4)
        v = tl.load(x + i)
        tl.store(o + i, tl.exp(v) + tl.math.log2(v) + tl.sqrt(v) * tl.rsqrt(v))
        tl.store(o + 4 + i, tl.abs(-v) + tl.floor(v) + tl.ceil(v))
        tl.store(o + 8 + i, tl.sigmoid(v) + tl.fma(v, v, 1.0))
        tl.store(o + 12 + i, tl.clamp(v, 1.0, 2.0) + tl.maximum(v, 2) + tl.minimum(v, 1.5))
        tl.store(o + 16 + i, tl.softmax(v))
        tl.store(o + 20 + i, tl.fdiv(v, 3.0) + tl.cdiv(i, 3))
    """
    x = np.array([0.5, 1.25, 1.75, 2.5], np.float32)
    wide = x.astype(np.float64)
    expected = [
        np.exp(wide) + np.log2(wide) + 1,
        wide + np.floor(wide) + np.ceil(wide),
        1 / (1 + np.exp(-wide)) + wide * wide + 1,
        np.clip(wide, 1, 2) + np.maximum(wide, 2) + np.minimum(wide, 1.5),
        np.exp(wide) / np.exp(wide).sum(),
        wide / 3 + [0, 1, 1, 1],
    ]

    found = run(text, {"o": np.zeros(24, np.float32), "x": x})["o"]

    assert np.allclose(np.concatenate(expected), found, rtol=1e-5)


def test_scalars_take_the_same_functions() -> None:
    text = """
    def k(o, a, n):
        tl.store(o, tl.exp(a) + tl.maximum(n, 3) + min(n, 1) + max(2, 3))
        tl.store(o + 1, tl.where(n > 1, a, 2.0) + abs(-2))
        tl.store(o + 2, tl.cdiv(n, 3) + tl.abs(-n))
    """

    found = run(text, {"o": np.zeros(3, np.float32), "a": 0.5, "n": 2})["o"]

    assert np.allclose([np.exp(0.5) + 3 + 1 + 3, 2.5, 3], found)


def test_bf16_extremes_come_out_in_fp32_and_integers_are_not_floats() -> None:
    text = """
    def k(b, i, n):
        v = tl.maximum(tl.load(b + tl.arange(0, 4)), 1)
        tl.static_assert(v.dtype == tl.float32)
        w = tl.maximum(tl.load(i + tl.arange(0, 4)), 1)
        tl.static_assert(w.dtype == tl.int32)
    """

    assert [] == attempt(text, {"b": "*bf16", "i": "*i32", "n": "i32"})[1]
    assert "E_OPERAND_TYPE" == mistake("tl.exp(tl.arange(0, 4))").code
    assert "E_OPERAND_TYPE" == mistake("tl.clamp(tl.arange(0, 4), 0, 1)").code


def test_where_takes_any_condition() -> None:
    text = """
    def k(o, x):
        i = tl.arange(0, 4)
        v = tl.load(x + i)
        tl.store(o + i, tl.where(v, 1, 2))
        tl.store(o + 4 + i, tl.where((v > 0) & (i < 2) | (i == 3), v, -1.5))
        tl.store(o + 8 + i, tl.where(not (v > 0), v, 0))
        tl.store(o + 12 + i, tl.where(v > 0 and i < 2, 1.0, 0.0))
    """
    x = np.array([0, 2, -3, 4], np.float32)

    found = run(text, {"o": np.zeros(16, np.float32), "x": x})["o"]

    assert [2, 1, 1, 1] == list(found[:4])
    assert [-1.5, 2, -1.5, 4] == list(found[4:8])
    assert [0, 0, -3, 0] == list(found[8:12])
    assert [0, 1, 0, 0] == list(found[12:])


# --------------------------------------------------------------------------- shapes


def test_shape_functions_move_no_data_but_reshape() -> None:
    text = """
    def k(o, x):
        i = tl.arange(0, 2)
        j = tl.arange(0, 4)
        v = tl.load(x + i[:, None] * 4 + j[None, :])
        t = tl.trans(v)
        tl.store(o + j[:, None] * 2 + i, t)
        tl.store(o + 8 + i[:, None] * 4 + j, v.T.T + tl.expand_dims(tl.load(x + j), 0))
        tl.store(o + 16 + tl.arange(0, 8), tl.reshape(t, (8,)))
        tl.store(o + 24 + tl.arange(0, 8), tl.ravel(v) + tl.broadcast_to(tl.arange(0, 4)[None, :], (2, 4)).reshape(8))
        tl.store(o + 32 + j[:, None] * 2 + i, tl.permute(v, (1, 0)) + tl.view(t, 4, 2))
    """
    x = np.arange(8, dtype=np.float32)
    v = x.reshape(2, 4)

    found = run(text, {"o": np.zeros(40, np.float32), "x": x})["o"].reshape(5, 8)

    assert np.array_equal(v.T.reshape(-1), found[0])
    assert np.array_equal((v + x[:4]).reshape(-1), found[1])
    assert np.array_equal(v.T.reshape(-1), found[2])
    assert np.array_equal(x + np.tile(np.arange(4), 2), found[3])
    assert np.array_equal(2 * v.T.reshape(-1), found[4])


def test_symbolic_blocks_are_transposed_by_renumbering() -> None:
    text = """
    def k(o):
        i = tl.arange(0, 2)[:, None]
        j = tl.arange(0, 4)[None, :]
        at = tl.trans(i * 4 + j % 3)
        tl.store(o + tl.arange(0, 4)[:, None] * 2 + tl.arange(0, 2), at, mask=tl.trans((i < 1) | (j > 2)))
    """
    at, mask = np.add.outer([0, 4], [0, 1, 2, 0]).T, np.array([[1, 1, 1, 1], [0, 0, 0, 1]], bool).T

    residual = residual_of(text, {"o": "*i32"})

    assert not any(isinstance(instr, ViewOf) for instr in residual.body)
    found = run(text, {"o": np.full(8, -1, np.int32)})["o"].reshape(4, 2)
    assert np.array_equal(np.where(mask, at, -1), found)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("tl.trans(tl.arange(0, 4))", "E_BAD_AXIS"),
        ("tl.reshape(tl.arange(0, 4), (3,))", "E_SHAPE_MISMATCH"),
        ("tl.broadcast_to(tl.arange(0, 4), (8,))", "E_SHAPE_MISMATCH"),
        ("tl.expand_dims(tl.arange(0, 4), 3)", "E_BAD_AXIS"),
        ("tl.permute(tl.zeros((2, 4), tl.int8), (0, 0))", "E_BAD_AXIS"),
        ("tl.sum(tl.zeros((2, 4), tl.float32), axis=2)", "E_BAD_AXIS"),
        ("tl.arange(0, 4)[0]", "E_BAD_SUBSCRIPT"),
        ("tl.arange(0, 4)[:, :]", "E_BAD_SUBSCRIPT"),
        ("n[0]", "E_BAD_SUBSCRIPT"),
        ("(1, 2)[2]", "E_BAD_SUBSCRIPT"),
        ("(1, 2)[n]", "E_CONSTEXPR_NEEDED"),
    ],
)
def test_mistakes_in_shapes(body: str, code: str) -> None:
    assert code == mistake(f"a = {body}").code


# --------------------------------------------------------------------------- products


def test_dot_accumulates() -> None:
    text = """
    def k(o, a, b):
        i = tl.arange(0, 4)
        j = tl.arange(0, 8)
        x = tl.load(a + i[:, None] * 8 + j)
        y = tl.load(b + i[:, None] * 8 + j)
        c = tl.dot(x, tl.trans(y), acc=tl.full((4, 4), 1.0, tl.float32), input_precision="ieee")
        c = tl.dot(x, y.T, c, allow_tf32=False)
        tl.store(o + i[:, None] * 4 + i, c)
    """
    a, b = (RNG.standard_normal((4, 8)).astype(np.float16) for _ in range(2))

    found = run(text, {"o": np.zeros(16, np.float32), "a": a, "b": b})["o"]

    expected = 1 + 2 * (a.astype(np.float64) @ b.T.astype(np.float64))
    assert np.allclose(expected.reshape(-1), found, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "out", "expected"),
    [
        ("float16", "", "float32"),
        ("float16", ", out_dtype=tl.float16", "float16"),
        ("bfloat16", "", "float32"),
        ("int8", "", "int32"),
        ("float64", "", "float64"),
        ("float32", ", out_dtype=tl.float16", "float32"),
    ],
)
def test_the_type_of_a_product(dtype: str, out: str, expected: str) -> None:
    text = f"def k(x):\n    a = tl.zeros((4, 4), tl.{dtype})\n    c = tl.dot(a, a{out})\n"

    (dot,) = (instr for instr in residual_of(text, {"x": "*fp32"}).body if isinstance(instr, Dot))

    assert expected == dot.result.dtype.triton


@pytest.mark.parametrize(
    ("call", "code", "says"),
    [
        ("tl.dot(tl.zeros((4, 8), tl.float16), tl.zeros((4, 8), tl.float16))", "E_DOT_SHAPE", "[4, 8] and [4, 8]"),
        ("tl.dot(tl.zeros((4,), tl.float16), tl.zeros((4,), tl.float16))", "E_DOT_SHAPE", "2 axes"),
        ("tl.dot(tl.zeros((4, 4), tl.float16), tl.zeros((4, 4), tl.float32))", "E_DOT_TYPE", "float16 and float32"),
        ("tl.dot(tl.zeros((4, 4), tl.int16), tl.zeros((4, 4), tl.int16))", "E_DOT_TYPE", "int16"),
        (
            "tl.dot(tl.zeros((4, 4), tl.float16), tl.zeros((4, 4), tl.float16), tl.zeros((4, 8), tl.float32))",
            "E_DOT_SHAPE",
            "[4, 8], the product [4, 4]",
        ),
        ("tl.dot(x, x)", "E_BLOCK_EXPECTED", "first operand"),
    ],
)
def test_mistakes_in_products(call: str, code: str, says: str) -> None:
    found = mistake(f"a = {call}")

    assert code == found.code
    assert says in found.message


# --------------------------------------------------------------------------- types and names


def test_type_attributes() -> None:
    text = """
    def k(x, h, i, n):
        v = tl.load(h + tl.arange(0, 4)[:, None] + tl.arange(0, 2))
        tl.static_assert(x.dtype.element_ty == tl.float32)
        tl.static_assert(x.type.element_ty == tl.float32)
        tl.static_assert((x + tl.arange(0, 4)).dtype.element_ty == tl.float32)
        tl.static_assert(v.dtype == tl.float16 and v.type.element_ty == tl.float16)
        tl.static_assert(v.shape[0] == 4 and v.shape[1] == 2 and v.numel == 8)
        tl.static_assert(v.dtype.is_floating() and not v.dtype.is_int())
        tl.static_assert(v.dtype.is_fp16() and v.dtype.primitive_bitwidth == 16)
        tl.static_assert(x.dtype.is_ptr() and not n.dtype.is_ptr())
        tl.static_assert(n.dtype == tl.int32 and n.dtype.int_bitwidth == 32 and n.dtype.is_int_signed())
        tl.static_assert(v.to(tl.float32).dtype.is_fp32())
        tl.static_assert((v > 0).dtype == tl.int1)
    """

    assert [] == attempt(text, X)[1]


def test_identity_words_are_specials() -> None:
    text = """
    def k(x):
        tl.store(x, tl.program_id(axis=1) + tl.num_programs(0) + tl.pe_id() + tl.cube_id() + tl.sip_id())
        tl.store(x, tl.num_pes() + tl.pe_index() + tl.num_cubes() + tl.num_sips())
    """

    names = [what for what, _ in residual_of(text, {"x": "*i32"}).specials]

    assert ["program_id_1", "num_programs_0", "pe_id", "cube_id", "sip_id"] == names[:5]
    assert ["num_pes", "pe_index", "num_cubes", "num_sips"] == names[5:]


@pytest.mark.parametrize(
    ("body", "code", "help"),
    [
        ("tl.stor(x, 1)", "E_UNKNOWN_NAME", "did you mean `store`?"),
        ("tl.float23", "E_UNKNOWN_NAME", "did you mean `float32`?"),
        ("tl.load(x, mas=1)", "E_CALL_ARGUMENTS", "did you mean `mask`?"),
        ("x.dtyp", "E_UNKNOWN_ATTRIBUTE", "did you mean `dtype`?"),
        ("tl.float8e4b15", "E_UNSUPPORTED_BUILTIN", "tl.float8e4nv"),
        ("tl.load()", "E_CALL_ARGUMENTS", None),
        ("tl.load(x, 1, 2, 3, 4, 5, 6, 7, 8)", "E_CALL_ARGUMENTS", None),
        ("tl.load(x, pointer=x)", "E_CALL_ARGUMENTS", None),
        ("tl.program_id(3)", "E_BAD_AXIS", None),
        ("n(1)", "E_NOT_CALLABLE", None),
    ],
)
def test_mistakes_in_names_and_arguments(body: str, code: str, help: str | None) -> None:
    found = mistake(f"a = {body}")

    assert code == found.code
    assert help is None or (found.help is not None and help in found.help)


def test_hints_have_no_effect() -> None:
    text = """
    def k(x, h, i, n):
        tl.assume(n > 0)
        n = tl.multiple_of(n, 8)
        at = tl.max_contiguous(tl.multiple_of(tl.arange(0, 8), 8), 8)
        tl.static_print("n", n)
        tl.device_print("n", n)
        tl.store(x + at, 1.0, cache_modifier=".cg", eviction_policy="evict_last")
        v = tl.load(x + at, eviction_policy="evict_first", volatile=True)
    """

    names = [type(instr).__name__ for instr in residual_of(text, X).body]

    assert ["CopyBlock", "StoreBlock", "LoadBlock"] == [name for name in names if name != "ScalarOp"]


def test_every_name_of_the_language_is_there_or_refused() -> None:
    walker = {"range", "static_range", "static_assert", "device_assert", "scratch_scope"}
    classes = {"tensor", "tuple", "tensor_descriptor"}  # that `isinstance` tells apart and nobody calls
    names = {
        value.name
        for members in (*MODULES.values(), PYTHON_BUILTINS)
        for value in members.values()
        if isinstance(value, BuiltinValue)
    }

    classes = {"tensor", "tensor_descriptor"}

    assert names <= set(BUILTINS) | walker | classes | TORCH_TYPES.keys()
    assert all(not UNSUPPORTED[module] & MODULES[module].keys() for module in UNSUPPORTED)


def test_imports() -> None:
    assert ModuleValue("tl") == imported("triton.language")
    assert ModuleValue("tl") == imported("kernbench.language")
    assert DTypeValue(fp32) == imported("triton.language.float32")
    assert ModuleValue("libdevice") == imported("triton.language.extra.cuda.libdevice")
    assert BuiltinValue("standard.log2") == imported("triton.language.standard._log2")
    assert BuiltinValue("torch.float32") == imported("torch.float32")
    assert None is imported("torch.nn.functional")
    assert None is imported("numpy")
    assert None is imported("triton.language.nothing")


def test_every_code_that_values_raise_is_in_the_table() -> None:
    import re
    from pathlib import Path

    import kernbench.compiler

    folder = Path(kernbench.compiler.__file__).parent
    raised = {code for path in folder.rglob("*.py") for code in re.findall(r'"(E_[A-Z0-9_]+)"', path.read_text())}

    assert [] == sorted(raised - ERRORS.keys())
