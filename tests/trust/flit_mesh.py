"""A flit-level mesh as the reference of the network model's error: wormhole routers with virtual channels.

XY routing; one flit a cycle on every link, injection and ejection links too; each input port has `vcs` virtual
channels of `depth` flits with credits; a packet holds its channel from head to tail; outputs choose among the
requests of a cycle in turn. Written for tests alone and without anything of the simulator.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

Node = tuple[int, int]
INJECT, EJECT = "in", "out"


@dataclass(frozen=True)
class Packet:
    start: int  # cycle
    src: Node
    dst: Node


@dataclass
class Channel:
    """One virtual channel of an input port: its flits as (packet, number), and where its packet goes."""

    flits: deque[tuple[int, int]] = field(default_factory=deque)
    packet: int = -1  # that holds the channel
    out: Channel | None = None


def uniform_packets(k: int, flits: int, rate: float, cycles: int, seed: int) -> list[Packet]:
    """Packets of Bernoulli sources with `rate` flits a node a cycle, each to any other node."""
    rng = random.Random(seed)
    nodes = [(x, y) for y in range(k) for x in range(k)]
    return [
        Packet(cycle, node, rng.choice([other for other in nodes if other != node]))
        for cycle in range(cycles)
        for node in nodes
        if rng.random() < rate / flits
    ]


def step(at: Node, dst: Node) -> Node:
    (x, y), (u, v) = at, dst
    if x != u:
        return (x + (1 if u > x else -1), y)
    return (x, y + (1 if v > y else -1))


def latencies(k: int, packets: list[Packet], flits: int, vcs: int = 4, depth: int = 8) -> list[int]:
    """Cycles from each packet's start until its last flit has been ejected."""
    return _Mesh(k, packets, flits, vcs, depth).run()


class _Mesh:
    def __init__(self, k: int, packets: list[Packet], flits: int, vcs: int, depth: int) -> None:
        self.packets, self.flits, self.depth = packets, flits, depth
        nodes = [(x, y) for y in range(k) for x in range(k)]
        self.ports: dict[tuple[Node, object], list[Channel]] = {}
        for x, y in nodes:
            near = [(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)]
            for source in [INJECT, *(node for node in near if node in nodes)]:
                self.ports[(x, y), source] = [Channel() for _ in range(vcs)]
        self.waiting: dict[Node, deque[tuple[int, int]]] = {node: deque() for node in nodes}
        self.turn: dict[tuple[Node, object], int] = {}
        self.ends = [-1] * len(packets)

    def run(self) -> list[int]:
        upcoming = deque(sorted(range(len(self.packets)), key=lambda i: self.packets[i].start))
        left, cycle = len(self.packets), 0
        while left:
            while upcoming and self.packets[upcoming[0]].start <= cycle:
                number = upcoming.popleft()
                self.waiting[self.packets[number].src].extend((number, flit) for flit in range(self.flits))
            moves = [*self._injections(), *self._switches()]
            for source, channel, target in moves:
                packet, flit = source.popleft()
                if target is not None:
                    target.flits.append((packet, flit))
                elif flit == self.flits - 1:
                    self.ends[packet] = cycle + 1
                    left -= 1
                if channel is not None and flit == self.flits - 1:
                    channel.packet, channel.out = -1, None
            cycle += 1
        return [end - packet.start for end, packet in zip(self.ends, self.packets, strict=True)]

    def _injections(self) -> list[tuple[deque[tuple[int, int]], Channel | None, Channel | None]]:
        found: list[tuple[deque[tuple[int, int]], Channel | None, Channel | None]] = []
        for node, queue in self.waiting.items():
            if not queue:
                continue
            target = self._channel(self.ports[node, INJECT], queue[0][0])
            if target is not None:
                found.append((queue, None, target))
        return found

    def _switches(self) -> list[tuple[deque[tuple[int, int]], Channel | None, Channel | None]]:
        """One flit an output and one an input port; the turn of an output goes on behind whom it served."""
        requests: dict[tuple[Node, object], list[tuple[int, object, Channel]]] = {}
        for number, ((node, source), channels) in enumerate(self.ports.items()):
            for place, channel in enumerate(channels):
                if channel.flits:
                    dst = self.packets[channel.flits[0][0]].dst
                    output = EJECT if dst == node else step(node, dst)
                    requests.setdefault((node, output), []).append((number * 64 + place, source, channel))
        found: list[tuple[deque[tuple[int, int]], Channel | None, Channel | None]] = []
        used: set[tuple[Node, object]] = set()
        for (node, output), asked in requests.items():
            turn = self.turn.get((node, output), -1)
            for number, source, channel in sorted(asked, key=lambda ask: (ask[0] <= turn, ask[0])):
                if (node, source) in used:
                    continue
                target = None
                if output != EJECT:
                    target = channel.out or self._channel(self.ports[output, node], channel.flits[0][0])
                    if target is None or len(target.flits) >= self.depth:
                        continue
                    channel.out = target
                used.add((node, source))
                self.turn[node, output] = number
                found.append((channel.flits, channel, target))
                break
        return found

    def _channel(self, channels: list[Channel], packet: int) -> Channel | None:
        """The channel that a packet holds, or a free one that it takes now; None where it must wait."""
        own = next((channel for channel in channels if channel.packet == packet), None)
        if own is None:
            own = next((channel for channel in channels if channel.packet < 0), None)
        if own is None or len(own.flits) >= self.depth:
            return None
        own.packet = packet
        return own
