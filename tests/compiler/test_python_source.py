"""Kernels inside Python files: what is taken, what is left, and that places stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kernbench as kb
from kernbench.compiler import ast
from kernbench.compiler.ast_printer import unparse
from kernbench.compiler.kernel_select import select_kernel
from kernbench.compiler.python_source import parse_file, take_kernels
from kernbench.compiler.source import SourceText
from kernbench.compiler.typed_printer import print_residual
from kernbench.diagnostics import KernBenchError, Sink
from kernbench.kernel import make_kernel

HOST = '''\
"""Host documentation."""
from __future__ import annotations
import os, torch
import triton
import triton.language as tl
from .helpers import other
try:
    from triton.language.extra import libdevice
except ImportError:
    libdevice = None

A = 1; B = A + 1; print("é"); C = B
UNUSED = [i for i in range(3)]
TABLE: tl.constexpr = 5
logger = lambda: None

class Kind(Enum):
    NONE = 0
    def method(self):
        return {**self}
    RELU = 1

def host(x):
    kernel[(1,)](*x)
    return lambda: 3

@triton.jit
def helper(x):
    return x * TABLE + libdevice.pow(x)

@libentry()
@triton.autotune(
    configs=[triton.Config({}) for _ in range(2)],
    key=[],
)
@triton.jit(do_not_specialize=["n"])
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = helper(C) + Kind.RELU + "é"
    tl.store(x_ptr, i)

if torch.cuda.is_available():
    D = 7
    @triton.jit
    def nested(x):
        if x:
            return D
        return kernel_name

def make():
    @triton.jit
    def inner(x):
        return x
    return inner
'''


def read(text: str, function: str | None = None, sink: Sink | None = None) -> ast.Module:
    return parse_file(SourceText.from_text("host.py", text), function, sink)


def constants(module: ast.Module) -> list[str]:
    targets = [c.targets[0] if isinstance(c, ast.Assign) else c.target for c in module.constants]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def test_all_kernels_with_what_they_use() -> None:
    module = read(HOST)

    assert ["helper", "kernel", "nested", "inner"] == [function.name for function in module.functions]
    assert ["libdevice", "A", "B", "C", "TABLE", "D"] == constants(module)
    assert ["tl", "libdevice"] == [item.bound for item in module.imports]
    assert ["Kind"] == [item.name for item in module.classes]
    assert 2 == len(module.classes[0].constants)


def test_one_kernel_with_what_it_uses() -> None:
    module = read(HOST, "nested")

    assert ["nested"] == [function.name for function in module.functions]
    assert ["D"] == constants(module)


def test_places_are_those_of_the_file() -> None:
    kernel = next(function for function in read(HOST).functions if function.name == "kernel")

    line, column = kernel.name_span.line, kernel.name_span.column
    assert HOST.splitlines()[line - 1][column - 1 :].startswith("kernel(")
    assert (37, 5, 39, 23) == (line, column, kernel.span.end_line, kernel.span.end_column)


def test_indented_kernels_keep_their_columns() -> None:
    (nested,) = read(HOST, "nested").functions

    assert (44, 9) == (nested.name_span.line, nested.name_span.column)
    assert isinstance(nested.body[0], ast.If) and 9 == nested.body[0].span.column


def test_skipped_decorators_are_remarked() -> None:
    sink = Sink()
    read(HOST, "kernel", sink)

    assert ["libentry", "triton.autotune"] == [d.message.split("`")[1].lstrip("@") for d in sink.diagnostics]
    assert {"remark"} == {d.severity for d in sink.diagnostics}
    assert [31, 32] == [d.primary.span.line for d in sink.diagnostics if d.primary]


def test_nothing_of_the_host_code_is_left() -> None:
    text = take_kernels(SourceText.from_text("host.py", HOST)).source.text

    assert "host" not in text and "print" not in text and "autotune" not in text and "UNUSED" not in text
    assert len(HOST) == len(text) and HOST.count("\n") == text.count("\n")


def test_the_later_definition_counts_but_conditional_ones_are_all_kept() -> None:
    kernels = "@jit\ndef k():\n    return N + M\n@jit\ndef k(a):\n    return N + M\n"
    module = read("if x:\n    N = 1\nelse:\n    N = 2\nM = 1\nM = 2\n" + kernels)

    assert [1] == [len(function.params) for function in module.functions]
    assert [1, 2, 2] == [c.value.value for c in module.constants if isinstance(c.value, ast.Constant)]


def test_errors_stand_at_their_place_in_the_file() -> None:
    with pytest.raises(KernBenchError) as caught:
        read("import x\ndef host(): pass\nif x:\n    @triton.jit\n    def k(a):\n        b = lambda: a\n")

    primary = caught.value.diagnostics[0].primary
    assert primary is not None and (6, 13) == (primary.span.line, primary.span.column)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = 1\n", "E_NO_KERNEL"),
        ("", "E_NO_KERNEL"),
        ("@other.kernel\ndef f(): pass\n", "E_NO_KERNEL"),
        ("def f(:\n", "E_SYNTAX"),
        ("x = " + "(" * 500 + ")" * 500, "E_SYNTAX"),
        ("x = " + "-" * 100_000 + "1", "E_NESTING_TOO_DEEP"),
    ],
)
def test_files_without_a_kernel(text: str, code: str) -> None:
    with pytest.raises(KernBenchError) as caught:
        read(text)

    assert [code] == [found.code for found in caught.value.diagnostics]


def test_a_kernel_file_is_read_as_it_is() -> None:
    sink = Sink()
    text = "@triton.autotune(configs=[])\n@triton.jit\ndef k(): pass\n"
    module = parse_file(SourceText.from_text("k.tl", text), None, sink)

    assert ["k"] == [function.name for function in module.functions]
    assert ["R_DECORATOR_SKIPPED"] == [found.code for found in sink.diagnostics]


ALTERNATIVES = """\
import torch
import triton
import triton.language as tl
try:
    from torch.nowhere import SCALE
except ImportError:
    SCALE = {second}
x = torch.rand(torch.seed(), other, dtype=torch.half)

def make():
    import triton.language as tl2
    import helpers
    WIDTH = 16
    @triton.jit
    def inner(x_ptr):
        x = tl2.arange(0, WIDTH)
        tl.store(x_ptr + x, x * SCALE)
"""


def test_of_what_a_name_may_be_the_first_that_a_kernel_can_use_counts() -> None:
    kernel = SourceText.from_text("host.py", ALTERNATIVES.format(second="torch.seed()\nelse:\n    SCALE = 3"))

    residual = make_kernel(kernel).specialise({"x_ptr": "*fp32"}).residual

    plain = kernel.text.replace("x * SCALE", "x * 0x003")
    assert (
        residual.body
        == make_kernel(SourceText.from_text("host.py", plain)).specialise({"x_ptr": "*fp32"}).residual.body
    )


def test_where_none_can_be_used_the_first_is_told() -> None:
    kernel = SourceText.from_text("host.py", ALTERNATIVES.format(second="torch.seed()"))

    with pytest.raises(KernBenchError) as caught:
        make_kernel(kernel).specialise({"x_ptr": "*fp32"})

    assert ["E_FOREIGN_NAME"] == [each.code for each in caught.value.diagnostics if each.severity == "error"]
    assert "`SCALE` is imported from `torch.nowhere`" in caught.value.diagnostics[0].message


@pytest.mark.parametrize(
    "text",
    [
        "if not HAS:\n    @triton.jit\n    def f(x):\n        'Nothing.'\n        return None\nelse:\n    f = tl.exp\n",
        "try:\n    f = tl.exp\nexcept A:\n    @triton.jit\n    def f(x):\n        return x * 2\n",
    ],
)
def test_what_a_name_may_be_counts_in_order_but_what_only_fills_a_gap_last(text: str) -> None:
    head = "import triton\nimport triton.language as tl\n"
    kernel = SourceText.from_text("k.py", head + text + "@triton.jit\ndef k(x_ptr):\n    tl.store(x_ptr, f(1.0))\n")

    residual = make_kernel(kernel).specialise({"x_ptr": "*fp32"}).residual

    assert "<- 2.718" in print_residual(residual)


CLASSES = """\
import torch
import triton
import triton.language as tl

class Double:
    \"\"\"What doubles.\"\"\"
    FACTOR: tl.constexpr = 2

    @staticmethod
    @triton.jit
    def forward(x):
        return x * Double.FACTOR

    def launch(self):
        return Double.kernel[(1,)](**{})

    @staticmethod
    @triton.heuristics({"N": lambda given: 4})
    @triton.jit
    def kernel(o_ptr, N: tl.constexpr):
        tl.store(o_ptr + tl.arange(0, N), Double.forward(tl.arange(0, N)))

class Negate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return lambda: x

    @triton.jit
    def kernel(o_ptr, N: tl.constexpr):
        tl.store(o_ptr + tl.arange(0, N), -Double.forward(tl.arange(0, N)))

    @triton.jit
    def broken(o_ptr):
        tl.store(o_ptr, Negate.forward(1))
"""


@pytest.mark.parametrize(
    ("name", "found"),
    [("Double.kernel", "Double.kernel"), ("Negate.kernel", "Negate.kernel"), ("forward", "Double.forward")],
)
def test_kernels_of_a_class(name: str, found: str) -> None:
    source = SourceText.from_text("host.py", CLASSES)
    module = parse_file(source, name)

    assert found in [function.name for function in module.all_functions]
    assert found == select_kernel(module, name).name
    assert 10 == next(item for item in module.classes if item.name == "Double").functions[0].span.line


def test_kernels_of_a_class_run(tmp_path: Path) -> None:
    (tmp_path / "host.py").write_text(CLASSES)
    for name, want in (("kernel", [0, 2, 4, 6]), ("Negate.kernel", [0, -2, -4, -6])):
        kernel = make_kernel(f"{tmp_path / 'host.py'}::{name}", {"N": 4})
        run = kb.open("ahbm_1x1").run(kernel, o_ptr=np.zeros(4, np.int32), grid=(1,))
        assert want == run["o_ptr"].tolist()


@pytest.mark.parametrize(
    ("name", "code"),
    [("Negate.broken", "E_UNKNOWN_NAME"), ("Negate.forward", "E_UNKNOWN_KERNEL"), (None, "E_WHICH_KERNEL")],
)
def test_what_is_no_kernel_of_a_class(tmp_path: Path, name: str | None, code: str) -> None:
    (tmp_path / "host.py").write_text(CLASSES)
    with pytest.raises(KernBenchError) as caught:
        make_kernel(f"{tmp_path / 'host.py'}{f'::{name}' if name else ''}").specialise({"o_ptr": "*i32"})
    assert code == caught.value.diagnostics[0].code


def test_a_class_prints_as_it_is_read() -> None:
    module = parse_file(SourceText.from_text("host.py", CLASSES))

    text = unparse(module)

    assert text == unparse(parse_file(SourceText.from_text("host.tl", text)))
    assert "    @triton.jit\n    def forward(x):\n" in text


COMPUTED = """\
import logging
import triton
import triton.language as tl
from triton.language import core
from triton.language.target_info import cuda_capability_geq

logger = logging.getLogger(__name__)
get_int_dtype = triton.runtime.jit.constexpr_function(core.get_int_dtype)

def unwrap(value):
    return value.value if isinstance(value, tl.constexpr) else value

def of_the_host(*args):
    return lambda: args

@tl.constexpr
def integer(bits: tl.constexpr, signed: tl.constexpr) -> tl.dtype:
    bits = unwrap(bits)
    return tl.core.get_int_dtype(bits, unwrap(signed))

@triton.constexpr_function
def log2(n):
    found = 0
    while n > 1:
        n = n // 2
        found += 1
    return found

@_constexpr_function
def ones(n):
    found = 0
    for bit in range(n):
        found += 1 << bit
    return found

@triton.jit
def kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.reshape(tl.load(x_ptr + i), [2] * log2(N))
    x = tl.reshape(x, (N,)).to(integer(16, True)).to(get_int_dtype(32, True))
    if cuda_capability_geq(8, 6):
        x = x * 0
    tl.store(o_ptr + i, x + ones(4))
"""


def test_functions_that_are_computed_when_the_kernel_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "host.py").write_text(COMPUTED)
    kernel = make_kernel(f"{tmp_path / 'host.py'}::kernel", {"N": 8})
    x = np.array([0, 1, -1, 70000, 5, 6, 7, 8], np.int32)

    run = kb.open("ahbm_1x1").run(kernel, x_ptr=x, o_ptr=np.zeros(8, np.int32), grid=(1,))

    assert (x.astype(np.int16) + 15).tolist() == run["o_ptr"].tolist()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("log2(tl.program_id(0) + 4)", "E_CONSTEXPR_NEEDED"),
        ("log2(1 << 2000)", "E_UNROLL_TOO_LARGE"),
        ("unwrap(3)", "E_UNKNOWN_NAME"),
    ],
)
def test_what_cannot_be_computed_when_the_kernel_is_compiled(tmp_path: Path, change: str, code: str) -> None:
    before = COMPUTED.replace("integer(16, True)", "tl.int16")
    (tmp_path / "host.py").write_text(before.replace("ones(4)", change).replace("found += 1\n", "found += 0\n"))
    with pytest.raises(KernBenchError) as caught:
        make_kernel(f"{tmp_path / 'host.py'}::kernel", {"N": 8}).specialise({"x_ptr": "*i32", "o_ptr": "*i32"})
    assert code in [found.code for found in caught.value.diagnostics]


TARGETS = """\
import math
import torch
import triton
import triton.language as tl

def is_hip():
    return triton.runtime.driver.active.get_current_target().backend == "hip"

def width(bits, *, most=64):
    total = 0
    for bit in range(bits):
        total += 2**bit
    if total > most:
        return most
    return total

def slow(x):
    for i in range(1000):
        for j in range(1000):
            x += i * j
    return x

def not_readable(x):
    return [i for i in range(x)]

def asks_torch():
    return torch.cuda.get_device_name()

IS_HIP = tl.constexpr(is_hip())
WIDTH: tl.constexpr = width(5) if not torch.cuda.is_available() else asks_torch()
LIMITED = width(9, most=100)
BROKEN = not_readable(3)
FOREIGN = asks_torch()
SLOW = slow(3)

@triton.jit
def kernel(o_ptr):
    tl.store(o_ptr, {})
"""


@pytest.mark.parametrize(("value", "want"), [("IS_HIP", 0), ("WIDTH", 31), ("LIMITED", 100)])
def test_constants_that_functions_of_the_host_make(tmp_path: Path, value: str, want: int) -> None:
    (tmp_path / "host.py").write_text(TARGETS.format(value))
    run = kb.open("ahbm_1x1").run(
        make_kernel(f"{tmp_path / 'host.py'}::kernel"), o_ptr=np.zeros(1, np.int32), grid=(1,)
    )

    assert [want] == run["o_ptr"].tolist()


@pytest.mark.parametrize(
    ("value", "code"), [("BROKEN", "E_UNKNOWN_NAME"), ("FOREIGN", "E_FOREIGN_NAME"), ("SLOW", "E_PROGRAM_TOO_LARGE")]
)
def test_constants_that_only_the_host_can_make(tmp_path: Path, value: str, code: str) -> None:
    (tmp_path / "host.py").write_text(TARGETS.format(f"1 if {value} else 2"))
    with pytest.raises(KernBenchError) as caught:
        make_kernel(f"{tmp_path / 'host.py'}::kernel").specialise({"o_ptr": "*i32"})
    assert code == caught.value.diagnostics[0].code
