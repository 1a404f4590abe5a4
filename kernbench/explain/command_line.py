"""Errors of the command line itself: options, files, run directories."""

from __future__ import annotations

from kernbench.explain.model import CommandLine, Explanation, file_text

_KERNEL = file_text(
    """
    @triton.jit
    def k(x_ptr):
        tl.store(x_ptr, 1.0)
    """
)
_BENCH = "kernel: k.tl\ntensors: {x_ptr: {shape: [64], dtype: fp32}}\n"
_FILES = {"k.tl": _KERNEL, "k.yaml": _BENCH}
_RUN = "kernbench run k.tl -t ahbm_1x1"

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        code="E_KERNEL_FILE",
        story="""
            A kernel is named by the path of a `.tl` or `.py` file, or by the name of a shipped one (`kernbench list
            kernels`), with `::name` behind it where the file has several.
        """,
        wrong=CommandLine("kernbench run sofmax.tl -t ahbm_1x1"),
        says="there is no kernel file `sofmax.tl`",
        right=CommandLine("kernbench run softmax.tl -t ahbm_1x1 --case tiny"),
    ),
    Explanation(
        code="E_INPUT_FILE",
        story="A file that the command line names is not there, or may not be read.",
        wrong=CommandLine(f"{_RUN} --bench other.yaml", _FILES),
        says="there is no bench file `other.yaml`",
        right=CommandLine(f"{_RUN} --bench k.yaml", _FILES),
    ),
    Explanation(
        code="E_OUTPUT_FILE",
        story="""
            A file or folder that was to be written cannot be: its folder is not there, or may not be written to.
            Files are written under a temporary name and renamed, so nothing is left half written.
            A run directory goes to a new or an empty folder, or over an earlier run: never among other files.
        """,
        wrong=CommandLine(f"{_RUN} --op-log logs/k.jsonl", _FILES),
        says="cannot write `logs/k.jsonl`: No such file or directory",
        right=CommandLine(f"{_RUN} --op-log k.jsonl", _FILES),
    ),
    Explanation(
        code="E_BENCH_NEEDED",
        story="""
            A kernel alone does not say on what it runs. A bench file does: shapes, types, initial values, the grid,
            and what should come out. It stands beside the kernel under its name, or is named with `--bench`.
        """,
        wrong=CommandLine(_RUN, {"k.tl": _KERNEL}),
        says="`k.tl` has no bench file beside it that says what to run",
        right=CommandLine(_RUN, _FILES),
    ),
    Explanation(
        code="E_OPTION",
        story="""
            An option has a value that it may not have, two options contradict each other, or one is missing that
            another needs. The known values, or the nearest, are told.
        """,
        wrong=CommandLine(f"{_RUN} --mode timming", _FILES),
        says="--mode cannot be `timming`",
        right=CommandLine(f"{_RUN} --mode timing", _FILES),
    ),
    Explanation(
        code="E_RUN_DIR",
        story="""
            A run directory holds copies of all that its run needs, with their hashes, so that `run --from` gives the
            same bytes again. One of the copies was changed, or the manifest is damaged; make the directory anew.
        """,
        wrong=CommandLine("kernbench run --from kept", {"kept/manifest.json": "{}"}),
        says="manifest.json of `kept`: Object missing required field `schema`",
        right=CommandLine(f"{_RUN} -o kept\nkernbench run --from kept", _FILES),
    ),
    Explanation(
        code="E_LOG_RECORD",
        story="""
            An op log is JSON Lines with one record a line, and each record has the same fields. `log` and `diff` read
            whole logs only: one that was cut or edited would give totals that mean nothing.
        """,
        wrong=CommandLine("kernbench log cut.jsonl", {"cut.jsonl": '{"seq": 1}\n'}),
        says="cut.jsonl:1 is no record of an op log: its fields are not those of a record",
        right=CommandLine(f"{_RUN} --op-log whole.jsonl\nkernbench log whole.jsonl --top 3", _FILES),
    ),
    Explanation(
        code="E_EXPLAIN_WHAT",
        story="`kernbench explain` without anything lists what can be explained: codes, metrics and topics.",
        wrong=CommandLine("kernbench explain netwrok"),
        says="there is nothing to explain under `netwrok`",
        right=CommandLine("kernbench explain network"),
    ),
    Explanation(
        code="E_PROBE_CASE",
        story="""
            `probe --case` takes the exact name of one of its traffic cases; `kernbench probe` prints them all.
        """,
        wrong=CommandLine("kernbench probe -t ahbm_1x1 --case h2d-one-hop"),
        says="there is no case `h2d-one-hop`",
        right=CommandLine("kernbench probe -t ahbm_1x1 --case h2d-1hop"),
    ),
    Explanation(
        code="E_INTERNAL",
        story="""
            A fault of KernBench itself, never of its input. What is needed to look into it (the command line and
            where it happened) is in the file that the message names; the exit code is 70.
        """,
        no_example="an input that raises it is a fault to be mended",
    ),
)
