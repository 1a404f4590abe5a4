"""Every entry of the micro-op table against Python's own arithmetic; one function for arrays, scalars and folding."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.dtypes import ALL, BY_NAME, DType, bf16, cast, compute_dtype, fp8e4nv, fp16, fp32, fp64

from kernbench.dtypes import i1, i8, i16, i32, i64, reinterpret, truncated, u8, u32, u64  # isort: skip
from kernbench.dtypes import wrap
from kernbench.micro_op_check import type_problems
from kernbench.micro_ops import MICRO_OPS
from kernbench.numerics import accumulator_dtype, as_ufunc, evaluate, evaluate_scalar, gemm, quiet
from tests.micro_op_references import (
    BINARY_FLOATS,
    BITS,
    COMPARISONS,
    DECODERS,
    FLOATS,
    INTS,
    ONE_INT,
    TERNARY_FLOATS,
    TESTS,
    THREE_INTS,
    TWO_INTS,
    UNARY_FLOATS,
    WIDE_ONLY,
    Number,
    Reference,
)
from tests.rounding import FORMATS, nearest, same, wrapped

TABLES = (
    UNARY_FLOATS, BINARY_FLOATS, TERNARY_FLOATS, ONE_INT, TWO_INTS, THREE_INTS, COMPARISONS, TESTS, DECODERS, WIDE_ONLY,
)  # fmt: skip
ELEMENTWISE = [(name, reference) for table in TABLES for name, reference in table.items()]
CASES = [
    pytest.param(name, reference, dtype, id=f"{name}-{dtype}")
    for name, reference in ELEMENTWISE
    for dtype in reference.takes
]

# --------------------------------------------------------------------------- operands


@functools.cache
def samples(dtype: DType, count: int = 12) -> list[Number]:
    """The edges of a type and what lies between them."""
    draw = random.Random(dtype.name)
    if dtype is i1:
        return [0, 1]
    if dtype.is_int:
        below = (-1, -2, -7) if dtype.is_signed else ()
        edges = [dtype.min, dtype.max, 0, 1, 2, 3, 7, dtype.max - 1, dtype.min + 1, *below]
        return [*edges, *(draw.randint(dtype.min, dtype.max) >> draw.randint(0, dtype.bits - 1) for _ in range(count))]
    form = FORMATS[dtype.name]
    least = 2.0 ** (form.least_exponent - form.precision + 1)
    sized = (0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 10.0, math.inf, least, 3 * least, float(form.largest))
    drawn = (draw.gauss(0, 1) * 2.0 ** draw.choice((-20, -3, 0, 0, 0, 1, 3, 6)) for _ in range(count))
    return [math.nan, *(nearest(sign * x, dtype) for x in (*sized, *drawn) for sign in (1, -1))]


def operand_sets(dtype: DType, arity: int) -> list[tuple[Number, ...]]:
    if arity < 3:
        return list(itertools.product(samples(dtype, 40 if arity == 1 else 3), repeat=arity))
    draw, values = random.Random(arity), samples(dtype)
    return [tuple(draw.choice(values) for _ in range(arity)) for _ in range(200)]


def stored(values: Any, dtype: DType) -> np.ndarray:
    """Numbers that the type holds, as an array of it."""
    if dtype.is_int:
        return np.array(values, dtype.numpy)
    array = np.array(values, np.float64)
    return array if dtype is fp64 else array.astype(np.float32).astype(dtype.numpy)


def numbers(array: Any, dtype: DType) -> list[Number]:
    array = np.asarray(array)
    if dtype.is_int:
        return [int(value) for value in array.ravel()]
    return [float(value) for value in array.astype(np.float64).ravel()]


# --------------------------------------------------------------------------- held against the reference


def expected(reference: Reference, operands: Sequence[Number], dtype: DType) -> Number:
    extra = (compute_dtype(dtype),) if reference.typed else ()
    return reference.function(*operands, *extra)


def agrees(reference: Reference, wanted: Number, found: Number, dtype: DType, out: DType) -> bool:
    if out.is_int:
        return found == (int(wanted) if out is i1 and dtype.is_float else wrapped(int(wanted), out))
    compute = compute_dtype(out)
    if reference.error and math.isfinite(wanted):
        form = FORMATS[compute.name]
        slack = reference.error * (abs(wanted) * 2.0**-form.precision + 2.0 ** max(-1074, form.least_exponent - 24))
        low, high = (nearest(nearest(wanted + side, compute), out) for side in (-slack, slack))
        return low <= found <= high
    rounded = nearest(nearest(float(wanted), compute), out)
    return same(rounded, found) or (bool(reference.any_zero) and rounded == found == 0)


def check(name: str, reference: Reference, arrays: Sequence[np.ndarray], dtype: DType) -> None:
    out = reference.gives or dtype
    found = evaluate(name, arrays, out)
    shape = np.broadcast_shapes(*(array.shape for array in arrays))

    assert (out.numpy, shape) == (found.dtype, found.shape)
    columns = [numbers(np.broadcast_to(array, shape), dtype) for array in arrays]
    wrong = [
        (operands, wanted, value)
        for operands, value in zip(zip(*columns, strict=True), numbers(found, out), strict=True)
        if not agrees(reference, wanted := expected(reference, operands, dtype), value, dtype, out)
    ]
    assert [] == wrong[:5]


@pytest.mark.parametrize(("name", "reference", "dtype"), CASES)
def test_a_micro_op_gives_what_its_reference_gives(name: str, reference: Reference, dtype: DType) -> None:
    sets = operand_sets(dtype, MICRO_OPS[name].arity)

    check(name, reference, [stored(column, dtype) for column in zip(*sets, strict=True)], dtype)


SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((), (), ()),
    ((1,), (1,), ()),
    ((7,), (7,), (1,)),
    ((0,), (1,), (0,)),
    ((3, 5), (3, 5), (5,)),
    ((2, 1), (1, 3), ()),
    ((13,), (), (1, 1)),
    ((2, 1, 3), (5, 1), (3,)),
)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_micro_ops_broadcast_as_numpy_does(shapes: tuple[tuple[int, ...], ...]) -> None:
    draw = random.Random(str(shapes))
    for name, reference in ELEMENTWISE:
        dtype = draw.choice(reference.takes)
        values = samples(dtype)
        arrays = [
            stored([draw.choice(values) for _ in range(math.prod(shape))], dtype).reshape(shape)
            for shape in shapes[: MICRO_OPS[name].arity]
        ]

        check(name, reference, arrays, dtype)


@pytest.mark.parametrize(("name", "reference"), ELEMENTWISE, ids=[name for name, _ in ELEMENTWISE])
def test_micro_ops_read_operands_by_their_strides(name: str, reference: Reference) -> None:
    dtype = reference.takes[-1]
    draw = random.Random(name)
    columns = [
        stored([draw.choice(samples(dtype)) for _ in range(30)], dtype).reshape(5, 6)[::2, ::-2].T
        for _ in range(MICRO_OPS[name].arity)
    ]

    check(name, reference, columns, dtype)


# --------------------------------------------------------------------------- conversions


def test_copies_convert_as_casts_do() -> None:
    """`copy` rounds and wraps (tests/test_dtypes.py has the rules), `bitcast` keeps bits, the third one truncates."""
    values = np.array([1.9, -1.9, 300.5, math.nan, -math.inf], np.float32)

    assert [1, -1, 300, 0, -(2**31)] == evaluate("copy", [values], i32).tolist()
    assert [1.875, -1.875, 288.0] == numbers(evaluate("copy", [values[:3]], fp8e4nv), fp8e4nv)
    assert [1.875, -1.875] == numbers(evaluate("copy_toward_zero", [values[:2]], fp8e4nv), fp8e4nv)
    assert 0x3FF33333 == evaluate("bitcast", [values[:1]], u32)[0]
    assert fp16.numpy == evaluate("copy", [5], fp16).dtype


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_a_select_takes_either_side_unchanged(dtype: DType) -> None:
    values = samples(dtype)
    a, b = stored(values, dtype), stored(values[::-1], dtype)
    condition = np.arange(len(values)) % 3 == 0

    found = numbers(evaluate("select", [condition, a, b], dtype), dtype)

    wanted = [x if index % 3 == 0 else y for index, (x, y) in enumerate(zip(values, values[::-1], strict=True))]
    assert all(map(same, wanted, found))


def test_a_select_broadcasts_and_takes_immediates_and_masks_of_integers() -> None:
    rows = np.array([[2], [0]], np.int8)

    assert [[1, 1, 1], [7, 8, 9]] == evaluate("select", [rows, 1, np.array([7, 8, 9], np.int64)], i64).tolist()
    assert [[-math.inf, -math.inf], [0.5, 1.5]] == evaluate(
        "select", [rows != 0, -math.inf, np.array([0.5, 1.5], np.float32)], fp32
    ).tolist()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_ldexp_scales_by_a_power_of_two_rounding_once(dtype: DType) -> None:
    pairs = [(x, power) for x in samples(dtype) for power in (-2000, -150, -20, -1, 0, 1, 9, 130, 2000)]
    a, b = stored([x for x, _ in pairs], dtype), np.array([power for _, power in pairs], np.int32)

    found = numbers(evaluate("ldexp", [a, b], dtype), dtype)

    compute = compute_dtype(dtype)
    for (x, power), value in zip(pairs, found, strict=True):
        exact: Any = Fraction(x) * Fraction(2) ** power if math.isfinite(x) and x else x
        wanted = nearest(math.copysign(nearest(exact, compute), x), dtype)
        assert same(wanted, value), (x, power)


def test_nextafter_steps_to_the_neighbour_in_fp32() -> None:
    values = [0.0, 1.0, -1.0, 2.0**-126, 65504.0]

    found = evaluate("nextafter", [np.array(values, np.float32), np.float32(2.0**20)], fp32)

    assert [2.0**-149, 1 + 2**-23, -1 + 2**-24, 2.0**-126 + 2**-149, 65504.0 + 2**-8] == [float(x) for x in found]


# --------------------------------------------------------------------------- rows and columns


@pytest.mark.parametrize(("name", "plain"), [("mul_bcast", "mul"), ("add_bcast", "add"), ("sub_bcast", "sub")])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=str)
def test_the_smaller_operand_is_repeated_along_its_axis(name: str, plain: str, dtype: DType) -> None:
    values = samples(dtype)
    block, row, column = stored(values[:6], dtype).reshape(2, 3), stored(values[3:6], dtype), stored(values[1:3], dtype)
    reference = (BINARY_FLOATS if dtype.is_float else TWO_INTS)[plain]

    for axis, other in ((0, row), (1, column)):
        found = numbers(evaluate(name, [block, other], dtype, {"bcast_axis": axis}), dtype)
        for (i, j), value in zip(itertools.product(range(2), range(3)), found, strict=True):
            operands = (values[3 * i + j], values[3 + j] if axis == 0 else values[1 + i])
            assert agrees(reference, expected(reference, operands, dtype), value, dtype, dtype), (axis, i, j)


def test_exp_diff_of_a_fully_masked_row_is_zero_and_of_others_is_as_everywhere() -> None:
    """A row of −inf has the largest value −inf: exp(−inf − −inf) must be 0, not NaN."""
    scores = np.array([[1.0, 2.0], [-math.inf, -math.inf], [-math.inf, 3.0]], np.float32)
    largest = np.array([2.0, -math.inf, 3.0], np.float32)

    found = evaluate("exp_diff", [scores, largest], fp32, {"bcast_axis": 1})

    np.testing.assert_allclose([[math.exp(-1), 1.0], [0.0, 0.0], [0.0, 1.0]], found, rtol=1e-6)


# --------------------------------------------------------------------------- reductions

REDUCED_SHAPES = (((1,), 0), ((7,), 0), ((3, 5), 0), ((3, 5), 1), ((2, 3, 5), 1), ((1, 13), 0))


def lines(shape: tuple[int, ...], axis: int) -> Iterator[list[tuple[int, ...]]]:
    """The positions of each line along an axis, in the order of the result."""
    rest = [range(extent) for k, extent in enumerate(shape) if k != axis]
    for place in itertools.product(*rest):
        yield [(*place[:axis], at, *place[axis:]) for at in range(shape[axis])]


def drawn(shape: tuple[int, ...], dtype: DType, values: Sequence[Number]) -> np.ndarray:
    draw = random.Random(f"{shape} {dtype}")
    return stored([draw.choice(values) for _ in range(math.prod(shape))], dtype).reshape(shape)


def folded(
    name: str, dtype: DType, values: Sequence[Number], out: DType | None = None
) -> Iterator[tuple[list[Number], Number]]:
    """Each line that a reduction takes in, and what it gives for it."""
    out = out or dtype
    for shape, axis in REDUCED_SHAPES:
        array = drawn(shape, dtype, values)
        found = evaluate(name, [array], out, {"axis": axis})
        assert (out.numpy, shape[:axis] + shape[axis + 1 :]) == (found.dtype, found.shape)
        for line, value in zip(lines(shape, axis), numbers(found, out), strict=True):
            yield [numbers(array[at], dtype)[0] for at in line], value


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_sums_of_integers_wrap(dtype: DType) -> None:
    for line, value in folded("rsum", dtype, samples(dtype)):
        assert wrapped(sum(line), dtype) == value


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sums_of_floats_add_up_in_fp32_and_round_once(dtype: DType) -> None:
    finite = [x for x in samples(dtype, 40) if math.isfinite(x) and abs(x) < 1e4]
    bound = 2.0 ** -FORMATS[compute_dtype(dtype).name].precision

    for line, value in folded("rsum", dtype, finite):
        exact, slack = math.fsum(line), len(line) * bound * math.fsum(map(abs, line))
        assert nearest(exact - slack, dtype) <= value <= nearest(exact + slack, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sums_keep_infinities_and_nans(dtype: DType) -> None:
    """FC-NU13: one NaN in a sum over bf16, and over every other float type, gives NaN."""
    ones = np.ones((2, 33))
    ones[0, 17] = math.nan
    found = numbers(evaluate("rsum", [cast(ones, dtype)], dtype, {"axis": 1}), dtype)

    assert math.isnan(found[0]) and found[1] == nearest(33.0, dtype)
    if FORMATS[dtype.name].infinite:
        lines_with = stored([[math.inf, 1.0], [-math.inf, 1.0], [math.inf, -math.inf]], dtype)
        found = numbers(evaluate("rsum", [lines_with], dtype, {"axis": 1}), dtype)
        assert [math.inf, -math.inf] == found[:2] and math.isnan(found[2])


def test_fc_nu16_fc_nu18_sums_of_halves_do_not_stall() -> None:
    """FC-NU16, FC-NU18: sums compute in fp32; scans round every step to the type, so a scan in bf16 stalls at 256."""
    assert 4096.0 == float(evaluate("rsum", [np.ones(4096, np.float16)], fp16, {"axis": 0}))
    assert 512.0 == float(evaluate("rsum", [cast(np.ones(512), bf16)], bf16, {"axis": 0}))

    scan = {"axis": 0, "reverse": False}
    assert 256.0 == float(evaluate("cumsum", [cast(np.ones(512), bf16)], bf16, scan)[-1])
    assert 2048.0 == float(evaluate("cumsum", [np.ones(4096, np.float16)], fp16, scan)[-1])
    assert 512.0 == float(evaluate("cumsum", [np.ones(512, np.float32)], fp32, scan)[-1])


@pytest.mark.parametrize(("name", "choose"), [("rmax", max), ("rmin", min)])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=str)
def test_a_nan_loses_in_extremes(name: str, choose: Callable[..., Number], dtype: DType) -> None:
    for line, value in folded(name, dtype, samples(dtype)):
        real = [x for x in line if x == x]
        assert choose(real) == value if real else math.isnan(value)


@pytest.mark.parametrize("dtype", BITS, ids=str)
@pytest.mark.parametrize(
    ("name", "step"),
    [("rxor", lambda a, b: a ^ b), ("ror", lambda a, b: a | b), ("rand", lambda a, b: a & b)],
)
def test_bitwise_reductions(name: str, step: Callable[[int, int], int], dtype: DType) -> None:
    for line, value in folded(name, dtype, samples(dtype)):
        total = line[0]
        for item in line[1:]:
            total = step(total, item)
        assert total == value


@pytest.mark.parametrize(("name", "choose"), [("argmax", max), ("argmin", min)])
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_the_place_of_an_extreme_is_that_of_the_first_of_equals(
    name: str, choose: Callable[..., Number], dtype: DType
) -> None:
    few = [*samples(dtype)[:4], -math.inf, math.inf] if dtype.is_float else samples(dtype)[:3]
    held = [x for x in few if not (dtype is fp8e4nv and abs(x) == math.inf)]

    for line, value in folded(name, dtype, held, i32):
        real = [x for x in line if x == x]
        assert value == (line.index(choose(real)) if real else 0), line


# --------------------------------------------------------------------------- whole blocks


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_scans_round_every_step(name: str, reverse: bool, dtype: DType) -> None:
    values = [x for x in samples(dtype) if x == x and abs(x) != math.inf]
    for shape, axis in REDUCED_SHAPES:
        array = drawn(shape, dtype, values)
        found = evaluate(name, [array], dtype, {"axis": axis, "reverse": reverse})
        assert (dtype.numpy, shape) == (found.dtype, found.shape)
        for line in lines(shape, axis):
            line = line[::-1] if reverse else line
            before = numbers(array[line[0]], dtype)[0]
            assert same(before, numbers(found[line[0]], dtype)[0])
            for at in line[1:]:
                before = scan_step(name, before, numbers(array[at], dtype)[0], dtype)
                assert same(before, numbers(found[at], dtype)[0])


def scan_step(name: str, a: Number, b: Number, dtype: DType) -> Number:
    if dtype is i1:
        return (a | b) if name == "cumsum" else a & b
    exact = a + b if name == "cumsum" else a * b
    return nearest(float(exact), dtype) if dtype.is_float else wrapped(exact, dtype)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_sorting_puts_nans_at_the_high_end(dtype: DType) -> None:
    for shape, axis in REDUCED_SHAPES:
        array = drawn(shape, dtype, samples(dtype))
        for descending in (False, True):
            found = evaluate("sort", [array], dtype, {"axis": axis, "descending": descending})
            assert (dtype.numpy, shape) == (found.dtype, found.shape)
            for line in lines(shape, axis):
                wanted = sorted((numbers(array[at], dtype)[0] for at in line), key=lambda x: (x != x, x))
                values = [numbers(found[at], dtype)[0] for at in line]
                pairs = zip(wanted[::-1] if descending else wanted, values, strict=True)
                assert all(a == b or (a != a and b != b) for a, b in pairs)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_rearrangements_move_values_unchanged(dtype: DType) -> None:
    values = (samples(dtype) * 15)[:30]
    a = stored(values, dtype).reshape(2, 3, 5)
    b = stored(values[::-1], dtype).reshape(2, 3, 5)

    def moved(name: str, args: list[Any], rule: Callable[[int, int, int], Any], shape: tuple[int, ...], **extra: Any):
        found = evaluate(name, args, dtype, extra)
        assert (dtype.numpy, shape) == (found.dtype, found.shape)
        for at in np.ndindex(shape):
            assert same(numbers(rule(*at), dtype)[0], numbers(found[at], dtype)[0]), (name, at)

    moved("part", [a], lambda i, j, k: a[i, j, 1 + 2 * k], (2, 3, 2), axis=2, start=1, step=2, count=2)
    moved("part", [a], lambda i, j, k: a[i, 2 - j, k], (2, 3, 5), axis=1, start=2, step=-1, count=3)
    moved("cat", [a, b], lambda i, j, k: a[i, j, k] if j < 3 else b[i, j - 3, k], (2, 6, 5), axis=1)
    moved("join", [a, b], lambda i, j, k, side: (b if side else a)[i, j, k], (2, 3, 5, 2))  # type: ignore[misc]
    moved("flip", [a], lambda i, j, k: a[i, 2 - j, k], (2, 3, 5), axis=1)
    index = np.array([[[2, 0, -1, 3, 1]]], np.int32).repeat(2, axis=0)
    moved("take", [a, index], lambda i, j, k: a[i, index[i, j, k] % 3, k], (2, 1, 5), axis=1)


def test_a_histogram_counts_what_lies_in_its_bins() -> None:
    values = np.array([0, 3, 3, 1, -1, 4, 2, 3], np.int32)
    everything, some = np.True_, np.array([True, True, False, True, True, True, False, False])

    assert [1, 1, 1, 3] == evaluate("histogram", [values, everything], i32, {"bins": 4}).tolist()
    assert [1, 1, 0, 1] == evaluate("histogram", [values, some], i32, {"bins": 4}).tolist()
    assert [0, 0] == evaluate("histogram", [values[:0], everything], i32, {"bins": 2}).tolist()


# --------------------------------------------------------------------------- blocks from known integers


def generated(kind: str, out: DType, extra: dict[str, Any]) -> np.ndarray:
    return cast(MICRO_OPS[kind].function(extra), out)


def test_an_index_block_is_affine_in_its_positions() -> None:
    rest = np.arange(6).reshape(2, 3)

    found = generated("index", i32, {"shape": (2, 3), "base": 5, "strides": (-10, 2), "rest": rest})

    assert [[5 - 10 * i + 2 * j + 3 * i + j for j in range(3)] for i in range(2)] == found.tolist()
    assert 7 == generated("index", i32, {"shape": (), "base": 7, "strides": (), "rest": None})
    assert [2**40] * 2 == generated("index", i64, {"shape": (2,), "base": 2**40, "strides": (0,)}).tolist()


def test_a_mask_is_a_box_its_predicates_and_a_dense_part() -> None:
    box = {"shape": (4, 5), "lo": ((1,), ()), "hi": ((3, 9), (4, 2)), "preds": (True,), "mask": None}

    assert [[1 <= i < 3 and j < 2 for j in range(5)] for i in range(4)] == generated("mask", i1, box).tolist()
    assert not generated("mask", i1, {**box, "preds": (True, 0)}).any()
    dense = np.eye(4, 5, dtype=np.bool_)
    assert [(1, 1)] == [tuple(at) for at in np.argwhere(generated("mask", i1, {**box, "mask": dense}))]


# --------------------------------------------------------------------------- the table itself

OWN_TESTS = {
    **dict.fromkeys(("copy", "bitcast", "copy_toward_zero"), test_copies_convert_as_casts_do),
    "select": test_a_select_takes_either_side_unchanged,
    "ldexp": test_ldexp_scales_by_a_power_of_two_rounding_once,
    **dict.fromkeys(("mul_bcast", "add_bcast", "sub_bcast"), test_the_smaller_operand_is_repeated_along_its_axis),
    "rsum": test_sums_of_floats_add_up_in_fp32_and_round_once,
    **dict.fromkeys(("rmax", "rmin"), test_a_nan_loses_in_extremes),
    **dict.fromkeys(("rxor", "ror", "rand"), test_bitwise_reductions),
    **dict.fromkeys(("argmax", "argmin"), test_the_place_of_an_extreme_is_that_of_the_first_of_equals),
    **dict.fromkeys(("cumsum", "cumprod"), test_scans_round_every_step),
    "sort": test_sorting_puts_nans_at_the_high_end,
    **dict.fromkeys(("part", "cat", "join", "flip", "take"), test_rearrangements_move_values_unchanged),
    "histogram": test_a_histogram_counts_what_lies_in_its_bins,
    "index": test_an_index_block_is_affine_in_its_positions,
    "mask": test_a_mask_is_a_box_its_predicates_and_a_dense_part,
}


def test_every_micro_op_has_a_reference() -> None:
    """A new entry of the table brings one: in tests/micro_op_references.py, or a test of its own named above."""
    assert sorted(MICRO_OPS) == sorted({*(name for name, _ in ELEMENTWISE), *OWN_TESTS})


def test_entries_say_what_they_are() -> None:
    for name, op in MICRO_OPS.items():
        assert name == op.name and op.doc
        assert op.boolean == (op.name == "mask" or op.name in COMPARISONS or op.name in TESTS)
        assert op.reduces == (op.name in OWN_TESTS and op.name.startswith(("rsum", "rm", "rx", "ro", "ra", "arg")))
        assert op.mixes == (op.reduces or op.whole)


# --------------------------------------------------------------------------- hand-worked values


@pytest.mark.parametrize(
    ("name", "args", "dtype", "value"),
    [
        ("idiv", (-7, 2), i32, -3),
        ("mod", (-7, 2), i32, -1),
        ("mod", (7, -2), i32, 1),
        ("idiv", (-(2**31), -1), i32, -(2**31)),
        ("idiv", (5, 0), i32, 0),
        ("shr", (-8, 1), i32, -4),
        ("shr", (2**32 - 8, 1), u32, 2**31 - 4),
        ("shr", (-1, 99), i64, -1),
        ("shr", (5, -1), i32, 0),
        ("shl", (1, 31), i32, -(2**31)),
        ("mul", (2**31 - 1, 2), i32, -2),
        ("add", (200, 100), u8, 44),
        ("abs", (-128,), i8, -128),
        ("neg", (1,), u64, 2**64 - 1),
        ("not", (1,), i1, 0),
        ("not", (0,), u8, 255),
        ("sub", (1, 1), i1, 0),
        ("add", (1, 1), i1, 0),
        ("mulhi", (-1, 1), i64, -1),
        ("umulhi", (-1, -1), i64, -2),
        ("umulhi", (2**64 - 1, 2**64 - 1), u64, 2**64 - 2),
        ("clz", (1,), i16, 15),
        ("brev", (1,), i32, -(2**31)),
        ("round", (2.5,), fp32, 2.0),
        ("round_away", (2.5,), fp32, 3.0),
        ("round_away", (0.5,), fp64, 1.0),
        ("round_away", (0.49999997,), fp32, 0.0),
        ("mod", (-7.5, 2.0), fp32, -1.5),
        ("logb", (7.9999995,), fp32, 2.0),
        ("remainder", (7.0, 2.0), fp32, -1.0),
        ("remainder", (2.0**60, 3.0), fp32, 1.0),
        ("sinpi", (1.0,), fp32, 0.0),
        ("cospi", (0.5,), fp32, 0.0),
        ("tgamma", (-0.0,), fp32, -math.inf),
        ("lgamma", (-1.0,), fp32, math.inf),
        ("normcdfinv", (0.5,), fp32, 0.0),
        ("ldexp", (2.0**-100, 200.0), fp32, 2.0**100),
        ("fdim", (-math.inf, math.inf), fp32, 0.0),
        ("exp_diff", (-math.inf, -math.inf), fp16, 0.0),
        ("fma", (1 + 2**-23, 1 - 2**-23, -1.0), fp32, -(2.0**-46)),
        ("div", (1.0, 3.0), fp16, 0.333251953125),
    ],
)
def test_values_worked_by_hand(name: str, args: tuple[Number, ...], dtype: DType, value: Number) -> None:
    arrays = [stored(arg, dtype) for arg in args]

    assert value == evaluate_scalar(name, args, [dtype] * len(args), dtype)
    assert value == numbers(evaluate(name, arrays, dtype), dtype)[0]


@pytest.mark.parametrize("dtype", [dtype for dtype in ALL if dtype.is_int], ids=str)
def test_what_the_check_of_types_lets_pass_runs_on_any_integers(dtype: DType) -> None:
    """NumPy refuses some values of types that it takes, as negative powers of integers."""
    numbers = {dtype.min, -2, -1, 0, 1, 2, dtype.max}
    values = np.array(sorted(n for n in numbers if dtype.min <= n <= dtype.max), dtype.numpy)
    for op in MICRO_OPS.values():
        out = i1 if op.boolean else dtype
        forms = (dtype.name,) * op.arity
        if op.arity and not op.mixes and not list(type_problems(op.name, forms, [dtype] * op.arity, out)):
            assert evaluate(op.name, [values, values[::-1], values][: op.arity], out).shape == values.shape


def test_wrap_is_dropping_high_bits() -> None:
    assert [1, 0, 1] == [wrap(value, i1) for value in (-1, 0, 256)]
    for dtype in INTS:
        for value in (*samples(dtype), 2**70 + 3, -(2**70) - 3):
            assert wrapped(value, dtype) == wrap(value, dtype)


# --------------------------------------------------------------------------- scalars are 0-d arrays

SCALAR_OPS = [*ELEMENTWISE, ("select", Reference(lambda c, a, b: a if c else b, ALL))]


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_scalar_instructions_are_the_functions_of_arrays(data: st.DataObject) -> None:
    name, reference = data.draw(st.sampled_from(SCALAR_OPS))
    dtype = data.draw(st.sampled_from(reference.takes))
    types = [i1 if name == "select" and k == 0 else dtype for k in range(MICRO_OPS[name].arity)]
    operands = [data.draw(values_of(each)) for each in types]
    outs = [reference.gives] if reference.gives else [out for out in ALL if out.is_float == dtype.is_float]
    out = data.draw(st.sampled_from(outs))

    found = evaluate_scalar(name, operands, types, out)

    arrays = [stored(value, each) for value, each in zip(operands, types, strict=True)]
    wanted = numbers(evaluate(name, arrays, out), out)[0]
    assert type(wanted) is type(found)
    assert same(wanted, found), (name, operands, dtype, out)


def values_of(dtype: DType) -> st.SearchStrategy[Number]:
    if dtype.is_int:
        return st.sampled_from(samples(dtype)) | st.integers(dtype.min, dtype.max)
    return st.sampled_from(samples(dtype)) | st.floats(width=64).map(lambda x: nearest(x, dtype))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(ALL), st.sampled_from(ALL), st.data())
def test_a_scalar_copy_is_a_cast(source: DType, to: DType, data: st.DataObject) -> None:
    value = data.draw(values_of(source))

    assert same(
        numbers(cast(stored(value, source), to), to)[0],
        evaluate_scalar("copy", [value], [source], to),
    )
    if source.nbytes == to.nbytes and i1 not in (source, to):
        assert same(
            numbers(reinterpret(stored(value, source), to), to)[0], evaluate_scalar("bitcast", [value], [source], to)
        )
    if source.is_float and to.is_float and to.bits < source.bits:
        assert same(
            numbers(truncated(stored(value, source), to), to)[0],
            evaluate_scalar("copy_toward_zero", [value], [source], to),
        )


def test_immediates_take_the_type_they_meet() -> None:
    assert [44] == evaluate("add", [np.array([200], np.uint8), 100], u8).tolist()
    assert [2**64 - 2] == evaluate("sub", [np.array([2**64 - 1], np.uint64), 1], u64).tolist()
    assert [True] == evaluate("lt", [np.array([100], np.int8), 300], i1).tolist()
    assert [1.5] == evaluate("add", [np.array([1.0], np.float64), 0.5], fp64).tolist()
    assert [0.1] == evaluate("mul", [np.array([1.0], np.float64), 0.1], fp64).tolist()
    assert [np.float32(0.1)] == evaluate("mul", [np.array([1.0], np.float32), 0.1], fp32).tolist()
    assert [0.5] == evaluate("div", [np.array([1], np.int32), 2], fp32).tolist()


# --------------------------------------------------------------------------- single functions of NumPy's


ONE = np.ones(1, np.float32)
UFUNCS = [name for name, op in MICRO_OPS.items() if op.arity and as_ufunc(name, [ONE] * op.arity, ONE) is not None]


def test_the_usual_ops_are_single_functions_of_numpys() -> None:
    assert {"abs", "add", "div", "exp", "max_elem", "mul", "neg", "sub"} <= set(UFUNCS)


@pytest.mark.parametrize("second", [None, 1.5, np.float32(0.1)], ids=["a block", "an immediate", "a register"])
@pytest.mark.parametrize("name", UFUNCS)
def test_a_single_function_of_numpys_gives_the_bits_of_evaluate(name: str, second: Number) -> None:
    arity = MICRO_OPS[name].arity
    first, *others = np.array(operand_sets(fp32, arity), np.float32).T
    args = [first, *(other if second is None else second for other in others)]
    target = np.zeros_like(first)

    found = as_ufunc(name, args, target)

    assert found is not None
    ufunc, operands = found
    with quiet():
        ufunc(*operands, out=target)
    assert evaluate(name, args, fp32).tobytes() == target.tobytes()


@pytest.mark.parametrize(
    ("args", "target"),
    [
        ([ONE, ONE], np.ones(1, np.float16)),  # the result is rounded
        ([ONE, np.ones(1, np.float16)], ONE),  # an operand is widened
        ([ONE, 1], ONE),  # an integer takes the type that it meets
        ([ONE, ONE], np.ones((1, 1), np.float32)),  # the result has fewer axes
        ([1.0, 2.0], ONE),  # nothing is in fp32
    ],
)
def test_what_takes_more_than_one_function_is_none(args: list[Any], target: np.ndarray) -> None:
    assert as_ufunc("add", args, target) is None


# --------------------------------------------------------------------------- products


def product(a: list[list[Number]], b: list[list[Number]]) -> list[list[Number]]:
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a]


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 7, 1), (3, 5, 7), (4, 1, 2), (2, 64, 3)], ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, i8, u8], ids=str)
def test_products_accumulate_in_fp32_and_int32(dtype: DType, shape: tuple[int, int, int]) -> None:
    """The values are small integers, so that every order of adding them up is exact."""
    m, k, n = shape
    draw = random.Random(f"{dtype} {shape}")
    a, b = ([[draw.randint(0, 8) for _ in range(y)] for _ in range(x)] for x, y in ((m, k), (k, n)))

    found = gemm(stored(a, dtype), stored(b, dtype))

    assert accumulator_dtype(dtype, dtype).numpy == found.dtype
    assert product(a, b) == found.tolist()


def test_int8_products_are_exact_and_wrap_in_int32() -> None:
    low, high = np.full((1, 1024), -128, np.int8), np.full((1024, 1), 127, np.int8)

    assert [[-128 * 127 * 1024]] == gemm(low, high).tolist()
    assert [[-32640]] == gemm(np.full((1, 1), -128, np.int8), np.full((1, 1), 255, np.uint8)).tolist()
    wide = np.full((1, 4), 2**30, np.int32)
    assert [[wrapped(4 * 2**60 + 2**30, i32)]] == gemm(
        np.concatenate([wide, np.ones((1, 1), np.int32)], axis=1), np.full((5, 1), 2**30, np.int32)
    ).tolist()


def test_of_two_float_types_the_wider_is_rounded_to_the_narrower() -> None:
    one = np.ones((1, 1), np.float32)
    fine = np.float32(1 + 2**-9)

    assert 1.0 == float(gemm(one * fine, cast(one, bf16))[0, 0])
    assert float(fine) == float(gemm(one * fine, one.astype(np.float16))[0, 0])
    assert 1.0 == float(gemm(cast(one, fp8e4nv), one * fine)[0, 0])
    assert float(fine) == float(gemm(one.astype(np.float64) * fine, one)[0, 0])
    assert np.float32 == gemm(one.astype(np.float64), one).dtype


def test_products_keep_nans_and_infinities() -> None:
    a = np.array([[math.inf, 1.0], [math.nan, 1.0], [1.0, 1.0]], np.float32)

    found = gemm(a, np.array([[1.0], [0.0]], np.float32)).ravel()

    assert math.isinf(found[0]) and math.isnan(found[1]) and 1.0 == found[2]


def test_integers_and_floats_have_no_product() -> None:
    with pytest.raises(AssertionError, match="product"):
        gemm(np.ones((1, 1), np.int8), np.ones((1, 1), np.float32))


def test_the_type_of_an_accumulator() -> None:
    expected_names = {("fp64", "fp64"): "fp64", ("i8", "i8"): "i32", ("i8", "u8"): "i32", ("fp64", "fp32"): "fp32"}
    expected_names |= {("fp16", "fp16"): "fp32", ("fp8e5", "bf16"): "fp32"}

    assert expected_names == {(a, b): accumulator_dtype(BY_NAME[a], BY_NAME[b]).name for a, b in expected_names}
