"""Programs as bytes and back: the binary that is deployed to a device and fetched by a launch.

`encode` and `decode` are exact inverses. What people need (names, spans, messages, constexprs) stands in a debug
section of its own, so that renaming a variable changes no byte of the code. Bytes from outside are hostile: whatever
they are, `decode` ends in a Program or in a `BinaryError`, in time and memory bounded by their length.

Layout of `code`: magic, version, CRC-32 of the rest, then the program as a tagged stream of varints; symbols, types
and handle descriptors are written where they first occur and numbered from then on. Of `debug`: the same head, the
CRC of the code that it belongs to, then names and spans in the order in which the code mentions them.

Says what a program is made of; how single values are written is in `binary_codec.py`. Does not know what a command
does, nor the words of a dispatched command (see `command_words.py`).
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, get_args

from kernbench.binary_codec import (
    BOOL,
    DTYPE,
    FLOAT,
    NAME,
    NOTHING,
    REGISTER,
    SIGNED,
    SPAN,
    SYMBOL,
    UNSIGNED,
    WIDE,
    Codec,
    Decoder,
    Encoder,
    Reader,
    many,
    mapping,
    nested,
    one_of,
    optional,
    pair,
    record,
    tagged,
)
from kernbench.binary_codec import (
    BinaryError as BinaryError,
)
from kernbench.commands import (
    ATOMIC_KINDS,
    Access,
    Affine,
    Assert,
    Atomic,
    AxisIndex,
    Block,
    Buffer,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Exit,
    Gather,
    If,
    IndexOp,
    KernelBinary,
    Loop,
    Move,
    OpSpec,
    Param,
    Program,
    ReadScalar,
    Recv,
    Reg,
    ScalarLoad,
    ScalarOp,
    ScalarStore,
    Scatter,
    Scope,
    Send,
    Special,
    TensorHandle,
    Wait,
    While,
    affine,
)
from kernbench.dtypes import DType

CODE_MAGIC = b"KBC1"
DEBUG_MAGIC = b"KBD1"
HEAD = struct.Struct("<4sI")  # magic (with the format's version), CRC-32 of what follows
MAX_CONSTANT_BYTES = 600  # of a number in the debug section, where constexprs stand; the compiler's have 4,096 bits
_SPACES = ("hbm", "tcm")
_SCOPES = tuple(Scope)
_SPECIALS = get_args(Special)


# --------------------------------------------------------------------------- numbers and expressions


def _write_affine(e: Encoder, value: Affine) -> None:
    e.code.signed(value.const)
    e.code.unsigned(len(value.terms))
    for register, coefficient in value.terms:
        e.code.unsigned(register)
        e.code.signed(coefficient)


def _read_affine(d: Decoder) -> Affine:
    const = d.code.signed()
    terms = tuple((REGISTER.read(d), d.code.signed()) for _ in range(d.code.count()))
    value = affine(const, dict(terms))
    if not isinstance(value, Affine) or value.terms != terms:
        raise d.code.fail("an affine expression is not in normal form")
    return value


AFFINE = Codec(_write_affine, _read_affine)
REG = Codec(lambda e, v: e.code.unsigned(v.index), lambda d: Reg(REGISTER.read(d)))
INT = tagged((int, SIGNED), (Affine, AFFINE), what="an integer's form")
_OPERANDS = ((int, SIGNED), (Affine, AFFINE), (Reg, REG), (float, FLOAT), (bool, BOOL))
OPERAND = tagged(*_OPERANDS, what="an operand's form")
# ends of loops and what scalars are held against: the size of a program does not depend on how many trips it has
IMMEDIATE = tagged((int, WIDE), *_OPERANDS[1:], what="an operand's form")
INDEX = nested(lambda: _INDEX)
_INDEX: Codec = tagged(
    (int, SIGNED),
    (Affine, AFFINE),
    (Reg, REG),
    (AxisIndex, record(AxisIndex, axis=UNSIGNED)),
    (IndexOp, record(IndexOp, kind=SYMBOL, dtype=DTYPE, args=many(INDEX))),
    what="an index expression's form",
)


def _write_descriptor(e: Encoder, handle: TensorHandle) -> None:
    many(UNSIGNED).write(e, handle.shape)
    many(INT).write(e, handle.strides)
    DTYPE.write(e, handle.dtype)
    e.code.unsigned(_SPACES.index(handle.space))


def _read_descriptor(d: Decoder) -> tuple[Any, ...]:
    shape, strides = many(UNSIGNED).read(d), many(INT).read(d)
    if len(shape) != len(strides):
        raise d.code.fail(f"a handle has {len(shape)} dimensions and {len(strides)} strides")
    return shape, strides, DTYPE.read(d), _SPACES[d.code.index(2, "a space")]


def _write_handle(e: Encoder, handle: TensorHandle) -> None:
    key = (handle.shape, handle.strides, handle.dtype, handle.space)
    e.code.interned("descriptor", key, lambda: _write_descriptor(e, handle))
    e.code.unsigned(handle.id)
    INT.write(e, handle.address)
    NAME.write(e, handle.name)


def _read_handle(d: Decoder) -> TensorHandle:
    shape, strides, dtype, space = d.code.interned("descriptor", lambda: _read_descriptor(d))
    number, address = d.code.unsigned(), INT.read(d)
    return TensorHandle(number, NAME.read(d), address, shape, strides, dtype, space)


HANDLE = Codec(_write_handle, _read_handle)
TUPLE = nested(lambda: many(VALUE))
VALUE: Codec = tagged(
    (int, SIGNED),
    (Affine, AFFINE),
    (Reg, REG),
    (float, FLOAT),
    (bool, BOOL),
    (type(None), NOTHING),
    (str, SYMBOL),
    (DType, DTYPE),
    (tuple, TUPLE),
    (AxisIndex, record(AxisIndex, axis=UNSIGNED)),
    (IndexOp, record(IndexOp, kind=SYMBOL, dtype=DTYPE, args=many(INDEX))),
    what="a value's form",
)


# --------------------------------------------------------------------------- nodes

OP = record(
    OpSpec,
    kind=SYMBOL,
    scope=one_of(_SCOPES, "scope"),
    operands=mapping(HANDLE),
    extra=mapping(VALUE),
    out=optional(HANDLE),
)
ACCESS = record(
    Access,
    base=INT,
    dtype=DTYPE,
    shape=many(UNSIGNED),
    strides=many(INT),
    lo=many(many(INT)),
    hi=many(many(INT)),
    preds=many(OPERAND),
    rest=optional(INDEX),
    mask=optional(INDEX),
    offset_bits=UNSIGNED,
)
OTHER = tagged(
    (type(None), NOTHING),
    (int, SIGNED),
    (Affine, AFFINE),
    (Reg, REG),
    (float, FLOAT),
    (bool, BOOL),
    (TensorHandle, HANDLE),
    what="the form of an `other`",
)
MOVES = many(record(Move, dst=REGISTER, src=OPERAND))
NODES = nested(lambda: many(NODE))


def _write_block(e: Encoder, block: Block) -> None:
    e.code.unsigned(block.label)
    NODES.write(e, block.body)
    SPAN.write(e, block.span)


def _read_block(d: Decoder) -> Block:
    label = d.code.unsigned()
    d.labels.append(label)
    body = NODES.read(d)
    d.labels.pop()
    return Block(label, body, SPAN.read(d))


def _read_label(d: Decoder) -> int:
    label = d.code.unsigned()
    if label not in d.labels:
        raise d.code.fail(f"an exit leaves block {label}, which is not around it")
    return label


LABEL = Codec(lambda e, v: e.code.unsigned(v), _read_label)

NODE: Codec = tagged(
    (
        ScalarOp,
        record(
            ScalarOp, dst=REGISTER, kind=SYMBOL, args=many(IMMEDIATE), dtype=DTYPE, arg_dtypes=many(DTYPE), span=SPAN
        ),
    ),
    (
        CompositeTemplate,
        record(CompositeTemplate, id=UNSIGNED, ops=many(OP), rw_handles=many(HANDLE), span=SPAN, static=BOOL),
    ),
    (DmaRead, record(DmaRead, id=UNSIGNED, dst=HANDLE, access=ACCESS, other=OTHER, span=SPAN, static=BOOL)),
    (DmaWrite, record(DmaWrite, id=UNSIGNED, src=HANDLE, access=ACCESS, span=SPAN)),
    (
        Gather,
        record(
            Gather,
            id=UNSIGNED,
            dst=HANDLE,
            access=ACCESS,
            index=optional(HANDLE),
            mask=optional(HANDLE),
            other=OTHER,
            span=SPAN,
            static=BOOL,
        ),
    ),
    (
        Scatter,
        record(
            Scatter, id=UNSIGNED, src=HANDLE, access=ACCESS, index=optional(HANDLE), mask=optional(HANDLE), span=SPAN
        ),
    ),
    (
        ScalarLoad,
        record(
            ScalarLoad,
            id=UNSIGNED,
            dst=REGISTER,
            address=INT,
            dtype=DTYPE,
            preds=many(OPERAND),
            other=OPERAND,
            span=SPAN,
            static=BOOL,
        ),
    ),
    (
        ScalarStore,
        record(
            ScalarStore,
            id=UNSIGNED,
            address=INT,
            value=OPERAND,
            dtype=DTYPE,
            value_dtype=DTYPE,
            preds=many(OPERAND),
            span=SPAN,
        ),
    ),
    (ReadScalar, record(ReadScalar, id=UNSIGNED, dst=REGISTER, src=HANDLE, span=SPAN, static=BOOL)),
    (Wait, record(Wait, id=UNSIGNED, handles=many(HANDLE), span=SPAN)),
    (Assert, record(Assert, condition=OPERAND, message=NAME, span=SPAN)),
    (
        Loop,
        record(
            Loop,
            var=REGISTER,
            start=IMMEDIATE,
            stop=IMMEDIATE,
            step=OPERAND,
            body=NODES,
            name=NAME,
            init=MOVES,
            moves=MOVES,
            rotations=many(pair(REGISTER, UNSIGNED)),
            num_stages=UNSIGNED,
            span=SPAN,
        ),
    ),
    (
        While,
        record(
            While,
            header=NODES,
            condition=OPERAND,
            body=NODES,
            init=MOVES,
            moves=MOVES,
            rotations=many(pair(REGISTER, UNSIGNED)),
            span=SPAN,
        ),
    ),
    (
        If,
        record(If, condition=OPERAND, then=NODES, orelse=NODES, then_moves=MOVES, else_moves=MOVES, span=SPAN),
    ),
    (Block, Codec(_write_block, _read_block)),
    (Exit, record(Exit, label=LABEL, moves=MOVES, span=SPAN)),
    (
        Atomic,
        record(
            Atomic,
            id=UNSIGNED,
            kind=one_of(ATOMIC_KINDS, "kind of atomic"),
            src=HANDLE,
            access=ACCESS,
            compare=optional(HANDLE),
            dst=optional(HANDLE),
            index=optional(HANDLE),
            mask=optional(HANDLE),
            span=SPAN,
            static=BOOL,
        ),
    ),
    (Send, record(Send, id=UNSIGNED, src=HANDLE, to=many(OPERAND), span=SPAN, static=BOOL)),
    (Recv, record(Recv, id=UNSIGNED, dst=HANDLE, source=many(OPERAND), span=SPAN, static=BOOL)),
    what="a node's kind",
)


# --------------------------------------------------------------------------- programs


def _write_register_dtypes(e: Encoder, dtypes: tuple[DType, ...]) -> None:
    many(DTYPE).write(e, dtypes)


def _read_register_dtypes(d: Decoder) -> tuple[DType, ...]:
    dtypes: tuple[DType, ...] = many(DTYPE).read(d)
    d.registers = len(dtypes)
    return dtypes


def _write_register_names(e: Encoder, names: tuple[str, ...]) -> None:
    for name in names:
        NAME.write(e, name)


CONSTEXPRS = many(pair(SYMBOL, VALUE))


def _write_constexprs(e: Encoder, constexprs: tuple[tuple[str, Any], ...]) -> None:
    aside = Encoder()
    aside.code = e.debug  # nothing computes with them
    CONSTEXPRS.write(aside, constexprs)


def _read_constexprs(d: Decoder) -> tuple[tuple[str, Any], ...]:
    if d.debug is None:
        return ()
    constexprs: tuple[tuple[str, Any], ...] = CONSTEXPRS.read(Decoder(d.debug, None))
    return constexprs


def _write_opt_level(e: Encoder, level: int) -> None:
    e.debug.unsigned(level)


def _read_opt_level(d: Decoder) -> int:
    return 1 if d.debug is None else d.debug.unsigned()


PROGRAM = record(
    Program,
    register_dtypes=Codec(_write_register_dtypes, _read_register_dtypes),
    register_names=Codec(_write_register_names, lambda d: tuple(NAME.read(d) for _ in range(d.registers))),
    name=NAME,
    params=many(record(Param, name=NAME, kind=one_of(("tensor", "scalar"), "kind"), dtype=DTYPE, register=REGISTER)),
    specials=many(pair(one_of(_SPECIALS, "special register"), REGISTER)),
    buffers=many(
        record(Buffer, id=UNSIGNED, name=NAME, nbytes=UNSIGNED, depth=UNSIGNED, address=SIGNED, persistent=BOOL)
    ),
    body=NODES,
    tcm_bytes=UNSIGNED,
    constexprs=Codec(_write_constexprs, _read_constexprs),
    opt_level=Codec(_write_opt_level, _read_opt_level),
)


def encode(program: Program) -> KernelBinary:
    encoder = Encoder()
    PROGRAM.write(encoder, program)
    code = _sealed(CODE_MAGIC, bytes(encoder.code.out))
    debug = _sealed(DEBUG_MAGIC, struct.pack("<I", zlib.crc32(code)) + bytes(encoder.debug.out))
    return KernelBinary(code, debug)


def decode(binary: KernelBinary) -> Program:
    """The program; `BinaryError` where the bytes are none."""
    code = _opened(CODE_MAGIC, binary.code, "code")
    debug = None
    if binary.debug:
        debug = _opened(DEBUG_MAGIC, binary.debug, "debug section")
        debug.longest = MAX_CONSTANT_BYTES
        if debug.take(4) != struct.pack("<I", zlib.crc32(binary.code)):
            raise debug.fail("the debug section belongs to another binary")
    decoder = Decoder(code, debug)
    program: Program = PROGRAM.read(decoder)
    for reader in (code, debug):
        if reader is not None and reader.offset != len(reader.data):
            raise reader.fail(f"{len(reader.data) - reader.offset} bytes are left over")
    return program


def _sealed(magic: bytes, body: bytes) -> bytes:
    return HEAD.pack(magic, zlib.crc32(body)) + body


def _opened(magic: bytes, data: bytes, what: str) -> Reader:
    if len(data) < HEAD.size:
        raise BinaryError(f"the {what} has {len(data)} bytes, its head takes {HEAD.size}", len(data))
    found, checksum = HEAD.unpack_from(data)
    if found != magic:
        raise BinaryError(f"the {what} begins with {found!r}, not with {magic!r}", 0)
    if checksum != zlib.crc32(data[HEAD.size :]):
        raise BinaryError(f"the checksum of the {what} is wrong", 4)
    return Reader(bytes(data), HEAD.size)
