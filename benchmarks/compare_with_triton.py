"""Data mode, simulation included, against Triton's CPU interpreter: the same kernel text, launch and inputs.

    python benchmarks/compare_with_triton.py [PYTHON_WITH_TRITON]

Without an argument an environment is made for it beside this file. Results are compared before anything is told.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np
from measure import best_seconds, report
from triton_cases import CASES, Case

import kernbench as kb
from kernbench.data_files import data_dir

HERE = Path(__file__).parent
TYPES = {"fp32": np.float32, "fp16": np.float16}
TOLERANCE = 2e-2  # `matmul` stores bf16, to which the interpreter truncates
REPEATS = 10  # short runs feel whatever else the machine does
GOAL = ">= 5 (then 10)"


def triton_python() -> Path:
    """The Python of an environment with Triton, made where there is none."""
    if len(sys.argv) > 1:
        return Path(sys.argv[1])
    folder = HERE / ".venv-triton"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "numpy", "torch", "triton"], check=True)
    return python


def kernel_file(case: Case) -> Path:
    return data_dir("kernels") / f"{case.kernel}.tl"


def of_triton(name: str, python: Path, target: Path) -> float:
    command = [python, HERE / "run_triton.py", name, kernel_file(CASES[name]), target]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE, env=one_thread())
    return float(json.loads(done.stdout))


def one_thread() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def compare(name: str, python: Path, topology: str) -> None:
    case = CASES[name]
    dtype = TYPES[case.dtype]
    kernel = kb.compile(kernel_file(case), constexprs=dict(case.constexprs))
    arrays = {key: value.astype(dtype) for key, value in case.inputs().items()}
    arrays |= {key: np.zeros(shape, dtype) for key, shape in case.results.items()}
    arguments = {**arrays, **case.scalars}
    device = kb.open(topology)
    run = device.run(kernel, arguments, grid=case.grid)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "results.npz"
        theirs = of_triton(name, python, target)
        with np.load(target) as expected:
            for key in case.results:
                found = run[key].astype(np.float32)
                np.testing.assert_allclose(found, expected[key], rtol=TOLERANCE, atol=TOLERANCE)
    ours = best_seconds(lambda: device.run(kernel, arguments, grid=case.grid), REPEATS)
    report(f"Triton's interpreter / data mode, {name}", theirs, ours, "s", GOAL, topology=topology)


def main() -> None:
    python = triton_python()
    for name in CASES:
        compare(name, python, "ahbm_1x1")


if __name__ == "__main__":
    main()
