"""Pieces of kernels that mean something: expressions of a wanted kind, and statements made of them.

Each is text for one symbol of the grammar; `generator.py` puts them in place of what it would derive there. Knows the
words of the language. Does not know the grammar.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

HEAD = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n\n"
HELPERS = '''@triton.jit
def pick(a, b, FLAG: tl.constexpr = 1):
    """One of two, or both together."""
    if FLAG == 0:
        return a
    if FLAG == 1:
        return a + b
    return b


@triton.jit
def both(a, b):
    return a - b, a * 2


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


'''
PARAMS = "x_ptr, y_ptr, h_ptr, i_ptr, c_ptr, n, k, alpha, BLOCK: tl.constexpr, FLAG: tl.constexpr"
TYPES = (
    "float32", "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "int1",
    "float8e4nv", "float8e5",
)  # fmt: skip
KINDS = ("int", "float", "const", "block", "iblock", "mask", "tile", "itile")
START: dict[str, list[str]] = {
    "int": ["n", "k"], "float": ["alpha"], "const": ["BLOCK", "FLAG"], "block": [], "iblock": ["offs"],
    "mask": ["inside"], "tile": [], "itile": ["places"],
}  # fmt: skip
UNARY = ("exp", "exp2", "log", "sqrt", "rsqrt", "sin", "cos", "erf", "abs", "floor", "ceil", "sigmoid", "rint")
LIBDEVICE = ("acos", "cbrt", "expm1", "log1p", "sinh", "round", "lgamma", "tanh", "isinf", "signbit", "erfinv")
FOLDS = ("sum", "max", "min", "argmax", "argmin")


@dataclass
class Words:
    """The names that a kernel under way has, by what they stand for, and the texts made of them."""

    rng: Random
    names: dict[str, list[str]] = field(default_factory=lambda: {kind: list(names) for kind, names in START.items()})
    count: int = 0

    def fresh(self, kind: str) -> str:
        self.count += 1
        name = f"{kind[0]}{self.count}"
        self.names[kind].append(name)
        return name

    def any_name(self) -> str:
        return self.rng.choice([name for names in self.names.values() for name in names])

    # ---- expressions

    def text(self, kind: str, depth: int = 3) -> str:
        """An expression of a kind, most of the time."""
        if self.rng.random() < 0.02:
            kind = self.rng.choice(KINDS)
        if self.rng.random() < 0.25 or depth <= 0:
            return self.plain(kind)
        return str(getattr(self, f"_{kind}")(depth - 1))

    def plain(self, kind: str) -> str:
        """A name, or the simplest text of a kind."""
        names = self.names[kind]
        if names and self.rng.random() < 0.8:
            return self.rng.choice(names)
        simplest: dict[str, Callable[[], str]] = {
            "int": lambda: self.rng.choice(("0", "1", "2", "3", "7", "tl.program_id(0)", "-1", "tl.num_programs(0)")),
            "float": lambda: self.rng.choice(("0.0", "1.0", "-2.5", "0.125", "alpha")),
            "const": lambda: self.rng.choice(("0", "1", "2", "4", "BLOCK", "FLAG", "BLOCK // 2", "2 * BLOCK")),
            "block": lambda: "tl.zeros((BLOCK,), tl.float32)",
            "iblock": lambda: "tl.arange(0, BLOCK)",
            "mask": lambda: "(offs < n)",
            "tile": lambda: "tl.full((BLOCK, BLOCK), 1.5, tl.float32)",
            "itile": lambda: "(offs[:, None] * BLOCK + offs[None, :])",
        }
        return simplest[kind]()

    def _operator(self, kind: str, depth: int, operators: tuple[str, ...]) -> str:
        return f"({self.text(kind, depth)} {self.rng.choice(operators)} {self.text(kind, depth)})"

    def _int(self, depth: int) -> str:
        forms: tuple[Callable[[], str], ...] = (
            lambda: self._operator("int", depth, ("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>")),
            lambda: f"tl.cdiv({self.text('int', depth)}, {self.text('const', depth)})",
            lambda: f"tl.load(i_ptr + {self.text('int', depth)})",
            lambda: f"min({self.text('int', depth)}, {self.text('int', depth)})",
            lambda: f"tl.sum({self.text('iblock', depth)}, axis=0)",
            lambda: f"({self.text('int', depth)} if {self.condition(depth)} else {self.text('int', depth)})",
            lambda: f"({self.text('int', depth)}).to(tl.{self.rng.choice(('int64', 'int8', 'uint32'))})",
        )
        return self.rng.choice(forms)()

    def _float(self, depth: int) -> str:
        forms: tuple[Callable[[], str], ...] = (
            lambda: self._operator("float", depth, ("+", "-", "*", "/")),
            lambda: f"tl.{self.rng.choice(FOLDS[:3])}({self.text('block', depth)}, axis=0)",
            lambda: f"tl.load(x_ptr + {self.text('int', depth)})",
            lambda: f"tl.{self.rng.choice(UNARY)}({self.text('float', depth)})",
            lambda: f"pick({self.text('float', depth)}, {self.text('float', depth)}, {self.text('const', 0)})",
        )
        return self.rng.choice(forms)()

    def _const(self, depth: int) -> str:
        return self._operator("const", depth, ("+", "-", "*", "//", "%", "**", "<<"))

    def _elementwise(self, kind: str, scalar: str, depth: int) -> str:
        choice = self.rng.randrange(8)
        one = self.text(kind, depth)
        if choice <= 1:
            return self._operator(kind, depth, ("+", "-", "*", "/", "%"))
        if choice == 2:
            return f"({one} {self.rng.choice('+-*/')} {self.text(scalar, depth)})"
        if choice == 3:
            return f"tl.{self.rng.choice(UNARY)}({one})"
        if choice == 4:
            return f"libdevice.{self.rng.choice(LIBDEVICE)}({one})"
        if choice == 5:
            return f"({one}).to(tl.{self.rng.choice(TYPES)})"
        if choice == 6:
            return f"tl.{self.rng.choice(('maximum', 'minimum', 'fma', 'div_rn'))}({one}, {self.text(kind, depth)})"
        return f"tl.where({self.text('mask', depth)}, {one}, {self.text(scalar, depth)})"

    def _block(self, depth: int) -> str:
        forms: tuple[Callable[[], str], ...] = (
            *[lambda: self._elementwise("block", "float", depth)] * 4,
            *[lambda: self._load(self.text("iblock", depth), depth)] * 3,
            lambda: f"tl.cumsum({self.text('block', depth)}, {self.rng.choice(('0', 'axis=0, reverse=True'))})",
            lambda: f"tl.{self.rng.choice(('sort', 'flip', 'softmax'))}({self.text('block', depth)})",
            lambda: f"tl.{self.rng.choice(FOLDS)}({self.text('tile', depth)}, axis={self.rng.choice('011')})",
            lambda: f"tl.reduce({self.text('tile', depth)}, 0, larger)",
            lambda: f"tl.associative_scan({self.text('block', depth)}, 0, larger)",
            lambda: f"tl.gather({self.text('block', depth)}, {self.text('iblock', depth)} % BLOCK, 0)",
            lambda: f"pick({self.text('block', depth)}, {self.text('block', depth)}, FLAG={self.text('const', 0)})",
            lambda: f"tl.rand({self.text('int', 0)}, {self.text('iblock', depth)})",
            lambda: f"tl.ravel(tl.join({self.text('block', depth)}, 1.0))",
        )
        return self.rng.choice(forms)()

    def _load(self, where: str, depth: int, masked: str = "mask") -> str:
        pointer = self.rng.choice(("x_ptr", "h_ptr", "x_ptr", "i_ptr"))
        mask = self.rng.choice(("", f", mask={self.text(masked, depth)}", ", mask=offs < n"))
        other = self.rng.choice(("", f", other={self.text('float', 0)}")) if mask else ""
        return f"tl.load({pointer} + {where}{mask}{other})"

    def _iblock(self, depth: int) -> str:
        forms: tuple[Callable[[], str], ...] = (
            lambda: self._operator("iblock", depth, ("+", "-", "*", "//", "%", "&", "|", "^", ">>")),
            lambda: (
                f"({self.text('iblock', depth)} {self.rng.choice(('+', '*', '//', '%'))} {self.text('int', depth)})"
            ),
            lambda: f"({self.text('int', depth)} * BLOCK + tl.arange(0, BLOCK))",
            lambda: f"tl.load(i_ptr + {self.text('iblock', depth)})",
            lambda: f"({self.text('block', depth)}).to(tl.int32)",
            lambda: f"tl.where({self.text('mask', depth)}, {self.text('iblock', depth)}, 0)",
            lambda: f"tl.histogram({self.text('iblock', depth)}, BLOCK)",
        )
        return self.rng.choice(forms)()

    def _mask(self, depth: int) -> str:
        forms: tuple[Callable[[], str], ...] = (
            lambda: f"({self.text('iblock', depth)} {self.rng.choice(('<', '>=', '=='))} {self.text('int', depth)})",
            lambda: f"({self.text('block', depth)} > {self.text('float', depth)})",
            lambda: f"({self.text('mask', depth)} {self.rng.choice('&|^')} {self.text('mask', depth)})",
            lambda: f"(~{self.text('mask', depth)})",
        )
        return self.rng.choice(forms)()

    def _tile(self, depth: int) -> str:
        forms: tuple[Callable[[], str], ...] = (
            *[lambda: self._elementwise("tile", "float", depth)] * 2,
            lambda: (
                f"({self.text('block', depth)}[:, None] {self.rng.choice('+-*')} {self.text('block', depth)}[None, :])"
            ),
            lambda: f"tl.dot({self.text('tile', depth)}, {self.text('tile', depth)})",
            lambda: f"tl.trans({self.text('tile', depth)})",
            lambda: f"tl.load(x_ptr + {self.text('itile', depth)})",
            lambda: f"tl.load(x_ptr + {self.text('itile', depth)}, mask=places < n, other=0.0)",
            lambda: f"tl.broadcast_to({self.text('block', depth)}[None, :], (BLOCK, BLOCK))",
            lambda: f"tl.cumsum({self.text('tile', depth)}, axis={self.rng.choice('01')})",
            lambda: f"tl.reshape({self.text('tile', depth)}, (BLOCK, BLOCK))",
        )
        return self.rng.choice(forms)()

    def _itile(self, depth: int) -> str:
        forms: tuple[Callable[[], str], ...] = (
            lambda: (
                f"({self.text('iblock', depth)}[:, None] * {self.text('int', 0)} + {self.text('iblock', 0)}[None, :])"
            ),
            lambda: self._operator("itile", depth, ("+", "*", "//", "%")),
        )
        return self.rng.choice(forms)()

    def condition(self, depth: int) -> str:
        """A scalar that may be true or false, known early or late."""
        forms: tuple[Callable[[], str], ...] = (
            lambda: f"FLAG {self.rng.choice(('==', '!=', '<'))} {self.rng.choice('012')}",
            lambda: f"tl.program_id(0) {self.rng.choice(('==', '<', '>'))} {self.text('int', 0)}",
            lambda: f"{self.text('int', depth)} {self.rng.choice(('<', '>', '=='))} {self.text('int', depth)}",
            lambda: f"{self.text('float', depth)} > {self.text('float', depth)}",
            lambda: f"not ({self.text('int', 0)} > 1)",
            lambda: f"BLOCK > {self.rng.choice(('4', '8', '16'))} and {self.text('int', 0)} < n",
        )
        return self.rng.choice(forms)()

    # ---- statements of one line

    def statement(self) -> str:
        forms: tuple[tuple[Callable[[], str], int], ...] = (
            (self._assign, 10),
            (self._augment, 4),
            (self._store, 6),
            (self._unpack, 1),
            (self._atomic, 2),
            (self._assert, 1),
            (self._composite, 1),
            (self._message, 1),
            (self._pointer_step, 1),
            (self._block_pointer, 1),
            (self._descriptor, 1),
            (self._pair, 1),
        )
        makers, weights = zip(*forms, strict=True)
        maker: Callable[[], str] = self.rng.choices(makers, weights)[0]
        return maker()

    def _assign(self) -> str:
        kind = self.rng.choice(KINDS)
        value = self.text(kind)
        names = self.names[kind]
        name = self.rng.choice(names) if names and self.rng.random() < 0.4 else self.fresh(kind)
        return f"{name} = {value}"

    def _augment(self) -> str:
        kind = self.rng.choice(("int", "float", "block", "iblock", "tile"))
        names = self.names[kind]
        if not names:
            return self._assign()
        return f"{self.rng.choice(names)} {self.rng.choice(('+=', '-=', '*=', '//=', '/='))} {self.text(kind, 2)}"

    def _store(self) -> str:
        pointer = self.rng.choice(("y_ptr", "y_ptr", "h_ptr", "c_ptr"))
        kind, places = self.rng.choice((("block", "iblock"), ("tile", "itile"), ("float", "int"), ("iblock", "iblock")))
        mask = f", mask={self.text('mask', 1)}" if places == "iblock" and self.rng.random() < 0.5 else ""
        where = self.plain(places) if self.rng.random() < 0.7 else self.text(places, 2)
        return f"tl.store({pointer} + {where}, {self.text(kind)}{mask})"

    def _unpack(self) -> str:
        kind = self.rng.choice(("float", "block", "int"))
        call = f"both({self.text(kind, 2)}, {self.text(kind, 2)})"
        return f"{self.fresh(kind)}, {self.fresh(kind)} = {call}"

    def _atomic(self) -> str:
        kind = self.rng.choice(("add", "max", "min", "and", "or", "xor", "xchg"))
        places, value = self.rng.choice((("iblock", "iblock"), ("int", "int")))
        return f"tl.atomic_{kind}(c_ptr + {self.plain(places)}, {self.text(value, 2)})"

    def _assert(self) -> str:
        return f"assert {self.condition(1)}, f'at {{{self.plain('int')}}}'"

    def _composite(self) -> str:
        a = self.rng.choice(("tl.ref(x_ptr, (BLOCK, BLOCK))", self.plain("tile")))
        b = self.rng.choice(("tl.ref(x_ptr, (BLOCK, BLOCK), strides=(1, BLOCK))", self.plain("tile")))
        op = self.rng.choice(("add", "mul", "exp", "max", "rmax", "cast"))
        operands = "" if op in ("exp", "rmax") else f', "other": {self.plain(self.rng.choice(("float", "tile")))}'
        last = self.rng.choice(("", f', epilogue=[{{"op": "{op}"{operands}}}]'))
        return f'{self.fresh("tile")} = tl.composite(op="gemm", a={a}, b={b}{last})'

    def _message(self) -> str:
        if self.rng.random() < 0.5:
            return f"tl.send({self.plain('block')}, to={self.plain('int')})"
        received = f"tl.recv((BLOCK,), tl.float32, source={self.plain('int')})"
        return f"{self.fresh('block')} = {received}"

    def _pointer_step(self) -> str:
        return f"{self.rng.choice(('x_ptr', 'y_ptr', 'i_ptr'))} += {self.text('int', 1)}"

    def _block_pointer(self) -> str:
        """Made, moved, read and written through in one line."""
        place = f"({self.text('int', 1)}, {self.text('int', 1)})"
        made = f"tl.make_block_ptr(x_ptr, (n, BLOCK), (BLOCK, 1), {place}, (BLOCK, BLOCK), (1, 0))"
        if self.rng.random() < 0.5:
            made = f"tl.advance({made}, ({self.text('int', 0)}, {self.text('const', 0)}))"
        checks = self.rng.choice(("", ", boundary_check=(0, 1)", ", boundary_check=(0,), padding_option='zero'"))
        if self.rng.random() < 0.3:
            return f"tl.store({made.replace('x_ptr', 'y_ptr')}, {self.text('tile', 1)}{checks.partition(', pad')[0]})"
        return f"{self.fresh('tile')} = tl.load({made}{checks})"

    def _descriptor(self) -> str:
        made = "tl.make_tensor_descriptor(x_ptr, (16, 16), (16, 1), (BLOCK, BLOCK))"
        place = f"[{self.text('int', 1)}, {self.text('int', 0)}]"
        if self.rng.random() < 0.3:
            return f"{made.replace('x_ptr', 'y_ptr')}.store({place}, {self.text('tile', 1)})"
        return f"{self.fresh('tile')} = {made}.load({place})"

    def _pair(self) -> str:
        """Functions that give or take several blocks."""
        kind = self.rng.choice(("block", "iblock"))
        one, other = self.text(kind, 1), self.text(kind, 1)
        forms = (
            f"tl.split(tl.join({one}, {other}))",
            f"tl.split(tl.reshape({one}, (BLOCK // 2, 2)))",
            f"tl.max({one}, axis=0, return_indices=True)",
            f"tl.associative_scan(({one}, {other}), 0, both)",
            f"tl.reduce(({one}, {other}), 0, both)",
            f"({one}, {other})",
        )
        value = self.rng.choice(forms)
        return f"{self.fresh(kind)}, {self.fresh(kind)} = {value}"

    # ---- headers of blocks; `{}` takes what stands in the block

    def header(self) -> str:
        forms: tuple[Callable[[], tuple[str, str]], ...] = (
            lambda: ("int", f"range({self.rng.choice(('', '0, ', '1, '))}{self.text('int', 1)})"),
            lambda: ("int", f"range(0, {self.plain('const')}, {self.rng.choice('123')})"),
            lambda: ("const", f"tl.static_range({self.rng.choice(('2', '3', 'FLAG', '0'))})"),
            lambda: ("int", f"tl.range(0, n, BLOCK, num_stages={self.rng.choice('123')})"),
            lambda: ("", f"if {self.condition(1)}:"),
            lambda: ("", f"if {self.condition(1)}:"),
            lambda: ("", "with tl.scratch_scope():"),
            lambda: ("", f"while {self.condition(1)}:"),
        )
        kind, text = self.rng.choice(forms)()
        return f"for {self.fresh(kind)} in {text}:" if kind else text
