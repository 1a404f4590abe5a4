"""`kernbench probe`: traffic patterns simulated and by closed form, with the checks between them (ADR-0049).

Does not know what is measured.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from kernbench.cli.options import json_option, topology_option
from kernbench.cli.output import document, print_json
from kernbench.diagnostics import KernBenchError


@click.command("probe")
@topology_option()
@click.option("--case", default="all", metavar="NAME", help="One case by its exact name.")
@click.option("--strict", is_flag=True, help="Exit 1 where a check fails.")
@click.option("--metamorphic", is_flag=True, help="Move every numeric key up and down, see which way time goes.")
@json_option
def probe(topology: str | None, case: str, strict: bool, metamorphic: bool, as_json: bool) -> int:
    """Measure traffic patterns on a topology and hold them against their closed forms.

    Lines that begin with [v] or [x] are the checks; docs/probe.md describes the tables and the JSON.
    """
    from kernbench.runtime.bench import DEFAULT_TOPOLOGY

    if metamorphic and case != "all":
        raise KernBenchError.usage("E_OPTION", "--case and --metamorphic contradict each other")
    work = _metamorphic if metamorphic else _traffic
    ok, schema, content, text = work(topology or DEFAULT_TOPOLOGY, case)
    if as_json:
        print_json(document(schema, content))
    else:
        click.echo(text)
    return 1 if strict and not ok else 0


Outcome = tuple[bool, str, dict[str, Any], str]  # all well, schema, JSON, text


def _traffic(topology: str, case: str) -> Outcome:
    from kernbench.probe.probe import run_probe
    from kernbench.probe.tables import render

    result = run_probe(topology, case)
    return result.ok, "kernbench.probe/1", result.to_json(), render(result)


def _metamorphic(topology: str, _: str) -> Outcome:
    from kernbench.probe.metamorphic import run_metamorphic
    from kernbench.probe.tables import render_metamorphic

    def tell(key: str, number: int, of: int) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r\033[K{number + 1}/{of} {key}", nl=False, err=True)

    result = run_metamorphic(topology, on_key=tell)
    if sys.stderr.isatty():
        click.echo("\r\033[K", nl=False, err=True)
    return result.ok, "kernbench.metamorphic/1", result.to_json(), render_metamorphic(result)
