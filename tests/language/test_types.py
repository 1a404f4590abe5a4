"""Types as values: predicates, algebra by names and bits, shapes; and what `.py` files demand of blocks."""

from __future__ import annotations

import numpy as np
import pytest

from kernbench.diagnostics import KernBenchError
from tests.language.running import kernel, refused, run


@pytest.mark.parametrize(
    ("question", "dtype", "want"),
    [
        ("x.dtype.is_fp16()", np.float16, True),
        ("x.dtype.is_floating()", np.int32, False),
        ("x.dtype.is_int_unsigned()", np.uint8, True),
        ("x.dtype.primitive_bitwidth == 16", np.int16, True),
        ("x_ptr.dtype.element_ty == tl.float32", np.float32, True),
        ("x_ptr.dtype.is_ptr()", np.float32, True),
        ('x.dtype == tl.dtype("fp16")', np.float16, True),
        ("x.dtype == tl.get_int_dtype(bitwidth=64, signed=True)", np.int64, True),
        ("x.type.is_block() and x.type.get_block_shapes()[0] == 4", np.float32, True),
        ("x.type.scalar == tl.uint32", np.uint32, True),
        ("len(x.shape) == 1 and x.numel == 4", np.uint32, True),
    ],
)
def test_questions_are_answered_when_the_kernel_is_compiled(question: str, dtype: type, want: bool) -> None:
    text = f"""
    def k(x_ptr, o_ptr):
        x = tl.load(x_ptr + tl.arange(0, 4))
        if {question}:
            tl.store(o_ptr, 1)
        else:
            tl.store(o_ptr, 2)
    """
    out = run(text, {"x_ptr": np.zeros(4, dtype), "o_ptr": np.zeros(1, np.int32)})

    assert [1 if want else 2] == out["o_ptr"].tolist()
    assert not any(record.op_kind == "branch" for record in out.op_log or ())


def test_a_type_as_a_constexpr_and_of_a_pointer_cast() -> None:
    text = """
    def k(x_ptr, o_ptr, T: tl.constexpr):
        bits = x_ptr.to(tl.pointer_type(tl.int32))
        i = tl.arange(0, 4)
        tl.store(o_ptr + i, tl.load(bits + i).to(T) + tl.full((4,), 0.5, T))
    """
    x = np.array([1.0, 2.0, -1.0, 0.0], np.float32)
    import kernbench as kb

    got = run(text, {"x_ptr": x, "o_ptr": np.zeros(4, np.float64)}, T=kb.float64)["o_ptr"]

    assert (x.view(np.int32) + 0.5).tolist() == got.tolist()


@pytest.mark.parametrize("size", [3, 100])
def test_blocks_of_python_files_are_powers_of_two(size: int) -> None:
    text = "def k(o_ptr, N: tl.constexpr):\n    i = tl.arange(0, N)\n    tl.store(o_ptr + i, i)\n"

    with pytest.raises(KernBenchError) as caught:
        kernel(text, python=True, N=size).specialise({"o_ptr": "*i32"})
    assert "E_BAD_SHAPE" == caught.value.diagnostics[-1].code
    assert list(range(size)) == run(text, {"o_ptr": np.zeros(size, np.int32)}, N=size)["o_ptr"].tolist()


@pytest.mark.parametrize(("start", "end"), [(0, 0), (5, 5), (8, 4)])
def test_an_empty_range_is_no_block(start: int, end: int) -> None:
    found = refused(f"def k(o_ptr):\n    i = tl.arange({start}, {end})\n", {"o_ptr": np.zeros(1, np.int32)})

    assert "E_BAD_SHAPE" == found.code and f"tl.arange({start}, {end})" in found.message
