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


def test_a_block_pointer_advances_by_its_method() -> None:
    text = """
    def k(x_ptr, o_ptr, N: tl.constexpr):
        p = tl.make_block_ptr(x_ptr, (8,), (1,), (0,), (N,), (0,))
        tl.store(o_ptr + tl.arange(0, N), tl.load(p.advance([3]), boundary_check=(0,)))
    """
    args = {"x_ptr": np.arange(8, dtype=np.float32), "o_ptr": np.zeros(4, np.float32)}

    assert [3, 4, 5, 6] == run(text, args, N=4)["o_ptr"].tolist()


def test_isinstance_tells_the_classes_of_the_language_apart() -> None:
    text = """
    def kind(x):
        return 1 if isinstance(x, tl.tensor) else 2 if isinstance(x, (tl.tuple, tl.dtype)) else 3

    def k(o_ptr, n, N: tl.constexpr):
        i = tl.arange(0, 4)
        found = kind(i) + 10 * kind(n) + 100 * kind(o_ptr) + 1000 * kind((1, 2)) + 10000 * kind(N)
        tl.store(o_ptr + i, found + 100000 * kind(tl.float32) + 1000000 * isinstance(N, tl.constexpr))
    """
    args = {"o_ptr": np.zeros(4, np.int32), "n": 2}

    assert [1232111] * 4 == run(text, args, N=4)["o_ptr"].tolist()
    assert "E_OPERAND_TYPE" == refused(text.replace("tl.tensor)", "3)"), args, N=4).code


def test_a_function_is_given_as_a_constexpr_by_its_name() -> None:
    text = """
    def twice(x):
        return x * 2

    def square(x):
        return x * x

    def k(o_ptr, ACTIVATION: tl.constexpr):
        i = tl.arange(0, 4)
        if ACTIVATION == "both":
            i = twice(square(i))
        tl.store(o_ptr + i, ACTIVATION(i) if ACTIVATION else i)
    """
    for name, want in (("twice", [0, 2, 4, 6]), ("square", [0, 1, 4, 9]), (None, [0, 1, 2, 3])):
        assert want == run(text, {"o_ptr": np.zeros(4, np.int32)}, ACTIVATION=name)["o_ptr"].tolist()
    assert "E_NOT_CALLABLE" == refused(text, {"o_ptr": np.zeros(4, np.int32)}, ACTIVATION="cube").code


def test_a_pointer_is_a_condition() -> None:
    text = """
    def k(x_ptr, o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        value = tl.zeros((N,), tl.float32)
        if x_ptr:
            value += tl.load(x_ptr + i)
        tl.store(o_ptr + i, value if not x_ptr else value + 1)
    """
    x, o = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)

    assert [1, 2, 3, 4] == run(text, {"x_ptr": x, "o_ptr": o}, N=4)["o_ptr"].tolist()
    assert [0] * 4 == run(text, {"x_ptr": None, "o_ptr": o}, N=4)["o_ptr"].tolist()


def test_a_scalar_takes_colons_in_its_subscript() -> None:
    text = """
    def k(x_ptr, o_ptr, n, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i)
        total = tl.sum(x, axis=0)
        rows = n[:, None] * 4 + i[None, :]
        tl.store(o_ptr + rows, x[None, :] * total[:, None] + tl.program_id(0)[None, :])
    """
    x = np.arange(4, dtype=np.float32)

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros(8, np.float32), "n": 1}, N=4)["o_ptr"]

    assert [0, 0, 0, 0, 0, 6, 12, 18] == got.tolist()
    assert "E_BAD_SUBSCRIPT" == refused(text.replace("n[:, None]", "n[:]"), {"x_ptr": x, "o_ptr": x, "n": 1}, N=4).code


def test_attributes_by_name() -> None:
    text = """
    HAS_GATHER = hasattr(tl, "gather")
    best = getattr(tl, "no_such_function", tl.maximum)

    def k(o_ptr, FUNCTION: tl.constexpr):
        i = tl.arange(0, 4)
        tl.device_print(str(FUNCTION) + str(i))
        if HAS_GATHER and not hasattr(tl, "no_such_function") and hasattr(i, "dtype"):
            tl.store(o_ptr + i, getattr(tl, FUNCTION)(best(i, 2), 3))
    """
    o = np.zeros(4, np.int32)

    assert [2, 2, 2, 3] == run(text, {"o_ptr": o}, FUNCTION="minimum")["o_ptr"].tolist()
    assert "E_UNKNOWN_NAME" == refused(text, {"o_ptr": o}, FUNCTION="minimun").code
    assert "E_CALL_ARGUMENTS" == refused(text.replace("(tl, FUNCTION)", "(tl, 3)"), {"o_ptr": o}, FUNCTION="").code


COMBINES = {
    "returns": "if abs(a) >= abs(b):\n    return a\nelse:\n    return b",
    "names": "big = a\nif tl.abs(b) > tl.abs(a):\n    big = b\nreturn big",
    "nested": "if tl.abs(a) > tl.abs(b):\n    return a\nelif tl.abs(a) < tl.abs(b):\n    return b\nelse:\n    return a",
    "first": "if abs(a) >= abs(b):\n    return a\nreturn b",
    "second": "if abs(a) >= abs(b):\n    big = a\nelse:\n    return b\nreturn big",
    "inner": "if a > 0:\n    if abs(b) > a:\n        return b\n    return a\nreturn b if abs(b) > abs(a) else a",
    "ternary": "return a if tl.abs(a) >= tl.abs(b) else b",
}


@pytest.mark.parametrize("body", COMBINES.values(), ids=COMBINES)
def test_the_function_of_a_reduction_may_branch_on_its_elements(body: str) -> None:
    lines = "".join(
        f"        {line}\n" for line in body.replace("abs(", "tl.abs(").replace("tl.tl.", "tl.").splitlines()
    )
    text = f"""
    def further(a, b):
{lines}
    def k(x_ptr, o_ptr, s_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i[:, None] * N + i[None, :])
        tl.store(o_ptr + i, tl.reduce(x, 1, further))
        tl.store(s_ptr + i[:, None] * N + i[None, :], tl.associative_scan(x, 1, further))
    """
    x = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros(8, np.float32), "s_ptr": np.zeros((8, 8), np.float32)}, N=8)

    scan = np.stack([x[np.arange(8), np.abs(x[:, : n + 1]).argmax(1)] for n in range(8)], axis=1)
    np.testing.assert_array_equal(scan[:, -1], got["o_ptr"])
    np.testing.assert_array_equal(scan, got["s_ptr"])


def test_a_branch_that_some_elements_leave_is_refused() -> None:
    text = """
    def first(a, b):
        if a > 0:
            if a > b:
                return a
        return b

    def k(o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(o_ptr, tl.reduce(i * 2.0, 0, first))
    """
    assert "E_UNSUPPORTED_VALUE" == refused(text, {"o_ptr": np.zeros(1, np.float32)}, N=4).code


def test_a_run_time_value_under_constexpr_stays_one() -> None:
    text = """
    def k(o_ptr, n, N: tl.constexpr):
        groups: tl.constexpr = n // 4
        for g in range(groups):
            tl.store(o_ptr + g, groups * N)
    """
    assert [4, 4, 0] == run(text, {"o_ptr": np.zeros(3, np.int32), "n": 9}, N=2)["o_ptr"].tolist()
    wrong = refused(
        text.replace("range(groups)", "tl.arange(0, groups)"), {"o_ptr": np.zeros(3, np.int32), "n": 9}, N=2
    )
    assert "E_CONSTEXPR_NEEDED" == wrong.code


TORCH = """
import torch

LOWEST = torch.finfo(torch.float32).min
NARROW = torch.float8_e4m3fn
LARGEST: tl.constexpr = tl.constexpr(torch.finfo(NARROW).max)
FIRST = tl.constexpr(torch.iinfo(torch.int16).min)
TYPE = tl.float8e4b8 if torch.version.hip else tl.float16

def k(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i, mask=i < 2, other=LOWEST)
    if x_ptr.dtype.element_ty == torch.float32:  # as in Triton, no type of torch is one of the language
        x = x * 0
    if tl.constexpr(torch.version.hip is not None):
        x = x + 1
    tl.store(o_ptr + i, tl.where(x == LOWEST, LARGEST + FIRST, x.to(TYPE)))
"""


def test_limits_of_the_types_of_torch() -> None:
    got = run(TORCH, {"x_ptr": np.array([0.1, 2], np.float32), "o_ptr": np.zeros(4, np.float32)}, N=4)["o_ptr"]

    assert [float(np.float16(0.1)), 2, 448 - 2**15, 448 - 2**15] == got.tolist()


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("torch.seed()", "E_FOREIGN_NAME"),
        ("torch.finfo(torch.int32).max", "E_DTYPE_EXPECTED"),
        ("torch.iinfo(tl.int32).max", "E_DTYPE_EXPECTED"),
        ("torch.iinfo(torch.bool).max", "E_DTYPE_EXPECTED"),
        ("torch.iinfo(torch.int32).eps", "E_UNKNOWN_NAME"),
        ("tl.cast(1, torch.float32)", "E_DTYPE_EXPECTED"),
        ("torch.float32(1)", "E_UNSUPPORTED_BUILTIN"),
    ],
)
def test_what_kernels_cannot_take_of_torch(expression: str, code: str) -> None:
    text = f"import torch\n\ndef k(o_ptr):\n    tl.store(o_ptr, {expression})\n"

    assert code == refused(text, {"o_ptr": np.zeros(1, np.float32)}).code


def test_broadcast_lifts_the_lower_rank() -> None:
    text = """
    def k(x_ptr, o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i)
        cube = i[:, None, None] * 100 + i[None, :, None] * 10 + i[None, None, :] * 0
        lifted, same = tl.broadcast(x, cube)
        seven, _ = tl.broadcast(7, cube)
        at = i[:, None, None] * N * N + i[None, :, None] * N + i[None, None, :]
        tl.store(o_ptr + at, lifted + same + seven)
    """
    got = run(text, {"x_ptr": np.arange(4, dtype=np.int32), "o_ptr": np.zeros((4, 4, 4), np.int32)}, N=4)["o_ptr"]

    i = np.arange(4)
    assert (i[:, None, None] * 100 + i[None, :, None] * 10 + i + 7).tolist() == got.tolist()


def test_the_smallest_first_and_a_bitonic_sequence() -> None:
    text = """
    def k(x_ptr, o_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        x = tl.load(x_ptr + i)
        tl.store(o_ptr + i, tl.bitonic_merge(x))
        tl.store(o_ptr + N + i, tl.bitonic_merge(x, descending=True))
        tl.store(o_ptr + 2 * N + tl.arange(0, 2), tl.topk(x, 2, descending=False))
        tl.store(o_ptr + 2 * N + 2 + tl.arange(0, 2), tl.topk(x, 2))
    """
    x = np.array([1, 3, 5, 7, 6, 4, 2, 0], np.int32)

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros(20, np.int32)}, N=8)["o_ptr"].tolist()

    assert [*range(8), *range(7, -1, -1), 0, 1, 7, 6] == got
