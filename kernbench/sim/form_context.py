"""What all templates of one program are prepared with. Made once a program and device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernbench.diagnostics import Span
from kernbench.dtypes import DType
from kernbench.sim.hazards import Footprints
from kernbench.sim.op_log import OpLog
from kernbench.sim.registers import Taint
from kernbench.sim.topology_schema import PeSpec


@dataclass(frozen=True, slots=True)
class FormContext:
    taint: Taint
    footprints: Footprints
    dtypes: Sequence[DType]  # of the registers
    log: OpLog
    spec: PeSpec
    computes: bool  # data mode

    def place(self, span: Span | None) -> int:
        """A place in the kernel, as a number of the log."""
        return self.log.intern("" if span is None else str(span))
