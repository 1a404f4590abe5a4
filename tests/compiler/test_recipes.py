"""Every recipe of the table against its NumPy reference, on random shapes and types; and what it says of itself."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.commands import CompositeTemplate, Program, walk
from kernbench.compiler.recipes import RECIPE_DESCRIPTORS, RecipeDescriptor, written_operands
from kernbench.dtypes import BY_NAME, from_numpy
from kernbench.micro_ops import MICRO_OPS
from tests.compiler.kernels import compiled, run_program, signature_of

NAMES = sorted(RECIPE_DESCRIPTORS)
FLOATS: tuple[Any, ...] = (np.float32, np.float16, ml_dtypes.bfloat16)
TOLERANCE = {"fp32": 2e-5, "fp16": 4e-3, "bf16": 3e-2}


def extents(draw: st.DrawFn, recipe: RecipeDescriptor) -> dict[str, int]:
    """An extent for every letter; half rows are half, groups divide."""
    letters = sorted({letter for axes in recipe.dims.values() for letter in axes})
    found = {letter: draw(st.integers(1, 9), label=letter) for letter in letters}
    if "H" in found:
        found["C"] = 2 * found["H"]
    if "B" in found:
        found["B"] = found["S"] * draw(st.integers(1, 3), label="bytes a group")
    if "S" in found:
        found["K"] = found["S"] * draw(st.integers(1, 4), label="rows a group")
    return found


def arrays(draw: st.DrawFn, name: str, recipe: RecipeDescriptor) -> dict[str, np.ndarray]:
    dims = extents(draw, recipe)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    dtype = draw(st.sampled_from(FLOATS))
    found = {}
    for operand, axes in recipe.dims.items():
        values = rng.normal(size=tuple(dims[axis] for axis in axes)) * 2
        if operand == "q" and name == "dequant_int4":
            found[operand] = rng.integers(0, 256, values.shape).astype(draw(st.sampled_from([np.uint8, np.int8])))
        elif operand == "q":
            found[operand] = np.round(values * 20).astype(draw(st.sampled_from([np.int8, ml_dtypes.float8_e4m3fn])))
        else:
            found[operand] = (np.abs(values) if operand == "l" else values).astype(dtype)
    return found


def kernel_text(name: str, given: dict[str, np.ndarray]) -> str:
    """Loads every operand, calls the recipe, stores its result and all that it writes."""
    recipe = RECIPE_DESCRIPTORS[name]

    def block(operand: str, pointer: str, shape: tuple[int, ...]) -> str:
        terms = [pointer]
        for axis, extent in enumerate(shape):
            step = int(np.prod(shape[axis + 1 :]))
            index = ", ".join(":" if k == axis else "None" for k in range(len(shape)))
            terms.append(f"tl.arange(0, {extent})" + (f"[{index}]" if len(shape) > 1 else "") + f" * {step}")
        return " + ".join(terms)

    lines = [f"def k({', '.join(f'{n}_ptr' for n in given)}, result_ptr):"]
    lines += [f"    {n} = tl.load({block(n, f'{n}_ptr', v.shape)})" for n, v in given.items()]
    named = ", ".join(f'"{n}": {n}' for n in given)
    call = f'kb.composite(prologue=[{{"op": "{name}", {named}}}])'
    primary = recipe.primary_out
    assert primary is not None
    lines += [
        f"    result = {call}",
        f"    tl.store({block('result', 'result_ptr', primary.made(given[primary.from_shape].shape))}, result)",
    ]
    lines += [f"    tl.store({block(n, f'{n}_ptr', given[n].shape)}, {n})" for n in recipe.written]
    return "\n".join(lines) + "\n"


def compile_recipe(name: str, given: dict[str, np.ndarray]) -> Program:
    primary = RECIPE_DESCRIPTORS[name].primary_out
    assert primary is not None
    result = np.zeros(primary.made(given[primary.from_shape].shape), given[primary.from_dtype].dtype)
    types = {f"{n}_ptr": signature_of(x=v)["x"] for n, v in given.items()}
    return compiled(kernel_text(name, given), {**types, "result_ptr": signature_of(x=result)["x"]}).program


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_recipe_does_what_its_reference_says(name: str, data: st.DataObject) -> None:
    recipe = RECIPE_DESCRIPTORS[name]
    given_arrays = data.draw(st.composite(arrays)(name, recipe))
    primary = recipe.primary_out
    assert primary is not None
    wide = {n: v.astype(np.float64) for n, v in given_arrays.items()}
    scalars = {n: v for n, v in recipe.scalars.items() if v is not None}
    expected = recipe.reference(wide, scalars)
    result = np.zeros(primary.made(given_arrays[primary.from_shape].shape), given_arrays[primary.from_dtype].dtype)
    run_program(compile_recipe(name, given_arrays), {**given_arrays, "result": result})

    for output, values in expected.items():
        found = result if output == primary.name else given_arrays[output]
        dtype = from_numpy(found.dtype)
        assert dtype is not None
        tolerance = TOLERANCE[dtype.name]
        scale = max(1.0, float(np.abs(values).max()))
        assert np.allclose(values, found.astype(np.float64), rtol=tolerance * 4, atol=tolerance * 4 * scale), output


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_a_recipe_takes_the_scratch_that_it_announces(name: str, data: st.DataObject) -> None:
    recipe = RECIPE_DESCRIPTORS[name]
    given_arrays = data.draw(st.composite(arrays)(name, recipe))
    primary = recipe.primary_out
    assert primary is not None
    shapes = {n: v.shape for n, v in given_arrays.items()}
    sizes = {n: v.dtype.itemsize for n, v in given_arrays.items()}
    result_bytes = int(np.prod(primary.made(shapes[primary.from_shape]))) * sizes[primary.from_dtype]
    scratch = sum(b.nbytes for b in compile_recipe(name, given_arrays).buffers if b.persistent)

    assert recipe.internal_scratch_bytes_fn(shapes, sizes) == scratch + result_bytes


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_is_consistent(name: str) -> None:
    recipe = RECIPE_DESCRIPTORS[name]

    assert recipe.operands.keys() == recipe.dims.keys()
    assert recipe.doc
    assert name not in MICRO_OPS
    assert frozenset(recipe.written) == written_operands(name)
    for op in recipe.engine_seq:
        assert set(MICRO_OPS[op.kind].operands) == set(op.arguments)
    for source in recipe.dtypes.values():
        assert source in recipe.operands or source in BY_NAME


def test_softmax_merge_on_a_masked_tile_leaves_the_state_as_it_was() -> None:
    s = np.full((3, 5), -np.inf, np.float32)
    m, l_sum = np.array([1, -np.inf, 0], np.float32), np.array([2, 0, 1], np.float32)
    o = np.arange(6, dtype=np.float32).reshape(3, 2)
    given_arrays = {"s": s, "m": m.copy(), "l": l_sum.copy(), "O": o.copy()}
    result = np.ones((3, 5), np.float32)
    run_program(compile_recipe("softmax_merge", given_arrays), {**given_arrays, "result": result})

    assert np.array_equal(m, given_arrays["m"])
    assert [2, 0, 1] == given_arrays["l"].tolist()
    assert np.array_equal(np.where(np.isneginf(m), 0, 1)[:, None] * o, given_arrays["O"])
    assert not result.any()


def composites(program: Program) -> list[CompositeTemplate]:
    return [node for node in walk(program.body) if isinstance(node, CompositeTemplate)]


DECODE = """
def decode(q, k, v, o, T: tl.constexpr, D: tl.constexpr):
    r = tl.arange(0, 4)[:, None]
    c = tl.arange(0, D)[None, :]
    s = kb.composite(op="gemm", a=tl.load(q + r * D + c), b=kb.ref(k, (D, T), strides=(1, D)))
    m = tl.full((4,), -float("inf"), tl.float32)
    l = tl.zeros((4,), tl.float32)
    O = tl.zeros((4, D), tl.float32)
    kb.composite(
        prologue=[{"op": "softmax_merge", "s": s, "m": m, "l": l, "O": O}],
        op="gemm",
        b=kb.ref(v, (T, D)),
        out=O,
        epilogue=[{"op": "add", "other": O}],
    )
    tl.store(o + r * D + c, O / l[:, None])
"""
DECODE_TYPES = {"q": "*fp16", "k": "*fp16", "v": "*fp16", "o": "*fp32"}


def test_softmax_merge_and_its_gemm_are_exactly_ten_ops_with_m_l_o_in_place() -> None:
    program = compiled(DECODE, DECODE_TYPES, T=16, D=8).program
    (merge,) = [node for node in composites(program) if len(node.ops) == 10]

    kinds = "rmax max_elem exp_diff exp_diff rsum fma mul_bcast copy gemm add"
    assert kinds.split() == [op.kind for op in merge.ops]
    assert ["m", "l", "O"] == [handle.name for handle in merge.rw_handles]
    gemm = merge.ops[8]
    assert ("P", "tcm") == (gemm.operands["a"].name, gemm.operands["a"].space)
    assert ("v", "hbm") == (gemm.operands["b"].name, gemm.operands["b"].space)


def test_one_step_of_decode_is_attention() -> None:
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=shape).astype(np.float16) for shape in ((4, 8), (16, 8), (16, 8)))
    o = np.zeros((4, 8), np.float32)
    run_program(compiled(DECODE, DECODE_TYPES, T=16, D=8).program, {"q": q, "k": k, "v": v, "o": o})

    scores = q.astype(np.float64) @ k.astype(np.float64).T
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = p / p.sum(axis=1, keepdims=True) @ v.astype(np.float64)
    assert np.allclose(expected, o, rtol=1e-2, atol=1e-2)
