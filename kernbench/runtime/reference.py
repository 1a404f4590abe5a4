"""Hold a result against what must come out: an expression over the inputs, or an array from a file.

Knows arrays and tolerances. Does not know bench files or how a result was made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernbench import dtypes
from kernbench.diagnostics import EXIT_INPUT, KernBenchError, Label, did_you_mean
from kernbench.dtypes import DType
from kernbench.runtime.errors import error
from kernbench.runtime.expressions import (
    Expression,
    ExpressionError,
    evaluate,
    names_in,
    parse_expression,
)
from kernbench.runtime.functions import wide
from kernbench.runtime.tensor import Array


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What a result must be; one of `expression` and `array` is there."""

    path: str
    label: Label
    expression: Expression | None = None
    array: Array | None = None

    @classmethod
    def of_text(cls, path: str, label: Label, text: str, known: Collection[str]) -> Reference:
        """Of an expression over the names that are known; others are refused at once."""
        expression = parse_expression(text)
        for name in names_in(expression):
            if name not in known:
                help_text = did_you_mean(name, sorted(known), "names")
                raise ExpressionError("E_EXPRESSION_NAME", f"`{name}` stands for nothing", help_text)
        return cls(path, label, expression=expression)

    def value(self, names: Mapping[str, Any], shape: tuple[int, ...], dtype: DType) -> Array:
        """The reference, rounded once to the result's type, as the device must round too."""
        if self.array is not None:
            made = self.array
        else:
            assert self.expression is not None
            try:
                inputs = {name: wide(names[name]) for name in names_in(self.expression)}
                made = np.asarray(evaluate(self.expression, inputs))
            except ExpressionError as wrong:
                raise self._error(wrong.code, wrong.message, wrong.help) from None
        if made.dtype.kind not in "biuf":
            raise self._error("E_EXPRESSION_VALUE", "the reference is no array of numbers", None)
        try:
            full = np.broadcast_to(made, shape)
        except ValueError:
            text = f"the reference has shape {made.shape}, the tensor {shape}"
            raise self._error("E_EXPRESSION_VALUE", text, None) from None
        rounded: Array = dtypes.cast(full, dtype)
        return rounded

    def _error(self, code: str, message: str, help: str | None) -> KernBenchError:
        return KernBenchError([error(code, message, self.label, path=self.path, help=help)], EXIT_INPUT)

    def check(self, result: Array, names: Mapping[str, Any], dtype: DType, rtol: float, atol: float) -> dict[str, Any]:
        return compare(result, self.value(names, result.shape, dtype), rtol, atol)


def compare(result: Array, reference: Array, rtol: float, atol: float) -> dict[str, Any]:
    """`ok`, and the largest errors (None where they are not finite). NaN equals NaN, infinity itself.

    Where it is not `ok`, also how many elements are off, of how many, and which one is off most.
    """
    got, want = np.asarray(wide(result), np.float64), np.asarray(wide(reference), np.float64)
    if got.size == 0:
        return {"ok": True, "max_abs_err": 0.0, "max_rel_err": 0.0}
    with np.errstate(all="ignore"):
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        off = np.where(same, 0.0, np.abs(got - want))
        relative = np.where(same, 0.0, off / np.abs(want))
        excess = np.where(same, -np.inf, off - (atol + rtol * np.abs(want)))
    wrong = ~(excess <= 0)  # NaN is wrong, too
    found = {
        "ok": not wrong.any(),
        "max_abs_err": _finite(np.max(off)),
        "max_rel_err": _finite(np.max(relative)),
    }
    return found if found["ok"] else {**found, **_where(wrong, excess, got, want)}


def _where(wrong: Array, excess: Array, got: Array, want: Array) -> dict[str, Any]:
    worst = np.unravel_index(np.argmax(np.where(np.isnan(excess), np.inf, excess)), wrong.shape)
    return {
        "differing": int(np.count_nonzero(wrong)),
        "elements": wrong.size,
        "worst": {"index": [int(i) for i in worst], "value": _number(got[worst]), "expected": _number(want[worst])},
    }


def _number(value: Any) -> float | str:
    """As JSON can say it: `nan` and `inf` are texts."""
    return float(value) if np.isfinite(value) else str(float(value))


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
