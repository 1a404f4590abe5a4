"""Which commands of a PE must wait for which: overlaps of the bytes that they read and write.

Ranges in TCM are the same at every dispatch of a template but for rotating buffers, so a `Footprint` is made once
for each set of addresses, and whether two of them conflict is looked up after the first time. What is touched in
HBM is compared each time. Does not know what commands do, nor when they issue.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntFlag

from kernbench.sim.access_eval import Part

Range = tuple[int, int]  # first byte, one past the last


class Hazard(IntFlag):
    """How a younger command conflicts with an older one."""

    NONE = 0
    RAW = 1  # it reads what the older one writes
    WAR = 2  # it writes what the older one reads
    WAW = 4


class Footprint:
    """What a command touches in TCM. `rings`: tile rings, whose slots order their own users."""

    __slots__ = ("conflicts", "index", "reads", "rings", "writes")

    def __init__(self, index: int, reads: tuple[Range, ...], writes: tuple[Range, ...], rings: tuple[Range, ...]):
        self.index = index
        self.reads = reads
        self.writes = writes
        self.rings = rings
        self.conflicts: dict[Footprint, Hazard] = {}  # with older commands, those met so far

    def conflict(self, older: Footprint) -> Hazard:
        """How a younger command with this footprint conflicts with an older one."""
        found = self.conflicts.get(older)
        if found is None:
            found = self.conflicts[older] = _tcm_conflict(self, older)
        return found


class Footprints:
    """The footprints of one program: one object for equal ones, which knows those it conflicts with."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[Range, ...], tuple[Range, ...], tuple[Range, ...]], Footprint] = {}

    def make(self, reads: Iterable[Range], writes: Iterable[Range], rings: Iterable[Range] = ()) -> Footprint:
        key = (merged(reads), merged(writes), merged(rings))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Footprint(len(self._known), *key)
        return found


def merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Sorted ranges, touching ones joined, empty ones dropped."""
    joined: list[Range] = []
    for low, high in sorted(r for r in ranges if r[1] > r[0]):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return tuple(joined)


def overlap(a: Sequence[Range], b: Sequence[Range]) -> bool:
    return any(low < other_high and other_low < high for low, high in a for other_low, other_high in b)


def _tcm_conflict(younger: Footprint, older: Footprint) -> Hazard:
    found = Hazard.NONE
    if overlap(younger.reads, older.writes):
        found |= Hazard.RAW
    if overlap(younger.writes, older.reads):
        found |= Hazard.WAR
    if overlap(younger.writes, older.writes):
        found |= Hazard.WAW
    # A ring is written and read. Two commands with one ring share its slots; any other overlap is reuse of memory.
    own = [ring for ring in younger.rings if ring not in older.rings]
    theirs = [ring for ring in older.rings if ring not in younger.rings]
    if overlap(own, (*older.reads, *older.writes)) or overlap(own, theirs):
        found |= Hazard.WAR
    if overlap(younger.reads, theirs) or overlap(younger.writes, theirs):
        found |= Hazard.WAW
    return found


def parts_overlap(a: Sequence[Part], b: Sequence[Part]) -> bool:
    return any(x.overlaps(y) for x in a for y in b)


def hbm_conflict(
    younger_reads: Sequence[Part], younger_writes: Sequence[Part], older_reads: Sequence[Part],
    older_writes: Sequence[Part],
) -> Hazard:  # fmt: skip
    found = Hazard.NONE
    if older_writes and younger_reads and parts_overlap(younger_reads, older_writes):
        found |= Hazard.RAW
    if younger_writes and older_reads and parts_overlap(younger_writes, older_reads):
        found |= Hazard.WAR
    if younger_writes and older_writes and parts_overlap(younger_writes, older_writes):
        found |= Hazard.WAW
    return found
