"""The stored tables are those of the grammar, and the grammar has no conflicts."""

from __future__ import annotations

import json
import logging

import lark
import pytest

from kernbench.compiler import tables
from kernbench.compiler.build import NO_NODES, Builder
from kernbench.data_files import data_dir

GRAMMAR = (data_dir("grammar") / "kernel.lark").read_text(encoding="utf-8")


def test_the_stored_tables_are_made_from_the_grammar() -> None:
    """If this fails: python -m kernbench.compiler.tables"""
    stored = json.loads(tables.stored_path().read_text(encoding="utf-8"))

    assert tables.generate(GRAMMAR) == stored


def test_no_token_fits_two_actions(caplog: pytest.LogCaptureFixture) -> None:
    """lark settles a conflict silently, by reading on; it says so in its log only."""
    lark.logger.propagate = True
    with caplog.at_level(logging.DEBUG, logger=lark.logger.name):
        lark.Lark(GRAMMAR, parser="lalr", start=list(tables.START_SYMBOLS), maybe_placeholders=False, debug=True)

    assert [] == [record.getMessage() for record in caplog.records if "onflict" in record.getMessage()]


def test_a_conflict_would_be_seen(caplog: pytest.LogCaptureFixture) -> None:
    lark.logger.propagate = True
    with caplog.at_level(logging.DEBUG, logger=lark.logger.name):
        lark.Lark('start: a "," "x" | a\na: "x" ("," "x")*\n', parser="lalr", debug=True)

    assert any("onflict" in record.getMessage() for record in caplog.records)


def test_every_rule_has_its_function() -> None:
    actions = {rule.action for rule in tables.load().rules if rule.action}

    assert set() == {action for action in actions if not callable(getattr(Builder, action, None))}
    assert set() == NO_NODES - actions
