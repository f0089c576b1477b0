"""`same` and `find`: the level, the first difference, and what a name, key or file stands for."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from data.parts import sorted_rows
from data.store import Part, RunDirectory
from dedup.classes import ClassifyConfig, classify
from dedup.lookup import find, graph_of, names_of
from dedup.twins import compare, lines_of
from flows.cli import app
from schemas.arrow import to_table
from schemas.graph import Graph
from schemas.rows import CanonicalGraph, GraphRecord, Member
from tests.dedup.test_classes import record
from tests.schemas.drafts import Draft, shuffled, spec

pytestmark = pytest.mark.plain


def block(size: int = 8, eps: str = "1e-05", op: str = "torch.relu", extra: bool = False) -> Graph:
    d = Draft()
    x = d.input(spec(2, size))
    norm = d.call("torch.nn.functional.layer_norm", x, [size], None, None, {"float": eps}, of=spec(2, size))
    end = d.call(op, norm, of=spec(2, size))
    return d.graph(end, norm) if extra else d.graph(end)


@pytest.mark.parametrize(
    ("other", "level"),
    [
        (shuffled(block(), 3), "exact"),
        (block(size=16), "shape_free"),
        (block(eps="1e-06"), "structure"),
        (block(op="torch.exp"), ""),
    ],
)
def test_the_finest_common_level_is_named(other: Graph, level: str):
    assert compare(block(), other).level == level
    assert lines_of(compare(block(), other))


def test_the_first_difference_is_shown_with_both_sides():
    text = "\n".join(lines_of(compare(block(), block(eps="1e-06"))))
    assert "  A  " in text
    assert "1e-05)" in text
    assert "1e-06)" in text
    assert "first difference at line 1" in text


def test_two_lines_of_one_text_are_told_apart_by_what_they_do_not_show():
    """Strides of inputs are no part of a line: the first difference shows the records behind the lines."""

    def strided(*stride: int) -> Graph:
        d = Draft()
        x = d.input(replace(spec(2, 8), stride=stride))
        return d.graph(d.call("torch.relu", x, of=spec(2, 8)))

    found = compare(strided(8, 1), strided(1, 2))
    assert found.level != "exact"
    assert found.left[-1] != found.right[-1]
    assert "[1,0]" in found.right[-1]


def test_an_intermediate_result_that_is_returned_as_well_leaves_one_body():
    found = compare(block(), block(extra=True))
    assert (found.level, found.body) == ("", True)
    assert "one body" in "\n".join(lines_of(found))


@pytest.fixture
def store(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path / "run")
    run.create()
    graphs = [record(block(), "aaaa1111", "bert/A"), record(block(16), "aabb2222", "bert/B")]
    found = list(classify(graphs=graphs, config=ClassifyConfig()))
    tables: dict[str, tuple[type, list[object]]] = {
        "graphs": (GraphRecord, list(graphs)),
        "classes": (CanonicalGraph, [row for row in found if isinstance(row, CanonicalGraph)]),
        "members": (Member, [row for row in found if isinstance(row, Member)]),
    }
    for name, (cls, rows) in tables.items():
        run.write_parts([Part(table=name, index=0, data=sorted_rows(to_table(rows, cls), cls))])
    run.write_json("run.json", {"finished": True})
    return run


def test_names_keys_ids_and_files_stand_for_graphs(store: RunDirectory, tmp_path: Path):
    (key,) = [row.key for row in store.iter_rows("classes") if row.name == "bert/A"]
    assert graph_of("bert/A", store) == graph_of("aaaa1111", store) == block()
    assert compare(graph_of(key[:8], store), block()).level == "exact"
    (tmp_path / "mine.json").write_text(block().to_json())
    assert graph_of(str(tmp_path / "mine.json"), None) == block()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bert/", "names 2 graphs"),
        ("nothing", r"holds no graph that is called 'nothing' \(.*\); `passnet show"),
        ("none.json", "cannot read none.json"),
        ("A", "did you mean 'bert/A'\\?"),
        ("timm/b", "did you mean 'bert/B'\\?"),
        ("bert/AA", "did you mean 'bert/A' or 'bert/B'\\?"),
    ],
)
def test_what_names_no_graph_is_one_line(store: RunDirectory, text: str, message: str):
    with pytest.raises(ValueError, match=message) as error:
        graph_of(text, store)
    assert "\n" not in str(error.value)


def test_find_lists_the_closest_class_first(store: RunDirectory):
    hits = list(find(shuffled(block(16), 1), store))
    assert [(hit.level, hit.name) for hit in hits] == [("exact", "bert/B"), ("shape_free", "bert/A")]
    assert names_of([hit.key for hit in hits], store) == {hits[0].key: ["aaabb2222"], hits[1].key: ["aaaaa1111"]}
    assert list(find(block(op="torch.exp"), store)) == []


def test_the_verbs_say_it_and_their_exit_code_does_too(store: RunDirectory, tmp_path: Path):
    def passnet(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, [*words, "--out", str(store.path)])
        return result.exit_code, result.output

    assert passnet("same", "bert/A", "bert/A") == (0, "the same graph: equal at the level exact and at all others\n")
    code, text = passnet("same", "bert/A", "bert/B")
    assert (code, text.splitlines()[0][:20]) == (1, "equal but for sizes:")
    assert passnet("find", "bert/A")[0] == 0
    (tmp_path / "other.json").write_text(block(op="torch.exp").to_json())
    code, text = passnet("find", str(tmp_path / "other.json"))
    assert (code, "not in" in text) == (1, True)
    (tmp_path / "bad.json").write_text("{}")
    assert passnet("find", str(tmp_path / "bad.json"))[0] == 2
