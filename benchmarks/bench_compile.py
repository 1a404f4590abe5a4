"""Compile time, text to binary, against lark's own parse of the same text with positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lark import Lark
from lark.indenter import PythonIndenter
from measure import best_seconds, report

import kernbench as kb
from kernbench.data_files import data_dir


def parse_with_positions(text: str) -> Callable[[], Any]:
    """lark's parse of the text by the Python grammar that lark ships, every node with its place."""
    parser = Lark.open_from_package(
        "lark",
        "python.lark",
        ("grammars",),
        parser="lalr",
        postlex=PythonIndenter(),
        start="file_input",
        propagate_positions=True,
    )
    return lambda: parser.parse(text)


def main() -> None:
    path = data_dir("kernels") / "matmul.tl"
    text = path.read_text("utf-8")
    constexprs = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 4}
    signature = {"a_ptr": "*bf16", "b_ptr": "*bf16", "c_ptr": "*bf16", "M": "i32", "N": "i32", "K": "i32"}
    signature |= {f"stride_{name}": "i32" for name in ("am", "ak", "bk", "bn", "cm", "cn")}
    lark_parse = parse_with_positions(text)

    target = kb.open("ahbm_4x4")

    def compile_it() -> None:
        kb.compile(str(path), constexprs=constexprs, signature=signature, target=target)

    compile_it()
    anchor = best_seconds(lark_parse, 10)
    report("compile matmul.tl / lark parse", best_seconds(compile_it, 10), anchor, "s", "<= 4 (then 3)")


if __name__ == "__main__":
    main()
