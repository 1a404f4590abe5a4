"""Run directories: all that a run needs to be repeated, and what came of it.

Does not know how to run anything.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kernbench.cli.locate import KERNEL_SUFFIXES, KernelFile
from kernbench.cli.output import document, write_file
from kernbench.diagnostics import EXIT_INPUT, Diagnostic, KernBenchError, Sink
from kernbench.message_text import write_requests
from kernbench.run import Run
from kernbench.runtime.bench_schema import read_bench_text
from kernbench.sim.topology_graph import TopologyGraph

SCHEMA = "kernbench.rundir/1"


@dataclass(frozen=True)
class Recorded:
    """What a run was asked for; a run directory holds it, with copies of the files."""

    kernel: KernelFile
    bench: str | None
    case: str | None
    sets: dict[str, str]
    topology: str | None
    opt_level: int | None
    seed: int
    mode: str
    sanitize: str
    hops: bool
    max_time_ns: int | None


class _Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """`manifest.json`, as far as it is read back."""

    schema: str
    version: str
    kernel: str
    kernel_name: str | None
    bench: str
    topology: str
    case: str | None
    sets: dict[str, str]
    opt_level: int | None
    seed: int
    mode: str
    sanitize: str
    hops: bool
    max_time_ns: int | None
    config_hash: str
    total_ns: float
    ok: bool
    files: dict[str, str]


def require_no_foreign_files(folder: Path) -> None:
    """Refuse a folder that holds other files than those of a run: some of them might have the names of a run's."""
    try:
        is_foreign = folder.is_dir() and any(folder.iterdir()) and not (folder / "manifest.json").is_file()
    except OSError as error:
        raise KernBenchError.usage("E_OUTPUT_FILE", f"cannot read `{folder}`: {error.strerror}") from error
    if is_foreign:
        text = f"`{folder}` holds files and no manifest.json, so it is no run directory"
        raise KernBenchError.usage("E_OUTPUT_FILE", text, help="name a new or an empty folder; nothing was written")


def write_run_dir(
    folder: Path, recorded: Recorded, bench: Path, imported: Sequence[Path], result: Run, graph: TopologyGraph
) -> None:
    """Make the folder and fill it; `manifest.json` comes last, so that a folder with one is whole.

    `imported` are the files that the kernel's file imports; the copies lie to each other as the files do.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "buffers").mkdir(exist_ok=True)
    except OSError as error:
        raise KernBenchError.usage("E_OUTPUT_FILE", f"cannot make `{folder}`: {error.strerror}") from error
    sources = _source_copies(recorded.kernel.path, imported)
    kernel = next(iter(sources))
    contents: dict[str, bytes] = {
        **sources,
        "bench.yaml": _whole_bench(bench, kernel),
        "topology.yaml": yaml.dump(graph.resolved_config(), Dumper=_Dumper, sort_keys=False).encode(),
        "op_log.jsonl": _log_bytes(result),
        "run.json": (json.dumps(result.to_json(), indent=2) + "\n").encode(),
        "messages.jsonl": write_requests(result.sent.requests).encode(),
    }
    for digest, data in result.sent.buffers.items():
        contents[f"buffers/{buffer_name(digest)}"] = bytes(data if isinstance(data, bytes) else data.tobytes())
    for name, data in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_file(folder / name, data)
    manifest = document(
        SCHEMA,
        {
            "kernel": kernel,
            "kernel_name": recorded.kernel.name,
            "bench": "bench.yaml",
            "topology": "topology.yaml",
            **{field: getattr(recorded, field) for field in _COPIED},
            "config_hash": result.config_hash,
            "total_ns": result.total_ns,
            "ok": result.ok,
            "files": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(contents.items())},
        },
    )
    write_file(folder / "manifest.json", json.dumps(manifest, indent=2) + "\n")


_COPIED = tuple(
    field.name for field in dataclasses.fields(Recorded) if field.name not in ("kernel", "bench", "topology")
)


def _source_copies(kernel: Path, imported: Sequence[Path]) -> dict[str, bytes]:
    """The texts by their paths in the run directory, the kernel's first."""
    files = [path.resolve() for path in (kernel, *imported)]
    texts = [path.read_bytes() for path in files]
    top = _top_folder(files, texts)
    return {path.relative_to(top).as_posix(): text for path, text in zip(files, texts, strict=True)}


def _top_folder(files: Sequence[Path], texts: Sequence[bytes]) -> Path:
    """The folder that the files share; above it, that of a package of which a text says the name in an import."""
    named = {match.decode() for text in texts for match in _IMPORTED_NAME.findall(text)}
    top = shared = Path(os.path.commonpath([path.parent for path in files]))
    for folder in (shared, *shared.parents) if len(files) > 1 else ():
        if folder.name in named:
            top = folder.parent
    return top


_IMPORTED_NAME = re.compile(rb"^[ \t]*(?:from|import)[ \t]+(\w+)", re.MULTILINE)


def buffer_name(content_hash: str) -> str:
    """The file that holds the bytes of a content hash; not every file system takes a colon."""
    return content_hash.replace(":", "-")


def _log_bytes(result: Run) -> bytes:
    stream = io.StringIO()
    if result.op_log is not None:
        result.op_log.write_jsonl(stream)
    return stream.getvalue().encode()


class _Dumper(yaml.SafeDumper):
    """Writes decimals as the digits that they are."""


_Dumper.add_representer(
    Decimal, lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:float", _decimal_text(value))
)


def _decimal_text(value: Decimal) -> str:
    text = format(value, "f")
    return text if "." in text else f"{text}.0"


def _whole_bench(bench: Path, kernel: str) -> bytes:
    """The bench file with what it extends written out, so that the copy stands alone."""
    sink = Sink()
    text = read_bench_text(bench, str(bench), sink)
    assert text is not None, "the run has read this bench"
    keys = text.root.plain()
    keys.pop("extends", None)
    _, separator, name = keys["kernel"].partition("::")
    keys["kernel"] = f"{kernel}{separator}{name}"
    return yaml.dump(keys, Dumper=_Dumper, sort_keys=False, allow_unicode=True).encode()


def read_run_dir(folder: Path) -> Recorded:
    """What to run again; the copies in the folder are used, and must be as they were written."""
    try:
        manifest = msgspec.json.decode((folder / "manifest.json").read_bytes(), type=_Manifest)
    except OSError as error:
        raise KernBenchError.usage(
            "E_INPUT_FILE", f"`{folder}` is no run directory: {error.strerror} (manifest.json)"
        ) from error
    except msgspec.DecodeError as error:
        raise KernBenchError([Diagnostic("E_RUN_DIR", f"manifest.json of `{folder}`: {error}")], EXIT_INPUT) from error
    sources = [name for name in manifest.files if name.endswith(KERNEL_SUFFIXES) and name != manifest.kernel]
    used = (manifest.kernel, manifest.bench, manifest.topology, *sources)
    changed = [name for name in used if not _same(folder, name, manifest)]
    if changed:
        text = f"`{folder}`: {', '.join(changed)} differs from what the run used"
        raise KernBenchError([Diagnostic("E_RUN_DIR", text, help="make the run directory anew")], EXIT_INPUT)
    values: dict[str, Any] = {field: getattr(manifest, field) for field in _COPIED}
    return Recorded(
        kernel=KernelFile(folder / manifest.kernel, manifest.kernel_name),
        bench=str(folder / manifest.bench),
        topology=str(folder / manifest.topology),
        **values,
    )


def _same(folder: Path, name: str, manifest: _Manifest) -> bool:
    path = folder / name
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == manifest.files.get(name)
