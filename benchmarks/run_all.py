"""Run every benchmark in a process of its own and print a table of their lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
BENCHMARKS = sorted(path for path in HERE.glob("bench_*.py"))


def lines_of(path: Path) -> list[dict[str, object]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=environment, cwd=HERE)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        raise SystemExit(f"{path.name} failed")
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    print(f"{'benchmark':<40} {'figure':>12} {'anchor':>12} {'unit':<12} {'ratio':>10}  goal")
    for path in BENCHMARKS:
        for row in lines_of(path):
            numbers = f"{row['figure']:>12} {row['anchor']:>12} {row['unit']:<12} {row['ratio']:>10}"
            print(f"{row['name']:<40} {numbers}  {row['goal']}", flush=True)


if __name__ == "__main__":
    main()
