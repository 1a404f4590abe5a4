"""The other inputs that come from outside: bench files, topologies, binaries, host messages; damaged and tried.

Knows how each is read and used. What is done to a text is in `mutations.py`.
"""

from __future__ import annotations

import functools
import math
import shutil
import tempfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Literal

import kernbench as kb
from kernbench.binary import decode
from kernbench.commands import KernelBinary
from kernbench.compiler.pipeline import CompiledKernel
from kernbench.data_files import data_dir
from kernbench.kernel import Kernel
from kernbench.launch import Launch
from kernbench.message_text import read_requests, write_requests
from kernbench.run_arguments import RunArguments
from kernbench.runtime.bench import case_names, check_bench, load_bench
from kernbench.session import Device
from kernbench.sim.engine import GraphEngine
from kernbench.sim.topology import load_topology
from tests.fuzz.case import Case, of_bench, shipped
from tests.fuzz.judge import LIMITS, Verdict, device, judged, launched, of_diagnostics
from tests.fuzz.mutations import mutate_text
from tests.fuzz.programs import damaged

HEAD_BYTES = 8  # magic and checksum of a binary's section
SMALL = 16  # PEs of a topology on which something is run


@dataclass(frozen=True)
class TextInput:
    """A file of some kind under a name."""

    text: str
    name: str

    def shown(self) -> str:
        return f"# {self.name}\n{self.text}"


@functools.cache
def _folder() -> Path:
    """A folder with the shipped kernels, for benches to name."""
    folder = Path(tempfile.mkdtemp(prefix="kernbench-fuzz-"))
    for path in sorted(data_dir("kernels").glob("*.tl")):
        shutil.copy(path, folder / path.name)
    return folder


def _written(found: TextInput) -> Path:
    path = _folder() / "input.yaml"
    path.write_bytes(found.text.encode("utf-8", "surrogatepass"))
    return path


def _of_folder(rng: Random, folder: Literal["kernels", "topologies"]) -> TextInput:
    path = rng.choice(sorted(data_dir(folder).glob("*.yaml")))
    return TextInput(mutate_text(rng, path.read_text(encoding="utf-8")), path.name)


# --------------------------------------------------------------------------- YAML


def bench(rng: Random) -> TextInput:
    return _of_folder(rng, "kernels")


def judge_bench(found: TextInput) -> Verdict:
    def work() -> Verdict:
        path = _written(found)
        wrong = [each for each in check_bench(path, "input.yaml") if each.severity == "error"]
        if wrong:
            return of_diagnostics(wrong)
        read = load_bench(path, "tiny" if "tiny" in case_names(path) else None)
        if sum(math.prod(spec.shape) for spec in read.tensors.values()) > 1 << 22:
            return Verdict("result")
        run = launched(of_bench(read))
        return Verdict("result", tuple(sorted({each.code for each in run.diagnostics})))

    return judged(work)


def topology(rng: Random) -> TextInput:
    return _of_folder(rng, "topologies")


def judge_topology(found: TextInput) -> Verdict:
    def work() -> Verdict:
        made = Device(load_topology(_written(found)), {"limits": LIMITS})
        shape = made.shape
        if shape.sips * shape.cubes * shape.pes > SMALL:
            return Verdict("result")
        return _run_on(made)

    return judged(work)


def _run_on(made: Device) -> Verdict:
    case = next(each for each in shipped() if "def vector_add" in each.text)
    kernel, compiled, arguments = _compiled(case, made)
    run = Launch(made, kernel, compiled, arguments, case.grid, "data").run()
    return Verdict("result", tuple(sorted({each.code for each in run.diagnostics})))


# --------------------------------------------------------------------------- binaries


@dataclass(frozen=True)
class BinaryInput:
    case: Case
    binary: KernelBinary

    def shown(self) -> str:
        return f"{self.case.shown()}\n# code {self.binary.code.hex()}\n# debug {self.binary.debug.hex()}"


@functools.cache
def _shipped_binaries() -> tuple[tuple[Case, KernelBinary], ...]:
    found = []
    for case in shipped():
        if case.topology == "ahbm_1x1":
            binary = _compiled(case, device("ahbm_1x1"))[1].binary
            assert binary is not None
            found.append((case, binary))
    return tuple(found)


def _compiled(case: Case, made: Device) -> tuple[Kernel, CompiledKernel, RunArguments]:
    path = _folder() / "k.tl"
    path.write_text(case.text, encoding="utf-8")
    kernel = kb.compile(f"{path}::{case.function}" if case.function else path)
    places = {name: place for name, place in (case.placements or {}).items() if name in kernel.params}
    arguments = RunArguments(kernel, case.bound(kernel), places, {})
    return kernel, kernel.specialise(arguments.signature, arguments.constexprs, made.target), arguments


def binary(rng: Random) -> BinaryInput:
    """Parts of the program replaced, or bytes changed, left out or repeated, under a checksum that is right."""
    case, found = rng.choice(_shipped_binaries())
    if rng.random() < 0.6:
        return BinaryInput(case, damaged(rng, decode(found)))
    code = _damaged(rng, found.code)
    if rng.random() < 0.5:
        return BinaryInput(case, KernelBinary(code))
    debug = _damaged(rng, found.debug) if rng.random() < 0.5 else found.debug
    debug = debug[:HEAD_BYTES] + zlib.crc32(code).to_bytes(4, "little") + debug[HEAD_BYTES + 4 :]
    return BinaryInput(case, KernelBinary(code, _sealed(debug)))


def _damaged(rng: Random, data: bytes) -> bytes:
    body = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(HEAD_BYTES, len(body))
        change = rng.randrange(6)
        if change <= 2:
            body[place] = rng.choice((0, 1, 2, 3, 5, 7, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif change == 3:
            body[place] = (body[place] + rng.choice((1, -1, 2))) % 256
        elif change == 4:
            body[place : place + rng.randrange(1, 4)] = b""
        else:
            body[place:place] = body[place : place + rng.randrange(1, 9)]
    return _sealed(bytes(body))


def _sealed(data: bytes) -> bytes:
    return data[:4] + zlib.crc32(data[HEAD_BYTES:]).to_bytes(4, "little") + data[HEAD_BYTES:]


def judge_binary(found: BinaryInput) -> Verdict:
    def work() -> Verdict:
        made = device("ahbm_1x1")
        kernel, compiled, arguments = _compiled(found.case, made)
        damaged = replace(compiled, binary=found.binary)
        run = Launch(made, kernel, damaged, arguments, found.case.grid, "data").run()
        return Verdict("result", tuple(sorted({each.code for each in run.diagnostics})))

    return judged(work, where_needed=False)  # the lines of a damaged binary are nobody's


# --------------------------------------------------------------------------- messages


@functools.cache
def _sent() -> tuple[tuple[str, dict[str, bytes]], ...]:
    """What the host sends for some shipped kernels, and the bytes beside it."""
    names = ("vector_add", "matmul", "gemm_composite")
    found = []
    for case in shipped():
        if any(f"def {name}(" in case.text for name in names):
            sent = launched(case).sent
            found.append((write_requests(sent.requests), {name: bytes(data) for name, data in sent.buffers.items()}))
    return tuple(found)


def messages(rng: Random) -> TextInput:
    index = rng.randrange(len(_sent()))
    return TextInput(mutate_text(rng, _sent()[index][0]), str(index))


def judge_messages(found: TextInput) -> Verdict:
    def work() -> Verdict:
        requests = read_requests(found.text, "messages.jsonl")
        engine = GraphEngine(device("ahbm_1x1").graph, "data", limits=LIMITS)
        buffers = _sent()[int(found.name)][1]
        handles = [engine.submit(request, buffers) for request in requests]
        engine.run()
        codes = {handle.completion.error_code for handle in handles if handle.completion and not handle.completion.ok}
        told = {each.code for each in engine.diagnostics}
        kind = "diagnostic" if codes else "result"
        return Verdict(kind, tuple(sorted({code or "" for code in codes | told})))

    return judged(work, where_needed=False)
