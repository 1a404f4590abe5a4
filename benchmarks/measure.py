"""Time two things in one process and print their ratio as one JSON line.

The anchor is measured next to the figure, so that a slow or busy machine slows both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

REPEATS = 3


def best_seconds(work: Callable[[], Any], repeats: int = REPEATS) -> float:
    """The shortest of a few runs, in processor time: what the machine can do when nothing else disturbs it."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def report(name: str, figure: float, anchor: float, unit: str, goal: str, **more: Any) -> None:
    """One line: the figure, the anchor in the same unit, their ratio and the goal for it."""
    line = {
        "name": name,
        "figure": figure,
        "anchor": anchor,
        "unit": unit,
        "ratio": figure / anchor,
        "goal": goal,
        **more,
    }
    print(json.dumps({key: _short(value) for key, value in line.items()}), flush=True)


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def simpy_timeouts_per_second(count: int = 200_000) -> float:
    """The rate of bare timeouts of one SimPy process."""
    import simpy

    def ticking(env: simpy.Environment) -> Any:
        for _ in range(count):
            yield env.timeout(1)

    def run() -> None:
        env = simpy.Environment()
        env.process(ticking(env))
        env.run()

    return count / best_seconds(run)
