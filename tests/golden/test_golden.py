"""Every shipped kernel, pinned: its program, ops and stages, and its op log on the smallest topology.

A change of a golden is a change of behaviour; the commit that makes it says why.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kernbench.data_files import data_dir
from kernbench.diagnostics import KernBenchError
from kernbench.forms import FORMS, forms_of
from kernbench.testing import Golden

KERNELS = sorted(path.name for path in data_dir("kernels").glob("*.tl"))
SECOND_KERNELS = ["all_reduce.tl::tree_all_reduce"]


@pytest.mark.parametrize("kernel", KERNELS + SECOND_KERNELS, ids=lambda kernel: kernel.rpartition("::")[2])
def test_kernel_is_as_it_was(kernel: str, golden: Golden) -> None:
    golden.pin(data_dir("kernels") / kernel, case="tiny")


def test_a_change_of_the_kernel_is_seen(tmp_path: Path) -> None:
    text = (data_dir("kernels") / "vector_add.tl").read_text("utf-8")
    (tmp_path / "vector_add.tl").write_text(text.replace("x + y", "x - y"))
    (tmp_path / "vector_add.yaml").write_text((data_dir("kernels") / "vector_add.yaml").read_text("utf-8"))

    changed = forms_of(tmp_path / "vector_add.tl", "tiny")
    shipped = forms_of(data_dir("kernels") / "vector_add.tl", "tiny")

    assert set(FORMS) - {"stages"} <= {form for form in FORMS if changed[form] != shipped[form]}


def test_names_and_comments_change_nothing_but_places(tmp_path: Path) -> None:
    text = (data_dir("kernels") / "vector_add.tl").read_text("utf-8")
    (tmp_path / "vector_add.tl").write_text(
        text.replace("offsets", "where_to").replace("mask = ", "mask  =  ") + "# end\n"
    )
    (tmp_path / "vector_add.yaml").write_text((data_dir("kernels") / "vector_add.yaml").read_text("utf-8"))

    changed = forms_of(tmp_path / "vector_add.tl", "tiny")["op_log"]
    shipped = forms_of(data_dir("kernels") / "vector_add.tl", "tiny")["op_log"]

    assert [_without_places(line) for line in shipped.splitlines()] == [
        _without_places(line) for line in changed.splitlines()
    ]


def test_a_kernel_is_found_beside_the_test_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    for suffix in ("tl", "yaml"):
        text = (data_dir("kernels") / f"vector_add.{suffix}").read_text("utf-8")
        (folder / f"mine.{suffix}").write_text(text.replace("vector_add.tl", "mine.tl"))
    monkeypatch.chdir(tmp_path)
    pinned: dict[str, str] = {}
    expected = forms_of(folder / "mine.tl", "tiny")

    def snapshot(name: str) -> str:
        pinned[name] = expected[name]
        return expected[name]

    Golden(snapshot, folder).pin("mine.tl", case="tiny")  # type: ignore[arg-type]

    assert list(FORMS) == list(pinned)


def test_a_kernel_without_a_bench_is_told(tmp_path: Path) -> None:
    (tmp_path / "k.tl").write_text("import triton\n")
    with pytest.raises(KernBenchError, match="no bench file beside it"):
        forms_of(tmp_path / "k.tl")
    with pytest.raises(KernBenchError, match="no kernel file"):
        forms_of(tmp_path / "other.tl")


def _without_places(line: str) -> dict[str, object]:
    import json

    record: dict[str, object] = json.loads(line)
    return {key: value for key, value in record.items() if key != "src"}
