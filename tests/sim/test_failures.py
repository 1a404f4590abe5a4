"""Device faults as the host gets them: a stable code, the PE, the kernel line, and a device that goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernbench.address_map import encode_pa
from kernbench.binary import encode
from kernbench.commands import Assert, If, Loop, Param, Program, Reg, ScalarOp
from kernbench.dtypes import BY_NAME, DType, i1, i32, i64
from kernbench.messages import KernelRef, ScalarArg, Tag, content_hash, scalar_carrier
from kernbench.sim.device_messages import PeDmaMsg
from kernbench.sim.engine import GraphEngine
from kernbench.sim.errors import ERRORS
from tests.sim.launch_helpers import Host, a_program, kernel_ref, scripted, tensor_arg
from tests.sim.pe_helpers import box, composite, gemm_op, math_op, pointer, program, read, span, tcm, write
from tests.sim.test_launch import graph_of

TARGETS: list[Tag] = [(0, 0, 0), (0, 2, 5), (0, 3, 7)]
X = tensor_arg([(tag, 4096, 64, 64 * k) for k, tag in enumerate(TARGETS)])  # 16 fp32 on each target
COPIES = tensor_arg([(tag, 4096, 64, 0) for tag in TARGETS])


def launch(body: Sequence[Any], **fields: Any) -> tuple[Host, Any]:
    """A launch of a kernel with one tensor, on three PEs of three cubes."""
    host = Host(GraphEngine(graph_of("ahbm_2x2")))
    for tag in TARGETS:
        host.write(tag, 4096, np.arange(16, dtype=np.float32).tobytes())
    made = program(body, registers=[i32, i1], **fields.pop("program", {}))
    made = replace(made, specials=(("pe_index", 1),))
    ref, binary = host.deploy(made)
    key = content_hash(binary.debug)
    filled = {"targets": TARGETS, "args": (X,), **fields}
    handle = host.launch(ref, meta={"symbols": key}, buffers={key: binary.debug}, **filled)
    host.engine.run()
    return host, handle


def on_pe(index: int, *body: Any, line: int = 1) -> tuple[Any, ...]:
    """`body` on one PE of the launch only."""
    is_it = ScalarOp(2, "eq", (Reg(1), index), i1, (i32, i32), span(line))
    return is_it, If(Reg(2), tuple(body), span=span(line))


def double(number: int, line: int) -> list[Any]:
    """Every PE doubles its own shard."""
    block, memory = tcm(4096 * number, (16,)), box(pointer(0), (16,))
    ids = range(10 * number, 10 * number + 3)
    twice = composite(ids[1], math_op("add", block, src_a=block, src_b=block), line=line)
    return [read(ids[0], block, memory, line), twice, write(ids[2], block, memory, line)]


# --------------------------------------------------------------------------- faults of kernels

BLOCK = tcm(0, (16,))
HUGE = tcm(1 << 30, (16,))
INT64 = [tcm(k << 14, (4, 4), i64) for k in range(3)]
KERNEL_FAULTS: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "beyond its tensor": ("E_OUT_OF_BOUNDS", [read(0, BLOCK, box(pointer(0, 4), (16,)), 7)], {}),
    "before its tensor": ("E_BAD_POINTER", [read(0, BLOCK, box(pointer(0, -(1 << 50)), (16,)), 7)], {}),
    "no tensor": ("E_BAD_POINTER", [read(0, BLOCK, box(64, (16,)), 7)], {}),
    "a block outside of tcm": ("E_TCM_BOUNDS", [read(0, HUGE, box(pointer(0), (16,)), 7)], {}),
    "more tcm than there is": ("E_TCM_BOUNDS", double(0, 7), {"program": {"tcm_bytes": 1 << 30}}),
    "an assertion": ("E_KERNEL_ASSERT", [Assert(False, "never", span(7))], {}),
    "a step of nothing": ("E_LOOP_STEP", [Loop(0, 0, 4, 0, (), span=span(7))], {}),
    "a type that no gemm takes": ("E_GEMM_DTYPE", [composite(0, gemm_op(*INT64), line=7)], {}),
    "a store to copies": (
        "E_READ_ONLY",
        [write(0, BLOCK, box(pointer(0), (16,)), 7)],
        {"args": (COPIES,), "grid": {"x": 3}},
    ),
}


@pytest.mark.parametrize("policy", ["fail_fast", "collect_all"])
@pytest.mark.parametrize("case", KERNEL_FAULTS)
def test_a_kernel_s_fault_has_its_code_the_pe_and_the_line(case: str, policy: str) -> None:
    code, body, fields = KERNEL_FAULTS[case]
    _, handle = launch(body, failure_policy=policy, **fields)
    completion = handle.completion

    assert (False, code) == (completion.ok, completion.error_code)
    assert completion.error_message.startswith("sip0.cube0.pe0: ")
    assert code in ERRORS
    named = 1 if policy == "fail_fast" else 3
    assert [named, named] == [completion.error_message.count(word) for word in ("sip0.cube", "k.tl:7:1")]
    assert 7 == handle.fault.span.line


def test_what_a_fault_says_does_not_change_from_run_to_run() -> None:
    body = [*on_pe(1, Assert(False, "one", span(4))), *on_pe(2, Assert(False, "two", span(5))), *double(1, 6)]
    for policy, expected in (
        ("fail_fast", "sip0.cube2.pe5: assertion failed: one at k.tl:4:1"),
        (
            "collect_all",
            "sip0.cube2.pe5: assertion failed: one at k.tl:4:1; sip0.cube3.pe7: assertion failed: two at k.tl:5:1",
        ),
    ):
        told = [launch(body, failure_policy=policy)[1].completion.error_message for _ in range(2)]
        assert [expected] * 2 == told


def test_what_finished_before_a_fault_stays_readable() -> None:
    body = [*double(0, 3), *on_pe(1, Assert(False, "later", span(5)), line=5)]
    host, handle = launch(body, failure_policy="collect_all")
    reads = [host.read(tag, 4096, 64) for tag in TARGETS]
    host.engine.run()
    plain = np.arange(16, dtype=np.float32)

    assert "E_KERNEL_ASSERT" == handle.completion.error_code
    for each in reads:
        np.testing.assert_array_equal(2 * plain, np.frombuffer(each.data, np.float32))


def test_the_first_failure_in_time_counts_then_topology_order() -> None:
    def plan(tag: Tag) -> int | str:
        return "fail" if tag in ((0, 3, 7), (0, 2, 5)) else 9_000_000

    make_pe, _ = scripted(plan)
    host = Host(GraphEngine(graph_of("ahbm_2x2"), make_pe=make_pe))
    ref, _ = host.deploy(a_program())
    handle = host.launch(ref, [(0, 3, 7), (0, 2, 5), (0, 0, 0)])
    host.engine.run()

    assert handle.completion.error_message.startswith("sip0.cube2.pe5: ")


def test_many_failures_are_counted_behind_the_first_sixteen() -> None:
    make_pe, _ = scripted(lambda tag: "fail")
    host = Host(GraphEngine(graph_of("ahbm_2x2"), make_pe=make_pe))
    ref, _ = host.deploy(a_program())
    handle = host.launch(ref, list(graph_of("ahbm_2x2").pe_tags()), failure_policy="collect_all")
    host.engine.run()
    told = handle.completion.error_message

    assert (16, True) == (told.count("told to fail"), told.endswith("; and 16 more"))


def test_a_lone_dma_to_no_memory_is_a_completion_too() -> None:
    host = Host(GraphEngine(graph_of("ahbm_2x2")))
    handle = host.engine.submit(PeDmaMsg("p", "0", 0, 0, 0, 0, 3, 7, encode_pa(3, 6, "hbm", 0), 64))
    host.engine.run()

    assert ("E_PA_TAG_MISMATCH", True) == (handle.completion.error_code, handle.total_ps > 0)


# --------------------------------------------------------------------------- faults of launches


def good() -> tuple[Host, KernelRef, int]:
    host = Host(GraphEngine(graph_of("ahbm_2x2")))
    ref, binary = host.deploy(a_program("xN"))
    return host, ref, len(binary.code)


def refusal(host: Host, ref: KernelRef, **fields: Any) -> Any:
    one = {"targets": [TARGETS[0]], "args": (X, ScalarArg(dtype="i32", value=1)), **fields}
    handle = host.launch(ref, **one)
    host.engine.run()
    assert handle.done and handle.results == {}
    return handle.completion


def shard(tag: Tag, pa_tag: Tag, at: int = 4096) -> Any:
    """A shard that says it is at `tag` and whose address is in the slice of `pa_tag`."""
    made = tensor_arg([(pa_tag, at, 64, 0)]).to_json()
    place = made["tensor_pa_map"]["shards"][0]
    place["sip"], place["cube"], place["pe"] = tag
    return type(X).from_json(made)


@pytest.mark.parametrize(
    ("code", "bad"),
    [
        ("E_PA_UNMAPPED", shard((0, 9, 0), (0, 9, 0))),
        ("E_PA_TAG_MISMATCH", shard((0, 1, 0), (0, 0, 0))),
        ("E_PA_TAG_MISMATCH", shard((0, 0, 1), (0, 0, 0))),
        ("E_PA_STRADDLES", shard((0, 0, 0), (0, 0, 0), (3 << 30) - 8)),
    ],
)
def test_a_shard_that_is_no_memory_is_told_with_its_argument(code: str, bad: Any) -> None:
    host, ref, _ = good()
    completion = refusal(host, ref, args=(bad, ScalarArg(dtype="i32", value=1)), meta={"params": ["scores", "n"]})

    assert (False, code) == (completion.ok, completion.error_code)
    assert completion.error_message.startswith("shard 0 of argument `scores`: ")


def test_every_byte_of_a_binary_counts() -> None:
    code = encode(a_program("xN")).code
    found = set()
    for at in range(0, len(code), 7):
        host, ref, size = good()
        host.write((0, 0, 0), 1 << 20, code[:at] + bytes([code[at] ^ 0x40]) + code[at + 1 :])
        host.engine.run()
        assert size == len(code)
        found.add(refusal(host, ref).error_code)

    assert {"E_BINARY_CORRUPT"} == found


def test_part_of_a_binary_is_no_binary() -> None:
    host, _, size = good()
    longer, shorter = (kernel_ref("k", (0, 0, 0), 1 << 20, size + n) for n in (64, -8))

    assert "E_BINARY_NOT_DEPLOYED" == refusal(host, longer).error_code
    assert "E_BINARY_CORRUPT" == refusal(host, shorter).error_code


def test_a_binary_that_lies_elsewhere_than_it_says() -> None:
    host, ref, _ = good()
    wrong = KernelRef.from_json(ref.to_json() | {"deploy_pe": 1})

    assert "E_PA_TAG_MISMATCH" == refusal(host, wrong).error_code


def test_a_kernel_of_another_name_is_unknown() -> None:
    host, ref, _ = good()
    binary = encode(a_program("xN"))
    other = KernelRef.from_json(ref.to_json() | {"name": "other"})
    key = content_hash(binary.debug)
    completion = refusal(host, other, meta={"symbols": key}, buffers={key: binary.debug})

    assert "E_KERNEL_UNKNOWN" == completion.error_code


@pytest.mark.parametrize(
    "op",
    [math_op("add", BLOCK, src_a=BLOCK), math_op("no_such_op", BLOCK, src=BLOCK), replace(gemm_op(*INT64), extra={})],
)
def test_a_program_that_no_engine_can_run_is_corrupt(op: Any) -> None:
    _, handle = launch([composite(0, op)])

    assert "E_BINARY_CORRUPT" == handle.completion.error_code
    assert op.kind in handle.completion.error_message


# --------------------------------------------------------------------------- scalars of every type


def takes(dtype: DType) -> Program:
    return replace(a_program("N"), params=(Param("N", "scalar", dtype, 0),), register_dtypes=(dtype,))


def given(dtype: DType, value: Any, carrier: Any = None) -> tuple[Any, Any]:
    """(completion, what the PE got) of a launch with one scalar."""
    make_pe, seen = scripted(lambda tag: 1000)
    host = Host(GraphEngine(graph_of("ahbm_1x1"), make_pe=make_pe))
    ref, _ = host.deploy(takes(dtype))
    args = (ScalarArg(dtype=carrier or scalar_carrier(dtype), value=value),)
    handle = host.launch(ref, [(0, 0, 0)], args=args)
    host.engine.run()
    return handle.completion, seen[(0, 0, 0)][0].arguments[0] if seen else None


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("i1", True, True),
        ("i8", -128, -128),
        ("u8", 255, 255),
        ("i16", -5, -5),
        ("u32", 2**32 - 1, 2**32 - 1),
        ("i64", -(2**63), -(2**63)),
        ("u64", -1, 2**64 - 1),
        ("fp16", 65500, 65504.0),
        ("bf16", 1 + 2**-8 + 2**-20, 1.0078125),
        ("fp32", 0.1, float(np.float32(0.1))),
        ("fp64", 0.5, 0.5),
        ("fp8e4nv", 3.3, 3.25),
        ("fp32", 7, 7.0),
    ],
)
def test_a_scalar_arrives_as_its_parameter_holds_it(name: str, value: Any, expected: Any) -> None:
    completion, got = given(BY_NAME[name], value)

    assert completion.ok, completion
    assert (type(expected), expected) == (type(got), got)


@pytest.mark.parametrize(("name", "value"), [("i8", 128), ("u8", -1), ("u32", -1), ("u16", 65536)])
def test_a_scalar_that_its_parameter_cannot_hold_is_refused(name: str, value: int) -> None:
    completion, got = given(BY_NAME[name], value)

    assert ("E_LAUNCH_ARGUMENTS", None) == (completion.error_code, got)
    assert name in completion.error_message


@pytest.mark.parametrize(("name", "carrier", "value"), [("u32", "i32", 1), ("bf16", "fp16", 1), ("i1", "i32", 1)])
def test_a_scalar_of_another_type_is_refused(name: str, carrier: str, value: int) -> None:
    completion, _ = given(BY_NAME[name], value, carrier)

    assert "E_LAUNCH_DTYPE" == completion.error_code
