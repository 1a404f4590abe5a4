"""Operators on values, with Triton's promotion: constants fold, integers stay symbolic, the rest is emitted.

Does not know builtins or statements.
"""

from __future__ import annotations

from kernbench.commands import IndexOp, Operand, add
from kernbench.compiler import masks
from kernbench.compiler.constants import fold_binary, fold_compare, fold_unary
from kernbench.compiler.conversions import (
    SYMBOLIC,
    block_operand,
    cast,
    cast_ref,
    cast_scalar,
    dense,
    literal_type,
    read_scalar,
    require_numbers,
    scalar_of,
    to_runtime,
)
from kernbench.compiler.emitter import Emitter
from kernbench.compiler.faults import fault
from kernbench.compiler.pointers import is_pointer, offset_pointer, select_pointer
from kernbench.compiler.residual import BlockOp, BlockRef, Place
from kernbench.compiler.shapes import broadcast, broadcast_shapes
from kernbench.compiler.symbolic import (
    MAX_EXPR_NODES,
    add_forms,
    expr_of,
    expr_size,
    is_splat,
    negate,
    scale_form,
    splat,
)
from kernbench.compiler.values import (
    Block,
    Const,
    DTypeValue,
    Form,
    IntBlock,
    MaskValue,
    Scalar,
    TupleValue,
    Value,
    element_type,
    int_of,
    is_block,
    operand_of,
    shape_of,
    type_text,
)
from kernbench.dtypes import DType, fp32, i1, i64, promote

# operator -> micro-op. `/` and `//`, and `>>` of any sign, are told apart by type where they are evaluated.
BINARY = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "idiv", "%": "mod",
    "&": "and", "|": "or", "^": "xor", "<<": "shl", ">>": "shr",
}  # fmt: skip
COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_DIVISIONS = ("/", "//", "%")
_INTEGER_ONLY = ("//", "&", "|", "^", "<<", ">>")
_ON_BITS = {"add": "xor", "sub": "xor", "mul": "and"}  # int1 arithmetic is modulo 2


# --------------------------------------------------------------------------- entry points


def binary(emitter: Emitter, op: str, lhs: Value, rhs: Value, at: Place) -> Value:
    if op == "@":
        raise fault("E_UNSUPPORTED_OPERATOR", "`@` is not an operator on blocks", at, help="write tl.dot(a, b)")
    if isinstance(lhs, Const | TupleValue) and isinstance(rhs, Const | TupleValue):
        return fold_binary(op, lhs, rhs, at)
    if is_pointer(lhs) or is_pointer(rhs):
        return offset_pointer(emitter, op, lhs, rhs, at)
    require_numbers(at, lhs, rhs)
    if op == "**":
        raise fault(
            "E_UNSUPPORTED_OPERATOR",
            "`**` of run-time values is not supported yet",
            at,
            help="multiply, or write tl.exp2(y * tl.log2(x))",
        )
    dtype = result_type(lhs, rhs, at, division=op in _DIVISIONS)
    if dtype.is_float and op in _INTEGER_ONLY:
        raise fault(
            "E_OPERAND_TYPE",
            f"`{op}` takes integers, {type_text(lhs)} and {type_text(rhs)} are given",
            at,
            help="use tl.floor(a / b)" if op == "//" else None,
        )
    if op == "/" and dtype.is_int:
        dtype = fp32
    return arithmetic(emitter, BINARY[op], lhs, rhs, dtype, at)


def compare(emitter: Emitter, op: str, lhs: Value, rhs: Value, at: Place) -> Value:
    if op in ("is", "is not", "in", "not in") or not (_is_run_time(lhs) or _is_run_time(rhs)):
        return fold_compare(op, lhs, rhs, at)
    if _is_none(lhs) or _is_none(rhs):
        # `ptr == None`: a run-time value is never None.
        return fold_compare("is not" if op == "!=" else "is", lhs, rhs, at)
    lhs, rhs = _comparable(emitter, lhs, at), _comparable(emitter, rhs, at)
    require_numbers(at, lhs, rhs)
    dtype = result_type(lhs, rhs, at)
    return arithmetic(emitter, COMPARE[op], lhs, rhs, dtype, at, out=i1)


def unary(emitter: Emitter, op: str, value: Value, at: Place) -> Value:
    if isinstance(value, Const | TupleValue | DTypeValue):
        return fold_unary(op, value, at)
    if op == "not":
        return _invert_mask(emitter, _as_condition(emitter, value, at), at)
    require_numbers(at, value)
    dtype = element_type(value)
    assert isinstance(dtype, DType)
    if op == "+":
        return value
    if op == "-":
        # 0 - x, as Triton has it: the negative of 0.0 is 0.0, not -0.0.
        return arithmetic(emitter, "sub", Const(0), value, dtype, at)
    if dtype.is_float:
        raise fault("E_OPERAND_TYPE", f"`~` takes integers, {type_text(value)} is given", at)
    if dtype is i1:
        return _invert_mask(emitter, value, at)
    return arithmetic(emitter, "xor", value, Const(-1 if dtype.is_signed else dtype.max), dtype, at)


def logical(emitter: Emitter, op: str, lhs: Value, rhs: Value, at: Place) -> Value:
    """`and` and `or` of a run-time left side: elementwise, as int1."""
    kind = "&" if op == "and" else "|"
    return binary(emitter, kind, _as_condition(emitter, lhs, at), _as_condition(emitter, rhs, at), at)


def select(emitter: Emitter, condition: Value, then: Value, orelse: Value, at: Place) -> Value:
    condition = _as_condition(emitter, condition, at)
    if is_pointer(then) or is_pointer(orelse):
        return select_pointer(emitter, condition, then, orelse, at)
    require_numbers(at, then, orelse)
    dtype = result_type(then, orelse, at)
    shape = broadcast_shapes(at, condition, then, orelse)
    if shape and dtype in SYMBOLIC and (known := _known_select(emitter, condition, then, orelse, dtype, shape, at)):
        return known
    if isinstance(condition, Const):
        condition = to_runtime(emitter, condition, at)
    return elementwise(emitter, "select", (condition, then, orelse), dtype, at)


def truth(emitter: Emitter, value: Value, at: Place) -> bool | Operand:
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, TupleValue):
        return bool(value.items)
    if isinstance(value, Block) and value.ref.shape != () and all(extent == 1 for extent in value.shape):
        value = read_scalar(emitter, value, at)
    if is_block(value):
        raise fault(
            "E_SCALAR_EXPECTED",
            f"a condition is one value, {type_text(value)} is given",
            at,
            help="reduce it first, for example with tl.max(x, axis=0), or select with tl.where",
        )
    scalar = cast_scalar(emitter, scalar_of(emitter, value, at, "a condition"), i1, at)
    return bool(scalar.operand) if isinstance(scalar.operand, bool | int | float) else scalar.operand


# --------------------------------------------------------------------------- types


def result_type(lhs: Value, rhs: Value, at: Place, *, division: bool = False) -> DType:
    """Triton's type of an operation: a literal gives way to a run-time value unless its kind is higher."""
    types = [_type_of(value, at) for value in (lhs, rhs)]
    literal = [isinstance(value, Const) for value in (lhs, rhs)]
    if literal[0] != literal[1]:
        mine, other = (types[0], types[1]) if literal[0] else (types[1], types[0])
        if _kind(mine) <= _kind(other):
            dtype = fp32 if division and other.is_float and other.bits == 16 else other
            _check_literal(lhs if literal[0] else rhs, dtype, at)
            return dtype
    a, b = types
    if division and a.is_int and b.is_int and (a.kind == "int") != (b.kind == "int"):
        raise fault(
            "E_OPERAND_TYPE",
            f"division of {a.triton} and {b.triton}, which differ in sign",
            at,
            help="cast one of them to the other's type first",
        )
    dtype = promote(a, b, division=division)
    for value in (lhs, rhs):
        _check_literal(value, dtype, at)
    return dtype


def common_type(at: Place, *values: Value) -> DType:
    """The type of a function of several values: the operands' types joined from left to right."""
    dtype = _type_of(values[0], at)
    for value in values[1:]:
        dtype = promote(dtype, _type_of(value, at))
    return dtype


def _type_of(value: Value, at: Place) -> DType:
    if isinstance(value, Const):
        assert isinstance(value.value, bool | int | float)
        dtype = literal_type(value.value)
        if dtype is None:
            raise fault("E_LITERAL_RANGE", f"{value.value} fits no integer type, the largest has 64 bits", at)
        return dtype
    dtype = element_type(value)  # type: ignore[assignment]
    assert isinstance(dtype, DType)
    return dtype


def _kind(dtype: DType) -> int:
    return 2 if dtype.is_float else 0 if dtype is i1 else 1


def _check_literal(value: Value, dtype: DType, at: Place) -> None:
    if not isinstance(value, Const) or dtype.is_float:
        return
    assert isinstance(value.value, bool | int | float)
    if not dtype.min <= value.value <= dtype.max:
        span = f"{dtype.min} to {dtype.max}"
        message = f"the literal {value.value} does not fit {dtype.triton}, which holds {span}"
        raise fault("E_LITERAL_RANGE", message, at, help="cast the other operand to a wider type first")


# --------------------------------------------------------------------------- evaluation


def arithmetic(
    emitter: Emitter, kind: str, lhs: Value, rhs: Value, dtype: DType, at: Place, out: DType | None = None
) -> Value:
    """`lhs kind rhs`, both read in `dtype`, result in `out`; symbolic where that is exact."""
    if dtype is i1 and out is None:
        kind = _ON_BITS.get(kind, kind)
    shape = broadcast_shapes(at, lhs, rhs)
    if shape == ():
        return _scalar_arithmetic(emitter, kind, lhs, rhs, dtype, out or dtype, at)
    if dtype is i1 and (mask := _mask_algebra(emitter, kind, lhs, rhs, shape, at)) is not None:
        return mask
    if dtype in SYMBOLIC and not (isinstance(lhs, Block) and isinstance(rhs, Block)):
        symbolic = _symbolic(emitter, kind, lhs, rhs, dtype, out, shape, at)
        if symbolic is not None:
            return symbolic
    return elementwise(emitter, kind, (lhs, rhs), out or dtype, at, reads=dtype)


def _scalar_arithmetic(
    emitter: Emitter, kind: str, lhs: Value, rhs: Value, dtype: DType, out: DType, at: Place
) -> Value:
    if isinstance(lhs, Block) or isinstance(rhs, Block):
        return elementwise(emitter, kind, (lhs, rhs), out, at, reads=dtype)
    a, b = (cast_scalar(emitter, scalar_of(emitter, value, at), dtype, at) for value in (lhs, rhs))
    if dtype.is_int and dtype is not i1 and kind in ("add", "sub", "mul") and out is dtype:
        return _exact_scalar(emitter, kind, a, b, dtype, at)
    return Scalar(emitter.scalar_op(kind, (a.operand, b.operand), out, (dtype, dtype), at), out)


def _exact_scalar(emitter: Emitter, kind: str, a: Scalar, b: Scalar, dtype: DType, at: Place) -> Scalar:
    """Sums and products of integers stay exact: as an affine operand, or in a 64-bit register."""
    x, y = int_of(a.operand), int_of(b.operand)
    if kind == "mul":
        total = emitter.product(x, y, at)
    else:
        total = add(x, y) if kind == "add" else add(x, emitter.product(y, -1, at))
    operand = operand_of(total)
    return Scalar(emitter.wrapped(operand, dtype, at) if isinstance(operand, int) else operand, dtype)


def elementwise(
    emitter: Emitter, kind: str, args: tuple[Value, ...], out: DType, at: Place, reads: DType | None = None
) -> Value:
    """A micro-op on data. `reads` is the type it computes in; the condition of a select stays int1."""
    reads = reads or out
    types = tuple(i1 if kind == "select" and index == 0 else reads for index in range(len(args)))
    if not any(isinstance(arg, Block) or is_block(arg) for arg in args):
        scalars = [scalar_of(emitter, cast(emitter, a, t, at), at) for a, t in zip(args, types, strict=True)]
        return Scalar(emitter.scalar_op(kind, tuple(s.operand for s in scalars), out, types, at), out)
    shape = broadcast_shapes(at, *args)
    operands = tuple(
        block_operand(emitter, _of_rank(emitter, arg, len(shape), at), dtype, at)
        for arg, dtype in zip(args, types, strict=True)
    )
    result = emitter.new_block(out, shape)
    emitter.emit(BlockOp(result, kind, operands, {}, at))
    return Block(result)


def _of_rank(emitter: Emitter, value: Value, rank: int, at: Place) -> Value:
    """A block of lower rank gets axes of extent 1 in front; scalars need none."""
    shape = shape_of(value)
    if not shape or len(shape) == rank:
        return value
    return broadcast(emitter, value, (1,) * (rank - len(shape)) + shape, at)


# --------------------------------------------------------------------------- symbolic integers


def as_form(emitter: Emitter, value: Value, dtype: DType, shape: tuple[int, ...], at: Place) -> Form:
    """An integer value of type `dtype` as a form of `shape`; a dense block becomes its dense part."""
    value = _in_register(emitter, cast(emitter, value, dtype, at), at)
    if isinstance(value, Scalar):
        return splat(shape, int_of(value.operand))
    value = broadcast(emitter, value, shape, at, keep_dense=True)
    if isinstance(value, IntBlock):
        return value.form
    ref = dense(emitter, value, at)
    return Form(shape, 0, (0,) * len(shape), None, ref)


def _symbolic(
    emitter: Emitter,
    kind: str,
    lhs: Value,
    rhs: Value,
    dtype: DType,
    out: DType | None,
    shape: tuple[int, ...],
    at: Place,
) -> Value | None:
    if any(_split(value)[0] for value in (lhs, rhs)):
        lhs, rhs = (_in_register(emitter, value, at) for value in (lhs, rhs))
    if not _stays_symbolic(lhs) or not _stays_symbolic(rhs):
        return _with_dense(emitter, kind, lhs, rhs, dtype, shape, at) if out is None else None
    a, b = (as_form(emitter, value, dtype, shape, at) for value in (lhs, rhs))
    if out is i1:
        return masks.compare_forms(emitter, kind, a, b, dtype, at)
    if a.dense is not None or b.dense is not None:
        return _with_dense(emitter, kind, lhs, rhs, dtype, shape, at)
    form = _linear(emitter, kind, a, b, at)
    if form is None:
        known = IndexOp(kind, (expr_of(a, dtype), expr_of(b, dtype)), dtype)
        form = Form(shape, 0, (0,) * len(shape), known)
    if form.rest is not None and expr_size(form.rest) > MAX_EXPR_NODES:
        return None
    return IntBlock(form, dtype)


def _in_register(emitter: Emitter, value: Value, at: Place) -> Value:
    """A scalar that was left in TCM, in a register: it meets an address."""
    return read_scalar(emitter, value, at) if isinstance(value, Block) and value.shape == () else value


def _stays_symbolic(value: Value) -> bool:
    """Known without reading data: constants, scalars, symbolic blocks, masks whose lanes are known."""
    if isinstance(value, MaskValue):
        return masks.known_expr(value) is not None
    return isinstance(value, Const | Scalar | IntBlock)


def _linear(emitter: Emitter, kind: str, a: Form, b: Form, at: Place) -> Form | None:
    if kind == "add":
        return add_forms(a, b)
    if kind == "sub":
        return add_forms(a, negate(b))
    if kind == "mul" and is_splat(b):
        return scale_form(emitter, a, b.base, at)
    if kind == "mul" and is_splat(a):
        return scale_form(emitter, b, a.base, at)
    return None


def _with_dense(
    emitter: Emitter, kind: str, lhs: Value, rhs: Value, dtype: DType, shape: tuple[int, ...], at: Place
) -> Value | None:
    """Index arithmetic with a dense part, which stays apart from the symbolic one: `rows[:, None] * n + cols`.

    Plain data (no symbolic part but a scalar) stays a block of its own.
    """
    parts = [_split(value) for value in (lhs, rhs)]
    if not any(symbolic for symbolic, _ in parts) or kind not in ("add", "sub", "mul"):
        return None
    a, b = (as_form(emitter, value, dtype, shape, at) for value in (lhs, rhs))
    if kind == "mul":
        if not (is_splat(a) or is_splat(b)):
            return None
        form, factor = (a, b.base) if is_splat(b) else (b, a.base)
        assert form.dense is not None
        scaled = _dense_op(emitter, "mul", form.dense, emitter.wrapped(operand_of(factor), dtype, at), dtype, at)
        rest = scale_form(emitter, Form(form.shape, form.base, form.strides, form.rest), factor, at)
        return IntBlock(Form(shape, rest.base, rest.strides, rest.rest, scaled), dtype)
    x, y = (Form(form.shape, form.base, form.strides, form.rest) for form in (a, b))
    linear = add_forms(x, negate(y) if kind == "sub" else y)
    merged = _merge_dense(emitter, kind, a.dense, b.dense, dtype, at)
    if linear.rest is not None and expr_size(linear.rest) > MAX_EXPR_NODES:
        return None
    return IntBlock(Form(shape, linear.base, linear.strides, linear.rest, merged), dtype)


def _split(value: Value) -> tuple[bool, bool]:
    """(has a symbolic part that varies over lanes, has a dense part)"""
    if isinstance(value, IntBlock):
        return not is_splat(value.form), value.form.dense is not None
    return False, isinstance(value, Block)


def _merge_dense(
    emitter: Emitter, kind: str, a: BlockRef | None, b: BlockRef | None, dtype: DType, at: Place
) -> BlockRef | None:
    if b is None:
        return a
    if a is None:
        return _dense_op(emitter, "neg", b, None, dtype, at) if kind == "sub" else b
    return _dense_op(emitter, kind, a, b, dtype, at)


def _dense_op(
    emitter: Emitter, kind: str, a: BlockRef, b: BlockRef | Operand | None, dtype: DType, at: Place
) -> BlockRef:
    a = cast_ref(emitter, a, dtype, at)
    shape = a.shape
    if isinstance(b, BlockRef):
        b = cast_ref(emitter, b, dtype, at)
        shape = tuple(max(x, y) for x, y in zip(a.shape, b.shape, strict=True))
    result = emitter.new_block(dtype, shape)
    emitter.emit(BlockOp(result, kind, (a,) if b is None else (a, b), {}, at))
    return result


# --------------------------------------------------------------------------- masks


def as_mask(emitter: Emitter, value: Value, shape: tuple[int, ...], at: Place) -> MaskValue:
    """A condition of any kind as a mask of `shape`."""
    value = _as_condition(emitter, value, at)
    if isinstance(value, Const):
        return masks.everything(shape, (bool(value.value),))
    value = _in_register(emitter, value, at)
    if isinstance(value, Scalar):
        return masks.everything(shape, (value.operand,))
    value = broadcast(emitter, value, shape, at, keep_dense=True)
    if isinstance(value, MaskValue):
        return value
    return masks.make_mask(shape, dense=dense(emitter, value, at))


def _mask_algebra(
    emitter: Emitter, kind: str, lhs: Value, rhs: Value, shape: tuple[int, ...], at: Place
) -> Value | None:
    if not (isinstance(lhs, MaskValue) or isinstance(rhs, MaskValue)):
        return None
    a, b = (as_mask(emitter, value, shape, at) for value in (lhs, rhs))
    if kind == "and":
        return masks.both(emitter, a, b, at)
    return masks.combine_known(kind, a, b)


def _invert_mask(emitter: Emitter, value: Value, at: Place) -> Value:
    if isinstance(value, MaskValue) and (known := masks.combine_known("not", value)) is not None:
        return known
    return elementwise(emitter, "not", (value,), i1, at)


def _known_select(
    emitter: Emitter,
    condition: Value,
    then: Value,
    orelse: Value,
    dtype: DType,
    shape: tuple[int, ...],
    at: Place,
) -> Value | None:
    if not (_stays_symbolic(then) and _stays_symbolic(orelse)):
        return None
    known = masks.known_expr(as_mask(emitter, condition, shape, at))
    a, b = (as_form(emitter, value, dtype, shape, at) for value in (then, orelse))
    if known is None or a.dense is not None or b.dense is not None:
        return None
    expr = IndexOp("select", (known, expr_of(a, dtype), expr_of(b, dtype)), dtype)
    if expr_size(expr) > MAX_EXPR_NODES:
        return None
    return IntBlock(Form(shape, 0, (0,) * len(shape), expr), dtype)


def _as_condition(emitter: Emitter, value: Value, at: Place) -> Value:
    """The value as int1: `!= 0`."""
    if isinstance(value, Const):
        return Const(bool(value.value))
    require_numbers(at, value)
    return cast(emitter, value, i1, at)


def _is_run_time(value: Value) -> bool:
    return element_type(value) is not None


def _is_none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None


def _comparable(emitter: Emitter, value: Value, at: Place) -> Value:
    """Pointers compare as the integers that they are."""
    return cast(emitter, value, i64, at) if is_pointer(value) else value
