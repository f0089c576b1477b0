"""Repeated blocks and single ops on graphs written by hand: runs against brute force, convexity, shared values."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusion_mining.blocks import BlocksConfig, Run, blocks, runs_of, shared_first
from fusion_mining.cut import can_cut, cut
from fusion_mining.op_classes import classes_of, is_compute
from fusion_mining.sole import sole_ops
from schemas.canonical import canonicalize
from schemas.graph import Graph, check
from schemas.roles import short_name
from tests.fusion_mining.test_grow import mixed_graphs
from tests.schemas.drafts import Draft, Ref, shuffled, spec

pytestmark = pytest.mark.plain
CONFIG = BlocksConfig()
UNARY = ("exp", "relu", "tanh", "sin", "sigmoid", "cos")


def ops_of(graph: Graph, nodes: Sequence[int]) -> list[str]:
    return [short_name(graph.nodes[index].target) for index in nodes]


def is_convex(graph: Graph, nodes: Sequence[int]) -> bool:
    """No path leaves a set and comes back: by reachability, not by order."""
    wires = nx.DiGraph((source, index) for index, node in enumerate(graph.nodes) for source in node.inputs)
    inside = frozenset(nodes)
    below = frozenset[int]().union(*(nx.descendants(wires, index) for index in nodes)) - inside
    return not any(nx.descendants(wires, index) & inside for index in below)


def attend(d: Draft, value: Ref, mask: Ref | None) -> Ref:
    """One layer: a gate of two branches, a shared operand, a residual."""
    w = d.input(spec(8, 8), "parameter")
    linear = d.call("torch.nn.functional.linear", value, w)
    scores = d.call("torch.add", d.call("torch.exp", linear), mask) if mask is not None else d.call("torch.exp", linear)
    gate = d.call("torch.mul", d.call("torch.tanh", scores), d.call("torch.sin", linear))
    return d.call("torch.add", gate, value)


def layers(count: int, *, masked: bool = True) -> Graph:
    """An embedding, layers that share a computed mask which the first one reads first, and a head."""
    d = Draft()
    value = d.call("torch.relu", d.input())
    mask = d.input()
    for target in ("torch.cos", "torch.sigmoid", "torch.neg", "torch.abs"):
        mask = d.call(target, mask)
    for _ in range(count):
        value = attend(d, value, mask if masked else None)
    return d.graph(d.call("torch.softmax", value, -1))


def chain(names: Sequence[str]) -> Graph:
    d = Draft()
    value = d.input()
    for name in names:
        value = d.call(f"torch.{name}", value)
    return d.graph(value)


# --- runs -----------------------------------------------------------------------------------------------------------
def brute_force(word: str, max_period: int) -> set[Run]:
    found = set()
    for period in range(1, max_period + 1):
        for start in range(len(word)):
            end = start
            while end + period < len(word) and word[end] == word[end + period]:
                end += 1
            widest = start == 0 or start - 1 + period >= len(word) or word[start - 1] != word[start - 1 + period]
            unit = word[start : start + period]
            power = any(unit == unit[:k] * (period // k) for k in range(1, period) if period % k == 0)
            if end - start >= period and widest and not power:
                found.add(Run(start=start, length=end - start + period, period=period))
    return found


@given(st.text("ab", max_size=26) | st.text("abc", max_size=26), st.integers(1, 9))
@settings(max_examples=300, deadline=None)
def test_runs_are_those_of_brute_force(word: str, max_period: int):
    found = runs_of(word, max_period)
    assert len(set(found)) == len(found)
    assert set(found) == brute_force(word, max_period)
    assert [run.merit for run in found] == sorted((run.merit for run in found), reverse=True)


# --- blocks ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [3, 4, 7])
@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_layers_are_found_whole_whatever_the_order_and_what_they_share(count: int, seed: int):
    graph = canonicalize(shuffled(layers(count), seed)).graph
    (places,) = blocks(graph, CONFIG)
    assert len(places) == count
    assert {tuple(sorted(ops_of(graph, nodes))) for nodes in places} == {
        ("add", "add", "exp", "linear", "mul", "sin", "tanh")
    }
    assert len({canonicalize(cut(graph, nodes), free_outputs=True).keys.exact for nodes in places}) == 1


@given(st.lists(st.sampled_from(UNARY), min_size=3, max_size=6), st.integers(2, 5), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_places_are_convex_apart_and_alike(unit: list[str], count: int, tail: int):
    graph = chain([*unit * count, *unit[:tail]])
    for places in blocks(graph, BlocksConfig(max_nodes=8)):
        assert len(places) > 1
        covered = [index for nodes in places for index in nodes]
        assert len(set(covered)) == len(covered)
        assert len({tuple(ops_of(graph, nodes)) for nodes in places}) == 1
        for nodes in places:
            assert 3 <= len(nodes) <= 8
            assert is_convex(graph, nodes)
            check(cut(graph, nodes))


@given(mixed_graphs(), mixed_graphs(), st.integers(2, 4))
@settings(max_examples=60, deadline=None)
def test_places_in_random_graphs_are_convex(head: Graph, body: Graph, count: int):
    d = Draft()
    value = _paste(d, head, d.input())
    for _ in range(count):
        value = _paste(d, body, value)
    graph = canonicalize(d.graph(value)).graph
    for places in blocks(graph, CONFIG):
        for nodes in places:
            assert is_convex(graph, nodes)
            assert can_cut(graph, nodes)
            check(cut(graph, nodes))


def _paste(d: Draft, graph: Graph, value: Ref) -> Ref:
    """The calls of a graph with one value in place of all its inputs; the last call's value."""
    place = dict.fromkeys(graph.placeholders, value)
    for index, node in graph.calls():
        place[index] = d.call(node.target, *(place[k] for k in node.inputs))
    return place[max(place)]


@given(mixed_graphs(), st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_shared_first_is_a_topological_order(graph: Graph, distance: int):
    calls = [index for index, _ in graph.calls()]
    order = shared_first(graph, calls, distance)
    assert sorted(order) == calls
    place = {index: k for k, index in enumerate(order)}
    assert all(place[k] < place[index] for index in calls for k in graph.nodes[index].inputs if k in place)


def test_a_block_goes_before_a_stage_of_blocks_and_is_found_in_every_stage():
    block, join = ["exp", "tanh", "sin", "relu"], ["cos", "sigmoid"]
    graph = chain([*join, *block * 2, *join, *block * 3, *join, *block * 5])
    assert [len(places) for places in blocks(graph, CONFIG)] == [10]


def test_what_cannot_be_cut_out_ends_a_run():
    assert blocks(chain(["exp", "tanh", "sin"] * 2), CONFIG)
    assert blocks(chain(["exp", "tanh", "unknown"] * 2), CONFIG) == []
    assert blocks(chain(["exp", "tanh"] * 3), CONFIG) == []  # two compute ops are no block


def test_a_graph_without_repeats_has_no_block():
    assert blocks(chain(UNARY), CONFIG) == []
    assert blocks(layers(1), CONFIG) == []


# --- single ops -----------------------------------------------------------------------------------------------------
@given(mixed_graphs())
@settings(max_examples=60, deadline=None)
def test_every_op_that_computes_is_a_sole_op(graph: Graph):
    classes = classes_of(graph)
    wanted = [
        (i,)
        for i, _ in graph.calls()
        if is_compute(classes[i]) and classes[i] not in ("opaque", "effect") and graph.users[i]
    ]
    assert sole_ops(graph) == wanted
    for nodes in wanted:
        piece = cut(graph, nodes)
        check(piece)
        assert piece.num_ops == 1


def test_a_tuple_takes_its_reads_along():
    d = Draft()
    index = spec(4, dtype="int64")
    pair = d.call("torch.max", d.input(), -1, of=None)
    d.nodes[-1] = replace(d.nodes[-1], outputs=(spec(4), index))
    values = d.call("operator.getitem", pair, 0, of=spec(4))
    places = d.call("operator.getitem", pair, 1, of=index)
    graph = d.graph(values, places)
    assert sole_ops(graph) == [(int(pair), int(values), int(places))]
    assert len(cut(graph, sole_ops(graph)[0]).nodes[-1].inputs) == 2


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda d, x: d.method("view", x, 4, 8), []),
        (lambda d, x: d.call("torch.nn.functional.dropout", x, {"float": "0.5"}, True), []),
        (lambda d, x: d.method("add_", x, 1), []),
        (lambda d, x: d.call("torch.unheard_of", x), []),
        (lambda d, x: d.call("torch.zeros", 4, 8), []),
        (lambda d, x: d.call("torch.matmul", x, x), [(1,)]),
        (lambda d, x: d.call("torch.nn.functional.avg_pool2d", x, 2), [(1,)]),
    ],
)
def test_what_is_a_sole_op(write: Callable[[Draft, Ref], Ref], expected: list[tuple[int, ...]]):
    d = Draft()
    assert sole_ops(d.graph(write(d, d.input()))) == expected


def test_an_op_inside_autocast_is_none():
    d = Draft()
    x = d.input()
    scope = d.call("torch.amp.autocast_mode._enter_autocast", "cpu", None, True, None, of=None)
    y = d.call("torch.matmul", x, x)
    d.call("torch.amp.autocast_mode._exit_autocast", scope, of=None)
    z = d.call("torch.matmul", y, y)
    assert sole_ops(d.graph(z)) == [(int(z),)]
