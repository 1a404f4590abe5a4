"""What a kernel becomes (program, ops, stages) and does (op log), as texts that are the same on every machine.

Does not know what is done with them: `kernbench.testing` pins them in golden files.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from kernbench.compiler.pipeline import CompiledKernel
from kernbench.compiler.printer import print_ops, print_program
from kernbench.data_files import data_dir
from kernbench.diagnostics import KernBenchError
from kernbench.kernel import make_kernel
from kernbench.report.stages import print_stages
from kernbench.runtime.bench import DEFAULT_TOPOLOGY, BenchCase, bench_beside, load_bench
from kernbench.session import Device
from kernbench.session import open as open_device

FORMS = ("program", "ops", "stages", "op_log")


def forms_of(kernel: str | Path, case: str | None = None, topology: str | None = None) -> dict[str, str]:
    """The forms of a kernel, for a case of the bench beside it; the op log is that of timing mode.

    `kernel` is a path, or the name of a shipped kernel; `::name` picks one of several kernels of a file.
    """
    file, _, name = str(kernel).partition("::")
    path = Path(file) if Path(file).is_file() else data_dir("kernels") / file
    bench = _bench_of(path if path.is_file() else Path(file), case)
    name = name or bench.kernel.partition("::")[2]
    device = open_device(topology or bench.topology or DEFAULT_TOPOLOGY)
    made = make_kernel(f"{path}::{name}" if name else str(path), dict(bench.constexprs), opt_level=bench.opt_level)
    given: dict[str, Any] = {**bench.scalars, **bench.arrays()}
    arguments = {name: value for name, value in given.items() if name in made.params}
    run = device.run(made, arguments, bench.grid, bench.placements, mode="timing")
    compiled = run.compiled
    assert isinstance(compiled, CompiledKernel)
    return {**_texts(compiled, device), "op_log": _log(run.op_log)}


def _bench_of(path: Path, case: str | None) -> BenchCase:
    if not path.is_file():
        raise KernBenchError.usage("E_KERNEL_FILE", f"there is no kernel file `{path}`")
    bench = bench_beside(path)
    if bench is None:
        text = f"`{path}` has no bench file beside it that says what to run"
        raise KernBenchError.usage("E_BENCH_NEEDED", text, help=f"write `{path.with_suffix('.yaml').name}`")
    return load_bench(bench, case)


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
