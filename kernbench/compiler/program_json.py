"""A Program as the document `kernbench.program/1`, which other tools rely on.

Does not know text forms or where the document goes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kernbench.commands import (
    Affine,
    Atomic,
    AxisIndex,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Gather,
    IndexOp,
    KernelBinary,
    OpSpec,
    Program,
    ReadScalar,
    Recv,
    Reg,
    ScalarLoad,
    ScalarStore,
    Scatter,
    Send,
    TensorHandle,
    Wait,
)
from kernbench.compiler.printer import Printer, commands_with_loops
from kernbench.dtypes import DType

SCHEMA = "kernbench.program/1"
KINDS: Mapping[type, str] = {
    CompositeTemplate: "composite",
    DmaRead: "dma_read",
    DmaWrite: "dma_write",
    Gather: "gather",
    Scatter: "scatter",
    Atomic: "atomic",
    ScalarLoad: "scalar_load",
    ScalarStore: "scalar_store",
    ReadScalar: "read_scalar",
    Send: "send",
    Recv: "recv",
    Wait: "wait",
}


def program_document(program: Program, binary: KernelBinary | None, version: str) -> dict[str, Any]:
    """`nbytes_code` is null where the program was compiled without a target."""
    printer = Printer(program)
    return {
        "schema": SCHEMA,
        "version": version,
        "kernel": program.name,
        "constexpr": {name: plain(value) for name, value in program.constexprs},
        "opt_level": program.opt_level,
        "nbytes_code": None if binary is None else binary.nbytes_code,
        "tcm_bytes": program.tcm_bytes,
        "commands": [_command(node, loop, printer) for loop, node in commands_with_loops(program.body)],
    }


def _command(node: Any, loop: str | None, printer: Printer) -> dict[str, Any]:
    ops = node.ops if isinstance(node, CompositeTemplate) else ()
    rw = node.rw_handles if isinstance(node, CompositeTemplate) else ()
    return {
        "id": node.id,
        "kind": KINDS[type(node)],
        "src": None if node.span is None else str(node.span),
        "loop": loop,
        "ops": [_op(op) for op in ops],
        "rw_handles": [handle.name for handle in rw],
        "logical_bytes": getattr(node, "logical_bytes", 0),
        "text": printer.command(node),
    }


def _op(op: OpSpec) -> dict[str, Any]:
    return {
        "kind": op.kind,
        "scope": op.scope.value,
        "operands": {name: _handle(handle) for name, handle in op.operands.items()},
        "extra": {name: plain(value) for name, value in op.extra.items()},
        "out": None if op.out is None else _handle(op.out),
    }


def _handle(handle: TensorHandle) -> dict[str, Any]:
    return {
        "name": handle.name,
        "space": handle.space,
        "shape": list(handle.shape),
        "dtype": handle.dtype.name,
        "strides": [plain(stride) for stride in handle.strides],
        "address": plain(handle.address),
    }


def plain(value: Any) -> Any:
    """A value as JSON has it; what JSON cannot say is a text or an object with one telling key."""
    match value:
        case Reg():
            return {"register": value.index}
        case Affine():
            return {"const": value.const, "terms": [list(term) for term in value.terms]}
        case AxisIndex():
            return {"axis": value.axis}
        case IndexOp():
            return {"op": value.kind, "args": [plain(arg) for arg in value.args], "dtype": value.dtype.name}
        case DType():
            return value.name
        case tuple():
            return [plain(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
        case _:
            return value
