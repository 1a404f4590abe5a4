"""Host memory requests: their exact time, their way, their bytes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kernbench.address_map import encode_pa
from kernbench.diagnostics import KernBenchError
from kernbench.messages import MemoryRead, MemoryWrite, Pattern, Tag, content_hash
from kernbench.sim.device_messages import PeDmaMsg
from kernbench.sim.engine import GraphEngine, Limits, Progress
from kernbench.sim.topology import load_topology
from kernbench.sim.topology_graph import TopologyGraph
from tests.sim.launch_helpers import Host

GRAPH = load_topology("ahbm_2x2")
VIA_CPUS = """
extends: ahbm_2x2
io_chiplets:
  - pcie_ep: {overhead_ns: 50, bw_gbs: 63.0}
    io_cpu: {overhead_ns: 10}
    io_noc: {impl: forwarding_v1, overhead_ns: 0}
    io_ucie: {overhead_ns: 8, connections: 4, per_connection_bw_gbs: 256}
    memory_route: via_cpus
    cube_ports:
      - {cube: {xy: [0, 0]}, cube_side: N, phy: P0, distance_mm: 2.0}
"""


def host(graph: TopologyGraph = GRAPH, **options: Any) -> Host:
    return Host(GraphEngine(graph, **options))


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def closed_form_ps(graph: TopologyGraph, path: list[str], nbytes: int, paid: tuple[str, ...] = ()) -> int:
    """Σ overhead + Σ wire + bytes / bottleneck, from the decimals of the topology alone."""

    def ps(value: Decimal) -> int:
        return ceil_div(*(value * 1000).as_integer_ratio())

    edges = [graph.edge(a, b) for a, b in pairwise(path)]
    total = sum(ps(graph.nodes[node].attrs["overhead_ns"]) for node in path)
    total -= sum(ps(graph.nodes[node].attrs["overhead_ns"]) for node in paid)
    total += sum(ps(edge.distance_mm * graph.spec.ns_per_mm) for edge in edges)
    rates = [edge.bw_gbs * 10**9 for edge in edges if edge.bw_gbs is not None]
    return total + ceil_div(nbytes * 10**12, int(min(rates)))


def path_of(handle: Any) -> list[str]:
    return [hop.node for hop in handle.route.hops]


TAGS: list[Tag] = [(0, 0, 0), (0, 0, 7), (0, 1, 3), (0, 3, 5)]


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("nbytes", [1, 64, 32768])
def test_a_lone_write_takes_exactly_the_closed_form(tag: Tag, nbytes: int) -> None:
    sender = host()
    handle = sender.fill(tag, 4096, nbytes)
    sender.engine.run()

    assert path_of(handle)[:3] == ["host", "sip0.io0.pcie_ep", "sip0.io0.io_noc"]
    assert path_of(handle)[-1] == f"sip0.cube{tag[1]}.hbm_ctrl.pe{tag[2]}"
    assert handle.total_ps == closed_form_ps(GRAPH, path_of(handle), nbytes)


@pytest.mark.parametrize("tag", TAGS)
def test_a_lone_read_is_an_empty_leg_and_one_with_data_and_the_joint_node_once(tag: Tag) -> None:
    sender = host()
    sender.fill(tag, 4096, 32768, 9)
    sender.engine.run()
    handle = sender.read(tag, 4096, 32768)
    sender.engine.run()
    memory = f"sip0.cube{tag[1]}.hbm_ctrl.pe{tag[2]}"
    nodes = path_of(handle)
    there, back = nodes[: nodes.index(memory) + 1], nodes[nodes.index(memory) + 1 :]

    assert back[0] == memory
    expected = closed_form_ps(GRAPH, there, 0) + closed_form_ps(GRAPH, back, 32768, paid=(memory,))
    assert handle.total_ps == expected
    assert handle.data == bytes([9]) * 32768
    assert handle.response.checksum == content_hash(bytes([9]) * 32768)


def test_memory_requests_go_around_the_cpus_or_through_them(tmp_path: Path) -> None:
    file = tmp_path / "via.yaml"
    file.write_text(VIA_CPUS)
    graph = load_topology(str(file))
    through, around = host(graph), host()
    for sender in (through, around):
        sender.handle = sender.fill((0, 3, 5), 0, 4096)  # type: ignore[attr-defined]
        sender.engine.run()
    nodes = path_of(through.handle)  # type: ignore[attr-defined]

    assert [n for n in nodes if n.endswith("cpu")] == ["sip0.io0.io_cpu", "sip0.cube3.m_cpu"]
    assert not [n for n in path_of(around.handle) if n.endswith("cpu")]  # type: ignore[attr-defined]
    assert through.handle.total_ps == closed_form_ps(graph, nodes, 4096)  # type: ignore[attr-defined]
    back = through.read((0, 3, 5), 0, 4096)
    through.engine.run()
    assert [n for n in path_of(back) if n.endswith("cpu")] == [
        "sip0.io0.io_cpu", "sip0.cube3.m_cpu", "sip0.cube3.m_cpu", "sip0.io0.io_cpu"
    ]  # fmt: skip
    assert back.data == bytes(4096)


def test_memory_traffic_takes_the_chiplet_nearest_to_its_cube(tmp_path: Path) -> None:
    port = "cube_ports: [{cube: {xy: [%d, %d]}, cube_side: %s, phy: P0, distance_mm: 2.0}]"
    chiplets = VIA_CPUS.replace("via_cpus", "direct").split("io_chiplets:")[1].split("    cube_ports:")[0]
    file = tmp_path / "two.yaml"
    ports = [port % (0, 0, "N"), port % (1, 1, "S")]
    both = "".join(f"{chiplets}    {each}" for each in ports)
    file.write_text(f"extends: ahbm_2x2\nio_chiplets:{both}\n")
    sender = host(load_topology(str(file)))
    near, far = sender.fill((0, 0, 0), 0, 64), sender.fill((0, 3, 5), 0, 64)
    sender.engine.run()

    assert [path_of(handle)[1] for handle in (near, far)] == ["sip0.io0.pcie_ep", "sip0.io1.pcie_ep"]
    back = sender.read((0, 3, 5), 0, 64)
    sender.engine.run()
    assert path_of(back)[-2] == "sip0.io1.pcie_ep"


def test_two_equal_writes_over_one_link_end_together() -> None:
    sender = host()
    one, two = sender.fill((0, 0, 0), 0, 63_000), sender.fill((0, 0, 0), 65536, 63_000)
    sender.engine.run()
    alone = closed_form_ps(GRAPH, path_of(one), 0)

    assert one.completed_ps == two.completed_ps == alone + 2_000_000  # 126,000 bytes at 63 GB/s


def test_hops_touch_and_add_up_and_a_request_of_no_bytes_takes_time() -> None:
    sender = host()
    for handle in (sender.fill((0, 3, 5), 0, 0), sender.read((0, 3, 5), 0, 0), sender.fill((0, 1, 1), 0, 777)):
        sender.engine.run()
        hops = handle.route.hops
        assert handle.total_ps > 0
        assert hops[0].t_in_ps == handle.started_ps
        assert [b.t_in_ps for b in hops[1:]] == [a.t_out_ps for a in hops[:-1]]
        assert hops[-1].t_out_ps == handle.completed_ps
        assert handle.trace["total_ns"] == handle.total_ps / 1000


@pytest.mark.parametrize(
    ("kind", "value", "unit"),
    [
        ("zero", None, b"\0\0\0\0"),
        ("fill_u8", 7, b"\7\7\7\7"),
        ("fill_u16", 258, b"\2\1\2\1"),
        ("fill_u32", 1, b"\1\0\0\0"),
        ("fill_fp16", 1.0, b"\0\x3c\0\x3c"),
        ("fill_fp32", 1.0, b"\0\0\x80\x3f"),
    ],
)
def test_every_pattern_fills_its_bytes(kind: Any, value: Any, unit: bytes) -> None:
    sender = host()
    message = MemoryWrite(
        **sender.envelope("a"), dst_sip=0, dst_cube=0, dst_pe=1, dst_pa=encode_pa(0, 1, "hbm", 8), nbytes=8,
        src_kind="pattern", pattern=Pattern(pattern_kind=kind, value=value),
    )  # fmt: skip
    sender.engine.submit(message)
    read = sender.read((0, 0, 1), 8, 8, "a")
    sender.engine.run()

    assert read.data == unit * 2


@pytest.mark.parametrize("options", [{"mode": "timing"}, {"mode": "data"}])
def test_bytes_come_in_data_mode_and_only_to_a_sink(options: dict[str, Any]) -> None:
    sender = host(**options)
    sender.write((0, 0, 0), 0, b"12345678", "a")
    sink, discard = sender.read((0, 0, 0), 0, 8, "a"), sender.read((0, 0, 0), 0, 8, "a", dst_kind="discard")
    sender.engine.run()

    assert sink.data == (b"12345678" if options["mode"] == "data" else None)
    assert (discard.data, discard.checksum) == (None, None)
    assert sink.total_ps == discard.total_ps


def test_both_modes_write_one_log() -> None:
    def log(mode: Any) -> list[Any]:
        sender = host(mode=mode, hops=True)
        sender.write((0, 0, 0), 0, b"12345678", "a")
        sender.read((0, 0, 0), 0, 8, "a")
        sender.engine.run()
        return list(sender.engine.op_log)

    assert log("data") == log("timing")


REFUSED: dict[str, tuple[str, Callable[[Host], Any]]] = {
    "beyond the slice": ("E_PA_STRADDLES", lambda h: h.read((0, 0, 0), (3 << 30) - 1, 2)),
    "no such memory": ("E_PA_UNMAPPED", lambda h: h.read((0, 99, 0), 0, 2)),
    "tags that lie": ("E_PA_TAG_MISMATCH", lambda h: h.fill((0, 0, 1), 0, 4, dst_mem_kind="TCM")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_device_refuses_is_a_completion_that_took_its_time(case: str) -> None:
    code, send = REFUSED[case]
    sender = host()
    handle = send(sender)
    sender.engine.run()

    assert (handle.completion.ok, handle.completion.error_code) == (False, code)
    assert handle.total_ps > 0
    assert sum(hop.t_out_ps - hop.t_in_ps for hop in handle.route.hops) == handle.total_ps


def test_a_tag_that_contradicts_the_address_is_never_a_silent_preference() -> None:
    sender = host()
    message = MemoryRead(
        **sender.envelope(), src_sip=0, src_cube=1, src_pe=0, src_pa=encode_pa(0, 0, "hbm", 0), nbytes=4
    )
    handle = sender.engine.submit(message)
    sender.engine.run()

    assert handle.completion.error_code == "E_PA_TAG_MISMATCH"


def test_a_message_that_no_device_can_take_is_refused_at_once() -> None:
    sender = host()
    with pytest.raises(KernBenchError, match="E_DEVICE_UNKNOWN"):
        sender.write((0, 0, 0), 0, b"1", sip=5)
    data = b"12345678"
    message = MemoryWrite(
        **sender.envelope(), dst_sip=0, dst_cube=0, dst_pe=0, dst_pa=0, nbytes=8, src_kind="host_buffer_ref",
        host_buffer=content_hash(data),
    )  # fmt: skip
    with pytest.raises(KernBenchError, match="E_BUFFER_MISSING"):
        sender.engine.submit(message, {})
    with pytest.raises(KernBenchError, match="E_BUFFER_SIZE"):
        sender.engine.submit(message, {content_hash(data): data[:4]})
    assert sender.engine.submit(message, {content_hash(data): data}) is not None


def test_the_scratchpads_are_memory_too() -> None:
    sender = host()
    at = {"dst_sip": 0, "dst_cube": 3, "dst_pe": 5, "dst_pa": encode_pa(3, 5, "tcm", 100), "nbytes": 8}
    pattern = Pattern(pattern_kind="fill_u8", value=5)
    sender.engine.submit(
        MemoryWrite(**sender.envelope("a"), **at, src_kind="pattern", pattern=pattern, dst_mem_kind="TCM")
    )
    read = sender.engine.submit(
        MemoryRead(**sender.envelope("a"), src_sip=0, src_cube=3, src_pe=5, src_pa=encode_pa(3, 5, "tcm", 98), nbytes=8)
    )
    sender.engine.run()

    assert read.data == b"\0\0" + b"\5" * 6


def test_probe_puts_requests_in_at_pcie_ep_and_dma_writes_at_a_pe() -> None:
    sender = host(entry="pcie_ep")
    handle = sender.fill((0, 2, 0), 0, 32768)
    dma = sender.engine.submit(PeDmaMsg("p", "0", 0, 0, 0, 0, 3, 5, encode_pa(3, 5, "hbm", 0), 32768))
    sender.engine.run()

    assert path_of(handle)[0] == "sip0.io0.pcie_ep"
    assert (path_of(dma)[0], path_of(dma)[-1]) == ("sip0.cube0.pe0.pe_dma", "sip0.cube3.hbm_ctrl.pe5")
    assert handle.total_ps == closed_form_ps(GRAPH, path_of(handle), 32768)
    assert dma.total_ps == closed_form_ps(GRAPH, path_of(dma), 32768)


def test_hops_are_logged_where_asked_and_cover_the_request() -> None:
    quiet, telling = host(), host(hops=True)
    for sender in (quiet, telling):
        sender.fill((0, 3, 5), 0, 4096)
        sender.engine.run()
    hops = telling.engine.op_log.where(op_kind="hop")
    (write,) = telling.engine.op_log.where(op_kind="dma_write")

    assert len(quiet.engine.op_log.where(op_kind="hop")) == 0
    assert sum(hop.duration_ps for hop in hops) == write.duration_ps


def test_two_runs_in_one_process_write_the_same_log() -> None:
    def log() -> list[Any]:
        sender = host()
        for tag in TAGS:
            sender.fill(tag, 64, 1000)
            sender.read(tag, 64, 1000)
        sender.engine.run()
        return list(sender.engine.op_log)

    assert log() == log()


def test_progress_is_told_and_changes_nothing() -> None:
    told: list[Progress] = []
    quiet, telling = host(), host(on_progress=told.append, limits=Limits(look_every=1))
    for sender in (quiet, telling):
        sender.fill((0, 3, 5), 0, 4096)
        sender.engine.run()

    assert told and told[-1].pes_done == 32
    assert list(quiet.engine.op_log) == list(telling.engine.op_log)


@pytest.mark.parametrize("space", ["hbm", "tcm"])
@pytest.mark.parametrize("kind", ["HBM", "TCM", "AUTO"])
def test_the_kind_of_memory_of_a_write_is_that_of_its_address_or_auto(space: Any, kind: Any) -> None:
    sender = host()
    at = {"dst_sip": 0, "dst_cube": 1, "dst_pe": 2, "dst_pa": encode_pa(1, 2, space, 64), "nbytes": 4}
    pattern = Pattern(pattern_kind="fill_u32", value=7)
    handle = sender.engine.submit(
        MemoryWrite(**sender.envelope(), **at, src_kind="pattern", pattern=pattern, dst_mem_kind=kind)
    )
    sender.engine.run()

    expected = None if kind in ("AUTO", space.upper()) else "E_PA_TAG_MISMATCH"
    assert expected == handle.completion.error_code


def test_a_pattern_that_is_larger_than_a_block_goes_on_without_a_seam() -> None:
    sender = host()
    nbytes = (2 << 20) + 6
    message = MemoryWrite(
        **sender.envelope("a"), dst_sip=0, dst_cube=0, dst_pe=1, dst_pa=encode_pa(0, 1, "hbm", 10), nbytes=nbytes,
        src_kind="pattern", pattern=Pattern(pattern_kind="fill_u16", value=258),
    )  # fmt: skip
    sender.engine.submit(message)
    read = sender.read((0, 0, 1), 8, nbytes + 4, "a")
    sender.engine.run()

    assert b"\0\0" + b"\2\1" * (nbytes // 2) + b"\0\0" == read.data


def test_a_buffer_without_a_name_takes_its_time_and_leaves_nobody_s_bytes() -> None:
    sender = host()
    at = {"dst_sip": 0, "dst_cube": 0, "dst_pe": 1, "dst_pa": encode_pa(0, 1, "hbm", 0), "nbytes": 4096}
    unnamed = sender.engine.submit(MemoryWrite(**sender.envelope(), **at, src_kind="host_buffer_ref"))
    sender.engine.run()
    named = sender.write((0, 0, 1), 8192, bytes(range(256)) * 16)
    sender.engine.run()

    assert unnamed.completion.ok
    assert unnamed.total_ps == named.total_ps


def test_responses_are_matched_by_their_id_pair() -> None:
    sender = host()
    handles = [sender.fill(tag, 64, 4096) for tag in reversed(TAGS)]
    sender.engine.run()

    assert [handle.message.key for handle in handles] == [handle.response.key for handle in handles]
    ends = [handle.completed_ps for handle in handles]
    assert sorted(ends) != ends  # they do not end in the order in which they were sent


def test_looking_at_links_now_and_then_changes_no_total() -> None:
    once, often = host(), host()
    for sender in (once, often):
        for tag in TAGS * 2:
            sender.fill(tag, 64, 1000)
            if sender is often:
                sender.engine.run()
                sender.engine.device.network.uses()
        sender.engine.run()
    uses = [[(use.name, use.nbytes) for use in sender.engine.device.network.uses()] for sender in (once, often)]

    assert uses[0] == uses[1]
    assert uses[0]


def test_products_take_one_thread_while_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the process was told, which holds again afterwards."""

    def threads() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    inside: list[set[int]] = []
    step = GraphEngine._step

    def watched(engine: GraphEngine) -> bool:
        inside.append(threads())
        return step(engine)

    monkeypatch.setattr(GraphEngine, "_step", watched)
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        GraphEngine(load_topology("ahbm_1x1")).run()
        after = threads()

    assert [{1}] == inside
    assert before == after
