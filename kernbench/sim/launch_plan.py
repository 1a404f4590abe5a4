"""From a KernelLaunch to what each PE is told: addresses checked, pointers given a meaning, programs dealt out.

Checks everything that can be known before a PE starts, and tells all of it together. Does not know time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernbench.address_map import window_base
from kernbench.commands import Param, Program
from kernbench.dtypes import BY_NAME, DType, cast, u64
from kernbench.messages import KernelLaunch, ScalarArg, Tag, TensorArg, TensorLayout, scalar_carrier
from kernbench.sim.faults import DeviceFault
from kernbench.sim.launch_context import LaunchContext
from kernbench.sim.program_store import Deployed
from kernbench.sim.routing import AddressResolver
from kernbench.sim.windows import Geometry, Shard, Window, Windows, run_geometry
from kernbench.stores import is_ordered, stored_params

MAX_TOLD = 8  # problems spelled out in one completion; the rest are counted


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """What a launch may name."""

    sips: int
    cubes: int  # a SIP
    pes: int  # a cube


@dataclass(slots=True)
class Problems:
    """What is wrong with a launch. The completion has one code, so the first problem gives it."""

    found: list[DeviceFault] = field(default_factory=list)

    def add(self, code: str, message: str) -> None:
        self.found.append(DeviceFault(code, message))

    def raise_any(self) -> None:
        if not self.found:
            return
        told = [fault.message for fault in self.found[:MAX_TOLD]]
        more = len(self.found) - len(told)
        tail = [f"and {more} more"] if more else []
        raise DeviceFault(self.found[0].code, "; ".join([*told, *tail]))


def check_targets(launch: KernelLaunch, limits: DeviceLimits) -> tuple[Tag, ...]:
    """The PEs of a launch, each of which exists."""
    problems = Problems()
    if not launch.targets:
        problems.add("E_LAUNCH_TARGET", "the launch names no PE: it has neither tensors nor meta.targets")
    for tag in launch.targets:
        for axis, index, bound in zip(("sip", "cube", "pe"), tag, (limits.sips, limits.cubes, limits.pes), strict=True):
            if index >= bound:
                text = f"the launch is for {_tag_text(tag)}, and {axis} {index} is not below {bound}"
                problems.add("E_LAUNCH_TARGET", text)
    problems.raise_any()
    return launch.targets


def _tag_text(tag: Tag) -> str:
    return f"sip{tag[0]}.cube{tag[1]}.pe{tag[2]}"


# --------------------------------------------------------------------------- arguments


def check_arguments(launch: KernelLaunch, program: Program, resolver: AddressResolver) -> None:
    """Arguments fit the program's parameters, and every shard is memory that exists."""
    problems = Problems()
    if len(launch.args) != len(program.params):
        name = launch.kernel_ref.name
        text = f"kernel `{name}` takes {len(program.params)} arguments, the launch has {len(launch.args)}"
        problems.add("E_LAUNCH_ARGUMENTS", text)
    for index, (arg, param) in enumerate(zip(launch.args, program.params, strict=False)):
        name = launch.param_name(index)
        if isinstance(arg, ScalarArg):
            _check_scalar(arg, param, name, problems)
        else:
            _check_tensor(launch, index, param, name, problems)
            _check_shards(arg, name, resolver, problems)
    problems.raise_any()


def _check_scalar(arg: ScalarArg, param: Param, name: str, problems: Problems) -> None:
    if param.kind != "scalar":
        problems.add("E_LAUNCH_ARGUMENTS", f"argument `{name}` is a scalar, the kernel takes a tensor")
        return
    carrier = scalar_carrier(param.dtype)
    if arg.dtype != carrier:
        wanted = f"{param.dtype}" if carrier == param.dtype.name else f"{param.dtype}, which travels as {carrier}"
        problems.add("E_LAUNCH_DTYPE", f"argument `{name}` is {arg.dtype}, the kernel takes {wanted}")
    elif param.dtype.is_int and param.dtype is not u64 and not param.dtype.min <= arg.value <= param.dtype.max:
        text = (
            f"argument `{name}` is {arg.value}, the kernel takes {param.dtype}: {param.dtype.min} to {param.dtype.max}"
        )
        problems.add("E_LAUNCH_ARGUMENTS", text)


def _check_tensor(launch: KernelLaunch, index: int, param: Param, name: str, problems: Problems) -> None:
    if param.kind != "tensor":
        problems.add("E_LAUNCH_ARGUMENTS", f"argument `{name}` is a tensor, the kernel takes a scalar")
        return
    layouts = (launch.meta or {}).get("layouts")
    layout = launch.layout(index)
    assert layout is not None
    if layouts is not None and layouts[index] is not None and BY_NAME[layout.dtype] is not param.dtype:
        text = f"argument `{name}` is a tensor of {layout.dtype}, the kernel takes one of {param.dtype}"
        problems.add("E_LAUNCH_DTYPE", text)


def _check_shards(arg: TensorArg, name: str, resolver: AddressResolver, problems: Problems) -> None:
    for place, shard in enumerate(arg.tensor_pa_map.shards):
        try:
            resolver.resolve(shard.sip, shard.pa, shard.nbytes, (shard.cube, shard.pe), "hbm")
        except DeviceFault as fault:
            problems.add(fault.code, f"shard {place} of argument `{name}`: {fault.message}")


# --------------------------------------------------------------------------- windows


@dataclass(frozen=True, slots=True)
class _Tensor:
    """One tensor argument of a launch, as the windows need it."""

    name: str
    layout: TensorLayout
    shards: tuple[Shard, ...]
    tags: tuple[Tag, ...]  # of the shards
    replicated: bool  # more than one full copy
    watched: bool


def _tensors(launch: KernelLaunch, program: Program) -> list[_Tensor]:
    stored = frozenset() if is_ordered(program) else stored_params(program)
    found: list[_Tensor] = []
    for index, arg in enumerate(launch.args):
        if isinstance(arg, ScalarArg):
            continue
        layout = launch.layout(index)
        assert layout is not None
        shards = arg.tensor_pa_map.shards
        places = tuple(Shard(s.offset_bytes, s.nbytes, s.sip, s.cube, s.pe, s.pa) for s in shards)
        copies = arg.tensor_pa_map.is_replicated and len(shards) > 1
        watched = program.params[index].name in stored
        found.append(_Tensor(launch.param_name(index), layout, places, tuple(s.tag for s in shards), copies, watched))
    return found


def _geometry(layout: TensorLayout) -> Geometry:
    if layout.is_row_major or layout.nbytes == 0:
        return run_geometry(layout.nbytes)
    assert layout.dim is not None
    outer, inner = math.prod(layout.shape[: layout.dim]), math.prod(layout.shape[layout.dim + 1 :])
    return Geometry(outer, layout.shape[layout.dim], inner * layout.itemsize)


class WindowMaker:
    """Windows of a launch's tensors for each PE; what several PEs see alike is made once."""

    def __init__(self, launch: KernelLaunch, program: Program) -> None:
        self._tensors = _tensors(launch, program)
        self._own_shard = launch.grid is None
        self._by_tag = [_shards_by_tag(tensor) for tensor in self._tensors]
        self._shared: dict[tuple[int, int], Window] = {}

    def windows(self, tag: Tag) -> Windows:
        if self._own_shard:
            return Windows([self._local(index, tag) for index in range(len(self._tensors))])
        return Windows([self._whole(index, tag) for index in range(len(self._tensors))])

    def _local(self, index: int, tag: Tag) -> Window:
        """This PE's own shard, in row-major order of its own shape."""
        tensor, shards = self._tensors[index], self._by_tag[index].get(tag, [])
        if not shards:
            return Window(tensor.name, run_geometry(0), ())
        start = shards[0].start
        nbytes = shards[-1].start + shards[-1].nbytes - start
        whole = _geometry(tensor.layout)
        row = whole.outer * whole.inner
        if whole.is_row_major:
            geometry = run_geometry(nbytes)
        elif nbytes % row == 0 and start % row == 0:
            geometry = Geometry(whole.outer, nbytes // row, whole.inner)
        else:
            text = f"the shard of `{tensor.name}` on {_tag_text(tag)} ends inside an index of the sharded dimension"
            raise DeviceFault("E_LAUNCH_SHARDS", text)
        if sum(shard.nbytes for shard in shards) != nbytes:
            raise DeviceFault("E_LAUNCH_SHARDS", f"the shards of `{tensor.name}` on {_tag_text(tag)} do not touch")
        local = [shard._replace(start=shard.start - start) for shard in shards]
        return Window(
            tensor.name, geometry, local, elements=_own_elements(tensor.layout, nbytes), watched=tensor.watched
        )

    def _whole(self, index: int, tag: Tag) -> Window:
        """The whole tensor; of copies the nearest: this PE's, else one of its cube or SIP, else the first."""
        tensor = self._tensors[index]
        chosen = min(range(len(tensor.tags)), key=lambda k: (*_farness(tensor.tags[k], tag), k))
        key = (index, chosen if tensor.replicated else -1)
        window = self._shared.get(key)
        if window is None:
            shards = [tensor.shards[chosen]] if tensor.replicated else tensor.shards
            why = "it is replicated, and a launch with a grid has one copy only" if tensor.replicated else ""
            geometry, elements = _geometry(tensor.layout), _elements(tensor.layout)
            window = self._shared[key] = Window(tensor.name, geometry, shards, why, elements, tensor.watched)
        return window


def _elements(layout: TensorLayout) -> tuple[tuple[int, ...], int] | None:
    """Shape and bytes of an element; None for what is one run of bytes."""
    return (tuple(layout.shape), layout.itemsize) if layout.nbytes else None


def _own_elements(layout: TensorLayout, nbytes: int) -> tuple[tuple[int, ...], int] | None:
    """The same for a shard: the sharded dimension is shorter."""
    dim = layout.dim or 0
    row = layout.nbytes // layout.shape[dim] if layout.shape and layout.nbytes else 0
    if not row or nbytes % row:
        return None
    return (*layout.shape[:dim], nbytes // row, *layout.shape[dim + 1 :]), layout.itemsize


def _shards_by_tag(tensor: _Tensor) -> dict[Tag, list[Shard]]:
    found: dict[Tag, list[Shard]] = {}
    for shard in sorted(tensor.shards):
        if shard.nbytes:
            found.setdefault((shard.sip, shard.cube, shard.pe), []).append(shard)
    return found


def _farness(place: Tag, tag: Tag) -> tuple[bool, bool, bool]:
    return place[:1] != tag[:1], place[:2] != tag[:2], place != tag


# --------------------------------------------------------------------------- contexts


def programs_of(target: int, targets: int, programs: int) -> range:
    """The programs of target number `target`: those `p` with ⌊p × targets / programs⌋ = target."""
    if programs == 0:
        return range(0)
    return range(-(-target * programs // targets), -(-(target + 1) * programs // targets))


def make_contexts(
    launch: KernelLaunch, deployed: Deployed, limits: DeviceLimits, request: int
) -> dict[Tag, LaunchContext]:
    """What each target is told, in the order of the targets."""
    targets = launch.targets
    grid = launch.grid_shape
    programs = len(targets) if grid is None else math.prod(grid)
    maker = WindowMaker(launch, deployed.program)
    arguments = _arguments(launch, deployed.program)
    shared = _shared_identity(targets, limits)
    return {
        tag: LaunchContext(
            program=deployed.program,
            digest=deployed.digest,
            windows=maker.windows(tag),
            arguments=arguments,
            num_programs=(len(targets), 1, 1) if grid is None else grid,
            program_ids=programs_of(number, len(targets), programs),
            identity={**shared, "sip_id": tag[0], "cube_id": tag[1], "pe_id": tag[2], "pe_index": number},
            request=request,
            correlation_id=launch.correlation_id,
            request_id=launch.request_id,
            targets=targets,
        )
        for number, tag in enumerate(targets)
    }


def _arguments(launch: KernelLaunch, program: Program) -> tuple[int | float | bool, ...]:
    """A value an argument: a scalar's as its parameter holds it, a tensor's logical pointer."""
    values: list[int | float | bool] = []
    tensors = 0
    for arg, param in zip(launch.args, program.params, strict=True):
        if isinstance(arg, ScalarArg):
            values.append(_scalar_value(arg, param.dtype))
        else:
            values.append(window_base(tensors))
            tensors += 1
    return tuple(values)


def _scalar_value(arg: ScalarArg, dtype: DType) -> int | float | bool:
    """What a parameter of type `dtype` holds: rounded first by the carrier, then by the parameter; u64 unwrapped."""
    if dtype.is_float:
        return float(cast(cast(float(arg.value), BY_NAME[arg.dtype]), dtype))
    return arg.value % (1 << 64) if dtype is u64 else arg.value


def _shared_identity(targets: Sequence[Tag], limits: DeviceLimits) -> Mapping[str, int]:
    """Counts are those of the launch, save `pes_per_cube`, which is the device's."""
    return {
        "num_pes": len(targets),
        "num_cubes": len({tag[:2] for tag in targets}),
        "num_sips": len({tag[0] for tag in targets}),
        "pes_per_cube": limits.pes,
    }
