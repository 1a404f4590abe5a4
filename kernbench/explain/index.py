"""Everything that can be explained, gathered from the files of the subjects.

A new error code needs an `Explanation` in the file of its subject; `tests/cli/test_explain_errors.py` says so where
one is missing. Does not know which codes there are, or how an explanation is printed.
"""

from __future__ import annotations

from itertools import chain

from kernbench.explain import (
    arguments,
    benches,
    command_line,
    composites,
    control_flow,
    faults,
    kernels,
    messages,
    names,
    requests,
    shapes,
    syntax,
    topologies,
    values,
    yaml_files,
)
from kernbench.explain.metrics import METRICS
from kernbench.explain.model import Explanation, Metric, Topic
from kernbench.explain.topics import TOPICS

SUBJECTS: dict[str, tuple[Explanation, ...]] = {
    "syntax": syntax.EXPLANATIONS,
    "kernels": kernels.EXPLANATIONS,
    "names": names.EXPLANATIONS,
    "control flow": control_flow.EXPLANATIONS,
    "values": values.EXPLANATIONS,
    "shapes": shapes.EXPLANATIONS,
    "composites": composites.EXPLANATIONS,
    "arguments": arguments.EXPLANATIONS,
    "bench files": benches.EXPLANATIONS,
    "messages": messages.EXPLANATIONS,
    "requests of the host": requests.EXPLANATIONS,
    "kernels at work": faults.EXPLANATIONS,
    "command line": command_line.EXPLANATIONS,
    "topologies": topologies.EXPLANATIONS,
    "YAML files": yaml_files.EXPLANATIONS,
}


def explanations() -> dict[str, Explanation]:
    """By code; no code is explained twice."""
    found: dict[str, Explanation] = {}
    for entry in chain.from_iterable(SUBJECTS.values()):
        assert entry.code not in found, f"{entry.code} is explained twice"
        found[entry.code] = entry
    return found


def topics() -> dict[str, Topic]:
    return {topic.name: topic for topic in TOPICS}


def metrics() -> dict[str, Metric]:
    return {metric.name: metric for metric in METRICS}
