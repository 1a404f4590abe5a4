"""Where a program runs: its place in the grid, and its processing element in the machine."""

from __future__ import annotations

from typing import get_args

from kernbench.commands import Special
from kernbench.compiler.builtins.registry import Call, builtin
from kernbench.compiler.faults import fault
from kernbench.compiler.values import ZERO, Value

_AXES = (0, 1, 2)
_WORDS: dict[Special, str] = {
    "pe_id": "The number of this PE in its cube.",
    "cube_id": "The number of this PE's cube in its package.",
    "sip_id": "The number of this PE's package.",
    "pe_index": "The index of this PE in the launch.",
    "num_pes": "How many PEs the launch has.",
    "num_cubes": "How many cubes have PEs of the launch.",
    "num_sips": "How many packages have PEs of the launch.",
    "pes_per_cube": "How many PEs a cube has.",
}
assert set(_WORDS) == {word for word in get_args(Special) if not word[-1].isdigit()}


@builtin("program_id")
def program_id(call: Call, axis: Value = ZERO) -> Value:
    """The index of this program along an axis of the grid."""
    return call.builder.special(_of_axis(call, axis, ("program_id_0", "program_id_1", "program_id_2")))


@builtin("num_programs")
def num_programs(call: Call, axis: Value = ZERO) -> Value:
    """How many programs there are along an axis of the grid."""
    return call.builder.special(_of_axis(call, axis, ("num_programs_0", "num_programs_1", "num_programs_2")))


def _of_axis(call: Call, axis: Value, names: tuple[Special, Special, Special]) -> Special:
    number = call.integer(axis, "axis")
    if number not in _AXES:
        raise fault("E_BAD_AXIS", f"`axis` of {call.name} is {number}, it must be 0, 1 or 2", call.at)
    return names[number]


def _register(word: Special) -> None:
    @builtin(word)
    def identity(call: Call) -> Value:
        return call.builder.special(word)

    identity.__doc__ = _WORDS[word]


for _word in _WORDS:
    _register(_word)
