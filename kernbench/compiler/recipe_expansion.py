"""A recipe's ops on given handles: shapes checked by its letters, scratch made, every view and number filled in.

Called by `composites.py` on behalf of TLContext only. Does not know GEMMs, scopes or where a composite ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kernbench.commands import Operand, OpSpec, Scope, TensorHandle, add, contiguous_strides, scale
from kernbench.compiler.composite_types import checked
from kernbench.compiler.faults import fault
from kernbench.compiler.handles import broadcast
from kernbench.compiler.recipes import EngineOp, RecipeDescriptor, View
from kernbench.diagnostics import Span, did_you_mean
from kernbench.dtypes import BY_NAME, DType
from kernbench.micro_ops import MICRO_OPS

if TYPE_CHECKING:
    from kernbench.compiler.tl_context import TLContext


@dataclass
class Expansion:
    """One use of a recipe. `operands` are TCM handles by the recipe's names, `scalars` its numbers."""

    context: TLContext
    name: str
    recipe: RecipeDescriptor
    operands: dict[str, TensorHandle]
    scalars: Mapping[str, Operand]
    at: Span
    scope: Scope = Scope.KERNEL
    dims: dict[str, int] = field(default_factory=dict)

    def run(self, primary: TensorHandle | None = None) -> tuple[list[OpSpec], TensorHandle | None]:
        """The ops, and the primary output as whoever takes it sees it (in `primary` where that is given)."""
        self.check_names()
        self.check_shapes()
        self.check_spare()
        known = dict(self.operands)
        spec = self.recipe.primary_out
        if spec is not None:
            known[spec.name] = self.make_primary() if primary is None else self.turned(primary)
        ops = [self.op(engine_op, known) for engine_op in self.recipe.engine_seq]
        return ops, None if spec is None else self.turned(known[spec.name])

    def turned(self, handle: TensorHandle) -> TensorHandle:
        """From the primary output as the ops write it to how it is seen, or back."""
        spec = self.recipe.primary_out
        return transposed(handle) if spec is not None and spec.transform == "transpose" else handle

    # ------------------------------------------------------------------ checks

    def check_names(self) -> None:
        given, wanted = {*self.operands, *self.scalars}, {*self.recipe.operands, *self.recipe.scalars}
        for name in sorted(given - wanted):
            known = did_you_mean(name, sorted(wanted), "operands")
            raise fault("E_COMPOSITE_OPERAND", f"recipe `{self.name}` has no operand `{name}`", self.at, help=known)
        required = [*self.recipe.operands, *(name for name, value in self.recipe.scalars.items() if value is None)]
        missing = [name for name in required if name not in given]
        if missing:
            named = ", ".join(f"`{name}`" for name in missing)
            raise fault("E_COMPOSITE_OPERAND", f"recipe `{self.name}` needs the operand {named}", self.at)

    def check_shapes(self) -> None:
        """Equal letters are equal extents; an axis of extent 1 that has no letter is left out."""
        for name, letters in self.recipe.dims.items():
            handle = squeezed(self.operands[name], len(letters))
            wanted = tuple(self.dims.get(letter) for letter in letters)
            fits = len(handle.shape) == len(letters) and all(
                want in (None, extent) for want, extent in zip(wanted, handle.shape, strict=True)
            )
            if not fits:
                need = ", ".join(
                    letter if want is None else f"{letter} = {want}"
                    for letter, want in zip(letters, wanted, strict=True)
                )
                found = f"operand `{name}` of recipe `{self.name}` has shape {self.operands[name].shape}"
                raise fault("E_COMPOSITE_SHAPE", f"{found}, it needs ({need})", self.at)
            self.operands[name] = handle
            self.dims.update(zip(letters, handle.shape, strict=True))
        self.check_groups()

    def check_groups(self) -> None:
        """Each scale serves the same number of rows; halves need an even length."""
        for view in self.recipe.views.values():
            letters = self.recipe.dims.get(view.of, "")
            if view.how == "repeat":
                groups, rows = self.dims[letters[0]], self.grouped_rows()
                if rows % groups:
                    message = f"recipe `{self.name}` has {rows} rows for {groups} rows of `{view.of}`"
                    raise fault("E_COMPOSITE_SHAPE", f"{message}, which do not divide", self.at)
            elif view.how == "halves" and letters and self.dims[letters[-1]] != 2 * self.half_extent():
                message = f"recipe `{self.name}` needs rows of {2 * self.half_extent()} elements"
                raise fault("E_COMPOSITE_SHAPE", f"{message}, `{view.of}` has {self.dims[letters[-1]]}", self.at)

    def grouped_rows(self) -> int:
        """Rows of the operand or result that is seen in groups."""
        of = next(view.of for view in self.recipe.views.values() if view.how == "groups")
        return self.operands[of].shape[0] if of in self.operands else self.primary_shape()[0]

    def primary_shape(self) -> tuple[int, ...]:
        spec = self.recipe.primary_out
        assert spec is not None
        return spec.made(self.operands[spec.from_shape].shape)

    def half_extent(self) -> int:
        return self.dims.get("H", 0)

    def check_spare(self) -> None:
        """What is written in place is nothing that is read beside it."""
        written = {self.operands[name].id: name for name in self.recipe.written}
        if len(written) < len(self.recipe.written):
            message = f"two operands that recipe `{self.name}` writes are one block"
            raise fault("E_OUT_OVERLAP", message, self.at)
        for name, use in self.recipe.operands.items():
            other = written.get(self.operands[name].id)
            if use == "R" and other is not None:
                message = f"operand `{name}` of recipe `{self.name}` is only read, but is written as `{other}`"
                raise fault("E_OUT_OVERLAP", message, self.at)

    # ------------------------------------------------------------------ handles

    def make_primary(self) -> TensorHandle:
        spec = self.recipe.primary_out
        assert spec is not None
        return self.scratch(spec.name, self.primary_shape(), self.operands[spec.from_dtype].dtype)

    def scratch(self, name: str, shape: tuple[int, ...], dtype: DType) -> TensorHandle:
        return self.context.new_handle(name, shape, dtype)

    def dtype_of(self, name: str) -> DType:
        source = self.recipe.dtypes[name]
        return self.operands[source].dtype if source in self.operands else BY_NAME[source]

    def op(self, engine_op: EngineOp, known: dict[str, TensorHandle]) -> OpSpec:
        micro = MICRO_OPS[engine_op.kind]
        args = {name: self.argument(value, known) for name, value in engine_op.arguments.items()}
        blocks = {name: value for name, value in args.items() if isinstance(value, TensorHandle)}
        numbers = {name: value for name, value in args.items() if not isinstance(value, TensorHandle)}
        shape = self.result_shape(engine_op, blocks)
        out = self.destination(engine_op.dst, shape, known)
        extra: dict[str, Any] = dict(numbers)
        if engine_op.reduce_axis is not None:
            extra["axis"] = engine_op.reduce_axis % len(blocks["src"].shape)
        elif engine_op.bcast_axis is not None and "bcast_axis" in micro.attributes and self.scope is Scope.KERNEL:
            extra["bcast_axis"] = engine_op.bcast_axis
        else:
            blocks = {name: along(handle, out.shape, engine_op.bcast_axis) for name, handle in blocks.items()}
        return checked(OpSpec(engine_op.kind, self.scope, blocks, extra, out), self.context.register_dtypes, self.at)

    def argument(self, value: str | float, known: dict[str, TensorHandle]) -> TensorHandle | Operand:
        if not isinstance(value, str):
            return value
        if value in known:
            return known[value]
        if value in self.recipe.views:
            view = self.recipe.views[value]
            return self.view(view, known[view.of])
        if value in self.recipe.constants:
            return self.recipe.constants[value](self.dims)
        number = self.scalars.get(value, self.recipe.scalars.get(value))
        assert number is not None, f"recipe `{self.name}` names `{value}`, which nothing makes"
        return self.context.scalar(number, self.at)

    def destination(self, name: str, shape: tuple[int, ...], known: dict[str, TensorHandle]) -> TensorHandle:
        if name in self.recipe.views:
            view = self.recipe.views[name]
            return self.view(view, known[view.of])
        if name not in known:
            known[name] = self.scratch(name, shape, self.dtype_of(name))
        return known[name]

    def result_shape(self, engine_op: EngineOp, blocks: dict[str, TensorHandle]) -> tuple[int, ...]:
        shapes = [handle.shape for handle in blocks.values()]
        if engine_op.reduce_axis is not None:
            (shape,) = shapes
            axis = engine_op.reduce_axis % len(shape)
            return (*shape[:axis], *shape[axis + 1 :])
        return max(shapes, key=len)

    def view(self, view: View, handle: TensorHandle) -> TensorHandle:
        match view.how:
            case "halves":
                half = handle.shape[-1] // 2
                offset = scale(handle.strides[-1], half * view.part * handle.dtype.nbytes)
                return replace(handle, address=add(handle.address, offset), shape=(*handle.shape[:-1], half))
            case "pairs":
                rows = handle.shape[0] // 2
                offset = scale(handle.strides[0], view.part * handle.dtype.nbytes)
                strides = (scale(handle.strides[0], 2), *handle.strides[1:])
                return replace(
                    handle, address=add(handle.address, offset), shape=(rows, *handle.shape[1:]), strides=strides
                )
            case "groups":
                groups = self.dims["S"]
                rows = handle.shape[0] // groups
                strides = (scale(handle.strides[0], rows), *handle.strides)
                return replace(handle, shape=(groups, rows, *handle.shape[1:]), strides=strides)
            case "repeat":
                rows = self.grouped_rows() // handle.shape[0]
                strides = (handle.strides[0], 0, *handle.strides[1:])
                return replace(handle, shape=(handle.shape[0], rows, *handle.shape[1:]), strides=strides)


def squeezed(handle: TensorHandle, rank: int) -> TensorHandle:
    """The handle without axes of extent 1 beyond `rank`, the last ones first."""
    shape, strides = list(handle.shape), list(handle.strides)
    axis = len(shape) - 1
    while len(shape) > rank and axis >= 0:
        if shape[axis] == 1:
            del shape[axis], strides[axis]
        axis -= 1
    return replace(handle, shape=tuple(shape), strides=tuple(strides))


def along(handle: TensorHandle, shape: tuple[int, ...], bcast_axis: int | None) -> TensorHandle:
    """The handle repeated to `shape`; a smaller one along `bcast_axis` where that is given."""
    if bcast_axis is not None and len(handle.shape) < len(shape):
        axis = bcast_axis % len(shape)
        handle = replace(
            handle,
            shape=(*handle.shape[:axis], 1, *handle.shape[axis:]),
            strides=(*handle.strides[:axis], 0, *handle.strides[axis:]),
        )
    return broadcast(handle, shape)


def transposed(handle: TensorHandle) -> TensorHandle:
    return replace(handle, shape=handle.shape[::-1], strides=handle.strides[::-1])


def is_dense(handle: TensorHandle) -> bool:
    return handle.strides == contiguous_strides(handle.shape)
