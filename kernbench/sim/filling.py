"""Max-min fair rates of flows that share bandwidth pools, as exact fractions.

All flows rise together until a pool is full; its flows stay there, and the others rise on. The result is unique, so
whatever way leads to it gives the same fractions: floats only say which pools to look at next, and where two of them
are close the exact fractions decide.

Does not know time, bytes or what a pool is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush

Weight = int | Fraction
Rate = tuple[int, int]  # numerator, denominator

_CLOSE = 1.0 + 1e-9  # far above what the float sums below can be off, far below what matters


@dataclass(slots=True)
class PoolLoad:
    """One pool: what it can carry, and (class, what that class takes of it per unit of rate)."""

    capacity: int
    loads: Sequence[tuple[int, Weight]]


def fill(pools: Sequence[PoolLoad], class_count: int) -> list[Rate]:
    """The rate of each class; every class draws on at least one pool."""
    state = _Filling(pools, class_count)
    while state.heap:
        state.step()
    return [state.levels[level].as_integer_ratio() for level in state.level_of]


class _Filling:
    """Pools by rising share. `parts[j]` is what already settled classes take of pool `j`, by their level."""

    def __init__(self, pools: Sequence[PoolLoad], class_count: int) -> None:
        self.pools = pools
        self.levels: list[Fraction] = []
        self.level_of = [-1] * class_count
        self.pools_of: list[list[tuple[int, Weight]]] = [[] for _ in range(class_count)]
        for index, pool in enumerate(pools):
            for member, load in pool.loads:
                self.pools_of[member].append((index, load))
        self.parts: list[dict[int, Weight]] = [{} for _ in pools]
        self.unsettled = [len(pool.loads) for pool in pools]
        self.left = [float(pool.capacity) for pool in pools]
        self.load = [float(sum(load for _, load in pool.loads)) for pool in pools]
        self.share = [left / load for left, load in zip(self.left, self.load, strict=True)]
        self.heap = [(share, index) for index, share in enumerate(self.share)]
        heapify(self.heap)

    def step(self) -> None:
        """Settle the classes of all pools whose exact share is the least."""
        first = self._pop(float("inf"))
        if first is None:
            return
        near = [first]
        while (other := self._pop(self.share[first] * _CLOSE)) is not None:
            near.append(other)
        exact = [self._exact_share(index) for index in near]
        least = min(exact)
        self.levels.append(least)
        touched: dict[int, None] = {}
        for index, share in zip(near, exact, strict=True):
            if share == least:
                self._settle(index, touched)
            else:
                touched[index] = None
        for index in touched:
            self._push(index)

    def _pop(self, limit: float) -> int | None:
        """The pool of least share up to `limit`; entries that have been replaced are dropped on the way."""
        heap = self.heap
        while heap and heap[0][0] <= limit:
            share, index = heappop(heap)
            if self.unsettled[index] and share == self.share[index]:
                return index
        return None

    def _push(self, index: int) -> None:
        if self.unsettled[index]:
            self.share[index] = self.left[index] / self.load[index]
            heappush(self.heap, (self.share[index], index))

    def _exact_share(self, index: int) -> Fraction:
        pool, parts = self.pools[index], self.parts[index]
        if not parts:
            return Fraction(pool.capacity) / sum(load for _, load in pool.loads)
        taken = sum((self.levels[level] * load for level, load in parts.items()), start=Fraction(0))
        unsettled = sum(load for member, load in pool.loads if self.level_of[member] < 0)
        return (pool.capacity - taken) / unsettled

    def _settle(self, index: int, touched: dict[int, None]) -> None:
        level = len(self.levels) - 1
        rate = float(self.levels[level])
        for member, _ in self.pools[index].loads:
            if self.level_of[member] >= 0:
                continue
            self.level_of[member] = level
            for other, load in self.pools_of[member]:
                parts = self.parts[other]
                parts[level] = parts.get(level, 0) + load
                self.unsettled[other] -= 1
                self.left[other] -= rate * float(load)
                self.load[other] -= float(load)
                touched[other] = None
