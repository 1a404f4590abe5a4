"""How far the flow-level network is from a flit-level one: mean latency under uniform traffic on a 4 x 4 mesh.

The figures are measured here, printed, and must be those of docs/trust.md, where people read about the model.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernbench.sim.clock import Clock
from kernbench.sim.network import Network
from kernbench.sim.topology_graph import Pool
from tests.trust.flit_mesh import Packet, latencies, step, uniform_packets

K, FLIT_BYTES, CYCLE_PS = 4, 64, 1000
SATURATION = 0.9375  # flits a node a cycle of ideal routers, uniform traffic on 4 x 4
LOADS = (10, 50, 80)  # % of it
DOCUMENT = Path(__file__).parents[2] / "docs" / "trust.md"


def links(packet: Packet) -> list[object]:
    found: list[object] = [("in", packet.src)]
    at = packet.src
    while at != packet.dst:
        found.append((at, step(at, packet.dst)))
        at = step(at, packet.dst)
    return [*found, (at, "out")]


def flow_latencies(packets: list[Packet], flits: int) -> list[float]:
    """The same packets as flows: a head latency of a cycle a link but the last, then max-min fair drain."""
    paths = [links(packet) for packet in packets]
    number = {link: index for index, link in enumerate(dict.fromkeys(link for path in paths for link in path))}
    pools = tuple(Pool(index, str(index), FLIT_BYTES * 10**12 // CYCLE_PS) for index in number.values())
    graph: Any = SimpleNamespace(nodes={}, pools=pools)
    clock = Clock()
    network = Network(clock, graph)
    ends = [0] * len(packets)

    def start(index: int) -> None:
        def done() -> None:
            ends[index] = clock.now

        network.start_flow(tuple(number[link] for link in paths[index]), flits * FLIT_BYTES, (index,), done)

    for index, packet in enumerate(packets):
        clock.call_at((packet.start + len(paths[index]) - 1) * CYCLE_PS, start, index)
    clock.run()
    network.check_idle()
    return [end / CYCLE_PS - packet.start for end, packet in zip(ends, packets, strict=True)]


def error_percent(flits: int, load: int) -> int:
    """Mean latency of the flow model against the reference, in whole percent; below 0: the flow model is faster."""
    packets = uniform_packets(K, flits, SATURATION * load / 100, 100 * flits, seed=1)
    reference, ours = latencies(K, packets, flits), flow_latencies(packets, flits)
    mean, mine = sum(reference) / len(packets), sum(ours) / len(packets)
    offered = len(packets) * flits / (K * K * 100 * flits)
    last = max(packet.start + latency for packet, latency in zip(packets, ours, strict=True))
    accepted = len(packets) * flits / (K * K * last)
    print(f"{flits} flits, {load} %: {mean:.1f} cycles by flits, {mine:.1f} by flows; ", end="")
    print(f"offered {offered:.3f}, accepted {accepted:.3f} flits a node a cycle")
    return round(100 * (mine / mean - 1))


def stated(flits: int) -> list[int]:
    """The row of docs/trust.md for packets of that size."""
    row = re.search(rf"^\| {flits} flits.*$", DOCUMENT.read_text("utf-8"), re.M)
    assert row, f"docs/trust.md has no row for {flits} flits"
    return [int(cell.replace("−", "-").replace("%", "")) for cell in row.group().split("|")[2:5]]


@pytest.mark.parametrize("flits", [1, 4, 16])
def test_a_lone_packet_takes_the_same_time_in_both(flits: int) -> None:
    for dst in ((1, 0), (3, 3), (0, 2)):
        packet = [Packet(5, (0, 0), dst)]

        assert latencies(K, packet, flits) == flow_latencies(packet, flits)


def test_the_error_at_low_and_half_load_is_as_stated() -> None:
    assert stated(16)[:2] == [error_percent(16, load) for load in LOADS[:2]]


@pytest.mark.slow
@pytest.mark.parametrize("flits", [16, 64])
def test_the_error_at_every_load_is_as_stated(flits: int) -> None:
    assert stated(flits) == [error_percent(flits, load) for load in LOADS]


def test_what_is_injected_rises_with_the_rate_until_the_network_is_full() -> None:
    """FC-NO13 (gem5 #2654): every packet that is asked for is sent, and the accepted rate follows the offered one."""
    accepted = []
    for load in (10, 30, 50):
        packets = uniform_packets(K, 8, SATURATION * load / 100, 400, seed=3)
        ends = [p.start + latency for p, latency in zip(packets, flow_latencies(packets, 8), strict=True)]
        assert len(packets) == pytest.approx(16 * 400 * SATURATION * load / 100 / 8, rel=0.15)
        accepted.append(len(packets) * 8 / (16 * max(ends)))

    assert accepted == sorted(accepted)
