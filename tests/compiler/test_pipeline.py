"""The loop over passes: dumps by name, targets that come late, and what a compilation leaves."""

import pytest

from kernbench.binary import decode
from kernbench.commands import UNALLOCATED
from kernbench.compiler.pipeline import PASSES, compile_kernel, finish, front_check
from kernbench.diagnostics import KernBenchError
from tests.compiler.kernels import TARGET, compiled, source

ADD = """
def add(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = at < n
    tl.store(z + at, tl.load(x + at, mask=m) + tl.load(y + at, mask=m), mask=m)
"""
TYPES = {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n": "i32"}


def dumps(names: frozenset[str], opt: int = 1) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    compile_kernel(
        source(ADD), None, {"BLOCK": 64}, TYPES, TARGET, opt, names, lambda i, name, text: found.append((i, name))
    )
    return found


def test_each_pass_is_dumped_once_in_order_under_its_number() -> None:
    names = [p.name for p in PASSES]

    assert list(enumerate(names)) == dumps(frozenset(names))
    assert ["parse", "elaborate", "lower", "fuse", "schedule", "allocate", "encode"] == names


def test_only_what_is_asked_for_is_dumped() -> None:
    assert [(2, "lower"), (5, "allocate")] == dumps(frozenset({"allocate", "lower"}))


def test_an_unknown_pass_is_refused_before_work_starts() -> None:
    with pytest.raises(KernBenchError) as raised:
        compile_kernel(source("this is no kernel ("), dump_after=frozenset({"alocate"}))

    assert ("E_UNKNOWN_PASS", 2) == (raised.value.diagnostics[0].code, raised.value.exit_code)
    assert "allocate" in str(raised.value.diagnostics[0].help)


def test_the_binary_decodes_to_the_program() -> None:
    kernel = compiled(ADD, TYPES, BLOCK=64)

    assert kernel.binary is not None
    assert kernel.program == decode(kernel.binary)


def test_without_a_target_addresses_come_later_and_are_the_same() -> None:
    early, late = compiled(ADD, TYPES, BLOCK=64), compiled(ADD, TYPES, target=None, BLOCK=64)

    assert late.binary is None
    assert {UNALLOCATED} == {buffer.address for buffer in late.program.buffers}
    finished = late.finish(TARGET)
    assert (early.program, early.binary) == (finished.program, finished.binary)
    assert (early.program, early.binary) == finish(late.program, TARGET)


def test_names_change_no_byte_of_the_code() -> None:
    renamed = ADD.replace("at", "offsets").replace("(x,", "(first,").replace("x +", "first +")
    types = {"first": "*fp32", **{name: kind for name, kind in TYPES.items() if name != "x"}}
    one, other = compiled(ADD, TYPES, BLOCK=64).binary, compiled(renamed, types, BLOCK=64).binary

    assert one is not None
    assert other is not None
    assert one.code == other.code


@pytest.mark.parametrize(
    "trips",
    [
        "range(0, N)",
        "range(N - 1, -1, -1)",
        "range(1, N + 1)",
        "range(0, N * 16, 16)",
        "tl.range(0, N, num_stages=3)",
    ],
)
def test_the_size_of_a_loop_does_not_depend_on_its_trips(trips: str) -> None:
    text = f"""
def many(x, out, N: tl.constexpr):
    acc = tl.zeros((16,), tl.float32)
    for i in {trips}:
        acc += tl.load(x + i * 16 + tl.arange(0, 16))
    tl.store(out + tl.arange(0, 16), acc)
"""
    binaries = [compiled(text, {"x": "*fp32", "out": "*fp32"}, N=n).binary for n in (10, 1000, 10**6)]

    assert 1 == len({binary.nbytes_code for binary in binaries if binary is not None})
    assert None not in binaries


def test_all_errors_of_a_file_are_told_at_once() -> None:
    text = "def broken(x, n):\n    a = tl.lod(x)\n    b = unknown + 1\n    tl.store(x, n)\n"
    with pytest.raises(KernBenchError) as raised:
        compiled(text, {"x": "*fp32", "n": "i32"})

    assert [8, 9] == sorted({d.primary.span.line for d in raised.value.diagnostics if d.primary is not None})
    assert 3 == raised.value.exit_code


def test_a_check_needs_no_specialisation() -> None:
    assert [] == front_check(source(ADD))
    assert ["E_SYNTAX"] == [d.code for d in front_check(source("def f(x:\n    pass\n"))][:1]


def test_a_check_tells_unknown_names_of_all_functions() -> None:
    found = front_check(source("def f(x):\n    y = x + unknown\n\n\n@triton.jit\ndef g(x):\n    tl.lod(x)\n"))

    assert [8, 13] == [d.primary.span.line for d in found if d.primary is not None]
