"""Small workloads that between them use every part of a device: traffic, launches and kernels, each with its time.

Each is a function of a topology. A lone workload has one flow or one PE at work, so a faster part can never make it
slower; a contended one may. Does not know what is changed in a topology.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from kernbench import dtypes, session
from kernbench.kernel import Kernel
from kernbench.probe.catalog import catalog_of
from kernbench.probe.measure import measure
from kernbench.runtime.placement import CopiesOn, On, Placement, Shard
from kernbench.sim.topology_graph import TopologyGraph

NBYTES = 4096
HERE = On(0, 0, 0)
HEAD = "import triton\nimport kernbench.language as tl\n\n\n@triton.jit\n"

# 24 blocks through TCM, one after the other: dispatch, vector lanes; loads and stores share the slice.
STREAM = """
def stream(X, Y, B: tl.constexpr):
    for i in range(0, 24):
        at = i * B + tl.arange(0, B)
        tl.store(Y + at, tl.load(X + at) * 2.0 + 1.0)
"""
# A load behind so many slow commands that it depends on the queue how early it is seen.
BEHIND = """
def behind(X, Y, B: tl.constexpr):
    x = tl.load(X + tl.arange(0, B))
    for i in tl.static_range(0, 14):
        x = tl.exp(x)
    y = tl.load(X + tl.arange(0, 2 * B))
    tl.store(Y + tl.arange(0, 2 * B), y)
    tl.store(Y + tl.arange(0, B), x)
"""
# One load from every slice of the device, or from another package.
REMOTE = """
def remote(X, Y, B: tl.constexpr):
    tl.store(Y + tl.arange(0, B), tl.load(X + tl.arange(0, B)))
"""
MATHS = """
def maths(X, Y, B: tl.constexpr):
    x = tl.load(X + tl.arange(0, B))
    for i in range(0, 4):
        x = tl.exp(x) + 1.0
    tl.store(Y + tl.arange(0, B), x)
"""
# Operands streamed, the product kept in TCM until the end: only reads use the slice meanwhile.
PRODUCT = """
def product(A, B, C, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    c = tl.composite(op="gemm", a=tl.ref(A, (M, K)), b=tl.ref(B, (K, N)))
    tl.store(C + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], c)
"""
WRITTEN_PRODUCT = """
def product(A, B, C, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    tl.composite(op="gemm", a=tl.ref(A, (M, K)), b=tl.ref(B, (K, N)), out=tl.ref(C, (M, N)))
"""
# To and fro, then a burst to a receiver that is late while the sender has work of its own behind it.
MESSAGES = """
def messages(X, Y, B: tl.constexpr):
    at = tl.arange(0, B)
    x = tl.load(X + at)
    if tl.pe_index() == 0:
        for i in tl.static_range(0, 4):
            tl.send(x, 1)
            x = tl.recv((B,), tl.float32, 1)
        for i in tl.static_range(0, 6):
            tl.send(x, 1)
        for i in tl.static_range(0, 8):
            x = tl.exp(x)
    else:
        for i in tl.static_range(0, 4):
            tl.send(tl.recv((B,), tl.float32, 0), 0)
        for i in tl.static_range(0, 4):
            x = tl.exp(x)
        for i in tl.static_range(0, 6):
            x = tl.recv((B,), tl.float32, 0)
    tl.store(Y + at, x)
"""
IDLE = """
def idle(X):
    pass
"""
# Dtypes of `macs_per_cycle`, as arrays hold them.
ARRAYS = {
    "fp16": dtypes.fp16, "bf16": dtypes.bf16, "fp32": dtypes.fp32, "fp8": dtypes.fp8e4nv, "int8": dtypes.i8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    contended: bool
    time_ps: Callable[[TopologyGraph], int | None]  # None: the topology cannot play it


def workloads_of(graph: TopologyGraph) -> tuple[Workload, ...]:
    """Those that a topology can play."""
    cases = [case for case in catalog_of(graph).cases if case.name in _chosen(graph)]
    traffic = [Workload(case.name, case.category == "contention", partial(_traffic, case.name)) for case in cases]
    rates = graph.spec.pe.pe_gemm.macs_per_cycle
    products = [Workload(f"gemm {name}", False, partial(_product, PRODUCT, name)) for name in ARRAYS if name in rates]
    kernels = [
        Workload("stream", True, partial(_one_pe, STREAM, 24, 1024)),
        Workload("behind", False, partial(_one_pe, BEHIND, 2, 16384)),
        Workload("maths", False, partial(_one_pe, MATHS, 1, 4096)),
        Workload("gemm written", True, partial(_product, WRITTEN_PRODUCT, "fp16")),
        Workload("load from every slice", False, _from_everywhere),
        Workload("load from the other package", False, _from_other_package),
        Workload("messages between two PEs", True, _messages),
        Workload("launch on every PE", True, _launch),
    ]
    return (*traffic, *products, *kernels)


def _chosen(graph: TopologyGraph) -> set[str]:
    """The nearest and the farthest of each kind are enough."""
    names = {"pe-local-hbm", "pe-cross-half-hbm", "pe-cross-cube-hbm-worst", "contention-all-pes"}
    rows = [case.name for case in catalog_of(graph).cases if case.category in ("h2d", "d2h")]
    return {*names, "contention-all-cubes", "h2d-1hop", rows[-1]}


def _traffic(name: str, graph: TopologyGraph) -> int | None:
    case = next((case for case in catalog_of(graph).cases if case.name == name), None)
    return None if case is None else max(measure(graph, case, NBYTES).total_ps)


@cache
def _kernel(text: str, constexprs: tuple[tuple[str, int], ...]) -> Kernel:
    """At level 0: one block operation is one command, in the order of the text."""
    return session.compile(HEAD + text.strip() + "\n", dict(constexprs), opt_level=0)


def _time_ps(
    graph: TopologyGraph, kernel: Kernel, args: Mapping[str, Any], place: Placement, **others: Placement
) -> int:
    placements = {name: place for name, value in args.items() if isinstance(value, np.ndarray)} | others
    run = session.open(graph).run(kernel, args, placements=placements, mode="timing", grid=(1,) if others else None)
    assert run.handle is not None
    return run.handle.total_ps


def _one_pe(text: str, blocks: int, block: int, graph: TopologyGraph) -> int:
    x = np.zeros(blocks * block, np.float32)
    return _time_ps(graph, _kernel(text, (("B", block),)), {"X": x, "Y": np.zeros_like(x)}, HERE)


def _product(text: str, name: str, graph: TopologyGraph) -> int:
    m, k, n = 128, 256, 128
    kind = ARRAYS[name].numpy
    out = np.zeros((m, n), np.int32 if name == "int8" else np.float32)
    args = {"A": np.zeros((m, k), kind), "B": np.zeros((k, n), kind), "C": out}
    return _time_ps(graph, _kernel(text, (("M", m), ("K", k), ("N", n))), args, HERE)


def _from_everywhere(graph: TopologyGraph) -> int:
    """64 bytes of each slice; one PE takes them all with one command."""
    block = 16 * len(graph.pe_tags())
    args = {"X": np.zeros(block, np.float32), "Y": np.zeros(block, np.float32)}
    return _time_ps(graph, _kernel(REMOTE, (("B", block),)), args, HERE, X=Shard(0))


def _from_other_package(graph: TopologyGraph) -> int | None:
    if graph.spec.sip.count < 2:
        return None
    args = {"X": np.zeros(1024, np.float32), "Y": np.zeros(1024, np.float32)}
    return _time_ps(graph, _kernel(REMOTE, (("B", 1024),)), args, HERE, X=On(1, 0, 0))


def _messages(graph: TopologyGraph) -> int | None:
    if len(graph.pe_tags()) < 2:
        return None
    both = CopiesOn(graph.pe_tags()[:2])
    args = {"X": np.zeros(16384, np.float32), "Y": np.zeros(16384, np.float32)}
    return _time_ps(graph, _kernel(MESSAGES, (("B", 16384),)), args, both)


def _launch(graph: TopologyGraph) -> int:
    return _time_ps(graph, _kernel(IDLE, ()), {"X": np.zeros(len(graph.pe_tags()), np.float32)}, Shard(0))
