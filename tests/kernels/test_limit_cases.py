"""Field cases of resource limits, caches and determinism, through the Python face."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kernbench import kernel as kernel_module
from kernbench.diagnostics import EXIT_INPUT, EXIT_KERNEL
from kernbench.kernel import MAX_SPECIALISATIONS
from kernbench.messages import MemoryRead
from kernbench.runtime.init import generator
from tests.kernels.running import HEAD, codes, kernel, run

f32 = np.float32

SCALE = """
@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
"""

COPY = """
@triton.jit
def copy(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    block = tl.load(x + at)
    tl.store(y + at, block)
"""


def capacity() -> int:
    return kb.open("ahbm_1x1").target.tcm_bytes


def room_of_a_copy(nbytes: int) -> int:
    """The TCM that a copy of so many bytes takes, compiled for a device and not run."""
    types, device = {"x": "*i16", "y": "*i16"}, kb.open("ahbm_1x1")
    made = kb.compile(f"{HEAD}{COPY}", {"N": nbytes // 2}, types, device)
    return made.specialise(types, {}, device.target).program.tcm_bytes


def test_a_kernel_of_exactly_the_scratch_size_and_one_of_2_bytes_more() -> None:
    """FC-RE01, FC-RE03: the first compiles; the second is refused at compile time, with both numbers and the block.

    Buffers take multiples of 64 bytes.
    """
    limit = capacity()

    assert limit == room_of_a_copy(limit)
    with pytest.raises(kb.KernBenchError) as caught:
        room_of_a_copy(limit + 2)
    assert (["E_TCM_OVERFLOW"], EXIT_KERNEL) == (codes(caught), caught.value.exit_code)
    assert all(word in str(caught.value) for word in (str(limit), str(limit + 64), "`block`", "bytes"))


def test_an_overflow_names_what_is_alive() -> None:
    """FC-RE02: three tiles that are alive together: names, sizes, lines."""
    text = """
@triton.jit
def three(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    first = tl.load(x + at)
    second = tl.load(x + at + N)
    third = tl.load(x + at + 2 * N)
    tl.store(y + at, first)
    tl.store(y + at, second)
    tl.store(y + at, third)
"""
    size = capacity() // 4  # elements of 4 bytes, so that no two fit
    with pytest.raises(kb.KernBenchError) as caught:
        run(kernel(text, N=size), x=np.zeros(3 * size, f32), y=np.zeros(size, f32))

    assert ["E_TCM_OVERFLOW"] == codes(caught)
    assert all(name in str(caught.value) for name in ("first", "second", str(4 * size)))


# --------------------------------------------------------------------------- nothing to do


@pytest.mark.parametrize("grid", [(0,), (0, 3), (2, 0, 1)], ids=str)
def test_a_launch_of_no_program_does_nothing_and_ends(grid: tuple[int, ...]) -> None:
    """FC-RE04: the same the first time and from the cache; only the fixed cost of a launch."""
    made, x = kernel(SCALE, BLOCK=16), np.ones(16, f32)
    runs = [run(made, grid=grid, x=x, y=np.full(16, 5, f32), n=16) for _ in range(2)]

    for found in runs:
        assert {5.0} == set(found["y"].tolist())
        assert (0, []) == (found.commands, [r for r in found.op_log or () if r.component.endswith("pe_dma")])
    assert runs[0].total_ns == runs[1].total_ns > 0


def test_tensors_of_no_element_are_placed_read_and_written() -> None:
    """FC-RE04: MemoryWrite and MemoryRead of 0 bytes take their latency, a masked access of none is fine."""
    nothing = np.zeros((0, 4), f32)

    found = run(kernel(SCALE, BLOCK=16), grid=(1,), x=nothing, y=nothing.copy(), n=0)

    assert (0, 4) == found["y"].shape
    reads = [message for message in found.sent.requests if isinstance(message, MemoryRead)]
    assert [0] == [message.nbytes for message in reads]
    assert found.phases_ns["readback"] > 0


def test_a_load_beyond_an_empty_tensor_is_a_fault() -> None:
    """FC-RE04, FC-RE08: a lane that is alive reads beyond the tensor, which is told by its name."""
    nothing = np.zeros(0, f32)

    with pytest.raises(kb.KernBenchError) as caught:
        run(kernel(SCALE, BLOCK=16), grid=(1,), x=nothing, y=nothing.copy(), n=1)

    assert ["E_OUT_OF_BOUNDS"] == codes(caught)
    assert "`x`" in str(caught.value)


# --------------------------------------------------------------------------- bad launches


@pytest.mark.parametrize(
    ("changes", "code", "name"),
    [
        ({"y": ...}, "E_ARG_MISSING", "y"),
        ({"z": 1}, "E_ARG_UNKNOWN", "z"),
        ({"x": np.zeros(16, np.complex64)}, "E_ARG_DTYPE", "x"),
        ({"x": np.zeros(16, np.float16)}, "E_ARG_DTYPE", "x"),
        ({"n": "16"}, "E_ARG_TYPE", "n"),
        ({"n": 2**70}, "E_ARG_RANGE", "n"),
    ],
)
def test_a_bad_launch_is_refused_by_the_arguments_name_before_anything_runs(
    changes: dict[str, Any], code: str, name: str
) -> None:
    """FC-RE08: missing, one too many, of a type that the kernel was not compiled for."""
    types = {"x": "*fp32", "y": "*fp32", "n": "i32"}
    made = kb.compile(f"{HEAD}{SCALE}", {"BLOCK": 16}, types)
    args = {"x": np.zeros(16, f32), "y": np.zeros(16, f32), "n": 16, **changes}

    with pytest.raises(kb.KernBenchError) as caught:
        kb.open("ahbm_1x1").run(made, {key: value for key, value in args.items() if value is not ...}, grid=(1,))

    assert ([code], EXIT_INPUT) == (codes(caught), caught.value.exit_code)
    assert f"`{name}`" in str(caught.value)
    assert None is caught.value.run


def test_one_array_for_two_outputs_is_one_tensor() -> None:
    """FC-RE08: outputs do not overlap by halves: an array that is given twice is the same memory for both."""
    text = """
@triton.jit
def both(x, y):
    at = tl.arange(0, 4)
    tl.store(x + at, 1.0)
    tl.store(y + at, tl.load(x + at) + 1)
"""
    x = np.zeros(4, f32)

    found = run(text, x=x, y=x)

    assert [2.0] * 4 == found["x"].tolist() == found["y"].tolist()


# --------------------------------------------------------------------------- caches


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []
    real = kernel_module.compile_kernel
    monkeypatch.setattr(kernel_module, "compile_kernel", lambda *given: (calls.append(1), real(*given))[1])
    return calls


def test_a_plain_argument_does_not_compile_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-PE03: 1,000 values of a plain argument are one compilation (of which 5 are run)."""
    calls = counted(monkeypatch)
    made, device = kernel(SCALE, BLOCK=16), kb.open("ahbm_1x1")
    x = np.ones(16, f32)
    for n in range(5):
        device.run(made, x=x, y=x.copy(), n=n, grid=(1,))
    types = {"x": "*fp32", "y": "*fp32", "n": "i32"}
    for _ in range(1000):
        made.specialise(types, {}, device.target)

    assert 1 == len(calls)


def test_constexprs_compile_anew_and_the_cache_is_bounded() -> None:
    """FC-PE03: as a constexpr every value is a kernel of its own; the oldest are forgotten."""
    text = "@triton.jit\ndef k(out, V: tl.constexpr):\n    tl.store(out, V)\n"
    made, types = kernel(text), {"out": "*fp32"}
    programs = {made.specialise(types, {"V": value}).program.constexprs for value in range(MAX_SPECIALISATIONS + 40)}

    assert MAX_SPECIALISATIONS + 40 == len(programs)
    assert MAX_SPECIALISATIONS == len(made._cache)
    again = made.specialise(types, {"V": 0})
    assert (("V", 0),) == again.program.constexprs


# --------------------------------------------------------------------------- determinism


def log_of(found: kb.Run) -> list[Any]:
    return list(found.op_log or ())


def test_a_second_run_in_one_process_is_the_first() -> None:
    """FC-DE02: also after another kernel; numbers of requests and commands start anew."""
    x = np.ones(64, f32)
    made, other = kernel(SCALE, BLOCK=16), kernel(COPY, N=8)
    first = run(made, grid=(4,), topology="ahbm_2x2", x=x, y=x.copy(), n=64)
    run(other, topology="ahbm_2x2", x=x, y=x.copy())
    second = run(made, grid=(4,), topology="ahbm_2x2", x=x, y=x.copy(), n=64)

    assert log_of(first) == log_of(second)
    assert first.to_json() == second.to_json()


def test_requests_of_one_instant_are_served_in_a_written_order() -> None:
    """FC-DE10: PEs of two cubes ask one slice at the same time; the order of arguments and targets does not show."""
    text = """
@triton.jit
def ask(x, y):
    at = tl.arange(0, 64)
    tl.store(y + tl.program_id(0) * 64 + at, tl.load(x + at))
"""
    pes = 32
    x, y = np.arange(64, dtype=f32), np.zeros((pes, 64), f32)
    where = {"x": kb.on(0, 0, 0), "y": kb.shard(0, over=("cube", "pe"))}
    device, made = kb.open("ahbm_2x2"), kernel(text)
    assert pes == device.shape.cubes * device.shape.pes

    forth = device.run(made, {"x": x, "y": y}, grid=(pes,), placements=where)
    back = device.run(made, {"x": x, "y": y}, grid=(pes,), placements=dict(reversed(where.items())))

    np.testing.assert_array_equal(np.tile(x, (pes, 1)), forth["y"])
    assert log_of(forth) == log_of(back)
    reads = [r for r in log_of(forth) if r.op_kind == "dma_read" and r.component.endswith("pe_dma")]
    first = [r.component for r in reads if r.t_start_ps == reads[0].t_start_ps]
    assert len(first) > 1
    assert sorted(first, key=place) == first


def place(component: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", component)]


PRINT = """
import hashlib, numpy as np, kernbench as kb
from kernbench.runtime.init import Init, generator, initial
from kernbench.dtypes import fp32
from tests.kernels.test_limit_cases import SCALE
from tests.kernels.running import kernel
x = initial(Init("normal"), (64,), fp32, generator(0, "x"))
run = kb.open("ahbm_2x2").run(kernel(SCALE, BLOCK=16), x=x, y=np.zeros_like(x), n=64, grid=(4,))
print(hashlib.sha256(x.tobytes()).hexdigest(), hashlib.sha256("\\n".join(map(str, run.op_log)).encode()).hexdigest())
"""


def test_inputs_and_logs_are_the_same_in_every_process() -> None:
    """FC-DE01, FC-DE12: whatever the seed of Python's hashes, drawn inputs and op logs are byte-equal."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PRINT],
            capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1")
    }  # fmt: skip

    assert 1 == len(outputs)
    assert generator(0, "x").random() != generator(0, "y").random() != generator(1, "y").random()


SHIFT = """
@triton.jit
def shift(x, y):
    at = tl.arange(0, 8)
    tl.store(y + at, tl.load(x + at) + 1.0)
"""


def test_views_that_overlap_are_refused_where_one_is_stored_to() -> None:
    whole = np.zeros((8, 8), f32)
    device = kb.open("ahbm_1x1")

    for x, y in ((whole[0], whole.reshape(-1)[4:12]), (whole[0], whole.reshape(-1)[:9]), (whole, whole[0])):
        with pytest.raises(kb.KernBenchError) as caught:
            device.run(kernel(SHIFT), x=x, y=y)
        assert ["E_ARG_SHARED"] == codes(caught)
    with pytest.raises(kb.KernBenchError) as caught:
        device.run(kernel(SHIFT), x=whole[0], y=whole[0], placements={"x": kb.replicate()})
    assert ["E_ARG_SHARED"] == codes(caught)
    assert [1.0] * 8 == device.run(kernel(SHIFT), x=whole[0], y=whole[1], grid=(1,))["y"].tolist()
    assert [1.0] * 8 == device.run(kernel(SHIFT), x=whole[:, 0], y=whole[:, 1].copy(), grid=(1,))["y"].tolist()


def test_views_that_overlap_and_are_only_read_are_fine() -> None:
    text = SHIFT.replace(
        "tl.store(y + at, tl.load(x + at) + 1.0)", "tl.store(z + at, tl.load(x + at) + tl.load(y + at))"
    )
    x = np.arange(9, dtype=f32)

    found = kb.open("ahbm_1x1").run(kernel(text.replace("x, y)", "x, y, z)")), x=x[1:], y=x[:-1], z=np.zeros(8, f32))

    assert (x[1:] + x[:-1]).tolist() == found["z"].tolist()
