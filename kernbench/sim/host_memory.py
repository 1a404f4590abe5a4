"""Host access to device memory: one leg with data for a write, a 0-byte leg and one with data back for a read.

Also carries the lone DMA writes by which `probe` measures a PE's path. Knows legs, flows and slices. Does not know
IO_CPU or kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kernbench.address_map import Space
from kernbench.messages import MemoryRead, MemoryWrite, Pattern, Tag
from kernbench.sim.clock import Clock
from kernbench.sim.device_messages import PeDmaMsg
from kernbench.sim.faults import DeviceFault
from kernbench.sim.host_request import Handle
from kernbench.sim.launch_context import Mode
from kernbench.sim.legs import Leg, Path, Ways
from kernbench.sim.memory import MemoryMap
from kernbench.sim.network import Network
from kernbench.sim.routing import AddressResolver, MemoryPlace

Done = Callable[[DeviceFault | None], None]
Bytes = NDArray[np.uint8]
_BLOCK = 1 << 20  # a pattern is repeated in blocks of this size, so that filling gigabytes needs no gigabytes
_SPACES: Mapping[str, Space | None] = {"HBM": "hbm", "TCM": "tcm", "AUTO": None}


class Scratchpads(Protocol):
    """The TCMs as the host reaches them, by (sip, cube, pe)."""

    def read_tcm(self, tag: Tag, offset: int, nbytes: int) -> Bytes: ...

    def write_tcm(self, tag: Tag, offset: int, data: Bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class HostMemoryPorts:
    clock: Clock
    network: Network
    ways: Ways
    resolver: AddressResolver
    memory: MemoryMap
    scratchpads: Scratchpads
    mode: Mode


class HostMemory:
    """`MemoryWrite`, `MemoryRead` and `PeDmaMsg`, from their start to their end."""

    def __init__(self, ports: HostMemoryPorts) -> None:
        self._ports = ports

    # ----------------------------------------------------------------- legs

    def travel(self, handle: Handle, path: Path, nbytes: int, then: Callable[[], None], joined: bool = False) -> None:
        """Take a leg of a request's way: its head latency, then the drain of its data at the terminal hop."""
        clock, leg = self._ports.clock, self._ports.ways.leg(path, joined)
        handle.route.leg(leg.nodes, clock.now)

        def drained() -> None:
            handle.route.stretch(clock.now)
            then()

        if nbytes == 0:
            clock.call_after(leg.head_ps, then)
        else:
            clock.call_after(leg.head_ps, self._drain, leg, nbytes, handle.number, drained)

    def _drain(self, leg: Leg, nbytes: int, number: int, done: Callable[[], None]) -> None:
        self._ports.network.start_flow(leg.pools, nbytes, (-1, number), done)

    def refuse(self, handle: Handle, sip: int, fault: DeviceFault, done: Done) -> None:
        """Answer from `pcie_ep`: the request has gone there, and the answer comes back."""
        entry = self._ports.ways.entry(sip)

        def back() -> None:
            self.travel(handle, entry[::-1], 0, lambda: done(fault), joined=True)

        self.travel(handle, entry, 0, back)

    # ----------------------------------------------------------------- writes

    def write(self, handle: Handle, message: MemoryWrite, data: Bytes | None, done: Done) -> None:
        """`data` is None where the host's buffer did not come with the message."""
        tag = (message.dst_sip, message.dst_cube, message.dst_pe)
        try:
            memory = self._ports.resolver.resolve(
                message.dst_sip, message.dst_pa, message.nbytes, tag[1:], _SPACES[message.dst_mem_kind]
            )
        except DeviceFault as fault:
            self.refuse(handle, message.target_sip, fault, done)
            return

        def land() -> None:
            self._land(tag, memory, message, data)
            done(None)

        self.travel(handle, self._ports.ways.to_memory(message.target_sip, memory.node), message.nbytes, land)

    def _land(self, tag: Tag, memory: MemoryPlace, message: MemoryWrite, data: Bytes | None) -> None:
        if message.nbytes == 0:
            return
        if message.pattern is not None:
            block = _repeat(message.pattern, min(_BLOCK, message.nbytes))
            for at in range(0, message.nbytes, _BLOCK):
                self._put(tag, memory, at, block[: message.nbytes - at])
        elif data is not None:
            self._put(tag, memory, 0, data)
        elif memory.space == "hbm":
            self._ports.memory.slice(*tag).forget(memory.offset, message.nbytes)

    def _put(self, tag: Tag, memory: MemoryPlace, at: int, data: Bytes) -> None:
        if memory.space == "tcm":
            self._ports.scratchpads.write_tcm(tag, memory.offset + at, data)
        else:
            self._ports.memory.slice(*tag).write(memory.offset + at, data)

    # ----------------------------------------------------------------- reads

    def read(self, handle: Handle, message: MemoryRead, done: Done) -> None:
        tag = (message.src_sip, message.src_cube, message.src_pe)
        try:
            memory = self._ports.resolver.resolve(message.src_sip, message.src_pa, message.nbytes, tag[1:])
        except DeviceFault as fault:
            self.refuse(handle, message.target_sip, fault, done)
            return
        ways, sip = self._ports.ways, message.target_sip

        def arrive() -> None:
            if message.dst_kind == "host_sink" and self._ports.mode == "data":
                handle.bring(self._sample(tag, memory, message.nbytes))
            done(None)

        def answer() -> None:
            self.travel(handle, ways.from_memory(sip, memory.node), message.nbytes, arrive, joined=True)

        self.travel(handle, ways.to_memory(sip, memory.node), 0, answer)

    def _sample(self, tag: Tag, memory: MemoryPlace, nbytes: int) -> Bytes:
        if memory.space == "tcm":
            return self._ports.scratchpads.read_tcm(tag, memory.offset, nbytes)
        return self._ports.memory.slice(*tag).read(memory.offset, nbytes)

    # ----------------------------------------------------------------- a lone DMA write

    def pe_dma(self, handle: Handle, message: PeDmaMsg, done: Done) -> None:
        source = f"sip{message.src_sip}.cube{message.src_cube}.pe{message.src_pe}.pe_dma"
        tag = (message.dst_sip, message.dst_cube, message.dst_pe)
        try:
            memory = self._ports.resolver.resolve(message.dst_sip, message.dst_pa, message.nbytes, tag[1:])
        except DeviceFault as fault:
            self.travel(handle, (source,), 0, partial(done, fault))
            return
        path = self._ports.ways.between(source, memory.node)
        self.travel(handle, path, message.nbytes, lambda: done(None))


def _repeat(pattern: Pattern, nbytes: int) -> Bytes:
    return np.frombuffer(pattern.unit * (nbytes // len(pattern.unit)), np.uint8)
