"""The syntax tree of a kernel file: what was written, with its place, and nothing more.

Does not know types, values, builtins or whether a name exists.

Nodes compare and hash by identity, so that two equal loops are two dictionary keys; to compare what trees
say, compare `ast_printer.print_ast` of them. No tree is deeper than `parse.MAX_DEPTH` nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import EllipsisType
from typing import Literal

from kernbench.diagnostics import Span

UnaryOperator = Literal["+", "-", "~", "not"]
BinaryOperator = Literal["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"]
CompareOperator = Literal["==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in"]
BoolOperator = Literal["and", "or"]


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    id: str
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    value: bool | int | float | str | EllipsisType | None
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class UnaryOp:
    op: UnaryOperator
    operand: Expr
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class BinOp:
    op: BinaryOperator
    left: Expr
    right: Expr
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Compare:
    """`left ops[0] comparators[0] ops[1] comparators[1] ...`"""

    left: Expr
    ops: tuple[CompareOperator, ...]
    comparators: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class BoolOp:
    """`a or b or c` is one node with three values."""

    op: BoolOperator
    values: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Ternary:
    """`body if test else orelse`"""

    test: Expr
    body: Expr
    orelse: Expr
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Keyword:
    name: str
    value: Expr
    span: Span  # `name=value`


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    func: Expr
    args: tuple[Expr, ...]
    keywords: tuple[Keyword, ...]  # in order; no name twice
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    value: Expr
    attr: str
    span: Span
    attr_span: Span  # the name behind the point


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """`lower:upper:step`; only as a Subscript's index or an item of its Tuple."""

    lower: Expr | None
    upper: Expr | None
    step: Expr | None
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Subscript:
    """`value[index]`; `x[:, None]` has a Tuple as its index."""

    value: Expr
    index: Expr
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Tuple:
    elements: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class List:
    elements: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Dict:
    keys: tuple[Expr, ...]
    values: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class FormattedValue:
    """`{value!conversion:format_spec}` in an f-string."""

    value: Expr
    conversion: Literal["s", "r", "a"] | None
    format_spec: str | None
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class JoinedStr:
    """An f-string; neighbouring plain texts are one part, and none is empty."""

    parts: tuple[str | FormattedValue, ...]
    span: Span


Expr = (
    Name
    | Constant
    | UnaryOp
    | BinOp
    | Compare
    | BoolOp
    | Ternary
    | Call
    | Attribute
    | Slice
    | Subscript
    | Tuple
    | List
    | Dict
    | JoinedStr
)


@dataclass(frozen=True, slots=True, eq=False)
class Assign:
    """`a = b = value` has two targets; each is a Name, Attribute, Subscript, or a Tuple or List of them."""

    targets: tuple[Expr, ...]
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class AugAssign:
    target: Expr  # Name, Attribute or Subscript
    op: BinaryOperator
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class AnnAssign:
    """`target: annotation = value`"""

    target: Expr  # Name, Attribute or Subscript
    annotation: Expr
    value: Expr | None
    is_constexpr: bool  # the annotation is `constexpr` or `anything.constexpr`
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class For:
    target: Expr
    iter: Expr
    body: tuple[Stmt, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class While:
    test: Expr
    body: tuple[Stmt, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class If:
    """`elif` is an If alone in `orelse`."""

    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class WithItem:
    context: Expr
    target: Expr | None
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class With:
    items: tuple[WithItem, ...]
    body: tuple[Stmt, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Return:
    value: Expr | None
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Assert:
    test: Expr
    message: Expr | None
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Raise:
    exception: Expr | None
    cause: Expr | None
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class ExprStmt:
    value: Expr
    span: Span


Stmt = Assign | AugAssign | AnnAssign | For | While | If | With | Return | Assert | Raise | Pass | ExprStmt


@dataclass(frozen=True, slots=True, eq=False)
class Param:
    name: str
    annotation: Expr | None
    default: Expr | None
    is_constexpr: bool  # the annotation is `constexpr` or `anything.constexpr`
    keyword_only: bool  # stands behind a bare `*`
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class FunctionDef:
    name: str
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]  # without the docstring; may then be empty
    decorators: tuple[str, ...]  # dotted names without arguments: "triton.jit", "kernel"
    docstring: str | None
    returns: Expr | None
    span: Span
    name_span: Span


@dataclass(frozen=True, slots=True, eq=False)
class ClassDef:
    """A class that holds constants and kernels; a kernel's name begins with that of the class, `Linear.forward`."""

    name: str
    bases: tuple[Expr, ...]
    constants: tuple[Assign | AnnAssign, ...]
    functions: tuple[FunctionDef, ...]
    decorators: tuple[str, ...]
    docstring: str | None
    span: Span
    name_span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Import:
    """One name that an import binds: `import module as alias` or `from module import name as alias`."""

    module: str  # with its leading points where it is relative
    name: str | None  # "*" for all
    alias: str | None
    span: Span

    @property
    def bound(self) -> str:
        """The name that the file's functions see; `import a.b` binds `a`."""
        return self.alias or self.name or self.module.split(".")[0]


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A file; each tuple is in source order."""

    imports: tuple[Import, ...]
    constants: tuple[Assign | AnnAssign, ...]
    classes: tuple[ClassDef, ...]
    functions: tuple[FunctionDef, ...]
    docstring: str | None
    span: Span

    @property
    def all_functions(self) -> tuple[FunctionDef, ...]:
        """Those of its classes, too."""
        return (*self.functions, *(function for item in self.classes for function in item.functions))


Node = Expr | Keyword | FormattedValue | Stmt | WithItem | Param | FunctionDef | ClassDef | Import | Module
