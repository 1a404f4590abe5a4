"""Random numbers: Philox, with the same bits as Triton's `tl.rand` and its kin.

Written in operations of the language, so that it costs what it computes. Constants: Salmon et al., "Parallel random
numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

from kernbench.compiler import operators
from kernbench.compiler.arithmetic import elementwise
from kernbench.compiler.builtins.libdevice import umulhi
from kernbench.compiler.builtins.maths import maximum
from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.conversions import bitcast, cast, to_runtime
from kernbench.compiler.faults import fault
from kernbench.compiler.values import Const, Scalar, TupleValue, Value, element_type, type_text
from kernbench.dtypes import DType, fp32, i32, i64, u32, u64

_ROUNDS = Const(10)
_MAX_ROUNDS = 64

# key steps and multipliers, by the bits of a word
_CONSTANTS = {
    32: (0x9E3779B9, 0xBB67AE85, 0xD2511F53, 0xCD9E8D57),
    64: (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B, 0xD2E7470EE14C6C93, 0xCA5A826395121157),
}
_SCALES = {32: 4.6566127342e-10, 64: 1.0842020432385337e-19}  # so that the largest integer stays below 1


def _op(call: Call, kind: str, a: Value, b: Value) -> Value:
    return operators.binary(call.builder, kind, a, b, call.at)


@builtin("philox_impl")
def philox_impl(
    call: Call, c0: Value, c1: Value, c2: Value, c3: Value, k0: Value, k1: Value, n_rounds: Value = _ROUNDS
) -> Value:
    """Rounds of Philox on four words with a key of two."""
    dtype = element_type(to_runtime(call.builder, c0, call.at))
    if dtype not in (u32, u64):
        raise fault("E_OPERAND_TYPE", f"{call.name} takes uint32 or uint64, {type_text(c0)} is given", call.at)
    assert isinstance(dtype, DType)
    rounds = call.integer(n_rounds, "n_rounds")
    if not 0 <= rounds <= _MAX_ROUNDS:
        raise fault("E_CALL_ARGUMENTS", f"`n_rounds` of {call.name} is {rounds}, 0 to {_MAX_ROUNDS} it may be", call.at)
    key_a, key_b, round_a, round_b = (Scalar(constant, dtype) for constant in _CONSTANTS[dtype.bits])
    for _ in range(rounds):
        high_b, high_a = umulhi(call, round_b, c2), umulhi(call, round_a, c0)
        low_b, low_a = _op(call, "*", round_b, c2), _op(call, "*", round_a, c0)
        c0 = _op(call, "^", _op(call, "^", high_b, c1), k0)
        c2 = _op(call, "^", _op(call, "^", high_a, c3), k1)
        c1, c3 = low_b, low_a
        k0, k1 = _op(call, "+", k0, key_a), _op(call, "+", k1, key_b)
    return TupleValue((c0, c1, c2, c3))


@builtin("philox")
def philox(call: Call, seed: Value, c0: Value, c1: Value, c2: Value, c3: Value, n_rounds: Value = _ROUNDS) -> Value:
    """Four blocks of random words; the seed is the key, the counters are words of their own width."""
    builder, at = call.builder, call.at
    wide = cast(builder, to_runtime(builder, seed, at), u64, at)
    counters = [to_runtime(builder, value, at) for value in (c0, c1, c2, c3)]
    first = element_type(counters[0])
    if not isinstance(first, DType) or not first.is_int or first.bits < 32:
        message = f"{call.name} counts in integers of 32 or 64 bits, {type_text(counters[0])} is given"
        raise fault("E_OPERAND_TYPE", message, at)
    word = u32 if first.bits == 32 else u64
    low, high = wide, _op(call, "*", wide, Const(0))
    if word is u32:
        low, high = (cast(builder, value, u32, at) for value in (wide, _op(call, ">>", wide, Const(32))))
    words = [bitcast(builder, value, word, at) for value in counters]
    return philox_impl(call, words[0], words[1], words[2], words[3], low, high, n_rounds)


@builtin("randint4x")
def randint4x(call: Call, seed: Value, offset: Value, n_rounds: Value = _ROUNDS) -> Value:
    """Four blocks of 32 random bits for a seed and a block of offsets; one of 64 bits is counted in two words."""
    counter = to_runtime(call.builder, offset, call.at)
    zero = low = high = _op(call, "*", counter, Const(0))
    dtype = element_type(counter)
    if isinstance(dtype, DType) and dtype.is_int and dtype.bits != 32:
        low, zero = (cast(call.builder, value, u32, call.at) for value in (counter, zero))
        high = cast(call.builder, _op(call, ">>", counter, Const(32)), u32, call.at) if dtype.bits > 32 else zero
    else:
        low = counter
    return philox(call, seed, low, high, zero, zero, n_rounds)


@builtin("randint")
def randint(call: Call, seed: Value, offset: Value, n_rounds: Value = _ROUNDS) -> Value:
    """32 random bits for a seed and a block of offsets."""
    return _items(randint4x(call, seed, offset, n_rounds))[0]


def _items(value: Value) -> tuple[Value, ...]:
    assert isinstance(value, TupleValue)
    return value.items


@builtin("uint_to_uniform_float")
def uint_to_uniform_float(call: Call, x: Value) -> Value:
    """An integer as an fp32 of [0, 1)."""
    dtype = element_type(to_runtime(call.builder, x, call.at))
    if dtype not in (i32, u32, i64, u64):
        raise fault("E_OPERAND_TYPE", f"{call.name} takes 32 or 64-bit integers, {type_text(x)} is given", call.at)
    assert isinstance(dtype, DType)
    signed = bitcast(call.builder, x, i32 if dtype.bits == 32 else i64, call.at)
    mirrored = _op(call, "-", operators.unary(call.builder, "-", signed, call.at), Const(1))
    negative = operators.compare(call.builder, "<", signed, Const(0), call.at)
    positive = operators.select(call.builder, negative, mirrored, signed, call.at)
    return _op(call, "*", cast(call.builder, positive, fp32, call.at), Const(_SCALES[dtype.bits]))


@builtin("rand")
def rand(call: Call, seed: Value, offset: Value, n_rounds: Value = _ROUNDS) -> Value:
    """Random fp32 numbers in [0, 1) for a seed and a block of offsets."""
    return uint_to_uniform_float(call, randint(call, seed, offset, n_rounds))


@builtin("rand4x")
def rand4x(call: Call, seed: Value, offsets: Value, n_rounds: Value = _ROUNDS) -> Value:
    """Four blocks of random fp32 numbers in [0, 1)."""
    words = _items(randint4x(call, seed, offsets, n_rounds))
    return TupleValue(tuple(uint_to_uniform_float(call, word) for word in words))


@builtin("pair_uniform_to_normal")
def pair_uniform_to_normal(call: Call, u1: Value, u2: Value) -> Value:
    """Two normal numbers of two uniform ones, by the Box-Muller transform."""
    builder, at = call.builder, call.at
    logarithm = elementwise(builder, "log", (maximum(call, Const(1.0e-7), u1),), fp32, at)
    radius = elementwise(builder, "sqrt", (_op(call, "*", Const(-2.0), logarithm),), fp32, at)
    angle = _op(call, "*", Const(6.283185307179586), u2)
    sides = (elementwise(builder, kind, (angle,), fp32, at) for kind in ("cos", "sin"))
    return TupleValue(tuple(_op(call, "*", radius, side) for side in sides))


@builtin("randn")
def randn(call: Call, seed: Value, offset: Value, n_rounds: Value = _ROUNDS) -> Value:
    """Random fp32 numbers of the standard normal distribution."""
    words = _items(randint4x(call, seed, offset, n_rounds))
    pair = (uint_to_uniform_float(call, word) for word in words[:2])
    return _items(pair_uniform_to_normal(call, *pair))[0]


@builtin("randn4x")
def randn4x(call: Call, seed: Value, offset: Value, n_rounds: Value = _ROUNDS) -> Value:
    """Four blocks of random fp32 numbers of the standard normal distribution."""
    u1, u2, u3, u4 = _items(rand4x(call, seed, offset, n_rounds))
    first, second = (_items(pair_uniform_to_normal(call, *pair)) for pair in ((u1, u2), (u3, u4)))
    return TupleValue((*first, *second))
