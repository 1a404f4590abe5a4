"""Paths between the routers of one cube: least latency, then fewest hops, then X before Y, then topology order.

Routers are numbers, row by row; one table serves all cubes that are alike. Does not know names, cubes or time.
"""

from __future__ import annotations

from heapq import heappop, heappush


class MeshTable:
    """`links` gives the wire of each link in ps; a path costs its wires and the overheads of the routers it enters."""

    def __init__(self, overheads: tuple[int, ...], links: dict[tuple[int, int], int], w: int) -> None:
        self._into: list[list[tuple[int, int]]] = [[] for _ in overheads]
        self._out: list[list[tuple[int, int]]] = [[] for _ in overheads]
        for (src, dst), wire in links.items():
            self._out[src].append((dst, wire + overheads[dst]))
            self._into[dst].append((src, wire + overheads[dst]))
        self._w = w
        self._costs: dict[int, list[tuple[int, int] | None]] = {}
        self._paths: dict[tuple[int, int], tuple[int, ...] | None] = {}

    def path(self, src: int, dst: int) -> tuple[int, ...] | None:
        found = self._paths.get((src, dst), ())
        if found == ():
            found = self._paths[src, dst] = self._walk(src, dst)
        return found

    def _walk(self, src: int, dst: int) -> tuple[int, ...] | None:
        costs = self._costs.get(dst)
        if costs is None:
            costs = self._costs[dst] = self._costs_to(dst)
        if costs[src] is None:
            return None
        walked = [src]
        while walked[-1] != dst:
            walked.append(self._next(walked[-1], costs))
        return tuple(walked)

    def _next(self, here: int, costs: list[tuple[int, int] | None]) -> int:
        """Among the neighbours on a best path: X before Y, then topology order."""
        best: tuple[int, int] | None = None
        for there, cost in self._out[here]:
            rest, mine = costs[there], costs[here]
            if rest is None or mine is None or (rest[0] + cost, rest[1] + 1) != mine:
                continue
            step = (int(there // self._w != here // self._w), there)
            best = step if best is None else min(best, step)
        assert best is not None, "a router on a best path has a next one"
        return best[1]

    def _costs_to(self, dst: int) -> list[tuple[int, int] | None]:
        costs: list[tuple[int, int] | None] = [None] * len(self._out)
        heap = [(0, 0, dst)]
        while heap:
            latency, hops, here = heappop(heap)
            if costs[here] is not None:
                continue
            costs[here] = (latency, hops)
            for there, cost in self._into[here]:
                if costs[there] is None:
                    heappush(heap, (latency + cost, hops + 1, there))
        return costs
