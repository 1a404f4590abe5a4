"""Errors of what a topology says: places, counts, links and quantities that do not fit one another."""

from __future__ import annotations

from kernbench.explain.model import CommandLine, Explanation, Topology

_GOOD = "extends: ahbm_1x1\nname: mine\n"
_RIGHT = Topology(_GOOD)
_CHIPLET = """
    extends: ahbm_1x1
    name: mine
    io_chiplets:
      - pcie_ep: {overhead_ns: 50, bw_gbs: 63.0}
        io_cpu: {overhead_ns: 10}
        io_noc: {impl: forwarding_v1, overhead_ns: 0}
        io_ucie: {overhead_ns: 8, connections: 4, per_connection_bw_gbs: 256}
        cube_ports:
          - {cube: {xy: [0, 0]}, cube_side: N, phy: P0, distance_mm: 2.0}
"""

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        code="E_TOPO_NOT_FOUND",
        story="""
            A topology is named by the name of a shipped one (`kernbench list topologies`) or by the path of a file.
        """,
        wrong=CommandLine("kernbench topo check ahbm_4x5"),
        says="there is no topology `ahbm_4x5`",
        right=CommandLine("kernbench topo check ahbm_1x1"),
    ),
    Explanation(
        code="E_TOPO_SCHEMA",
        story="""
            A topology file says that it is one, by `schema: kernbench.topology/1` or by `extends:`. Without that, a
            bench file or any other YAML would be told a hundred missing keys.
        """,
        wrong=Topology("name: mine\ncube: {pes: 1}\n"),
        says="the file does not say that it is a topology",
        right=_RIGHT,
    ),
    Explanation(
        code="E_TOPO_EXTENDS",
        story="""
            `extends` names a shipped topology, or a file relative to this one, whose keys this one puts its own over.
            It cannot be found, or the chain of files comes back to where it began.
        """,
        wrong=Topology("extends: ahbm_1x2\nname: mine\n"),
        says="there is no topology `ahbm_1x2` to extend",
        right=_RIGHT,
    ),
    Explanation(
        code="E_TOPO_COUNTS",
        story="""
            Two places of the file disagree on a number of things: `pe_routers` names a router a PE, a cube has two
            coordinates, a PHY and a side of a cube are wired once.
        """,
        wrong=Topology(f"{_GOOD}cube: {{pes: 4, pe_routers: [r0c0, r0c1, r2c0]}}\n"),
        says="`pe_routers` lists 3 routers for 4 PEs",
        right=Topology(f"{_GOOD}cube: {{pes: 4, pe_routers: [r0c0, r0c1, r2c0, r2c1]}}\n"),
    ),
    Explanation(
        code="E_TOPO_PLACE",
        story="""
            A router, cube or side is named that the mesh does not have, or that is taken: routers are `r{row}c{column}`
            within `router_mesh`, and a PHY is wired to a side at which no other cube lies.
        """,
        wrong=Topology(f"{_GOOD}cube: {{m_cpu: {{router: r3c0}}}}\n"),
        says="there is no router `r3c0` in a mesh of 4 x 3 routers",
        right=Topology(f"{_GOOD}cube: {{m_cpu: {{router: r2c0}}}}\n"),
    ),
    Explanation(
        code="E_TOPO_OVERRIDE",
        story="""
            `overrides` changes single nodes and links by their ids, after everything else: `sip0.cube0.hbm_ctrl.pe0`,
            or `"A -> B"` for a link. There is none of this id. `kernbench topo show` and a run's log print ids.
        """,
        wrong=Topology(f"{_GOOD}overrides:\n  sip0.cube0.hbm_ctrl.pe1: {{overhead_ns: 3000}}\n"),
        says="there is no node `sip0.cube0.hbm_ctrl.pe1` to override",
        right=Topology(f"{_GOOD}overrides:\n  sip0.cube0.hbm_ctrl.pe0: {{overhead_ns: 3000}}\n"),
    ),
    Explanation(
        code="E_TOPO_LINK_ENDS",
        story="""
            A link has one bandwidth, so its two ends agree on it: the UCIe PHYs of a chiplet carry as much a
            connection as the cubes that they are wired to, and both directions of an HBM slice are one pool.
        """,
        wrong=Topology(_CHIPLET.replace("per_connection_bw_gbs: 256", "per_connection_bw_gbs: 128")),
        says="the UCIe links of the chiplet carry 128 GB/s a connection at one end and 256 at the other",
        right=Topology(_CHIPLET),
    ),
    Explanation(
        code="E_TOPO_GEOMETRY",
        story="""
            The wires of a cube fit between the centres of two neighbouring cubes: the routers' distances and the wire
            of the UCIe link take no more than `sip.cube_pitch_mm`.
        """,
        wrong=Topology(f"{_GOOD}sip: {{cube_pitch_mm: 5}}\n"),
        says="columns of routers and the wire between cubes need 3.50 mm more than `cube_pitch_mm`",
        right=Topology(f"{_GOOD}sip: {{cube_pitch_mm: 12}}\n"),
    ),
    Explanation(
        code="E_TOPO_PRECISION",
        story="""
            Bandwidths are counted in whole bytes a second, so that no time depends on how a machine rounds. A figure
            with more than nine decimals of GB/s would have to be rounded.
        """,
        wrong=Topology(f"{_GOOD}cube: {{hbm: {{bw_gbs: 135.1234567891}}}}\n"),
        says="135.1234567891 GB/s is no whole number of bytes a second",
        right=Topology(f"{_GOOD}cube: {{hbm: {{bw_gbs: 135.123456789}}}}\n"),
    ),
    Explanation(
        code="E_TOPO_DATAFLOW",
        story="""
            `pe_gemm.dataflow` is `ideal`, which knows nothing but a rate, or a systolic array (`ws`, `os`, `is`),
            whose time follows from its `rows` and `cols`.
        """,
        wrong=Topology(f"{_GOOD}pe: {{pe_gemm: {{dataflow: ws}}}}\n"),
        says="dataflow `ws` needs `rows` and `cols` of the array",
        right=Topology(f"{_GOOD}pe: {{pe_gemm: {{dataflow: ws, rows: 32, cols: 64}}}}\n"),
    ),
    Explanation(
        code="E_TOPO_SIZE",
        story="""
            The number of nodes is bounded, so that a slip of the pen (4096 cubes of 256 PEs) is told at once and does
            not fill memory first.
        """,
        wrong=Topology("extends: ahbm_4x4\nname: mine\nsip: {count: 16, cube_mesh: {w: 16, h: 16}}\n"),
        says="364544 nodes, at most 200000 are simulated",
        right=Topology("extends: ahbm_4x4\nname: mine\nsip: {cube_mesh: {w: 4, h: 4}}\n"),
    ),
    Explanation(
        code="E_ROUTE_MISSING",
        story="""
            Overrides have taken links away (`"A -> B": null`) until two nodes that have to reach each other cannot.
            A path passes routers, UCIe ends, `io_noc` and `fabric` only; CPUs and controllers do not forward.
        """,
        wrong=Topology(f'{_GOOD}overrides:\n  "sip0.cube0.noc.r0c0 -> sip0.cube0.pe0.pe_dma": null\n'),
        says="no path from `sip0.cube0.m_cpu` to `sip0.cube0.pe0.pe_dma`: "
        "sip0.cube0.pe0.pe_dma has no link from a router",
        right=_RIGHT,
    ),
)
