"""Pin what a kernel becomes and does in golden files, in two lines of a test of your own:

    def test_my_kernel(golden):
        golden.pin("my_kernel.tl", case="tiny")

Load it with `pytest_plugins = ["kernbench.testing"]` (`pip install 'kernbench[test]'` brings pytest and syrupy). One
text file a kernel and form, in a folder `__snapshots__` beside the test; `pytest --snapshot-update` writes them. Does
not pin values: those depend on the NumPy build.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from kernbench.forms import FORMS, forms_of

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion


class GoldenTextExtension(SingleFileSnapshotExtension):
    """Plain text, one file a snapshot, so that a reviewer reads a change as a change."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


class Golden:
    """Compares the forms of a kernel with their golden files. `folder` is that of the test."""

    def __init__(self, snapshot: SnapshotAssertion, folder: Path) -> None:
        self.snapshot, self.folder = snapshot, folder

    def pin(self, kernel: str | Path, case: str | None = None, topology: str | None = None) -> None:
        """A kernel for a case of the bench beside it, in all of `FORMS`.

        `kernel` is a path from the test's folder, or else from where pytest runs, or the name of a shipped kernel.
        """
        beside = self.folder / str(kernel).partition("::")[0]
        forms = forms_of(self.folder / kernel if beside.is_file() else kernel, case, topology)
        for form in FORMS:
            assert forms[form] == self.snapshot(name=form), f"{form} of {kernel} is not as it was"


@pytest.fixture
def golden(snapshot: SnapshotAssertion, request: pytest.FixtureRequest) -> Golden:
    """Golden files of kernels."""
    return Golden(snapshot.use_extension(GoldenTextExtension), request.path.parent)
