"""A device as a table for people, and its schema as a list of keys. Does not compute anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass

from kernbench.report.topology_facts import Facts, Level
from kernbench.yaml_schema import KeyDoc

NAMES = {
    "pes": "PEs",
    "io_chiplets": "IO chiplets",
    "links": "links, each direction",
    "hbm_a_pe": "HBM of a PE",
    "hbm": "HBM of the device",
    "tcm_a_pe": "TCM of a PE",
    "tcm": "TCM of the device",
}


def facts_text(facts: Facts) -> str:
    return "\n".join(_lines(facts))


def _lines(facts: Facts) -> Iterator[str]:
    yield f"topology {facts.name}"
    yield f"config   {facts.config_hash[:16]}"
    yield from _block("Counts", [(NAMES.get(name, name), str(count)) for name, count in facts.counts.items()])
    yield from _block("Capacity", [(NAMES[name], size_text(size)) for name, size in facts.capacities_bytes.items()])
    yield from _peak(facts)
    yield from _bandwidth(facts.bandwidths)
    cuts = [(f"{cut.name}, {cut.cut}", f"{cut.total_gbs:g} GB/s over {cut.links} links") for cut in facts.bisections]
    yield from _block("Bisection, one direction", cuts or [("none", "one cube with one router")])
    shares = [(name, f"{100 * share:.3g} %") for name, share in facts.hbm_efficiency.items()]
    yield from _block("HBM efficiency by access pattern", shares)
    if facts.notes:
        yield "\nNotes"
        yield from (f"  {note}" for note in facts.notes)


def _peak(facts: Facts) -> Iterator[str]:
    yield "\nPeak, and the ridge point over HBM"
    rows = [("dtype", "a PE", "device", "ridge, FLOP/byte")]
    rows += [
        (dtype, flops_text(facts.pe_peak_flops[dtype]), flops_text(flops), f"{facts.ridge_flop_per_byte[dtype]:.1f}")
        for dtype, flops in facts.peak_flops.items()
    ]
    yield from _columns(rows)
    yield f"  MATH: {facts.math_ops_per_s / 10**12:g} T elements/s in the device"


def _bandwidth(levels: Sequence[Level]) -> Iterator[str]:
    yield "\nBandwidth, GB/s a direction"
    rows = [("level", "one", "links", "all")]
    rows += [(level.name, _one(level), str(level.count), _gbs(level.total_gbs)) for level in levels]
    yield from _columns(rows)


def _one(level: Level) -> str:
    if level.least_gbs == level.most_gbs:
        return _gbs(level.least_gbs)
    return f"{_gbs(level.least_gbs)} to {_gbs(level.most_gbs)}"


def _gbs(rate: float | None) -> str:
    return "no limit" if rate is None else f"{rate:.10g}"


def flops_text(flops: int) -> str:
    return f"{flops / 10**12:.10g} TFLOP/s"


def size_text(nbytes: int) -> str:
    """Bytes, and the same in the largest binary unit that is whole or shows three digits."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if nbytes >= 1024**power:
            return f"{nbytes} B ({nbytes / 1024**power:.4g} {unit})"
    return f"{nbytes} B"


def _block(title: str, rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield f"\n{title}"
    width = max(len(name) for name, _ in rows)
    yield from (f"  {name:<{width}}  {value}" for name, value in rows)


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        rest = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        yield f"  {'  '.join([row[0].ljust(widths[0]), *rest])}".rstrip()


def schema_text(keys: Sequence[KeyDoc], more: Mapping[str, str]) -> str:
    """One line a key: its path, its type, what stands where it is left out, and what it is."""
    lines = [f"{name}: {doc}" for name, doc in more.items()]
    lines += [f"{key.path}: {key_text(key)}" for key in keys]
    return "\n".join(lines)


def key_text(key: KeyDoc) -> str:
    return f"{key.type}{_default(key)}. {key.doc}"


def _default(key: KeyDoc) -> str:
    if key.required:
        return ", required"
    if is_dataclass(key.default):
        return ", optional"
    return f", default {'null' if key.default is None else key.default}"
