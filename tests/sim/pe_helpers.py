"""What tests of a PE share: a device without a host, programs by hand, and launches straight at a PE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernbench.address_map import encode_pa, window_base
from kernbench.commands import (
    Access,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Int,
    Node,
    OpSpec,
    Param,
    Program,
    Scope,
    TensorHandle,
    affine,
    contiguous_strides,
)
from kernbench.diagnostics import Span
from kernbench.dtypes import DType, fp32, i64
from kernbench.numerics import quiet
from kernbench.sim.clock import Clock
from kernbench.sim.launch_context import LaunchContext, Mode, PeResult
from kernbench.sim.memory import MemoryMap, MemorySlice
from kernbench.sim.network import Network
from kernbench.sim.op_log import OpLog, OpRecord
from kernbench.sim.pe import Pe
from kernbench.sim.pe_services import PeServices
from kernbench.sim.routing import PathRouter
from kernbench.sim.sanitizer import Sanitizer
from kernbench.sim.topology import load_topology
from kernbench.sim.windows import Shard, Window, Windows, run_geometry

Tag = tuple[int, int, int]
HERE = (0, 0, 0)


def span(line: int) -> Span:
    return Span("k.tl", line, 1, line, 2)


def tcm(
    address: Int, shape: tuple[int, ...], dtype: DType = fp32, name: str = "t", strides: Any = None
) -> TensorHandle:
    steps = contiguous_strides(shape) if strides is None else strides
    number = 1 + (address if isinstance(address, int) else address.const)
    return TensorHandle(number, name, address, shape, steps, dtype, "tcm")


def hbm(base: Int, shape: tuple[int, ...], dtype: DType = fp32, name: str = "r", strides: Any = None) -> TensorHandle:
    steps = contiguous_strides(shape) if strides is None else strides
    return TensorHandle(0, name, base, shape, steps, dtype, "hbm")


def pointer(register: int, offset: Int = 0) -> Int:
    """The pointer in a register and a byte offset, which may use registers too."""
    const, terms = (offset, {}) if isinstance(offset, int) else (offset.const, dict(offset.terms))
    return affine(const, {**terms, register: 1})


def box(base: Int, shape: tuple[int, ...], dtype: DType = fp32, strides: Any = None, **fields: Any) -> Access:
    steps = contiguous_strides(shape) if strides is None else strides
    return Access(base, dtype, shape, steps, **fields)


def read(number: int, dst: TensorHandle, access: Access, line: int = 1, **fields: Any) -> DmaRead:
    return DmaRead(number, dst, access, span=span(line), **fields)


def write(number: int, src: TensorHandle, access: Access, line: int = 1) -> DmaWrite:
    return DmaWrite(number, src, access, span=span(line))


def math_op(kind: str, out: TensorHandle | None, scope: Scope = Scope.KERNEL, /, **operands: Any) -> OpSpec:
    handles = {name: value for name, value in operands.items() if isinstance(value, TensorHandle)}
    extra = {name: value for name, value in operands.items() if name not in handles}
    return OpSpec(kind, scope, handles, extra, out)


def gemm_op(a: TensorHandle, b: TensorHandle, out: TensorHandle, **extra: Any) -> OpSpec:
    (m, k), n = a.shape, b.shape[1]
    return OpSpec("gemm", Scope.KERNEL, {"a": a, "b": b}, {"m": m, "k": k, "n": n, **extra}, out)


def composite(number: int, *ops: OpSpec, line: int = 1, **fields: Any) -> CompositeTemplate:
    return CompositeTemplate(number, ops, span=span(line), **fields)


def program(body: Sequence[Node], tensors: int = 1, registers: Sequence[DType] = (), **fields: Any) -> Program:
    """Tensor `k` has its pointer in register `k`; further registers follow."""
    params = tuple(Param(f"p{k}", "tensor", fp32, k) for k in range(tensors))
    dtypes = (*(i64 for _ in params), *registers)
    names = tuple(f"r{k}" for k in range(len(dtypes)))
    return Program("k", params, (), dtypes, names, (), tuple(body), **fields)


class Bench:
    """A device in one mode; tensors lie one after the other in the slice of PE (0, 0, 0), or where they are put."""

    def __init__(self, mode: Mode = "data", topology: str = "ahbm_1x1", sanitize: Any = "off", **pe: Any) -> None:
        graph = load_topology(topology)
        clock = Clock()
        slices = {
            (n.sip, n.cube, n.pe): MemorySlice(n.id, n.spec.capacity_bytes)
            for n in graph.by_index
            if n.kind == "hbm_ctrl"
        }
        self.services = PeServices(
            clock=clock, network=Network(clock, graph), router=PathRouter(graph), memory=MemoryMap(slices),
            log=OpLog([node.id for node in graph.by_index]), spec=replace(graph.spec.pe, **pe),
            node_index={node.id: node.index for node in graph.by_index}, mode=mode,
            sanitizer=Sanitizer(sanitize if mode == "data" else "off"),
        )  # fmt: skip
        self.clock = clock
        self.pes = {tag: Pe(self.services, *tag) for tag in slices}
        self.next_free: dict[Tag, int] = {}
        self.request = self.services.log.intern("1")

    def put(self, array: np.ndarray, tags: Sequence[Tag] = (HERE,)) -> tuple[Window, list[tuple[Tag, int, int]]]:
        """A tensor cut into equal runs, one a slice."""
        data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        shards, places = [], []
        size = -(-len(data) // len(tags))
        for index, tag in enumerate(tags):
            part = data[index * size : (index + 1) * size]
            at = self.next_free.get(tag, 4096)
            self.next_free[tag] = -(-(at + len(part)) // 1024) * 1024
            self.services.memory.slice(*tag).write(at, part)
            shards.append(Shard(index * size, len(part), *tag, encode_pa(tag[1], tag[2], "hbm", at)))
            places.append((tag, at, len(part)))
        return Window(f"p{len(self.next_free)}", run_geometry(len(data)), shards), places

    def get(self, places: list[tuple[Tag, int, int]], like: np.ndarray) -> np.ndarray:
        parts = [self.services.memory.slice(*tag).read(at, size) for tag, at, size in places]
        return np.concatenate(parts).view(like.dtype).reshape(like.shape)

    def context(self, kernel: Program, windows: Windows, **fields: Any) -> LaunchContext:
        made: dict[str, Any] = {
            "program": kernel, "digest": str(id(kernel)), "windows": windows,
            "arguments": tuple(window_base(k) for k in range(len(windows))), "num_programs": (1, 1, 1),
            "program_ids": (0,), "request": self.request, "correlation_id": "c", "request_id": "1",
            "identity": {"pe_id": 0, "cube_id": 0, "sip_id": 0, "pe_index": 0, "num_pes": 1, "num_cubes": 1,
                         "num_sips": 1, "pes_per_cube": 1},
        }  # fmt: skip
        return LaunchContext(**{**made, **fields})

    def run(self, kernel: Program, windows: Sequence[Window] = (), tag: Tag = HERE, **fields: Any) -> PeResult:
        results: list[PeResult] = []
        self.pes[tag].launch(self.context(kernel, Windows(windows), **fields), None, results.append)
        with quiet():
            self.clock.run(until_ps=10**12)
        assert len(results) == 1, f"{len(results)} results; {self.services.waits.report()}"
        assert self.pes[tag].idle
        self.services.network.check_idle()
        return results[0]

    def records(self, kind: str | None = None) -> list[OpRecord]:
        return [record for record in self.services.log.table() if kind is None or record.op_kind == kind]


def run_values(
    body: Sequence[Node], arrays: Sequence[np.ndarray], registers: Sequence[DType] = (), mode: Mode = "data",
    topology: str = "ahbm_1x1", tags: Mapping[int, Sequence[Tag]] | None = None, **fields: Any,
) -> tuple[list[np.ndarray], Bench, PeResult]:  # fmt: skip
    """Run a body on tensors; what they hold afterwards, the bench, and how it ended."""
    bench = Bench(mode, topology)
    put = [bench.put(array, (tags or {}).get(k, (HERE,))) for k, array in enumerate(arrays)]
    result = bench.run(program(body, len(arrays), registers, **fields), [window for window, _ in put])
    return [bench.get(places, array) for (_, places), array in zip(put, arrays, strict=True)], bench, result


def log_text(bench: Bench) -> list[tuple[Any, ...]]:
    """The log without what two devices may differ in."""
    return [tuple(record) for record in bench.records()]
