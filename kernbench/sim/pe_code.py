"""A program made ready to run: its structured nodes as one flat list of instructions, shared by all PEs.

Loops stay loops: the list is as long as the program, not as its run. An instruction's `step(cpu)` does its work and
gives the number of the next one, or `SUSPEND` after it has arranged for PE_CPU to go on later. Loop counters live in
registers behind the program's own. Does not know engines or hazards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from kernbench.commands import (
    Assert,
    Atomic,
    Block,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Exit,
    Gather,
    If,
    Loop,
    Move,
    Node,
    Operand,
    Program,
    ReadScalar,
    Recv,
    ScalarLoad,
    ScalarOp,
    ScalarStore,
    Scatter,
    Send,
    Wait,
    While,
)
from kernbench.diagnostics import Span
from kernbench.numerics import evaluate_scalar
from kernbench.sim.faults import DeviceFault
from kernbench.sim.form_context import FormContext
from kernbench.sim.pe_command import Command
from kernbench.sim.pe_parts import PeParts
from kernbench.sim.registers import Read, Registers, Unknown, reader, require_known
from kernbench.sim.rings import Ring
from kernbench.sim.windows import Windows

if TYPE_CHECKING:
    from kernbench.sim.pe_cpu import PeCpu

SUSPEND = -1


class Reader(Protocol):
    """Who reads a program: PE_CPU, or its scout.

    `may_repeat`: back at an instruction that it has met before, or in the next program.
    """

    may_repeat: bool
    parts: PeParts
    program: int
    registers: Registers
    request: int
    rings: dict[int, Ring]
    windows: Windows

    @property
    def is_far_ahead(self) -> bool: ...

    def scalar(self, src_id: int) -> None: ...

    def pause(self, at: int) -> int: ...

    def next_program(self) -> int: ...

    def take_number(self) -> int: ...

    def dispatch(
        self, command: Command, cost_ps: int, name_id: int, nbytes: int, params_id: int, after: int
    ) -> int: ...


class Instruction(Protocol):
    def step(self, cpu: PeCpu) -> int: ...


class ReadableAhead(Protocol):
    """An instruction that asks nothing of the other engines before it is over."""

    def step(self, cpu: Reader) -> int: ...


# --------------------------------------------------------------------------- scalar instructions


class ScalarStep:
    """One micro-op on registers."""

    __slots__ = ("_args", "_checked", "_dst", "_name", "_node", "_src", "next")

    def __init__(self, node: ScalarOp, at: int, context: FormContext, name: str) -> None:
        self._node = node
        self._dst = node.dst
        self._args = [reader(arg) for arg in node.args]
        self._checked = context.taint.of(*node.args)
        self._name = name
        self._src = context.place(node.span)
        self.next = at + 1

    def step(self, cpu: Reader) -> int:
        registers, node = cpu.registers, self._node
        cpu.scalar(self._src)
        for register in self._checked:
            value = registers[register]
            if isinstance(value, Unknown):
                registers[self._dst] = value if not self._name else Unknown(self._name, node.span)
                return self.next
        args = [read(registers) for read in self._args]
        registers[self._dst] = evaluate_scalar(node.kind, args, node.arg_dtypes, node.dtype)
        return self.next


class MoveStep:
    """Parallel moves; they take no time of their own."""

    __slots__ = ("_moves", "next")

    def __init__(self, moves: Sequence[Move], at: int, context: FormContext) -> None:
        self._moves = [(move.dst, reader(move.src), context.taint.of(move.src)) for move in moves]
        self.next = at + 1

    def step(self, cpu: Reader) -> int:
        make_moves(cpu, self._moves)
        return self.next


Moves = list[tuple[int, Read, tuple[int, ...]]]


def make_moves(cpu: Reader, moves: Moves) -> None:
    registers = cpu.registers
    values = [_moved(registers, read, checked) for _, read, checked in moves]
    for (dst, _, _), value in zip(moves, values, strict=True):
        registers[dst] = value


def _moved(registers: list[object], read: Read, checked: tuple[int, ...]) -> object:
    for register in checked:
        if isinstance(registers[register], Unknown):
            return registers[register]
    return read(registers)


class AssertStep:
    __slots__ = ("_checked", "_node", "_read", "_src", "next")

    def __init__(self, node: Assert, at: int, context: FormContext) -> None:
        self._node = node
        self._read = reader(node.condition)
        self._checked = context.taint.of(node.condition)
        self._src = context.place(node.span)
        self.next = at + 1

    def step(self, cpu: Reader) -> int:
        """An assertion on a value that timing mode does not know cannot fail there."""
        cpu.scalar(self._src)
        if any(isinstance(cpu.registers[register], Unknown) for register in self._checked):
            return self.next
        if not self._read(cpu.registers):
            said = f": {self._node.message}" if self._node.message else ""
            raise DeviceFault("E_KERNEL_ASSERT", f"assertion failed{said}", self._node.span)
        return self.next


# --------------------------------------------------------------------------- control


class Jump:
    __slots__ = ("target",)

    def __init__(self) -> None:
        self.target = SUSPEND

    def step(self, cpu: Reader) -> int:
        return self.target


class Branch:
    """Goes on where the condition is true, to `target` where it is false."""

    __slots__ = ("_checked", "_read", "_span", "_src", "_what", "next", "target")

    def __init__(self, condition: Operand, what: str, span: Span | None, at: int, context: FormContext) -> None:
        self._read = reader(condition)
        self._checked = context.taint.of(condition)
        self._span = span
        self._what = what
        self._src = context.place(span)
        self.next = at + 1
        self.target = SUSPEND

    def step(self, cpu: Reader) -> int:
        cpu.scalar(self._src)
        if self._checked:
            require_known(cpu.registers, self._checked, self._what, self._span)
        return self.next if self._read(cpu.registers) else self.target


class LoopStart:
    """Reads the bounds, makes the initial moves, and skips a loop of no trips."""

    __slots__ = ("_bounds", "_checked", "_init", "_node", "_rotations", "_src", "_trips", "next", "target")

    def __init__(self, node: Loop, trips: int, at: int, context: FormContext) -> None:
        self._node = node
        self._trips = trips
        self._bounds = [reader(operand) for operand in (node.start, node.stop, node.step)]
        self._checked = context.taint.of(node.start, node.stop, node.step)
        self._init = [(move.dst, reader(move.src), context.taint.of(move.src)) for move in node.init]
        self._rotations = [register for register, _ in node.rotations]
        self._src = context.place(node.span)
        self.next = at + 1
        self.target = SUSPEND

    def step(self, cpu: Reader) -> int:
        registers, node = cpu.registers, self._node
        cpu.scalar(self._src)
        if self._checked:
            require_known(registers, self._checked, "the bound of a loop", node.span)
        start, stop, step = (int(read(registers)) for read in self._bounds)
        if step == 0:
            raise DeviceFault("E_LOOP_STEP", "the step of a loop is 0", node.span)
        make_moves(cpu, self._init)
        trips = max(0, -(-(stop - start) // step))
        if trips == 0:
            return self.target
        registers[node.var] = start
        registers[self._trips] = trips
        registers[self._trips + 1] = step
        for register in self._rotations:
            registers[register] = 0
        return self.next


class LoopEnd:
    """The end of a trip: moves, rotations, the next value of the variable."""

    __slots__ = ("_moves", "_rotations", "_src", "_trips", "_var", "body", "next")

    def __init__(self, node: Loop, trips: int, body: int, at: int, context: FormContext) -> None:
        self._moves = [(move.dst, reader(move.src), context.taint.of(move.src)) for move in node.moves]
        self._rotations = node.rotations
        self._trips = trips
        self._var = node.var
        self._src = context.place(node.span)
        self.body = body
        self.next = at + 1

    def step(self, cpu: Reader) -> int:
        registers = cpu.registers
        cpu.scalar(self._src)
        if self._moves:
            make_moves(cpu, self._moves)
        left = registers[self._trips] - 1
        if left == 0:
            return self.next
        registers[self._trips] = left
        registers[self._var] += registers[self._trips + 1]
        for register, depth in self._rotations:
            turned = registers[register] + 1
            registers[register] = 0 if turned == depth else turned
        cpu.may_repeat = True
        return cpu.pause(self.body) if cpu.is_far_ahead else self.body


class WhileStart:
    __slots__ = ("_init", "_rotations", "next")

    def __init__(self, node: While, at: int, context: FormContext) -> None:
        self._init = [(move.dst, reader(move.src), context.taint.of(move.src)) for move in node.init]
        self._rotations = [register for register, _ in node.rotations]
        self.next = at + 1

    def step(self, cpu: Reader) -> int:
        make_moves(cpu, self._init)
        for register in self._rotations:
            cpu.registers[register] = 0
        return self.next


class WhileEnd:
    __slots__ = ("_moves", "_rotations", "header")

    def __init__(self, node: While, header: int, context: FormContext) -> None:
        self._moves = [(move.dst, reader(move.src), context.taint.of(move.src)) for move in node.moves]
        self._rotations = node.rotations
        self.header = header

    def step(self, cpu: Reader) -> int:
        make_moves(cpu, self._moves)
        for register, depth in self._rotations:
            cpu.registers[register] = (cpu.registers[register] + 1) % depth
        cpu.may_repeat = True
        return cpu.pause(self.header) if cpu.is_far_ahead else self.header


class End:
    """The end of one program."""

    __slots__ = ()

    def step(self, cpu: Reader) -> int:
        return cpu.next_program()


# --------------------------------------------------------------------------- flattening

MakeCommand = Callable[[Node, int, FormContext], Instruction]


class Code:
    """The instructions of one program. `registers` counts the hidden ones too."""

    def __init__(self, program: Program, context: FormContext, make_command: MakeCommand) -> None:
        self.program = program
        self.context = context
        self.instructions: list[Instruction] = []
        self.registers = len(program.register_dtypes)
        self._make_command = make_command
        self._exits: dict[int, list[Jump]] = {}
        self._nodes(program.body)
        self._add(End())

    def _here(self) -> int:
        return len(self.instructions)

    def _add(self, instruction: Instruction) -> None:
        self.instructions.append(instruction)

    def _nodes(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self._node(node)

    def _node(self, node: Node) -> None:
        match node:
            case ScalarOp():
                self._add(ScalarStep(node, self._here(), self.context, self.program.register_names[node.dst]))
            case Assert():
                self._add(AssertStep(node, self._here(), self.context))
            case Loop():
                self._loop(node)
            case While():
                self._while(node)
            case If():
                self._if(node)
            case Block():
                self._block(node)
            case Exit():
                self._exit(node)
            case (
                CompositeTemplate() | DmaRead() | DmaWrite() | Gather() | Scatter() | Atomic() | ScalarLoad()
                | ScalarStore() | ReadScalar() | Send() | Recv() | Wait()
            ):  # fmt: skip
                self._add(self._make_command(node, self._here(), self.context))

    def _moves(self, moves: Sequence[Move]) -> None:
        if moves:
            self._add(MoveStep(moves, self._here(), self.context))

    def _loop(self, node: Loop) -> None:
        trips = self.registers
        self.registers += 2
        start = LoopStart(node, trips, self._here(), self.context)
        self._add(start)
        body = self._here()
        self._nodes(node.body)
        self._add(LoopEnd(node, trips, body, self._here(), self.context))
        start.target = self._here()

    def _while(self, node: While) -> None:
        self._add(WhileStart(node, self._here(), self.context))
        header = self._here()
        self._nodes(node.header)
        branch = Branch(node.condition, "the condition of a loop", node.span, self._here(), self.context)
        self._add(branch)
        self._nodes(node.body)
        self._add(WhileEnd(node, header, self.context))
        branch.target = self._here()

    def _if(self, node: If) -> None:
        branch = Branch(node.condition, "a branch", node.span, self._here(), self.context)
        self._add(branch)
        self._nodes(node.then)
        self._moves(node.then_moves)
        over = Jump()
        self._add(over)
        branch.target = self._here()
        self._nodes(node.orelse)
        self._moves(node.else_moves)
        over.target = self._here()

    def _block(self, node: Block) -> None:
        outer = self._exits.get(node.label)
        self._exits[node.label] = []
        self._nodes(node.body)
        for jump in self._exits[node.label]:
            jump.target = self._here()
        if outer is None:
            del self._exits[node.label]
        else:
            self._exits[node.label] = outer

    def _exit(self, node: Exit) -> None:
        self._moves(node.moves)
        jump = Jump()
        self._exits[node.label].append(jump)
        self._add(jump)
