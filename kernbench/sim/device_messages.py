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


@dataclass(frozen=True, slots=True)
class KernelLaunchMsg:
    """A launch on its way to M_CPUs and PE_CPUs; it carries 0 bytes, so it takes no bandwidth (ADR-0009 D5).

    `target_start_ps` is None until somebody stamps the barrier.
    """

    correlation_id: str
    request_id: str
    contexts: Mapping[Tag, LaunchContext]  # of the PEs that the receiver is to start
    failure_policy: FailurePolicy
    request: int  # number in the op log
    target_start_ps: int | None = None

    nbytes = 0

    @property
    def target_start_ns(self) -> float | None:
        """The stamp as ADR-0009 names it, for people; the device compares picoseconds only."""
        return None if self.target_start_ps is None else self.target_start_ps / 1000


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


Results = Mapping[Tag, PeResult]


@dataclass(frozen=True, slots=True)
class LaunchPorts:
    """How an M_CPU answers one launch: a failure at once where it must be known, all results at the end."""

    failed: Callable[[Tag, PeResult], None]
    done: Callable[[Results], None]
