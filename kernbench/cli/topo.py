"""`kernbench topo`: look at topologies and check them. Does not know what there is to see in one."""

from __future__ import annotations

from dataclasses import is_dataclass
from decimal import Decimal

import click

from kernbench.cli.options import choose, json_option
from kernbench.cli.output import document, print_json, say
from kernbench.diagnostics import EXIT_INPUT, Diagnostic, KernBenchError


@click.group("topo")
def topo() -> None:
    """Look at topologies and check them."""


FORMATS = ("text", "json", "svg", "dot")


@topo.command("show")
@click.argument("topology", metavar="TOPO")
@click.option("--format", "form", default="text", metavar="text|json|svg|dot", help="svg and dot draw it.")
@json_option
def show(topology: str, form: str, as_json: bool) -> int:
    """Show the machine of TOPO (a shipped name or a path): counts, capacities, peaks, bandwidths, ridge points."""
    from kernbench.report.topology_drawing import topology_dot, topology_svg
    from kernbench.report.topology_facts import facts_of
    from kernbench.report.topology_text import facts_text
    from kernbench.sim.topology import load_topology

    choose(form, FORMATS, "--format", "the formats")
    if as_json and form not in ("text", "json"):
        raise KernBenchError.usage("E_OPTION", f"--json and --format {form} contradict each other")
    graph = load_topology(topology)
    if as_json or form == "json":
        print_json(document("kernbench.topology-facts/1", facts_of(graph).to_json()))
    elif form == "text":
        click.echo(facts_text(facts_of(graph)))
    else:
        click.echo(topology_svg(graph) if form == "svg" else topology_dot(graph), nl=False)
    return 0


TOP_KEYS = {
    "extends": "a text. A shipped topology's name or a path; every key of this file is put over that one",
    "overrides": "a mapping. Attributes of single nodes (`sip0.cube4.hbm_ctrl.pe0: {overhead_ns: 60}`) and links "
    "(`A -> B`); null takes a link away",
}


@topo.command("schema")
@json_option
def schema(as_json: bool) -> int:
    """Print every key of a topology file: its type, whether it is needed, what it means."""
    from kernbench.report.topology_text import schema_text
    from kernbench.sim.topology_schema import TopologySpec
    from kernbench.yaml_schema import describe

    keys = tuple(describe(TopologySpec))
    if as_json:
        rows = [
            {
                "path": key.path,
                "type": key.type,
                "required": key.required,
                "default": _plain(key.default),
                "doc": key.doc,
            }
            for key in keys
        ]
        print_json(document("kernbench.topology-schema/1", {"top": TOP_KEYS, "keys": rows}))
    else:
        click.echo(schema_text(keys, TOP_KEYS))
    return 0


def _plain(default: object) -> object:
    """A default as JSON has it; a section that may be left out has none of its own."""
    if is_dataclass(default):
        return None
    return str(default) if isinstance(default, Decimal) else default


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
