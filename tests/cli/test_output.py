"""Where results go: links stay links, devices stay devices, a full or closed stdout is no fault of ours."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kernbench.cli.output import write_file
from kernbench.diagnostics import EXIT_USAGE, KernBenchError

MAIN = "import sys; from kernbench.cli.main import script; script()"
LIST = [sys.executable, "-c", MAIN, "list", "errors"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")

    write_file(tmp_path / "link", "new")

    assert (tmp_path / "link").is_symlink()
    assert "new" == (tmp_path / "real").read_text()


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()

    write_file(pipe, "bytes")
    reader.join(10)

    assert ["bytes"] == got
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(KernBenchError, match="No space left"):
        write_file(tmp_path / "out", "bytes")

    assert [] == list(tmp_path.iterdir())


def test_the_longest_name_of_a_file_can_be_written(tmp_path: Path) -> None:
    write_file(tmp_path / ("x" * 255), "bytes")

    assert "bytes" == (tmp_path / ("x" * 255)).read_text()


def test_a_closed_stdout_is_no_fault() -> None:
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *LIST], capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_stdout_is_told() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(LIST, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert EXIT_USAGE == done.returncode
    assert done.stderr.startswith("error[E_OUTPUT_FILE]: cannot write to stdout")
