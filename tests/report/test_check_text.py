"""What a run says of its results: readable whatever the errors are."""

import numpy as np

from kernbench.report.check_text import check_text
from kernbench.runtime.reference import compare


def test_a_result_that_is_right_says_how_far_off_it_was_and_might_have_been() -> None:
    entry = compare(np.array([2.0, 0.25]), np.array([2.0, 0.0]), 0.0, 0.5)
    text = check_text({"y": entry}, 0.0, 0.5)
    assert text == "check      y: ok (max abs err 0.25, max rel err not finite; allowed: rtol 0, atol 0.5)"


def test_a_result_that_is_wrong_says_where_and_what_was_expected() -> None:
    entry = compare(np.array([[2.0, np.nan]]), np.array([[2.5, 1.0]]), 0.01, 0.0)
    text = check_text({"y": entry}, 0.01, 0.0)
    assert text.splitlines() == [
        "check      y: DIFFERS in 2 of 2 elements (max abs err not finite, max rel err not finite; "
        "allowed: rtol 0.01, atol 0)",
        "           most at [0, 1]: nan instead of 1.0",
    ]


def test_a_bench_without_tolerance_is_told_of() -> None:
    text = check_text({"y": compare(np.array([1.0]), np.array([1.5]), 0.0, 0.0)}, 0.0, 0.0)
    assert "allowed: none; `tolerance` in the bench file allows some" in text
