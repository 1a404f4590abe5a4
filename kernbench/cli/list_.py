"""`kernbench list`: what there is, printed from the tables that the code uses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import click

from kernbench.cli.options import choose, json_option
from kernbench.cli.output import document, print_json

Rows = list[dict[str, Any]]
MAX_WIDTH = 40  # of the column of names; a longer one pushes what follows to the right


def _kernels() -> Rows:
    from kernbench.cli.locate import shipped_kernels
    from kernbench.runtime.bench import case_names

    rows: Rows = []
    for path in shipped_kernels():
        first = path.read_text("utf-8").split('"""')
        bench = path.with_suffix(".yaml")
        cases = list(case_names(bench, bench.name)) if bench.is_file() else []
        rows.append({"name": path.name, "doc": first[1].splitlines()[0] if len(first) > 1 else "", "cases": cases})
    return rows


def _topologies() -> Rows:
    from kernbench.sim.topology import load_topology, shipped_topologies

    rows: Rows = []
    for name in shipped_topologies():
        spec = load_topology(name).spec
        cubes = spec.sip.cube_mesh.w * spec.sip.cube_mesh.h
        pes = spec.sip.count * cubes * spec.cube.pes
        packages = _counted(spec.sip.count, "SIP")
        doc = f"{packages}, {_counted(cubes, 'cube')} a SIP, {_counted(pes, 'PE')}"
        rows.append({"name": name, "doc": doc, "pes": pes})
    return rows


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _micro_ops() -> Rows:
    from kernbench.micro_ops import MICRO_OPS

    return [
        {"name": op.name, "operands": list(op.operands), "cost": op.cost, "doc": op.doc} for op in MICRO_OPS.values()
    ]


def _passes() -> Rows:
    from kernbench.compiler.pipeline import PASSES

    return [{"name": each.name, "doc": each.doc} for each in PASSES]


def _errors() -> Rows:
    from kernbench.cli.errors import all_errors

    return [{"name": code, "doc": meaning} for code, meaning in all_errors().items()]


def _recipes() -> Rows:
    from kernbench.compiler.recipes import RECIPE_DESCRIPTORS

    rows: Rows = []
    for name, recipe in RECIPE_DESCRIPTORS.items():
        primary = recipe.primary_out
        rows.append(
            {
                "name": name,
                "operands": dict(recipe.operands),
                "primary_out": None if primary is None else dataclasses.asdict(primary),
                "tile_alignment": recipe.tile_alignment,
                "ops": [op.kind for op in recipe.engine_seq],
                "doc": recipe.doc,
            }
        )
    return rows


def _functions() -> Rows:
    from kernbench.report.function_signatures import function_rows

    return list(function_rows())


def _bench_keys() -> Rows:
    from kernbench.report.topology_text import key_text
    from kernbench.runtime.bench_schema import BenchKeys
    from kernbench.yaml_schema import describe

    return [{"name": key.path, "doc": key_text(key)} for key in describe(BenchKeys)]


def _bench_functions() -> Rows:
    from kernbench.runtime.functions import FUNCTIONS

    return [
        {"name": name, "keywords": list(each.keywords), "doc": f"keywords: {', '.join(each.keywords) or 'none'}"}
        for name, each in sorted(FUNCTIONS.items())
    ]


LISTS: dict[str, Callable[[], Rows]] = {
    "kernels": _kernels,
    "topologies": _topologies,
    "recipes": _recipes,
    "micro-ops": _micro_ops,
    "passes": _passes,
    "functions": _functions,
    "bench-keys": _bench_keys,
    "bench-functions": _bench_functions,
    "errors": _errors,
}


@click.command("list")
@click.argument("what", metavar="WHAT")
@json_option
def list_(what: str, as_json: bool) -> int:
    """List what there is of a kind.

    WHAT is kernels, topologies, recipes, micro-ops, passes, functions, bench-keys, bench-functions, errors or messages.

    `functions` are those that a kernel may call, `bench-keys` what a bench file may say, `bench-functions` what its
    expressions may call.
    """
    choose(what, (*LISTS, "messages"), "list", "the lists")
    if what == "messages":
        return _messages(as_json)
    rows = LISTS[what]()
    if as_json:
        print_json(document("kernbench.list/1", {what: rows}))
        return 0
    width = min(MAX_WIDTH, max((len(row["name"]) for row in rows), default=0))
    for row in rows:
        click.echo(f"{row['name']:<{width}}  {row['doc']}".rstrip())
    return 0


def _messages(as_json: bool) -> int:
    from kernbench.messages import json_schema

    schema = json_schema()
    if as_json:
        print_json(schema)
        return 0
    for name, definition in schema["$defs"].items():
        required = set(definition.get("required", ()))
        click.echo(name)
        for field in definition.get("properties", {}):
            click.echo(f"  {field}{'' if field in required else ' (optional)'}")
    return 0
