"""Let the simulator play one case, on a device of its own (ADR-0049 D8).

Knows which message a case is. Does not know closed forms, and nothing of how the time comes about.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernbench.address_map import encode_pa
from kernbench.messages import MemoryRead, MemoryWrite, Pattern
from kernbench.probe.catalog import Case, PeAt
from kernbench.sim.device_messages import PeDmaMsg
from kernbench.sim.engine import GraphEngine
from kernbench.sim.host_request import Handle, HostMessage
from kernbench.sim.topology_graph import TopologyGraph

HopTimes = tuple[tuple[str, int], ...]  # node, when the request reached it; a node where legs join stands once


@dataclass(frozen=True, slots=True)
class Measured:
    total_ps: tuple[int, ...]  # of each flow, in the order of the case
    hops: HopTimes  # of the first


def measure(graph: TopologyGraph, case: Case, nbytes: int) -> Measured:
    """All flows of a case start at once; each carries `nbytes`."""
    engine = GraphEngine(graph, mode="timing", entry="pcie_ep")
    messages = [_message(case, number, nbytes) for number in range(len(case.flows))]
    handles = [engine.submit(message) for message in messages]
    engine.run()
    for handle in handles:
        assert handle.completion is not None and handle.completion.ok, f"{case.name}: {handle.completion}"
    return Measured(tuple(handle.total_ps for handle in handles), _hop_times(handles[0]))


def _hop_times(handle: Handle) -> HopTimes:
    hops = handle.route.hops
    return tuple((hop.node, hop.t_in_ps) for i, hop in enumerate(hops) if i == 0 or hops[i - 1].node != hop.node)


def _message(case: Case, number: int, nbytes: int) -> HostMessage:
    source, target = case.flows[number]
    ids = (case.name, str(number)) if len(case.flows) == 1 else (f"{case.name}.{number}", "0")
    if source is not None:
        pa = encode_pa(*target, "hbm", number * nbytes)
        return PeDmaMsg(*ids, 0, *source, 0, *target, pa, nbytes)
    return _read(ids, target, nbytes) if is_read(case) else _write(ids, target, nbytes)


def is_read(case: Case) -> bool:
    """Host flows of contention are reads: what meets at the IO chiplet comes from the cubes."""
    return case.category in ("d2h", "contention")


def _write(ids: tuple[str, str], target: PeAt, nbytes: int) -> MemoryWrite:
    return MemoryWrite(
        correlation_id=ids[0], request_id=ids[1], target_device="sip:0", dst_sip=0, dst_cube=target[0],
        dst_pe=target[1], dst_pa=encode_pa(*target, "hbm", 0), nbytes=nbytes, src_kind="pattern",
        pattern=Pattern(pattern_kind="zero"),
    )  # fmt: skip


def _read(ids: tuple[str, str], target: PeAt, nbytes: int) -> MemoryRead:
    return MemoryRead(
        correlation_id=ids[0], request_id=ids[1], target_device="sip:0", src_sip=0, src_cube=target[0],
        src_pe=target[1], src_pa=encode_pa(*target, "hbm", 0), nbytes=nbytes, dst_kind="discard",
    )  # fmt: skip
