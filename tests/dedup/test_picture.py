"""The picture of a difference: well-formed, deterministic, the differing nodes marked and no others."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from typer.testing import CliRunner

from benchmarks.golden import stored_graphs
from dedup.audit import IdentityError, raise_mismatch
from dedup.neighbourhood import MAX_ROWS
from dedup.picture import picture
from flows.cli import app
from schemas.graph import Graph
from tests.dedup.test_twins import block
from tests.schemas.drafts import Draft, graphs, shuffled

pytestmark = pytest.mark.plain
SVG = "{http://www.w3.org/2000/svg}"


def words(element: ET.Element) -> list[str]:
    return [text.text or "" for text in element.iter(f"{SVG}text")]


def boxes(svg: str) -> list[tuple[set[str], list[str]]]:
    """(classes, lines of text) of every node drawn, A's first."""
    groups = ET.fromstring(svg).iter(f"{SVG}g")
    return [(set(g.get("class", "").split()), words(g)) for g in groups if "node" in g.get("class", "").split()]


def chain(*ops: str) -> Graph:
    d = Draft()
    x = d.input()
    for op in ops:
        x = d.call(f"torch.{op}", x)
    return d.graph(x)


def test_the_node_that_differs_is_marked_and_no_other():
    drawn = boxes(picture(block(eps="1e-05"), block(eps="1e-06")))
    marked = [lines for classes, lines in drawn if "differs" in classes]
    assert [lines[-1] for lines in marked] == ["eps = 1e-05", "eps = 1e-06"]
    assert all("layer_norm" in lines[0] for lines in marked)
    assert all("same" in classes for classes, lines in drawn if lines not in marked)
    assert len(drawn) == 8
    assert [lines for classes, lines in drawn if "first" in classes] == marked


def test_an_op_that_one_graph_lacks_is_marked_there_alone():
    drawn = boxes(picture(chain("relu", "exp", "sin", "cos"), chain("relu", "sin", "cos")))
    assert [lines[0] for classes, lines in drawn if "alone" in classes] == ["2 exp"]
    assert [lines[0] for classes, lines in drawn if "differs" in classes] == ["3 sin", "2 sin"], "their operands differ"
    assert sum("same" in classes for classes, _ in drawn) == 8


def test_edges_that_the_other_graph_lacks_are_marked():
    d = Draft()
    x = d.input()
    a = d.call("torch.exp", x)
    b = d.call("torch.sin", a)
    left, right = d.graph(d.call("torch.sub", a, b)), chain("exp", "sin")
    root = ET.fromstring(picture(left, right))
    kinds = [g.get("class") for g in root.iter(f"{SVG}g")]
    assert kinds.count("other") == 5, "two into sub, one out of it, one out of sin; and the legend's"


def test_equal_graphs_say_so_and_mark_nothing():
    svg = picture(block(), shuffled(block(), 5))
    assert words(ET.fromstring(svg))[0].startswith("the same graph")
    assert {"node", "same"} == set.union(*(classes for classes, _ in boxes(svg)))


def test_the_headline_names_the_level():
    assert words(ET.fromstring(picture(block(), block(size=16))))[0].startswith("equal but for sizes")
    said = words(ET.fromstring(picture(block(), block(extra=True))))
    assert any("one body" in line for line in said)


def test_hostile_names_are_escaped_and_shortened():
    evil = '</text><script>&"\x00\x1b\ud800' + "x" * 500
    graph = chain("relu", "exp")
    nodes = [replace(node, target=evil, name=evil) if node.target == "torch.exp" else node for node in graph.nodes]
    svg = picture(graph, replace(graph, nodes=tuple(nodes)))
    assert not list(ET.fromstring(svg).iter(f"{SVG}script"))
    assert max(map(len, words(ET.fromstring(svg)))) < 120
    assert svg.encode()


@given(graphs(), graphs())
@settings(max_examples=40, deadline=None)
def test_any_two_graphs_give_well_formed_text_twice_the_same(a: Graph, b: Graph):
    svg = picture(a, b)
    assert svg == picture(a, b)
    assert boxes(svg)
    assert picture(shuffled(a, 1), shuffled(b, 2)).count('class="box"') == svg.count('class="box"')


def test_a_default_is_named_and_what_returns_more_shows_it():
    known = dict(stored_graphs())
    drawn = boxes(picture(known["gemma-2-layers"], known["gemma-2-layers-erf"]))
    notes = [lines[2:] for classes, lines in drawn if "first" in classes]
    assert notes == [["approximate = 'tanh'"], ["approximate = (default)"]]
    svg = picture(known["bert-4-layers"], known["bert-4-layers-hidden-states"])
    assert [lines[0] for classes, lines in boxes(svg) if "differs" in classes] == ["188 output", "188 output"]
    assert svg.count('<g class="other">') == 5, "four hidden states, and the legend's"


def test_real_graphs_stay_readable():
    names = ("bert-4-layers", "mamba/MambaModel", "vit/ViTModel")
    known = {name: graph for name, graph in stored_graphs() if name in names}
    for a in known.values():
        for b in known.values():
            drawn = boxes(picture(a, b))
            assert 0 < len(drawn) <= 2 * MAX_ROWS
            assert all(len(lines) <= 6 for _, lines in drawn)


def test_a_mismatch_and_the_verb_leave_it(tmp_path: Path):
    with pytest.raises(IdentityError):
        raise_mismatch("no good", chain("exp"), chain("sin"), tmp_path)
    kept = (tmp_path / "difference.svg").read_text(encoding="utf-8")
    assert kept == picture(chain("exp"), chain("sin"))
    files = [str(tmp_path / name) for name in ("left.json", "right.json", "drawn.svg")]
    result = CliRunner().invoke(app, ["same", *files[:2], "--picture", files[2], "--out", str(tmp_path / "none")])
    assert (result.exit_code, f"picture: {files[2]}" in result.output) == (1, True)
    assert Path(files[2]).read_text(encoding="utf-8") == kept
    result = CliRunner().invoke(app, ["same", *files[:2], "--picture", str(tmp_path / "no" / "x.svg")])
    assert result.exit_code == 2
