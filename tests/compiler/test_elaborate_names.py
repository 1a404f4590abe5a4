"""Names: where they come from, what is told when they are wrong, and how a kernel gets its parameters."""

from __future__ import annotations

import numpy as np
import pytest

from kernbench.compiler.kernel_select import entry_names
from kernbench.compiler.name_check import check_names
from kernbench.compiler.parse import parse
from kernbench.diagnostics import Diagnostic, Sink
from kernbench.dtypes import fp32
from tests.compiler.elaborating import HEAD, attempt, error_of, errors_of, run, source_of, typed

FLOAT = {"o": "*fp32"}
INT = {"o": "*i32", "n": "i32"}


def out(n: int = 1) -> np.ndarray:
    return np.full(n, -1, np.int32)


def told(diagnostics: list[Diagnostic]) -> list[tuple[str, int]]:
    return [(d.code, d.primary.span.line if d.primary is not None else 0) for d in diagnostics]


# --------------------------------------------------------------------------- unknown names


@pytest.mark.parametrize(
    ("expression", "help"),
    [
        ("nn", "did you mean `n`?"),
        ("tl.lod(o)", "did you mean `load`?"),
        ("tll.load(o)", "did you mean `tl`?"),
        ("arange(0, 2)", "did you mean `tl.arange`?"),
        ("rnage(3)", "did you mean `range`?"),
        ("helpr(n)", "did you mean `helper`?"),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest(expression: str, help: str) -> None:
    text = f"""
    def helper(x):
        return x

    def k(o, n):
        tl.store(o, helper({expression}))
    """
    error = error_of(text, INT)

    assert ("E_UNKNOWN_NAME", help) == (error.code, error.help)
    assert error.primary is not None and expression in error.primary.source


def test_a_file_without_the_usual_import_is_told_of_it() -> None:
    text = "import triton\n\n@triton.jit\ndef k(o):\n    tl.store(o, 1)\n"
    helps = [each.help for each in errors_of(text, {"o": "*i32"}) if each.code == "E_UNKNOWN_NAME"]

    assert "begin the file with `import triton.language as tl`" in helps


def test_a_function_that_the_language_leaves_out_is_refused_by_name() -> None:
    error = error_of("def k(o, n):\n    tl.store(o, tl.map_elementwise(n, n))", INT)

    assert "E_UNSUPPORTED_BUILTIN" == error.code
    assert "map_elementwise" in error.message
    assert error.help is not None and "tl.where" in error.help


def test_a_local_name_is_local_throughout() -> None:
    text = HEAD + "n = 5\n\n@triton.jit\ndef k(o):\n    tl.store(o, n)\n    n = 3\n"

    assert [("E_UNBOUND_NAME", 8)] == told(errors_of(text, {"o": "*i32"}))


def test_what_follows_from_a_mistake_is_silent() -> None:
    text = """
    def k(o, n):
        a = missing
        b = a * 2
        if b > 0:
            c = b
        for i in range(b):
            n += c
        tl.store(o, n + c)
    """

    assert [("E_UNKNOWN_NAME", 6)] == told(errors_of(text, INT))


# --------------------------------------------------------------------------- the file's own names


def test_module_constants_classes_and_imports() -> None:
    text = """
    import math
    import triton
    from triton import language as lang
    from triton.language import load, store as put

    A = 6
    A = A * 7
    B: lang.constexpr = lang.constexpr(2)
    C, D = (3, 4)
    FOREIGN = some_package.thing()


    class Config:
        SIZE = 8
        TWICE: lang.constexpr = SIZE


    @triton.jit
    def k(o, x):
        put(o, A + B)
        put(o + 1, C * D + Config.SIZE)
        put(o + 2, load(x) + math.ceil(2.5))
    """
    text = text.replace("TWICE: lang.constexpr = SIZE", "HALF = 4")

    assert [44, 20, 8] == list(run(text, {"o": out(3), "x": np.array([5], np.int32)})["o"])


def test_a_changed_constant_changes_the_kernel() -> None:
    text = HEAD + "N = {}\n\n@triton.jit\ndef k(o):\n    tl.store(o, N)\n"

    assert [123, 124] == [run(text.format(n), {"o": out()})["o"][0] for n in (123, 124)]


def test_a_foreign_name_is_told_where_it_is_used_only() -> None:
    text = HEAD + "import torch\nfrom mine import thing, other\n\n@triton.jit\ndef k(o):\n    tl.store(o, thing)\n"
    error = error_of(text, {"o": "*i32"})

    assert ("E_FOREIGN_NAME", [(5)]) == (error.code, [label.span.line for label in error.secondary])
    assert error.help is not None
    assert "`kernbench list functions`" in error.help


def test_a_broken_constant_is_told_where_it_is_used_only() -> None:
    used = HEAD + "BAD = missing + 1\nGOOD = 2\n\n@triton.jit\ndef k(o):\n    tl.store(o, {})\n"

    assert 2 == run(used.format("GOOD"), {"o": out()})["o"][0]
    assert [("E_UNKNOWN_NAME", 4)] == told(errors_of(used.format("BAD"), {"o": "*i32"}))


def test_a_constant_of_a_class_is_made_of_those_before_it() -> None:
    text = HEAD + "A = 1\n\nclass C:\n    D = A\n    A = 3\n    B, E = A + 1, D * 10\n"
    text += "\n@triton.jit\ndef k(o):\n    tl.store(o, {})\n"

    assert [1, 3, 4, 10] == [run(text.format(f"C.{name}"), {"o": out()})["o"][0] for name in "DABE"]
    assert 1 == run(text.format("A"), {"o": out()})["o"][0]


def test_a_class_has_no_such_constant() -> None:
    text = HEAD + "class C:\n    WIDTH = 2\n\n@triton.jit\ndef k(o):\n    tl.store(o, C.{})\n"

    assert "did you mean `WIDTH`?" == error_of(text.format("WIDHT"), {"o": "*i32"}).help


# --------------------------------------------------------------------------- the kernel and its parameters

TWO = """
def helper(x):
    return x

def first(o):
    tl.store(o, helper(1))

def second(o):
    tl.store(o, helper(2))
"""


def test_the_only_function_that_no_other_names_is_the_kernel() -> None:
    assert ("first", "second") == entry_names(parse(source_of(TWO)))
    assert 1 == run("def h(x):\n    return x\n\ndef k(o):\n    tl.store(o, h(1))", {"o": out()})["o"][0]


def test_several_kernels_need_a_name() -> None:
    _, diagnostics = attempt(TWO, {"o": "*i32"})
    residual, _ = attempt(TWO, {"o": "*i32"}, kernel="second")
    _, unknown = attempt(TWO, {"o": "*i32"}, kernel="secnd")

    assert ["E_WHICH_KERNEL"] == [d.code for d in diagnostics]
    assert "`first`, `second`" in diagnostics[0].message
    assert residual is not None and "second" == residual.name
    assert ["did you mean `second`?"] == [d.help for d in unknown]


def test_missing_and_unknown_arguments_are_all_told() -> None:
    text = """
    def k(o, n, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr = 3):
        tl.store(o, n + A + B + C)
    """
    errors = errors_of(text, {"o": "*i32"}, {"AA": 1, "CC": 2})

    assert ["E_UNKNOWN_ARGUMENT", "E_UNKNOWN_ARGUMENT", "E_MISSING_CONSTEXPR", "E_MISSING_ARGUMENT"] == [
        e.code for e in errors
    ]
    assert "`A`, `B`" in errors[2].message
    assert "did you mean `A`?" == errors[0].help


def test_a_signature_that_is_no_type() -> None:
    error = error_of("def k(o):\n    tl.store(o, 1)", {"o": "*float3"})

    assert ("E_BAD_SIGNATURE", "did you mean `float32`?") == (error.code, error.help)


def test_constexprs_of_every_kind() -> None:
    text = """
    def k(o, F: tl.constexpr, S: tl.constexpr, T: tl.constexpr, D: tl.constexpr, bias, N: tl.constexpr = 4):
        if F and S == "mean" and bias is None and D == tl.float32:
            tl.store(o, T[0] + T[1] * N)
    """
    values = {"F": True, "S": "mean", "T": (3, 5), "D": fp32, "bias": None}

    assert 23 == run(text, {"o": out()}, values)["o"][0]


def test_constexprs_of_numpy_and_of_unknown_kinds() -> None:
    text = "def k(o, N: tl.constexpr):\n    tl.store(o, N)"

    assert 5 == run(text, {"o": out()}, {"N": np.int64(5)})["o"][0]
    assert "E_BAD_CONSTEXPR" == error_of(text, {"o": "*i32"}, {"N": {}}).code


def test_an_optional_argument_is_looked_at_where_it_is_given() -> None:
    text = """
    def k(o, x):
        if (x is not None) and x.dtype.element_ty == tl.float32:
            tl.store(o, 1)
        else:
            tl.store(o, 2)
    """

    assert 2 == run(text, {"o": out()}, {"x": None})["o"][0]
    assert 1 == run(text, {"o": out(), "x": np.zeros(1, np.float32)})["o"][0]


def test_a_constant_assigned_over_an_argument_changes_nothing() -> None:
    text = """
    def k(o, x, n):
        {}
        tl.store(o, (n - 2000) // 3 * 7)
        tl.store(o + 1, n % -7)
        tl.store(o + 2, (n * 3000000) // 2)
    """
    plain = run(text.format("pass"), {"o": out(3), "x": np.zeros(1, np.float16), "n": 1000})["o"]
    assigned = run(text.format("n = 1000"), {"o": out(3), "x": np.zeros(1, np.float16), "n": 1000})["o"]

    assert list(plain) == list(assigned)
    assert -333 * 7 == plain[0]  # towards zero


# --------------------------------------------------------------------------- unpacking


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("a, b = (1, 2, 3)", "2 values are expected, 3 values found"),
        ("a, b = (1,)", "2 values are expected, 1 value found"),
        ("(a, b), c = ((1, 2, 3), 4)", "2 values are expected, 3 values found"),
        ("a, b = n", "2 values are expected, int32 is one value"),
    ],
)
def test_unpacking_gives_both_counts(statement: str, message: str) -> None:
    error = error_of(f"def k(o, n):\n    {statement}\n    tl.store(o, a)", INT)

    assert ("E_UNPACK", message) == (error.code, error.message)


def test_nested_unpacking() -> None:
    text = """
    def k(o, n):
        (a, b), c = ((n, 2), 3)
        d = e = a + b
        tl.store(o, a * 100 + b * 10 + c + d - e)
    """

    assert 523 == run(text, {"o": out(), "n": 5})["o"][0]


@pytest.mark.parametrize("target", ["o[0]", "o.x"])
def test_only_names_can_be_assigned_to(target: str) -> None:
    assert "E_BAD_TARGET" == error_of(f"def k(o, n):\n    {target} = 1", INT).code


# --------------------------------------------------------------------------- further statements and expressions


def test_calls_of_helpers_with_wrong_arguments() -> None:
    for call in ("h()", "h(1, 2, 3)", "h(1, 2, c=3)", "h(1, a=2)"):
        error = error_of(f"def h(a, b):\n    return a\n\ndef k(o, n):\n    tl.store(o, {call})", INT)

        assert "E_CALL_ARGUMENTS" == error.code, call


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("for i in n:\n        pass", "E_NOT_ITERABLE"),
        ("for i in range(0, 4, 0):\n        pass", "E_RANGE_STEP"),
        ("for i in range(1, 2, 3, 4):\n        pass", "E_CALL_ARGUMENTS"),
        ("for i in tl.static_range(n):\n        pass", "E_CONSTEXPR_NEEDED"),
        ("a = range(3)", "E_NOT_ITERABLE"),
        ("c = 0 < n < 3", "E_UNSUPPORTED_SYNTAX"),
        ("with n():\n        pass", "E_UNSUPPORTED_SYNTAX"),
        ("assert n is None, 'never'", "E_ASSERT_FAILED"),
        ("tl.static_assert(n > 0)", "E_CONSTEXPR_NEEDED"),
        ("d = tl.arange(0, n)", "E_CONSTEXPR_NEEDED"),
        ("e = tl.arange(0, 8)[:, None] + tl.arange(0, 4)[:, None]", "E_SHAPE_MISMATCH"),
    ],
)
def test_statements_that_are_refused(statement: str, code: str) -> None:
    error = error_of(f"def k(o, n):\n    {statement}\n    tl.store(o, 1)", INT)

    assert (code, 6) == (error.code, error.primary and error.primary.span.line)


def test_a_shape_mismatch_is_told_at_the_inner_operator_through_a_helper() -> None:
    text = """
    def inner(a, b, c):
        return c + (a * b)

    def k(o, n):
        x = inner(tl.arange(0, 8), tl.arange(0, 16), tl.arange(0, 8))
        tl.store(o + tl.arange(0, 8), x)
    """
    error = error_of(text, INT)

    assert "E_SHAPE_MISMATCH" == error.code
    assert error.primary is not None and "a * b" == error.primary.source[error.primary.span.column - 1 :].rstrip(")")
    assert [12] == [label.span.line for label in error.secondary]
    assert "8" in error.message and "16" in error.message


def test_loops_over_tuples_are_unrolled() -> None:
    text = """
    def k(o, n):
        total = 0
        for a, b in ((1, 2), (3, 4)):
            total += a * b * n
        tl.store(o, total)
    """

    assert 140 == run(text, {"o": out(), "n": 10})["o"][0]


def test_names_of_a_whole_file_are_checked_without_types() -> None:
    source = source_of(
        """
        def helper(x):
            return tl.epx(x) + tl.math.lgo(x)

        def k(o, n, B: tl.constexpr):
            if B > 3:
                tl.store(o, missing)
            for i in range(n):
                tl.store(o + i, helper(i))
        """
    )
    sink = Sink()
    check_names(parse(source), source, sink)

    assert [("E_UNKNOWN_NAME", 6), ("E_UNKNOWN_NAME", 6), ("E_UNKNOWN_NAME", 13)] == told(sink.diagnostics)


def test_the_typed_form_shows_bindings_and_places() -> None:
    text = """
    def k(x, o, n, B: tl.constexpr):
        at = tl.program_id(0) * B + tl.arange(0, B)
        value = tl.load(x + at, mask=at < n)
        tl.store(o + at, value, mask=at < n)
    """
    lines = typed(text, {"x": "*fp32", "o": "*fp32", "n": "i32"}, {"B": 8}).splitlines()

    assert "kernel k" == lines[0]
    assert "constexpr B = 8" in lines
    assert any(line.startswith("  value.1:8:fp32 = load [") and line.endswith("; 7:13") for line in lines)
    assert "  value: float32[8]" in lines


def test_neighbours_of_a_wrong_argument_are_checked_too() -> None:
    text = """
def k(x_ptr):
    a = first + second
    tl.store(x_ptr + third, a, mask=fourth)
"""
    found = errors_of(text, {"x_ptr": "*fp32"})

    assert {"first", "second", "third", "fourth"} == {each.message.split("`")[1] for each in found}
