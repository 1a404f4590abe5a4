"""The values of elaboration: what a name of the kernel may stand for while it is partially evaluated.

Plain data and how it is described to people. Does not emit, convert or compute anything.

Everything an address or mask is made of stays symbolic: a `Form` is an exact array of integers, and integer blocks,
blocks of pointers and box masks are made of forms and bounds. Only `Block` is data in TCM.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType
from typing import Literal

from kernbench.commands import Affine, IndexExpr, Int, Operand, Reg
from kernbench.compiler.residual import BlockRef, HbmRef
from kernbench.compiler.source import SourceText
from kernbench.diagnostics import Span
from kernbench.dtypes import DType, i1

Shape = tuple[int, ...]
Constant = bool | int | float | str | EllipsisType | None


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A constexpr: known now, and Python's arithmetic. Equality tells `1`, `1.0` and `True` apart, and NaN is NaN."""

    value: Constant

    def _key(self) -> tuple[str, str]:
        return type(self.value).__name__, repr(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True, slots=True)
class Scalar:
    """A typed run-time number. An integer's `Affine` is exact; whoever reads it as data wraps it to `dtype`."""

    operand: Operand
    dtype: DType


@dataclass(frozen=True, slots=True)
class Pointer:
    """A logical byte address of elements.

    `offset_bits` is 0 while only constants were added, 32 where then one int32 offset was, which must not have left
    int32; after more of them, whose sum may, it is 64.
    """

    address: Int
    element: DType
    offset_bits: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """A dense block in TCM. With shape () it is a scalar that a reduction left there, read by PE_CPU when needed."""

    ref: BlockRef

    @property
    def shape(self) -> Shape:
        return self.ref.shape

    @property
    def dtype(self) -> DType:
        return self.ref.dtype


@dataclass(frozen=True, slots=True)
class Form:
    """An exact integer array: `base + Σ strides[k] × i_k + rest + dense`.

    An axis of extent 1 has stride 0 and does not occur in `rest`. `rest` is made of known integers; `dense` is a
    loaded or computed block of the same rank, repeated along its axes of extent 1.
    """

    shape: Shape
    base: Int
    strides: tuple[Int, ...]
    rest: IndexExpr | None = None
    dense: BlockRef | None = None


@dataclass(frozen=True, slots=True)
class IntBlock:
    """A block of int32 or int64 that is still symbolic."""

    form: Form
    dtype: DType

    @property
    def shape(self) -> Shape:
        return self.form.shape


@dataclass(frozen=True, slots=True)
class PtrBlock:
    """A block of pointers: byte address `base`, and offsets in elements."""

    base: Int
    offsets: Form
    element: DType
    offset_bits: int = 0

    @property
    def shape(self) -> Shape:
        return self.offsets.shape


Bounds = tuple[tuple[Int, ...], ...]  # one tuple of bounds an axis


@dataclass(frozen=True, slots=True)
class MaskValue:
    """An int1 block: `lo[k] ≤ i_k < hi[k]` for all bounds, and all of `preds`, and `known`, and `dense`."""

    shape: Shape
    lo: Bounds
    hi: Bounds
    preds: tuple[Operand, ...] = ()
    known: IndexExpr | None = None
    dense: BlockRef | None = None  # of the same rank; repeated along its axes of extent 1

    @property
    def dtype(self) -> DType:
        return i1


@dataclass(frozen=True, slots=True)
class HbmRefValue:
    """What `tl.ref` gives."""

    ref: HbmRef

    @property
    def shape(self) -> Shape:
        return self.ref.shape

    @property
    def dtype(self) -> DType:
        return self.ref.dtype


@dataclass(frozen=True, slots=True)
class TupleValue:
    """A tuple or list."""

    items: tuple[Value, ...]


TileKind = Literal["block pointer", "tensor descriptor"]


@dataclass(frozen=True, slots=True)
class TileValue:
    """A tensor that is read in blocks: by a block pointer, which knows where its block is, or by a descriptor.

    `extents`, `strides` and `offsets` hold one scalar an axis; a descriptor has no offsets. `padding` is what its
    lanes outside of the tensor read as: "zero" or "nan".
    """

    kind: TileKind
    base: Pointer
    block_shape: Shape
    extents: TupleValue
    strides: TupleValue
    offsets: TupleValue
    padding: str = "zero"


@dataclass(frozen=True, slots=True)
class DictValue:
    """A dict display with string keys, as composites take them."""

    items: tuple[tuple[str, Value], ...]

    def get(self, key: str) -> Value | None:
        return dict(self.items).get(key)


@dataclass(frozen=True, slots=True)
class PointerType:
    """`tl.pointer_type(element)`, and the `dtype` of a pointer."""

    element: DType


@dataclass(frozen=True, slots=True)
class BlockType:
    """The `type` of a block."""

    element: DType | PointerType
    shape: Shape


@dataclass(frozen=True, slots=True)
class DTypeValue:
    """A type as a value, for example `tl.float32`."""

    dtype: DType | PointerType | BlockType


@dataclass(frozen=True, slots=True)
class ModuleValue:
    """A module of the language by its canonical name: `tl`, `tl.math`, `libdevice`, `triton`, `math`."""

    name: str


@dataclass(frozen=True, slots=True)
class TorchModule(ModuleValue):
    """Torch, or a module of it, of which the language has next to nothing."""


@dataclass(frozen=True, slots=True)
class FileValue:
    """A module that is a file beside the kernel's; `importer` is the file that imports it, `imported` where."""

    name: str
    path: Path
    importer: SourceText
    imported: Span


@dataclass(frozen=True, slots=True)
class BuiltinValue:
    """A function of the language by its canonical name: `load`, `math.exp`, `range`, `static_range`."""

    name: str


@dataclass(frozen=True, slots=True)
class BoundMethod:
    """`x.to`, `x.sum`: the builtin whose first argument is the receiver."""

    name: str
    receiver: Value


@dataclass(frozen=True, slots=True, eq=False)
class FunctionValue:
    """A jit function. `definition` and `home`, whose names it sees, are the walker's."""

    name: str
    definition: object
    home: object = None


@dataclass(frozen=True, slots=True)
class ErrorValue:
    """Stands for a value that could not be made; silences what follows from it."""


BlockLike = Block | IntBlock | PtrBlock | MaskValue
Value = (
    Const
    | Scalar
    | Pointer
    | Block
    | IntBlock
    | PtrBlock
    | MaskValue
    | HbmRefValue
    | TileValue
    | TupleValue
    | DictValue
    | DTypeValue
    | ModuleValue
    | FileValue
    | BuiltinValue
    | BoundMethod
    | FunctionValue
    | ErrorValue
)

ERROR = ErrorValue()
NONE = Const(None)
FALSE, TRUE = Const(False), Const(True)
ZERO = Const(0)


def operand_of(value: Int) -> Operand:
    """The shortest operand for an integer: a lone register is a `Reg`."""
    if isinstance(value, Affine) and value.const == 0 and len(value.terms) == 1 and value.terms[0][1] == 1:
        return Reg(value.terms[0][0])
    return value


def int_of(operand: Operand) -> Int:
    """An integer operand as an `Int` for arithmetic."""
    if isinstance(operand, Reg):
        return Affine(0, ((operand.index, 1),))
    return operand if isinstance(operand, Affine) else int(operand)


def shape_of(value: Value) -> Shape:
    """The shape of a run-time value or constant; () for scalars."""
    return value.shape if isinstance(value, Block | IntBlock | PtrBlock | MaskValue | HbmRefValue) else ()


def is_block(value: Value) -> bool:
    """Whether the value has axes; a `Block` of shape () counts as a scalar."""
    return isinstance(value, Block | IntBlock | PtrBlock | MaskValue) and value.shape != ()


def element_type(value: Value) -> DType | PointerType | None:
    """The scalar type of a run-time value."""
    if isinstance(value, Scalar | Block | IntBlock | MaskValue | HbmRefValue):
        return value.dtype
    if isinstance(value, Pointer | PtrBlock):
        return PointerType(value.element)
    return None


def shape_text(shape: Shape) -> str:
    return f"[{', '.join(str(extent) for extent in shape)}]"


def dtype_text(dtype: DType | PointerType | BlockType) -> str:
    match dtype:
        case PointerType():
            return f"pointer<{dtype.element.triton}>"
        case BlockType():
            return f"{dtype_text(dtype.element)}{shape_text(dtype.shape)}"
        case DType():
            return dtype.triton


def type_text(value: Value) -> str:
    """A value's type in the words of the language, for messages and dumps."""
    element = element_type(value)
    if element is not None:
        shape = shape_of(value)
        prefix = "ref " if isinstance(value, HbmRefValue) else ""
        return prefix + dtype_text(element) + (shape_text(shape) if shape else "")
    match value:
        case Const():
            return f"constexpr {value.value!r}" if value.value is not None else "None"
        case TileValue():
            return f"{value.kind} of {value.base.element.triton}{shape_text(value.block_shape)}"
        case TupleValue():
            return f"tuple of {len(value.items)}"
        case DTypeValue():
            return f"type {dtype_text(value.dtype)}"
        case FunctionValue() | BuiltinValue() | BoundMethod():
            return f"function `{value.name}`"
        case ModuleValue() | FileValue():
            return f"module `{value.name}`"
        case DictValue():
            return "dict"
        case _:
            return "error"
