"""`kernbench explain`: the long story of an error code, of a metric of `run --json`, or of a model of the device.

Does not know any of them: `kernbench/explain/` holds them as data.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

import click

from kernbench.cli.errors import all_errors
from kernbench.cli.options import json_option
from kernbench.cli.output import document, print_json
from kernbench.diagnostics import KernBenchError, nearest

SCHEMA = "kernbench.explain/1"
WIDTH = 96
INDENT = "    "
Entry = dict[str, Any]


@click.command("explain")
@click.argument("what", required=False, metavar="[CODE|METRIC|TOPIC]")
@json_option
def explain(what: str | None, as_json: bool) -> int:
    """Explain an error code, a metric of `run --json`, or a model of the device; without one, list them."""
    if what is None:
        _print_list(as_json)
        return 0
    entry = _find(what)
    if as_json:
        print_json(document(SCHEMA, entry))
    else:
        click.echo(_text(entry))
    return 0


# --------------------------------------------------------------------------- entries


def _find(what: str) -> Entry:
    """What `what` names: a topic or metric, or a code in capitals or not."""
    entries = _entries()
    found = entries.get(what) or entries.get(what.upper())
    if found is None:
        near = nearest(what, entries) or nearest(what.upper(), entries)
        advice = f"did you mean `{near}`?" if near else "`kernbench explain` lists what can be explained"
        raise KernBenchError.usage("E_EXPLAIN_WHAT", f"there is nothing to explain under `{what}`", help=advice)
    return found


def _entries() -> dict[str, Entry]:
    """By name. A topic wins over a metric of its name."""
    from kernbench.explain.index import explanations, metrics, topics

    known = explanations()
    found = {code: _error(code, meaning, known.get(code)) for code, meaning in all_errors().items()}
    found |= {name: {"name": name, "kind": "metric", "title": "", "story": m.story} for name, m in metrics().items()}
    found |= {n: {"name": n, "kind": "topic", "title": t.title, "story": t.story} for n, t in topics().items()}
    return found


def _error(code: str, meaning: str, known: Any) -> Entry:
    """A code without a story still has its one line."""
    from kernbench.explain.model import Kernel, KernelRun

    entry: Entry = {"name": code, "kind": "error", "title": meaning, "story": known.story if known else ""}
    if known is not None and known.wrong is not None and known.right is not None:
        entry |= {"wrong": known.wrong.shown(), "says": known.says, "right": known.right.shown()}
        if isinstance(known.wrong, Kernel | KernelRun):
            entry["note"] = "The imports at the head of the kernel files are left out."
    elif known is not None:
        entry["no_example"] = known.no_example
    return entry


# --------------------------------------------------------------------------- text


def _text(entry: Entry) -> str:
    parts = [f"{entry['name']}: {entry['title']}" if entry["title"] else entry["name"], _wrapped(entry["story"])]
    if "wrong" in entry:
        parts += [
            f"Wrong:\n\n{textwrap.indent(entry['wrong'], INDENT)}",
            _wrapped(f"It says: {entry['says']}"),
            f"Right:\n\n{textwrap.indent(entry['right'], INDENT)}",
            entry.get("note", ""),
        ]
    elif entry.get("no_example"):
        parts.append(_wrapped(f"There is no example: {entry['no_example']}."))
    return "\n\n".join(part.rstrip() for part in parts if part.strip())


def _wrapped(text: str) -> str:
    """Paragraphs are filled; a line that begins with `- ` begins one of its own."""
    paragraphs: list[str] = []
    for line in textwrap.dedent(text).strip("\n").splitlines():
        if not line.strip() or not paragraphs or not paragraphs[-1] or line.startswith("- "):
            paragraphs.append(line.strip())
        else:
            paragraphs[-1] = f"{paragraphs[-1]} {line.strip()}".strip()
    return "\n".join(_filled(paragraph) for paragraph in paragraphs)


def _filled(paragraph: str) -> str:
    hanging = "  " if paragraph.startswith("- ") else ""
    return textwrap.fill(paragraph, WIDTH, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)


# --------------------------------------------------------------------------- the list


def _print_list(as_json: bool) -> None:
    from kernbench.explain.index import SUBJECTS, metrics, topics

    listed = {
        "topics": list(topics()),
        "metrics": list(metrics()),
        "errors": {subject: [entry.code for entry in entries] for subject, entries in SUBJECTS.items()},
    }
    if as_json:
        print_json(document(SCHEMA, listed))
        return
    blocks = [_block("topics", topics()), _block("metrics of `run --json`", metrics())]
    blocks += [_block(f"errors: {subject}", (e.code for e in entries)) for subject, entries in SUBJECTS.items()]
    click.echo("\n\n".join(blocks))


def _block(title: str, names: Iterable[str]) -> str:
    filled = textwrap.fill(" ".join(names), WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return f"{title}\n{textwrap.indent(filled, '  ')}"
