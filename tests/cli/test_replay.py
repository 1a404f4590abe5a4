"""`kernbench replay`: what a run sent gives the same log again, and a bad message is told by line and field."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kernbench.cli.main import main
from kernbench.message_text import write_requests
from kernbench.messages import MemoryRead, MemoryWrite, Pattern, Response, content_hash

FAILING = """\
import triton
import triton.language as tl


@triton.jit
def fails(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i + n, tl.load(x_ptr + i) + 1.0)
"""
FAILING_BENCH = """
kernel: fails.tl
topology: ahbm_1x1
constexprs: {BLOCK: 8}
scalars: {n: 8}
tensors:
  x_ptr: {shape: [n], dtype: fp32, init: ones}
"""


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def write(number: int, correlation: str = "c", **changes: Any) -> MemoryWrite:
    fields: dict[str, Any] = {
        "correlation_id": correlation, "request_id": str(number), "target_device": "sip:0", "dst_sip": 0,
        "dst_cube": 0, "dst_pe": 0, "dst_pa": 64, "nbytes": 8, "src_kind": "pattern",
        "pattern": Pattern(pattern_kind="fill_u8", value=7),
    }  # fmt: skip
    return MemoryWrite(**(fields | changes))


def read(number: int, correlation: str = "c", **changes: Any) -> MemoryRead:
    fields: dict[str, Any] = {
        "correlation_id": correlation, "request_id": str(number), "target_device": "sip:0", "src_sip": 0,
        "src_cube": 0, "src_pe": 0, "src_pa": 64, "nbytes": 8,
    }  # fmt: skip
    return MemoryRead(**(fields | changes))


def file_of(folder: Path, *requests: Any) -> str:
    path = folder / "m.jsonl"
    path.write_text(write_requests(requests))
    return str(path)


# --------------------------------------------------------------------------- what a run sent


@pytest.mark.parametrize("kernel", ["softmax", "vector_add"])
@pytest.mark.parametrize("mode", ["data", "timing"])
def test_a_run_s_messages_give_its_op_log(
    kernel: str, mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, log = tmp_path / "run", tmp_path / "log"
    assert 0 == call(capsys, "run", f"{kernel}.tl", "--case", "tiny", "--mode", mode, "-o", str(run))[0]

    code, responses, _ = call(capsys, "replay", str(run / "messages.jsonl"), "--mode", mode, "--op-log", str(log))

    assert 0 == code
    assert (run / "op_log.jsonl").read_bytes() == log.read_bytes()
    sent = [json.loads(line) for line in (run / "messages.jsonl").read_text().splitlines()]
    answered = [Response.from_json(json.loads(line)) for line in responses]
    assert [(m["correlation_id"], m["request_id"]) for m in sent] == [response.key for response in answered]
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert any(record["src"] and record["src"].startswith(f"{kernel}.tl:") for record in records)


def test_a_failed_run_fails_again_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fails.tl").write_text(FAILING)
    (tmp_path / "fails.yaml").write_text(FAILING_BENCH)
    run, log = tmp_path / "run", tmp_path / "log"
    code, _, told = call(capsys, "run", str(tmp_path / "fails.tl"), "-o", str(run))
    assert (5, 1) == (code, told.count("fails.tl:8"))  # the line once, and not in the headline again

    code, responses, _ = call(capsys, "replay", str(run / "messages.jsonl"), "--op-log", str(log))

    assert 5 == code
    (completion,) = (made for made in (json.loads(line)["completion"] for line in responses) if not made["ok"])
    assert (False, "E_OUT_OF_BOUNDS") == (completion["ok"], completion["error_code"])
    assert completion["error_message"].startswith("sip0.cube0.pe0: ")
    assert completion["error_message"].endswith(" at fails.tl:8:5")
    assert (run / "op_log.jsonl").read_bytes() == log.read_bytes()


def test_hops_are_logged_where_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    file = file_of(tmp_path, write(1))

    call(capsys, "replay", file, "-t", "ahbm_1x1", "--op-log", str(log), "--hops")

    assert '"hop"' in log.read_text()


# --------------------------------------------------------------------------- responses


def test_requests_of_one_correlation_are_sequential_and_others_concurrent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    file = file_of(tmp_path, write(1), read(2), read(3, "other", src_pa=128), read(4, dst_kind="discard"))

    code, responses, _ = call(capsys, "replay", file, "-t", "ahbm_1x1", "--op-log", str(log))

    assert 0 == code
    sums = [json.loads(line)["checksum"] for line in responses]
    assert [None, content_hash(bytes([7]) * 8), content_hash(bytes(8)), None] == sums
    times = {r["request"]: (r["t_start_ns"], r["t_end_ns"]) for r in map(json.loads, log.read_text().splitlines())}
    assert 0 == times["c/1"][0] == times["other/3"][0]
    assert times["c/1"][1] == times["c/2"][0]


def test_a_failed_request_is_a_response_and_exit_5(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = file_of(tmp_path, write(1, dst_pe=3), read(2))

    code, responses, err = call(capsys, "replay", file, "-t", "ahbm_1x1")

    assert 5 == code
    codes = [json.loads(line)["completion"]["error_code"] for line in responses]
    assert ["E_PA_TAG_MISMATCH", None] == codes
    assert "1 failed" in err


def test_no_message_is_no_response(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (0, []) == call(capsys, "replay", file_of(tmp_path), "-t", "ahbm_1x1")[:2]


def test_a_limit_ends_what_is_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, responses, _ = call(
        capsys, "replay", file_of(tmp_path, write(1), read(2)), "-t", "ahbm_1x1", "--max-time-ns", "60"
    )

    assert 5 == code
    assert ["E_TIME_LIMIT"] * 2 == [json.loads(line)["completion"]["error_code"] for line in responses]


# --------------------------------------------------------------------------- what is refused


def test_every_bad_message_is_told_with_line_and_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch = {
        "msg_type": "KernelLaunch", "correlation_id": "a", "request_id": "1", "target_device": "sip:0",
        "kernel_ref": {"name": "k", "kind": "deployed", "deploy_pa": 0, "deploy_sip": 0, "deploy_cube": 0,
                       "deploy_pe": 0, "nbytes_code": 8},
        "args": [{"arg_kind": "tensor", "tensor_pa_map": {"shards": [
            {"sip": 0, "cube": 0, "pe": 0, "pa": 0, "nbytes": 8, "offset_bytes": 0},
            {"sip": 0, "cube": 0, "pe": 0, "pa": "8", "nbytes": 8, "offset_bytes": 8}]}}],
    }  # fmt: skip
    path = tmp_path / "m.jsonl"
    path.write_text("\n" + json.dumps(launch) + "\n" + json.dumps(write(1).to_json() | {"nbytes": -1}) + "\n")

    code, out, err = call(capsys, "replay", str(path), "-t", "ahbm_1x1")

    assert (4, []) == (code, out)
    assert "m.jsonl:2:1" in err and "args[0].tensor_pa_map.shards[1].pa" in err
    assert "m.jsonl:3:1" in err and "`nbytes`" in err


def test_what_no_device_takes_is_told_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = content_hash(b"12345678")
    beside = write(2, src_kind="host_buffer_ref", pattern=None, host_buffer=name)
    file = file_of(tmp_path, write(1), beside, read(3, target_device="sip:4"))

    code, out, err = call(capsys, "replay", file, "-t", "ahbm_1x1")

    assert (4, []) == (code, out)
    assert "E_BUFFER_MISSING" in err and "m.jsonl:2:1" in err
    assert "E_DEVICE_UNKNOWN" in err and "m.jsonl:3:1" in err


def test_a_buffer_must_be_what_its_name_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = content_hash(b"12345678")
    file = file_of(tmp_path, write(1, src_kind="host_buffer_ref", pattern=None, host_buffer=name), read(2))
    folder = tmp_path / "buffers"
    folder.mkdir()
    (folder / name.replace(":", "-")).write_bytes(b"12345678")
    good = call(capsys, "replay", file, "-t", "ahbm_1x1")
    (folder / name.replace(":", "-")).write_bytes(b"1234567!")
    bad = call(capsys, "replay", file, "-t", "ahbm_1x1")

    assert (0, name) == (good[0], json.loads(good[1][1])["checksum"])
    assert 4 == bad[0] and "E_BUFFER_CHANGED" in bad[2] and "m.jsonl:1:1" in bad[2]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("{}/none.jsonl", "-t", "ahbm_1x1"), "none.jsonl"),
        (("{}/m.jsonl", "-t", "ahbm_1x"), "ahbm_1x1"),
        (("{}/m.jsonl",), "-t"),
        (("{}/m.jsonl", "-t", "ahbm_1x1", "--mode", "dat"), "data"),
        (("{}/m.jsonl", "-t", "ahbm_1x1", "--sanitize", "eror"), "error"),
        (("{}/m.jsonl", "-t", "ahbm_1x1", "--buffers", "{}/none"), "none"),
    ],
)
def test_a_wrong_word_exits_2(
    arguments: tuple[str, ...], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file_of(tmp_path, write(1))
    code, out, err = call(capsys, "replay", *(word.format(tmp_path) for word in arguments))

    assert (2, []) == (code, out)
    assert text in err


def test_a_file_that_is_no_text_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.jsonl").write_bytes(b"\xff\xfe{}")
    code, _, err = call(capsys, "replay", str(tmp_path / "m.jsonl"), "-t", "ahbm_1x1")

    assert 4 == code and "E_MESSAGE_JSON" in err


def test_a_run_directory_may_move(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, moved = tmp_path / "run", tmp_path / "moved"
    call(capsys, "run", "vector_add.tl", "--case", "tiny", "-o", str(run))
    shutil.move(run, moved)

    assert 0 == call(capsys, "replay", str(moved / "messages.jsonl"))[0]


def test_a_run_is_not_kept_among_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has a `bench.yaml` and a `topology.yaml` of its own, which would go over the user's; over a run it may go."""
    mine = tmp_path / "bench.yaml"
    mine.write_text("# mine\n", encoding="utf-8")
    code, out, told = call(capsys, "run", "vector_add.tl", "--case", "tiny", "-o", str(tmp_path))

    assert (code, out) == (2, [])
    assert "E_OUTPUT_FILE" in told and "no run directory" in told
    assert mine.read_text(encoding="utf-8") == "# mine\n"
    assert [mine] == list(tmp_path.iterdir())
    for _ in range(2):
        assert 0 == call(capsys, "run", "vector_add.tl", "--case", "tiny", "-o", str(tmp_path / "run"))[0]


def test_a_folder_that_may_not_be_read_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("kernbench.cli.rundir.Path.iterdir", refuse)
    code, _, told = call(capsys, "run", "vector_add.tl", "--case", "tiny", "-o", str(tmp_path))

    assert code == 2
    assert f"cannot read `{tmp_path}`: Permission denied" in told
