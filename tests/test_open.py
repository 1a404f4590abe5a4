"""Opening a device with options, and how a failed run is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kernbench.diagnostics import EXIT_USAGE
from kernbench.sim.engine import Limits, Progress

BEYOND = """\
import triton
import triton.language as tl


@triton.jit
def beyond(x_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i + 1, tl.load(x_ptr + i))
"""


def scale(device: Any) -> Any:
    text = BEYOND.replace("i + 1", "i")
    return device.run(kb.compile(text, BLOCK=8), x_ptr=np.ones(8, np.float32))


@pytest.mark.parametrize(
    ("options", "code", "help_text"),
    [
        ({"hop": True}, "E_OPTION_UNKNOWN", "hops"),
        ({"mode": "data"}, "E_OPTION_UNKNOWN", "options are"),
        ({"sanitize": "eror"}, "E_OPTION_VALUE", "error"),
        ({"limits": 3}, "E_OPTION_VALUE", "Limits"),
    ],
)
def test_an_option_that_a_device_does_not_have_is_told(options: Any, code: str, help_text: str) -> None:
    with pytest.raises(kb.KernBenchError) as caught:
        kb.open("ahbm_1x1", **options)

    (diagnostic,) = caught.value.diagnostics
    assert (code, EXIT_USAGE) == (diagnostic.code, caught.value.exit_code)
    assert help_text in (diagnostic.help or "")


def test_all_wrong_options_are_told_together() -> None:
    with pytest.raises(kb.KernBenchError) as caught:
        kb.open("ahbm_1x1", hop=True, sanitise="off")

    assert ["did you mean `hops`?", "did you mean `sanitize`?"] == [d.help for d in caught.value.diagnostics]


def test_options_reach_the_device() -> None:
    told: list[Progress] = []
    device = kb.open("ahbm_1x1", hops=True, sanitize="off", limits=Limits(look_every=1), on_progress=told.append)
    run = scale(device)

    assert told
    assert run.op_log is not None and len(run.op_log.where(op_kind="hop"))


def test_a_device_fault_is_told_once_at_its_line_with_the_pe() -> None:
    device = kb.open("ahbm_1x1")
    with pytest.raises(kb.KernBenchError) as caught:
        device.run(kb.compile(BEYOND, BLOCK=8), x_ptr=np.ones(8, np.float32))

    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.primary is not None
    assert ("E_OUT_OF_BOUNDS", 8) == (diagnostic.code, diagnostic.primary.span.line)
    assert (1, 1) == tuple(caught.value.render().count(word) for word in ("sip0.cube0.pe0", ":8:"))
    assert not caught.value.run.ok


def test_numbers_of_every_scalar_type_launch() -> None:
    text = BEYOND.replace("def beyond(x_ptr,", "def k(x_ptr, a, b, c, d,").replace("i + 1", "i")
    text = text.replace("tl.load(x_ptr + i)", "tl.load(x_ptr + i) + a + b + c + d")
    types = {"x_ptr": "*fp32", "a": "u32", "b": "i8", "c": "bf16", "d": "fp16"}
    kernel = kb.compile(text, signature=types, BLOCK=8)
    run = kb.open("ahbm_1x1").run(kernel, x_ptr=np.zeros(8, np.float32), a=3, b=-1, c=1.5, d=0.25)

    np.testing.assert_array_equal(np.full(8, 3.75, np.float32), run["x_ptr"])
