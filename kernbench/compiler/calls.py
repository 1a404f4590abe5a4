"""Evaluate calls: the file's own functions in place, everything else by the builder.

A function of the file is walked anew at each call, with the call's values. Knows argument lists, recursion and depth;
not what a builtin does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import count

from kernbench.compiler import ast
from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.frame import Frame
from kernbench.compiler.live_names import handed_names
from kernbench.compiler.module_scope import ModuleScope
from kernbench.compiler.residual import BlockRegion
from kernbench.compiler.returns import Returns, may_exit
from kernbench.compiler.scope import Binding, Scope
from kernbench.compiler.statements import check, result_with_written, take_result, text_of
from kernbench.compiler.values import ERROR, NONE, Block, BuiltinValue, Const, FunctionValue, TupleValue, Value
from kernbench.diagnostics import Span, did_you_mean

MAX_INLINE_DEPTH = 32
MAX_WALKS = 32

Special = Callable[[Frame, ast.Call], Value]


def evaluate_call(frame: Frame, node: ast.Call) -> Value:
    function = _called(frame, node.func)
    if isinstance(function, BuiltinValue) and function.name in SPECIAL:
        return SPECIAL[function.name](frame, node)
    values = frame.evaluate_all([*node.args, *(keyword.value for keyword in node.keywords)])
    args = values[: len(node.args)]
    kwargs = dict(zip((keyword.name for keyword in node.keywords), values[len(node.args) :], strict=True))
    if isinstance(function, FunctionValue):
        return inline(frame, node, function, args, kwargs)
    frame.builder.updates.clear()
    frame.builder.apply = partial(_apply, frame, node, count())
    try:
        value = frame.builder.call_builtin(function, args, kwargs, frame.at(node.span))
    except Fault as wrong:
        _blame_argument(wrong, node, values)
        raise
    _rebind_written(frame, node)
    return value


def _called(frame: Frame, node: ast.Expr) -> Value:
    """What is called. A launch or a bench gives a function as a constexpr by its name."""
    function = frame.evaluate(node)
    if isinstance(function, Const) and isinstance(function.value, str) and function.value in frame.globals:
        named = frame.globals.read(function.value, frame.at(node.span))
        return function if named is None else named
    return function


def _apply(frame: Frame, node: ast.Call, counter: count[int], function: Value, args: tuple[Value, ...]) -> Value:
    """A function that a builtin was given (the `combine_fn` of a reduction), each time in a walk of its own."""
    if not isinstance(function, FunctionValue):
        return frame.builder.call_builtin(function, args, {}, frame.at(node.span))
    path, lanewise = frame.path, frame.lanewise
    frame.path, frame.lanewise = (*path, next(counter)), True
    try:
        return inline(frame, node, function, args, {})
    finally:
        frame.path, frame.lanewise = path, lanewise


def _blame_argument(wrong: Fault, node: ast.Call, values: tuple[Value, ...]) -> None:
    """Show the keyword, the argument, or the item of a displayed one, that a mistake in this call is about."""
    assert wrong.diagnostic.primary is not None
    if wrong.about is None or wrong.diagnostic.primary.span != node.span:
        return
    for keyword in node.keywords:
        if keyword.name == wrong.about:
            wrong.point_at(keyword.span)
            return
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    for argument, value in _with_items(given, values):
        if value is wrong.about:
            wrong.point_at(argument.span)
            return


def _with_items(nodes: Iterable[ast.Expr], values: Iterable[Value]) -> Iterator[tuple[ast.Expr, Value]]:
    """Each expression with its value; behind a displayed tuple or list its items."""
    for node, value in zip(nodes, values, strict=False):
        yield node, value
        if isinstance(value, TupleValue) and isinstance(node, ast.Tuple | ast.List):
            yield from _with_items(node.elements, value.items)


def _rebind_written(frame: Frame, node: ast.Call) -> None:
    """A composite writes some operands in place: the names that stand for them in the call have new values now."""
    for old, new in frame.builder.updates:
        for name in sorted(handed_names(node)):
            binding = frame.scope.get(name)
            if binding is not None and isinstance(binding.content, Block) and binding.content.ref == old:
                frame.scope.keep(name, Binding(new, node.span))
                frame.written.add(name)


# --------------------------------------------------------------------------- functions of the file


def inline(
    frame: Frame, node: ast.Call, function: FunctionValue, args: tuple[Value, ...], kwargs: Mapping[str, Value]
) -> Value:
    definition = function.definition
    assert isinstance(definition, ast.FunctionDef)
    home = function.home
    assert isinstance(home, ModuleScope), "a function knows the file that it stands in"
    at = frame.at(node.span)
    _check_depth(frame, definition, at)
    scope = bind_arguments(home, definition, args, kwargs, at)
    callee = Frame(
        frame.walker,
        home,
        definition,
        Returns(),
        calls=(node.span, *frame.calls),
        path=(*frame.path, node),
        active=(*frame.active, definition),
        scope=scope,
        lanewise=frame.lanewise,
    )
    value = evaluate_body(callee, at)
    _take_written(frame, node, callee)
    return ERROR if callee.returns.spoiled else value


def _take_written(frame: Frame, node: ast.Call, callee: Frame) -> None:
    """Blocks that the callee wrote in place for its caller: the names that were handed to it have new values now."""
    assert callee.function is not None
    positional = [param.name for param in callee.function.params if not param.keyword_only]
    handed = [*zip(positional, node.args, strict=False), *((k.name, k.value) for k in node.keywords)]
    for param, arg in handed:
        if param in callee.written and isinstance(arg, ast.Name) and (binding := callee.scope.get(param)) is not None:
            frame.scope.keep(arg.id, Binding(binding.content, node.span))
            frame.written.add(arg.id)


def _check_depth(frame: Frame, definition: ast.FunctionDef, at: Span) -> None:
    if definition in frame.active:
        message = f"`{definition.name}` calls itself"
        others = ((definition.name_span, "this function"),)
        raise fault("E_RECURSION", message, at, "called again here", others=others, help="use a loop")
    if len(frame.active) >= MAX_INLINE_DEPTH:
        message = f"helpers are nested deeper than {MAX_INLINE_DEPTH} calls"
        raise fault("E_INLINE_TOO_DEEP", message, at, "this call")


def evaluate_body(frame: Frame, at: Span) -> Value:
    """Walk a function's body in its fresh frame, and give its result."""
    assert frame.function is not None
    if not may_exit(frame.function):
        frame.run(frame.function.body)
        return _value(frame.returns)
    arguments, memo, written = frame.scope, (frame.path, "returns"), (frame.path, "written")
    frame.results = frame.walker.memo.get(written, ())
    for _ in range(MAX_WALKS):
        mark = frame.walker.mark()
        frame.scope, frame.terminated = arguments.copy(), False
        frame.returns = Returns(frame.walker.memo.get(memo))
        with frame.walker.log.trial() as found, frame.builder.region() as body:
            frame.run(frame.function.body)
            _fall_off(frame, at)
        if frame.returns.label is None or not (frame.returns.changed or _writes_more(frame)):
            break
        frame.walker.memo[memo] = frame.returns.shape
        frame.walker.rollback(mark)
    frame.walker.log.accept(found)
    returns = frame.returns
    frame.walker.memo[memo], frame.walker.memo[written] = returns.shape, frame.results
    if returns.label is None:
        for instr in body:
            frame.builder.emit(instr)
        return _value(returns)
    frame.builder.emit(BlockRegion(returns.label, tuple(body), returns.block_slots, at))
    return ERROR if returns.spoiled else take_result(frame, returns.result(frame.builder), at)


def _writes_more(frame: Frame) -> bool:
    """Whether a parameter's block was written that does not come out of the Block yet; the next walk's shape is new."""
    results = tuple(name for name in frame.live.handed if name in frame.written)
    if frame.is_kernel or results == frame.results:
        return False
    frame.results, frame.returns.shape = results, None
    return True


def _value(returns: Returns) -> Value:
    return NONE if returns.value is None else returns.value


def _fall_off(frame: Frame, at: Span) -> None:
    """The end of a body behind whose returns something follows: `None` comes out there."""
    returns = frame.returns
    if returns.label is not None and not frame.terminated and not frame.is_kernel:
        returns.leave(frame.builder, result_with_written(frame, NONE), at)
    if returns.reason is not None:
        assert frame.function is not None
        message = f"`{frame.function.name}` returns values of two types: {returns.reason}"
        advice = "return values of one type and shape on every path"
        found = fault("E_RETURN_TYPES", message, at, "called here", help=advice)
        frame.walker.log.add(found)
        returns.spoiled = True


# --------------------------------------------------------------------------- arguments


def bind_arguments(
    home: ModuleScope, definition: ast.FunctionDef, args: tuple[Value, ...], kwargs: Mapping[str, Value], at: Span
) -> Scope:
    """The callee's first names."""
    params = definition.params
    positional = [param for param in params if not param.keyword_only]
    given: dict[str, Value] = {param.name: value for param, value in zip(positional, args, strict=False)}
    _check_arguments(definition, positional, given, args, kwargs, at)
    given.update(kwargs)
    scope = Scope()
    for param in params:
        value = given.get(param.name)
        if value is None:
            assert param.default is not None
            value = home.evaluate(param.default)
        scope.bind(param.name, value, param.span)
    return scope


def _check_arguments(
    definition: ast.FunctionDef,
    positional: list[ast.Param],
    given: Mapping[str, Value],
    args: tuple[Value, ...],
    kwargs: Mapping[str, Value],
    at: Span,
) -> None:
    name, names = definition.name, [param.name for param in definition.params]
    where = ((definition.name_span, "defined here"),)
    if len(args) > len(positional):
        message = f"`{name}` takes {len(positional)} positional arguments, {len(args)} are given"
        raise fault("E_CALL_ARGUMENTS", message, at, "this call", others=where)
    for keyword in kwargs:
        if keyword not in names:
            advice = did_you_mean(keyword, names, f"parameters of `{name}`")
            raise fault("E_CALL_ARGUMENTS", f"`{name}` has no parameter `{keyword}`", at, help=advice, others=where)
        if keyword in given:
            raise fault("E_CALL_ARGUMENTS", f"`{name}` gets its argument `{keyword}` twice", at, others=where)
    lacking = [p.name for p in definition.params if p.default is None and p.name not in given and p.name not in kwargs]
    if lacking:
        listed = ", ".join(f"`{missing}`" for missing in lacking)
        raise fault("E_CALL_ARGUMENTS", f"`{name}` is called without {listed}", at, "this call", others=where)


# --------------------------------------------------------------------------- builtins that the walker does itself


def _assertion(frame: Frame, node: ast.Call) -> Value:
    """`tl.device_assert(cond, msg)`."""
    given = _assert_arguments(node)
    message = text_of(frame, given["msg"]) if "msg" in given else ""
    if "cond" in given:
        check(frame, frame.evaluate(given["cond"]), message, given["cond"])
    return NONE


def _assert_arguments(node: ast.Call) -> dict[str, ast.Expr]:
    named = {keyword.name: keyword.value for keyword in node.keywords}
    return dict(zip(("cond", "msg"), node.args, strict=False)) | named


def _static_assert(frame: Frame, node: ast.Call) -> Value:
    test = _assert_arguments(node).get("cond")
    if test is not None:
        at = frame.at(test.span)
        condition = frame.builder.truth(frame.evaluate(test), at)
        if not isinstance(condition, bool):
            message = "the condition of `tl.static_assert` is known at run time only"
            raise fault("E_CONSTEXPR_NEEDED", message, at, "this condition", help="use `tl.device_assert`")
    return _assertion(frame, node)


def _loop_only(frame: Frame, node: ast.Call) -> Value:
    message = "a range has no meaning outside of a `for` statement"
    raise fault("E_NOT_ITERABLE", message, frame.at(node.span), "this call", help="write `for i in range(...):`")


SPECIAL: Mapping[str, Special] = {
    "device_assert": _assertion,
    "static_assert": _static_assert,
    "range": _loop_only,
    "static_range": _loop_only,
}
