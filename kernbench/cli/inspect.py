"""`kernbench inspect`: source beside lowered ops, line by line, beside the simulated time with `--run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kernbench.cli.cases import Asked, arguments_of, device_of, load_case
from kernbench.cli.compile import specialise_aloud
from kernbench.cli.locate import locate_kernel
from kernbench.cli.options import bench_options, json_option, opt_option, parse_sets, topology_option
from kernbench.cli.output import document, print_json
from kernbench.cli.rundir import read_run_dir
from kernbench.compiler.program_json import program_document
from kernbench.diagnostics import KernBenchError
from kernbench.report.inspect import LineUse, LineUses, add_run, inspect_program, inspect_text
from kernbench.version import VERSION


@click.command("inspect")
@click.argument("kernel", metavar="KERNEL[::NAME]|RUNDIR")
@topology_option()
@bench_options
@opt_option
@click.option("--line", "line", type=click.IntRange(min=1), metavar="N", help="Only this line of the kernel's file.")
@click.option("--op", "op", type=click.IntRange(min=0), metavar="N", help="Only the command %N.")
@click.option("--run", "with_run", is_flag=True, help="Simulate (timing mode) and add the time of each line.")
@json_option
def inspect(kernel: str, line: int | None, op: int | None, with_run: bool, as_json: bool, **options: Any) -> int:
    """Show each source line with the ops, stages, bytes and FLOPs that it became.

    Bytes and FLOPs are those of one run of each command; with --run the time is that of the whole run, all PEs.
    """
    asked = _asked(kernel, options)
    case, compiled, made = specialise_aloud(asked)
    device = device_of(asked, case)
    uses = inspect_program(compiled.program, compiled.imports, device.graph.spec.pe)
    if with_run:
        case = case or load_case(asked)  # says that a run needs one
        result = device.run(made, arguments_of(made, case), case.grid, case.placements, mode="timing")
        assert result.op_log is not None
        add_run(uses, result.op_log)
    chosen = _chosen(uses, line, op)
    if as_json:
        print_json(document("kernbench.inspect/1", {"kernel": made.name, "lines": [use.to_json() for use in chosen]}))
        return 0
    click.echo(inspect_text(chosen, with_run=with_run), nl=False)
    if line is not None or op is not None:
        _print_commands(compiled, chosen)
    return 0


def _asked(kernel: str, options: dict[str, Any]) -> Asked:
    sets = parse_sets(options["sets"])
    if (Path(kernel) / "manifest.json").is_file():
        kept = read_run_dir(Path(kernel))
        return Asked(
            kept.kernel, kept.bench, kept.case, {**kept.sets, **sets}, kept.topology, kept.opt_level, kept.seed
        )
    file = locate_kernel(kernel)
    return Asked(file, options["bench"], options["case"], sets, options["topology"], options["opt_level"])


def _chosen(uses: LineUses, line: int | None, op: int | None) -> list[LineUse]:
    """`line` is one of the kernel's own file."""
    if line is not None and line > len(uses.own):
        raise KernBenchError.usage("E_OPTION", f"--line {line}: the file has {len(uses.own)} lines")
    known = sorted(number for use in uses for number in use.commands)
    if op is not None and op not in known:
        raise KernBenchError.usage("E_OPTION", f"--op {op}: the commands are %{known[0]} to %{known[-1]}")
    lines = uses if line is None else [uses.own[line - 1]]
    return [use for use in lines if op is None or op in use.commands]


def _print_commands(compiled: Any, chosen: list[LineUse]) -> None:
    """The chosen lines' commands in full."""
    wanted = {number for use in chosen for number in use.commands}
    for command in program_document(compiled.program, compiled.binary, VERSION)["commands"]:
        if command["id"] in wanted:
            click.echo(command["text"])
