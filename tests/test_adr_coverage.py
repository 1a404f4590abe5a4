"""`docs/adr-coverage.md` says where each decision lives and which test holds it; every name in it must exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "adr-coverage.md").read_text("utf-8")
COMPLETE = ("ADR-0009", "ADR-0012", "ADR-0016", "ADR-0049")
_NAME = re.compile(r"`([\w./-]+?)(?:::([\w.]+))?`")


def rows() -> Iterator[tuple[str, str, str, str]]:
    """(ADR, item, where, test) of each row of each table."""
    adr = ""
    for line in TEXT.splitlines():
        if line.startswith("## "):
            adr = line.split()[1]
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and cells[0] != "item" and not set(cells[0]) <= set("-: "):
            yield adr, cells[0], cells[2], cells[3]


ROWS = list(rows())


@cache
def names_in(path: Path) -> frozenset[str]:
    """Functions, classes, their methods and fields, and the names that a module assigns."""
    found: set[str] = set()

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{node.name}.")
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            found.update(prefix + target.id for target in targets if isinstance(target, ast.Name))

    visit(ast.parse(path.read_text("utf-8")).body, "")
    return frozenset(found)


def missing(cell: str) -> list[str]:
    """The names of a cell that do not exist."""
    wrong: list[str] = []
    for file, name in _NAME.findall(cell):
        path = ROOT / file
        if not path.exists():
            wrong.append(file)
        elif name and name not in names_in(path):
            wrong.append(f"{file}::{name}")
    return wrong


@pytest.mark.parametrize(("adr", "item", "where", "test"), ROWS, ids=lambda value: value[:40])
def test_every_name_exists(adr: str, item: str, where: str, test: str) -> None:
    assert [] == missing(where) + missing(test)
    for cell in (where, test):
        assert cell == "not yet" or _NAME.search(cell), f"{adr} {item} names nothing"
    for file, name in _NAME.findall(test):
        assert file.startswith("tests/") and name.split(".")[-1].startswith("test_"), f"{file}::{name} is no test"


def test_no_item_stands_twice() -> None:
    items = [(adr, item) for adr, item, _, _ in ROWS]

    assert len(set(items)) == len(items)


@pytest.mark.parametrize("adr", COMPLETE)
def test_nothing_is_left_of_the_host_contract(adr: str) -> None:
    mine = [row for row in ROWS if row[0] == adr]

    assert len(mine) >= 5
    assert [] == [item for _, item, where, test in mine if "not yet" in (where, test)]


def test_a_name_that_does_not_exist_is_found() -> None:
    assert ["kernbench/sim/no.py"] == missing("`kernbench/sim/no.py::x`")
    assert ["kernbench/sim/io_cpu.py::IoCpu.nothing"] == missing("`kernbench/sim/io_cpu.py::IoCpu.nothing`")
    assert [] == missing("`kernbench/sim/io_cpu.py::IoCpu.receive`")
