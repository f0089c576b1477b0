"""The choice `inference`: what counts as absent is absent, what only looks so stays."""

import pytest

from schemas.canonical import canonicalize
from schemas.graph import Graph, check
from schemas.normal import CHOICES, RULES, normalised
from tests.schemas.drafts import Draft, spec

pytestmark = pytest.mark.plain


def key(graph: Graph) -> str:
    found = normalised(graph, "inference")
    check(found)
    return canonicalize(found).key


def around(step: object) -> Graph:
    """relu(step(x)) of a fresh value x."""
    d = Draft()
    x = d.call("torch.exp", d.input())
    return d.graph(d.call("torch.relu", step(d, x)))  # type: ignore[operator]


PLAIN = around(lambda d, x: x)
DROPOUT = "torch.nn.functional.dropout"


@pytest.mark.parametrize(
    "step",
    [
        lambda d, x: d.call(DROPOUT, x, {"float": "0.1"}, False, False),
        lambda d, x: d.call(DROPOUT, x, p={"float": "0.1"}, training=False),
        lambda d, x: d.method("contiguous", x),
        lambda d, x: d.method("detach", x),
        lambda d, x: d.method("float", x),
        lambda d, x: d.method("to", x, {"dtype": "float32"}),
        lambda d, x: d.method("to", x, {"device": "cpu"}, dtype={"dtype": "float32"}),
        lambda d, x: (d.call("torch._C._log_api_usage_once", "x", of=None), x)[1],
    ],
)
def test_idle_calls_are_absent_for_inference_and_present_as_captured(step: object):
    graph = around(step)
    assert key(graph) == key(PLAIN)
    assert canonicalize(normalised(graph, "captured")).key != canonicalize(PLAIN).key


@pytest.mark.parametrize(
    "step",
    [
        lambda d, x: d.call(DROPOUT, x, {"float": "0.1"}, True),
        lambda d, x: d.call(DROPOUT, x),
        lambda d, x: d.method("to", x, {"dtype": "float16"}, of=spec(4, 8, dtype="float16")),
        lambda d, x: d.method("to", x, {"dtype": "float32"}, copy=True),
        lambda d, x: d.method("contiguous", x, memory_format={"memory_format": "channels_last"}),
        lambda d, x: d.method("clone", x),
    ],
)
def test_calls_that_only_look_idle_stay(step: object):
    assert key(around(step)) != key(PLAIN)


def test_contiguous_of_a_view_that_is_not_dense_stays():
    transposed = spec(8, 4).__class__(dtype="float32", shape=(8, 4), stride=(1, 8), device="cpu")
    d = Draft()
    x = d.method("t", d.input(), of=transposed)
    graph = d.graph(d.method("contiguous", x, of=spec(8, 4)))
    assert any(node.target == "contiguous" for node in normalised(graph, "inference").nodes)


def test_private_in_place_calls_are_functional_and_visible_ones_stay():
    functional = around(lambda d, x: d.call("torch.add", x, d.input()))
    private = around(lambda d, x: d.method("add_", x, d.input()))
    assert canonicalize(functional).key != canonicalize(private).key
    assert key(functional) == key(private)

    d = Draft()
    x = d.input()
    assert key(d.graph(d.method("add_", x, 1))) != key(in_place_of_a_copy())


def in_place_of_a_copy() -> Graph:
    d = Draft()
    return d.graph(d.call("torch.add", d.input(), 1))


def test_dead_readers_do_not_decide_whether_a_write_is_seen():
    def graph(read: bool) -> Graph:
        d = Draft()
        x = d.call("torch.exp", d.input())
        y = d.method("add_", x, 1)
        if read:
            d.call("torch.sin", x)
        return d.graph(y)

    assert key(graph(True)) == key(graph(False))


def test_outputs_that_are_idle_calls_become_what_they_return():
    d = Draft()
    x = d.call("torch.exp", d.input())
    graph = normalised(d.graph(d.method("detach", x), x), "inference")
    assert graph.nodes[-1].inputs == (1, 1)
    assert len(graph.nodes) == 3


def test_every_rule_says_why():
    assert set(CHOICES) == {"captured", "inference"}
    assert all(rule.because and rule.op.startswith("torch.") for rule in RULES)
