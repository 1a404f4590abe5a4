"""The commands there are: one line a command, from which `--help` is printed and the command is loaded."""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    name: str
    module: str
    attribute: str
    help: str


COMMANDS = (
    CommandEntry("run", "kernbench.cli.run", "run", "Compile a kernel, simulate it, check its results."),
    CommandEntry("check", "kernbench.cli.check", "check", "Find every error in kernels, benches, topologies."),
    CommandEntry("compile", "kernbench.cli.compile", "compile_", "Show what the compiler makes of a kernel."),
    CommandEntry("inspect", "kernbench.cli.inspect", "inspect", "Show source lines beside the ops they became."),
    CommandEntry("log", "kernbench.cli.log", "log", "Show the records of an op log, or what they add up to."),
    CommandEntry("diff", "kernbench.cli.log", "diff", "Compare two op logs."),
    CommandEntry("list", "kernbench.cli.list_", "list_", "List kernels, topologies, functions, passes, errors ..."),
    CommandEntry("probe", "kernbench.cli.probe", "probe", "Measure traffic patterns, hold them against closed forms."),
    CommandEntry("replay", "kernbench.cli.replay", "replay", "Drive a device from a file of messages."),
    CommandEntry("topo", "kernbench.cli.topo", "topo", "Look at and check topologies."),
    CommandEntry("explain", "kernbench.cli.explain", "explain", "Explain an error code or a topic."),
)
