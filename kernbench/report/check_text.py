"""What a person reads of results that were held against references. Does not know how they were compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def check_text(check: Mapping[str, Mapping[str, Any]], rtol: float, atol: float) -> str:
    """A line a result, with the error that was allowed; a second one where it differs, with the worst element."""
    return "\n".join(line for name, entry in check.items() for line in _lines(name, entry, rtol, atol))


def _lines(name: str, entry: Mapping[str, Any], rtol: float, atol: float) -> list[str]:
    errors = f"max abs err {_error(entry['max_abs_err'])}, max rel err {_error(entry['max_rel_err'])}"
    allowed = f"rtol {rtol:g}, atol {atol:g}" if rtol or atol else "none; `tolerance` in the bench file allows some"
    detail = f"({errors}; allowed: {allowed})"
    if entry["ok"]:
        return [f"check      {name}: ok {detail}"]
    worst = entry["worst"]
    index = ", ".join(map(str, worst["index"]))
    return [
        f"check      {name}: DIFFERS in {entry['differing']} of {entry['elements']} elements {detail}",
        f"           most at [{index}]: {worst['value']} instead of {worst['expected']}",
    ]


def _error(value: float | None) -> str:
    """Relative to an expected 0, and of infinities and NaN, no error is finite."""
    return "not finite" if value is None else f"{value:.3g}"
