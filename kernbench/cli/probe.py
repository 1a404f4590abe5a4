"""`kernbench probe`: traffic patterns simulated and by closed form, with the checks between them (ADR-0049).

Does not know what is measured.
"""

from __future__ import annotations

import click

from kernbench.cli.options import json_option, topology_option
from kernbench.cli.output import document, print_json

SCHEMA = "kernbench.probe/1"


@click.command("probe")
@topology_option()
@click.option("--case", default="all", metavar="NAME", help="One case by its exact name.")
@click.option("--strict", is_flag=True, help="Exit 1 where a check fails.")
@json_option
def probe(topology: str | None, case: str, strict: bool, as_json: bool) -> int:
    """Measure traffic patterns on a topology and hold them against their closed forms.

    Lines that begin with [v] or [x] are the checks; docs/probe.md describes the tables and the JSON.
    """
    from kernbench.probe.probe import run_probe
    from kernbench.probe.tables import render
    from kernbench.runtime.bench import DEFAULT_TOPOLOGY

    result = run_probe(topology or DEFAULT_TOPOLOGY, case)
    if as_json:
        print_json(document(SCHEMA, result.to_json()))
    else:
        click.echo(render(result))
    return 1 if strict and not result.ok else 0
