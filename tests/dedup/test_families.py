"""The survey of classes: counts a level, and what is said of the largest families."""

from dataclasses import replace
from pathlib import Path

import pytest

from data.store import RunDirectory
from dedup.classes import ClassifyConfig, classify
from dedup.families import lines_of, survey
from schemas.arrow import to_table
from schemas.graph import Graph
from schemas.rows import CanonicalGraph, GraphRecord, Member, NumericCheck
from tests.data.tiny_run import add_relu

pytestmark = pytest.mark.plain


def record(name: str, graph: Graph) -> GraphRecord:
    return GraphRecord(
        graph_id=name, architecture=name, name=name, family="", modality="", license="", entry_point="", capture="",
        rung="", break_index=0, break_count=1, break_reason="", num_nodes=len(graph.nodes), num_ops=graph.num_ops,
        num_parameters=0, numeric=NumericCheck.EQUAL, numeric_detail="", graph=graph,
    )  # fmt: skip


def store_of(path: Path, graphs: list[GraphRecord]) -> RunDirectory:
    from data.store import Part

    store = RunDirectory(path)
    store.create()
    rows = list(classify(graphs=graphs, config=ClassifyConfig()))
    for table, kind in (("graphs", GraphRecord), ("classes", CanonicalGraph), ("members", Member)):
        found = graphs if kind is GraphRecord else [row for row in rows if isinstance(row, kind)]
        store.write_parts([Part(table=table, index=0, data=to_table(found, kind))])
    return store


def test_levels_and_families_are_counted_and_explained(tmp_path):
    wide, half = add_relu(4, 16), add_relu(4, 8, dtype="float16")
    other = replace(
        wide, nodes=tuple(n if n.target != "torch.add" else replace(n, target="torch.sub") for n in wide.nodes)
    )
    graphs = [
        record("a", add_relu(4, 8)), record("b", add_relu(4, 8)), record("c", wide), record("d", half),
        record("e", other),
    ]  # fmt: skip
    found = survey(store_of(tmp_path, graphs))
    assert (found.graphs, found.architectures) == (5, 5)
    assert {level.name: level.classes for level in found.levels} == {
        "exact": 4, "shape_free": 3, "dtype_free": 2, "structure": 2, "topology": 2, "inference": 4, "body": 4,
    }  # fmt: skip
    exact = found.levels[0]
    assert (exact.largest, exact.shared) == (2, 2)
    (largest,) = found.families
    assert (largest.classes, largest.graphs, largest.names) == (3, 4, ("a", "b", "c", "d"))
    assert {text.partition(", first")[0] for text in largest.contrasts} == {
        "1 x sizes differ",
        "1 x sizes and dtypes differ",
    }
    text = "\n".join(lines_of(found))
    assert "| exact | 4 | 2 | 2 |" in text and "a, b, c, d" in text and "[4, 16]" in text


def test_equal_reasons_are_added_up_and_one_example_is_given(tmp_path):
    sizes = [record(f"n{size:02d}", add_relu(4, size)) for size in range(8, 20)]
    halves = [record("o", add_relu(4, 8, dtype="float16")), record("p", add_relu(4, 9, dtype="float16"))]
    (family,) = survey(store_of(tmp_path, [*sizes, *halves])).families
    assert family.classes == 14
    assert [text.partition(", first: ")[0] for text in family.contrasts] == [
        "11 x sizes differ", "2 x sizes and dtypes differ",
    ]  # fmt: skip
    for text in family.contrasts:
        left, right = text.partition(", first: ")[2].split(" | ")
        assert left != right


def test_the_example_of_a_reason_is_never_two_equal_lines(tmp_path):
    """Inputs that lie otherwise in memory: the line of an input does not show its strides."""
    plain = add_relu(4, 8)

    def spaced(row: int) -> Graph:
        first = plain.nodes[0]
        made = replace(first, outputs=(replace(first.outputs[0], stride=(row, 1)),))
        return replace(plain, nodes=(made, *plain.nodes[1:]))

    (family,) = survey(store_of(tmp_path, [record("a", spaced(16)), record("b", spaced(24))])).families
    (text,) = family.contrasts
    left, right = text.partition(", first: ")[2].split(" | ")
    assert left != right


def test_classes_that_are_alone_are_no_families(tmp_path):
    graphs = [record("a", add_relu(4, 8)), record("b", add_relu(4, 8))]
    found = survey(store_of(tmp_path, graphs))
    assert found.families == ()
    assert "no family of several classes" in "\n".join(lines_of(found))


def test_a_survey_reads_few_graphs(tmp_path, monkeypatch):
    """Of a family of many classes two graphs are decoded, whatever its size."""
    store = store_of(tmp_path, [record(f"n{size:02d}", add_relu(4, size)) for size in range(8, 40)])
    decoded = []
    made = CanonicalGraph.__init__
    monkeypatch.setattr(CanonicalGraph, "__init__", lambda self, **k: decoded.append(k["name"]) or made(self, **k))
    (family,) = survey(store).families
    assert family.classes == 32
    assert decoded == ["n08", "n09"]


def test_the_number_of_families_is_bounded(tmp_path):
    graphs = [record("a", add_relu(4, 8)), record("b", add_relu(8, 8))]
    assert len(survey(store_of(tmp_path, graphs), limit=0).families) == 0


def test_a_run_without_classes_says_what_to_do(tmp_path):
    store = RunDirectory(tmp_path)
    store.create()
    with pytest.raises(ValueError, match="run `passnet build"):
        survey(store)
