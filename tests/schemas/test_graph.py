"""Legality of the IR, its JSON form, the attribute grammar and row identities, without torch."""

from dataclasses import replace

import pytest

from schemas import values
from schemas.graph import Graph, Node, TensorSpec, check
from schemas.rows import EvalResult, Verdict, content_id

pytestmark = pytest.mark.plain
SPEC = TensorSpec(dtype="float32", shape=(2, 3), stride=(3, 1), device="cpu")


def node(op: str, name: str, target: str = "", inputs: tuple[int, ...] = (), attrs: str = "{}", specs=(SPEC,)) -> Node:
    return Node(op=op, name=name, target=target, inputs=inputs, attrs=attrs, outputs=specs)


def one_relu() -> Graph:
    nodes = (
        node("placeholder", "x", "input"),
        node("call_function", "relu", "torch.relu", (0,), '{"args":[{"in":0}],"kwargs":{}}'),
        node("output", "output", "", (1,), '{"args":[{"tuple":[{"in":0}]}],"kwargs":{}}', ()),
    )
    return Graph(nodes=nodes, inits=('{"kind":"zeros"}',), subgraphs=())


def changed(index: int, **fields: object) -> Graph:
    graph = one_relu()
    nodes = list(graph.nodes)
    nodes[index] = replace(nodes[index], **fields)
    return replace(graph, nodes=tuple(nodes))


def test_a_legal_graph_passes_and_survives_json():
    graph = one_relu()
    check(graph)
    assert Graph.from_json(graph.to_json()) == graph
    assert graph.users == ((1,), (2,), ())


@pytest.mark.parametrize(
    ("graph", "rule"),
    [
        (changed(1, op="call_module"), "op"),
        (changed(1, name="class"), "name"),
        (changed(1, name="nan"), "name"),
        (changed(1, name="self"), "name"),
        (changed(1, name="max"), "name"),
        (changed(1, inputs=(1,)), "order"),
        (changed(1, inputs=(2,)), "order"),
        (changed(0, target="weight"), "role"),
        (changed(0, outputs=()), "placeholder-spec"),
        (changed(0, op="constant", inputs=(0,)), "order"),
        (changed(1, target=""), "call-target"),
        (changed(1, attrs='{"args":[{"in":1}],"kwargs":{}}'), "operands"),
        (changed(1, attrs='{"args":[{"in":0},{"in":0}],"kwargs":{}}'), "operands"),
        (changed(1, outputs=(replace(SPEC, dtype="float31"),)), "dtype"),
        (changed(1, outputs=(replace(SPEC, stride=(1,)),)), "rank"),
        (changed(0, op="subgraph", target="", attrs='{"graph":0}'), "nested"),
        (changed(2, op="call_function", target="torch.relu", attrs='{"args":[{"in":0}],"kwargs":{}}'), "output-last"),
    ],
)
def test_each_rule_names_itself(graph: Graph, rule: str):
    with pytest.raises(ValueError, match=f"breaks '{rule}'"):
        check(graph)


def test_names_and_initialisers_are_counted():
    with pytest.raises(ValueError, match="stands twice"):
        check(changed(1, name="x"))
    with pytest.raises(ValueError, match="1 placeholders but 0 initialisers"):
        check(replace(one_relu(), inits=()))
    with pytest.raises(ValueError, match="no nodes"):
        check(Graph(nodes=(), inits=(), subgraphs=()))


def test_a_broken_json_text_is_a_value_error():
    for text in ("", "[]", '{"nodes":[{}]}', '{"nodes":[],"inits":[]}'):
        with pytest.raises(ValueError, match="not a graph in JSON form"):
            Graph.from_json(text)


def test_rewrite_and_walk_enter_every_container():
    value = {"tuple": [1, [{"dict": [["k", {"slice": [None, {"in": 0}, 2]}]]}]]}
    assert [v for v in values.walk(value) if values.tag_of(v) == "in"] == [{"in": 0}]
    renumbered = values.rewrite(value, lambda v: {"in": 7} if values.tag_of(v) == "in" else None)
    assert renumbered["tuple"][1][0]["dict"][0][1]["slice"][1] == {"in": 7}
    assert value["tuple"][1][0]["dict"][0][1]["slice"][1] == {"in": 0}


def test_content_ids_see_the_borders_between_parts():
    assert content_id("ab", "c") != content_id("a", "bc")
    assert content_id("a") != content_id("a", "")


def result(**fields: object) -> EvalResult:
    plain: dict[str, object] = {
        "task_id": "t", "index": 0, "submission": "s", "environment": "e", "verdict": Verdict.PASSED, "rule": "",
        "detail": "", "matches": 1, "correct_from": -5, "max_abs_error": 0.0, "max_rel_error": 0.0,
        "speed_measured": True, "speedup": 1.5, "ci_low": 1.4, "ci_high": 1.6, "inductor_speedup": None,
        "isolation": "process",
    }  # fmt: skip
    return EvalResult(**{**plain, **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"verdict": Verdict.TIMEOUT},
        {"verdict": Verdict.WRONG_VALUE},
        {"speed_measured": False},
        {"correct_from": None},
        {"speedup": 0.0},
        {"speedup": -1.0},
    ],
)
def test_illegal_results_cannot_be_constructed(fields: dict[str, object]):
    assert result().speedup == 1.5
    with pytest.raises(ValueError):
        result(**fields)
