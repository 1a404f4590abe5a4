"""Flows that share bandwidth: exact alone, max-min fair together, by the stated integer rules."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.sim.clock import Clock
from kernbench.sim.network import Network, PoolUse
from kernbench.sim.topology_graph import Pool
from tests.sim.flow_reference import Flow, finish_by_rules, finish_exact


def network_of(caps: list[int]) -> tuple[Clock, Network]:
    clock = Clock()
    pools = tuple(Pool(index, f"p{index}", cap) for index, cap in enumerate(caps))
    graph: Any = SimpleNamespace(nodes={}, pools=pools)
    return clock, Network(clock, graph)


def play(flows: list[Flow], caps: list[int]) -> list[int]:
    """Finish times of the network under test."""
    clock, network = network_of(caps)
    ends: dict[int, int] = {}

    def start(number: int, flow: Flow) -> None:
        def done() -> None:
            assert number not in ends
            ends[number] = clock.now

        network.start_flow(tuple(flow.takes), flow.nbytes, (number,), done, tuple(flow.takes.values()))

    for number, flow in enumerate(flows):
        clock.call_at(flow.start_ps, start, number, flow)
    clock.run()
    network.check_idle()
    return [ends[number] for number in range(len(flows))]


def flow(start_ps: int, nbytes: int, *pools: int) -> Flow:
    return Flow(start_ps, nbytes, {pool: Fraction(1) for pool in pools})


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@given(st.integers(1, 1 << 30), st.integers(1, 10**12), st.integers(1, 10**12))
@settings(max_examples=50, deadline=None)
def test_a_lone_flow_takes_its_bytes_over_the_least_bandwidth(nbytes: int, one: int, other: int) -> None:
    assert [ceil_div(nbytes * 10**12, min(one, other))] == play([flow(0, nbytes, 0, 1)], [one, other])


@given(st.integers(1, 1 << 30), st.integers(1, 10**12))
@settings(max_examples=50, deadline=None)
def test_two_equal_flows_over_one_link_end_together(nbytes: int, cap: int) -> None:
    end = ceil_div(2 * nbytes * 10**12, cap)

    assert [end, end] == play([flow(0, nbytes, 0), flow(0, nbytes, 0)], [cap])


def test_sharing_conserves_work() -> None:
    """FC-NO02: F3 gets the two thirds of L2 that F1 cannot use."""
    flows = [flow(0, 10**6, 0, 1), flow(0, 10**6, 0), flow(0, 10**6, 1), flow(0, 10**6, 0)]

    assert [3_000_000, 3_000_000, 1_500_000, 3_000_000] == play(flows, [10**12, 10**12])


def test_a_start_staggered_by_nanoseconds_changes_little() -> None:
    """FC-NO03: all-to-all over 8 ports, started at once and then one after the other."""
    pairs = [(a, b) for a in range(8) for b in range(8) if a != b]
    caps = [10**11] * 16
    at_once = max(play([flow(0, 65536, a, 8 + b) for a, b in pairs], caps))
    staggered = max(play([flow(3000 * i, 65536, a, 8 + b) for i, (a, b) in enumerate(pairs)], caps))

    assert abs(staggered - at_once) <= at_once * 5 // 100


def test_slow_links_make_progress_whatever_the_step() -> None:
    """FC-TI12: 100 bytes over 0.5 GB/s, and over 0.81 GB/s."""
    assert [200_000] == play([flow(0, 100, 0)], [500_000_000])
    assert [123_457] == play([flow(0, 100, 0)], [810_000_000])


def test_units_are_decimal() -> None:
    """FC-TI02: 1 GiB over 512 GB/s, and 512 GiB/s written in GB/s. FC-TI03: 4096 B over 32 GB/s."""
    assert [2_097_152_000] == play([flow(0, 1 << 30, 0)], [512 * 10**9])
    assert [1_953_125_000] == play([flow(0, 1 << 30, 0)], [512 << 30])
    assert [128_000] == play([flow(0, 4096, 0)], [32 * 10**9])


def test_a_weight_slows_its_pool_only() -> None:
    strided = Flow(0, 4096, {0: Fraction(1), 1: Fraction(8, 3)})

    assert [ceil_div(4096 * 8 * 10**12, 3 * 10**11)] == play([strided], [10**11, 10**11])


def test_a_flow_that_has_its_rate_kept_stays_exact() -> None:
    """One flow of a class ends and another begins in one instant, again and again, beside a long one."""
    clock, network = network_of([7 * 10**9])
    ends: list[int] = []

    def again(left: int) -> None:
        if left:
            network.start_flow((0,), 1000, (), lambda: again(left - 1))

    network.start_flow((0,), 5000, (), lambda: ends.append(clock.now))
    again(9)
    clock.run()

    assert [ceil_div(2 * 5000 * 10**12, 7 * 10**9)] == ends


def test_a_flow_stays_exact_while_others_change_beside_it() -> None:
    """Three flows at 7/3 GB/s, whose progress is no whole number of units, beside starts that leave it alone."""
    shared = [flow(0, 7000, 0, 1) for _ in range(3)]
    beside = [flow(start, 50_000, 1) for start in (1, 2, 5, 700)]

    assert [3_000_000] * 3 == play(shared + beside, [7 * 10**9, 10**11])[:3]


def test_a_pool_that_is_used_twice_as_much_as_what_feeds_it_binds() -> None:
    """Two flows of 10 B/s each would take 40 B/s of a pool of 30."""
    flows = [Flow(0, 75, {0: Fraction(1), 2: Fraction(2)}), Flow(0, 75, {1: Fraction(1), 2: Fraction(2)})]

    assert [10 * 10**12] * 2 == play(flows, [10, 10, 30])


def test_nothing_to_drain_finishes_in_this_instant_but_not_at_once() -> None:
    clock, network = network_of([10**9])
    told: list[str] = []

    network.start_flow((0,), 0, (), lambda: told.append("zero bytes"))
    network.start_flow((), 64, (), lambda: told.append("no pools"))
    told.append("started")
    clock.run()

    assert ["started", "zero bytes", "no pools"] == told
    assert 0 == clock.now


def test_ties_end_in_the_order_of_their_keys() -> None:
    clock, network = network_of([10**9])
    told: list[int] = []
    for number in (3, 1, 2):
        network.start_flow((0,), 64, (number,), partial(told.append, number))
    clock.run()

    assert [1, 2, 3] == told


def test_uses_count_bytes_and_busy_time() -> None:
    clock, network = network_of([10**9, 2 * 10**9, 10**9])
    network.start_flow((0, 1), 1000, (), lambda: None)
    clock.call_at(5_000_000, network.start_flow, (1,), 2000, (), lambda: None)
    clock.run()

    assert [("p0", 1000, 1_000_000), ("p1", 3000, 1_500_000)] == [
        (use.name, use.nbytes, use.busy_ps) for use in network.uses()
    ]


def test_uses_count_classes_that_are_no_longer_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernbench.sim.network._KEPT_CLASSES", 0)
    clock, network = network_of([10**9, 10**9])
    for at in (0, 10**7):
        clock.call_at(at, network.start_flow, (0, 1), 1000, (), lambda: None, (Fraction(3, 2), 1))
    clock.run()
    network.check_idle()

    assert {} == network._classes
    assert [("p0", 2000, 3_000_000), ("p1", 2000, 2_000_000)] == [
        (use.name, use.nbytes, use.busy_ps) for use in network.uses()
    ]


def test_an_undrained_flow_is_an_internal_error() -> None:
    _, network = network_of([10**9])
    network.start_flow((0,), 64, (), lambda: None)

    with pytest.raises(AssertionError, match="have not drained"):
        network.check_idle()


WEIGHTS = st.sampled_from([Fraction(1), Fraction(1), Fraction(1), Fraction(2), Fraction(5, 3)])


class Listener:
    """A server before the network: what has ended, decision by decision."""

    topology_index = -1

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.heard: list[tuple[int, list[tuple[int, int]]]] = []
        self._inbox: list[tuple[int, int]] = []

    def tell(self, flow: tuple[int, int]) -> None:
        self._inbox.append(flow)
        self.clock.defer(self)

    def decide(self) -> None:
        self.heard.append((self.clock.now, sorted(self._inbox)))
        self._inbox = []


Step = tuple[Flow, int]  # a flow, whose start does not count, and for how long it is on its way before
Heard = tuple[list[tuple[int, list[tuple[int, int]]]], list[PoolUse]]


def play_chains(chains: list[tuple[int, list[Step]]], caps: list[int]) -> Heard:
    """Each chain begins at its time; its next flow starts when the one before is done."""
    clock, network = network_of(caps)
    listener = Listener(clock)

    def begin(chain: int, place: int) -> None:
        if place < len(chains[chain][1]):
            flow, head_ps = chains[chain][1][place]
            pools, weights = tuple(flow.takes), tuple(flow.takes.values())

            def done() -> None:
                listener.tell((chain, place))
                begin(chain, place + 1)

            clock.call_after(head_ps, network.start_flow, pools, flow.nbytes, (chain, place), done, weights)

    for chain, (start_ps, _) in enumerate(chains):
        clock.call_at(start_ps, begin, chain, 0)
    clock.run()
    network.check_idle()
    return listener.heard, network.uses()


def shared_from_the_start(chains: list[tuple[int, list[Step]]], caps: list[int]) -> Heard:
    """The same where every flow takes part in the sharing."""

    def share(self: Network, flow: Any) -> bool:
        self._arriving.update(dict.fromkeys(flow.flow_class.channels))
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network, "_make_alone", share)
        return play_chains(chains, caps)


@pytest.mark.parametrize("cap", [10**12, 7 * 10**9])
@pytest.mark.parametrize("beside", [{0}, {1}, {0, 1}, {0, 1, 2}])
def test_a_flow_by_itself_may_end_where_another_starts(cap: int, beside: set[int]) -> None:
    """The other was under way first, so its start comes first in that instant."""
    alone, other = flow(0, 1000, 0, 1), flow(0, 500, *sorted(beside))
    end_ps = ceil_div(1000 * 10**12, cap)
    chains = [(0, [(other, 200 + end_ps)]), (200, [(alone, 0), (alone, 0)]), (200, [(flow(0, 2000, 2), 0)])]
    caps = [cap, cap, 2 * cap]

    assert play_chains(chains, caps) == shared_from_the_start(chains, caps)


@st.composite
def chain_sets(draw: st.DrawFn) -> tuple[list[tuple[int, list[Step]]], list[int]]:
    """Round figures, so that flows often end and start in one instant."""
    caps = draw(st.lists(st.sampled_from([10**12, 10**12, 5 * 10**11, 97_000_000_001]), min_size=1, max_size=6))
    takes = st.dictionaries(st.integers(0, len(caps) - 1), WEIGHTS, min_size=1, max_size=4)
    paths = draw(st.lists(takes, min_size=1, max_size=5))
    flows = st.builds(Flow, st.just(0), st.sampled_from([0, 1, 64, 64, 1000, 1000, 4097]), st.sampled_from(paths))
    steps = st.lists(st.tuples(flows, st.sampled_from([0, 0, 1, 64, 1000, 3000])), min_size=1, max_size=6)
    starts = st.sampled_from([0, 0, 1, 64, 1000])
    return draw(st.lists(st.tuples(starts, steps), min_size=1, max_size=8)), caps


@given(chain_sets())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_flows_by_themselves_are_done_as_those_that_share(
    case: tuple[list[tuple[int, list[Step]]], list[int]],
) -> None:
    chains, caps = case

    assert play_chains(chains, caps) == shared_from_the_start(chains, caps)


RATES = st.sampled_from([10**11, 135_900_000_000, 256 * 10**9, 63 * 10**9, 97_000_000_001, 3 * 10**9 + 7])


@st.composite
def flow_sets(draw: st.DrawFn) -> tuple[list[Flow], list[int]]:
    caps = draw(st.lists(RATES, min_size=1, max_size=7))
    paths = draw(
        st.lists(
            st.dictionaries(st.integers(0, len(caps) - 1), WEIGHTS, min_size=1, max_size=5), min_size=1, max_size=4
        )
    )
    flows = draw(
        st.lists(
            st.builds(
                Flow,
                st.sampled_from([0, 0, 0, 1, 700, 20_000, 41_237]),
                st.sampled_from([1, 64, 4096, 4096, 32768, 99_991]),
                st.sampled_from(paths) | st.dictionaries(st.integers(0, len(caps) - 1), WEIGHTS, min_size=1),
            ),
            min_size=1,
            max_size=12,
        )
    )
    return flows, caps


@given(flow_sets())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_random_flow_sets_follow_the_integer_rules_and_the_exact_solution(case: tuple[list[Flow], list[int]]) -> None:
    flows, caps = case
    numbered = dict(enumerate(caps))
    ends = play(flows, caps)

    assert finish_by_rules(flows, numbered) == ends
    for end, exact in zip(ends, finish_exact(flows, numbered), strict=True):
        assert abs(end - exact) <= 4
