"""Composites on the device: values of every placement and chain against NumPy, and their errors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kernbench as kb
from kernbench.compiler.pipeline import CompiledKernel
from kernbench.compiler.recipes import RECIPE_DESCRIPTORS, EngineOp, PrimaryOutSpec, RecipeDescriptor
from kernbench.runtime.placement import Placement
from tests.kernels.helpers import HEAD, composites, failure, run_text

RNG = np.random.default_rng(4)
M, K, N = 70, 192, 100


def product(call: str, before: str = "", after: str = "", head: str = "a, b, c, d, s") -> str:
    """A kernel with a (M, K), b (K, N) as references, x and y their blocks, a row, a column and scales."""
    return f"""
def k({head}, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)
    j = tl.arange(0, N)
    kk = tl.arange(0, K)
    x = tl.load(a + i[:, None] * K + kk)
    y = tl.load(b + kk[:, None] * N + j)
    row = tl.load(d + j)
    col = tl.load(d + i)
    scales = tl.load(s + tl.arange(0, 3)[:, None] * N + j)
    {before or "pass"}
    z = kb.composite({call})
    {after or "tl.store(c + i[:, None] * N + j, z)"}
"""


def arrays(dtype: Any = np.float16) -> dict[str, np.ndarray]:
    whole = np.dtype(dtype).kind in "iu"
    a, b = RNG.normal(size=(M, K)), RNG.normal(size=(K, N))
    return {
        "a": (a * 20).astype(dtype) if whole else a.astype(dtype),
        "b": (b * 20).astype(dtype) if whole else b.astype(dtype),
        "c": np.zeros((M, N), np.float32),
        "d": RNG.normal(size=max(M, N)).astype(np.float32),
        "s": RNG.uniform(0.5, 2, size=(3, N)).astype(np.float32),
    }


def run(text: str, given: dict[str, np.ndarray], opt: int = 1) -> dict[str, np.ndarray]:
    """The arrays afterwards, from both optimisation levels alike."""
    done = run_text(text, given, opt=opt, M=M, K=K, N=N)
    return {name: done[name] for name in given}


def wide(given: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    a, b, d, s = (given[name].astype(np.float64) for name in "abds")
    return a, b, d, s


def close(expected: np.ndarray, found: np.ndarray, tolerance: float = 1e-3) -> None:
    np.testing.assert_allclose(
        found, expected, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(expected).max()))
    )


# --------------------------------------------------------------------------- placements


def test_ops_at_every_scope_in_one_composite() -> None:
    """exp before the loop, scales on partial products, bias and relu on tiles, a column's sum at the end."""
    call = """
        prologue=[{"op": "mul", "src_a": x, "src_b": 0.5}, {"op": "exp"}],
        op="gemm", b=y,
        epilogue=[
            {"op": "rsum", "axis": 1, "out": total},
            {"op": "max_elem", "other": 0.0},
            {"op": "add", "other": row[None, :]},
            {"op": "mul", "other": scales[:, None, :], "scope": "K_TILE"},
        ]"""
    text = product(call, "total = tl.zeros((M,), tl.float32)", "tl.store(c + i[:, None] * N + j, z + total[:, None])")
    text = text.replace('{"op": "max_elem", "other": 0.0},\n', "").replace(
        '{"op": "add", "other": row[None, :]},',
        '{"op": "add", "other": row[None, :]}, {"op": "max_elem", "other": 0.0},',
    )
    given = arrays()
    a, b, d, s = wide(given)
    z = np.maximum(np.exp(a * 0.5) @ (b * np.repeat(s, 64, axis=0)) + d[:N], 0)

    close(z + z.sum(axis=1, keepdims=True), run(text, given)["c"], 3e-3)


def test_the_order_of_a_list_is_not_that_of_scopes() -> None:
    """K_TILE runs first wherever it stands."""
    ops = ['{"op": "add", "other": row}', '{"op": "mul", "other": 3.0, "scope": "K_TILE"}']
    given = arrays()
    found = [run(product(f'op="gemm", a=x, b=y, epilogue=[{", ".join(o)}]'), given)["c"] for o in (ops, ops[::-1])]
    a, b, d, _ = wide(given)

    assert np.array_equal(found[0], found[1])
    close(a @ b * 3 + d[:N], found[0])


@pytest.mark.parametrize("other", ["col[:, None]", "row", "row[None, :]", "2.0", "float(n)", "t"])
@pytest.mark.parametrize("scope", ["K_TILE", "OUTPUT_TILE", "KERNEL"])
def test_operands_of_every_shape_at_every_scope(scope: str, other: str) -> None:
    text = product(
        f'op="gemm", a=x, b=y, epilogue=[{{"op": "mul", "other": {other}, "scope": "{scope}"}}]',
        "n = tl.load(s).to(tl.int32) + 2\n    t = row[None, :] + col[:, None]",
    ).replace("float(n)", "n.to(tl.float32)")
    given = arrays()
    given["s"][0, 0] = 1.5
    a, b, d, _ = wide(given)
    t = d[:N][None, :] + d[:M][:, None]
    factors = {"col[:, None]": d[:M][:, None], "2.0": 2.0, "float(n)": 3.0, "t": t}

    close(a @ b * factors.get(other, d[:N]), run(text, given)["c"])


# --------------------------------------------------------------------------- types


def test_an_integer_product_takes_float_scales() -> None:
    """int8 weights and activations: scales of columns and rows on tiles, the result in fp32."""
    call = 'op="gemm", a=x, b=y, epilogue=[{"op": "mul", "other": row}, {"op": "mul", "other": 0.01}]'
    given = arrays(np.int8)
    a, b, d, _ = wide(given)

    close(a @ b * d[:N] * 0.01, run(product(call), given)["c"], 1e-5)


def test_an_integer_product_takes_float_scales_that_vary_along_k() -> None:
    call = 'op="gemm", a=x, b=y, epilogue=[{"op": "mul", "other": scales[:, None, :], "scope": "K_TILE"}]'
    given = arrays(np.int8)
    a, b, _, s = wide(given)

    close(a @ (b * np.repeat(s, 64, axis=0)), run(product(call), given)["c"], 1e-5)


def test_an_integer_product_goes_through_a_recipe_in_fp32() -> None:
    call = 'op="gemm", a=x, b=y, epilogue=[{"op": "mul", "other": 0.001}, {"op": "gelu"}]'
    given = arrays(np.int8)
    a, b, _, _ = wide(given)
    gelu = RECIPE_DESCRIPTORS["gelu"].reference({"x": a @ b * 0.001}, {})["P"]

    close(gelu, run(product(call), given)["c"], 1e-5)


def test_an_integer_product_without_floats_stays_exact() -> None:
    call = 'op="gemm", a=x, b=y, epilogue=[{"op": "add", "other": 7}, {"op": "max_elem", "other": 0}]'
    given = {**arrays(np.int8), "c": np.zeros((M, N), np.int32)}
    a, b = given["a"].astype(np.int64), given["b"].astype(np.int64)

    assert np.array_equal(np.maximum(a @ b + 7, 0), run(product(call), given)["c"])


# --------------------------------------------------------------------------- chains without a gemm


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_a_reduction_alone(axis: int) -> None:
    """The block that comes back has one axis less, whichever it was."""
    kept = "i" if axis in (1, -1) else "kk"
    text = product(f'op="rmax", src=x, axis={axis}', after=f"tl.store(c + {kept}, z)")
    given = arrays()

    found = run(text, given)["c"].reshape(-1)
    expected = given["a"].astype(np.float32).max(axis=axis)
    assert np.array_equal(expected, found[: len(expected)])
    assert not found[len(expected) :].any()


@pytest.mark.parametrize("opt", [0, 1])
def test_chains_of_maths_change_shapes_on_the_way(opt: int) -> None:
    """exp(x) · 2, summed along each row, 1 / √ of that, times x."""
    text = product(
        'prologue=[{"op": "exp", "src": x}, {"op": "mul", "other": 2.0}, {"op": "rsum", "axis": 1}], op="rsqrt", '
        'epilogue=[{"op": "mul_bcast", "src_a": x32, "bcast_axis": 1}]',
        "x32 = x.to(tl.float32)",
        "tl.store(c + i[:, None] * K + kk, z)",
    )
    given = {**arrays(), "c": np.zeros((M, K), np.float32)}
    a = given["a"].astype(np.float64)
    expected = a / np.sqrt((2 * np.exp(a)).sum(axis=1, keepdims=True))

    close(expected, run(text, given, opt)["c"], 2e-2)


def test_a_chain_may_name_its_out_and_its_operands_a_and_b() -> None:
    text = product(
        'op="sub", a=x32, b=col[:, None], out=w, epilogue=[{"op": "neg"}]',
        "x32 = x.to(tl.float32)\n    w = tl.zeros((M, K), tl.float32)",
        "tl.store(c + i[:, None] * K + kk, w)",
    )
    given = {**arrays(), "c": np.zeros((M, K), np.float32)}
    a, _, d, _ = wide(given)

    close(d[:M][:, None] - a, run(text, given)["c"], 1e-6)


def test_comparisons_and_choices_have_their_own_types() -> None:
    text = product(
        'prologue=[{"op": "gt", "src_a": x, "src_b": 0.0}], op="select", src_a=x, src_b=0.0',
        after="tl.store(c + i[:, None] * K + kk, z)",
    )
    given = {**arrays(), "c": np.zeros((M, K), np.float32)}

    assert np.array_equal(np.maximum(given["a"], 0).astype("f4"), run(text, given)["c"])


def test_an_out_of_its_own_leaves_the_old_value_to_other_names() -> None:
    text = product(
        'op="gemm", a=x, b=y, epilogue=[{"op": "rmax", "axis": 1, "out": top}]',
        "top = col * 1.0\n    old = top",
        "tl.store(c + i[:, None] * N + j, z + top[:, None] - old[:, None])",
    )
    given = arrays()
    a, b, d, _ = wide(given)
    z = a @ b

    close(z + z.max(axis=1, keepdims=True) - d[:M][:, None], run(text, given)["c"])


# --------------------------------------------------------------------------- recipes


@pytest.fixture
def turned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe whose primary output is seen transposed."""
    recipe = RecipeDescriptor(
        operands={"x": "R"}, dims={"x": "RC"}, primary_out=PrimaryOutSpec("x", "x", "transpose"),
        tile_alignment="single_shot", internal_scratch_bytes_fn=lambda shapes, bpe: 0,
        engine_seq=(EngineOp("MATH", "exp", src="x", dst="P"),),
        reference=lambda x, scalars: {"P": np.exp(x["x"]).T}, doc="exp, transposed",
    )  # fmt: skip
    monkeypatch.setitem(RECIPE_DESCRIPTORS, "exp_turned", recipe)


@pytest.mark.usefixtures("turned")
def test_a_primary_output_may_be_transposed() -> None:
    gemm = product('prologue=[{"op": "exp_turned", "x": tl.trans(x)}], op="gemm", b=y')
    alone = product('prologue=[{"op": "exp_turned", "x": x}]', after="tl.store(c + kk[:, None] * M + i, z)")
    given = arrays()
    a, b, _, _ = wide(given)

    close(np.exp(a) @ b, run(gemm, given)["c"], 2e-2)
    given["c"] = np.zeros((K, M), np.float32)
    close(np.exp(a).T, run(alone, given)["c"], 2e-3)


def test_scratch_of_a_recipe_lives_as_long_as_its_scope() -> None:
    inside = product('prologue=[{"op": "softmax", "x": x}], op="gemm", b=y').replace(
        "    z = kb", "    with tl.scratch_scope():\n        z = kb"
    )
    inside = inside.replace("    tl.store(c", "        tl.store(c")
    found = []
    for text in (product('prologue=[{"op": "softmax", "x": x}], op="gemm", b=y'), inside):
        done = run_text(text, arrays(), mode="timing", M=M, K=K, N=N)
        assert isinstance(done.compiled, CompiledKernel)
        found.append({b.name: b.persistent for b in done.compiled.program.buffers if b.name in ("high", "e", "total")})

    assert [dict.fromkeys(("high", "e", "total"), kept) for kept in (True, False)] == found


# --------------------------------------------------------------------------- tensors cut along columns


def test_operands_that_are_sharded_along_columns() -> None:
    """With a grid, a pointer means the whole tensor; one block of columns lies in one slice, its columns one after
    the other."""
    text = """
def k(a, b, c, K: tl.constexpr, N: tl.constexpr, W: tl.constexpr):
    first = tl.program_id(0) * W
    block = tl.load(b + tl.arange(0, K)[:, None] * N + first + tl.arange(0, W))
    x = tl.load(a + tl.arange(0, 8)[:, None] * K + tl.arange(0, K))
    ref = tl.ref(b + first, (K, W), strides=(N, 1))
    z = kb.composite(op="gemm", a=x, b=ref, epilogue=[{"op": "add", "other": kb.composite(op="gemm", a=x, b=block)}])
    tl.store(c + tl.arange(0, 8)[:, None] * N + first + tl.arange(0, W), z)
"""
    kernel = kb.compile(HEAD + text, {"K": 72, "N": 96, "W": 12})
    a, b = RNG.normal(size=(8, 72)).astype(np.float16), RNG.normal(size=(72, 96)).astype(np.float16)
    places: dict[str, Placement] = {"a": kb.replicate(), "b": kb.shard(1), "c": kb.shard(1)}
    done = kb.open("ahbm_2x2").run(kernel, {"a": a, "b": b, "c": np.zeros((8, 96), "f4")}, (8,), places)

    close(2 * a.astype("f8") @ b.astype("f8"), done["c"])


# --------------------------------------------------------------------------- errors

ERRORS = [
    ('prologue=[{"op": "softmaxx", "x": x}], op="gemm", b=y', "E_UNKNOWN_OP", ["softmaxx", "softmax"]),
    ('prologue=[{"op": "softmax", "y": x}], op="gemm", b=y', "E_BAD_COMPOSITE", ["`softmax`", "`x`"]),
    ('prologue=[{"op": "softmax", "x": x, "w": x}], op="gemm", b=y', "E_COMPOSITE_OPERAND", ["`softmax`", "`w`"]),
    ('prologue=[{"op": "rmsnorm", "x": x}], op="gemm", b=y', "E_COMPOSITE_OPERAND", ["`rmsnorm`", "`w`"]),
    ('prologue=[{"op": "softmax", "x": sq}], op="gemm", b=sq2, out=sq', "E_OUT_OVERLAP", ["`softmax`", "`x`", "`out`"]),
    ('prologue=[{"op": "softmax", "x": sq}], out=sq', "E_OUT_OVERLAP", ["`softmax`", "`x`", "only read"]),
    (
        'prologue=[{"op": "softmax_merge", "s": x, "m": col, "l": lsum, "O": kb.ref(c, (M, N))}], op="gemm", b=y',
        "E_OPERAND_SPACE",
        ["`O` of recipe `softmax_merge` is in HBM"],
    ),
    (
        'prologue=[{"op": "rmsnorm", "x": x, "w": row}], op="gemm", b=y',
        "E_COMPOSITE_SHAPE",
        ["`w`", "`rmsnorm`", "(100,)", "C = 192"],
    ),
    ('op="gemm", a=x, b=y, epilogue=[{"op": "gemm", "b": y}]', "E_TWO_GEMMS", ["2 gemms", "at most 1"]),
    ('op="exp", src=x, epilogue=[{"op": "add", "other": 1.0, "scope": "K_TILE"}]', "E_NO_GEMM", ["`add`", "K_TILE"]),
    ('op="gemm", a=x, b=y, epilogue=[{"op": "gelu", "scope": "K_TILE"}]', "E_COMPOSITE_SCOPE", ["`gelu`", "K_TILE"]),
    ('op="rsum", src=x', "E_COMPOSITE_OPERAND", ["`rsum`", "axis", "it has none"]),
    ('op="rsum", src=x, axis=2', "E_COMPOSITE_OPERAND", ["`rsum`", "-2 to 1", "it is 2"]),
    ('op="add", src_a=x, src_b=y', "E_COMPOSITE_SHAPE", ["`src_", "`add`", "it must repeat to"]),
    (
        'op="gemm", a=x, b=y, epilogue=[{"op": "mul", "other": s5[:, None, :], "scope": "K_TILE"}]',
        "E_COMPOSITE_SHAPE",
        ["(5, 1, 100)", "groups dividing 192"],
    ),
    (
        'op="gemm", a=x, b=y, epilogue=[{"op": "mul", "other": s6[:, None, :], "scope": "K_TILE"}]',
        "E_K_GROUPS",
        ["groups of 32 rows", "k tiles of 64"],
    ),
    (
        'op="gemm", a=x, b=y, epilogue=[{"op": "rsum", "axis": 1, "out": row}]',
        "E_COMPOSITE_SHAPE",
        ["`out` of `rsum`", "(100,)", "(70,)"],
    ),
]
BEFORE = """sq = tl.zeros((M, M), tl.float32)
    sq2 = tl.zeros((M, M), tl.float32)
    lsum = tl.zeros((M,), tl.float32)
    s5 = tl.zeros((5, N), tl.float32)
    s6 = tl.zeros((6, N), tl.float32)"""


@pytest.mark.parametrize(("call", "code", "says"), ERRORS, ids=[f"{e[1]}-{n}" for n, e in enumerate(ERRORS)])
def test_an_error_names_recipe_operand_and_need_at_the_kernel_line(call: str, code: str, says: list[str]) -> None:
    (found,) = failure(product(call, BEFORE, "return"), arrays(), M=M, K=K, N=N).diagnostics

    assert code == found.code
    assert [] == [word for word in says if word not in found.render()]
    assert found.primary is not None
    assert found.primary.source.strip().startswith("z = kb.composite(")


def test_scratch_that_does_not_fit_is_told_with_what_lives_at_once() -> None:
    text = """
def k(a, c):
    x = tl.load(a + tl.arange(0, 400)[:, None] * 800 + tl.arange(0, 800))
    z = kb.composite(prologue=[{"op": "layernorm", "x": x, "w": x[0], "b": x[0]}], op="gemm", b=kb.ref(a, (800, 400)))
    tl.store(c + tl.arange(0, 400), z[0])
"""
    text = text.replace("x[0]", "w").replace("    z =", "    w = tl.load(a + tl.arange(0, 800))\n    z =")
    text = text.replace("    tl.store(c + tl.arange(0, 400), z[0])", "    tl.store(c, tl.sum(z, axis=0).sum(axis=0))")
    given = {"a": np.zeros((800, 800), np.float32), "c": np.zeros(1, np.float32)}
    (found,) = failure(text, given).diagnostics

    assert "E_TCM_OVERFLOW" == found.code
    assert [] == [word for word in ("rows", "squares", "1280000", "1572864") if word not in found.render()]


def test_composites_of_fp8_multiply_fp8() -> None:
    given = arrays(ml_dtypes.float8_e4m3fn)
    a, b, _, _ = wide(given)
    done = run_text(product('op="gemm", a=x, b=y'), given, M=M, K=K, N=N)

    close(a @ b, done["c"])
    (gemm,) = [node for node in composites(done) if node.ops[0].kind == "gemm"]
    assert "fp8e4nv" == gemm.ops[0].operands["a"].dtype.name


def test_scratch_of_tile_epilogues_is_one_tile_large() -> None:
    """gelu over an output that would not fit beside a scratch block of its size; edge tiles included."""
    m, n = 330, 1000
    text = """
def k(a, b, c, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(a + tl.arange(0, M)[:, None] * 64 + tl.arange(0, 64))
    kb.composite(op="gemm", a=x, b=tl.ref(b, (64, N)), out=tl.ref(c, (M, N)), epilogue=[{"op": "gelu"}])
"""
    a, b = RNG.normal(size=(m, 64)).astype(np.float16), RNG.normal(size=(64, n)).astype(np.float16)
    done = run_text(text, {"a": a, "b": b, "c": np.zeros((m, n), np.float32)}, M=m, N=n)
    assert isinstance(done.compiled, CompiledKernel)
    (share,) = [buffer for buffer in done.compiled.program.buffers if buffer.name == "share"]

    assert 64 * 64 * 4 == share.nbytes
    close(RECIPE_DESCRIPTORS["gelu"].reference({"x": a.astype("f8") @ b.astype("f8")}, {})["P"], done["c"])
