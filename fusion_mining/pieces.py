"""Stages `subgraphs` and `picks`: occurrences -> distinct pieces; pieces -> which of them are measured.

`collect` reads Occurrence and CanonicalGraph rows and writes one Subgraph a distinct piece, by key. `pick` reads
Subgraph rows and writes Pick rows in order of rank, and a Skipped for every piece left out.
Run: `passnet run subgraphs`, `passnet run picks`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fusion_mining.cut import cut
from fusion_mining.functional import functionalise
from fusion_mining.grow import GrowConfig, Wiring, regions
from fusion_mining.op_classes import classes_of, is_compute
from schemas.canonical import canonicalize
from schemas.graph import Graph
from schemas.roles import short_name
from schemas.rows import CanonicalGraph, Occurrence, Pick, Skipped, Subgraph, content_id


@dataclass(frozen=True, slots=True, kw_only=True)
class PiecesConfig:
    """How pieces are described."""

    grow: GrowConfig = field(default_factory=GrowConfig)
    """The limits that `mine` used: they tell which pieces are regions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PickConfig:
    """How many pieces are measured, and which."""

    limit: int = 40
    """Most pieces."""
    max_bytes: int = 256 * 2**20
    """Most bytes of inputs and outputs together."""
    seed: int = 0
    """Decides between pieces of equal merit."""


# --- subgraphs ------------------------------------------------------------------------------------------------------
class _Parents:
    """The graphs that pieces are cut from, made ready once each."""

    def __init__(self, classes: Iterable[CanonicalGraph], config: PiecesConfig) -> None:
        self.rows = {row.key: row for row in classes}
        self._config = config
        self._key = ""
        self._ready: tuple[Graph, frozenset[tuple[int, ...]]] | None = None

    def ready(self, key: str) -> tuple[Graph, frozenset[tuple[int, ...]]]:
        """The functional graph of a class and its regions; the last one asked for is kept."""
        if self._ready is None or key != self._key:
            graph = functionalise(self.rows[key].graph)
            found = regions(graph, self._config.grow, Wiring(graph, self._config.grow))
            self._key, self._ready = key, (graph, frozenset(found.sets))
        return self._ready


def collect(
    *, occurrences: Iterable[Occurrence], classes: Iterable[CanonicalGraph], config: PiecesConfig
) -> Iterator[Subgraph]:
    """One Subgraph a distinct piece, cut again from its smallest parent.

    Raises RuntimeError if its key is not the one that was mined.
    """
    parents = _Parents(classes, config)
    places: dict[str, list[Occurrence]] = {}
    for row in occurrences:
        places.setdefault(row.subgraph, []).append(row)
    firsts = {key: min(rows, key=lambda row: (row.parent, row.nodes)) for key, rows in places.items()}
    found = {}
    for key in sorted(firsts, key=lambda key: (firsts[key].parent, firsts[key].nodes)):
        found[key] = _subgraph(parents, firsts[key], places[key])
    for key in sorted(found):
        yield found[key]


def _subgraph(parents: _Parents, first: Occurrence, rows: Sequence[Occurrence]) -> Subgraph:
    graph, large = parents.ready(first.parent)
    form = canonicalize(cut(graph, first.nodes), free_outputs=True)
    if form.keys.exact != first.subgraph:
        raise RuntimeError(f"piece {first.subgraph} cut from {first.parent} has the key {form.keys.exact}: mine again")
    ops = compute_ops(form.graph)
    sources = [parents.rows[row.parent] for row in rows]
    return Subgraph(
        key=form.keys.exact, shape_free=form.keys.shape_free, dtype_free=form.keys.dtype_free,
        structure=form.keys.structure, topology=form.keys.topology, kind="fusible",
        rule="maximal" if first.nodes in large else "grown", pattern=" > ".join(ops), num_ops=form.graph.num_ops,
        num_compute_ops=len(ops), document_frequency=len({row.parent for row in rows}),
        occurrences=sum(row.repeats for row in rows), families=tuple(sorted({row.family for row in sources})),
        modalities=tuple(sorted({row.modality for row in sources})), licenses=(), graph=form.graph,
    )  # fmt: skip


def compute_ops(graph: Graph) -> list[str]:
    """Short names of the ops of a piece that compute, in order."""
    classes = classes_of(graph)
    return [short_name(node.target) for index, node in graph.calls() if is_compute(classes[index])]


# --- picks ----------------------------------------------------------------------------------------------------------
def pick(*, subgraphs: Iterable[Subgraph], config: PickConfig) -> Iterator[Pick | Skipped]:
    """Choose pieces that differ: rarely chosen op transitions first, then size and frequency; seeded, deterministic.

    Every topology is used once before any is used twice.
    """
    rows = sorted(subgraphs, key=lambda row: row.key)
    small = [row for row in rows if io_bytes(row.graph) <= config.max_bytes]
    chosen = _spread(small, config)
    for rank, row in enumerate(chosen):
        yield Pick(subgraph=row.key, rank=rank, pattern=row.pattern, graph=row.graph)
    done, fits = {row.key for row in chosen}, {row.key for row in small}
    for row in rows:
        if row.key not in done:
            reason = f"over the budget of {config.limit}" if row.key in fits else "inputs and outputs are too large"
            yield Skipped(item=row.key, reason=reason)


def io_bytes(graph: Graph) -> int:
    """Bytes of all inputs and outputs of a graph."""
    edge = [*graph.placeholders, *graph.nodes[-1].inputs]
    return sum(spec.nbytes for index in edge for spec in graph.nodes[index].outputs)


def transitions(graph: Graph) -> frozenset[tuple[str, str]]:
    """Pairs of op names (maker, reader) of a graph's calls."""
    names = [short_name(node.target) if node.is_call else "" for node in graph.nodes]
    return frozenset((names[k], names[index]) for index, node in graph.calls() for k in node.inputs if names[k])


def _spread(rows: Sequence[Subgraph], config: PickConfig) -> list[Subgraph]:
    chosen: list[Subgraph] = []
    while len(chosen) < config.limit:
        done = {row.key for row in chosen}
        best = _best_by_topology([row for row in rows if row.key not in done], config.seed)
        if not best:
            break
        chosen += _greedy(best, config.limit - len(chosen), chosen, config.seed)
    return chosen


def _merit(row: Subgraph) -> float:
    return row.num_compute_ops * (1.0 + math.log2(1 + row.document_frequency))


def _tie(row: Subgraph, seed: int) -> str:
    return content_id(str(seed), row.key)


def _best_by_topology(rows: Sequence[Subgraph], seed: int) -> Mapping[str, Subgraph]:
    best: dict[str, Subgraph] = {}
    for row in sorted(rows, key=lambda row: (-_merit(row), _tie(row, seed))):
        best.setdefault(row.topology, row)
    return best


def _greedy(best: Mapping[str, Subgraph], limit: int, before: Sequence[Subgraph], seed: int) -> list[Subgraph]:
    """Up to `limit` rows: each time the one with most transitions, one seen n times counting 0.5^n; then most merit."""
    seen = Counter(pair for row in before for pair in transitions(row.graph))
    waiting = {row.key: (row, transitions(row.graph)) for row in best.values()}
    found: list[Subgraph] = []

    def rank(item: tuple[Subgraph, frozenset[tuple[str, str]]]) -> tuple[float, float, str]:
        gain = sum(sorted((0.5 ** seen[pair] for pair in item[1]), reverse=True))
        return -gain, -_merit(item[0]), _tie(item[0], seed)

    while waiting and len(found) < limit:
        row, pairs = min(waiting.values(), key=rank)
        found.append(row)
        seen.update(pairs)
        del waiting[row.key]
    return found
