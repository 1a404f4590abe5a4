"""What tests of launches share: programs, messages, and PEs that do as they are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kernbench.address_map import encode_pa
from kernbench.binary import encode
from kernbench.commands import KernelBinary, Param, Program
from kernbench.dtypes import fp32, i32
from kernbench.messages import (
    KernelLaunch,
    KernelRef,
    MemoryRead,
    MemoryWrite,
    Pattern,
    Tag,
    TensorArg,
    TensorPAMap,
    TensorShard,
    content_hash,
)
from kernbench.sim.deadlock import Waiter
from kernbench.sim.engine import GraphEngine
from kernbench.sim.launch_context import LaunchContext, PeResult
from kernbench.sim.pe import Pe
from kernbench.sim.pe_services import PeServices

CODE_OFFSET = 1 << 20
Plan = Callable[[Tag], int | str]  # picoseconds of work, or what ends it


class ScriptedPe(Pe):
    """A PE whose work is `plan(tag)`: so many picoseconds, "fail" after 1 ns, or "hang" until it is aborted."""

    def __init__(self, services: PeServices, sip: int, cube: int, pe: int, *, plan: Plan, seen: dict[Tag, Any]) -> None:
        self.tag = (sip, cube, pe)
        self.services = services
        self.plan, self.seen = plan, seen
        self.running: tuple[Callable[[PeResult], None], int] | None = None
        self.ticket: int | None = None
        self.runs = 0

    @property
    def idle(self) -> bool:
        return self.running is None

    @property
    def whereabouts(self) -> str:
        return ""

    @property
    def commands(self) -> int:
        return self.runs

    def busy_ps(self) -> dict[str, int]:
        return {}

    def launch(self, context: LaunchContext, target_start_ps: int | None, done: Callable[[PeResult], None]) -> None:
        assert self.idle, f"{self.tag} is launched while it runs"
        clock = self.services.clock
        start = clock.now if target_start_ps is None else target_start_ps
        assert clock.now <= start, f"{self.tag} is launched {clock.now - start} ps late"
        self.seen[self.tag] = (context, clock.now, start)
        self.runs += 1
        self.running = (done, start)
        plan = self.plan(self.tag)
        if plan == "hang":
            index = self.services.node_index[f"sip{self.tag[0]}.cube{self.tag[1]}.pe{self.tag[2]}.pe_cpu"]
            waiter = Waiter(index, f"pe{self.tag}", "a message that nobody sends", request=context.request)
            self.ticket = self.services.waits.add(waiter)
            return
        work = 1000 if isinstance(plan, str) else plan
        clock.call_at(start + work, self._end, plan == "fail", self.runs)

    def _end(self, failed: bool, run: int) -> None:
        if self.running is None or run != self.runs:
            return
        now = self.services.clock.now
        fault: dict[str, Any] = {"error_code": "E_OUT_OF_BOUNDS", "message": "told to fail"} if failed else {}
        self._finish(PeResult(not failed, failed_ps=now if failed else None, **fault), now)

    def abort(self) -> None:
        if self.running is not None:
            self._finish(PeResult(False, aborted=True), self.services.clock.now)

    def _finish(self, result: PeResult, now: int) -> None:
        assert self.running is not None
        (done, start), self.running = self.running, None
        if self.ticket is not None:
            self.services.waits.remove(self.ticket)
            self.ticket = None
        done(
            PeResult(
                result.ok, result.error_code, result.message, None, result.failed_ps, start, now, 0, result.aborted
            )
        )


def scripted(plan: Plan) -> tuple[Callable[[PeServices, int, int, int], Pe], dict[Tag, Any]]:
    """What to give `GraphEngine` as `make_pe`, and what its PEs will have seen: (context, arrival, start)."""
    seen: dict[Tag, Any] = {}
    return partial(ScriptedPe, plan=plan, seen=seen), seen


def a_program(params: str = "", name: str = "k") -> Program:
    """A kernel with an empty body; a parameter is an fp32 tensor, or an i32 scalar where it is a capital."""
    kinds = tuple(
        Param(p, "scalar" if p.isupper() else "tensor", i32 if p.isupper() else fp32, register)
        for register, p in enumerate(params)
    )
    dtypes = tuple(param.dtype if param.kind == "scalar" else i32 for param in kinds)
    return Program(name, kinds, (), dtypes, tuple(params), (), ())


class Host:
    """Sends requests to an engine with ids of its own."""

    def __init__(self, engine: GraphEngine) -> None:
        self.engine = engine
        self.count = 0
        self.sent: dict[tuple[str, str], bytes] = {}  # what was written, by id pair

    def envelope(self, correlation_id: str | None = None, sip: int = 0) -> dict[str, Any]:
        self.count += 1
        request = str(self.count)
        return {
            "correlation_id": correlation_id or f"c{request}",
            "request_id": request,
            "target_device": f"sip:{sip}",
        }

    def write(self, tag: Tag, offset: int, data: bytes, correlation_id: str | None = None, sip: int = 0) -> Any:
        message = MemoryWrite(
            **self.envelope(correlation_id, sip),
            dst_sip=tag[0], dst_cube=tag[1], dst_pe=tag[2], dst_pa=encode_pa(tag[1], tag[2], "hbm", offset),
            nbytes=len(data), src_kind="host_buffer_ref", host_buffer=content_hash(data),
        )  # fmt: skip
        self.sent[message.key] = data
        return self.engine.submit(message, {content_hash(data): data})

    def fill(self, tag: Tag, offset: int, nbytes: int, value: int = 0, **fields: Any) -> Any:
        message = MemoryWrite(
            **self.envelope(),
            dst_sip=tag[0], dst_cube=tag[1], dst_pe=tag[2], dst_pa=encode_pa(tag[1], tag[2], "hbm", offset),
            nbytes=nbytes, src_kind="pattern", pattern=Pattern(pattern_kind="fill_u8", value=value), **fields,
        )  # fmt: skip
        return self.engine.submit(message)

    def read(self, tag: Tag, offset: int, nbytes: int, correlation_id: str | None = None, **fields: Any) -> Any:
        message = MemoryRead(
            **self.envelope(correlation_id),
            src_sip=tag[0], src_cube=tag[1], src_pe=tag[2], src_pa=encode_pa(tag[1], tag[2], "hbm", offset),
            nbytes=nbytes, **fields,
        )  # fmt: skip
        return self.engine.submit(message)

    def deploy(
        self, program: Program, tag: Tag = (0, 0, 0), offset: int = CODE_OFFSET
    ) -> tuple[KernelRef, KernelBinary]:
        binary = encode(program)
        handle = self.write(tag, offset, binary.code)
        self.engine.run()
        assert handle.completion.ok, handle.completion
        return kernel_ref(program.name, tag, offset, len(binary.code)), binary

    def launch(self, ref: KernelRef, targets: list[Tag] | None = None, **fields: Any) -> Any:
        meta = dict(fields.pop("meta", {}))
        buffers: Mapping[str, bytes] = fields.pop("buffers", {})
        if targets is not None:
            meta["targets"] = [list(tag) for tag in targets]
        correlation_id = fields.pop("correlation_id", None)
        args = fields.pop("args", ())
        message = KernelLaunch(**self.envelope(correlation_id), kernel_ref=ref, args=args, meta=meta, **fields)
        return self.engine.submit(message, buffers)


def kernel_ref(name: str, tag: Tag, offset: int, nbytes: int, **fields: Any) -> KernelRef:
    made = {
        "name": name, "kind": "deployed", "deploy_pa": encode_pa(tag[1], tag[2], "hbm", offset),
        "deploy_sip": tag[0], "deploy_cube": tag[1], "deploy_pe": tag[2], "nbytes_code": nbytes,
    }  # fmt: skip
    return KernelRef(**{**made, **fields})


def tensor_arg(shards: list[tuple[Tag, int, int, int]]) -> TensorArg:
    """From (tag, offset in the slice, size, offset in the tensor)."""
    return TensorArg(
        tensor_pa_map=TensorPAMap(
            shards=tuple(
                TensorShard(
                    sip=tag[0], cube=tag[1], pe=tag[2], pa=encode_pa(tag[1], tag[2], "hbm", at), nbytes=nbytes,
                    offset_bytes=offset,
                )
                for tag, at, nbytes, offset in shards
            )
        )
    )  # fmt: skip
