from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench import dtypes
from kernbench.address_map import decode_pa
from kernbench.diagnostics import KernBenchError
from kernbench.messages import TensorPAMap, TensorShard
from kernbench.runtime.allocator import HbmAllocator
from kernbench.runtime.placement import CopiesOn, DeviceShape, Placement, Shard, on, replicate, resolve, shard, tags
from kernbench.runtime.tensor import HostTensor, host_tensor, storage_of

DEVICE = DeviceShape(sips=2, cubes=2, pes=3, hbm_bytes=1 << 20)


def code_of(error: pytest.ExceptionInfo[KernBenchError]) -> str:
    return error.value.diagnostics[0].code


# --------------------------------------------------------------------------- which PEs


def test_the_last_axis_of_over_varies_fastest() -> None:
    assert ((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (0, 1, 1), (0, 1, 2)) == tags(shard(0, ("cube", "pe")), DEVICE)
    assert ((0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (0, 0, 2), (0, 1, 2)) == tags(shard(0, ("pe", "cube")), DEVICE)


def test_axes_that_over_does_not_name_stay_at_0() -> None:
    assert ((0, 0, 0), (1, 0, 0)) == tags(replicate(["sip"]), DEVICE)
    assert 12 == len(tags(replicate(), DEVICE))


def test_a_placement_names_what_it_cannot_be() -> None:
    wrong: list[Any] = [
        lambda: shard(0, ["cubes"]),
        lambda: shard(0, ["pe", "pe"]),
        lambda: shard(0, []),
        lambda: shard("0"),  # type: ignore[arg-type]
        lambda: on(0, 0, 1.5),  # type: ignore[arg-type]
        lambda: tags(on(0, 2, 0), DEVICE),
        lambda: tags(on(0, -1, 0), DEVICE),
        lambda: resolve(shard(2), (4, 4), 1, DEVICE),
    ]
    for make in wrong:
        with pytest.raises(KernBenchError) as caught:
            make()
        assert "E_PLACEMENT" == code_of(caught)


# --------------------------------------------------------------------------- which bytes


def sizes(placement: Placement, shape: tuple[int, ...], itemsize: int = 1) -> list[int]:
    return [piece.nbytes for piece in resolve(placement, shape, itemsize, DEVICE)]


def test_blocks_are_ceil_sized_and_the_last_ones_smaller_or_gone() -> None:
    assert [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1] == sizes(shard(0), (21,))
    assert [3, 3, 3, 3, 1] == sizes(shard(0, ("cube", "pe")), (13,))
    assert [1, 1] == sizes(shard(0), (2,))
    assert [40, 40, 20] == sizes(shard(-1, ("pe",)), (4, 5), 5)


@pytest.mark.parametrize("placement", [shard(0), shard(1), replicate(["pe"]), on(1, 1, 2)])
def test_a_tensor_of_nothing_has_a_piece_of_0_bytes(placement: Placement) -> None:
    assert {0} == set(sizes(placement, (0, 4), 2))
    assert {0} == set(sizes(placement, (4, 0), 2))


def test_a_tensor_of_rank_0_goes_to_the_first_pe() -> None:
    assert [4] == sizes(shard(0), (), 4)


PLACEMENTS = st.one_of(
    st.builds(shard, st.integers(-2, 1), st.lists(st.sampled_from(["sip", "cube", "pe"]), min_size=1, unique=True)),
    st.just(replicate()),
    st.just(on(1, 1, 2)),
    st.just(CopiesOn(((0, 0, 1), (1, 1, 0)))),
)


@settings(max_examples=80, deadline=None)
@given(PLACEMENTS, st.tuples(st.integers(0, 20), st.integers(0, 20)), st.sampled_from(["fp16", "i64", "fp8e5"]))
def test_placed_bytes_are_a_partition_or_copies_and_come_back(
    placement: Placement, shape: tuple[int, int], name: str
) -> None:
    dtype = dtypes.BY_NAME[name]
    array = dtypes.cast(np.arange(shape[0] * shape[1]).reshape(shape) % 100, dtype)
    tensor = host_tensor("x", array, dtype, placement, placement)

    pieces = resolve(placement, shape, dtype.nbytes, DEVICE)
    TensorPAMap(
        shards=tuple(
            TensorShard(sip=p.tag[0], cube=p.tag[1], pe=p.tag[2], pa=i, nbytes=p.nbytes, offset_bytes=p.offset_bytes)
            for i, p in enumerate(pieces)
        )
    )  # accepts only partitions and copies

    assert len(pieces) == len({piece.tag for piece in pieces})
    assert array.nbytes == max(piece.offset_bytes + piece.nbytes for piece in pieces)
    np.testing.assert_array_equal(array, tensor.restore(tensor.placed()))


def test_the_sharded_dimension_is_outermost_on_the_device() -> None:
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    tensor = host_tensor("x", array, dtypes.u8, Shard(1), Shard(1))

    assert [0, 3, 1, 4, 2, 5] == tensor.placed().tolist()
    assert (1, 2) == tensor.layout.placed_strides
    assert 1 == tensor.layout.dim


def test_each_element_lies_where_the_layout_says() -> None:
    array = np.arange(2 * 3 * 5, dtype=np.int32).reshape(2, 3, 5)
    for dim in range(3):
        tensor = host_tensor("x", array, dtypes.i32, Shard(dim), Shard(dim))
        placed = tensor.placed().view(np.int32)
        strides = np.array(tensor.layout.placed_strides)
        for index in np.ndindex(array.shape):
            assert array[index] == placed[int(strides @ index)]


# --------------------------------------------------------------------------- views


def strided(array: np.ndarray[Any, Any]) -> HostTensor:
    return host_tensor("x", array, dtypes.i64, None, Shard(0))


def test_a_view_goes_as_the_memory_that_its_pointer_and_strides_reach() -> None:
    base = np.arange(24, dtype=np.int64).reshape(4, 6)

    assert list(range(24)) == strided(base.T).placed().view(np.int64).tolist()
    assert list(range(1, 22)) == strided(base[:, 1:4]).placed().view(np.int64).tolist()
    for view in (base.T, base[:, 1:4], base[::2], np.broadcast_to(base[0], (3, 6))):
        tensor = strided(view)
        back = tensor.restore(tensor.placed())
        np.testing.assert_array_equal(view, back)
        assert view.strides == back.strides


def test_a_stride_that_no_pointer_follows_is_refused() -> None:
    base = np.arange(24, dtype=np.int64)
    odd = np.zeros(4, np.dtype([("a", "<i8"), ("b", "u1")]))["a"]
    for view in (base[::-1], odd):
        with pytest.raises(KernBenchError) as caught:
            storage_of(view, "x")
        assert "E_ARG_STRIDES" == code_of(caught)


def test_a_view_cannot_be_sharded_by_its_dimensions() -> None:
    with pytest.raises(KernBenchError) as caught:
        host_tensor("x", np.zeros((4, 6)).T, dtypes.fp64, Shard(1), Shard(0))

    assert "E_ARG_STRIDES" == code_of(caught)


# --------------------------------------------------------------------------- casts


def test_a_cast_array_is_rounded_on_the_way_in_and_comes_back_in_its_own_type() -> None:
    array = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20], np.float32)
    tensor = host_tensor("x", array, dtypes.bf16, None, Shard(0))

    back = tensor.restore(tensor.placed())

    assert 6 == tensor.nbytes
    assert [1.0, 1.015625, 1.0078125] == back.tolist()
    assert np.float32 == back.dtype


# --------------------------------------------------------------------------- addresses


def test_addresses_are_aligned_and_in_order_of_asking() -> None:
    allocator = HbmAllocator(1000)

    addresses = [allocator.allocate((0, 1, 2), nbytes, "x") for nbytes in (1, 64, 0, 65)]

    assert [(1, 2, "hbm", offset) for offset in (0, 64, 128, 128)] == [
        (place.cube, place.pe, place.space, place.offset) for place in map(decode_pa, addresses)
    ]
    assert 0 == decode_pa(allocator.allocate((1, 1, 2), 8, "y")).offset


def test_a_slice_can_be_filled_to_its_last_byte_and_then_says_that_it_is_full() -> None:
    allocator = HbmAllocator(130)
    allocator.allocate((0, 0, 0), 64, "x")
    allocator.allocate((0, 0, 0), 66, "y")

    with pytest.raises(KernBenchError) as caught:
        allocator.allocate((0, 0, 0), 1, "tensor `z`")

    assert "E_HBM_FULL" == code_of(caught)
    message = caught.value.diagnostics[0].message
    assert "tensor `z` needs 1 bytes in the HBM slice of sip0.cube0.pe0, 0 are free" == message
