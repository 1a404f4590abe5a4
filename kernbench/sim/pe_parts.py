"""The engines and stores of one PE, as a command sees them.

Does not know commands: they know it.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernbench.sim.clock import Clock
from kernbench.sim.engines.pe_dma import PeDma
from kernbench.sim.engines.pe_gemm import PeGemm, StorePort
from kernbench.sim.engines.pe_ipcq import PeIpcq
from kernbench.sim.engines.pe_math import PeMath
from kernbench.sim.memory import MemoryMap
from kernbench.sim.sanitizer import Sanitizer
from kernbench.sim.tape import Tape
from kernbench.sim.tcm import Tcm


@dataclass(frozen=True, slots=True)
class PeParts:
    """`computes`: data mode, in which every command moves values; else only static ones do."""

    clock: Clock
    dma: PeDma
    math: PeMath
    gemm: PeGemm
    store: StorePort
    ipcq: PeIpcq
    tcm: Tcm
    memory: MemoryMap
    sanitizer: Sanitizer
    computes: bool
    tape: Tape
