"""What every PE of one device shares: time, network, memory, the log, the parameters, the prepared code.

Made once by the engine. Does not know launches, nor what a PE does with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernbench.sim.access_eval import Place
from kernbench.sim.clock import Clock
from kernbench.sim.deadlock import WaitRegistry
from kernbench.sim.engines.pe_ipcq import PeIpcq
from kernbench.sim.launch_context import Mode
from kernbench.sim.memory import MemoryMap
from kernbench.sim.network import Network
from kernbench.sim.op_log import OpLog
from kernbench.sim.routing import PathRouter
from kernbench.sim.sanitizer import Sanitizer
from kernbench.sim.topology_schema import PeSpec


@dataclass(frozen=True, slots=True)
class PeServices:
    """`codes` keeps programs prepared for execution, by digest; `node_index` gives the topology index of a node;
    `queues` are those of all PEs, which put themselves in; `running` has the topology indices of those that run."""

    clock: Clock
    network: Network
    router: PathRouter
    memory: MemoryMap
    log: OpLog
    spec: PeSpec
    node_index: Mapping[str, int]
    mode: Mode = "data"
    sanitizer: Sanitizer = field(default_factory=lambda: Sanitizer("off"))
    waits: WaitRegistry = field(default_factory=WaitRegistry)
    queues: dict[Place, PeIpcq] = field(default_factory=dict)
    codes: dict[str, Any] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)
