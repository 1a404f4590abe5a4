"""A device fault: what a kernel or a message makes the device refuse, with its place in the kernel.

A fault is a result, carried up to the host as a failed completion. Does not know who raises or catches it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kernbench.diagnostics import Span
from kernbench.sim.errors import ERRORS


class Hint(NamedTuple):
    """What the kernel's writer reads beside the message: at the place itself, and what to do."""

    label: str
    help: str


@dataclass
class DeviceFault(Exception):
    """Raised where the device meets something it cannot do; caught by the component that runs the work."""

    code: str  # of `sim.errors.ERRORS`
    message: str
    span: Span | None = None
    more: tuple[str, ...] = ()  # further failures of the same launch, each with its own place
    hint: Hint | None = None

    def __post_init__(self) -> None:
        assert self.code in ERRORS, f"{self.code} is not in the table of simulator errors"

    @property
    def told(self) -> str:
        """Everything in one text, for those who do not see the span."""
        first = self.message if self.span is None else f"{self.message} at {self.span}"
        return "; ".join([first, *self.more])

    def __str__(self) -> str:
        return self.told
