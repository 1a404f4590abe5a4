"""What a PE has done of late, for those who look whether it does the same again (`laps.py`).

Notes numbers, since what a command works on may change while it is under way. Does not know what is done with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kernbench.sim.hazards import hbm_conflict

if TYPE_CHECKING:
    from kernbench.sim.pe_command import Command

Likeness = tuple[object, ...]
Conflict = tuple[int, int, bool]  # the younger command, the older one, whether they conflict in HBM
Step = tuple[int, int, bool]  # a command, and the arguments of its `redo`


class Tape:
    """Empty while it does not run."""

    __slots__ = ("conflicts", "likenesses", "path", "runs", "steps")

    def __init__(self) -> None:
        self.runs = False
        self.clear()

    def clear(self) -> None:
        self.path: list[int] = []  # the instructions of PE_CPU, by number
        self.likenesses: list[Likeness] = []  # of the commands that it dispatched
        self.conflicts: list[Conflict] = []  # of those that PE_SCHEDULER took, where nothing else decides
        self.steps: list[Step] = []  # what moved bytes or computed values

    def stop(self) -> None:
        self.runs = False
        self.clear()

    def note_step(self, number: int, step: int, last: bool) -> None:
        if self.runs:
            self.steps.append((number, step, last))

    def note_conflicts(self, command: Command, live: Iterable[Command]) -> None:
        """Note which of those under way a new command conflicts with in HBM.

        Only where one of the two stores, and they do not conflict in TCM.
        """
        for older in live:
            if (command.hbm_writes or older.hbm_writes) and not command.footprint.conflict(older.footprint):
                self.conflicts.append((command.origin.cmd, older.origin.cmd, conflict_in_hbm(command, older)))


def conflict_in_hbm(younger: Command, older: Command) -> bool:
    return bool(hbm_conflict(younger.hbm_reads, younger.hbm_writes, older.hbm_reads, older.hbm_writes))
