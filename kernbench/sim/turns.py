"""The programs that one PE runs in a launch, one after the other, and the registers that each finds set.

Does not know what a program does, nor when.
"""

from __future__ import annotations

from typing import Any

from kernbench.commands import Program
from kernbench.sim.launch_context import LaunchContext
from kernbench.sim.registers import Registers


class Turns:
    __slots__ = ("_context", "_fixed", "_ids", "_moving")

    def __init__(self, context: LaunchContext, program: Program) -> None:
        self._context = context
        self._ids = context.program_ids
        self._moving: list[tuple[int, int]] = []  # (register, axis of the program id)
        self._fixed: list[tuple[int, Any]] = []
        for name, register in program.specials:
            if name.startswith("program_id_"):
                self._moving.append((register, int(name[-1])))
            elif name.startswith("num_programs_"):
                self._fixed.append((register, context.num_programs[int(name[-1])]))
            else:
                self._fixed.append((register, context.identity[name]))
        for param, value in zip(program.params, context.arguments, strict=True):
            self._fixed.append((param.register, int(value) if isinstance(value, bool) else value))

    def __len__(self) -> int:
        return len(self._ids)

    def enter(self, turn: int, registers: Registers) -> int:
        """Set the registers for program number `turn` of this PE; its linear id."""
        linear = self._ids[turn]
        program_id = self._context.program_id(linear)
        for register, value in self._fixed:
            registers[register] = value
        for register, axis in self._moving:
            registers[register] = program_id[axis]
        return linear
