"""What tests of whole kernels share: run a text or a shipped kernel on one PE, and look at what its log says."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import kernbench.session as kb
from kernbench.commands import CompositeTemplate, walk
from kernbench.compiler.pipeline import CompiledKernel
from kernbench.compiler.source import SourceText
from kernbench.data_files import data_dir
from kernbench.diagnostics import KernBenchError
from kernbench.kernel import make_kernel
from kernbench.run import Run
from kernbench.runtime.bench import BenchCase, bench_beside, load_bench
from kernbench.sim.op_log import OpRecord
from kernbench.sim.topology import load_topology_text

HEAD = "import triton\nimport triton.language as tl\nimport kernbench.language as kb\n\n\n@triton.jit\n"


def run_text(
    text: str,
    args: Mapping[str, Any],
    mode: str = "data",
    topology: Any = "ahbm_1x1",
    opt: int = 1,
    **constexprs: Any,
) -> Run:
    """Compile a kernel without its imports, and run it without a grid."""
    kernel = kb.compile(HEAD + text, constexprs, opt_level=opt)
    return kb.open(topology, sanitize="off").run(kernel, args, mode=mode)


def failure(text: str, args: Mapping[str, Any], topology: Any = "ahbm_1x1", **constexprs: Any) -> KernBenchError:
    try:
        run_text(text, args, "timing", topology, **constexprs)
    except KernBenchError as error:
        return error
    raise AssertionError("the kernel ran")


def shipped(
    name: str,
    case: str | None = "tiny",
    topology: Any = None,
    mode: str = "data",
    text: str | None = None,
    **sets: Any,
) -> tuple[Run, BenchCase]:
    """A case of a shipped kernel (or of another text under its name), run, with values set over the bench's."""
    path = data_dir("kernels") / f"{name}.tl"
    beside = bench_beside(path)
    assert beside is not None
    bench = load_bench(beside, case, {key: str(value) for key, value in sets.items()})
    source = path if text is None else SourceText.from_text(path.name, text)
    kernel = make_kernel(source, dict(bench.constexprs), opt_level=bench.opt_level)
    given: dict[str, Any] = {**bench.scalars, **bench.arrays()}
    arguments = {key: value for key, value in given.items() if key in kernel.params}
    device = kb.open(topology or bench.topology or "ahbm_1x1")
    return device.run(kernel, arguments, bench.grid, bench.placements, mode=mode), bench


def records(run: Run, *kinds: str) -> list[OpRecord]:
    """Records of the kernel's launch, in the log's order."""
    assert run.op_log is not None
    return [r for r in run.op_log if r.op_kind in kinds and r.cmd is not None and r.cmd >= 0 and ".pe" in r.component]


def log_text(run: Run) -> str:
    assert run.op_log is not None
    stream = io.StringIO()
    run.op_log.write_jsonl(stream)
    return stream.getvalue()


def composites(run: Run) -> list[CompositeTemplate]:
    assert isinstance(run.compiled, CompiledKernel)
    return [node for node in walk(run.compiled.program.body) if isinstance(node, CompositeTemplate)]


def rw_aware() -> Any:
    """One PE that lets independent composites pass a blocked one."""
    return load_topology_text("extends: ahbm_1x1\npe: {pe_scheduler: {issue: rw_aware}}\n")
