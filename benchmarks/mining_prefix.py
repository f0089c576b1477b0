"""One compilation a graph against counting the kernels of every prefix: same graphs, same process, same target.

    python -m benchmarks.mining_prefix --run runs/default --json

Reads the subgraphs of a run, prints. The other way, as published: for a graph of n calls compile its first i calls for
every i and count the launches; where the count does not grow, the calls were fused. A prefix yields what the rest of
the graph reads; one whose edge is no single tensor is left out. Ours: one compilation of the whole graph.

| key             | meaning                                                                     |
|-----------------|-----------------------------------------------------------------------------|
| prefix_graphs   | graphs                                                                      |
| compiles_ratio  | compilations of the prefix counter over ours                                |
| time_ratio      | processor seconds of the prefix counter over ours                           |
| prefix_wrong    | graphs whose longest prefix launches other than the map says; 0 is right    |
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data.store import RunDirectory
from fusion_mining.cut import can_cut, cut
from fusion_mining.device import stand_in
from fusion_mining.kernel_map import compile_graph
from fusion_mining.targets import TARGETS
from schemas.graph import Graph


def chosen(run: Path, count: int, least: int, most: int) -> list[Graph]:
    """The first pieces by key, which is a digest, with `least` to `most` calls, no topology twice."""
    found: dict[str, Graph] = {}
    for row in RunDirectory(run).iter_rows("subgraphs"):
        if least <= row.num_ops <= most:
            found.setdefault(row.topology, row.graph)
        if len(found) == count:
            break
    return list(found.values())


def launches_of(graph: Graph) -> int:
    """Launches of a graph on the target."""
    return len(compile_graph(graph, device="cuda").launches)


def prefix_counts(graph: Graph) -> list[int]:
    """Launches of every prefix of a graph that can be cut out, shortest first."""
    calls = [index for index, _ in graph.calls()]
    prefixes = [calls[:end] for end in range(1, len(calls) + 1)]
    return [launches_of(cut(graph, nodes)) for nodes in prefixes if can_cut(graph, nodes)]


def measure(graphs: Sequence[Graph]) -> dict[str, Any]:
    """Every figure; stands in for an H200."""
    stand_in(TARGETS["H200"])
    launches_of(graphs[0])
    began = time.process_time()
    ours = [launches_of(graph) for graph in graphs]
    mine = time.process_time() - began
    began = time.process_time()
    counts = [prefix_counts(graph) for graph in graphs]
    theirs = time.process_time() - began
    compiled = sum(map(len, counts))
    return {
        "prefix_graphs": len(graphs), "compiles_ratio": round(compiled / len(graphs), 2),
        "time_ratio": round(theirs / mine, 2), "prefix_compiles": compiled, "prefix_s": round(theirs, 2),
        "one_compile_s": round(mine, 2), "prefix_wrong": sum(c[-1] != o for c, o in zip(counts, ours, strict=True)),
    }  # fmt: skip


def main() -> None:
    """Entry of `python -m benchmarks.mining_prefix`."""
    parser = argparse.ArgumentParser(description="One compilation a graph against one a prefix.")
    parser.add_argument("--run", type=Path, default=Path("runs/default"), help="a run directory with subgraphs")
    parser.add_argument("--graphs", type=int, default=20, help="graphs compared")
    parser.add_argument("--least", type=int, default=24, help="fewest calls of a graph")
    parser.add_argument("--most", type=int, default=40, help="most calls of a graph")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = measure(chosen(options.run, options.graphs, options.least, options.most))
    print(json.dumps(found) if options.json else "\n".join(f"{key:<16} {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
