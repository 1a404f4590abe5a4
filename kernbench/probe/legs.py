"""The legs of a case: which paths it takes, one after the other.

A write is one leg with data; a read is a command leg and a data leg back. `memory_route: via_cpus` takes the host's
legs through `io_cpu` and `m_cpu` (ADR-0049 D6). Knows where a case begins and ends. Paths are the router's; does not
know times.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from kernbench.probe.catalog import PeAt
from kernbench.probe.closed_form import ClosedForm, Leg
from kernbench.sim.routing import PathRouter
from kernbench.sim.topology_graph import TopologyGraph


class LegFinder:
    def __init__(self, graph: TopologyGraph, router: PathRouter, form: ClosedForm) -> None:
        self._graph, self._router, self._form = graph, router, form

    def pe_write(self, source: PeAt, target: PeAt) -> tuple[Leg, ...]:
        path = self._router.find_node_path(f"sip0.cube{source[0]}.pe{source[1]}.pe_dma", slice_of(target))
        return (Leg("data", path, True),)

    def host_write(self, target: PeAt) -> tuple[Leg, ...]:
        return self._legs(self._stops(target), "leg", True)

    def host_read(self, target: PeAt) -> tuple[Leg, ...]:
        """The command forward without data, the data back; the slice is their joint node."""
        stops = self._stops(target)
        back = self._legs(stops[::-1], "reverse", True, joined=True)
        return (*self._legs(stops, "forward", False), *back)

    def _stops(self, target: PeAt) -> list[str]:
        """From the `pcie_ep` of the nearest chiplet to the slice, with the CPUs between where the chiplet says so."""
        chiplets = range(len(self._graph.spec.io_chiplets))
        io = min(chiplets, key=lambda io: self._head_ps(f"sip0.io{io}.pcie_ep", target))
        cpus = [f"sip0.io{io}.io_cpu", f"sip0.cube{target[0]}.m_cpu"]
        through = self._graph.spec.io_chiplets[io].memory_route == "via_cpus"
        return [f"sip0.io{io}.pcie_ep", *(cpus if through else []), slice_of(target)]

    def _head_ps(self, pcie_ep: str, target: PeAt) -> int:
        leg = Leg("", self._router.find_memory_path(pcie_ep, slice_of(target)), False)
        return self._form.overhead_ps([leg]) + self._form.wire_ps([leg])

    def _legs(self, stops: Sequence[str], name: str, data: bool, joined: bool = False) -> tuple[Leg, ...]:
        pairs = list(pairwise(stops))
        legs: list[Leg] = []
        for number, (a, b) in enumerate(pairs, 1):
            shown = name if len(pairs) == 1 and name != "leg" else f"{name}{number}"
            legs.append(Leg(shown, self._router.find_node_path(a, b), data, joined or number > 1))
        return tuple(legs)


def slice_of(at: PeAt) -> str:
    return f"sip0.cube{at[0]}.hbm_ctrl.pe{at[1]}"
