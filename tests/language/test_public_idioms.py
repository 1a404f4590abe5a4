"""Spellings that public kernels use beside the usual ones; against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.language.running import elementwise, refused, run

INTS = np.array([7, -7, 5, -(2**31), 2**31 - 1, 0, 3, -1], np.int32)


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("a.__lshift__(4)", INTS << 4),
        ("a.to(tl.int8).__lshift__(4).__rshift__(4)", (INTS.astype(np.int8) << 4 >> 4)),
        ("a.__and__(6).__or__(1).__xor__(2)", ((INTS & 6) | 1) ^ 2),
        ("a.__floordiv__(2)", np.trunc(INTS / 2)),
        ("a.__mod__(4)", np.fmod(INTS, 4)),
        ("tl.add(a, 1)", INTS + np.int32(1)),
        ("tl.core.sub(1, a, sanitize_overflow=False)", np.int32(1) - INTS),
        ("tl.mul(a, a)", INTS * INTS),
        ("a.__truediv__(2)", INTS.astype(np.float32) / 2),
    ],
)
def test_operators_as_functions_and_methods(expression: str, want: np.ndarray) -> None:
    with np.errstate(over="ignore"):
        got = elementwise(expression, INTS, out=np.float32 if "truediv" in expression else np.int32)

    np.testing.assert_array_equal(want, got)


def test_squeeze_and_unsqueeze() -> None:
    text = """
    def k(o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        column = tl.unsqueeze(i, -1).to(tl.float32)
        tl.store(o_ptr + i, tl.squeeze(column * 2, 1))
    """

    assert [0, 2, 4, 6] == run(text, {"o_ptr": np.zeros(4, np.float32)}, N=4)["o_ptr"].tolist()
    wrong = refused(
        text.replace("squeeze(column * 2, 1)", "squeeze(column, 0)"), {"o_ptr": np.zeros(4, np.float32)}, N=4
    )
    assert "E_BAD_AXIS" == wrong.code and "axis 0" in wrong.message


def test_the_value_of_a_dtype_constexpr() -> None:
    text = """
    def k(o_ptr, T: tl.constexpr):
        i = tl.arange(0, 4)
        tl.store(o_ptr + i, (i / 3).to(T.value))
    """
    got = run(text, {"o_ptr": np.zeros(4, np.float32)}, T="fp16")["o_ptr"]

    np.testing.assert_array_equal((np.arange(4) / 3).astype(np.float16).astype(np.float32), got)
