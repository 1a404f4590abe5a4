"""Walk the statements that are no control flow: assignments, expressions, assertions, scratch scopes, returns.

Knows how a statement uses its expressions' values. Values themselves, loops and branches are other modules' matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kernbench.commands import Affine, Reg
from kernbench.compiler import ast
from kernbench.compiler.branches import run_if
from kernbench.compiler.faults import fault
from kernbench.compiler.frame import Frame
from kernbench.compiler.lanewise import with_earlier_returns
from kernbench.compiler.loops import run_for, run_while
from kernbench.compiler.residual import (
    AssertScalar,
    BlockRef,
    BlockRegion,
    CompositeCall,
    ForRegion,
    IfRegion,
    Instr,
    ScratchScope,
    WhileRegion,
)
from kernbench.compiler.scope import Binding, Unusable
from kernbench.compiler.targets import assign
from kernbench.compiler.values import (
    NONE,
    Block,
    BuiltinValue,
    Const,
    ErrorValue,
    HbmRefValue,
    IntBlock,
    MaskValue,
    Pointer,
    PtrBlock,
    Scalar,
    TileValue,
    TupleValue,
    Value,
    is_block,
    type_text,
)
from kernbench.diagnostics import Span


def run_assign(frame: Frame, node: ast.Assign) -> None:
    value = as_variable(frame, frame.evaluate(node.value), node.value)
    for target in node.targets:
        assign(frame, target, value)


def run_aug_assign(frame: Frame, node: ast.AugAssign) -> None:
    before, operand = frame.evaluate(node.target), frame.evaluate(node.value)
    value = frame.builder.binary(node.op, before, operand, frame.at(node.span))
    assign(frame, node.target, as_variable(frame, value, node.value))


def run_ann_assign(frame: Frame, node: ast.AnnAssign) -> None:
    if node.value is None:
        return
    value = frame.evaluate(node.value)
    known = as_constexpr(value) if node.is_constexpr else None
    if known is None:  # as in Triton, a run-time value stays one under `tl.constexpr`
        value = as_variable(frame, value, node.value)
    assign(frame, node.target, value if known is None else known)


def as_variable(frame: Frame, value: Value, node: ast.Expr) -> Value:
    """What a plain assignment makes of a value: numbers become run-time scalars, as in Triton."""
    if isinstance(value, TupleValue):
        return TupleValue(tuple(as_variable(frame, item, node) for item in value.items))
    if isinstance(value, Const) and isinstance(value.value, int | float) and not frame.is_constexpr_function:
        return frame.builder.to_runtime(value, frame.at(node.span))
    return value


def as_constexpr(value: Value) -> Value | None:
    """The value as a constexpr, where it is known now."""
    match value:
        case Scalar(Reg() | Affine()):
            return None
        case Scalar(operand, dtype):
            assert not isinstance(operand, Reg | Affine)
            return Const(bool(operand) if dtype.kind == "bool" else operand)
        case TupleValue(items):
            known = [as_constexpr(item) for item in items]
            sound = tuple(item for item in known if item is not None)
            return TupleValue(sound) if len(sound) == len(items) else None
        case _:
            return None if is_run_time(value) else value


def is_run_time(value: Value) -> bool:
    return isinstance(value, Scalar | Pointer | Block | IntBlock | PtrBlock | MaskValue | HbmRefValue)


def holds_run_time(value: Value) -> bool:
    """Whether a value, or an item of a tuple, is known at run time only."""
    if isinstance(value, TupleValue):
        return any(holds_run_time(item) for item in value.items)
    return is_run_time(value) or isinstance(value, TileValue)


def run_expression(frame: Frame, node: ast.ExprStmt) -> None:
    frame.walker.expressions[type(node.value)](frame, node.value)


def run_pass(frame: Frame, node: ast.Pass) -> None:
    return


# --------------------------------------------------------------------------- assertions


def run_assert(frame: Frame, node: ast.Assert) -> None:
    message = text_of(frame, node.message) if node.message is not None else ""
    check(frame, frame.evaluate(node.test), message, node.test)


def check(frame: Frame, value: Value, message: str, node: ast.Expr) -> None:
    """A condition that must hold: told now where it is known, else when it fails. Blocks are not checked."""
    if is_block(value):
        return
    at = frame.at(node.span)
    truth = frame.builder.truth(value, at)
    if truth is False:
        raise fault("E_ASSERT_FAILED", f"assertion failed: {message}" if message else "assertion failed", at, "false")
    if truth is not True:
        frame.builder.emit(AssertScalar(truth, message, at))


def text_of(frame: Frame, node: ast.Expr) -> str:
    """The text of a message argument."""
    value = frame.evaluate(node)
    return str(value.value) if isinstance(value, Const) else type_text(value)


def run_raise(frame: Frame, node: ast.Raise) -> None:
    """An error where it is reached: now, or behind a run-time condition when the kernel runs."""
    at = frame.at(node.span)
    message = _raised_text(frame, node.exception)
    if frame.depth == 0 and frame.returns.label is None:
        raise fault("E_RAISE_REACHED", f"the kernel raises: {message}", at, "reached here")
    frame.builder.emit(AssertScalar(False, message, at))
    frame.terminated = True


def _raised_text(frame: Frame, node: ast.Expr | None) -> str:
    match node:
        case ast.Call(ast.Name(name), args):
            texts = [text_of(frame, arg) for arg in args]
            return f"{name}: {', '.join(texts)}" if texts else name
        case ast.Name(name):
            return name
        case _:
            return "an exception"


# --------------------------------------------------------------------------- scratch scopes


def run_with(frame: Frame, node: ast.With) -> None:
    for item in node.items:
        _check_scratch_scope(frame, item)
    at = frame.at(node.span)
    outer, first = frame.scope.copy(), frame.builder.mark().blocks + 1
    with frame.builder.region() as body:
        frame.run(node.body)
    frame.builder.emit(ScratchScope(tuple(body), at))
    written = dict(_written_in_place(tuple(body)))
    for name in list(frame.scope):
        binding = frame.scope.get(name)
        if binding is not None and outer.get(name) is not binding:
            _free_name(frame, node, name, binding, first, written)


def _check_scratch_scope(frame: Frame, item: ast.WithItem) -> None:
    call = item.context
    function = frame.evaluate(call.func) if isinstance(call, ast.Call) else None
    if isinstance(function, BuiltinValue) and function.name == "scratch_scope" and item.target is None:
        return
    message = "`with` takes nothing but `tl.scratch_scope()`"
    raise fault(
        "E_UNSUPPORTED_SYNTAX",
        message,
        frame.at(item.span),
        "this is something else",
        help="write `with tl.scratch_scope():`",
    )


def _free_name(
    frame: Frame, node: ast.With, name: str, binding: Binding, first: int, written: Mapping[int, int]
) -> None:
    """What was made inside has no place in TCM any more; blocks of outside that were written in place have."""
    if isinstance(binding.content, Unusable | ErrorValue):
        return
    for leaf in frame.builder.flatten(binding.content)[1]:
        if isinstance(leaf, BlockRef) and not _is_older(leaf.id, first, written):
            frame.scope.keep(name, Binding(_freed(name, binding, node), binding.span))


def _written_in_place(body: tuple[Instr, ...]) -> Iterator[tuple[int, int]]:
    """(id of a block's new name, id of its old name), for composites and for loops that carry a block."""
    for instr in body:
        match instr:
            case CompositeCall():
                yield from ((new.id, old.id) for old, new in instr.updates)
            case ForRegion() | WhileRegion():
                yield from ((carry.slot.id, carry.init.id) for carry in instr.blocks if carry.init is not None)
                yield from _written_in_place(instr.body)
            case ScratchScope() | BlockRegion():
                yield from _written_in_place(instr.body)
            case IfRegion():
                yield from _written_in_place((*instr.then, *instr.orelse))


def _is_older(block: int, first: int, written: Mapping[int, int]) -> bool:
    while block >= first and block in written:
        block = written[block]
    return block < first


def _freed(name: str, binding: Binding, node: ast.With) -> Unusable:
    places = ((binding.span, "made here"), (node.span, "freed at the end of this scope"))
    advice = f"make `{name}` before the `with`, and write it in place inside"
    return Unusable("E_SCRATCH_ESCAPES", f"`{name}` was freed at the end of its scratch scope", places, advice)


# --------------------------------------------------------------------------- returns


def run_return(frame: Frame, node: ast.Return) -> None:
    at, returns = frame.at(node.span), frame.returns
    value = frame.evaluate(node.value) if node.value is not None else NONE
    if frame.is_kernel and node.value is not None and value != NONE:
        _check_kernel_result(frame, value, node.value)
    value = with_earlier_returns(frame, value, at)
    frame.terminated = True
    if frame.depth == 0 and returns.label is None:
        returns.value = value
        return
    if returns.label is None:
        returns.label = frame.walker.new_label()
    returns.leave(frame.builder, NONE if frame.is_kernel else result_with_written(frame, value), at)


def _check_kernel_result(frame: Frame, value: Value, node: ast.Expr) -> None:
    """A kernel has nobody to return to. As in Triton, a constant is let through."""
    assert frame.function is not None
    at, name = frame.at(node.span), frame.function.name
    if holds_run_time(value):
        message = f"kernel `{name}` returns a value ({type_text(value)})"
        advice = "store it: `tl.store(out_ptr + offsets, value)` with a pointer parameter `out_ptr`; or write `return`"
        raise fault("E_KERNEL_RETURNS", message, at, "nobody gets this", help=advice)
    message = f"what kernel `{name}` returns ({type_text(value)}) is dropped"
    frame.walker.log.add(fault("R_RETURN_DROPPED", message, at, "nobody gets this", severity="remark"))


def result_with_written(frame: Frame, value: Value) -> Value:
    """A result that comes out of a Block, with the parameters' blocks that are written on some way to it."""
    blocks = [frame.scope.value(name) for name in frame.results]
    return TupleValue((value, *(NONE if block is None else block for block in blocks)))


def take_result(frame: Frame, result: Value, at: Span) -> Value:
    """Take apart what `result_with_written` put together, once the Block is left."""
    if frame.is_kernel:
        return NONE
    assert isinstance(result, TupleValue)
    for name, block in zip(frame.results, result.items[1:], strict=True):
        frame.scope.bind(name, block, at)
    return result.items[0]


STATEMENTS: Mapping[type, Callable[[Frame, Any], None]] = {
    ast.Assign: run_assign,
    ast.AugAssign: run_aug_assign,
    ast.AnnAssign: run_ann_assign,
    ast.ExprStmt: run_expression,
    ast.Pass: run_pass,
    ast.Assert: run_assert,
    ast.Raise: run_raise,
    ast.With: run_with,
    ast.Return: run_return,
    ast.If: run_if,
    ast.For: run_for,
    ast.While: run_while,
}
