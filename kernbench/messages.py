"""The contract between host and IO_CPU (ADR-0012): three requests, one response, one completion.

The classes below are the table of all fields: their annotations say what a field may hold, `rules` what must hold
between fields, and JSON, its schema and every check come from them. Does not know what is behind IO_CPU.

**`KernelLaunch.meta`** is an open object; of it the device reads these keys, all optional:

- `targets`: `[[sip, cube, pe], ...]`, the PEs that run the kernel, in the order in which programs are dealt to
  them. Without it: the union of the shard tags, ascending (`KernelLaunch.targets`).
- `params`: one name an argument, in order; the device uses them in what it says.
- `layouts`: one entry an argument, null for a scalar: `{"shape", "dim", "dtype"}` (`TensorLayout`), which says in
  which order the tensor's bytes lie. Without it a tensor is a run of bytes.
- `symbols`: the content hash of the binary's debug section, whose bytes travel beside the message as those of a
  `host_buffer` do. Without them the kernel runs as well, and records name no kernel lines.

**`KernelLaunch.grid`** is `{"x": n}`, with `"y"` and `"z"` where there are more axes; null starts one program a PE.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from kernbench import dtypes
from kernbench.address_map import PA_BITS
from kernbench.message_fields import ERRORS as ERRORS  # the codes that this file raises
from kernbench.message_fields import (
    Matches,
    Problem,
    Range,
    Record,
    build,
    describe,
    join,
    schema_of,
)

MAX_INDEX = (1 << 16) - 1
MAX_BYTES = (1 << 48) - 1

Index = Annotated[int, Range(0, MAX_INDEX)]
Address = Annotated[int, Range(0, (1 << PA_BITS) - 1)]
Size = Annotated[int, Range(0, MAX_BYTES)]
Ident = Annotated[str, Matches(r"[^\x00-\x1f]{1,200}", "a text of 1 to 200 printable characters")]
DeviceName = Annotated[str, Matches(r"sip:(0|[1-9]\d{0,4})", "a device such as sip:0")]
_HASH, _HASH_WORDS = r"sha256:[0-9a-f]{64}", "sha256: and 64 hexadecimal digits"
ContentHash = Annotated[str, Matches(_HASH, _HASH_WORDS)]

PatternKind = Literal["zero", "fill_u8", "fill_u16", "fill_u32", "fill_fp16", "fill_fp32"]
ScalarDtype = Literal["i32", "i64", "fp16", "fp32", "bool"]
FailurePolicy = Literal["fail_fast", "collect_all"]
Tag = tuple[int, int, int]  # sip, cube, pe

# What each fill is made of: `struct` code and element type.
_FILLS: dict[str, tuple[str, dtypes.DType]] = {
    "fill_u8": ("<B", dtypes.u8),
    "fill_u16": ("<H", dtypes.u16),
    "fill_u32": ("<I", dtypes.u32),
    "fill_fp16": ("<e", dtypes.fp16),
    "fill_fp32": ("<f", dtypes.fp32),
}
# Which of the five scalar types carries a kernel's scalar parameter: the smallest that holds all its values. Two
# do not fit and lose what a carrier must lose: u64 wraps to i64, fp64 rounds to fp32.
_CARRIERS: dict[str, ScalarDtype] = {
    "i1": "bool",
    **dict.fromkeys(("i8", "u8", "i16", "u16", "i32"), "i32"),
    **dict.fromkeys(("u32", "i64", "u64"), "i64"),
    **dict.fromkeys(("fp16", "fp8e4nv", "fp8e5"), "fp16"),
    **dict.fromkeys(("fp32", "bf16", "fp64"), "fp32"),
}
_SCALARS: dict[str, dtypes.DType] = {
    "i32": dtypes.i32,
    "i64": dtypes.i64,
    "fp16": dtypes.fp16,
    "fp32": dtypes.fp32,
    "bool": dtypes.i1,
}
# Finite numbers from here on round to infinity: the largest finite number and half a step.
_FLOAT_LIMITS = {"fp16": 65520.0, "fp32": (2 - 2**-24) * 2.0**127}


def scalar_carrier(dtype: dtypes.DType) -> ScalarDtype:
    """The scalar type in which a launch carries an argument for a parameter of type `dtype`."""
    return _CARRIERS[dtype.name]


def _misfit(value: object, dtype: dtypes.DType) -> str | None:
    """What `value` should have been to fit `dtype`, or None where it fits."""
    if dtype.kind == "bool":
        return None if isinstance(value, bool) else "true or false"
    if isinstance(value, bool):
        return f"a number that fits {dtype}"
    if dtype.is_float:
        assert isinstance(value, int | float)
        fits = not _is_finite(value) or abs(value) < _FLOAT_LIMITS[dtype.name]
        return None if fits else f"a number that {dtype} can hold (below {_FLOAT_LIMITS[dtype.name]:g})"
    fits = isinstance(value, int) and dtype.min <= value <= dtype.max
    return None if fits else f"an integer from {dtype.min} to {dtype.max}"


def _is_finite(value: int | float) -> bool:
    return isinstance(value, int) or math.isfinite(value)


# --------------------------------------------------------------------------- rules between fields


def _fill_has_value(pattern: Pattern) -> Iterator[Problem]:
    if pattern.pattern_kind == "zero":
        return
    _, dtype = _FILLS[pattern.pattern_kind]
    if pattern.value is None:
        yield Problem("E_MESSAGE_RULE", "value", "null", f"a value, as pattern_kind is {pattern.pattern_kind}")
    elif (expected := _misfit(pattern.value, dtype)) is not None:
        yield Problem("E_MESSAGE_VALUE", "value", describe(pattern.value), expected)


def _source_matches_kind(write: MemoryWrite) -> Iterator[Problem]:
    if write.src_kind == "pattern" and write.pattern is None:
        yield Problem("E_MESSAGE_RULE", "pattern", "null", "a pattern, as src_kind is pattern")
    if write.src_kind != "pattern" and write.pattern is not None:
        yield Problem("E_MESSAGE_RULE", "pattern", "a pattern", f"null, as src_kind is {write.src_kind}")
    if write.src_kind == "pattern" and write.host_buffer is not None:
        yield Problem("E_MESSAGE_RULE", "host_buffer", "a buffer", "null, as src_kind is pattern")


def _size_is_whole_patterns(write: MemoryWrite) -> Iterator[Problem]:
    size = write.pattern.unit_bytes if write.pattern is not None else 1
    if write.nbytes % size:
        yield Problem("E_MESSAGE_RULE", "nbytes", str(write.nbytes), f"a multiple of the pattern's {size} bytes")


def _deployed_has_address(ref: KernelRef) -> Iterator[Problem]:
    if ref.kind == "deployed" and ref.deploy_pa is None:
        yield Problem("E_MESSAGE_RULE", "deploy_pa", "null", "an address, as kind is deployed")


def _partition_or_copies(tensor: TensorPAMap) -> Iterator[Problem]:
    """Shards are full copies, or tile the tensor's bytes without overlap and gap."""
    shards = tensor.shards
    if not shards:
        yield Problem("E_MESSAGE_RULE", "shards", "an empty list", "at least one shard")
        return
    if tensor.is_replicated:
        return
    end = 0
    for index in sorted(range(len(shards)), key=lambda i: (shards[i].offset_bytes, shards[i].nbytes, i)):
        shard = shards[index]
        if shard.offset_bytes != end:
            wrong = "an overlap" if shard.offset_bytes < end else "a gap"
            expected = f"{end}, where the shards before it end (or every shard a full copy at 0)"
            path = f"shards[{index}].offset_bytes"
            yield Problem("E_MESSAGE_RULE", path, f"{shard.offset_bytes}, {wrong}", expected)
            return
        end += shard.nbytes


def _value_fits_dtype(arg: ScalarArg) -> Iterator[Problem]:
    expected = _misfit(arg.value, _SCALARS[arg.dtype])
    if expected is not None:
        yield Problem("E_MESSAGE_VALUE", "value", describe(arg.value), f"{expected}, as dtype is {arg.dtype}")


def _error_goes_with_failure(completion: Completion) -> Iterator[Problem]:
    if not completion.ok:
        if completion.error_code is None:
            yield Problem("E_MESSAGE_RULE", "error_code", "null", "a code, as ok is false")
        return
    for name in ("error_code", "error_message"):
        if (value := getattr(completion, name)) is not None:
            yield Problem("E_MESSAGE_RULE", name, describe(value), "null, as ok is true")


_GRID_AXES = ("x", "y", "z")
MAX_PROGRAMS = (1 << 31) - 1


def _grid_has_axes(launch: KernelLaunch) -> Iterator[Problem]:
    if launch.grid is None:
        return
    if "x" not in launch.grid:
        yield Problem("E_MESSAGE_MISSING", "grid.x", "nothing", "the number of programs along x")
    for name, value in launch.grid.items():
        if name not in _GRID_AXES:
            path = join("grid", str(name))
            yield Problem("E_MESSAGE_UNKNOWN_FIELD", path, "an unknown axis", "the axes x, y and z, at most three")
        elif isinstance(value, bool) or not isinstance(value, int):
            yield Problem("E_MESSAGE_TYPE", f"grid.{name}", describe(value), "an integer")
        elif not 0 <= value <= MAX_PROGRAMS:
            yield Problem("E_MESSAGE_VALUE", f"grid.{name}", str(value), f"an integer from 0 to {MAX_PROGRAMS}")


def _meta_targets(launch: KernelLaunch) -> Iterator[Problem]:
    targets = (launch.meta or {}).get("targets")
    if targets is None:
        return
    path = "meta.targets"
    if not isinstance(targets, tuple) or not targets:
        yield Problem("E_MESSAGE_TYPE", path, describe(targets), "a list of [sip, cube, pe], at least one")
        return
    seen: set[Any] = set()
    for index, target in enumerate(targets):
        if not _is_tag(target):
            yield Problem("E_MESSAGE_TYPE", f"{path}[{index}]", describe(target), "[sip, cube, pe], three indices")
        elif target in seen:
            yield Problem("E_MESSAGE_RULE", f"{path}[{index}]", f"{list(target)} again", "each PE once")
        else:
            seen.add(target)


def _is_tag(value: object) -> bool:
    if not isinstance(value, tuple) or len(value) != 3:
        return False
    return all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v <= MAX_INDEX for v in value)


def _meta_params(launch: KernelLaunch) -> Iterator[Problem]:
    params = (launch.meta or {}).get("params")
    if params is None:
        return
    if not isinstance(params, tuple) or not all(isinstance(name, str) for name in params):
        yield Problem("E_MESSAGE_TYPE", "meta.params", describe(params), "a list of names")
    elif len(params) != len(launch.args) or len(set(params)) != len(params):
        expected = f"{len(launch.args)} different names, one an argument"
        yield Problem("E_MESSAGE_RULE", "meta.params", describe(params), expected)


def _meta_symbols(launch: KernelLaunch) -> Iterator[Problem]:
    symbols = (launch.meta or {}).get("symbols")
    if symbols is not None and not (isinstance(symbols, str) and re.fullmatch(_HASH, symbols, re.ASCII)):
        yield Problem("E_MESSAGE_VALUE", "meta.symbols", describe(symbols), _HASH_WORDS)


def _meta_layouts(launch: KernelLaunch) -> Iterator[Problem]:
    layouts = (launch.meta or {}).get("layouts")
    if layouts is None:
        return
    if not isinstance(layouts, tuple) or len(layouts) != len(launch.args):
        expected = f"a list of {len(launch.args)}, one entry an argument"
        yield Problem("E_MESSAGE_RULE", "meta.layouts", describe(layouts), expected)
        return
    for index, (layout, arg) in enumerate(zip(layouts, launch.args, strict=True)):
        yield from _one_layout(layout, arg, f"meta.layouts[{index}]")


def _one_layout(layout: Any, arg: KernelArg, path: str) -> Iterator[Problem]:
    if isinstance(arg, ScalarArg):
        if layout is not None:
            yield Problem("E_MESSAGE_RULE", path, describe(layout), "null, as the argument is a scalar")
        return
    if layout is None:
        return
    if not isinstance(layout, Mapping):
        yield Problem("E_MESSAGE_TYPE", path, describe(layout), "an object")
        return
    problems: list[Problem] = []
    made = build(TensorLayout, layout, path, problems)
    yield from problems
    if made is not None and made.nbytes != arg.tensor_pa_map.nbytes:
        found = f"a layout of {made.nbytes} bytes"
        yield Problem("E_MESSAGE_RULE", path, found, f"the {arg.tensor_pa_map.nbytes} bytes of the shards")


def _dim_is_an_axis(layout: TensorLayout) -> Iterator[Problem]:
    rank = len(layout.shape)
    if layout.dim is not None and layout.dim >= rank:
        yield Problem("E_MESSAGE_RULE", "dim", str(layout.dim), f"an axis below {rank}, the rank of shape")


def _tensors_do_not_overlap(launch: KernelLaunch) -> Iterator[Problem]:
    """Two shards are the same bytes of memory (one tensor given twice) or share none."""
    spans = sorted(
        (shard.sip, shard.pa, shard.pa + shard.nbytes, index, place)
        for index, arg in enumerate(launch.args)
        if isinstance(arg, TensorArg)
        for place, shard in enumerate(arg.tensor_pa_map.shards)
        if shard.nbytes
    )
    for before, after in itertools.pairwise(spans):
        same_bytes = before[:3] == after[:3] and before[3] != after[3]
        if before[0] == after[0] and after[1] < before[2] and not same_bytes:
            other = _shard_path(launch, before[3], before[4])
            found = f"bytes {after[1]:#x} to {after[2]:#x}, which overlap {other}"
            path = f"{_shard_path(launch, after[3], after[4])}.pa"
            yield Problem("E_MESSAGE_RULE", path, found, "memory of its own")


def _shard_path(launch: KernelLaunch, arg: int, shard: int) -> str:
    return f"args[{arg}].tensor_pa_map.shards[{shard}]"


# --------------------------------------------------------------------------- the messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern(Record):
    """What a MemoryWrite repeats over its bytes."""

    pattern_kind: PatternKind
    value: float | None = None  # needed by fill_*, ignored by zero

    rules: ClassVar = (_fill_has_value,)

    @property
    def unit_bytes(self) -> int:
        return 1 if self.pattern_kind == "zero" else _FILLS[self.pattern_kind][1].nbytes

    @property
    def unit(self) -> bytes:
        """The bytes that are repeated, little endian."""
        if self.pattern_kind == "zero":
            return b"\0"
        return struct.pack(_FILLS[self.pattern_kind][0], self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope(Record):
    """What every request carries (ADR-0012 D3)."""

    correlation_id: Ident
    request_id: Ident  # unique in its correlation_id
    target_device: DeviceName
    timestamp_tag: str | None = None  # for people; changes nothing

    @property
    def target_sip(self) -> int:
        return int(self.target_device.removeprefix("sip:"))

    @property
    def key(self) -> tuple[str, str]:
        """What a response is matched by."""
        return self.correlation_id, self.request_id


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWrite(Envelope):
    """Host writes to device memory (D5); `host_buffer` names bytes that travel beside the message."""

    msg_type: Literal["MemoryWrite"] = "MemoryWrite"
    dst_sip: Index
    dst_cube: Index
    dst_pe: Index
    dst_pa: Address
    nbytes: Size
    src_kind: Literal["pattern", "host_buffer_ref"]
    pattern: Pattern | None = None
    dst_mem_kind: Literal["HBM", "TCM", "AUTO"] = "AUTO"
    debug_label: str | None = None
    host_buffer: ContentHash | None = None

    tags: ClassVar = ("msg_type",)
    rules: ClassVar = (_source_matches_kind, _size_is_whole_patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRead(Envelope):
    """Host reads device memory (D6)."""

    msg_type: Literal["MemoryRead"] = "MemoryRead"
    src_sip: Index
    src_cube: Index
    src_pe: Index
    src_pa: Address
    nbytes: Size
    dst_kind: Literal["host_sink", "discard"] = "host_sink"
    debug_label: str | None = None

    tags: ClassVar = ("msg_type",)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRef(Record):
    """A kernel that is on the device already."""

    name: Ident
    kind: Literal["deployed", "builtin"]
    deploy_pa: Address | None = None  # needed by deployed
    deploy_sip: Index
    deploy_cube: Index
    deploy_pe: Index
    nbytes_code: Size

    rules: ClassVar = (_deployed_has_address,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorShard(Record):
    """One contiguous run of a tensor's bytes, in the memory of one PE."""

    sip: Index
    cube: Index
    pe: Index
    pa: Address
    nbytes: Size
    offset_bytes: Size  # in the tensor's placed order

    @property
    def tag(self) -> Tag:
        return self.sip, self.cube, self.pe


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorPAMap(Record):
    """Where a tensor's bytes are: a partition of them, or full copies."""

    shards: tuple[TensorShard, ...]

    rules: ClassVar = (_partition_or_copies,)

    @property
    def is_replicated(self) -> bool:
        """Every shard is the whole tensor. True of a single shard too."""
        size = self.shards[0].nbytes
        return all(shard.offset_bytes == 0 and shard.nbytes == size for shard in self.shards)

    @property
    def nbytes(self) -> int:
        """Size of the tensor, however many copies of it there are."""
        return max(shard.offset_bytes + shard.nbytes for shard in self.shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorLayout(Record):
    """How a tensor's elements lie in its bytes (an entry of `meta.layouts`).

    In placed order axis `dim` is the outermost and the others follow in their order; null is plain row-major
    order, as is 0. A kernel's logical pointer counts in row-major order of `shape`; an element at index
    (i0, i1, ...) lies `itemsize × Σ placed_strides[k] × ik` bytes into the tensor's placed bytes.
    """

    shape: tuple[Size, ...]
    dim: Index | None = None
    dtype: Literal[
        "i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
        "fp8e4nv", "fp8e5", "bf16", "fp16", "fp32", "fp64",
    ]  # fmt: skip

    rules: ClassVar = (_dim_is_an_axis,)

    @property
    def itemsize(self) -> int:
        return dtypes.BY_NAME[self.dtype].nbytes

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.itemsize

    @property
    def is_row_major(self) -> bool:
        """Row-major and placed order are the same."""
        return self.dim is None or math.prod(self.shape[: self.dim]) == 1

    @property
    def placed_strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each axis of `shape`, in placed order."""
        order = sorted(range(len(self.shape)), key=lambda axis: axis != self.dim)
        strides = [0] * len(self.shape)
        step = 1
        for axis in reversed(order):
            strides[axis] = step
            step *= self.shape[axis]
        return tuple(strides)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorArg(Record):
    """An argument in device memory."""

    arg_kind: Literal["tensor"] = "tensor"
    tensor_pa_map: TensorPAMap

    tags: ClassVar = ("arg_kind",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarArg(Record):
    """An argument by value."""

    arg_kind: Literal["scalar"] = "scalar"
    dtype: ScalarDtype
    value: int | float | bool

    tags: ClassVar = ("arg_kind",)
    rules: ClassVar = (_value_fits_dtype,)


KernelArg = TensorArg | ScalarArg


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLaunch(Envelope):
    """Host starts a kernel (D7); the module's docstring says what `grid` and `meta` hold."""

    msg_type: Literal["KernelLaunch"] = "KernelLaunch"
    kernel_ref: KernelRef
    args: tuple[TensorArg | ScalarArg, ...]
    grid: Mapping[str, Any] | None = None
    meta: Mapping[str, Any] | None = None
    failure_policy: FailurePolicy = "fail_fast"
    debug_label: str | None = None

    tags: ClassVar = ("msg_type",)
    rules: ClassVar = (
        _grid_has_axes,
        _meta_targets,
        _meta_params,
        _meta_symbols,
        _meta_layouts,
        _tensors_do_not_overlap,
    )

    @property
    def grid_shape(self) -> tuple[int, int, int] | None:
        """Programs along x, y and z, or None for one program a PE."""
        if self.grid is None:
            return None
        return self.grid["x"], self.grid.get("y", 1), self.grid.get("z", 1)

    @property
    def targets(self) -> tuple[Tag, ...]:
        """The PEs that run the kernel, in the order in which programs are dealt to them."""
        named = (self.meta or {}).get("targets")
        if named is not None:
            return tuple((sip, cube, pe) for sip, cube, pe in named)
        maps = [arg.tensor_pa_map for arg in self.args if isinstance(arg, TensorArg)]
        return tuple(sorted({shard.tag for tensor in maps for shard in tensor.shards}))

    def param_name(self, index: int) -> str:
        """What to call argument `index` in a text for people."""
        params = (self.meta or {}).get("params")
        return params[index] if params is not None else f"args[{index}]"

    @property
    def symbols(self) -> str | None:
        """The name of the debug section that travels beside the message."""
        return (self.meta or {}).get("symbols")

    def layout(self, index: int) -> TensorLayout | None:
        """The layout of argument `index`: a run of bytes where `meta` says nothing, None for a scalar."""
        arg = self.args[index]
        if isinstance(arg, ScalarArg):
            return None
        layouts = (self.meta or {}).get("layouts")
        if layouts is None or layouts[index] is None:
            return TensorLayout(shape=(arg.tensor_pa_map.nbytes,), dim=0, dtype="u8")
        return TensorLayout.from_json(layouts[index])

    @property
    def wire_bytes(self) -> int:
        """Size of the message on the leg host → IO_CPU, in a fixed binary layout without labels and tags."""
        return LAUNCH_BYTES + sum(_arg_bytes(arg) for arg in self.args)


# The binary layout whose size `wire_bytes` gives.
LAUNCH_BYTES = 64  # type, ids as numbers, kernel reference, grid, policy, counts
TENSOR_ARG_BYTES = 16  # kind, count of shards, layout word
SHARD_BYTES = 32  # sip, cube, pe in 8; pa, nbytes, offset
SCALAR_ARG_BYTES = 16  # kind, dtype, value


def _arg_bytes(arg: KernelArg) -> int:
    if isinstance(arg, ScalarArg):
        return SCALAR_ARG_BYTES
    return TENSOR_ARG_BYTES + SHARD_BYTES * len(arg.tensor_pa_map.shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion(Record):
    """How a request ended (D4)."""

    ok: bool
    error_code: str | None = None
    error_message: str | None = None

    rules: ClassVar = (_error_goes_with_failure,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response(Record):
    """What comes back for every request; `checksum` is of the bytes that a MemoryRead brought."""

    correlation_id: Ident
    request_id: Ident
    completion: Completion
    checksum: ContentHash | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.correlation_id, self.request_id


Request = MemoryWrite | MemoryRead | KernelLaunch
REQUESTS: tuple[type[MemoryWrite] | type[MemoryRead] | type[KernelLaunch], ...] = (
    MemoryWrite,
    MemoryRead,
    KernelLaunch,
)
PARTS: tuple[type[Record], ...] = (
    Pattern,
    KernelRef,
    TensorArg,
    ScalarArg,
    TensorPAMap,
    TensorShard,
    TensorLayout,
    Completion,
)


def content_hash(data: bytes | bytearray | memoryview) -> str:
    """The name by which a message refers to bytes beside it."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def json_schema() -> dict[str, Any]:
    """A JSON Schema of one request or response."""
    return schema_of((*REQUESTS, Response), PARTS, "kernbench.messages/1")
