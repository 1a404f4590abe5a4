"""One entry of a bench file's `tensors`, resolved: shape, element type, initial values, place.

Knows the forms that an entry can take. Does not know the other keys of the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernbench import dtypes
from kernbench.diagnostics import KernBenchError, did_you_mean
from kernbench.dtypes import DType
from kernbench.runtime.bench_schema import TensorKeys
from kernbench.runtime.bench_values import Files, Values, whole_expressions
from kernbench.runtime.errors import error
from kernbench.runtime.functions import MAX_ELEMENTS
from kernbench.runtime.init import Init, InitKind, problem_of
from kernbench.runtime.placement import Placement, Shard, on, replicate, shard, shard_axis
from kernbench.runtime.tensor import Array
from kernbench.yaml_source import Node


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor of a case, before its values are made."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    init: Init
    placement: Placement | None
    descriptor: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Resolves one entry of `tensors`."""

    name: str
    keys: TensorKeys
    values: Values
    files: Files

    def spec(self) -> TensorSpec | None:
        dtype = dtypes.BY_NAME.get(self.keys.dtype)
        shape = tuple(self.values.integer(side, "a side of a shape") for side in whole_expressions(self.keys.shape))
        if dtype is None:
            text = f"tensor `{self.name}` has the unknown element type `{self.keys.dtype}`"
            help_text = did_you_mean(self.keys.dtype, tuple(dtypes.BY_NAME), "types")
            self.values.sink.add(error("E_BENCH_VALUE", text, path=f"tensors.{self.name}.dtype", help=help_text))
            return None
        if math.prod(shape) > MAX_ELEMENTS * 4:
            text = f"tensor `{self.name}` has {math.prod(shape)} elements, at most {MAX_ELEMENTS * 4} are made"
            self.values.sink.add(error("E_BENCH_VALUE", text, path=f"tensors.{self.name}.shape"))
            return None
        init = self._init(shape, dtype)
        descriptor = self.keys.descriptor
        block = None if descriptor is None else tuple(self.values.integer(s, "a side", 1) for s in descriptor)
        place = self._place(shape)
        return None if init is None else TensorSpec(self.name, shape, dtype, init, place, block)

    # -- init

    def _init(self, shape: tuple[int, ...], dtype: DType) -> Init | None:
        node = self.keys.init
        if node is None:
            return Init("zeros")
        init = self._init_of_mapping(node, shape) if isinstance(node.value, dict) else self._init_of_word(node)
        problem = None if init is None else problem_of(init, dtype)
        if problem is not None:
            self.values.report(node, "E_BENCH_VALUE", problem)
        return init

    def _init_of_word(self, node: Node) -> Init | None:
        words: tuple[InitKind, ...] = ("zeros", "ones", "normal", "uniform", "arange")
        for word in words:
            if node.value == word:
                return Init(word)
        help_text = did_you_mean(str(node.value), (*words, *_INIT_FORMS), "initial values")
        self.values.report(node, "E_BENCH_VALUE", f"{node.shown} is no initial value", help_text)
        return None

    def _init_of_mapping(self, node: Node, shape: tuple[int, ...]) -> Init | None:
        ((word, inner),) = list(node.items()) if isinstance(node.value, dict) and len(node.value) == 1 else [("", node)]
        if word not in _INIT_FORMS:
            help_text = f"forms are {', '.join(_INIT_FORMS)}, one of them"
            self.values.report(node, "E_BENCH_VALUE", "this is no initial value", help_text)
            return None
        return _INIT_FORMS[word](self, inner, shape)

    def _randint(self, node: Node, shape: tuple[int, ...]) -> Init | None:
        bounds = node.value if isinstance(node.value, tuple) else ()
        if len(bounds) != 2:
            self.values.report(node, "E_BENCH_VALUE", "randint takes [low, high], high excluded")
            return None
        low, high = (self.values.integer(bound, "a bound of randint", -(1 << 63)) for bound in bounds)
        return Init("randint", (low, high))

    def _fill(self, node: Node, shape: tuple[int, ...]) -> Init | None:
        value = self.values.value(node)
        if not isinstance(value, int | float):
            self.values.report(node, "E_BENCH_VALUE", f"fill takes a number, not {value!r}")
            return None
        return Init("fill", value)

    def _value(self, node: Node, shape: tuple[int, ...]) -> Init | None:
        return self._broadcast(node, np.asarray(self.values.value(node)), shape)

    def _npy(self, node: Node, shape: tuple[int, ...]) -> Init | None:
        array = self.files.load(node)
        return None if array is None else self._broadcast(node, array, shape)

    def _broadcast(self, node: Node, array: Array, shape: tuple[int, ...]) -> Init | None:
        if array.dtype.kind not in "biuf":
            self.values.report(node, "E_BENCH_VALUE", "the initial values are no numbers")
            return None
        try:
            np.broadcast_to(array, shape)
        except ValueError:
            text = f"values of shape {array.shape} do not fill a tensor of shape {shape}"
            self.values.report(node, "E_BENCH_VALUE", text)
            return None
        return Init("values", array)

    # -- place

    def _place(self, shape: tuple[int, ...]) -> Placement | None:
        node = self.keys.place
        if node is None:
            return None
        try:
            made = self._placement(node)
            if isinstance(made, Shard):
                shard_axis(made, shape)
        except KernBenchError as wrong:
            for found in wrong.diagnostics:
                self.values.report(node, found.code, found.message, found.help)
            return None
        if made is None:
            help_text = 'write replicate, {shard: dim, over: [sip, cube, pe]} or {"on": [sip, cube, pe]}'
            self.values.report(node, "E_PLACEMENT", f"{node.shown} is no placement", help_text)
        return made

    def _placement(self, node: Node) -> Placement | None:
        plain = node.plain()
        if plain == "replicate":
            return replicate()
        if not isinstance(plain, dict):
            return None
        over = plain.get("over", ["sip", "cube", "pe"])
        if not isinstance(over, list | str):
            return None
        if plain.keys() == {"replicate"} and isinstance(plain["replicate"], list):
            return replicate(plain["replicate"])
        if plain.keys() == {"on"} and isinstance(plain["on"], list) and len(plain["on"]) == 3:
            return on(*plain["on"])
        if plain.keys() <= {"shard", "over"} and "shard" in plain:
            return shard(plain["shard"], over)
        return None


_INIT_FORMS: dict[str, Callable[[TensorEntry, Node, tuple[int, ...]], Init | None]] = {
    "randint": TensorEntry._randint,
    "fill": TensorEntry._fill,
    "value": TensorEntry._value,
    "npy": TensorEntry._npy,
}
