"""The contract between the launch components and a PE: what a PE is told to run, and what it reports.

Does not know how a launch reaches the PE or how the PE runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kernbench.commands import Program
from kernbench.diagnostics import Span
from kernbench.messages import Tag
from kernbench.sim.faults import Hint
from kernbench.sim.windows import Windows

Mode = Literal["data", "timing"]
Sanitize = Literal["warn", "error", "off"]


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """All that one PE needs to run its programs of one launch.

    `program` is one object for all PEs of a launch and for later launches of the same binary, so what is derived
    from it can be kept by identity of `digest`.
    """

    program: Program
    digest: str  # of the binary that `program` was decoded from
    windows: Windows
    arguments: tuple[int | float | bool, ...]  # one value a `program.params`: a tensor's is its logical pointer
    num_programs: tuple[int, int, int]  # the grid; without one (N, 1, 1)
    program_ids: range | tuple[int, ...]  # linear, x fastest, ascending; without a grid this PE's index in the launch
    identity: Mapping[str, int]  # pe_id cube_id sip_id pe_index num_pes num_cubes num_sips pes_per_cube
    request: int  # the request's number in the op log
    correlation_id: str
    request_id: str
    targets: tuple[Tag, ...] = ()  # of the launch; the PE of index k is `targets[k]`

    def program_id(self, linear: int) -> tuple[int, int, int]:
        x, y, _ = self.num_programs
        return linear % x, linear // x % y, linear // (x * y)


@dataclass(frozen=True, slots=True)
class PeResult:
    """How one PE's part of a launch ended.

    `exec_start_ps` is None where the kernel's body was never started. `aborted`: stopped by `Pe.abort()` and no
    failure of its own.
    """

    ok: bool
    error_code: str | None = None
    message: str = ""
    span: Span | None = None
    failed_ps: int | None = None  # when the fault happened
    exec_start_ps: int | None = None
    exec_end_ps: int | None = None
    commands: int = 0
    aborted: bool = False
    hint: Hint | None = None
