"""An op of a composite whose types its micro-op does not take is told with its line, before any device sees it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.language.running import refused


@pytest.mark.parametrize(
    "entry",
    [
        '{"op": "and", "src_a": x, "src_b": x}',
        '{"op": "dequant_int4", "q": x, "scale": x}',
        '{"op": "shl", "src_a": x, "src_b": 3}',
    ],
)
def test_an_op_that_has_no_result_for_its_types_is_told(entry: str) -> None:
    body = "    i = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]\n    x = tl.load(x_ptr + i)\n"
    found = refused(
        f"def k(x_ptr):\n{body}    y = tl.composite(prologue=[{entry}])\n    tl.store(x_ptr + i, x)\n",
        {"x_ptr": np.zeros(256, np.float32)},
    )

    assert "E_COMPOSITE_OPERAND" == found.code
