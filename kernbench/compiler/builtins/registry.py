"""The table of the language's functions, and how a call finds its parameters.

A function is registered by its canonical name; its parameters are those of the Python function that implements it,
behind the `Call`. Does not know any of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from kernbench.compiler.constants import plain
from kernbench.compiler.faults import fault
from kernbench.compiler.values import (
    BoundMethod,
    BuiltinValue,
    Const,
    DTypeValue,
    PointerType,
    Shape,
    TupleValue,
    Value,
    type_text,
)
from kernbench.diagnostics import Span, nearest
from kernbench.dtypes import BY_NAME, DType
from kernbench.micro_ops import MICRO_OPS

if TYPE_CHECKING:
    from kernbench.compiler.builder import Builder

Implementation = Callable[..., Value]
F = TypeVar("F", bound=Implementation)


@dataclass(frozen=True, slots=True)
class Call:
    """What a function knows of the call it serves, and how it reads constant arguments."""

    builder: Builder
    name: str
    at: Span
    apply: Callable[[Value, tuple[Value, ...]], Value] | None = None  # call a function that is an argument

    def constant(self, value: Value, parameter: str, instead: str | None = None) -> object:
        """A constexpr argument as a Python object; `instead` is what to write for a run-time value."""
        if isinstance(value, Const | TupleValue) and _is_constant(value):
            return plain(value)
        if isinstance(value, TupleValue):
            value = next(item for item in value.items if not _is_constant(item))
        name = self.builder.name_of(value)
        what = f"`{name}` ({type_text(value)})" if name else f"this {type_text(value)}"
        message = f"`{parameter}` of {self.name} must be constexpr, but {what} is known at run time only"
        help = f"declare the parameter as `{name}: tl.constexpr`" if name else "compute it from constexpr parameters"
        raise fault("E_CONSTEXPR_NEEDED", message, self.at, help=instead or help, about=value)

    def integer(self, value: Value, parameter: str) -> int:
        found = self.constant(value, parameter)
        if isinstance(found, int):
            return int(found)
        raise fault(
            "E_CALL_ARGUMENTS", f"`{parameter}` of {self.name} must be an integer, not {found!r}", self.at, about=value
        )

    def flag(self, value: Value, parameter: str) -> bool:
        return bool(self.constant(value, parameter))

    def shape(self, value: Value, parameter: str = "shape") -> Shape:
        """A shape: a tuple or list of constants, or one."""
        items = value.items if isinstance(value, TupleValue) else (value,)
        return tuple(self.integer(item, parameter) for item in items)

    def dtype(self, value: Value, parameter: str = "dtype") -> DType | PointerType:
        """An element type: `tl.float32`, a pointer type, or a name of one."""
        if isinstance(value, DTypeValue) and isinstance(value.dtype, DType | PointerType):
            return value.dtype
        if isinstance(value, Const) and isinstance(value.value, str) and value.value in BY_NAME:
            return BY_NAME[value.value]
        message = f"`{parameter}` of {self.name} must be an element type, {type_text(value)} is given"
        raise fault("E_DTYPE_EXPECTED", message, self.at, help="for example tl.float32", about=value)

    def element(self, value: Value, parameter: str = "dtype") -> DType:
        """The same, where a pointer type makes no sense."""
        dtype = self.dtype(value, parameter)
        if isinstance(dtype, DType):
            return dtype
        raise fault("E_DTYPE_EXPECTED", f"`{parameter}` of {self.name} cannot be a pointer type", self.at)


def _is_constant(value: Value) -> bool:
    return (
        all(_is_constant(item) for item in value.items) if isinstance(value, TupleValue) else isinstance(value, Const)
    )


@dataclass(frozen=True, slots=True)
class Builtin:
    name: str
    implementation: Implementation
    signature: inspect.Signature  # without the `Call`


BUILTINS: dict[str, Builtin] = {}

_MAX_SIBLINGS = 3  # that are named where a keyword is another function's


def builtin(*names: str) -> Callable[[F], F]:
    """Register an implementation under one or more names."""

    def register(implementation: F) -> F:
        whole = inspect.signature(implementation)
        signature = whole.replace(parameters=list(whole.parameters.values())[1:])
        for name in names:
            assert name not in BUILTINS, f"{name} is registered twice"
            BUILTINS[name] = Builtin(name, implementation, signature)
        return implementation

    return register


def micro_op_doc(kind: str, more: str = "") -> str:
    """What a function does that is one micro-op: the words of its table, as a sentence."""
    text = MICRO_OPS[kind].doc
    # an operand or a formula at the start keeps its case
    first = text.split()[0]
    starts_with_word = first.isalpha() and len(first) > 1
    return f"{text[0].upper() if starts_with_word else text[0]}{text[1:]}{more}."


def call(builder: Builder, function: Value, args: tuple[Value, ...], kwargs: Mapping[str, Value], at: Span) -> Value:
    """The value of a call of a builtin or method."""
    if isinstance(function, BoundMethod):
        args = (function.receiver, *args)
        function = BuiltinValue(function.name)
    if isinstance(function, DTypeValue):
        args, function = (*args, function), BuiltinValue("cast")  # `tl.float32(x)`
    if not isinstance(function, BuiltinValue):
        raise fault("E_NOT_CALLABLE", f"{type_text(function)} is no function", at)
    entry = BUILTINS.get(function.name)
    if entry is None:
        raise fault("E_UNSUPPORTED_BUILTIN", f"`{function.name}` is not in the language", at)
    request = Call(builder, _spoken(function.name), at, builder.apply)
    bound = _bind(entry, request, args, dict(kwargs))
    return entry.implementation(request, *bound.args, **bound.kwargs)


def _spoken(name: str) -> str:
    """`builtins.min` is `min` and `load` is `tl.load` to the user."""
    if name.startswith("torch."):
        return name
    return name.removeprefix("builtins.") if name.startswith("builtins.") else f"tl.{name}"


def _bind(entry: Builtin, call: Call, args: tuple[Value, ...], kwargs: dict[str, Value]) -> inspect.BoundArguments:
    signature = entry.signature
    names = [parameter.name.rstrip("_") for parameter in signature.parameters.values()]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    for name in kwargs:
        if name not in names and not takes_any:
            message = f"{call.name} has no parameter `{name}`"
            free = [each for each in _named(signature)[len(args) :] if each not in kwargs]
            help = _instead_of(name, entry, free)
            raise fault("E_CALL_ARGUMENTS", message, call.at, help=help, about=name)
    renamed = {_parameter(signature, name): value for name, value in kwargs.items()}
    try:
        return signature.bind(*args, **renamed)
    except TypeError:
        raise fault("E_CALL_ARGUMENTS", _what_is_wrong(signature, call.name, args, kwargs), call.at) from None


def _instead_of(name: str, entry: Builtin, free: list[str]) -> str:
    """What to write for a keyword that a function does not have; `free` are its parameters that get nothing."""
    takes = f"{_spoken(entry.name)} takes {', '.join(_named(entry.signature)) or 'no arguments'}"
    siblings = [_spoken(each) for each in _owners(name, entry.implementation.__module__)]
    if siblings:
        return f"leave it out: `{name}` belongs to {', '.join(siblings[:_MAX_SIBLINGS])}; {takes}"
    near = nearest(name, free)
    return takes if near is None else f"did you mean `{near}`?"


def _owners(parameter: str, family: str) -> list[str]:
    """The functions of a file that have a parameter, each by its first name."""
    found = {
        entry.implementation: entry.name
        for entry in reversed(BUILTINS.values())
        if entry.implementation.__module__ == family and parameter in _named(entry.signature) and "." not in entry.name
    }
    return sorted(found.values())


def _parameter(signature: inspect.Signature, name: str) -> str:
    """Parameters that are Python keywords or hide a builtin end in `_` in the implementation."""
    return f"{name}_" if f"{name}_" in signature.parameters else name


def _named(signature: inspect.Signature) -> list[str]:
    return [p.name.rstrip("_") for p in signature.parameters.values() if p.kind is not p.VAR_POSITIONAL]


def _what_is_wrong(signature: inspect.Signature, name: str, args: tuple[Value, ...], kwargs: dict[str, Value]) -> str:
    parameters = [p for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    if len(args) > len(parameters):
        return f"{name} takes at most {len(parameters)} arguments, {len(args)} are given"
    given = [p.name.rstrip("_") for p in parameters[: len(args)]]
    if twice := [key for key in kwargs if key in given]:
        return f"{name} is given `{twice[0]}` twice"
    missing = [
        p.name.rstrip("_")
        for p in signature.parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    absent = [f"`{key}`" for key in missing if key not in given and key not in kwargs]
    return f"{name} needs {', '.join(absent)}"
