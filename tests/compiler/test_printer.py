"""The text of a program: it parses back, says shapes, spaces and places, and depends on nothing but the program."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from kernbench.commands import Program
from kernbench.compiler.printer import print_ops, print_program
from kernbench.compiler.program_json import program_document
from kernbench.compiler.program_parser import parse_program
from kernbench.compiler.program_words import ProgramTextError
from tests.compiler.kernels import compiled
from tests.language.running import kernel
from tests.test_binary import program as everything

KERNELS = {
    "carried": """
def k(x, table, out, n, flag):
    at = tl.arange(0, 16)
    acc = tl.zeros((16,), tl.float32)
    now = tl.load(x + at)
    for i in tl.range(0, n, num_stages=2):
        rows = tl.load(table + i * 16 + at, mask=at < n - i, other=0)
        then = tl.load(x + rows * 3)
        acc += tl.exp(now - float("-inf")) * 1e-30
        now = then
    if flag > 0:
        acc = acc + tl.load(x + at // 3, mask=at % 2 == 0)
    i = 0
    while i < tl.load(table):
        i += 1
        acc = acc * 0.5
    assert flag >= 0, "a \\"flag\\" is not negative"
    tl.store(out + at * 2 % 7, acc)
    tl.store(out, tl.sum(acc, axis=0))
""",
    "composite": """
def k(x, table, out, n, flag):
    i = tl.arange(0, 32)
    m = tl.zeros((32,), tl.float32)
    l = tl.zeros((32,), tl.float32)
    s = kb.composite(op="gemm", a=kb.ref(x, (32, 16), strides=(n, 1)), b=kb.ref(x, (16, 32)), epilogue=[{"op": "neg"}])
    O = tl.zeros((32, 32), tl.float32)
    v = s.to(tl.float16)
    kb.composite(prologue=[{"op": "softmax_merge", "s": s, "m": m, "l": l, "O": O}], op="gemm", b=v, out=O)
    tl.debug_barrier()
    tl.store(out + i[:, None] * 32 + i[None, :], O / l[:, None])
""",
}
TYPES = {"x": "*fp32", "table": "*i32", "out": "*fp32", "n": "i32", "flag": "i32"}


@cache
def programs() -> list[Program]:
    found = [everything()]
    for text in KERNELS.values():
        for opt in (0, 1):
            late = compiled(text, TYPES, opt, target=None)
            found += [late.program, compiled(text, TYPES, opt).program]
    return found


@pytest.mark.parametrize("index", range(9))
def test_the_text_parses_back_to_the_program(index: int) -> None:
    program = programs()[index]

    assert program == parse_program(print_program(program))


def test_a_broken_text_is_refused_at_its_line() -> None:
    text = print_program(everything()).splitlines()
    broken = "\n".join([*text[:-1], "      %9   dma.read hbm["])

    with pytest.raises(ProgramTextError) as raised:
        parse_program(broken)
    assert len(text) == raised.value.line


@pytest.mark.parametrize("cut", range(1, 30, 3))
def test_a_cut_text_is_a_program_or_refused(cut: int) -> None:
    lines = print_program(everything()).splitlines()
    try:
        parse_program("\n".join(lines[:-cut]))
    except ProgramTextError as wrong:
        assert wrong.line >= 1


def test_ops_are_a_flat_list_with_the_loop_and_the_place_of_each_command() -> None:
    text = print_ops(compiled(KERNELS["composite"], TYPES).program)
    (gemm,) = [line for line in text.splitlines() if "| gemm" in line and "b=x" not in line and "b=~" not in line][:1]

    assert "KERNEL" in gemm
    assert ":32x32:fp32" in gemm
    assert "k.tl:" in text
    assert "loop " not in text


def test_lines_have_no_trailing_blanks_and_the_place_stands_at_the_margin() -> None:
    lines = print_program(compiled(KERNELS["carried"], TYPES).program).splitlines()

    assert lines == [line.rstrip() for line in lines]
    assert any(line.find("; k.tl:") == 111 for line in lines)


def test_the_document_has_the_keys_that_others_rely_on() -> None:
    kernel = compiled(KERNELS["composite"], TYPES)
    document = program_document(kernel.program, kernel.binary, "1.0")

    assert ("kernbench.program/1", "1.0", "k") == tuple(document[key] for key in ("schema", "version", "kernel"))
    assert kernel.binary is not None
    assert kernel.binary.nbytes_code == document["nbytes_code"]
    merge = next(c for c in document["commands"] if c["rw_handles"])
    assert ["m", "l", "O"] == merge["rw_handles"]
    assert {"id", "kind", "src", "loop", "ops", "rw_handles", "logical_bytes"} <= merge.keys()
    assert {"kind", "scope", "operands", "extra", "out"} <= merge["ops"][0].keys()
    assert {"name", "space", "shape", "dtype"} <= merge["ops"][0]["operands"]["src"].keys()
    assert merge["src"].startswith("k.tl:")


def test_output_does_not_depend_on_the_hash_seed() -> None:
    script = (
        "from tests.compiler.test_printer import KERNELS, TYPES\n"
        "from tests.compiler.kernels import compiled\n"
        "from kernbench.compiler.printer import print_program\n"
        "for text in KERNELS.values():\n"
        "    kernel = compiled(text, TYPES)\n"
        "    print(print_program(kernel.program), kernel.binary.code.hex(), kernel.binary.debug.hex())\n"
    )
    root = Path(__file__).parents[2]
    runs = [
        subprocess.run(
            [sys.executable, "-c", script], cwd=root, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1")
    ]

    assert runs[0] == runs[1]


def test_a_mask_of_the_command_is_none_of_the_access() -> None:
    """Both are written as `mask`."""
    text = """
def k(x_ptr, y_ptr, n):
    i = tl.arange(0, 16)
    seen = tl.load(x_ptr + i) > 0
    tl.store(y_ptr + i, 1.0, mask=seen & (i * i % 7 < n) & (i < n))
    tl.store(y_ptr + i, tl.load(x_ptr + i * i, mask=seen & (i % 3 < 2), other=2.0), mask=seen)
"""
    made = kernel(text).specialise({"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}).program

    assert print_program(made) == print_program(parse_program(print_program(made)))
