"""PE_MATH: runs chains of vector ops, in order of arrival, without a gap within a chain.

Knows durations and log fields of prepared ops. Does not know operands, values or tile loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kernbench.sim.engines.server import InOrderServer, Origin
from kernbench.sim.op_log import KIND

_MATH = KIND["math"]


class ChainOp(NamedTuple):
    """One op of a chain, with what the log says of it."""

    duration_ps: int
    name_id: int
    nbytes: int
    flops: int
    params_id: int


class PeMath(InOrderServer):
    __slots__ = ()

    def submit(
        self, origin: Origin, tile: int, stage: int, chain: tuple[ChainOp, ...], done: Callable[..., object], *args: Any
    ) -> None:
        """Run `done(*args)` when the last op of `chain` is complete. `stage` is the number of the first."""
        self._arrive((origin.cmd, tile, stage, origin, chain, done, args))

    def serve(self, now: int, job: tuple[Any, ...]) -> None:
        cmd, tile, stage, origin, chain, done, args = job
        start = max(now, self.free_ps)
        begin = start
        add, index, request, src_id = self.log.add, self.topology_index, origin.request, origin.src_id
        for duration, name_id, nbytes, flops, params_id in chain:
            end = start + duration
            add(start, end, index, _MATH, name_id, request, cmd, tile, stage, nbytes, flops, src_id, params_id)
            start = end
            stage += 1
        self.free_ps = start
        self.busy_ps += start - begin
        self.clock.call_after(start - now, done, *args)
