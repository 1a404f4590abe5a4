"""Every error code of the compiler, with its meaning, and the one way to make a diagnostic of it.

Does not know what raises them.
"""

from __future__ import annotations

from kernbench.diagnostics import Diagnostic, Label, Severity

ERRORS: dict[str, str] = {
    # source text and syntax
    "E_SOURCE_ENCODING": "a source file holds bytes or characters that a text of UTF-8 may not hold",
    "E_SOURCE_TOO_LARGE": "a source file is larger than the compiler reads",
    "E_SYNTAX": "the text does not follow the syntax of the kernel language",
    "E_INDENTATION": "a line's indentation fits no block, or mixes tabs and spaces",
    "E_UNSUPPORTED_SYNTAX": "a Python construct that the kernel language does not have",
    "E_BAD_LITERAL": "a number or string literal is malformed or too large",
    "E_BAD_TARGET": "something that cannot be assigned to stands left of an assignment",
    "E_REPEATED_NAME": "a parameter or keyword is given twice in one list",
    "E_ARGUMENT_ORDER": "arguments or parameters stand in an order that Python does not allow",
    "E_NESTING_TOO_DEEP": "blocks or expressions are nested deeper than the compiler goes",
    "E_TOO_MANY_ERRORS": "a file has more syntax errors than are shown",
    "R_DECORATOR_SKIPPED": "a decorator of a kernel is not read",
    # kernels, names and control flow
    "E_NO_KERNEL": "a file has no kernel",
    "E_UNKNOWN_KERNEL": "a file has no kernel of the name that is asked for",
    "E_WHICH_KERNEL": "a file has several kernels and none is named",
    "E_MISSING_CONSTEXPR": "a kernel's constexpr parameter has no value",
    "E_MISSING_ARGUMENT": "a kernel's parameter has neither a type nor a value",
    "E_UNKNOWN_ARGUMENT": "a value or type is given for a parameter that the kernel does not have",
    "E_BAD_SIGNATURE": "the type given for a parameter is no type",
    "E_BAD_CONSTEXPR": "a constexpr's value is of a kind or size that kernels do not know",
    "E_UNKNOWN_NAME": "a name that nothing binds",
    "E_UNBOUND_NAME": "a local name is read before it has a value",
    "E_MAYBE_UNBOUND": "a name is read that has a value on some paths only",
    "E_FOREIGN_NAME": "a name is used that is imported from outside of the kernel language",
    "E_CLASS_VALUE": "a class of constants and kernels is used as a value",
    "E_UNPACK": "a tuple does not have as many values as there are names for it",
    "E_BRANCH_TYPES": "the types that a value has on the paths that meet cannot be joined",
    "E_CARRIED_TYPE": "a name has another type at the end of a loop's body than before the loop",
    "E_RETURN_TYPES": "a function returns values that cannot be joined to one type",
    "E_KERNEL_RETURNS": "a kernel returns a value that is known at run time only, and nobody gets it",
    "R_RETURN_DROPPED": "a kernel returns a constant, and nobody gets it",
    "E_NOT_ITERABLE": "a loop over something other than a range, or a range outside of a loop",
    "E_RANGE_STEP": "the step of a range is 0",
    "E_ENDLESS_LOOP": "a loop that nothing ends",
    "E_UNROLL_TOO_LARGE": "a loop unrolls to more trips than are allowed",
    "E_PROGRAM_TOO_LARGE": "a kernel unfolds to more statements than the compiler walks",
    "E_RECURSION": "a function calls itself",
    "E_INLINE_TOO_DEEP": "helpers call helpers deeper than the compiler goes",
    "E_ASSERT_FAILED": "an assertion is false when the kernel is compiled",
    "E_RAISE_REACHED": "a raise statement is reached when the kernel is compiled",
    "E_SCRATCH_ESCAPES": "a block is used after the scratch scope in which it was made",
    "E_DICT_KEY": "a key of a dict is no string",
    "E_FORMAT": "a format in an f-string does not fit its value",
    # values and operators
    "E_VALUE_EXPECTED": "a pointer, reference, tuple, string or None stands where a number is needed",
    "E_BLOCK_EXPECTED": "a scalar or other value stands where a block is needed",
    "E_SCALAR_EXPECTED": "a block stands where one value is needed",
    "E_POINTER_EXPECTED": "a value that is no pointer is loaded from or stored to",
    "E_CONSTEXPR_NEEDED": "a run-time value stands where one is needed that is known when the kernel is compiled",
    "E_DTYPE_EXPECTED": "a value that is no element type stands where one is needed",
    "E_OPERAND_TYPE": "an operator or function does not take operands of these types",
    "E_LITERAL_RANGE": "a literal does not fit the type it must have",
    "E_CONSTANT_ARITHMETIC": "an operation on constants has no value, or one that is too large",
    "E_SHAPE_MISMATCH": "the shapes of two operands do not broadcast or do not agree",
    "E_DOT_SHAPE": "the operands of a matrix product do not fit each other",
    "E_DOT_TYPE": "the operands of a matrix product have types that cannot be multiplied",
    "E_BAD_AXIS": "an axis is named that a block does not have",
    "E_BAD_SHAPE": "a block cannot have this shape",
    "E_BLOCK_TOO_LARGE": "a block has more elements than a block may have",
    "E_BAD_SUBSCRIPT": "a subscript that this value does not take",
    "E_UNKNOWN_ATTRIBUTE": "a value has no attribute of this name",
    "E_CALL_ARGUMENTS": "a function is called with missing, extra or wrong arguments",
    "E_NOT_CALLABLE": "a value that is no function is called",
    "E_UNSUPPORTED_BUILTIN": "a function of Triton that is not supported yet",
    "E_UNSUPPORTED_OPERATOR": "an operator that is not supported on these values",
    "E_UNSUPPORTED_VALUE": "a use of a value that is not supported",
    "E_BAD_COMPOSITE": "a composite whose parts do not fit together",
    # lowering, allocation, encoding
    "E_TCM_OVERFLOW": "the blocks that are in use at once do not fit in TCM, the scratch memory of a PE",
    "E_BINARY_TOO_LARGE": "an encoded program is larger than a device loads",
    "E_GEMM_DTYPE": "the target's matrix engine does not multiply this type",
    "E_K_GROUPS": "an operand of a K_TILE op has groups along k that a tile of the target would cross",
    "E_UNKNOWN_PASS": "a name that is no pass of the compiler",
    "E_UNKNOWN_OP": "a composite names an op that is neither a micro-op nor a recipe",
    "E_TWO_GEMMS": "a composite has more than one gemm",
    "E_NO_GEMM": "an epilogue, or an operand of the gemm, stands in a composite without one",
    "E_COMPOSITE_OPERAND": "an op of a composite lacks an operand, has one too many, or one that it cannot take",
    "E_COMPOSITE_SHAPE": "the operands of a composite do not fit together",
    "E_COMPOSITE_SCOPE": "an op of a composite has a scope that does not exist or that it cannot have",
    "E_OPERAND_SPACE": "an operand is in HBM where only a block in TCM can be",
    "E_OUT_OVERLAP": "a composite would overwrite an operand that it still reads",
}


def error(
    code: str,
    message: str,
    *labels: Label,
    help: str | None = None,
    notes: tuple[str, ...] = (),
    severity: Severity = "error",
) -> Diagnostic:
    """A diagnostic whose first label is the primary one."""
    assert code in ERRORS, f"{code} is not in the table of compiler errors"
    primary, secondary = (labels[0], labels[1:]) if labels else (None, ())
    return Diagnostic(code, message, primary, secondary, help=help, notes=notes, severity=severity)
