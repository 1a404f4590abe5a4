"""`tl.composite`: one command for a matrix product with what comes before and after it, or for a chain of maths.

Resolves operands, shapes and which blocks are written in place. Recipes are names here; `lower` expands them.
"""

from __future__ import annotations

from collections.abc import Iterable

from kernbench.commands import Scope, contiguous_strides
from kernbench.compiler.access import pointer_expected
from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.composite_types import Product, Types, bound_side, product_of
from kernbench.compiler.conversions import dense, scalar_operand
from kernbench.compiler.faults import fault
from kernbench.compiler.recipes import RECIPE_DESCRIPTORS, known_ops
from kernbench.compiler.residual import (
    BlockRef,
    CompositeCall,
    CompositeEntry,
    CompositeOperand,
    HbmRef,
)
from kernbench.compiler.values import (
    NONE,
    Block,
    Const,
    DictValue,
    HbmRefValue,
    Pointer,
    TupleValue,
    Value,
    is_block,
    shape_text,
    type_text,
)
from kernbench.diagnostics import did_you_mean
from kernbench.micro_ops import MICRO_OPS
from kernbench.numerics import accumulator_dtype

GEMM = "gemm"
_ATTRIBUTES = ("axis", "bcast_axis")  # numbers that say how an op works, and are no operands
_SCOPES = tuple(scope.value for scope in Scope)

Operands = dict[str, CompositeOperand]
Entries = tuple[CompositeEntry, ...]


@builtin("composite")
def composite(
    call: Call,
    op: Value = NONE,
    a: Value = NONE,
    b: Value = NONE,
    out: Value = NONE,
    out_ptr: Value = NONE,
    prologue: Value = NONE,
    epilogue: Value = NONE,
    **others: Value,
) -> Value:
    """One command for a GEMM with what comes before and after it, or for a chain of MATH ops."""
    name = _op_name(call, op)
    before, after = _entries(call, prologue, "prologue"), _entries(call, epilogue, "epilogue")
    if name is None and not before:
        raise fault("E_BAD_COMPOSITE", "a composite without `op` needs a `prologue`", call.at)
    given = _named_for(name, {key: value for key, value in {"a": a, "b": b, **others}.items() if value != NONE})
    operands, extra = _operands(call, given, f"tl.composite(op={name!r})")
    product = _product(call, name, operands, extra, before, after)
    target = _target(call, out, out_ptr, product)
    result = None
    if target is None:
        result = call.builder.new_block(product.dtype, product.shape)
    updates = _updates(call, target, (*before, *after))
    call.builder.emit(CompositeCall(name, operands, extra, before, after, target, result, updates, call.at))
    call.builder.updates += [(old, Block(new)) for old, new in updates]
    if isinstance(target, BlockRef):
        return Block(dict(updates)[target])
    return NONE if result is None else Block(result)


# --------------------------------------------------------------------------- parts


def _op_name(call: Call, op: Value) -> str | None:
    if op == NONE:
        return None
    name = call.constant(op, "op")
    known = [GEMM, *(op for op in known_ops() if op not in RECIPE_DESCRIPTORS)]
    if name in known:
        return str(name)
    help = did_you_mean(str(name), known, "ops")
    raise fault("E_UNKNOWN_OP", f"{name!r} is no op of a composite", call.at, help=help)


def _named_for(name: str | None, given: dict[str, Value]) -> dict[str, Value]:
    """`a` and `b` are the first two operands of a micro-op too."""
    wanted = MICRO_OPS[name].operands if name is not None and name != GEMM else ()
    short = {letter: full for letter, full in zip("ab", wanted, strict=False) if full not in given}
    return {short.get(key, key): value for key, value in given.items()}


def _entries(call: Call, value: Value, what: str) -> tuple[CompositeEntry, ...]:
    if value == NONE:
        return ()
    items = value.items if isinstance(value, TupleValue) else (value,)
    return tuple(_entry(call, item, what) for item in items)


def _entry(call: Call, item: Value, what: str) -> CompositeEntry:
    if not isinstance(item, DictValue) or not isinstance(item.get("op"), Const):
        form = '{"op": "add", "other": x}'
        raise fault("E_BAD_COMPOSITE", f"an item of `{what}` must be a dict like {form}", call.at, type_text(item))
    name = call.constant(dict(item.items)["op"], "op")
    known = known_ops()
    if name not in (*known, GEMM):  # `lower` counts the gemms
        help = did_you_mean(str(name), known, "recipes and ops")
        raise fault("E_UNKNOWN_OP", f"`{what}` names {name!r}, which is no recipe and no op", call.at, help=help)
    given = {key: value for key, value in item.items if key not in ("op", "scope") and value != NONE}
    operands, extra = _operands(call, given, f"`{name}` of `{what}`")
    return CompositeEntry(str(name), operands, extra, _scope(call, item), call.at)


def _scope(call: Call, item: DictValue) -> str | None:
    scope = item.get("scope")
    if scope is None or scope == NONE:
        return None
    name = call.constant(scope, "scope")
    if name not in _SCOPES:
        raise fault("E_BAD_COMPOSITE", f"the scope {name!r} is none of {', '.join(_SCOPES)}", call.at)
    return str(name)


def _operands(call: Call, given: dict[str, Value], owner: str) -> tuple[Operands, dict[str, object]]:
    operands: Operands = {}
    extra: dict[str, object] = {}
    for name, value in given.items():
        if name in _ATTRIBUTES:
            extra[name] = call.integer(value, name)
        else:
            operands[name] = _operand(call, value, name, owner)
    return operands, extra


def _operand(call: Call, value: Value, name: str, owner: str) -> CompositeOperand:
    if isinstance(value, HbmRefValue):
        return value.ref
    if isinstance(value, Block) or is_block(value):
        return dense(call.builder, value, call.at)
    if isinstance(value, Pointer):
        help = "load it, or name it with tl.ref(ptr, shape)"
        raise fault("E_BAD_COMPOSITE", f"`{name}` of {owner} is a pointer", call.at, type_text(value), help=help)
    return scalar_operand(call.builder, value, call.at)[0]


# --------------------------------------------------------------------------- shapes


def _product(
    call: Call, name: str | None, operands: Operands, extra: dict[str, object], before: Entries, after: Entries
) -> Product:
    """What the composite makes, where it makes it anew."""
    types = Types(call.builder.register_dtypes)
    value = types.chain(before, None, call.at)
    if name == GEMM:
        made = _gemm_product(call, _sides(call, operands, before, value))
        return Product(made.shape, types.accumulated(after, made.dtype))
    if name is not None:
        value = types.micro(name, operands, extra, value, call.at)
    value = types.chain(after, value, call.at)
    if value is None:
        raise fault("E_BAD_COMPOSITE", "no recipe of the `prologue` has a result", call.at, help="give an `op`")
    return value


def _sides(call: Call, operands: Operands, before: Entries, value: Product | None) -> dict[str, Product]:
    """`a` and `b`; what the prologue makes is the one that is not given."""
    sides: dict[str, Product] = {}
    for side in ("a", "b"):
        operand = operands.get(side)
        product = product_of(operand)
        if product is not None:
            sides[side] = product
        elif operand is not None:
            raise fault("E_BAD_COMPOSITE", f"`{side}` of a gemm must be a block or a tl.ref", call.at)
    absent = [side for side in ("a", "b") if side not in sides]
    if value is not None and absent:
        preferred = bound_side(before)
        sides[preferred if preferred in absent else absent[0]] = value
    if len(sides) < 2:
        raise fault("E_BAD_COMPOSITE", f"a gemm needs `{absent[-1]}`, or a prologue recipe that makes it", call.at)
    return sides


def _gemm_product(call: Call, sides: dict[str, Product]) -> Product:
    a, b = sides["a"], sides["b"]
    both = f"{shape_text(a.shape)} and {shape_text(b.shape)}"
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        text = "a is (m, k) and b is (k, n)"
        raise fault("E_DOT_SHAPE", f"a gemm of {both}", call.at, text)
    if a.dtype.is_int != b.dtype.is_int:
        raise fault("E_DOT_TYPE", f"a gemm of {a.dtype.triton} and {b.dtype.triton}", call.at)
    return Product((a.shape[0], b.shape[1]), accumulator_dtype(a.dtype, b.dtype))


# --------------------------------------------------------------------------- results


def _target(call: Call, out: Value, out_ptr: Value, product: Product) -> BlockRef | HbmRef | None:
    if out != NONE and out_ptr != NONE:
        raise fault("E_BAD_COMPOSITE", "a composite writes to `out` or to `out_ptr`, both are given", call.at)
    if out_ptr != NONE:
        if not isinstance(out_ptr, Pointer):
            raise pointer_expected("`out_ptr` of tl.composite", out_ptr, call.at)
        steps = contiguous_strides(product.shape)
        return HbmRef("", out_ptr.address, product.shape, steps, out_ptr.element)
    if out == NONE:
        return None
    if isinstance(out, HbmRefValue):
        target: BlockRef | HbmRef = out.ref
    elif is_block(out):
        target = dense(call.builder, out, call.at)
    else:
        raise fault("E_BAD_COMPOSITE", f"`out` must be a block or a tl.ref, {type_text(out)} is given", call.at)
    if target.shape != product.shape:
        message = f"`out` has shape {shape_text(target.shape)}, the result {shape_text(product.shape)}"
        raise fault("E_SHAPE_MISMATCH", message, call.at)
    return target


def _updates(
    call: Call, target: BlockRef | HbmRef | None, entries: Iterable[CompositeEntry]
) -> tuple[tuple[BlockRef, BlockRef], ...]:
    """Each block that is written in place with the block that names its new value, in the order of writing."""
    written: dict[BlockRef, BlockRef] = {}

    def write(operand: CompositeOperand | None, what: str) -> None:
        if isinstance(operand, BlockRef):
            written.setdefault(operand, call.builder.new_block(operand.dtype, operand.shape, operand.name))
        elif not isinstance(operand, HbmRef):
            raise fault("E_BAD_COMPOSITE", f"{what} is written, so it must be a block", call.at)

    for entry in entries:
        names = {*call.builder.written_operands(entry.op), "out"}
        for name in (key for key in entry.operands if key in names):
            write(entry.operands[name], f"`{name}` of `{entry.op}`")
    if target is not None:
        write(target, "`out`")
    return tuple(written.items())
