"""The functions of the language, a file a family; importing this package fills the one table."""

from kernbench.compiler.builtins import (
    composite,
    creation,
    hints,
    identity,
    linalg,
    maths,
    memory,
    python,
    reductions,
    shaping,
    types,
)
from kernbench.compiler.builtins.registry import BUILTINS, call

__all__ = [
    "BUILTINS",
    "call",
    "composite",
    "creation",
    "hints",
    "identity",
    "linalg",
    "maths",
    "memory",
    "python",
    "reductions",
    "shaping",
    "types",
]
