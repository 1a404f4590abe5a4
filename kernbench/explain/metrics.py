"""The keys of `run --json` and the terms of its `terms_ns`."""

from __future__ import annotations

from kernbench.explain.model import Metric

METRICS: tuple[Metric, ...] = ()
