"""How fast identity is, on real graphs, and beside networkx.

    python -m benchmarks.identity --json                       # the golden graphs of data/golden
    python -m benchmarks.identity --out runs/default --json    # the graphs of a run

Reads stored graphs; writes standard output. Times are CPU seconds of this process, best of ROUNDS. The linear fit runs
over prefixes and repetitions of real graphs, chained one after another, up to `--most` nodes.

| key                 | meaning                                                                                       |
|---------------------|-----------------------------------------------------------------------------------------------|
| nodes_per_s_exact   | nodes a second on one core: graph -> exact key, all graphs once, tables of ops warm            |
| nodes_per_s_cold    | the same in a first pass, every distinct call spelled for the first time                      |
| ratio_vs_wl         | nodes_per_s_exact over that of networkx WL (3 iterations, graph built included), same graphs  |
| levels_cost_ratio   | seconds for all five levels over seconds for the exact key                                    |
| body_cost_ratio     | seconds for the five levels and the body key over seconds for the exact key                   |
| linear_fit_r2       | r squared of seconds = a + b * nodes                                                          |
| linear_largest      | nodes of the largest graph of that fit                                                        |
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.golden import stored_graphs
from data.store import RunDirectory
from schemas import forms, values
from schemas.canonical import canonicalize
from schemas.graph import OUTPUT, PLACEHOLDER, Graph, Node

ROUNDS = 3
WL_NODES = 60_000
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)


def seconds(action: Callable[[], Any]) -> float:
    """CPU seconds of the quickest of ROUNDS calls."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        action()
        best = min(best, time.process_time() - began)
    return best


def wl_hash(graph: Graph) -> str:
    """networkx's Weisfeiler-Lehman hash with ops as labels and operand places on edges, 3 iterations."""
    import networkx

    found = networkx.DiGraph()
    for index, node in enumerate(graph.nodes):
        found.add_node(index, label=f"{node.op} {node.target} {node.attrs} {node.outputs}")
    for index, node in enumerate(graph.nodes):
        for place, source in enumerate(node.inputs):
            found.add_edge(source, index, place=str(place))
    key: str = networkx.weisfeiler_lehman_graph_hash(found, node_attr="label", edge_attr="place", iterations=3)
    return key


def chained(graphs: Sequence[Graph], size: int) -> Graph:
    """About `size` nodes of real graphs, one after another: each reads the last value of the one before it."""
    nodes: list[Node] = []
    inits: list[str] = []
    last = -1
    for graph in _repeated(graphs):
        start = len(nodes)
        initialisers = iter(graph.inits)
        for node in graph.nodes[:-1]:
            inputs = tuple([start + k for k in node.inputs])
            if node.op == PLACEHOLDER:
                inits.append(next(initialisers))
            nodes.append(replace(node, name=f"n{len(nodes)}", inputs=inputs))
        ends = [start + k for k in graph.nodes[-1].inputs] + ([last] if last >= 0 else [])
        nodes.append(_joined(len(nodes), ends, nodes[ends[0]]))
        last = len(nodes) - 1
        if len(nodes) >= size:
            break
    attrs = values.dumps({"args": [{"tuple": [{"in": 0}]}], "kwargs": {}})
    nodes.append(Node(op=OUTPUT, name="output", target="", inputs=(last,), attrs=attrs, outputs=()))
    return Graph(nodes=tuple(nodes), inits=tuple(inits), subgraphs=())


def _joined(index: int, ends: list[int], like: Node) -> Node:
    attrs = values.dumps({"args": [[{"in": k} for k in range(len(ends))]], "kwargs": {}})
    return Node(
        op="call_function", name=f"n{index}", target="torch.cat", inputs=tuple(ends), attrs=attrs, outputs=like.outputs
    )


def _repeated(graphs: Sequence[Graph]) -> Iterator[Graph]:
    while True:
        yield from (graph for graph in graphs if not graph.subgraphs)


def linear_fit(graphs: Sequence[Graph], most: int) -> dict[str, Any]:
    """r squared of seconds over nodes, and the points."""
    made = [chained(graphs, size) for size in SIZES if size <= most]
    points = [(len(graph.nodes), seconds(lambda graph=graph: canonicalize(graph).key)) for graph in made]  # type: ignore[misc]
    nodes, times = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    slope, offset = np.polyfit(nodes, times, 1)
    left = float(((times - slope * nodes - offset) ** 2).sum())
    r2 = 1 - left / float(((times - times.mean()) ** 2).sum())
    return {
        "linear_fit_r2": round(r2, 5), "linear_us_per_node": round(float(slope) * 1e6, 3),
        "linear_largest": int(nodes.max()), "linear_points": [[size, round(took, 4)] for size, took in points],
    }  # fmt: skip


def measure(graphs: Sequence[Graph], most: int) -> dict[str, Any]:
    """Every figure."""
    total = sum(len(graph.nodes) for graph in graphs)
    forms._cached.cache_clear()
    began = time.process_time()
    for graph in graphs:
        canonicalize(graph).key  # noqa: B018
    cold = time.process_time() - began
    exact = seconds(lambda: [canonicalize(graph).key for graph in graphs])
    levels = seconds(lambda: [canonicalize(graph).keys for graph in graphs])
    body = seconds(lambda: [(form.keys, form.body) for form in map(canonicalize, graphs)])
    few, count = list[Graph](), 0
    for graph in graphs:
        if count < WL_NODES:
            few.append(graph)
            count += len(graph.nodes)
    wl = seconds(lambda: [wl_hash(graph) for graph in few])
    ours = seconds(lambda: [canonicalize(graph).key for graph in few])
    return {
        "graphs": len(graphs), "nodes": total, "nodes_per_s_exact": round(total / exact),
        "nodes_per_s_cold": round(total / cold), "nodes_per_s_wl": round(count / wl),
        "ratio_vs_wl": round(wl / ours, 2), "levels_cost_ratio": round(levels / exact, 3),
        "body_cost_ratio": round(body / exact, 3), **linear_fit(graphs, most),
    }  # fmt: skip


def main() -> None:
    """Entry of `python -m benchmarks.identity`."""
    parser = argparse.ArgumentParser(description="How fast identity is, beside networkx.")
    parser.add_argument("--out", type=Path, help="a run directory; without it the golden graphs")
    parser.add_argument("--most", type=int, default=1_000_000, help="nodes of the largest graph of the linear fit")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.out:
        graphs = [row.graph for row in RunDirectory(options.out).iter_rows("graphs")]
    else:
        graphs = [graph for _, graph in stored_graphs()]
    found = measure(graphs, options.most)
    if options.json:
        print(json.dumps(found))
    else:
        for key, value in found.items():
            print(f"{key:<20} {value}")


if __name__ == "__main__":
    main()
