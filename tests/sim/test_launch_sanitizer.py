"""What the sanitizer finds, what deadlock reports say, who gets the PEs."""

from __future__ import annotations

import numpy as np
import pytest

from kernbench.diagnostics import Span
from kernbench.sim.clock import Clock
from kernbench.sim.deadlock import Waiter, WaitRegistry
from kernbench.sim.faults import DeviceFault
from kernbench.sim.pe_pool import PePool
from kernbench.sim.sanitizer import Sanitizer

HERE = Span("k.tl", 3, 5, 3, 9)
THERE = Span("k.tl", 7, 5, 7, 9)


def runs(*pairs: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([p[0] for p in pairs], np.int64), np.array([p[1] for p in pairs], np.int64)


def test_two_programs_on_one_place_are_a_warning_with_both_lines() -> None:
    sanitizer = Sanitizer("warn")
    sanitizer.stored(7, 4, 0, *runs((0, 8), (16, 8)), HERE)
    sanitizer.stored(7, 4, 1, *runs((20, 8)), THERE)
    sanitizer.end_of_launch(7)
    (found,) = sanitizer.warnings

    assert (found.code, found.severity) == ("E_UNORDERED_STORES", "warning")
    assert found.primary is not None
    assert {HERE, THERE} == {found.primary.span, found.secondary[0].span}


@pytest.mark.parametrize("second", [(4, 1, (8, 8)), (5, 1, (0, 8)), (4, 0, (0, 8))])
def test_other_bytes_other_memory_or_one_program_are_fine(second: tuple[int, int, tuple[int, int]]) -> None:
    sanitizer = Sanitizer("warn")
    sanitizer.stored(7, 4, 0, *runs((0, 8)), HERE)
    sanitizer.stored(7, second[0], second[1], *runs(second[2]), THERE)
    sanitizer.end_of_launch(7)

    assert sanitizer.warnings == ()


def test_a_long_store_races_with_a_later_short_one_behind_others() -> None:
    sanitizer = Sanitizer("warn")
    sanitizer.stored(7, 1, 0, *runs((0, 100), (10, 2)), HERE)
    sanitizer.stored(7, 1, 1, *runs((50, 2)), THERE)
    sanitizer.end_of_launch(7)

    assert len(sanitizer.warnings) == 1


def test_a_new_launch_starts_afresh() -> None:
    sanitizer = Sanitizer("warn")
    sanitizer.stored(7, 1, 0, *runs((0, 8)), HERE)
    sanitizer.end_of_launch(7)
    sanitizer.stored(7, 1, 1, *runs((0, 8)), HERE)
    sanitizer.end_of_launch(7)

    assert sanitizer.warnings == ()


def test_launches_under_way_together_are_looked_at_by_themselves() -> None:
    sanitizer = Sanitizer("warn")
    sanitizer.stored(7, 1, 0, *runs((0, 8)), HERE)
    sanitizer.stored(8, 1, 1, *runs((0, 8)), HERE)
    sanitizer.end_of_launch(7)
    sanitizer.end_of_launch(8)

    assert sanitizer.warnings == ()


def test_one_place_is_told_once() -> None:
    sanitizer = Sanitizer("warn")
    sanitizer.unwritten_read("x", HERE)
    sanitizer.unwritten_read("x", HERE)

    assert len(sanitizer.warnings) == 1


def test_findings_are_faults_where_asked() -> None:
    with pytest.raises(DeviceFault) as caught:
        Sanitizer("error").unwritten_read("x", HERE)
    assert (caught.value.code, caught.value.span) == ("E_UNINITIALISED_READ", HERE)


def test_a_report_names_waiters_in_topology_order_with_their_lines() -> None:
    waits = WaitRegistry()
    waits.add(Waiter(9, "pe1", "a message of pe0", HERE, request=1))
    gone = waits.add(Waiter(5, "pe9", "nothing"))
    waits.add(Waiter(2, "pe0", "room in the queue of pe1", THERE, request=1))
    waits.remove(gone)

    assert waits.report(1) == (
        "nothing is left to happen and 2 wait: pe0 waits for room in the queue of pe1 at k.tl:7:5; "
        "pe1 waits for a message of pe0 at k.tl:3:5"
    )


class _Claims:
    """A pool and the order in which it granted."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.pool = PePool(self.clock)
        self.granted: list[str] = []

    def claim(self, name: str, number: int, *pes: int) -> None:
        self.pool.claim((0, number), [(0, 0, pe) for pe in pes], lambda: self.granted.append(name))


def test_claims_of_one_instant_are_granted_by_number_not_by_call() -> None:
    claims = _Claims()
    claims.claim("late", 2, 0)
    claims.claim("early", 1, 0)
    claims.clock.run()

    assert claims.granted == ["early"]


def test_a_waiting_claim_keeps_its_pes_but_others_may_pass() -> None:
    claims = _Claims()
    claims.claim("first", 1, 0)
    claims.claim("both", 2, 0, 1)
    claims.claim("one", 3, 1)
    claims.claim("free", 4, 2)
    claims.clock.run()
    assert claims.granted == ["first", "free"]

    claims.pool.release([(0, 0, 0)])
    claims.clock.call_after(1, lambda: None)
    claims.clock.run()
    assert claims.granted == ["first", "free", "both"]
    claims.pool.release([(0, 0, 0), (0, 0, 1)])
    claims.clock.call_after(1, lambda: None)
    claims.clock.run()
    assert claims.granted[-1] == "one"


@pytest.mark.parametrize(
    ("load", "found"),
    [
        ((1, (0, 8)), 1),  # what program 0 stores
        ((0, (0, 8)), 0),  # its own
        ((1, (32, 8)), 0),  # what nobody stores
        ((1, (0, 64)), 1),
        ((0, (0, 64)), 1),  # its own first, then that of program 1
        ((2, (12, 4)), 0),  # between stores
    ],
)
def test_a_read_of_what_another_program_stores_is_a_warning(load: tuple[int, tuple[int, int]], found: int) -> None:
    sanitizer = Sanitizer("warn")
    sanitizer.stored(7, 4, 0, *runs((0, 8), (16, 8)), HERE)
    sanitizer.stored(7, 4, 1, *runs((8, 4), (48, 8)), HERE)
    sanitizer.loaded(7, 4, load[0], *runs(load[1]), THERE)
    sanitizer.loaded(7, 5, 1, *runs((0, 8)), THERE)
    sanitizer.end_of_launch(7)

    told = [(w.code, w.primary.span, w.secondary[0].span) for w in sanitizer.warnings if w.primary is not None]
    assert [("E_UNORDERED_LOAD", THERE, HERE)] * found == told
