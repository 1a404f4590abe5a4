"""Recipes: named patterns of MATH ops that a kernel asks for by one name (ADR-0065 D5).

A recipe is one entry of `RECIPE_DESCRIPTORS`: its operands with how they are used, the dimensions they share, the ops
it becomes, and a NumPy function that says what it means. `TLContext` expands it; nothing behind the compiler knows
that recipes exist. Does not know handles, commands or where scratch lies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from kernbench.commands import Scope
from kernbench.micro_ops import GENERATORS, MICRO_OPS

Shape = tuple[int, ...]
Dims = Mapping[str, int]  # extents by the letters of `RecipeDescriptor.dims`
Arrays = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PrimaryOutSpec:
    """The implicit result: the shape and type of operands, the shape turned by `transform`."""

    from_shape: str
    from_dtype: str
    transform: Literal["identity", "transpose", "unpack"] = "identity"
    binds: Literal["a", "b"] = "a"  # the operand of the GEMM that it becomes where both are absent
    name: str = "P"  # what the ops call it

    def made(self, shape: Shape) -> Shape:
        """The shape that the ops write, for `from_shape` of this shape: `unpack` makes two rows of each."""
        return (2 * shape[0], *shape[1:]) if self.transform == "unpack" else shape

    def seen(self, shape: Shape) -> Shape:
        """The shape that whoever takes the result sees."""
        return shape[::-1] if self.transform == "transpose" else self.made(shape)


@dataclass(frozen=True, slots=True)
class EngineOp:
    """One op. An argument is the name of an operand, an earlier `dst`, a view, a scalar or a constant; or a number."""

    engine: Literal["MATH"]
    kind: str
    dst: str
    src: str | float | None = None
    src_a: str | float | None = None
    src_b: str | float | None = None
    src_c: str | float | None = None
    reduce_axis: int | None = None
    bcast_axis: int | None = None

    @property
    def arguments(self) -> dict[str, str | float]:
        named = {"src": self.src, "src_a": self.src_a, "src_b": self.src_b, "src_c": self.src_c}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class View:
    """A part of an operand or result as a block of its own.

    `halves`: part `part` (0 or 1) of the two halves of the last axis. `pairs`: every second row from `part` on.
    `groups`: (rows, columns) seen as (groups, rows a group, columns) by the letters' extents. `repeat`: a row of
    each group, repeated for the rows of the group.
    """

    of: str
    how: Literal["halves", "pairs", "groups", "repeat"]
    part: int = 0


@dataclass(frozen=True)
class RecipeDescriptor:
    operands: dict[str, Literal["R", "RW"]]
    dims: dict[str, str]  # operand → one letter an axis; equal letters are equal extents
    primary_out: PrimaryOutSpec | None
    tile_alignment: Literal["single_shot", "tile_aligned"]
    internal_scratch_bytes_fn: Callable[[Mapping[str, Shape], Mapping[str, int]], int]
    engine_seq: tuple[EngineOp, ...]
    reference: Callable[[Arrays, Mapping[str, float]], Arrays]  # results by name, the primary one as its own name
    doc: str
    dtypes: dict[str, str] = field(default_factory=dict)  # intermediate → operand whose type it takes
    scalars: dict[str, float | None] = field(default_factory=dict)  # name → default; None: must be given
    constants: dict[str, Callable[[Dims], float]] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    accumulates: str | None = None  # the operand that is the accumulator where the recipe is an epilogue
    tile_scope: Scope = Scope.OUTPUT_TILE  # of a `tile_aligned` recipe in an epilogue

    @property
    def written(self) -> tuple[str, ...]:
        """Operands that are changed in place, in the order of the descriptor."""
        return tuple(name for name, use in self.operands.items() if use == "RW")


def _count(shape: Shape) -> int:
    n = 1
    for extent in shape:
        n *= extent
    return n


def _rows(shape: Shape) -> int:
    return _count(shape[:-1])


# --------------------------------------------------------------------------- references


def _softmax_merge(x: Arrays, scalars: Mapping[str, float]) -> Arrays:
    s, m = x["s"], x["m"]
    m_new = np.maximum(m, s.max(axis=-1))
    safe = np.where(np.isneginf(m_new), 0, m_new)
    p = np.where(np.isneginf(s), 0, np.exp(s - safe[:, None]))
    corr = np.where(np.isneginf(m), 0, np.exp(np.where(np.isneginf(m), 0, m) - safe))
    return {"P": p, "m": m_new, "l": x["l"] * corr + p.sum(axis=-1), "O": x["O"] * corr[:, None]}


def _softmax(x: Arrays, scalars: Mapping[str, float]) -> Arrays:
    p = np.exp(x["x"] - x["x"].max(axis=-1, keepdims=True))
    return {"P": p / p.sum(axis=-1, keepdims=True)}


def _rmsnorm(x: Arrays, scalars: Mapping[str, float]) -> Arrays:
    mean = (x["x"] ** 2).mean(axis=-1, keepdims=True)
    return {"P": x["x"] / np.sqrt(mean + scalars["eps"]) * x["w"]}


def _layernorm(x: Arrays, scalars: Mapping[str, float]) -> Arrays:
    centred = x["x"] - x["x"].mean(axis=-1, keepdims=True)
    var = (centred**2).mean(axis=-1, keepdims=True)
    return {"P": centred / np.sqrt(var + scalars["eps"]) * x["w"] + x["b"]}


def _rope(x: Arrays, scalars: Mapping[str, float]) -> Arrays:
    low, high = np.split(x["x"], 2, axis=-1)
    return {
        "P": np.concatenate(
            [low * x["cos"] - high * x["sin"], high * x["cos"] + low * x["sin"]],
            axis=-1,
        )
    }


def _swiglu(x: Arrays, scalars: Mapping[str, float]) -> Arrays:
    return {"P": x["gate"] / (1 + np.exp(-x["gate"])) * x["up"]}


def _gelu(x: Arrays, scalars: Mapping[str, float]) -> Arrays:
    import math  # only here: NumPy has no erf

    erf = np.vectorize(math.erf, otypes=[np.float64])
    return {"P": 0.5 * x["x"] * (1 + erf(x["x"] / np.sqrt(2.0)))}


def _dequant(x: Arrays, scalars: Mapping[str, float]) -> Arrays:
    group = x["q"].shape[0] // x["scale"].shape[0]
    return {"P": x["q"].astype(np.float64) * np.repeat(x["scale"], group, axis=0)}


def _dequant_int4(x: Arrays, scalars: Mapping[str, float]) -> Arrays:
    packed = x["q"].astype(np.int64) & 255
    rows = np.stack([packed & 15, packed >> 4], axis=1).reshape(-1, packed.shape[1]) - 8
    return {"P": rows * np.repeat(x["scale"], rows.shape[0] // x["scale"].shape[0], axis=0)}


# --------------------------------------------------------------------------- the table

RECIPE_DESCRIPTORS: dict[str, RecipeDescriptor] = {}

RECIPE_DESCRIPTORS["softmax_merge"] = RecipeDescriptor(
    operands={"s": "R", "m": "RW", "l": "RW", "O": "RW"},
    dims={"s": "GT", "m": "G", "l": "G", "O": "GD"},
    primary_out=PrimaryOutSpec(from_shape="s", from_dtype="s"),
    tile_alignment="single_shot",
    # m_loc, m_new, corr, l_loc and P
    internal_scratch_bytes_fn=lambda shapes, bpe: (
        3 * _rows(shapes["s"]) * bpe["m"] + _rows(shapes["s"]) * bpe["l"] + _count(shapes["s"]) * bpe["s"]
    ),
    engine_seq=(
        EngineOp("MATH", "rmax", src="s", dst="m_loc", reduce_axis=-1),
        EngineOp("MATH", "max_elem", src_a="m", src_b="m_loc", dst="m_new"),
        EngineOp("MATH", "exp_diff", src_a="m", src_b="m_new", dst="corr"),
        EngineOp("MATH", "exp_diff", src_a="s", src_b="m_new", dst="P", bcast_axis=1),
        EngineOp("MATH", "rsum", src="P", dst="l_loc", reduce_axis=-1),
        EngineOp("MATH", "fma", src_a="l", src_b="corr", src_c="l_loc", dst="l"),
        EngineOp("MATH", "mul_bcast", src_a="O", src_b="corr", dst="O", bcast_axis=1),
        EngineOp("MATH", "copy", src="m_new", dst="m"),
    ),
    reference=_softmax_merge,
    doc="One step of the online softmax: P = exp(s - max), and the running m, l, O brought to the new maximum.",
    dtypes={"m_loc": "m", "m_new": "m", "corr": "m", "l_loc": "l"},
)

RECIPE_DESCRIPTORS["softmax"] = RecipeDescriptor(
    operands={"x": "R"},
    dims={"x": "RC"},
    primary_out=PrimaryOutSpec(from_shape="x", from_dtype="x"),
    tile_alignment="single_shot",
    internal_scratch_bytes_fn=lambda shapes, bpe: (2 * _rows(shapes["x"]) + 2 * _count(shapes["x"])) * bpe["x"],
    engine_seq=(
        EngineOp("MATH", "rmax", src="x", dst="high", reduce_axis=-1),
        EngineOp("MATH", "exp_diff", src_a="x", src_b="high", dst="e", bcast_axis=1),
        EngineOp("MATH", "rsum", src="e", dst="total", reduce_axis=-1),
        EngineOp("MATH", "div", src_a="e", src_b="total", dst="P", bcast_axis=1),
    ),
    reference=_softmax,
    doc="Softmax of each row.",
    dtypes={"high": "x", "e": "x", "total": "x"},
)

RECIPE_DESCRIPTORS["rmsnorm"] = RecipeDescriptor(
    operands={"x": "R", "w": "R"},
    dims={"x": "RC", "w": "C"},
    primary_out=PrimaryOutSpec(from_shape="x", from_dtype="x"),
    tile_alignment="single_shot",
    # rows and a column in fp32, each used in place, and P
    internal_scratch_bytes_fn=lambda shapes, bpe: (
        4 * (_count(shapes["x"]) + _rows(shapes["x"])) + _count(shapes["x"]) * bpe["x"]
    ),
    engine_seq=(
        EngineOp("MATH", "mul", src_a="x", src_b="x", dst="rows"),
        EngineOp("MATH", "rsum", src="rows", dst="factor", reduce_axis=-1),
        EngineOp("MATH", "fma", src_a="factor", src_b="one_over_c", src_c="eps", dst="factor"),
        EngineOp("MATH", "rsqrt", src="factor", dst="factor"),
        EngineOp("MATH", "mul_bcast", src_a="x", src_b="factor", dst="rows", bcast_axis=1),
        EngineOp("MATH", "mul_bcast", src_a="rows", src_b="w", dst="P", bcast_axis=0),
    ),
    reference=_rmsnorm,
    doc="Each row divided by the root of its mean square, times w.",
    dtypes={"rows": "fp32", "factor": "fp32"},
    scalars={"eps": 1e-6},
    constants={"one_over_c": lambda dims: 1.0 / dims["C"]},
)

RECIPE_DESCRIPTORS["layernorm"] = RecipeDescriptor(
    operands={"x": "R", "w": "R", "b": "R"},
    dims={"x": "RC", "w": "C", "b": "C"},
    primary_out=PrimaryOutSpec(from_shape="x", from_dtype="x"),
    tile_alignment="single_shot",
    # two blocks of rows and two columns in fp32, used in place, and P
    internal_scratch_bytes_fn=lambda shapes, bpe: (
        4 * (2 * _count(shapes["x"]) + 2 * _rows(shapes["x"])) + _count(shapes["x"]) * bpe["x"]
    ),
    engine_seq=(
        EngineOp("MATH", "rsum", src="x", dst="mean", reduce_axis=-1),
        EngineOp("MATH", "mul", src_a="mean", src_b="one_over_c", dst="mean"),
        EngineOp("MATH", "sub_bcast", src_a="x", src_b="mean", dst="rows", bcast_axis=1),
        EngineOp("MATH", "mul", src_a="rows", src_b="rows", dst="squares"),
        EngineOp("MATH", "rsum", src="squares", dst="factor", reduce_axis=-1),
        EngineOp("MATH", "fma", src_a="factor", src_b="one_over_c", src_c="eps", dst="factor"),
        EngineOp("MATH", "rsqrt", src="factor", dst="factor"),
        EngineOp("MATH", "mul_bcast", src_a="rows", src_b="factor", dst="rows", bcast_axis=1),
        EngineOp("MATH", "mul_bcast", src_a="rows", src_b="w", dst="rows", bcast_axis=0),
        EngineOp("MATH", "add_bcast", src_a="rows", src_b="b", dst="P", bcast_axis=0),
    ),
    reference=_layernorm,
    doc="Each row brought to mean 0 and variance 1, times w, plus b.",
    dtypes=dict.fromkeys(("mean", "rows", "squares", "factor"), "fp32"),
    scalars={"eps": 1e-5},
    constants={"one_over_c": lambda dims: 1.0 / dims["C"]},
)

RECIPE_DESCRIPTORS["rope"] = RecipeDescriptor(
    operands={"x": "R", "cos": "R", "sin": "R"},
    dims={"x": "RC", "cos": "RH", "sin": "RH"},
    primary_out=PrimaryOutSpec(from_shape="x", from_dtype="x"),
    tile_alignment="single_shot",
    # two products of half a row each in fp32, and P
    internal_scratch_bytes_fn=lambda shapes, bpe: 4 * 2 * _count(shapes["cos"]) + _count(shapes["x"]) * bpe["x"],
    engine_seq=(
        EngineOp("MATH", "mul", src_a="x_low", src_b="cos", dst="low_cos"),
        EngineOp("MATH", "mul", src_a="x_high", src_b="sin", dst="high_sin"),
        EngineOp("MATH", "sub", src_a="low_cos", src_b="high_sin", dst="P_low"),
        EngineOp("MATH", "mul", src_a="x_high", src_b="cos", dst="low_cos"),
        EngineOp("MATH", "mul", src_a="x_low", src_b="sin", dst="high_sin"),
        EngineOp("MATH", "add", src_a="low_cos", src_b="high_sin", dst="P_high"),
    ),
    reference=_rope,
    doc="Rotary embedding: the two halves of each row turned by the angles whose cosines and sines are given.",
    dtypes={"low_cos": "fp32", "high_sin": "fp32"},
    views={
        "x_low": View("x", "halves", 0),
        "x_high": View("x", "halves", 1),
        "P_low": View("P", "halves", 0),
        "P_high": View("P", "halves", 1),
    },
)

RECIPE_DESCRIPTORS["swiglu"] = RecipeDescriptor(
    operands={"gate": "R", "up": "R"},
    dims={"gate": "RC", "up": "RC"},
    primary_out=PrimaryOutSpec(from_shape="gate", from_dtype="gate"),
    tile_alignment="tile_aligned",
    internal_scratch_bytes_fn=lambda shapes, bpe: _count(shapes["gate"]) * (4 + bpe["gate"]),
    engine_seq=(
        EngineOp("MATH", "sigmoid", src="gate", dst="swish"),
        EngineOp("MATH", "mul", src_a="gate", src_b="swish", dst="swish"),
        EngineOp("MATH", "mul", src_a="swish", src_b="up", dst="P"),
    ),
    reference=_swiglu,
    doc="gate × sigmoid(gate) × up.",
    dtypes={"swish": "fp32"},
    accumulates="gate",
)

RECIPE_DESCRIPTORS["gelu"] = RecipeDescriptor(
    operands={"x": "R"},
    dims={"x": "RC"},
    primary_out=PrimaryOutSpec(from_shape="x", from_dtype="x"),
    tile_alignment="tile_aligned",
    internal_scratch_bytes_fn=lambda shapes, bpe: _count(shapes["x"]) * (4 + bpe["x"]),
    engine_seq=(
        EngineOp("MATH", "mul", src_a="x", src_b=0.7071067811865476, dst="share"),
        EngineOp("MATH", "erf", src="share", dst="share"),
        EngineOp("MATH", "fma", src_a="share", src_b=0.5, src_c=0.5, dst="share"),
        EngineOp("MATH", "mul", src_a="x", src_b="share", dst="P"),
    ),
    reference=_gelu,
    doc="x times the share of a normal distribution that lies below x (the exact form, with erf).",
    dtypes={"share": "fp32"},
    accumulates="x",
)

RECIPE_DESCRIPTORS["dequant"] = RecipeDescriptor(
    operands={"q": "R", "scale": "R"},
    dims={"q": "KN", "scale": "SN"},
    primary_out=PrimaryOutSpec(from_shape="q", from_dtype="scale", binds="b"),
    tile_alignment="single_shot",
    internal_scratch_bytes_fn=lambda shapes, bpe: _count(shapes["q"]) * bpe["scale"],
    engine_seq=(EngineOp("MATH", "mul", src_a="q_groups", src_b="scale_rows", dst="P_groups"),),
    reference=_dequant,
    doc="Weights of 8 bits (int8 or fp8) times the scale of their group of rows.",
    views={
        "q_groups": View("q", "groups"),
        "scale_rows": View("scale", "repeat"),
        "P_groups": View("P", "groups"),
    },
)

RECIPE_DESCRIPTORS["dequant_int4"] = RecipeDescriptor(
    operands={"q": "R", "scale": "R"},
    dims={"q": "BN", "scale": "SN"},
    primary_out=PrimaryOutSpec(from_shape="q", from_dtype="scale", transform="unpack", binds="b"),
    tile_alignment="single_shot",
    # one half of each byte, and P with two rows for each row of bytes
    internal_scratch_bytes_fn=lambda shapes, bpe: _count(shapes["q"]) * (bpe["q"] + 2 * bpe["scale"]),
    engine_seq=(
        EngineOp("MATH", "and", src_a="q", src_b=15, dst="half"),
        EngineOp("MATH", "sub", src_a="half", src_b=8, dst="P_even"),
        EngineOp("MATH", "shr", src_a="q", src_b=4, dst="half"),
        EngineOp("MATH", "and", src_a="half", src_b=15, dst="half"),
        EngineOp("MATH", "sub", src_a="half", src_b=8, dst="P_odd"),
        EngineOp("MATH", "mul", src_a="P_groups", src_b="scale_rows", dst="P_groups"),
    ),
    reference=_dequant_int4,
    doc="Weights of 4 bits, 8 above their value and two a byte along the rows (low half first), times their scale.",
    dtypes={"half": "q"},
    views={
        "P_even": View("P", "pairs", 0),
        "P_odd": View("P", "pairs", 1),
        "P_groups": View("P", "groups"),
        "scale_rows": View("scale", "repeat"),
    },
)


def written_operands(name: str) -> frozenset[str]:
    """The operands that a recipe changes in place; none for anything else."""
    recipe = RECIPE_DESCRIPTORS.get(name)
    return frozenset(recipe.written if recipe is not None else ())


def known_ops() -> list[str]:
    """What a prologue or epilogue may name beside a gemm: recipes, and micro-ops that have operands."""
    elementwise = {name for name, op in MICRO_OPS.items() if not op.whole and name not in GENERATORS}
    return sorted({*elementwise, *RECIPE_DESCRIPTORS})
