"""Fast-forward of a PE that does the same again and again, as the trips of a loop and the programs of a launch do.

Where a state (`pe_state.py`) comes back, what lies between is a lap. As long as the program goes the lap's way with
commands of the lap's likeness and conflicts, the PE does what it did: so the scout makes the lap's commands, the bytes
are moved and the values computed in the lap's order, the records are noted again, and time skips. Everything under way
then stands as before, with later commands' loads.

Knows what can be skipped. Does not know what a command does, nor what a state says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from kernbench.sim.clock import Clock
from kernbench.sim.dma_command import DmaCommand
from kernbench.sim.engines.pe_dma import Transfer
from kernbench.sim.engines.server import InOrderServer
from kernbench.sim.network import Network
from kernbench.sim.op_log import LogMark, OpLog
from kernbench.sim.pe_code import (
    AssertStep,
    Branch,
    End,
    Instruction,
    Jump,
    LoopEnd,
    LoopStart,
    MoveStep,
    ReadableAhead,
    ScalarStep,
    WhileEnd,
    WhileStart,
)
from kernbench.sim.pe_command import Command, RepeatedCommand
from kernbench.sim.pe_issue import DispatchStep
from kernbench.sim.pe_state import PeState, State
from kernbench.sim.scout import Scout
from kernbench.sim.streams import FlowClass
from kernbench.sim.tape import Conflict, Likeness, Step, conflict_in_hbm

if TYPE_CHECKING:
    from kernbench.sim.pe_cpu import PeCpu

_OF_REGISTERS_ALONE = (
    AssertStep, Branch, End, Jump, LoopEnd, LoopStart, MoveStep, ScalarStep, WhileEnd, WhileStart,
)  # fmt: skip
# A program that does not repeat soon, or not in few ways, is not worth the looking.
_PATIENCE = 128  # how much looking may be in vain, counted in commands that take as long
_MAX_STATES = 1024  # from which laps are known
_MAX_WAYS = 16  # from one state
_MAX_TAPE = 1024  # instructions


def can_be_skipped(instructions: Sequence[Instruction]) -> TypeGuard[Sequence[ReadableAhead]]:
    """Every way through this program is known from its registers alone."""
    return all(
        isinstance(each, _OF_REGISTERS_ALONE) or (isinstance(each, DispatchStep) and each.can_be_skipped)
        for each in instructions
    )


class _Mark(NamedTuple):
    """Where a PE was when it stood in some state, and how much it had done by then."""

    now: int
    cmd: int
    path: int  # how long each list of the tape was
    likenesses: int
    conflicts: int
    steps: int
    log: LogMark
    events: int
    busy: tuple[int, ...]  # as `_busy` orders them
    moved: dict[FlowClass, tuple[int, int]]


@dataclass(slots=True)
class _Lap:
    """What a PE does from one instant to the next in which it stands the same. Commands count from the first."""

    duration_ps: int
    commands: int
    path: tuple[int, ...]
    likenesses: list[Likeness]  # of the commands made
    conflicts: list[Conflict]
    steps: list[Step]
    oldest: int  # of the commands that are named in it or by what is under way at its end
    rows: NDArray[Any]  # packed log records, of times counted from the lap's start
    numbered: NDArray[np.bool_]  # those that belong to a command
    events: int
    busy: tuple[int, ...]  # as `_busy` orders them
    moved: list[tuple[FlowClass, int, int]]
    failures: int = 0  # how often in a row the program did not go this way

    def records(self, laps: int, start_ps: int, cmd: int) -> NDArray[Any]:
        """The records of so many laps from `start_ps` and command `cmd` on."""
        made = np.tile(self.rows, (laps, 1))
        lap = np.arange(laps, dtype=np.int64)[:, None]
        made["t_start"] += start_ps + lap * self.duration_ps
        made["t_end"] += start_ps + lap * self.duration_ps
        made["cmd"] += (cmd + lap * self.commands) * self.numbered
        return made.reshape(-1)


class Laps:
    """The laps of one PE in one launch."""

    def __init__(
        self, cpu: PeCpu, instructions: Sequence[ReadableAhead], clock: Clock, log: OpLog, network: Network
    ) -> None:
        self._cpu = cpu
        self._instructions = instructions
        self._clock, self._log, self._network = clock, log, network
        parts = cpu.parts
        self._tape = parts.tape
        self._channels = (parts.dma.read, parts.dma.write)
        self._gemm = parts.gemm
        self._servers: tuple[InOrderServer, ...] = (parts.gemm, parts.store, parts.math)
        self._state = PeState(cpu, clock, network)
        self._seen: dict[State, _Mark] = {}
        self._laps: dict[State, dict[tuple[int, ...], _Lap | None]] = {}  # by state and the way that the program went
        self._patience = _PATIENCE
        self._tape.runs = True

    def skip_from(self, command: Command, after: int) -> Command:
        """Skip what can be skipped from where PE_CPU hands `command` over, before it goes on with instruction `after`.

        Gives the command that it hands over then: `command` itself where nothing is skipped.
        """
        if not self._clock.is_between_instants:
            return command  # and asked again with the next one
        self._cpu.may_repeat = False
        if not self._tape.runs:
            return command
        state = self._state.at(command, after)
        later = command if state is None else self._go_on_from(state, command, after)
        self._patience = min(_PATIENCE, self._patience + later.origin.cmd - command.origin.cmd) - 1
        if self._patience < 0:
            self._give_up()
        return later

    def _go_on_from(self, state: State, command: Command, after: int) -> Command:
        """Skip the first laps from this state that go well, and note that PE_CPU was in it."""
        laps = self._laps_from(state)
        if (seen := self._seen.get(state)) is not None:
            self._learn(laps, seen, command)
        for lap in sorted((lap for lap in laps.values() if lap is not None), key=_promise):
            later = self._skip(lap, command, after)
            if later is not command:
                lap.failures = 0
                command = later
                break
            lap.failures += 1
        self._seen[state] = self._mark(command)
        return command

    def _laps_from(self, state: State) -> dict[tuple[int, ...], _Lap | None]:
        found = self._laps.get(state)
        if found is None:
            if len(self._laps) == _MAX_STATES:
                self._laps.clear()
            found = self._laps[state] = {}
        return found

    def _learn(self, laps: dict[tuple[int, ...], _Lap | None], seen: _Mark, command: Command) -> None:
        """A way that the program goes for the second time from a state is worth trying."""
        path = tuple(self._tape.path[seen.path :])
        if path not in laps:
            if len(laps) < _MAX_WAYS:
                laps[path] = None
        elif laps[path] is None:
            laps[path] = self._lap(seen, path, command)

    def _forget(self) -> None:
        """Begin the tape anew."""
        self._seen.clear()
        self._tape.clear()

    def _give_up(self) -> None:
        self._seen.clear()
        self._laps.clear()
        self._tape.stop()

    # ----------------------------------------------------------------- laps

    def _mark(self, command: Command) -> _Mark:
        tape = self._tape
        return _Mark(
            now=self._clock.now,
            cmd=command.origin.cmd,
            path=len(tape.path),
            likenesses=len(tape.likenesses),
            conflicts=len(tape.conflicts),
            steps=len(tape.steps),
            log=self._log.mark(),
            events=self._clock.events,
            busy=self._busy(),
            moved=self._network.moved(),
        )

    def _busy(self) -> tuple[int, ...]:
        each = [one.busy_ps for one in self._channels] + [one.busy_ps for one in self._servers]
        return self._cpu.busy_ps, self._gemm.fetch_busy_ps, *each

    def _lap(self, mark: _Mark, path: tuple[int, ...], command: Command) -> _Lap:
        """What has been done since `mark`."""
        tape, cmd = self._tape, mark.cmd
        rows = self._log.rows_since(mark.log)
        rows["t_start"] -= mark.now
        rows["t_end"] -= mark.now
        numbered = rows["cmd"] >= 0
        rows["cmd"] -= numbered * cmd
        steps = [(number - cmd, step, last) for number, step, last in tape.steps[mark.steps :]]
        conflicts = [
            (younger - cmd, older - cmd, is_one) for younger, older, is_one in tape.conflicts[mark.conflicts :]
        ]
        commands = command.origin.cmd - cmd
        under_way = [one.origin.cmd - cmd - commands for one in self._cpu.scheduler.live]
        named = [*(number for number, _, _ in steps), *(older for _, older, _ in conflicts), *under_way]
        return _Lap(
            duration_ps=self._clock.now - mark.now,
            commands=commands,
            path=path,
            likenesses=tape.likenesses[mark.likenesses :],
            conflicts=conflicts,
            steps=steps,
            oldest=min([0, *named]),
            rows=rows,
            numbered=numbered,
            events=self._clock.events - mark.events,
            busy=tuple(now - before for now, before in zip(self._busy(), mark.busy, strict=True)),
            moved=self._moved_since(mark),
        )

    def _moved_since(self, mark: _Mark) -> list[tuple[FlowClass, int, int]]:
        return [
            (flow_class, now[0] - before[0], now[1] - before[1])
            for flow_class, now in self._network.moved().items()
            if now != (before := mark.moved.get(flow_class, (0, 0)))
        ]

    # ----------------------------------------------------------------- skipping

    def _skip(self, lap: _Lap, command: Command, after: int) -> Command:
        """Do as many laps as the program goes and the run may take; the command that is handed over then."""
        now, limit_ps, events_left = self._clock.now, self._clock.limit_ps, self._clock.events_left
        cmd = command.origin.cmd
        assert isinstance(command, RepeatedCommand)
        commands = {one.origin.cmd: one for one in (*self._live(), command)}
        scout = Scout(self._cpu)
        laps = 0
        while now + (laps + 1) * lap.duration_ps <= limit_ps and (laps + 1) * lap.events <= events_left:
            made = scout.go(self._instructions, lap.path, after)
            if made is not None:
                commands |= {one.origin.cmd: one for one in made}
            if made is None or not _is_alike(lap, made, commands, cmd):
                self._patience -= 1 + scout.tried // 2  # a command skipped saves about twice what its making takes
                scout.go_back()
                break
            for number, step, last in lap.steps:
                commands[cmd + number].redo(step, last)
            self._record(lap, cmd)
            for number in range(cmd + lap.oldest, cmd + lap.oldest + lap.commands):
                commands.pop(number, None)  # nobody names it any more
            laps += 1
            cmd += lap.commands
        if laps:
            self._arrive(lap, laps, command.origin.cmd, commands)
            scout.lead(self._cpu)
        return commands[cmd]

    def _record(self, lap: _Lap, cmd: int) -> None:
        """Put a lap on the tape, for it may be a part of a longer one."""
        tape = self._tape
        if len(tape.path) > _MAX_TAPE:
            self._forget()
            return
        tape.path += lap.path
        tape.likenesses += lap.likenesses
        tape.conflicts += [(younger + cmd, older + cmd, is_one) for younger, older, is_one in lap.conflicts]
        tape.steps += [(number + cmd, step, last) for number, step, last in lap.steps]

    def _live(self) -> list[RepeatedCommand]:
        """The commands under way."""
        return [one for one in self._cpu.scheduler.live if isinstance(one, RepeatedCommand)]

    def _arrive(self, lap: _Lap, laps: int, cmd: int, commands: dict[int, RepeatedCommand]) -> None:
        """Let everything stand as it does after so many laps."""
        ps, count = laps * lap.duration_ps, laps * lap.commands
        self._log.extend(lap.records(laps, self._clock.now, cmd))
        live = self._live()
        loads = [commands[one.origin.cmd + count].load() for one in live]
        for one, load in zip(live, loads, strict=True):
            one.take_load(load)
            one.skip(ps)
        for channel in self._channels:
            channel.skip(ps)
            for transfer in channel.transfers:
                _renew(transfer)
        for server in self._servers:
            server.skip(ps)
        self._network.skip(ps, lambda key: (key[0], key[1] + count, *key[2:]))
        self._clock.skip(ps, laps * lap.events)
        self._count(lap, laps)

    def _count(self, lap: _Lap, laps: int) -> None:
        """What is only added up."""
        cpu, fetch, *others = (laps * busy for busy in lap.busy)
        self._cpu.busy_ps += cpu
        self._gemm.fetch_busy_ps += fetch
        for channel, busy in zip(self._channels, others[:2], strict=True):
            channel.busy_ps += busy
        for server, busy in zip(self._servers, others[2:], strict=True):
            server.busy_ps += busy
        for flow_class, bytes_in, bytes_out in lap.moved:
            flow_class.bytes_in += laps * bytes_in
            flow_class.bytes_out += laps * bytes_out


def _promise(lap: _Lap) -> tuple[int, int]:
    """Orders laps: those that went well first, long ones first."""
    return lap.failures, -lap.commands


def _renew(transfer: Transfer) -> None:
    """Let a transfer be of what its command works on now."""
    command = transfer.tag
    assert isinstance(command, DmaCommand)
    transfer.origin, transfer.part = command.origin, command.part(transfer.stage)


def _is_alike(lap: _Lap, made: Sequence[RepeatedCommand], commands: Mapping[int, Command], cmd: int) -> bool:
    """These commands take the time of the lap's."""
    return [one.likeness for one in made] == lap.likenesses and all(
        conflict_in_hbm(commands[cmd + younger], commands[cmd + older]) == is_one
        for younger, older, is_one in lap.conflicts
    )
