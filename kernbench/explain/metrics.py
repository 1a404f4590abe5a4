"""The keys of `run --json` and the terms of its `terms_ns`."""

from __future__ import annotations

from kernbench.explain.model import Metric

_KEYS: dict[str, str] = {
    "schema": "The form of the document: `kernbench.run/1`. Keys may be added to a form; none changes its meaning.",
    "kernel": "The name of the kernel that was launched.",
    "topology": "The `name` of the topology.",
    "mode": "`data` or `timing`; see `kernbench explain modes`.",
    "ok": "Whether the run went through and every result that has a reference agrees with it.",
    "total_ns": "Simulated time of the launch alone, from its submission to its completion. `terms_ns` adds up to it.",
    "phases_ns": """
        Simulated time of each phase, one after the other: `upload` of the arrays, `deploy` of the code, `launch`,
        `readback` of what the kernel may have stored to.
    """,
    "pe_exec_ns": """
        From the barrier to the end of a PE's program: `min` and `max` over the PEs of the launch. A wide spread means
        that work is dealt out unevenly.
    """,
    "commands": "Commands that all PEs dispatched, composites and plain loads and stores.",
    "op_records": "Records of the op log: one for each thing that took simulated time.",
    "engines": """
        By engine, over all PEs: `busy_ns`, the time at work, and `utilization`. `dispatch` is PE_CPU handing commands
        over, `dma_read` and `dma_write` the channels while they drain, `fetch` and `store` the ports of PE_GEMM.
    """,
    "links": """
        Links and HBM slices that carried anything from barrier to end, busiest first: `name`, `bytes`, `utilization`.
    """,
    "bound_by": "What bounds the run, in words; see the topic of that name.",
    "terms_ns": "The terms of `total_ns`; see `kernbench explain terms`.",
    "outputs": """
        The arrays that the kernel may store to (or those of `expect`): `shape`, `dtype`, and `sha256` of the bytes.
        In timing mode the hash is null. Hashes are equal on one machine and NumPy build only.
    """,
    "check": """
        By result with a reference: `ok`, `max_abs_err`, `max_rel_err`, with the bench file's tolerance: an element is
        right where its error is at most `atol + rtol × |expected|`, so one near 0 may have a large relative error. A
        result that is not `ok` says too how many `elements` it has, how many are `differing`, and the `worst`. Empty
        in timing mode.
    """,
    "config_hash": "A hash of the resolved topology, so that two runs can be told to be of the same device.",
    "errors": "What ended the run, as diagnostics: code, severity, message, place, help.",
    "warnings": "What did not: warnings and remarks, in the same form.",
}

_TERMS: dict[str, str] = {
    "to_io_cpu": "The launch's way from the host to IO_CPU, its bytes included.",
    "pes_busy": "IO_CPU waits until the PEs of the launch are idle: another launch holds them.",
    "code_fetch": "IO_CPU waits until the kernel's code is on every PE. It is 0 when they have it from before.",
    "dispatch_to_pes": "From there to the barrier at which all PEs start: the longest way to any of them.",
    "gemm": "The critical PE multiplies matrices.",
    "math": "It computes in PE_MATH, while PE_GEMM rests.",
    "dma": "It moves data to or from memory, and nothing computes: memory time that is not hidden.",
    "tcm": "FETCH or STORE move tiles between TCM and PE_GEMM, and neither computation nor DMA goes on.",
    "dispatch": "PE_CPU hands a command over, and nothing else goes on.",
    "scalar": "PE_CPU computes scalars, and nothing else goes on.",
    "send_recv": "A message goes to or from another PE, and nothing else goes on.",
    "stall": "Something is ready and held back: by a full queue or window, or by a hazard.",
    "wait": "PE_CPU waits for what it asked for (`tl.wait`, a scalar from TCM, the end of the program's commands).",
    "idle": "No record is open on the critical PE: latency inside it, such as overheads of engines.",
    "completion": "From the end of the critical PE to the completion at the host.",
    "unfinished": "The whole of it, where a limit ended the run before the launch was complete.",
}

METRICS: tuple[Metric, ...] = (
    *(Metric(name, story) for name, story in _KEYS.items()),
    *(Metric(f"terms_ns.{name}", story) for name, story in _TERMS.items()),
)
