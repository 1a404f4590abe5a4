"""Where the time of a launch went: terms that add up to it exactly, and the busiest engine or link.

Knows the times that the launch components kept and the op log. Does not simulate anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kernbench.messages import Tag
from kernbench.sim.device import Device
from kernbench.sim.host_request import Handle
from kernbench.sim.io_cpu import LaunchReport
from kernbench.sim.op_log import KIND, OpTable

# The kinds of records that explain a PE's time, most telling first: of what goes on at once, the first counts.
CAUSES: tuple[tuple[str, str], ...] = (
    ("gemm", "gemm"),
    ("math", "math"),
    ("dma_read", "dma"),
    ("dma_write", "dma"),
    ("fetch", "tcm"),
    ("store", "tcm"),
    ("dispatch", "dispatch"),
    ("scalar", "scalar"),
    ("send", "send_recv"),
    ("recv", "send_recv"),
    ("stall", "stall"),
    ("wait", "wait"),
)
IDLE = "idle"  # no record: latency inside the PE
# Every term that there can be, in the order in which they pass; `kernbench explain` has a story for each.
TERMS: tuple[str, ...] = (
    "to_io_cpu",
    "pes_busy",
    "code_fetch",
    "dispatch_to_pes",
    *dict.fromkeys(cause for _, cause in CAUSES),
    IDLE,
    "completion",
    "unfinished",
)


@dataclass(frozen=True, slots=True)
class Busy:
    """Counters of a device: picoseconds at work by (PE, engine), bytes by link."""

    engines: Mapping[tuple[Tag, str], int] = field(default_factory=dict)
    links: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def sample(device: Device) -> Busy:
        engines = {(tag, name): ps for tag, pe in device.pes.items() for name, ps in pe.busy_ps().items()}
        return Busy(engines, {use.name: use.nbytes for use in device.network.uses()})

    def __sub__(self, before: Busy) -> Busy:
        engines = {key: ps - before.engines.get(key, 0) for key, ps in self.engines.items()}
        return Busy(engines, {name: n - before.links.get(name, 0) for name, n in self.links.items()})


@dataclass(frozen=True, slots=True)
class LaunchTimes:
    """What was noted about a launch while it ran."""

    report: LaunchReport
    request: int  # number in the op log
    busy: Busy


@dataclass(frozen=True, slots=True)
class EngineUse:
    """An engine of all PEs of a launch together."""

    busy_ps: int
    utilization: float | None  # share of the PEs' time, None where no time passed


@dataclass(frozen=True, slots=True)
class LinkUse:
    name: str
    nbytes: int
    utilization: float | None  # share of what it could have carried from barrier to end


@dataclass(frozen=True, slots=True)
class Summary:
    """`terms_ps` add up to `total_ps`; `links` are those that carried anything, busiest first."""

    total_ps: int
    terms_ps: Mapping[str, int]
    bound_by: str
    engines: Mapping[str, EngineUse]
    links: tuple[LinkUse, ...]
    pe_exec_ps: Mapping[Tag, int]
    critical_pe: Tag | None

    @property
    def total_ns(self) -> float:
        return self.total_ps / 1000

    @property
    def terms_ns(self) -> dict[str, float]:
        return {name: ps / 1000 for name, ps in self.terms_ps.items()}


def summarise(device: Device, handle: Handle, times: LaunchTimes | None, log: OpTable) -> Summary:
    """The summary of a launch that is complete; `times` is None where a limit ended it first."""
    if times is None:
        return Summary(handle.total_ps, {"unfinished": handle.total_ps}, "a limit of the run", {}, (), {}, None)
    exec_ps = handle.pe_exec_ps
    critical = _critical(handle)
    terms = _terms(device, handle, times, log, critical)
    assert sum(terms.values()) == handle.total_ps, f"terms {terms} do not add up to {handle.total_ps}"
    assert set(terms) <= set(TERMS), f"a term of {list(terms)} is not in the table"
    window = max(exec_ps.values(), default=0)
    engines = _engines(times.busy, handle, window)
    links = _links(device, times.busy, window)
    bound_by = _bound_by(terms, engines, links)
    return Summary(handle.total_ps, terms, bound_by, engines, links, exec_ps, critical)


def _critical(handle: Handle) -> Tag | None:
    """The PE that ended last; of equals the first in topology order."""
    ends = [
        (-(r.exec_end_ps or 0), place, tag) for place, (tag, r) in enumerate(handle.results.items()) if r.exec_end_ps
    ]
    return min(ends)[2] if ends else None


# --------------------------------------------------------------------------- terms


def _terms(device: Device, handle: Handle, times: LaunchTimes, log: OpTable, critical: Tag | None) -> dict[str, int]:
    """submission → IO_CPU → PEs idle → code there → barrier → (the critical PE's time by cause) → completion."""
    report, start, end = times.report, handle.started_ps, handle.completed_ps
    assert end is not None
    terms = {"to_io_cpu": report.arrived_ps - start}
    if report.granted_ps is None or report.resident_ps is None or report.barrier_ps is None:
        return {**terms, "completion": end - report.arrived_ps}
    terms["pes_busy"] = report.granted_ps - report.arrived_ps
    terms["code_fetch"] = report.resident_ps - report.granted_ps
    result = handle.results[critical] if critical is not None else None
    if result is None or result.exec_start_ps is None or result.exec_end_ps is None:
        return {**terms, "completion": end - report.resident_ps}
    terms["dispatch_to_pes"] = result.exec_start_ps - report.resident_ps
    assert critical is not None
    terms.update(_causes(device, critical, times.request, (result.exec_start_ps, result.exec_end_ps), log))
    terms["completion"] = end - result.exec_end_ps
    return {name: ps for name, ps in terms.items() if ps}


def _causes(device: Device, tag: Tag, request: int, span: tuple[int, int], log: OpTable) -> dict[str, int]:
    """A PE's time from `span[0]` to `span[1]` by cause: at each moment the most telling of what goes on."""
    prefix = f"sip{tag[0]}.cube{tag[1]}.pe{tag[2]}."
    own = [node.index for node in device.graph.by_index if node.id.startswith(prefix)]
    mask = np.isin(log.column("component"), own) & (log.column("request") == request)
    rows = log.select(mask)
    begin, end = rows.column("t_start").clip(*span), rows.column("t_end").clip(*span)
    kinds = rows.column("kind")
    edges = np.unique(np.concatenate([begin, end, np.array(span, np.int64)]))
    lengths = np.diff(edges)
    cause = np.full(len(lengths), len(CAUSES), np.int64)
    for rank in reversed(range(len(CAUSES))):
        chosen = kinds == KIND[CAUSES[rank][0]]
        cause[_covered(edges, begin[chosen], end[chosen])] = rank
    found: Counter[str] = Counter()
    for rank, ps in enumerate(np.bincount(cause, lengths, len(CAUSES) + 1).astype(np.int64).tolist()):
        found[CAUSES[rank][1] if rank < len(CAUSES) else IDLE] += ps
    return dict(found)


def _covered(edges: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Which intervals between neighbouring edges lie in any of the runs."""
    depth = np.zeros(len(edges), np.int64)
    np.add.at(depth, np.searchsorted(edges, begin), 1)
    np.add.at(depth, np.searchsorted(edges, end), -1)
    return np.cumsum(depth)[:-1] > 0


# --------------------------------------------------------------------------- use


def _engines(busy: Busy, handle: Handle, window_ps: int) -> dict[str, EngineUse]:
    """By engine, over the PEs of the launch."""
    total: dict[str, int] = {}
    for (tag, name), ps in busy.engines.items():
        if tag in handle.results:
            total[name] = total.get(name, 0) + ps
    room = window_ps * len(handle.results)
    return {name: EngineUse(ps, ps / room if room else None) for name, ps in sorted(total.items())}


def _links(device: Device, busy: Busy, window_ps: int) -> tuple[LinkUse, ...]:
    found: list[LinkUse] = []
    for pool in device.graph.pools:
        nbytes = busy.links.get(pool.name, 0)
        if nbytes:
            room = pool.bytes_per_s * window_ps
            found.append(LinkUse(pool.name, nbytes, nbytes * 10**12 / room if room else None))
    return tuple(sorted(found, key=lambda link: -(link.utilization or 0)))


def _bound_by(terms: Mapping[str, int], engines: Mapping[str, EngineUse], links: tuple[LinkUse, ...]) -> str:
    """The busiest engine or link with its share, or the largest term where all of them mostly rest."""
    shares = [(use.utilization or 0.0, name) for name, use in engines.items()]
    shares.extend((link.utilization or 0.0, link.name) for link in links[:1])
    share, name = max(shares, default=(0.0, ""))
    largest = max(terms, key=lambda term: terms[term], default="nothing")
    return f"{name} at {share:.1%} of its peak" if share >= 0.5 else f"{largest}, as nothing is busy half of the time"
