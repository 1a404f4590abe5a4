"""A run that somebody stops says so, with what it had."""

from __future__ import annotations

import numpy as np
import pytest

import kernbench as kb
from kernbench.diagnostics import EXIT_INTERRUPTED
from kernbench.sim.engine import Limits
from tests.language.running import kernel

LONG = "def k(x_ptr):\n    i = 0\n    while i < 1 << 30:\n        tl.store(x_ptr + i % 4, 1.0)\n        i += 1\n"


def test_a_run_that_is_interrupted_says_so() -> None:
    def stop(_progress: object) -> None:
        raise KeyboardInterrupt

    device = kb.open("ahbm_1x1", on_progress=stop, limits=Limits(look_every=100))
    with pytest.raises(kb.KernBenchError) as caught:
        device.run(kernel(LONG), {"x_ptr": np.zeros(4, np.float32)}, (1,))

    assert ["E_INTERRUPTED"] == [each.code for each in caught.value.diagnostics]
    assert EXIT_INTERRUPTED == caught.value.exit_code
    assert caught.value.run is not None
