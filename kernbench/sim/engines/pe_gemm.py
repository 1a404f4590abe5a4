"""PE_GEMM and its ports: FETCH brings a tile's operands in, GEMM multiplies them, STORE takes the product out.

FETCH and STORE have a port each. There are two operand sets: the fetch of a tile waits until the product before the
last is done. Every product follows its own fetch, so both are booked when the fetch is.
Knows durations and log fields of prepared tiles. Does not know operands, values, rings or epilogues.
"""

from __future__ import annotations

from typing import Any, Protocol

from kernbench.sim.clock import Clock
from kernbench.sim.engines.server import InOrderServer, Origin
from kernbench.sim.op_log import KIND, OpLog
from kernbench.sim.plan import STAGE_FETCH, STAGE_GEMM, STAGE_STORE, Tile

_FETCH, _GEMM, _STORE = KIND["fetch"], KIND["gemm"], KIND["store"]


class TileUser(Protocol):
    """Who has tiles multiplied."""

    def fetched(self, j: int, product_ps: int) -> None:
        """The operands of tile `j` are in; its product is done `product_ps` from now."""

    def stored(self, j: int) -> None:
        """The output tile that tile `j` completes is in TCM."""


class PeGemm(InOrderServer):
    """`busy_ps` is that of the multiplier, `fetch_busy_ps` that of the port."""

    __slots__ = ("_fetch_free_ps", "_fetch_name", "_gemm_name", "_previous_ps", "_tcm_index", "fetch_busy_ps")

    def __init__(self, clock: Clock, log: OpLog, topology_index: int, tcm_index: int) -> None:
        super().__init__(clock, log, topology_index)
        self._tcm_index = tcm_index
        self._fetch_free_ps = 0
        self._previous_ps = 0  # end of the product before the last
        self._fetch_name, self._gemm_name = log.intern("fetch"), log.intern("gemm")
        self.fetch_busy_ps = 0

    def idle_at(self, now: int) -> bool:
        return super().idle_at(now) and self._fetch_free_ps <= now

    def state(self, now: int) -> tuple[int, ...] | None:
        free = super().state(now)
        return None if free is None else (*free, max(0, self._fetch_free_ps - now), max(0, self._previous_ps - now))

    def skip(self, ps: int) -> None:
        super().skip(ps)
        self._fetch_free_ps += ps
        self._previous_ps += ps

    def follow(self, rehearsed: InOrderServer, start_ps: int) -> None:
        super().follow(rehearsed, start_ps)
        assert isinstance(rehearsed, PeGemm)
        self.fetch_busy_ps += rehearsed.fetch_busy_ps
        self._fetch_free_ps = start_ps + rehearsed._fetch_free_ps
        self._previous_ps = start_ps + rehearsed._previous_ps

    def submit(self, origin: Origin, j: int, tile: Tile, params_id: int, user: TileUser) -> None:
        self._arrive((origin.cmd, j, STAGE_FETCH, origin, tile, params_id, user))

    def serve(self, now: int, job: tuple[Any, ...]) -> None:
        cmd, j, _, origin, tile, params_id, user = job
        start = max(now, self._fetch_free_ps, self._previous_ps)
        fetched = self._fetch_free_ps = start + tile.fetch_ps
        begin = max(fetched, self.free_ps)
        self._previous_ps = self.free_ps
        end = self.free_ps = begin + tile.gemm_ps
        self.fetch_busy_ps += tile.fetch_ps
        self.busy_ps += tile.gemm_ps
        add, request, src_id = self.log.add, origin.request, origin.src_id
        add(
            start, fetched, self._tcm_index, _FETCH, self._fetch_name, request, cmd, j, STAGE_FETCH, tile.fetch_bytes,
            0, src_id, params_id,
        )  # fmt: skip
        add(
            begin, end, self.topology_index, _GEMM, self._gemm_name, request, cmd, j, STAGE_GEMM, 0, tile.flops,
            src_id, params_id,
        )  # fmt: skip
        self.clock.call_after(fetched - now, user.fetched, j, end - fetched)


class StorePort(InOrderServer):
    """The port through which products go to TCM."""

    __slots__ = ("_name",)

    def __init__(self, clock: Clock, log: OpLog, tcm_index: int) -> None:
        super().__init__(clock, log, tcm_index)
        self._name = log.intern("store")

    def submit(self, origin: Origin, j: int, tile: Tile, params_id: int, user: TileUser) -> None:
        self._arrive((origin.cmd, j, STAGE_STORE, origin, tile, params_id, user))

    def serve(self, now: int, job: tuple[Any, ...]) -> None:
        cmd, j, stage, origin, tile, params_id, user = job
        start = max(now, self.free_ps)
        end = self.free_ps = start + tile.store_ps
        self.busy_ps += tile.store_ps
        self.log.add(
            start, end, self.topology_index, _STORE, self._name, origin.request, cmd, j, stage, tile.out_bytes, 0,
            origin.src_id, params_id,
        )  # fmt: skip
        self.clock.call_after(end - now, user.stored, j)
