"""Max-min fair rates as exact fractions, against the definition."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.sim.filling import Channel, Demand, Filling, Weight
from tests.sim.flow_reference import fair_rates

Row = tuple[int, Sequence[tuple[int, Weight]]]  # what a pool can carry, and (class, what a unit of its rate takes)


class Filled:
    """A filling whose demands have the numbers of takers that were last asked for."""

    def __init__(self, rows: Sequence[Row], class_count: int) -> None:
        self.channels = [Channel(index, cap) for index, (cap, _) in enumerate(rows)]
        self.demands = [
            Demand(
                {channel: dict(row)[c] for channel, (_, row) in zip(self.channels, rows, strict=True) if c in dict(row)}
            )
            for c in range(class_count)
        ]
        self.filling = Filling()

    def rates(self, counts: Sequence[int]) -> list[tuple[int, int]]:
        for demand, count in zip(self.demands, counts, strict=True):
            demand.count = count
        self.filling.settle([demand for demand in self.demands if demand.count != demand.solved])
        return [demand.rate for demand in self.demands]


def test_pools_that_are_all_but_equal_are_told_apart() -> None:
    rows = [(10**15, [(0, 1), (1, 1)]), (10**15 + 1, [(1, 1), (2, 1)])]

    assert [(5 * 10**14, 1), (5 * 10**14, 1), (5 * 10**14 + 1, 1)] == Filled(rows, 3).rates([1, 1, 1])


def test_classes_without_flows_take_nothing() -> None:
    filled = Filled([(12, [(0, 1), (1, 1)]), (100, [(1, 1), (2, 1)])], 3)

    assert [(0, 1), (6, 1), (88, 1)] == filled.rates([0, 2, 1])
    assert [(12, 1), (0, 1), (50, 1)] == filled.rates([1, 0, 2])
    assert [(0, 1)] * 3 == filled.rates([0, 0, 0])


def test_only_what_a_change_can_reach_is_changed() -> None:
    """Four pools in a row of rising bandwidth: a change in the third is not felt in the first two."""
    filled = Filled([(cap, [(c, 1), (c + 1, 1)]) for c, cap in enumerate((10, 30, 90, 200))], 5)
    filled.rates([1] * 5)
    gone = filled.demands[3]
    gone.count = 0

    changed, moved = filled.filling.settle([gone])

    assert [2, 3] == sorted(channel.index for channel in changed)
    assert [(gone, filled.channels[2])] == moved
    assert [5, 5, 25, 0, 200] == [Fraction(*demand.rate) for demand in filled.demands]


WEIGHTS = st.sampled_from([1, 1, 1, 2, Fraction(17, 12), Fraction(5, 3)])


@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.dictionaries(st.integers(0, 5), WEIGHTS, min_size=1)), min_size=1, max_size=8
    ),
    st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6), min_size=1, max_size=8),
)
@settings(max_examples=150, deadline=None)
def test_rates_are_those_of_the_definition_after_every_change(
    pools: list[tuple[int, dict[int, Weight]]], steps: list[list[int]]
) -> None:
    pools = [*pools, (100, dict.fromkeys(range(6), 1))]
    filled = Filled([(cap, list(takes.items())) for cap, takes in pools], 6)
    for counts in steps:
        flows = [
            {index: Fraction(takes[c]) for index, (_, takes) in enumerate(pools) if c in takes}
            for c, count in enumerate(counts)
            for _ in range(count)
        ]
        expected = fair_rates(flows, {index: cap for index, (cap, _) in enumerate(pools)}) if flows else []
        rates = filled.rates(counts)

        assert expected == [Fraction(*rates[c]) for c, count in enumerate(counts) for _ in range(count)]
        assert [(0, 1)] * counts.count(0) == [rates[c] for c, count in enumerate(counts) if not count]


@pytest.mark.parametrize("seed", range(4))
def test_many_classes_over_a_net_that_is_full_in_many_places(seed: int) -> None:
    draw = random.Random(seed)
    caps = [draw.choice([60, 100, 120, 135, 256]) for _ in range(24)]
    takes = [dict.fromkeys(draw.sample(range(24), draw.randint(1, 6)), 1) for _ in range(30)]
    filled = Filled([(cap, [(c, 1) for c in range(30) if index in takes[c]]) for index, cap in enumerate(caps)], 30)
    counts = [0] * 30
    for _ in range(25):
        for c in draw.sample(range(30), 3):
            counts[c] = draw.choice([0, 1, 1, 2])
        flows = [{index: Fraction(1) for index in takes[c]} for c in range(30) if counts[c] for _ in range(counts[c])]
        rates = filled.rates(counts)

        expected = fair_rates(flows, dict(enumerate(caps)))
        assert expected == [Fraction(*rates[c]) for c in range(30) for _ in range(counts[c])]
