"""Field cases of reading and writing memory from the host, by messages."""

from __future__ import annotations

import pytest

from kernbench.sim.engine import GraphEngine
from kernbench.sim.topology import load_topology
from tests.sim.launch_helpers import Host

FAR = ("ahbm_2x2", (0, 3, 7))


@pytest.mark.parametrize(("topology", "tag"), [("ahbm_1x1", (0, 0, 0)), ("ahbm_2x2", (0, 0, 0)), FAR], ids=str)
@pytest.mark.parametrize("nbytes", [1, 500, 65_537])
def test_a_read_does_not_overtake_the_write_before_it(topology: str, tag: tuple[int, int, int], nbytes: int) -> None:
    """FC-NU28: both are submitted at once, in one correlation: every byte that is read is new."""
    engine = GraphEngine(load_topology(topology))
    host = Host(engine)
    host.fill(tag, 4096, nbytes, value=255)
    engine.run()
    new = bytes(index % 251 for index in range(nbytes))

    host.write(tag, 4096, new, correlation_id="c")
    found = host.read(tag, 4096, nbytes, correlation_id="c")
    engine.run()

    assert new == found.data


def test_requests_of_no_byte_take_their_latency_and_move_nothing() -> None:
    """FC-RE04: MemoryWrite and MemoryRead of 0 bytes complete; they cost the way there and leave memory alone."""
    engine = GraphEngine(load_topology("ahbm_1x1"))
    host = Host(engine)
    host.write((0, 0, 0), 0, b"abcd")
    engine.run()

    nothing = [host.write((0, 0, 0), 0, b""), host.read((0, 0, 0), 2, 0)]
    engine.run()
    after = host.read((0, 0, 0), 0, 4)
    engine.run()

    assert all(handle.completion.ok and handle.total_ps > 0 for handle in nothing)
    assert (b"", b"abcd") == (nothing[1].data, after.data)


def test_a_read_beyond_the_memory_is_refused() -> None:
    """FC-RE08: past the end of a slice, by one byte and by all; what is told names the device."""
    engine = GraphEngine(load_topology("ahbm_1x1"))
    host = Host(engine)
    capacity = engine.graph.spec.cube.hbm.capacity_bytes

    fits = host.read((0, 0, 0), capacity - 4, 4)
    wrong = [host.read((0, 0, 0), capacity - 4, 5), host.read((0, 0, 0), capacity, 1)]
    engine.run()

    assert fits.completion.ok
    assert ["E_PA_STRADDLES", "E_PA_UNMAPPED"] == [handle.completion.error_code for handle in wrong]
