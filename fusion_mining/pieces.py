"""Stages `subgraphs` and `picks`: occurrences -> distinct pieces; pieces -> which of them are measured.

`collect` reads Occurrence, CanonicalGraph and Member rows and writes one Subgraph a distinct piece, by key. `pick`
reads Subgraph rows and writes Pick rows in order of rank (estimated savings), and a Skipped for every piece left out.
Run: `passnet run subgraphs`, `passnet run picks`.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fusion_mining.cut import cut
from fusion_mining.estimate import saving_us
from fusion_mining.mine import FUSIBLE, KINDS
from fusion_mining.op_classes import classes_of, is_compute
from fusion_mining.targets import target_named
from schemas.canonical import canonicalize
from schemas.functional import functionalise
from schemas.graph import Graph
from schemas.roles import short_name
from schemas.rows import CanonicalGraph, Member, Occurrence, Pick, Skipped, Subgraph, content_id


@dataclass(frozen=True, slots=True, kw_only=True)
class PiecesConfig:
    """Nothing to choose: what a piece is was decided where it was mined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PickConfig:
    """How many pieces are measured, and which."""

    limit: int = 40
    """Most pieces."""
    max_bytes: int = 256 * 2**20
    """Most bytes of inputs and outputs together."""
    seed: int = 0
    """Decides between pieces of equal merit."""
    target: str = "H200"
    """Target (`fusion_mining.targets`) that savings are estimated for; the piece of most savings goes first."""

    def __post_init__(self) -> None:
        target_named(self.target)


# --- subgraphs ------------------------------------------------------------------------------------------------------
class _Parents:
    """The graphs that pieces are cut from, made ready once each, and the members of their classes."""

    def __init__(self, classes: Iterable[CanonicalGraph], members: Iterable[Member]) -> None:
        self._rows = {row.key: row for row in classes}
        self._members: dict[str, list[Member]] = defaultdict(list)
        for member in members:
            self._members[member.key].append(member)
        self._key = ""
        self._ready: Graph | None = None

    def ready(self, key: str) -> Graph:
        """The functional graph of a class; the last one asked for is kept."""
        if self._ready is None or key != self._key:
            self._key, self._ready = key, functionalise(self._rows[key].graph)
        return self._ready

    def members(self, keys: Iterable[str]) -> list[Member]:
        """All graphs of some classes."""
        return [member for key in dict.fromkeys(keys) for member in self._members[key]]


def collect(
    *,
    occurrences: Iterable[Occurrence],
    classes: Iterable[CanonicalGraph],
    members: Iterable[Member],
    config: PiecesConfig,
) -> Iterator[Subgraph]:
    """One Subgraph a distinct piece, of the first of KINDS it was found as, cut again from its smallest parent.

    Raises RuntimeError if its key is not the one that was mined.
    """
    parents = _Parents(classes, members)
    places: dict[str, list[Occurrence]] = {}
    for row in occurrences:
        places.setdefault(row.subgraph, []).append(row)
    firsts = {key: min(rows, key=_rank) for key, rows in places.items()}
    found = {}
    for key in sorted(firsts, key=lambda key: (firsts[key].parent, firsts[key].nodes)):
        found[key] = _subgraph(parents, firsts[key], places[key])
    for key in sorted(found):
        yield found[key]


def _rank(row: Occurrence) -> tuple[int, str, tuple[int, ...]]:
    return KINDS.index(row.kind), row.parent, row.nodes


def _subgraph(parents: _Parents, first: Occurrence, rows: Sequence[Occurrence]) -> Subgraph:
    form = canonicalize(cut(parents.ready(first.parent), first.nodes), free_outputs=True)
    if form.keys.exact != first.subgraph:
        raise RuntimeError(f"piece {first.subgraph} cut from {first.parent} has the key {form.keys.exact}: mine again")
    ops = compute_ops(form.graph)
    members = parents.members(row.parent for row in rows)
    return Subgraph(
        key=form.keys.exact, shape_free=form.keys.shape_free, dtype_free=form.keys.dtype_free,
        structure=form.keys.structure, topology=form.keys.topology, kind=first.kind, rule=first.rule,
        pattern=" > ".join(ops), num_ops=form.graph.num_ops, num_compute_ops=len(ops),
        document_frequency=len({row.parent for row in rows}), occurrences=sum(row.repeats for row in rows),
        families=tuple(sorted({member.family for member in members})),
        modalities=tuple(sorted({member.modality for member in members})),
        licenses=tuple(sorted({member.license for member in members})), graph=form.graph,
    )  # fmt: skip


def compute_ops(graph: Graph) -> list[str]:
    """Short names of the ops of a piece that compute, in order."""
    classes = classes_of(graph)
    return [short_name(node.target) for index, node in graph.calls() if is_compute(classes[index])]


# --- picks ----------------------------------------------------------------------------------------------------------
def pick(*, subgraphs: Iterable[Subgraph], config: PickConfig) -> Iterator[Pick | Skipped]:
    """Choose pieces that differ: rarely chosen op transitions first, then size and frequency; seeded, deterministic.

    Only fusible pieces are measured. Every topology is used once before any is used twice. Of those chosen, the first
    are the ones that one ideal kernel would save most device time on (`estimate.saving_us`: estimated, not measured).
    """
    waiting: list[Subgraph] = []
    for row in sorted(subgraphs, key=lambda row: row.key):
        if row.kind != FUSIBLE:
            yield Skipped(item=row.key, reason="not a fusible piece")
        elif io_bytes(row.graph) > config.max_bytes:
            yield Skipped(item=row.key, reason="inputs and outputs are too large")
        else:
            waiting.append(row)
    target = target_named(config.target)
    chosen = sorted(_spread(waiting, config), key=lambda row: -saving_us(row.graph, target))
    for rank, row in enumerate(chosen):
        yield Pick(subgraph=row.key, rank=rank, pattern=row.pattern, graph=row.graph)
    done = {row.key for row in chosen}
    yield from (
        Skipped(item=row.key, reason=f"over the budget of {config.limit}") for row in waiting if row.key not in done
    )


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
