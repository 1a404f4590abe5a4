"""Many cases of one kind, each drawn from a seed of its own, and what came of them.

Knows the kinds of cases. Does not print.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.fuzz import inputs
from tests.fuzz.case import Case, shipped
from tests.fuzz.generator import generated
from tests.fuzz.judge import Verdict, judge
from tests.fuzz.mutations import mutated
from tests.fuzz.shrink import shrunk


def kernel_mutant(rng: Random) -> Case:
    return mutated(rng, rng.choice(shipped()))


HOST = """

class Model(torch.nn.Module):
    def forward(self, x, *rest, **options):
        try:
            return launch(x, [each for each in rest if each is not None])
        except RuntimeError as error:
            raise ValueError(f"no result: {error}") from None


def launch(x, rest):
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
    async def wait(): await x
    %s[grid](x, *rest, num_warps=4)
    return x


if __name__ == "__main__":
    print(launch(torch.ones(8), []))
"""
TUNED = (
    "@triton.autotune(configs=[triton.Config({'BLOCK': 64}, num_warps=4)], key=['n'])\n",
    "@triton.heuristics({'EVEN': lambda args: args['n'] % 2 == 0})\n",
    "",
)


def python_mutant(rng: Random) -> Case:
    """A kernel among host code, as in a file of Python."""
    case = rng.choice(shipped())
    name = case.function or case.text.rpartition("@triton.jit\ndef ")[2].partition("(")[0]
    text = "import torch\n" + case.text.replace("@triton.jit", rng.choice(TUNED) + "@triton.jit") + HOST % name
    return mutated(rng, replace(case, text=text, function=name, file="k.py"))


@dataclass(frozen=True)
class Kind:
    """`make` and `judge` agree on what a case is; one with a `text` can be made shorter."""

    make: Callable[[Random], Any]
    judge: Callable[[Any], Verdict]
    share: int = 1  # one case of this kind for so many kernels


KINDS: dict[str, Kind] = {
    "mutations": Kind(kernel_mutant, judge),
    "grammar": Kind(generated, judge),
    "python": Kind(python_mutant, judge, 10),
    "benches": Kind(inputs.bench, inputs.judge_bench, 10),
    "topologies": Kind(inputs.topology, inputs.judge_topology, 10),
    "binaries": Kind(inputs.binary, inputs.judge_binary, 10),
    "messages": Kind(inputs.messages, inputs.judge_messages, 10),
}


@dataclass
class Tally:
    """What came of a campaign; `failures` maps the kind of a failure to the numbers of its first cases."""

    cases: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    failures: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    slowest: tuple[float, int] = (0.0, 0)

    def add(self, number: int, verdict: Verdict, seconds: float) -> None:
        self.cases += 1
        self.kinds[verdict.kind] += 1
        self.codes.update(verdict.codes)
        self.slowest = max(self.slowest, (seconds, number))
        if verdict.failed:
            self.failures.setdefault(verdict.key, []).append((number, verdict.detail))


def case_of(kind: str, seed: int, number: int) -> Any:
    """The same case whenever it is asked for, whatever was asked for before."""
    return KINDS[kind].make(Random(f"{kind} {seed} {number}"))


def campaign(kind: str, numbers: range, seed: int = 0, watch: Callable[[Tally], None] = lambda tally: None) -> Tally:
    tally = Tally()
    for number in numbers:
        started = time.monotonic()
        verdict = KINDS[kind].judge(case_of(kind, seed, number))
        tally.add(number, verdict, time.monotonic() - started)
        watch(tally)
    return tally


def reproducer(kind: str, seed: int, number: int) -> str:
    """The shortest text found that fails as the case does."""
    case, judge_one = case_of(kind, seed, number), KINDS[kind].judge
    if hasattr(case, "text"):
        case = shrunk(case, judge_one(case), judge_one)
    shown: str = case.shown()
    return shown
