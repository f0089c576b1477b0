"""Classes among very many graphs with a known truth: exactly as planted, in little memory, resumable.

    python -m benchmarks.identity_scale --json                      # 100,000 graphs, about 10 minutes on 2 cores
    python -m benchmarks.identity_scale --graphs 2000 --json        # the same on fewer
    python -m benchmarks.identity_scale --work /tmp/scale           # keep the shards: the same command continues them

Reads the golden graphs, joined into graphs of the sizes of real ones (median about 858 nodes, 90th percentile about
1,729); writes shards of canonical forms into `--work`, a temporary folder by default, and standard output. Every
planted class has a base graph made by a numbered edit of real ones; its members are the base written otherwise (order
of statements and placeholders, names, spellings of operators). So near misses differ from their neighbour class in one
literal, dtype, attribute or operand, and the truth is known without any of the code that is measured.

| key                | meaning                                                                                   |
|--------------------|-------------------------------------------------------------------------------------------|
| graphs, nodes      | how many were classified                                                                  |
| classes            | classes found                                                                             |
| classes_as_planted | 1.0 if the found classes are exactly the planted ones, else the share of planted ones found |
| peak_rss_gib       | largest resident memory of any process, read from the kernel                              |
| minutes            | wall time of everything, making the graphs included                                       |
| minutes_identity   | CPU minutes of canonical forms and their comparison alone, all processes together         |
| order_independent  | whether merging the shards in reverse order gives the same classes                        |
"""

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.golden import stored_graphs
from dedup.shards import groups, write_shard
from schemas import values
from schemas.graph import FUNCTION, METHOD, OUTPUT, PLACEHOLDER, Graph, Node
from schemas.rows import GraphRecord, NumericCheck, content_id

SHARD = 500
SIZES = (300, 450, 600, 700, 800, 858, 950, 1_100, 1_300, 1_729, 2_600)
"""Sizes that bases are joined up to: their quantiles are those of real graphs."""
MEMBERS = (1, 1, 1, 1, 2, 2, 3, 5)
"""Members of a planted class, in turn."""


@cache
def parts() -> tuple[Graph, ...]:
    """Real graphs of moderate size that bases are made of."""
    return tuple(graph for _, graph in stored_graphs() if not graph.subgraphs and len(graph.nodes) < 600)


def base_of(number: int) -> Graph:
    """The base graph of a planted class. Classes 3k, 3k+1 and 3k+2 are near misses of each other."""
    rng = random.Random(number // 3)
    wanted = rng.choice(SIZES)
    nodes: list[Node] = []
    tail: list[int] = []
    while len(nodes) < wanted:
        graph = rng.choice(parts())
        start, left = len(nodes), max(40, wanted - len(nodes))
        for node in graph.nodes[: min(left, len(graph.nodes) - 1)]:
            nodes.append(_moved(node, tuple([start + k for k in node.inputs]), len(nodes)))
        tail.append(len(nodes) - 1)
    nodes.append(_call(f"torch.f{number // 3}", tail, [], len(nodes)))
    return _closed(_near_miss(nodes, number))


def _near_miss(nodes: list[Node], number: int) -> list[Node]:
    """The nodes with one more call whose literal, type of literal or operand tells the three neighbours apart."""
    last = len(nodes) - 1
    if number % 3 == 0:
        return [*nodes, _call("torch.sub", [last, 0], [], last + 1)]
    if number % 3 == 1:
        return [*nodes, _call("torch.sub", [0, last], [], last + 1)]
    return [*nodes, _call("torch.sub", [last, last], [], last + 1)]


def _moved(node: Node, inputs: tuple[int, ...], index: int) -> Node:
    return Node(op=node.op, name=f"n{index}", target=node.target, inputs=inputs, attrs=node.attrs, outputs=node.outputs)


def _call(target: str, inputs: list[int], rest: list[Any], index: int) -> Node:
    attrs = values.dumps({"args": [*({"in": k} for k in range(len(inputs))), *rest], "kwargs": {}})
    return Node(op=FUNCTION, name=f"n{index}", target=target, inputs=tuple(inputs), attrs=attrs, outputs=())


def _closed(nodes: list[Node]) -> Graph:
    attrs = values.dumps({"args": [{"tuple": [{"in": 0}]}], "kwargs": {}})
    end = Node(op=OUTPUT, name="output", target="", inputs=(len(nodes) - 1,), attrs=attrs, outputs=())
    inits = tuple('{"kind":"zeros"}' for node in nodes if node.op == PLACEHOLDER)
    return Graph(nodes=(*nodes, end), inits=inits, subgraphs=())


def variant_of(graph: Graph, seed: int) -> Graph:
    """The graph written otherwise: other order, names and spellings. Calls that may write stay in their order."""
    rng = random.Random(seed)
    count = len(graph.nodes) - 1
    waiting = [0] * count
    after: list[list[int]] = [[] for _ in range(count)]
    fence = -1
    for index, node in enumerate(graph.nodes[:-1]):
        needed = {*node.inputs, *([fence] if fence >= 0 and node.is_call else [])}
        if _is_fence(node):
            needed.update(k for k in range(max(fence, 0), index) if graph.nodes[k].is_call)
            fence = index
        for source in needed:
            after[source].append(index)
        waiting[index] = len(needed)
    ready = [index for index in range(count) if not waiting[index]]
    order: list[int] = []
    while ready:
        place = rng.randrange(len(ready))
        ready[place], ready[-1] = ready[-1], ready[place]
        order.append(ready.pop())
        for later in after[order[-1]]:
            waiting[later] -= 1
            if not waiting[later]:
                ready.append(later)
    new = {old: place for place, old in enumerate(order)}
    nodes = [_respelled(graph.nodes[old], new, place, rng) for place, old in enumerate(order)]
    return _closed([*nodes[:-1], nodes[-1]]) if order[-1] == count - 1 else _ended(nodes, new[count - 1])


def _ended(nodes: list[Node], last: int) -> Graph:
    closed = _closed(nodes)
    end = _moved(closed.nodes[-1], (last,), len(nodes))
    return Graph(nodes=(*closed.nodes[:-1], end), inits=closed.inits, subgraphs=())


_PURE_METHODS = frozenset(
    "view reshape transpose permute contiguous to float unsqueeze squeeze flatten mean pow expand chunk sum size rsqrt "
    "type long split repeat".split()
)
_SWAPS = {"operator.add": "torch.add", "operator.mul": "torch.mul", "operator.sub": "torch.sub"}


def _is_fence(node: Node) -> bool:
    """Whether a call may do more than return a value; everything stays on its side of such a call."""
    if node.op == METHOD:
        return node.target not in _PURE_METHODS
    last = node.target.rpartition(".")[2]
    in_place = last.endswith("_") or last in ("setitem", "iadd", "imul", "itruediv", "isub", "_log_api_usage_once")
    in_place = in_place or node.target.startswith("torch.ops.")
    return node.is_call and (in_place or "inplace" in node.attrs or "dropout" in last or ",true" in node.attrs)


def _respelled(node: Node, new: dict[int, int], place: int, rng: random.Random) -> Node:
    target = node.target
    if target in _SWAPS and len(node.outputs) == 1 and len(node.inputs) == 2 and rng.random() < 0.5:
        target = _SWAPS[target]
    return Node(
        op=node.op, name=f"v{rng.randrange(10)}_{place}", target=target, inputs=tuple([new[k] for k in node.inputs]),
        attrs=node.attrs, outputs=node.outputs,
    )  # fmt: skip


def plan(count: int) -> Iterator[tuple[int, int]]:
    """(planted class, member) of every graph, far apart from each other."""
    found = []
    number = 0
    while len(found) < count:
        found += [(number, member) for member in range(MEMBERS[number % len(MEMBERS)])]
        number += 1
    random.Random(0).shuffle(found := found[:count])
    yield from found


def rows_of(chosen: list[tuple[int, int]], spent: list[float]) -> Iterator[GraphRecord]:
    """One GraphRecord a planted graph; `spent` takes the CPU seconds that making them took."""
    for number, member in chosen:
        began = time.process_time()
        base = base_of(number)
        graph = variant_of(base, number * 100 + member) if member else base
        spent[0] += time.process_time() - began
        spent[1] += len(graph.nodes)
        yield GraphRecord(
            graph_id=content_id("scale", str(number), str(member)), architecture=f"{number}", name=f"{number}/{member}",
            family="", modality="", license="", entry_point="", capture="", rung="", break_index=0, break_count=1,
            break_reason="", num_nodes=len(graph.nodes), num_ops=0, num_parameters=0, numeric=NumericCheck.TOO_LARGE,
            numeric_detail="", graph=graph,
        )  # fmt: skip


def make_shard(job: tuple[int, list[tuple[int, int]], str]) -> dict[str, float]:
    """Write one shard unless it is there; returns its figures."""
    number, chosen, folder = job
    path = Path(folder) / f"shard-{number:05d}"
    kept = path.with_suffix(".figures")
    if path.with_suffix(".json").exists() and kept.exists():
        figures: dict[str, float] = json.loads(kept.read_text())
        return figures
    spent, began = [0.0, 0.0], time.process_time()
    write_shard(rows_of(chosen, spent), path)
    took = time.process_time() - began - spent[0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    figures = {"identity_s": took, "nodes": spent[1], "peak_gib": peak}
    kept.write_text(json.dumps(figures))
    return figures


def classes_in(indices: list[Path]) -> list[tuple[str, ...]]:
    """The members of every class found, by key."""
    return [tuple(entry.name for entry in group.entries) for group in groups(indices)]


def measure(count: int, folder: Path, workers: int) -> dict[str, Any]:
    """Every figure."""
    began = time.monotonic()
    chosen = list(plan(count))
    jobs = [(k, chosen[start : start + SHARD], str(folder)) for k, start in enumerate(range(0, count, SHARD))]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        figures = []
        for done, found in enumerate(pool.map(make_shard, jobs), 1):
            figures.append(found)
            print(f"\r{done}/{len(jobs)} shards", end="", file=sys.stderr, flush=True)
    indices = [folder / f"shard-{k:05d}.json" for k, _, _ in jobs]
    merge = time.process_time()
    found_classes = classes_in(indices)
    merged = time.process_time() - merge
    minutes = (time.monotonic() - began) / 60
    planted: dict[int, set[str]] = {}
    for number, member in chosen:
        planted.setdefault(number, set()).add(f"{number}/{member}")
    wanted = {frozenset(names) for names in planted.values()}
    got = {frozenset(names) for names in found_classes}
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "graphs": count, "nodes": int(sum(item["nodes"] for item in figures)), "classes": len(found_classes),
        "planted": len(planted), "classes_as_planted": round(len(wanted & got) / len(wanted), 6),
        "peak_rss_gib": round(max(own, *(item["peak_gib"] for item in figures)), 3), "minutes": round(minutes, 2),
        "minutes_identity": round((sum(item["identity_s"] for item in figures) + merged) / 60, 2),
        "order_independent": classes_in(indices[::-1]) == found_classes,
    }  # fmt: skip


def main() -> None:
    """Entry of `python -m benchmarks.identity_scale`."""
    parser = argparse.ArgumentParser(description="Classes among very many graphs with a known truth.")
    parser.add_argument("--graphs", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", type=Path, help="folder of the shards, kept; the same command continues it")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="passnet-scale-") as temporary:
        folder = options.work or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = measure(options.graphs, folder, options.workers)
    print(json.dumps(found) if options.json else "\n".join(f"{key:<20} {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
