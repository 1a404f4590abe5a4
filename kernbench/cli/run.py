"""`kernbench run`: compile a kernel, simulate it, check its results against the bench's references.

Does not know how any of it is done.
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import Any

import click

from kernbench.cli.cases import Asked, arguments_of, device_of, kernel_of, load_case
from kernbench.cli.locate import locate_kernel
from kernbench.cli.options import bench_options, choose, json_option, opt_option, parse_sets, topology_option
from kernbench.cli.output import print_json, say, write_file
from kernbench.cli.progress import ProgressLine
from kernbench.cli.rundir import Recorded, read_run_dir, require_no_foreign_files, write_run_dir
from kernbench.diagnostics import EXIT_SIMULATION, KernBenchError
from kernbench.kernel import Kernel
from kernbench.report.check_text import check_text
from kernbench.run import Run
from kernbench.runtime.bench import BenchCase
from kernbench.session import Device
from kernbench.version import VERSION

MODES = ("data", "timing")
SANITIZE = ("warn", "error", "off")


@click.command("run")
@click.argument("kernel", required=False, metavar="KERNEL[::NAME]")
@topology_option()
@bench_options
@click.option("--mode", default="data", metavar="data|timing", help="timing moves no tensor values.")
@opt_option
@click.option("--seed", type=int, default=0, help="Seed of the inputs.")
@click.option("-o", "run_dir", metavar="DIR", help="Keep the run: manifest, op log, messages, copies of the inputs.")
@click.option("--from", "from_dir", metavar="DIR", help="Run again what a run directory holds.")
@click.option("--op-log", metavar="FILE", help="Write the op log as JSON Lines; - is stdout.")
@click.option("--hops", is_flag=True, help="Log the hops of transfers inside the device, too.")
@click.option("--sanitize", is_flag=False, flag_value="warn", default="warn", metavar="warn|error|off")
@click.option("--max-time-ns", type=click.IntRange(min=1), help="End the run at this simulated time.")
@json_option
def run(kernel: str | None, from_dir: str | None, **options: Any) -> int:
    """Compile KERNEL, simulate it and check its results.

    KERNEL is a .tl file, a .py file with Triton kernels (FILE::NAME), or the name of a shipped kernel.
    """
    choose(options["mode"], MODES, "--mode", "the modes")
    choose(options["sanitize"], SANITIZE, "--sanitize", "the values")
    if (kernel is None) == (from_dir is None):
        raise KernBenchError.usage("E_OPTION", "expected a kernel, or --from with a run directory")
    recorded = _recorded(kernel, options) if from_dir is None else read_run_dir(Path(from_dir))
    return _execute(recorded, options)


def _recorded(kernel: str | None, options: dict[str, Any]) -> Recorded:
    assert kernel is not None
    return Recorded(
        kernel=locate_kernel(kernel),
        bench=options["bench"],
        case=options["case"],
        sets=parse_sets(options["sets"]),
        topology=options["topology"],
        opt_level=options["opt_level"],
        seed=options["seed"],
        mode=options["mode"],
        sanitize=options["sanitize"],
        hops=options["hops"],
        max_time_ns=options["max_time_ns"],
    )


def _execute(recorded: Recorded, options: dict[str, Any]) -> int:
    if options["run_dir"] is not None:
        require_no_foreign_files(Path(options["run_dir"]))
    asked = Asked(
        recorded.kernel,
        recorded.bench,
        recorded.case,
        recorded.sets,
        recorded.topology,
        recorded.opt_level,
        recorded.seed,
    )
    case = load_case(asked)
    for remark in case.remarks:
        say(remark.render())
    kernel = kernel_of(asked, case)
    from kernbench.sim.engine import Limits

    progress = ProgressLine(sys.stderr)
    device = device_of(
        asked,
        case,
        hops=recorded.hops,
        sanitize=recorded.sanitize,
        limits=Limits(max_time_ns=recorded.max_time_ns),
        on_progress=progress.show,
    )
    started = time.perf_counter()
    try:
        result, failure = _simulated(device, kernel, case, recorded.mode)
    finally:
        progress.clear()
    for found in () if failure else result.diagnostics:
        say(found.render())
    check = {} if failure or recorded.mode == "timing" else case.check({name: result[name] for name in case.references})
    _keep(result, recorded, options, case.bench, device, kernel)
    if options["as_json"]:
        print_json({**result.to_json(check), "version": VERSION})
    else:
        _print_summary(result, case, check, time.perf_counter() - started, failure)
    if failure:
        say(failure.render())
    fine = failure is None and all(entry["ok"] for entry in check.values())
    if not fine and options["topology"] not in (None, case.topology) and case.topology is not None:
        say(f"note: the bench file is made for {case.topology}; its sizes may not fit {result.topology}")
    if failure:
        return failure.exit_code or EXIT_SIMULATION
    return 0 if fine else 1


def _simulated(device: Device, kernel: Kernel, case: BenchCase, mode: str) -> tuple[Run, KernBenchError | None]:
    """What came of the run, and the error with which it ended early."""
    try:
        return device.run(kernel, arguments_of(kernel, case), case.grid, case.placements, mode=mode), None
    except KernBenchError as error:
        if error.run is None:
            raise
        return error.run, error


def _keep(
    result: Run, recorded: Recorded, options: dict[str, Any], bench: Path, device: Device, kernel: Kernel
) -> None:
    if options["op_log"] is not None:
        write_file(options["op_log"], log_text(result))
    if options["run_dir"] is not None:
        write_run_dir(Path(options["run_dir"]), recorded, bench, kernel.imported_files, result, device.graph)


def log_text(result: Run) -> str:
    """The op log in its canonical form."""
    stream = io.StringIO()
    if result.op_log is not None:
        result.op_log.write_jsonl(stream)
    return stream.getvalue()


def _print_summary(
    result: Run, case: BenchCase, check: dict[str, Any], seconds: float, failure: KernBenchError | None
) -> None:
    failed = f"kernel     {result.kernel}\nfailed     see below"
    click.echo(failed if failure else result.summary(warnings=False))
    if check:
        click.echo(check_text(check, case.rtol, case.atol))
    if not check and failure is None:
        click.echo(
            "check      n/a" + (" (timing mode moves no values)" if result.mode == "timing" else " (no reference)")
        )
    say(f"{seconds:.2f} s of wall time")
