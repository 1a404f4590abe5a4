"""Run one kernel on a device: upload tensors, deploy the binary, launch, read back, one completion a request.

Builds the three host messages and waits for each. Never fans out, and does not know what is behind IO_CPU:
the device is whatever fulfils `DevicePort`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from kernbench.diagnostics import EXIT_SIMULATION, Diagnostic, KernBenchError
from kernbench.messages import (
    Completion,
    KernelArg,
    KernelLaunch,
    KernelRef,
    MemoryRead,
    MemoryWrite,
    Pattern,
    Request,
    Response,
    ScalarArg,
    Tag,
    TensorArg,
    TensorPAMap,
    TensorShard,
    content_hash,
)
from kernbench.runtime.allocator import HbmAllocator
from kernbench.runtime.errors import error
from kernbench.runtime.placement import DeviceShape, resolve, told_of
from kernbench.runtime.tensor import Array, HostTensor

Buffer = bytes | Array
Phase = Literal["upload", "deploy", "launch", "readback"]
READ_AHEAD_BYTES = 1 << 28  # that a tensor brings back before the host has looked at any of them
PHASES: tuple[Phase, ...] = ("upload", "deploy", "launch", "readback")


class Handle(Protocol):
    """What the device gives for a request, at once; it is filled in as simulated time goes on."""

    @property
    def done(self) -> bool: ...
    @property
    def completion(self) -> Completion | None: ...
    @property
    def response(self) -> Response | None: ...
    @property
    def data(self) -> bytes | Array | None:
        """The bytes that a MemoryRead to `host_sink` brought, in data mode."""

    @property
    def trace(self) -> Mapping[str, Any]:
        """`total_ns`: from submission to completion."""

    @property
    def hops(self) -> Sequence[Any]:
        """`(node, t_in_ns, t_out_ns)` of the way that the request took."""


class DevicePort(Protocol):
    """The IO_CPU end point of a device."""

    @property
    def now_ps(self) -> int: ...

    def submit(self, message: Request, buffers: Mapping[str, Buffer] | None = None) -> Handle:
        """Take a request; `buffers` holds the bytes that its `host_buffer` names."""

    def run(self) -> None:
        """Let simulated time pass until nothing is left to happen."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTensor:
    """A host tensor and where it lies on the device."""

    host: HostTensor
    pa_map: TensorPAMap


@dataclass(slots=True)
class Sent:
    """The requests of a run in order, and the bytes that travelled beside them: enough to replay it."""

    requests: list[Request] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)


class Runtime:
    """The host of one device, from its first request on. Ids are counters, so that equal runs send equal bytes."""

    def __init__(self, device: DevicePort, shape: DeviceShape, correlation_id: str = "run:0") -> None:
        self.device, self.shape, self.correlation_id = device, shape, correlation_id
        self.allocator = HbmAllocator(shape.hbm_bytes)
        self.phases_ps: dict[Phase, int] = dict.fromkeys(PHASES, 0)
        self.sent = Sent()
        self._open: list[tuple[Request, Handle]] = []

    # ------------------------------------------------------------------ tensors

    def place(self, host: HostTensor) -> DeviceTensor:
        """Addresses for a tensor; nothing is sent."""
        with told_of(host.name):
            pieces = resolve(host.placement, host.shape, host.dtype.nbytes, self.shape)
        shards = tuple(
            TensorShard(
                sip=piece.tag[0],
                cube=piece.tag[1],
                pe=piece.tag[2],
                pa=self.allocator.allocate(piece.tag, piece.nbytes, f"tensor `{host.name}`"),
                nbytes=piece.nbytes,
                offset_bytes=piece.offset_bytes,
            )
            for piece in pieces
        )
        return DeviceTensor(host, TensorPAMap(shards=shards))

    def upload(self, tensor: DeviceTensor) -> None:
        """Write each shard; the bytes travel beside the message, and zeros not at all."""
        placed = tensor.host.placed()
        for shard in tensor.pa_map.shards:
            part = placed[shard.offset_bytes : shard.offset_bytes + shard.nbytes]
            self._write(shard.tag, shard.pa, part, tensor.host.name)
        self._complete("upload")

    def _write(self, tag: Tag, pa: int, data: Array, label: str) -> None:
        zeros = not data.any()
        name = None if zeros else content_hash(data.data)
        message = MemoryWrite(
            **self._envelope(tag[0]),
            dst_sip=tag[0],
            dst_cube=tag[1],
            dst_pe=tag[2],
            dst_pa=pa,
            nbytes=data.nbytes,
            src_kind="pattern" if zeros else "host_buffer_ref",
            pattern=Pattern(pattern_kind="zero") if zeros else None,
            dst_mem_kind="HBM",
            debug_label=label,
            host_buffer=name,
        )
        self._submit(message, {} if name is None else {name: data})

    def read(self, tensor: DeviceTensor) -> tuple[Array | None, bool]:
        """The array as the device left it (None without data), and whether copies of it differ from the first."""
        copies = tensor.pa_map.is_replicated
        placed = np.empty(tensor.host.nbytes, np.uint8)
        complete, differ = True, False
        for index, (shard, part) in enumerate(self._parts(tensor)):
            complete = complete and part is not None
            if part is None:
                continue
            if copies and index > 0:
                differ = differ or not np.array_equal(placed, part)
            else:
                placed[shard.offset_bytes : shard.offset_bytes + shard.nbytes] = part
        return (tensor.host.restore(placed) if complete else None), differ

    def _parts(self, tensor: DeviceTensor) -> Iterator[tuple[TensorShard, Array | None]]:
        """Each shard with its bytes; no more are under way at once than `READ_AHEAD_BYTES`."""
        waiting: list[tuple[TensorShard, Handle]] = []
        room = READ_AHEAD_BYTES
        for shard in tensor.pa_map.shards:
            waiting.append((shard, self._submit(self._read_of(shard, tensor.host.name), {})))
            room -= shard.nbytes
            if room <= 0:
                yield from self._arrived(waiting)
                waiting, room = [], READ_AHEAD_BYTES
        yield from self._arrived(waiting)

    def _arrived(self, waiting: list[tuple[TensorShard, Handle]]) -> Iterator[tuple[TensorShard, Array | None]]:
        if waiting:
            self._complete("readback")
        for shard, handle in waiting:
            data = handle.data
            yield shard, None if data is None else np.frombuffer(data, np.uint8)

    def _read_of(self, shard: TensorShard, label: str) -> MemoryRead:
        return MemoryRead(
            **self._envelope(shard.sip),
            src_sip=shard.sip,
            src_cube=shard.cube,
            src_pe=shard.pe,
            src_pa=shard.pa,
            nbytes=shard.nbytes,
            debug_label=label,
        )

    # ------------------------------------------------------------------ kernels

    def deploy(self, name: str, code: bytes, tag: Tag) -> KernelRef:
        """Write a kernel's code, without its debug section, to the HBM slice of a PE."""
        pa = self.allocator.allocate(tag, len(code), f"kernel `{name}`")
        self._write(tag, pa, np.frombuffer(code, np.uint8), name)
        self._complete("deploy")
        return KernelRef(
            name=name,
            kind="deployed",
            deploy_pa=pa,
            deploy_sip=tag[0],
            deploy_cube=tag[1],
            deploy_pe=tag[2],
            nbytes_code=len(code),
        )

    def launch(
        self,
        kernel: KernelRef,
        args: Mapping[str, DeviceTensor | ScalarArg],
        grid: tuple[int, ...] | None,
        targets: Sequence[Tag],
        debug: bytes = b"",
    ) -> Handle:
        """One launch, with arguments in the order given; its handle, whether it went well or not.

        `debug` is the binary's debug section, which goes beside the message and takes no time.
        """
        beside: dict[str, Buffer] = {content_hash(debug): debug} if debug else {}
        message = KernelLaunch(
            **self._envelope(targets[0][0]),
            kernel_ref=kernel,
            args=tuple(_message_arg(arg) for arg in args.values()),
            grid=None if grid is None else dict(zip(("x", "y", "z"), grid, strict=False)),
            meta={
                "targets": [list(tag) for tag in targets],
                "params": list(args),
                "layouts": [_layout(arg) for arg in args.values()],
                "symbols": next(iter(beside), None),
            },
            debug_label=kernel.name,
        )
        handle = self._submit(message, beside)
        self._wait("launch")
        return handle

    # ------------------------------------------------------------------ requests

    def _envelope(self, sip: int) -> dict[str, Any]:
        return {
            "correlation_id": self.correlation_id,
            "request_id": str(len(self.sent.requests)),
            "target_device": f"sip:{sip}",
        }

    def _submit(self, message: Request, buffers: Mapping[str, Buffer]) -> Handle:
        """Hand a request over. Requests of one correlation are served one after the other, in this order."""
        handle = self.device.submit(message, buffers)
        self.sent.requests.append(message)
        self.sent.buffers.update(buffers)
        self._open.append((message, handle))
        return handle

    def _wait(self, phase: Phase) -> list[tuple[Request, Handle]]:
        """Let time pass until every open request is complete."""
        done, self._open = self._open, []
        before = self.device.now_ps
        self.device.run()
        self.phases_ps[phase] += self.device.now_ps - before
        return done

    def _complete(self, phase: Phase) -> None:
        """Wait for open requests, which must go well."""
        for message, handle in self._wait(phase):
            failure = failure_of(handle, f"{message.msg_type} of `{message.debug_label}`")
            if failure is not None:
                raise KernBenchError([failure], EXIT_SIMULATION)


def failure_of(handle: Handle, what: str) -> Diagnostic | None:
    """Why a request failed, or None where it did not."""
    completion = handle.completion
    if not handle.done or completion is None:
        return error("E_NO_COMPLETION", f"{what} has no completion, and the device is idle")
    if completion.ok:
        return None
    # The code is the device's, from its own table.
    return Diagnostic(completion.error_code or "", completion.error_message or f"{what} failed")


def _message_arg(arg: DeviceTensor | ScalarArg) -> KernelArg:
    if isinstance(arg, DeviceTensor):
        return TensorArg(tensor_pa_map=arg.pa_map)
    return arg


def _layout(arg: DeviceTensor | ScalarArg) -> dict[str, Any] | None:
    return arg.host.layout.to_json() if isinstance(arg, DeviceTensor) else None
