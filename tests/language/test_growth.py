"""Values that double or nest without end: each stays right, or is refused, in time that does not explode."""

from __future__ import annotations

import numpy as np
import pytest

from tests.language.running import refused, run

X = {"x_ptr": np.zeros(64, np.float32), "n": 3}
HEAD = "def k(x_ptr, n):\n    i = tl.arange(0, 16)\n"


@pytest.mark.parametrize("doubled", ["t + t", "t * 2", "t - (0 - t)", "2 * t + i - i"])
@pytest.mark.parametrize("start", ["n.to(tl.int64)", "i.to(tl.int64) + n", "tl.program_id(0).to(tl.int64) + 3"])
def test_doubled_integers_wrap(start: str, doubled: str) -> None:
    text = f"{HEAD}    t = {start}\n    for _ in tl.static_range(70):\n        t = {doubled}\n"
    if "i" in (start[0], doubled[-1]):
        text += "    tl.store(x_ptr + i, t.to(tl.float32))\n"
    else:
        text += "    tl.store(x_ptr, t.to(tl.float32))\n"

    assert not run(text, {**X, "x_ptr": np.ones(64, np.float32)})["x_ptr"][:1].any()


def test_a_mask_of_many_conditions_is_their_conjunction() -> None:
    text = f"""{HEAD}    t = i < n * 5
    for j in tl.static_range(200):
        t = t & (i % (j + 2) < n + 9)
    tl.store(x_ptr + i, 1.0, mask=t)
"""
    lanes = np.arange(16)
    live = (lanes < 15) & np.all([lanes % (j + 2) < 12 for j in range(200)], axis=0)

    assert np.array_equal(live, run(text, X)["x_ptr"][:16] == 1)


@pytest.mark.parametrize("grown", ["f'{t}{t}'", "t + t", "t * 9"])
def test_texts_have_a_measure(grown: str) -> None:
    text = f"{HEAD}    t = 'ab'\n    for _ in tl.static_range(60):\n        t = {grown}\n    tl.store(x_ptr, 1.0)\n"

    assert "E_CONSTANT_ARITHMETIC" == refused(text, X).code


@pytest.mark.parametrize(
    "bounds", ["1 << 70", "-(1 << 70), 1 << 70, 3", "1 << 70, 0, -1", "1 << 70, (1 << 70) + 1025", "0, 1 << 63"]
)
def test_unrolled_trips_are_counted_however_many_they_are(bounds: str) -> None:
    text = f"{HEAD}    for _ in tl.static_range({bounds}):\n        tl.store(x_ptr, 1.0)\n"

    assert "E_UNROLL_TOO_LARGE" == refused(text, X).code


@pytest.mark.parametrize("bounds", ["0", "5, 1", "1, 6", "0, 7, 3", "6, 0, -2", "1 << 70, (1 << 70) + 2", "0, 5, -1"])
def test_unrolled_trips_are_those_of_the_range(bounds: str) -> None:
    text = f"{HEAD}    c = 0\n    for _ in tl.static_range({bounds}):\n        c += 1\n    tl.store(x_ptr, c)\n"

    assert len(list(range(*eval(bounds + ",")))) == run(text, X)["x_ptr"][0]
