"""Say what in a program has no sense, whoever wrote it, so that no part of a device need ask while it runs.

A compiler writes none of this, but not every binary is a compiler's. Looks at registers, operands, accesses and
blocks; what a single micro-op takes is in `micro_op_check.py`. Does not know TCM's size, tensors, engines or time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernbench import numerics
from kernbench.commands import (
    Access,
    Affine,
    Assert,
    Atomic,
    AxisIndex,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Exit,
    Gather,
    If,
    IndexOp,
    Loop,
    Move,
    Node,
    OpSpec,
    Program,
    ReadScalar,
    Recv,
    Reg,
    ScalarLoad,
    ScalarOp,
    ScalarStore,
    Scatter,
    Scope,
    Send,
    TensorHandle,
    Wait,
    While,
    walk,
)
from kernbench.dtypes import DType, i1, i64
from kernbench.micro_op_check import (
    MAX_ELEMENTS,
    Problems,
    attribute_problems,
    fills,
    result_shape,
    tile_shape_problems,
    type_problems,
)
from kernbench.micro_ops import MICRO_OPS, MicroOp

MAX_STRIDE = 1 << 40  # of a block in TCM, in elements
MAX_SLOTS = 1 << 12  # of a ring


def problems(program: Program) -> Problems:
    """What is wrong, in the order of the program; nothing where a device can run it."""
    check = _Check(program.register_dtypes)
    for param in program.params:
        yield from check.holds(param.register, i64 if param.kind == "tensor" else param.dtype, "a parameter")
    for _, register in program.specials:
        yield from check.holds(register, i64, "a special register")
    for node in walk(program.body):
        yield from check.node(node)


def type_problem(op: OpSpec, registers: Sequence[DType]) -> str | None:
    """What is wrong with the types of an op whose operands are all there and whose result is named."""
    assert op.out is not None
    dtypes, forms = _Check(registers).forms(op, MICRO_OPS[op.kind])
    return next(type_problems(op.kind, forms, dtypes, op.out.dtype), None)


class _Check:
    """Knows the registers' types."""

    def __init__(self, dtypes: Sequence[DType]) -> None:
        self._dtypes = dtypes

    def node(self, node: Node) -> Problems:
        checks: Mapping[type, Callable[[Any], Problems]] = {
            ScalarOp: self._scalar_op,
            CompositeTemplate: self._composite,
            DmaRead: self._read,
            DmaWrite: self._write,
            Gather: self._read,
            Scatter: self._write,
            Atomic: self._atomic,
            ScalarLoad: self._scalar_load,
            ScalarStore: self._scalar_store,
            ReadScalar: self._read_scalar,
            Send: self._send,
            Recv: self._recv,
            Wait: self._wait,
            Assert: lambda found: self.operand(found.condition),
            Loop: self._loop,
            While: self._while,
            If: self._if,
            Exit: lambda found: self._moves(found.moves),
        }
        check = checks.get(type(node))
        return iter(()) if check is None else check(node)

    # ---- registers and operands

    def holds(self, register: int, dtype: DType, what: str) -> Problems:
        own = self._dtypes[register]
        if own.is_float != dtype.is_float:
            yield f"{what} of type {dtype} is kept in register {register}, which is {own}"

    def operand(self, value: object) -> Problems:
        """A number, or registers; sums are of integers."""
        if isinstance(value, Affine):
            yield from (
                f"an address or bound adds register {register}, which is {self._dtypes[register]}"
                for register, _ in value.terms
                if self._dtypes[register].is_float
            )
        elif not isinstance(value, bool | int | float | Reg):
            yield f"{type(value).__name__} stands where a number is needed"

    def integer(self, value: object) -> Problems:
        if isinstance(value, float) or (isinstance(value, Reg) and self._dtypes[value.index].is_float):
            yield "a float stands where an integer is needed"
        else:
            yield from self.operand(value)

    def integers(self, values: object) -> Problems:
        if not isinstance(values, tuple):
            yield f"{type(values).__name__} stands where a tuple of integers is needed"
            return
        for value in values:
            yield from self.integer(value)

    def typed(self, value: object, dtype: DType) -> Problems:
        """An operand that is read in a type."""
        yield from self.operand(value) if dtype.is_float else self.integer(value)
        if isinstance(value, Reg):
            yield from self.holds(value.index, dtype, "an operand")

    def _moves(self, moves: Sequence[Move]) -> Problems:
        for move in moves:
            yield from self.typed(move.src, self._dtypes[move.dst])

    # ---- control

    def _loop(self, node: Loop) -> Problems:
        for bound in (Reg(node.var), node.start, node.stop, node.step):
            yield from self.integer(bound)
        yield from self._turns(node)

    def _while(self, node: While) -> Problems:
        yield from self.operand(node.condition)
        yield from self._turns(node)

    def _turns(self, node: Loop | While) -> Problems:
        yield from self._moves((*node.init, *node.moves))
        for register, depth in node.rotations:
            yield from self.integer(Reg(register))
            if depth < 1:
                yield f"a ring of {depth} slots is turned"

    def _if(self, node: If) -> Problems:
        yield from self.operand(node.condition)
        yield from self._moves((*node.then_moves, *node.else_moves))

    # ---- scalars

    def _scalar_op(self, node: ScalarOp) -> Problems:
        op = MICRO_OPS.get(node.kind)
        if op is None or op.mixes or op.arity == 0:
            yield f"PE_CPU has no instruction `{node.kind}`"
            return
        if not op.arity == len(node.args) == len(node.arg_dtypes):
            yield f"`{node.kind}` takes {op.arity} operands, {len(node.args)} are given"
            return
        for value, dtype in zip(node.args, node.arg_dtypes, strict=True):
            yield from self.typed(value, dtype)
        yield from self.holds(node.dst, node.dtype, f"the result of `{node.kind}`")
        yield from type_problems(node.kind, tuple(dtype.name for dtype in node.arg_dtypes), node.arg_dtypes, node.dtype)

    def _scalar_load(self, node: ScalarLoad) -> Problems:
        yield from self.integer(node.address)
        yield from self.typed(node.other, node.dtype)
        yield from self.holds(node.dst, node.dtype, "a loaded value")
        for pred in node.preds:
            yield from self.operand(pred)

    def _scalar_store(self, node: ScalarStore) -> Problems:
        yield from self.integer(node.address)
        yield from self.typed(node.value, node.value_dtype)
        for pred in node.preds:
            yield from self.operand(pred)

    def _read_scalar(self, node: ReadScalar) -> Problems:
        yield from self._block(node.src)
        yield from self.holds(node.dst, node.src.dtype, "an element of a block")
        if node.src.n_elements != 1:
            yield f"a block of shape {list(node.src.shape)} is read as one number"

    # ---- moves

    def _block(self, handle: TensorHandle) -> Problems:
        """A block in TCM."""
        yield from self.integer(handle.address)
        if handle.space != "tcm" or handle.is_accumulator:
            yield f"an operand in {handle.space} stands where a block in TCM is needed"
        if handle.n_elements > MAX_ELEMENTS:
            yield f"a block has {handle.n_elements} elements"
        if not all(isinstance(stride, int) and abs(stride) <= MAX_STRIDE for stride in handle.strides):
            yield "a block in TCM has strides that no block has"

    def _access(self, access: Access) -> Problems:
        rank = len(access.shape)
        yield from self.integers((access.base, *access.strides))
        if len(access.strides) != rank or len(access.lo) not in (0, rank) or len(access.hi) not in (0, rank):
            yield f"an access of {rank} axes has strides or bounds of another number"
            return
        if len(access.lo) != len(access.hi):
            yield "an access has lower bounds without upper ones, or upper ones without lower"
        for bounds in (*access.lo, *access.hi):
            yield from self.integers(bounds)
        for pred in access.preds:
            yield from self.operand(pred)
        for expression in (access.rest, access.mask):
            if expression is not None:
                yield from self._index(expression, rank)
        if access.offset_bits not in (32, 64):
            yield f"offsets of {access.offset_bits} bits are none of a kernel"

    def _index(self, expression: object, rank: int) -> Problems:
        if isinstance(expression, AxisIndex):
            if expression.axis >= rank:
                yield f"an index names axis {expression.axis} of {rank}"
        elif isinstance(expression, IndexOp):
            op = MICRO_OPS.get(expression.kind)
            if op is None or op.mixes or op.arity != len(expression.args) or not expression.dtype.is_int:
                yield f"`{expression.kind}` of {len(expression.args)} operands is no index"
                return
            for arg in expression.args:
                yield from self._index(arg, rank)
            inner = [arg.dtype if isinstance(arg, IndexOp) else i64 for arg in expression.args]
            yield from type_problems(expression.kind, tuple(dtype.name for dtype in inner), inner, expression.dtype)
        else:
            yield from self.integer(expression)

    def _moved(self, block: TensorHandle, access: Access) -> Problems:
        yield from self._block(block)
        yield from self._access(access)
        if block.shape != access.shape or block.dtype.nbytes != access.dtype.nbytes:
            yield (
                f"a block of {block.dtype}{list(block.shape)} is moved by an access of "
                f"{access.dtype}{list(access.shape)}"
            )

    def _beside(self, access: Access, index: TensorHandle | None, mask: TensorHandle | None) -> Problems:
        for handle, fits, what in ((index, lambda d: d.is_int, "an index"), (mask, lambda d: d is i1, "a mask")):
            if handle is not None:
                yield from self._block(handle)
                if handle.shape != access.shape or not fits(handle.dtype):
                    yield f"a block of {handle.dtype}{list(handle.shape)} is {what} of {list(access.shape)}"

    def _read(self, node: DmaRead | Gather) -> Problems:
        yield from self._moved(node.dst, node.access)
        if isinstance(node, Gather):
            yield from self._beside(node.access, node.index, node.mask)
        if isinstance(node.other, TensorHandle):
            yield from self._block(node.other)
            if node.other.shape != node.dst.shape:
                yield "what stopped lanes get has another shape than the block"
        elif node.other is not None:
            yield from self.operand(node.other)

    def _write(self, node: DmaWrite | Scatter) -> Problems:
        yield from self._moved(node.src, node.access)
        if isinstance(node, Scatter):
            yield from self._beside(node.access, node.index, node.mask)

    def _atomic(self, node: Atomic) -> Problems:
        yield from self._moved(node.src, node.access)
        yield from self._beside(node.access, node.index, node.mask)
        for handle in (node.compare, node.dst):
            if handle is not None:
                yield from self._block(handle)
                if handle.shape != node.access.shape or handle.dtype is not node.access.dtype:
                    yield "the blocks of an atomic are of several shapes or types"
        if (node.kind == "cas") != (node.compare is not None):
            yield f"an atomic `{node.kind}` and what it compares with do not fit"
        if node.src.dtype is not node.access.dtype:
            yield f"an atomic of {node.src.dtype} on elements of {node.access.dtype}"
        elif node.kind not in ("xchg", "cas"):
            dtype = node.access.dtype
            yield from type_problems(node.kind, (dtype.name, dtype.name), (dtype, dtype), dtype)

    def _send(self, node: Send) -> Problems:
        yield from self._block(node.src)
        yield from self._peer(node.to)

    def _recv(self, node: Recv) -> Problems:
        yield from self._block(node.dst)
        yield from self._peer(node.source)

    def _peer(self, place: tuple[object, ...]) -> Problems:
        yield from self.integers(place)
        if len(place) not in (1, 3):
            yield f"{len(place)} numbers name no PE"

    def _wait(self, node: Wait) -> Problems:
        for handle in node.handles:
            yield from self._block(handle)

    # ---- composites

    def _composite(self, node: CompositeTemplate) -> Problems:
        head = next((op for op in node.ops if op.kind == "gemm"), None)
        if head is not None:
            yield from self._gemm(head)
        for op in node.ops:
            if op.kind != "gemm":
                yield from self._math(op, head)
        for handle in node.rw_handles:
            if handle.space == "tcm" and not handle.is_accumulator:
                yield from self._block(handle)

    def _gemm(self, op: OpSpec) -> Problems:
        sizes = [op.extra.get(name) for name in ("m", "k", "n")]
        if not all(type(size) is int and size > 0 for size in sizes):
            yield f"a gemm of m, k, n = {sizes} has no product"
            return
        m, k, n = sizes
        assert op.out is not None, "check_composite asks for an out"
        named = (("a", op.operands["a"], (m, k)), ("b", op.operands["b"], (k, n)), ("out", op.out, (m, n)))
        for name, handle, shape in named:
            if handle.shape != shape:
                yield f"`{name}` of a gemm has the shape {list(handle.shape)}, not {list(shape)}"
            yield from (
                self._block(handle) if handle.space == "tcm" else self.integers((handle.address, *handle.strides))
            )
        if op.operands["a"].dtype.is_int != op.operands["b"].dtype.is_int:
            yield f"a gemm multiplies {op.operands['a'].dtype} by {op.operands['b'].dtype}"
        yield from _rings(op.extra.get("rings", ()))

    def _math(self, op: OpSpec, head: OpSpec | None) -> Problems:
        entry = MICRO_OPS.get(op.kind)
        if entry is None:
            yield f"no engine has the op `{op.kind}`"
            return
        missing = [name for name in entry.operands if name not in op.operands and name not in op.extra]
        if missing:
            yield f"`{op.kind}` has no `{missing[0]}`"
            return
        for part in (self._math_parts(op, entry), attribute_problems(op, entry), self._result(op, entry, head)):
            if wrong := [*part]:
                yield from wrong
                return

    def _math_parts(self, op: OpSpec, entry: MicroOp) -> Problems:
        tiled = op.scope is not Scope.KERNEL
        if op.out is None and not tiled:
            yield f"`{op.kind}` has no result"
        for handle in (*op.operands.values(), *(() if op.out is None else (op.out,))):
            if not (tiled and handle.is_accumulator):
                yield from self._block(handle)
        for name in entry.operands:
            if name not in op.operands:
                yield from self.operand(op.extra[name])
        if entry.arity == 0:
            yield from self._generator(op)

    def _generator(self, op: OpSpec) -> Problems:
        """A block made from numbers."""
        rank = 0 if op.out is None else len(op.out.shape)
        yield from self.integer(op.extra.get("base", 0))
        yield from self.integers(strides := op.extra.get("strides", ()))
        sides = [op.extra.get(key, ()) for key in ("lo", "hi")]
        if not all(isinstance(side, tuple) for side in sides):
            yield f"`{op.kind}` has bounds that are none"
            return
        for bounds in (*sides[0], *sides[1]):
            yield from self.integers(bounds)
        if any(len(side) not in (0, rank) for side in sides) or len(strides) not in (0, rank):
            yield f"`{op.kind}` of {rank} axes has strides or bounds of another number"
        if op.kind == "index" and ("base" not in op.extra or "strides" not in op.extra):
            yield "`index` has no base or no strides"
        preds = op.extra.get("preds", ())
        for pred in preds if isinstance(preds, tuple) else (preds,):
            yield from self.operand(pred)
        for key in ("rest", "mask"):
            if op.extra.get(key) is not None:
                yield from self._index(op.extra[key], rank)

    def _result(self, op: OpSpec, entry: MicroOp, head: OpSpec | None) -> Problems:
        """Types and shapes that the micro-op takes, and what comes of them."""
        if entry.arity == 0:
            return
        names = [name for name in entry.operands if name in op.operands]
        dtypes, forms = self.forms(op, entry)
        out = op.out.dtype if op.out is not None else numerics.accumulator_dtype(*_factors(head))
        wrong = [*type_problems(op.kind, forms, dtypes, out)]
        yield from wrong
        if op.scope is not Scope.KERNEL:
            yield from tile_shape_problems(op, head)
            return
        shapes = [op.operands[name].shape if name in names else () for name in entry.operands]
        made = result_shape(op, entry, shapes)
        assert op.out is not None
        if made is None:
            yield f"`{op.kind}` does not take blocks of {', '.join(str(list(shape)) for shape in shapes)}"
        elif not fills(made, op.out.shape):
            yield f"`{op.kind}` makes {list(made)}, and its result is {list(op.out.shape)}"

    def forms(self, op: OpSpec, entry: MicroOp) -> tuple[list[DType | None], tuple[str, ...]]:
        """The types of operands, and a key for them; immediates have none."""
        dtypes: list[DType | None] = []
        forms = []
        for name in entry.operands:
            value = op.operands[name].dtype if name in op.operands else op.extra[name]
            if isinstance(value, Reg):
                value = self._dtypes[value.index]
            dtypes.append(value if isinstance(value, DType) else None)
            forms.append(value.name if isinstance(value, DType) else type(value).__name__)
        return dtypes, tuple(forms)


def _factors(head: OpSpec | None) -> tuple[DType, DType]:
    assert head is not None, "check_composite lets an op of a tile stand behind a gemm only"
    return head.operands["a"].dtype, head.operands["b"].dtype


def _rings(rings: object) -> Problems:
    """(operand, address, slots, bytes of a slot) each."""
    if not isinstance(rings, tuple):
        yield "the rings of a gemm are no tuple"
        return
    for ring in rings:
        if not (isinstance(ring, tuple) and len(ring) == 4 and ring[0] in ("a", "b", "out")):
            yield "a gemm has a ring that is none"
        elif not all(type(number) is int and number >= 0 for number in ring[1:]) or not 1 <= ring[2] <= MAX_SLOTS:
            yield f"a ring of `{ring[0]}` has the numbers {list(ring[1:])}"
