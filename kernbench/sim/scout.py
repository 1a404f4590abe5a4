"""Reads a program ahead of PE_CPU: the same instructions on registers of its own, whose commands go to nobody.

Knows what an instruction asks of PE_CPU while it asks nothing of the rest of the PE. Does not know time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernbench.sim.faults import DeviceFault
from kernbench.sim.pe_code import SUSPEND, ReadableAhead
from kernbench.sim.pe_command import Command, RepeatedCommand

if TYPE_CHECKING:
    from kernbench.sim.pe_cpu import PeCpu


class Scout:
    """Starts where PE_CPU is."""

    __slots__ = (
        "_before", "_made", "_turns", "is_far_ahead", "may_repeat", "number", "parts", "program", "registers",
        "request", "rings", "scalar_src", "turn", "windows",
    )  # fmt: skip

    def __init__(self, cpu: PeCpu) -> None:
        self.parts, self.windows, self.rings, self.request = cpu.parts, cpu.windows, cpu.rings, cpu.request
        self.registers = list(cpu.registers)
        self.program, self.number, self.scalar_src = cpu.program, cpu.number, cpu.scalar_src
        self.turn, self._turns = cpu.turn, cpu.turns
        self.may_repeat = False
        self.is_far_ahead = False  # what it reads ahead takes no time
        self._made: list[RepeatedCommand] = []

    def go(
        self, instructions: Sequence[ReadableAhead], path: Sequence[int], after: int
    ) -> list[RepeatedCommand] | None:
        """The commands of this way through the program, after which instruction `after` is next.

        None where the program goes another way or meets a fault.
        """
        self._before = list(self.registers), self.program, self.number, self.turn, self.scalar_src
        self._made = []
        return self._made if self._goes(instructions, path, after) else None

    @property
    def tried(self) -> int:
        """How many commands the last way took."""
        return len(self._made)

    def go_back(self) -> None:
        """Forget the last way."""
        self.registers, self.program, self.number, self.turn, self.scalar_src = self._before

    def lead(self, cpu: PeCpu) -> None:
        """Let PE_CPU be where this is."""
        cpu.commands += self.number - cpu.number
        cpu.registers, cpu.program, cpu.number, cpu.turn = self.registers, self.program, self.number, self.turn
        cpu.scalar_src = self.scalar_src
        cpu.meet_clock()

    def _goes(self, instructions: Sequence[ReadableAhead], path: Sequence[int], after: int) -> bool:
        at = path[0]
        try:
            for here in path:
                if at != here:
                    return False
                at = instructions[here].step(self)
        except DeviceFault:
            return False
        return at == after

    # ----------------------------------------------------------------- what instructions ask

    def scalar(self, src_id: int) -> None:
        """The lap's records have it; where PE_CPU is then, it must know itself."""
        self.scalar_src = src_id

    def pause(self, at: int) -> int:
        return at

    def next_program(self) -> int:
        if self.turn == len(self._turns):
            return SUSPEND
        self.program = self._turns.enter(self.turn, self.registers)
        self.turn += 1
        return 0

    def take_number(self) -> int:
        number = self.number
        self.number = number + 1
        return number

    def dispatch(self, command: Command, cost_ps: int, name_id: int, nbytes: int, params_id: int, after: int) -> int:
        assert isinstance(command, RepeatedCommand)
        self._made.append(command)
        return after
