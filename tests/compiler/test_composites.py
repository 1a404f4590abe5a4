"""`tl.composite`: where ops end up, what is written in place, and every mistake told at its place."""

import numpy as np
import pytest

from kernbench.commands import CompositeTemplate, Program, walk
from kernbench.diagnostics import KernBenchError
from tests.compiler.kernels import compiled, run

HEAD = """
def k(a, b, c, d, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)
    j = tl.arange(0, N)
    kk = tl.arange(0, K)
    x = tl.load(a + i[:, None] * K + kk[None, :])
    y = tl.load(b + kk[:, None] * N + j[None, :])
    bias = tl.load(d + j)
"""
TAIL = "    tl.store(c + i[:, None] * N + j[None, :], z)\n"
SIZES = {"M": 8, "K": 16, "N": 4}
TYPES = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "d": "*fp32"}


def text(*lines: str, tail: str = TAIL) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines) + tail


def composites(program: Program) -> list[CompositeTemplate]:
    return [node for node in walk(program.body) if isinstance(node, CompositeTemplate)]


def shape_of(kernel: str) -> list[list[str]]:
    program = compiled(kernel, TYPES, 0, **SIZES).program
    return [[f"{op.kind}:{op.scope.value}" for op in node.ops] for node in composites(program)]


def values(kernel: str, opt: int = 1) -> tuple[np.ndarray, ...]:
    """a, b, bias and the result."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(8, 16)).astype(np.float16), rng.normal(size=(16, 4)).astype(np.float16)
    c, d = np.zeros((8, 4), np.float32), rng.normal(size=4).astype(np.float32)
    run(kernel, {"a": a, "b": b, "c": c, "d": d}, opt=opt, **SIZES)
    return a.astype(np.float32), b.astype(np.float32), d, c


def test_epilogue_ops_work_on_the_accumulator_tile_by_tile() -> None:
    kernel = text(
        'z = kb.composite(op="gemm", a=x, b=y, epilogue=['
        '{"op": "mul", "other": 0.5}, {"op": "add", "other": bias}, {"op": "max_elem", "other": 0.0}])'
    )
    a, b, d, c = values(kernel)

    assert ["gemm:KERNEL", "mul:OUTPUT_TILE", "add:OUTPUT_TILE", "max_elem:OUTPUT_TILE"] in shape_of(kernel)
    assert np.allclose(np.maximum(a @ b * 0.5 + d, 0), c, rtol=1e-5, atol=1e-5)


def test_a_reduction_in_an_epilogue_is_done_once_at_the_end() -> None:
    kernel = text(
        "r = tl.zeros((M,), tl.float32)",
        'z = kb.composite(op="gemm", a=x, b=y, epilogue=[{"op": "rsum", "axis": 1, "out": r}])',
    )
    assert ["gemm:KERNEL", "rsum:KERNEL"] in shape_of(kernel)


def test_an_epilogue_recipe_takes_the_accumulator() -> None:
    kernel = text('z = kb.composite(op="gemm", a=x, b=y, epilogue=[{"op": "gelu"}])')
    a, b, _, c = values(kernel)
    import math

    product = (a @ b).astype(np.float64)
    expected = 0.5 * product * (1 + np.vectorize(math.erf)(product / np.sqrt(2)))
    assert ["gemm:KERNEL", *[f"{kind}:OUTPUT_TILE" for kind in ("mul", "erf", "fma", "mul")]] in shape_of(kernel)
    assert np.allclose(expected, c, rtol=1e-4, atol=1e-4)


def test_a_prologue_recipe_makes_the_operand_that_is_absent() -> None:
    kernel = text('z = kb.composite(prologue=[{"op": "softmax", "x": x}], op="gemm", b=y)')
    a, b, _, c = values(kernel)
    p = np.exp(a - a.max(axis=1, keepdims=True))

    assert np.allclose((p / p.sum(axis=1, keepdims=True)) @ b, c, rtol=1e-2, atol=1e-2)


def test_dequant_binds_to_the_right_side() -> None:
    kernel = """
def k(a, q, s, c, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)
    j = tl.arange(0, N)
    kk = tl.arange(0, K)
    x = tl.load(a + i[:, None] * K + kk[None, :])
    w = tl.load(q + kk[:, None] * N + j[None, :])
    scale = tl.load(s + tl.arange(0, 2)[:, None] * N + j[None, :])
    z = kb.composite(prologue=[{"op": "dequant", "q": w, "scale": scale}], op="gemm", a=x)
    tl.store(c + i[:, None] * N + j[None, :], z)
"""
    rng = np.random.default_rng(5)
    a, q = rng.normal(size=(8, 16)).astype(np.float16), rng.integers(-100, 100, size=(16, 4)).astype(np.int8)
    s, c = rng.normal(size=(2, 4)).astype(np.float16), np.zeros((8, 4), np.float32)
    run(kernel, {"a": a, "q": q, "s": s, "c": c}, **SIZES)

    expected = a.astype(np.float64) @ (q * np.repeat(s.astype(np.float64), 8, axis=0))
    assert np.allclose(expected, c, rtol=1e-2, atol=1)


@pytest.mark.parametrize("opt", [0, 1])
def test_out_is_changed_in_place_and_a_name_that_holds_the_old_value_keeps_it(opt: int) -> None:
    kernel = text(
        "z = tl.zeros((M, N), tl.float32) + bias[None, :]",
        "old = z",
        'kb.composite(op="gemm", a=x, b=y, out=z, epilogue=[{"op": "add", "other": z}])',
        "z = z - old",
    )
    a, b, _, c = values(kernel, opt)

    assert np.allclose(a @ b, c, rtol=1e-4, atol=1e-4)


def test_out_ptr_writes_to_memory_without_a_store() -> None:
    kernel = text('kb.composite(op="gemm", a=x, b=y, out_ptr=c)', tail="")
    a, b, _, c = values(kernel)

    assert np.allclose(a @ b, c, rtol=1e-5, atol=1e-5)


def test_a_chain_of_maths_is_one_composite() -> None:
    kernel = text(
        "s = tl.dot(x, y) * 0.1",
        'z = kb.composite(op="exp", src=s, epilogue=[{"op": "mul", "other": 2.0}, {"op": "add", "other": bias}])',
    )
    a, b, d, c = values(kernel)

    assert ["exp:KERNEL", "mul:KERNEL", "add:KERNEL"] in shape_of(kernel)
    assert np.allclose(np.exp(a @ b * np.float32(0.1)) * 2 + d, c, rtol=1e-4, atol=1e-4)


GEMM = 'z = kb.composite(op="gemm", a=x, b=y, '
STATE = "m = tl.zeros((M,), tl.float32)", "l = tl.zeros((M,), tl.float32)", "o = tl.zeros((M, N), tl.float32)"
MERGE = 'prologue=[{"op": "softmax_merge", "s": x, '


@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        ((GEMM + 'epilogue=[{"op": "gemm", "a": x, "b": y}])',), "E_TWO_GEMMS", "2 gemms"),
        (('z = kb.composite(op="exp", src=x, prologue=[{"op": "gemm"}])',), "E_NO_GEMM", "gemm"),
        ((GEMM + 'epilogue=[{"op": "gelluu"}])',), "E_UNKNOWN_OP", "gelu"),
        ((GEMM + 'epilogue=[{"op": "add"}])',), "E_COMPOSITE_OPERAND", "`src_b`"),
        ((GEMM + 'epilogue=[{"op": "add", "othr": 1.0}])',), "E_COMPOSITE_OPERAND", "other"),
        ((GEMM + 'epilogue=[{"op": "add", "other": x}])',), "E_COMPOSITE_SHAPE", "(8, 16)"),
        ((GEMM + 'epilogue=[{"op": "rsum", "axis": 1, "scope": "OUTPUT_TILE"}])',), "E_COMPOSITE_SCOPE", "rsum"),
        ((GEMM + 'epilogue=[{"op": "softmax", "x": bias}])',), "E_COMPOSITE_SCOPE", "prologue"),
        ((GEMM + 'epilogue=[{"op": "add", "other": kb.ref(c, (M, N))}])',), "E_OPERAND_SPACE", "HBM"),
        ((GEMM + 'out=kb.ref(c, (M, N)), epilogue=[{"op": "rsum", "axis": 1}])',), "E_OPERAND_SPACE", "HBM"),
        (
            ('z = kb.composite(op="exp", src=x, epilogue=[{"op": "mul", "other": 1.0, "scope": "K_TILE"}])',),
            "E_NO_GEMM",
            "K_TILE",
        ),
        ((*STATE, "z = kb.composite(" + MERGE + '"m": m, "O": o}], op="gemm", b=y)'), "E_COMPOSITE_OPERAND", "`l`"),
        (
            (*STATE, "z = kb.composite(" + MERGE + '"m": m, "l": bias, "O": o}], op="gemm", b=y)'),
            "E_COMPOSITE_SHAPE",
            "`l` of recipe `softmax_merge` has shape (4,), it needs (G = 8)",
        ),
        (
            (*STATE, "z = kb.composite(" + MERGE + '"m": m, "l": l, "O": kb.ref(c, (M, N))}], op="gemm", b=y)'),
            "E_OPERAND_SPACE",
            "`O` of recipe `softmax_merge`",
        ),
        (
            (*STATE, "z = kb.composite(" + MERGE + '"m": m, "l": m, "O": o}], op="gemm", b=y)'),
            "E_OUT_OVERLAP",
            "one block",
        ),
        (
            (
                *STATE,
                "w = tl.zeros((N, N), tl.float32)",
                'z = kb.composite(prologue=[{"op": "softmax_merge", "s": o, "m": m, "l": l, "O": o}], op="gemm", b=w)',
            ),
            "E_OUT_OVERLAP",
            "`s`",
        ),
        (
            ("w = tl.zeros((N, N), tl.float32)", 'z = kb.composite(op="gemm", a=w, b=w, out=w)'),
            "E_OUT_OVERLAP",
            "`out`",
        ),
        (
            (
                "z = tl.zeros((M, N), tl.float32)",
                GEMM + 'out=z, epilogue=[{"op": "add", "other": tl.trans(tl.trans(z))}])',
            ),
            None,
            "",
        ),
    ],
)
def test_a_mistake_is_told_at_the_call_with_what_is_needed(lines: tuple[str, ...], code: str | None, said: str) -> None:
    if code is None:
        compiled(text(*lines, tail=""), TYPES, **SIZES)
        return
    with pytest.raises(KernBenchError) as raised:
        compiled(text(*lines, tail=""), TYPES, **SIZES)
    (found,) = raised.value.diagnostics

    assert code == found.code
    assert said in raised.value.render()
    assert found.primary is not None
    assert "composite" in found.primary.source


def test_several_mistakes_are_told_together() -> None:
    kernel = text(GEMM + 'epilogue=[{"op": "add"}])', "w = " + GEMM[4:] + 'epilogue=[{"op": "gemm"}])')
    with pytest.raises(KernBenchError) as raised:
        compiled(kernel, TYPES, **SIZES)

    assert ["E_COMPOSITE_OPERAND", "E_TWO_GEMMS"] == [d.code for d in raised.value.diagnostics]


def test_the_target_must_multiply_the_types() -> None:
    kernel = "def k(a, c):\n    i = tl.arange(0, 4)\n    x = tl.load(a + i[:, None] * 4 + i[None, :])\n"
    kernel += "    tl.store(c + i[:, None] * 4 + i[None, :], tl.dot(x, x))\n"
    with pytest.raises(KernBenchError) as raised:
        compiled(kernel, {"a": "*fp64", "c": "*fp64"})

    assert ["E_GEMM_DTYPE"] == [d.code for d in raised.value.diagnostics]
