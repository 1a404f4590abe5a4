"""Pin what a kernel becomes and does in golden files, in two lines of a test of your own:

    def test_my_kernel(golden):
        golden.pin("my_kernel.tl", case="tiny")

Load it with `pytest_plugins = ["kernbench.testing"]` (needs syrupy). One text file a kernel and form, in a folder
`__snapshots__` beside the test; `pytest --snapshot-update` writes them. Does not pin values: those depend on the
NumPy build.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from kernbench.compiler.pipeline import CompiledKernel
from kernbench.compiler.printer import print_ops, print_program
from kernbench.data_files import data_dir
from kernbench.kernel import make_kernel
from kernbench.report.stages import print_stages
from kernbench.runtime.bench import bench_beside, load_bench
from kernbench.session import Device
from kernbench.session import open as open_device

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

FORMS = ("program", "ops", "stages", "op_log")


class GoldenTextExtension(SingleFileSnapshotExtension):
    """Plain text, one file a snapshot, so that a reviewer reads a change as a change."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


class Golden:
    """Compares the forms of a kernel with their golden files."""

    def __init__(self, snapshot: SnapshotAssertion) -> None:
        self.snapshot = snapshot

    def pin(self, kernel: str | Path, case: str | None = None, topology: str | None = None) -> None:
        """The kernel at a path, for a case of the bench beside it, in all of `FORMS`."""
        forms = forms_of(kernel, case, topology)
        for form in FORMS:
            assert forms[form] == self.snapshot(name=form), f"{form} of {kernel} is not as it was"


def forms_of(kernel: str | Path, case: str | None = None, topology: str | None = None) -> dict[str, str]:
    """What a kernel becomes (program, ops, stages) and does (op log, in timing mode), as texts.

    `kernel` is a path, or the name of a shipped kernel.
    """
    file, separator, name = str(kernel).partition("::")
    path = Path(file) if Path(file).is_file() else data_dir("kernels") / file
    bench_file = bench_beside(path)
    assert bench_file is not None, f"{path} has no bench file beside it"
    bench = load_bench(bench_file, case)
    if not name and "::" in bench.kernel:
        separator, name = "::", bench.kernel.partition("::")[2]
    device = open_device(topology or bench.topology or "ahbm_1x1")
    made = make_kernel(f"{path}{separator}{name}", dict(bench.constexprs), opt_level=bench.opt_level)
    given: dict[str, Any] = {**bench.scalars, **bench.arrays()}
    arguments = {name: value for name, value in given.items() if name in made.params}
    run = device.run(made, arguments, bench.grid, bench.placements, mode="timing")
    compiled = run.compiled
    assert isinstance(compiled, CompiledKernel)
    return {**_texts(compiled, device), "op_log": _log(run.op_log)}


def _texts(compiled: CompiledKernel, device: Device) -> dict[str, str]:
    return {
        "program": print_program(compiled.program),
        "ops": print_ops(compiled.program),
        "stages": print_stages(compiled.program, device.graph.spec.pe),
    }


def _log(op_log: Any) -> str:
    stream = io.StringIO()
    op_log.write_jsonl(stream)
    return stream.getvalue()


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> Golden:
    """Golden files of kernels."""
    return Golden(snapshot.use_extension(GoldenTextExtension))
