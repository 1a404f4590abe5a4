"""Errors of the text of a kernel file: what it may hold, and the syntax of the language."""

from __future__ import annotations

from kernbench.explain.model import CommandLine, Explanation, Kernel

_SMALL = """
    @triton.jit
    def k(x_ptr):
        tl.store(x_ptr, 1.0)
"""

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        code="E_SOURCE_ENCODING",
        story="""
            A kernel file is UTF-8 text, and holds no control characters beside tab, line feed and form feed. A
            file in another encoding would be read wrongly without a word, so it is refused at the first byte that
            does not fit, with its line and column.
        """,
        wrong=CommandLine("kernbench check k.tl", {"k.tl": b"@triton.jit\ndef k(x_ptr):\n    pass  # \xe9\n"}),
        says="byte 0xe9 is not UTF-8",
        right=CommandLine(
            "kernbench check k.tl", {"k.tl": "import triton\n\n\n@triton.jit\ndef k(x_ptr):\n    pass  # é\n"}
        ),
    ),
    Explanation(
        code="E_SOURCE_TOO_LARGE",
        story="""
            A kernel file is read whole, so its size is bounded: a file of megabytes is a file given by mistake. The
            diagnostic states the limit.
        """,
        no_example="an example would have to be longer than the limit of megabytes that it shows",
    ),
    Explanation(
        code="E_SYNTAX",
        story="""
            The text does not follow the grammar (`grammar/kernel.lark`), which is the part of Python that kernels
            are written in. The diagnostic says what could have stood at that place. The parser goes on behind the
            mistake, so one run tells all of a file's syntax errors.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                tl.store(x_ptr + , 1.0)
            """,
            "x_ptr=*fp32",
        ),
        says="expected an expression, found `,`",
        right=Kernel(_SMALL, "x_ptr=*fp32"),
    ),
    Explanation(
        code="E_INDENTATION",
        story="""
            Blocks are told by indentation, as in Python: all lines of a block have the same, and it is made of
            spaces or of tabs, never of both, since nobody can see how wide a tab is.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                x = tl.load(x_ptr)
                  tl.store(x_ptr, x)
            """,
            "x_ptr=*fp32",
        ),
        says="this line is indented, but no block begins here",
        right=Kernel(_SMALL, "x_ptr=*fp32"),
    ),
    Explanation(
        code="E_UNSUPPORTED_SYNTAX",
        story="""
            Python has it, kernels do not: a kernel is compiled to commands of a device that has no objects, no
            exceptions and no functions that are made at run time. The diagnostic names the construct and says what
            to write instead. A function without `@triton.jit` is one such case, for nothing of a kernel file is run
            as Python.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                for i in range(n):
                    if i > 4:
                        break
                    tl.store(x_ptr + i, 1.0)
            """,
            "x_ptr=*fp32,n=i32",
        ),
        says="`break` is not supported",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                for i in range(min(n, 5)):
                    tl.store(x_ptr + i, 1.0)
            """,
            "x_ptr=*fp32,n=i32",
        ),
    ),
    Explanation(
        code="E_BAD_LITERAL",
        story="""
            A number or a string that Python would not read either (`0x`, `1__0`, `012`), or one that is longer than
            the compiler takes. The same code tells of f-strings whose braces do not fit.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                tl.store(x_ptr + 012, 1.0)
            """,
            "x_ptr=*fp32",
        ),
        says="a decimal number cannot begin with 0",
        right=Kernel(_SMALL.replace("x_ptr, 1.0", "x_ptr + 12, 1.0"), "x_ptr=*fp32"),
    ),
    Explanation(
        code="E_BAD_TARGET",
        story="""
            What stands left of `=` is a name, or a tuple of names. Blocks are values that never change, so an
            element of one cannot be assigned to: make a new block with `tl.where`, or store to memory.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                x = tl.load(x_ptr + tl.arange(0, 16))
                x[0] = 1.0
                tl.store(x_ptr + tl.arange(0, 16), x)
            """,
            "x_ptr=*fp32",
        ),
        says="only names and tuples of names can be assigned to",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                i = tl.arange(0, 16)
                x = tl.load(x_ptr + i)
                x = tl.where(i == 0, 1.0, x)
                tl.store(x_ptr + i, x)
            """,
            "x_ptr=*fp32",
        ),
    ),
    Explanation(
        code="E_REPEATED_NAME",
        story="A parameter or a keyword argument is named once in its list; of two, one would be lost without a word.",
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr, n, n):
                tl.store(x_ptr, n)
            """,
            "x_ptr=*fp32,n=i32",
        ),
        says="parameter `n` is given twice",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, n):
                tl.store(x_ptr, n)
            """,
            "x_ptr=*fp32,n=i32",
        ),
    ),
    Explanation(
        code="E_ARGUMENT_ORDER",
        story="""
            As in Python, arguments by position come before those by name, and parameters without a default before
            those with one.
        """,
        wrong=Kernel(
            """
            @triton.jit
            def k(x_ptr):
                tl.store(pointer=x_ptr, 1.0)
            """,
            "x_ptr=*fp32",
        ),
        says="a positional argument stands behind a keyword argument",
        right=Kernel(_SMALL, "x_ptr=*fp32"),
    ),
    Explanation(
        code="E_NESTING_TOO_DEEP",
        story="""
            Blocks and expressions nest to a bounded depth, so that no file, however it was made, can exhaust the
            compiler. Whoever meets the limit with a kernel written by hand takes a helper function out of it.
        """,
        wrong=Kernel(
            "@triton.jit\ndef k(x_ptr):\n    tl.store(x_ptr, " + "(" * 101 + "1.0" + ")" * 101 + ")\n", "x_ptr=*fp32"
        ),
        says="brackets are nested deeper than 100 levels",
        right=Kernel(_SMALL, "x_ptr=*fp32"),
    ),
    Explanation(
        code="E_TOO_MANY_ERRORS",
        story="""
            All errors of a file are told together, but no more than a person would read. Mend those that are shown
            and look again.
        """,
        no_example="it stands behind a long list of other errors, so no example raises it alone",
    ),
    Explanation(
        code="R_DECORATOR_SKIPPED",
        story="""
            A remark, not an error: `@triton.autotune` and `@triton.heuristics` choose constexprs by running Python,
            and nothing of a kernel file is run as Python. Give the constexprs in the bench file or with `--set`;
            several cases of a bench file take the place of several configurations.
        """,
        wrong=Kernel(
            """
            @triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"])
            @triton.jit
            def k(x_ptr, n, BLOCK: tl.constexpr):
                tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)
            """,
            "x_ptr=*fp32,n=i32",
            "BLOCK=64",
        ),
        says="`@triton.autotune` is skipped: constexprs come from the bench file or `--set`",
        right=Kernel(
            """
            @triton.jit
            def k(x_ptr, n, BLOCK: tl.constexpr):
                tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)
            """,
            "x_ptr=*fp32,n=i32",
            "BLOCK=64",
        ),
    ),
)
