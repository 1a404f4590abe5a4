"""Walk loops: `range` and `while` stay loops whatever their trip count, `tl.static_range` is unrolled.

Knows the iterators of the language and the regions they become. What a loop carries is found by `carry.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from kernbench.commands import Affine, Operand, Reg
from kernbench.compiler import ast
from kernbench.compiler.carry import Carry, usable_states
from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.frame import Frame
from kernbench.compiler.residual import BlockRegion, ExitRegion, ForRegion, IfRegion, Instr, ScratchScope, WhileRegion
from kernbench.compiler.targets import assign
from kernbench.compiler.values import BuiltinValue, Const, Scalar, TupleValue, Value, type_text
from kernbench.diagnostics import did_you_mean
from kernbench.dtypes import DType, i32, promote

MAX_UNROLL = 1024
MAX_WALKS = 64  # each walk widens some name's structure, and structures have few steps to widen

T = TypeVar("T")

# What may stand in `tl.range` beside its bounds; all but num_stages are hints without effect.
RANGE_HINTS = frozenset(
    ("num_stages", "loop_unroll_factor", "disallow_acc_multi_buffer", "flatten", "warp_specialize", "disable_licm")
)


@dataclass(frozen=True, slots=True)
class Range:
    """The evaluated call of `range`, `tl.range` or `tl.static_range`."""

    start: Value
    stop: Value
    step: Value
    static: bool
    num_stages: int = 1


def run_for(frame: Frame, node: ast.For) -> None:
    iterated = _iterator(frame, node.iter)
    if isinstance(iterated, TupleValue):
        _unroll(frame, node, iterated.items)
    elif iterated.static:
        _unroll(frame, node, _static_trips(frame, node, iterated))
    else:
        _run_rolled(frame, node, iterated)


def _iterator(frame: Frame, node: ast.Expr) -> Range | TupleValue:
    if isinstance(node, ast.Call):
        function = frame.evaluate(node.func)
        if isinstance(function, BuiltinValue) and function.name in ("range", "static_range"):
            return _range(frame, node, static=function.name == "static_range" or frame.is_constexpr_function)
    value = frame.evaluate(node)
    if isinstance(value, TupleValue):
        return value
    raise fault(
        "E_NOT_ITERABLE",
        f"a loop cannot run over {type_text(value)}",
        frame.at(node.span),
        "this is what the loop runs over",
        help="loop over `range(...)`, `tl.range(...)` or `tl.static_range(...)`",
    )


def _range(frame: Frame, node: ast.Call, *, static: bool) -> Range:
    named = {keyword.name: keyword for keyword in node.keywords}
    bounds = [frame.evaluate(arg) for arg in node.args]
    for name in ("arg1", "arg2", "step"):
        if name in named:
            bounds.append(frame.evaluate(named.pop(name).value))
    for name, keyword in named.items():
        if name not in RANGE_HINTS:
            advice = did_you_mean(name, sorted(RANGE_HINTS), "its keywords")
            raise fault("E_CALL_ARGUMENTS", f"`range` has no argument `{name}`", frame.at(keyword.span), help=advice)
    if not 1 <= len(bounds) <= 3:
        message = f"`range` takes 1 to 3 bounds, {len(bounds)} are given"
        raise fault(
            "E_CALL_ARGUMENTS", message, frame.at(node.span), "this call", help="write `range(start, stop, step)`"
        )
    start, stop = (Const(0), bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
    step = bounds[2] if len(bounds) == 3 else Const(1)
    if _known_int(step) == 0:
        raise fault("E_RANGE_STEP", "the step of a range is 0", frame.at(node.span), "this range never ends")
    return Range(start, stop, step, static, _num_stages(frame, named.get("num_stages")))


def _num_stages(frame: Frame, keyword: ast.Keyword | None) -> int:
    if keyword is None:
        return 1
    value = frame.evaluate(keyword.value)
    number = _known_int(value)
    if isinstance(value, Const) and value.value is None:
        return 1
    if number is None or number < 0:
        message = f"`num_stages` is {type_text(value)}, a constexpr of at least 0 is needed"
        raise fault("E_CONSTEXPR_NEEDED", message, frame.at(keyword.span), "this argument")
    return max(1, number)


def _known_int(value: Value) -> int | None:
    if isinstance(value, Const) and isinstance(value.value, int):
        return int(value.value)
    if isinstance(value, Scalar) and value.dtype.is_int and not isinstance(value.operand, Reg | Affine):
        return int(value.operand)
    return None


# --------------------------------------------------------------------------- unrolled


def _static_trips(frame: Frame, node: ast.For, iterated: Range) -> range:
    numbers = []
    for what, value in (("start", iterated.start), ("stop", iterated.stop), ("step", iterated.step)):
        number = _known_int(value)
        if number is None:
            message = f"the {what} of `tl.static_range` is {type_text(value)}, a constexpr is needed"
            advice = "use `range`, or make the value a `tl.constexpr`"
            raise fault("E_CONSTEXPR_NEEDED", message, frame.at(node.iter.span), "this range", help=advice)
        numbers.append(number)
    return range(*numbers)


def _count(trips: range | tuple[Value, ...]) -> int:
    """How many there are; Python has no `len` of ranges beyond 64 bits."""
    if isinstance(trips, range):
        return max(0, -((trips.start - trips.stop) // trips.step))
    return len(trips)


def _unroll(frame: Frame, node: ast.For, trips: range | tuple[Value, ...]) -> None:
    if (count := _count(trips)) > MAX_UNROLL:
        message = f"the loop unrolls to {count} trips, at most {MAX_UNROLL} are allowed"
        advice = "use `range`, which stays a loop"
        raise fault("E_UNROLL_TOO_LARGE", message, frame.at(node.iter.span), "this range", help=advice)
    path = frame.path
    for number, item in enumerate(trips):
        if frame.terminated:
            break
        frame.path = (*path, number)
        assign(frame, node.target, Const(item) if isinstance(item, int) else item)
        frame.run(node.body)
    frame.path = path


# --------------------------------------------------------------------------- rolled


def _run_rolled(frame: Frame, node: ast.For, bounds: Range) -> None:
    start, stop, step, dtype = _loop_operands(frame, node, bounds)
    certain = _runs_at_least_once(bounds)

    def walk(carry: Carry) -> tuple[int, tuple[Instr, ...]]:
        builder = frame.builder
        name = node.target.id if isinstance(node.target, ast.Name) else ""
        var = builder.new_register(dtype, name)
        with builder.region() as body:
            assign(frame, node.target, Scalar(Reg(var), dtype))
            frame.run(node.body)
            carry.leave()
        return var, tuple(body)

    carry, (var, body) = _until_stable(frame, node, certain, walk)
    frame.builder.emit(
        ForRegion(
            var,
            start,
            stop,
            step,
            body,
            node.target.id if isinstance(node.target, ast.Name) else "",
            tuple(carry.init),
            tuple(carry.moves),
            tuple(carry.blocks),
            bounds.num_stages,
            carry.at,
        )
    )
    frame.scope = carry.names_after()


def _loop_operands(frame: Frame, node: ast.For, bounds: Range) -> tuple[Operand, Operand, Operand, DType]:
    """Bounds as operands, and the loop variable's type: that of the bounds promoted, at least int32."""
    at = frame.at(node.iter.span)
    operands, dtype = [], i32
    for what, value in (("start", bounds.start), ("stop", bounds.stop), ("step", bounds.step)):
        operand, own = frame.builder.loop_bound(value, at, what)
        operands.append(operand)
        dtype = promote(dtype, own)
    return operands[0], operands[1], operands[2], dtype


def _runs_at_least_once(bounds: Range) -> bool:
    numbers = [_known_int(value) for value in (bounds.start, bounds.stop, bounds.step)]
    start, stop, step = numbers
    return start is not None and stop is not None and step is not None and bool(range(start, stop, step))


def _until_stable(
    frame: Frame, node: ast.For | ast.While, certain: bool, walk: Callable[[Carry], T]
) -> tuple[Carry, T]:
    """Walk the body until it changes nothing more about what is carried; only the last walk is kept."""
    walker, outer = frame.walker, frame.scope
    memo = (frame.path, node)
    states = usable_states(frame.builder, walker.memo.get(memo, {}), outer)
    for _ in range(MAX_WALKS):
        mark, returns = walker.mark(), frame.returns.copy()
        carry = Carry(frame, node, certain, states, outer, frame.at(node.span))
        with walker.log.trial() as found:
            frame.depth += 1
            carry.enter()
            result = walk(carry)
            frame.depth -= 1
            frame.terminated = False
        if not carry.changed:
            walker.memo[memo] = states
            walker.log.accept(found)
            for instr in carry.prologue:
                frame.builder.emit(instr)
            return carry, result
        states = carry.found
        frame.scope, frame.returns = outer, returns
        walker.rollback(mark)
    raise AssertionError("what a loop carries does not become stable")


# --------------------------------------------------------------------------- while


@dataclass(frozen=True, slots=True)
class WhileParts:
    header: tuple[Instr, ...]
    condition: bool | Operand
    body: tuple[Instr, ...]


def run_while(frame: Frame, node: ast.While) -> None:
    if frame.is_constexpr_function:
        _while_known(frame, node)
        return

    def walk(carry: Carry) -> WhileParts:
        builder = frame.builder
        with builder.region() as header:
            condition = builder.truth(frame.evaluate(node.test), frame.at(node.test.span))
        with builder.region() as body:
            if condition is not False:
                frame.run(node.body)
            carry.leave()
        return WhileParts(tuple(header), condition, tuple(body))

    carry, parts = _until_stable(frame, node, False, walk)
    frame.scope = carry.names_after()
    frame.terminated = parts.condition is True
    if parts.condition is False:
        return
    if parts.condition is True and not _has_exit(parts.body):
        raise _endless(frame, node)
    frame.builder.emit(
        WhileRegion(
            parts.header,
            parts.condition,
            parts.body,
            tuple(carry.init),
            tuple(carry.moves),
            tuple(carry.blocks),
            carry.at,
        )
    )


def _while_known(frame: Frame, node: ast.While) -> None:
    """A loop of a function that is computed when the kernel is compiled."""
    path, at = frame.path, frame.at(node.test.span)
    for trip in range(MAX_UNROLL + 1):
        condition = frame.builder.truth(frame.evaluate(node.test), at)
        if not isinstance(condition, bool):
            message = "the condition of this loop is known at run time only"
            raise fault("E_CONSTEXPR_NEEDED", message, at, help="call the function with constexprs")
        if not condition or frame.terminated:
            frame.path = path
            return
        frame.path = (*path, trip)
        frame.run(node.body)
    message = f"the loop runs more than {MAX_UNROLL} trips when the kernel is compiled"
    raise fault("E_UNROLL_TOO_LARGE", message, at, "this condition stays true")


def _endless(frame: Frame, node: ast.While) -> Fault:
    message = "the condition of this loop is always true, and nothing leaves the loop"
    return fault("E_ENDLESS_LOOP", message, frame.at(node.test.span), "always true")


def _has_exit(body: tuple[Instr, ...]) -> bool:
    for instr in body:
        match instr:
            case ExitRegion():
                return True
            case IfRegion():
                if _has_exit(instr.then) or _has_exit(instr.orelse):
                    return True
            case ForRegion() | WhileRegion() | BlockRegion() | ScratchScope():
                if _has_exit(instr.body):
                    return True
    return False
