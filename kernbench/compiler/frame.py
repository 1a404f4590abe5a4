"""The state of one function's evaluation, and the loop that runs its statements one after the other.

Which function evaluates which kind of node is two tables, given from outside (`elaborate.py`), so the modules that
walk statements, expressions and calls do not import each other. Knows no kind of node itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernbench.commands import Reg
from kernbench.compiler import ast
from kernbench.compiler.builder import Builder
from kernbench.compiler.emitter import Mark
from kernbench.compiler.fault_log import FaultLog, GiveUp
from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.live_names import LiveNames, assigned_names
from kernbench.compiler.returns import Returns, has_return
from kernbench.compiler.scope import Scope, Silenced
from kernbench.compiler.syntax_check import makes_constexpr_function
from kernbench.compiler.values import ERROR, Block, ErrorValue, Scalar, Value
from kernbench.diagnostics import Span

if TYPE_CHECKING:
    from kernbench.compiler.module_scope import ModuleScope


MAX_STEPS = 25_000  # statements walked; inlined helpers and unrolled loops count each time

Trail = tuple[object, ...]  # the inlined calls and unrolled trips around a statement


@dataclass(frozen=True, slots=True)
class WalkMark:
    """How many registers, blocks and labels were given out."""

    emitted: Mark
    labels: int


@dataclass
class Walker:
    """What all functions of one elaboration share."""

    builder: Builder
    log: FaultLog
    statements: Mapping[type, Callable[[Frame, Any], None]]
    expressions: Mapping[type, Callable[[Frame, Any], Value]]
    memo: dict[tuple[Trail, object], Any] = field(default_factory=dict)  # structures found by earlier walks
    steps: int = 0
    labels: int = 0
    bindings: dict[str, str] = field(default_factory=dict)  # the kernel's names, with their last types as text
    block_names: dict[int, str] = field(default_factory=dict)
    libraries: dict[str, ModuleScope | None] = field(default_factory=dict)  # of helpers, by name
    files: dict[tuple[str, str], ModuleScope | None] = field(default_factory=dict)  # imported, by file and name
    reading: set[tuple[Path, str]] = field(default_factory=set)  # names of other files that are being looked up
    _live: dict[ast.FunctionDef, LiveNames] = field(default_factory=dict)

    def live(self, function: ast.FunctionDef) -> LiveNames:
        if function not in self._live:
            self._live[function] = LiveNames(function)
        return self._live[function]

    def new_label(self) -> int:
        self.labels += 1
        return self.labels

    def name_value(self, name: str, value: Value) -> None:
        """Remember the kernel's own name for what a register or block holds, unless it has one."""
        if isinstance(value, Block):
            self.block_names.setdefault(value.ref.id, name)
        elif isinstance(value, Scalar) and isinstance(value.operand, Reg):
            register = value.operand.index
            self.builder.register_names[register] = self.builder.register_names[register] or name

    def mark(self) -> WalkMark:
        return WalkMark(self.builder.mark(), self.labels)

    def rollback(self, mark: WalkMark) -> None:
        """Take back what a walk gave out that is not kept."""
        self.builder.rollback(mark.emitted)
        self.labels = mark.labels
        for block in [block for block in self.block_names if block > mark.emitted.blocks]:
            del self.block_names[block]

    def count_step(self, at: Span) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            message = f"the kernel unfolds to more than {MAX_STEPS} statements"
            advice = "use `range` instead of `tl.static_range`, or call fewer helpers within helpers"
            self.log.add(fault("E_PROGRAM_TOO_LARGE", message, at, "reached here", help=advice))
            raise GiveUp


@dataclass
class Frame:
    """One evaluation of one function's body. `scope` changes as branches and loops are walked."""

    walker: Walker
    globals: ModuleScope
    function: ast.FunctionDef | None  # None for the module's own constants
    returns: Returns
    calls: tuple[Span, ...] = ()  # inlined calls around, inner first
    path: Trail = ()
    active: tuple[ast.FunctionDef, ...] = ()  # functions being evaluated, this one last
    scope: Scope = field(default_factory=Scope)
    written: set[str] = field(default_factory=set)  # names whose blocks a call wrote in place
    results: tuple[str, ...] = ()  # parameters whose blocks come out of the body beside its value
    depth: int = 0  # run-time regions of this function around the statement
    terminated: bool = False  # what follows in this path is never reached
    lanewise: bool = False  # the function is written for one element and walked with blocks of them
    returned: list[tuple[Value, bool, Value]] = field(
        default_factory=list
    )  # there: where, and which way, what came out

    @property
    def builder(self) -> Builder:
        return self.walker.builder

    @property
    def live(self) -> LiveNames:
        assert self.function is not None, "a module's constants have no control flow"
        return self.walker.live(self.function)

    @property
    def is_constexpr_function(self) -> bool:
        """Whether the function is computed now, as Python would; a function of the host is so where it is called."""
        if self.function is None:
            return False
        decorators = self.function.decorators
        return not decorators or any(map(makes_constexpr_function, decorators))

    @property
    def is_kernel(self) -> bool:
        return len(self.active) == 1

    def at(self, span: Span) -> Span:
        return span.within(self.calls)

    def evaluate(self, node: ast.Expr) -> Value:
        """The value of an expression; never an `ErrorValue`."""
        value = self.walker.expressions[type(node)](self, node)
        if isinstance(value, ErrorValue):
            raise Silenced
        return value

    def evaluate_all(self, nodes: Iterable[ast.Expr]) -> tuple[Value, ...]:
        """The values of neighbours, such as a call's arguments; what is wrong with each is told."""
        values: list[Value] = []
        wrong: Fault | Silenced | None = None
        for node in nodes:
            try:
                values.append(self.evaluate(node))
            except (Fault, Silenced) as found:
                if isinstance(wrong, Fault) and isinstance(found, Fault):
                    self.walker.log.add(wrong)
                wrong = found if isinstance(found, Fault) else wrong or found
        if wrong is not None:
            raise wrong
        return tuple(values)

    def run(self, body: tuple[ast.Stmt, ...]) -> None:
        """Walk statements; one that is wrong is given up, and the names that it binds read as errors."""
        for statement in body:
            if self.terminated:
                return
            self.walker.count_step(self.at(statement.span))
            self._run_one(statement)

    def _run_one(self, statement: ast.Stmt) -> None:
        scope, depth, path = self.scope, self.depth, self.path
        try:
            self.walker.statements[type(statement)](self, statement)
            return
        except Fault as found:
            self.walker.log.add(found)
        except Silenced:
            pass
        self.scope, self.depth, self.path, self.terminated = scope, depth, path, False
        for name in assigned_names(statement):
            self.scope.bind(name, ERROR, statement.span)
        if has_return(statement):
            self.returns.spoiled = True
            self.terminated = isinstance(statement, ast.Return)
