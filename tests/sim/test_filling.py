"""Max-min fair rates as exact fractions, against the definition."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.sim.filling import Filler
from tests.sim.flow_reference import fair_rates


def test_pools_that_are_all_but_equal_are_told_apart() -> None:
    rows = [(10**15, [(0, 1), (1, 1)]), (10**15 + 1, [(1, 1), (2, 1)])]

    assert [(5 * 10**14, 1), (5 * 10**14, 1), (5 * 10**14 + 1, 1)] == Filler(rows, 3).rates([1, 1, 1])


def test_classes_without_flows_take_nothing() -> None:
    rows = [(12, [(0, 1), (1, 1)]), (100, [(1, 1), (2, 1)])]

    assert [(0, 1), (6, 1), (88, 1)] == Filler(rows, 3).rates([0, 2, 1])
    assert [(12, 1), (0, 1), (50, 1)] == Filler(rows, 3).rates([1, 0, 2])


def test_pools_that_decide_nothing_are_left_out() -> None:
    same = [(10, [(0, 1), (1, 1)]), (9, [(1, 1), (0, 1)])]
    wider = [(9, [(0, 1), (1, 1)]), (9, [(0, 1)])]
    used_more = [(9, [(0, 1), (1, 1)]), (9, [(0, 2)])]

    assert [1, 1, 2] == [len(Filler(rows, 2).rows) for rows in (same, wider, used_more)]


@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.dictionaries(st.integers(0, 5), st.integers(1, 3), min_size=1)), min_size=1
    ),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
)
@settings(max_examples=150, deadline=None)
def test_rates_are_those_of_the_definition(pools: list[tuple[int, dict[int, int]]], counts: list[int]) -> None:
    pools = [*pools, (1000, dict.fromkeys(range(6), 1))]
    flows = [
        {index: Fraction(takes[c]) for index, (_, takes) in enumerate(pools) if c in takes}
        for c, count in enumerate(counts)
        for _ in range(count)
    ]
    expected = fair_rates(flows, {index: cap for index, (cap, _) in enumerate(pools)})
    rates = Filler([(cap, list(takes.items())) for cap, takes in pools], 6).rates(counts)

    assert expected == [Fraction(*rates[c]) for c, count in enumerate(counts) for _ in range(count)]
