"""Atomics in every form of a program: what of the static slice they are, text, binary, command words, stages."""

from __future__ import annotations

import pytest

from kernbench import binary
from kernbench.command_words import pack_command
from kernbench.commands import Atomic, Program, TensorHandle, walk
from kernbench.compiler.pipeline import compile_kernel
from kernbench.compiler.printer import print_program
from kernbench.compiler.program_parser import parse_program
from kernbench.compiler.source import SourceText
from kernbench.report.dataflow import dataflow
from kernbench.sim.topology import load_topology

TEXT = """import triton.language as tl

@triton.jit
def k(m_ptr, i_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    index = tl.load(i_ptr + i)
    tl.atomic_add(m_ptr + index, i, mask=index > 0)
    old = tl.atomic_cas(m_ptr + i, i, i + 1)
    tl.store(o_ptr + i, old)
    {more}
"""


def program(more: str = "pass") -> Program:
    from kernbench.session import open as open_device

    text = TEXT.replace("{more}", more)
    signature = {"m_ptr": "*i32", "i_ptr": "*i32", "o_ptr": "*i32"}
    target = open_device("ahbm_1x1").target
    return compile_kernel(SourceText.from_text("k.tl", text), "k", {"N": 8}, signature, target).program


def atomics(found: Program) -> list[Atomic]:
    return [node for node in walk(found.body) if isinstance(node, Atomic)]


def test_only_results_that_are_read_have_a_place() -> None:
    add, cas = atomics(program())

    assert ("add", None, None) == (add.kind, add.dst, add.compare)
    assert add.index is not None and add.mask is not None
    assert "cas" == cas.kind and cas.dst is not None and cas.compare is not None and cas.index is None


def test_the_text_of_a_program_with_atomics_reads_back() -> None:
    found = program()

    assert print_program(found) == print_program(parse_program(print_program(found)))


def test_the_binary_of_a_program_with_atomics_reads_back() -> None:
    found = program("tl.atomic_max(m_ptr + tl.load(o_ptr), 3)")

    assert found == binary.decode(binary.encode(found))


def test_a_command_is_as_long_as_its_words() -> None:
    for node in atomics(program()):
        assert node.logical_bytes == len(pack_command(node, registers=[0] * 64))


def test_values_that_control_reads_make_every_atomic_static() -> None:
    assert [False, False] == [node.static for node in atomics(program())]
    used = atomics(program("while tl.atomic_add(m_ptr, 1) < 3:\n        tl.atomic_xchg(o_ptr, 1)"))
    assert [True] * 4 == [node.static for node in used]


def test_the_dataflow_goes_through_an_atomic() -> None:
    found = program()
    add, cas = atomics(found)
    graph = dataflow(found)

    assert isinstance(add.index, TensorHandle)
    assert list(graph.predecessors(add.id)) and list(graph.successors(cas.id))


@pytest.mark.parametrize("kind", ["dma_write", "dma_read"])
def test_stages_show_both_ways(kind: str) -> None:
    from kernbench.report.stages import stages_of

    spec = load_topology("ahbm_1x1").spec.pe
    add, cas = (stages_of(node, spec) for node in atomics(program()))

    assert [kind == "dma_write"] == [any(note.kind == kind for note in add)]
    assert any(note.kind == kind and note.nbytes == 32 for note in cas)
