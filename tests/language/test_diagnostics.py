"""What a user reads for the mistakes that Triton users make: the line, the caret, what was found, what to write.

Each text was read as the kernel's writer would, before it was pinned. Line 7 is the first of a kernel's own text.
"""

from __future__ import annotations

import numpy as np
import pytest

from kernbench.diagnostics import KernBenchError
from tests.language.running import run

# name: (the kernel, what is told)
CASES: dict[str, tuple[str, str]] = {
    "a run-time number as a side, two helpers deep": (
        """
def block(p, size):
    return tl.load(p + tl.arange(0, size))

def total(p, size):
    return tl.sum(block(p, size), 0)

def k(x_ptr, o_ptr, n, N: tl.constexpr):
    tl.store(o_ptr, total(x_ptr, n))
""",
        """
error[E_CONSTEXPR_NEEDED]: `end` of tl.arange must be constexpr, but `n` (int32) is known at run time only
  --> k.tl:7:37
   |
 7 |     return tl.load(p + tl.arange(0, size))
   |                                     ^^^^
  ::: k.tl:11:19
   |
11 |     return tl.sum(block(p, size), 0)
   |                   -------------- called from here
  ::: k.tl:15:21
   |
15 |     tl.store(o_ptr, total(x_ptr, n))
   |                     --------------- called from here
   = help: declare the parameter as `n: tl.constexpr`
""",
    ),
    "a run-time number in a shape": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    acc = tl.zeros((N, n * 2), tl.float32)
""",
        """
error[E_CONSTEXPR_NEEDED]: `shape` of tl.zeros must be constexpr, but this int32 is known at run time only
 --> k.tl:7:24
  |
7 |     acc = tl.zeros((N, n * 2), tl.float32)
  |                        ^^^^^
  = help: compute it from constexpr parameters
""",
    ),
    "a run-time number of unrolled trips": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    for i in tl.static_range(n):
        tl.store(o_ptr + i, 1.0)
""",
        """
error[E_CONSTEXPR_NEEDED]: the stop of `tl.static_range` is int32, a constexpr is needed
 --> k.tl:7:14
  |
7 |     for i in tl.static_range(n):
  |              ^^^^^^^^^^^^^^^^^^ this range
  = help: use `range`, or make the value a `tl.constexpr`
""",
    ),
    "shapes at the inner operator, two helpers deep": (
        """
def scaled(tile, row):
    return 1.0 + tile * row

def outer(tile, row):
    return scaled(tile, row) - 3.0

def k(x_ptr, o_ptr, n, N: tl.constexpr):
    r, c = tl.arange(0, N), tl.arange(0, 4)
    tile = tl.load(x_ptr + r[:, None] * 4 + c[None, :])
    tl.store(o_ptr + r[:, None] * 4 + c[None, :], outer(tile, tl.load(x_ptr + r)))
""",
        """
error[E_SHAPE_MISMATCH]: shapes [8, 4] and [8] do not broadcast
  --> k.tl:7:18
   |
 7 |     return 1.0 + tile * row
   |                  ^^^^^^^^^^ axis 1 is 4 on one side and 8 on the other
  ::: k.tl:11:12
   |
11 |     return scaled(tile, row) - 3.0
   |            ----------------- called from here
  ::: k.tl:17:51
   |
17 |     tl.store(o_ptr + r[:, None] * 4 + c[None, :], outer(tile, tl.load(x_ptr + r)))
   |                                                   ------------------------------- called from here
   = help: a lower rank gets its new axes in front; write x[:, None] to add one behind
""",
    ),
    "a mask of another shape": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N), mask=tl.arange(0, 4) < n)
""",
        """
error[E_SHAPE_MISMATCH]: shapes [8] and [4] do not broadcast
 --> k.tl:7:47
  |
7 |     x = tl.load(x_ptr + tl.arange(0, N), mask=tl.arange(0, 4) < n)
  |                                               ^^^^^^^^^^^^^^^^^^^ axis 0 is 8 on one side and 4 on the other
""",
    ),
    "a value of another shape": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    tl.store(o_ptr + tl.arange(0, 4), tl.load(x_ptr + tl.arange(0, N)))
""",
        """
error[E_SHAPE_MISMATCH]: shapes [4] and [8] do not broadcast
 --> k.tl:7:39
  |
7 |     tl.store(o_ptr + tl.arange(0, 4), tl.load(x_ptr + tl.arange(0, N)))
  |                                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ axis 0 is 4 on one side and 8 on the other
""",
    ),
    "a pointer that is stored": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, x_ptr + i)
""",
        """
error[E_VALUE_EXPECTED]: a pointer cannot become float32
 --> k.tl:8:25
  |
8 |     tl.store(o_ptr + i, x_ptr + i)
  |                         ^^^^^^^^^ pointer<float32>[8]
  = help: read what it points to with tl.load; as a number, a pointer is a tl.int64
""",
    ),
    "a pointer in arithmetic": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    y = (x_ptr + tl.arange(0, N)) * 2.0
""",
        """
error[E_OPERAND_TYPE]: `*` of pointer<float32>[8] and constexpr 2.0
 --> k.tl:7:9
  |
7 |     y = (x_ptr + tl.arange(0, N)) * 2.0
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ a pointer takes only the addition of integers
  = help: read what it points to with tl.load
""",
    ),
    "a pointer in a function of a helper": (
        """
def activated(v):
    return tl.exp(v)

def k(x_ptr, o_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, activated(x_ptr + i))
""",
        """
error[E_VALUE_EXPECTED]: a number is needed, pointer<float32>[8] is given
  --> k.tl:7:19
   |
 7 |     return tl.exp(v)
   |                   ^
  ::: k.tl:12:25
   |
12 |     tl.store(o_ptr + i, activated(x_ptr + i))
   |                         -------------------- called from here
   = help: read what it points to with tl.load
""",
    ),
    "a pointer in a reduction, a comparison and a subscript": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    p = x_ptr + tl.arange(0, N)
    a = tl.sum(p, 0)
    b = p > 0.0
    c = x_ptr[0]
""",
        """
error[E_BLOCK_EXPECTED]: tl.sum takes a block, pointer<float32>[8] is given
 --> k.tl:8:16
  |
8 |     a = tl.sum(p, 0)
  |                ^
  = help: read what it points to with tl.load

error[E_OPERAND_TYPE]: `>` of pointer<float32>[8] and constexpr 0.0
 --> k.tl:9:9
  |
9 |     b = p > 0.0
  |         ^^^^^^^ a pointer compares with integers only
  = help: read what it points to with tl.load

error[E_BAD_SUBSCRIPT]: pointer<float32> cannot be subscripted
  --> k.tl:10:9
   |
10 |     c = x_ptr[0]
   |         ^^^^^^^^
   = help: write tl.load(pointer + offsets)
""",
    ),
    "a float as an offset": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N) * 1.5)
""",
        """
error[E_OPERAND_TYPE]: `+` of pointer<float32> and float32[8]
 --> k.tl:7:17
  |
7 |     x = tl.load(x_ptr + tl.arange(0, N) * 1.5)
  |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ a pointer takes only the addition of integers
  = help: an offset is an integer: cast it, for example with .to(tl.int32)
""",
    ),
    "a value where a pointer is needed": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(o_ptr, tl.load(x))
""",
        """
error[E_POINTER_EXPECTED]: tl.load needs a pointer, float32[8] is given
 --> k.tl:8:29
  |
8 |     tl.store(o_ptr, tl.load(x))
  |                             ^
  = help: add the offset to a pointer parameter of the kernel, for example x_ptr + offsets
""",
    ),
    "a block at a single pointer": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    tl.store(o_ptr, tl.load(x_ptr + tl.arange(0, N)))
""",
        """
error[E_SCALAR_EXPECTED]: `value` of tl.store is float32[8], but the pointer is a single one
 --> k.tl:7:21
  |
7 |     tl.store(o_ptr, tl.load(x_ptr + tl.arange(0, N)))
  |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = help: add a block of offsets to the pointer, for example tl.arange(0, N)
""",
    ),
    "a carried block that changes its type": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    acc = tl.zeros((N,), tl.float16)
    for i in range(n):
        acc += tl.load(x_ptr + i * N + tl.arange(0, N))
    tl.store(o_ptr + tl.arange(0, N), acc)
""",
        """
error[E_CARRIED_TYPE]: `acc` changes its type in the loop: it is float16[8] first and float32[8] then
 --> k.tl:9:9
  |
9 |         acc += tl.load(x_ptr + i * N + tl.arange(0, N))
  |         ^^^ here it is float32[8]
 ::: k.tl:7:5
  |
7 |     acc = tl.zeros((N,), tl.float16)
  |     --- before the loop it is float16[8]
  = help: start `acc` as float32, or cast what it gets in the loop: .to(tl.float16)
""",
    ),
    "a carried scalar that becomes a block": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    best = 0.0
    for i in range(n):
        best = tl.maximum(best, tl.load(x_ptr + i * N + tl.arange(0, N)))
    tl.store(o_ptr, best)
""",
        """
error[E_CARRIED_TYPE]: `best` changes its type in the loop: it is float32 first and float32[8] then
 --> k.tl:9:9
  |
9 |         best = tl.maximum(best, tl.load(x_ptr + i * N + tl.arange(0, N)))
  |         ^^^^ here it is float32[8]
 ::: k.tl:7:5
  |
7 |     best = 0.0
  |     ---- before the loop it is float32
  = help: start `best` as a block, for example tl.full((8,), 0, tl.float32)
""",
    ),
    "names that are not known": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    offsets = tl.arange(0, N)
    x = tl.load(x_ptr + ofsets)
    y = tl.exq(offsets)
    z = libdevice.tahn(offsets)
""",
        """
error[E_UNKNOWN_NAME]: the name `ofsets` is not known
 --> k.tl:8:25
  |
8 |     x = tl.load(x_ptr + ofsets)
  |                         ^^^^^^ not found
  = help: did you mean `offsets`?

error[E_UNKNOWN_NAME]: there is no `tl.exq`
 --> k.tl:9:12
  |
9 |     y = tl.exq(offsets)
  |            ^^^
  = help: did you mean `exp`?

error[E_UNKNOWN_NAME]: there is no `libdevice.tahn`
  --> k.tl:10:19
   |
10 |     z = libdevice.tahn(offsets)
   |                   ^^^^
   = help: did you mean `tanh`?
""",
    ),
    "a wrong number of values, in a helper": (
        """
def three(v):
    return v, v + 1, v + 2

def both(v):
    a, b = three(v)
    return a + b

def k(x_ptr, o_ptr, n, N: tl.constexpr):
    tl.store(o_ptr, both(n))
""",
        """
error[E_UNPACK]: 2 values are expected, 3 values found
  --> k.tl:11:5
   |
11 |     a, b = three(v)
   |     ^^^^ 2 names for 3 values
  ::: k.tl:16:21
   |
16 |     tl.store(o_ptr, both(n))
   |                     ------- called from here
   = help: name all 3 of them, or take some by their index: t[0]
""",
    ),
    "one value for two names": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    top, place = tl.max(tl.load(x_ptr + tl.arange(0, N)), 0)
""",
        """
error[E_UNPACK]: 2 values are expected, float32 is one value
 --> k.tl:7:5
  |
7 |     top, place = tl.max(tl.load(x_ptr + tl.arange(0, N)), 0)
  |     ^^^^^^^^^^ 2 names
""",
    ),
    "a tuple where a value is meant": (
        """
def two(v):
    return v, v + 1

def k(x_ptr, o_ptr, n, N: tl.constexpr):
    tl.store(o_ptr, two(n))
""",
        """
error[E_VALUE_EXPECTED]: a scalar is needed, tuple of 2 is given
  --> k.tl:11:21
   |
11 |     tl.store(o_ptr, two(n))
   |                     ^^^^^^
   = help: take one of its values, for example t[0], or unpack it: a, b = t
""",
    ),
    "a block as a condition": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    if tl.load(x_ptr + tl.arange(0, N)) > 0.0:
        tl.store(o_ptr, 1.0)
""",
        """
error[E_SCALAR_EXPECTED]: a condition is one value, int1[8] is given
 --> k.tl:7:8
  |
7 |     if tl.load(x_ptr + tl.arange(0, N)) > 0.0:
  |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = help: reduce it first, for example with tl.max(x, axis=0), or select with tl.where
""",
    ),
    "a kernel that returns a value": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    if n > 4:
        return
    return x + 1
""",
        """
error[E_KERNEL_RETURNS]: kernel `k` returns a value (float32[8])
  --> k.tl:10:12
   |
10 |     return x + 1
   |            ^^^^^ nobody gets this
   = help: store it: `tl.store(out_ptr + offsets, value)` with a pointer parameter `out_ptr`; or write `return`
""",
    ),
    "keywords of other functions, and one that is misspelt": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i, maks=i < n)
    y = tl.zeros((N,), tl.float32, value=1.0)
    tl.store(o_ptr + i, y, mask=i < n, other=0.0)
""",
        """
error[E_CALL_ARGUMENTS]: tl.load has no parameter `maks`
 --> k.tl:8:28
  |
8 |     x = tl.load(x_ptr + i, maks=i < n)
  |                            ^^^^^^^^^^
  = help: did you mean `mask`?

error[E_CALL_ARGUMENTS]: tl.zeros has no parameter `value`
 --> k.tl:9:36
  |
9 |     y = tl.zeros((N,), tl.float32, value=1.0)
  |                                    ^^^^^^^^^
  = help: leave it out: `value` belongs to tl.full, tl.full_like; tl.zeros takes shape, dtype
""",
    ),
    "the `other` of a load at a store": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, 1.0, mask=i < n, other=0.0)
""",
        """
error[E_CALL_ARGUMENTS]: tl.store has no parameter `other`
 --> k.tl:8:42
  |
8 |     tl.store(o_ptr + i, 1.0, mask=i < n, other=0.0)
  |                                          ^^^^^^^^^
  = help: leave it out: `other` belongs to tl.load; tl.store takes pointer, value, mask, boundary_check, \
cache_modifier, eviction_policy
""",
    ),
    "functions of Python's `math` on run-time numbers": (
        """
import math

def k(x_ptr, o_ptr, n, N: tl.constexpr):
    x = tl.load(x_ptr)
    tl.store(o_ptr, math.sqrt(n))
    tl.store(o_ptr, math.log10(x * x))
    tl.store(o_ptr, math.rsqrt(x))
    tl.store(o_ptr, tl.tanh(x))
""",
        """
error[E_CONSTEXPR_NEEDED]: `x` of math.sqrt must be constexpr, but `n` (int32) is known at run time only
  --> k.tl:10:31
   |
10 |     tl.store(o_ptr, math.sqrt(n))
   |                               ^
   = help: `math.sqrt` is Python's and takes constants; use `tl.sqrt` with `n.to(tl.float32)`

error[E_CONSTEXPR_NEEDED]: `x` of math.log10 must be constexpr, but this float32 is known at run time only
  --> k.tl:11:32
   |
11 |     tl.store(o_ptr, math.log10(x * x))
   |                                ^^^^^
   = help: `math.log10` is Python's and takes constants; use `tl.math.log10`

error[E_UNKNOWN_NAME]: there is no `math.rsqrt`
  --> k.tl:12:26
   |
12 |     tl.store(o_ptr, math.rsqrt(x))
   |                          ^^^^^
   = help: use `tl.rsqrt`

error[E_UNKNOWN_NAME]: there is no `tl.tanh`
  --> k.tl:13:24
   |
13 |     tl.store(o_ptr, tl.tanh(x))
   |                        ^^^^
   = help: use `tl.math.tanh`
""",
    ),
    "blocks that do not fit in TCM": (
        """
def shifted(x):
    return x - tl.max(x, 0)

def k(x_ptr, o_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N * 65536)
    tl.store(o_ptr + i, shifted(tl.load(x_ptr + i, mask=i < n)), mask=i < n)
""",
        """
error[E_TCM_OVERFLOW]: kernel `k` does not fit in TCM: 4194368 of 1572864 bytes are in use at once
  --> k.tl:7:12
   |
 7 |     return x - tl.max(x, 0)
   |            ^^^^^^^^^^^^^^^^ 4194368 bytes are needed here, 1572864 are there
  ::: k.tl:12:25
   |
12 |     tl.store(o_ptr + i, shifted(tl.load(x_ptr + i, mask=i < n)), mask=i < n)
   |                         --------------------------------------- called from here
   = note:    2097152 bytes  `t1`  k.tl:12
   = note:    2097152 bytes  `t3`  k.tl:7
   = note:         64 bytes  `t2`  k.tl:7
   = help: it fits with N = 2
""",
    ),
    "a type that no matrix engine takes, two helpers deep": (
        """
def product(a, b):
    return tl.dot(a, b)

def squared(a):
    return product(a, a)

def k(x_ptr, o_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i[:, None] * N + i[None, :])
    tl.store(o_ptr, tl.sum(squared(x.to(tl.float64))))
""",
        """
error[E_GEMM_DTYPE]: the target's matrix engine does not multiply fp64
  --> k.tl:7:12
   |
 7 |     return tl.dot(a, b)
   |            ^^^^^^^^^^^^ fp64 here
  ::: k.tl:11:12
   |
11 |     return product(a, a)
   |            ------------- called from here
  ::: k.tl:17:28
   |
17 |     tl.store(o_ptr, tl.sum(squared(x.to(tl.float64))))
   |                            ------------------------- called from here
   = help: it multiplies fp16, bf16, fp32, int8, fp8
""",
    ),
    "a missing mask, two helpers deep": (
        """
def read(p, i):
    return tl.load(p + i)

def doubled(p, i):
    return read(p, i) * 2.0

def k(x_ptr, o_ptr, n, N: tl.constexpr):
    i = 8 * N - 4 + tl.arange(0, N)
    tl.store(o_ptr + i, doubled(x_ptr, i), mask=i < 64)
""",
        """
error[E_OUT_OF_BOUNDS]: sip0.cube0.pe0: bytes 240 to 271 of tensor `x_ptr` are out of bounds, it holds 256 bytes
  --> k.tl:7:12
   |
 7 |     return tl.load(p + i)
   |            ^^^^^^^^^^^^^^ dimension 0 of [64] is left at index 67, 4 beyond its last
  ::: k.tl:11:12
   |
11 |     return read(p, i) * 2.0
   |            ---------- called from here
  ::: k.tl:16:25
   |
16 |     tl.store(o_ptr + i, doubled(x_ptr, i), mask=i < 64)
   |                         ----------------- called from here
   = help: give a `mask` that lets only lanes of index < 64 pass
""",
    ),
    "a missing mask of a store": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    i = 7 * N + 1 + tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < 64))
""",
        """
error[E_OUT_OF_BOUNDS]: sip0.cube0.pe0: bytes 228 to 259 of tensor `o_ptr` are out of bounds, it holds 256 bytes
 --> k.tl:8:5
  |
8 |     tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < 64))
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ dimension 0 of [64] is left at index 64, 1 beyond its last
  = help: give a `mask` that lets only lanes of index < 64 pass
""",
    ),
    "a loaded index outside of the tensor": (
        """
def k(x_ptr, o_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    index = tl.load(x_ptr + i).to(tl.int32) * 99
    tl.store(o_ptr + i, tl.load(x_ptr + index))
""",
        """
error[E_OUT_OF_BOUNDS]: sip0.cube0.pe0: bytes 396 to 399 of tensor `x_ptr` are out of bounds, it holds 256 bytes
 --> k.tl:9:25
  |
9 |     tl.store(o_ptr + i, tl.load(x_ptr + index))
  |                         ^^^^^^^^^^^^^^^^^^^^^^ dimension 0 of [64] is left at index 99, 36 beyond its last
  = help: give a `mask` that lets only lanes of index < 64 pass
""",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_told_so(name: str) -> None:
    text, told = CASES[name]
    arrays = {"x_ptr": np.ones(64, np.float32), "o_ptr": np.ones(64, np.float32)}

    with pytest.raises(KernBenchError) as caught:
        run(text, {**arrays, "n": 3}, N=8)

    assert told.strip("\n") == str(caught.value)
