"""Blocks from PE to PE: when they arrive, who waits for whom, and what stands still."""

from __future__ import annotations

import io
from collections import deque
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import kernbench as kb
from kernbench.diagnostics import EXIT_SIMULATION, KernBenchError
from kernbench.kernel import Kernel
from kernbench.run import Run
from kernbench.sim.op_log import OpRecord
from kernbench.sim.topology import load_topology
from tests.compiler.elaborating import source_of

SMALL = "ahbm_2sip_1x1"  # 4 PEs in two packages
DEPTH = 4  # of a queue, in every shipped topology
N = 64


@cache
def device(topology: str = SMALL) -> kb.Device:
    return kb.open(topology)


def kernel_of(body: str) -> Kernel:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    head = "    me = tl.pe_index()\n    n = tl.num_pes()\n    o = tl.arange(0, N)\n    x = tl.load(x_ptr + o)\n"
    return kb.compile(source_of(f"def k(x_ptr, y_ptr, N: tl.constexpr):\n{head}{lines}"), N=N)


def run(body: str, topology: str = SMALL, mode: str = "data", pes: int = 4, **options: Any) -> tuple[Run, np.ndarray]:
    x = np.arange(pes * N, dtype=np.float32).reshape(pes, N)
    place = kb.shard(0)
    made = kb.open(topology, **options) if options else device(topology)
    arguments = {"x_ptr": x, "y_ptr": np.zeros_like(x)}
    return made.run(kernel_of(body), arguments, placements={"x_ptr": place, "y_ptr": place}, mode=mode), x


def failure(body: str, **options: Any) -> KernBenchError:
    with pytest.raises(KernBenchError) as caught:
        run(body, **options)
    assert caught.value.exit_code == EXIT_SIMULATION
    return caught.value


def records(found: Run, kind: str, where: str = "") -> list[OpRecord]:
    assert found.op_log is not None
    return [record for record in found.op_log if record.op_kind == kind and where in record.component]


def log_text(found: Run) -> str:
    assert found.op_log is not None
    stream = io.StringIO()
    found.op_log.write_jsonl(stream)
    return stream.getvalue()


RING = """
tl.send(x, to=(me + 1) % n)
tl.store(y_ptr + o, tl.recv((N,), tl.float32, source=(me + n - 1) % n))
"""


# --------------------------------------------------------------------------- what arrives, and when


def test_a_block_arrives_as_it_was() -> None:
    found, x = run(RING)

    np.testing.assert_array_equal(np.roll(x, 1, axis=0), found["y_ptr"])


def test_a_pe_may_be_named_by_its_place() -> None:
    place = "((me + 1) % n // 2, 0, (me + 1) % 2)"
    found, x = run(f"tl.send(x, to={place})\ntl.store(y_ptr + o, tl.recv((N,), tl.float32, source=(me + 3) % n))")

    np.testing.assert_array_equal(np.roll(x, 1, axis=0), found["y_ptr"])


def test_a_pe_may_send_to_itself() -> None:
    found, x = run("tl.send(x, to=me)\ntl.store(y_ptr + o, tl.recv((N,), tl.float32, source=me))")

    np.testing.assert_array_equal(x, found["y_ptr"])


def test_a_view_arrives_in_its_own_order() -> None:
    body = """
    square = tl.trans(tl.reshape(x, (8, 8)))
    tl.send(square, to=me)
    tl.store(y_ptr + o, tl.reshape(tl.recv((8, 8), tl.float32, source=me), (N,)))
    """
    found, x = run("\n".join(line.strip() for line in body.splitlines()))

    np.testing.assert_array_equal(x.reshape(4, 8, 8).transpose(0, 2, 1).reshape(4, N), found["y_ptr"])


def test_blocks_of_a_pair_are_received_in_order() -> None:
    body = """
for i in range(8):
    tl.send(x + i, to=(me + 1) % n)
    if i >= 2:
        x = tl.recv((N,), tl.float32, source=(me + n - 1) % n) + 0.0 * x
for i in range(2):
    x = x * 0.0 + tl.recv((N,), tl.float32, source=(me + n - 1) % n) * (i + 1)
tl.store(y_ptr + o, x)
"""
    found, x = run(body)

    # Block i of each PE is what its neighbour's block i - 3 was, plus i; the last received is block 7.
    blocks = [x + 0, x + 1, x + 2]
    for i in range(3, 8):
        blocks.append(np.roll(blocks[i - 3], 1, axis=0) + i)
    np.testing.assert_array_equal(2 * np.roll(blocks[7], 1, axis=0), found["y_ptr"])


@pytest.mark.parametrize(("other", "topology"), [(1, SMALL), (2, SMALL), (7, "ahbm_2x2"), (31, "ahbm_2x2")])
def test_a_lone_block_takes_its_way_and_its_drain(other: int, topology: str) -> None:
    body = f"if me == 0:\n    tl.send(x, to={other})\nif me == {other}:\n    x = tl.recv((N,), tl.float32, source=0)"
    pes = 32 if topology == "ahbm_2x2" else 4
    found, _ = run(body + "\ntl.store(y_ptr + o, x)", topology, pes=pes)
    graph, router = device(topology).graph, _router(topology)
    tag = tuple(graph.pe_tags())[other]
    route = router.route("sip0.cube0.pe0.pe_ipcq", f"sip{tag[0]}.cube{tag[1]}.pe{tag[2]}.pe_ipcq")
    (send,), (receive,) = records(found, "send"), records(found, "recv")
    spec = graph.spec.pe

    assert route.bottleneck_bytes_per_s is not None
    drain_ps = -(-4 * N * 10**12 // route.bottleneck_bytes_per_s)
    assert send.duration_ps == max(route.head_ps, 4000) + drain_ps
    assert receive.t_start_ps >= send.t_end_ps
    assert receive.duration_ps == spec.cycles_to_ps(-(-4 * N // spec.tcm.bytes_per_cycle))
    assert (send.nbytes, receive.nbytes) == (4 * N, 4 * N)
    assert (send.src.split(":")[1], receive.src.split(":")[1]) == ("11", "13")


@cache
def _router(topology: str) -> Any:
    from kernbench.sim.routing import PathRouter

    return PathRouter(load_topology(topology))


def test_timing_mode_writes_the_same_log() -> None:
    assert log_text(run(RING)[0]) == log_text(run(RING, mode="timing")[0])


def test_a_bound_that_another_pe_sent_is_known_in_timing_mode() -> None:
    body = """
tl.send(x, to=(me + 1) % n)
got = tl.recv((N,), tl.float32, source=(me + n - 1) % n)
trips = (tl.max(got, axis=0) / 64).to(tl.int32)
for i in range(trips):
    x += 1.0
tl.store(y_ptr + o, x)
"""
    found, x = run(body)

    np.testing.assert_array_equal(x + np.array([[3], [0], [1], [2]], np.float32), found["y_ptr"])
    assert log_text(found) == log_text(run(body, mode="timing")[0])


def test_all_pes_of_both_packages_start_at_one_instant() -> None:
    found, _ = run(RING)

    starts = {record.t_start_ps for record in records(found, "kernel")}
    assert (4, 1) == (len(records(found, "kernel")), len(starts))


# --------------------------------------------------------------------------- waiting


def test_a_sender_stalls_where_the_queue_is_full() -> None:
    body = f"""
if me == 0:
    for i in range({DEPTH + 1}):
        tl.send(x, to=1)
if me == 1:
    for i in range(400):
        tl.static_assert(True)
    for i in range({DEPTH + 1}):
        x = tl.recv((N,), tl.float32, source=0)
tl.store(y_ptr + o, x)
"""
    found, _ = run(body)
    (stall,) = records(found, "stall", "pe0.pe_cpu")
    first = records(found, "recv")[0]
    back_ps = _router(SMALL).route("sip0.cube0.pe1.pe_ipcq", "sip0.cube0.pe0.pe_ipcq").head_ps

    assert (stall.op_name, stall.src.split(":")[1]) == ("send", "12")
    assert stall.t_end_ps == first.t_end_ps + back_ps  # the credit's way back


def test_a_deeper_queue_stalls_later() -> None:
    body = "for i in range(6):\n    tl.send(x, to=me)\nfor i in range(6):\n    x = tl.recv((N,), tl.float32, source=me)"
    graph_text = f"extends: {SMALL}\nname: deep\npe: {{pe_ipcq: {{depth: 6}}}}\n"

    assert "its queue is full" in failure(body).diagnostics[0].message
    made = kb.Device(_loaded(graph_text))
    x = np.zeros((4, N), np.float32)
    place = {"x_ptr": kb.shard(0), "y_ptr": kb.shard(0)}
    assert made.run(kernel_of(body), {"x_ptr": x, "y_ptr": x.copy()}, placements=place).ok


def _loaded(text: str) -> Any:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "deep.yaml"
        path.write_text(text)
        return load_topology(path)


def test_a_receiver_waits_and_the_log_says_so() -> None:
    body = "if me == 0:\n    tl.send(x, to=3)\nif me == 3:\n    x = tl.recv((N,), tl.float32, source=0)"
    found, _ = run(body + "\ntl.store(y_ptr + o, x)")
    # What loads the block's memory must be complete, and then the block must come.
    _, wait = [record for record in records(found, "wait", "sip1.cube0.pe1") if record.op_name == "recv"]
    (send,), (receive,) = records(found, "send"), records(found, "recv")

    assert (wait.src.split(":")[1], wait.t_end_ps) == ("13", send.t_end_ps)
    assert receive.t_start_ps == wait.t_end_ps


def test_a_block_is_read_before_its_memory_is_written_again() -> None:
    body = """
for i in range(3):
    tl.send(x, to=(me + 1) % n)
    x = x * 2.0
total = tl.zeros((N,), tl.float32)
for i in range(3):
    total += tl.recv((N,), tl.float32, source=(me + n - 1) % n)
tl.store(y_ptr + o, total)
"""
    found, x = run(body)

    np.testing.assert_array_equal(7 * np.roll(x, 1, axis=0), found["y_ptr"])


def test_loads_do_not_pass_a_receive() -> None:
    """What stands behind a message may read what the sender stored before it."""
    body = """
for i in tl.range(0, 3, num_stages=3):
    tl.store(y_ptr + o, x + i)
    tl.debug_barrier()
    tl.send(x, to=me)
    got = tl.recv((N,), tl.float32, source=me)
    x = got * 0.0 + tl.load(y_ptr + o)
tl.store(y_ptr + o, x)
"""
    found, x = run(body)

    np.testing.assert_array_equal(x + 3, found["y_ptr"])


# --------------------------------------------------------------------------- what goes wrong


def test_a_receive_that_nobody_answers_is_a_deadlock() -> None:
    error = failure("if me == 2:\n    x = tl.recv((N,), tl.float32, source=1)\ntl.store(y_ptr + o, x)").diagnostics[0]

    assert error.code == "E_DEADLOCK"
    assert error.message == (
        "nothing is left to happen and 1 wait: sip1.cube0.pe0.pe_cpu waits for a block from sip0.cube0.pe1"
    )
    assert error.primary is not None and error.primary.span.line == 11


def test_a_cycle_names_every_waiter_with_its_line() -> None:
    error = failure("tl.store(y_ptr + o, tl.recv((N,), tl.float32, source=(me + 1) % n))").diagnostics[0]

    assert [error.message.split(": ")[1], *error.notes] == [
        "sip0.cube0.pe0.pe_cpu waits for a block from sip0.cube0.pe1",
        "sip0.cube0.pe1.pe_cpu waits for a block from sip1.cube0.pe0 at k.tl:10:25",
        "sip1.cube0.pe0.pe_cpu waits for a block from sip1.cube0.pe1 at k.tl:10:25",
        "sip1.cube0.pe1.pe_cpu waits for a block from sip0.cube0.pe0 at k.tl:10:25",
    ]


def test_a_block_that_nobody_receives_is_a_deadlock_of_its_sender() -> None:
    error = failure("if me == 0:\n    tl.send(x, to=3)\n    tl.send(x, to=3)\ntl.store(y_ptr + o, x)").diagnostics[0]

    assert error.message.endswith("1 wait: sip0.cube0.pe0.pe_cpu waits for sip1.cube0.pe1 to receive 2 blocks")
    assert error.primary is not None and error.primary.span.line == 11


@pytest.mark.parametrize(
    ("receive", "wanted"),
    [("(N,), tl.float16", "64 fp16"), ("(N // 2,), tl.float32", "32 fp32"), ("(8, 8), tl.float32", "8x8 fp32")],
)
def test_another_shape_or_type_is_a_fault_with_both_lines(receive: str, wanted: str) -> None:
    body = f"tl.send(x, to=(me + 1) % n)\ngot = tl.recv({receive}, source=(me + n - 1) % n)"
    error = failure(body).diagnostics[0]

    assert error.code == "E_MESSAGE_MISMATCH"
    assert f"a block of {wanted} is to be received, the next one is 64 fp32, sent by sip" in error.message
    assert error.message.endswith(" at k.tl:10:5")
    assert error.primary is not None and error.primary.span.line == 11


@pytest.mark.parametrize(("to", "named"), [("4", "PE 4"), ("0 - 1", "PE -1"), ("(0, 0, 2)", "sip0.cube0.pe2")])
def test_a_pe_outside_of_the_launch_is_a_fault(to: str, named: str) -> None:
    error = failure(f"tl.send(x, to={to})").diagnostics[0]

    assert (error.code, True) == ("E_MESSAGE_PE", f"{named} " in error.message)


def test_a_failed_pe_is_told_and_not_that_others_wait_for_it() -> None:
    error = failure("assert me < 3\n" + RING.strip()).diagnostics[0]

    assert error.code == "E_KERNEL_ASSERT"


# --------------------------------------------------------------------------- random programs

INTERPRETER = """
for i in range(LENGTH):
    word = tl.load(words_ptr + i)
    if word > 0:
        tl.send(x, to=word - 1)
    if word < 0:
        x = x * 3 + tl.recv((N,), tl.int32, source=-word - 1)
tl.store(y_ptr + o, x)
"""
LENGTH = 24
SEND_AT, RECEIVE_AT = " at k.tl:12:13", " at k.tl:14:25"
Programs = list[list[int]]  # of each PE: k + 1 sends to PE k, -(k + 1) receives from it


@cache
def interpreter() -> Kernel:
    body = "".join(f"    {line}\n" for line in INTERPRETER.strip("\n").splitlines())
    head = "    o = tl.arange(0, N)\n    x = tl.load(x_ptr + o)\n"
    signature = "def k(words_ptr, x_ptr, y_ptr, N: tl.constexpr, LENGTH: tl.constexpr):\n"
    return kb.compile(source_of(signature + "    tl.static_assert(True)\n" + head + body), N=16, LENGTH=LENGTH)


class End(NamedTuple):
    values: list[np.ndarray]
    waiters: list[str]


def reference(programs: Programs, x: np.ndarray) -> End:
    """Run the programs as a network of queues: whatever can go on does, in any order, since the end is the same."""
    at, values = [0] * 4, [row.copy() for row in x]
    queues: dict[tuple[int, int], deque[np.ndarray]] = {(a, b): deque() for a in range(4) for b in range(4)}
    moved = True
    while moved:
        moved = False
        for pe, program in enumerate(programs):
            while at[pe] < len(program) and _step(pe, program[at[pe]], values, queues):
                at[pe] += 1
                moved = True
    return End(values, [text for pe in range(4) if (text := _waits(pe, programs[pe][at[pe] :], queues))])


def _step(pe: int, word: int, values: list[np.ndarray], queues: dict[tuple[int, int], deque[np.ndarray]]) -> bool:
    if word > 0:
        if len(queues[pe, word - 1]) == DEPTH:
            return False
        queues[pe, word - 1].append(values[pe].copy())
    elif word < 0:
        if not queues[-word - 1, pe]:
            return False
        values[pe] = values[pe] * 3 + queues[-word - 1, pe].popleft()
    return True


NAMES = ("sip0.cube0.pe0", "sip0.cube0.pe1", "sip1.cube0.pe0", "sip1.cube0.pe1")


def _waits(pe: int, left: list[int], queues: dict[tuple[int, int], deque[np.ndarray]]) -> str:
    if left and left[0] > 0:
        return f"{NAMES[pe]}.pe_cpu waits for {NAMES[left[0] - 1]} to receive: its queue is full{SEND_AT}"
    if left:
        return f"{NAMES[pe]}.pe_cpu waits for a block from {NAMES[-left[0] - 1]}{RECEIVE_AT}"
    counts = {other: len(queues[pe, other]) for other in range(4) if queues[pe, other]}
    texts = [f"{NAMES[k]} to receive {count} block{'s' * (count > 1)}" for k, count in counts.items()]
    return f"{NAMES[pe]}.pe_cpu waits for {', '.join(texts)}{SEND_AT}" if texts else ""


@st.composite
def programs_of_messages(draw: st.DrawFn) -> Programs:
    """Rows of sends and their receives in an order that works but for long rows to oneself, and then a few changes."""
    pe = st.integers(0, 3)
    programs: Programs = [[], [], [], []]
    for source, target, count in draw(st.lists(st.tuples(pe, pe, st.integers(1, DEPTH + 2)), max_size=6)):
        if max(len(programs[source]), len(programs[target])) < LENGTH - 2 * (DEPTH + 2):
            programs[source] += [target + 1] * count
            programs[target] += [-source - 1] * count
    for number, place, kind in draw(st.lists(st.tuples(pe, st.integers(0, LENGTH), pe), max_size=2)):
        program = programs[number]
        if not program:
            continue
        place %= len(program)
        if kind == 0:
            del program[place]
        elif kind == 1:
            program.insert(place, program[-1])
        else:
            program.append(program.pop(place))
    return programs


@given(programs=programs_of_messages())
@settings(max_examples=40, deadline=None)
def test_random_programs_end_as_a_network_of_queues_does(programs: Programs) -> None:
    x = np.arange(64, dtype=np.int32).reshape(4, 16)
    expected = reference(programs, x)
    event("complete" if not expected.waiters else "full" if "is full" in str(expected.waiters) else "stuck")
    words = np.array([program + [0] * (LENGTH - len(program)) for program in programs], np.int32)
    arguments = {"words_ptr": words, "x_ptr": x, "y_ptr": np.zeros_like(x)}
    place = dict.fromkeys(arguments, kb.shard(0))

    try:
        found = device().run(interpreter(), arguments, placements=place)
    except KernBenchError as error:
        (only,) = error.diagnostics
        assert only.primary is not None
        first = f"{only.message.split(': ', 1)[1]} at k.tl:{only.primary.span.line}:{only.primary.span.column}"
        assert (only.code, [first, *only.notes]) == ("E_DEADLOCK", expected.waiters)
    else:
        assert expected.waiters == []
        np.testing.assert_array_equal(np.stack(expected.values), found["y_ptr"])
