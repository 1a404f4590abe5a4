"""The functions of the language, a file a family; importing this package fills the one table."""

from kernbench.compiler.builtins import (
    composite,
    creation,
    hints,
    identity,
    libdevice,
    linalg,
    maths,
    memory,
    python,
    random,
    reductions,
    reordering,
    scans,
    shaping,
    standard,
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
    "libdevice",
    "linalg",
    "maths",
    "memory",
    "python",
    "random",
    "reductions",
    "reordering",
    "scans",
    "shaping",
    "standard",
    "types",
]
