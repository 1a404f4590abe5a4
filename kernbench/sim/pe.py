"""One processing element: the face that the launch components see of its CPU, scheduler, engines and scratchpad.

Knows how the parts are joined. Does not know what a program says or how a launch got here.
"""

from __future__ import annotations

from collections.abc import Callable

from kernbench.commands import walk
from kernbench.sim.access_eval import Place
from kernbench.sim.engines.pe_dma import PeDma
from kernbench.sim.engines.pe_gemm import PeGemm, StorePort
from kernbench.sim.engines.pe_ipcq import PeIpcq, name_of
from kernbench.sim.engines.pe_math import PeMath
from kernbench.sim.faults import DeviceFault
from kernbench.sim.form_context import FormContext
from kernbench.sim.hazards import Footprints
from kernbench.sim.launch_context import LaunchContext, PeResult
from kernbench.sim.pe_code import Code
from kernbench.sim.pe_cpu import PeCpu
from kernbench.sim.pe_issue import make_command
from kernbench.sim.pe_parts import PeParts
from kernbench.sim.pe_scheduler import PeScheduler
from kernbench.sim.pe_services import PeServices
from kernbench.sim.registers import Taint
from kernbench.sim.tape import Tape
from kernbench.sim.tcm import Tcm

Done = Callable[[PeResult], None]


class Pe:
    """PE `pe` of cube `cube` of package `sip`.

    `launch` is called when the launch message has arrived at `pe_cpu` and the PE is idle. The body starts at
    `target_start_ps`, or at once where that is None; `done` is called once, when the last command is complete.
    `abort` makes the PE stop at its next command; stages in flight finish, and `done` is called all the same.
    """

    def __init__(self, services: PeServices, sip: int, cube: int, pe: int) -> None:
        self.place = (sip, cube, pe)
        self.services = services
        prefix = f"sip{sip}.cube{cube}.pe{pe}"
        self.tcm = Tcm(services.spec.tcm.capacity_bytes)
        self._parts = _make_parts(services, self.place, self.tcm)
        self._cpu = PeCpu(services, f"{prefix}.pe_cpu", self._parts)
        index = services.node_index[f"{prefix}.pe_scheduler"]
        self._cpu.scheduler = PeScheduler(services.clock, index, services.spec, self._parts, self._cpu)
        self._parts.ipcq.on_change = self._cpu.changed

    @property
    def idle(self) -> bool:
        return self._cpu.idle

    @property
    def whereabouts(self) -> str:
        """Where its program is, for people; empty where that is not known."""
        return f"{self._cpu.node} is at {self._cpu.place}" if self._cpu.place else ""

    @property
    def commands(self) -> int:
        """Commands dispatched so far, in all launches."""
        return self._cpu.commands

    def launch(self, context: LaunchContext, target_start_ps: int | None, done: Done) -> None:
        self._cpu.launch(context, lambda: self._code(context), target_start_ps, done)

    def abort(self) -> None:
        """Stop at the next command."""
        self._cpu.abort()

    def busy_ps(self) -> dict[str, int]:
        """Picoseconds in which each engine was at work, by engine name."""
        parts = self._parts
        return {
            "dispatch": self._cpu.busy_ps,
            "dma_read": parts.dma.read.busy_ps,
            "dma_write": parts.dma.write.busy_ps,
            "fetch": parts.gemm.fetch_busy_ps,
            "gemm": parts.gemm.busy_ps,
            "math": parts.math.busy_ps,
            "store": parts.store.busy_ps,
            "send": parts.ipcq.sends.busy_ps,
            "recv": parts.ipcq.busy_ps,
        }

    def _code(self, context: LaunchContext) -> Code:
        """The program ready to run; the first PE that needs it makes it for all alike."""
        services = self.services
        code: Code | None = services.codes.get(context.digest)
        if code is None:
            code = services.codes[context.digest] = prepare(services, context)
        return code


def prepare(services: PeServices, context: LaunchContext) -> Code:
    program = context.program
    capacity = services.spec.tcm.capacity_bytes
    if program.tcm_bytes > capacity:
        text = f"the kernel needs {program.tcm_bytes} bytes of TCM, a PE has {capacity}"
        raise DeviceFault("E_TCM_BOUNDS", text, next(filter(None, (node.span for node in walk(program.body))), None))
    computes = services.mode == "data"
    forms = FormContext(
        Taint(program, computes), Footprints(), program.register_dtypes, services.log, services.spec, computes
    )
    return Code(program, forms, make_command)


def _make_parts(services: PeServices, place: Place, tcm: Tcm) -> PeParts:
    prefix = name_of(place)
    clock, log, index = services.clock, services.log, services.node_index
    dma, gemm, math = (f"{prefix}.{name}" for name in ("pe_dma", "pe_gemm", "pe_math"))
    tcm_index = index[f"{prefix}.tcm"]
    ipcq = services.queues[place] = PeIpcq(
        place, services.spec.pe_ipcq, services.router, clock, services.network, log, index[f"{prefix}.pe_ipcq"],
        services.queues,
    )  # fmt: skip
    return PeParts(
        clock=clock,
        dma=PeDma(dma, services.spec.pe_dma, services.router, clock, services.network, log, index[dma]),
        math=PeMath(clock, log, index[math]),
        gemm=PeGemm(clock, log, index[gemm], tcm_index),
        store=StorePort(clock, log, tcm_index),
        ipcq=ipcq,
        tcm=tcm,
        memory=services.memory,
        sanitizer=services.sanitizer,
        computes=services.mode == "data",
        tape=Tape(),
    )
