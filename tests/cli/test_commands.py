"""The command line as its users meet it: streams, exit codes, JSON documents."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernbench.cli.list_ import LISTS
from kernbench.cli.main import main
from kernbench.data_files import data_dir
from kernbench.version import VERSION

SMALL = (
    "vector_add",
    "softmax",
    "rmsnorm",
    "matmul",
    "gemm_composite",
    "flash_attention",
    "gqa_decode_opt2",
    "gqa_decode_opt3",
)
RUN_KEYS = (
    *("schema", "version", "kernel", "topology", "mode", "ok", "total_ns", "phases_ns", "pe_exec_ns", "commands"),
    *("op_records", "engines", "links", "bound_by", "terms_ns", "outputs", "check", "config_hash", "errors"),
)


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("kernel", SMALL)
def test_run_json_has_every_key_and_its_terms_add_up(kernel: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "run", f"{kernel}.tl", "--case", "tiny", "--json")
    report = json.loads(out)

    assert 0 == code
    assert [] == [key for key in RUN_KEYS if key not in report]
    assert (True, "data", VERSION) == (report["ok"], report["mode"], report["version"])
    assert report["check"]
    assert all(entry["ok"] for entry in report["check"].values())
    assert round(report["total_ns"] * 1000) == sum(round(ns * 1000) for ns in report["terms_ns"].values())
    assert all(0 <= engine["utilization"] <= 1 for engine in report["engines"].values())


def test_a_device_for_which_the_bench_is_not_made_is_told_where_results_differ(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = "the bench file is made for ahbm_2sip_1x1; its sizes may not fit ahbm_1x1"
    code, _, err = call(capsys, "run", "all_reduce.tl", "--case", "tiny", "-t", "ahbm_1x1")
    assert (1, True) == (code, said in err)

    code, _, err = call(capsys, "run", "gqa_decode_long.tl", "--case", "tiny", "-t", "ahbm_1x1")
    assert (0, False) == (code, "made for" in err)


@pytest.mark.parametrize("kernel", SMALL)
def test_timing_mode_logs_the_same_bytes(kernel: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = []
    for mode in ("data", "timing"):
        path = tmp_path / f"{mode}.log"
        code, out, _ = call(
            capsys, "run", f"{kernel}.tl", "--case", "tiny", "--mode", mode, "--json", "--op-log", str(path)
        )
        assert 0 == code
        logs.append(path.read_bytes())

    assert {} == json.loads(out)["check"]
    assert logs[0]
    assert logs[0] == logs[1]


def test_bytes_do_not_depend_on_hash_seed_folder_or_locale(tmp_path: Path) -> None:
    logs = []
    for number, (seed, locale) in enumerate((("0", "C"), ("1", "C.UTF-8"), ("random", "tr_TR.UTF-8"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        command = [sys.executable, "-m", "kernbench", "run", "softmax.tl", "--case", "tiny", "--op-log", "log"]
        environment = {"PYTHONHASHSEED": seed, "LC_ALL": locale, "PATH": ""}
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        logs.append((folder / "log").read_bytes())

    assert logs[0]
    assert 1 == len(set(logs))


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("run", "softmx.tl"), 2, "softmax.tl"),
        (("run", "softmax.tl", "--case", "tinny"), 2, "tiny"),
        (("run", "softmax.tl", "-t", "ahbm_4x5"), 2, "ahbm_4x4"),
        (("run", "softmax.tl", "--set", "BLOK=3"), 2, "BLOCK"),
        (("run", "softmax.tl", "--mode", "dat"), 2, "data"),
        (("run",), 2, "expected a kernel"),
        (("compile", "softmax.tl", "--emit", "jsn"), 2, "json"),
        (("compile", "softmax.tl", "--dump-after", "lowr"), 2, "lower"),
        (("list", "kernel"), 2, "kernels"),
        (("explain", "E_TWO_GEMS"), 2, "E_TWO_GEMMS"),
        (("rnu",), 2, "run"),
    ],
)
def test_a_mistyped_word_exits_2_with_the_nearest(
    arguments: tuple[str, ...], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out, err = call(capsys, *arguments)

    assert (code, "") == (found, out)
    assert text in err


def test_a_broken_kernel_exits_3_and_tells_all_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (data_dir("kernels") / "softmax.tl").read_text("utf-8")
    (tmp_path / "k.tl").write_text(text.replace("tl.max(", "tl.mx(").replace("n_cols, other", "n_col, other"))
    bench = (data_dir("kernels") / "softmax.yaml").read_text("utf-8")
    (tmp_path / "k.yaml").write_text(bench.replace("softmax.tl", "k.tl"))

    code, _, err = call(capsys, "run", str(tmp_path / "k.tl"))

    assert 3 == code
    assert "k.tl:13:" in err
    assert "did you mean `max`" in err


def test_a_repeated_bench_key_exits_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = (data_dir("kernels") / "softmax.yaml").read_text("utf-8")
    path = tmp_path / "b.yaml"
    path.write_text(bench + "grid: [3]\n")

    code, _, err = call(capsys, "run", "softmax.tl", "--bench", str(path))

    assert 4 == code
    assert "grid" in err


@pytest.mark.parametrize("command", ["run softmax.tl", "compile softmax.tl", "inspect softmax.tl", "check"])
def test_names_of_a_bench_that_nothing_takes_are_told(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = (data_dir("kernels") / "softmax.yaml").read_text("utf-8")
    bench = bench.replace("y_row_stride: n_cols}", "spare: 1}").replace("1024}", "1024, y_row_stride: n_cols}")
    (tmp_path / "softmax.tl").write_bytes((data_dir("kernels") / "softmax.tl").read_bytes())
    path = tmp_path / "b.yaml"
    path.write_text(bench)
    options = (str(path),) if command == "check" else ("--bench", str(path), "--case", "tiny")

    code, _, err = call(capsys, *command.split(), *options)

    assert 0 == code, err
    assert 1 == err.count("warning[W_BENCH_UNUSED]: `spare` is no parameter of the kernel")
    assert 1 == err.count("remark[R_BENCH_CONSTEXPR]: `y_row_stride` is a run-time parameter of the kernel")


def test_a_tcm_overflow_exits_3_with_the_live_map(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "compile", "matmul.tl", "--set", "BLOCK_M=1024", "--set", "BLOCK_N=1024")

    assert 3 == code
    assert "E_TCM_OVERFLOW" in err
    assert "acc" in err


def test_program_json_says_what_each_command_is(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "compile", "gqa_decode_opt2.tl", "--emit=json")
    document = json.loads(out)
    composites = [c for c in document["commands"] if len(c["ops"]) > 1 and c["loop"]]

    assert (0, "kernbench.program/1") == (code, document["schema"])
    assert 0 < document["nbytes_code"]
    assert all(
        {"id", "kind", "src", "loop", "ops", "rw_handles", "logical_bytes"} <= c.keys() for c in document["commands"]
    )
    assert ["rmax", "max_elem", "exp_diff", "exp_diff", "rsum", "fma", "mul_bcast", "copy", "gemm", "add"] == [
        op["kind"] for op in composites[1]["ops"]
    ]
    assert ["m", "l", "O"] == composites[1]["rw_handles"]


def test_loops_stay_rolled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = set()
    for trips in (100, 1_000_000):
        path = tmp_path / "k.tl"
        path.write_text(
            "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(x_ptr):\n"
            "    acc = tl.zeros((16,), tl.float32)\n"
            f"    for i in range({trips}):\n        acc += tl.load(x_ptr + i * 16 + tl.arange(0, 16))\n"
            "    tl.store(x_ptr + tl.arange(0, 16), acc)\n"
        )
        code, out, _ = call(capsys, "compile", str(path), "--signature", "x_ptr=*fp32", "--emit=json")
        assert 0 == code
        sizes.add(json.loads(out)["nbytes_code"])

    assert max(sizes) - min(sizes) <= 2, "the trip count itself takes a byte or two more"


@pytest.mark.parametrize("form", ["ast", "typed", "program", "ops", "stages", "binary", "dataflow", "json"])
def test_every_form_is_the_same_twice(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contents = []
    for name in ("one", "two"):
        path = tmp_path / name
        assert 0 == call(capsys, "compile", "matmul.tl", "--case", "tiny", f"--emit={form}", "-o", str(path))[0]
        contents.append(path.read_bytes())

    assert contents[0]
    assert contents[0] == contents[1]


def test_dumps_are_numbered_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "compile", "matmul.tl", "--dump-after=all", "--dump-dir", str(tmp_path))
    names = sorted(path.name for path in tmp_path.iterdir())

    assert ["parse", "elaborate", "lower", "fuse", "schedule", "allocate", "encode"] == [
        name.partition("_")[2].removesuffix(".txt") for name in names
    ]


def test_dump_diff_shows_a_new_form_whole_and_else_the_changes(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "compile", "softmax.tl", "--case", "tiny", "--dump-after=all", "--dump-diff")
    parts = {part.split()[1]: part.split("\n")[1] for part in out.split("==== ")[1:]}

    assert "kernel softmax" == parts["elaborate"]
    assert parts["fuse"].startswith("@@")
    assert "(nothing changed)" == parts["schedule"]
    assert parts["encode"].startswith("code ")


def test_functions_are_listed_as_a_kernel_writes_them(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "list", "functions")

    assert "tl.store(pointer, value, mask=None," in out
    assert "\nmin(*values)" in out
    assert "tl._" not in out


@pytest.mark.parametrize("what", [name for name in LISTS if name != "functions"])
def test_lists_come_as_json(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "list", what, "--json")
    rows: list[dict[str, Any]] = json.loads(out)[what]

    assert 0 == code
    assert rows
    assert all(row["name"] and row["doc"] for row in rows)


def test_a_run_directory_gives_the_same_bytes_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert 0 == call(capsys, "run", "gqa_decode_opt3.tl", "--case", "tiny", "-o", str(first))[0]
    assert 0 == call(capsys, "run", "--from", str(first), "-o", str(second))[0]

    for name in ("op_log.jsonl", "messages.jsonl", "topology.yaml", "bench.yaml"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


@pytest.mark.parametrize("statement", ["from ..common import twice", "from pkg.common import twice"])
def test_a_run_directory_holds_what_its_kernel_imports(
    statement: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "import triton\nimport triton.language as tl\n"
    ops = tmp_path / "pkg" / "ops"
    ops.mkdir(parents=True)
    (tmp_path / "pkg" / "common.py").write_text(f"{head}@triton.jit\ndef twice(x):\n    return 2 * x\n")
    (ops / "k.py").write_text(
        f"{head}{statement}\n@triton.jit\ndef k(x_ptr, BLOCK: tl.constexpr):\n"
        "    x = x_ptr + tl.arange(0, BLOCK)\n    tl.store(x, twice(tl.load(x)))\n"
    )
    (ops / "k.yaml").write_text(
        "{kernel: k.py::k, topology: ahbm_1x1, constexprs: {BLOCK: 64}, grid: [1],"
        " tensors: {x_ptr: {shape: [64], dtype: fp32, init: ones}}, expect: {x_ptr: x_ptr * 2}}"
    )
    first, second = tmp_path / "first", tmp_path / "second"
    assert 0 == call(capsys, "run", str(ops / "k.py::k"), "-o", str(first))[0]
    (tmp_path / "pkg").rename(tmp_path / "gone")

    assert 0 == call(capsys, "run", "--from", str(first), "-o", str(second))[0]
    for name in ("op_log.jsonl", "bench.yaml"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    (copy,) = first.rglob("common.py")
    copy.write_text(copy.read_text().replace("2 *", "3 *"))
    code, _, told = call(capsys, "run", "--from", str(first))
    assert (4, True) == (code, "common.py differs from what the run used" in told)


def test_a_closed_pipe_ends_quietly() -> None:
    command = f"{sys.executable} -m kernbench run softmax.tl --case tiny --op-log - | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("{")
    assert "Traceback" not in done.stderr
