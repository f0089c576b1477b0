"""Families and near-duplicates: ranks, the cap, clusters; the estimate is close to the true share."""

import random

import pytest

from dedup.related import RelatedConfig, Sketch, relate, sequences_of, sketch_of
from schemas.canonical import canonicalize
from schemas.graph import Graph
from schemas.rows import CanonicalGraph, Relation
from tests.schemas.drafts import Draft, spec

pytestmark = pytest.mark.plain
OPS = [f"torch.op{k}" for k in range(40)]


def row(graph: Graph, members: int = 1) -> CanonicalGraph:
    form = canonicalize(graph)
    keys = form.keys
    return CanonicalGraph(
        key=keys.exact, shape_free=keys.shape_free, dtype_free=keys.dtype_free, structure=keys.structure,
        topology=keys.topology, body=form.body, inference="", members=members, architectures=members,
        representative="", name="", family="", modality="", license="", num_nodes=len(graph.nodes),
        num_ops=graph.num_ops, graph=graph,
    )  # fmt: skip


def chain(ops: list[str], size: int = 4) -> Graph:
    d = Draft()
    value = d.input(spec(size))
    for op in ops:
        value = d.call(op, value, of=spec(size))
    return d.graph(value)


def related(rows: list[CanonicalGraph], **settings: float) -> list[Relation]:
    return list(relate([sketch_of(item) for item in rows], RelatedConfig(**settings)))  # type: ignore[arg-type]


def test_a_family_gives_at_most_its_cap_and_lists_the_rest():
    rows = [row(chain(["torch.exp"], size), members=size) for size in range(2, 8)]
    found = related(rows, family_cap=2)
    assert sum(relation.contributes for relation in found) == 2
    best = [item.key for item in sorted(rows, key=lambda item: -item.members)[:2]]
    assert sorted(relation.key for relation in found if relation.contributes) == sorted(best)
    assert {relation.cluster_size for relation in found} == {6}
    assert len({relation.structure for relation in found}) == 1


def test_near_duplicates_cluster_and_others_do_not():
    base = row(chain(OPS))
    near = row(chain([*OPS[:-1], "torch.other"]))
    far = row(chain([f"torch.far{k}" for k in range(40)]))
    found = {relation.key: relation for relation in related([base, near, far])}
    assert found[base.key].cluster == found[near.key].cluster != found[far.key].cluster
    assert (found[base.key].nearest, found[far.key].nearest) == (near.key, "")
    assert found[base.key].similarity == found[near.key].similarity > 0.8


def test_order_of_classes_does_not_matter():
    rows = [row(chain(OPS[k : k + 12])) for k in range(12)]
    assert related(rows) == related(rows[::-1])


@pytest.mark.parametrize("shared", [10, 25, 38])
def test_the_estimate_is_close_to_the_true_share(shared: int):
    rng = random.Random(shared)
    names = [f"torch.x{k}" for k in range(200)]
    left = chain(rng.sample(names, 60))
    right = chain([node.target for _, node in left.calls()][:shared] + rng.sample(names, 60 - shared))
    a, b = sequences_of(left), sequences_of(right)
    first, second = sketch_of(row(left)), sketch_of(row(right))
    estimate = float((first.signature == second.signature).mean())
    assert abs(estimate - len(a & b) / len(a | b)) < 0.15


def test_a_sketch_does_not_depend_on_the_order_of_statements():
    def graph(first: bool) -> Graph:
        d = Draft()
        x = d.input()
        a = d.call("torch.exp", x) if first else None
        b = d.call("torch.sin", x)
        a = d.call("torch.exp", x) if a is None else a
        return d.graph(d.call("torch.sub", a, b))

    left, right = (sketch_of(row(graph(first))) for first in (True, False))
    assert (left.signature == right.signature).all()
    assert isinstance(left, Sketch)
