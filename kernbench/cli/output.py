"""Where results go: stdout for results, stderr for the rest, files whole or not at all.

Does not know what it writes.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from kernbench.diagnostics import KernBenchError
from kernbench.version import VERSION


def document(schema: str, content: dict[str, Any]) -> dict[str, Any]:
    """A JSON document with the two fields that every one of ours begins with."""
    return {"schema": schema, "version": VERSION, **content}


def print_json(content: dict[str, Any]) -> None:
    """Exactly one JSON document on stdout. Numbers that JSON does not have are null."""
    click.echo(json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def write_file(path: str | Path, content: str | bytes) -> None:
    """Write under a temporary name in the same folder, then rename; `-` is stdout.

    A link stays a link, and what is no regular file (a device, a pipe) is written to and never replaced.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    if str(path) == "-":
        if sys.stdout is not None:  # None where the caller closed it
            sys.stdout.buffer.write(data)
        return
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            _write_and_rename(target, data)
    except BrokenPipeError:
        raise  # the reader of a pipe has gone
    except OSError as error:
        raise KernBenchError.usage("E_OUTPUT_FILE", f"cannot write `{path}`: {error.strerror}") from error


def _write_and_rename(target: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".kernbench-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except OSError:
        os.unlink(temporary)
        raise


def read_bytes(path: str | Path) -> bytes:
    """The content of a file that the user named; `-` is stdin."""
    if str(path) == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise KernBenchError.usage("E_INPUT_FILE", f"cannot read `{path}`: {error.strerror}") from error


def say(text: str) -> None:
    """A message to the person, on stderr."""
    click.echo(text, err=True)
