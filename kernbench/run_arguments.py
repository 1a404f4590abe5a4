"""The arguments of one run: what each parameter of a kernel gets, and all that is wrong with them.

Knows the kernel's parameters. Does not know a device, nor where tensors lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernbench.diagnostics import EXIT_INPUT, Diagnostic, KernBenchError, shown
from kernbench.dtypes import BY_NAME, DType
from kernbench.kernel import Kernel, unknown_parameter
from kernbench.runtime.arguments import (
    Argument,
    ConstexprArgument,
    ScalarArgument,
    TensorArgument,
    classify,
)
from kernbench.runtime.errors import error
from kernbench.runtime.placement import Placement


class RunArguments:
    """The arguments of one run, typed; everything that is wrong with them is told together."""

    def __init__(
        self,
        kernel: Kernel,
        values: Mapping[str, Any],
        placements: Mapping[str, Placement],
        casts: Mapping[str, str | DType],
    ) -> None:
        self.kernel, self.placements = kernel, placements
        self.found: dict[str, Argument] = {}
        self.wrong: list[Diagnostic] = []
        self._check_names(values, placements, casts)
        for name, place in placements.items():
            if not isinstance(place, Placement):
                text = f"the placement of `{name}` is {shown(place)}"
                self.wrong.append(error("E_PLACEMENT", text, help="use kb.replicate(), kb.shard(...) or kb.on(...)"))
        for name, value in values.items():
            if kernel.parameters.get(name):
                self.found[name] = ConstexprArgument(value)
            elif name in kernel.parameters:
                self._classify(name, value, casts.get(name))
        for name in placements:
            if name in self.found and not isinstance(self.found[name], TensorArgument):
                text = f"a placement is given for `{name}`, which is no array"
                self.wrong.append(error("E_PLACEMENT", text, help="only arrays lie in memory; leave it out"))
        if self.wrong:
            raise KernBenchError(self.wrong, EXIT_INPUT)

    def _check_names(self, values: Mapping[str, Any], *others: Mapping[str, Any]) -> None:
        known = list(self.kernel.params)
        for name in dict.fromkeys([*values, *(name for other in others for name in other)]):
            if name not in known:
                self.wrong.append(unknown_parameter(name, self.kernel.function, known))
        for name in values:
            if name in self.kernel.constexprs:
                self.wrong.append(error("E_ARG_TWICE", f"`{name}` is a constexpr of the kernel and an argument"))
        for param in self.kernel.function.params:
            bound = param.name in values or param.name in self.kernel.constexprs
            if not bound and not param.is_constexpr and param.default is None:
                text = f"kernel `{self.kernel.name}` has no argument for its parameter `{param.name}`"
                self.wrong.append(error("E_ARG_MISSING", text, self.kernel.source.label(param.span, "this parameter")))

    def _classify(self, name: str, value: Any, cast: str | DType | None) -> None:
        pinned = self.kernel.pinned.get(name)
        try:
            made = classify(name, value, cast, pinned)
        except KernBenchError as wrong:
            self.wrong.extend(wrong.diagnostics)
            return
        if isinstance(made, TensorArgument) and pinned is not None and not _same_type(pinned, made.signature):
            text = f"argument `{name}` is {made.signature}, and the kernel was compiled for {pinned}"
            self.wrong.append(error("E_ARG_DTYPE", text))
        self.found[name] = made

    @property
    def signature(self) -> dict[str, str]:
        return {n: a.signature for n, a in self.found.items() if not isinstance(a, ConstexprArgument)}

    @property
    def constexprs(self) -> dict[str, Any]:
        return {n: a.value for n, a in self.found.items() if isinstance(a, ConstexprArgument)}

    @property
    def tensors(self) -> dict[str, TensorArgument]:
        return {n: a for n, a in self.found.items() if isinstance(a, TensorArgument)}

    @property
    def scalars(self) -> dict[str, ScalarArgument]:
        return {n: a for n, a in self.found.items() if isinstance(a, ScalarArgument)}


def _same_type(pinned: str, signature: str) -> bool:
    named = BY_NAME.get(pinned.removeprefix("*").split(":")[0])
    return pinned.startswith("*") and named is not None and f"*{named}" == signature
