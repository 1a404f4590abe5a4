"""The rings that hold tiles of a composite's HBM operands: one buffer an operand, in use while its composite runs.

Does not know addresses, or what else is in TCM.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kernbench.commands import Buffer, CompositeTemplate, Loop, Node, OpSpec, Program, Target, TensorHandle, While, walk
from kernbench.compiler.liveness import Lifetimes
from kernbench.compiler.program_nodes import bodies


@dataclass
class TileRings:
    """Tile rings, found before placing: by (id of template, op index), the buffers of each HBM operand."""

    buffers: list[Buffer] = field(default_factory=list)
    of: dict[tuple[int, int], list[tuple[str, Buffer]]] = field(default_factory=dict)


def add_rings(program: Program, target: Target) -> tuple[Program, TileRings]:
    rings = TileRings()
    number = max((buffer.id for buffer in program.buffers), default=0)
    for node in (node for node in walk(program.body) if isinstance(node, CompositeTemplate)):
        for index, op in enumerate(node.ops):
            for name, handle in _hbm_operands(op):
                number += 1
                tile = _tile(op, name, target)
                nbytes = tile[0] * tile[1] * handle.dtype.nbytes
                buffer = Buffer(number, f"{handle.name or name}.ring", nbytes, target.tile_buffers)
                rings.buffers.append(buffer)
                rings.of.setdefault((node.id, index), []).append((name, buffer))
    return replace(program, buffers=(*program.buffers, *rings.buffers)), rings


def _hbm_operands(op: OpSpec) -> list[tuple[str, TensorHandle]]:
    named = [*op.operands.items(), *([("out", op.out)] if op.out is not None else [])]
    return [(name, handle) for name, handle in named if handle.space == "hbm"]


def _tile(op: OpSpec, name: str, target: Target) -> tuple[int, int]:
    """The native tile of one operand, no larger than the operand itself."""
    m, k, n = (min(native, op.extra[axis]) for native, axis in zip(target.gemm_tile, ("m", "k", "n"), strict=True))
    return {"a": (m, k), "b": (k, n), "out": (m, n)}[name]


def add_ring_lifetimes(program: Program, rings: TileRings, lifetimes: Lifetimes) -> None:
    """A ring is in use as long as the other operands of its composite are touched, which is one position."""
    positions = _positions(program.body)
    for (template, _), named in rings.of.items():
        position, loop = positions[template]
        for _, buffer in named:
            lifetimes.first[buffer.id] = lifetimes.last[buffer.id] = position
            lifetimes.home[buffer.id] = loop
            lifetimes.rings.add(buffer.id)
            lifetimes.made_at[buffer.id] = lifetimes.spans.get(position)


def _positions(body: tuple[Node, ...]) -> dict[int, tuple[int, int | None]]:
    """(position, innermost loop) of each composite, counted as `find_lifetimes` counts."""
    found: dict[int, tuple[int, int | None]] = {}
    counter = _Counter(found)
    counter.sequence(body, None)
    return found


@dataclass
class _Counter:
    found: dict[int, tuple[int, int | None]]
    position: int = 0
    loops: int = 0

    def sequence(self, body: tuple[Node, ...], loop: int | None) -> None:
        for node in body:
            parts = bodies(node)
            if isinstance(node, Loop | While):
                index = self.loops
                self.loops += 1
                for part in parts:
                    self.sequence(part, index)
                self.position += 1
            elif parts:
                for part in parts:
                    self.sequence(part, loop)
            else:
                if isinstance(node, CompositeTemplate):
                    self.found[node.id] = (self.position, loop)
                self.position += 1
