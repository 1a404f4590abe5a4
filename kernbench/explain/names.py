"""Errors of names: those that nothing binds, that have no value yet, or that a kernel cannot use."""

from __future__ import annotations

from kernbench.explain.model import Explanation, Kernel

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        code="E_UNKNOWN_NAME",
        story="""
            Neither the kernel, nor its parameters, nor the file's constants, functions and imports bind this name.
            The nearest known one is offered. It is also what a word of `tl` that does not exist is told with.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                i = tl.arange(0, 64)
                tl.store(x_ptr + i, 1.0, mask=i < m)
            """,
            "x_ptr=*fp32,n=i32",
        ),
        says="the name `m` is not known",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                i = tl.arange(0, 64)
                tl.store(x_ptr + i, 1.0, mask=i < n)
            """,
            "x_ptr=*fp32,n=i32",
        ),
    ),
    Explanation(
        code="E_UNBOUND_NAME",
        story="""
            A name that is assigned to anywhere in a function is local to the whole of it, as in Python. Here it is
            read before any line has given it a value.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                tl.store(x_ptr, total)
                total = 1.0
            """,
            "x_ptr=*fp32",
        ),
        says="`total` is read before it has a value",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                total = 1.0
                tl.store(x_ptr, total)
            """,
            "x_ptr=*fp32",
        ),
    ),
    Explanation(
        code="E_MAYBE_UNBOUND",
        story="""
            The name has a value on some of the paths that lead here and none on others: it is bound in one branch of
            an `if` whose condition is known at run time only, or in a loop that may run no trip. The device has no
            "unbound"; it would read whatever was there. Bind the name before the branch or loop.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                if n > 4:
                    scale = 2.0
                tl.store(x_ptr, scale)
            """,
            "x_ptr=*fp32,n=i32",
        ),
        says="`scale` is bound on some paths only",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                scale = 1.0
                if n > 4:
                    scale = 2.0
                tl.store(x_ptr, scale)
            """,
            "x_ptr=*fp32,n=i32",
        ),
    ),
    Explanation(
        code="E_FOREIGN_NAME",
        story="""
            Imports of other packages may stand in a file, so that it can be shared with plain Triton, but a kernel
            cannot use what comes from them: nothing of them is ever loaded or run. Imports of files beside the
            kernel's, in its package or below a folder above it, are followed. Write what is needed into one of these
            as a helper under `@triton.jit`.
        """,
        wrong=Kernel(
            """
            import triton
            import triton.language as tl
            from mylib.activations import gelu

            @triton.jit
            def k(x_ptr):
                tl.store(x_ptr, gelu(tl.load(x_ptr)))
            """,
            "x_ptr=*fp32",
        ),
        says="`gelu` is imported from `mylib.activations`, which a kernel cannot use",
        right=Kernel(
            """
            import triton
            import triton.language as tl

            @triton.jit
            def gelu(x):
                return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))

            @triton.jit
            def k(x_ptr):
                tl.store(x_ptr, gelu(tl.load(x_ptr)))
            """,
            "x_ptr=*fp32",
        ),
    ),
    Explanation(
        code="E_CLASS_VALUE",
        story="""
            A class of a kernel file is a drawer of constants and kernels: its members are read as `Name.MEMBER`. The
            class itself is no value that could be passed, called or compared.
        """,
        wrong=Kernel(
            """
            class Kind:
                NONE = 0
                RELU = 1

            @triton.jit
            def k(x_ptr):
                kind = Kind
                tl.store(x_ptr, 1.0)
            """,
            "x_ptr=*fp32",
        ),
        says="class `Kind` is no value",
        right=Kernel(
            """
            class Kind:
                NONE = 0
                RELU = 1

            @triton.jit
            def k(x_ptr):
                kind = Kind.RELU
                tl.store(x_ptr, kind)
            """,
            "x_ptr=*fp32",
        ),
    ),
    Explanation(
        code="E_UNPACK",
        story="A tuple that is taken apart has exactly one value for each name on the left.",
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                a, b = (1.0, 2.0, 3.0)
                tl.store(x_ptr, a + b)
            """,
            "x_ptr=*fp32",
        ),
        says="2 values are expected, 3 values found",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                a, b, c = (1.0, 2.0, 3.0)
                tl.store(x_ptr, a + b + c)
            """,
            "x_ptr=*fp32",
        ),
    ),
    Explanation(
        code="E_SCRATCH_ESCAPES",
        story="""
            What is made inside `with tl.scratch_scope():` gives its TCM back at the end of the `with`, so
            that the next scope can have it. A block that is needed later is made before the scope; inside, a
            composite can write it in place.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                i = tl.arange(0, 64)
                with tl.scratch_scope():
                    x = tl.load(x_ptr + i)
                tl.store(x_ptr + i, x)
            """,
            "x_ptr=*fp32",
        ),
        says="`x` was freed at the end of its scratch scope",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                i = tl.arange(0, 64)
                with tl.scratch_scope():
                    x = tl.load(x_ptr + i)
                    tl.store(x_ptr + i, x)
            """,
            "x_ptr=*fp32",
        ),
    ),
)
