"""Errors of choosing a kernel in a file, and of what its parameters are bound to when it is compiled."""

from __future__ import annotations

from kernbench.explain.model import CommandLine, Explanation, Kernel, Python

_ADD = """
    @triton.jit
    def add(x_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n)
        tl.store(x_ptr + i, x + 1.0, mask=i < n)
"""
_SIGNATURE = "x_ptr=*fp32,n=i32"
_TWO = """
    import triton
    import triton.language as tl

    @triton.jit
    def first(x_ptr):
        tl.store(x_ptr, 1.0)

    @triton.jit
    def second(x_ptr):
        tl.store(x_ptr, 2.0)
"""

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        code="E_NO_KERNEL",
        story="""
            A kernel is a function under `@triton.jit` (or `@kernel`). A file of constants, or a Python file whose
            functions are all plain Python, holds nothing that a device could run.
        """,
        wrong=Kernel("BLOCK = 64\n"),
        says="the file has no kernel",
        right=Kernel(_ADD, _SIGNATURE, "BLOCK=64"),
    ),
    Explanation(
        code="E_UNKNOWN_KERNEL",
        story="What stands behind `::` is the name of a kernel of the file.",
        wrong=CommandLine('kernbench compile k.tl::frist --signature "x_ptr=*fp32" -o out.txt', {"k.tl": _TWO}),
        says="the file has no kernel `frist`",
        right=CommandLine('kernbench compile k.tl::first --signature "x_ptr=*fp32" -o out.txt', {"k.tl": _TWO}),
    ),
    Explanation(
        code="E_WHICH_KERNEL",
        story="""
            A file may hold several kernels. A function that another one calls is a helper and no candidate; where
            more than one is left, the command line or the bench file's `kernel:` names one behind `::`.
        """,
        wrong=CommandLine('kernbench compile k.tl --signature "x_ptr=*fp32" -o out.txt', {"k.tl": _TWO}),
        says="the file has 2 kernels: `first`, `second`",
        right=CommandLine('kernbench compile k.tl::second --signature "x_ptr=*fp32" -o out.txt', {"k.tl": _TWO}),
    ),
    Explanation(
        code="E_MISSING_CONSTEXPR",
        story="""
            A parameter that is marked `tl.constexpr` is a constant of the compiled kernel: shapes and unrolled loops
            depend on it, so a kernel is compiled once for each set of such values. They come from the bench file's
            `constexprs`, from `--set NAME=VALUE`, or from the parameter's own default.
        """,
        wrong=Kernel(_ADD, _SIGNATURE),
        says="kernel `add` has no value for the constexpr `BLOCK`",
        right=Kernel(_ADD, _SIGNATURE, "BLOCK=64"),
    ),
    Explanation(
        code="E_MISSING_ARGUMENT",
        story="""
            A kernel is compiled for the types of its arguments, as in Triton: `x_ptr: *fp32` makes other commands
            than `x_ptr: *fp16`. The types come from the bench file's tensors and scalars, or from `--signature`.
        """,
        wrong=Kernel(_ADD, "x_ptr=*fp32", "BLOCK=64"),
        says="kernel `add` has no value for the argument `n`",
        right=Kernel(_ADD, _SIGNATURE, "BLOCK=64"),
    ),
    Explanation(
        code="E_BAD_CONSTEXPR",
        story="""
            A constexpr is a number, a bool, a string, `None`, an element type, or a tuple of such: what the compiler
            can fold, compare and print. Anything else of Python, a set or a function, has no meaning in a kernel.
        """,
        wrong=Python(
            'signature = {"x_ptr": "*fp32", "n": "i32"}\n'
            'kernel = kb.compile("k.tl", constexprs={"BLOCK": {64}}, signature=signature)',
            _ADD,
        ),
        says="constexpr `BLOCK` is a set",
        right=Python(
            'signature = {"x_ptr": "*fp32", "n": "i32"}\n'
            'kernel = kb.compile("k.tl", constexprs={"BLOCK": 64}, signature=signature)',
            _ADD,
        ),
    ),
    Explanation(
        code="E_UNKNOWN_ARGUMENT",
        story="""
            A type or a constexpr is given for a name that the kernel has no parameter for. That is nearly always a
            misspelling, and going on would compile the kernel for something else than was meant.
        """,
        wrong=Kernel(_ADD, "x_ptr=*fp32,n=i32,m=i32", "BLOCK=64"),
        says="kernel `add` has no parameter `m`",
        right=Kernel(_ADD, _SIGNATURE, "BLOCK=64"),
    ),
    Explanation(
        code="E_BAD_SIGNATURE",
        story="""
            The type of an argument is an element type (`i32`, `fp16`), or one behind a star (`*fp32`), which is a
            pointer to a tensor of it. `none` stands for `None`.
        """,
        wrong=Kernel(_ADD, "x_ptr=*float,n=i32", "BLOCK=64"),
        says="`*float` is no type for argument `x_ptr`",
        right=Kernel(_ADD, _SIGNATURE, "BLOCK=64"),
    ),
    Explanation(
        code="E_UNKNOWN_PASS",
        story="""
            `KERNBENCH_DUMP` and the `dump_after` of `kb.compile` take names of passes: those that `kernbench list
            passes` prints, or `all`. They are checked before any work is done.
        """,
        wrong=Python('kernel = kb.compile("k.tl", dump_after="lwoer")', _ADD),
        says="`lwoer` is no pass",
        right=Python('kernel = kb.compile("k.tl", dump_after="lower")', _ADD),
    ),
)
