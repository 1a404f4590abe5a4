from __future__ import annotations

import pytest

from kernbench.commands import (
    Access,
    Affine,
    DmaRead,
    DmaWrite,
    If,
    Loop,
    Move,
    Node,
    Param,
    Program,
    Reg,
    ScalarLoad,
    ScalarOp,
    ScalarStore,
    Scatter,
    TensorHandle,
)
from kernbench.dtypes import fp32, i32, i64
from kernbench.stores import stored_params

BLOCK = TensorHandle(1, "b", 0, (4,), (1,), fp32, "tcm")
X, Y, N, P, Q = range(5)  # registers: two tensors, a scalar, two pointers that are computed


def program(*body: Node) -> Program:
    params = (Param("x", "tensor", fp32, X), Param("y", "tensor", fp32, Y), Param("n", "scalar", i32, N))
    return Program("k", params, (), (i64, i64, i32, i64, i64), ("x", "y", "n", "", ""), (), body)


def access(register: int) -> Access:
    return Access(Affine(16, ((register, 1),)), fp32, (4,), (1,))


def loop(body: tuple[Node, ...], init: tuple[Move, ...] = (), moves: tuple[Move, ...] = ()) -> Loop:
    return Loop(N, 0, 4, 1, body, init=init, moves=moves)


WRITE_P = DmaWrite(1, BLOCK, access(P))

CASES: list[tuple[str, tuple[Node, ...], set[str]]] = [
    ("loads store nothing", (DmaRead(1, BLOCK, access(X)), ScalarLoad(2, P, Affine(0, ((X, 1),)), i32)), set()),
    ("a write", (DmaWrite(1, BLOCK, access(Y)),), {"y"}),
    ("a scatter", (Scatter(1, BLOCK, access(X)),), {"x"}),
    ("a scalar store", (ScalarStore(1, Affine(0, ((Y, 1), (N, 4))), 1.0, fp32, fp32),), {"y"}),
    ("in a loop", (loop((DmaWrite(1, BLOCK, access(Y)),)),), {"y"}),
    ("a computed pointer", (ScalarOp(P, "add", (Reg(X), 64), i64, (i64, i64)), WRITE_P), {"x"}),
    ("a carried pointer", (loop((WRITE_P,), (Move(P, Reg(X)),), (Move(P, Affine(4, ((P, 1),))),)),), {"x"}),
    (
        "pointers that swap",
        (loop((WRITE_P,), (Move(P, Reg(X)), Move(Q, Reg(Y))), (Move(P, Reg(Q)), Move(Q, Reg(P)))),),
        {"x", "y"},
    ),
    (
        "a pointer chosen by an if",
        (If(Reg(N), (), then_moves=(Move(P, Reg(X)),), else_moves=(Move(P, Reg(Y)),)), WRITE_P),
        {"x", "y"},
    ),
    ("a pointer from nowhere", (WRITE_P,), {"x", "y"}),
]


@pytest.mark.parametrize(("body", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_a_program_may_store_to(body: tuple[Node, ...], expected: set[str]) -> None:
    assert expected == stored_params(program(*body))
