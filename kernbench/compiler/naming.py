"""Give blocks the names that the kernel's own variables have.

A block is made before it is known what it will be called, so names are put in when the program is complete. The first
name wins. Knows instructions as plain data only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from kernbench.commands import Access, Move, ScalarOp
from kernbench.compiler.residual import BlockRef, Instr
from kernbench.diagnostics import Span

_WITHOUT_BLOCKS = (ScalarOp, Span, Access, Move, str, int, float)


def name_blocks(body: tuple[Instr, ...], names: Mapping[int, str]) -> tuple[Instr, ...]:
    """The same instructions, with `names` (block id → name) for blocks that have none."""
    return tuple(_named(instr, names) for instr in body)


def _named(part: Any, names: Mapping[int, str]) -> Any:
    match part:
        case BlockRef():
            name = "" if part.name else names.get(part.id, "")
            return replace(part, name=name) if name else part
        case tuple():
            items = tuple(_named(item, names) for item in part)
            return part if all(new is old for new, old in zip(items, part, strict=True)) else items
        case dict():
            values = {key: _named(value, names) for key, value in part.items()}
            return part if all(values[key] is part[key] for key in part) else values
        case _ if is_dataclass(part) and not isinstance(part, _WITHOUT_BLOCKS):
            return _named_fields(part, names)
        case _:
            return part


def _named_fields(part: Any, names: Mapping[int, str]) -> Any:
    changed = {}
    for field in fields(part):
        before = getattr(part, field.name)
        after = _named(before, names)
        if after is not before:  # equality leaves names out
            changed[field.name] = after
    return replace(part, **changed) if changed else part
