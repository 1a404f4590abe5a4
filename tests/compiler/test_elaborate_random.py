"""Random structured kernels compute what Python computes from the same text."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compiler.elaborating import run

NAMES = ("a", "b", "c", "d")
atoms = st.sampled_from([*NAMES, "n", "1", "2", "7", "N"])
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "&", "|", "^"]), inner).map(lambda t: f"({' '.join(t)})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} > {t[2]} else {t[2]})"),
    ),
    max_leaves=4,
).map(lambda text: f"({text}) & 1023")
conditions = st.one_of(
    st.tuples(atoms, st.sampled_from(["<", ">", "==", "!=", "<="]), atoms).map(" ".join),
    st.tuples(atoms, atoms, st.sampled_from(["and", "or"]), atoms).map(
        lambda t: f"{t[0]} < {t[1]} {t[2]} not {t[3]} > 3"
    ),
)


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@st.composite
def statements(draw: Any, depth: int, in_helper: bool) -> list[str]:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(
            st.sampled_from(
                ["assign", "swap", "aug", "call", "store", *["if", "for", "while", "unroll", "leave"] * (depth > 0)]
            )
        )
        name, other = draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES))
        inner = draw(statements(depth - 1, in_helper)) if kind in ("if", "for", "while", "unroll") else []
        match kind:
            case "assign":
                lines.append(f"{name} = {draw(expressions)}")
            case "swap":
                lines.append(f"{name}, {other} = {other}, {name}")
            case "aug":
                lines += [f"{name} += {draw(atoms)}", f"{name} &= 1023"]
            case "call" if not in_helper:
                lines.append(f"{name} = helper({draw(atoms)}, {draw(atoms)})")
            case "store" if not in_helper:
                lines.append(f"tl.store(o + {draw(st.integers(0, 7))}, {name})")
            case "if":
                lines += [f"if {draw(conditions)}:", *indented(inner)]
                if draw(st.booleans()):
                    lines += ["else:", *indented(draw(statements(depth - 1, in_helper)))]
            case "for":
                start, stop = (
                    draw(st.sampled_from(["0", "n", "1"])),
                    draw(st.sampled_from(["3", f"({other} & 3)", "n"])),
                )
                lines += [f"for i{depth} in range({start}, {stop}, {draw(st.sampled_from(['1', '2', '-1']))}):"]
                lines += indented([f"{name} = ({name} + i{depth}) & 1023", *inner])
            case "while":
                lines += [f"w{depth} = {name} & 3", f"while w{depth} > 0:", *indented([f"w{depth} -= 1", *inner])]
            case "unroll":
                lines += [f"for u{depth} in tl.static_range(2):", *indented([*inner, f"{name} ^= u{depth}"])]
            case "leave":
                value = f" {draw(atoms)} & 1023" if in_helper else ""
                lines += [f"if {draw(conditions)}:", f"    return{value}"]
    return lines or ["pass"]


@st.composite
def kernels(draw: Any) -> str:
    helper = ["c = a ^ 5", "d = 1", *draw(statements(2, True)), "return (a + b * 2 + c - d) & 1023"]
    kernel = ["a = n + 1", "b = 0", "c = n * 3", "d = helper(n, 3)", *draw(statements(3, False))]
    kernel += [f"tl.store(o + {i}, {name})" for i, name in enumerate(NAMES)]
    body = "\n".join(
        ["def helper(a, b, n=2, N=5):", *indented(helper), "", "def k(o, n, N: tl.constexpr):", *indented(kernel)]
    )
    return textwrap.dedent(body)


class Pointer:
    def __init__(self, cells: list[int], at: int = 0) -> None:
        self.cells, self.at = cells, at

    def __add__(self, offset: int) -> Pointer:
        return Pointer(self.cells, self.at + offset)


class Language:
    constexpr = int
    static_range = range

    @staticmethod
    def store(pointer: Pointer, value: int) -> None:
        pointer.cells[pointer.at] = int(value)


def in_python(text: str, n: int) -> list[int]:
    names: dict[str, Any] = {"tl": Language}
    exec(text, names)
    cells = [-1] * 8
    names["k"](Pointer(cells), n, 4)
    return cells


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(text=kernels(), n=st.integers(0, 5))
def test_random_kernels_compute_what_python_computes(text: str, n: int) -> None:
    expected = in_python(text, n)

    assert expected == list(run(text, {"o": np.full(8, -1, np.int32), "n": n}, {"N": 4})["o"])
