"""The last pass: an allocated Program as the binary that a device fetches.

Adds to `kernbench.binary` only what is the compiler's to check. Does not know the format.
"""

from __future__ import annotations

from kernbench import binary
from kernbench.commands import UNALLOCATED, KernelBinary, Program
from kernbench.compiler.errors import error
from kernbench.diagnostics import EXIT_KERNEL, KernBenchError

MAX_BINARY_BYTES = 1 << 24  # programs are rolled; more comes from unrolling without measure


def encode(program: Program) -> KernelBinary:
    unplaced = [buffer.name for buffer in program.buffers if buffer.address == UNALLOCATED]
    assert not unplaced, f"allocate left {unplaced} without an address"
    encoded = binary.encode(program)
    if encoded.nbytes_code > MAX_BINARY_BYTES:
        found = f"kernel `{program.name}` encodes to {encoded.nbytes_code} bytes, at most {MAX_BINARY_BYTES} are loaded"
        advice = "use `range` where `tl.static_range` unrolls"
        raise KernBenchError([error("E_BINARY_TOO_LARGE", found, help=advice)], EXIT_KERNEL)
    return encoded


def describe(encoded: KernelBinary) -> str:
    """The binary as `--dump-after=encode` and `--emit=binary` show it: sizes and bytes in rows of 16."""
    lines = [f"code {encoded.nbytes_code} bytes, debug {len(encoded.debug)} bytes"]
    for start in range(0, encoded.nbytes_code, 16):
        row = encoded.code[start : start + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<47}  {shown}")
    return "\n".join(lines) + "\n"
