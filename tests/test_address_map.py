"""Addresses: every part comes back, none runs into another, what does not fit is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.address_map import (
    CUBE_BITS,
    MAX_OFFSET,
    MAX_WINDOWS,
    OFFSET_BITS,
    PA_BITS,
    PE_BITS,
    WINDOW_BITS,
    PhysicalAddress,
    Space,
    decode_pa,
    encode_pa,
    split_logical,
    window_base,
)

CUBES, PES, OFFSETS = st.integers(0, 2**16 - 1), st.integers(0, 255), st.integers(0, MAX_OFFSET)
SPACES = st.sampled_from(("hbm", "tcm"))
PLACES = st.tuples(CUBES, PES, SPACES, OFFSETS)


def test_the_bits_of_an_address() -> None:
    """As the module's docstring draws them: cube 16, pe 8, space 1, offset 39; 64 in all."""
    assert (64, 2**39 - 1) == (PA_BITS, MAX_OFFSET)
    assert (16, 8, 39) == (CUBE_BITS, PE_BITS, OFFSET_BITS)
    assert 0x0001_01_8000000010 == encode_pa(1, 1, "tcm", 16)
    assert 0x0000_02_0000000000 == encode_pa(0, 2, "hbm", 0)
    assert 2**64 - 1 == encode_pa(2**16 - 1, 255, "tcm", MAX_OFFSET)


@settings(max_examples=200, deadline=None)
@given(PLACES)
def test_decoding_gives_the_parts_back(place: tuple[int, int, Space, int]) -> None:
    assert PhysicalAddress(*place) == decode_pa(encode_pa(*place))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**PA_BITS - 1))
def test_encoding_gives_an_address_back(pa: int) -> None:
    found = decode_pa(pa)

    assert pa == encode_pa(found.cube, found.pe, found.space, found.offset)


@settings(max_examples=100, deadline=None)
@given(PLACES, PLACES)
def test_places_sort_as_their_addresses(a: tuple[int, int, Space, int], b: tuple[int, int, Space, int]) -> None:
    """Cube, then PE, then HBM before TCM, then offset; so neighbours in a slice are neighbours in memory."""
    assert (a < b) == (encode_pa(*a) < encode_pa(*b))


@pytest.mark.parametrize(
    ("place", "part"),
    [
        ((2**16, 0, "hbm", 0), "cube 65536 does not fit in 16 bits"),
        ((-1, 0, "hbm", 0), "cube -1"),
        ((0, 256, "hbm", 0), "pe 256 does not fit in 8 bits"),
        ((0, 0, "hbm", 2**39), "offset 549755813888 does not fit in 39 bits"),
        ((0, 0, "tcm", -1), "offset -1"),
    ],
)
def test_a_part_that_does_not_fit_is_refused_by_name(place: tuple[int, int, Space, int], part: str) -> None:
    with pytest.raises(ValueError, match=part):
        encode_pa(*place)


@pytest.mark.parametrize("pa", [-1, 2**64, 2**80])
def test_a_number_that_is_no_address_is_refused(pa: int) -> None:
    with pytest.raises(ValueError, match="does not fit in 64 bits"):
        decode_pa(pa)


def test_an_unknown_space_is_refused() -> None:
    with pytest.raises(ValueError, match="sram"):
        encode_pa(0, 0, "sram", 0)  # type: ignore[arg-type]


# --------------------------------------------------------------------------- logical pointers


@settings(max_examples=100, deadline=None)
@given(st.integers(0, MAX_WINDOWS - 1), st.integers(0, 2**WINDOW_BITS - 1))
def test_a_pointer_knows_its_tensor_and_offset(tensor: int, offset: int) -> None:
    assert (tensor, offset) == split_logical(window_base(tensor) + offset)


def test_the_null_pointer_is_in_no_tensor() -> None:
    assert -1 == split_logical(0)[0]
    assert 2**WINDOW_BITS == window_base(0)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, MAX_WINDOWS - 1), st.integers(1, 2**40))
def test_an_overrun_to_the_left_lands_beyond_any_tensor(tensor: int, bytes_before: int) -> None:
    found, offset = split_logical(window_base(tensor) - bytes_before)

    assert tensor - 1 == found
    assert offset >= 2**WINDOW_BITS - 2**40 > MAX_OFFSET


def test_pointers_fit_64_bits_with_a_sign() -> None:
    assert window_base(MAX_WINDOWS - 1) + 2**WINDOW_BITS - 1 < 2**63


@pytest.mark.parametrize("tensor", [-1, MAX_WINDOWS])
def test_a_tensor_number_out_of_range_is_refused(tensor: int) -> None:
    with pytest.raises(ValueError, match="tensor index"):
        window_base(tensor)
