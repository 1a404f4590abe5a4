"""Hand out addresses in the HBM slices of PEs: aligned, in order of asking, the same every time.

Does not know tensors or topologies; a slice is a tag and a capacity.
"""

from __future__ import annotations

from kernbench.address_map import MAX_OFFSET, encode_pa
from kernbench.messages import Tag
from kernbench.runtime.errors import fail

ALIGNMENT_BYTES = 64


class HbmAllocator:
    """Bump allocation in each slice; nothing is given back, as an allocator lives as long as its run."""

    def __init__(self, slice_bytes: int) -> None:
        self.slice_bytes = min(slice_bytes, MAX_OFFSET + 1)
        self._used: dict[Tag, int] = {}

    def free_bytes(self, tag: Tag) -> int:
        return self.slice_bytes - self._used.get(tag, 0)

    def allocate(self, tag: Tag, nbytes: int, what: str) -> int:
        """The physical address of `nbytes` bytes in the slice of `tag`; `what` is named where there is no room."""
        sip, cube, pe = tag
        if nbytes > self.free_bytes(tag):
            where = f"sip{sip}.cube{cube}.pe{pe}"
            message = f"{what} needs {nbytes} bytes in the HBM slice of {where}, {self.free_bytes(tag)} are free"
            raise fail("E_HBM_FULL", message, help="shard it over more PEs, or place it elsewhere")
        start = self._used.get(tag, 0)
        end = -(-(start + nbytes) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self._used[tag] = min(end, self.slice_bytes)
        return encode_pa(cube, pe, "hbm", start)
