"""A host request under way: its handle, its hop trace, and how its response is made.

Does not know what the device does for a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernbench.messages import Completion, KernelLaunch, MemoryRead, MemoryWrite, Response, Tag, content_hash
from kernbench.sim.device_messages import PeDmaMsg
from kernbench.sim.faults import DeviceFault
from kernbench.sim.launch_context import PeResult

HostMessage = MemoryWrite | MemoryRead | KernelLaunch | PeDmaMsg


@dataclass(frozen=True, slots=True)
class Hop:
    """One node of a request's way. The wire that follows a node belongs to it, so hops touch."""

    node: str
    t_in_ps: int
    t_out_ps: int

    @property
    def t_in_ns(self) -> float:
        return self.t_in_ps / 1000

    @property
    def t_out_ns(self) -> float:
        return self.t_out_ps / 1000


class HopTrace:
    """Where a request was, from its submission to its completion, without a gap."""

    def __init__(self) -> None:
        self.hops: list[Hop] = []

    def leg(self, nodes: tuple[tuple[str, int], ...], start_ps: int) -> None:
        """Add a leg that starts at `start_ps`: each node with its own time and that of the wire behind it.

        A joint node of two chained legs has paid its own time in the first; there it stands as 0.
        """
        at = start_ps
        for node, duration_ps in nodes:
            self.hops.append(Hop(node, at, at + duration_ps))
            at += duration_ps

    def stretch(self, until_ps: int) -> None:
        """The last node holds the request until then: a drain, a wait, a kernel's run."""
        last = self.hops[-1]
        assert until_ps >= last.t_out_ps, f"{last.node} cannot let go before it has the request"
        self.hops[-1] = Hop(last.node, last.t_in_ps, until_ps)

    def cut(self, at_ps: int) -> None:
        """The request ended before its way did: nothing of the way after that, and no gap before it."""
        self.hops = [hop for hop in self.hops if hop.t_in_ps < at_ps]
        if self.hops:
            self.hops[-1] = Hop(self.hops[-1].node, self.hops[-1].t_in_ps, at_ps)


class Handle:
    """What `submit` gives: a future. `results` are those of a launch's PEs."""

    def __init__(self, message: HostMessage, number: int, submitted_ps: int) -> None:
        self.message = message
        self.number = number
        self.submitted_ps = submitted_ps
        self.started_ps = submitted_ps  # later where an earlier request of its correlation was under way
        self.completed_ps: int | None = None
        self.completion: Completion | None = None
        self.fault: DeviceFault | None = None
        self.data: bytes | None = None
        self.checksum: str | None = None
        self.results: Mapping[Tag, PeResult] = {}
        self.terms_ps: Mapping[str, int] = {}
        self.bound_by = ""
        self.route = HopTrace()

    @property
    def done(self) -> bool:
        return self.completion is not None

    @property
    def key(self) -> tuple[str, str]:
        return self.message.key

    @property
    def response(self) -> Response | None:
        if self.completion is None:
            return None
        correlation_id, request_id = self.key
        return Response(
            correlation_id=correlation_id, request_id=request_id, completion=self.completion, checksum=self.checksum
        )

    @property
    def total_ps(self) -> int:
        assert self.completed_ps is not None, "the request is under way"
        return self.completed_ps - self.started_ps

    @property
    def trace(self) -> dict[str, Any]:
        return {"total_ns": self.total_ps / 1000} if self.done else {}

    @property
    def hops(self) -> tuple[tuple[str, float, float], ...]:
        """(node, t_in_ns, t_out_ns), touching, from submission to completion."""
        return tuple((hop.node, hop.t_in_ns, hop.t_out_ns) for hop in self.route.hops)

    @property
    def pe_exec_ps(self) -> dict[Tag, int]:
        """From the barrier to the end of each PE's work, of those that ran."""
        return {
            tag: result.exec_end_ps - result.exec_start_ps
            for tag, result in self.results.items()
            if result.exec_start_ps is not None and result.exec_end_ps is not None
        }

    def bring(self, data: NDArray[np.uint8]) -> None:
        """The bytes that a read brought, with their checksum."""
        self.data = data.tobytes()
        self.checksum = content_hash(self.data)

    def complete(self, now_ps: int, fault: DeviceFault | None) -> None:
        assert not self.done, f"{self.key} completes twice"
        self.completed_ps = now_ps
        self.fault = fault
        if fault is None:
            self.completion = Completion(ok=True)
        else:
            self.completion = Completion(ok=False, error_code=fault.code, error_message=fault.told)
