"""What an explanation is made of: a story, an input that is wrong, and the same input put right.

Knows the kinds of input that there are and how each is shown. Does not know how any of them is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import dedent

# What every kernel file begins with; it is shown once, not in each example.
KERNEL_HEAD = "import triton\nimport triton.language as tl\nimport kernbench.language as kb\n\n\n"


def clean(text: str) -> str:
    """A text as it stands in a file, whatever the indentation of the literal."""
    return dedent(text).strip("\n") + "\n"


def file_text(text: str) -> str:
    """A kernel text with the imports that it needs."""
    body = clean(text)
    return body if "import " in body else KERNEL_HEAD + body


@dataclass(frozen=True, slots=True)
class Kernel:
    """The text of a kernel file, and the types and constexprs to compile it for."""

    text: str
    signature: str = ""  # as `--signature` takes it
    sets: str = ""  # as `--set` takes them, separated by commas

    def shown(self) -> str:
        options = f' --signature "{self.signature}"' if self.signature else ""
        options += "".join(f" --set {each.strip()}" for each in self.sets.split(",") if each)
        return f"{clean(self.text)}\n$ kernbench compile k.tl{options}\n"


@dataclass(frozen=True, slots=True)
class KernelRun:
    """A kernel file with its bench file, run on the smallest device."""

    text: str
    bench: str
    options: str = ""

    @property
    def command(self) -> str:
        return f"kernbench run k.tl -t ahbm_1x1 {self.options}".rstrip()

    def shown(self) -> str:
        return f"{clean(self.text)}\n# k.yaml\n{clean(self.bench)}\n$ {self.command}\n"


@dataclass(frozen=True, slots=True)
class Topology:
    """The text of a topology file."""

    text: str

    def shown(self) -> str:
        return clean(self.text)


@dataclass(frozen=True, slots=True)
class Bench:
    """The text of a bench file."""

    text: str

    def shown(self) -> str:
        return clean(self.text)


@dataclass(frozen=True, slots=True)
class Messages:
    """Host messages as JSON Lines; `on_device` where the smallest device has to take them to see what is wrong."""

    text: str
    on_device: bool = False

    def shown(self) -> str:
        return clean(self.text)


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression of a bench file or of `--set`."""

    text: str

    def shown(self) -> str:
        return f"{self.text}\n"


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line, and the files that it meets in its folder."""

    command: str
    files: Mapping[str, str | bytes] = field(default_factory=dict)

    def shown(self) -> str:
        texts = [f"# {name}\n{_file_shown(data)}\n" for name, data in self.files.items()]
        return f"{''.join(texts)}$ {self.command}\n"


@dataclass(frozen=True, slots=True)
class Python:
    """A script that uses the package as `kb` and NumPy as `np`, and the kernel file `k.tl`, where it has one."""

    text: str
    kernel: str = ""

    def shown(self) -> str:
        kernel = f"# k.tl\n{clean(self.kernel)}\n" if self.kernel else ""
        return kernel + clean(self.text)


Example = Kernel | KernelRun | Topology | Bench | Messages | Expression | CommandLine | Python


def _file_shown(data: str | bytes) -> str:
    return clean(data) if isinstance(data, str) else f"{data!r}\n"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The long story of an error code.

    `story` says what the rule is and why there is one. `says` is the headline of the diagnostic that `wrong` gets.
    An error that no small input can raise has `no_example`, the reason, instead of examples.
    """

    code: str
    story: str
    wrong: Example | None = None
    says: str = ""
    right: Example | None = None
    no_example: str | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """A model or a word that people meet: what it assumes, where it is exact, where it is not."""

    name: str
    title: str
    story: str


@dataclass(frozen=True, slots=True)
class Metric:
    """A key of `run --json`, or a term of its `terms_ns`."""

    name: str
    story: str
