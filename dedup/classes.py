"""Stage `classes`: graphs -> one CanonicalGraph a class of equal graphs, one Member a graph, one Relation a class.

Reads GraphRecord rows; writes CanonicalGraph, Member and Relation rows.
Run: `passnet run classes`, or `list(classify(graphs=rows, config=ClassifyConfig()))`.

Two graphs are one class only if their canonical *bytes* are equal: the key is a hash that is not safe against an
adversary, so bytes are compared on every hit. Of a share of the graphs an independent oracle is asked as well. Forms
wait on disk (`dedup.shards`); the rows are read twice and never held, so any number of graphs fits. The representative
is the member with the smallest (name, graph_id); the order in which graphs are read changes nothing but the order in
which rows are yielded.
"""

import tempfile
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import xxhash

from dedup.audit import IdentityError, isomorphic, raise_mismatch
from dedup.related import RelatedConfig, Sketch, relate, sketch_of
from dedup.shards import Entry, Group, groups, write_shard
from schemas.canonical import canonicalize
from schemas.graph import Graph
from schemas.normal import normalised
from schemas.rows import CanonicalGraph, GraphRecord, Member, Relation

SHARD_ROWS = 512
"""Graphs a file of forms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifyConfig:
    """Settings of the stage; identity itself is defined by `schemas.canonical`."""

    oracle_share: float = 0.05
    """Share of the members beyond the first that the oracle compares with their representative, by key."""
    oracle_nodes: int = 40
    """Most nodes of a graph that the oracle is asked about."""
    family_cap: int = 8
    """Most classes that one structure family gives to published splits."""
    near: float = 0.8
    """Least share of common op sequences (Jaccard) that makes two classes near-duplicates."""

    def __post_init__(self) -> None:
        if not 0 <= self.oracle_share <= 1 or not 0 < self.near <= 1 or self.family_cap < 1 or self.oracle_nodes < 0:
            raise ValueError("oracle_share and near must be shares, family_cap at least 1, oracle_nodes not negative")


def classify(
    *, graphs: Collection[GraphRecord], config: ClassifyConfig
) -> Iterator[CanonicalGraph | Member | Relation]:
    """Group graphs by exact canonical form; raises IdentityError if two different forms share one key."""
    with tempfile.TemporaryDirectory(prefix="passnet-classes-") as folder:
        try:
            found = list(groups(write_shards(graphs, Path(folder))))
        except IdentityError as error:
            _explain(error, graphs)
            raise
    yield from _rows(graphs, found, config)


def write_shards(graphs: Iterable[GraphRecord], folder: Path) -> list[Path]:
    """Write the forms of all graphs, a file for every SHARD_ROWS; returns the paths of the indices."""
    rows, indices = iter(graphs), list[Path]()
    for first in rows:
        batch = chain([first], islice(rows, SHARD_ROWS - 1))
        indices.append(write_shard(batch, folder / f"shard-{len(indices):05d}"))
    return indices


def _explain(error: IdentityError, graphs: Iterable[GraphRecord]) -> None:
    """Raise again with both graphs saved."""
    pair = [row.graph for row in graphs if error.pair and row.graph_id in error.pair]
    if len(pair) == 2:
        raise_mismatch(str(error), pair[0], pair[1])


def _rows(
    graphs: Iterable[GraphRecord], found: list[Group], config: ClassifyConfig
) -> Iterator[CanonicalGraph | Member | Relation]:
    key_of = {entry.graph_id: group.key for group in found for entry in group.entries}
    first = {group.entries[0].graph_id: group for group in found}
    asked = {entry.graph_id: group.entries[0].graph_id for group in found for entry in _sampled(group, config)}
    needed = asked.keys() | asked.values()
    waiting: dict[str, Graph] = {}
    sketches: list[Sketch] = []
    for row in graphs:
        if row.graph_id in needed and len(row.graph.nodes) <= config.oracle_nodes:
            waiting[row.graph_id] = row.graph
        if row.graph_id in first:
            made = class_row(row, first[row.graph_id])
            sketches.append(sketch_of(made))
            yield made
        yield Member(
            graph_id=row.graph_id, key=key_of[row.graph_id], architecture=row.architecture, family=row.family,
            modality=row.modality, license=row.license,
        )  # fmt: skip
    _ask_oracle(waiting, asked)
    yield from relate(sketches, RelatedConfig(family_cap=config.family_cap, near=config.near))


def _sampled(group: Group, config: ClassifyConfig) -> list[Entry]:
    """Members of a class that the oracle is asked about; by key, so that a rebuild asks about the same."""
    limit = int(config.oracle_share * 2**32)
    return [entry for entry in group.entries[1:] if xxhash.xxh32_intdigest(entry.graph_id.encode()) < limit]


def _ask_oracle(waiting: dict[str, Graph], asked: dict[str, str]) -> None:
    for graph_id, representative in sorted(asked.items()):
        if graph_id in waiting and representative in waiting:
            a, b = waiting[representative], waiting[graph_id]
            if not isomorphic(a, b):
                raise_mismatch(f"graphs {representative} and {graph_id} share a form but are not isomorphic", a, b)


def class_row(row: GraphRecord, group: Group) -> CanonicalGraph:
    """The row of a class from its representative."""
    form = canonicalize(row.graph)
    graph = form.graph
    return CanonicalGraph(
        key=form.key, shape_free=form.keys.shape_free, dtype_free=form.keys.dtype_free,
        structure=form.keys.structure, topology=form.keys.topology, body=form.body,
        inference=canonicalize(normalised(row.graph, "inference")).key, members=len(group.entries),
        architectures=len({entry.architecture for entry in group.entries}), representative=row.graph_id, name=row.name,
        family=row.family, modality=row.modality, license=row.license, num_nodes=len(graph.nodes),
        num_ops=graph.num_ops, graph=graph,
    )  # fmt: skip
