"""Who may import whom: the table of ARCHITECTURE.md, held."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "kernbench"

LEAVES = (
    "address_map",
    "binary",
    "binary_codec",
    "command_words",
    "commands",
    "data_files",
    "diagnostics",
    "dtypes",
    "elementary",
    "message_fields",
    "message_text",
    "messages",
    "micro_op_check",
    "micro_ops",
    "numerics",
    "program_check",
    "rearranging",
    "stores",
    "version",
    "yaml_schema",
    "yaml_source",
)
HALVES = ("compiler", "runtime", "sim")
JOINTS = (
    "explain",
    "forms",
    "kernel",
    "launch",
    "probe",
    "report",
    "run",
    "run_arguments",
    "session",
    "testing",
)
FORBIDDEN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(LEAVES, (*HALVES, *JOINTS, "cli")),
    "compiler": ("runtime", "sim", *JOINTS, "cli"),
    "runtime": ("compiler", "sim", *JOINTS, "cli"),
    "sim": ("compiler", "runtime", *JOINTS, "cli"),
    **dict.fromkeys(JOINTS, ("cli",)),
    "__init__": ("cli",),
}


def imported_names(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def violations(path: str, source: str) -> list[str]:
    layer = path.split("/")[0].removesuffix(".py")
    return [
        f"{path} imports {name}; share the type through a leaf file instead"
        for name in sorted(set(imported_names(source)))
        for target in FORBIDDEN.get(layer, ())
        if f"{name}.".startswith(f"kernbench.{target}.")
    ]


def test_layers() -> None:
    files = sorted(PACKAGE.rglob("*.py"))

    assert [] == [v for f in files for v in violations(f.relative_to(PACKAGE).as_posix(), f.read_text("utf-8"))]


def test_every_top_level_file_has_a_layer() -> None:
    known = {*FORBIDDEN, "cli"}
    found = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}

    assert set() == {name for name in found - known if not name.startswith("_")}


def test_a_violation_is_found() -> None:
    source = "from kernbench.sim import engine\nimport kernbench.runtime.api\n"

    assert 2 == len(violations("compiler/lower.py", source))
    assert [] == violations("compiler/lower.py", "from kernbench.commands import Program\n")


def test_simulator_knows_no_recipe() -> None:
    """ADR-0065 D6.5: no file of the simulator names a recipe, not even in a comment."""
    from kernbench.compiler.recipes import RECIPE_DESCRIPTORS
    from kernbench.micro_ops import MICRO_OPS

    assert set() == set(RECIPE_DESCRIPTORS) & set(MICRO_OPS)
    for path in sorted((PACKAGE / "sim").rglob("*.py")):
        text = path.read_text("utf-8").lower()
        assert "recipe" not in text, path
        assert [] == [name for name in RECIPE_DESCRIPTORS if re.search(rf"\b{name}\b", text)], path
