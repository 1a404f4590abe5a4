"""The op log: one record for each thing that took simulated time, kept in 64 bytes, told in one fixed order.

Knows records, their order and their canonical text. Does not know what any component does.

`OpLog` takes records while the device runs; `OpLog.table()` sorts them into an `OpTable`, which is read.
Strings and parameter objects are interned once and named by number, so that appending copies integers only.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

OP_KINDS: tuple[str, ...] = (
    "dma_read", "dma_write", "fetch", "store", "gemm", "math", "scalar", "dispatch", "stall", "wait", "send", "recv",
    "code_fetch", "kernel", "hop", "launch", "complete",
)  # fmt: skip
KIND: dict[str, int] = {name: index for index, name in enumerate(OP_KINDS)}  # what `OpLog.add` takes as `kind`

# One packed record; `unused` fills it up to 64 bytes.
_RECORD = np.dtype(
    [
        ("t_start", "<i8"), ("t_end", "<i8"), ("nbytes", "<i8"), ("flops", "<i8"),
        ("component", "<i4"), ("name", "<i4"), ("request", "<i4"), ("cmd", "<i4"), ("tile", "<i4"),
        ("src", "<i4"), ("params", "<i4"), ("stage", "<i2"), ("kind", "u1"), ("unused", "u1"),
    ]
)  # fmt: skip
_PACK = struct.Struct("<qqqqiiiiiiihBx")
RECORD_BYTES = _RECORD.itemsize
_CHUNK_BYTES = RECORD_BYTES << 13
assert _PACK.size == RECORD_BYTES

# The order of the table, most significant first; what is left is told apart by content, so that the order in which
# components wrote never shows where contents differ.
_SORT_KEYS = ("t_start", "component", "cmd", "tile", "stage", "kind", "t_end", "request", "nbytes", "flops")


class OpRecord(NamedTuple):
    """One thing that took simulated time. Times are picoseconds; `cmd` and `tile` are -1 where there is none."""

    seq: int
    t_start_ps: int
    t_end_ps: int
    component: str
    op_kind: str
    op_name: str
    request: str
    cmd: int
    tile: int
    nbytes: int
    flops: int
    src: str
    params: Mapping[str, Any] | None

    @property
    def duration_ps(self) -> int:
        return self.t_end_ps - self.t_start_ps


class Interned:
    """The texts and parameter objects that records name by number; number 0 is none."""

    def __init__(self, components: Sequence[str]) -> None:
        self.components = tuple(components)  # index = topology index
        self.texts: list[str] = [""]
        self.params: list[Mapping[str, Any] | None] = [None]
        self.params_json: list[str] = ["null"]
        self._text_ids: dict[str, int] = {"": 0}
        self._params_ids: dict[str, int] = {"null": 0}

    def text(self, text: str) -> int:
        number = self._text_ids.get(text)
        if number is None:
            number = self._text_ids[text] = len(self.texts)
            self.texts.append(text)
        return number

    def parameters(self, params: Mapping[str, Any] | None) -> int:
        canonical = canonical_json(params)
        number = self._params_ids.get(canonical)
        if number is None:
            number = self._params_ids[canonical] = len(self.params)
            self.params.append(params)
            self.params_json.append(canonical)
        return number


class LogMark(NamedTuple):
    """How much has been appended."""

    full: int  # chunks
    position: int  # in the chunk after them
    repeats: list[int]  # how often each of the repeated has been
    extra: int


class OpLog:
    """Takes records. `add` is the one hot method."""

    def __init__(self, components: Sequence[str] | Interned) -> None:
        self.interned = components if isinstance(components, Interned) else Interned(components)
        self.intern = self.interned.text  # a name, a request or a place in a source → its number
        self.intern_params = self.interned.parameters
        self.count = 0
        self._full: list[bytearray] = []
        self._chunk = bytearray(_CHUNK_BYTES)
        self._position = 0
        self._table: OpTable | None = None
        self._counted: dict[tuple[str, int, int], int] = {}
        self._repeats: dict[int, tuple[NDArray[Any], list[tuple[int, int, int]]]] = {}  # by id of the rows
        self._extra: list[NDArray[Any]] = []  # appended packed
        self.under_way: dict[object, Callable[[], NDArray[Any]]] = {}  # records of what `repeat` gets at its end

    def add(
        self,
        t_start_ps: int,
        t_end_ps: int,
        component_index: int,
        kind: int,
        name_id: int,
        request: int,
        cmd: int = -1,
        tile: int = -1,
        stage: int = 0,
        nbytes: int = 0,
        flops: int = 0,
        src_id: int = 0,
        params: int = 0,
        _pack: Any = _PACK.pack_into,
    ) -> None:
        """Append a record. `name_id`, `request` and `src_id` come from `intern`, `params` from `intern_params`."""
        position = self._position
        _pack(
            self._chunk, position, t_start_ps, t_end_ps, nbytes, flops,
            component_index, name_id, request, cmd, tile, src_id, params, stage, kind,
        )  # fmt: skip
        position += 64
        self._position = position
        self.count += 1
        if position == _CHUNK_BYTES:
            self._full.append(self._chunk)
            self._chunk = bytearray(_CHUNK_BYTES)
            self._position = 0

    def counted(self, name: str, count: int, beside: int = 0) -> int:
        """`intern_params` of `{name: count}` and what `beside` names, which many records have."""
        found = self._counted.get((name, count, beside))
        if found is None:
            params = {**(self.interned.params[beside] or {}), name: count}
            found = self._counted[name, count, beside] = self.intern_params(params)
        return found

    def __len__(self) -> int:
        return self.count

    def repeat(self, rows: NDArray[Any], t_start_ps: int, request: int, cmd: int) -> None:
        """Append packed records (those of `rows()`) again: later by `t_start_ps`, of another request and command.

        They are not copied before somebody reads the log, so `rows` must stay as it is.
        """
        found = self._repeats.get(id(rows))
        if found is None:
            found = self._repeats[id(rows)] = rows, []
        found[1].append((t_start_ps, request, cmd))
        self.count += len(rows)

    def extend(self, rows: NDArray[Any]) -> None:
        """Append packed records, which must stay as they are."""
        self._extra.append(rows)
        self.count += len(rows)

    def mark(self) -> LogMark:
        """How much has been appended so far."""
        repeats = [len(times) for _, times in self._repeats.values()]
        return LogMark(len(self._full), self._position, repeats, len(self._extra))

    def rows_since(self, mark: LogMark) -> NDArray[Any]:
        """The records appended since, packed, in no order."""
        chunks = [*self._full[mark.full :], self._chunk[: self._position]]
        written = [np.frombuffer(chunk, _RECORD) for chunk in chunks]
        written[0] = written[0][mark.position // RECORD_BYTES :]
        before = [*mark.repeats, *[0] * (len(self._repeats) - len(mark.repeats))]
        repeated = [
            repeated_rows(rows, np.array(times[count:], np.int64))
            for (rows, times), count in zip(self._repeats.values(), before, strict=True)
            if len(times) > count
        ]
        return np.concatenate([*written, *repeated, *self._extra[mark.extra :]])

    def table(self) -> OpTable:
        """All records so far, in the log's order."""
        if self._table is None or len(self._table) != self.count or self.under_way:
            self._table = OpTable(_sorted(self.rows()), self.interned)
        return self._table

    def unordered(self) -> OpTable:
        """All records so far in no order, for sums over them."""
        return OpTable(self.rows(), self.interned)

    def rows(self) -> NDArray[Any]:
        """All records so far, packed, in no order."""
        chunks = [*self._full, self._chunk[: self._position]]
        written = [np.frombuffer(chunk, _RECORD) for chunk in chunks]
        repeated = [repeated_rows(rows, np.array(times, np.int64)) for rows, times in self._repeats.values()]
        return np.concatenate([*written, *repeated, *self._extra, *(rows() for rows in self.under_way.values())])


def repeated_rows(rows: NDArray[Any], times: NDArray[np.int64]) -> NDArray[Any]:
    """`rows` once for each (t_start_ps, request, cmd) of `times`."""
    made = np.tile(rows, (len(times), 1))
    start, request, cmd = (times[:, column, None] for column in range(3))
    made["t_start"] += start
    made["t_end"] += start
    made["request"], made["cmd"] = request, cmd
    return made.reshape(-1)


def _sorted(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows in the log's order. Most are told apart by their first keys; only the rest is compared by all."""
    place = (rows["component"].astype(np.int64) << 32) + rows["cmd"]
    part = (rows["tile"].astype(np.int64) << 24) + (rows["stage"].astype(np.int64) << 8) + rows["kind"]
    order = np.lexsort((part, place, rows["t_start"]))
    same = np.ones(max(len(order) - 1, 0), np.bool_)
    for key in (part, place, rows["t_start"]):
        found = key[order]
        same &= found[1:] == found[:-1]
    equal = np.zeros(len(order), np.bool_)
    equal[1:] |= same
    equal[:-1] |= same
    doubtful = np.flatnonzero(equal)
    if len(doubtful):
        few = order[doubtful]
        order[doubtful] = few[np.lexsort([rows[key][few] for key in reversed(_SORT_KEYS)])]
    return rows[order]


class OpTable:
    """Records in the log's order, `seq` being the place in it. Reading it gives `OpRecord`s."""

    def __init__(self, rows: NDArray[Any], interned: Interned, seq: NDArray[np.int64] | None = None) -> None:
        self.rows = rows
        self.interned = interned
        self.seq = np.arange(len(rows), dtype=np.int64) if seq is None else seq

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[OpRecord]:
        for start in range(0, len(self.rows), 4096):
            seqs = self.seq[start : start + 4096].tolist()
            for seq, row in zip(seqs, self.rows[start : start + 4096].tolist(), strict=True):
                yield self._record(seq, row)

    def __getitem__(self, index: int) -> OpRecord:
        return self._record(int(self.seq[index]), self.rows[index].item())

    def _record(self, seq: int, row: tuple[int, ...]) -> OpRecord:
        start, end, nbytes, flops, component, name, request, cmd, tile, src, params, _, kind, _ = row
        tables = self.interned
        return OpRecord(
            seq, start, end, tables.components[component], OP_KINDS[kind], tables.texts[name], tables.texts[request],
            cmd, tile, nbytes, flops, tables.texts[src], tables.params[params],
        )  # fmt: skip

    def column(self, name: str) -> NDArray[Any]:
        """One packed column: `t_start`, `t_end` in ps; `component`, `name`, `src`, `request` as numbers; …"""
        column: NDArray[Any] = self.rows[name]
        return column

    def select(self, mask: NDArray[np.bool_]) -> OpTable:
        return OpTable(self.rows[mask], self.interned, self.seq[mask])

    def where(
        self,
        op_kind: str | Iterable[str] | None = None,
        component: str | None = None,
        request: str | None = None,
        src: str | None = None,
    ) -> OpTable:
        """The records of one kind (or some), of one component, request or source place."""
        mask = np.ones(len(self.rows), np.bool_)
        if op_kind is not None:
            kinds = (op_kind,) if isinstance(op_kind, str) else op_kind
            mask &= np.isin(self.rows["kind"], [KIND[kind] for kind in kinds])
        if component is not None:
            mask &= self.rows["component"] == _find(self.interned.components, component)
        for key, text in (("request", request), ("src", src)):
            if text is not None:
                mask &= self.rows[key] == _find(self.interned.texts, text)
        return self.select(mask)

    def write_jsonl(self, stream: TextIO) -> None:
        """The canonical form: one JSON object a line, keys sorted, no wall-clock time and no host path."""
        texts = [canonical_json(text) if text else "null" for text in self.interned.texts]
        components = [canonical_json(name) for name in self.interned.components]
        for start in range(0, len(self.rows), 4096):
            seqs = self.seq[start : start + 4096].tolist()
            rows = self.rows[start : start + 4096].tolist()
            stream.writelines(self._line(s, r, texts, components) for s, r in zip(seqs, rows, strict=True))

    def _line(self, seq: int, row: tuple[int, ...], texts: list[str], components: list[str]) -> str:
        start, end, nbytes, flops, component, name, request, cmd, tile, src, params, _, kind, _ = row
        return (
            f'{{"cmd":{"null" if cmd < 0 else cmd},"component":{components[component]},"flops":{flops},'
            f'"nbytes":{nbytes},"op_kind":"{OP_KINDS[kind]}","op_name":{texts[name]},'
            f'"params":{self.interned.params_json[params]},"request":{texts[request]},"seq":{seq},"src":{texts[src]},'
            f'"t_end_ns":{ns_text(end)},"t_start_ns":{ns_text(start)},"tile":{"null" if tile < 0 else tile}}}\n'
        )


def _find(names: Sequence[str], name: str) -> int:
    """The number of a name, or one that no record has."""
    return names.index(name) if name in names else -1


def ns_text(ps: int) -> str:
    """Picoseconds as nanoseconds with three decimals, exactly."""
    sign = "-" if ps < 0 else ""
    return f"{sign}{abs(ps) // 1000}.{abs(ps) % 1000:03d}"


def canonical_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=dict)
