"""Random numbers: Philox against its published test vectors and an implementation in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.language.running import run


def philox(seed: int, offset: Any, rounds: int = 10) -> list[Any]:
    """Four words of 32 bits for each counter (low word of offset, high word, 0, 0)."""
    wide, mask = offset.astype(np.uint64), np.uint64(0xFFFFFFFF)
    c = [wide & mask, wide >> np.uint64(32), *(np.zeros(offset.shape, np.uint64) for _ in range(2))]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    for _ in range(rounds):
        b, a = c[2] * np.uint64(0xCD9E8D57), c[0] * np.uint64(0xD2511F53)
        c = [
            (b >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            b & mask,
            (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            a & mask,
        ]
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return [word.astype(np.uint32) for word in c]


def uniform(word: Any) -> Any:
    signed = word.view(np.int32)
    return np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(4.6566127342e-10)


def test_the_reference_matches_the_published_vectors() -> None:
    """Salmon et al., kat_vectors of Random123: philox4x32-10 of counter 0 and key 0."""
    words = philox(0, np.zeros(1, np.uint32))

    assert [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8] == [int(word[0]) for word in words]


@pytest.mark.parametrize("seed", [0, 42, 2**31 - 1, 2**40 + 12345])
def test_words_and_uniform_numbers(seed: int) -> None:
    text = """
    def k(w_ptr, u_ptr, seed, start, N: tl.constexpr):
        i = tl.arange(0, N)
        a, b, c, d = tl.randint4x(seed, start + i)
        tl.store(w_ptr + i, a)
        tl.store(w_ptr + N + i, b)
        tl.store(w_ptr + 2 * N + i, c)
        tl.store(w_ptr + 3 * N + i, d)
        tl.store(u_ptr + i, tl.rand(seed, start + i))
    """
    want = philox(seed, np.arange(1000, 1016, dtype=np.uint32))

    args = {"w_ptr": np.zeros((4, 16), np.uint32), "u_ptr": np.zeros(16, np.float32), "seed": seed, "start": 1000}
    out = run(text, args, N=16)

    assert [word.tolist() for word in want] == out["w_ptr"].tolist()
    assert uniform(want[0]).tolist() == out["u_ptr"].tolist()
    assert 0 <= out["u_ptr"].min() and out["u_ptr"].max() < 1


@pytest.mark.parametrize("start", [5, 2**32 - 3, 2**40 + 7, -4])
def test_offsets_of_64_bits_are_two_words(start: int) -> None:
    text = """
    def k(w_ptr, u_ptr, start, N: tl.constexpr):
        i = tl.arange(0, N)
        offset = start + i.to(tl.int64)
        tl.store(w_ptr + i, tl.randint(42, offset))
        tl.store(u_ptr + i, tl.rand(42, offset))
    """
    want = philox(42, np.arange(start, start + 8, dtype=np.int64))[0]

    out = run(text, {"w_ptr": np.zeros(8, np.uint32), "u_ptr": np.zeros(8, np.float32), "start": start}, N=8)

    assert want.tolist() == out["w_ptr"].tolist()
    assert uniform(want).tolist() == out["u_ptr"].tolist()


def test_small_offsets_are_widened() -> None:
    text = """
    def k(w_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(w_ptr + i, tl.randint(42, i.to(tl.int8)))
    """
    want = philox(42, np.arange(8, dtype=np.uint32))[0]

    assert want.tolist() == run(text, {"w_ptr": np.zeros(8, np.uint32)}, N=8)["w_ptr"].tolist()


def test_normal_numbers_and_fewer_rounds() -> None:
    text = """
    def k(n_ptr, w_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(n_ptr + i, tl.randn(7, i))
        tl.store(w_ptr + i, tl.randint(7, i, n_rounds=3))
    """
    offsets = np.arange(64, dtype=np.uint32)
    first, second, *_ = (uniform(word) for word in philox(7, offsets))
    radius = np.sqrt(-2 * np.log(np.maximum(first, np.float32(1e-7))))

    out = run(text, {"n_ptr": np.zeros(64, np.float32), "w_ptr": np.zeros(64, np.uint32)}, N=64)

    np.testing.assert_allclose(radius * np.cos(2 * np.pi * second), out["n_ptr"], rtol=1e-4, atol=1e-6)
    assert philox(7, offsets, 3)[0].tolist() == out["w_ptr"].tolist()


def test_dropout_keeps_the_share_that_it_should() -> None:
    text = """
    def k(x_ptr, o_ptr, p, seed, N: tl.constexpr):
        i = tl.program_id(0) * N + tl.arange(0, N)
        keep = tl.rand(seed, i) > p
        tl.store(o_ptr + i, tl.where(keep, tl.load(x_ptr + i) / (1 - p), 0.0))
    """
    args = {"x_ptr": np.ones(2048, np.float32), "o_ptr": np.zeros(2048, np.float32), "p": 0.25, "seed": 3}

    out = run(text, args, grid=(2,), N=1024)["o_ptr"]

    want = np.where(uniform(philox(3, np.arange(2048, dtype=np.uint32))[0]) > 0.25, np.float32(1 / 0.75), 0)
    np.testing.assert_allclose(want, out, rtol=1e-6)
