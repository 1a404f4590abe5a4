"""Make the text of a case that fails shorter, while it fails in the same way.

Knows lines and tokens. Does not know what fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.fuzz.judge import Verdict
from tests.fuzz.mutations import tokens_of

MAX_SECONDS = 20.0


def shrunk(case: Any, verdict: Verdict, judge: Callable[[Any], Verdict]) -> Any:
    """Without each line, then without each token, that the failure does not need."""
    end = time.monotonic() + MAX_SECONDS

    def fails(text: str) -> bool:
        return time.monotonic() < end and judge(replace(case, text=text)).key == verdict.key

    lines = _without(case.text.split("\n"), lambda kept: fails("\n".join(kept)))
    tokens = _without(tokens_of("\n".join(lines)), lambda kept: fails("".join(kept)))
    return replace(case, text="".join(tokens))


def _without(parts: list[str], still: Callable[[list[str]], bool]) -> list[str]:
    """Fewer of the parts: first large pieces are left out, then single ones."""
    size = max(1, len(parts) // 2)
    while True:
        place = 0
        while place < len(parts):
            kept = parts[:place] + parts[place + size :]
            if still(kept):
                parts = kept
            else:
                place += size
        if size == 1:
            return parts
        size //= 2
