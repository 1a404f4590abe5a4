from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernbench import dtypes
from kernbench.diagnostics import KernBenchError
from kernbench.runtime.arguments import (
    ConstexprArgument,
    ScalarArgument,
    TensorArgument,
    TensorDescriptor,
    classify,
    grid_of,
)


@pytest.mark.parametrize(
    ("value", "signature"),
    [
        (0, "i32"),
        (2**31 - 1, "i32"),
        (-(2**31), "i32"),
        (2**31, "i64"),
        (-(2**63), "i64"),
        (True, "i1"),
        (1.5, "fp32"),
        (float("-inf"), "fp32"),
        (np.int64(3), "i32"),
        (np.uint64(2**40), "i64"),
        (np.float16(65500), "fp16"),
        (np.float32(0.1), "fp32"),
        (np.float64(0.1), "fp32"),
        (np.bool_(True), "i1"),
        (ml_dtypes.bfloat16(1.5), "fp32"),
    ],
)
def test_numbers_are_typed_as_triton_types_them(value: Any, signature: str) -> None:
    made = classify("n", value)

    assert isinstance(made, ScalarArgument)
    assert signature == made.signature
    assert made.value == made.message().value == value


@pytest.mark.parametrize("value", [None, "relu", (1, 2), dtypes.fp16])
def test_what_is_no_number_and_no_array_is_a_compile_time_value(value: Any) -> None:
    assert ConstexprArgument(value) == classify("n", value)


@pytest.mark.parametrize("dtype", dtypes.ALL)
def test_arrays_of_every_element_type(dtype: dtypes.DType) -> None:
    made = classify("x", np.zeros(3, dtype.numpy))

    assert isinstance(made, TensorArgument)
    assert f"*{dtype}" == made.signature


def test_a_cast_stores_floats_in_another_float() -> None:
    for name in ("bf16", "bfloat16", "fp8e4m3", "fp8e5m2", "fp64", dtypes.fp16):
        made = classify("x", np.zeros(3, np.float32), name)
        assert isinstance(made, TensorArgument)
        assert made.dtype is (name if isinstance(name, dtypes.DType) else dtypes.BY_NAME[name])


def test_a_pinned_type_wins_over_the_natural_one() -> None:
    assert "i64" == classify("n", 1, pinned="i64").signature  # type: ignore[union-attr]
    assert ScalarArgument(dtypes.fp32, 1) == classify("n", 1, pinned="fp32")
    assert ScalarArgument(dtypes.i32, 1) == classify("n", True, pinned="i32:16")
    assert "i64" == ScalarArgument(dtypes.u32, 7).message().dtype


@pytest.mark.parametrize(
    ("code", "value", "cast", "pinned"),
    [
        ("E_ARG_RANGE", 2**63, None, None),
        ("E_ARG_RANGE", -(2**200), None, None),
        ("E_ARG_RANGE", 1e39, None, None),
        ("E_ARG_RANGE", 2**31, None, "i32"),
        ("E_ARG_RANGE", -1, None, "u32"),
        ("E_ARG_RANGE", 65520.0, None, "fp16"),
        ("E_ARG_TYPE", 1.5, None, "i32"),
        ("E_ARG_TYPE", 1, None, "*fp32"),
        ("E_ARG_TYPE", [1, 2], None, None),
        ("E_ARG_TYPE", object(), None, None),
        ("E_ARG_TYPE", 1j, None, None),
        ("E_ARG_TYPE", np.complex64(1), None, None),
        ("E_ARG_DTYPE", np.zeros(2, np.complex64), None, None),
        ("E_ARG_DTYPE", np.zeros(2, ">f4"), None, None),
        ("E_ARG_DTYPE", np.array([None]), None, None),
        ("E_ARG_DTYPE", np.zeros(2, np.float32), "bf61", None),
        ("E_ARG_DTYPE", np.zeros(2, np.float32), "i32", None),
        ("E_ARG_DTYPE", np.zeros(2, np.int32), "bf16", None),
        ("E_ARG_DTYPE", 3, "bf16", None),
        ("E_ARG_TYPE", TensorDescriptor(np.zeros((4, 4)), (2,)), None, None),
        ("E_ARG_TYPE", TensorDescriptor(np.zeros((4, 4)), (2, 0)), None, None),
    ],
)
def test_what_no_kernel_takes_is_told_with_the_argument_s_name(code: str, value: Any, cast: Any, pinned: Any) -> None:
    with pytest.raises(KernBenchError) as caught:
        classify("n_cols", value, cast, pinned)

    (diagnostic,) = caught.value.diagnostics
    assert code == diagnostic.code
    assert "`n_cols`" in diagnostic.message


def test_a_descriptor_says_its_block_in_the_signature() -> None:
    made = classify("x", TensorDescriptor(np.zeros((4, 4), np.float16), [2, 4]))

    assert "tensordesc<fp16[2,4]>" == made.signature  # type: ignore[union-attr]


@pytest.mark.parametrize("grid", [4, [4], (4,), np.array([4]), (np.int32(4),), lambda meta: (meta["BLOCK"],)])
def test_grids_of_one_axis_may_be_given_in_many_forms(grid: Any) -> None:
    assert (4,) == grid_of(grid, {"BLOCK": 4})


def test_there_may_be_no_grid_and_no_program() -> None:
    assert grid_of(None, {}) is None
    assert (0,) == grid_of((0,), {})


@pytest.mark.parametrize("grid", [(), (4, 1, 1, 1), "4", (1.5,), (-1,), (True,), [[4]], (1 << 16, 1 << 15)])
def test_other_grids_are_refused(grid: Any) -> None:
    with pytest.raises(KernBenchError) as caught:
        grid_of(grid, {})

    assert "E_GRID" == caught.value.diagnostics[0].code
