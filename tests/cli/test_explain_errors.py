"""Every error code is explained, and its examples do what the explanation says.

Who adds a code adds an `Explanation` for it to the file of its subject under `kernbench/explain/`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kernbench
from kernbench.cli.errors import all_errors
from kernbench.explain.index import explanations
from kernbench.explain.model import Explanation
from tests.cli.explain_examples import told

PACKAGE = Path(kernbench.__file__).parent
KNOWN = explanations()
WITH_EXAMPLES = [entry for entry in KNOWN.values() if entry.no_example is None]

HOW = """
an explanation is missing for the codes on the left. Add for each one to a file of kernbench/explain/ an

    Explanation(
        code="E_...",
        story="what the rule is, and why there is one",
        wrong=Kernel(...),  # or another kind of kernbench/explain/model.py; it raises this code and no other
        says="the headline of its diagnostic",
        right=Kernel(...),  # the same without the mistake; it raises nothing
    )

and, where the file is new, name it in kernbench/explain/index.py. What no small input can raise says so in
`no_example`.
"""


def test_every_code_is_explained() -> None:
    assert [] == sorted(set(all_errors()) - set(KNOWN)), HOW


def test_every_explanation_is_of_a_code() -> None:
    assert [] == sorted(set(KNOWN) - set(all_errors()))


def test_codes_in_the_source_and_in_the_tables_are_the_same() -> None:
    """A code outside of a table is printed by no list; one that nothing raises promises a check that is not there."""
    sources = [path for path in PACKAGE.rglob("*.py") if path.parent.name != "explain" and path.name != "errors.py"]
    raised = {code for path in sources for code in re.findall(r'"([EWR]_[A-Z0-9_]+)"', path.read_text("utf-8"))}

    assert set() == raised - set(all_errors())
    assert set() == set(all_errors()) - raised - {"E_INTERNAL"}  # raised by no check, told by the command line


def test_examples_are_whole() -> None:
    for entry in KNOWN.values():
        if entry.no_example is None:
            assert entry.wrong is not None and entry.right is not None and entry.says, entry.code
        else:
            assert (entry.wrong, entry.right) == (None, None), entry.code


@pytest.mark.parametrize("entry", WITH_EXAMPLES, ids=lambda entry: entry.code)
def test_wrong_example_raises_its_code_and_no_other(
    entry: Explanation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.wrong is not None
    found = told(entry.wrong, tmp_path, monkeypatch, capsys)

    assert {entry.code} == {each.code for each in found}, found
    assert entry.says in [each.message for each in found], found


@pytest.mark.parametrize("entry", WITH_EXAMPLES, ids=lambda entry: entry.code)
def test_right_example_raises_nothing(
    entry: Explanation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.right is not None

    assert [] == told(entry.right, tmp_path, monkeypatch, capsys)
