"""Integer time, and the order of one instant."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kernbench.sim.clock import Clock


class Server:
    """Writes down when it decides, and does one more thing if told to."""

    def __init__(self, index: int, told: list[object], then: Callable[[], object] | None = None) -> None:
        self.topology_index, self.told, self.then = index, told, then

    def decide(self) -> None:
        self.told.append(self.topology_index)
        if self.then is not None:
            then, self.then = self.then, None
            then()


def test_calls_run_in_order_of_time_and_then_of_asking() -> None:
    clock = Clock()
    told: list[tuple[int, str]] = []
    for delay, name in ((5, "a"), (3, "b"), (5, "c"), (0, "d")):
        clock.call_after(delay, lambda name=name: told.append((clock.now, name)))
    clock.call_at(4, lambda: told.append((clock.now, "e")))

    assert clock.run()
    assert [(0, "d"), (3, "b"), (4, "e"), (5, "a"), (5, "c")] == told


def test_a_call_after_nothing_is_made_later_in_the_instant() -> None:
    clock = Clock()
    told: list[str] = []
    clock.call_after(0, told.append, "call")
    told.append("after asking")
    clock.run()

    assert ["after asking", "call"] == told


@pytest.mark.parametrize("delay", [-1, 0.5, 1.0])
def test_only_whole_picoseconds_from_now_on_can_be_asked_for(delay: int) -> None:
    with pytest.raises(AssertionError, match="delay"):
        Clock().call_after(delay, print)


def test_events_due_exactly_at_the_end_do_run() -> None:
    """FC-TI16: run until 10 with something due at 10."""
    clock = Clock()
    told: list[int] = []
    for t in (9, 10, 11):
        clock.call_at(t, told.append, t)

    assert not clock.run(until_ps=10)
    assert [9, 10] == told
    assert 10 == clock.now
    assert clock.run()
    assert [9, 10, 11] == told


def test_servers_decide_once_after_the_last_callback_in_topology_order() -> None:
    clock = Clock()
    told: list[object] = []
    servers = [Server(index, told) for index in (10, 2, 7)]
    for server in servers:
        clock.call_at(5, clock.defer, server)
        clock.call_at(5, clock.defer, server)
    clock.call_at(5, told.append, "callback")
    clock.call_at(6, told.append, "next instant")
    clock.run()

    assert ["callback", 2, 7, 10, "next instant"] == told


def test_order_keys_tell_servers_of_one_component_apart() -> None:
    clock = Clock()
    told: list[object] = []
    one, other = Server(1, told, lambda: told.append("write")), Server(1, told, lambda: told.append("read"))
    clock.defer(one, (1,))
    clock.defer(other, (0,))
    clock.run()

    assert [1, "read", 1, "write"] == told


def test_what_a_decision_adds_to_the_instant_runs_before_the_next_decision() -> None:
    clock = Clock()
    told: list[object] = []
    late = Server(9, told)
    early = Server(1, told, lambda: clock.call_after(0, clock.defer, Server(3, told)))
    clock.defer(late)
    clock.defer(early)
    clock.run()

    assert [1, 3, 9] == told


def test_a_limit_of_events_stops_at_the_end_of_an_instant() -> None:
    clock = Clock()
    told: list[int] = []
    for t in (1, 1, 1, 2):
        clock.call_at(t, told.append, t)

    assert not clock.run(max_events=2)
    assert [1, 1, 1] == told
    assert clock.run()


def test_processes_share_the_time_and_its_order() -> None:
    clock = Clock()
    told: list[object] = []

    def process() -> object:
        yield clock.env.timeout(3)
        told.append(clock.now)
        clock.defer(Server(4, told))

    clock.env.process(process())
    clock.call_at(3, told.append, "call")
    clock.run()

    assert ["call", 3, 4] == told
