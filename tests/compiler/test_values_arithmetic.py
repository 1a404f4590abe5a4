"""Types and values of operators: Triton's promotion, literals, wrapping, truncating division."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernbench.compiler.builder import Builder
from kernbench.compiler.faults import Fault
from kernbench.compiler.values import Block, Const, Scalar, Value, type_text
from kernbench.diagnostics import Span
from kernbench.dtypes import BY_NAME, DType
from tests.compiler.elaborating import error_of, run

AT = Span("k.tl", 1, 1, 1, 2)


def block(builder: Builder, dtype: str, shape: tuple[int, ...] = (4,)) -> Value:
    return Block(builder.new_block(BY_NAME[dtype], shape))


def scalar(builder: Builder, dtype: str) -> Scalar:
    return builder.bind_scalar("s", BY_NAME[dtype])[0]


def result_type(op: str, lhs: str, rhs: Any) -> str:
    """`lhs` and `rhs` are types of blocks, `s:TYPE` run-time scalars, or literals."""
    builder = Builder()
    sides = [
        Const(side)
        if not isinstance(side, str)
        else scalar(builder, side[2:])
        if side.startswith("s:")
        else block(builder, side)
        for side in (lhs, rhs)
    ]
    method = builder.compare if op in ("<", "==") else builder.binary
    return type_text(method(op, sides[0], sides[1], AT)).removesuffix("[4]")


@pytest.mark.parametrize(
    ("op", "lhs", "rhs", "expected"),
    [
        # a literal gives way unless its kind is higher
        ("+", "fp16", 1.5, "float16"),
        ("+", "fp16", 7, "float16"),
        ("+", "bf16", 0.1, "bfloat16"),
        ("*", "i8", 3, "int8"),
        ("*", "u8", 255, "uint8"),
        ("+", "i32", 0.5, "float32"),
        ("+", "i1", 1, "int32"),
        ("&", "u8", 15, "uint8"),
        ("+", "fp64", 1.5, "float64"),
        # division and remainder of halves are in fp32, quotients of integers too
        ("/", "fp16", 2, "float32"),
        ("/", "bf16", 2.0, "float32"),
        ("%", "fp16", 2.0, "float32"),
        ("/", "i32", 2, "float32"),
        ("/", "i64", "i64", "float32"),
        ("/", "fp16", "fp16", "float32"),
        # two run-time values promote, scalars like blocks
        ("+", "fp16", "bf16", "float16"),
        ("+", "bf16", "bf16", "bfloat16"),
        ("+", "bf16", "i32", "float32"),
        ("+", "fp16", "i32", "float16"),
        ("+", "fp16", "s:fp32", "float32"),
        ("*", "fp8e5", "fp8e4nv", "float16"),
        ("+", "i32", "u32", "uint32"),
        ("+", "i64", "u32", "int64"),
        ("+", "i8", "i16", "int16"),
        ("+", "i32", "s:i64", "int64"),
        ("+", "u8", "i8", "uint8"),
        ("<", "fp16", 1.0, "int1"),
    ],
)
def test_the_type_of_a_result(op: str, lhs: str, rhs: Any, expected: str) -> None:
    assert expected == result_type(op, lhs, rhs)


@pytest.mark.parametrize(
    ("op", "lhs", "rhs", "code"),
    [
        ("+", "u8", 256, "E_LITERAL_RANGE"),
        ("+", "u32", -1, "E_LITERAL_RANGE"),
        ("+", "i32", 1 << 70, "E_LITERAL_RANGE"),
        ("//", "fp32", 2, "E_OPERAND_TYPE"),
        ("&", "fp32", 1, "E_OPERAND_TYPE"),
        ("/", "i32", "u32", "E_OPERAND_TYPE"),
        ("%", "u8", "i8", "E_OPERAND_TYPE"),
        ("@", "fp32", "fp32", "E_UNSUPPORTED_OPERATOR"),
    ],
)
def test_what_an_operator_refuses(op: str, lhs: str, rhs: Any, code: str) -> None:
    with pytest.raises(Fault) as found:
        result_type(op, lhs, rhs)

    assert code == found.value.diagnostic.code


def test_constants_are_pythons() -> None:
    text = """
    def k(o, A: tl.constexpr):
        tl.store(o, A // 2)
        tl.store(o + 1, A % 4)
        tl.store(o + 2, 2**5 + (A << 1))
    """

    assert [-4, 1, 18] == list(run(text, {"o": np.zeros(3, np.int32)}, {"A": -7})["o"])


def test_run_time_integers_truncate_and_wrap() -> None:
    text = """
    def k(o, a, b):
        tl.store(o, a // 2)
        tl.store(o + 1, a % 4)
        tl.store(o + 2, b + b)
        tl.store(o + 3, (b + b) // 2)
        tl.store(o + 4, b * 3)
        tl.store(o + 5, a >> 1)
        tl.store(o + 6, (b + b > 0).to(tl.int32))
    """

    found = run(text, {"o": np.zeros(7, np.int64), "a": -7, "b": 2**31 - 1})["o"]

    assert [-3, -3, -2, -1, 2**31 - 3, -4, 0] == list(found)


def test_widening_takes_the_wrapped_value_and_a_wide_factor_does_not_wrap() -> None:
    text = """
    def k(o, a, b):
        tl.store(o, (a * b).to(tl.int64))
        tl.store(o + 1, a.to(tl.int64) * b)
    """
    a, b = 319, 7_864_320

    found = run(text, {"o": np.zeros(2, np.int64), "a": a, "b": b})["o"]

    assert [a * b - 2**32, a * b] == list(found)


def test_a_product_in_an_address_does_not_wrap() -> None:
    builder = Builder()
    pointer, register = builder.bind_tensor("x", BY_NAME["fp32"])
    pid = builder.special("program_id_0")

    moved = builder.binary("+", pointer, builder.binary("*", pid, Const(7_864_320), AT), AT)

    assert "4*7864320" not in str(moved)
    assert ((register, 1), (register + 1, 4 * 7_864_320)) == moved.address.terms  # type: ignore[union-attr]


def test_mixed_signs_compare_as_unsigned() -> None:
    text = """
    def k(o, x, y):
        i = tl.arange(0, 2)
        tl.store(o + i, tl.load(x + i) < tl.load(y + i))
    """
    args = {"o": np.zeros(2, np.bool_), "x": np.array([-1, 1], np.int32), "y": np.array([5, 5], np.uint32)}

    assert [False, True] == list(run(text, args)["o"])


def test_unsigned_arithmetic_wraps_and_shifts_in_zeros() -> None:
    text = """
    def k(o, x):
        i = tl.arange(0, 2)
        v = tl.load(x + i)
        tl.store(o + i, (v - 3) >> 4)
        tl.store(o + 2 + i, v // 3)
        tl.store(o + 4 + i, v ^ 255)
    """
    x = np.array([2, 250], np.uint8)

    found = run(text, {"o": np.zeros(6, np.uint8), "x": x})["o"]

    assert [15, 15, 0, 83, 253, 5] == list(found)


def test_int1_arithmetic_is_modulo_two() -> None:
    text = """
    def k(o, x, y):
        i = tl.arange(0, 4)
        a = tl.load(x + i) > 0
        b = tl.load(y + i) > 0
        tl.store(o + i, a + b)
        tl.store(o + 4 + i, a * b)
    """
    x, y = np.array([0, 0, 1, 1], np.int32), np.array([0, 1, 0, 1], np.int32)

    found = run(text, {"o": np.zeros(8, np.bool_), "x": x, "y": y})["o"]

    assert [False, True, True, False, False, False, False, True] == list(found)


def test_literals_round_to_the_type_they_take() -> None:
    text = """
    def k(o, x):
        i = tl.arange(0, 1)
        v = tl.load(x + i)
        tl.store(o + i, (v * 0.1).to(tl.float32))
        tl.store(o + 1 + i, v / 10)
    """

    found = run(text, {"o": np.zeros(2, np.float32), "x": np.ones(1, np.float16)})["o"]

    assert [np.float32(np.float16(0.1)), np.float32(1) / np.float32(10)] == list(found)


def test_bf16_casts_round_to_nearest_even() -> None:
    text = """
    def k(o, x):
        i = tl.arange(0, 4)
        tl.store(o + i, tl.load(x + i, mask=i < 3).to(tl.bfloat16))
    """
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20], np.float32)

    found = run(text, {"o": np.zeros(4, ml_dtypes.bfloat16), "x": x})["o"]

    assert [1.0, 1.015625, 1.0078125, 0.0] == [float(v) for v in found]


def test_negation_of_zero_and_of_the_smallest_integer() -> None:
    text = """
    def k(o, p, x, n):
        i = tl.arange(0, 1)
        tl.store(o + i, -tl.load(x + i))
        tl.store(p, -n)
    """
    found = run(
        text, {"o": np.ones(1, np.float32), "p": np.zeros(1, np.int32), "x": np.zeros(1, np.float32), "n": -(2**31)}
    )

    assert not np.signbit(found["o"][0])
    assert -(2**31) == found["p"][0]


def test_a_scalar_of_another_type_keeps_its_value() -> None:
    text = """
    def k(o, a, b):
        tl.store(o, a + b + 1)
    """

    assert 3.5 == run(text, {"o": np.zeros(1, np.float32), "a": 1.5, "b": 1})["o"][0]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("a = 1 // 0", "E_CONSTANT_ARITHMETIC"),
        ("a = 2 ** 100000", "E_CONSTANT_ARITHMETIC"),
        ("a = 1 << 100000", "E_CONSTANT_ARITHMETIC"),
        ("a = 'ab' * 100000", "E_CONSTANT_ARITHMETIC"),
        ("a = 'a' + n", "E_VALUE_EXPECTED"),
        ("a = x * 2", "E_OPERAND_TYPE"),
        ("a = x + x", "E_OPERAND_TYPE"),
        ("a = x + 1.5", "E_OPERAND_TYPE"),
        ("a = 1 - x", "E_OPERAND_TYPE"),
        ("a = -x", "E_VALUE_EXPECTED"),
        ("a = n + None", "E_VALUE_EXPECTED"),
    ],
)
def test_mistakes_in_arithmetic(body: str, code: str) -> None:
    assert code == error_of(f"def k(x, n):\n    {body}\n", {"x": "*fp32", "n": "i32"}).code


def test_the_inner_operator_is_blamed_for_shapes() -> None:
    text = "def k(x):\n    a = tl.arange(0, 8)\n    c = a + (a * tl.arange(0, 4))\n"

    found = error_of(text, {"x": "*fp32"})

    assert "E_SHAPE_MISMATCH" == found.code
    assert "shapes [8] and [4] do not broadcast" == found.message
    assert found.primary is not None and found.primary.source[found.primary.span.column - 1 :].startswith("a * tl")


def test_literal_types() -> None:
    from kernbench.compiler.conversions import literal_type

    def name(value: Any) -> str | None:
        dtype: DType | None = literal_type(value)
        return None if dtype is None else dtype.triton

    assert ["int1", "int32", "uint32", "int64", "uint64", None] == [
        name(value) for value in (True, -(2**31), 2**31, 2**32, 2**63, 2**64)
    ]
    assert ["float32", "float32", "float64", "float32"] == [name(v) for v in (0.0, 1e30, 1e300, float("nan"))]
