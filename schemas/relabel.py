"""The relabelled graph of a canonical form: its order of execution and its names.

Is: `execution_order` and `relabel`, used by `schemas.canonical`. Reads and writes nothing; no torch.
"""

import heapq
from collections.abc import Sequence
from dataclasses import replace

from schemas.graph import CONSTANT, PLACEHOLDER, SUBGRAPH, Graph, Node
from schemas.roles import short_name

Pairs = Sequence[tuple[int, int]]


def execution_order(graph: Graph, kids: Sequence[Sequence[int]], before: Pairs, order: list[int]) -> list[int]:
    """Placeholders first, then the canonical order, moved only as far as the pairs (earlier, later) demand."""
    if before:
        order = _respecting(kids, before, order)
    first = [index for index in order if graph.nodes[index].op == PLACEHOLDER]
    return first + [index for index in order if graph.nodes[index].op != PLACEHOLDER]


def _respecting(kids: Sequence[Sequence[int]], before: Pairs, order: list[int]) -> list[int]:
    """The topological order that respects `before` and is otherwise as close to `order` as can be."""
    rank = {index: place for place, index in enumerate(order)}
    after: dict[int, list[int]] = {index: [] for index in order}
    waiting = dict.fromkeys(order, 0)
    edges = [(kid, index) for index in order for kid in kids[index]]
    edges += [(index, order[-1]) for index in order[:-1]]
    for earlier, later in [*edges, *before]:
        after[earlier].append(later)
        waiting[later] += 1
    ready = [rank[index] for index in order if waiting[index] == 0]
    heapq.heapify(ready)
    found = []
    while ready:
        index = order[heapq.heappop(ready)]
        found.append(index)
        for later in after[index]:
            waiting[later] -= 1
            if waiting[later] == 0:
                heapq.heappush(ready, rank[later])
    assert len(found) == len(order), "effects order a graph in a circle"
    return found


def relabel(graph: Graph, order: Sequence[int], output_order: Sequence[int]) -> Graph:
    """The graph with its nodes (and outputs) in the given order and names made from position and op."""
    new_index = {old: new for new, old in enumerate(order)}
    counts: dict[str, int] = {}
    nodes = []
    for old in order:
        node = graph.nodes[old]
        inputs = tuple([new_index[k] for k in node.inputs])
        nodes.append(with_inputs(node, inputs, _name(node, counts)))
    output = nodes[-1]
    if list(output_order) != list(range(len(output_order))):
        nodes[-1] = replace(output, inputs=tuple(output.inputs[k] for k in output_order))
    init_of = dict(zip(graph.placeholders, graph.inits, strict=True))
    inits = tuple(init_of[old] for old in order if old in init_of)
    return Graph(nodes=tuple(nodes), inits=inits, subgraphs=graph.subgraphs)


def with_inputs(node: Node, inputs: tuple[int, ...], name: str = "") -> Node:
    """The node with other operands and, if given, another name; `dataclasses.replace` takes twice as long."""
    return Node(
        op=node.op, name=name or node.name, target=node.target, inputs=inputs, attrs=node.attrs, outputs=node.outputs
    )


_PREFIXES = {CONSTANT: "const", SUBGRAPH: "graph"}


def _name(node: Node, counts: dict[str, int]) -> str:
    if node.op == PLACEHOLDER:
        base = "in" if node.target in ("input", "scalar") else "w"
    elif node.is_call:
        short = "".join(c if c.isascii() and c.isalnum() else "_" for c in short_name(node.target))
        base = f"op_{short}" if short in ("in", "w", "const", "graph", "") else short
    else:
        base = _PREFIXES.get(node.op, "output")
        if base == "output":
            return base
    counts[base] = counts.get(base, -1) + 1
    return f"{base}_{counts[base]}"
