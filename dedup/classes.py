"""Stage `classes`: graphs -> one CanonicalGraph a class of equal graphs, one Member a graph.

Reads GraphRecord rows; writes CanonicalGraph and Member rows, classes by key, members by graph id.
Run: `passnet run classes`, or `list(classify(graphs=rows, config=ClassifyConfig()))`.

Two graphs are one class only if their canonical *bytes* are equal: the key is a hash that is not safe against
an adversary, so bytes are compared on every hit.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from schemas.canonical import Canonical, canonicalize
from schemas.rows import CanonicalGraph, GraphRecord, Member


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifyConfig:
    """Nothing to choose: identity is defined by `schemas.canonical`."""


@dataclass(slots=True)
class _Class:
    """A class in the making: its bytes and its members."""

    blob: bytes
    members: list[GraphRecord] = field(default_factory=list)


def classify(*, graphs: Iterable[GraphRecord], config: ClassifyConfig) -> Iterator[CanonicalGraph | Member]:
    """Group graphs by exact canonical form; raises RuntimeError if two different forms share one key."""
    found: dict[str, _Class] = {}
    key_of: dict[str, str] = {}
    for row in sorted(graphs, key=lambda row: (row.name, row.graph_id)):
        form = canonicalize(row.graph)
        group = found.setdefault(form.keys.exact, _Class(form.blob))
        if group.blob != form.blob:
            other = group.members[0].graph_id
            raise RuntimeError(
                f"graphs {other} and {row.graph_id} differ but share the key {form.keys.exact}: report it"
            )
        group.members.append(row)
        key_of[row.graph_id] = form.keys.exact
    for key in sorted(found):
        members = found[key].members
        yield _class_row(canonicalize(members[0].graph), members)
    rows = [row for group in found.values() for row in group.members]
    for row in sorted(rows, key=lambda row: row.graph_id):
        yield Member(
            graph_id=row.graph_id, key=key_of[row.graph_id], architecture=row.architecture, family=row.family,
            modality=row.modality, license=row.license,
        )  # fmt: skip


def _class_row(form: Canonical, members: list[GraphRecord]) -> CanonicalGraph:
    first, graph = members[0], form.graph
    return CanonicalGraph(
        key=form.keys.exact, shape_free=form.keys.shape_free, dtype_free=form.keys.dtype_free,
        structure=form.keys.structure, topology=form.keys.topology, members=len(members),
        representative=first.graph_id, name=first.name, family=first.family, modality=first.modality,
        license=first.license, num_nodes=len(graph.nodes), num_ops=graph.num_ops, graph=graph,
    )  # fmt: skip
