"""The stages of a composite that has the engines to itself: played once, with times from its start.

Such a composite always takes the same stages at the same distances, so one that starts on idle engines costs one
event. Where another composite joins it, it is played again up to that instant on the PE's own engines, and goes on
stage by stage from there (`join`). Both ways give the same log. Does not know operands or values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from numpy.typing import NDArray

from kernbench.sim.clock import Clock
from kernbench.sim.engines.pe_gemm import PeGemm, StorePort
from kernbench.sim.engines.pe_math import PeMath
from kernbench.sim.engines.server import InOrderServer
from kernbench.sim.op_log import OpLog
from kernbench.sim.pe_parts import PeParts
from kernbench.sim.tape import Tape


class Rehearsal(NamedTuple):
    """`rows` are packed log records of request 0 and command 0; `engines` stand as they do at the end."""

    rows: NDArray[Any]
    duration_ps: int
    engines: tuple[InOrderServer, ...]

    def on(self, parts: PeParts) -> Rehearsal:
        """The same on another PE's engines."""
        rows = self.rows.copy()
        for mine, theirs in zip(self.engines, engines_of(parts), strict=True):
            rows["component"][self.rows["component"] == mine.topology_index] = theirs.topology_index
        return self._replace(rows=rows)


def engines_of(parts: PeParts) -> tuple[InOrderServer, ...]:
    """The engines that only composites use."""
    return parts.gemm, parts.store, parts.math  # FETCH is of `gemm`, and its port the one that STORE's records name


def rehearse(parts: PeParts, start: Callable[[PeParts], None]) -> Rehearsal:
    """Play what `start` begins on idle engines like those of `parts`, until nothing is left to happen."""
    clock, log = Clock(), OpLog(parts.gemm.log.interned)
    gemm = PeGemm(clock, log, parts.gemm.topology_index, parts.store.topology_index)
    store = StorePort(clock, log, parts.store.topology_index)
    math = PeMath(clock, log, parts.math.topology_index)
    stage = replace(parts, clock=clock, gemm=gemm, store=store, math=math, tape=Tape())
    start(stage)
    clock.run()
    return Rehearsal(log.rows(), clock.now, engines_of(stage))


def join(
    parts: PeParts, start_ps: int, start: Callable[[PeParts], None], server_place: tuple[int, tuple[int, ...]]
) -> None:
    """Play what `start` began at `start_ps` up to now; what is left to happen goes to the device's clock.

    `server_place` is that of the server that decides now: those before it in this instant have decided.
    """
    clock, past = parts.clock, Clock(start_ps)
    engines = engines_of(parts)
    for engine in engines:
        engine.clock = past
    start(replace(parts, clock=past))
    past.run_before(clock.now, server_place)
    for engine in engines:
        engine.clock = clock
    past.hand_over(clock)
