"""Give what only the tile epilogues of one composite use the room of one tile, not of the whole output.

Such a block is written by an epilogue before any reads it, on every tile anew, and PE_MATH runs the epilogues of a
tile in one go. `allocate` calls this once it knows the target's tile. Does not know recipes or addresses.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from kernbench.commands import (
    CompositeTemplate,
    Node,
    OpSpec,
    Program,
    Scope,
    Target,
    TensorHandle,
    contiguous_strides,
    walk,
)
from kernbench.compiler.handles import in_slot
from kernbench.compiler.liveness import steps, tcm_handles
from kernbench.compiler.program_nodes import map_bodies, map_op_handles

Shape = tuple[int, ...]


def tile_scratch(program: Program, target: Target) -> Program:
    """The program with the blocks of its tile epilogues cut to a tile."""
    uses = _uses(program.body)
    shapes: dict[int, Shape] = {}
    for node in walk(program.body):
        if isinstance(node, CompositeTemplate):
            shapes |= {number: shape for number, shape in _of_tiles(node, target).items() if uses[number] == 1}
    if not shapes:
        return program
    sizes = {number: shape[0] * shape[1] for number, shape in shapes.items()}
    whole = {
        handle.id: handle.n_elements
        for node in walk(program.body)
        if isinstance(node, CompositeTemplate)
        for op in node.ops
        for handle in _handles(op)
        if handle.id in shapes
    }
    buffers = tuple(
        replace(b, nbytes=b.nbytes // whole[b.id] * sizes[b.id]) if b.id in shapes else b for b in program.buffers
    )
    return replace(program, body=_sequence(program.body, shapes), buffers=buffers)


def _uses(body: tuple[Node, ...]) -> Counter[int]:
    """How many commands touch each buffer."""
    found: Counter[int] = Counter()
    for node in walk(body):
        found.update(set().union(*(reads | writes for reads, writes in steps(node))))
    return found


def _handles(op: OpSpec) -> list[TensorHandle]:
    return [*op.operands.values(), *([op.out] if op.out is not None else [])]


def _of_tiles(node: CompositeTemplate, target: Target) -> dict[int, Shape]:
    """Buffers that only the tile epilogues of one scope touch, whole, written before they are read; a tile's shape."""
    head = next((op for op in node.ops if op.kind == "gemm"), None)
    if head is None:
        return {}
    m, n = int(head.extra["m"]), int(head.extra["n"])
    scopes: dict[int, Scope] = {}
    unfit = tcm_handles([*node.rw_handles])
    for op in node.ops:
        mine = tcm_handles([*_handles(op)])
        unfit |= tcm_handles([*op.operands.values()]) - scopes.keys()
        unfit |= {number for number in mine if scopes.setdefault(number, op.scope) is not op.scope}
        unfit |= mine if op.scope is Scope.KERNEL else {h.id for h in _handles(op) if not _is_whole(h, (m, n))}
    tile = (min(m, target.gemm_tile[0]), min(n, target.gemm_tile[2]))
    return {number: tile for number in scopes if number not in unfit}


def _is_whole(handle: TensorHandle, shape: Shape) -> bool:
    dense = handle.shape == shape and handle.strides == contiguous_strides(shape)
    return dense and handle.address == in_slot(0)


def _sequence(body: tuple[Node, ...], shapes: dict[int, Shape]) -> tuple[Node, ...]:
    return tuple(_node(node, shapes) for node in body)


def _node(node: Node, shapes: dict[int, Shape]) -> Node:
    if isinstance(node, CompositeTemplate):
        ops = (map_op_handles(op, lambda handle: _cut(handle, shapes)) for op in node.ops)
        return replace(node, ops=tuple(ops))
    return map_bodies(node, lambda body: _sequence(body, shapes))


def _cut(handle: TensorHandle, shapes: dict[int, Shape]) -> TensorHandle:
    shape = shapes.get(handle.id) if handle.space == "tcm" and not handle.is_accumulator else None
    return handle if shape is None else replace(handle, shape=shape, strides=contiguous_strides(shape))
