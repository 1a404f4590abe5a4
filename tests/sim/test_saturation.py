"""Max-min fair rates on a mesh with XY routing against the published saturation points of such meshes.

One flit a cycle a link, injection and ejection links too. The least rate of a pattern times the flows that a node
sends is its saturation: for uniform traffic the load of the middle links gives 15/16 on 4 x 4 and 31.5/64 on 8 x 8
(the channel load bound of Dally and Towles, Principles and Practices of Interconnection Networks, with no node
sending to itself).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest

from tests.sim.test_filling import Filled

Pattern = Callable[[int, int, int], list[tuple[int, int]]]


def xy_links(src: tuple[int, int], dst: tuple[int, int]) -> Iterator[tuple[object, object]]:
    (x, y), (u, v) = src, dst
    yield "in", src
    while x != u:
        step = 1 if u > x else -1
        yield (x, y), (x + step, y)
        x += step
    while y != v:
        step = 1 if v > y else -1
        yield (x, y), (x, y + step)
        y += step
    yield dst, "out"


def uniform(k: int, x: int, y: int) -> list[tuple[int, int]]:
    return [(u, v) for v in range(k) for u in range(k)]


def transpose(k: int, x: int, y: int) -> list[tuple[int, int]]:
    return [(y, x)]


def bit_complement(k: int, x: int, y: int) -> list[tuple[int, int]]:
    return [(k - 1 - x, k - 1 - y)]


def corner(k: int, x: int, y: int) -> list[tuple[int, int]]:
    return [(0, 0)]


def saturation(k: int, pattern: Pattern) -> Fraction:
    """Flits a node a cycle at which the slowest flow of the pattern is served."""
    pairs = [((x, y), to) for y in range(k) for x in range(k) for to in pattern(k, x, y) if to != (x, y)]
    links: dict[object, list[tuple[int, int | Fraction]]] = {}
    for number, (src, dst) in enumerate(pairs):
        for link in xy_links(src, dst):
            links.setdefault(link, []).append((number, 1))
    rates = Filled([(1, members) for members in links.values()], len(pairs)).rates([1] * len(pairs))
    sent = max(sum(1 for src, _ in pairs if src == (x, y)) for y in range(k) for x in range(k))
    return min(Fraction(*rate) for rate in rates) * sent


@pytest.mark.parametrize(
    ("pattern", "small", "large"),
    [
        (uniform, Fraction(15, 16), Fraction(63, 128)),
        (transpose, Fraction(1, 3), Fraction(1, 7)),
        (bit_complement, Fraction(1, 2), Fraction(1, 4)),
        (corner, Fraction(1, 15), Fraction(1, 63)),
    ],
)
def test_the_least_rate_is_the_saturation_of_the_mesh(pattern: Pattern, small: Fraction, large: Fraction) -> None:
    assert small == saturation(4, pattern)
    assert large == saturation(8, pattern)
