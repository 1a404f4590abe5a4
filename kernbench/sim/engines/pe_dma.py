"""PE_DMA: a read and a write channel between TCM and the memory slices of the device.

A channel is occupied by a transfer for its issue cost only, which overlaps the head latency. Up to `outstanding`
transfers are under way at once; they drain in the order of issue, one at a time, over the network. A transfer that
finds the window full stalls, and the stall is logged. Does not know what is moved, nor why.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, Protocol

from kernbench.sim.access_eval import Part, Place
from kernbench.sim.clock import Clock
from kernbench.sim.engines.server import Origin
from kernbench.sim.network import Network
from kernbench.sim.op_log import KIND, OpLog
from kernbench.sim.routing import PathRouter
from kernbench.sim.topology_schema import PeDmaSpec, PeIpcqSpec, ns_to_ps

Direction = Literal["read", "write", "send"]
Weights = tuple[int | Fraction, ...]
Way = tuple[int, tuple[int, ...]]  # head latency, bandwidth pools with the slice's own first (read) or last (write)

_STALL = KIND["stall"]
_KINDS: dict[Direction, int] = {"read": KIND["dma_read"], "write": KIND["dma_write"], "send": KIND["send"]}
_ORDER: dict[Direction, int] = {"read": 0, "write": 1, "send": 2}


class FindsWays(Protocol):
    """Knows the routes of one channel."""

    def way(self, direction: Direction, place: Place) -> Way: ...


class Transfer:
    """One part of an access on its way. `done(transfer)` is called when its last byte has drained."""

    __slots__ = (
        "done", "head_ps", "name_id", "nbytes", "origin", "params_id", "part", "pools", "ready_ps", "stage",
        "start_ps", "tag", "tile", "weights",
    )  # fmt: skip

    def __init__(
        self, origin: Origin, tile: int, stage: int, part: Part | None, done: Callable[[Transfer], None],
        name_id: int, params_id: int, tag: Any = None,
    ) -> None:  # fmt: skip
        self.origin = origin
        self.tile = tile
        self.stage = stage
        self.part = part  # None: an access whose every lane is stopped by its mask; it costs its issue
        self.nbytes = 0 if part is None else part.nbytes
        self.done = done
        self.name_id = name_id
        self.params_id = params_id
        self.tag = tag  # the owner's own
        self.head_ps = 0
        self.pools: tuple[int, ...] = ()
        self.weights: Weights | None = None
        self.start_ps = self.ready_ps = 0

    def state(self, now: int, cmd: int) -> tuple[Any, ...]:
        """How far it is, with times counted from `now` and commands from `cmd`."""
        return *self.place(cmd), self.start_ps - now, self.ready_ps - now

    def place(self, cmd: int) -> tuple[int, int, int]:
        """Which one it is, with commands counted from `cmd`."""
        return self.origin.cmd - cmd, self.tile, self.stage

    @property
    def order(self) -> tuple[int, int, int]:
        return self.origin.cmd, self.tile, self.stage


def _nobody() -> None:
    """Nobody waits for room."""


@lru_cache(maxsize=4096)
def _weights(charged: int, nbytes: int, pools: int, direction: Direction) -> Weights:
    """Weight 1 on every link, and on the slice's pool what the access pattern costs there."""
    own = Fraction(charged, nbytes)
    links: Weights = (1,) * (pools - 1)
    return (own, *links) if direction == "read" else (*links, own)


class Ways:
    """The routes of one PE_DMA (or PE_CPU) to slices. A read goes there with 0 bytes and comes back with data."""

    def __init__(self, node: str, router: PathRouter) -> None:
        self._node = node
        self._router = router
        self._known: dict[tuple[Direction, Place], Way] = {}

    def way(self, direction: Direction, place: Place) -> Way:
        found = self._known.get((direction, place))
        if found is None:
            found = self._known[direction, place] = self._find(direction, place)
        return found

    def _find(self, direction: Direction, place: Place) -> Way:
        sip, cube, pe = place
        memory = f"sip{sip}.cube{cube}.hbm_ctrl.pe{pe}"
        there = self._router.route(self._node, memory)
        if direction == "write":
            return there.head_ps, there.pools
        back = self._router.route(memory, self._node)
        return there.head_ps + back.head_ps - back.first_overhead_ps, back.pools


class Channel:
    """One direction of PE_DMA, or the sends of PE_IPCQ."""

    __slots__ = (
        "__weakref__", "_asked", "_drain_start_ps", "_draining", "_free_ps", "_inbox", "_issue_ps", "_kind",
        "_limit", "_network", "_outstanding", "_part", "_queue", "_stall_name", "_stalled_since", "_ways", "busy_ps",
        "clock", "direction", "log", "on_room", "topology_index",
    )  # fmt: skip

    def __init__(
        self, direction: Direction, spec: PeDmaSpec | PeIpcqSpec, ways: FindsWays, clock: Clock, network: Network,
        log: OpLog, index: int,
    ) -> None:  # fmt: skip
        self.direction: Direction = direction
        self.clock = clock
        self.log = log
        self.topology_index = index
        self.busy_ps = 0
        self._part = (_ORDER[direction],)
        self._kind = _KINDS[direction]
        self._issue_ps = ns_to_ps(spec.issue_ns)
        self._limit = spec.outstanding
        self._ways = ways
        self._network = network
        self._inbox: list[Transfer] = []
        self._queue: deque[Transfer] = deque()
        self._outstanding: deque[Transfer] = deque()
        self._free_ps = 0
        self._draining = False
        self._drain_start_ps = 0
        self._stalled_since = -1
        self._asked = False
        self.on_room: Callable[[], None] = _nobody
        self._stall_name = log.intern(f"{direction} window full")

    def state(self, now: int, cmd: int) -> tuple[Any, ...] | None:
        """All that what comes next depends on: times counted from `now`, commands from `cmd`; None in mid-instant."""
        if self._inbox:
            return None
        return (
            max(0, self._free_ps - now),
            self._draining and self._drain_start_ps - now,
            self._stalled_since - now if self._stalled_since >= 0 else 1,
            self._asked,
            tuple(transfer.place(cmd) for transfer in self._queue),  # their times are found when they issue
            tuple(transfer.state(now, cmd) for transfer in self._outstanding),
        )

    def skip(self, ps: int) -> None:
        """Let everything be later."""
        self._free_ps += ps
        self._drain_start_ps += ps
        if self._stalled_since >= 0:
            self._stalled_since += ps
        for transfer in self._outstanding:
            transfer.start_ps += ps
            transfer.ready_ps += ps

    @property
    def transfers(self) -> Iterator[Transfer]:
        """Those that wait or are under way."""
        return chain(self._queue, self._outstanding)

    def submit(self, transfer: Transfer) -> None:
        if not self._inbox:
            self.clock.defer(self, self._part)
        self._inbox.append(transfer)

    @property
    def has_room(self) -> bool:
        """Fewer transfers wait than may be under way; who holds back until `on_room` keeps this queue bounded."""
        if len(self._queue) + len(self._inbox) < self._limit:
            return True
        self._asked = True
        return False

    def decide(self) -> None:
        arrived, self._inbox = self._inbox, []
        if len(arrived) > 1:
            arrived.sort(key=lambda transfer: transfer.order)
        self._queue.extend(arrived)
        self._pump()

    def _pump(self) -> None:
        queue, outstanding = self._queue, self._outstanding
        now = self.clock.now
        while queue and len(outstanding) < self._limit:
            self._issue(queue.popleft(), now)
        if self._asked and len(queue) < self._limit:
            self._asked = False
            self.on_room()
        if queue and self._stalled_since < 0:
            self._stalled_since = max(now, self._free_ps)
        if not self._draining and outstanding:
            self._drain_first(now)

    def _issue(self, transfer: Transfer, now: int) -> None:
        start = max(now, self._free_ps)
        if self._stalled_since >= 0:
            if start > self._stalled_since:
                self._record(_STALL, self._stalled_since, start, transfer, self._stall_name, 0)
            self._stalled_since = -1
        self._free_ps = start + self._issue_ps
        transfer.start_ps = start
        part = transfer.part
        if part is not None:
            transfer.head_ps, transfer.pools = self._ways.way(self.direction, part.place)
            if part.charged != part.nbytes:
                transfer.weights = _weights(part.charged, part.nbytes, len(transfer.pools), self.direction)
        transfer.ready_ps = start + max(self._issue_ps, transfer.head_ps, 1)
        self._outstanding.append(transfer)

    def _drain_first(self, now: int) -> None:
        """Transfers drain one at a time, the first of the window next, once its first byte is there."""
        self._draining = True
        ready = self._outstanding[0].ready_ps
        if ready > now:
            self.clock.call_after(ready - now, self._start_drain)
        else:
            self._start_drain()

    def _start_drain(self) -> None:
        transfer = self._outstanding[0]
        if transfer.nbytes == 0:
            self._drained()
            return
        key = (self.topology_index, *transfer.order)
        self._drain_start_ps = self.clock.now
        self._network.start_flow(transfer.pools, transfer.nbytes, key, self._flowed, transfer.weights)

    def _flowed(self) -> None:
        self.busy_ps += self.clock.now - self._drain_start_ps
        self._drained()

    def _drained(self) -> None:
        transfer = self._outstanding.popleft()
        self._draining = False
        self._record(self._kind, transfer.start_ps, self.clock.now, transfer, transfer.name_id, transfer.nbytes)
        transfer.done(transfer)
        self._pump()

    def _record(self, kind: int, start: int, end: int, transfer: Transfer, name_id: int, nbytes: int) -> None:
        origin, params_id = transfer.origin, transfer.params_id
        if nbytes and self.direction != "send":
            assert transfer.part is not None
            params_id = self.log.counted("segments", transfer.part.segments, params_id)
        self.log.add(
            start, end, self.topology_index, kind, name_id, origin.request, origin.cmd, transfer.tile,
            transfer.stage, nbytes, 0, origin.src_id, params_id,
        )  # fmt: skip


class PeDma:
    """Both channels."""

    __slots__ = ("read", "write")

    def __init__(
        self, node: str, spec: PeDmaSpec, router: PathRouter, clock: Clock, network: Network, log: OpLog, index: int
    ) -> None:
        ways = Ways(node, router)
        self.read = Channel("read", spec, ways, clock, network, log, index)
        self.write = Channel("write", spec, ways, clock, network, log, index)
