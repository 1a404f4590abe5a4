"""Values in places where nobody means them to stand: each is told, none ends the compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kernbench.diagnostics import KernBenchError
from tests.language.running import kernel, refused, run

X = {"x_ptr": np.zeros(16, np.float32)}


def code(text: str, **constexprs: Any) -> str:
    return refused(text, X, **constexprs).code


@pytest.mark.parametrize("call", ["tl.join(tl.full, x)", "tl.maximum(tl.full, x)", "x + tl"])
def test_what_is_no_number_is_refused_as_an_operand(call: str) -> None:
    text = f"def k(x_ptr):\n    x = tl.load(x_ptr + tl.arange(0, 16))\n    tl.store(x_ptr, {call})\n"

    assert code(text) in ("E_VALUE_EXPECTED", "E_OPERAND_TYPE")


@pytest.mark.parametrize("value", [np.int8(3), np.float16(0.5), np.bool_(True), (np.int64(1), 2), 1 << 300, "text"])
def test_a_constexpr_of_any_plain_kind_is_listed(value: Any) -> None:
    found = run("def k(x_ptr, C: tl.constexpr):\n    tl.store(x_ptr, 1.0)\n", X, C=value)

    assert 1.0 == found["x_ptr"][0]


def test_a_constexpr_without_measure_is_refused() -> None:
    assert "E_BAD_CONSTEXPR" == code("def k(x_ptr, C: tl.constexpr):\n    tl.store(x_ptr, 1.0)\n", C=1 << 50_000)


def test_a_constexpr_that_is_a_function_is_no_value_of_a_listing() -> None:
    text = "def h(a):\n    return a\n\ndef k(x_ptr, C: tl.constexpr = h):\n    tl.store(x_ptr, 1.0)\n"
    try:
        compiled = kernel(text.replace("def k", "def main")).specialise({"x_ptr": "*fp32"})
    except KernBenchError as error:
        assert "E_WHICH_KERNEL" in str(error)
        return
    assert (("C", None),) == compiled.program.constexprs


@pytest.mark.parametrize("grid", [(1,), None])
def test_an_array_without_axes_is_a_tensor_of_one_element(grid: Any) -> None:
    found = run("def k(x_ptr):\n    tl.store(x_ptr, tl.load(x_ptr) + 1)\n", {"x_ptr": np.array(2.0, np.float32)}, grid)

    assert (3.0, ()) == (found["x_ptr"], found["x_ptr"].shape)


def test_leaving_an_array_without_axes_is_told() -> None:
    text = "def k(x_ptr):\n    tl.store(x_ptr + tl.arange(0, 16), 1.0)\n"

    assert "E_OUT_OF_BOUNDS" == refused(text, {"x_ptr": np.array(2.0, np.float32)}).code


def test_a_placement_of_what_is_no_array_is_refused() -> None:
    made = kernel("def k(x_ptr, n, C: tl.constexpr):\n    tl.store(x_ptr, n)\n")
    for name in ("n", "C"):
        with pytest.raises(KernBenchError) as caught:
            kb.open("ahbm_1x1").run(made, {**X, "n": 3, "C": 4}, None, {name: kb.replicate()})
        assert ["E_PLACEMENT"] == [each.code for each in caught.value.diagnostics]
