"""Find the data that comes with the package: grammar, example kernels, topologies.

Does not know what is in the files, and reads none of them.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal

DataKind = Literal["grammar", "kernels", "topologies"]


def data_dir(kind: DataKind) -> Path:
    """The folder in the installed package, or the one beside the package in a checkout."""
    package = Path(str(files("kernbench")))
    installed = package / "_data" / kind
    return installed if installed.is_dir() else package.parent / kind
