"""What a probe found, as plain data: cases with their closed form, checks, remarks.

Times are kept in integer picoseconds; what people and JSON get is in nanoseconds. Does not know how anything was
measured or how it is printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Category = Literal["h2d", "d2h", "pe_dma", "contention"]
ROWS: tuple[Category, ...] = ("h2d", "d2h")  # one case a row of cubes

NBYTES = 32768
SWEEP_SIZES = (4096, 16384, 65536, 262144, 1048576)
SWEEP_LABELS = ("4KB", "16KB", "64KB", "256KB", "1MB")


@dataclass(frozen=True, slots=True)
class RouteHop:
    """One node of a case's way, by the closed form."""

    leg: str
    node: str
    in_ps: int  # cumulative, when the head of the transfer reaches the node
    out_ps: int  # and when it has passed the node's own overhead
    bytes_per_s: int | None  # of the link that leads here; None at the start of a leg, or where nothing limits it
    bottleneck: bool  # that link is what limits the transfer
    drain_ps: int = 0  # at the terminal hop

    @property
    def t_ns(self) -> float:
        return self.out_ps / 1000

    def to_json(self) -> dict[str, Any]:
        return {
            "leg": self.leg,
            "node": self.node,
            "t_ns": self.t_ns,
            "drain_ns": self.drain_ps / 1000,
            "bw_gbs": _gbs(self.bytes_per_s),
            "bottleneck": self.bottleneck,
        }


@dataclass(frozen=True, slots=True)
class FlowResult:
    """One of several transfers that share bandwidth."""

    name: str
    start_ps: int  # when its head has arrived and it begins to drain
    expected_ps: int
    actual_ps: int

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "start_ns": self.start_ps / 1000,
            "expected_ns": self.expected_ps / 1000,
            "actual_ns": self.actual_ps / 1000,
        }


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """The closed form at one size (ADR-0049 D3)."""

    label: str
    nbytes: int
    total_ps: int
    eff_bw_gbs: float
    util_pct: float

    def to_json(self) -> dict[str, Any]:
        total_ns = self.total_ps / 1000
        return {
            "label": self.label, "nbytes": self.nbytes, "total_ns": total_ns, "eff_bw_gbs": self.eff_bw_gbs,
            "util_pct": self.util_pct,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProbeCase:
    """One traffic pattern: what the simulator took, and what the closed form says.

    Of a contention case, overhead and wire are those of the flow that ends last, and the drain is what max-min
    fairness leaves between its head and its end; `nbytes` is what all flows carry together.
    """

    name: str
    category: Category
    hops: int  # borders of cubes crossed, the one from the IO chiplet too
    nbytes: int
    actual_ps: int
    overhead_ps: int
    drain_ps: int
    wire_ps: int
    bn_bytes_per_s: int | None
    route: tuple[RouteHop, ...]
    sweep: tuple[SweepPoint, ...] = ()
    flows: tuple[FlowResult, ...] = ()

    @property
    def formula_ps(self) -> int:
        return self.overhead_ps + self.drain_ps + self.wire_ps

    @property
    def residual_ps(self) -> int:
        return self.actual_ps - self.formula_ps

    @property
    def actual_ns(self) -> float:
        return self.actual_ps / 1000

    @property
    def total_ns(self) -> float:
        return self.actual_ns

    @property
    def overhead_ns(self) -> float:
        return self.overhead_ps / 1000

    @property
    def drain_ns(self) -> float:
        return self.drain_ps / 1000

    @property
    def wire_ns(self) -> float:
        return self.wire_ps / 1000

    @property
    def residual_ns(self) -> float:
        return self.residual_ps / 1000

    @property
    def eff_bw_gbs(self) -> float:
        return self.nbytes * 1000 / self.actual_ps

    @property
    def bn_bw_gbs(self) -> float | None:
        return _gbs(self.bn_bytes_per_s)

    @property
    def util_pct(self) -> float:
        return 100 * self.eff_bw_gbs / self.bn_bw_gbs if self.bn_bw_gbs else 0.0

    def to_json(self) -> dict[str, Any]:
        names = ("name", "category", "hops", "nbytes", "actual_ns", "overhead_ns", "drain_ns", "wire_ns")
        shown: dict[str, Any] = {name: getattr(self, name) for name in names}
        shown |= {name: getattr(self, name) for name in ("residual_ns", "eff_bw_gbs", "bn_bw_gbs", "util_pct")}
        shown["route"] = [hop.to_json() for hop in self.route]
        if self.flows:
            shown["flows"] = [flow.to_json() for flow in self.flows]
        return shown


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must hold; its line begins with `[v]` or `[x]`."""

    name: str
    ok: bool
    detail: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "ok": self.ok, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to know that is neither good nor bad, about a case or a comparison."""

    name: str
    text: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "text": self.text}


@dataclass(frozen=True)
class ProbeResult:
    topology: str
    config_hash: str
    cases: tuple[ProbeCase, ...]
    checks: tuple[Check, ...]
    info: tuple[Remark, ...]
    not_applicable: tuple[Remark, ...]  # cases that this topology does not have, and why

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    def of(self, category: Category) -> tuple[ProbeCase, ...]:
        return tuple(case for case in self.cases if case.category == category)

    def case(self, name: str) -> ProbeCase:
        return next(case for case in self.cases if case.name == name)

    def to_json(self) -> dict[str, Any]:
        """The document of `probe --json`, without its first two fields; docs/probe.md describes it."""
        return {
            "topology": self.topology,
            "config_hash": self.config_hash,
            "ok": self.ok,
            "cases": [case.to_json() for case in self.cases],
            "sweep": [
                {"name": case.name, "points": [point.to_json() for point in case.sweep]}
                for case in self.cases
                if case.sweep
            ],
            "checks": [check.to_json() for check in self.checks],
            "info": [remark.to_json() for remark in self.info],
            "not_applicable": [remark.to_json() for remark in self.not_applicable],
        }


def _gbs(bytes_per_s: int | None) -> float | None:
    return None if bytes_per_s is None else bytes_per_s / 10**9
