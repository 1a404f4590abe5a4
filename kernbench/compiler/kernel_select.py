"""Choose a file's kernel and bind its parameters to what a launch or a bench gives.

Knows signatures and constexprs as plain text and Python values. Evaluates nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernbench.compiler import ast
from kernbench.compiler.faults import Fault, fault
from kernbench.compiler.live_names import children
from kernbench.diagnostics import did_you_mean
from kernbench.dtypes import BY_NAME, DType

_DESCRIPTOR = re.compile(r"tensordesc<(\w+)\[(\s*\d{1,9}(?:\s*,\s*\d{1,9})*)\s*\]>")


def entry_names(module: ast.Module) -> tuple[str, ...]:
    """The functions that no other function of the file names, in source order; all, where each is named."""
    named: set[str] = set()
    for function in module.all_functions:
        named |= _names_in(function) - {function.name}
    free = tuple(dict.fromkeys(f.name for f in module.all_functions if f.name not in named))
    return free or tuple(dict.fromkeys(f.name for f in module.all_functions))


def _names_in(function: ast.FunctionDef) -> set[str]:
    found: set[str] = set()
    todo: list[object] = list(function.body)
    while todo:
        item = todo.pop()
        if isinstance(item, ast.Name):
            found.add(item.id)
        todo.extend(children(item))
    return found


def select_kernel(module: ast.Module, name: str | None) -> ast.FunctionDef:
    """The kernel `name`, or the file's only one. A kernel of a class may be named without the class."""
    at = module.span
    by_name = {function.name: function for function in module.all_functions}  # of equal names the last counts
    if not by_name:
        raise fault("E_NO_KERNEL", "the file has no kernel", at, help="write a function under `@triton.jit`")
    if name is not None:
        if name not in by_name:
            name = next((known for known in by_name if known.endswith(f".{name}")), name)
        if name not in by_name:
            known = did_you_mean(name, tuple(by_name), "kernels of the file")
            raise fault("E_UNKNOWN_KERNEL", f"the file has no kernel `{name}`", at, help=known)
        return by_name[name]
    entries = entry_names(module)
    if len(entries) > 1:
        listed = ", ".join(f"`{entry}`" for entry in entries)
        advice = f"name one: `{module.span.file}::{entries[0]}`"
        raise fault("E_WHICH_KERNEL", f"the file has {len(entries)} kernels: {listed}", at, help=advice)
    return by_name[entries[0]]


@dataclass(frozen=True, slots=True)
class Bound:
    """What a parameter is. `value` counts only where `kind` is "constexpr" and `default` is None."""

    param: ast.Param
    kind: str  # "tensor" | "scalar" | "descriptor" | "constexpr"
    dtype: DType | None = None
    block_shape: tuple[int, ...] = ()  # of a descriptor
    value: Any = None
    default: ast.Expr | None = None


def bind_parameters(
    function: ast.FunctionDef, constexprs: Mapping[str, Any], signature: Mapping[str, str]
) -> tuple[list[Bound], list[Fault]]:
    """Each parameter with its binding, and everything that is wrong; unbound parameters are left out."""
    bound: list[Bound] = []
    faults = _unknown_arguments(function, constexprs, signature)
    missing: dict[str, list[ast.Param]] = {"constexpr": [], "argument": []}
    for param in function.params:
        if param.name in constexprs:
            bound.append(Bound(param, "constexpr", value=constexprs[param.name]))
        elif param.name in signature and not param.is_constexpr:
            _bind_typed(param, signature[param.name], bound, faults)
        elif param.default is not None:
            bound.append(Bound(param, "constexpr", default=param.default))
        else:
            missing["constexpr" if param.is_constexpr else "argument"].append(param)
    faults.extend(_missing(function, missing))
    return bound, faults


def _bind_typed(param: ast.Param, text: str, bound: list[Bound], faults: list[Fault]) -> None:
    plain = text.strip().split(":")[0]  # Triton's `:16` says only how the value is aligned
    if plain == "none":
        bound.append(Bound(param, "constexpr", value=None))
        return
    if (descriptor := _DESCRIPTOR.fullmatch(plain)) is not None and descriptor[1] in BY_NAME:
        block = tuple(int(extent) for extent in descriptor[2].split(","))
        bound.append(Bound(param, "descriptor", BY_NAME[descriptor[1]], block))
        return
    dtype = BY_NAME.get(plain.removeprefix("*"))
    if dtype is None:
        types = did_you_mean(plain.removeprefix("*"), tuple(BY_NAME), "types")
        message = f"`{text}` is no type for argument `{param.name}`"
        faults.append(fault("E_BAD_SIGNATURE", message, param.span, "this parameter", help=types))
        return
    bound.append(Bound(param, "tensor" if plain.startswith("*") else "scalar", dtype))


def _unknown_arguments(
    function: ast.FunctionDef, constexprs: Mapping[str, Any], signature: Mapping[str, str]
) -> list[Fault]:
    names = tuple(param.name for param in function.params)
    at = function.name_span
    return [
        fault(
            "E_UNKNOWN_ARGUMENT",
            f"kernel `{function.name}` has no parameter `{name}`",
            at,
            help=did_you_mean(name, names, f"parameters of `{function.name}`"),
        )
        for name in dict.fromkeys((*constexprs, *signature))
        if name not in names
    ]


def _missing(function: ast.FunctionDef, missing: Mapping[str, list[ast.Param]]) -> list[Fault]:
    faults: list[Fault] = []
    if lacking := missing["constexpr"]:
        faults.append(_lacking("E_MISSING_CONSTEXPR", "constexpr", function, lacking, "`--set {0}=VALUE`"))
    if lacking := missing["argument"]:
        faults.append(_lacking("E_MISSING_ARGUMENT", "argument", function, lacking, "`--signature {0}=TYPE`"))
    return faults


def _lacking(code: str, what: str, function: ast.FunctionDef, lacking: list[ast.Param], how: str) -> Fault:
    listed = ", ".join(f"`{param.name}`" for param in lacking)
    plural = f"{what}s" if len(lacking) > 1 else what
    others = tuple((param.span, "this one too") for param in lacking[1:])
    message = f"kernel `{function.name}` has no value for the {plural} {listed}"
    advice = f"give it in the bench file, or with {how.format(lacking[0].name)}"
    return fault(code, message, lacking[0].span, "not given", help=advice, others=others)
