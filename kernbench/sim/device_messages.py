"""What travels inside the device. It is the simulator's own business and no part of the host's contract.

Does not know routes or who handles a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernbench.messages import FailurePolicy, MemoryRead, MemoryWrite, Tag
from kernbench.sim.launch_context import LaunchContext, PeResult

# ADR names for a host's memory requests behind `pcie_ep`: they travel as they are.
MemoryWriteMsg = MemoryWrite
MemoryReadMsg = MemoryRead


Results = Mapping[Tag, PeResult]


@dataclass(frozen=True, slots=True)
class LaunchId:
    """Which launch a message inside the device belongs to (ADR-0009 D4); `request` is its number in the op log."""

    correlation_id: str
    request_id: str
    request: int


@dataclass(frozen=True, slots=True)
class KernelLaunchMsg:
    """A launch on its way to M_CPUs and PE_CPUs; it carries 0 bytes, so it takes no bandwidth (ADR-0009 D5).

    `target_start_ps` is None until somebody stamps the barrier.
    """

    launch: LaunchId
    contexts: Mapping[Tag, LaunchContext]  # of the PEs that the receiver is to start
    failure_policy: FailurePolicy
    target_start_ps: int | None = None

    nbytes = 0

    @property
    def target_start_ns(self) -> float | None:
        """The stamp as ADR-0009 names it, for people; the device compares picoseconds only."""
        return None if self.target_start_ps is None else self.target_start_ps / 1000


@dataclass(frozen=True, slots=True)
class CodeFetchMsg:
    """An order for a kernel's code, from IO_CPU to the memory that holds it; the code goes to one PE."""

    launch: LaunchId
    pe_cpu: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class CodeFetchedMsg:
    """A PE has a kernel's code, on its way to IO_CPU."""

    launch: LaunchId
    pe_cpu: str

    nbytes = 0


@dataclass(frozen=True, slots=True)
class AbortMsg:
    """Stop a launch: from IO_CPU to M_CPUs, from those to their PEs."""

    launch: LaunchId

    nbytes = 0


@dataclass(frozen=True, slots=True)
class PeDoneMsg:
    """How one PE's part of a launch ended, on its way to its M_CPU."""

    launch: LaunchId
    tag: Tag
    result: PeResult

    nbytes = 0


@dataclass(frozen=True, slots=True)
class CubeFailedMsg:
    """A PE of a cube failed and others still run, on its way from M_CPU to IO_CPU."""

    launch: LaunchId

    nbytes = 0


@dataclass(frozen=True, slots=True)
class CubeDoneMsg:
    """How all PEs of one cube ended, on its way from M_CPU to IO_CPU."""

    launch: LaunchId
    cube: tuple[int, int]
    results: Results

    nbytes = 0


@dataclass(frozen=True, slots=True)
class LaunchPorts:
    """Where an M_CPU sends its answers to one launch."""

    node: str  # of the IO_CPU
    failed: Callable[[CubeFailedMsg], None]
    done: Callable[[CubeDoneMsg], None]


@dataclass(frozen=True, slots=True)
class PeDmaMsg:
    """One write of a PE's DMA engine, injected at `pe_dma` without a kernel: how `probe` measures that path."""

    correlation_id: str
    request_id: str
    src_sip: int
    src_cube: int
    src_pe: int
    dst_sip: int
    dst_cube: int
    dst_pe: int
    dst_pa: int
    nbytes: int

    @property
    def key(self) -> tuple[str, str]:
        return self.correlation_id, self.request_id
