"""The dependency graph of a program's commands, in DOT: who reads what whom wrote, by TCM buffer.

Does not know time or addresses.
"""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx

from kernbench.commands import (
    Atomic,
    Command,
    CompositeTemplate,
    DmaRead,
    DmaWrite,
    Gather,
    Program,
    ReadScalar,
    Recv,
    Scatter,
    Send,
    TensorHandle,
    walk,
)


def dataflow(program: Program) -> nx.DiGraph:
    """A node a command (its id), an edge from the last writer of a buffer in program order to each reader."""
    graph = nx.DiGraph()
    writer: dict[int, int] = {}
    for node in walk(program.body):
        if not isinstance(node, Command):
            continue
        graph.add_node(node.id, label=_label(node))
        for handle in reads(node):
            if handle.id in writer:
                graph.add_edge(writer[handle.id], node.id, label=handle.name)
        writer.update((handle.id, node.id) for handle in writes(node))
    return graph


def dataflow_dot(program: Program) -> str:
    """The graph as DOT text, nodes and edges in program order."""
    graph = dataflow(program)
    lines = [f'digraph "{program.name}" {{', "  node [shape=box];"]
    lines.extend(f'  c{node} [label="{data["label"]}"];' for node, data in sorted(graph.nodes(data=True)))
    lines.extend(f'  c{a} -> c{b} [label="{data["label"]}"];' for a, b, data in sorted(graph.edges(data=True)))
    return "\n".join([*lines, "}", ""])


def _label(command: Command) -> str:
    kinds = " ".join(op.kind for op in command.ops) if isinstance(command, CompositeTemplate) else ""
    return f"%{command.id} {kinds or type(command).__name__}"


def reads(command: Command) -> Iterator[TensorHandle]:
    """TCM handles that a command reads."""
    match command:
        case CompositeTemplate():
            for op in command.ops:
                yield from (h for h in op.operands.values() if h.space == "tcm" and not h.is_accumulator)
        case DmaWrite(src=src) | ReadScalar(src=src) | Send(src=src):
            yield src
        case Scatter():
            yield command.src
            yield from (h for h in (command.index, command.mask) if h is not None)
        case Gather():
            yield from (h for h in (command.index, command.mask) if h is not None)
        case Atomic():
            yield command.src
            yield from (h for h in (command.compare, command.index, command.mask) if h is not None)
        case _:
            return


def writes(command: Command) -> Iterator[TensorHandle]:
    """TCM handles that a command writes."""
    match command:
        case CompositeTemplate():
            yield from (op.out for op in command.ops if op.out is not None and op.out.space == "tcm")
        case DmaRead(dst=dst) | Gather(dst=dst) | Recv(dst=dst):
            yield dst
        case Atomic(dst=old) if old is not None:
            yield old
        case _:
            return
