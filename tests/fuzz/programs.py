"""Programs with some of their parts replaced by parts of other places: sound to the codec, senseless to a device.

Knows programs as trees of dataclasses. Does not know what any field means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any

from kernbench.binary import encode
from kernbench.commands import KernelBinary, Program, Scope
from kernbench.dtypes import ALL, DType
from kernbench.micro_ops import MICRO_OPS

Path = tuple[Any, ...]
NUMBERS = (0, 1, -1, 2, 3, 7, 64, 1 << 20, 1 << 31, -(1 << 31), 1 << 47, 1 << 63, 1 << 100)
_KEPT = ("span", "name", "register_names", "constexprs", "opt_level", "message", "label")


def parts_of(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Everything in a program that can be replaced, with the way to it."""
    if path:
        yield path, value
    if isinstance(value, DType | Scope):
        return
    if is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            if each.name not in _KEPT:
                yield from parts_of(getattr(value, each.name), (*path, each.name))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from parts_of(item, (*path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from parts_of(item, (*path, ("key", key)))


def with_part(value: Any, path: Path, part: Any) -> Any:
    """The value with what lies at the end of a way replaced."""
    if not path:
        return part
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        return replace(value, **{step: with_part(getattr(value, step), rest, part)})
    if isinstance(step, int):
        return (*value[:step], with_part(value[step], rest, part), *value[step + 1 :])
    return {**value, step[1]: with_part(value[step[1]], rest, part)}


def damaged(rng: Random, program: Program) -> KernelBinary:
    """One to three parts replaced; what no codec can write is drawn anew."""
    while True:
        try:
            changed = program
            for _ in range(rng.choice((1, 1, 2, 3))):
                parts = list(parts_of(changed))
                path, part = rng.choice(parts)
                changed = with_part(changed, path, _other(rng, part, parts))
            return encode(changed)
        except (AssertionError, ValueError, LookupError, AttributeError, TypeError):
            continue  # no such command can be built, or written


def _other(rng: Random, part: Any, parts: list[tuple[Path, Any]]) -> Any:
    """Something else of the part's kind."""
    if isinstance(part, bool):
        return not part
    if isinstance(part, int):
        return rng.choice((part + 1, part - 1, 2 * part, rng.choice(NUMBERS)))
    if isinstance(part, DType):
        return rng.choice(ALL)
    if isinstance(part, Scope):
        return rng.choice(tuple(Scope))
    if isinstance(part, str):
        return rng.choice((*MICRO_OPS, "gemm", "hbm", "tcm", "acc"))
    if isinstance(part, tuple) and part and rng.random() < 0.5:
        place = rng.randrange(len(part))
        return rng.choice((part[:place] + part[place + 1 :], (*part, part[place]), part[::-1]))
    if isinstance(part, dict) and part:
        gone = rng.choice(sorted(part))
        return {key: value for key, value in part.items() if key != gone}
    same = [each for _, each in parts if type(each) is type(part)]
    return rng.choice(same)
