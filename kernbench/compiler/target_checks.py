"""What a program asks of its target's engines beyond room: element types, and k tiles that fit an operand's groups.

`allocate` calls it once it knows the target. Does not know TCM or time.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernbench.commands import CompositeTemplate, OpSpec, Program, Scope, Target, TensorHandle, walk
from kernbench.compiler.errors import error
from kernbench.compiler.imports import Imports
from kernbench.diagnostics import Diagnostic
from kernbench.dtypes import DType


def check_target(program: Program, target: Target, imports: Imports | None) -> list[Diagnostic]:
    """Everything that the target's engines cannot do."""
    found: list[Diagnostic] = []
    for node in walk(program.body):
        if isinstance(node, CompositeTemplate):
            for code, message, here, help in (*_types(node, target), *_groups(node, target)):
                label = imports.labels(node.span, here) if imports is not None and node.span else ()
                found.append(error(code, message, *label, help=help))
    return found


def _types(node: CompositeTemplate, target: Target) -> Iterator[tuple[str, str, str, str]]:
    """FETCH rounds the wider of two float types to the narrower; that one must be known to the engine."""
    for op in node.ops:
        if op.kind == "gemm" and target.dtypes:
            dtype = min((op.operands["a"].dtype, op.operands["b"].dtype), key=lambda dtype: dtype.bits)
            if not multiplies(target, dtype):
                message = f"the target's matrix engine does not multiply {dtype}"
                yield "E_GEMM_DTYPE", message, f"{dtype} here", f"it multiplies {', '.join(target.dtypes)}"


def multiplies(target: Target, dtype: DType) -> bool:
    """A target may name a type, Triton's name for it, or a family: int8 is i8 and u8, fp8 both of its forms."""
    family = {"int": "int8", "uint": "int8", "float": "fp8", "bool": ""}[dtype.kind] if dtype.bits == 8 else ""
    return not {dtype.name, dtype.triton, family}.isdisjoint(target.dtypes)


def _groups(node: CompositeTemplate, target: Target) -> Iterator[tuple[str, str, str, str]]:
    """A k tile takes one block of an operand that has one for each group of rows of `b`."""
    native = target.gemm_tile[1]
    depth = next((op.extra["k"] for op in node.ops if op.kind == "gemm"), 0)
    for op, name, handle in _along_k(node):
        rows = depth // handle.shape[0]
        if handle.shape[0] > 1 and rows % native:
            message = f"operand `{name}` of `{op.kind}` has groups of {rows} rows, which k tiles of {native} cross"
            yield "E_K_GROUPS", message, f"{rows} rows a group", "dequantise `b` before the gemm"


def _along_k(node: CompositeTemplate) -> Iterator[tuple[OpSpec, str, TensorHandle]]:
    for op in node.ops:
        if op.scope is Scope.K_TILE:
            yield from ((op, name, handle) for name, handle in op.operands.items() if len(handle.shape) == 3)
