"""Errors of bench files, and of the expressions in them."""

from __future__ import annotations

from kernbench.explain.model import Bench, CommandLine, Explanation, Expression, file_text

_KERNEL = """
    @triton.jit
    def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n)
        tl.store(y_ptr + i, x * 2.0, mask=i < n)
"""
_BENCH = """
    kernel: k.tl
    constexprs: {BLOCK: 64}
    scalars: {n: 60}
    tensors:
      x_ptr: {shape: [n], dtype: fp32, init: normal}
      y_ptr: {shape: [n], dtype: fp32}
    expect: {y_ptr: 2 * x_ptr}
    tolerance: {rtol: 1e-5}
    cases:
      tiny: {scalars: {n: 4}}
"""


def _with(before: str, after: str) -> Bench:
    """The bench above with one place changed."""
    assert before in _BENCH
    return Bench(_BENCH.replace(before, after))


def _run(options: str = "", bench: str = _BENCH) -> CommandLine:
    command = f"kernbench run k.tl -t ahbm_1x1 {options}".rstrip()
    return CommandLine(command, {"k.tl": file_text(_KERNEL), "k.yaml": bench})


EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        code="E_BENCH_KEY",
        story="""
            A bench file is one kernel's run, and its cases change what is given to that run. `kernel`, `extends` and
            `cases` are the file's own and not a case's; and a name is either a constexpr or a scalar.
        """,
        wrong=_with("tiny: {scalars: {n: 4}}", "tiny: {kernel: other.tl, scalars: {n: 4}}"),
        says="a case cannot change `kernel`",
        right=Bench(_BENCH),
    ),
    Explanation(
        code="E_BENCH_VALUE",
        story="""
            A value of a bench file is not of the kind that stands there: a shape's side that is no whole number, an
            element type that does not exist, an initial value that is none of the forms.
        """,
        wrong=_with("dtype: fp32, init: normal", "dtype: float, init: normal"),
        says="tensor `x_ptr` has the unknown element type `float`",
        right=Bench(_BENCH),
    ),
    Explanation(
        code="E_BENCH_NAME",
        story="""
            `expect` holds references of tensors of the file, and `--set` changes its constexprs and scalars (or
            parameters of the kernel). The name is none of them; the nearest is offered.
        """,
        wrong=_with("expect: {y_ptr:", "expect: {z_ptr:"),
        says="`z_ptr` is no tensor",
        right=Bench(_BENCH),
    ),
    Explanation(
        code="E_BENCH_CYCLE",
        story="""
            Constexprs and scalars may be computed from one another, in any order, but not in a circle. The same holds
            for bench files that extend one another.
        """,
        wrong=_with("scalars: {n: 60}", "scalars: {n: m - 4, m: n + 4}"),
        says="values need each other: n → m → n",
        right=_with("scalars: {n: 60}", "scalars: {n: m - 4, m: 64}"),
    ),
    Explanation(
        code="E_BENCH_CASE",
        story="""
            `--case` names one of the bench file's `cases`. Without it the file's own keys are run.
        """,
        wrong=_run("--case tinny"),
        says="`k.yaml` has no case `tinny`",
        right=_run("--case tiny"),
    ),
    Explanation(
        code="E_BENCH_FILE",
        story="""
            A tensor's initial values or its reference come from a NumPy file beside the bench file. It is not there,
            or holds no array of numbers; nothing is ever unpickled from it.
        """,
        wrong=_with("init: normal", "init: {npy: inputs.npy}"),
        says="cannot read `inputs.npy`: no such file or directory",
        right=Bench(_BENCH),
    ),
    Explanation(
        code="W_BENCH_UNUSED",
        story="""
            A bench file may have names of its own, for its shapes and references. This one is no parameter of the
            kernel and stands in no expression of the file, so changing it changes nothing; it is probably
            misspelt, or left over.
        """,
        wrong=_run("--case tiny", _with("tiny: {scalars: {n: 4}}", "tiny: {scalars: {m: 4}}").text),
        says="`m` is no parameter of the kernel, and no expression uses it",
        right=_run("--case tiny"),
    ),
    Explanation(
        code="R_BENCH_CONSTEXPR",
        story="""
            Any parameter may be given as a constexpr: its value is compiled in, so shapes and branches may depend on
            it. Where the kernel does not say `tl.constexpr`, Triton's launch hands the value over at run time, and
            what runs here is another program.
        """,
        wrong=_run("", _with("{BLOCK: 64}\n    scalars: {n: 60}", "{BLOCK: 64, n: 60}").text),
        says="`n` is a run-time parameter of the kernel, and its value is compiled in",
        right=_run(),
    ),
    Explanation(
        code="E_EXPRESSION_SYNTAX",
        story="""
            Expressions of bench files and of `--set` are arithmetic, NumPy functions from a table, and subscripts,
            in a grammar of their own (`grammar/expression.lark`). They are never given to Python to evaluate.
        """,
        wrong=Expression("cdiv(60, 64"),
        says="the expression ends too early",
        right=Expression("cdiv(60, 64)"),
    ),
    Explanation(
        code="E_EXPRESSION_NAME",
        story="""
            An expression knows the file's constexprs and scalars, its tensors where it is a reference, a few
            constants, and the functions of its table. A text, such as a name of an activation, is written in quotes
            within the quotes of YAML.
        """,
        wrong=Expression("cdvi(60, 64)"),
        says="`cdvi` at column 1 is no function of expressions",
        right=Expression("cdiv(60, 64)"),
    ),
    Explanation(
        code="E_EXPRESSION_VALUE",
        story="""
            The expression is well formed and cannot be computed: a division by 0, shapes that do not broadcast, an
            argument that a function does not take. The message has the column, the values and NumPy's reason.
        """,
        wrong=Expression("64 // 0"),
        says="operator `//` at column 4 fails on (64, 0): integer division or modulo by zero",
        right=Expression("64 // 4"),
    ),
)
