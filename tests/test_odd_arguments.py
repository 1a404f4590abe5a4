"""What a script passes by mistake is told, whatever it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kernbench.diagnostics import KernBenchError, shown
from tests.language.running import kernel

ODD: tuple[Any, ...] = (
    1 << 50_000, b"x", [1, [2]], {"x": 1}, np.array("text"), np.zeros((2, 2)), np.zeros(3, "M8[s]"), object(), 1j, None,
    float("nan"), set(),
)  # fmt: skip
TEXT = "def k(x_ptr, n):\n    tl.store(x_ptr, n)\n"


def codes(work: Any) -> set[str]:
    with pytest.raises(KernBenchError) as caught:
        work()
    return {each.code for each in caught.value.diagnostics}


def run(**options: Any) -> Any:
    args = {"x_ptr": np.zeros(4, np.int32), "n": 3}
    return kb.open("ahbm_1x1").run(kernel(TEXT), args, **{"grid": (1,), **options})


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_odd_values_are_told(value: Any) -> None:
    assert {"E_MODE"} == codes(lambda: run(mode=value))
    assert {"E_OPTION_VALUE"} == codes(lambda: kb.open("ahbm_1x1", sanitize=value))
    assert {"E_OPT_LEVEL"} == codes(lambda: kb.compile(f"import triton\n@triton.jit\n{TEXT}", opt_level=value))
    if value is not None:
        assert {"E_GRID"} == codes(lambda: run(grid=value))
        assert {"E_ARG_DTYPE"} == codes(lambda: run(dtypes={"x_ptr": value}))
        assert {"E_PLACEMENT"} == codes(lambda: run(placements={"x_ptr": value}))
        assert {"E_OPTION_VALUE"} == codes(lambda: kb.open("ahbm_1x1", limits=value))


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_a_type_that_is_no_text_is_no_type(value: Any) -> None:
    source = f"import triton\nimport triton.language as tl\n\n\n@triton.jit\n{TEXT}"

    assert "E_BAD_SIGNATURE" in codes(lambda: kb.compile(source, signature={"x_ptr": "*i32", "n": value}))


def test_a_shown_value_is_one_short_line() -> None:
    assert "'a'" == shown("a")
    assert 61 == len(shown("a" * 100))
    assert "a value of type int that is too large to write" == shown(1 << 50_000)
    assert "\n" not in shown(np.zeros((9, 9)))
