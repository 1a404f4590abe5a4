from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench import dtypes
from kernbench.runtime.expressions import ExpressionError, evaluate, names_in, parse_expression
from kernbench.runtime.functions import FUNCTIONS

RNG = np.random.default_rng(0)
NAMES: dict[str, Any] = {
    "Q": RNG.standard_normal((2, 3, 4)),
    "K": RNG.standard_normal((2, 5, 4)),
    "V": RNG.standard_normal((2, 5, 6)),
    "x": np.arange(12).reshape(3, 4),
    "n": 7,
    "D": 4,
}


def value(text: str) -> Any:
    return evaluate(parse_expression(text), NAMES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("-2 ** 2", -4),
        ("2 ** 3 ** 2", 512),
        ("7 // 2 * 2 + 7 % 2", 7),
        ("-7 // 2", -4),
        ("7 / 2", 3.5),
        ("1 << 3 | 1", 9),
        ("6 & 3 ^ 1", 3),
        ("~5", -6),
        ("0x10 + 1e1", 26.0),
        (".5 + 1.", 1.5),
        ("cdiv(n, 2)", 4),
        ("max(n, 2, D)", 7),
        ("min(n, 2.5)", 2.5),
        ("n > 3", True),
        ("(1, n,)", (1, 7)),
        ("[n, D]", (7, 4)),
        ("()", ()),
        ("x.shape", (3, 4)),
        ("x.T.shape[0]", 4),
        ("sum(x)", 66),
        ("int(3.7)", 3),
        ("pi > 3", True),
        ("None", None),
        ("'ab'", "ab"),
    ],
)
def test_scalars_and_tuples(text: str, expected: Any) -> None:
    assert expected == value(text)
    assert type(expected) is type(value(text)) or isinstance(value(text), np.generic)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x[1]", NAMES["x"][1]),
        ("x[:, None, ..., 1:3]", NAMES["x"][:, None, ..., 1:3]),
        ("x[::-1, -1]", NAMES["x"][::-1, -1]),
        ("x.sum(axis=-1, keepdims=True)", NAMES["x"].sum(-1, keepdims=True)),
        ("where(x > 5, x, 0)", np.where(NAMES["x"] > 5, NAMES["x"], 0)),
        ("maximum(x, 3)", np.maximum(NAMES["x"], 3)),
        ("max(x, axis=0)", NAMES["x"].max(0)),
        ("transpose(Q)", NAMES["Q"].swapaxes(-1, -2)),
        ("transpose(Q, (2, 0, 1))", NAMES["Q"].transpose(2, 0, 1)),
        ("reshape(x, 4, 3)", NAMES["x"].reshape(4, 3)),
        ("reshape(x, (2, -1))", NAMES["x"].reshape(2, -1)),
        ("arange(2, 6)[None] * 2", np.array([[4, 6, 8, 10]])),
        ("einsum('bij,bkj->bik', Q, K)", np.einsum("bij,bkj->bik", NAMES["Q"], NAMES["K"])),
        ("cumsum(x, axis=1)", NAMES["x"].cumsum(1)),
        ("rsqrt(mean(Q * Q, axis=-1) + 1e-6)", 1 / np.sqrt((NAMES["Q"] ** 2).mean(-1) + 1e-6)),
        ("tril(ones((3, 3)))", np.tril(np.ones((3, 3)))),
    ],
)
def test_arrays(text: str, expected: Any) -> None:
    np.testing.assert_allclose(expected, value(text), rtol=1e-14)


def test_attention_as_benches_write_it() -> None:
    scores = NAMES["Q"] @ NAMES["K"].swapaxes(1, 2) / 2.0
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)

    np.testing.assert_allclose(weights @ NAMES["V"], value("softmax(Q @ transpose(K) / sqrt(D)) @ V"), rtol=1e-12)


def test_astype_rounds_and_stays_wide() -> None:
    made = evaluate(parse_expression("astype(y, fp16)"), {"y": np.array([1 + 2.0**-12, 70000.0])})

    assert np.float64 == made.dtype
    assert [1.0, np.inf] == made.tolist()
    assert [255, 0] == value("astype(x[0, :2] - 1, u8)").tolist()


def test_softmax_of_a_row_of_minus_infinity_harms_no_other() -> None:
    made = evaluate(parse_expression("softmax(y)"), {"y": np.array([[-np.inf, 0.0], [1.0, 1.0]])})

    assert [[0.0, 1.0], [0.5, 0.5]] == made.tolist()


def test_names_are_those_that_are_no_constants() -> None:
    assert ("a", "b", "c") == names_in(parse_expression("a[b] + sqrt(c) * pi + astype(a, fp16)"))


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("", "E_EXPRESSION_SYNTAX", "empty"),
        ("1 +", "E_EXPRESSION_SYNTAX", "ends too early"),
        ("(1", "E_EXPRESSION_SYNTAX", "ends too early"),
        ("n D", "E_EXPRESSION_SYNTAX", "`D` at column 3"),
        ("n $ 2", "E_EXPRESSION_SYNTAX", "`$` at column 3"),
        ("lambda: 1", "E_EXPRESSION_SYNTAX", "column 7"),
        ("n if n else D", "E_EXPRESSION_SYNTAX", "`if` at column 3"),
        ("-" * 500 + "1", "E_EXPRESSION_SYNTAX", "nested deeper"),
        ("1" * 20_000, "E_EXPRESSION_SYNTAX", "characters"),
        ("1" * 5_000, "E_EXPRESSION_SYNTAX", "digits"),
        ("m + 1", "E_EXPRESSION_NAME", "`m` at column 1"),
        ("sofmax(x)", "E_EXPRESSION_NAME", "`sofmax`"),
        ("__import__('os')", "E_EXPRESSION_NAME", "`__import__`"),
        ("x.__class__", "E_EXPRESSION_NAME", "`.__class__`"),
        ("x.tofile('f')", "E_EXPRESSION_NAME", "`tofile`"),
        ("sum(x, out=x)", "E_EXPRESSION_NAME", "`out`"),
        ("sum(x, axis=0, axis=1)", "E_EXPRESSION_NAME", "`axis`"),
        ("9 ** 9 ** 9", "E_EXPRESSION_VALUE", "bits"),
        ("1 << 10 ** 9", "E_EXPRESSION_VALUE", "bits"),
        ("zeros(10 ** 12)", "E_EXPRESSION_VALUE", "elements"),
        ("arange(10 ** 12)", "E_EXPRESSION_VALUE", "elements"),
        ("repeat(x, 10 ** 12)", "E_EXPRESSION_VALUE", "elements"),
        ("arange(10 ** 6)[:, None] * arange(10 ** 6)", "E_EXPRESSION_VALUE", "elements"),
        ("1 // 0", "E_EXPRESSION_VALUE", "zero"),
        ("Q @ V", "E_EXPRESSION_VALUE", "float64 [2, 3, 4], float64 [2, 5, 6]"),
        ("x[9]", "E_EXPRESSION_VALUE", "out of bounds"),
        ("n[0]", "E_EXPRESSION_VALUE", "`[]`"),
        ("'a' * 10 ** 9", "E_EXPRESSION_VALUE", "operands"),
        ("(1, 2) + 1", "E_EXPRESSION_VALUE", "operands"),
        ("sqrt()", "E_EXPRESSION_VALUE", "`sqrt`"),
        ("astype(x, 'object')", "E_EXPRESSION_VALUE", "element type"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, code: str, says: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        value(text)

    assert code == caught.value.code
    assert says in caught.value.message


def test_a_nearest_name_is_offered() -> None:
    with pytest.raises(ExpressionError) as caught:
        value("sofmax(x)")

    assert "did you mean `softmax`?" == caught.value.help


WORDS = (
    "n", "x", "Q", "T", "None", "(", ")", "[", "]", ",", ":", ".", "...", "+", "-", "**", "@", "//", "=", "1", "2.5",
    "sum", "'a'",
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=12))
def test_no_text_ends_in_a_traceback(words: list[str]) -> None:
    text = " ".join(words)
    try:
        value(text)
    except ExpressionError as wrong:
        assert wrong.message


def test_every_function_can_be_reached_by_a_name_of_the_grammar() -> None:
    for name in FUNCTIONS:
        assert "call" == parse_expression(f"{name}(x)").kind
    assert not FUNCTIONS.keys() & dtypes.BY_NAME.keys() - {"int", "float"}


@pytest.mark.parametrize(("text", "help"), [("rows", "names are BLOCK, n"), ("fp23", "did you mean `fp32`?")])
def test_help_names_what_the_bench_has_and_of_the_types_only_a_near_one(text: str, help: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(parse_expression(text), {"n": 1, "BLOCK": 2})

    assert help == caught.value.help
