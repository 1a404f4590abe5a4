"""All that the future of a PE depends on, where it hands a command over.

This is: the commands under way and how far each is, what its engines and the network are at, the events that are left
to happen, and the program from the command on. Times are counted from that instant and commands from that one, so that
equal states have equal futures as long as the program brings the same commands.

A PE alone is what can be foreseen, so there is no state where another runs, or anything else is under way.
Knows who has a part in the state. Does not know what each says of itself, nor what is done with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernbench.sim.clock import Clock
from kernbench.sim.engines.pe_dma import Channel
from kernbench.sim.engines.server import InOrderServer
from kernbench.sim.network import Network
from kernbench.sim.pe_command import Command, RepeatedCommand
from kernbench.sim.streams import Flow

if TYPE_CHECKING:
    from kernbench.sim.pe_cpu import PeCpu

State = tuple[Any, ...]


class PeState:
    """Tells the states of one PE."""

    def __init__(self, cpu: PeCpu, clock: Clock, network: Network) -> None:
        parts = cpu.parts
        self._cpu, self._clock, self._network = cpu, clock, network
        self._channels = (parts.dma.read, parts.dma.write)
        self._servers: tuple[InOrderServer, ...] = (parts.gemm, parts.store, parts.math)

    def at(self, command: Command, after: int) -> State | None:
        """The state where `command` is handed over, before instruction `after`.

        None where anything but this PE is at work.
        """
        cpu, now, cmd = self._cpu, self._clock.now, command.origin.cmd
        if not cpu.runs_alone or not isinstance(command, RepeatedCommand):
            return None
        named = self._namer(cmd)
        states = (
            cpu.scheduler.state(now, cmd),
            *(channel.state(now, cmd) for channel in self._channels),
            *(server.state(now) for server in self._servers),
            self._network.state(now, named),
            self._calls(now, cmd, named),
        )
        return None if None in states else (after, command.likeness, states)

    def _namer(self, cmd: int) -> Callable[[Flow], Any]:
        channels = self._channels

        def named(flow: Flow) -> Any:
            """Which of this PE's flows it is; None for another's."""
            owner = getattr(flow.done, "__self__", None)
            if owner is not channels[0] and owner is not channels[1]:
                return None
            _, number, tile, stage = flow.key
            return owner is channels[0], number - cmd, tile, stage

        return named

    def _calls(self, now: int, cmd: int, named: Callable[[Flow], Any]) -> State | None:
        """What is left to happen."""
        calls = self._clock.calls()
        if calls is None:
            return None
        found: list[tuple[Any, ...]] = []
        for t_ps, fn, args in calls:
            owner = getattr(fn, "__self__", None)
            name: Any
            if isinstance(owner, RepeatedCommand) and owner in self._cpu.scheduler.live:
                name = owner.origin.cmd - cmd, args
            elif owner is self._network:
                name = [named(arg) for arg in args if isinstance(arg, Flow) and arg.is_alone]  # others are off it
                if None in name:
                    return None
                name = tuple(name)
            elif isinstance(owner, Channel) and owner in self._channels and not args:
                name = owner.direction
            else:
                return None
            found.append((t_ps - now, fn.__name__, name))
        return tuple(found)
