"""Max-min fair rates of flows that share bandwidth pools, as exact fractions.

All flows rise together until a pool is full; its flows stay there, and the others rise on. The result is unique, so
whatever way leads to it gives the same fractions: floats only say which pools to look at next, and where two of them
are close the exact fractions decide.

Does not know time, bytes or what a pool is.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush

Weight = int | Fraction
Rate = tuple[int, int]  # numerator, denominator
Row = tuple[int, Sequence[tuple[int, Weight]]]  # a pool: what it can carry, and (class, what a unit of its rate takes)

_CLOSE = 1.0 + 1e-9  # far above what the float sums below can be off, far below what matters


class Filler:
    """Pools and the classes on them, made once; `rates` for any numbers of flows.

    Pools with equal members are merged, and a pool is left out where another with all its members is never wider:
    neither can change a result, whatever the numbers of flows.
    """

    def __init__(self, rows: Sequence[Row], class_count: int) -> None:
        self.rows = _binding_rows(rows, class_count)
        self.pools_of: list[list[tuple[int, Weight]]] = [[] for _ in range(class_count)]
        for index, (_, members) in enumerate(self.rows):
            for member, weight in members:
                self.pools_of[member].append((index, weight))

    def rates(self, counts: Sequence[int]) -> list[Rate]:
        """The rate of each class with `counts[c]` flows in class c; (0, 1) for a class without any."""
        filling = _Filling(self, counts)
        while filling.heap:
            filling.step()
        ratios = [level.as_integer_ratio() for level in filling.levels]
        return [ratios[level] if level >= 0 else (0, 1) for level in filling.level_of]


class _Filling:
    """Pools by rising share. `parts[j]` is what settled classes take of pool `j`, by their level; `open[j]` what the
    others take of it per unit of rate. `left` and `load` are the same in floats."""

    def __init__(self, filler: Filler, counts: Sequence[int]) -> None:
        self.rows, self.pools_of, self.counts = filler.rows, filler.pools_of, counts
        self.levels: list[Fraction] = []
        self.level_of = [-1] * len(counts)
        self.parts: list[dict[int, Weight] | None] = [None] * len(self.rows)
        self.open: list[Weight] = [sum([counts[c] * weight for c, weight in members]) for _, members in self.rows]
        self.left = [float(cap) for cap, _ in self.rows]
        self.share = [left / float(load) if load else 0.0 for left, load in zip(self.left, self.open, strict=True)]
        self.heap = [(share, index) for index, share in enumerate(self.share) if share]
        heapify(self.heap)

    def step(self) -> None:
        """Settle the classes of all pools whose exact share is the least."""
        first = self._pop(float("inf"))
        if first is None:
            return
        near, limit = [first], self.share[first] * _CLOSE
        while (other := self._pop(limit)) is not None:
            near.append(other)
        exact = [self._exact_share(index) for index in near]
        least = min(exact)
        self.levels.append(least)
        touched: set[int] = set()
        for index, share in zip(near, exact, strict=True):
            if share == least:
                self._settle(index, touched)
            else:
                touched.add(index)
        for index in sorted(touched):
            load = self.open[index]
            if load:
                self.share[index] = share_now = self.left[index] / float(load)
                heappush(self.heap, (share_now, index))

    def _pop(self, limit: float) -> int | None:
        """The pool of least share up to `limit`; entries that have been replaced are dropped on the way."""
        heap = self.heap
        while heap and heap[0][0] <= limit:
            share, index = heappop(heap)
            if self.open[index] and share == self.share[index]:
                return index
        return None

    def _exact_share(self, index: int) -> Fraction:
        taken: Weight = 0
        for level, load in (self.parts[index] or {}).items():
            taken += self.levels[level] * load
        return Fraction(self.rows[index][0] - taken) / self.open[index]

    def _settle(self, index: int, touched: set[int]) -> None:
        level = len(self.levels) - 1
        rate = float(self.levels[level])
        for member, _ in self.rows[index][1]:
            count = self.counts[member]
            if self.level_of[member] >= 0 or not count:
                continue
            self.level_of[member] = level
            for other, weight in self.pools_of[member]:
                load = count * weight
                parts = self.parts[other]
                if parts is None:
                    parts = self.parts[other] = {}
                parts[level] = parts.get(level, 0) + load
                self.open[other] -= load
                self.left[other] -= rate * float(load)
                touched.add(other)


def _binding_rows(rows: Sequence[Row], class_count: int) -> list[Row]:
    """The rows without those that can never decide anything."""
    narrowest: dict[tuple[tuple[int, Weight], ...], int] = {}
    for cap, members in rows:
        key = tuple(sorted(members, key=lambda member: member[0]))
        narrowest[key] = min(cap, narrowest.get(key, cap))
    merged = [(cap, dict(key)) for key, cap in narrowest.items()]
    rows_of: list[list[int]] = [[] for _ in range(class_count)]
    for index, (_, weights) in enumerate(merged):
        for member in weights:
            rows_of[member].append(index)
    return [
        (cap, tuple(weights.items()))
        for index, (cap, weights) in enumerate(merged)
        if not any(_implies(merged[other], (cap, weights)) for other in _rivals(index, weights, rows_of))
    ]


def _rivals(index: int, weights: dict[int, Weight], rows_of: list[list[int]]) -> list[int]:
    """The other rows that hold the row's least used member: no others can have all its members."""
    return [other for other in min((rows_of[member] for member in weights), key=len) if other != index]


def _implies(wide: tuple[int, dict[int, Weight]], narrow: tuple[int, dict[int, Weight]]) -> bool:
    """Whether whatever fits in `wide` fits in `narrow`, which has some of its members."""
    (cap, all_of), (own_cap, some_of) = wide, narrow
    if cap > own_cap or len(all_of) <= len(some_of):
        return False
    return all(weight <= all_of.get(member, 0) for member, weight in some_of.items())
