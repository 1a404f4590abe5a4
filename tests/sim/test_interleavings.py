"""Random interleavings of memory requests and launches of real kernels, with faults, against a plain model.

Requests of one correlation are sequential and work on memory of their own, so a dictionary of byte strings says what
each read must bring; launches of different correlations meet on the same PEs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kernbench.binary import encode
from kernbench.commands import Assert, If, Program, Reg, ScalarOp
from kernbench.dtypes import i1, i32
from kernbench.messages import KernelRef, Tag, TensorArg
from kernbench.sim.engine import GraphEngine
from kernbench.sim.topology import load_topology_text
from tests.sim.launch_helpers import Host, kernel_ref, tensor_arg
from tests.sim.pe_helpers import box, composite, math_op, pointer, program, read, span, tcm, write

GRAPH = load_topology_text("""
extends: ahbm_1x1
name: two
sip: {cube_mesh: {w: 2, h: 1}}
cube: {pes: 2}
""")
TAGS: list[Tag] = [(0, cube, pe) for cube in range(2) for pe in range(2)]
SHARD = 64  # bytes of a correlation on each PE
CODE = 1 << 20
FAULTS = (
    "E_KERNEL_ASSERT",
    "E_PA_STRADDLES",
    "E_PA_TAG_MISMATCH",
    "E_LAUNCH_TARGET",
    "E_BINARY_NOT_DEPLOYED",
    "E_LAUNCH_ARGUMENTS",
)


def doubling(fails_on: int) -> Program:
    """Every PE adds its own shard to itself, in bytes that wrap; the PE of that number in the launch fails before."""
    block, memory = tcm(0, (SHARD // 4,), i32), box(pointer(0), (SHARD // 4,), i32)
    body = (
        ScalarOp(2, "eq", (Reg(1), fails_on), i1, (i32, i32), span(1)),
        If(Reg(2), (Assert(False, "told to", span(2)),), span=span(2)),
        read(0, block, memory),
        composite(1, math_op("add", block, src_a=block, src_b=block)),
        write(2, block, memory),
    )
    made = replace(program(body, registers=[i32, i1]), specials=(("pe_index", 1),))
    (param,) = made.params
    return replace(made, name=f"double{fails_on}", params=(replace(param, dtype=i32),))


PROGRAMS = {n: encode(doubling(n)).code for n in (-1, 0, 1)}


def doubled(data: bytes) -> bytes:
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
    return b"".join((2 * word % (1 << 32)).to_bytes(4, "little") for word in words)


@dataclass
class Session:
    """One device, what was sent to it, and what must come of it."""

    rng: random.Random
    host: Host
    refs: dict[int, KernelRef]
    memory: dict[tuple[str, Tag], set[bytes]] = field(default_factory=dict)  # what a shard may hold
    reads: list[tuple[Any, set[bytes]]] = field(default_factory=list)
    expected: list[tuple[Any, str | None]] = field(default_factory=list)  # handle, its error code

    def shard(self, name: str, tag: Tag) -> set[bytes]:
        return self.memory.setdefault((name, tag), {bytes(SHARD)})

    def write(self, name: str, at: int) -> None:
        tag, data = self.rng.choice(TAGS), self.rng.randbytes(SHARD)
        self.expected.append((self.host.write(tag, at, data, name), None))
        self.memory[name, tag] = {data}

    def read(self, name: str, at: int) -> None:
        tag = self.rng.choice(TAGS)
        handle = self.host.read(tag, at, SHARD, name)
        self.expected.append((handle, None))
        self.reads.append((handle, self.shard(name, tag)))

    def launch(self, name: str, at: int) -> None:
        targets = self.rng.sample(TAGS, self.rng.randint(1, 3))
        fails = self.rng.choice([-1, -1, 0, 1])
        policy: Any = self.rng.choice(["fail_fast", "collect_all"])
        handle = self.host.launch(
            self.refs[fails], targets, args=(self.arg(at, targets),), correlation_id=name, failure_policy=policy
        )
        failed = 0 <= fails < len(targets)
        self.expected.append((handle, "E_KERNEL_ASSERT" if failed else None))
        for number, tag in enumerate(targets):
            before, after = self.shard(name, tag), {doubled(data) for data in self.shard(name, tag)}
            stopped = failed and policy == "fail_fast"  # it may have been done, or not
            self.memory[name, tag] = before if failed and number == fails else (before | after if stopped else after)

    def fault(self, name: str, at: int) -> None:
        tag = self.rng.choice(TAGS)
        wrong: dict[str, Callable[[], Any]] = {
            "E_PA_STRADDLES": lambda: self.host.read(tag, (3 << 30) - 1, 2, name),
            "E_PA_TAG_MISMATCH": lambda: self.host.fill(tag, at, 4, dst_mem_kind="TCM"),
            "E_LAUNCH_TARGET": lambda: self.host.launch(self.refs[-1], [(0, 0, 7)], correlation_id=name),
            "E_BINARY_NOT_DEPLOYED": lambda: self.host.launch(
                kernel_ref("k", tag, 1 << 25, 64), [tag], correlation_id=name
            ),
            "E_LAUNCH_ARGUMENTS": lambda: self.host.launch(self.refs[-1], [tag], correlation_id=name),
        }
        code = self.rng.choice(sorted(wrong))
        self.expected.append((wrong[code](), code))

    def arg(self, at: int, targets: list[Tag]) -> TensorArg:
        return tensor_arg([(tag, at, SHARD, SHARD * k) for k, tag in enumerate(targets)])


def interleave(seed: int) -> Session:
    """Some requests of some correlations, submitted all at once or while others run."""
    rng = random.Random(seed)
    host = Host(GraphEngine(GRAPH))
    for number, code in PROGRAMS.items():
        host.write((0, 0, 0), CODE + (number + 1 << 16), code)
    host.engine.run()
    refs = {
        number: kernel_ref(f"double{number}", (0, 0, 0), CODE + (number + 1 << 16), len(code))
        for number, code in PROGRAMS.items()
    }
    session = Session(rng, host, refs)
    steps = (session.write, session.read, session.launch, session.launch, session.fault)
    for _ in range(rng.randint(4, 12)):
        number = rng.randrange(3)
        rng.choice(steps)(f"memory {number}", 4096 * (number + 1))
        if rng.random() < 0.15:
            host.engine.run()
    for number in range(3):
        for tag in TAGS:
            name = f"memory {number}"
            session.reads.append((host.read(tag, 4096 * (number + 1), SHARD, name), session.shard(name, tag)))
    host.engine.run()  # checks that no resource stays taken
    return session


def check(seed: int) -> None:
    session = interleave(seed)
    completed = [(handle.completion.error_code, handle.total_ps > 0) for handle, _ in session.expected]

    assert [(code, True) for _, code in session.expected] == completed, seed
    for handle, may_be in session.reads:
        assert handle.data in may_be, (seed, handle.key)
    device = session.host.engine.device
    device.check_at_rest()
    assert all(pe.idle for pe in device.pes.values())


def test_random_interleavings() -> None:
    for seed in range(40):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(40, 1000, 96))
def test_many_random_interleavings(first: int) -> None:
    for seed in range(first, first + 96):
        check(seed)


def test_all_kinds_of_faults_are_among_them() -> None:
    """The property above would hold of a generator that makes nothing wrong."""
    found = {code for seed in range(30) for _, code in interleave(seed).expected}

    assert {None, *FAULTS} == found
