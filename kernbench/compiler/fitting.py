"""Find smaller constexprs with which a kernel fits in TCM, where it does not with those that were given.

Tries them out, as only the compiler knows what fits. Does not know what a constexpr means to the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kernbench.diagnostics import Diagnostic, KernBenchError

TOO_LARGE = ("E_TCM_OVERFLOW", "E_BLOCK_TOO_LARGE")
MAX_TRIED = 4  # constexprs that are tried, the largest ones

Constexprs = Mapping[str, Any]
Compile = Callable[[Constexprs], object]  # raises KernBenchError


def with_advice(wrong: KernBenchError, constexprs: Constexprs, compile_with: Compile) -> KernBenchError:
    """The same error; where blocks are too large, with the constexprs that would fit."""
    if not any(found.code in TOO_LARGE for found in wrong.diagnostics):
        return wrong
    advice = _advice(constexprs, compile_with)
    if advice is None:
        return wrong
    return KernBenchError([_advised(found, advice) for found in wrong.diagnostics], wrong.exit_code, wrong.run)


def _advised(found: Diagnostic, advice: str) -> Diagnostic:
    return replace(found, help=advice) if found.code in TOO_LARGE else found


def _advice(constexprs: Constexprs, compile_with: Compile) -> str | None:
    sides = {name: value for name, value in constexprs.items() if type(value) is int and value > 1}
    largest = sorted(sides, key=lambda name: -sides[name])[:MAX_TRIED]
    tried = {name: value for name, value in sides.items() if name in largest}
    groups = [{name: value} for name, value in tried.items()] + ([tried] if len(tried) > 1 else [])
    ways = [way for group in groups if (way := _halved(constexprs, group, compile_with))]
    told = [" and ".join(f"{name} = {value}" for name, value in way.items()) for way in ways]
    return f"it fits with {', or with '.join(told)}" if told else None


def _halved(constexprs: Constexprs, sides: Mapping[str, int], compile_with: Compile) -> dict[str, int] | None:
    """These constexprs halved as seldom as possible, so that the kernel fits; None where it never does."""
    low, high = 1, min((value.bit_length() - 1 for value in sides.values()), default=0)
    if high < low or not _fits({**constexprs, **_shifted(sides, high)}, compile_with):
        return None
    while low < high:
        middle = (low + high) // 2
        if _fits({**constexprs, **_shifted(sides, middle)}, compile_with):
            high = middle
        else:
            low = middle + 1
    return _shifted(sides, low)


def _shifted(sides: Mapping[str, int], times: int) -> dict[str, int]:
    return {name: value >> times for name, value in sides.items()}


def _fits(constexprs: Constexprs, compile_with: Compile) -> bool:
    try:
        compile_with(constexprs)
    except KernBenchError:
        return False
    return True
