"""Random inputs end in a diagnostic or a result. `python -m tests.fuzz` tries as many as one likes."""

from __future__ import annotations

from random import Random

import pytest

from tests.fuzz.campaign import KINDS, campaign, case_of
from tests.fuzz.case import Case
from tests.fuzz.generator import Derivation, Production, grammar
from tests.fuzz.idioms import Words
from tests.fuzz.judge import Verdict, judged
from tests.fuzz.shrink import shrunk

FEW, MANY = 120, 1500


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_random_cases_end_in_a_diagnostic_or_a_result(kind: str) -> None:
    tally = campaign(kind, range(FEW // KINDS[kind].share))

    assert {} == tally.failures
    assert KINDS[kind].share > 1 or 0 < tally.kinds["diagnostic"] < FEW  # else the cases are all alike


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_many_random_cases_end_in_a_diagnostic_or_a_result(kind: str) -> None:
    share = KINDS[kind].share

    assert {} == campaign(kind, range(FEW // share, MANY // share)).failures


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_number_stands_for_one_case(kind: str) -> None:
    assert case_of(kind, 1, 7).shown() == case_of(kind, 1, 7).shown()
    assert case_of(kind, 1, 7).shown() != case_of(kind, 1, 8).shown()


def test_every_production_of_the_grammar_is_used() -> None:
    used: set[tuple[str, Production]] = set()
    for origin, productions in sorted(grammar().rules.items()):
        depth = 1 + max(map(grammar().height, productions))
        for number in range(len(productions)):
            rng = Random(number)
            Derivation(rng, 0.0, Words(rng), used=used, seeks_new=True).derive(origin, depth)

    rules = {(origin, each) for origin, productions in grammar().rules.items() for each in productions}
    assert set() == rules - used


def test_a_failure_is_told_apart_from_a_diagnostic() -> None:
    def broken() -> Verdict:
        raise ZeroDivisionError

    assert judged(broken).failed
    assert "ZeroDivisionError in a caller" == judged(broken).key


def test_a_failing_text_is_made_shorter() -> None:
    def judge(case: Case) -> Verdict:
        return Verdict("failure", key="k") if "x" in case.text and "+" in case.text else Verdict("result")

    case = Case("a = 1\nb = x + 2\nc = 3\n", {})

    assert "x+" == shrunk(case, judge(case), judge).text
