"""Helpers and constants that a kernel's file imports from other files on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernbench.compiler.pipeline import CompiledKernel
from kernbench.diagnostics import Diagnostic, KernBenchError
from kernbench.kernel import make_kernel

HEAD = "import torch\nimport triton\nimport triton.language as tl\n"
KERNEL = """\
@triton.jit
def kernel(x_ptr):
    i = tl.arange(0, 16)
    tl.store(x_ptr + i, {value})
"""
DOUBLE = HEAD + "@triton.jit\ndef double(x):\n    return x * 2\n"


def lay_out(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def build(folder: Path, imports: str, value: str, main: str = "pkg/ops/k.py", **files: str) -> CompiledKernel:
    lay_out(folder, {main: HEAD + imports + KERNEL.format(value=value)})
    return make_kernel(f"{folder / main}::kernel").specialise({"x_ptr": "*fp32"})


def wrong(folder: Path, imports: str, value: str) -> Diagnostic:
    with pytest.raises(KernBenchError) as caught:
        build(folder, imports, value)
    return caught.value.diagnostics[0]


@pytest.mark.parametrize(
    ("imports", "value"),
    [
        ("from .utils import Sum\n", "Sum.forward(i)"),
        ("from . import utils\n", "utils.Sum.forward(i)"),
        ("from pkg import ops\n", "ops.inner.Sum.forward(i)"),
        ("from pkg import ops\n", "ops.Sum.forward(i)"),
    ],
)
def test_kernels_of_classes_of_other_files(tmp_path: Path, imports: str, value: str) -> None:
    text = f"{HEAD}class Sum:\n    @staticmethod\n    @triton.jit\n    def forward(x):\n        return x + x\n"
    package = "from . import inner\nfrom .inner import *\n"
    lay_out(tmp_path, {"pkg/ops/utils.py": text, "pkg/ops/inner.py": text, "pkg/ops/__init__.py": package})
    lay_out(tmp_path, {"pkg/__init__.py": ""})

    assert build(tmp_path, imports, value).residual.body


@pytest.mark.parametrize(
    ("imports", "value"),
    [
        ("from .utils import double\n", "double(i)"),
        ("from .utils import double as twice\n", "twice(i)"),
        ("from .utils import *\n", "double(i)"),
        ("from . import utils\n", "utils.double(i)"),
        ("from .. import ops\n", "ops.utils.double(i)"),
        ("from pkg.ops.utils import double\n", "double(i)"),
        ("import pkg.ops.utils\n", "pkg.ops.utils.double(i)"),
        ("import pkg.ops.utils as u\n", "u.double(i)"),
        ("from ..again import double\n", "double(i)"),
        ("from ..again import renamed\n", "renamed(i)"),
        (
            "try:\n    from torch.nowhere import double\nexcept ImportError:\n    from .utils import double\n",
            "double(i)",
        ),
        ("try:\n    from .utils import double\nexcept ImportError:\n    double = None\n", "double(i)"),
    ],
)
def test_ways_to_import(tmp_path: Path, imports: str, value: str) -> None:
    again = "from .ops.utils import *\nfrom .ops.utils import double as renamed\n"
    lay_out(tmp_path, {"pkg/__init__.py": "", "pkg/again.py": again, "pkg/ops/utils.py": DOUBLE})
    written_out = HEAD + KERNEL.format(value="i * 2")

    compiled = build(tmp_path, imports, value)

    plain = make_kernel(written_out).specialise({"x_ptr": "*fp32"})
    assert len(plain.program.body) == len(compiled.program.body)
    assert [type(each) for each in plain.program.body] == [type(each) for each in compiled.program.body]


def test_a_package_gives_its_names_before_its_modules(tmp_path: Path) -> None:
    one = HEAD + "@triton.jit\ndef one(x):\n    return x + 1\n"
    lay_out(tmp_path, {"pkg/ops/part/__init__.py": "from .one import one\n", "pkg/ops/part/one.py": one})

    assert build(tmp_path, "from .part import one\n", "one(i)").program.body


def test_constants_and_classes_of_constants(tmp_path: Path) -> None:
    names = HEAD + "import os\nBASE = 3\nWIDTH = tl.constexpr(BASE + 1)\nclass Kind:\n    A = 5\n"
    lay_out(tmp_path, {"pkg/ops/names.py": names})

    residual = build(tmp_path, "from .names import WIDTH, Kind\n", "i + WIDTH * Kind.A").residual

    plain = make_kernel(HEAD + KERNEL.format(value="i + 20")).specialise({"x_ptr": "*fp32"}).residual
    assert len(plain.body) == len(residual.body)


def test_a_kernel_file_imports_a_kernel_file(tmp_path: Path) -> None:
    lay_out(tmp_path, {"ours/helpers.tl": DOUBLE.replace("import torch\n", "")})
    main = HEAD.replace("import torch\n", "") + "from .helpers import double\n" + KERNEL.format(value="double(i)")
    lay_out(tmp_path, {"ours/k.tl": main})

    assert make_kernel(tmp_path / "ours/k.tl").specialise({"x_ptr": "*fp32"}).program.body


def test_places_are_in_the_imported_file(tmp_path: Path) -> None:
    bad = HEAD + "@triton.jit\ndef bad(x):\n    return tl.nothing(x)\n"
    lay_out(tmp_path, {"pkg/ops/utils.py": bad})

    found = wrong(tmp_path, "from .utils import bad\n", "bad(i)")

    assert found.primary is not None and "tl.nothing" in found.primary.source
    assert str(tmp_path / "pkg/ops/utils.py") == found.primary.span.file and 6 == found.primary.span.line
    assert ["pkg/ops/k.py"] == [str(Path(each.span.file).relative_to(tmp_path)) for each in found.secondary]


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    lower = HEAD + "@triton.jit\ndef low(x):\n    return tl.nothing(x)\n"
    middle = HEAD + "from .deep.k import low\n@triton.jit\ndef mid(x):\n    return low(x)\n"
    lay_out(tmp_path, {"pkg/ops/deep/k.py": lower, "pkg/ops/mid.py": middle})

    found = wrong(tmp_path, "from .mid import mid\n", "mid(i)")

    assert found.primary is not None and "tl.nothing" in found.primary.source
    assert str(tmp_path / "pkg/ops/deep/k.py") == found.primary.span.file


def test_what_is_not_used_may_be_wrong(tmp_path: Path) -> None:
    lay_out(tmp_path, {"pkg/ops/utils.py": DOUBLE + "@triton.jit\ndef bad(x):\n    yield {**x}\n"})

    assert build(tmp_path, "from .utils import double, bad, absent\n", "double(i)").program.body


@pytest.mark.parametrize(
    ("imports", "value", "code", "says"),
    [
        ("from .utils import host\n", "host(i)", "E_FOREIGN_NAME", "is host code"),
        ("from .utils import absent\n", "absent(i)", "E_UNKNOWN_NAME", "has no `absent`"),
        ("from . import utils\n", "utils.absent(i)", "E_UNKNOWN_NAME", "`.utils` (file `utils.py`) has no `absent`"),
        ("from .utils import circle\n", "circle(i)", "E_UNKNOWN_NAME", "in a circle"),
        ("from .utils import circle\n", "circle.x(i)", "E_UNKNOWN_NAME", "in a circle"),
        ("from .elsewhere import f\n", "f(i)", "E_FOREIGN_NAME", "imported from `.elsewhere`"),
        ("from .broken import f\n", "f(i)", "E_SYNTAX", "no Python"),
        ("from .binary import f\n", "f(i)", "E_SOURCE_ENCODING", "not UTF-8"),
        ("from ......far import f\n", "f(i)", "E_FOREIGN_NAME", "......far"),
    ],
)
def test_refusals(tmp_path: Path, imports: str, value: str, code: str, says: str) -> None:
    utils = DOUBLE + "from .other import circle\ndef host(x):\n    return x\n"
    lay_out(tmp_path, {"pkg/ops/utils.py": utils, "pkg/ops/other.py": "from .utils import circle\n"})
    lay_out(tmp_path, {"pkg/ops/broken.py": "def f(:\n"})
    (tmp_path / "pkg/ops/binary.py").write_bytes(b"f = '\xff'\n")

    found = wrong(tmp_path, imports, value)

    assert code == found.code and says in found.message


def test_no_import_leads_out_of_a_repository(tmp_path: Path) -> None:
    lay_out(tmp_path, {"utils.py": DOUBLE, "pkg/.git/HEAD": ""})

    assert "E_FOREIGN_NAME" == wrong(tmp_path, "from utils import double\n", "double(i)").code


@pytest.mark.parametrize("module", ["." + "a" * 5000, ".." + ".".join(["a" * 200] * 40), "a" * 5000, "." * 99 + "a"])
def test_modules_that_no_file_can_be(tmp_path: Path, module: str) -> None:
    assert wrong(tmp_path, f"from {module} import f\n", "f(i)").code == "E_FOREIGN_NAME"


def test_dots_do_not_lead_out_of_a_repository(tmp_path: Path) -> None:
    lay_out(tmp_path, {"repo/.git/HEAD": "", "repo/inside.py": DOUBLE, "outside.py": DOUBLE})

    assert build(tmp_path, "from ...inside import double\n", "double(i)", "repo/pkg/ops/k.py").program.body
    with pytest.raises(KernBenchError, match=r"`double` is imported from `\.\.\.\.outside`"):
        build(tmp_path, "from ....outside import double\n", "double(i)", "repo/pkg/ops/k.py")


def lay_out_linked(tmp_path: Path, linked: str, where: str) -> str:
    """An import of what is linked to from within `repo`, which is itself reached by a link."""
    lay_out(tmp_path, {"real/.git/HEAD": "", "real/pkg/__init__.py": "", f"real/{where}pkg/ops/utils.py": DOUBLE})
    (tmp_path / "repo").symlink_to("real")
    (tmp_path / "real" / linked).parent.mkdir(exist_ok=True, parents=True)
    (tmp_path / "real" / linked).symlink_to(tmp_path / "real" / where / linked)
    return "from pkg.ops.utils import double\n"


@pytest.mark.parametrize("linked", ["pkg/ops/utils.py", "pkg/ops"])
def test_a_link_may_lead_to_a_file_of_the_repository(tmp_path: Path, linked: str) -> None:
    imports = lay_out_linked(tmp_path, linked, "inside/")

    assert build(tmp_path, imports, "double(i)", "repo/pkg/k.py").program.body


@pytest.mark.parametrize("linked", ["pkg/ops/utils.py", "pkg/ops"])
def test_a_link_does_not_lead_out_of_a_repository(tmp_path: Path, linked: str) -> None:
    imports = lay_out_linked(tmp_path, linked, "../outside/")

    with pytest.raises(KernBenchError, match="is a link that leads out of the repository") as caught:
        build(tmp_path, imports, "double(i)", "repo/pkg/k.py")
    (found,) = caught.value.diagnostics
    assert "E_FOREIGN_NAME" == found.code
    assert found.primary is not None and found.primary.source + "\n" == imports


def test_without_a_repository_links_lead_anywhere(tmp_path: Path) -> None:
    lay_out(tmp_path, {"outside.py": DOUBLE, "pkg/__init__.py": ""})
    (tmp_path / "pkg/utils.py").symlink_to(tmp_path / "outside.py")

    assert build(tmp_path, "from .utils import double\n", "double(i)", "pkg/k.py").program.body


@pytest.mark.parametrize(
    ("imports", "value", "lines"),
    [
        ("from .huge import double\n", "double(i)", ["from .huge import double"]),
        ("from .huge import *\n", "double(i)", ["from .huge import *"]),
        ("from .over import double\n", "double(i)", ["from .huge import double", "from .over import double"]),
        ("from .over import C\n", "i + C.x", ["from .huge import C", "from .over import C"]),
        ("from . import huge\n", "huge.double(i)", ["from . import huge"]),
        ("from . import huge\n", "i + huge.C.x", ["from . import huge"]),
        ("import pkg.ops.huge\n", "pkg.ops.huge.double(i)", ["import pkg.ops.huge"]),
    ],
)
def test_an_unreadable_file_is_told_at_the_imports_that_lead_to_it(
    tmp_path: Path, imports: str, value: str, lines: list[str]
) -> None:
    over = "from .huge import double\nfrom .huge import C\n"
    lay_out(tmp_path, {"pkg/ops/huge.py": DOUBLE + "#" * (1 << 20), "pkg/ops/over.py": over})

    for times in (value, f"{value} + {value}"):
        with pytest.raises(KernBenchError) as caught:
            build(tmp_path, imports, times)
        assert ["E_SOURCE_TOO_LARGE"] == [each.code for each in caught.value.diagnostics]
        (found,) = caught.value.diagnostics
        assert found.primary is not None
        assert lines == [found.primary.source, *(each.source for each in found.secondary)]


def test_of_a_file_that_is_far_too_large_little_is_read(tmp_path: Path) -> None:
    lay_out(tmp_path, {"pkg/ops/huge.py": DOUBLE})
    with (tmp_path / "pkg/ops/huge.py").open("r+b") as file:
        file.truncate(1 << 40)

    assert wrong(tmp_path, "from .huge import double\n", "double(i)").code == "E_SOURCE_TOO_LARGE"


@pytest.mark.parametrize("suffix", ["py", "tl"])
def test_all_of_a_file_has_all_that_it_imports_so(tmp_path: Path, suffix: str) -> None:
    half = HEAD + "@triton.jit\ndef half(x):\n    return x // 2\n@triton.jit\ndef double(x):\n    return tl.no(x)\n"
    around = "from .half import *\nfrom .around import *\n"
    lay_out(tmp_path, {f"pkg/ops/half.{suffix}": half, f"pkg/ops/around.{suffix}": around + DOUBLE})

    assert build(tmp_path, "from .around import *\n", "double(half(i))").program.body  # the nearer `double`
    assert wrong(tmp_path, "from .around import *\n", "nothing(i)").code == "E_UNKNOWN_NAME"


def test_what_is_wrong_with_a_file_of_which_all_is_imported(tmp_path: Path) -> None:
    lay_out(tmp_path, {"pkg/ops/broken.py": DOUBLE + "def broken(:\n", "pkg/ops/over.py": "from .broken import *\n"})

    for name in ("broken", "over"):
        found = wrong(tmp_path, f"from .{name} import *\n", "double(i)")
        assert found.code == "E_SYNTAX"
        assert found.primary is not None and found.primary.span.file.endswith("broken.py")
        assert build(tmp_path, f"from .{name} import *\n", "i + 1").program.body


def test_constants_of_a_class_with_a_method_of_one_line(tmp_path: Path) -> None:
    lay_out(tmp_path, {"pkg/ops/c.py": "class C:\n    def f(self): pass\n    A = 4\n    def g(self): return 1\n"})

    assert build(tmp_path, "from .c import C\n", "i + C.A").program.body


@pytest.mark.parametrize(
    ("imports", "value", "module"),
    [
        ("import pkg.ops.utils\n", "pkg.ops.no", "pkg.ops"),
        ("import pkg.ops.utils as u\n", "u.no", "pkg.ops.utils"),
        ("from . import utils\n", "utils.no", ".utils"),
    ],
)
def test_modules_are_told_by_their_own_names(tmp_path: Path, imports: str, value: str, module: str) -> None:
    lay_out(tmp_path, {"pkg/ops/__init__.py": "", "pkg/ops/utils.py": DOUBLE})

    assert wrong(tmp_path, imports, value).message.startswith(f"module `{module}` (file")


def test_folders_of_the_root_of_the_file_system_are_no_modules(tmp_path: Path) -> None:
    found = wrong(tmp_path, "import sys\n", "i + sys.maxsize")

    assert ("E_FOREIGN_NAME", True) == (found.code, "imported as module `sys`" in found.message)
