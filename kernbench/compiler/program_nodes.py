"""Program nodes as trees: what is nested in one, and the same node with other bodies or handles.

Does not know what a command does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kernbench.commands import Block, CompositeTemplate, If, Loop, Node, OpSpec, TensorHandle, While

Body = tuple[Node, ...]


def bodies(node: Node) -> tuple[Body, ...]:
    """What is nested in a node, in program order; nothing in a command."""
    match node:
        case Loop() | Block():
            return (node.body,)
        case While():
            return (node.header, node.body)
        case If():
            return (node.then, node.orelse)
        case _:
            return ()


def map_bodies(node: Node, change: Callable[[Body], Body]) -> Node:
    """The node with each of its bodies changed, in program order; a command as it is."""
    match node:
        case Loop() | Block():
            return replace(node, body=change(node.body))
        case While():
            return replace(node, header=change(node.header), body=change(node.body))
        case If():
            return replace(node, then=change(node.then), orelse=change(node.orelse))
        case _:
            return node


def map_handles(node: Node, change: Callable[[TensorHandle], TensorHandle]) -> Node:
    """A command with each of its handles changed."""
    if isinstance(node, CompositeTemplate):
        ops = tuple(map_op_handles(op, change) for op in node.ops)
        return replace(node, ops=ops, rw_handles=tuple(change(handle) for handle in node.rw_handles))
    fields: dict[str, Any] = {}
    for name in ("dst", "src", "compare", "index", "mask", "other"):
        value = getattr(node, name, None)
        if isinstance(value, TensorHandle):
            fields[name] = change(value)
    handles = getattr(node, "handles", None)
    if handles:
        fields["handles"] = tuple(change(handle) for handle in handles)
    return replace(node, **fields) if fields else node


def map_op_handles(op: OpSpec, change: Callable[[TensorHandle], TensorHandle]) -> OpSpec:
    operands = {name: change(handle) for name, handle in op.operands.items()}
    return replace(op, operands=operands, out=None if op.out is None else change(op.out))
