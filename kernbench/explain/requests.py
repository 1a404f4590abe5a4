"""Errors that the device finds in what the host asks of it: addresses, buffers, and the launch of a kernel."""

from __future__ import annotations

from kernbench.address_map import encode_pa
from kernbench.explain.model import CommandLine, Explanation, Messages, Python
from kernbench.messages import content_hash

_PA = encode_pa(0, 0, "hbm", 0)
_READ = (
    '{"msg_type": "MemoryRead", "correlation_id": "c", "request_id": "2", "target_device": "sip:0", '
    f'"src_sip": 0, "src_cube": 0, "src_pe": 0, "src_pa": {_PA}, "nbytes": 64}}'
)
_WRITE = (
    '{"msg_type": "MemoryWrite", "correlation_id": "c", "request_id": "1", "target_device": "sip:0", '
    f'"dst_sip": 0, "dst_cube": 0, "dst_pe": 0, "dst_pa": {_PA}, "nbytes": 64, "src_kind": "pattern", '
    '"pattern": {"pattern_kind": "zero"}}'
)
_LAUNCH = (
    '{"msg_type": "KernelLaunch", "correlation_id": "c", "request_id": "3", "target_device": "sip:0", '
    f'"kernel_ref": {{"name": "k", "kind": "deployed", "deploy_pa": {_PA}, "deploy_sip": 0, "deploy_cube": 0, '
    '"deploy_pe": 0, "nbytes_code": 64}, "args": [], "meta": {"targets": [[0, 0, 0]]}}'
)
_KERNEL = """
    @triton.jit
    def k(x_ptr, n):
        i = tl.arange(0, 64)
        tl.store(x_ptr + i, tl.load(x_ptr + i) + 1.0, mask=i < n)
"""


def _messages(*lines: str) -> Messages:
    return Messages("\n".join(lines), on_device=True)


def _read(before: str, after: str) -> Messages:
    assert before in _READ
    return _messages(_WRITE, _READ.replace(before, after))


def _launched(change: str) -> Python:
    """The messages of a run, its launch with other arguments, sent to a fresh device."""
    return Python(
        f"""
        from dataclasses import replace
        from kernbench.messages import *
        from kernbench.sim.engine import GraphEngine

        run = kb.open("ahbm_1x1").run(kb.compile("k.tl"), x_ptr=np.ones(64, np.float32), n=60)
        engine = GraphEngine(kb.load_topology("ahbm_1x1"))
        for message in run.sent.requests:
            if message.msg_type == "KernelLaunch":
                tensor, number = message.args
                message = replace(message, meta={{"targets": [[0, 0, 0]]}}, args=({change},))
                launch = engine.submit(message)
            else:
                engine.submit(message, run.sent.buffers)
        engine.run()
        completion = launch.completion
        """,
        _KERNEL,
    )


def _sharded(third: str) -> Python:
    """A launch on eight PEs, the third of its tensor's shards changed."""
    return Python(
        f"""
        from dataclasses import replace
        from kernbench.messages import *
        from kernbench.sim.engine import GraphEngine

        eighths = {{"x_ptr": kb.shard(0, over=["pe"])}}
        run = kb.open("ahbm_2x2").run(kb.compile("k.tl"), x_ptr=np.ones(512, np.float32), n=60, placements=eighths)
        engine = GraphEngine(kb.load_topology("ahbm_2x2"))
        for message in run.sent.requests:
            if message.msg_type == "KernelLaunch":
                first, second, third, *rest = message.args[0].tensor_pa_map.shards
                shards = (first, second, {third}, *rest)
                tensor = TensorArg(tensor_pa_map=TensorPAMap(shards=shards))
                message = replace(message, args=(tensor, message.args[1]))
                launch = engine.submit(message, run.sent.buffers)
            else:
                engine.submit(message, run.sent.buffers)
        engine.run()
        completion = launch.completion
        """,
        _KERNEL,
    )


_HASH = "sha256:" + "0" * 64
_FROM_BUFFER = (
    '{{"msg_type": "MemoryWrite", "correlation_id": "c", "request_id": "1", "target_device": "sip:0", '
    f'"dst_sip": 0, "dst_cube": 0, "dst_pe": 0, "dst_pa": {_PA}, "nbytes": 64, "src_kind": "host_buffer_ref", '
    '"host_buffer": "{hash}"}}'
)
_RIGHT = _read('"nbytes": 64', '"nbytes": 32')
_LAUNCH_RIGHT = _launched("tensor, number")

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        code="E_DEVICE_UNKNOWN",
        story="A message is for `sip:N`, and the topology has no package of that number (`sip.count`).",
        wrong=_read('"target_device": "sip:0"', '"target_device": "sip:1"'),
        says="`target_device` is sip:1, and the device has 1 packages",
        right=_RIGHT,
    ),
    Explanation(
        code="E_PA_UNMAPPED",
        story="""
            There is no MMU: an address names a cube, a PE, a memory and an offset by its bits, and none of the
            device's memories is there. Such an address is refused and never wrapped around.
        """,
        wrong=_read(f'"src_pa": {_PA}', f'"src_pa": {encode_pa(5, 0, "hbm", 0)}'),
        says="address 0x5000000000000 of sip 0 names cube 5, pe 0, which is not there",
        right=_RIGHT,
    ),
    Explanation(
        code="E_PA_TAG_MISMATCH",
        story="""
            A message names its place twice, by the bits of the address and by the tags `sip, cube, pe` beside it.
            IO_CPU routes by the tags, memory answers by the address, so two places would be meant at once.
        """,
        wrong=_read('"src_pe": 0', '"src_pe": 1'),
        says="address 0x0 belongs to cube 0, pe 0, but the tags beside it say cube 0, pe 1",
        right=_RIGHT,
    ),
    Explanation(
        code="E_PA_STRADDLES",
        story="""
            A range of addresses begins in one PE's memory and runs over its end. The next PE's memory is no
            continuation of it; send one message for each.
        """,
        wrong=_read(f'"src_pa": {_PA}', f'"src_pa": {encode_pa(0, 0, "hbm", 3221225472 - 32)}'),
        says="64 bytes at 0xbfffffe0 end at byte 3221225504 of `sip0.cube0.hbm_ctrl.pe0`, which holds 3221225472",
        right=_RIGHT,
    ),
    Explanation(
        code="E_BUFFER_MISSING",
        story="""
            A write from a host buffer names its bytes by their content hash, and the bytes travel beside the message
            (`buffers/` beside a file of messages). They are not there.
        """,
        wrong=_messages(_FROM_BUFFER.format(hash=_HASH)),
        says="the buffer sha256:0000000000000000000000000000000000000000000000000000000000000000 did not come "
        "with the message",
        right=_messages(_WRITE),
    ),
    Explanation(
        code="E_BUFFER_SIZE",
        story="A write's `nbytes` and the buffer beside it differ in size, so one of the two is not what was meant.",
        wrong=Python(
            f"""
            from kernbench.messages import MemoryWrite, content_hash
            from kernbench.sim.engine import GraphEngine

            data = bytes(64)
            write = MemoryWrite(correlation_id="c", request_id="1", target_device="sip:0", dst_sip=0, dst_cube=0,
                                dst_pe=0, dst_pa={_PA}, nbytes=32, src_kind="host_buffer_ref",
                                host_buffer=content_hash(data))
            engine = GraphEngine(kb.load_topology("ahbm_1x1"))
            handle = engine.submit(write, {{write.host_buffer: data}})
            """
        ),
        says="the buffer has 64 bytes, `nbytes` is 32",
        right=Python(
            f"""
            from kernbench.messages import MemoryWrite, content_hash
            from kernbench.sim.engine import GraphEngine

            data = bytes(64)
            write = MemoryWrite(correlation_id="c", request_id="1", target_device="sip:0", dst_sip=0, dst_cube=0,
                                dst_pe=0, dst_pa={_PA}, nbytes=64, src_kind="host_buffer_ref",
                                host_buffer=content_hash(data))
            engine = GraphEngine(kb.load_topology("ahbm_1x1"))
            handle = engine.submit(write, {{write.host_buffer: data}})
            """
        ),
    ),
    Explanation(
        code="E_BUFFER_CHANGED",
        story="""
            The bytes of a host buffer are kept under their content hash, and these have another: the file was changed
            or cut short after the messages were written.
        """,
        wrong=CommandLine(
            "kernbench replay messages.jsonl -t ahbm_1x1",
            {"messages.jsonl": _FROM_BUFFER.format(hash=_HASH), f"buffers/sha256-{'0' * 64}": bytes(64)},
        ),
        says="`host_buffer`: the bytes of "
        "`sha256-0000000000000000000000000000000000000000000000000000000000000000` "
        "have another content hash than its name says",
        right=CommandLine(
            "kernbench replay messages.jsonl -t ahbm_1x1",
            {
                "messages.jsonl": _FROM_BUFFER.format(hash=content_hash(bytes(64))),
                f"buffers/{content_hash(bytes(64)).replace(':', '-')}": bytes(64),
            },
        ),
    ),
    Explanation(
        code="E_KERNEL_UNKNOWN",
        story="""
            A launch names a kernel that the device does not have: a builtin one, of which there are none yet, or code
            whose own name is another than the launch says.
        """,
        wrong=_messages(_LAUNCH.replace('"deployed"', '"builtin"')),
        says="the device has no builtin kernel `k`",
        right=_LAUNCH_RIGHT,
    ),
    Explanation(
        code="E_BINARY_NOT_DEPLOYED",
        story="""
            A kernel is put into device memory by a MemoryWrite before it is launched (ADR-0012). Nobody has written
            to where this launch says that the code lies.
        """,
        wrong=_messages(_LAUNCH),
        says="kernel `k`: nobody wrote its 64 bytes at 0x0",
        right=_LAUNCH_RIGHT,
    ),
    Explanation(
        code="E_BINARY_CORRUPT",
        story="""
            What lies at the address of the code is no binary of this format, is cut short, or was stored over by a
            kernel. It is checked whole before anything of it runs.
        """,
        wrong=_messages(_WRITE, _LAUNCH),
        says="kernel `k`: the code begins with b'\\x00\\x00\\x00\\x00', not with b'KBC1' at byte 0",
        right=_LAUNCH_RIGHT,
    ),
    Explanation(
        code="E_LAUNCH_TARGET",
        story="""
            A launch runs on the PEs of `meta.targets`, or else on those that hold its tensors. It names none, or one
            that the device does not have.
        """,
        wrong=_messages(_WRITE, _LAUNCH.replace("[[0, 0, 0]]", "[[0, 0, 1]]")),
        says="the launch is for sip0.cube0.pe1, and pe 1 is not below 1",
        right=_LAUNCH_RIGHT,
    ),
    Explanation(
        code="E_LAUNCH_ARGUMENTS",
        story="""
            A launch has as many arguments as its kernel has parameters, in their order, tensors for tensors and
            numbers for numbers.
        """,
        wrong=_launched("tensor"),
        says="kernel `k` takes 2 arguments, the launch has 1",
        right=_LAUNCH_RIGHT,
    ),
    Explanation(
        code="E_LAUNCH_DTYPE",
        story="""
            The kernel was compiled for other types of arguments: reading an fp16 as an fp32 would give numbers, and
            wrong ones.
        """,
        wrong=_launched('tensor, ScalarArg(dtype="i64", value=60)'),
        says="argument `args[1]` is i64, the kernel takes i32",
        right=_LAUNCH_RIGHT,
    ),
    Explanation(
        code="E_LAUNCH_SHARDS",
        story="""
            Without a grid each PE works on its own part of a tensor, so the shards that lie on one PE make up one
            run of it, from one index of the sharded dimension to another.
        """,
        wrong=_sharded("replace(third, pe=0, pa=first.pa + 4096)"),
        says="the shards of `x_ptr` on sip0.cube0.pe0 do not touch",
        right=_sharded("third"),
    ),
)
