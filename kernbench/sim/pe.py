"""One processing element: the face that the launch components see of its CPU, scheduler, engines and scratchpad.

Knows how the parts are joined. Does not know what a program says or how a launch got here.
"""

from __future__ import annotations

from collections.abc import Callable

from kernbench.sim.launch_context import LaunchContext, PeResult
from kernbench.sim.pe_services import PeServices

Done = Callable[[PeResult], None]


class Pe:
    """PE `pe` of cube `cube` of package `sip`.

    `launch` is called when the launch message has arrived at `pe_cpu` and the PE is idle. The body starts at
    `target_start_ps`, or at once where that is None; `done` is called once, when the last command is complete.
    `abort` makes the PE stop at its next command; stages in flight finish, and `done` is called all the same.
    """

    def __init__(self, services: PeServices, sip: int, cube: int, pe: int) -> None:
        self.place = (sip, cube, pe)
        self.prefix = f"sip{sip}.cube{cube}.pe{pe}"
        self.services = services

    @property
    def idle(self) -> bool:
        return True

    def launch(self, context: LaunchContext, target_start_ps: int | None, done: Done) -> None:
        raise AssertionError("not wired yet")

    def abort(self) -> None:
        """Stop at the next command."""

    def busy_ps(self) -> dict[str, int]:
        """Picoseconds in which each engine was at work, by engine name."""
        return {}
