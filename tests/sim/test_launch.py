"""Launches: the barrier, fetching code, waiting for PEs, programs dealt out, failures, deadlocks."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from kernbench.diagnostics import KernBenchError
from kernbench.messages import ScalarArg, Tag, content_hash
from kernbench.sim.device_messages import KernelLaunchMsg, LaunchId, LaunchPorts
from kernbench.sim.engine import GraphEngine, Limits
from kernbench.sim.launch_plan import programs_of
from kernbench.sim.topology import load_topology
from kernbench.sim.topology_graph import TopologyGraph
from tests.sim.launch_helpers import Host, Plan, a_program, kernel_ref, scripted, tensor_arg

GRAPHS: dict[str, TopologyGraph] = {}


def graph_of(name: str) -> TopologyGraph:
    if name not in GRAPHS:
        GRAPHS[name] = load_topology(name)
    return GRAPHS[name]


def device(topology: str = "ahbm_2x2", plan: Plan = lambda tag: 5000, **options: Any) -> tuple[Host, dict[Tag, Any]]:
    make_pe, seen = scripted(plan)
    return Host(GraphEngine(graph_of(topology), make_pe=make_pe, **options)), seen


def launched(host: Host, targets: list[Tag], params: str = "", **fields: Any) -> Any:
    """A launch of an empty kernel, run to its end."""
    ref, _ = host.deploy(a_program(params))
    handle = host.launch(ref, targets, **fields)
    host.engine.run()
    return handle


# --------------------------------------------------------------------------- the barrier (ADR-0009 D5)


def sets_of(graph: TopologyGraph) -> dict[str, list[Tag]]:
    tags = list(graph.pe_tags())
    return {
        "one": tags[-1:],
        "cube": [tag for tag in tags if tag[:2] == tags[-1][:2]],
        "ragged": sorted(random.Random(5).sample(tags, 11)),
        "all": tags,
    }


@pytest.mark.parametrize("topology", ["ahbm_4x4", "ahbm_2sip"])
@pytest.mark.parametrize("which", ["one", "cube", "ragged", "all"])
def test_every_pe_starts_at_one_instant_and_none_is_late(topology: str, which: str) -> None:
    targets = sets_of(graph_of(topology))[which]
    host, seen = device(topology)
    handle = launched(host, targets)

    assert handle.completion.ok
    assert sorted(targets) == sorted(seen)
    starts = {start for _, _, start in seen.values()}
    assert len(starts) == 1
    assert max(arrival for _, arrival, _ in seen.values()) == starts.pop()  # the farthest is just in time


def test_the_barrier_is_the_sum_of_two_transactions() -> None:
    host, seen = device("ahbm_4x4")
    targets = list(graph_of("ahbm_4x4").pe_tags())
    handle = launched(host, targets)
    router, nodes = host.engine.device.router, graph_of("ahbm_4x4").nodes

    def latency(a: str, b: str) -> int:
        return router.compute_path_latency_ps(router.find_node_path(a, b))

    expected = max(
        latency("sip0.io0.io_cpu", f"sip{s}.cube{c}.m_cpu")
        + latency(f"sip{s}.cube{c}.m_cpu", f"sip{s}.cube{c}.pe{p}.pe_cpu")
        - nodes["sip0.io0.io_cpu"].overhead_ps
        - nodes[f"sip{s}.cube{c}.m_cpu"].overhead_ps
        for s, c, p in targets
    )
    fetched = max(r.t_end_ps for r in host.engine.op_log.where(op_kind="launch", component="sip0.cube0.m_cpu"))
    sent = min(r.t_start_ps for r in host.engine.op_log.where(op_kind="launch", component="sip0.cube0.m_cpu"))
    (start,) = {start for _, _, start in seen.values()}

    assert fetched > sent
    assert start == sent + expected
    assert handle.pe_exec_ps == dict.fromkeys(targets, 5000)


def test_a_large_launch_message_moves_the_barrier_and_not_the_order() -> None:
    shards = [((0, 0, 0), 4096 + 64 * k, 64, 64 * k) for k in range(2000)]
    host, seen = device("ahbm_2x2")
    targets = list(graph_of("ahbm_2x2").pe_tags())
    handle = launched(host, targets, "x", args=(tensor_arg(shards),))

    assert handle.completion.ok, handle.completion
    assert len({start for _, _, start in seen.values()}) == 1


def test_m_cpu_stamps_a_barrier_only_where_there_is_none() -> None:
    host, seen = device("ahbm_1x1")
    launched(host, [(0, 0, 0)])
    context = seen[(0, 0, 0)][0]
    m_cpu, clock = host.engine.device.m_cpus[(0, 0)], host.engine.device.clock
    ended: list[Any] = []
    ports = LaunchPorts("sip0.io0.io_cpu", lambda msg: None, ended.append)
    for stamp in (None, clock.now + 10**6):
        seen.clear()
        before = clock.now
        msg = KernelLaunchMsg(LaunchId("c", "r", 0), {(0, 0, 0): context}, "fail_fast", stamp)
        m_cpu.launch(msg, before, ports)
        clock.run()
        _, arrival, start = seen[(0, 0, 0)]
        assert start == (arrival if stamp is None else stamp)
    assert len(ended) == 2


# --------------------------------------------------------------------------- code


def fetches(host: Host) -> list[tuple[str, int]]:
    return [(r.component, r.nbytes) for r in host.engine.op_log.where(op_kind="code_fetch")]


def test_the_first_launch_fetches_the_code_and_later_ones_find_it() -> None:
    host, _ = device()
    ref, binary = host.deploy(a_program())
    targets = [(0, 0, 1), (0, 3, 2)]
    first = host.launch(ref, targets)
    host.engine.run()
    second = host.launch(ref, [*targets, (0, 1, 1)])
    host.engine.run()

    size = len(binary.code)
    expected = [(f"sip0.cube{c}.pe{p}.pe_cpu", size) for c, p in ((0, 1), (3, 2), (1, 1))]
    assert sorted(fetches(host)) == sorted(expected)
    third = host.launch(ref, targets)
    host.engine.run()
    assert len(fetches(host)) == 3
    assert third.total_ps < min(first.total_ps, second.total_ps)


def test_new_code_at_the_old_address_is_fetched_again() -> None:
    host, seen = device("ahbm_1x1")
    for params, expected in (("", 1), ("", 1), ("N", 2), ("", 2)):
        ref, _ = host.deploy(a_program(params))
        host.launch(ref, [(0, 0, 0)], args=tuple(ScalarArg(dtype="i32", value=1) for _ in params))
        host.engine.run()
        assert len(seen[(0, 0, 0)][0].program.params) == len(params)
        assert len(fetches(host)) == expected


def test_names_and_lines_come_beside_the_message() -> None:
    host, seen = device("ahbm_1x1")
    ref, binary = host.deploy(a_program("", "soft"))
    key = content_hash(binary.debug)
    named = host.launch(ref, [(0, 0, 0)], meta={"symbols": key}, buffers={key: binary.debug})
    host.engine.run()
    assert named.completion.ok
    assert seen[(0, 0, 0)][0].program.name == "soft"
    with pytest.raises(KernBenchError, match="E_BUFFER_MISSING"):
        host.launch(ref, [(0, 0, 0)], meta={"symbols": key})


# --------------------------------------------------------------------------- waiting for PEs


def test_a_launch_for_busy_pes_waits_and_another_passes() -> None:
    host, _ = device("ahbm_2x2", lambda tag: 1_000_000)
    ref, _ = host.deploy(a_program())
    first = host.launch(ref, [(0, 0, 0), (0, 0, 1)])
    second = host.launch(ref, [(0, 0, 1), (0, 0, 2)])
    third = host.launch(ref, [(0, 1, 0)])
    host.engine.run()

    assert all(h.completion.ok for h in (first, second, third))
    assert second.completed_ps - first.completed_ps > 1_000_000
    assert third.completed_ps < second.completed_ps
    stalls = host.engine.op_log.where(op_kind="stall")
    assert ["pes_busy"] == [r.op_name for r in stalls]


def test_requests_of_one_correlation_go_one_after_the_other() -> None:
    host, _ = device("ahbm_1x1")
    write = host.write((0, 0, 0), 0, bytes(range(200)), "same")
    read = host.read((0, 0, 0), 0, 200, "same")
    other = host.read((0, 0, 0), 0, 200)
    host.engine.run()

    assert read.started_ps == write.completed_ps
    assert other.started_ps == 0
    assert read.data == bytes(range(200))


def test_an_id_pair_is_used_once() -> None:
    host, _ = device("ahbm_1x1")
    handle = host.read((0, 0, 0), 0, 4)
    with pytest.raises(KernBenchError, match="E_MESSAGE_DUPLICATE_ID"):
        host.engine.submit(handle.message)


# --------------------------------------------------------------------------- what PEs are told


@pytest.mark.parametrize(("targets", "programs"), [(4, 10), (4, 3), (1, 5), (7, 7), (3, 0), (128, 1823)])
def test_programs_are_dealt_as_the_formula_says(targets: int, programs: int) -> None:
    dealt = {p: t for t in range(targets) for p in programs_of(t, targets, programs)}

    assert dealt == {p: p * targets // programs for p in range(programs)}


def test_without_a_grid_a_pointer_means_the_own_shard() -> None:
    host, seen = device()
    shards = [((0, 0, 0), 256, 40, 0), ((0, 0, 1), 512, 24, 40)]
    handle = launched(host, [(0, 0, 0), (0, 0, 1), (0, 0, 2)], "x", args=(tensor_arg(shards),))
    windows = {tag[2]: context.windows[0] for tag, (context, _, _) in seen.items()}

    assert handle.completion.ok
    assert [windows[pe].nbytes for pe in range(3)] == [40, 24, 0]
    assert [s.pe for s in windows[1].segments(0, 24)] == [1]
    context = seen[(0, 0, 1)][0]
    assert (tuple(context.program_ids), context.num_programs, context.identity["pe_index"]) == ((1,), (3, 1, 1), 1)


def test_with_a_grid_a_pointer_means_the_whole_tensor() -> None:
    host, seen = device()
    shards = [((0, 0, 0), 256, 40, 0), ((0, 0, 1), 512, 24, 40)]
    launched(host, [(0, 0, 0), (0, 0, 1)], "x", args=(tensor_arg(shards),), grid={"x": 3, "y": 2})
    one, two = seen[(0, 0, 0)][0], seen[(0, 0, 1)][0]

    assert one.windows[0] is two.windows[0]
    assert [(s.pe, s.nbytes) for s in one.windows[0].segments(36, 8)] == [(0, 4), (1, 4)]
    assert [tuple(c.program_ids) for c in (one, two)] == [(0, 1, 2), (3, 4, 5)]
    assert one.program_id(5) == (2, 1, 0)


def test_of_copies_a_pe_sees_its_own_and_may_not_store_to_it() -> None:
    host, seen = device()
    shards = [((0, 0, 0), 256, 40, 0), ((0, 0, 1), 512, 40, 0)]
    launched(host, [(0, 0, 1), (0, 2, 0)], "x", args=(tensor_arg(shards),), grid={"x": 2})
    own, far = seen[(0, 0, 1)][0].windows[0], seen[(0, 2, 0)][0].windows[0]

    assert (own.shards[0].pe, far.shards[0].pe) == (1, 0)
    assert own.read_only and far.read_only


def test_a_sharded_inner_dimension_keeps_its_logical_order() -> None:
    host, seen = device()
    shards = [((0, 0, 0), 256, 12, 0), ((0, 0, 1), 512, 12, 12)]  # 3 rows, 2 columns of fp32, columns sharded
    layouts = [{"shape": [3, 2], "dim": 1, "dtype": "fp32"}]
    launched(host, [(0, 0, 0), (0, 0, 1)], "x", args=(tensor_arg(shards),), grid={"x": 1}, meta={"layouts": layouts})
    window = seen[(0, 0, 0)][0].windows[0]

    assert [(s.pe, s.nbytes) for s in window.segments(0, 12)] == [(0, 4), (1, 4), (0, 4)]


def test_a_scalar_is_its_value_and_a_tensor_its_pointer() -> None:
    host, seen = device("ahbm_1x1")
    args = (ScalarArg(dtype="i32", value=-7), tensor_arg([((0, 0, 0), 64, 16, 0)]))
    launched(host, [(0, 0, 0)], "Nx", args=args)
    context = seen[(0, 0, 0)][0]

    assert context.arguments == (-7, context.windows.base(0))


# --------------------------------------------------------------------------- launches that are refused


def refused(host: Host, ref: Any, targets: list[Tag] | None = None, **fields: Any) -> tuple[str, str]:
    handle = host.launch(ref, targets, **fields)
    host.engine.run()
    assert not handle.completion.ok
    assert handle.total_ps > 0
    return handle.completion.error_code, handle.completion.error_message


GOOD = tensor_arg([((0, 0, 0), 64, 16, 0)])
BAD_LAUNCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "no target": ("E_LAUNCH_TARGET", {"targets": None, "args": ()}),
    "no such pe": ("E_LAUNCH_TARGET", {"targets": [(0, 0, 99)]}),
    "no such sip": ("E_LAUNCH_TARGET", {"targets": [(7, 0, 0)]}),
    "too few arguments": ("E_LAUNCH_ARGUMENTS", {"args": ()}),
    "scalar for a tensor": ("E_LAUNCH_ARGUMENTS", {"args": (ScalarArg(dtype="i32", value=1),) * 2}),
    "tensor for a scalar": ("E_LAUNCH_ARGUMENTS", {"args": (GOOD, GOOD)}),
    "dtype of a scalar": ("E_LAUNCH_DTYPE", {"args": (GOOD, ScalarArg(dtype="fp32", value=1))}),
    "dtype of a tensor": (
        "E_LAUNCH_DTYPE",
        {"meta": {"layouts": [{"shape": [8], "dim": 0, "dtype": "bf16"}, None]}},
    ),
    "shard beyond the slice": (
        "E_PA_STRADDLES",
        {"args": (tensor_arg([((0, 0, 0), (3 << 30) - 8, 16, 0)]), ScalarArg(dtype="i32", value=1))},
    ),
}


@pytest.mark.parametrize("case", BAD_LAUNCHES)
def test_a_launch_that_cannot_be_is_refused_with_its_code(case: str) -> None:
    code, fields = BAD_LAUNCHES[case]
    host, seen = device("ahbm_1x1")
    ref, _ = host.deploy(a_program("xN"))
    filled = {"targets": [(0, 0, 0)], "args": (GOOD, ScalarArg(dtype="i32", value=1)), **fields}

    assert refused(host, ref, **filled)[0] == code
    assert seen == {}


def test_arguments_are_named_and_all_problems_told_together() -> None:
    host, _ = device("ahbm_1x1")
    ref, _ = host.deploy(a_program("xN"))
    args = (ScalarArg(dtype="i32", value=1), GOOD)
    _, text = refused(host, ref, [(0, 0, 0)], args=args, meta={"params": ["scores", "n"]})

    assert "`scores`" in text and "`n`" in text


def test_code_that_is_not_there_is_refused() -> None:
    host, _ = device("ahbm_1x1")
    size = len(host.deploy(a_program())[1].code)
    elsewhere = kernel_ref("k", (0, 0, 0), 512, size)

    assert refused(host, elsewhere, [(0, 0, 0)])[0] == "E_BINARY_NOT_DEPLOYED"
    host.write((0, 0, 0), 512, bytes(size))
    host.engine.run()
    assert refused(host, elsewhere, [(0, 0, 0)])[0] == "E_BINARY_CORRUPT"
    builtin = kernel_ref("memset", (0, 0, 0), 0, 0, kind="builtin", deploy_pa=None)
    assert refused(host, builtin, [(0, 0, 0)])[0] == "E_KERNEL_UNKNOWN"


# --------------------------------------------------------------------------- failures


def failing(*tags: Tag, slow: int = 50_000_000) -> Plan:
    return lambda tag: "fail" if tag in tags else slow


def test_fail_fast_stops_the_others_and_reports_the_first() -> None:
    targets = list(graph_of("ahbm_2x2").pe_tags())
    host, _ = device("ahbm_2x2", failing((0, 3, 1), (0, 1, 2)))
    handle = launched(host, targets)

    assert not handle.completion.ok
    assert handle.completion.error_message == "sip0.cube1.pe2: told to fail"
    assert handle.total_ps < 50_000_000
    assert sum(result.aborted for result in handle.results.values()) == len(targets) - 2
    assert host.launch(kernel_ref("k", (0, 0, 0), 1 << 20, 1), targets) is not None  # the device takes more


def test_collect_all_lets_all_finish_and_names_every_failure() -> None:
    targets = list(graph_of("ahbm_2x2").pe_tags())
    host, _ = device("ahbm_2x2", failing((0, 3, 1), (0, 1, 2), slow=9_000_000))
    handle = launched(host, targets, failure_policy="collect_all")

    assert handle.completion.error_message == "sip0.cube1.pe2: told to fail; sip0.cube3.pe1: told to fail"
    assert handle.total_ps > 9_000_000
    assert not any(result.aborted for result in handle.results.values())


def test_a_deadlock_names_every_waiter_and_leaves_the_device_usable() -> None:
    stuck = {(0, 0, 1), (0, 2, 3)}
    host, _ = device("ahbm_2x2", lambda tag: "hang" if tag in stuck else 1000)
    handle = launched(host, list(graph_of("ahbm_2x2").pe_tags()))
    text = handle.completion.error_message

    assert handle.completion.error_code == "E_DEADLOCK"
    assert text.index("pe(0, 0, 1) waits for a message") < text.index("pe(0, 2, 3) waits for a message")
    read = host.read((0, 0, 0), 0, 4)
    host.engine.run()
    assert read.completion.ok


def test_who_waits_for_a_failed_pe_is_told_behind_the_failure() -> None:
    plans: dict[Tag, int | str] = {(0, 1, 2): "fail", (0, 3, 0): "hang"}
    host, _ = device("ahbm_2x2", lambda tag: plans.get(tag, 1000))
    handle = launched(host, list(graph_of("ahbm_2x2").pe_tags()), failure_policy="collect_all")
    text = handle.completion.error_message

    assert handle.completion.error_code == "E_OUT_OF_BOUNDS"
    assert text.startswith("sip0.cube1.pe2: told to fail; nothing is left to happen and 1 wait: pe(0, 3, 0) waits")


def test_a_launch_behind_a_deadlocked_one_still_runs() -> None:
    runs: list[Tag] = []

    def plan(tag: Tag) -> int | str:
        runs.append(tag)
        return "hang" if len(runs) == 1 else 1000

    host, _ = device("ahbm_1x1", plan)
    ref, _ = host.deploy(a_program())
    first, second = host.launch(ref, [(0, 0, 0)]), host.launch(ref, [(0, 0, 0)])
    host.engine.run()

    assert (first.completion.error_code, second.completion.ok) == ("E_DEADLOCK", True)


def test_a_time_limit_ends_the_run_and_keeps_the_log() -> None:
    host, _ = device("ahbm_1x1", lambda tag: 10**12, limits=Limits(max_time_ns=100_000))
    handle = launched(host, [(0, 0, 0)])

    assert handle.completion.error_code == "E_TIME_LIMIT"
    assert host.engine.now_ps == 100_000_000
    assert host.engine.summary(handle).terms_ps == {"unfinished": handle.total_ps}
    assert len(host.engine.op_log) > 0
    with pytest.raises(KernBenchError, match="E_TIME_LIMIT"):
        host.read((0, 0, 0), 0, 4)


def test_a_limit_that_is_not_met_changes_nothing() -> None:
    def total(**options: Any) -> tuple[int, int]:
        host, _ = device("ahbm_1x1", **options)
        return launched(host, [(0, 0, 0)]).total_ps, host.engine.now_ps

    assert total() == total(limits=Limits(max_time_ns=10**9, max_commands=10**6, max_wall_s=3600))


# --------------------------------------------------------------------------- where the time goes


def test_hops_of_a_launch_touch_and_add_up() -> None:
    host, _ = device("ahbm_4x4")
    handle = launched(host, [(0, 15, 7)])
    hops = handle.route.hops

    assert [b.t_in_ps for b in hops[1:]] == [a.t_out_ps for a in hops[:-1]]
    assert sum(hop.t_out_ps - hop.t_in_ps for hop in hops) == handle.total_ps
    assert (hops[0].node, hops[-1].node) == ("host", "host")
    assert [hop.node for hop in hops].count("sip0.io0.io_cpu") == 2


@pytest.mark.parametrize("policy", ["fail_fast", "collect_all"])
def test_terms_add_up_to_the_total(policy: str) -> None:
    host, _ = device("ahbm_2x2", failing((0, 1, 1), slow=7000))
    handle = launched(host, [(0, 0, 0), (0, 1, 1)], failure_policy=policy)
    summary = host.engine.summary(handle)

    assert sum(summary.terms_ps.values()) == summary.total_ps == handle.total_ps
    assert {"to_io_cpu", "code_fetch", "dispatch_to_pes", "completion"} <= summary.terms_ps.keys()


def test_a_refused_launch_has_terms_too() -> None:
    host, _ = device("ahbm_1x1")
    handle = host.launch(kernel_ref("k", (0, 0, 0), 512, 10), [(0, 0, 0)])
    host.engine.run()

    assert sum(host.engine.summary(handle).terms_ps.values()) == handle.total_ps


# --------------------------------------------------------------------------- many at once


@pytest.mark.parametrize("seed", range(4))
def test_random_interleavings_complete_once_each_and_leave_memory_right(seed: int) -> None:
    rng = random.Random(seed)
    tags = list(graph_of("ahbm_2x2").pe_tags())
    host, _ = device("ahbm_2x2", lambda tag: rng.choice([500, 90_000, "fail"]))
    ref, _ = host.deploy(a_program())
    model: dict[Tag, bytearray] = {tag: bytearray(64) for tag in tags}
    handles: list[Any] = []
    expected: list[tuple[Any, bytes]] = []
    for _ in range(120):
        handles.append(_random_request(rng, host, ref, tags, model, expected))
        if rng.random() < 0.2:
            host.engine.run()
    host.engine.run()

    assert all(handle.done for handle in handles)
    assert len({handle.key for handle in handles}) == len(handles)
    assert all(handle.total_ps > 0 for handle in handles)
    assert [handle.data for handle, _ in expected] == [data for _, data in expected]


def _random_request(
    rng: random.Random, host: Host, ref: Any, tags: list[Tag], model: dict[Tag, bytearray], expected: list[Any]
) -> Any:
    """Memory requests of one PE share a correlation, so a reference can follow them."""
    tag = rng.choice(tags)
    name = f"memory of {tag}"
    start = rng.randrange(64)
    size = rng.randrange(64 - start)
    choices: dict[str, Callable[[], Any]] = {
        "launch": lambda: host.launch(ref, sorted(rng.sample(tags, rng.randrange(1, 6)))),
        "fault": lambda: host.read((0, 0, 0), (3 << 30) - 1, 2),
        "read": lambda: host.read(tag, start, size, name),
        "write": lambda: host.write(tag, start, rng.randbytes(size), name),
    }
    kind = rng.choice(sorted(choices))
    handle = choices[kind]()
    if kind == "read":
        expected.append((handle, bytes(model[tag][start : start + size])))
    elif kind == "write":
        model[tag][start : start + size] = host.sent[handle.key]
    return handle
