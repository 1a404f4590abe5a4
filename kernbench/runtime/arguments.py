"""What a launch is given: arrays, numbers and compile-time values, told apart and typed as Triton types them.

Integers are i32 where they fit, else i64; floats fp32; bools i1; NumPy scalars of 16 bits keep their type; `None`,
texts, tuples and element types are compile-time values. Does not know kernels, placements or messages' ids.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernbench import dtypes
from kernbench.diagnostics import KernBenchError, did_you_mean, shown
from kernbench.dtypes import DType
from kernbench.messages import ScalarArg, scalar_carrier
from kernbench.runtime.errors import fail
from kernbench.runtime.tensor import Array

MAX_PROGRAMS = (1 << 31) - 1  # numbers of programs are int32, as Triton's
CASTS = ("fp16", "bf16", "fp32", "fp64", "fp8e4m3", "fp8e5m2")


@dataclass(frozen=True, slots=True, eq=False)
class TensorDescriptor:
    """An array that a kernel takes as a host tensor descriptor, in blocks of `block_shape`."""

    array: Array
    block_shape: Sequence[int]


@dataclass(frozen=True, slots=True, eq=False)
class TensorArgument:
    array: Array
    dtype: DType  # on the device
    block_shape: tuple[int, ...] | None = None  # of a descriptor

    @property
    def signature(self) -> str:
        if self.block_shape is None:
            return f"*{self.dtype}"
        return f"tensordesc<{self.dtype}[{','.join(map(str, self.block_shape))}]>"


@dataclass(frozen=True, slots=True)
class ScalarArgument:
    dtype: DType  # of the kernel's parameter
    value: int | float | bool

    @property
    def signature(self) -> str:
        return self.dtype.name

    def message(self) -> ScalarArg:
        """As it travels; the upper half of u64 goes as the negative numbers of i64."""
        wraps = self.dtype is dtypes.u64 and self.value >= 1 << 63
        return ScalarArg(dtype=scalar_carrier(self.dtype), value=self.value - (1 << 64) if wraps else self.value)


@dataclass(frozen=True, slots=True)
class ConstexprArgument:
    value: Any


Argument = TensorArgument | ScalarArgument | ConstexprArgument


def classify(name: str, value: Any, cast: str | DType | None = None, pinned: str | None = None) -> Argument:
    """What an argument is. `cast` is the element type to store an array in, `pinned` the type compiled for."""
    if isinstance(value, TensorDescriptor):
        return _descriptor(name, value, cast)
    if isinstance(value, np.ndarray):
        return TensorArgument(value, _array_dtype(name, value, cast))
    if cast is not None:
        raise fail("E_ARG_DTYPE", f"argument `{name}` is no array, so it cannot be stored as {shown(cast)}")
    if pinned is not None and isinstance(value, str | tuple | DType):
        raise fail("E_ARG_TYPE", f"argument `{name}` is {value!r}, and the kernel was compiled for {pinned}")
    if value is None or isinstance(value, str | tuple | DType):
        return ConstexprArgument(value)
    if isinstance(value, np.generic):
        return _numpy_scalar(name, value, pinned)
    if isinstance(value, bool | int | float):
        return scalar(name, value, _natural(name, value), pinned)
    text = f"argument `{name}` is a {type(value).__name__}, which no kernel takes"
    raise fail("E_ARG_TYPE", text, help="pass a NumPy array, a number, a bool or None")


def _descriptor(name: str, value: TensorDescriptor, cast: str | DType | None) -> TensorArgument:
    block = tuple(value.block_shape)
    if not isinstance(value.array, np.ndarray):
        raise fail("E_ARG_TYPE", f"the descriptor `{name}` is of a {type(value.array).__name__}, not of an array")
    if len(block) != value.array.ndim or not all(isinstance(side, int) and side > 0 for side in block):
        text = f"the descriptor `{name}` has blocks of {list(block)} on an array of shape {value.array.shape}"
        raise fail("E_ARG_TYPE", text, help="give one positive side a dimension")
    return TensorArgument(value.array, _array_dtype(name, value.array, cast), block)


def _array_dtype(name: str, array: Array, cast: str | DType | None) -> DType:
    own = dtypes.from_numpy(array.dtype)
    if own is None:
        text = f"argument `{name}` is an array of {array.dtype}, which no device stores"
        raise fail("E_ARG_DTYPE", text, help="convert it, for example with .astype(numpy.float32)")
    if cast is None:
        return own
    wanted = cast if isinstance(cast, DType) else dtypes.BY_NAME.get(cast) if isinstance(cast, str) else None
    if wanted is None:
        word = cast if isinstance(cast, str) else shown(cast)
        help_text = did_you_mean(word, CASTS, "types")
        raise fail("E_ARG_DTYPE", f"argument `{name}` cannot be stored as `{word}`", help=help_text)
    if not own.is_float or not wanted.is_float:
        raise fail("E_ARG_DTYPE", f"argument `{name}` is {own} and cannot be stored as {wanted}: both must be floats")
    return wanted


def _natural(name: str, value: int | float) -> DType:
    """The type that a Python number has as an argument."""
    if isinstance(value, bool):
        return dtypes.i1
    if isinstance(value, float):
        return dtypes.fp32
    fitting = next((d for d in (dtypes.i32, dtypes.i64) if d.min <= value <= d.max), None)
    if fitting is None:
        text = f"argument `{name}` is {value if abs(value) < 1 << 128 else 'far'}, beyond 64 bits with a sign"
        raise fail("E_ARG_RANGE", text)
    return fitting


def _numpy_scalar(name: str, value: np.generic, pinned: str | None) -> ScalarArgument:
    own = dtypes.from_numpy(value.dtype)
    if own is None:
        raise fail("E_ARG_TYPE", f"argument `{name}` is a {type(value).__name__}, which no kernel takes")
    plain = value.item() if own.kind != "float" else float(value)
    return scalar(name, plain, own if own is dtypes.fp16 else _natural(name, plain), pinned)


def scalar(name: str, value: int | float, natural: DType, pinned: str | None) -> ScalarArgument:
    """A number in the type that was compiled for, or else in its own."""
    dtype = natural if pinned is None else dtypes.BY_NAME.get(pinned.split(":")[0])
    if dtype is None:
        raise fail("E_ARG_TYPE", f"argument `{name}` is a number, and the kernel was compiled for {pinned}")
    if isinstance(value, bool) and dtype is not dtypes.i1:
        value = int(value)
    if isinstance(value, float) and not dtype.is_float:
        raise fail("E_ARG_TYPE", f"argument `{name}` is {value!r}, and the kernel was compiled for {dtype}")
    if dtype is dtypes.i1:
        value = bool(value)
    made = ScalarArgument(dtype, value)
    if dtype.is_int and not dtype.min <= value <= dtype.max:
        raise fail("E_ARG_RANGE", f"argument `{name}` is {value}, which does not fit {dtype}")
    try:
        made.message()
    except KernBenchError:
        text = f"argument `{name}` is {value!r}, which does not fit {scalar_carrier(dtype)}"
        raise fail("E_ARG_RANGE", text, help="pass inf for a value beyond all others") from None
    return made


def grid_of(grid: Any, constexprs: Mapping[str, Any]) -> tuple[int, ...] | None:
    """A launch's grid as one to three numbers; a callable gets the constexprs, as in Triton."""
    if callable(grid):
        grid = grid(dict(constexprs))
    if grid is None:
        return None
    if isinstance(grid, np.ndarray) and grid.ndim == 1:
        grid = tuple(grid)
    axes = tuple(grid) if isinstance(grid, Sequence) and not isinstance(grid, str | bytes) else (grid,)
    help_text = "write (x,), (x, y) or (x, y, z)"
    if not 1 <= len(axes) <= 3:
        raise fail("E_GRID", f"a grid has {len(axes)} axes, expected one to three", help=help_text)
    for axis in axes:
        if isinstance(axis, bool) or not isinstance(axis, int | np.integer) or axis < 0:
            raise fail("E_GRID", f"a grid has the axis {shown(axis)}, expected a number of programs", help=help_text)
    programs = math.prod(int(axis) for axis in axes)
    if programs > MAX_PROGRAMS:
        text = f"a grid has {shown(programs)} programs, at most {MAX_PROGRAMS} are numbered"
        raise fail("E_GRID", text, help="let each program do more, in a loop")
    return tuple(int(axis) for axis in axes)
