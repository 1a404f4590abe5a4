"""What each model of the device assumes, where it is exact and where it is not."""

from __future__ import annotations

from kernbench.explain.model import Topic

TOPICS: tuple[Topic, ...] = ()
