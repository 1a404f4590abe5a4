"""The data that comes with the package is found from a checkout and from an installed wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernbench import data_files


@pytest.mark.parametrize(("kind", "name"), [("grammar", "kernel.lark"), ("kernels", "vector_add.tl")])
def test_data_of_the_checkout(kind: data_files.DataKind, name: str) -> None:
    assert (data_files.data_dir(kind) / name).is_file()


def test_installed_data_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "kernbench" / "_data" / "grammar"
    installed.mkdir(parents=True)
    monkeypatch.setattr(data_files, "files", lambda package: tmp_path / package)

    assert installed == data_files.data_dir("grammar")
    assert tmp_path / "kernels" == data_files.data_dir("kernels")
