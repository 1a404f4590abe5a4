"""TCM: nothing that is in use overlaps, loops rotate while there is room, and too much is told with the live map."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.commands import Buffer, CompositeTemplate, Loop, Target, walk
from kernbench.compiler.allocate import Plan, place
from kernbench.compiler.liveness import Lifetimes, Range
from kernbench.diagnostics import KernBenchError
from tests.compiler.kernels import TARGET, compiled, run

# --------------------------------------------------------------------------- placing


@st.composite
def lifetimes(draw: st.DrawFn) -> tuple[tuple[Buffer, ...], Lifetimes]:
    end = draw(st.integers(2, 30))
    first = draw(st.integers(0, end - 1))
    loop = Range(first, draw(st.integers(first, end - 1)), frozenset(), None)
    found = Lifetimes(loops=[loop], end=end)
    buffers = []
    for number in range(1, draw(st.integers(1, 12)) + 1):
        inside = draw(st.booleans())
        low, high = (loop.first, loop.last) if inside else (0, end - 1)
        start = draw(st.integers(low, high))
        found.first[number], found.last[number] = start, draw(st.integers(start, high))
        found.home[number] = 0 if inside else None
        if draw(st.booleans()):
            found.loaded.add(number)
        persistent = draw(st.integers(0, 9)) == 0
        buffers.append(Buffer(number, f"b{number}", draw(st.integers(1, 300)), persistent=persistent))
    return tuple(buffers), found


@settings(max_examples=200, deadline=None)
@given(
    lifetimes(),
    st.sampled_from([Plan(3, False, "all"), Plan(2, True, "all"), Plan(2, True, "loaded"), Plan(1, True, "none")]),
    st.integers(64, 8192),
)
def test_buffers_that_are_in_use_at_once_never_overlap(
    case: tuple[tuple[Buffer, ...], Lifetimes], plan: Plan, limit: int
) -> None:
    buffers, found = case
    layout = place(buffers, found, plan, limit)
    if layout is None:
        return
    items = list(layout.items.values())
    assert len(buffers) == len(items)
    for item in items:
        assert item.address >= 0
        assert item.address % 64 == 0
        assert item.address + item.nbytes <= layout.high_water <= limit
        assert item.first <= found.first[item.buffer.id] <= found.last[item.buffer.id] <= item.last
        for other in items:
            if other is not item and item.first <= other.last and other.first <= item.last:
                assert item.address + item.nbytes <= other.address or other.address + other.nbytes <= item.address


# --------------------------------------------------------------------------- whole kernels, as tight as they go

NAMES = ("a", "b", "c")


@st.composite
def bodies(draw: st.DrawFn, depth: int = 0) -> list[str]:
    """Statements on three blocks, with loops and branches around some of them."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(
            st.sampled_from(["op", "op", "load", "move", "loop", "if"] if depth < 2 else ["op", "load", "move"])
        )
        x, y, z = (draw(st.sampled_from(NAMES)) for _ in range(3))
        if kind == "op":
            lines.append(f"{x} = {y} * 0.5 + {z}")
        elif kind == "load":
            lines.append(f"{x} = tl.load(x + {draw(st.integers(0, 5))} * 16 + at)")
        elif kind == "move":
            lines.append(f"{x}, {y} = {y}, {x}" if x != y else f"{x} = {z}")
        elif kind == "loop":
            lines.append(f"for i{depth} in range(0, {draw(st.sampled_from(['n', '2', 'n - 1']))}):")
            lines += ["    " + line for line in draw(bodies(depth + 1))]
        else:
            lines.append(f"if n > {draw(st.integers(0, 3))}:")
            lines += ["    " + line for line in draw(bodies(depth + 1))]
    return lines


def kernel_of(lines: list[str]) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"""
def mix(x, out, n):
    at = tl.arange(0, 16)
    a = tl.load(x + at)
    b = tl.load(x + 16 + at)
    c = tl.zeros((16,), tl.float32)
{body}    tl.store(out + at, a)
    tl.store(out + 16 + at, b)
    tl.store(out + 32 + at, c)
"""


def expected(lines: list[str], x: np.ndarray, n: int) -> np.ndarray:
    """The same statements by Python on NumPy."""
    text = "\n".join(
        re.sub(r"tl\.load\(x \+ (\d+) \* 16 \+ at\)", r"x[\1 * 16 : \1 * 16 + 16]", line) for line in lines
    )
    names = {"x": x, "n": n, "a": x[:16], "b": x[16:32], "c": np.zeros(16, np.float32), "range": range}
    text = text.replace("* 0.5", "* half")
    exec(text, {"half": np.float32(0.5), "__builtins__": {}}, names)
    return np.concatenate([names["a"], names["b"], names["c"]])


@settings(max_examples=40, deadline=None)
@given(bodies(), st.integers(0, 3))
def test_values_are_right_in_all_of_tcm_and_in_the_least_that_does(lines: list[str], n: int) -> None:
    text, x = kernel_of(lines), np.arange(96, dtype=np.float32)
    wanted = expected(lines, x, n)
    for opt in (0, 1):
        for target in (TARGET, tightest(text, opt)):
            out = np.zeros(48, np.float32)
            run(text, {"x": x, "out": out, "n": n}, opt=opt, target=target)
            assert wanted.tolist() == out.tolist()


def tightest(text: str, opt: int) -> Target:
    for slots in range(2, 64):
        target = replace(TARGET, tcm_bytes=64 * slots)
        try:
            compiled(text, {"x": "*fp32", "out": "*fp32", "n": "i32"}, opt, target)
        except KernBenchError:
            continue
        return target
    raise AssertionError("no small TCM does")


# --------------------------------------------------------------------------- rotation

LOOP = """
def scale(x, y, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for i in tl.range(0, n, num_stages=STAGES):
        v = tl.load(x + i * BLOCK + at)
        tl.store(y + i * BLOCK + at, v * 2.0)
"""


def depths(tcm_bytes: int, stages: int) -> dict[str, int]:
    target = replace(TARGET, tcm_bytes=tcm_bytes)
    program = compiled(LOOP, {"x": "*fp32", "y": "*fp32", "n": "i32"}, 1, target, BLOCK=16, STAGES=stages).program
    assert program.tcm_bytes <= tcm_bytes
    return {buffer.name: buffer.depth for buffer in program.buffers}


def test_buffers_written_in_a_loop_rotate_as_deep_as_stages_and_room_allow() -> None:
    assert {2} == set(depths(1024, 1).values())
    assert {4} == set(depths(1024, 4).values())
    assert {3} == set(depths(6 * 64, 4).values())
    assert {2, 1} == set(depths(3 * 64, 4).values())
    assert {1} == set(depths(2 * 64, 4).values())


def test_carried_homes_do_not_rotate() -> None:
    text = """
def total(x, out, n):
    at = tl.arange(0, 16)
    acc = tl.zeros((16,), tl.float32)
    for i in range(0, n):
        acc += tl.load(x + i * 16 + at)
    tl.store(out + at, acc)
"""
    program = compiled(text, {"x": "*fp32", "out": "*fp32", "n": "i32"}).program

    assert {"acc": 1} == {b.name: b.depth for b in program.buffers if b.name == "acc"}
    assert 2 in [b.depth for b in program.buffers]
    assert [1] == [len(node.rotations) for node in walk(program.body) if isinstance(node, Loop)]


# --------------------------------------------------------------------------- too much

THREE = """
def three(x, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    first = tl.load(x + tl.arange(0, A))
    second = tl.load(x + tl.arange(0, B))
    third = tl.load(x + tl.arange(0, C))
    tl.store(out + tl.arange(0, A), first)
    tl.store(out + tl.arange(0, B), second)
    tl.store(out + tl.arange(0, C), third)
"""
TYPES = {"x": "*u8", "out": "*u8"}


def test_a_kernel_of_exactly_the_size_fits_and_a_little_more_does_not() -> None:
    sizes = {"A": 65536, "B": 65536, "C": 65536}
    exact = replace(TARGET, tcm_bytes=3 * 65536)

    assert exact.tcm_bytes == compiled(THREE, TYPES, 0, exact, **sizes).program.tcm_bytes
    with pytest.raises(KernBenchError) as raised:
        compiled(THREE, TYPES, 0, replace(exact, tcm_bytes=exact.tcm_bytes - 2), **sizes)
    (found,) = raised.value.diagnostics
    assert (found.code, raised.value.exit_code) == ("E_TCM_OVERFLOW", 3)
    assert "196608 of 196606 bytes" in found.message


def test_an_overflow_names_the_live_blocks_with_sizes_and_lines() -> None:
    with pytest.raises(KernBenchError) as raised:
        compiled(THREE, TYPES, 1, replace(TARGET, tcm_bytes=196608), A=131072, B=65536, C=1024)
    text = str(raised.value)

    assert "197632 of 196608 bytes" in text
    for name, nbytes, line in (("first", 131072, 9), ("second", 65536, 10), ("third", 1024, 11)):
        assert re.search(rf"{nbytes} bytes  `{name}`  k\.tl:{line}", text), text
    assert "at most 130048 bytes" in text


def test_tile_rings_are_made_for_operands_in_hbm_and_are_no_larger_than_they() -> None:
    text = """
def product(a, b, c, BM: tl.constexpr, BK: tl.constexpr):
    x = kb.ref(a, (BM, BK))
    y = kb.ref(b, (BK, BM))
    z = kb.composite(op="gemm", a=x, b=y)
    i = tl.arange(0, BM)
    tl.store(c + i[:, None] * BM + i[None, :], z)
"""
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32"}
    program = compiled(text, types, BM=32, BK=128).program
    (gemm,) = [op for n in walk(program.body) if isinstance(n, CompositeTemplate) for op in n.ops if op.kind == "gemm"]

    assert [("a", 2, 32 * 64 * 2), ("b", 2, 64 * 32 * 2)] == [
        (name, n, size) for name, _, n, size in gemm.extra["rings"]
    ]


SCOPES = """
def scopes(x, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    kept = tl.load(x + at)
    with tl.scratch_scope():
        tl.store(out + at, tl.exp(tl.load(x + at)) + kept)
    with tl.scratch_scope():
        tl.store(out + SIZE + at, tl.exp(tl.load(x + SIZE + at)) + kept)
"""


def test_what_a_scratch_scope_makes_is_free_at_its_end() -> None:
    x, out = np.zeros(128, np.float32), np.zeros(128, np.float32)
    machine = run(SCOPES, {"x": x, "out": out}, opt=0, target=replace(TARGET, tcm_bytes=3 * 256), SIZE=64)

    assert len(machine.program.buffers) * 256 > machine.program.tcm_bytes
    assert [1.0] * 128 == out.tolist()
