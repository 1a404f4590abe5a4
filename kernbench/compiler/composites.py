"""Lower `tl.composite(...)`: prologue, head and epilogue become one flat list of ops (ADR-0065 D1 to D6).

Called by TLContext only; this is where recipes are looked up and expanded. A user's mistake is a `Fault`.
Does not know the tile loop, where DMA goes, or when anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kernbench.commands import Operand, OpSpec, Scope, TensorHandle, accumulator, add, scale
from kernbench.compiler.composite_types import (
    Types,
    accumulator_after,
    checked,
    reduced_axis,
    result_dtype,
    result_shape,
    with_axis,
)
from kernbench.compiler.faults import fault
from kernbench.compiler.handles import broadcast, gemm_op
from kernbench.compiler.recipe_expansion import Expansion, along, squeezed
from kernbench.compiler.recipes import RECIPE_DESCRIPTORS, RecipeDescriptor, known_ops
from kernbench.compiler.residual import BlockRef, CompositeCall, CompositeEntry, CompositeOperand, HbmRef
from kernbench.diagnostics import Span, did_you_mean
from kernbench.dtypes import DType, fp32
from kernbench.micro_ops import MICRO_OPS, MicroOp
from kernbench.numerics import accumulator_dtype

if TYPE_CHECKING:
    from kernbench.compiler.tl_context import TLContext

GEMM = "gemm"
_TILE_SCOPES = (Scope.K_TILE, Scope.OUTPUT_TILE)
_WHEN = (*_TILE_SCOPES, Scope.KERNEL)  # the order in which epilogues of these scopes run


def lower_call(context: TLContext, call: CompositeCall) -> None:
    """Emit the composite, and before it copies of blocks that it overwrites while others still need them."""
    _check_gemms(call)
    lowering = _Composite(context, call)
    lowering.place_updates()
    ops = lowering.gemm() if call.op == GEMM else lowering.math()
    context.composite(tuple(ops), call.span, tuple(lowering.rw.values()))


def _check_gemms(call: CompositeCall) -> None:
    more = [entry for entry in (*call.prologue, *call.epilogue) if entry.op == GEMM]
    if not more:
        return
    at = more[0].span.within(call.span.calls)
    others = ((call.span, "the composite's gemm"),) if call.op == GEMM else ()
    if call.op == GEMM or len(more) > 1:
        count = len(more) + (call.op == GEMM)
        message = f"the composite has {count} gemms, at most 1 is allowed"
        raise fault("E_TWO_GEMMS", message, at, "one more gemm", others=others, help="write two composites")
    raise fault("E_NO_GEMM", "a gemm stands in a prologue or epilogue", at, help='write `op="gemm"` for the composite')


@dataclass(frozen=True, slots=True)
class _Step:
    """An entry, or the head of a MATH-only composite seen as one."""

    op: str
    operands: Mapping[str, CompositeOperand]
    extra: Mapping[str, Any]
    scope: str | None
    at: Span


@dataclass
class _Composite:
    context: TLContext
    call: CompositeCall
    rw: dict[int, TensorHandle] = field(default_factory=dict)  # by buffer
    updated: dict[int, TensorHandle] = field(default_factory=dict)  # old block → handle of its new value
    only_read: list[tuple[str, str, TensorHandle]] = field(default_factory=list)  # recipe, operand, its block
    depth: int = 0  # k of the GEMM

    @property
    def types(self) -> Types:
        return Types(self.context.register_dtypes)

    # ------------------------------------------------------------------ operands

    def place_updates(self) -> None:
        """Blocks that are written in place: the old value is where the new one will be."""
        for old, new in self.call.updates:
            before, after = self.context.handle(old), self.context.handle(new)
            after = replace(after, name=before.name)
            if (before.id, before.address, before.strides) != (after.id, after.address, after.strides):
                self.context.copy(before, after, self.call.span)
            self.updated[old.id] = after

    def block(self, value: CompositeOperand) -> TensorHandle | Operand:
        if isinstance(value, BlockRef):
            return self.updated.get(value.id) or self.context.handle(value)
        if isinstance(value, HbmRef):
            return TensorHandle(0, value.name, value.base, value.shape, value.strides, value.dtype, "hbm")
        return value

    def tcm(self, value: CompositeOperand, what: str, at: Span) -> TensorHandle | Operand:
        found = self.block(value)
        if isinstance(found, TensorHandle) and found.space == "hbm":
            message = f"{what} is in HBM, only `a`, `b` and `out` of a gemm can be"
            raise fault("E_OPERAND_SPACE", message, at, help="load it with `tl.load` first")
        return found

    def number(self, value: Any, what: str, at: Span) -> Operand:
        if not isinstance(value, TensorHandle) and not isinstance(value, BlockRef | HbmRef | str | tuple | None):
            return self.context.scalar(value, at)
        raise fault("E_COMPOSITE_OPERAND", f"{what} must be a number", at)

    # ------------------------------------------------------------------ a GEMM and what is around it

    def gemm(self) -> list[OpSpec]:
        call, at = self.call, self.call.span
        ops, primary, binds = self.prologue()
        sides: dict[str, TensorHandle] = {name: self.side(name) for name in ("a", "b") if name in call.operands}
        absent = [name for name in ("a", "b") if name not in sides]
        if primary is not None and absent:
            sides[binds if binds in absent else absent[0]] = primary
        elif primary is not None:
            raise fault("E_COMPOSITE_OPERAND", "the prologue makes an operand, but `a` and `b` are both given", at)
        for name in ("a", "b"):
            if name not in sides:
                raise fault("E_COMPOSITE_OPERAND", f"the gemm lacks its operand `{name}`", at)
        a, b = sides["a"], sides["b"]
        out = self.gemm_out(a, b)
        self.check_overlap(out, {"a": a, "b": b})
        self.check_read_only(out)
        self.depth = a.shape[1]
        acc = accumulator(out.shape, accumulator_dtype(a.dtype, b.dtype))
        ops.append(gemm_op(a, b, out))
        for step in sorted(map(self.step, call.epilogue), key=lambda step: _WHEN.index(self.scope(step))):
            ops.extend(self.after_gemm(step, acc, out))
            if self.scope(step) in _TILE_SCOPES:
                acc = ops[-1].out or acc
        return ops

    def side(self, name: str) -> TensorHandle:
        at = self.call.span
        handle = self.block(self.call.operands[name])
        if not isinstance(handle, TensorHandle):
            raise fault("E_COMPOSITE_OPERAND", f"operand `{name}` of a gemm is a number, it must be a block", at)
        if len(handle.shape) != 2:
            message = f"operand `{name}` of a gemm has shape {handle.shape}, it must have 2 axes"
            raise fault("E_COMPOSITE_SHAPE", message, at)
        return handle

    def gemm_out(self, a: TensorHandle, b: TensorHandle) -> TensorHandle:
        at = self.call.span
        if a.shape[1] != b.shape[0]:
            message = f"`a` of shape {a.shape} and `b` of shape {b.shape} do not fit"
            raise fault("E_COMPOSITE_SHAPE", message, at, f"{a.shape[1]} columns against {b.shape[0]} rows")
        if a.dtype.is_int != b.dtype.is_int:
            message = f"a gemm multiplies two float types or two integer types, not {a.dtype} and {b.dtype}"
            raise fault("E_COMPOSITE_OPERAND", message, at)
        out = self.destination()
        assert out is not None, "a composite with a gemm has an out or a result"
        wanted = (a.shape[0], b.shape[1])
        if out.shape != wanted:
            raise fault("E_COMPOSITE_SHAPE", f"`out` has shape {out.shape}, the product has {wanted}", at)
        return out

    def destination(self) -> TensorHandle | None:
        if self.call.result is not None:
            return self.context.handle(self.call.result)
        if self.call.out is None:
            return None
        found = self.block(self.call.out)
        assert isinstance(found, TensorHandle)
        return found

    def check_overlap(self, out: TensorHandle, others: Mapping[str, TensorHandle]) -> None:
        for name, handle in others.items():
            if overlaps(out, handle):
                message = f"`out` overlaps `{name}`, which later tiles still read"
                raise fault("E_OUT_OVERLAP", message, self.call.span, help="give another `out`, or none")

    def check_read_only(self, out: TensorHandle) -> None:
        for recipe, name, handle in self.only_read:
            if overlaps(out, handle):
                message = f"operand `{name}` of recipe `{recipe}` is only read, but `out` writes it"
                raise fault("E_OUT_OVERLAP", message, self.call.span, help="give another `out`, or none")

    def after_gemm(self, step: _Step, acc: TensorHandle, out: TensorHandle) -> list[OpSpec]:
        """An epilogue: on the accumulator tile by tile, or (scope KERNEL) on the whole of `out` at the end."""
        scope = self.scope(step)
        value = out if scope is Scope.KERNEL else acc
        if value.space == "hbm":
            message = f"epilogue `{step.op}` has scope KERNEL and works on `out`, which is in HBM"
            raise fault("E_OPERAND_SPACE", message, step.at, help="give an `out` in TCM")
        recipe = RECIPE_DESCRIPTORS.get(step.op)
        if recipe is not None:
            return self.recipe_after(step, recipe, value, scope)
        op = self.micro(step, scope, value, None)
        for name, handle in op.operands.items():
            if handle.id == out.id and out.space == "tcm" and handle.id and scope is not Scope.KERNEL:
                self.check_same_tile(name, handle, out, step)
        return [op]

    def check_same_tile(self, name: str, handle: TensorHandle, out: TensorHandle, step: _Step) -> None:
        if (handle.address, handle.shape, handle.strides) != (out.address, out.shape, out.strides):
            message = f"operand `{name}` of epilogue `{step.op}` overlaps other tiles of `out`"
            raise fault("E_OUT_OVERLAP", message, step.at, help="make a copy of it first")

    def recipe_after(self, step: _Step, recipe: RecipeDescriptor, value: TensorHandle, scope: Scope) -> list[OpSpec]:
        if recipe.accumulates is None:
            message = f"recipe `{step.op}` stands in an epilogue, it can only be a prologue"
            raise fault("E_COMPOSITE_SCOPE", message, step.at)
        expansion = self.expansion(step, recipe, scope, {recipe.accumulates: value})
        if value.is_accumulator and value.dtype.is_int:
            value = accumulator(value.shape, fp32)
        ops, _ = expansion.run(value)
        return ops

    # ------------------------------------------------------------------ MATH only

    def math(self) -> list[OpSpec]:
        """A chain: each step takes the value of the one before where it leaves an operand open."""
        call = self.call
        steps = [self.step(entry) for entry in call.prologue]
        if call.op is not None:
            steps.append(_Step(call.op, call.operands, call.extra, None, call.span))
        steps += [self.step(entry) for entry in call.epilogue]
        if not steps:
            raise fault("E_COMPOSITE_OPERAND", "the composite has no op", call.span)
        out = self.destination()
        if out is not None and out.space == "hbm":
            message = "`out` of a composite without a gemm is in HBM"
            raise fault("E_OPERAND_SPACE", message, call.span, help="store its result with `tl.store`")
        ops: list[OpSpec] = []
        value: TensorHandle | None = None
        for index, step in enumerate(steps):
            more, value = self.plain_step(step, value, out if index == len(steps) - 1 else None)
            ops += more
        return ops

    def prologue(self) -> tuple[list[OpSpec], TensorHandle | None, str]:
        """The ops before the GEMM, the operand that they make, and the side that it rather binds to."""
        ops: list[OpSpec] = []
        value: TensorHandle | None = None
        binds = "a"
        for entry in self.call.prologue:
            step = self.step(entry)
            more, made = self.plain_step(step, value, None)
            ops += more
            recipe = RECIPE_DESCRIPTORS.get(step.op)
            if recipe is not None and recipe.primary_out is not None:
                binds = recipe.primary_out.binds
            value = made if made is not None else value
        return ops, value, binds

    def plain_step(
        self, step: _Step, value: TensorHandle | None, out: TensorHandle | None
    ) -> tuple[list[OpSpec], TensorHandle | None]:
        """One step at scope KERNEL: its ops and the value that it makes."""
        if step.scope is not None and self.scope(step) is not Scope.KERNEL:
            message = f"`{step.op}` has scope {step.scope}, but there is no gemm before it"
            raise fault("E_NO_GEMM", message, step.at, help="tiles exist only in and after a gemm")
        recipe = RECIPE_DESCRIPTORS.get(step.op)
        if recipe is None:
            op = self.micro(step, Scope.KERNEL, value, out)
            return [op], op.out
        taken = {}
        if value is not None and recipe.accumulates is not None and recipe.accumulates not in step.operands:
            taken[recipe.accumulates] = value
        expansion = self.expansion(step, recipe, Scope.KERNEL, taken)
        if out is not None:
            self.check_read_only(out)
            if out.id in self.rw:
                message = f"`out` is `{self.rw[out.id].name}`, which recipe `{step.op}` writes itself"
                raise fault("E_OUT_OVERLAP", message, step.at, help="give another `out`, or none")
        ops, made = expansion.run(out)
        return ops, made

    # ------------------------------------------------------------------ steps

    def step(self, entry: CompositeEntry) -> _Step:
        return _Step(entry.op, entry.operands, entry.extra, entry.scope, entry.span.within(self.call.span.calls))

    def scope(self, step: _Step) -> Scope:
        micro, recipe = MICRO_OPS.get(step.op), RECIPE_DESCRIPTORS.get(step.op)
        reduces = micro is not None and micro.reduces
        usual = Scope.KERNEL if reduces else recipe.tile_scope if recipe is not None else Scope.OUTPUT_TILE
        chosen = Scope(step.scope) if step.scope is not None else usual
        if reduces and chosen is not Scope.KERNEL:
            message = f"`{step.op}` reduces whole rows or columns, it cannot have scope {chosen.value}"
            raise fault("E_COMPOSITE_SCOPE", message, step.at, help="leave the scope out, or write KERNEL")
        if recipe is not None and chosen not in (recipe.tile_scope, Scope.KERNEL):
            message = f"recipe `{step.op}` runs at scope {recipe.tile_scope.value}, not {chosen.value}"
            raise fault("E_COMPOSITE_SCOPE", message, step.at, help="leave the scope out")
        return chosen

    def expansion(
        self, step: _Step, recipe: RecipeDescriptor, scope: Scope, taken: dict[str, TensorHandle]
    ) -> Expansion:
        """The recipe on this step's operands; what it writes in place is noted for `rw_handles`."""
        blocks: dict[str, TensorHandle] = dict(taken)
        scalars: dict[str, Operand] = {}
        for name, value in step.operands.items():
            what = f"operand `{name}` of recipe `{step.op}`"
            found = self.tcm(value, what, step.at)
            if isinstance(found, TensorHandle):
                blocks[name] = found
            elif name in recipe.operands:
                raise fault("E_COMPOSITE_OPERAND", f"{what} is a number, it must be a block", step.at)
            else:
                scalars[name] = found
        for name, value in step.extra.items():
            scalars[name] = self.number(value, f"`{name}` of recipe `{step.op}`", step.at)
        ordered = {name: blocks.pop(name) for name in recipe.operands if name in blocks}
        for name, handle in ordered.items():
            if recipe.operands[name] == "RW":
                self.rw.setdefault(handle.id, handle)
            elif scope is Scope.KERNEL and not handle.is_accumulator:
                self.only_read.append((step.op, name, handle))
        return Expansion(self.context, step.op, recipe, {**ordered, **blocks}, scalars, step.at, scope)

    def micro(self, step: _Step, scope: Scope, value: TensorHandle | None, out: TensorHandle | None) -> OpSpec:
        """A micro-op. An operand that is not given is `value`; `other` is the last of those that are not given."""
        assert step.op in known_ops(), f"elaboration let the op {step.op} through"
        op = MICRO_OPS[step.op]
        given = {name: self.argument(step, name, operand) for name, operand in step.operands.items()}
        given |= {
            name: self.number(number, f"operand `{name}` of `{step.op}`", step.at)
            for name, number in step.extra.items()
            if name in (*op.operands, "other")
        }
        target = given.pop("out", None)
        self.fill(step, op, given, value)
        extra = {name: step.extra[name] for name in op.attributes if step.extra.get(name) is not None}
        blocks, numbers = _split({name: given[name] for name in op.operands})
        if not blocks:
            raise fault("E_COMPOSITE_OPERAND", f"`{step.op}` has only numbers as operands", step.at)
        shape = self.shape_of(step, op, blocks, extra, value)
        if not isinstance(target, TensorHandle):
            types = {name: handle.dtype for name, handle in blocks.items()}
            floats = any(self.types.is_float(number) for number in numbers.values())
            target = self.micro_target(step, shape, types, floats, scope, value, out)
        elif squeezed(target, len(shape)).shape != shape:
            message = f"`out` of `{step.op}` has shape {target.shape}, the result {shape}"
            raise fault("E_COMPOSITE_SHAPE", message, step.at)
        if not op.reduces:
            axis = extra.pop("bcast_axis", None)
            blocks = {name: self.repeated(step, name, handle, shape, axis, scope) for name, handle in blocks.items()}
        made = OpSpec(step.op, scope, blocks, {**numbers, **extra}, squeezed(target, len(shape)))
        return checked(made, self.context.register_dtypes, step.at)

    def argument(self, step: _Step, name: str, value: CompositeOperand) -> TensorHandle | Operand:
        found = self.tcm(value, f"operand `{name}` of `{step.op}`", step.at)
        return found if isinstance(found, TensorHandle) else self.context.scalar(found, step.at)

    def fill(
        self, step: _Step, op: MicroOp, given: dict[str, TensorHandle | Operand], value: TensorHandle | None
    ) -> None:
        wanted = list(op.operands)
        for name in given:
            if name not in (*wanted, "other"):
                known = did_you_mean(name, [*wanted, "other"], "operands")
                raise fault("E_COMPOSITE_OPERAND", f"`{step.op}` has no operand `{name}`", step.at, help=known)
        free = [name for name in wanted if name not in given]
        if "other" in given:
            if not free:
                raise fault("E_COMPOSITE_OPERAND", f"`{step.op}` has no operand left for `other`", step.at)
            given[free.pop()] = given.pop("other")
        if free and value is not None:
            given[free.pop(0)] = value
        if free:
            named = ", ".join(f"`{name}`" for name in free)
            raise fault("E_COMPOSITE_OPERAND", f"`{step.op}` needs the operand {named}", step.at)

    def shape_of(
        self,
        step: _Step,
        op: MicroOp,
        blocks: dict[str, TensorHandle],
        extra: dict[str, Any],
        value: TensorHandle | None,
    ) -> tuple[int, ...]:
        if op.reduces:
            rank = max(len(handle.shape) for handle in blocks.values())
            extra["axis"] = reduced_axis(step.op, extra.get("axis"), rank, step.at)
        elif value is not None and value.is_accumulator:
            return value.shape
        return result_shape(op, {name: handle.shape for name, handle in blocks.items()}, extra, step.at)

    def micro_target(
        self,
        step: _Step,
        shape: tuple[int, ...],
        types: dict[str, DType],
        floats: bool,
        scope: Scope,
        value: TensorHandle | None,
        out: TensorHandle | None,
    ) -> TensorHandle:
        op = MICRO_OPS[step.op]
        if scope in _TILE_SCOPES or (value is not None and out is None and self.call.op == GEMM and self.is_out(value)):
            assert value is not None
            if value.shape != shape:
                message = f"`{step.op}` gives shape {shape}, the output has {value.shape}"
                raise fault("E_COMPOSITE_SHAPE", message, step.at, help="give it an `out` of its own")
            if not value.is_accumulator:
                return value
            return accumulator(value.shape, accumulator_after(op, value.dtype, types.values(), floats))
        if out is None:
            return self.context.new_handle(step.op, shape, result_dtype(op, types, floats))
        if squeezed(out, len(shape)).shape != shape:
            raise fault("E_COMPOSITE_SHAPE", f"`out` has shape {out.shape}, `{step.op}` gives {shape}", step.at)
        return out

    def is_out(self, value: TensorHandle) -> bool:
        out = self.destination()
        return out is not None and (out.id, out.address) == (value.id, value.address)

    def repeated(
        self, step: _Step, name: str, handle: TensorHandle, shape: tuple[int, ...], axis: int | None, scope: Scope
    ) -> TensorHandle:
        if scope is Scope.K_TILE and len(handle.shape) == len(shape) + 1:
            return self.along_depth(step, name, handle, shape)
        extents = with_axis(handle.shape, len(shape), axis)
        if len(extents) != len(shape) or any(
            extent not in (1, want) for extent, want in zip(extents, shape, strict=True)
        ):
            message = f"operand `{name}` of `{step.op}` has shape {handle.shape}, it must repeat to {shape}"
            raise fault("E_COMPOSITE_SHAPE", message, step.at)
        return along(handle, shape, axis)

    def along_depth(self, step: _Step, name: str, handle: TensorHandle, shape: tuple[int, ...]) -> TensorHandle:
        """An operand with one block for each group of rows of `b`: its first axis lies along k."""
        groups = handle.shape[0]
        rest = handle.shape[1:]
        if self.depth % groups or any(extent not in (1, want) for extent, want in zip(rest, shape, strict=True)):
            need = f"(groups, {', '.join(map(str, shape))}), groups dividing {self.depth}"
            message = f"operand `{name}` of `{step.op}` has shape {handle.shape}, it must repeat to {need}"
            raise fault("E_COMPOSITE_SHAPE", message, step.at)
        return broadcast(handle, (groups, *shape))


def _split(args: Mapping[str, TensorHandle | Operand]) -> tuple[dict[str, TensorHandle], dict[str, Operand]]:
    blocks, numbers = {}, {}
    for name, value in args.items():
        if isinstance(value, TensorHandle):
            blocks[name] = value
        else:
            numbers[name] = value
    return blocks, numbers


def overlaps(one: TensorHandle, other: TensorHandle) -> bool:
    """True where the two surely share memory: one buffer, or HBM ranges at a known distance."""
    if one.space != other.space:
        return False
    if one.space == "tcm":
        return one.id == other.id
    distance = add(other.address, scale(one.address, -1))
    if not isinstance(distance, int):
        return False
    return -_extent(other) < distance < _extent(one)


def _extent(handle: TensorHandle) -> int:
    """Bytes from the first element to behind the last; the elements alone where a stride is not known."""
    last = 0
    for extent, stride in zip(handle.shape, handle.strides, strict=True):
        if not isinstance(stride, int):
            return handle.dtype.nbytes
        last += (extent - 1) * max(0, stride)
    return (last + 1) * handle.dtype.nbytes
