"""Random legal composites against NumPy: any places of a, b and out, any ops before and after, at any scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.compiler.recipes import RECIPE_DESCRIPTORS
from tests.kernels.helpers import log_text, run_text

Array = np.ndarray
TILE = 64


class Mix(NamedTuple):
    """An op as it is written, and what it means."""

    text: str
    meaning: Callable[[Array, dict[str, Array]], Array]


BEFORE = [
    Mix('{"op": "exp"}', lambda x, _: np.exp(x)),
    Mix('{"op": "mul", "other": 0.25}', lambda x, _: x * 0.25),
    Mix('{"op": "add", "other": along[None, :]}', lambda x, given: x + given["along"][: x.shape[1]]),
    Mix('{"op": "softmax", "x": OPEN}', lambda x, _: np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)),
    Mix('{"op": "gelu"}', lambda x, _: RECIPE_DESCRIPTORS["gelu"].reference({"x": x}, {})["P"]),
]
ANYWHERE = [
    Mix('{"op": "mul", "other": -0.5, "scope": SCOPE}', lambda z, _: z * -0.5),
    Mix('{"op": "max_elem", "other": 0.0, "scope": SCOPE}', lambda z, _: np.maximum(z, 0)),
    Mix('{"op": "mul", "other": row, "scope": SCOPE}', lambda z, given: z * given["row"][: z.shape[1]]),
    Mix(
        '{"op": "mul_bcast", "src_b": col, "bcast_axis": 1, "scope": SCOPE}',
        lambda z, given: z * given["col"][: z.shape[0], None],
    ),
    Mix('{"op": "fma", "src_b": 2.0, "src_c": row, "scope": SCOPE}', lambda z, g: z * 2 + g["row"][: z.shape[1]]),
]
TEXT = """
def k(a_ptr, b_ptr, c_ptr, row_ptr, col_ptr, along_ptr, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)
    j = tl.arange(0, N)
    kk = tl.arange(0, K)
    row = tl.load(row_ptr + j)
    col = tl.load(col_ptr + i)
    along = tl.load(along_ptr + kk)
    x = tl.load(a_ptr + i[:, None] * K + kk)
    a = A
    b = B
    c = C
    kb.composite(PROLOGUE op="gemm", b=b, out=c, epilogue=[EPILOGUE])
    STORE
"""


def kernel(spaces: str, before: list[Mix], after: list[tuple[str, Mix]]) -> str:
    """The text of a composite; an op before the GEMM takes what the one before it makes."""
    first = '{"op": "copy", "src": x}'
    prologue = ", ".join([first, *(mix.text for mix in before)])
    epilogue = ", ".join(mix.text.replace("SCOPE", f'"{scope}"') for scope, mix in after)
    head = f"prologue=[{prologue}]," if before else "a=a,"
    pieces = {
        "= A\n": "= tl.ref(a_ptr, (M, K))\n" if spaces[0] == "h" else "= x\n",
        "= B\n": "= tl.ref(b_ptr, (K, N))\n" if spaces[1] == "h" else "= tl.load(b_ptr + kk[:, None] * N + j)\n",
        "= C\n": "= tl.ref(c_ptr, (M, N))\n" if spaces[2] == "h" else "= tl.zeros((M, N), tl.float32)\n",
        "PROLOGUE": head,
        "EPILOGUE": epilogue,
        "STORE": "return" if spaces[2] == "h" else "tl.store(c_ptr + i[:, None] * N + j, c)",
    }
    text = TEXT
    for hole, piece in pieces.items():
        text = text.replace(hole, piece)
    return text


def expected(arrays: dict[str, Array], before: list[Mix], after: list[tuple[str, Mix]]) -> Array:
    """Scopes by their meaning: K_TILE on each partial product, the rest on the sum; KERNEL behind OUTPUT_TILE."""
    given = {name.removesuffix("_ptr"): values.astype(np.float64) for name, values in arrays.items()}
    a, b = given["a"], given["b"]
    for mix in before:
        a = mix.meaning(a, given)
    total: Any = 0
    for k in range(0, a.shape[1], TILE):
        partial = a[:, k : k + TILE] @ b[k : k + TILE]
        for scope, mix in after:
            partial = mix.meaning(partial, given) if scope == "K_TILE" else partial
        total = total + partial
    for wanted in ("OUTPUT_TILE", "KERNEL"):
        for scope, mix in after:
            total = mix.meaning(total, given) if scope == wanted else total
    return np.asarray(total)


@st.composite
def mixes(draw: st.DrawFn) -> tuple[tuple[int, int, int], str, list[Mix], list[tuple[str, Mix]], int]:
    size = st.sampled_from([1, 3, 31, 64, 65, 130])
    spaces = "".join(draw(st.sampled_from("ht")) for _ in range(3))
    plain = [mix for mix in BEFORE if "OPEN" not in mix.text]
    before = draw(st.lists(st.sampled_from(plain), max_size=3))
    if draw(st.booleans()):
        before = [BEFORE[3]._replace(text=BEFORE[3].text.replace("OPEN", "x")), *before]
    scopes = ["K_TILE", "OUTPUT_TILE", *(["KERNEL"] if spaces[2] == "t" else [])]
    after = draw(st.lists(st.tuples(st.sampled_from(scopes), st.sampled_from(ANYWHERE)), max_size=4))
    return (draw(size), draw(size), draw(size)), spaces, before, after, draw(st.integers(0, 99))


@settings(max_examples=25, deadline=None)
@given(mixes())
def test_any_legal_mix_computes_what_it_says(
    mix: tuple[tuple[int, int, int], str, list[Mix], list[tuple[str, Mix]], int],
) -> None:
    (m, k, n), spaces, before, after, seed = mix
    rng = np.random.default_rng(seed)
    shapes = {"a_ptr": (m, k), "b_ptr": (k, n), "row_ptr": (n,), "col_ptr": (m,), "along_ptr": (k,)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    given = {**arrays, "c_ptr": np.zeros((m, n), np.float32)}
    text = kernel(spaces, before, after)
    run = run_text(text, given, M=m, K=k, N=n)
    wanted = expected(arrays, before, after)
    room = 1e-4 * max(1.0, float(np.abs(wanted).max()))

    np.testing.assert_allclose(run["c_ptr"], wanted, rtol=1e-3, atol=room)
    assert log_text(run) == log_text(run_text(text, given, mode="timing", M=m, K=k, N=n))
