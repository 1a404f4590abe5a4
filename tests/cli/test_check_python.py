"""`check FILE.py::NAME`: one kernel of a Python file, with what it imports from the files beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernbench.data_files import data_dir
from tests.cli.test_commands import call

HEAD = "import torch\nimport triton\nimport triton.language as tl\nfrom .helpers import half\n\n"
FILE = HEAD + (
    "@triton.jit\ndef good(x_ptr):\n    tl.store(x_ptr, half(tl.load(x_ptr)))\n\n"
    "@triton.jit\ndef bad(x_ptr):\n    tl.store(x_prt, 1)\n\n"
    "def host(x):\n    return {**x}\n"
)


@pytest.mark.parametrize(
    ("asked", "code", "told"),
    [
        ("::good", 0, ""),
        ("::bad", 3, "did you mean `x_ptr`?"),
        ("", 3, "did you mean `x_ptr`?"),
        ("::godo", 3, "no kernel `godo`"),
        ("::host", 3, "no kernel `host`"),
    ],
)
def test_one_kernel_is_checked(
    asked: str, code: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "helpers.py").write_text(HEAD.replace("from .helpers import half\n", "") + "half = 2\n")
    (tmp_path / "k.py").write_text(FILE)

    found, _, err = call(capsys, "check", f"{tmp_path / 'k.py'}{asked}")

    assert (code, True) == (found, told in err)


def test_a_kernel_name_behind_another_kind_of_file_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    bench = data_dir("kernels") / "softmax.yaml"

    found, _, err = call(capsys, "check", f"{bench}::softmax")

    assert found == 2
    assert "is no kernel file, so `softmax` is not looked for in it" in err
