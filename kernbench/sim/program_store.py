"""Programs that were deployed to device memory: found there, checked, decoded once.

Knows bytes in memory and the binary format. Does not know launches or time; whether a PE has the code is
`io_cpu.py`'s business.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from kernbench.binary import BinaryError, decode
from kernbench.commands import KernelBinary, Program
from kernbench.messages import KernelRef
from kernbench.program_check import problems
from kernbench.sim.faults import DeviceFault
from kernbench.sim.memory import UNKNOWN, UNWRITTEN, MemoryMap
from kernbench.sim.routing import AddressResolver


@dataclass(frozen=True, slots=True)
class Deployed:
    """A decoded program and where its bytes are."""

    program: Program
    digest: str  # of the code and its symbols: equal for one `program` only
    code_digest: str
    node: str  # the memory that holds the code
    nbytes_code: int

    @property
    def residency(self) -> tuple[str, str]:
        """What a PE that has this code remembers."""
        return self.node, self.code_digest


class ProgramStore:
    """Programs of one device, decoded once a content.

    `symbols` are debug sections that came beside messages, by content hash; without its section a program runs
    just as well and its records name no kernel lines.
    """

    def __init__(self, memory: MemoryMap, resolver: AddressResolver) -> None:
        self._memory = memory
        self._resolver = resolver
        self._programs: dict[str, Program] = {}

    def find(self, ref: KernelRef, symbols: bytes = b"") -> Deployed:
        """The program that a launch names; a fault where it is not there or is no program."""
        if ref.kind == "builtin":
            raise DeviceFault("E_KERNEL_UNKNOWN", f"the device has no builtin kernel `{ref.name}`")
        assert ref.deploy_pa is not None, "a deployed kernel has an address"
        tag = (ref.deploy_sip, ref.deploy_cube, ref.deploy_pe)
        place = self._resolver.resolve(ref.deploy_sip, ref.deploy_pa, ref.nbytes_code, tag[1:], "hbm")
        memory = self._memory.slice(*tag)
        if ref.nbytes_code == 0 or memory.has(UNWRITTEN, place.offset, ref.nbytes_code):
            text = f"kernel `{ref.name}`: nobody wrote its {ref.nbytes_code} bytes at {ref.deploy_pa:#x}"
            raise DeviceFault("E_BINARY_NOT_DEPLOYED", text)
        if memory.has(UNKNOWN, place.offset, ref.nbytes_code):
            raise DeviceFault("E_BINARY_CORRUPT", f"kernel `{ref.name}`: a kernel stored over its code")
        code = memory.read(place.offset, ref.nbytes_code).tobytes()
        digest = hashlib.sha256(code + symbols).hexdigest()
        program = self._program(digest, code, symbols, ref.name)
        return Deployed(program, digest, hashlib.sha256(code).hexdigest(), place.node, ref.nbytes_code)

    def _program(self, digest: str, code: bytes, symbols: bytes, name: str) -> Program:
        program = self._programs.get(digest)
        if program is None:
            try:
                program = decode(KernelBinary(code, symbols))
            except BinaryError as error:
                raise DeviceFault("E_BINARY_CORRUPT", f"kernel `{name}`: {error}") from None
            for problem in problems(program):
                raise DeviceFault("E_BINARY_CORRUPT", f"kernel `{name}`: {problem}")
            self._programs[digest] = program
        if symbols and program.name != name:
            raise DeviceFault("E_KERNEL_UNKNOWN", f"kernel `{name}`: the code there is `{program.name}`")
        return program
