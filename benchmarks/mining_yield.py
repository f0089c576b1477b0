"""What a build's mining gave, checked by other means than those that made it.

    passnet build --limit 520 --out runs/big
    python -m benchmarks.mining_yield --run runs/big --json [--variants N --seed S]

Reads a run folder; writes standard output. Every occurrence is checked again on its parent graph with networkx: the set
is convex if no path of the whole graph leaves it and comes back. Compute ops are counted from a list of what does not
compute, not from the table of op classes. Variants run in eager mode; by default all of them.

| key                            | meaning                                                                       |
|--------------------------------|-------------------------------------------------------------------------------|
| architectures                  | graphs admitted in the build                                                  |
| pieces                         | distinct fusible pieces at the exact level, before variants                   |
| pieces_without_two_compute_ops | fusible pieces with fewer than two ops that compute                           |
| occurrences_checked, nonconvex | occurrences of fusible pieces looked at; those that are not convex            |
| disconnected                   | those that are not connected                                                  |
| median_frequency, in_one_graph | median document frequency of the pieces; pieces found in one class alone      |
| variants_checked, variants_failing | variants of the build's tasks that were run; those that raise             |
"""

import argparse
import json
import random
import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import networkx

from data.store import RunDirectory
from schemas.functional import functionalise
from schemas.graph import Graph
from schemas.rows import Occurrence, Subgraph, TaskVariant

MOVES = frozenset(
    "view reshape flatten unflatten permute transpose t swapaxes movedim squeeze unsqueeze chunk split unbind narrow "
    "select view_as reshape_as mT T tensor_split detach contiguous real imag view_as_real view_as_complex diagonal "
    "unfold expand expand_as broadcast_to dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout "
    "zeros ones empty full arange zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty "
    "linspace eye tensor scalar_tensor getitem size shape getattr".split()
)
"""Names of ops that compute nothing: they move, name or make values known without input."""


def computing(graph: Graph) -> int:
    """Number of calls of a graph whose name is not in MOVES."""
    names = (node.target.replace("()", "").rpartition(".")[2].rpartition(":")[2] for _, node in graph.calls())
    return sum(name.strip("_") not in MOVES for name in names)


def wired(graph: Graph) -> "networkx.DiGraph[int]":
    """A graph's edges between calls."""
    found: networkx.DiGraph[int] = networkx.DiGraph()
    for index, node in graph.calls():
        found.add_node(index)
        found.add_edges_from((source, index) for source in node.inputs if graph.nodes[source].is_call)
    return found


def is_convex(edges: "networkx.DiGraph[int]", nodes: Sequence[int]) -> bool:
    """Whether no path leaves a set of nodes and comes back: walk on from what leaves it, in topological bounds."""
    inside = frozenset(nodes)
    last = max(inside)
    waiting = [k for index in inside for k in edges.successors(index) if k not in inside]
    seen = set(waiting)
    while waiting:
        for reader in edges.successors(waiting.pop()):
            if reader in inside:
                return False
            if reader < last and reader not in seen:
                seen.add(reader)
                waiting.append(reader)
    return True


def check_places(run: RunDirectory) -> dict[str, int]:
    """Convexity and connection of every occurrence of a fusible piece."""
    places: dict[str, list[Occurrence]] = defaultdict(list)
    for row in run.iter_rows("occurrences"):
        if row.kind == "fusible":
            places[row.parent].append(row)
    checked = nonconvex = disconnected = 0
    for parent in run.iter_rows("classes"):
        edges = wired(functionalise(parent.graph))
        for row in places.pop(parent.key, ()):
            checked += 1
            nonconvex += not is_convex(edges, row.nodes)
            disconnected += not networkx.is_weakly_connected(edges.subgraph(row.nodes))
    missing = sum(map(len, places.values()))
    assert not missing, f"{missing} occurrences name a class that the run does not have"
    return {"occurrences_checked": checked, "nonconvex": nonconvex, "disconnected": disconnected}


def check_pieces(pieces: Sequence[Subgraph]) -> dict[str, Any]:
    """Counts over the distinct fusible pieces."""
    frequency = [piece.document_frequency for piece in pieces]
    return {
        "pieces": len({piece.key for piece in pieces}),
        "pieces_without_two_compute_ops": sum(computing(piece.graph) < 2 for piece in pieces),
        "median_frequency": statistics.median(frequency) if frequency else 0,
        "in_one_graph": sum(count == 1 for count in frequency),
        "structures": len({piece.structure for piece in pieces}),
    }


def check_variants(variants: Sequence[TaskVariant]) -> dict[str, int]:
    """Run variants in eager mode on fresh inputs."""
    import torch

    from passbench.inputs import materialize
    from schemas.fx import lower

    failing = 0
    with torch.no_grad():
        for variant in variants:
            try:
                lower(variant.graph)(*materialize(variant.graph, seed=7))
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
                failing += 1
    return {"variants_checked": len(variants), "variants_failing": failing}


def measure(run: RunDirectory, *, variants: int, seed: int) -> dict[str, Any]:
    """All figures of a run."""
    rows = sorted(run.iter_rows("variants"), key=lambda row: (row.task_id, row.index))
    chosen = random.Random(seed).sample(rows, min(variants, len(rows))) if variants else rows
    pieces = [row for row in run.iter_rows("subgraphs") if row.kind == "fusible"]
    return {
        "architectures": run.count("graphs"),
        "classes": run.count("classes"),
        **check_pieces(pieces),
        **check_places(run),
        "tasks": run.count("tasks"),
        **check_variants(chosen),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="yield of mining in a run folder, checked independently")
    parser.add_argument("--run", default="runs/default", help="folder of a finished build")
    parser.add_argument("--variants", type=int, default=0, help="run this many variants, 0 for all")
    parser.add_argument("--seed", type=int, default=0, help="which variants are run")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    given = parser.parse_args()
    found = measure(RunDirectory(given.run), variants=given.variants, seed=given.seed)
    print(json.dumps(found) if given.json else "\n".join(f"{name:32} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
