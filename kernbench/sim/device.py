"""Build a device from its topology: one object a component, joined by what each may reach.

Knows which component stands at which node. Does not know what any of them does, nor host messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from kernbench.dtypes import u8
from kernbench.messages import Tag
from kernbench.sim.clock import Clock
from kernbench.sim.component import Component, Courier
from kernbench.sim.deadlock import WaitRegistry
from kernbench.sim.io_cpu import IoCpu, IoCpuPorts, PeNode
from kernbench.sim.launch_context import Mode, Sanitize
from kernbench.sim.launch_plan import DeviceLimits
from kernbench.sim.m_cpu import MCpu, PeEnd
from kernbench.sim.memory import MemoryMap, MemorySlice
from kernbench.sim.network import Network
from kernbench.sim.op_log import OpLog
from kernbench.sim.pe import Pe
from kernbench.sim.pe_pool import PePool
from kernbench.sim.pe_services import PeServices
from kernbench.sim.program_store import ProgramStore
from kernbench.sim.routing import AddressResolver, PathRouter
from kernbench.sim.sanitizer import Sanitizer
from kernbench.sim.topology_graph import GraphNode, TopologyGraph
from kernbench.sim.topology_schema import PeSpec

MakePe = Callable[[PeServices, int, int, int], Pe]
_PE_PARTS = tuple(part for part in fields(PeSpec) if part.name != "clock_ghz")


class Device:
    """Everything behind `pcie_ep`, standing still until the clock runs."""

    def __init__(self, graph: TopologyGraph, mode: Mode, sanitize: Sanitize, make_pe: MakePe = Pe) -> None:
        self.graph = graph
        self.mode = mode
        self.clock = Clock()
        self.router = PathRouter(graph)
        self.network = Network(self.clock, graph)
        self.resolver = AddressResolver(graph)
        self.log = OpLog([node.id for node in graph.by_index])
        self.memory = MemoryMap({_tag(node): _slice(node) for node in graph.by_index if node.kind == "hbm_ctrl"})
        self.sanitizer = Sanitizer(sanitize if mode == "data" else "off")
        self.waits = WaitRegistry()
        self.courier = Courier(self.clock, self.network, self.router)
        self.pool = PePool(self.clock)
        self.programs = ProgramStore(self.memory, self.resolver)
        self.pes = self._make_pes(make_pe)
        self.m_cpus = self._make_m_cpus()
        self.io_cpus = self._make_io_cpus()

    # ----------------------------------------------------------------- components

    def _base(self, node: str) -> Component:
        at = self.graph.nodes[node]
        return Component(node, at.index, at.overhead_ps, self.clock, self.log)

    def _make_pes(self, make_pe: MakePe) -> dict[Tag, Pe]:
        shared = PeServices(
            clock=self.clock,
            network=self.network,
            router=self.router,
            memory=self.memory,
            log=self.log,
            spec=self.graph.spec.pe,
            node_index={node.id: node.index for node in self.graph.by_index},
            mode=self.mode,
            sanitizer=self.sanitizer,
            waits=self.waits,
        )
        return {tag: make_pe(self._services_of(tag, shared), *tag) for tag in self.graph.pe_tags()}

    def _services_of(self, tag: Tag, shared: PeServices) -> PeServices:
        """The services of one PE: its own parameters where overrides gave it some."""
        parts = {part.name: self.graph.nodes[_pe_node(tag, part.name)].spec for part in _PE_PARTS}
        if all(spec is getattr(shared.spec, name) for name, spec in parts.items()):
            return shared
        return replace(shared, spec=replace(shared.spec, **parts), codes={})

    def _make_m_cpus(self) -> dict[tuple[int, int], MCpu]:
        ends: dict[tuple[int, int], dict[Tag, PeEnd]] = {}
        for tag, pe in self.pes.items():
            node = _pe_node(tag, "pe_cpu")
            ends.setdefault(tag[:2], {})[tag] = PeEnd(tag, pe, node, self.graph.nodes[node].index)
        return {
            cube: MCpu(self._base(f"sip{cube[0]}.cube{cube[1]}.m_cpu"), cube, self.courier, of_cube)
            for cube, of_cube in ends.items()
        }

    def _make_io_cpus(self) -> dict[str, IoCpu]:
        spec = self.graph.spec
        pe_nodes = {tag: self._pe_node(tag) for tag in self.pes}
        limits = DeviceLimits(spec.sip.count, self.graph.cubes_per_sip, spec.cube.pes)
        ports = IoCpuPorts(self.courier, self.m_cpus, pe_nodes, self.pool, self.programs, self.resolver, limits)
        names = [node.id for node in self.graph.by_index if node.kind == "io_cpu"]
        return {name: IoCpu(self._base(name), ports) for name in names}

    def _pe_node(self, tag: Tag) -> PeNode:
        at = self.graph.nodes[_pe_node(tag, "pe_cpu")]
        return PeNode(at.id, at.index, at.overhead_ps, set())

    # ----------------------------------------------------------------- scratchpads, as the host reaches them

    def read_tcm(self, tag: Tag, offset: int, nbytes: int) -> NDArray[np.uint8]:
        return self.pes[tag].tcm.view(offset, u8, (nbytes,), (1,)).copy()

    def write_tcm(self, tag: Tag, offset: int, data: NDArray[np.uint8]) -> None:
        tcm = self.pes[tag].tcm
        tcm.view(offset, u8, (len(data),), (1,))[...] = data
        tcm.learn(offset, offset + len(data))

    # ----------------------------------------------------------------- at rest

    def check_at_rest(self) -> None:
        """What must hold when nothing is left to happen; a breach is a bug of the simulator."""
        assert self.pool.idle, "a PE is still taken"
        assert all(m_cpu.idle for m_cpu in self.m_cpus.values()), "an M_CPU still gathers"
        assert all(not io_cpu.stuck for io_cpu in self.io_cpus.values()), "an IO_CPU still holds a launch"
        assert all(pe.idle for pe in self.pes.values()), "a PE still runs"
        assert len(self.waits) == 0, f"somebody still waits: {self.waits.report()}"
        self.network.check_idle()


def _tag(node: GraphNode) -> Tag:
    return node.sip, node.cube, node.pe


def _slice(node: GraphNode) -> MemorySlice:
    return MemorySlice(node.id, node.spec.capacity_bytes)


def _pe_node(tag: Tag, part: str) -> str:
    return f"sip{tag[0]}.cube{tag[1]}.pe{tag[2]}.{part}"
