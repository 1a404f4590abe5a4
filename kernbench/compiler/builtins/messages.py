"""Messages between PEs: `tl.send` and `tl.recv`.

The other PE is named by its index in the launch (the order of `tl.pe_index()`), or by its place (sip, cube, pe); a
run-time integer will do. Does not know who receives what is sent, nor how it travels.
"""

from __future__ import annotations

from kernbench.commands import Operand
from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.conversions import dense, scalar_of
from kernbench.compiler.faults import fault
from kernbench.compiler.residual import RecvBlock, SendBlock
from kernbench.compiler.shapes import check_shape
from kernbench.compiler.values import NONE, Block, TupleValue, Value, is_block, type_text


@builtin("send")
def send(call: Call, value: Value, to: Value) -> Value:
    """Send a block to another PE, which takes it with `tl.recv`."""
    if not (is_block(value) or isinstance(value, Block)):
        help = "make a block of a scalar: tl.full((1,), x, dtype)"
        raise fault("E_BLOCK_EXPECTED", f"tl.send takes a block, {type_text(value)} is given", call.at, help=help)
    target = _pe(call, to, "to")
    call.builder.emit(SendBlock(dense(call.builder, value, call.at), target, call.at))
    return NONE


@builtin("recv")
def recv(call: Call, shape: Value, dtype: Value, source: Value) -> Value:
    """The oldest block that `source` has sent to this PE and that was not received yet; waits for it."""
    extents = check_shape(call.shape(shape), call.at, power_of_two=call.builder.power_of_two)
    result = call.builder.new_block(call.element(dtype), extents)
    call.builder.emit(RecvBlock(result, _pe(call, source, "source"), call.at))
    return Block(result)


def _pe(call: Call, value: Value, parameter: str) -> tuple[Operand, ...]:
    items = value.items if isinstance(value, TupleValue) else (value,)
    if len(items) not in (1, 3):
        message = f"`{parameter}` of {call.name} has {len(items)} numbers"
        help = "name a PE by its index in the launch, or by (sip, cube, pe)"
        raise fault("E_CALL_ARGUMENTS", message, call.at, help=help)
    return tuple(_number(call, item, parameter) for item in items)


def _number(call: Call, value: Value, parameter: str) -> Operand:
    scalar = scalar_of(call.builder, value, call.at, f"`{parameter}`")
    if not scalar.dtype.is_int:
        message = f"`{parameter}` of {call.name} must be an integer, {type_text(value)} is given"
        raise fault("E_OPERAND_TYPE", message, call.at)
    return call.builder.data(scalar, call.at)
