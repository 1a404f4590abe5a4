"""Tile rings in TCM: where an HBM operand's tiles wait for FETCH, and which of them need not be read again.

A ring has a few slots, filled in turn. A slot is free for the next tile when the last FETCH that uses the tile in it
has ended. Commands with the same ring take turns in program order, slot by slot; a tile is reused within its own
command only. Does not know engines, addresses in memory, or values other than as something to keep.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

LOOKAHEAD = 8  # uses for which a stream plans ahead of the last FETCH; more only helps rings of more slots


class Use(NamedTuple):
    """One tile of the loop that needs a slot's content."""

    slot: int
    load: int  # number of the load that brings it, within the stream


class _Holder(NamedTuple):
    """Whose tile is in a slot, and the last use of it so far."""

    stream: Stream
    tile: int


class Ring:
    """Slots of one ring, and the commands that want them, in program order."""

    __slots__ = ("next_slot", "slots", "streams")

    def __init__(self, slots: int) -> None:
        self.slots: list[_Holder | None] = [None] * slots
        self.next_slot = 0
        self.streams: deque[Stream] = deque()


class Stream:
    """One operand of one command: the sequence of tiles that its loop uses."""

    __slots__ = (
        "_last_use", "_load", "_ring", "_slot_of", "_tile_at", "_total", "fetched", "loaded", "loads", "planned",
        "uses", "values",
    )  # fmt: skip

    def __init__(self, ring: Ring, total: int, tile_at: Callable[[int], int], load: Callable[[int, int], None]) -> None:
        """`tile_at(j)` names the tile that step `j` uses; `load(j, slot)` starts reading it into a slot."""
        self._ring = ring
        self._total = total
        self._tile_at = tile_at
        self._load = load
        self._slot_of: dict[int, int] = {}  # tile → slot, of this command's tiles now in the ring
        self._last_use: dict[int, int] = {}  # slot → last step that uses this command's tile in it
        self.planned = 0  # steps whose tile has a slot
        self.fetched = 0  # steps whose FETCH has ended
        self.loads = 0  # loads started
        self.loaded = 0  # loads complete; they complete in order
        self.uses: deque[Use] = deque()  # of steps `fetched` to `planned`
        self.values: list[Any] = [None] * len(ring.slots)  # data mode: what each slot holds
        ring.streams.append(self)

    def advance(self) -> None:
        """Give slots to as many further steps as there may be, and start the loads that this takes."""
        ahead = min(self._total, self.fetched + max(LOOKAHEAD, len(self._ring.slots)))
        while self.planned < ahead and self._plan(self.planned):
            self.planned += 1
        ring = self._ring
        if self.planned == self._total and ring.streams and ring.streams[0] is self:
            ring.streams.popleft()
            if ring.streams:
                ring.streams[0].advance()

    def _plan(self, step: int) -> bool:
        tile = self._tile_at(step)
        slot = self._slot_of.get(tile)
        if slot is None:
            slot = self._take(tile)
            if slot is None:
                return False
            self.loads += 1
            self.uses.append(Use(slot, self.loads))
            self._last_use[slot] = step
            self._load(step, slot)
            return True
        self.uses.append(Use(slot, self._load_of(slot)))
        self._last_use[slot] = step
        return True

    def _load_of(self, slot: int) -> int:
        """The load that filled a slot: slots fill in turn, so it is the last but so many."""
        behind = (self._ring.next_slot - 1 - slot) % len(self._ring.slots)
        return self.loads - behind

    def _take(self, tile: int) -> int | None:
        """The next slot in turn, if what it holds is not needed any more."""
        ring = self._ring
        if ring.streams[0] is not self:
            return None
        slot = ring.next_slot
        holder = ring.slots[slot]
        if holder is not None:
            if not holder.stream.is_done_with(slot):
                return None
            if holder.stream is self:
                del self._slot_of[holder.tile]
        ring.slots[slot] = _Holder(self, tile)
        ring.next_slot = (slot + 1) % len(ring.slots)
        self._slot_of[tile] = slot
        return slot

    def is_done_with(self, slot: int) -> bool:
        return self._last_use[slot] < self.fetched

    @property
    def ready(self) -> bool:
        """The tile of the next step is in TCM."""
        return bool(self.uses) and self.uses[0].load <= self.loaded

    def fetch(self) -> int:
        """The FETCH of the next step has ended; the slot that it read."""
        self.fetched += 1
        return self.uses.popleft().slot

    def let_next(self) -> None:
        """A slot may have come free for the command whose turn it is."""
        self.advance()
        ring = self._ring
        if ring.streams and ring.streams[0] is not self:
            ring.streams[0].advance()
