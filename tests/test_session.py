"""The Python face: what goes in, what comes out, and what a mistake says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kernbench import kernel as kernel_module
from kernbench.data_files import data_dir
from kernbench.diagnostics import EXIT_INPUT, EXIT_INTERRUPTED, EXIT_KERNEL, EXIT_SIMULATION, EXIT_USAGE, KernBenchError
from kernbench.kernel import MAX_SPECIALISATIONS
from kernbench.messages import KernelLaunch, MemoryRead, MemoryWrite
from kernbench.runtime import api
from kernbench.runtime.allocator import HbmAllocator
from kernbench.sim.engine import Limits

SCALE = """\
import triton
import triton.language as tl


@triton.jit
def scale(x, y, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = offsets < n
    value = tl.load(x + offsets, mask=live)
    tl.store(y + offsets, value * factor, mask=live)
"""

LOCAL = """\
import triton
import triton.language as tl


@triton.jit
def local(x, y, N: tl.constexpr):
    offsets = tl.arange(0, N)
    tl.store(y + offsets, tl.load(x + offsets) + tl.program_id(0))
"""

MAYBE = """\
import triton
import triton.language as tl


@triton.jit
def maybe(x, bias, y, N: tl.constexpr, two=2):
    offsets = tl.arange(0, N)
    value = tl.load(x + offsets) * two
    if bias is not None:
        value += tl.load(bias + offsets)
    tl.store(y + offsets, value)
"""


def scaled(topology: str = "ahbm_1x1", **changes: Any) -> kb.Run:
    x = np.arange(100, dtype=np.float32)
    given: dict[str, Any] = {"x": x, "y": np.zeros_like(x), "n": 100, "factor": 2.0}
    options = {key: changes.pop(key) for key in ("placements", "dtypes", "mode") if key in changes}
    kernel = kb.compile(SCALE, BLOCK=32)
    return kb.open(topology).run(kernel, args=given | changes, grid=(4,), **options)


def wrong(error: pytest.ExceptionInfo[kb.KernBenchError]) -> list[str]:
    return [diagnostic.code for diagnostic in error.value.diagnostics]


# --------------------------------------------------------------------------- results


@pytest.mark.parametrize("topology", ["ahbm_1x1", "ahbm_2x2"])
def test_arrays_go_in_and_come_out(topology: str) -> None:
    run = scaled(topology)

    np.testing.assert_array_equal(np.arange(100) * 2.0, run["y"])
    np.testing.assert_array_equal(np.arange(100), run["x"])
    assert np.float32 == run["y"].dtype
    assert run.ok


def test_arguments_may_be_keywords_and_a_grid_may_be_computed() -> None:
    kernel = kb.compile(SCALE)
    x = np.ones(10, np.float32)

    run = kb.open("ahbm_1x1").run(
        kernel, x=x, y=np.zeros_like(x), n=10, factor=3, BLOCK=16, grid=lambda meta: (-(-10 // meta["BLOCK"]),)
    )

    assert {3.0} == set(run["y"].tolist())


def test_the_arrays_that_were_given_are_not_changed() -> None:
    y = np.zeros(100, np.float32)

    run = scaled(y=y)

    assert not y.any()
    assert run["y"].any()


def test_a_cast_array_is_stored_in_its_type_and_comes_back_as_it_was() -> None:
    x = np.full(100, 1 + 2**-8 + 2**-20, np.float32)

    run = scaled(x=x, factor=1.0, dtypes={"x": "bf16", "y": kb.float32})

    assert {1.0078125} == set(run["y"].tolist()) == set(run["x"].tolist())
    assert np.float32 == run["x"].dtype


def test_an_array_that_is_given_twice_is_one_tensor() -> None:
    x = np.arange(100, dtype=np.float32)

    run = scaled(x=x, y=x)

    np.testing.assert_array_equal(np.arange(100) * 2, run["x"])
    np.testing.assert_array_equal(run["x"], run["y"])


def test_a_typed_scalar_keeps_its_value() -> None:
    run = scaled(x=np.ones(100, np.float32), factor=np.float16(65500))

    assert {65504.0} == set(run["y"].tolist())


def test_none_is_a_compile_time_value_and_defaults_count() -> None:
    kernel, device = kb.compile(MAYBE, N=16), kb.open("ahbm_1x1")
    x, bias, y = np.arange(16, dtype=np.float32), np.ones(16, np.float32), np.zeros(16, np.float32)

    without = device.run(kernel, x=x, bias=None, y=y)
    with_bias = device.run(kernel, x=x, bias=bias, y=y, two=3)

    np.testing.assert_array_equal(x * 2, without["y"])
    np.testing.assert_array_equal(x * 3 + 1, with_bias["y"])


def test_a_view_is_read_by_its_strides() -> None:
    base = np.arange(200, dtype=np.float32).reshape(100, 2)

    run = scaled(x=base[:, 1], n=100)

    assert 2.0 == run["y"][0] and 4.0 == run["y"][1]  # the kernel steps by 1: the memory is base's own


def test_a_launch_without_a_grid_runs_on_each_pe_with_its_own_shard() -> None:
    kernel, device = kb.compile(LOCAL, N=4), kb.open("ahbm_2x2")
    pes = device.shape.sips * device.shape.cubes * device.shape.pes
    x = np.zeros((pes, 4), np.float32)
    spread = kb.shard(0, over=("cube", "pe"))

    run = device.run(kernel, x=x, y=x.copy(), placements={"x": spread, "y": spread})

    np.testing.assert_array_equal(np.repeat(np.arange(pes), 4).reshape(pes, 4), run["y"])


def test_copies_that_differ_are_told_and_the_first_is_given() -> None:
    kernel, device = kb.compile(LOCAL, N=4), kb.open("ahbm_2x2")
    x = np.zeros(4, np.float32)

    run = device.run(kernel, x=x, y=x.copy())

    assert [0.0] * 4 == run["y"].tolist()
    assert "W_COPIES_DIFFER" in [diagnostic.code for diagnostic in run.diagnostics]
    assert run.ok


def test_a_launch_of_no_program_and_of_no_element_is_fine() -> None:
    kernel, device = kb.compile(SCALE, BLOCK=16), kb.open("ahbm_1x1")
    nothing = np.zeros(0, np.float32)

    run = device.run(kernel, x=nothing, y=nothing.copy(), n=0, factor=1.0, grid=(0,))

    assert (0,) == run["y"].shape
    assert 0 == run.commands
    assert run.total_ns > 0


# --------------------------------------------------------------------------- times


def test_the_terms_and_phases_of_a_run_add_up() -> None:
    run = scaled("ahbm_2x2")

    assert run.handle is not None and run.times is not None
    assert run.handle.total_ps == sum(run.times.terms_ps.values())
    assert run.total_ns == run.phases_ns["launch"]
    assert all(ns > 0 for ns in run.phases_ns.values())
    assert max(run.pe_exec_ns.values()) < run.total_ns


def test_timing_mode_takes_the_same_time_and_has_no_values() -> None:
    data, timing = scaled("ahbm_2x2"), scaled("ahbm_2x2", mode="timing")

    assert data.op_log is not None and timing.op_log is not None
    assert list(data.op_log) == list(timing.op_log)
    assert data.phases_ns == timing.phases_ns
    with pytest.raises(kb.KernBenchError) as caught:
        timing["y"]
    assert ["E_NO_DATA"] == wrong(caught)


def test_equal_runs_are_equal_in_every_record() -> None:
    device, kernel = kb.open("ahbm_2x2"), kb.compile(SCALE, BLOCK=32)
    x = np.arange(100, dtype=np.float32)

    def records() -> list[Any]:
        run = device.run(kernel, x=x, y=np.zeros_like(x), n=100, factor=2.0, grid=(4,))
        assert run.op_log is not None
        return list(run.op_log)

    first = records()
    device.run(kb.compile(LOCAL, N=4), x=x[:4].copy(), y=x[:4].copy())

    assert first == records()


def test_only_what_may_be_stored_to_is_read_back() -> None:
    run = scaled()
    kinds = [type(message) for message in run.sent.requests]

    assert ("y",) == run.stored
    assert [MemoryWrite, MemoryWrite, MemoryWrite, KernelLaunch, MemoryRead] == kinds


def test_json_has_the_keys_that_others_rely_on() -> None:
    content = scaled().to_json(check={"y": {"ok": True, "max_abs_err": 0.0, "max_rel_err": 0.0}})

    json.dumps(content, allow_nan=False)
    keys = {
        "schema", "kernel", "topology", "mode", "ok", "total_ns", "phases_ns", "pe_exec_ns", "commands", "op_records",
        "engines", "links", "bound_by", "terms_ns", "outputs", "check", "config_hash", "errors",
    }  # fmt: skip
    assert keys <= content.keys()
    assert content["ok"] is True
    assert {"upload", "deploy", "launch", "readback"} == content["phases_ns"].keys()
    assert {"min", "max"} == content["pe_exec_ns"].keys()
    assert ["y"] == list(content["outputs"])
    assert ([100], "fp32", 64) == (
        content["outputs"]["y"]["shape"],
        content["outputs"]["y"]["dtype"],
        len(content["outputs"]["y"]["sha256"]),
    )
    assert scaled().to_json(check={"y": {"ok": False}})["ok"] is False


def test_a_summary_says_what_ran_and_what_bounded_it() -> None:
    text = scaled().summary()

    assert all(word in text for word in ("scale", "ahbm_1x1", "ns", "bound by"))


# --------------------------------------------------------------------------- kernels


def test_a_kernel_is_compiled_once_for_one_set_of_types(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    real = kernel_module.compile_kernel

    def counted(*given: Any) -> Any:
        calls.append(given)
        return real(*given)

    monkeypatch.setattr(kernel_module, "compile_kernel", counted)
    kernel, device = kb.compile(SCALE, BLOCK=16), kb.open("ahbm_1x1")
    x = np.ones(16, np.float32)

    for n in range(1, 5):
        device.run(kernel, x=x, y=x.copy(), n=n, factor=float(n), grid=(1,))
    device.run(kernel, x=x, y=x.copy(), n=2**40, factor=1.0, grid=(1,))

    assert 2 == len(calls)


def test_the_cache_of_specialisations_is_bounded_and_tells_1_from_true() -> None:
    kernel = kb.compile(SCALE)
    types = {"x": "*fp32", "y": "*fp32", "n": "i32", "factor": "fp32"}
    for power in range(5):
        kernel.specialise(types, {"BLOCK": 16 << power})
    sizes = {kernel.specialise(types, {"BLOCK": 16}).program.constexprs for _ in range(3)}

    assert 1 == len(sizes)
    assert len(kernel._cache) <= MAX_SPECIALISATIONS
    assert 5 == len(kernel._cache)


def test_a_module_constant_is_read_at_each_compile(tmp_path: Path) -> None:
    path = tmp_path / "k.tl"
    device, x = kb.open("ahbm_1x1"), np.zeros(4, np.float32)
    for constant in (123, 124):
        text = LOCAL.replace("@triton.jit", f"SHIFT: tl.constexpr = {constant}\n\n\n@triton.jit")
        path.write_text(text.replace("tl.program_id(0)", "SHIFT"), encoding="utf-8")
        run = device.run(kb.compile(path, N=4), x=x, y=x.copy())
        assert {float(constant)} == set(run["y"].tolist())


def test_a_signature_finishes_a_kernel_at_once() -> None:
    types = {"x": "*fp32", "y": "*fp32", "n": "i64", "factor": "fp32"}
    kernel = kb.compile(SCALE, BLOCK=16, signature=types, target="ahbm_1x1")
    x = np.ones(4, np.float32)

    run = kb.open("ahbm_1x1").run(kernel, x=x, y=x.copy(), n=4, factor=2, grid=1)

    assert {2.0} == set(run["y"].tolist())
    launch = next(message for message in run.sent.requests if isinstance(message, KernelLaunch))
    assert ["i64", "fp32"] == [arg.dtype for arg in launch.args if arg.arg_kind == "scalar"]


def test_dumps_go_to_their_folder_and_stay_on_the_kernel(tmp_path: Path) -> None:
    types = {"x": "*fp32", "y": "*fp32", "n": "i32", "factor": "fp32"}
    kernel = kb.compile(
        SCALE, BLOCK=16, signature=types, target="ahbm_1x1", dump_after=("lower", "encode"), dump_dir=tmp_path / "d"
    )

    assert ["lower", "encode"] == [dump.name for dump in kernel.dumps]
    assert ["02_lower.txt", "06_encode.txt"] == sorted(path.name for path in (tmp_path / "d").iterdir())


def test_the_dump_variable_counts_where_the_call_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    types = {"x": "*fp32", "y": "*fp32", "n": "i32", "factor": "fp32"}
    monkeypatch.setenv("KERNBENCH_DUMP", f"parse:{tmp_path / 'd'}")

    assert ["parse"] == [dump.name for dump in kb.compile(SCALE, BLOCK=16, signature=types).dumps]
    assert ["lower"] == [dump.name for dump in kb.compile(SCALE, BLOCK=16, signature=types, dump_after="lower").dumps]
    monkeypatch.setenv("KERNBENCH_DUMP", "0")
    assert [] == kb.compile(SCALE, BLOCK=16, signature=types).dumps


# --------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"z": 1}, "E_ARG_UNKNOWN"),
        ({"BLOCK": 8}, "E_ARG_TWICE"),
        ({"n": [1]}, "E_ARG_TYPE"),
        ({"n": 2**64}, "E_ARG_RANGE"),
        ({"x": np.zeros(3, np.complex64)}, "E_ARG_DTYPE"),
        ({"dtypes": {"x": "bf61"}}, "E_ARG_DTYPE"),
        ({"dtypes": {"xx": "bf16"}}, "E_ARG_UNKNOWN"),
        ({"placements": {"xx": kb.replicate()}}, "E_ARG_UNKNOWN"),
        ({"placements": {"x": "replicate"}}, "E_PLACEMENT"),
        ({"placements": {"x": kb.on(0, 0, 9)}}, "E_PLACEMENT"),
        ({"placements": {"x": kb.shard(1)}}, "E_PLACEMENT"),
    ],
)
def test_a_bad_argument_is_told_by_its_name(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(kb.KernBenchError) as caught:
        scaled(**changes)

    assert [code] == wrong(caught)
    assert EXIT_INPUT == caught.value.exit_code


def test_all_bad_arguments_are_told_together() -> None:
    with pytest.raises(kb.KernBenchError) as caught:
        kb.open("ahbm_1x1").run(kb.compile(SCALE, BLOCK=8), x=[1], m=3, n=1j, grid=(1,))

    assert ["E_ARG_UNKNOWN", "E_ARG_MISSING", "E_ARG_MISSING", "E_ARG_TYPE", "E_ARG_TYPE"] == wrong(caught)


@pytest.mark.parametrize(
    ("call", "code", "exit_code"),
    [
        (lambda: kb.compile("nowhere.tl"), "E_KERNEL_UNREADABLE", EXIT_USAGE),
        (lambda: kb.compile(SCALE, BLOK=3), "E_ARG_UNKNOWN", EXIT_INPUT),
        (lambda: kb.compile(SCALE, {"BLOCK": 3}, BLOCK=3), "E_ARG_TWICE", EXIT_INPUT),
        (lambda: kb.compile(SCALE, opt_level=3), "E_OPT_LEVEL", EXIT_USAGE),
        (lambda: kb.compile(SCALE, dump_after="lowr"), "E_UNKNOWN_PASS", EXIT_USAGE),
        (lambda: kb.compile(SCALE.replace("def scale(", "def scale((")), "E_SYNTAX", EXIT_KERNEL),
        (lambda: scaled(mode="fast"), "E_MODE", EXIT_USAGE),
        (lambda: scaled()["z"], "E_ARG_UNKNOWN", EXIT_INPUT),
        (lambda: kb.open("ahbm_9x9"), "E_TOPO_NOT_FOUND", EXIT_USAGE),
    ],
)
def test_mistakes_have_codes_and_exit_codes(call: Any, code: str, exit_code: int) -> None:
    with pytest.raises(kb.KernBenchError) as caught:
        call()

    assert code in wrong(caught)
    assert exit_code == caught.value.exit_code
    assert str(caught.value).startswith("error[")


def test_a_tensor_that_does_not_fit_is_told_with_its_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "HbmAllocator", lambda slice_bytes: HbmAllocator(256))

    with pytest.raises(kb.KernBenchError) as caught:
        scaled()

    assert ["E_HBM_FULL"] == wrong(caught)
    assert "tensor `x` needs 400 bytes in the HBM slice of sip0.cube0.pe0, 256 are free" in str(caught.value)


def test_a_fault_names_the_kernel_line_and_leaves_the_partial_run() -> None:
    with pytest.raises(kb.KernBenchError) as caught:
        scaled(n=10**6)

    error = caught.value
    assert EXIT_SIMULATION == error.exit_code
    assert "tl.load(x + offsets" in str(error)
    assert isinstance(error.run, kb.Run)
    assert not error.run.ok
    assert error.run.op_log is not None and len(error.run.op_log) > 0
    assert error.run.to_json()["errors"]


def test_an_interrupt_leaves_the_partial_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(api.Runtime, "launch", interrupted)

    with pytest.raises(kb.KernBenchError) as caught:
        scaled()

    assert EXIT_INTERRUPTED == caught.value.exit_code
    assert caught.value.run.op_log is not None
    assert {"upload", "deploy", "launch", "readback"} == caught.value.run.phases_ns.keys()


def test_a_limit_fails_the_simulation() -> None:
    device = kb.open("ahbm_1x1", limits=Limits(max_time_ns=1))

    with pytest.raises(kb.KernBenchError) as caught:
        device.run(kb.compile(LOCAL, N=4), x=np.zeros(4), y=np.zeros(4))

    assert EXIT_SIMULATION == caught.value.exit_code
    assert {"E_TIME_LIMIT"} == set(wrong(caught))


def test_a_run_without_end_is_told_with_the_place_where_it_turns() -> None:
    lines = ["import triton.language as tl", "", "@triton.jit", "def k(x_ptr, n):", "    i = 0", "    while i < n:"]
    text = "\n".join([*lines, "        tl.store(x_ptr, i)", ""])

    with pytest.raises(kb.KernBenchError) as caught:
        kb.open("ahbm_1x1", limits=Limits(max_time_ns=9_000)).run(kb.compile(text), x_ptr=np.zeros(1), n=3, grid=(1,))

    (found,) = caught.value.diagnostics
    assert found.message.endswith("; sip0.cube0.pe0.pe_cpu is at <text>:7:9")


def test_a_placement_that_the_device_does_not_have_is_told_of_its_tensor() -> None:
    for place in (kb.on(0, 0, 9), kb.shard(1)):
        with pytest.raises(kb.KernBenchError) as caught:
            scaled(placements={"y": place})
        assert ["the placement of tensor `y`"] == [found.path for found in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda k: kb.compile(k, constexprs=5), "`constexprs` is 5"),
        (lambda k: kb.compile(k, constexprs={1: 2}), "`constexprs` is {1: 2}"),
        (lambda k: kb.compile(k, signature=["x_ptr"]), "`signature` is ['x_ptr']"),
        (lambda k: kb.compile(k, dump_after=3), "`dump_after` is 3"),
        (lambda k: kb.open("ahbm_1x1").run(3), "the kernel is 3"),
        (lambda k: kb.open("ahbm_1x1").run(kb.compile(k), args=3), "`args` is 3"),
        (lambda k: kb.open("ahbm_1x1").run(kb.compile(k), placements=[]), "`placements` is []"),
    ],
)
def test_what_has_a_wrong_form_is_told(call: Callable[[Any], object], told: str) -> None:
    with pytest.raises(KernBenchError) as caught:
        call(data_dir("kernels") / "vector_add.tl")

    (found,) = caught.value.diagnostics
    assert ("E_ARG_FORM", told) == (found.code, found.message)


HELPERS = """
import triton
import triton.language as tl

@triton.jit
def element(pointer, at):
    return tl.load(pointer + at + 4000)

@triton.jit
def doubled(pointer, at):
    return element(pointer, at) * 2.0

@triton.jit
def k(x_ptr, y_ptr, TWICE: tl.constexpr):
    at = tl.arange(0, 64)
    y = doubled(x_ptr, at)
    if TWICE:
        y += element(x_ptr, at)
    tl.store(y_ptr + at, y)
"""


@pytest.mark.parametrize(("twice", "told"), [(False, 2), (True, 0)])
def test_a_fault_in_a_helper_is_told_with_the_calls_that_lead_there(twice: bool, told: int) -> None:
    """A device knows the place alone: where two ways lead to it, none is told."""
    kernel = kb.compile(HELPERS, TWICE=twice)
    with pytest.raises(KernBenchError) as failed:
        kb.open("ahbm_1x1").run(kernel, x_ptr=np.ones(64, np.float32), y_ptr=np.zeros(64, np.float32))
    (found,) = failed.value.diagnostics

    assert found.code == "E_OUT_OF_BOUNDS"
    assert [label.text for label in found.secondary] == ["called from here"] * told
    assert [label.source.strip() for label in found.secondary][:told] == [
        "return element(pointer, at) * 2.0",
        "y = doubled(x_ptr, at)",
    ][:told]
