"""Find the kernel that a word on the command line means: a path, or the name of a shipped one.

Does not read the files.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kernbench.data_files import data_dir
from kernbench.diagnostics import KernBenchError, did_you_mean

KERNEL_SUFFIXES = (".tl", ".py")


class KernelFile(NamedTuple):
    """`name` is what stands behind `::`, and picks one of several kernels."""

    path: Path
    name: str | None

    @property
    def bench(self) -> Path | None:
        """The bench file beside it, where there is one."""
        sibling = self.path.with_suffix(".yaml")
        return sibling if sibling.is_file() else None

    @property
    def argument(self) -> str:
        return str(self.path) if self.name is None else f"{self.path}::{self.name}"


def shipped_kernels() -> list[Path]:
    return sorted(data_dir("kernels").glob("*.tl"))


def locate_kernel(word: str) -> KernelFile:
    """`softmax.tl`, `kernels/softmax.tl::softmax`, `triton_file.py::kernel`; exit 2 where there is no such file."""
    text, _, name = word.partition("::")
    if text == "-":
        help_text = "write it to a file; `kernbench check -` finds the errors of one on stdin"
        raise KernBenchError.usage("E_KERNEL_FILE", "a kernel is not read from stdin here", help=help_text)
    path = Path(text)
    if not path.is_file():
        path = _shipped(text)
    if path.suffix not in KERNEL_SUFFIXES:
        raise KernBenchError.usage(
            "E_KERNEL_FILE",
            f"`{text}` is not a kernel file",
            help="a kernel file ends in .tl, or in .py with Triton kernels",
        )
    return KernelFile(path, name or None)


def _shipped(text: str) -> Path:
    names = {path.name: path for path in shipped_kernels()}
    wanted = text if text.endswith(KERNEL_SUFFIXES) else f"{text}.tl"
    if wanted in names:
        return names[wanted]
    raise KernBenchError.usage(
        "E_KERNEL_FILE",
        f"there is no kernel file `{text}`",
        help=did_you_mean(Path(wanted).name, sorted(names), "the shipped kernels"),
    )
