"""A device fault: what a kernel or a message makes the device refuse, with its place in the kernel.

A fault is a result, carried up to the host as a failed completion. Does not know who raises or catches it.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernbench.diagnostics import Span
from kernbench.sim.errors import ERRORS


@dataclass
class DeviceFault(Exception):
    """Raised where the device meets something it cannot do; caught by the component that runs the work."""

    code: str  # of `sim.errors.ERRORS`
    message: str
    span: Span | None = None

    def __post_init__(self) -> None:
        assert self.code in ERRORS, f"{self.code} is not in the table of simulator errors"

    def __str__(self) -> str:
        return self.message
