"""Take the kernels out of a Python file: what is not theirs becomes blanks, at unchanged places.

Python's `ast` only says where things are; every kept character is read by our own grammar afterwards. Nothing is
imported or run. Does not know what a kernel's statements mean.
"""

from __future__ import annotations

import ast as python_ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from kernbench.compiler import ast
from kernbench.compiler.errors import error
from kernbench.compiler.parse import parse
from kernbench.compiler.source import SourceText
from kernbench.compiler.syntax_check import makes_constexpr_function, makes_kernel
from kernbench.diagnostics import EXIT_KERNEL, Diagnostic, KernBenchError, Sink

_Definition = (
    python_ast.FunctionDef
    | python_ast.ClassDef
    | python_ast.Assign
    | python_ast.AnnAssign
    | python_ast.Import
    | python_ast.ImportFrom
)
Range = tuple[int, int]  # offsets into the text


def parse_file(source: SourceText, function: str | None = None, sink: Sink | None = None) -> ast.Module:
    """The tree of a `.tl` file, or of the kernels of a `.py` file; of one kernel and what it uses if named."""
    if not source.name.endswith(".py"):
        return parse(source, sink)
    kernels = take_kernels(source, function)
    module = parse(kernels.source, sink)
    for remark in kernels.remarks if sink is not None else ():
        assert sink is not None
        sink.add(remark)
    return module


@dataclass(frozen=True, slots=True)
class PythonKernels:
    source: SourceText  # of the same name, lines and columns
    remarks: tuple[Diagnostic, ...]


def take_kernels(source: SourceText, function: str | None = None) -> PythonKernels:
    """The `jit` functions of a Python file, or one of them, with the helpers, constants and imports they use."""
    file = PythonFile.read(source)
    roots = file.kernels()
    if not roots:
        message = f"`{source.name}` has no function under `@triton.jit` or `@kernel`"
        raise KernBenchError([error("E_NO_KERNEL", message)], EXIT_KERNEL)
    named = [root for root in roots if function is not None and root.endswith(f".{function}")]
    return file.take([function] if function in roots else named[:1] or roots)


@dataclass(frozen=True)
class PythonFile:
    """A Python file whose definitions are located."""

    source: SourceText
    _found: _Definitions

    @classmethod
    def read(cls, source: SourceText) -> PythonFile:
        found = _Definitions()
        found.read(_python_tree(source).body, certain=True, in_function=False)
        return cls(source, found)

    def kernels(self) -> list[str]:
        """The file's kernels, those of a class with its name in front."""
        found: list[str] = []
        for name, nodes in self._found.nodes.items():
            found += [name] if any(map(_is_kernel, nodes)) else []
            found += [f"{name}.{kernel.name}" for node in nodes for kernel in _kernels_of_class(node)]
        return found

    def names(self) -> tuple[str, ...]:
        """What a kernel of another file may import; `*` stands for what this file imports so."""
        return (*(name for name in self._found.nodes if not self.is_host_code(name)), *("*" for _ in self._found.stars))

    def modules_of_all(self) -> tuple[str, ...]:
        """The modules of which this file imports all names."""
        stars = (star for star in self._found.stars if isinstance(star, python_ast.ImportFrom))
        return tuple("." * star.level + (star.module or "") for star in stars)

    def defines(self, name: str) -> bool:
        return name in self._found.nodes

    def is_host_code(self, name: str) -> bool:
        """Whether a name is a function or class that no kernel can use."""
        return name in self._found.nodes and all(map(_is_host, self._found.nodes[name]))

    def take(self, roots: Iterable[str]) -> PythonKernels:
        """The definitions of some names and of everything that they use."""
        used = self._found.used_by(roots)
        offsets = _Offsets(self.source)
        return PythonKernels(_blanked(self.source, used, offsets), tuple(_remarks(self.source, used, offsets)))


def _python_tree(source: SourceText) -> python_ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return python_ast.parse(source.text)
    except SyntaxError as fault:
        line = min(max(fault.lineno or 1, 1), source.lines)
        start = source.starts[line - 1] + max((fault.offset or 1) - 1, 0)
        message = f"this is no Python: {fault.msg}"
        label = source.label(source.span(start, start + 1))
        raise KernBenchError([error("E_SYNTAX", message, label)], EXIT_KERNEL) from None
    except (ValueError, RecursionError, MemoryError):
        message = f"`{source.name}` is nested deeper than Python reads"
        raise KernBenchError([error("E_NESTING_TOO_DEEP", message)], EXIT_KERNEL) from None


@dataclass
class _Definitions:
    """What the file's names mean, as far as one can tell without running it."""

    nodes: dict[str, list[_Definition]] = field(default_factory=dict)  # where it depends, all that it may be
    stars: list[_Definition] = field(default_factory=list)  # imports of all that a module has

    def read(self, body: Iterable[python_ast.stmt], *, certain: bool, in_function: bool) -> None:
        """The later definition counts, as in Python; of those under a condition all, the first before the others."""
        for statement in body:
            is_kernel = isinstance(statement, python_ast.FunctionDef) and _is_kernel(statement)
            if isinstance(statement, _Definition) and (is_kernel or not in_function or not _is_host(statement)):
                self._add(statement, certain)
            if isinstance(statement, python_ast.FunctionDef | python_ast.AsyncFunctionDef):
                if not is_kernel and any(map(_is_kernel, python_ast.walk(statement))):
                    self.read(statement.body, certain=False, in_function=True)
            elif not isinstance(statement, python_ast.ClassDef):
                for block in _blocks(statement):
                    self.read(block, certain=False, in_function=in_function)

    def _add(self, statement: _Definition, certain: bool) -> None:
        for name in _bound_names(statement):
            if name == "*":
                self.stars.append(statement)
            elif certain:
                self.nodes[name] = [statement]
            else:
                self.nodes.setdefault(name, []).append(statement)

    def used_by(self, roots: Iterable[str]) -> list[_Definition]:
        """The definitions of the roots and of everything that they name, in the order of the file."""
        todo = [name.partition(".")[0] for name in roots]
        seen = set(todo)
        computed: set[str] = set()  # what constants and functions of compile time use, which may be host code
        for name in todo:  # grows while it is walked
            for node in self._readable(name, name in computed):
                for used in _names_in(node):
                    if used in self.nodes and used not in seen:
                        seen.add(used)
                        todo.append(used)
                        if _is_computed(node):
                            computed.add(used)
        found = (node for name in todo for node in self._readable(name, name in computed))
        by_place = {(node.lineno, node.col_offset): node for node in (*found, *self.stars)}
        return [by_place[place] for place in sorted(by_place)]

    def _readable(self, name: str, is_computed: bool = False) -> list[_Definition]:
        """What a name may be, up to the first function: that can be used in any case, unless it only fills a gap."""
        nodes = [node for node in self.nodes.get(name, ()) if not _is_host(node)]
        if not nodes and is_computed:
            nodes = [node for node in self.nodes.get(name, ()) if _can_be_computed(node)]
        nodes = [node for node in nodes if not _fills_a_gap(node)] or nodes
        functions = [index for index, node in enumerate(nodes) if isinstance(node, python_ast.FunctionDef)]
        return nodes[: functions[0] + 1] if functions else nodes


def _blocks(statement: python_ast.stmt) -> Iterator[list[python_ast.stmt]]:
    """The blocks of an `if`, `try`, `with` or loop at module level."""
    for part in ("body", "orelse", "finalbody"):
        block = getattr(statement, part, None)
        if isinstance(block, list):
            yield block
    for handler in getattr(statement, "handlers", ()):
        yield handler.body


def _bound_names(node: _Definition) -> Iterator[str]:
    match node:
        case python_ast.FunctionDef(name=name) | python_ast.ClassDef(name=name):
            yield name
        case python_ast.Import(names=aliases) | python_ast.ImportFrom(names=aliases):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
        case python_ast.Assign(targets=targets):
            for target in targets:
                yield from (part.id for part in python_ast.walk(target) if isinstance(part, python_ast.Name))
        case python_ast.AnnAssign(target=python_ast.Name(id=name)):
            yield name


def _names_in(node: _Definition) -> Iterator[str]:
    """The names that a definition uses, decorators and a kernel's own aside, in the same order every time."""
    if isinstance(node, python_ast.ClassDef) and (kernels := list(_kernels_of_class(node))):
        values = (value for item in node.body if _is_constant(item) for value in _names(item))
        yield from (part.id for part in values)
        for kernel in kernels:
            yield from _names_in(kernel)
        return
    if not isinstance(node, python_ast.FunctionDef):
        skipped = {id(part) for decorator in _decorators(node) for part in python_ast.walk(decorator)}
        yield from (part.id for part in _names(node) if id(part) not in skipped)
        return
    heads = (node.args, node.returns) if node.returns is not None else (node.args,)
    yield from (part.id for head in heads for part in _names(head))
    names = [part for statement in node.body for part in _names(statement)]
    own = {part.id for part in names if isinstance(part.ctx, python_ast.Store)}
    own |= {part.arg for part in python_ast.walk(node.args) if isinstance(part, python_ast.arg)}
    yield from (part.id for part in names if part.id not in own)


def _names(node: python_ast.AST) -> Iterator[python_ast.Name]:
    return (part for part in python_ast.walk(node) if isinstance(part, python_ast.Name))


def _decorators(node: python_ast.AST) -> list[python_ast.expr]:
    match node:
        case python_ast.FunctionDef() | python_ast.AsyncFunctionDef() | python_ast.ClassDef():
            return node.decorator_list
        case _:
            return []


def _decorator_name(node: python_ast.expr) -> str:
    """`triton.jit` of `@triton.jit(...)`."""
    return python_ast.unparse(node.func if isinstance(node, python_ast.Call) else node)


def _makes_kernel(decorator: python_ast.expr) -> bool:
    return makes_kernel(_decorator_name(decorator))


def _is_kernel(node: python_ast.AST) -> bool:
    return isinstance(node, python_ast.FunctionDef) and any(map(_makes_kernel, node.decorator_list))


def _is_computed(node: _Definition) -> bool:
    """Whether the compiler computes a definition, so that it may call functions of the host."""
    if isinstance(node, python_ast.FunctionDef):
        return _is_host(node) or any(map(makes_constexpr_function, map(_decorator_name, node.decorator_list)))
    return isinstance(node, python_ast.Assign | python_ast.AnnAssign)


# What of Python a function of the host may be made of to be read as one that is computed
_COMPUTABLE = (
    python_ast.arguments, python_ast.arg, python_ast.keyword, python_ast.expr_context, python_ast.operator,
    python_ast.unaryop, python_ast.boolop, python_ast.cmpop, python_ast.Return, python_ast.Assign, python_ast.AnnAssign,
    python_ast.AugAssign, python_ast.If, python_ast.For, python_ast.While, python_ast.Assert, python_ast.Raise,
    python_ast.Pass, python_ast.Expr, python_ast.Constant, python_ast.Name, python_ast.Attribute, python_ast.Subscript,
    python_ast.Slice, python_ast.Tuple, python_ast.List, python_ast.Dict, python_ast.BinOp, python_ast.UnaryOp,
    python_ast.BoolOp, python_ast.Compare, python_ast.IfExp, python_ast.Call, python_ast.JoinedStr,
    python_ast.FormattedValue,
)  # fmt: skip


def _can_be_computed(node: _Definition) -> bool:
    if not isinstance(node, python_ast.FunctionDef) or node.decorator_list:
        return False
    if node.args.vararg is not None or node.args.kwarg is not None or node.args.posonlyargs:
        return False
    parts = (part for child in python_ast.iter_child_nodes(node) for part in python_ast.walk(child))
    return all(
        isinstance(part, _COMPUTABLE)
        and not (isinstance(part, python_ast.For | python_ast.While) and part.orelse)
        and not (isinstance(part, python_ast.Dict) and None in part.keys)
        and not (isinstance(part, python_ast.keyword) and part.arg is None)
        for part in parts
    )


def _kernels_of_class(node: python_ast.AST) -> Iterator[python_ast.FunctionDef]:
    for item in node.body if isinstance(node, python_ast.ClassDef) else ():
        if isinstance(item, python_ast.FunctionDef) and _is_kernel(item):
            yield item


def _is_constant(statement: python_ast.stmt) -> bool:
    is_text = isinstance(statement, python_ast.Expr) and isinstance(statement.value, python_ast.Constant)
    return is_text or isinstance(statement, python_ast.Assign | python_ast.AnnAssign)


def _is_host(node: _Definition) -> bool:
    """Host functions are not read, nor classes that hold neither constants nor kernels."""
    match node:
        case python_ast.FunctionDef():
            return not _is_kernel(node)
        case python_ast.ClassDef(body=body):
            return not any(_is_constant(item) or _is_kernel(item) for item in body)
        case _:
            return False


def _fills_a_gap(node: _Definition) -> bool:
    """Whether a function does nothing: it stands where a version of Triton lacks what the other branch uses."""
    if not isinstance(node, python_ast.FunctionDef):
        return False
    return all(
        isinstance(statement, python_ast.Pass | python_ast.Raise)
        or (isinstance(statement, python_ast.Expr) and isinstance(statement.value, python_ast.Constant))
        or (isinstance(statement, python_ast.Return) and _is_none(statement.value))
        for statement in node.body
    )


def _is_none(value: python_ast.expr | None) -> bool:
    return value is None or (isinstance(value, python_ast.Constant) and value.value is None)


class _Offsets:
    """Python's `ast` counts columns in bytes of UTF-8; we count characters."""

    def __init__(self, source: SourceText) -> None:
        self.source = source

    def at(self, line: int, byte_column: int) -> int:
        text = self.source.line(line)
        column = byte_column if text.isascii() else len(text.encode()[:byte_column].decode())
        return self.source.starts[line - 1] + column

    def range(self, node: python_ast.stmt | python_ast.expr) -> Range:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def decorator(self, node: python_ast.expr) -> Range:
        """With its `@`."""
        start, end = self.range(node)
        return self.source.text.rindex("@", 0, start), end


def _kept_ranges(node: _Definition, offsets: _Offsets) -> Iterator[Range]:
    """A definition without the decorators and methods that are not read."""
    yield from (offsets.decorator(item) for item in _decorators(node) if _makes_kernel(item))
    start, end = offsets.range(node)
    if isinstance(node, python_ast.ClassDef):
        for first, behind in _skipped_in_class(node, offsets):
            yield start, first
            start = behind
    yield start, end


def _skipped_in_class(node: python_ast.ClassDef, offsets: _Offsets) -> Iterator[Range]:
    """What is not read of a class: all but constants and kernels, and decorators of kernels that make none."""
    for statement in node.body:
        if _is_kernel(statement):
            yield from (offsets.decorator(item) for item in _decorators(statement) if not _makes_kernel(item))
        elif not _is_constant(statement):
            first, _ = min(map(offsets.decorator, _decorators(statement)), default=offsets.range(statement))
            yield first, offsets.range(statement)[1]


def _blanked(source: SourceText, used: list[_Definition], offsets: _Offsets) -> SourceText:
    """The text with blanks for all that is not kept; line ends and white space stay."""
    pieces: list[str] = []
    indents: dict[int, str] = {}
    position = 0
    for node in used:
        indent = _blank(source.text[source.starts[node.lineno - 1] : offsets.range(node)[0]])
        for start, end in _kept_ranges(node, offsets):
            gap = _blank(source.text[position:start])
            if pieces and gap and "\n" not in gap and pieces[-1].rpartition("\n")[2].strip():
                gap = ";" + gap[1:]  # two statements on one line
            pieces += [gap, source.text[start:end]]
            position = end
            lines = range(source.position(start)[0], source.position(end)[0] + 1)
            indents.update(dict.fromkeys(lines if indent else (), indent))
    pieces.append(_blank(source.text[position:]))
    host = frozenset(node.name for node in used if isinstance(node, python_ast.FunctionDef) and _is_host(node))
    return replace(source, text="".join(pieces), indents=indents, host_functions=host)


def _blank(text: str) -> str:
    return "".join(mark if mark.isspace() else " " for mark in text)


def _remarks(source: SourceText, used: list[_Definition], offsets: _Offsets) -> Iterator[Diagnostic]:
    for node in used:
        for decorator in _decorators(node) if _is_kernel(node) else ():
            if not _makes_kernel(decorator):
                label = source.label(source.span(*offsets.decorator(decorator)))
                message = f"`@{_decorator_name(decorator)}` is skipped: constexprs come from the bench file or `--set`"
                yield error("R_DECORATOR_SKIPPED", message, label, severity="remark")
