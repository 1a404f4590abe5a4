"""Compile time, text to binary, against lark's own parse of the same text with positions."""

from __future__ import annotations

from lark import Lark
from measure import best_seconds, report

import kernbench as kb
from kernbench.data_files import data_dir


def main() -> None:
    path = data_dir("kernels") / "matmul.tl"
    text = path.read_text("utf-8")
    constexprs = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 4}
    signature = {"a_ptr": "*bf16", "b_ptr": "*bf16", "c_ptr": "*bf16", "M": "i32", "N": "i32", "K": "i32"}
    signature |= {f"stride_{name}": "i32" for name in ("am", "ak", "bk", "bn", "cm", "cn")}
    lark_parse = parse_with_positions(text)

    def compile_it() -> None:
        kb.compile(str(path), constexprs=constexprs, signature=signature, target="ahbm_4x4")

    compile_it()
    anchor = best_seconds(lark_parse, 10)
    report("compile matmul.tl / lark parse", best_seconds(compile_it, 10), anchor, "s", "<= 4 (then 3)")


if __name__ == "__main__":
    main()
