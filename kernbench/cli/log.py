"""`kernbench log` and `kernbench diff`: look into op logs, and hold one against another."""

from __future__ import annotations

from pathlib import Path

import click

from kernbench.cli.options import choose, json_option
from kernbench.cli.output import document, print_json
from kernbench.diagnostics import KernBenchError
from kernbench.report.log_file import KEYS, Record, differences, engine_of, line_of, pe_of, read_log, totals

BY = (*KEYS, "link")


@click.command("log")
@click.argument("log", metavar="RUNDIR|FILE")
@click.option("--engine", metavar="E", help="Only records of this engine (pe_dma, pe_math ...) or kind (dma_read ...).")
@click.option("--pe", metavar="P", help="Only records of this PE, as sip0.cube3.pe1.")
@click.option(
    "--line", "line", type=click.IntRange(min=1), metavar="N", help="Only records that this kernel line caused."
)
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="The N longest.")
@click.option("--by", metavar="engine|line|link|pe", help="Totals instead of records; link needs a run directory.")
@json_option
def log(
    log: str, engine: str | None, pe: str | None, line: int | None, top: int | None, by: str | None, as_json: bool
) -> int:
    """Show the records of an op log, or what they add up to."""
    if by is not None:
        choose(by, BY, "--by", "the keys")
    if by == "link":
        return _links(log, top, as_json)
    records = [record for record in read_log(log) if _wanted(record, engine, pe, line)]
    if by is not None:
        rows = [
            {"key": t.key, "records": t.records, "time_ns": t.time_ps / 1000, "bytes": t.nbytes, "flops": t.flops}
            for t in totals(records, by)[:top]
        ]
        return _print(rows, as_json)
    if top is not None:
        records = sorted(records, key=lambda r: (r["start"] - r["end"], r["seq"]))[:top]
    return _print([_row(record) for record in records], as_json)


def _wanted(record: Record, engine: str | None, pe: str | None, line: int | None) -> bool:
    if engine is not None and engine not in engine_of(record).split():
        return False
    if line is not None and line_of(record).rsplit(":", 1)[-1] != str(line):
        return False
    return pe is None or pe_of(record) == pe


def _row(record: Record) -> dict[str, object]:
    return {
        "seq": record["seq"],
        "start_ns": record["start"] / 1000,
        "time_ns": (record["end"] - record["start"]) / 1000,
        "component": record["component"],
        "kind": record["op_kind"],
        "name": record["op_name"],
        "bytes": record["nbytes"],
        "line": line_of(record),
    }


def _links(name: str, top: int | None, as_json: bool) -> int:
    import json

    path = Path(name) / "run.json"
    if not path.is_file():
        raise KernBenchError.usage("E_INPUT_FILE", f"`{name}` is no run directory, and links are counted in those only")
    rows = json.loads(path.read_text("utf-8"))["links"][:top]
    return _print(rows, as_json)


def _print(rows: list[dict[str, object]], as_json: bool) -> int:
    if as_json:
        print_json(document("kernbench.log/1", {"rows": rows}))
        return 0
    cells = [[_cell(value) for value in row.values()] for row in rows]
    heads = list(rows[0]) if rows else ["no records"]
    widths = [max(len(head), *(len(row[k]) for row in cells), 0) for k, head in enumerate(heads)]
    for row in [heads, *cells]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _cell(value: object) -> str:
    if value is None:
        return "n/a"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


@click.command("diff")
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@click.option(
    "--tolerance-ns", type=click.FloatRange(min=0), default=0.0, metavar="N", help="How far times may be apart."
)
@click.option("--by", metavar="engine|line|pe", default="engine", help="Show totals by this key.")
@json_option
def diff(left: str, right: str, tolerance_ns: float, by: str, as_json: bool) -> int:
    """Compare two op logs (run directories or files); exit 1 where they differ."""
    choose(by, tuple(KEYS), "--by", "the keys")
    ours, theirs = read_log(left), read_log(right)
    found = differences(ours, theirs, round(tolerance_ns * 1000))
    before = {total.key: total for total in totals(ours, by)}
    after = {total.key: total for total in totals(theirs, by)}
    rows: list[dict[str, object]] = []
    for key in sorted({*before, *after}):
        a, b = before.get(key), after.get(key)
        times = (a.time_ps if a else 0, b.time_ps if b else 0)
        if a != b:
            rows.append(
                {"key": key, "a_ns": times[0] / 1000, "b_ns": times[1] / 1000, "b-a_ns": (times[1] - times[0]) / 1000}
            )
    if as_json:
        first = None if found is None else found.index
        content = {
            "equal": found is None,
            "differing": 0 if found is None else found.count,
            "first": first,
            "rows": rows,
        }
        print_json(document("kernbench.diff/1", content))
    elif found is None:
        click.echo(f"equal: {len(ours)} records")
    else:
        click.echo(f"{found.count} of {max(len(ours), len(theirs))} records differ; the first is record {found.index}")
        for mark, record in (("a", found.left), ("b", found.right)):
            click.echo(f"{mark}  {'(none)' if record is None else '  '.join(_cell(v) for v in _row(record).values())}")
        if rows:
            _print(rows, as_json=False)
    return 0 if found is None else 1
