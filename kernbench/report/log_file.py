"""Op logs as files: read back, filtered, summed up, compared. Times are integer picoseconds.

Knows the records' fields. Does not know how they came about.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from kernbench.diagnostics import EXIT_INPUT, Diagnostic, KernBenchError

FIELDS = (
    *("seq", "t_start_ns", "t_end_ns", "component", "op_kind", "op_name", "request"),
    *("cmd", "tile", "nbytes", "flops", "src", "params"),
)
Record = dict[str, Any]


def log_path(name: str) -> Path:
    """The op log of a run directory, or the file itself."""
    path = Path(name)
    found = path / "op_log.jsonl" if path.is_dir() else path
    if not found.is_file():
        raise KernBenchError.usage("E_INPUT_FILE", f"there is no op log at `{name}`")
    return found


def read_log(name: str) -> list[Record]:
    """The records of an op log; times become picoseconds under `start` and `end`."""
    path = log_path(name)
    records: list[Record] = []
    for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
        try:
            record = json.loads(line, parse_float=Decimal)
            if set(record) != set(FIELDS):
                raise ValueError("its fields are not those of a record")
            record["start"], record["end"] = _ps(record["t_start_ns"]), _ps(record["t_end_ns"])
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            text = f"{path}:{number} is no record of an op log: {error}"
            raise KernBenchError([Diagnostic("E_LOG_RECORD", text)], EXIT_INPUT) from None
        records.append(record)
    return records


def _ps(ns: Any) -> int:
    ps = Decimal(ns) * 1000
    if ps != int(ps):
        raise ValueError(f"{ns} ns is no whole number of picoseconds")
    return int(ps)


def line_of(record: Record) -> str:
    """`file:line` of the kernel source that caused a record, or `-`."""
    return str(record["src"]).rsplit(":", 1)[0] if record["src"] else "-"


def pe_of(record: Record) -> str:
    """`sip0.cube0.pe3` of a component of a PE, or `-`."""
    parts = str(record["component"]).split(".")
    return ".".join(parts[:3]) if len(parts) == 4 and parts[2].startswith("pe") else "-"


def engine_of(record: Record) -> str:
    """The kind of component, with what it did: `pe_dma dma_read`."""
    return f"{str(record['component']).rsplit('.', 1)[-1]} {record['op_kind']}"


KEYS: dict[str, Callable[[Record], str]] = {"engine": engine_of, "line": line_of, "pe": pe_of}


@dataclass
class Total:
    """What the records of one key add up to; times of overlapping records add up, too."""

    key: str
    records: int = 0
    time_ps: int = 0
    nbytes: int = 0
    flops: int = 0

    def add(self, record: Record) -> None:
        self.records += 1
        self.time_ps += record["end"] - record["start"]
        self.nbytes += record["nbytes"]
        self.flops += record["flops"]


def totals(records: Iterable[Record], by: str) -> list[Total]:
    """Totals by key, longest time first, equal ones by name."""
    found: dict[str, Total] = {}
    for record in records:
        key = KEYS[by](record)
        found.setdefault(key, Total(key)).add(record)
    return sorted(found.values(), key=lambda total: (-total.time_ps, total.key))


@dataclass(frozen=True)
class Difference:
    """The first place at which two logs part, and how many records differ from there on."""

    index: int
    left: Record | None
    right: Record | None
    count: int


def differences(left: list[Record], right: list[Record], tolerance_ps: int) -> Difference | None:
    """None where the logs are equal: times within the tolerance, everything else exactly."""
    apart = [
        index
        for index, (a, b) in enumerate(_pairs(left, right))
        if a is None or b is None or not _equal(a, b, tolerance_ps)
    ]
    if not apart:
        return None
    first = apart[0]
    return Difference(first, _at(left, first), _at(right, first), len(apart))


def _pairs(left: list[Record], right: list[Record]) -> Iterator[tuple[Record | None, Record | None]]:
    for index in range(max(len(left), len(right))):
        yield _at(left, index), _at(right, index)


def _at(records: list[Record], index: int) -> Record | None:
    return records[index] if index < len(records) else None


_TIMES = ("t_start_ns", "t_end_ns", "start", "end")


def _equal(a: Record, b: Record, tolerance_ps: int) -> bool:
    if any(abs(a[name] - b[name]) > tolerance_ps for name in ("start", "end")):
        return False
    return all(a[name] == b[name] for name in FIELDS if name not in _TIMES)
