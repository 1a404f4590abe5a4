"""Pass 2: from a syntax tree to the residual program, by one typed partial evaluation as Triton's front end does it.

Binds the kernel's parameters and walks its body; statements, expressions and values are other modules' matter.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from kernbench.compiler import ast
from kernbench.compiler.builder import Builder, WrittenOperands
from kernbench.compiler.calls import evaluate_body
from kernbench.compiler.constants import MAX_BITS, plain
from kernbench.compiler.expressions import EXPRESSIONS
from kernbench.compiler.fault_log import FaultLog, GiveUp
from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.frame import Frame, Walker
from kernbench.compiler.imports import Imports
from kernbench.compiler.kernel_select import Bound, bind_parameters, select_kernel
from kernbench.compiler.module_scope import ModuleScope
from kernbench.compiler.naming import name_blocks
from kernbench.compiler.residual import Parameter, Residual
from kernbench.compiler.returns import Returns
from kernbench.compiler.scope import Silenced
from kernbench.compiler.shapes import check_shape
from kernbench.compiler.source import SourceText
from kernbench.compiler.statements import STATEMENTS
from kernbench.compiler.values import Const, DTypeValue, ErrorValue, TileValue, TupleValue, Value, type_text
from kernbench.diagnostics import Sink
from kernbench.dtypes import DType, i64

# Calls of ours for one level of nesting in the source are few, and trees and helpers have depth limits of their own;
# together they may pass Python's default.
RECURSION_LIMIT = 12_000


def elaborate(
    module: ast.Module,
    source: SourceText,
    kernel_name: str | None,
    constexprs: Mapping[str, Any],
    signature: Mapping[str, str],
    sink: Sink,
    written_operands: WrittenOperands = lambda recipe: frozenset(),
    power_of_two: bool = False,
    imports: Imports | None = None,
) -> Residual | None:
    """The residual program of one kernel; None where `sink` got errors.

    `signature` gives the types of run-time arguments as Triton writes them: `{"x_ptr": "*fp32", "n": "i32"}`.
    With `power_of_two`, block sides must be powers of two. `imports` takes the files that are read beside `source`.
    """
    log = FaultLog(source, imports)
    residual: Residual | None = None
    with _room_to_recurse():
        try:
            walker = Walker(Builder(written_operands, power_of_two), log, STATEMENTS, EXPRESSIONS)
            residual = _elaborate(walker, module, kernel_name, constexprs, signature)
        except Fault as found:
            log.add(found)
        except GiveUp:
            pass
        except RecursionError:
            log.add(fault("E_NESTING_TOO_DEEP", "expressions, blocks and helpers are nested too deep", module.span))
    log.publish(sink)
    return None if sink.errors else residual


@contextmanager
def _room_to_recurse() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _elaborate(
    walker: Walker,
    module: ast.Module,
    kernel_name: str | None,
    constexprs: Mapping[str, Any],
    signature: Mapping[str, str],
) -> Residual:
    kernel = select_kernel(module, kernel_name)
    names = ModuleScope(module, walker, walker.log.source)
    bound, faults = bind_parameters(kernel, constexprs, signature)
    for found in faults:
        walker.log.add(found)
    frame = Frame(walker, names, kernel, Returns(), active=(kernel,))
    parameters = tuple(parameter for binding in bound for parameter in _bind(frame, binding))
    constants = tuple((b.param.name, _python_value(frame, b)) for b in bound if b.kind == "constexpr")
    _poison_unbound(frame, kernel)
    evaluate_body(frame, frame.at(kernel.span))
    builder = walker.builder
    return Residual(
        kernel.name,
        parameters,
        constants,
        builder.specials,
        tuple(builder.register_dtypes),
        tuple(builder.register_names),
        name_blocks(builder.instructions, walker.block_names),
        tuple(walker.bindings.items()),
    )


def _bind(frame: Frame, bound: Bound) -> tuple[Parameter, ...]:
    """Bind one parameter as the kernel's body sees it; a descriptor takes several of the launch's."""
    name, builder = bound.param.name, frame.builder
    value: Value
    register: int | None = None
    if bound.kind == "tensor":
        assert bound.dtype is not None
        value, register = builder.bind_tensor(name, bound.dtype)
    elif bound.kind == "scalar":
        assert bound.dtype is not None
        value, register = builder.bind_scalar(name, bound.dtype)
    elif bound.kind == "descriptor":
        value, parameters = _bind_descriptor(frame, bound)
        frame.scope.bind(name, value, bound.param.span)
        frame.walker.bindings[name] = type_text(value)
        return parameters
    else:
        value = _constexpr_value(frame, bound)
    frame.scope.bind(name, value, bound.param.span)
    frame.walker.bindings[name] = type_text(value)
    return (Parameter(name, bound.kind, bound.dtype, register),)


def _bind_descriptor(frame: Frame, bound: Bound) -> tuple[Value, tuple[Parameter, ...]]:
    """The tensor under the parameter's name, its extents and strides as scalars named behind it: `x.shape.0`."""
    builder, name, dtype = frame.builder, bound.param.name, bound.dtype
    assert dtype is not None
    base, register = builder.bind_tensor(name, dtype)
    parameters = [Parameter(name, "tensor", dtype, register)]
    sides: list[TupleValue] = []
    for what in ("shape", "strides"):
        scalars: list[Value] = []
        for axis in range(len(bound.block_shape)):
            label = f"{name}.{what}.{axis}"
            scalar, number = builder.bind_scalar(label, i64)
            scalars.append(scalar)
            parameters.append(Parameter(label, "scalar", i64, number))
        sides.append(TupleValue(tuple(scalars)))
    shape = check_shape(bound.block_shape, frame.at(bound.param.span), power_of_two=builder.power_of_two)
    value = TileValue("tensor descriptor", base, shape, sides[0], sides[1], TupleValue(()))
    return value, tuple(parameters)


def _constexpr_value(frame: Frame, bound: Bound) -> Value:
    try:
        return python_constant(bound) if bound.default is None else frame.globals.evaluate(bound.default)
    except Fault as found:
        frame.walker.log.add(found)
    except Silenced:
        pass
    return ErrorValue()


def python_constant(bound: Bound) -> Value:
    """A constexpr as a launch or a bench gives it."""
    match bound.value:
        case tuple() | list() as items:
            return TupleValue(tuple(python_constant(replace(bound, value=item)) for item in items))
        case DType() as dtype:
            return DTypeValue(dtype)
        case np.generic() as number:
            return python_constant(replace(bound, value=number.item()))
        case int() as number if number.bit_length() > MAX_BITS:
            message = f"constexpr `{bound.param.name}` has {number.bit_length()} bits, at most {MAX_BITS} are kept"
            raise fault("E_BAD_CONSTEXPR", message, bound.param.span, "this parameter")
        case None | bool() | int() | float() | str():
            return Const(bound.value)
        case other:
            message = f"constexpr `{bound.param.name}` is a {type(other).__name__}"
            advice = "constexprs are ints, floats, bools, strings, None, dtypes, and tuples of them"
            raise fault("E_BAD_CONSTEXPR", message, bound.param.span, "this parameter", help=advice)


def _python_value(frame: Frame, bound: Bound) -> Any:
    """A constexpr as a listing of the program shows it; None for what is no plain constant."""
    found = frame.scope.value(bound.param.name) if bound.param.name in frame.scope else None
    value = None if found is None else plain(found)
    return value if _is_plain(value) else None


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str | DType)


def _poison_unbound(frame: Frame, kernel: ast.FunctionDef) -> None:
    """What has no value was told; its uses tell nothing more."""
    for param in kernel.params:
        if param.name not in frame.scope:
            frame.scope.bind(param.name, ErrorValue(), param.span)
