"""Errors of shapes: of blocks, of what is done to them together, and of the room that they take."""

from __future__ import annotations

from kernbench.explain.model import Explanation, Kernel

_X = "x_ptr=*fp32"
_DOT = """
    @triton.jit
    def k(a_ptr, b_ptr, c_ptr):
        i = tl.arange(0, 32)
        j = tl.arange(0, 64)
        a = tl.load(a_ptr + i[:, None] * 64 + j[None, :])
        b = tl.load(b_ptr + j[:, None] * 32 + i[None, :])
        tl.store(c_ptr + i[:, None] * 32 + i[None, :], tl.dot(a, b))
"""
_ABC = "a_ptr=*fp16,b_ptr=*fp16,c_ptr=*fp32"

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        code="E_SHAPE_MISMATCH",
        story="""
            Two blocks meet axis by axis, from the last one on: the sides are equal, or one of them is 1 and repeats.
            A block of fewer axes gets new ones in front; `x[:, None]` adds one behind. A store needs one pointer a
            lane, so a value never has more lanes than there are pointers.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                row = tl.load(x_ptr + tl.arange(0, 64))
                column = tl.load(x_ptr + tl.arange(0, 32))
                tl.store(x_ptr, tl.sum(row + column))
            """,
            _X,
        ),
        says="shapes [64] and [32] do not broadcast",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                row = tl.load(x_ptr + tl.arange(0, 64))
                column = tl.load(x_ptr + tl.arange(0, 32))
                tl.store(x_ptr, tl.sum(row[None, :] + column[:, None]))
            """,
            _X,
        ),
    ),
    Explanation(
        code="E_BAD_AXIS",
        story="""
            The axes of a block of n axes are 0 to n - 1; negative ones count from the end. The axes of a grid are 0,
            1 and 2.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                x = tl.load(x_ptr + tl.arange(0, 64))
                tl.store(x_ptr, tl.sum(x, axis=1))
            """,
            _X,
        ),
        says="axis 1 is outside a block of 1 axes",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                x = tl.load(x_ptr + tl.arange(0, 64))
                tl.store(x_ptr, tl.sum(x, axis=0))
            """,
            _X,
        ),
    ),
    Explanation(
        code="E_BAD_SHAPE",
        story="""
            A side of a block is at least 1, and a block has at most 8 axes. Sides need not be powers of two, as
            Triton wants them: such a kernel runs here, and not there.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                tl.store(x_ptr + tl.arange(64, 64), 1.0)
            """,
            _X,
        ),
        says="tl.arange(64, 64) has 0 elements: `end` must be greater than `start`",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                tl.store(x_ptr + tl.arange(64, 128), 1.0)
            """,
            _X,
        ),
    ),
    Explanation(
        code="E_BLOCK_TOO_LARGE",
        story="""
            A block has at most 1,048,576 elements, as in Triton. Larger data is worked on in a loop of smaller
            blocks, which is also the only way that it fits in TCM.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                i = tl.arange(0, 2097152)
                tl.store(x_ptr + i, 1.0)
            """,
            _X,
        ),
        says="a block of shape [2097152] has 2097152 elements, at most 1048576",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                for start in range(0, 2097152, 4096):
                    tl.store(x_ptr + start + tl.arange(0, 4096), 1.0)
            """,
            _X,
        ),
    ),
    Explanation(
        code="E_BAD_SUBSCRIPT",
        story="""
            A block's subscript renumbers its axes: it holds `:` and `None` only. Elements of a block have no
            addresses, so one cannot be picked out; load that part by its pointers, or reduce under a mask. Tuples
            and dicts are subscripted as in Python.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                x = tl.load(x_ptr + tl.arange(0, 64))
                tl.store(x_ptr, x[3])
            """,
            _X,
        ),
        says="a block's subscript holds only `:` and `None`, one `:` at most for each of the 1 axes",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                i = tl.arange(0, 64)
                x = tl.load(x_ptr + i)
                tl.store(x_ptr, tl.sum(tl.where(i == 3, x, 0.0), axis=0))
            """,
            _X,
        ),
    ),
    Explanation(
        code="E_DOT_SHAPE",
        story="`tl.dot(a, b)` takes a block of (m, k) and one of (k, n), and an accumulator of (m, n).",
        wrong=Kernel(_DOT.replace("tl.dot(a, b)", "tl.dot(a, a)"), _ABC),
        says="tl.dot of [32, 64] and [32, 64]",
        right=Kernel(_DOT, _ABC),
    ),
    Explanation(
        code="E_DOT_TYPE",
        story="""
            `tl.dot` multiplies two float types, or two 8-bit integer types; the accumulator is fp32 or int32. It
            does not cast one operand to the other: a kernel says with `.to` what it wants to lose.
        """,
        wrong=Kernel(_DOT, "a_ptr=*fp16,b_ptr=*fp32,c_ptr=*fp32"),
        says="tl.dot multiplies operands of one type, float16 and float32 are given",
        right=Kernel(
            _DOT.replace("tl.dot(a, b)", "tl.dot(a, b.to(tl.float16))"), "a_ptr=*fp16,b_ptr=*fp32,c_ptr=*fp32"
        ),
    ),
    Explanation(
        code="E_GEMM_DTYPE",
        story="""
            The topology's `pe_gemm.macs_per_cycle` names the types that the matrix engine multiplies, and the type
            of this product is not among them. The rate of a type that is not there cannot be guessed.
        """,
        wrong=Kernel(_DOT, "a_ptr=*fp64,b_ptr=*fp64,c_ptr=*fp64"),
        says="the target's matrix engine does not multiply fp64",
        right=Kernel(_DOT, _ABC),
    ),
    Explanation(
        code="E_TCM_OVERFLOW",
        story="""
            The blocks that are alive at once, with the rings that let loads run ahead and tiles overlap, have to fit
            in a PE's TCM (`tcm.capacity_bytes`). The notes of the diagnostic are the map at the fullest
            place: which block takes how much, and since which line. Use smaller blocks, or fewer `num_stages`; the
            help names constexprs with which the kernel compiles.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i)
                tl.store(x_ptr + i, x - tl.max(x, axis=0))
            """,
            _X,
            "BLOCK=1048576",
        ),
        says="kernel `k` does not fit in TCM: 8388672 of 1572864 bytes are in use at once",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                x = tl.load(x_ptr + i)
                tl.store(x_ptr + i, x - tl.max(x, axis=0))
            """,
            _X,
            "BLOCK=8192",
        ),
    ),
    Explanation(
        code="E_BINARY_TOO_LARGE",
        story="""
            A program is written into device memory and fetched by every PE, so its size is bounded. Loops do not
            make a program longer; unrolled ones do.
        """,
        no_example="the limit on unrolled statements is met before a kernel is that long",
    ),
)
