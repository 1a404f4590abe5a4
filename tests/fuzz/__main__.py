"""`python -m tests.fuzz --count 10000 --seed 0`: try many inputs, print what came of them, shrink what failed.

Knows the command line only.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

from tests.fuzz.campaign import KINDS, Tally, campaign, case_of, reproducer

MEMORY = 6 << 30  # a case that takes more is a failure, not the end of the machine


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--count", type=int, default=1000, help="kernels of each kind; a tenth of other inputs")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=sorted(KINDS), action="append", help="default: all")
    parser.add_argument("--show", action="store_true", help="print the cases instead of trying them")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    failed = False
    for kind in options.kind or KINDS:
        numbers = range(options.first, options.first + max(1, options.count // KINDS[kind].share))
        if options.show:
            for number in numbers:
                print(case_of(kind, options.seed, number).shown())
            continue
        started = time.monotonic()
        tally = campaign(kind, numbers, options.seed, _progress)
        print(f"\n{kind}: {tally.cases} cases in {time.monotonic() - started:.0f} s, {dict(tally.kinds)}")
        print(f"slowest: case {tally.slowest[1]} with {tally.slowest[0]:.1f} s")
        print("  ".join(f"{code} {count}" for code, count in tally.codes.most_common()))
        for key, examples in tally.failures.items():
            failed = True
            number, detail = examples[0]
            print(f"\n== {len(examples)} × {key}: cases {[each for each, _ in examples[:5]]}\n{detail}")
            print(reproducer(kind, options.seed, number))
    return 1 if failed else 0


def _progress(tally: Tally) -> None:
    if tally.cases % 500 == 0:
        print(f"{tally.cases} {dict(tally.kinds)} {len(tally.failures)} kinds of failures", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
