"""Load a topology: a shipped name or a YAML file, what it extends, its overrides, checked, as a graph.

    graph = load_topology("ahbm_4x4")        # raises KernBenchError with every fault of the file
    faults = check_topology("mine.yaml")     # the same faults as a list

Does not know what the device does; it knows files, keys and whether the numbers fit one another.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

from kernbench.data_files import data_dir
from kernbench.diagnostics import EXIT_INPUT, EXIT_USAGE, Diagnostic, KernBenchError, Sink, did_you_mean
from kernbench.micro_ops import CostClass
from kernbench.sim.path_check import check_paths
from kernbench.sim.topology_build import STEP, Builder, edge_distance_mm
from kernbench.sim.topology_graph import TopologyGraph
from kernbench.sim.topology_schema import SCHEMA, TopologySpec
from kernbench.yaml_schema import read_fields, to_plain
from kernbench.yaml_source import Node, merge, parse_yaml, parse_yaml_file

MAX_EXTENDS = 8
MAX_NODES = 200_000
MAX_BYTES_PER_S = 10**15
GEMM_DTYPES = ("fp64", "fp32", "fp16", "bf16", "fp8", "int32", "int16", "int8", "int4")
COST_CLASSES: tuple[str, ...] = get_args(CostClass)
_PHY_NAME = re.compile(r"[A-Za-z0-9_]{1,32}\Z")


def load_topology(source: str | Path) -> TopologyGraph:
    """The graph of a shipped name or of a file; `KernBenchError` with everything that is wrong with it."""
    sink = Sink()
    path, shown_as = _find(source)
    graph = _load(_tree_of_file(path, shown_as, sink, ()), sink)
    if sink.errors or graph is None:
        raise KernBenchError(sink.diagnostics, EXIT_INPUT)
    return graph


def load_topology_text(text: str, shown_as: str = "<text>") -> TopologyGraph:
    """`load_topology` of a text; `extends` in it may name a shipped topology or a path from here."""
    sink = Sink()
    graph = _load(_tree_of_text(text, shown_as, sink), sink)
    if sink.errors or graph is None:
        raise KernBenchError(sink.diagnostics, EXIT_INPUT)
    return graph


def check_topology(source: str | Path, text: str | None = None) -> list[Diagnostic]:
    """Everything that is wrong with a topology; with `text`, `source` is only the name to show."""
    sink = Sink()
    if text is not None:
        _load(_tree_of_text(text, str(source), sink), sink)
        return sink.diagnostics
    try:
        path, shown_as = _find(source)
    except KernBenchError as error:
        return list(error.diagnostics)
    _load(_tree_of_file(path, shown_as, sink, ()), sink)
    return sink.diagnostics


def shipped_topologies() -> tuple[str, ...]:
    """The names of the topologies that come with the package, sorted."""
    return tuple(sorted(path.stem for path in data_dir("topologies").glob("*.yaml")))


# From a name to one tree


def _find(source: str | Path, base: Path | None = None) -> tuple[Path, str]:
    """The file of a name or path, and how to show it. A path of `extends` counts from the file that says it."""
    name = str(source)
    if name in shipped_topologies():
        return data_dir("topologies") / f"{name}.yaml", f"{name}.yaml"
    path = Path(name).expanduser()
    if base is not None and not path.is_absolute():
        path = base / path
    if path.is_file():
        return path, name
    help = did_you_mean(name, shipped_topologies(), "shipped topologies")
    raise KernBenchError([Diagnostic("E_TOPO_NOT_FOUND", f"there is no topology `{name}`", help=help)], EXIT_USAGE)


def _tree_of_file(path: Path, shown_as: str, sink: Sink, seen: tuple[Path, ...]) -> Node | None:
    node = parse_yaml_file(path, shown_as, sink)
    return _extended(node, path.parent, sink, (*seen, path.resolve()))


def _tree_of_text(text: str, shown_as: str, sink: Sink) -> Node | None:
    return _extended(parse_yaml(text, shown_as, sink), Path(), sink, ())


def _extended(node: Node | None, folder: Path, sink: Sink, seen: tuple[Path, ...]) -> Node | None:
    """The tree with what it extends put under it."""
    if node is None:
        return None
    if not isinstance(node.value, dict):
        sink.add(node.error("E_YAML_TYPE", "a topology is a mapping", f"found {node.kind}"))
        return None
    extends = node.get("extends")
    if extends is None:
        if node.get("schema") is None:
            help = f"start the file with `schema: {SCHEMA}` or `extends: ahbm_4x4`"
            sink.add(
                Diagnostic("E_TOPO_SCHEMA", "the file does not say that it is a topology", node.label(), help=help)
            )
            return None
        return node
    base = _base(extends, folder, sink, seen)
    return None if base is None else merge(base, _without(node, "extends"))


def _base(extends: Node, folder: Path, sink: Sink, seen: tuple[Path, ...]) -> Node | None:
    if not isinstance(extends.value, str):
        sink.add(extends.error("E_TOPO_EXTENDS", "`extends` is a name or a path", f"found {extends.kind}"))
        return None
    try:
        path, shown_as = _find(extends.value, folder)
    except KernBenchError as error:
        help = error.diagnostics[0].help
        sink.add(extends.error("E_TOPO_EXTENDS", f"there is no topology `{extends.value}` to extend", help=help))
        return None
    if path.resolve() in seen or len(seen) > MAX_EXTENDS:
        sink.add(extends.error("E_TOPO_EXTENDS", f"`extends` comes back to `{extends.value}`, or goes too deep"))
        return None
    return _tree_of_file(path, shown_as, sink, seen)


def _without(node: Node, *keys: str) -> Node:
    assert isinstance(node.value, dict)
    rest = {name: child for name, child in node.value.items() if name not in keys}
    return dataclasses.replace(node, value=rest)


# From the tree to the graph


def _load(tree: Node | None, sink: Sink) -> TopologyGraph | None:
    if tree is None:
        return None
    overrides = _overrides(tree, sink)
    spec = read_fields(_without(tree, "overrides"), TopologySpec, sink)
    if spec is None:
        return None
    for check in CHECKS:
        for diagnostic in check(spec, tree):
            sink.add(diagnostic)
    if sink.errors:
        return None
    builder = Builder(spec, overrides, sink)
    builder.build()
    if sink.errors:
        return None
    plain = {name: node.plain() for name, node in overrides.items()}
    config = {**to_plain(spec), "overrides": plain} if plain else to_plain(spec)
    graph = TopologyGraph(spec, builder.nodes, builder.edges, tuple(builder.pools), plain, _json_able(config))
    if None in plain.values():
        for diagnostic in check_paths(graph):
            sink.add(diagnostic)
    return graph


def _overrides(tree: Node, sink: Sink) -> dict[str, Node]:
    node = tree.get("overrides")
    if node is None:
        return {}
    if not isinstance(node.value, dict):
        sink.add(node.error("E_YAML_TYPE", "`overrides` is a mapping of ids", f"found {node.kind}"))
        return {}
    return node.value


def _json_able(value: Any) -> Any:
    """Plain values with `Decimal` as the number that JSON shows; 15 digits survive that unchanged."""
    if isinstance(value, dict):
        return {name: _json_able(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_json_able(item) for item in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


# What the schema cannot say: whether numbers and names fit one another


def _at(tree: Node, *path: str | int) -> Node:
    """The node at a path, or the nearest one above it that the file has."""
    for step in path:
        found = tree.elements()[step] if isinstance(step, int) else tree.get(step)
        if found is None:
            return tree
        tree = found
    return tree


def _check_size(spec: TopologySpec, tree: Node) -> Iterator[Diagnostic]:
    mesh, cube = spec.sip.cube_mesh, spec.cube
    per_cube = cube.router_mesh.w * cube.router_mesh.h + 1 + 4 * (1 + cube.ucie.connections) + 7 * cube.pes
    nodes = spec.sip.count * mesh.w * mesh.h * per_cube
    if nodes > MAX_NODES:
        yield _at(tree, "sip").error("E_TOPO_SIZE", f"{nodes} nodes, at most {MAX_NODES} are simulated")


def _check_ports(spec: TopologySpec, tree: Node) -> Iterator[Diagnostic]:
    used: Counter[tuple[int, int, str]] = Counter()
    for io, chiplet in enumerate(spec.io_chiplets):
        names = Counter(port.phy for port in chiplet.cube_ports)
        for index, port in enumerate(chiplet.cube_ports):
            node = _at(tree, "io_chiplets", io, "cube_ports", index)
            if len(port.cube.xy) != 2:
                yield node.error("E_TOPO_COUNTS", f"`xy` has {len(port.cube.xy)} numbers, a cube has 2")
                continue
            if not _PHY_NAME.match(port.phy):
                yield node.error("E_TOPO_PLACE", f"`{port.phy}` is no name for a PHY", help="use letters and digits")
            if names[port.phy] > 1:
                yield node.error("E_TOPO_COUNTS", f"PHY `{port.phy}` stands {names[port.phy]} times in one chiplet")
            x, y = port.cube.xy
            used[x, y, port.cube_side] += 1
            if used[x, y, port.cube_side] > 1:
                yield node.error("E_TOPO_COUNTS", f"side {port.cube_side} of cube ({x}, {y}) is wired twice")
            yield from _check_port_place(spec, node, x, y, port.cube_side)


def _check_port_place(spec: TopologySpec, node: Node, x: int, y: int, side: str) -> Iterator[Diagnostic]:
    mesh = spec.sip.cube_mesh

    def inside(column: int, row: int) -> bool:
        return 0 <= column < mesh.w and 0 <= row < mesh.h

    if not inside(x, y):
        help = "list one entry of `cube_ports` for each cube that has a PHY"
        yield node.error("E_TOPO_PLACE", f"there is no cube ({x}, {y}) in a mesh of {mesh.w} x {mesh.h}", help=help)
    elif inside(x + STEP[side][0], y + STEP[side][1]):
        message = f"side {side} of cube ({x}, {y}) meets another cube, so no PHY fits there"
        yield node.error("E_TOPO_PLACE", message)


def _check_link_ends(spec: TopologySpec, tree: Node) -> Iterator[Diagnostic]:
    """A UCIe link has one width, so both ends must say the same."""
    there = spec.cube.ucie.per_connection_bw_gbs
    for io, chiplet in enumerate(spec.io_chiplets):
        here = chiplet.io_ucie.per_connection_bw_gbs
        if here == there:
            continue
        node = _at(tree, "io_chiplets", io, "io_ucie", "per_connection_bw_gbs")
        other = _at(tree, "cube", "ucie", "per_connection_bw_gbs")
        yield Diagnostic(
            "E_TOPO_LINK_ENDS",
            f"the UCIe links of the chiplet carry {here} GB/s a connection at one end and {there} at the other",
            node.label("the chiplet's end"),
            (other.label("the cube's end"),),
            help="give both ends the same `per_connection_bw_gbs`",
            path=node.path,
        )


def _check_routers(spec: TopologySpec, tree: Node) -> Iterator[Diagnostic]:
    cube, mesh = spec.cube, spec.cube.router_mesh
    known = [f"r{y}c{x}" for y in range(mesh.h) for x in range(mesh.w)]
    size = f"a mesh of {mesh.w} x {mesh.h} routers"
    if cube.m_cpu.router not in known:
        node = _at(tree, "cube", "m_cpu", "router")
        help = did_you_mean(cube.m_cpu.router, known, "routers")
        yield node.error("E_TOPO_PLACE", f"there is no router `{cube.m_cpu.router}` in {size}", help=help)
    if cube.pe_routers is None:
        return
    node = _at(tree, "cube", "pe_routers")
    if len(cube.pe_routers) != cube.pes:
        yield node.error("E_TOPO_COUNTS", f"`pe_routers` lists {len(cube.pe_routers)} routers for {cube.pes} PEs")
    for name in dict.fromkeys(cube.pe_routers):
        if name not in known:
            help = did_you_mean(name, known, "routers")
            yield node.error("E_TOPO_PLACE", f"there is no router `{name}` in {size}", help=help)


def _check_geometry(spec: TopologySpec, tree: Node) -> Iterator[Diagnostic]:
    for side, across in (("E", "columns"), ("S", "rows")):
        left = edge_distance_mm(spec, side)
        if left < 0:
            message = f"{across} of routers and the wire between cubes need {-2 * left} mm more than `cube_pitch_mm`"
            yield _at(tree, "sip", "cube_pitch_mm").error("E_TOPO_GEOMETRY", message)


def _check_engines(spec: TopologySpec, tree: Node) -> Iterator[Diagnostic]:
    gemm = spec.pe.pe_gemm
    if gemm.dataflow != "ideal" and (gemm.rows is None or gemm.cols is None):
        node = _at(tree, "pe", "pe_gemm", "dataflow")
        yield node.error("E_TOPO_DATAFLOW", f"dataflow `{gemm.dataflow}` needs `rows` and `cols` of the array")
    tables = (
        (("pe", "pe_gemm", "macs_per_cycle"), gemm.macs_per_cycle, GEMM_DTYPES, "dtypes"),
        (("pe", "pe_math", "cycles"), spec.pe.pe_math.cycles, COST_CLASSES, "cost classes"),
    )
    for path, table, known, what in tables:
        for name in table:
            if name not in known:
                node = _at(tree, *path, name)
                help = did_you_mean(name, known, what)
                yield Diagnostic(
                    "E_YAML_UNKNOWN_KEY", f"there is no key `{name}` here", node.key_label(), help=help, path=node.path
                )


def _check_precision(_: TopologySpec, tree: Node) -> Iterator[Diagnostic]:
    """Bandwidths are counted in whole bytes a second."""
    for name, node in _leaves(tree):
        if not name.endswith("_gbs") or not isinstance(node.value, int | Decimal):
            continue
        top, bottom = Decimal(node.value).as_integer_ratio()
        rate, rest = divmod(top * 10**9, bottom)
        if rest:
            yield node.error("E_TOPO_PRECISION", f"{node.value} GB/s is no whole number of bytes a second")
        elif rate > MAX_BYTES_PER_S:
            yield node.error("E_YAML_RANGE", f"{node.value} GB/s, the most is {MAX_BYTES_PER_S // 10**9}")


def _leaves(node: Node) -> Iterator[tuple[str, Node]]:
    """(key, value) of every plain value of a tree."""
    waiting = [("", node)]
    while waiting:
        name, here = waiting.pop()
        if isinstance(here.value, dict):
            waiting.extend(here.items())
        elif isinstance(here.value, tuple):
            waiting.extend((name, element) for element in here.value)
        else:
            yield name, here


CHECKS = (
    _check_precision,
    _check_size,
    _check_ports,
    _check_link_ends,
    _check_routers,
    _check_geometry,
    _check_engines,
)
