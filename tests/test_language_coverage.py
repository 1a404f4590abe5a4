"""`docs/language-coverage.md` says which tests hold each row and rule of the language; every name in it must exist."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.test_adr_coverage import ROOT, missing

TEXT = (ROOT / "docs" / "language-coverage.md").read_text("utf-8")
VOCABULARY_ROWS = 38
MIN_RULES = 30
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows() -> Iterator[tuple[str, str]]:
    """(row or rule, tests)"""
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[2] != "tests" and not set(cells[2]) <= set("-: "):
            yield cells[0], cells[2]


ROWS = list(rows())


@pytest.mark.parametrize(("name", "tests"), ROWS, ids=lambda value: value[:40])
def test_every_name_exists(name: str, tests: str) -> None:
    assert [] == missing(tests)
    assert _TEST.search(tests), f"{name} has no test"
    assert tests == ", ".join(f"`{file}::{test}`" for file, test in _TEST.findall(tests))


def test_no_row_of_the_vocabulary_is_left_out() -> None:
    numbers = [int(name) for name, _ in ROWS if name.isdecimal()]

    assert list(range(1, VOCABULARY_ROWS + 1)) == numbers
    assert len(ROWS) - len(numbers) >= MIN_RULES


def test_a_test_that_does_not_exist_is_found() -> None:
    assert ["tests/language/test_rules.py::test_no"] == missing("`tests/language/test_rules.py::test_no`")
