"""What a PE has done of late, for those who look whether it does the same again (`laps.py`).

Does not know what is done with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernbench.sim.pe_command import Command


class Tape:
    """Empty while it does not run."""

    __slots__ = ("made", "path", "runs", "steps", "taken")

    def __init__(self) -> None:
        self.runs = False
        self.clear()

    def clear(self) -> None:
        self.path: list[int] = []  # the instructions of PE_CPU, by number
        self.made: list[Command] = []  # the commands that PE_CPU dispatched
        self.taken: list[tuple[Command, tuple[Command, ...]]] = []  # by PE_SCHEDULER, with those not complete then
        self.steps: list[tuple[Command, int, bool]] = []  # what moved bytes or computed values: `Command.redo` again

    def stop(self) -> None:
        self.runs = False
        self.clear()
