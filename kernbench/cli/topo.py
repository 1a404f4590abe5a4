"""`kernbench topo`: look at topologies and check them."""

from __future__ import annotations

import click

from kernbench.cli.options import json_option
from kernbench.cli.output import document, print_json, say
from kernbench.diagnostics import EXIT_INPUT, Diagnostic, KernBenchError


@click.group("topo")
def topo() -> None:
    """Look at topologies and check them."""


@topo.command("check")
@click.argument("topologies", nargs=-1, required=True, metavar="TOPO...")
@json_option
def check(topologies: tuple[str, ...], as_json: bool) -> int:
    """Find every fault of each TOPO (a shipped name or a path) at once."""
    from kernbench.sim.topology import check_topology

    found: list[tuple[str, Diagnostic]] = []
    usage = 0
    for name in topologies:
        try:
            found.extend((name, each) for each in check_topology(name))
        except KernBenchError as error:
            usage = max(usage, error.exit_code)
            found.extend((name, each) for each in error.diagnostics)
    wrong = sum(each.severity == "error" for _, each in found)
    if as_json:
        rows = [{"file": name, **each.to_json()} for name, each in found]
        print_json(document("kernbench.check/1", {"ok": wrong == 0, "errors": rows}))
    else:
        for _, each in found:
            say(each.render())
        click.echo(f"{len(topologies)} topology file(s), {wrong} error(s)")
    return usage or (EXIT_INPUT if wrong else 0)


@topo.command("list")
@json_option
@click.pass_context
def list_topologies(ctx: click.Context, as_json: bool) -> int:
    """The shipped topologies; the same as `kernbench list topologies`."""
    from kernbench.cli.list_ import list_

    result = ctx.invoke(list_, what="topologies", as_json=as_json)
    assert isinstance(result, int)
    return result
