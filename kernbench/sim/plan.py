"""From a composite to its stages: where each op runs in the tile loop, and which data moves are put in between.

Only an op's position, its scope and the space of the GEMM's operands decide (ADR-0065 D3, D4). A plan has no
addresses, so one plan serves every dispatch of a template, on every PE with the same parameters.
Does not know when a stage runs, what it computes, or why the ops were put together.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from kernbench.commands import CompositeTemplate, OpSpec, Scope, TensorHandle
from kernbench.dtypes import DType
from kernbench.micro_ops import MICRO_OPS
from kernbench.sim.topology_schema import PeGemmSpec, PeSpec, ns_to_ps

StageKind = Literal["dma_read", "fetch", "gemm", "math", "store", "dma_write"]

# The order of a tile's stages, for what happens in one instant. Parts of one DMA stage count up from its number.
STAGE_READ_A, STAGE_READ_B, STAGE_FETCH, STAGE_GEMM = 0, 4096, 8192, 8193
STAGE_MATH, STAGE_STORE, STAGE_WRITE, STAGE_AFTER = 8194, 16384, 16385, 24576

# Keys of `pe_gemm.macs_per_cycle` under which a dtype's rate may stand, the exact one first.
_RATE_KEYS: dict[str, tuple[str, ...]] = {
    "i8": ("i8", "int8"),
    "u8": ("u8", "uint8", "int8"),
    "fp8e4nv": ("fp8e4nv", "fp8"),
    "fp8e5": ("fp8e5", "fp8"),
    "bf16": ("bf16", "bfloat16"),
    "fp16": ("fp16", "float16"),
    "fp32": ("fp32", "float32"),
}


class MathStage(NamedTuple):
    """One MATH op on one shape."""

    op: int  # index in the composite
    duration_ps: int
    flops: int
    nbytes: int  # of the result


class Along(enum.Enum):
    """Which axis of the product an axis of a tile operand runs along."""

    M = "m"
    N = "n"
    K = "k"  # one block for each group of rows of `b`
    TILE = "tile"  # along m or n too, but it holds one tile only
    WHOLE = "whole"


class Tile(NamedTuple):
    """What the stages of one tile cost; tiles of one shape share it."""

    m: int
    k: int
    n: int
    fetch_ps: int
    fetch_bytes: int
    gemm_ps: int
    flops: int
    a_bytes: int
    b_bytes: int
    k_ops: tuple[MathStage, ...]
    out_ops: tuple[MathStage, ...]
    store_ps: int
    out_bytes: int


@dataclass(frozen=True)
class Loop:
    """The tile loop of a GEMM: tile number `j` in the order m, n, k (k fastest)."""

    m: int
    k: int
    n: int
    native: tuple[int, int, int]  # m, k, n
    a: TensorHandle
    b: TensorHandle
    out: TensorHandle
    tiles: dict[tuple[int, int, int], Tile]  # by extents

    @cached_property
    def counts(self) -> tuple[int, int, int]:
        """Tiles along m, k, n."""
        m, k, n = self.native
        return -(-self.m // m), -(-self.k // k), -(-self.n // n)

    @property
    def total(self) -> int:
        m, k, n = self.counts
        return m * k * n

    def at(self, j: int) -> tuple[int, int, int]:
        """First row, depth and column of tile `j`."""
        _, count_k, count_n = self.counts
        outer, ki = divmod(j, count_k)
        mi, ni = divmod(outer, count_n)
        return mi * self.native[0], ki * self.native[1], ni * self.native[2]

    def extents(self, m0: int, k0: int, n0: int) -> tuple[int, int, int]:
        m, k, n = self.native
        return min(m, self.m - m0), min(k, self.k - k0), min(n, self.n - n0)


@dataclass(frozen=True)
class Plan:
    """Stages of a composite: `before` the tile loop, the loop with its epilogues, `after` it."""

    before: tuple[MathStage, ...]
    loop: Loop | None
    k_ops: tuple[int, ...]  # op indices at K_TILE
    out_ops: tuple[int, ...]  # op indices at OUTPUT_TILE
    after: tuple[MathStage, ...]


class PlanError(ValueError):
    """A composite that this PE cannot run; `code` is of `sim.errors.ERRORS`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def make_plan(ops: tuple[OpSpec, ...], spec: PeSpec) -> Plan:
    """The plan of a composite on a PE with these parameters."""
    head = next((index for index, op in enumerate(ops) if op.kind == "gemm"), None)
    if head is None:
        return Plan(_whole(ops, range(len(ops)), spec), None, (), (), ())
    behind = range(head + 1, len(ops))
    k_ops = tuple(i for i in behind if ops[i].scope is Scope.K_TILE)
    out_ops = tuple(i for i in behind if ops[i].scope is Scope.OUTPUT_TILE)
    after = [i for i in behind if ops[i].scope is Scope.KERNEL]
    for index in k_ops:
        _check_groups(ops[index], int(ops[head].extra["k"]), spec.pe_gemm.tile.k)
    for index in (*k_ops, *out_ops):
        _check_cuts(ops[index], ops[head], (spec.pe_gemm.tile.m, spec.pe_gemm.tile.n))
    loop = _loop(ops, head, k_ops, out_ops, spec)
    return Plan(_whole(ops, range(head), spec), loop, k_ops, out_ops, _whole(ops, after, spec))


def _check_groups(op: OpSpec, k: int, native_k: int) -> None:
    """Every K tile lies in one group of an operand that varies along k."""
    for name, handle in op.operands.items():
        if Along.K in tile_axes(handle, None, op.scope, None):
            groups = handle.shape[0]
            if k % groups or (groups > 1 and k // groups % native_k):
                message = f"operand `{name}` of `{op.kind}` has {groups} groups along k = {k}"
                raise PlanError("E_K_GROUPS", f"{message}, which tiles of {native_k} would cross")


def _check_cuts(op: OpSpec, head: OpSpec, native: tuple[int, int]) -> None:
    """Every tile finds its part in what an op of tiles reads and writes."""
    m, n = int(head.extra["m"]), int(head.extra["n"])
    for name, handle in (*op.operands.items(), ("out", op.out)):
        if handle is None or handle.is_accumulator:
            continue
        axes = tile_axes(handle, op.extra.get("bcast_axis"), op.scope, (m, n))
        for place, (extent, along) in enumerate(zip(handle.shape, axes, strict=True)):
            is_row = place == len(axes) - 2
            needed = {
                Along.M: m,
                Along.N: n,
                Along.TILE: min((m, n)[not is_row], native[not is_row]),
            }.get(along, extent)
            if extent < needed:
                message = f"`{name}` of `{op.kind}` has {extent} elements along {'m' if is_row else 'n'}"
                raise PlanError("E_BINARY_CORRUPT", f"{message}, a tile needs {needed}")


def _whole(ops: tuple[OpSpec, ...], indices: range | list[int], spec: PeSpec) -> tuple[MathStage, ...]:
    return tuple(math_stage(index, ops[index], None, spec) for index in indices)


# --------------------------------------------------------------------------- MATH


def math_stage(index: int, op: OpSpec, tile: tuple[int, int] | None, spec: PeSpec) -> MathStage:
    """Cost of an op on its whole operands, or on a tile of `tile` rows and columns of the output."""
    handles = [*op.operands.values(), *([op.out] if op.out is not None else [])]
    count = _elements(op, handles, tile)
    cost = MICRO_OPS[op.kind].cost
    params = spec.pe_math
    cycles = params.startup_cycles + -(-count // params.lanes) * params.cycles.get(cost, 1)
    duration = max(1, spec.cycles_to_ps(cycles) + ns_to_ps(params.overhead_ns))
    result = op.out.dtype.nbytes * _cut_elements(op.out, tile, op.scope) if op.out is not None else 4 * count
    return MathStage(index, duration, 0 if cost == "move" else count, result)


def _elements(op: OpSpec, handles: list[TensorHandle], tile: tuple[int, int] | None) -> int:
    counts = [_cut_elements(handle, tile, op.scope) for handle in handles]
    if tile is not None and op.out is None:
        counts.append(tile[0] * tile[1])  # the result is the accumulator
    return max(counts, default=1)


def _cut_elements(handle: TensorHandle, tile: tuple[int, int] | None, scope: Scope) -> int:
    if tile is None:
        return handle.n_elements
    count = 1
    for extent, along in zip(handle.shape, tile_axes(handle, None, scope, None), strict=True):
        sizes = {Along.M: min(tile[0], extent), Along.N: min(tile[1], extent), Along.K: 1, Along.WHOLE: extent}
        count *= sizes[along]  # without `output`, no axis is TILE
    return count


def tile_axes(
    handle: TensorHandle, bcast_axis: int | None, scope: Scope, output: tuple[int, int] | None
) -> tuple[Along, ...]:
    """Which way each axis of a tile operand is cut. A vector lies along n, or where `bcast_axis` is 1 along m.

    The first of three axes lies along k at scope K_TILE. `output` is the whole output's shape: a block of fewer rows
    or columns holds one tile.
    """
    if len(handle.shape) == 1:
        along = Along.M if bcast_axis in (1, -1) else Along.N
        return (Along.WHOLE if handle.shape[0] == 1 else along,)
    lead = len(handle.shape) - 2
    m, n = handle.shape[lead:] if lead >= 0 else (1, 1)
    if lead < 0:
        return ()
    above = Along.K if scope is Scope.K_TILE and lead == 1 else Along.WHOLE
    rows, columns = output if output is not None else (m, n)
    along_m = Along.WHOLE if m == 1 else Along.M if m == rows else Along.TILE
    along_n = Along.WHOLE if n == 1 else Along.N if n == columns else Along.TILE
    return (*(above,) * lead, along_m, along_n)


# --------------------------------------------------------------------------- GEMM


def _loop(ops: tuple[OpSpec, ...], head: int, k_ops: tuple[int, ...], out_ops: tuple[int, ...], spec: PeSpec) -> Loop:
    op = ops[head]
    assert op.out is not None
    m, k, n = (int(op.extra[name]) for name in ("m", "k", "n"))
    shape = spec.pe_gemm.tile
    loop = Loop(m, k, n, (shape.m, shape.k, shape.n), op.operands["a"], op.operands["b"], op.out, {})
    rate = macs_per_cycle(spec.pe_gemm, multiplied_dtype(loop.a.dtype, loop.b.dtype))
    for extents in _shapes(loop):
        loop.tiles[extents] = _tile(ops, loop, extents, rate, (k_ops, out_ops), spec)
    return loop


def _shapes(loop: Loop) -> Iterator[tuple[int, int, int]]:
    """The shapes of tiles: full ones and those at the edges."""
    sizes = []
    for whole, native in zip((loop.m, loop.k, loop.n), loop.native, strict=True):
        sizes.append(sorted(size for size in {min(whole, native), whole % native or native} if size <= whole))
    for m in sizes[0]:
        for k in sizes[1]:
            for n in sizes[2]:
                yield m, k, n


def _tile(
    ops: tuple[OpSpec, ...],
    loop: Loop,
    extents: tuple[int, int, int],
    rate: int,
    epilogues: tuple[tuple[int, ...], tuple[int, ...]],
    spec: PeSpec,
) -> Tile:
    m, k, n = extents
    a_bytes, b_bytes, out_bytes = (
        m * k * loop.a.dtype.nbytes,
        k * n * loop.b.dtype.nbytes,
        m * n * loop.out.dtype.nbytes,
    )
    overhead = ns_to_ps(spec.pe_gemm.overhead_ns)
    return Tile(
        m, k, n,
        fetch_ps=port_ps(a_bytes + b_bytes, spec), fetch_bytes=a_bytes + b_bytes,
        gemm_ps=max(1, spec.cycles_to_ps(gemm_cycles(spec.pe_gemm, rate, m, k, n)) + overhead), flops=2 * m * k * n,
        a_bytes=a_bytes, b_bytes=b_bytes,
        k_ops=tuple(math_stage(i, ops[i], (m, n), spec) for i in epilogues[0]),
        out_ops=tuple(math_stage(i, ops[i], (m, n), spec) for i in epilogues[1]),
        store_ps=port_ps(out_bytes, spec), out_bytes=out_bytes,
    )  # fmt: skip


def port_ps(nbytes: int, spec: PeSpec) -> int:
    """Time of bytes on the engines' port of TCM."""
    cycles = max(1, -(-nbytes // spec.tcm.bytes_per_cycle))
    return max(1, spec.cycles_to_ps(cycles) + ns_to_ps(spec.tcm.overhead_ns))


def multiplied_dtype(a: DType, b: DType) -> DType:
    """The type in which PE_GEMM multiplies: FETCH rounds the wider of two float types to the narrower."""
    return a if a.bits <= b.bits else b


def macs_per_cycle(spec: PeGemmSpec, dtype: DType) -> int:
    for key in _RATE_KEYS.get(dtype.name, (dtype.name,)):
        if key in spec.macs_per_cycle:
            return spec.macs_per_cycle[key]
    known = ", ".join(sorted(spec.macs_per_cycle))
    raise PlanError("E_GEMM_DTYPE", f"PE_GEMM does not multiply {dtype}; it does {known}")


def gemm_cycles(spec: PeGemmSpec, rate: int, m: int, k: int, n: int) -> int:
    """Cycles of one tile. The systolic forms are SCALE-Sim's counted as lengths, one more than its last index."""
    if spec.dataflow == "ideal":
        return max(1, -(-m * k * n // rate))
    assert spec.rows is not None and spec.cols is not None, "the topology's loader asks for rows and cols"
    rows, cols = spec.rows, spec.cols
    match spec.dataflow:
        case "ws":
            return -(-k // rows) * -(-n // cols) * (2 * rows + cols + m - 2)
        case "os":
            return -(-m // rows) * -(-n // cols) * (rows + cols + k - 2)
        case "is":
            return -(-k // rows) * -(-m // cols) * (2 * rows + cols + n - 2)


# --------------------------------------------------------------------------- what people read


class StageNote(NamedTuple):
    """One kind of stage of a plan: how often it runs, what it moves, and why it is there."""

    kind: StageKind | Literal["send", "recv"]
    name: str  # micro-op, or the operand that is moved
    scope: str  # "before", "tile", "k_tile", "output_tile", "after"
    runs: int
    nbytes: int  # all together; of DMA stages without what rings save
    why: str


def describe_plan(template: CompositeTemplate, spec: PeSpec) -> list[StageNote]:
    """The stages of a template in the order of their first run, saying where each DMA comes from."""
    plan = make_plan(template.ops, spec)
    notes = [_math_note(template.ops, stage, "before") for stage in plan.before]
    if plan.loop is not None:
        notes.extend(_loop_notes(template.ops, plan, plan.loop))
    return [*notes, *(_math_note(template.ops, stage, "after") for stage in plan.after)]


def _math_note(ops: tuple[OpSpec, ...], stage: MathStage, scope: str) -> StageNote:
    return StageNote("math", ops[stage.op].kind, scope, 1, stage.nbytes, f"op {stage.op}, scope KERNEL")


def _loop_notes(ops: tuple[OpSpec, ...], plan: Plan, loop: Loop) -> Iterator[StageNote]:
    m, _, n = loop.counts
    outputs = m * n
    moved = {"a": loop.m * loop.k * n * loop.a.dtype.nbytes, "b": loop.k * loop.n * m * loop.b.dtype.nbytes}
    for name, handle in (("a", loop.a), ("b", loop.b)):
        if handle.space == "hbm":
            yield StageNote("dma_read", name, "tile", loop.total, moved[name], f"operand {name} is in hbm")
    yield StageNote("fetch", "a, b", "tile", loop.total, sum(moved.values()), "operands go from tcm to the engine")
    yield StageNote("gemm", "gemm", "tile", loop.total, 0, f"tiles of {'x'.join(map(str, loop.native))} (m, k, n)")
    for index in plan.k_ops:
        yield StageNote("math", ops[index].kind, "k_tile", loop.total, 0, f"op {index}, scope K_TILE")
    for index in plan.out_ops:
        yield StageNote("math", ops[index].kind, "output_tile", outputs, 0, f"op {index}, scope OUTPUT_TILE")
    out_bytes = loop.m * loop.n * loop.out.dtype.nbytes
    yield StageNote("store", "out", "output_tile", outputs, out_bytes, "the accumulator goes to tcm")
    if loop.out.space == "hbm":
        yield StageNote("dma_write", "out", "output_tile", outputs, out_bytes, "operand out is in hbm")
