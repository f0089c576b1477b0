"""Classes: equal graphs meet in one row, every graph is accounted for, a hash collision is an error."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup import classes
from dedup.classes import ClassifyConfig, classify
from schemas.canonical import canonicalize
from schemas.graph import Graph
from schemas.rows import CanonicalGraph, GraphRecord, Member, NumericCheck
from tests.schemas.drafts import Draft, graphs, shuffled

pytestmark = pytest.mark.plain


def record(graph: Graph, graph_id: str, name: str = "bert/BertModel") -> GraphRecord:
    return GraphRecord(
        graph_id=graph_id, architecture=f"a{graph_id}", name=name, family="bert", modality="text-encoder",
        license="apache-2.0", entry_point="forward", capture="dynamo-eval", rung="fake", break_index=0,
        break_count=1, break_reason="", num_nodes=len(graph.nodes), num_ops=graph.num_ops, num_parameters=0,
        numeric=NumericCheck.EQUAL, numeric_detail="", graph=graph,
    )  # fmt: skip


def unary(target: str) -> Graph:
    d = Draft()
    return d.graph(d.call(target, d.input()))


def run(rows: list[GraphRecord]) -> tuple[list[CanonicalGraph], list[Member]]:
    found = list(classify(graphs=rows, config=ClassifyConfig()))
    return [r for r in found if isinstance(r, CanonicalGraph)], [r for r in found if isinstance(r, Member)]


def test_the_representative_is_the_smallest_name_then_id():
    rows = [record(unary("torch.exp"), graph_id, name) for graph_id, name in (("3", "b"), ("2", "a"), ("1", "a"))]
    (row,), members = run(rows)
    assert (row.representative, row.name, row.members) == ("1", "a", 3)
    assert [member.graph_id for member in members] == ["1", "2", "3"]
    assert {member.key for member in members} == {row.key}


@given(st.lists(graphs(max_ops=3), min_size=1, max_size=6), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_every_graph_has_one_member_row_and_input_order_does_not_matter(drawn: list[Graph], seed: int):
    rows = [record(graph, f"{k}") for k, graph in enumerate([*drawn, shuffled(drawn[0], seed)])]
    found, members = run(rows)
    assert run(rows[::-1]) == (found, members)
    assert [member.graph_id for member in members] == sorted(row.graph_id for row in rows)
    assert sum(row.members for row in found) == len(rows)
    assert members[0].key == members[-1].key
    for row in found:
        assert canonicalize(row.graph).keys.exact == row.key


def test_a_hash_collision_is_an_error_not_a_merge(monkeypatch: pytest.MonkeyPatch):
    real = canonicalize

    def weak(graph: Graph) -> object:
        form = real(graph)
        return type(form)(**{**vars(form), "keys": real(unary("torch.exp")).keys})

    monkeypatch.setattr(classes, "canonicalize", weak)
    with pytest.raises(RuntimeError, match="share the key"):
        run([record(unary("torch.exp"), "1"), record(unary("torch.relu"), "2")])
