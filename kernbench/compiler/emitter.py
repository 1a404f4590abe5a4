"""Hold what elaboration has emitted so far: regions of instructions, registers, block ids, materialised values.

Does not know operators, builtins or statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from kernbench.commands import Affine, Int, Operand, Reg, ScalarOp, Special, affine, parts, scale
from kernbench.compiler.residual import BlockRef, Instr
from kernbench.compiler.values import Block, Scalar, Shape, Value, int_of, operand_of
from kernbench.diagnostics import Span
from kernbench.dtypes import DType, i32, i64, wrap
from kernbench.numerics import evaluate_scalar

T = TypeVar("T")
_MAX_EXACT = 1 << 96  # of a coefficient; beyond it no address is meant, and doubling would go on without end


def within_bits(value: Int) -> Int:
    """The same number modulo 2^64 where its coefficients have grown without measure; every integer type wraps there."""
    const, terms = parts(value)
    if all(abs(number) <= _MAX_EXACT for number in (const, *terms.values())):
        return value
    return affine(wrap(const, i64), {register: wrap(factor, i64) for register, factor in terms.items()})


@dataclass(frozen=True, slots=True)
class Mark:
    """How many names were given out; see `Emitter.mark`."""

    registers: int
    blocks: int


class Emitter:
    """Where instructions go. One for each kernel.

    `region()` opens a fresh list; values cached inside (`cached`) are forgotten at its end, because what a loop of
    zero trips or a branch not taken computes does not exist after it.
    """

    def __init__(self) -> None:
        self.register_dtypes: list[DType] = []
        self.register_names: list[str] = []
        self._n_blocks = 0
        self._specials: dict[Special, int] = {}
        self._lists: list[list[Instr]] = [[]]
        self._caches: list[dict[object, object]] = [{}]

    # ------------------------------------------------------------------ instructions and regions

    @property
    def instructions(self) -> tuple[Instr, ...]:
        """What the current region holds so far."""
        return tuple(self._lists[-1])

    @property
    def specials(self) -> tuple[tuple[Special, int], ...]:
        return tuple(self._specials.items())

    def emit(self, instr: Instr) -> None:
        self._lists[-1].append(instr)

    @contextmanager
    def region(self) -> Iterator[list[Instr]]:
        """Collect what is emitted inside into the list that is yielded, instead of the region around."""
        collected: list[Instr] = []
        self._lists.append(collected)
        self._caches.append({})
        try:
            yield collected
        finally:
            self._lists.pop()
            self._caches.pop()

    def mark(self) -> Mark:
        """Remember the names given out so far, before a region that may be thrown away and walked again."""
        return Mark(len(self.register_dtypes), self._n_blocks)

    def rollback(self, mark: Mark) -> None:
        """Take back the registers and block ids given out since `mark`; nothing emitted since may be kept.

        Registers of specials stay: they are set before the kernel starts, wherever they were first asked for.
        """
        kept = max(mark.registers, max(self._specials.values(), default=-1) + 1)
        del self.register_dtypes[kept:], self.register_names[kept:]
        self._n_blocks = mark.blocks

    def cached(self, key: object, make: Callable[[], T]) -> T:
        """The value made for `key` in this region or one around it; made here where there is none."""
        for cache in reversed(self._caches):
            if key in cache:
                return cache[key]  # type: ignore[return-value]
        value = make()
        self._caches[-1][key] = value
        return value

    # ------------------------------------------------------------------ names

    def new_register(self, dtype: DType, name: str = "") -> int:
        self.register_dtypes.append(dtype)
        self.register_names.append(name)
        return len(self.register_dtypes) - 1

    def new_block(self, dtype: DType, shape: Shape, name: str = "") -> BlockRef:
        self._n_blocks += 1
        return BlockRef(self._n_blocks, dtype, shape, name)

    def named(self, value: Value, name: str) -> Value:
        """The value under the name that the kernel gives it: a block that was just made takes it for its own."""
        if not isinstance(value, Block) or value.ref.name:
            return value
        instrs = self._lists[-1]
        for place in range(len(instrs) - 1, max(len(instrs) - 4, -1), -1):
            instr = instrs[place]
            if getattr(instr, "result", None) == value.ref:
                ref = replace(value.ref, name=name)
                instrs[place] = replace(instr, result=ref)  # type: ignore[arg-type]
                return Block(ref)
        return value

    def name_of(self, value: Value) -> str:
        """The kernel's name for a value that stands in a register or block of its own; "" where it has none."""
        if isinstance(value, Scalar) and isinstance(value.operand, Reg):
            return self.register_names[value.operand.index]
        return value.ref.name if isinstance(value, Block) else ""

    def special(self, what: Special) -> Scalar:
        """A register that PE_CPU sets before the program runs."""
        if what not in self._specials:
            self._specials[what] = self.new_register(i32, what)
        return Scalar(Reg(self._specials[what]), i32)

    # ------------------------------------------------------------------ scalar instructions

    def scalar_op(
        self, kind: str, args: tuple[Operand, ...], dtype: DType, reads: tuple[DType, ...], at: Span, name: str = ""
    ) -> Operand:
        """The result of a scalar instruction, folded where every argument is a literal."""
        literals = [arg for arg in args if not isinstance(arg, Reg | Affine)]
        if len(literals) == len(args):
            return evaluate_scalar(kind, literals, reads, dtype)
        register = self.new_register(dtype, name)
        self.emit(ScalarOp(register, kind, args, dtype, reads, at))
        return Reg(register)

    def helper_op(
        self, kind: str, args: tuple[Operand, ...], dtype: DType, reads: tuple[DType, ...], at: Span
    ) -> Operand:
        """The same for code that the user did not write: done once in a region."""
        return self.cached(("scalar", kind, args, dtype, reads), lambda: self.scalar_op(kind, args, dtype, reads, at))

    def fits(self, operand: Operand, dtype: DType) -> bool:
        """Whether an integer operand surely holds what it holds when wrapped to `dtype`."""
        if isinstance(operand, Reg):
            have = self.register_dtypes[operand.index]
            return have is dtype or (have.is_int and dtype.is_int and dtype.min <= have.min and have.max <= dtype.max)
        if isinstance(operand, Affine):
            return False
        return not dtype.is_int or wrap(int(operand), dtype) == operand

    def wrapped(self, operand: Operand, dtype: DType, at: Span) -> Operand:
        """A register or literal that holds an integer operand wrapped to `dtype`."""
        if isinstance(operand, Affine):
            operand = operand_of(operand)
        if self.fits(operand, dtype):
            return operand
        return self.helper_op("copy", (operand,), dtype, (dtype,), at)

    def data(self, scalar: Scalar, at: Span) -> Operand:
        """A scalar as a register or literal of exactly its type."""
        return self.wrapped(scalar.operand, scalar.dtype, at) if scalar.dtype.is_int else scalar.operand

    def product(self, a: Int, b: Int, at: Span) -> Int:
        """a × b of two exact integers: in a 64-bit register where neither is a constant."""
        if isinstance(a, int):
            return within_bits(scale(b, a))
        if isinstance(b, int):
            return within_bits(scale(a, b))
        return int_of(self.helper_op("mul", (operand_of(a), operand_of(b)), i64, (i64, i64), at))
