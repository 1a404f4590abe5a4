"""Helper kernels that come with the package: `from kernbench.lib.NAME import helper` reads `kernels/lib/NAME.tl`.

They are written in the kernel language and inlined as a file's own helpers are. Does not know what they do.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from kernbench.compiler import ast
from kernbench.compiler.parse import parse
from kernbench.compiler.source import SourceText
from kernbench.data_files import data_dir

PREFIX = "kernbench.lib."
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def library_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (data_dir("kernels") / "lib").glob("*.tl")))


def library_path(name: str) -> Path:
    return data_dir("kernels") / "lib" / f"{name}.tl"


def read_library(name: str) -> tuple[ast.Module, SourceText] | None:
    """The file `NAME.tl` of the library, parsed; None where there is no such file."""
    return _read(name) if _NAME.fullmatch(name) and name in library_names() else None


@functools.cache
def _read(name: str) -> tuple[ast.Module, SourceText]:
    source = SourceText.read(library_path(name), f"{PREFIX}{name}")
    return parse(source), source


def library_source(file: str) -> SourceText | None:
    """The source text of a place in the library, by the file that the place names."""
    found = read_library(file.removeprefix(PREFIX)) if file.startswith(PREFIX) else None
    return None if found is None else found[1]
