"""`tl.dot_scaled`: the product of operands in small formats, with a scale for each group along k.

The operands are unpacked and scaled by vector operations, then multiplied: in bf16, which holds them exactly, or in
fp32 where one of them is fp16.
"""

from __future__ import annotations

from kernbench.compiler import operators
from kernbench.compiler.arithmetic import elementwise
from kernbench.compiler.builtins.linalg import dot
from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.builtins.reordering import block_of, join
from kernbench.compiler.conversions import bitcast, cast
from kernbench.compiler.faults import fault
from kernbench.compiler.shapes import broadcast, expand_dims, permute, reshape
from kernbench.compiler.values import (
    FALSE,
    NONE,
    TRUE,
    Const,
    DTypeValue,
    Value,
    element_type,
    shape_of,
    shape_text,
    type_text,
)
from kernbench.dtypes import DType, bf16, fp8e4nv, fp8e5, fp16, fp32, i8, u8

_FORMATS: dict[str, DType] = {"e4m3": fp8e4nv, "e5m2": fp8e5, "bf16": bf16, "fp16": fp16}
_GROUPS = (16, 32)
_FP32 = DTypeValue(fp32)


@builtin("dot_scaled")
def dot_scaled(
    call: Call,
    lhs: Value,
    lhs_scale: Value,
    lhs_format: Value,
    rhs: Value,
    rhs_scale: Value,
    rhs_format: Value,
    acc: Value = NONE,
    fast_math: Value = FALSE,
    lhs_k_pack: Value = TRUE,
    rhs_k_pack: Value = TRUE,
    out_dtype: Value = _FP32,
) -> Value:
    """A matrix product of 4, 8 or 16-bit floats with a scale for every 32 of them."""
    formats = [_format(call, value, name) for value, name in ((lhs_format, "lhs_format"), (rhs_format, "rhs_format"))]
    left = _unpacked(call, lhs, formats[0], "lhs", call.flag(lhs_k_pack, "lhs_k_pack"))
    turned = permute(call.builder, block_of(call, rhs, "rhs"), (1, 0), call.at) if _is_matrix(call, rhs, "rhs") else rhs
    right = _unpacked(call, turned, formats[1], "rhs", call.flag(rhs_k_pack, "rhs_k_pack"))
    wide = fp32 if "fp16" in formats else bf16
    a = _scaled(call, left, lhs_scale, "lhs_scale", wide)
    b = permute(call.builder, _scaled(call, right, rhs_scale, "rhs_scale", wide), (1, 0), call.at)
    return dot(call, a, b, acc, out_dtype=out_dtype)


def _format(call: Call, value: Value, parameter: str) -> str:
    name = call.constant(value, parameter)
    known = ("e2m1", *_FORMATS)
    if not isinstance(name, str) or name not in known:
        listed = ", ".join(repr(one) for one in known)
        raise fault("E_CALL_ARGUMENTS", f"`{parameter}` of {call.name} is {name!r}, none of {listed}", call.at)
    return name


def _is_matrix(call: Call, value: Value, parameter: str) -> bool:
    if len(shape_of(block_of(call, value, parameter))) != 2:
        message = f"`{parameter}` of {call.name} must have 2 axes, {type_text(value)} is given"
        raise fault("E_DOT_SHAPE", message, call.at)
    return True


def _unpacked(call: Call, value: Value, format_: str, parameter: str, k_pack: bool) -> Value:
    """An operand with k as its last axis, as floats."""
    _is_matrix(call, value, parameter)
    builder, at = call.builder, call.at
    have = element_type(value)
    assert isinstance(have, DType)
    if format_ == "e2m1":
        if have not in (u8, i8):
            raise _wrong_type(call, value, parameter, format_)
        return _halves(call, value) if k_pack else _halves_across(call, value)
    wanted = _FORMATS[format_]
    if have is wanted:
        return value
    if have in (u8, i8) and wanted.bits == 8:
        return bitcast(builder, value, wanted, at)
    raise _wrong_type(call, value, parameter, format_)


def _wrong_type(call: Call, value: Value, parameter: str, format_: str) -> Exception:
    message = f"`{parameter}` of {call.name} is {type_text(value)}, which holds no {format_}"
    return fault("E_DOT_TYPE", message, call.at)


def _halves(call: Call, value: Value) -> Value:
    """Bytes of two 4-bit floats each, the low one first, spread along the last axis."""
    builder, at = call.builder, call.at
    codes = cast(builder, value, u8, at)
    low = operators.binary(builder, "&", codes, Const(15), at)
    high = operators.binary(builder, ">>", codes, Const(4), at)
    pair = join(call, *(elementwise(builder, "from_e2m1", (code,), bf16, at, reads=u8) for code in (low, high)))
    rows, columns = shape_of(value)
    return reshape(builder, pair, (rows, 2 * columns), at)


def _halves_across(call: Call, value: Value) -> Value:
    """The same where the two lie in neighbouring rows."""
    turned = permute(call.builder, value, (1, 0), call.at)
    return permute(call.builder, _halves(call, turned), (1, 0), call.at)


def _scaled(call: Call, value: Value, scale: Value, parameter: str, wide: DType) -> Value:
    builder, at = call.builder, call.at
    if scale == NONE:
        return cast(builder, value, wide, at)
    rows, depth = shape_of(value)
    factors = _factors(call, scale, parameter)
    have = shape_of(factors)
    if len(have) != 2 or have[0] != rows or have[1] == 0 or depth / have[1] not in _GROUPS:
        message = f"`{parameter}` of {call.name} has shape {shape_text(have)} for {rows} rows of {depth}"
        raise fault("E_DOT_SHAPE", message, at, help="one scale for each row and each 32 (or 16) elements along k")
    group = depth // have[1]
    spread = broadcast(builder, expand_dims(builder, factors, 2, at), (rows, have[1], group), at)
    repeated = reshape(builder, spread, (rows, depth), at)
    product = operators.binary(builder, "*", cast(builder, value, fp32, at), repeated, at)
    return cast(builder, product, wide, at)


def _factors(call: Call, scale: Value, parameter: str) -> Value:
    have = element_type(block_of(call, scale, parameter))
    if have in (u8, i8):
        return elementwise(call.builder, "from_e8m0", (scale,), fp32, call.at, reads=have)
    if have is fp8e4nv:
        return cast(call.builder, scale, fp32, call.at)
    message = f"`{parameter}` of {call.name} is {type_text(scale)}, scales are uint8 or float8e4nv"
    raise fault("E_DOT_TYPE", message, call.at)
