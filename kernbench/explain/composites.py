"""Errors of `tl.composite`: one command that carries a matrix product with what comes before and after it."""

from __future__ import annotations

from kernbench.explain.model import Explanation, Kernel

_ABC = "a_ptr=*fp16,b_ptr=*fp16,c_ptr=*fp32"
_GEMM = """
    @triton.jit
    def k(a_ptr, b_ptr, c_ptr):
        a = tl.ref(a_ptr, (64, 64))
        b = tl.ref(b_ptr, (64, 64))
        c = tl.ref(c_ptr, (64, 64))
        tl.composite(op="gemm", a=a, b=b, out=c)
"""


def _with(arguments: str, head: str = "") -> Kernel:
    """The kernel above with other arguments of the composite, and lines before it."""
    call = f"tl.composite({arguments})"
    return Kernel(_GEMM.replace('tl.composite(op="gemm", a=a, b=b, out=c)', head + call), _ABC)


_BIAS = "bias = tl.load(c_ptr + tl.arange(0, 64))\n        "
_SCALES = "s = tl.full((2, 1, 64), 0.5, tl.float32)\n        "
_BLOCK = "x = tl.zeros((64, 64), tl.float32)\n        "

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        code="E_BAD_COMPOSITE",
        story="""
            The arguments of a composite do not make one up: no `op` and no prologue, an operand that is no block, a
            scope that does not exist, both `out` and `out_ptr`. An op of `prologue` or `epilogue` is a dict such as
            `{"op": "add", "other": x}`.
        """,
        wrong=_with('op="gemm", a=a, b=b, out=c, out_ptr=c_ptr'),
        says="a composite writes to `out` or to `out_ptr`, both are given",
        right=_with('op="gemm", a=a, b=b, out_ptr=c_ptr'),
    ),
    Explanation(
        code="E_UNKNOWN_OP",
        story="""
            A composite is made of `gemm`, of micro-ops (`kernbench list micro-ops`) and of recipes (`kernbench list
            recipes`), which the compiler expands into micro-ops. The nearest name is offered.
        """,
        wrong=_with('op="gemm", a=a, b=b, out=c, epilogue=[{"op": "relu6"}]'),
        says="`epilogue` names 'relu6', which is no recipe and no op",
        right=_with('op="gemm", a=a, b=b, out=c, epilogue=[{"op": "sigmoid"}]'),
    ),
    Explanation(
        code="E_TWO_GEMMS",
        story="""
            A composite has at most one gemm (ADR-0065 D3): its tile loop is that of the gemm, and everything else is
            placed before, in or after that loop. A second product would need a loop of its own, so it is a second
            composite; the scheduler lets the two overlap where they do not depend on each other.
        """,
        wrong=_with('op="gemm", a=a, b=b, out=c, epilogue=[{"op": "gemm", "b": b}]'),
        says="the composite has 2 gemms, at most 1 is allowed",
        right=Kernel(
            """
            @triton.jit
            def k(a_ptr, b_ptr, c_ptr):
                a = tl.ref(a_ptr, (64, 64))
                b = tl.ref(b_ptr, (64, 64))
                c = tl.ref(c_ptr, (64, 64))
                ab = tl.composite(op="gemm", a=a, b=b)
                tl.composite(op="gemm", a=ab.to(tl.float16), b=b, out=c)
            """,
            _ABC,
        ),
    ),
    Explanation(
        code="E_NO_GEMM",
        story="""
            A tile scope (`K_TILE`, `OUTPUT_TILE`) places an op in the tile loop of a gemm, and this composite has
            none, or has it in the wrong place: the gemm is the `op` of the composite, never an entry of `prologue`
            or `epilogue`.
        """,
        wrong=_with('prologue=[{"op": "exp", "src": x, "scope": "K_TILE"}], op="add", a=x, other=1.0', _BLOCK),
        says="`exp` has scope K_TILE, but there is no gemm before it",
        right=_with('op="gemm", a=a, b=b, out=c, epilogue=[{"op": "exp", "scope": "K_TILE"}]'),
    ),
    Explanation(
        code="E_COMPOSITE_OPERAND",
        story="""
            An op lacks an operand, is given one that it does not have, or one of a kind that it cannot take. An
            operand that is left out is the value that comes from the op before; `other` names the one that is not.
        """,
        wrong=_with('op="gemm", a=a, b=b, out=c, epilogue=[{"op": "add", "bias": bias}]', _BIAS),
        says="`add` has no operand `bias`",
        right=_with('op="gemm", a=a, b=b, out=c, epilogue=[{"op": "add", "other": bias}]', _BIAS),
    ),
    Explanation(
        code="E_COMPOSITE_SHAPE",
        story="""
            The operands of an op do not fit together, or do not repeat to what the op makes. The operands of an
            epilogue meet the whole output, tile by tile: a vector of its columns repeats along the rows, with
            `bcast_axis` along another axis.
        """,
        wrong=_with(
            'op="gemm", a=a, b=b, out=c, epilogue=[{"op": "add", "other": bias}]', _BIAS.replace("0, 64", "0, 32")
        ),
        says="operand `src_b` of `add` has shape (32,), it must repeat to (64, 64)",
        right=_with('op="gemm", a=a, b=b, out=c, epilogue=[{"op": "add", "other": bias}]', _BIAS),
    ),
    Explanation(
        code="E_COMPOSITE_SCOPE",
        story="""
            The scope says how often an op runs: `K_TILE` on each partial product, `OUTPUT_TILE` on each finished
            tile, `KERNEL` once. A reduction needs whole rows or columns, which a tile does not have, so it runs once;
            a recipe that starts a composite cannot end one.
        """,
        wrong=_with('op="gemm", a=a, b=b, out=x, epilogue=[{"op": "rmax", "axis": 1, "scope": "OUTPUT_TILE"}]', _BLOCK),
        says="`rmax` reduces whole rows or columns, it cannot have scope OUTPUT_TILE",
        right=_with(
            'op="gemm", a=a, b=b, out=x, epilogue=[{"op": "rmax", "axis": 1, "out": m}]',
            _BLOCK + "m = tl.zeros((64,), tl.float32)\n        ",
        ),
    ),
    Explanation(
        code="E_K_GROUPS",
        story="""
            An operand of a `K_TILE` op may vary along k: with three axes, the first has one block for each group of
            rows of `b` (the scales of a quantised product). Each partial product of one k tile takes one block, so a
            group must have as many rows as some whole k tiles of the target's matrix engine (`pe_gemm.tile.k`).
        """,
        wrong=_with('op="gemm", a=a, b=b, out=c, epilogue=[{"op": "mul", "other": s, "scope": "K_TILE"}]', _SCALES),
        says="operand `src_b` of `mul` has groups of 32 rows, which k tiles of 64 cross",
        right=_with(
            'op="gemm", a=a, b=b, out=c, epilogue=[{"op": "mul", "other": s, "scope": "K_TILE"}]',
            _SCALES.replace("(2, 1, 64)", "(1, 1, 64)"),
        ),
    ),
    Explanation(
        code="E_OPERAND_SPACE",
        story="""
            Only `a`, `b` and `out` of a gemm may lie in HBM (ADR-0065 D4): for them the scheduler puts the DMA
            stages into the tile loop. Every other operand is a block in TCM; `tl.load` brings it there.
        """,
        wrong=_with('op="gemm", a=a, b=b, out=c, epilogue=[{"op": "add", "other": c}]'),
        says="operand `other` of `add` is in HBM, only `a`, `b` and `out` of a gemm can be",
        right=_with('op="gemm", a=a, b=b, out=c, epilogue=[{"op": "add", "other": bias}]', _BIAS),
    ),
    Explanation(
        code="E_OUT_OVERLAP",
        story="""
            Tiles are written as they are finished, while later tiles still read their operands. So `out` may not lie
            over `a` or `b`, nor over another part of an epilogue operand. The same tile of `out` may be read:
            `out=O, epilogue=[{"op": "add", "other": O}]` adds to what is there.
        """,
        wrong=_with('op="gemm", a=a, b=b, out=tl.ref(b_ptr, (64, 64))'),
        says="`out` overlaps `b`, which later tiles still read",
        right=_with('op="gemm", a=a, b=b, out=c'),
    ),
)
