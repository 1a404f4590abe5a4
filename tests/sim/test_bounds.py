"""How an access that leaves its tensor is told: worked by hand, and against the indices of every lane."""

from __future__ import annotations

import itertools

import pytest

from kernbench.sim.bounds import Axis, overrun


@pytest.mark.parametrize(
    ("shape", "first", "axes", "text", "mask"),
    [
        ((50,), 48, [(1, 16)], "dimension 0 of [50] is left at index 63, 14 beyond its last", "index < 50"),
        ((50,), -1, [(1, 4)], "dimension 0 of [50] is left at index -1, 1 before its first", "index >= 0"),
        ((50,), 4, [(-2, 4)], "dimension 0 of [50] is left at index -2, 2 before its first", "index >= 0"),
        ((50,), 99, [], "dimension 0 of [50] is left at index 99, 50 beyond its last", "index < 50"),
        # a block of 4 × 8 over a matrix of 10 × 5: rows 8 to 11, then columns 0 to 7
        ((10, 5), 40, [(5, 4), (1, 5)], "dimension 0 of [10, 5] is left at index 11, 2 beyond its last", "index < 10"),
        ((10, 5), 40, [(5, 2), (1, 8)], "dimension 1 of [10, 5] is left at index 7, 3 beyond its last", "index < 5"),
        ((10, 5), 45, [(1, 8)], "dimension 1 of [10, 5] is left at index 7, 3 beyond its last", "index < 5"),
        # transposed sides, and a third dimension
        ((10, 5), 40, [(1, 5), (5, 4)], "dimension 0 of [10, 5] is left at index 11, 2 beyond its last", "index < 10"),
        (
            (2, 3, 4),
            12,
            [(4, 5), (1, 4)],
            "dimension 1 of [2, 3, 4] is left at index 4, 2 beyond its last",
            "index < 3",
        ),
        # elements in their order, from within a row on; a stride that fits no dimension
        (
            (10, 5),
            48,
            [(1, 16)],
            "the tensor of shape [10, 5] is left at element 63, 14 beyond its last",
            "element < 50",
        ),
        ((10, 5), 0, [(7, 9)], "the tensor of shape [10, 5] is left at element 56, 7 beyond its last", "element < 50"),
    ],
)
def test_what_is_told(shape: tuple[int, ...], first: int, axes: list[tuple[int, int]], text: str, mask: str) -> None:
    found = overrun(shape, first, [Axis(*axis) for axis in axes])

    assert (text, f"give a `mask` that lets only lanes of {mask} pass") == (found.text, found.help)


@pytest.mark.parametrize("first", [-3, 0, 11, 19, 25])
def test_the_mask_that_is_advised_stops_lanes_and_the_figure_is_theirs(first: int) -> None:
    """Over a 4 × 5 tensor, sides of any extent along rows and columns that leave it."""
    for rows, columns in itertools.product((1, 2, 5), repeat=2):
        lanes = [first + 5 * r + c for r, c in itertools.product(range(rows), range(columns))]
        if 0 <= min(lanes) and max(lanes) < 20:
            continue
        found = overrun((4, 5), first, [axis for axis in (Axis(5, rows), Axis(1, columns)) if axis.extent > 1])

        low, high = divmod(first, 5), (first // 5 + rows - 1, first % 5 + columns - 1)
        figures = {str(value) for value in (*low, *high, min(lanes), max(lanes))}
        assert found.text.split(",")[-2].split()[-1] in figures
