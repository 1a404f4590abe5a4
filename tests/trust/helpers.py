"""What the trust suite shares: devices with a few figures changed, and GEMMs as single composites."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from kernbench.commands import CompositeTemplate, Node
from kernbench.dtypes import DType, fp16, fp32
from kernbench.sim.op_log import OpRecord
from kernbench.sim.topology import load_topology, load_topology_text
from kernbench.sim.topology_graph import TopologyGraph
from kernbench.sim.topology_schema import PeGemmSpec, TileSpec
from tests.sim.pe_helpers import Bench, gemm_op, program, tcm

DEFAULT = load_topology("ahbm_1x1")


def gemm_spec(**changes: Any) -> PeGemmSpec:
    """The default matrix engine with changes; `tile` as (m, k, n)."""
    tile = changes.pop("tile", None)
    if tile is not None:
        changes["tile"] = TileSpec(m=tile[0], k=tile[1], n=tile[2])
    return replace(DEFAULT.spec.pe.pe_gemm, **changes)


def gemm_in_tcm(m: int, k: int, n: int, dtype: DType = fp16, out: DType = fp32, **fields: Any) -> CompositeTemplate:
    """A product whose operands lie in TCM; where they lie does not matter to time."""
    handles = tcm(0, (m, k), dtype), tcm(1, (k, n), dtype), tcm(2, (m, n), out)
    placed = [replace(handle, address=0, strides=(0, 0)) for handle in handles]
    return CompositeTemplate(0, (gemm_op(*placed, **fields),))


def run_bodies(body: list[Node], **pe: Any) -> list[OpRecord]:
    """Records of a body without tensors on one PE, in timing mode."""
    bench = Bench("timing", **pe)
    result = bench.run(program(body, 0), [])
    assert result.ok, result.message
    return bench.records()


def one_pe(**changes: Any) -> TopologyGraph:
    return load_topology_text(one_pe_text(**changes))


def one_pe_text(**changes: Any) -> str:
    """ahbm_1x1 with figures changed: hbm_gbs, links_gbs, tcm_bytes, tcm_rate, macs, tile, pes, overheads."""
    links = Decimal(changes.get("links_gbs", 256))
    tile = changes.get("tile", (64, 64, 64))
    macs = changes.get("macs", 2048)
    text = f"""
extends: ahbm_1x1
io_chiplets:
  - pcie_ep: {{overhead_ns: 50, bw_gbs: 63.0}}
    io_cpu: {{overhead_ns: 10}}
    io_noc: {{impl: forwarding_v1, overhead_ns: 0}}
    io_ucie: {{overhead_ns: 8, connections: 4, per_connection_bw_gbs: {links}}}
    memory_route: direct
    cube_ports: [{{cube: {{xy: [0, 0]}}, cube_side: N, phy: P0, distance_mm: 2.0}}]
cube:
  pes: {changes.get("pes", 1)}
  router_mesh: {{bw_gbs: {links}}}
  ucie: {{per_connection_bw_gbs: {links}}}
  hbm: {{bw_gbs: {changes.get("hbm_gbs", "135.9")}}}
pe:
  pe_gemm:
    tile: {{m: {tile[0]}, k: {tile[1]}, n: {tile[2]}}}
    macs_per_cycle: {{fp16: {macs}, fp32: {macs}}}
  tcm: {{capacity_bytes: {changes.get("tcm_bytes", 1572864)}, bytes_per_cycle: {changes.get("tcm_rate", 256)}}}
"""
    return text.lstrip()
