"""Errors of values: what stands where a number, a block, a pointer or a constant is needed."""

from __future__ import annotations

from kernbench.explain.model import Explanation, Kernel

_X = "x_ptr=*fp32"
_XN = "x_ptr=*fp32,n=i32"
_LOADED = """
    @triton.jit
    def k(x_ptr):
        i = tl.arange(0, 64)
        x = tl.load(x_ptr + i)
        tl.store(x_ptr + i, x + 1.0)
"""
_PRODUCT = """
    @triton.jit
    def k(x_ptr):
        i = tl.arange(0, 32)
        place = i[:, None] * 32 + i[None, :]
        a = tl.load(x_ptr + place)
        tl.store(x_ptr + place, tl.dot(a, a))
"""

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        code="E_VALUE_EXPECTED",
        story="""
            Arithmetic works on numbers. A pointer, a `tl.ref`, a tuple, a string or `None` stands where one is
            needed; a pointer most often because the `tl.load` around it was forgotten.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                i = tl.arange(0, 64)
                x = tl.exp(x_ptr + i)
                tl.store(x_ptr + i, x + 1.0)
            """,
            _X,
        ),
        says="a number is needed, pointer<float32>[64] is given",
        right=Kernel(_LOADED, _X),
    ),
    Explanation(
        code="E_BLOCK_EXPECTED",
        story="""
            A reduction, a reshape, `tl.dot` and some others work on blocks. A single value is given; for two single
            values `tl.maximum` and `tl.minimum` compare, `+` adds.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                tl.store(x_ptr, tl.max(n, axis=0))
            """,
            _XN,
        ),
        says="tl.max takes a block, int32 is given",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                tl.store(x_ptr, tl.maximum(n, 0))
            """,
            _XN,
        ),
    ),
    Explanation(
        code="E_SCALAR_EXPECTED",
        story="""
            A condition of `if` or `while`, a bound of a loop, or a value that goes to a single pointer is one value:
            PE_CPU branches once for the whole block. Choose lane by lane with `tl.where`, or reduce first.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                i = tl.arange(0, 64)
                x = tl.load(x_ptr + i)
                if x > 0.0:
                    x = x * 2.0
                tl.store(x_ptr + i, x)
            """,
            _X,
        ),
        says="a condition is one value, int1[64] is given",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                i = tl.arange(0, 64)
                x = tl.load(x_ptr + i)
                x = tl.where(x > 0.0, x * 2.0, x)
                tl.store(x_ptr + i, x)
            """,
            _X,
        ),
    ),
    Explanation(
        code="E_POINTER_EXPECTED",
        story="""
            `tl.load`, `tl.store` and `tl.ref` take an address: a pointer parameter, or one with offsets added. The
            offsets alone say nothing of which tensor is meant.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                i = tl.arange(0, 64)
                x = tl.load(i)
                tl.store(x_ptr + i, x)
            """,
            _X,
        ),
        says="tl.load needs a pointer, int32[64] is given",
        right=Kernel(_LOADED, _X),
    ),
    Explanation(
        code="E_CONSTEXPR_NEEDED",
        story="""
            Shapes, axes, and the trips of an unrolled loop are settled when the kernel is compiled, since buffers in
            TCM and the commands themselves depend on them. A parameter becomes known then by
            `tl.constexpr`; a plain assignment makes a run-time value even of a constant, as in Triton.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                tl.store(x_ptr + tl.arange(0, n), 1.0)
            """,
            _XN,
        ),
        says="`end` of tl.arange must be constexpr, but `n` (int32) is known at run time only",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, n: tl.constexpr):
                tl.store(x_ptr + tl.arange(0, n), 1.0)
            """,
            _X,
            "n=64",
        ),
    ),
    Explanation(
        code="E_DTYPE_EXPECTED",
        story="An element type is a word such as `tl.float32`, its name as a string, or the `dtype` of a value.",
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                acc = tl.zeros((64,), 32)
                tl.store(x_ptr + tl.arange(0, 64), acc)
            """,
            _X,
        ),
        says="`dtype` of tl.zeros must be an element type, constexpr 32 is given",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                acc = tl.zeros((64,), tl.float32)
                tl.store(x_ptr + tl.arange(0, 64), acc)
            """,
            _X,
        ),
    ),
    Explanation(
        code="E_OPERAND_TYPE",
        story="""
            The operator or function exists, but not for these types: `//` and `&` take integers, `tl.exp` floats,
            and a pointer takes nothing but the addition of integers. Nothing is cast behind the kernel's back.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                i = tl.arange(0, 64)
                x = tl.load(x_ptr + i)
                tl.store(x_ptr + i, x // 2.0)
            """,
            _X,
        ),
        says="`//` takes integers, float32[64] and constexpr 2.0 are given",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                i = tl.arange(0, 64)
                x = tl.load(x_ptr + i)
                tl.store(x_ptr + i, tl.floor(x / 2.0))
            """,
            _X,
        ),
    ),
    Explanation(
        code="E_LITERAL_RANGE",
        story="""
            A literal takes the type of the integer it meets, as in Triton, and it does not fit there. It would wrap
            around without a word. Cast the other operand to a wider type first.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                i = tl.arange(0, 64)
                x = tl.load(x_ptr + i)
                tl.store(x_ptr + i, x + 1000)
            """,
            "x_ptr=*i8",
        ),
        says="the literal 1000 does not fit int8, which holds -128 to 127",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                i = tl.arange(0, 64)
                x = tl.load(x_ptr + i).to(tl.int32)
                tl.store(x_ptr + i, (x + 1000) // 16)
            """,
            "x_ptr=*i8",
        ),
    ),
    Explanation(
        code="E_CONSTANT_ARITHMETIC",
        story="""
            An operation on constants that has no value (`1 // 0`), or one so large that it can only be a mistake.
            Constants are computed when the kernel is compiled, with Python's rules and within limits.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr, BLOCK: tl.constexpr, PARTS: tl.constexpr):
                tl.store(x_ptr + tl.arange(0, BLOCK // PARTS), 1.0)
            """,
            _X,
            "BLOCK=64,PARTS=0",
        ),
        says="`//` of constexpr 64 and constexpr 0 has no value",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, BLOCK: tl.constexpr, PARTS: tl.constexpr):
                tl.store(x_ptr + tl.arange(0, BLOCK // PARTS), 1.0)
            """,
            _X,
            "BLOCK=64,PARTS=4",
        ),
    ),
    Explanation(
        code="E_UNSUPPORTED_OPERATOR",
        story="""
            Python has the operator and blocks do not: `@` would hide which accumulator a product has and in which
            type it adds up. The help line says what to write.
        """,
        wrong=Kernel(_PRODUCT.replace("tl.dot(a, a)", "a @ a"), _X),
        says="`@` is not an operator on blocks",
        right=Kernel(_PRODUCT, _X),
    ),
    Explanation(
        code="E_UNSUPPORTED_VALUE",
        story="""
            A use of a value that the compiler has no form for. Pointers stay a base and offsets all through the
            compiler, so what would break that up (picking one of two pointers lane by lane, reshaping a block of
            them) is refused; do it to the offsets, which are plain integers.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                p = tl.reshape(x_ptr + tl.arange(0, 64), (8, 8))
                tl.store(p, 1.0)
            """,
            _X,
        ),
        says="a block of pointers cannot be reshaped",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                i = tl.reshape(tl.arange(0, 64), (8, 8))
                tl.store(x_ptr + i, 1.0)
            """,
            _X,
        ),
    ),
    Explanation(
        code="E_UNSUPPORTED_BUILTIN",
        story="""
            A function of Triton, or an option of one, that is not there. It is told by name, so that nobody
            looks for a misspelling, and with what to write instead where there is something.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                i = tl.arange(0, 64)
                x = tl.load(x_ptr + i)
                y = tl.inline_asm_elementwise("rcp.approx.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)
                tl.store(x_ptr + i, y)
            """,
            _X,
        ),
        says="`tl.inline_asm_elementwise` is not in the language",
        right=Kernel(_LOADED.replace("x + 1.0", "1.0 / x"), _X),
    ),
    Explanation(
        code="E_UNKNOWN_ATTRIBUTE",
        story="""
            The value has no attribute or method of this name. Blocks have `dtype`, `shape`, `T`, and many functions
            of `tl` as methods; single numbers have next to none.
        """,
        wrong=Kernel(_LOADED.replace("x + 1.0", "x.float() + 1.0"), _X),
        says="float32[64] has no attribute `float`",
        right=Kernel(_LOADED.replace("x + 1.0", "x.to(tl.float32) + 1.0"), _X),
    ),
    Explanation(
        code="E_CALL_ARGUMENTS",
        story="""
            A function is called with an argument too many, without one that it needs, or with one that it cannot
            take. `other` of `tl.load` without a `mask` is such a case: it would never be used.
        """,
        wrong=Kernel(_LOADED.replace("tl.load(x_ptr + i)", "tl.load(x_ptr + i, other=0.0)"), _X),
        says="`other` of tl.load without a `mask` is never used",
        right=Kernel(_LOADED.replace("tl.load(x_ptr + i)", "tl.load(x_ptr + i, mask=i < 60, other=0.0)"), _X),
    ),
    Explanation(
        code="E_NOT_CALLABLE",
        story="Only functions can be called: helpers under `@triton.jit`, words of `tl`, and methods.",
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK(0))
                tl.store(x_ptr + i, 1.0)
            """,
            _X,
            "BLOCK=64",
        ),
        says="constexpr 64 is no function",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                tl.store(x_ptr + i, 1.0)
            """,
            _X,
            "BLOCK=64",
        ),
    ),
    Explanation(
        code="E_DICT_KEY",
        story="""
            Dicts describe the ops of a composite (`{"op": "add", "other": x}`), so their keys are strings that are
            known when the kernel is compiled.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                table = {0: 1.0}
                tl.store(x_ptr, 1.0)
            """,
            _X,
        ),
        says="a key is constexpr 0, a string is needed",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                table = {"first": 1.0}
                tl.store(x_ptr, table["first"])
            """,
            _X,
        ),
    ),
    Explanation(
        code="E_FORMAT",
        story="""
            An f-string of a kernel is computed when it is compiled; it stands in the messages of assertions. What
            follows the colon has to be a format that the value takes.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr, BLOCK: tl.constexpr):
                tl.static_assert(BLOCK > 0, f"BLOCK is {BLOCK:wide}")
                tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)
            """,
            _X,
            "BLOCK=64",
        ),
        says="`wide` is no format for constexpr 64",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, BLOCK: tl.constexpr):
                tl.static_assert(BLOCK > 0, f"BLOCK is {BLOCK:>5}")
                tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)
            """,
            _X,
            "BLOCK=64",
        ),
    ),
)
