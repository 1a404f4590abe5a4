"""Which PEs are taken: launches wait here until all their PEs are idle, first come first served.

A waiting launch keeps its PEs for itself against later ones, so none starves; launches that share no PE do not wait
for each other. Does not know what a launch does with its PEs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kernbench.messages import Tag
from kernbench.sim.clock import Clock


@dataclass(frozen=True, slots=True)
class _Claim:
    arrived_ps: int
    order: tuple[int, int]  # topology index of the IO_CPU, number of the request
    tags: tuple[Tag, ...]
    granted: Callable[[], None]

    @property
    def sort_key(self) -> tuple[int, tuple[int, int]]:
        return self.arrived_ps, self.order


class PePool:
    """The PEs of one device. Claims of one instant are decided together, so their order of arrival in it is ours."""

    topology_index = -1  # decides before every component

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken: set[Tag] = set()
        self._claims: list[_Claim] = []

    def claim(self, order: tuple[int, int], tags: Iterable[Tag], granted: Callable[[], None]) -> None:
        """Call `granted()` once all the PEs are this claim's alone, in this instant at the earliest."""
        self._claims.append(_Claim(self._clock.now, order, tuple(tags), granted))
        self._clock.defer(self)

    def release(self, tags: Iterable[Tag]) -> None:
        self._taken.difference_update(tags)
        if self._claims:
            self._clock.defer(self)

    @property
    def idle(self) -> bool:
        return not self._taken and not self._claims

    def decide(self) -> None:
        reserved: set[Tag] = set()
        waiting: list[_Claim] = []
        granted: list[_Claim] = []
        for claim in sorted(self._claims, key=lambda c: c.sort_key):
            if self._taken.isdisjoint(claim.tags) and reserved.isdisjoint(claim.tags):
                self._taken.update(claim.tags)
                granted.append(claim)
            else:
                reserved.update(claim.tags)
                waiting.append(claim)
        self._claims = waiting
        for claim in granted:
            claim.granted()
