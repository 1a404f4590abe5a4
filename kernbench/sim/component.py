"""What every component has: its node, its place in the graph, the clock and the log.

Does not know what any component does. `Courier` is how control and data leave a component.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernbench.sim.clock import Clock
from kernbench.sim.network import Network
from kernbench.sim.op_log import KIND, OpLog
from kernbench.sim.routing import PathRouter, Route


class Component:
    """One node of the graph. Subclasses add their parameters, their ports and what they do."""

    __slots__ = ("clock", "log", "node", "overhead_ps", "topology_index")

    def __init__(self, node: str, topology_index: int, overhead_ps: int, clock: Clock, log: OpLog) -> None:
        self.node = node
        self.topology_index = topology_index
        self.overhead_ps = overhead_ps
        self.clock = clock
        self.log = log

    def record(self, kind: str, start_ps: int, name: str, request: int, **fields: int) -> None:
        """Log something that ends now; not for hot paths."""
        self.log.add(
            start_ps, self.clock.now, self.topology_index, KIND[kind], self.log.intern(name), request, **fields
        )


class Courier:
    """Carries messages over routes: control in its head latency alone, data as a flow after it.

    A component that answers or passes on a message has paid its own overhead when that message arrived; it sends
    on with `paid_ps`, so that a joint node of chained legs is paid once.
    """

    __slots__ = ("clock", "network", "router")

    def __init__(self, clock: Clock, network: Network, router: PathRouter) -> None:
        self.clock = clock
        self.network = network
        self.router = router

    def latency_ps(self, source: str, target: str, paid_ps: int = 0) -> int:
        return self.router.route(source, target).head_ps - paid_ps

    def control(self, source: str, target: str, paid_ps: int, fn: Callable[..., object], *args: Any) -> None:
        """Run `fn(*args)` when a 0-byte message that leaves `source` now has reached `target`."""
        self.clock.call_after(self.latency_ps(source, target, paid_ps), fn, *args)

    def data(self, route: Route, nbytes: int, key: tuple[int, ...], done: Callable[[], None], paid_ps: int = 0) -> None:
        """Run `done()` when `nbytes` have drained at the end of `route`; `key` orders equals within an instant."""
        self.clock.call_after(route.head_ps - paid_ps, self.network.start_flow, route.pools, nbytes, key, done)
