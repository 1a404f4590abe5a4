"""Views of handles, their addresses before there are any, and the head op of a GEMM.

Does not know where a handle comes from or what reads it.
"""

from __future__ import annotations

from dataclasses import replace

from kernbench.commands import UNALLOCATED, Int, OpSpec, Scope, TensorHandle, add, affine, parts, scale
from kernbench.numerics import accumulator_dtype

# Before `allocate`, an address is UNALLOCATED + SLOT × (slot of the buffer's ring) + (bytes into the slot).
SLOT = 1 << 40


def in_slot(slot: Int) -> Int:
    """The address, before there is one, of a ring's slot: a number, or an expression over registers."""
    return add(UNALLOCATED, scale(slot, SLOT))


def slot_and_offset(address: Int) -> tuple[Int, int]:
    """What `in_slot`, with bytes added, was made of."""
    const, terms = parts(add(address, -UNALLOCATED))
    assert all(coefficient % SLOT == 0 for coefficient in terms.values()), "bytes into a slot are known"
    return affine(const // SLOT, {register: c // SLOT for register, c in terms.items()}), const % SLOT


def broadcast(handle: TensorHandle, shape: tuple[int, ...]) -> TensorHandle:
    """The handle repeated to `shape` (aligned at the last axis) by strides of 0."""
    if handle.shape == shape:
        return handle
    missing = len(shape) - len(handle.shape)
    assert missing >= 0, f"{handle.name} of shape {handle.shape} does not broadcast to {shape}"
    extents = (1,) * missing + handle.shape
    steps = (0,) * missing + handle.strides
    strides = tuple(
        0 if extent == 1 and wanted != 1 else step for extent, step, wanted in zip(extents, steps, shape, strict=True)
    )
    assert all(e in (1, w) for e, w in zip(extents, shape, strict=True)), f"{handle.shape} against {shape}"
    return replace(handle, shape=shape, strides=strides)


def gemm_op(a: TensorHandle, b: TensorHandle, out: TensorHandle) -> OpSpec:
    (m, k), n = a.shape, b.shape[1]
    extra = {"m": m, "k": k, "n": n, "acc_dtype": accumulator_dtype(a.dtype, b.dtype), "rings": ()}
    return OpSpec("gemm", Scope.KERNEL, {"a": a, "b": b}, extra, out)
