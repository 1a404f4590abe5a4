"""A kernel and a case of its bench file, put together from what a command line says.

Does not run or print anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernbench.cli.locate import KernelFile
from kernbench.diagnostics import KernBenchError
from kernbench.kernel import Kernel, make_kernel
from kernbench.runtime.arguments import ConstexprArgument, TensorDescriptor, classify
from kernbench.runtime.bench import DEFAULT_TOPOLOGY, BenchCase, kernel_word, load_bench
from kernbench.runtime.bench_names import name_remarks
from kernbench.session import Device
from kernbench.session import open as open_device


@dataclass(frozen=True)
class Asked:
    """What the command line says about a case."""

    kernel: KernelFile
    bench: str | None = None
    case: str | None = None
    sets: Mapping[str, str] | None = None
    topology: str | None = None
    opt_level: int | None = None
    seed: int = 0


def bench_path(asked: Asked) -> Path | None:
    """The bench file to use, where there is one."""
    if asked.bench is None:
        return asked.kernel.bench
    path = Path(asked.bench)
    if not path.is_file():
        raise KernBenchError.usage("E_INPUT_FILE", f"there is no bench file `{asked.bench}`")
    return path


def load_case(asked: Asked) -> BenchCase:
    """The case that a run needs; exit 2 where there is no bench file at all."""
    path = bench_path(asked)
    if path is None:
        raise KernBenchError.usage(
            "E_BENCH_NEEDED",
            f"`{asked.kernel.path}` has no bench file beside it that says what to run",
            help=f"write `{asked.kernel.path.with_suffix('.yaml').name}`, or name one with --bench",
        )
    word = kernel_word(path)
    parameters = make_kernel(_argument(asked, word)).parameters
    case = load_bench(path, asked.case, asked.sets, asked.seed, parameters=parameters)
    if asked.kernel.name not in (None, word.partition("::")[2] or asked.kernel.name):
        return case  # another kernel of the file than the one that the bench was written for
    return replace(case, remarks=tuple(name_remarks(case, parameters)))


def case_of(asked: Asked) -> BenchCase | None:
    """The case that the command line asks for, where there is a bench file."""
    return None if bench_path(asked) is None else load_case(asked)


def _argument(asked: Asked, word: str) -> str:
    """The file that the command line names; of several kernels that one, else that of the bench's `kernel:`."""
    name = asked.kernel.name or word.partition("::")[2]
    return f"{asked.kernel.path}::{name}" if name else str(asked.kernel.path)


def kernel_of(asked: Asked, case: BenchCase, **dumps: Any) -> Kernel:
    """The kernel with the case's constexprs; what the command line names wins over the bench's `kernel:`."""
    level = case.opt_level if asked.opt_level is None else asked.opt_level
    argument = _argument(asked, case.kernel)
    known = make_kernel(argument).params
    constexprs = {each: value for each, value in case.constexprs.items() if each in known}
    return make_kernel(argument, constexprs, opt_level=level, **dumps)


def device_of(asked: Asked, case: BenchCase | None, **options: Any) -> Device:
    """`-t` wins over the bench's `topology:`, which wins over the default."""
    named = case.topology if case is not None else None
    return open_device(asked.topology or named or DEFAULT_TOPOLOGY, **options)


def signature_of(kernel: Kernel, case: BenchCase) -> dict[str, str]:
    """The types of the case's run-time arguments, without making any array."""
    found: dict[str, str] = {}
    for name, spec in case.tensors.items():
        found[name] = (
            f"*{spec.dtype}" if spec.descriptor is None else f"tensordesc<{spec.dtype}{list(spec.descriptor)}>"
        )
    for name, value in case.scalars.items():
        argument = classify(name, value)
        if not isinstance(argument, ConstexprArgument):
            found[name] = argument.signature
    return {name: kind.replace(" ", "") for name, kind in found.items() if name in kernel.params}


def arguments_of(kernel: Kernel, case: BenchCase) -> dict[str, Any]:
    """The case's arrays and scalars that the kernel takes; bench files may have further names for their own use."""
    given = {**case.scalars, **case.arrays()}
    for name, spec in case.tensors.items():
        if spec.descriptor is not None:
            given[name] = TensorDescriptor(given[name], spec.descriptor)
    return {name: value for name, value in given.items() if name in kernel.params}
