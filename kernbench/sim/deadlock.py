"""Who waits for whom: the register that explains a device that has stopped.

A component registers what it waits for while it waits; idle servers do not. Knows names and places in kernels.
Does not know how anyone waits.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernbench.diagnostics import Span
from kernbench.sim.faults import DeviceFault


@dataclass(frozen=True, slots=True)
class Waiter:
    """One who waits: `who` is a node, `what` completes "waits for …"."""

    topology_index: int
    who: str
    what: str
    span: Span | None = None
    request: int = 0

    def __str__(self) -> str:
        place = f" at {self.span}" if self.span is not None else ""
        return f"{self.who} waits for {self.what}{place}"


class WaitRegistry:
    """The waits of one device, in order of registration; `add` gives the ticket that `remove` takes back."""

    def __init__(self) -> None:
        self._waiters: dict[int, Waiter] = {}
        self._next = 0

    def add(self, waiter: Waiter) -> int:
        self._next += 1
        self._waiters[self._next] = waiter
        return self._next

    def remove(self, ticket: int) -> None:
        del self._waiters[ticket]

    def __len__(self) -> int:
        return len(self._waiters)

    def waiters(self, request: int | None = None) -> list[Waiter]:
        """Everyone who waits (for one request), in topology order."""
        found = [w for w in self._waiters.values() if request is None or w.request == request]
        return sorted(found, key=lambda waiter: (waiter.topology_index, waiter.what))

    def deadlock(self, request: int | None = None) -> DeviceFault:
        """The fault of a device that stands still: every waiter, what it waits for, and its kernel line."""
        waiters = self.waiters(request)
        if not waiters:
            text = "nothing is left to happen and the request is not complete; nobody registered a wait"
            return DeviceFault("E_DEADLOCK", text)
        first, *others = waiters
        text = f"nothing is left to happen and {len(waiters)} wait: {first.who} waits for {first.what}"
        return DeviceFault("E_DEADLOCK", text, first.span, tuple(str(waiter) for waiter in others))

    def report(self, request: int | None = None) -> str:
        """The same as one text."""
        return self.deadlock(request).told
