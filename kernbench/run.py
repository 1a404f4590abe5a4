"""What came of a run: arrays, times, the log, and what bounded it. Plain data, and its faces as text and JSON.

Does not know how anything was run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernbench import dtypes
from kernbench.compiler.pipeline import CompiledKernel
from kernbench.diagnostics import EXIT_INPUT, Diagnostic, KernBenchError, did_you_mean
from kernbench.runtime.api import Phase, Sent
from kernbench.runtime.errors import error
from kernbench.runtime.tensor import Array
from kernbench.sim.host_request import Handle
from kernbench.sim.op_log import OpTable
from kernbench.sim.summary import EngineUse, LinkUse, Summary

RUN_SCHEMA = "kernbench.run/1"


@dataclass
class Run:
    """One launch and what belongs to it. `run[name]` is an array argument as the device left it."""

    kernel: str
    topology: str
    mode: str
    config_hash: str  # of the resolved topology
    sent: Sent
    phases_ps: Mapping[Phase, int]
    op_log: OpTable | None = None
    handle: Handle | None = None  # of the launch, where it came to that
    times: Summary | None = None  # where the launch's time went
    arrays: dict[str, Array | None] = field(default_factory=dict)  # None: without values
    shapes: dict[str, tuple[tuple[int, ...], str]] = field(default_factory=dict)  # of each array: shape, type
    stored: tuple[str, ...] = ()  # the arrays that the kernel may store to, in the order of its parameters
    diagnostics: tuple[Diagnostic, ...] = ()
    compiled: CompiledKernel | None = None  # what ran

    def __getitem__(self, name: str) -> Array:
        if name not in self.shapes:
            text = f"the run of `{self.kernel}` has no array `{name}`"
            help_text = did_you_mean(name, tuple(self.shapes), "arrays")
            raise KernBenchError([error("E_ARG_UNKNOWN", text, help=help_text)], EXIT_INPUT)
        array = self.arrays.get(name)
        if array is None:
            why = "it failed" if not self.ok else f"it was made in {self.mode} mode"
            text = f"the run of `{self.kernel}` has no values of `{name}`: {why}"
            raise KernBenchError([error("E_NO_DATA", text, help='run in mode "data"')], EXIT_INPUT)
        return array

    @property
    def ok(self) -> bool:
        return not any(found.severity == "error" for found in self.diagnostics)

    @property
    def total_ns(self) -> float:
        """The launch alone, from submission to completion."""
        return self.handle.total_ps / 1000 if self.handle is not None and self.handle.done else 0.0

    @property
    def pe_exec_ns(self) -> dict[str, float]:
        """From the barrier to the end of each PE."""
        spans = {} if self.handle is None else self.handle.pe_exec_ps
        return {f"sip{sip}.cube{cube}.pe{pe}": ps / 1000 for (sip, cube, pe), ps in spans.items()}

    @property
    def commands(self) -> int:
        return 0 if self.handle is None else sum(result.commands for result in self.handle.results.values())

    @property
    def phases_ns(self) -> dict[str, float]:
        return {phase: ps / 1000 for phase, ps in self.phases_ps.items()}

    @property
    def terms_ns(self) -> dict[str, float]:
        """What adds up to `total_ns`."""
        return {} if self.times is None else self.times.terms_ns

    @property
    def bound_by(self) -> str | None:
        return None if self.times is None else self.times.bound_by

    @property
    def engines(self) -> Mapping[str, EngineUse]:
        return {} if self.times is None else self.times.engines

    @property
    def links(self) -> tuple[LinkUse, ...]:
        return () if self.times is None else self.times.links

    def summary(self, warnings: bool = True) -> str:
        """A few lines for a person: what ran, how long it took, what bounded it, and the terms of the time."""
        pes = len(self.pe_exec_ns)
        terms = [f"  {term:<16} {ns:>16.3f} ns" for term, ns in self.terms_ns.items()]
        lines = [
            f"kernel     {self.kernel}",
            f"topology   {self.topology}",
            f"mode       {self.mode}",
            f"time       {self.total_ns:.3f} ns, {_counted(pes, 'PE')}, {_counted(self.commands, 'command')}",
            f"bound by   {self.bound_by or 'n/a'}",
            *(["terms", *terms] if terms else []),
            *(found.render() for found in self.diagnostics if warnings),
        ]
        return "\n".join(lines)

    def to_json(self, check: Mapping[str, Any] | None = None, outputs: tuple[str, ...] | None = None) -> dict[str, Any]:
        """What `run --json` prints, without `version`. `check` are the results held against a reference."""
        names = self.stored if outputs is None else outputs
        checked = dict(check or {})
        spread = self.pe_exec_ns.values()
        return {
            "schema": RUN_SCHEMA,
            "kernel": self.kernel,
            "topology": self.topology,
            "mode": self.mode,
            "ok": self.ok and all(result["ok"] for result in checked.values()),
            "total_ns": self.total_ns,
            "phases_ns": self.phases_ns,
            "pe_exec_ns": {"min": min(spread, default=0.0), "max": max(spread, default=0.0)},
            "commands": self.commands,
            "op_records": 0 if self.op_log is None else len(self.op_log),
            "engines": {
                name: {"busy_ns": use.busy_ps / 1000, "utilization": use.utilization}
                for name, use in self.engines.items()
            },
            "links": [
                {"name": link.name, "bytes": link.nbytes, "utilization": link.utilization} for link in self.links
            ],
            "bound_by": self.bound_by,
            "terms_ns": self.terms_ns,
            "outputs": {name: self._output(name) for name in names},
            "check": checked,
            "config_hash": self.config_hash,
            "errors": [found.to_json() for found in self.diagnostics if found.severity == "error"],
            "warnings": [found.to_json() for found in self.diagnostics if found.severity != "error"],
        }

    def _output(self, name: str) -> dict[str, Any]:
        shape, dtype = self.shapes[name]
        array = self.arrays.get(name)
        digest = None if array is None else hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
        return {"shape": list(shape), "dtype": dtype, "sha256": digest}


def type_name(array: Array) -> str:
    """The short name of an array's element type."""
    found = dtypes.from_numpy(array.dtype)
    assert found is not None, f"a run took an array of {array.dtype}"
    return found.name


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
