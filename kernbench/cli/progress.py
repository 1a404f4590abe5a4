"""One line on stderr that says how far a long run is; nothing where stderr is no terminal."""

from __future__ import annotations

import time
from typing import Any, TextIO

QUIET_SECONDS = 1.0  # shorter runs show nothing
INTERVAL_SECONDS = 0.2


class ProgressLine:
    """Shows simulated time, commands done and PEs done, rewritten in place."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.enabled = stream.isatty()
        self.started = self.shown = time.perf_counter()
        self.dirty = False

    def show(self, progress: Any) -> None:
        now = time.perf_counter()
        if not self.enabled or now - self.started < QUIET_SECONDS or now - self.shown < INTERVAL_SECONDS:
            return
        self.shown, self.dirty = now, True
        text = f"{progress.now_ps / 1e6:.1f} us simulated, {progress.commands} commands, {progress.pes_done} PEs done"
        self.stream.write(f"\r\x1b[K{text}")
        self.stream.flush()

    def clear(self) -> None:
        if self.dirty:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
