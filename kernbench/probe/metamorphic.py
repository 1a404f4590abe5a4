"""Move every numeric key of a topology up and down and see which way time goes.

More bandwidth, less latency or more room must never make a lone flow or a lone PE slower; a move the wrong way is
flagged, under contention as a remark. Keys that change nothing at all are listed. Knows keys by their names and
units. Does not know what a workload does.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from kernbench.diagnostics import KernBenchError
from kernbench.probe.workloads import Workload, workloads_of
from kernbench.sim.topology import load_topology, load_topology_text
from kernbench.sim.topology_graph import TopologyGraph

Direction = Literal["up", "down"]
Better = Literal["more", "less", "unknown"]  # which way a key is raised to be faster
KeyPath = tuple[str, ...]  # "*" stands for every entry of a list

# What the end of a key says of it; the first match counts. Shapes and places have no better way.
BETTER: tuple[tuple[str, Better], ...] = (
    ("cube.router_mesh.distance_mm", "unknown"),  # the pitch is given: what the mesh takes, the way to UCIe loses
    ("cube.ucie.distance_mm", "unknown"),
    ("bytes_per_ns", "more"), ("bytes_per_cycle", "more"), ("_gbs", "more"), ("_ghz", "more"), ("lanes", "more"),
    ("outstanding", "more"), ("depth", "more"), ("tile_buffers", "more"), ("capacity_bytes", "more"),
    ("_ns", "less"), ("_mm", "less"), ("startup_cycles", "less"),
)  # fmt: skip
BETTER_IN: tuple[tuple[str, Better], ...] = (("macs_per_cycle.", "more"), ("pe_math.cycles.", "less"))
FRACTIONAL = ("_ns", "_mm", "_gbs", "_ghz")  # units that need no whole numbers
LEFT_OUT = ("xy",)  # places, not quantities
# Two ends of one link say the same, so they move together.
TOGETHER: tuple[frozenset[KeyPath], ...] = (
    frozenset({
        ("io_chiplets", "*", "io_ucie", "per_connection_bw_gbs"), ("cube", "ucie", "per_connection_bw_gbs"),
    }),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Move:
    """One key, or several that move together, in one direction; `refused` says why the move cannot be made."""

    direction: Direction
    value: str
    slower: tuple[str, ...] = ()
    faster: tuple[str, ...] = ()
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class KeyResult:
    key: str
    value: str
    better: Better
    moves: tuple[Move, ...]
    contended: frozenset[str]  # workloads in which anomalies are real

    @property
    def wrong(self) -> tuple[tuple[Move, str], ...]:
        """Moves after which a workload went the wrong way."""
        return tuple((move, name) for move in self.moves for name in self._wrong_of(move))

    def _wrong_of(self, move: Move) -> tuple[str, ...]:
        if self.better == "unknown":
            return ()
        eased = (move.direction == "up") == (self.better == "more")
        return move.slower if eased else move.faster

    @property
    def flagged(self) -> tuple[tuple[Move, str], ...]:
        return tuple(pair for pair in self.wrong if pair[1] not in self.contended)

    @property
    def has_effect(self) -> bool:
        return any(move.slower or move.faster for move in self.moves)

    @property
    def was_moved(self) -> bool:
        return any(move.refused is None for move in self.moves)

    def to_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "value": self.value,
            "better": self.better,
            "effect": self.has_effect,
            "flagged": sorted({name for _, name in self.flagged}),
            "moves": [
                {"direction": move.direction, "value": move.value, "slower": list(move.slower),
                 "faster": list(move.faster), "refused": move.refused}
                for move in self.moves
            ],
        }  # fmt: skip


@dataclass(frozen=True)
class Metamorphosis:
    topology: str
    workloads: tuple[str, ...]
    keys: tuple[KeyResult, ...] = field(default=())

    @property
    def ok(self) -> bool:
        return not any(key.flagged for key in self.keys)

    @property
    def without_effect(self) -> tuple[str, ...]:
        return tuple(key.key for key in self.keys if key.was_moved and not key.has_effect)

    def to_json(self) -> dict[str, Any]:
        return {
            "topology": self.topology,
            "ok": self.ok,
            "workloads": list(self.workloads),
            "keys": [key.to_json() for key in self.keys],
            "without_effect": list(self.without_effect),
        }


def run_metamorphic(
    topology: str | Path | TopologyGraph,
    keys: Sequence[str] | None = None,
    on_key: Callable[[str, int, int], None] | None = None,
) -> Metamorphosis:
    """Every numeric key of a topology, or those named; `on_key(key, number, of)` is told before each."""
    graph = topology if isinstance(topology, TopologyGraph) else load_topology(topology)
    timed = {workload: workload.time_ps(graph) for workload in workloads_of(graph)}
    workloads = [workload for workload, time in timed.items() if time is not None]
    before = {workload.name: time for workload, time in timed.items() if time is not None}
    groups = [group for group in key_groups(graph.config) if keys is None or shown(group) in keys]
    results: list[KeyResult] = []
    for number, group in enumerate(groups):
        if on_key is not None:
            on_key(shown(group), number, len(groups))
        results.append(_try(graph, group, workloads, before))
    return Metamorphosis(graph.name, tuple(before), tuple(results))


# Keys


def key_groups(config: Mapping[str, Any]) -> list[tuple[KeyPath, ...]]:
    """The numeric keys of a configuration, entries of a list as one; those that move together in one group."""
    paths = dict.fromkeys(_numeric(config, ()))
    groups: list[tuple[KeyPath, ...]] = []
    for path in paths:
        joint = next((group for group in TOGETHER if path in group), frozenset({path}))
        members = tuple(other for other in paths if other in joint)
        if members not in groups:
            groups.append(members)
    return groups


def _numeric(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name not in LEFT_OUT and (path or name != "overrides"):
                yield from _numeric(item, (*path, name))
    elif isinstance(value, list):
        for item in value:
            yield from _numeric(item, (*path, "*"))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def shown(group: Sequence[KeyPath]) -> str:
    return " and ".join(".".join(path).replace(".*", "[]") for path in group)


def better_of(group: Sequence[KeyPath]) -> Better:
    name = ".".join(group[0])
    inside = next((better for part, better in BETTER_IN if part in name), None)
    if inside is not None:
        return inside
    return next((better for end, better in BETTER if name.endswith(end)), "unknown")


# Moves


def _try(
    graph: TopologyGraph, group: tuple[KeyPath, ...], workloads: Sequence[Workload], before: Mapping[str, int]
) -> KeyResult:
    value = _first(graph.config, group[0])
    moves = [
        _move(graph, group, direction, moved, workloads, before)
        for direction, moved in (("up", _raised(value)), ("down", _lowered(group[0], value)))
        if moved is not None
    ]
    contended = frozenset(workload.name for workload in workloads if workload.contended)
    return KeyResult(shown(group), str(value), better_of(group), tuple(moves), contended)


def _first(config: Any, path: KeyPath) -> Any:
    for step in path:
        config = config[0] if step == "*" else config[step]
    return config


def _raised(value: Any) -> Any:
    """Twice; what is 0 gets 10."""
    return value * 2 if value else 10


def _lowered(path: KeyPath, value: Any) -> Any:
    """Half, in whole numbers where the key needs one; None where there is nothing below."""
    if isinstance(value, int) and not path[-1].endswith(FRACTIONAL):
        return value // 2 if value > 1 else None
    return float(Decimal(str(value)) / 2) if value else None


def _move(
    graph: TopologyGraph,
    group: tuple[KeyPath, ...],
    direction: Any,
    value: Any,
    workloads: Sequence[Workload],
    before: Mapping[str, int],
) -> Move:
    config = copy.deepcopy(dict(graph.config))
    for path in group:
        _set(config, path, value)
    slower: list[str] = []
    faster: list[str] = []
    try:
        changed = load_topology_text(json.dumps(config), graph.name)
        for workload in workloads:
            now = workload.time_ps(changed)
            if now is not None and now != before[workload.name]:
                (slower if now > before[workload.name] else faster).append(workload.name)
    except KernBenchError as error:
        return Move(direction, str(value), refused=error.diagnostics[0].message)
    return Move(direction, str(value), tuple(slower), tuple(faster))


def _set(config: Any, path: KeyPath, value: Any) -> None:
    *steps, last = path
    places = [config]
    for step in steps:
        places = [item for place in places for item in (place if step == "*" else [place[step]])]
    for place in places:
        place[last] = value
