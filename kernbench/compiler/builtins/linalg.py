"""Matrix products."""

from __future__ import annotations

from kernbench.compiler import rearrange
from kernbench.compiler.access import load
from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.conversions import dense
from kernbench.compiler.faults import fault
from kernbench.compiler.residual import BlockRef, Dot
from kernbench.compiler.shapes import reshape
from kernbench.compiler.values import (
    NONE,
    Block,
    Const,
    DTypeValue,
    HbmRefValue,
    Value,
    is_block,
    shape_text,
    type_text,
)
from kernbench.dtypes import DType, bf16, fp16, fp32, fp64, i8, i32, u8
from kernbench.numerics import accumulator_dtype

_PRECISIONS = (None, "tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
_INTEGERS = (i8, u8)
MAX_BATCH = 256  # of products of blocks of 3 axes, each a command of its own
_FP32 = DTypeValue(fp32)


@builtin("dot")
def dot(
    call: Call,
    input: Value,
    other: Value,
    acc: Value = NONE,
    input_precision: Value = NONE,
    allow_tf32: Value = NONE,
    max_num_imprecise_acc: Value = NONE,
    out_dtype: Value = _FP32,
) -> Value:
    """`input @ other + acc`. The engine multiplies exactly and accumulates in fp32, whatever the precision asked."""
    precision = call.constant(input_precision, "input_precision")
    if precision not in _PRECISIONS:
        known = ", ".join(repr(name) for name in _PRECISIONS[1:])
        raise fault("E_CALL_ARGUMENTS", f"input_precision {precision!r} is none of {known}", call.at)
    a, b = (_operand(call, value, what) for value, what in ((input, "first"), (other, "second")))
    _check_shapes(call, a, b)
    shape = (*a.shape[:-1], b.shape[-1])
    dtype = _result_type(call, a.dtype, b.dtype, call.element(out_dtype, "out_dtype"))
    total = None if acc == NONE else _accumulator(call, acc, shape, dtype)
    return _batch(call, a, b, total, dtype) if len(shape) == 3 else _product(call, a, b, total, dtype)


def _product(call: Call, a: BlockRef, b: BlockRef, total: BlockRef | None, dtype: DType) -> Value:
    result = call.builder.new_block(dtype if total is None else total.dtype, (a.shape[0], b.shape[1]))
    call.builder.emit(Dot(result, a, b, total, call.at))
    return Block(result)


def _batch(call: Call, a: BlockRef, b: BlockRef, total: BlockRef | None, dtype: DType) -> Value:
    """One product a position of the first axis, joined two by two."""
    builder, at = call.builder, call.at

    def slab(ref: BlockRef, number: int) -> BlockRef:
        part = rearrange.part(builder, Block(ref), 0, number, 1, 1, at)
        return dense(builder, reshape(builder, part, ref.shape[1:], at), at)

    products: list[Value] = []
    for number in range(a.shape[0]):
        one = _product(call, slab(a, number), slab(b, number), None if total is None else slab(total, number), dtype)
        products.append(reshape(builder, one, (1, a.shape[1], b.shape[2]), at))
    while len(products) > 1:
        pairs = [products[k : k + 2] for k in range(0, len(products), 2)]
        products = [pair[0] if len(pair) == 1 else rearrange.cat(builder, pair[0], pair[1], 0, at) for pair in pairs]
    return products[0]


def _operand(call: Call, value: Value, what: str) -> BlockRef:
    if isinstance(value, HbmRefValue):
        value = load(call.builder, value, NONE, NONE, call.at)
    if not is_block(value):
        raise fault("E_BLOCK_EXPECTED", f"the {what} operand of tl.dot is {type_text(value)}, not a block", call.at)
    return dense(call.builder, value, call.at)


def _check_shapes(call: Call, a: BlockRef, b: BlockRef) -> None:
    both = f"{shape_text(a.shape)} and {shape_text(b.shape)}"
    if len(a.shape) != len(b.shape) or len(a.shape) not in (2, 3):
        raise fault("E_DOT_SHAPE", f"{call.name} takes two blocks of 2 axes, or two of 3, {both} are given", call.at)
    if a.shape[:-2] != b.shape[:-2]:
        raise fault("E_DOT_SHAPE", f"{call.name} of batches of {a.shape[0]} and {b.shape[0]}", call.at, both)
    if a.shape[0] > MAX_BATCH and len(a.shape) == 3:
        message = f"{call.name} of a batch of {a.shape[0]}, at most {MAX_BATCH} are taken at once"
        raise fault("E_DOT_SHAPE", message, call.at, help="loop over the batch")
    if a.shape[-1] != b.shape[-2]:
        text = f"k is {a.shape[-1]} on the left and {b.shape[-2]} on the right"
        help = "tl.trans(b) swaps the axes of b" if a.shape[-1] == b.shape[-1] else None
        raise fault("E_DOT_SHAPE", f"tl.dot of {both}", call.at, text, help=help)


def _result_type(call: Call, a: DType, b: DType, out: DType) -> DType:
    if a is not b and not (a.is_float and b.is_float and a.bits == b.bits == 8):
        message = f"tl.dot multiplies operands of one type, {a.triton} and {b.triton} are given"
        raise fault("E_DOT_TYPE", message, call.at, help="cast one of them with .to(...)")
    if a.is_int:
        if a not in _INTEGERS:
            raise fault("E_DOT_TYPE", f"tl.dot does not multiply {a.triton}", call.at, help="use int8 or a float")
        return i32
    if out is bf16:
        help = "leave out_dtype out and cast the result with .to(tl.bfloat16)"
        raise fault("E_DOT_TYPE", "tl.dot cannot put out bfloat16", call.at, help=help)
    if a.bits <= 16 and a is not bf16:
        return out if out in (fp16, fp32) else accumulator_dtype(a, b)
    return fp64 if a is fp64 else fp32


def _accumulator(call: Call, acc: Value, shape: tuple[int, ...], dtype: DType) -> BlockRef | None:
    if isinstance(acc, Const) and acc.value == 0:
        return None
    if not is_block(acc):
        raise fault("E_BLOCK_EXPECTED", f"`acc` of tl.dot is {type_text(acc)}, not a block", call.at)
    total = dense(call.builder, acc, call.at)
    if total.shape != shape:
        message = f"`acc` of tl.dot has shape {shape_text(total.shape)}, the product {shape_text(shape)}"
        raise fault("E_DOT_SHAPE", message, call.at)
    fits = total.dtype is dtype or (total.dtype in (fp16, fp32) and dtype in (fp16, fp32))
    if not fits:
        message = f"`acc` of tl.dot is {total.dtype.triton}, the product {dtype.triton}"
        raise fault("E_DOT_TYPE", message, call.at)
    return total
