"""Uniform random numbers by Philox 4x32 with 10 rounds, as Triton's `tl.rand` defines them, for references.

Written over NumPy from Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Knows nothing of how a
kernel or a device computes the same numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench.runtime.tensor import Array

_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_SCALE = np.float32(4.6566127342e-10)  # so that the largest integer stays below 1


def philox(seed: int, counters: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
    """Four words of 32 bits, as uint64, of each counter; the seed's low and high word are the key."""
    a, b, c, d = (np.asarray(word).astype(np.uint64) & _LOW for word in counters)
    keys = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(_ROUNDS):
        first, second = _MULTIPLIERS[0] * a, _MULTIPLIERS[1] * c  # of two words each
        key_b, key_d = (np.uint64(key) for key in keys)
        a, b, c, d = second >> _HALF ^ b ^ key_b, second & _LOW, first >> _HALF ^ d ^ key_d, first & _LOW
        keys = [(key + step) & 0xFFFFFFFF for key, step in zip(keys, _KEY_STEPS, strict=True)]
    return a, b, c, d


def rand(seed: Any, offsets: Any) -> Array:
    """Numbers of [0, 1), one for each offset, in fp32."""
    offsets = np.asarray(offsets)
    if offsets.dtype.kind not in "iu":
        raise TypeError("the second argument of rand is integers")
    nothing = np.zeros_like(offsets)
    words = philox(int(seed), (offsets, nothing, nothing, nothing))[0]
    signed = words.astype(np.uint32).view(np.int32)
    made: Array = np.where(signed < 0, -signed - 1, signed).astype(np.float32) * _SCALE
    return made
