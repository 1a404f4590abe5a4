"""A composite under way: ops before the loop, the tile loop, ops after it; stages go to the engines as they can.

Tiles go in the order m, n, k. Operand tiles are read ahead into their rings; a product goes through its K_TILE ops,
an output tile through its OUTPUT_TILE ops, STORE and, for an `out` in HBM, DMA_WRITE. Three accumulators: a fourth
output tile waits until the first is stored. One whose operands are all in TCM has its values computed at its end,
since nobody else touches its blocks before; and where it has the engines to itself, its times are those of any
other of its form (`rehearsal.py`). Does not know queues, hazards or where the command came from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernbench.sim import part_io
from kernbench.sim.access_eval import Part, place_number
from kernbench.sim.composite_form import Binding, CompositeForm
from kernbench.sim.composite_values import CompositeValues
from kernbench.sim.dma_command import require_writable
from kernbench.sim.engines.pe_dma import Transfer
from kernbench.sim.engines.server import Origin
from kernbench.sim.faults import DeviceFault
from kernbench.sim.memory import UNWRITTEN
from kernbench.sim.op_log import repeated_rows
from kernbench.sim.operand_place import OperandPlace, TileMove
from kernbench.sim.pe_command import Command, Completion, RepeatedCommand
from kernbench.sim.pe_parts import PeParts
from kernbench.sim.plan import STAGE_AFTER, STAGE_MATH, STAGE_READ_A, STAGE_READ_B, STAGE_WRITE, Loop
from kernbench.sim.registers import Registers
from kernbench.sim.rehearsal import Rehearsal, engines_of, join, rehearse
from kernbench.sim.rings import Ring, Stream
from kernbench.sim.tape import Likeness
from kernbench.sim.windows import Windows

ACCUMULATORS = 3  # output tiles of one composite between their first product and the end of STORE
_MAX_K_OPS = 1024  # stage numbers of OUTPUT_TILE ops start behind those of K_TILE ops
_BEGIN, _FINISH = 0, 1  # its steps on the tape
_FIRST_STAGE = {"a": STAGE_READ_A, "b": STAGE_READ_B}


class CompositeCommand(RepeatedCommand):
    __slots__ = (
        "_completion", "_fetching", "_form", "_holding", "_is_in_loop", "_loop", "_outputs_stored", "_parts",
        "_pending_writes", "_places", "_rehearsal", "_staged", "_start_ps", "_streams", "_submitted", "_unwritten",
        "_values", "_windows", "rings",
    )  # fmt: skip

    is_composite = True

    def __init__(
        self, form: CompositeForm, origin: Origin, program: int, binding: Binding, parts: PeParts, windows: Windows
    ) -> None:
        super().__init__(origin, program, binding.footprint, form.template.span)
        self._form = form
        self._parts = parts
        self._windows = windows
        self._places: dict[str, OperandPlace] = {}
        self._streams: dict[str, Stream] = {}
        self._values: CompositeValues | None = None
        self._rehearsal: Rehearsal | None = None
        self._is_in_loop = False
        self.rings: dict[int, Ring] = {}  # the PE's, by TCM address

    @classmethod
    def make(
        cls, form: CompositeForm, origin: Origin, program: int, registers: Registers, windows: Windows, parts: PeParts
    ) -> CompositeCommand:
        """The command at this dispatch; a fault where its addresses are wrong."""
        binding = form.bind(registers, parts.tcm.capacity_bytes)
        command = cls(form, origin, program, binding, parts, windows)
        if form.hbm:
            command._locate(registers)
        if form.values:
            command._values = CompositeValues(form, binding, registers, parts)
        return command

    def _locate(self, registers: Registers) -> None:
        """Check the operands in HBM as wholes, and note what they touch."""
        for name, operand in self._form.hbm.items():
            place = self._places[name] = OperandPlace(operand, registers, self._windows)
            touched = place.locate(self._windows)
            if name == "out":
                require_writable(place.window)
                self.hbm_writes = touched
            else:
                self.hbm_reads = (*self.hbm_reads, *touched)

    # ----------------------------------------------------------------- before the loop

    def start(self, completion: Completion) -> None:
        self._completion = completion
        self._unwritten = self._parts.sanitizer.active and self._reads_unwritten()
        if self._values is not None:
            self._parts.tape.note_step(self.origin.cmd, _BEGIN, True)
            self._values.begin()
        if self.alone and self._form.can_be_rehearsed and self._engines_are_idle():
            self._start_rehearsed()
        else:
            self._start_stages()

    def _start_stages(self) -> None:
        if self._form.before:
            self._parts.math.submit(self.origin, -1, 0, self._form.before, self._before_done)
        else:
            self._start_loop()

    @property
    def _values_by_stage(self) -> CompositeValues | None:
        """None where values are computed at the end, or not at all."""
        return None if self._form.is_local else self._values

    def _before_done(self) -> None:
        values = self._values_by_stage
        if values is not None:
            values.run_whole(self._form.plan.before)
        self._start_loop()

    # ----------------------------------------------------------------- alone on the engines

    def _engines_are_idle(self) -> bool:
        now = self._parts.clock.now
        return all(engine.idle_at(now) for engine in engines_of(self._parts))

    def _start_rehearsed(self) -> None:
        """Book all stages at once."""
        parts, form = self._parts, self._form
        index = parts.gemm.topology_index
        rehearsal = form.rehearsals.get(index)
        if rehearsal is None:
            other = next(iter(form.rehearsals.values()), None)
            rehearsal = form.rehearsals[index] = rehearse(parts, self._play) if other is None else other.on(parts)
        self._rehearsal = rehearsal
        self._start_ps = parts.clock.now
        parts.gemm.log.under_way[self] = self._records_so_far
        parts.clock.call_after(self._rehearsal.duration_ps, self._end_rehearsed)

    def _play(self, stage: PeParts) -> None:
        """A command of this form for its times alone, with the engines of `stage` to itself."""
        binding = Binding(-1, self.footprint, (), [], [])
        origin = Origin(0, 0, self.origin.src_id)
        CompositeCommand(self._form, origin, self.program, binding, stage, self._windows).start(_NOBODY)

    def _records_so_far(self) -> NDArray[Any]:
        assert self._rehearsal is not None
        times = np.array([[self._start_ps, self.origin.request, self.origin.cmd]], np.int64)
        rows = repeated_rows(self._rehearsal.rows, times)
        return rows[rows["t_start"] <= self._parts.clock.now]

    def _end_rehearsed(self) -> None:
        rehearsal = self._rehearsal
        if rehearsal is None:
            return  # it has gone on stage by stage
        log = self._parts.gemm.log
        del log.under_way[self]
        log.repeat(rehearsal.rows, self._start_ps, self.origin.request, self.origin.cmd)
        for engine, rehearsed in zip(engines_of(self._parts), rehearsal.engines, strict=True):
            engine.follow(rehearsed, self._start_ps)
        self._finish()

    def share(self, server_place: tuple[int, tuple[int, ...]]) -> None:
        """Go on stage by stage, from where it is."""
        super().share(server_place)
        if self._rehearsal is not None:
            self._rehearsal = None
            parts = self._parts
            del parts.gemm.log.under_way[self]
            join(parts, self._start_ps, self._replay, server_place)
            self._parts = parts

    def _replay(self, past: PeParts) -> None:
        self._parts = past
        self._start_stages()

    def _start_loop(self) -> None:
        loop = self._form.plan.loop
        if loop is None:
            self._finish()
            return
        self._is_in_loop = True
        self._loop: Loop = loop
        self._submitted = 0  # steps whose FETCH has been asked for
        self._fetching = False
        self._outputs_stored = 0
        self._pending_writes = 0
        self._staged = 0  # output tiles in their ring, on the way to HBM
        self._holding: deque[int] = deque()  # output tiles that wait for a slot of that ring
        for name in ("a", "b"):
            if name in self._places:
                self._streams[name] = self._stream(name, loop)
        for stream in self._streams.values():
            stream.advance()
        self._fetch_next()

    def _stream(self, name: str, loop: Loop) -> Stream:
        ring = self._ring(name)
        _, count_k, count_n = loop.counts
        if name == "a":
            span = count_k * count_n  # steps of one row of tiles

            def tile_at(step: int) -> int:
                return step // span * count_k + step % count_k

        else:
            inner = count_n * count_k

            def tile_at(step: int) -> int:
                return step % inner

        def load(step: int, slot: int) -> None:
            self._read_tile(name, step, slot)

        return Stream(ring, loop.total, tile_at, load)

    def _ring(self, name: str) -> Ring:
        """The ring at the operand's place in TCM, which other commands may have used; without a place, its own."""
        slots = self._form.hbm[name].slots
        if name not in self._form.rings:
            return Ring(slots)
        address = self._form.rings[name][0]
        ring = self.rings.get(address)
        if ring is None or len(ring.slots) != slots:
            ring = self.rings[address] = Ring(slots)
        return ring

    # ----------------------------------------------------------------- operand tiles

    def _read_tile(self, name: str, step: int, slot: int) -> None:
        tile, _, _, m0, k0, n0 = self._form.step(step)
        place = self._places[name]
        if name == "a":
            move = place.tile((m0, k0), (tile.m, tile.k), self._windows)
        else:
            move = place.tile((k0, n0), (tile.k, tile.n), self._windows)
        move.slot = slot
        operand, first = place.operand, _FIRST_STAGE[name]
        for index, part in enumerate(move.parts):
            transfer = Transfer(
                self.origin, step, first + index, part, self._part_read, operand.name_id, operand.params_id, move
            )
            self._parts.dma.read.submit(transfer)

    def _part_read(self, transfer: Transfer) -> None:
        move: TileMove = transfer.tag
        move.left -= 1
        part = transfer.part
        assert part is not None
        if self._unwritten:
            self._guarded(self._watch_read, move, part)
        if self._values is not None:
            self._values.read_part(move.name, move.slot, move.box, part, len(move.parts) == 1)
        if move.left == 0:
            stream = self._streams[move.name]
            stream.loaded += 1
            if self._values is not None:
                stream.values[move.slot] = self._values.take_tile(move.name, move.slot, move.box)
            self._fetch_next()

    def _reads_unwritten(self) -> bool:
        """Some byte of its operands is not written yet, so that each tile must be looked at."""
        memory = self._parts.memory
        return any(part_io.part_has(memory.slice(*part.place), part, UNWRITTEN) for part in self.hbm_reads)

    def _watch_read(self, move: TileMove, part: Part) -> None:
        if part_io.part_has(self._parts.memory.slice(*part.place), part, UNWRITTEN):
            self._parts.sanitizer.unwritten_read(self._places[move.name].window.name, self.span)

    def _watch_write(self, part: Part) -> None:
        starts, sizes = part_io.part_runs(part)
        place, launch = place_number(part.place), self.origin.request
        self._parts.sanitizer.stored(launch, place, self.program, starts, sizes, self.span)

    def _guarded(self, watch: Callable[..., None], *args: Any) -> None:
        try:
            watch(*args)
        except DeviceFault as fault:
            self._completion.failed(self, fault)

    # ----------------------------------------------------------------- products

    def _fetch_next(self) -> None:
        """Ask for the next tile's FETCH, if its operands are in TCM and an accumulator is free for it."""
        step = self._submitted
        if self._fetching or step == self._loop.total:
            return
        for stream in self._streams.values():
            if not stream.ready:
                return
        count_k = self._loop.counts[1]
        if step % count_k == 0 and step // count_k - self._outputs_stored >= ACCUMULATORS:
            return
        self._fetching = True
        self._submitted += 1
        tile = self._form.step(step).tile
        self._parts.gemm.submit(self.origin, step, tile, self._form.params_id, self)

    def fetched(self, j: int, product_ps: int) -> None:
        self._fetching = False
        slots = {name: stream.fetch() for name, stream in self._streams.items()}
        values = self._values_by_stage
        if values is not None:
            held = {name: self._streams[name].values[slot] for name, slot in slots.items()}
            values.multiply(self._loop, j, held)
        last = (j + 1) % self._loop.counts[1] == 0
        if last or self._form.plan.k_ops:
            self._parts.clock.call_after(product_ps, self._multiplied, j, last)
        for stream in self._streams.values():
            stream.let_next()
        self._fetch_next()

    def _multiplied(self, j: int, last: bool) -> None:
        chain = self._form.step(j).k_chain
        if chain:
            self._parts.math.submit(self.origin, j, STAGE_MATH, chain, self._partial_done, j, last)
        else:
            self._accumulated(j)

    def _partial_done(self, j: int, last: bool) -> None:
        values = self._values_by_stage
        if values is not None:
            values.run_partial(self._form.plan.k_ops, self._loop, j)
        if last:
            self._accumulated(j)

    # ----------------------------------------------------------------- output tiles

    def _accumulated(self, j: int) -> None:
        chain = self._form.step(j).out_chain
        if chain:
            self._parts.math.submit(self.origin, j, STAGE_MATH + _MAX_K_OPS, chain, self._epilogue_done, j)
        else:
            self._to_store(j)

    def _epilogue_done(self, j: int) -> None:
        values = self._values_by_stage
        if values is not None:
            values.run_output(self._form.plan.out_ops, self._loop, j)
        self._to_store(j)

    def _to_store(self, j: int) -> None:
        """STORE it, once the ring on the way to HBM has room."""
        out = self._form.hbm.get("out")
        if out is not None:
            if self._staged == out.slots:
                self._holding.append(j)
                return
            self._staged += 1
        tile = self._form.step(j).tile
        self._parts.store.submit(self.origin, j, tile, self._form.params_id, self)

    def stored(self, j: int) -> None:
        self._outputs_stored += 1
        values = self._values_by_stage
        if values is not None:
            values.store(self._loop, j)
        if "out" in self._places:
            self._write_tile(j)
        self._fetch_next()
        self._finish_loop()

    def _write_tile(self, j: int) -> None:
        tile, _, _, m0, _, n0 = self._form.step(j)
        place = self._places["out"]
        move = place.tile((m0, n0), (tile.m, tile.n), self._windows)
        operand = place.operand
        self._pending_writes += 1
        for index, part in enumerate(move.parts):
            transfer = Transfer(
                self.origin, j, STAGE_WRITE + index, part, self._part_written, operand.name_id, operand.params_id, move
            )
            self._parts.dma.write.submit(transfer)

    def _part_written(self, transfer: Transfer) -> None:
        move: TileMove = transfer.tag
        move.left -= 1
        part = transfer.part
        assert part is not None
        if self._parts.sanitizer.active:
            self._guarded(self._watch_write, part)
        if self._values is not None:
            self._values.land(transfer.tile, move.box, part, move.left == 0)
        else:
            part_io.forget_part(self._parts.memory.slice(*part.place), part)
        if move.left == 0:
            self._pending_writes -= 1
            self._staged -= 1
            if self._holding:
                self._to_store(self._holding.popleft())
            self._finish_loop()

    # ----------------------------------------------------------------- after the loop

    def _finish_loop(self) -> None:
        loop = self._loop
        if self._outputs_stored < loop.counts[0] * loop.counts[2] or self._pending_writes:
            return
        if self._form.after:
            self._parts.math.submit(self.origin, -1, STAGE_AFTER, self._form.after, self._after_done)
        else:
            self._finish()

    def _after_done(self) -> None:
        values = self._values_by_stage
        if values is not None:
            values.run_whole(self._form.plan.after)
        self._finish()

    def _finish(self) -> None:
        if self._values is not None:
            self._parts.tape.note_step(self.origin.cmd, _FINISH, True)
            self._finish_values(self._values)
        self._completion.completed(self)

    def _finish_values(self, values: CompositeValues) -> None:
        if self._form.is_local:
            values.run_all()
        values.finish()

    # ----------------------------------------------------------------- skipping time, without operands in HBM

    def redo(self, step: int, last: bool) -> None:
        values = self._values
        assert values is not None
        if step == _BEGIN:
            values.begin()
        else:
            self._finish_values(values)

    @property
    def likeness(self) -> Likeness:
        return self._form, self.footprint

    def _progress(self, now: int) -> tuple[Any, ...]:
        if self._rehearsal is not None:
            return (self._start_ps - now,)
        if not self._is_in_loop:
            return ()
        return self._submitted, self._fetching, self._outputs_stored, self._staged, tuple(self._holding)

    def skip(self, ps: int) -> None:
        if self._rehearsal is not None:
            self._start_ps += ps

    def load(self) -> tuple[Any, ...]:
        return super().load(), self._values

    def take_load(self, load: tuple[Any, ...]) -> None:
        common, self._values = load
        super().take_load(common)


class _Nobody:
    """Waits for no rehearsed command."""

    def completed(self, command: Command) -> None: ...

    def failed(self, command: Command, fault: DeviceFault) -> None:
        raise AssertionError("a command without values meets no fault")


_NOBODY = _Nobody()
