"""Time one case in Triton's CPU interpreter; run by `compare_with_triton.py` with the Python that has Triton.

    python run_triton.py CASE KERNEL_FILE RESULT.npz

prints the seconds of processor time of the best of a few launches as JSON, and leaves the results as fp32.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
from triton_cases import CASES

REPEATS = 5
TYPES = {"fp32": torch.float32, "fp16": torch.float16}


def main() -> None:
    name, source, target = sys.argv[1:]
    case = CASES[name]
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(shutil.copy(source, Path(folder) / f"{case.kernel}.py"))  # Triton reads the source of a module
        spec = importlib.util.spec_from_file_location(case.kernel, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kernel = getattr(module, case.kernel)
        dtype = TYPES[case.dtype]
        arrays = {key: torch.from_numpy(value).to(dtype) for key, value in case.inputs().items()}
        results = {key: torch.zeros(shape, dtype=dtype) for key, shape in case.results.items()}
        times = []
        for _ in range(REPEATS):
            start = time.process_time()
            kernel[case.grid](**arrays, **results, **case.scalars, **case.constexprs)
            times.append(time.process_time() - start)
    np.savez(target, **{key: value.float().numpy() for key, value in results.items()})
    print(json.dumps(min(times)))


if __name__ == "__main__":
    main()
