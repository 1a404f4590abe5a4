"""What a topology says, as frozen dataclasses: every key with its unit, its bounds and one line about it.

Units live in the key: `_ns`, `_mm`, `_gbs` (10^9 bytes a second), `_bytes`, `_ghz`. One class is one kind of node or
one section of the file. Does not know graphs: `topology_build` makes nodes and links of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from kernbench.yaml_schema import key

SCHEMA = "kernbench.topology/1"
ZERO = Decimal(0)

Side = Literal["N", "E", "S", "W"]
MemoryRoute = Literal["direct", "via_cpus"]
Issue = Literal["in_order", "rw_aware"]
Dataflow = Literal["ideal", "ws", "os", "is"]


@dataclass(frozen=True, kw_only=True)
class PlainSpec:
    """A node with nothing but its latency."""

    overhead_ns: Decimal = key("latency of passing this node", low=0, default=ZERO)


@dataclass(frozen=True, kw_only=True)
class MeshSpec:
    w: int = key("cubes in a row", low=1, high=64)
    h: int = key("rows of cubes", low=1, high=64)


@dataclass(frozen=True, kw_only=True)
class SipSpec:
    count: int = key("packages", low=1, high=16)
    cube_mesh: MeshSpec = key("cubes of one package")
    cube_pitch_mm: Decimal = key("distance of two neighbouring cubes, centre to centre", above=0)


@dataclass(frozen=True, kw_only=True)
class FabricSpec:
    """The switch that joins the PCIe end points of all packages."""

    overhead_ns: Decimal = key("latency of passing the switch", low=0)
    bw_gbs: Decimal = key("bandwidth of one port of the switch, a direction", above=0)


@dataclass(frozen=True, kw_only=True)
class PcieEpSpec:
    overhead_ns: Decimal = key("latency of the PCIe end point", low=0)
    bw_gbs: Decimal = key("bandwidth of the PCIe link to the host, a direction", above=0)


@dataclass(frozen=True, kw_only=True)
class IoNocSpec:
    impl: Literal["forwarding_v1"] = key("model of the chiplet's network")
    overhead_ns: Decimal = key("latency of passing it", low=0)
    bw_gbs: Decimal | None = key("bandwidth of its links to pcie_ep and io_cpu; null: no limit", above=0, default=None)


@dataclass(frozen=True, kw_only=True)
class IoUcieSpec:
    overhead_ns: Decimal = key("latency of the UCIe protocol end point", low=0)
    connections: int = key("connections between io_noc and one PHY", low=1, high=64)
    per_connection_bw_gbs: Decimal = key("bandwidth of one connection, a direction", above=0)


@dataclass(frozen=True, kw_only=True)
class CubeAtSpec:
    xy: tuple[int, ...] = key("column and row of a cube", low=2)


@dataclass(frozen=True, kw_only=True)
class CubePortSpec:
    cube: CubeAtSpec = key("the cube that the PHY is wired to")
    cube_side: Side = key("the side of that cube")
    phy: str = key("name of the PHY")
    distance_mm: Decimal = key("length of the wire", low=0)


@dataclass(frozen=True, kw_only=True)
class IoChipletSpec:
    pcie_ep: PcieEpSpec = key("PCIe end point")
    io_cpu: PlainSpec = key("command processor")
    io_noc: IoNocSpec = key("network of the chiplet")
    io_ucie: IoUcieSpec = key("UCIe PHYs")
    memory_route: MemoryRoute = key("whether memory requests go around the CPUs or through them", default="direct")
    cube_ports: tuple[CubePortSpec, ...] = key("which PHY meets which cube", low=1)


@dataclass(frozen=True, kw_only=True)
class RouterMeshSpec:
    w: int = key("routers in a row of one cube", low=1, high=64)
    h: int = key("rows of routers", low=1, high=64)
    overhead_ns: Decimal = key("latency of one router", low=0)
    bw_gbs: Decimal = key("bandwidth of one link of the mesh, a direction", above=0)
    distance_mm: Decimal = key("distance of two routers", low=0)


@dataclass(frozen=True, kw_only=True)
class MCpuSpec:
    overhead_ns: Decimal = key("latency of the cube's management CPU", low=0)
    router: str = key("the router it hangs on")


@dataclass(frozen=True, kw_only=True)
class UcieSpec:
    overhead_ns: Decimal = key("latency of one UCIe end point", low=0)
    connections: int = key("connections between the mesh and one side", low=1, high=64)
    per_connection_bw_gbs: Decimal = key("bandwidth of one connection, a direction", above=0)
    distance_mm: Decimal = key("length of the wire between two cubes", low=0)


@dataclass(frozen=True, kw_only=True)
class HbmSpec:
    """The slice of the stack that belongs to one PE."""

    capacity_bytes: int = key("capacity of one slice", low=1, high=1 << 39)
    bw_gbs: Decimal = key("bandwidth of one slice, reads and writes together", above=0)
    overhead_ns: Decimal = key("latency of the controller and the device", low=0)


@dataclass(frozen=True, kw_only=True)
class CubeSpec:
    pes: int = key("processing elements of one cube", low=1, high=256)
    router_mesh: RouterMeshSpec = key("network of one cube")
    m_cpu: MCpuSpec = key("management CPU")
    ucie: UcieSpec = key("links between cubes")
    hbm: HbmSpec = key("memory")
    pe_routers: tuple[str, ...] | None = key("router of each PE; null: first row, then last row", default=None)


@dataclass(frozen=True, kw_only=True)
class DispatchSpec:
    fixed_ns: Decimal = key("time of every command from PE_CPU to PE_SCHEDULER", low=0)
    bytes_per_ns: Decimal = key("rate at which a command is handed over", above=0)


@dataclass(frozen=True, kw_only=True)
class PeCpuSpec:
    overhead_ns: Decimal = key("latency of PE_CPU", low=0)
    dispatch: DispatchSpec = key("cost of handing a command over")
    queue_depth: int = key("commands that PE_SCHEDULER's queue holds", low=1, high=1 << 16)


@dataclass(frozen=True, kw_only=True)
class PeSchedulerSpec:
    overhead_ns: Decimal = key("latency of PE_SCHEDULER", low=0, default=ZERO)
    issue: Issue = key("whether a blocked composite may be overtaken", default="in_order")


@dataclass(frozen=True, kw_only=True)
class PeDmaSpec:
    overhead_ns: Decimal = key("latency of PE_DMA", low=0)
    issue_ns: Decimal = key("time for which a transfer occupies its channel", low=0)
    outstanding: int = key("transfers of one channel under way at once", low=1, high=1 << 16)


@dataclass(frozen=True, kw_only=True)
class PeIpcqSpec:
    """The queues of blocks that come from other PEs, one a sender."""

    overhead_ns: Decimal = key("latency of PE_IPCQ", low=0, default=Decimal(2))
    issue_ns: Decimal = key("time for which a block that is sent occupies its port", low=0, default=Decimal(4))
    outstanding: int = key("blocks of one PE under way at once", low=1, high=1 << 16, default=8)
    depth: int = key("blocks that the queue of one sender holds", low=1, high=1 << 16, default=4)


@dataclass(frozen=True, kw_only=True)
class TileSpec:
    m: int = key("rows", low=1, high=1 << 16)
    k: int = key("depth", low=1, high=1 << 16)
    n: int = key("columns", low=1, high=1 << 16)


@dataclass(frozen=True, kw_only=True)
class PeGemmSpec:
    overhead_ns: Decimal = key("latency of PE_GEMM beyond its cycles", low=0, default=ZERO)
    dataflow: Dataflow = key("ideal, or a systolic array: weight, output or input stationary")
    rows: int | None = key("rows of the systolic array", low=1, high=1 << 16, default=None)
    cols: int | None = key("columns of the systolic array", low=1, high=1 << 16, default=None)
    tile: TileSpec = key("native tile")
    macs_per_cycle: dict[str, int] = key("multiply-accumulates a cycle by dtype", low=1, high=1 << 32)


@dataclass(frozen=True, kw_only=True)
class PeMathSpec:
    overhead_ns: Decimal = key("latency of PE_MATH beyond its cycles", low=0, default=ZERO)
    lanes: int = key("elements a cycle", low=1, high=1 << 20)
    startup_cycles: int = key("cycles before the first element", low=0, high=1 << 20)
    cycles: dict[str, int] = key("cycles an element by cost class, where it is not 1", low=1, high=1 << 20)


@dataclass(frozen=True, kw_only=True)
class TcmSpec:
    overhead_ns: Decimal = key("latency of the scratchpad", low=0, default=ZERO)
    capacity_bytes: int = key("capacity", low=1, high=1 << 39)
    bytes_per_cycle: int = key("rate of the engines' port", low=1, high=1 << 20)
    tile_buffers: int = key("slots of an operand's tile ring", low=1, high=1 << 10)


@dataclass(frozen=True, kw_only=True)
class PeSpec:
    clock_ghz: Decimal = key("clock of the PE", above=0)
    pe_cpu: PeCpuSpec = key("the processor that runs kernels")
    pe_scheduler: PeSchedulerSpec = key("the unit that feeds the engines")
    pe_dma: PeDmaSpec = key("the engine that moves data")
    pe_gemm: PeGemmSpec = key("the matrix engine")
    pe_math: PeMathSpec = key("the vector engine")
    tcm: TcmSpec = key("the scratchpad")
    pe_ipcq: PeIpcqSpec = key("the unit that sends blocks to other PEs and receives them", default=PeIpcqSpec())

    def cycles_to_ps(self, cycles: int) -> int:
        """The time of whole cycles, rounded up to a picosecond."""
        top, bottom = self.clock_ghz.as_integer_ratio()
        return -(-cycles * 1000 * bottom // top)


@dataclass(frozen=True, kw_only=True)
class TopologySpec:
    """A whole topology, after `extends` and before `overrides`."""

    schema: Literal["kernbench.topology/1"] = key("format of the file")
    name: str = key("name of the topology")
    ns_per_mm: Decimal = key("delay of a wire", low=0)
    host: PlainSpec = key("the host", default=PlainSpec())
    sip: SipSpec = key("packages")
    fabric: FabricSpec = key("what joins the packages")
    io_chiplets: tuple[IoChipletSpec, ...] = key("IO chiplets of one package", low=1)
    cube: CubeSpec = key("one cube: an HBM stack with its logic die")
    pe: PeSpec = key("one processing element")


def ns_to_ps(ns: Decimal) -> int:
    """Whole picoseconds, rounded up."""
    top, bottom = ns.as_integer_ratio()
    return -(-top * 1000 // bottom)
