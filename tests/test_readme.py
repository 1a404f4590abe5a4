"""Every snippet of the README is run, and what it shows is what comes out."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from kernbench.cli.main import main

ROOT = Path(__file__).parents[1]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Snippet(NamedTuple):
    language: str
    text: str


def snippets(name: str) -> list[Snippet]:
    return [Snippet(*found) for found in _FENCE.findall((ROOT / name).read_text("utf-8"))]


def test_readme_snippets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    output = ""
    ran = 0
    for snippet in snippets("README.md"):
        if snippet.language == "sh":
            output = ""
            for command in snippet.text.splitlines():
                assert 0 == main(shlex.split(command)[1:]), command
                output += capsys.readouterr().out
                ran += 1
        elif snippet.language == "python":
            exec(compile(snippet.text, "README.md", "exec"), names)
            ran += 1
        elif snippet.language == "text":
            missing = [line for line in snippet.text.splitlines() if line not in output]
            assert [] == missing, output
    assert ran > 15


def test_the_two_commands_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")

    assert "make run" in snippets("README.md")[1].text
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert {"run", "test", "test-all", "check", "bench", "help"} <= targets


@pytest.mark.parametrize("page", PAGES)
def test_every_named_file_is_there(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    named = set(re.findall(r"`((?:kernbench|kernels|grammar|topologies|tests|docs|benchmarks)/[\w./-]+)`", text))
    linked = set(re.findall(r"\]\(([\w./-]+)\)", text))

    assert [] == sorted(name for name in named if "NAME" not in name and not (ROOT / name).exists())
    assert [] == sorted(name for name in linked if not (ROOT / page).parent.joinpath(name).exists())
