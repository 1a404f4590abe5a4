"""`kernbench explain`: what an error code or a topic means."""

from __future__ import annotations

import click

from kernbench.cli.errors import all_errors
from kernbench.diagnostics import KernBenchError, did_you_mean


@click.command("explain")
@click.argument("what", metavar="CODE|TOPIC")
def explain(what: str) -> int:
    """Explain an error code."""
    known = all_errors()
    if what not in known:
        raise KernBenchError.usage(
            "E_EXPLAIN_WHAT", f"there is nothing to explain under `{what}`", help=_help(what, tuple(known))
        )
    click.echo(f"{what}: {known[what]}")
    return 0


def _help(what: str, known: tuple[str, ...]) -> str:
    near = did_you_mean(what, known, "codes")
    return near if near.startswith("did") else "`kernbench list errors` lists the codes"
