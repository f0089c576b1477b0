"""Growth against brute force: random graphs of up to 14 nodes, every combination of limits, all subsets of calls.

    python -m benchmarks.mining_brute --json

Reads nothing, prints. What a piece is stands here a second time, read off `fusion_mining.grow`'s documentation and
written with sets of indices; it shares the table of op classes with growth, nothing else. Half of the graphs repeat a
body; those that fold (as few nodes as there are, here) are grown folded as well.

| key           | meaning                                                               |
|---------------|-----------------------------------------------------------------------|
| brute_graphs  | random graphs                                                         |
| brute_folded  | those of them that fold                                               |
| brute_limits  | combinations of limits tried on each, folded and not                  |
| brute_pieces  | pieces that brute force found in all of them                          |
| brute_wrong   | graphs and limits at which growth found other pieces, or one twice    |
"""

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from fusion_mining.fold import stretches
from fusion_mining.grow import GrowConfig, grow
from fusion_mining.op_classes import CONTRACTION, classes_of, is_compute, is_fusible
from schemas import values
from schemas.forms import tokens_of
from schemas.graph import FUNCTION, METHOD, OUTPUT, PLACEHOLDER, Graph, Node, TensorSpec

SPEC = TensorSpec(dtype="float32", shape=(4, 4), stride=(4, 1), device="cpu")
OPS = ("torch.exp", "torch.relu", "torch.sub", "torch.sub", "torch.matmul", "torch.unheard_of", "view")
VIEWS = ("view", "view", "view", "t", "view_as", "torch.zeros", "torch.exp", "torch.sub", "torch.sub", "torch.matmul")
"""What every third graph is made of: mostly views, some of two values, and values from nothing."""
OPERANDS = {"torch.sub": 2, "torch.matmul": 2, "view_as": 2, "torch.zeros": 0}
"""How many values an op reads, where it is not one."""
METHODS = ("view", "view_as", "t")
MAX_NODES = 14
LIMITS: dict[str, tuple[int, int]] = {
    "min_ops": (1, 2), "max_ops": (3, 9), "max_nodes": (4, 14), "max_inputs": (2, 8), "max_outputs": (1, 3),
    "max_users": (1, 8), "contractions": (0, 1),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A connected convex set of calls without dangling views, and what limits ask of it."""

    nodes: tuple[int, ...]
    ops: int
    inputs: int
    outputs: int
    contractions: int
    users: int
    """Most readers of a member that another member reads."""


def random_graph(seed: int) -> Graph:
    """One to three inputs, then calls; every other graph applies one body again and again, every third is of views."""
    rng = random.Random(seed)
    nodes = [_node(PLACEHOLDER, "input", (), k) for k in range(rng.randint(1, 3))]
    first = len(nodes)
    calls = rng.randint(3, MAX_NODES - first)
    period = rng.randint(2, 4) if seed % 2 else calls
    body = [(rng.choice(VIEWS if seed % 3 == 2 else OPS), rng.randint(1, 4), rng.randint(1, 4)) for _ in range(period)]
    for k in range(calls):
        target, one, other = body[k % period]
        here = len(nodes)
        inputs = (max(0, here - one), max(0, here - other))[: OPERANDS.get(target, 1)]
        nodes.append(_node(METHOD if target in METHODS else FUNCTION, target, inputs, here))
    outputs = tuple(sorted({len(nodes) - 1, *rng.sample(range(first, len(nodes)), rng.randint(0, 1))}))
    attrs = values.dumps({"args": [{"tuple": [{"in": k} for k in range(len(outputs))]}], "kwargs": {}})
    nodes.append(Node(op=OUTPUT, name="output", target="", inputs=outputs, attrs=attrs, outputs=()))
    return Graph(nodes=tuple(nodes), inits=('{"kind":"normal","mean":0.0,"std":1.0}',) * first, subgraphs=())


def _node(op: str, target: str, inputs: tuple[int, ...], index: int) -> Node:
    args = [{"in": k} for k in range(len(inputs))] + ([4, 4] if target in ("view", "torch.zeros") else [])
    attrs = values.dumps({"args": args, "kwargs": {}}) if op != PLACEHOLDER else "{}"
    return Node(op=op, name=f"n{index}", target=target, inputs=inputs, attrs=attrs, outputs=(SPEC,))


def candidates(graph: Graph, classes: Sequence[str]) -> Iterator[Candidate]:
    """Every subset of two or more calls that limits alone may refuse."""
    known = [k for k, _ in graph.calls() if graph.users[k] and (is_fusible(classes[k]) or classes[k] == CONTRACTION)]
    reach = _reach(graph)
    for size in range(2, len(known) + 1):
        for nodes in combinations(known, size):
            inside = frozenset(nodes)
            if _is_connected(graph, inside) and _is_convex(reach, inside) and not _dangles(graph, classes, inside):
                yield _candidate(graph, classes, inside)


def _reach(graph: Graph) -> list[set[int]]:
    """For every node all that depends on it."""
    found: list[set[int]] = [set() for _ in graph.nodes]
    for index in reversed(range(len(graph.nodes))):
        for user in graph.users[index]:
            found[index] |= {user} | found[user]
    return found


def _is_connected(graph: Graph, inside: frozenset[int]) -> bool:
    start = min(inside)
    seen, waiting = {start}, [start]
    while waiting:
        index = waiting.pop()
        near = (inside & {*graph.users[index], *graph.nodes[index].inputs}) - seen
        seen |= near
        waiting += near
    return len(seen) == len(inside)


def _is_convex(reach: Sequence[set[int]], inside: frozenset[int]) -> bool:
    below = set().union(*(reach[k] for k in inside)) - inside
    return not any(reach[k] & inside for k in below)


def _dangles(graph: Graph, classes: Sequence[str], inside: frozenset[int]) -> bool:
    for index in (k for k in inside if not is_compute(classes[k])):
        readers, sources = len(inside & set(graph.users[index])), set(graph.nodes[index].inputs)
        if not readers or (readers == 1 and sources and not inside & sources):
            return True
    return False


def _candidate(graph: Graph, classes: Sequence[str], inside: frozenset[int]) -> Candidate:
    read_inside = [len(graph.users[k]) for k in inside if inside & set(graph.users[k])]
    return Candidate(
        nodes=tuple(sorted(inside)), ops=sum(is_compute(classes[k]) for k in inside),
        inputs=len({s for k in inside for s in graph.nodes[k].inputs} - inside),
        outputs=sum(bool(set(graph.users[k]) - inside) for k in inside),
        contractions=sum(classes[k] == CONTRACTION for k in inside), users=max(read_inside),
    )  # fmt: skip


def allowed(item: Candidate, config: GrowConfig) -> bool:
    """Whether a candidate keeps within the limits."""
    counts = config.min_ops <= item.ops <= config.max_ops and item.contractions <= config.contractions
    edges = 0 < item.inputs <= config.max_inputs and 0 < item.outputs <= config.max_outputs
    return counts and edges and len(item.nodes) <= config.max_nodes and item.users <= config.max_users


def measure(count: int) -> dict[str, Any]:
    """Every figure."""
    limits = [GrowConfig(**dict(zip(LIMITS, chosen, strict=True))) for chosen in product(*LIMITS.values())]
    pieces, folds, wrong = 0, 0, []
    for seed in range(count):
        graph = random_graph(seed)
        classes = classes_of(graph)
        folded = stretches(graph, [token.records[0] for token in tokens_of(graph, ())], classes, least=1)
        folds += bool(folded)
        known = list(candidates(graph, classes))
        for number, config in enumerate(limits):
            expected = sorted(item.nodes for item in known if allowed(item, config))
            pieces += len(expected)
            found = [sorted(grow(graph, config, stretches=each).places) for each in ((), folded)]
            if found != [expected, expected]:
                wrong.append([seed, number])
    return {
        "brute_graphs": count,
        "brute_folded": folds,
        "brute_limits": len(limits),
        "brute_pieces": pieces,
        "brute_wrong": wrong,
    }


def main() -> None:
    """Entry of `python -m benchmarks.mining_brute`."""
    parser = argparse.ArgumentParser(description="Growth against brute force.")
    parser.add_argument("--graphs", type=int, default=1000, help="random graphs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = measure(options.graphs)
    print(json.dumps(found) if options.json else "\n".join(f"{key:<14} {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
