"""The host of a device, against a stand-in that keeps bytes and what it was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from kernbench import dtypes
from kernbench.diagnostics import EXIT_SIMULATION, KernBenchError
from kernbench.messages import (
    Completion,
    KernelLaunch,
    MemoryRead,
    MemoryWrite,
    Request,
    Response,
    ScalarArg,
    TensorArg,
    content_hash,
)
from kernbench.runtime.api import Buffer, Runtime
from kernbench.runtime.placement import CopiesOn, DeviceShape, Placement, Shard, on
from kernbench.runtime.tensor import host_tensor

SHAPE = DeviceShape(sips=2, cubes=2, pes=2, hbm_bytes=1 << 16)


@dataclass
class Answer:
    completion: Completion | None
    data: bytes | None = None
    response: Response | None = None
    trace: Mapping[str, Any] = field(default_factory=dict)
    hops: tuple[Any, ...] = ()

    @property
    def done(self) -> bool:
        return self.completion is not None


class Memory:
    """A device that takes 10 ns a request, one after the other, and fails those for a PE in `broken`."""

    def __init__(self, broken: int = -1, silent: bool = False) -> None:
        self.now_ps, self.broken, self.silent = 0, broken, silent
        self.bytes: dict[tuple[int, int], bytes] = {}  # (sip, pa) → content
        self.requests: list[Request] = []
        self.waiting = 0

    def submit(self, message: Request, buffers: Mapping[str, Buffer] | None = None) -> Answer:
        self.requests.append(message)
        self.waiting += 1
        if self.silent:
            return Answer(None)
        if isinstance(message, MemoryWrite):
            if message.dst_pe == self.broken:
                return Answer(Completion(ok=False, error_code="E_PA_UNMAPPED", error_message="no such place"))
            self.bytes[message.dst_sip, message.dst_pa] = self._content(message, buffers or {})
        data = self.bytes.get((message.src_sip, message.src_pa), b"") if isinstance(message, MemoryRead) else None
        return Answer(Completion(ok=True), data)

    def _content(self, message: MemoryWrite, buffers: Mapping[str, Buffer]) -> bytes:
        if message.host_buffer is None:
            assert message.pattern is not None
            return message.pattern.unit * message.nbytes
        content = bytes(buffers[message.host_buffer])
        assert message.host_buffer == content_hash(content)
        return content

    def run(self) -> None:
        self.now_ps += 10_000 * self.waiting
        self.waiting = 0


def placed(runtime: Runtime, array: np.ndarray[Any, Any], placement: Placement, name: str = "x") -> Any:
    dtype = dtypes.from_numpy(array.dtype)
    assert dtype is not None
    return runtime.place(host_tensor(name, array, dtype, placement, placement))


@pytest.mark.parametrize("placement", [Shard(0), Shard(1), on(1, 1, 0), CopiesOn(((0, 0, 1), (1, 0, 0)))])
def test_a_tensor_goes_up_and_comes_back(placement: Placement) -> None:
    device = Memory()
    runtime = Runtime(device, SHAPE)
    array = np.arange(35, dtype=np.int32).reshape(5, 7)
    tensor = placed(runtime, array, placement)

    runtime.upload(tensor)
    back, differ = runtime.read(tensor)

    np.testing.assert_array_equal(array, back)
    assert not differ
    writes = [m for m in device.requests if isinstance(m, MemoryWrite)]
    assert {shard.tag for shard in tensor.pa_map.shards} == {(m.dst_sip, m.dst_cube, m.dst_pe) for m in writes}
    assert all(m.target_sip == m.dst_sip for m in writes)


def test_one_request_a_shard_and_ids_that_count_up() -> None:
    runtime = Runtime(Memory(), SHAPE)
    runtime.upload(placed(runtime, np.ones((8, 2), np.float32), Shard(0)))

    assert [str(i) for i in range(8)] == [message.request_id for message in runtime.sent.requests]
    assert {"run:0"} == {message.correlation_id for message in runtime.sent.requests}
    assert 1 == len(runtime.sent.buffers)  # equal bytes have one name


def test_zeros_are_sent_as_a_pattern_but_minus_zero_is_not_zero() -> None:
    device = Memory()
    runtime = Runtime(device, SHAPE)
    runtime.upload(placed(runtime, np.array([0.0, -0.0], np.float32), Shard(0)))

    assert ["pattern", "host_buffer_ref"] == [m.src_kind for m in device.requests if isinstance(m, MemoryWrite)]


def test_copies_that_differ_are_told() -> None:
    device = Memory()
    runtime = Runtime(device, SHAPE)
    tensor = placed(runtime, np.arange(4, dtype=np.uint8), CopiesOn(((0, 0, 0), (0, 0, 1))))
    runtime.upload(tensor)
    second = tensor.pa_map.shards[1]
    device.bytes[second.sip, second.pa] = b"\0\1\2\7"

    back, differ = runtime.read(tensor)

    assert ([0, 1, 2, 3], True) == (back.tolist() if back is not None else None, differ)


def test_phases_take_the_time_of_their_requests() -> None:
    runtime = Runtime(Memory(), SHAPE)
    tensor = placed(runtime, np.arange(3), Shard(0))
    runtime.upload(tensor)
    kernel = runtime.deploy("k", b"code", (0, 0, 0))
    runtime.launch(kernel, {"x": tensor}, (3,), [(0, 0, 0)])
    runtime.read(tensor)

    assert {"upload": 30_000, "deploy": 10_000, "launch": 10_000, "readback": 30_000} == runtime.phases_ps


def test_a_launch_says_where_everything_is_and_carries_no_source() -> None:
    device = Memory()
    runtime = Runtime(device, SHAPE)
    tensor = placed(runtime, np.zeros((4, 6), np.float16), Shard(1))
    kernel = runtime.deploy("k", b"code", (1, 0, 1))

    scalar = ScalarArg(dtype="i32", value=6)
    runtime.launch(kernel, {"x": tensor, "n": scalar}, (4, 2), [(1, 0, 1), (0, 0, 0)], b"names and spans")

    launch = device.requests[-1]
    assert isinstance(launch, KernelLaunch)
    assert (1, 0, 1, 4) == (kernel.deploy_sip, kernel.deploy_cube, kernel.deploy_pe, kernel.nbytes_code)
    assert (TensorArg(tensor_pa_map=tensor.pa_map), scalar) == launch.args
    assert ((1, 0, 1), (0, 0, 0)) == launch.targets
    assert "sip:1" == launch.target_device
    assert (4, 2, 1) == launch.grid_shape
    assert tensor.host.layout == launch.layout(0)
    assert ("x", "n") == (launch.param_name(0), launch.param_name(1))
    assert b"names and spans" == runtime.sent.buffers[launch.symbols or ""]


def test_a_request_that_fails_ends_the_run_with_the_device_s_own_code() -> None:
    runtime = Runtime(Memory(broken=1), SHAPE)

    with pytest.raises(KernBenchError) as caught:
        runtime.upload(placed(runtime, np.ones(8, np.float32), Shard(0)))

    (diagnostic,) = caught.value.diagnostics
    assert ("E_PA_UNMAPPED", "no such place") == (diagnostic.code, diagnostic.message)
    assert EXIT_SIMULATION == caught.value.exit_code


def test_a_request_without_a_completion_is_an_error_not_a_hang() -> None:
    runtime = Runtime(Memory(silent=True), SHAPE)

    with pytest.raises(KernBenchError) as caught:
        runtime.upload(placed(runtime, np.ones(8, np.float32), Shard(0)))

    assert "E_NO_COMPLETION" == caught.value.diagnostics[0].code


def test_equal_runs_send_equal_messages() -> None:
    def messages() -> list[Request]:
        runtime = Runtime(Memory(), SHAPE)
        runtime.upload(placed(runtime, np.arange(9.0), Shard(0)))
        return runtime.sent.requests

    assert messages() == messages()
