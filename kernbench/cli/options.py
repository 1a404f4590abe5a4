"""Options that several commands share, and the values that they stand for.

Does not know what a command does with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kernbench.diagnostics import KernBenchError, did_you_mean

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def topology_option(required: bool = False) -> Decorator:
    return click.option(
        "-t", "--topology", metavar="TOPO", required=required, help="A shipped topology's name, or a path."
    )


def bench_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--bench, --case, --set."""
    for option in (
        click.option("--set", "sets", metavar="NAME=VALUE", multiple=True, help="Override a constexpr or scalar."),
        click.option("--case", metavar="NAME", help="A case of the bench file."),
        click.option("--bench", metavar="FILE", help="The bench file; by default the one beside the kernel."),
    ):
        function = option(function)
    return function


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")(function)


def opt_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """-O0 and -O1."""
    return click.option(
        "-O",
        "opt_level",
        type=click.IntRange(0, 1),
        metavar="0|1",
        help="Optimisation level; 0: one block op is one command.",
    )(function)


def parse_sets(sets: tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE` texts as a mapping; the last of a repeated name wins."""
    found: dict[str, str] = {}
    for text in sets:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise KernBenchError.usage("E_OPTION", f"--set `{text}`: expected NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def parse_signature(text: str) -> dict[str, str]:
    """`x_ptr=*fp32,n=i32` as a mapping of parameter to type."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, kind = part.partition("=")
        if not equals or not name.strip() or not kind.strip():
            raise KernBenchError.usage(
                "E_OPTION", f"--signature `{part}`: expected NAME=TYPE", help="for example x_ptr=*fp32,n=i32"
            )
        found[name.strip()] = kind.strip()
    return found


def choose(value: str, known: tuple[str, ...], option: str, what: str) -> str:
    """`value`, if it is one of the known ones."""
    if value not in known:
        raise KernBenchError.usage("E_OPTION", f"{option} cannot be `{value}`", help=did_you_mean(value, known, what))
    return value
