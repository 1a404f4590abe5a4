"""Functions of single elements: unary maths, selection, minimum and maximum."""

from __future__ import annotations

from kernbench.compiler import operators
from kernbench.compiler.arithmetic import arithmetic, elementwise
from kernbench.compiler.builtins.reductions import reduce_along
from kernbench.compiler.builtins.registry import Call, builtin, micro_op_doc
from kernbench.compiler.conversions import cast, require_numbers, to_runtime
from kernbench.compiler.faults import fault
from kernbench.compiler.promotion import common_type, result_type
from kernbench.compiler.values import FALSE, NONE, TRUE, Const, TupleValue, Value, element_type, type_text
from kernbench.dtypes import DType, bf16, fp32

IGNORE_NAN = Const("none")  # the default of `propagate_nan`: a NaN loses

# name in the language -> micro-op
_UNARY = {
    "exp": "exp",
    "exp2": "exp2",
    "log": "log",
    "log2": "log2",
    "sqrt": "sqrt",
    "sqrt_rn": "sqrt",
    "rsqrt": "rsqrt",
    "sin": "sin",
    "cos": "cos",
    "tanh": "tanh",
    "erf": "erf",
    "sigmoid": "sigmoid",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "rint": "round",
}

NOT_IN_TL = ("rint", "tanh", "isnan", "trunc")  # these stand in `tl.math` only


def _register(name: str, kind: str) -> None:
    @builtin(name)
    def unary(call: Call, x: Value) -> Value:
        return elementwise(call.builder, kind, (x,), float_type(call, x), call.at)

    unary.__doc__ = micro_op_doc(kind)


def float_type(call: Call, *values: Value) -> DType:
    """The type of a float function's result; integers are refused, as Triton does."""
    require_numbers(call.at, *values)
    for value in values:
        dtype = element_type(to_runtime(call.builder, value, call.at))
        assert isinstance(dtype, DType)
        if not dtype.is_float:
            help = "cast it with .to(tl.float32)"
            message = f"{call.name} takes floats, {type_text(value)} is given"
            raise fault("E_OPERAND_TYPE", message, call.at, help=help)
    return common_type(call.at, *values)


for _name, _kind in _UNARY.items():
    _register(_name, _kind)


@builtin("abs", "builtins.abs")
def abs_(call: Call, x: Value) -> Value:
    """|x|; the smallest integer stays what it is."""
    if isinstance(x, Const) and isinstance(x.value, bool | int | float):
        return Const(abs(x.value))
    require_numbers(call.at, x)
    dtype = element_type(x)
    assert isinstance(dtype, DType)
    if not dtype.is_signed:
        return x
    return elementwise(call.builder, "abs", (x,), dtype, call.at)


@builtin("where")
def where(call: Call, condition: Value, x: Value, y: Value) -> Value:
    """`x` in the lanes where `condition` is not 0, else `y`."""
    return operators.select(call.builder, condition, x, y, call.at)


def _extreme(call: Call, kind: str, x: Value, y: Value, propagate_nan: Value) -> Value:
    """`minimum` and `maximum`: bf16 computes and comes out in fp32; a NaN loses unless it is asked for."""
    require_numbers(call.at, x, y)
    sides = [_without_bf16(call, to_runtime(call.builder, value, call.at)) for value in (x, y)]
    mode = call.constant(propagate_nan, "propagate_nan")
    nan_wins = mode == "all"
    dtype = result_type(sides[0], sides[1], call.at)
    if nan_wins and dtype.is_float:
        kind = {"max_elem": "max_nan", "min_elem": "min_nan"}[kind]
    return arithmetic(call.builder, kind, sides[0], sides[1], dtype, call.at)


def _without_bf16(call: Call, value: Value) -> Value:
    return cast(call.builder, value, fp32, call.at) if element_type(value) is bf16 else value


@builtin("maximum")
def maximum(call: Call, x: Value, y: Value, propagate_nan: Value = IGNORE_NAN) -> Value:
    """The larger of the two, lane by lane; a NaN loses unless `propagate_nan` says otherwise."""
    return _extreme(call, "max_elem", x, y, propagate_nan)


@builtin("minimum")
def minimum(call: Call, x: Value, y: Value, propagate_nan: Value = IGNORE_NAN) -> Value:
    """The smaller of the two, lane by lane; a NaN loses unless `propagate_nan` says otherwise."""
    return _extreme(call, "min_elem", x, y, propagate_nan)


@builtin("clamp")
def clamp(call: Call, x: Value, min: Value, max: Value, propagate_nan: Value = IGNORE_NAN) -> Value:
    """`x` held between `min` and `max`."""
    require_numbers(call.at, x, min, max)
    kind = "clamp_nan" if call.constant(propagate_nan, "propagate_nan") == "all" else "clamp"
    values = [_without_bf16(call, to_runtime(call.builder, value, call.at)) for value in (x, min, max)]
    dtype = common_type(call.at, *values)
    if not dtype.is_float:
        help = "write tl.minimum(tl.maximum(x, low), high)"
        raise fault("E_OPERAND_TYPE", f"tl.clamp takes floats, {type_text(x)} is given", call.at, help=help)
    return elementwise(call.builder, kind, tuple(values), dtype, call.at)


def _register_operator(operator: str, *names: str, doc: str) -> None:
    def apply(call: Call, x: Value, y: Value, sanitize_overflow: Value = TRUE) -> Value:
        return operators.binary(call.builder, operator, x, y, call.at)

    apply.__doc__ = doc
    builtin(*names)(apply)


_register_operator("+", "add", "operator.__add__", doc="The operator `+` as a function; integers wrap.")
_register_operator("-", "sub", "operator.__sub__", doc="The operator `-` as a function; integers wrap.")
_register_operator("*", "mul", "operator.__mul__", doc="The operator `*` as a function; integers wrap.")
for _operator, _name in (
    ("/", "truediv"), ("//", "floordiv"), ("%", "mod"), ("<<", "lshift"), (">>", "rshift"), ("&", "and"), ("|", "or"),
    ("^", "xor"),
):  # fmt: skip
    _register_operator(_operator, f"operator.__{_name}__", doc=f"The operator `{_operator}` as a method.")


@builtin("fma")
def fma(call: Call, x: Value, y: Value, z: Value) -> Value:
    """x * y + z, the product exact but in fp64."""
    dtype = float_type(call, x, y, z)
    return elementwise(call.builder, "fma", (x, y, z), dtype, call.at)


@builtin("fdiv", "div_rn")
def fdiv(call: Call, x: Value, y: Value, ieee_rounding: Value = FALSE) -> Value:
    """x / y of floats."""
    float_type(call, x, y)
    return operators.binary(call.builder, "/", x, y, call.at)


@builtin("cdiv")
def cdiv(call: Call, x: Value, div: Value) -> Value:
    """x / div rounded up, of integers that are not negative."""
    builder, at = call.builder, call.at
    raised = operators.binary(builder, "+", x, operators.binary(builder, "-", div, Const(1), at), at)
    return operators.binary(builder, "//", raised, div, at)


@builtin("softmax")
def softmax(call: Call, x: Value, dim: Value = NONE, keep_dims: Value = FALSE, ieee_rounding: Value = FALSE) -> Value:
    """Along axis 0 by default, as Triton's. The sum and maximum keep their axis, so any axis works."""
    builder, at = call.builder, call.at
    axis = 0 if dim == NONE else call.integer(dim, "dim")
    largest = reduce_along(call, "rmax", x, axis, keep_dims=True)
    raised = operators.binary(builder, "-", x, largest, at)
    powers = elementwise(builder, "exp", (raised,), float_type(call, raised), at)
    return operators.binary(builder, "/", powers, reduce_along(call, "rsum", powers, axis, keep_dims=True), at)


@builtin("swizzle2d")
def swizzle2d(call: Call, i: Value, j: Value, size_i: Value, size_j: Value, size_g: Value) -> Value:
    """Row-major indices of a grid, renumbered so that `size_g` rows are walked column by column."""

    def op(kind: str, a: Value, b: Value) -> Value:
        return operators.binary(call.builder, kind, a, b, call.at)

    flat = op("+", op("*", i, size_j), j)
    group_size = op("*", size_g, size_j)
    first_row = op("*", op("//", flat, group_size), size_g)
    rows = minimum(call, op("-", size_i, first_row), size_g)
    within = op("%", flat, group_size)
    row = op("+", first_row, op("%", within, rows))
    return TupleValue((row, op("//", within, rows)))


@builtin("isnan")
def isnan(call: Call, x: Value) -> Value:
    """Whether x is NaN."""
    return operators.compare(call.builder, "!=", x, x, call.at)


@builtin("logical_and")
def logical_and(call: Call, x: Value, y: Value) -> Value:
    """`and` of conditions, lane by lane."""
    return operators.logical(call.builder, "and", x, y, call.at)


@builtin("logical_or")
def logical_or(call: Call, x: Value, y: Value) -> Value:
    """`or` of conditions, lane by lane."""
    return operators.logical(call.builder, "or", x, y, call.at)
