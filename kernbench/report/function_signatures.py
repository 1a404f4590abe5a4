"""The functions that a kernel may call, as a kernel writes them: name, parameters and what is taken if one is left out.

Does not know what they do.
"""

from __future__ import annotations

import inspect

from kernbench.compiler.builtins import BUILTINS
from kernbench.compiler.values import Const, DTypeValue, TupleValue

# Methods of a value, and functions of an imported module
_OF_ITS_OWN = ("descriptor.", "libdevice.", "torch.", "type.")

_STARS: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def function_rows() -> list[dict[str, str]]:
    """By name, each with its call and its doc's first line."""
    rows = [
        {"name": _spoken(name) + _parameters(entry.signature), "doc": _first_line(entry.implementation.__doc__)}
        for name, entry in BUILTINS.items()
        if not _internal(name)
    ]
    return sorted(rows, key=lambda row: row["name"])


def _internal(name: str) -> bool:
    return name.rpartition(".")[2].startswith("_")


def _spoken(name: str) -> str:
    if name.startswith("builtins."):
        return name.removeprefix("builtins.")
    return name if name.startswith(_OF_ITS_OWN) else f"tl.{name}"


def _parameters(signature: inspect.Signature) -> str:
    return f"({', '.join(map(_parameter, signature.parameters.values()))})"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = _STARS.get(parameter.kind, "")
    default = "" if parameter.default is inspect.Parameter.empty else f"={_default(parameter.default)}"
    return f"{stars}{parameter.name}{default}"


def _default(value: object) -> str:
    if isinstance(value, Const):
        return repr(value.value)
    if isinstance(value, TupleValue):
        return f"({', '.join(map(_default, value.items))})"
    return str(value.dtype) if isinstance(value, DTypeValue) else str(value)


def _first_line(doc: str | None) -> str:
    return (doc or "").strip().partition("\n")[0]
