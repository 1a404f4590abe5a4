"""The bits of a physical address, unique in one SIP, and of a kernel's logical pointers.

Does not know capacities or topologies: whoever decodes an address checks it against those.

A physical address (PA):  | cube: 16 bits | pe: 8 bits | space: 1 bit | offset: 39 bits |
A logical pointer:        | tensor argument + 1: 15 bits | byte offset: 48 bits |   (0 is the null pointer)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Space = Literal["hbm", "tcm"]

OFFSET_BITS = 39
SPACE_BITS = 1
PE_BITS = 8
CUBE_BITS = 16
PA_BITS = OFFSET_BITS + SPACE_BITS + PE_BITS + CUBE_BITS
MAX_OFFSET = (1 << OFFSET_BITS) - 1

_SPACES: tuple[Space, Space] = ("hbm", "tcm")

WINDOW_BITS = 48
MAX_WINDOWS = (1 << 15) - 2


@dataclass(frozen=True, slots=True)
class PhysicalAddress:
    cube: int
    pe: int
    space: Space
    offset: int  # bytes from the start of that PE's slice or TCM


def encode_pa(cube: int, pe: int, space: Space, offset: int) -> int:
    """The address as an integer; each part must fit its bits."""
    for name, value, bits in (
        ("cube", cube, CUBE_BITS),
        ("pe", pe, PE_BITS),
        ("offset", offset, OFFSET_BITS),
    ):
        if not 0 <= value < 1 << bits:
            raise ValueError(f"{name} {value} does not fit in {bits} bits")
    if space not in _SPACES:
        raise ValueError(f"space {space!r} is not one of {', '.join(_SPACES)}")
    return ((cube << PE_BITS | pe) << SPACE_BITS | _SPACES.index(space)) << OFFSET_BITS | offset


def decode_pa(pa: int) -> PhysicalAddress:
    """The parts of an address; `ValueError` where it has more bits than an address has."""
    if not 0 <= pa < 1 << PA_BITS:
        raise ValueError(f"address {pa:#x} does not fit in {PA_BITS} bits")
    head = pa >> OFFSET_BITS
    return PhysicalAddress(
        cube=head >> (SPACE_BITS + PE_BITS),
        pe=(head >> SPACE_BITS) & ((1 << PE_BITS) - 1),
        space=_SPACES[head & 1],
        offset=pa & MAX_OFFSET,
    )


def window_base(tensor_index: int) -> int:
    """The logical address of byte 0 of a launch's tensor argument number `tensor_index` (counted from 0)."""
    if not 0 <= tensor_index < MAX_WINDOWS:
        raise ValueError(f"tensor index {tensor_index} is not below {MAX_WINDOWS}")
    return (tensor_index + 1) << WINDOW_BITS


def split_logical(address: int) -> tuple[int, int]:
    """(tensor index, byte offset) of a logical pointer; a small negative overrun of a tensor shows as an offset
    of the window before it far beyond any tensor's size, so it never lands in another tensor."""
    return (address >> WINDOW_BITS) - 1, address & ((1 << WINDOW_BITS) - 1)
