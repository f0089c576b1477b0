"""Classes: equal graphs meet in one row, every graph is accounted for, a hash collision is an error."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.store import Part, RunDirectory
from data.stored import StoredRows
from dedup import classes, shards
from dedup.audit import IdentityError, isomorphic, raise_mismatch
from dedup.classes import ClassifyConfig, classify
from schemas.arrow import to_table
from schemas.canonical import canonicalize
from schemas.graph import Graph
from schemas.rows import CanonicalGraph, GraphRecord, Member, NumericCheck, Relation, row_key
from tests.schemas.drafts import Draft, graphs, shuffled

pytestmark = pytest.mark.plain
ALL = ClassifyConfig(oracle_share=1.0)


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


def run(
    rows: list[GraphRecord], config: ClassifyConfig = ALL
) -> tuple[list[CanonicalGraph], list[Member], list[Relation]]:
    found = sorted(classify(graphs=rows, config=config), key=row_key)
    kinds = (CanonicalGraph, Member, Relation)
    return tuple([row for row in found if isinstance(row, kind)] for kind in kinds)  # type: ignore[return-value]


def test_the_representative_is_the_smallest_name_then_id():
    rows = [record(unary("torch.exp"), graph_id, name) for graph_id, name in (("3", "b"), ("2", "a"), ("1", "a"))]
    (row,), members, (relation,) = run(rows)
    assert (row.representative, row.name, row.members, row.architectures) == ("1", "a", 3, 3)
    assert [member.graph_id for member in members] == ["1", "2", "3"]
    assert {member.key for member in members} == {row.key} == {relation.key}


@given(st.lists(graphs(max_ops=3), min_size=1, max_size=6), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_every_graph_has_one_member_row_and_input_order_does_not_matter(drawn: list[Graph], seed: int):
    rows = [record(graph, f"{k}") for k, graph in enumerate([*drawn, shuffled(drawn[0], seed)])]
    found, members, relations = run(rows)
    assert run(rows[::-1]) == (found, members, relations)
    assert [member.graph_id for member in members] == sorted(row.graph_id for row in rows)
    assert sum(row.members for row in found) == len(rows)
    assert members[0].key == members[-1].key
    assert [row.key for row in relations] == [row.key for row in found]
    for row in found:
        assert canonicalize(row.graph).keys.exact == row.key


def test_the_cut_into_shards_does_not_matter(monkeypatch: pytest.MonkeyPatch):
    rows = [record(unary(f"torch.f{k % 4}"), f"{k}") for k in range(9)]
    whole = run(rows)
    monkeypatch.setattr(classes, "SHARD_ROWS", 2)
    assert run(rows) == whole
    assert len(whole[0]) == 4


def test_a_graph_is_read_when_the_one_before_is_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    read, seen = [0], list[int]()
    real = canonicalize

    def watched(graph: Graph) -> object:
        seen.append(read[0])
        return real(graph)

    def rows() -> Iterator[GraphRecord]:
        for k in range(9):
            read[0] += 1
            yield record(unary(f"torch.f{k}"), f"{k}")

    monkeypatch.setattr(classes, "SHARD_ROWS", 4)
    monkeypatch.setattr(shards, "canonicalize", watched)
    assert len(classes.write_shards(rows(), tmp_path)) == 3
    assert seen == list(range(1, 10))


def test_stored_graphs_give_the_same_rows_in_the_same_order(tmp_path: Path):
    rows = [record(unary(f"torch.f{k % 4}"), f"{k}") for k in range(9)]
    store = RunDirectory(tmp_path)
    store.write_parts([Part(table="graphs", index=i, data=to_table(rows[i::2], GraphRecord)) for i in range(2)])
    held = StoredRows(store.parts("graphs"))
    assert list(classify(graphs=held, config=ALL)) == list(classify(graphs=rows[0::2] + rows[1::2], config=ALL))


def weaken(monkeypatch: pytest.MonkeyPatch, blob: bytes | None = None) -> None:
    """Give every graph the key of exp; with `blob` its form too."""
    real = canonicalize

    def weak(graph: Graph) -> object:
        form = real(graph)
        vars(form)["key"] = real(unary("torch.exp")).key
        if blob is not None:
            object.__setattr__(form, "blob", blob)
        return form

    monkeypatch.setattr(shards, "canonicalize", weak)


def test_a_hash_collision_is_an_error_not_a_merge(monkeypatch: pytest.MonkeyPatch):
    weaken(monkeypatch)
    with pytest.raises(IdentityError, match="share the key") as error:
        run([record(unary("torch.exp"), "1"), record(unary("torch.relu"), "2")])
    folder = Path(str(error.value).rpartition(" in ")[2])
    assert Graph.from_json((folder / "left.json").read_text()) == unary("torch.exp")
    assert "torch.relu" in (folder / "difference.txt").read_text()


def test_the_oracle_finds_a_form_that_joins_what_differs(monkeypatch: pytest.MonkeyPatch):
    weaken(monkeypatch, b"one form for all")
    rows = [record(unary("torch.exp"), "1"), record(unary("torch.relu"), "2")]
    with pytest.raises(IdentityError, match="not isomorphic"):
        run(rows)
    assert len(run(rows, ClassifyConfig(oracle_share=0.0))[0]) == 1, "without the oracle nobody notices"


def test_a_mismatch_leaves_both_graphs_and_a_picture(tmp_path: Path):
    with pytest.raises(IdentityError, match="both graphs"):
        raise_mismatch("no good", unary("torch.exp"), unary("torch.sin"), tmp_path / "kept")
    names = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert names == ["difference.svg", "difference.txt", "left.json", "right.json"]


@given(graphs(max_ops=6), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_the_oracle_agrees_with_shuffling(graph: Graph, seed: int):
    assert isomorphic(graph, shuffled(graph, seed))


def test_the_oracle_sees_a_write_between_reads():
    def program(early: bool) -> Graph:
        d = Draft()
        x = d.input()
        read = d.call("torch.exp", x) if early else None
        d.method("add_", x, 1)
        return d.graph(read if read is not None else d.call("torch.exp", x))

    assert not isomorphic(program(True), program(False))
    assert canonicalize(program(True)).key != canonicalize(program(False)).key


def test_an_interrupted_shard_has_no_index(tmp_path: Path):
    def broken():
        yield record(unary("torch.exp"), "1")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shards.write_shard(broken(), tmp_path / "shard-0")
    assert not (tmp_path / "shard-0.json").exists()


@pytest.mark.parametrize("wrong", [{"oracle_share": 2.0}, {"near": 0.0}, {"family_cap": 0}])
def test_wrong_settings_are_refused(wrong: dict[str, float]):
    with pytest.raises(ValueError, match="oracle_share"):
        ClassifyConfig(**wrong)  # type: ignore[arg-type]
