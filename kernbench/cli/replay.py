"""`kernbench replay`: drive a device from a file of messages, one response a request.

Knows files of messages and the folder of buffers beside them. Does not know kernels, or what the device does.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import click

from kernbench.cli.options import choose, topology_option
from kernbench.cli.output import read_bytes, say, write_file
from kernbench.cli.rundir import buffer_name
from kernbench.diagnostics import EXIT_INPUT, EXIT_SIMULATION, Diagnostic, KernBenchError, Label, Span

MODES: dict[str, Literal["data", "timing"]] = {"data": "data", "timing": "timing"}
SANITIZE = ("warn", "error", "off")


@click.command("replay")
@click.argument("messages", metavar="MESSAGES.jsonl")
@topology_option()
@click.option("--mode", default="data", metavar="data|timing", help="timing moves no tensor values.")
@click.option("--buffers", metavar="DIR", help="The bytes that messages name; by default `buffers` beside the file.")
@click.option("--op-log", metavar="FILE", help="Write the op log as JSON Lines; - is stdout.")
@click.option("--hops", is_flag=True, help="Log the hops of requests, too.")
@click.option("--sanitize", is_flag=False, flag_value="warn", default="warn", metavar="warn|error|off")
@click.option("--max-time-ns", type=click.IntRange(min=1), help="End the run at this simulated time.")
def replay(messages: str, topology: str | None, **options: Any) -> int:
    """Send the requests of MESSAGES.jsonl to a device and print one response a request, in their order.

    Requests of one correlation_id are served one after the other, those of different ones together from time 0.
    The messages of a run directory are replayed on its topology unless -t names another. - is stdin.
    """
    mode = MODES[choose(options["mode"], tuple(MODES), "--mode", "the modes")]
    choose(options["sanitize"], SANITIZE, "--sanitize", "the values")
    from kernbench.message_text import read_requests
    from kernbench.sim.engine import GraphEngine, Limits
    from kernbench.sim.topology import load_topology

    graph = load_topology(topology or _topology_beside(messages))
    text = _text(messages)
    requests = read_requests(text, messages)
    places = _places(text, messages)
    buffers = _collect(places, requests, _Buffers(_folder(messages, options["buffers"])).of)
    engine = GraphEngine(
        graph,
        mode,
        hops=options["hops"],
        sanitize=options["sanitize"],
        limits=Limits(max_time_ns=options["max_time_ns"]),
    )
    together = dict(item for beside in buffers for item in beside.items())
    handles = _collect(places, requests, lambda request: engine.submit(request, together))
    engine.run()
    return _report(engine, handles, options["op_log"])


def _report(engine: Any, handles: Sequence[Any], op_log: str | None) -> int:
    if op_log is not None:
        stream = io.StringIO()
        engine.op_log.write_jsonl(stream)
        write_file(op_log, stream.getvalue())
    for handle in handles:
        click.echo(json.dumps(handle.response.to_json()))
    for found in engine.diagnostics:
        say(found.render())
    failed = sum(not handle.completion.ok for handle in handles)
    say(f"{len(handles)} requests, {failed} failed, {engine.now_ps / 1000:.3f} ns")
    return EXIT_SIMULATION if failed else 0


# --------------------------------------------------------------------------- what comes in


def _text(messages: str) -> str:
    data = read_bytes(messages)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        text = f"`{messages}` is no UTF-8 text: byte {error.start} does not fit"
        raise KernBenchError([Diagnostic("E_MESSAGE_JSON", text)], EXIT_INPUT) from None


def _topology_beside(messages: str) -> str:
    path = Path(messages).parent / "topology.yaml"
    if messages == "-" or not path.is_file():
        help_text = "name one with -t, for example -t ahbm_4x4"
        raise KernBenchError.usage("E_OPTION", f"`{messages}` has no topology.yaml beside it", help=help_text)
    return str(path)


def _folder(messages: str, named: str | None) -> Path:
    if named is None:
        return Path(messages).parent / "buffers"
    if not Path(named).is_dir():
        raise KernBenchError.usage("E_INPUT_FILE", f"there is no folder `{named}`")
    return Path(named)


def _places(text: str, file: str) -> list[Span]:
    """Where each request stands: the lines that are not blank."""
    lines = enumerate(text.split("\n"), start=1)
    return [Span(file, number, 1, number, len(line) + 1) for number, line in lines if line.strip()]


def _collect(places: Sequence[Span], requests: Sequence[Any], make: Callable[[Any], Any]) -> list[Any]:
    """`make` of every request; what is wrong with any of them is told together, each with its line."""
    made: list[Any] = []
    wrong: list[Diagnostic] = []
    for place, request in zip(places, requests, strict=True):
        try:
            made.append(make(request))
        except KernBenchError as error:
            wrong.extend(replace(each, primary=Label(place, "")) for each in error.diagnostics)
    if wrong:
        raise KernBenchError(wrong, EXIT_INPUT)
    return made


class _Buffers:
    """The files of a folder by content hash, each read once and held against its name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, bytes] = {}

    def of(self, request: Any) -> Mapping[str, bytes]:
        """The bytes that travel beside a request. One that is not there is the engine's to refuse."""
        named = (("host_buffer", getattr(request, "host_buffer", None)), ("meta.symbols", _symbols(request)))
        found = {name: self._read(name, path) for path, name in named if name is not None}
        return {name: data for name, data in found.items() if data is not None}

    def _read(self, name: str, field: str) -> bytes | None:
        from kernbench.messages import content_hash

        if name in self._known:
            return self._known[name]
        path = self._folder / buffer_name(name)
        if not path.is_file():
            return None
        data = read_bytes(path)
        if content_hash(data) != name:
            text = f"`{field}`: the bytes of `{path.name}` have another content hash than its name says"
            raise KernBenchError([Diagnostic("E_BUFFER_CHANGED", text, path=field)], EXIT_INPUT)
        self._known[name] = data
        return data


def _symbols(request: Any) -> str | None:
    return getattr(request, "symbols", None)
