"""Simulated time in integer picoseconds, and the order of what happens within one instant.

A callback costs one small SimPy event and no process. Servers that several callbacks of an instant may feed do
not act on arrival: they `defer`, and the last callback of the instant lets them decide, lowest (topology index,
order key) first. A decision that adds events to the same instant lets those run before the next server decides.

Does not know what a server decides, nor anything of the device.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Protocol

import simpy
from simpy.events import NORMAL


class Server(Protocol):
    """What may be deferred. `topology_index` is its component's place in the graph."""

    @property
    def topology_index(self) -> int: ...

    def decide(self) -> None: ...


class _Call:
    """What stands in SimPy's queue for a function to run; the loop below runs it, SimPy's `step` runs its own."""

    __slots__ = ("args", "fn")

    def __init__(self, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.fn = fn
        self.args = args


class Clock:
    """The time of one device. `env` is there for processes; everything else uses the methods below."""

    __slots__ = ("_dirty", "_events_end", "_marked", "_serial", "env", "events", "limit_ps")

    def __init__(self, start_ps: int = 0) -> None:
        self.env = simpy.Environment(start_ps)
        self._dirty: list[tuple[int, tuple[int, ...], int, Server]] = []
        self._marked: set[int] = set()  # ids of the servers in `_dirty`; only ever asked for membership
        self._serial = 0
        self.events = 0  # that have happened
        self._events_end: float = 0  # how many of them end the present `run`
        self.limit_ps: float = float("inf")  # where the present `run` ends

    @property
    def now(self) -> int:
        return self.env._now  # type: ignore[return-value]  # only integers are ever scheduled

    def call_at(self, t_ps: int, fn: Callable[..., object], *args: Any) -> None:
        """Run `fn(*args)` at `t_ps`, which is not before now."""
        env = self.env
        delay_ps = t_ps - env._now
        assert delay_ps >= 0 and type(delay_ps) is int, f"a delay of {delay_ps!r} ps"
        heappush(env._queue, (t_ps, NORMAL, next(env._eid), _Call(fn, args)))  # type: ignore[misc]

    def call_after(self, delay_ps: int, fn: Callable[..., object], *args: Any) -> None:
        """Run `fn(*args)` after `delay_ps`; with 0 still later in this instant, never at once."""
        assert delay_ps >= 0 and type(delay_ps) is int, f"a delay of {delay_ps!r} ps"
        env = self.env
        heappush(env._queue, (env._now + delay_ps, NORMAL, next(env._eid), _Call(fn, args)))  # type: ignore[misc]

    def defer(self, server: Server, order_key: tuple[int, ...] = ()) -> None:
        """Let `server.decide()` run once, after the last callback of this instant.

        Servers of one component are told apart by `order_key`, which must not change from call to call.
        """
        mark = id(server)
        if mark in self._marked:
            return
        self._marked.add(mark)
        self._serial += 1
        heappush(self._dirty, (server.topology_index, order_key, self._serial, server))

    def run(self, until_ps: int | None = None, max_events: int | None = None) -> bool:
        """Step until nothing is left; True when that is so.

        Events due exactly at `until_ps` do run; time then stands at `until_ps`, or at the last event where nothing is
        left. `max_events` returns early, at the end of an instant, so that a caller can look at limits of its own.
        """
        env, dirty, marked, step = self.env, self._dirty, self._marked, self._step
        queue = env._queue  # looked at for every event, so a call of `peek` each would be felt
        self.limit_ps = last = float("inf") if until_ps is None else until_ps
        self._events_end = float("inf") if max_events is None else self.events + max_events
        while True:
            if dirty and (not queue or queue[0][0] > env._now):
                server = heappop(dirty)[3]
                marked.discard(id(server))
                server.decide()
                continue
            if not queue or queue[0][0] > last:
                break
            if self.events >= self._events_end and queue[0][0] > env._now:
                return False
            step()
        if queue and until_ps is not None and env.now < until_ps:
            env.run(until=until_ps)
        return not queue

    def _step(self) -> None:
        env = self.env
        self.events += 1
        call: object = env._queue[0][3]
        if type(call) is _Call:
            env._now = heappop(env._queue)[0]
            call.fn(*call.args)
        else:
            env.step()

    def run_before(self, t_ps: int, place: tuple[int, tuple[int, ...]]) -> None:
        """Step until the server at `place` (topology index, order key) would decide at `t_ps`."""
        env, dirty = self.env, self._dirty
        queue = env._queue
        while True:
            if dirty and (not queue or queue[0][0] > env._now):
                if env._now == t_ps and dirty[0][:2] >= place:
                    break
                server = heappop(dirty)[3]
                self._marked.discard(id(server))
                server.decide()
            elif queue and queue[0][0] <= t_ps:
                self._step()
            else:
                break

    # ----------------------------------------------------------------- skipping time

    @property
    def is_between_instants(self) -> bool:
        """Nothing else happens in this instant."""
        queue = self.env._queue
        return not self._dirty and (not queue or queue[0][0] > self.env._now)

    @property
    def events_left(self) -> float:
        """How many events may happen before `run` wants to return."""
        return self._events_end - self.events

    def calls(self) -> list[tuple[int, Callable[..., object], tuple[Any, ...]]] | None:
        """(time, function, arguments) of what is left to happen, in order; None where it is not calls alone."""
        found = []
        for t_ps, _, _, call in sorted(self.env._queue):
            if not isinstance(call, _Call):
                return None
            found.append((int(t_ps), call.fn, call.args))
        return found

    def skip(self, ps: int, events: int) -> None:
        """Let it be later by `ps`, as if so many events had happened; what is left to happen moves along."""
        env = self.env
        env._now += ps
        env._queue[:] = [(t_ps + ps, *rest) for t_ps, *rest in env._queue]  # type: ignore[misc]  # still a heap
        self.events += events

    def hand_over(self, other: Clock) -> None:
        """Let what is left to happen here happen on `other`, in the same order."""
        for t_ps, _, _, call in sorted(self.env._queue):
            assert isinstance(call, _Call)
            other.call_at(int(t_ps), call.fn, *call.args)
        for _, order_key, _, server in sorted(self._dirty, key=lambda entry: entry[:3]):
            other.defer(server, order_key)
