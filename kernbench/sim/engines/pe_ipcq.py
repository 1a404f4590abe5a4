"""PE_IPCQ: blocks from PE to PE, in one bounded queue for each sender.

A block that is sent takes a place in the receiver's queue and travels there as a flow of the network, in the order of
this PE's sends. The receiver takes the oldest block of a sender; then the place is free again, which a message of
0 bytes tells the sender. The queues lie beside TCM and take no room of it. What belongs to another launch than the
one that runs here is dropped: its receiver has stopped. Does not know commands, kernels, or who waits for what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from kernbench.diagnostics import Span
from kernbench.dtypes import DType
from kernbench.sim.access_eval import Part, Place
from kernbench.sim.clock import Clock
from kernbench.sim.engines.pe_dma import Channel, Direction, Transfer, Way
from kernbench.sim.engines.server import Origin
from kernbench.sim.network import Network
from kernbench.sim.op_log import KIND, OpLog
from kernbench.sim.routing import PathRouter
from kernbench.sim.topology_schema import PeIpcqSpec

Values = NDArray[Any]


class Message:
    """One block under way. `values` is None where nobody computes them."""

    __slots__ = ("dtype", "request", "shape", "source", "span", "values")

    def __init__(self, request: int, source: Place, shape: tuple[int, ...], dtype: DType, span: Span | None) -> None:
        self.request = request
        self.source = source
        self.shape = shape
        self.dtype = dtype
        self.span = span  # of the send
        self.values: Values | None = None


def node_of(place: Place) -> str:
    return f"{name_of(place)}.pe_ipcq"


def name_of(place: Place) -> str:
    return f"sip{place[0]}.cube{place[1]}.pe{place[2]}"


class Peers:
    """The routes from one queue to others."""

    def __init__(self, place: Place, router: PathRouter) -> None:
        self._node = node_of(place)
        self._router = router

    def way(self, direction: Direction, place: Place) -> Way:
        route = self._router.route(self._node, node_of(place))
        return route.head_ps, route.pools


def _nobody() -> None:
    """Nobody is told of changes."""


class PeIpcq:
    """The queues of one PE: of what comes in, and what it has sent that is not received yet."""

    __slots__ = (
        "_clock",
        "_come",
        "_peers",
        "_request",
        "_sent",
        "_ways",
        "busy_ps",
        "depth",
        "on_change",
        "place",
        "sends",
    )

    def __init__(
        self, place: Place, spec: PeIpcqSpec, router: PathRouter, clock: Clock, network: Network, log: OpLog,
        index: int, peers: Mapping[Place, PeIpcq],
    ) -> None:  # fmt: skip
        self.place = place
        self.depth = spec.depth
        self.on_change: Callable[[], None] = _nobody  # something came, or a place is free
        self._clock = clock
        self._peers = peers
        self._ways = Peers(place, router)
        self.sends = Channel("send", spec, self._ways, clock, network, log, index)
        self.busy_ps = 0  # bringing blocks to TCM
        self._request = 0  # of the launch that runs; 0 is none
        self._come: dict[Place, deque[Message]] = {}
        self._sent: dict[Place, deque[Span | None]] = {}

    # ----------------------------------------------------------------- launches

    def open(self, request: int) -> None:
        self._request = request

    def close(self) -> None:
        """The PE's part of the launch has ended; after a failure blocks may be left."""
        self._request = 0
        self._come.clear()
        self._sent.clear()

    # ----------------------------------------------------------------- sending

    def has_place(self, to: Place) -> bool:
        return len(self._sent.get(to, ())) < self._peers[to].depth

    def take_place(self, to: Place, span: Span | None) -> None:
        assert self.has_place(to), f"the queue of {name_of(to)} is full"
        self._sent.setdefault(to, deque()).append(span)

    def send(
        self, origin: Origin, to: Place, message: Message, ids: tuple[int, int], left: Callable[[], None], nbytes: int
    ) -> None:
        """Send a block on its way; `left()` reads its values and frees its memory when the last byte has gone."""

        def arrived(_: Transfer) -> None:
            left()
            self._peers[to]._take_in(message)

        part = Part(to, 0, nbytes, nbytes, nbytes)
        self.sends.submit(Transfer(origin, -1, 0, part, arrived, *ids))

    def unreceived(self) -> list[tuple[Place, int, Span | None]]:
        """(receiver, how many blocks, where the oldest was sent) of what was sent and not received yet."""
        return [(to, len(spans), spans[0]) for to, spans in sorted(self._sent.items()) if spans]

    @property
    def all_received(self) -> bool:
        return not any(self._sent.values())

    def _place_is_free(self, to: Place, request: int) -> None:
        if request == self._request:
            self._sent[to].popleft()
            self.on_change()

    # ----------------------------------------------------------------- receiving

    def _take_in(self, message: Message) -> None:
        if message.request == self._request:
            self._come.setdefault(message.source, deque()).append(message)
            self.on_change()

    def has_come(self, source: Place) -> bool:
        return bool(self._come.get(source))

    def oldest(self, source: Place) -> Message:
        return self._come[source][0]

    def record_receipt(self, request: int, copy_ps: int, nbytes: int, ids: tuple[int, int, int, int]) -> None:
        """A block has been brought to TCM, which took `copy_ps`; `ids` are its command, name, params and line."""
        number, name_id, params_id, src_id = ids
        channel, now = self.sends, self._clock.now
        self.busy_ps += copy_ps
        channel.log.add(
            now - copy_ps, now, channel.topology_index, KIND["recv"], name_id, request, number, -1, 0, nbytes, 0,
            src_id, params_id,
        )  # fmt: skip

    def received(self, message: Message) -> None:
        """The block is in TCM: its place in the queue is free, and its sender is told."""
        first = self._come[message.source].popleft()
        assert first is message, "blocks are received in order"
        head_ps, _ = self._ways.way("send", message.source)
        sender = self._peers[message.source]
        self._clock.call_after(head_ps, sender._place_is_free, self.place, message.request)
