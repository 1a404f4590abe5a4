"""Philox of the references, against the known answers that come with Random123."""

from __future__ import annotations

import numpy as np
import pytest

from kernbench.runtime.expressions import ExpressionError, evaluate, parse_expression
from kernbench.runtime.philox import philox, rand

ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "expected"), ANSWERS)
def test_known_answers(counter: str, key: str, expected: str) -> None:
    low, high = words(key)
    a, b, c, d = (np.array([word]) for word in words(counter))
    assert words(expected) == [int(word[0]) for word in philox(high << 32 | low, (a, b, c, d))]


def test_numbers_are_uniform_and_belong_to_seed_and_offset() -> None:
    numbers = rand(7, np.arange(100_000))

    assert np.float32 == numbers.dtype
    assert 0 <= numbers.min() and numbers.max() < 1
    assert np.allclose(np.histogram(numbers, 10, (0, 1))[0], 10_000, rtol=0.04)
    assert np.array_equal(numbers[500:600], rand(7, np.arange(500, 600)))
    assert not np.array_equal(numbers, rand(8, np.arange(100_000)))


def test_the_word_that_is_the_most_negative_integer_stays_below_one() -> None:
    """An integer i below 0 becomes -1 - i, so -2³¹ becomes 2³¹ - 1, whose fp32 is 2³¹."""
    assert np.float32(2**31) * np.float32(4.6566127342e-10) < 1


def test_it_is_a_function_of_expressions() -> None:
    names = {"n": 5, "seed": 3}
    assert np.array_equal(rand(3, np.arange(5)), evaluate(parse_expression("rand(seed, arange(n))"), names))
    with pytest.raises(ExpressionError, match="integers"):
        evaluate(parse_expression("rand(seed, 0.5)"), names)
