"""`log` and `diff`: op logs summed up and compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernbench.cli.main import main


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    assert 0 == main(["run", "softmax.tl", "--case", "tiny", "--mode", "timing", "-o", str(folder)])
    return folder


def output(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert code == main(arguments)
    return capsys.readouterr().out


def test_totals_by_engine_hold_every_record(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = len((run_dir / "op_log.jsonl").read_text().splitlines())
    rows = json.loads(output(capsys, "log", str(run_dir), "--by", "engine", "--json"))["rows"]

    assert records == sum(row["records"] for row in rows)
    assert 3 * 61 * 4 == next(row["bytes"] for row in rows if row["key"] == "pe_dma dma_read")


def test_filters_and_top(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(output(capsys, "log", str(run_dir), "--engine", "pe_math", "--top", "2", "--json"))["rows"]
    line = json.loads(output(capsys, "log", str(run_dir), "--line", "12", "--by", "line", "--json"))["rows"]

    assert ["sip0.cube0.pe0.pe_math"] * 2 == [row["component"] for row in rows]
    assert rows[0]["time_ns"] >= rows[1]["time_ns"]
    assert ["softmax.tl:12"] == [row["key"] for row in line]


def test_links_come_from_the_run_directory(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(output(capsys, "log", str(run_dir), "--by", "link", "--json"))["rows"]

    assert {row["name"] for row in rows} >= {"sip0.cube0.hbm_ctrl.pe0"}
    output(capsys, "log", str(run_dir / "op_log.jsonl"), "--by", "link", code=2)


def test_diff_finds_the_first_record_that_differs(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = run_dir / "op_log.jsonl"
    lines = log.read_text().splitlines()
    other = run_dir / "other.jsonl"
    start = json.loads(lines[4])["t_start_ns"]
    lines[4] = lines[4].replace(f'"t_start_ns":{start:.3f}', f'"t_start_ns":{start - 0.5:.3f}')
    other.write_text("\n".join(lines) + "\n")

    assert "equal" in output(capsys, "diff", str(run_dir), str(log))
    assert "the first is record 4" in output(capsys, "diff", str(log), str(other), code=1)
    assert "equal" in output(capsys, "diff", str(log), str(other), "--tolerance-ns", "0.5")


def test_what_is_no_log_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad"
    bad.write_text('{"seq": 1}\n')

    assert (4, 2) == (main(("log", str(bad))), main(("log", str(tmp_path / "none"))))

    found = capsys.readouterr()
    assert "" == found.out
    assert f"error[E_LOG_RECORD]: {bad}:1 is no record of an op log: its fields are not those of a record" in found.err
    assert f"error[E_INPUT_FILE]: there is no op log at `{tmp_path / 'none'}`" in found.err
