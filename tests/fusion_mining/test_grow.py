"""Growth against brute force: every admitted set, each once, and nothing else."""

from dataclasses import replace
from itertools import combinations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.mining_brute import measure
from fusion_mining.grow import GrowConfig, grow, wiring_of
from fusion_mining.op_classes import LEGALITY, classes_of, is_compute, is_fusible
from fusion_mining.regions import regions
from fusion_mining.wiring import bits
from schemas.graph import Graph
from tests.schemas.drafts import Draft, spec

pytestmark = pytest.mark.plain
SMALL = GrowConfig(max_ops=4, max_nodes=6, max_inputs=4, max_outputs=2, max_users=3)


@st.composite
def mixed_graphs(draw: st.DrawFn) -> Graph:
    """At most ten calls: pointwise, views, contractions and an opaque op."""
    d = Draft()
    known = [d.input() for _ in range(draw(st.integers(1, 3)))]
    for _ in range(draw(st.integers(2, 10))):
        a, b = draw(st.sampled_from(known[-5:])), draw(st.sampled_from(known))
        kind = draw(st.sampled_from(("one", "two", "two", "view", "matmul", "opaque")))
        calls = {"one": ("torch.exp", a), "two": ("torch.sub", a, b), "matmul": ("torch.matmul", a, b),
                 "opaque": ("torch.unknown", a)}  # fmt: skip
        known.append(d.method("view", a, 8, 4, of=spec(8, 4)) if kind == "view" else d.call(*calls[kind]))
    return d.graph(*draw(st.lists(st.sampled_from(known[-4:]), min_size=1, max_size=3)))


def is_piece(graph: Graph, classes: list[str], dag: nx.DiGraph, chosen: tuple[int, ...], config: GrowConfig) -> bool:
    """The definition, read off the documentation, with networkx."""
    inside = set(chosen)
    if sum(is_compute(classes[k]) for k in inside) not in range(config.min_ops, config.max_ops + 1):
        return False
    if sum(classes[k] == "contraction" for k in inside) > config.contractions:
        return False
    if not nx.is_connected(dag.subgraph(inside).to_undirected()):
        return False
    for index in inside:
        if len(graph.users[index]) > config.max_users and inside & set(graph.users[index]):
            return False
    for outside in set(dag.nodes) - inside:
        if nx.ancestors(dag, outside) & inside and nx.descendants(dag, outside) & inside:
            return False
    for index in (k for k in inside if not is_compute(classes[k])):
        readers = len(inside & set(graph.users[index]))
        if readers == 0 or (readers == 1 and not inside & set(graph.nodes[index].inputs)):
            return False
    inputs = {source for k in inside for source in graph.nodes[k].inputs} - inside
    outputs = {k for k in inside if set(graph.users[k]) - inside}
    return 0 < len(inputs) <= config.max_inputs and 0 < len(outputs) <= config.max_outputs


def brute_force(graph: Graph, config: GrowConfig) -> set[tuple[int, ...]]:
    classes = classes_of(graph)
    dag = nx.DiGraph([(source, k) for k, node in graph.calls() for source in node.inputs])
    dag.add_nodes_from(range(len(graph.nodes) - 1))
    allowed = {cls for cls in LEGALITY if is_fusible(cls)} | ({"contraction"} if config.contractions else set())
    fusible = [k for k, _ in graph.calls() if classes[k] in allowed and graph.users[k]]
    return {
        chosen
        for size in range(2, config.max_nodes + 1)
        for chosen in combinations(fusible, size)
        if is_piece(graph, classes, dag, chosen, config)
    }


@given(mixed_graphs())
@settings(max_examples=120, deadline=None)
def test_growth_finds_exactly_what_brute_force_finds(graph: Graph):
    found = grow(graph, SMALL)
    assert not found.capped
    assert len(set(found.sets)) == len(found.sets)
    assert set(found.sets) == brute_force(graph, SMALL)


@pytest.mark.parametrize("contractions", [1, 2])
@given(mixed_graphs())
@settings(max_examples=60, deadline=None)
def test_growth_around_contractions_finds_exactly_what_brute_force_finds(contractions: int, graph: Graph):
    config = replace(SMALL, contractions=contractions)
    assert set(grow(graph, config).sets) == brute_force(graph, config)
    assert regions(graph, config) == regions(graph, SMALL)


def test_a_linear_layer_with_its_activation_is_a_piece_only_around_contractions():
    d = Draft()
    x = d.call("torch.exp", d.input())
    h = d.call("torch.matmul", x, d.input(role="parameter"))
    graph = d.graph(d.call("torch.nn.functional.gelu", h))
    assert grow(graph, SMALL).sets == ()
    assert grow(graph, replace(SMALL, contractions=1)).sets == ((1, 3), (3, 4), (1, 3, 4))


def test_the_benchmark_against_brute_force_finds_no_difference():
    found = measure(16)
    assert (found["brute_wrong"], found["brute_limits"]) == ([], 128)
    assert found["brute_folded"] > 0 and found["brute_pieces"] > 1000


@given(mixed_graphs())
@settings(max_examples=60, deadline=None)
def test_regions_are_disjoint_convex_pieces(graph: Graph):
    config = GrowConfig(max_ops=24, max_nodes=24, region_inputs=8, max_inputs=8, max_outputs=3)
    found = regions(graph, config)
    members = [k for nodes in found for k in nodes]
    assert len(set(members)) == len(members)
    assert set(found) <= brute_force(graph, config)


def test_a_diamond_through_a_contraction_is_not_convex():
    d = Draft()
    a = d.call("torch.exp", d.input())
    b = d.call("torch.matmul", a, a)
    c = d.call("torch.sub", a, b)
    assert grow(d.graph(c), SMALL).sets == ()
    e = Draft()
    a = e.call("torch.exp", e.input())
    b = e.call("torch.relu", a)
    c = e.call("torch.sub", a, b)
    assert grow(e.graph(c), SMALL).sets == ((1, 2), (2, 3), (1, 2, 3))


def test_a_view_between_ops_is_free_and_one_at_the_edge_is_left_out():
    d = Draft()
    v = d.method("view", d.input(), 8, 4, of=spec(8, 4))
    a = d.call("torch.exp", v)
    b = d.call("torch.relu", d.method("view", a, 4, 8))
    graph = d.graph(d.method("view", b, 32, of=spec(32)))
    assert grow(graph, GrowConfig(max_ops=2)).sets == ((2, 3, 4),)


def test_a_split_read_twice_inside_stays():
    d = Draft()
    pair = d.call("torch.chunk", d.input(), 2)
    d.nodes[pair] = replace(d.nodes[pair], outputs=(spec(4, 4),) * 2)
    left = d.call("operator.getitem", pair, 0, of=spec(4, 4))
    right = d.call("operator.getitem", pair, 1, of=spec(4, 4))
    graph = d.graph(d.call("torch.mul", left, d.call("torch.sigmoid", right, of=spec(4, 4)), of=spec(4, 4)))
    assert (1, 2, 3, 4, 5) in grow(graph, SMALL).sets


def test_a_hub_ends_a_piece():
    d = Draft()
    hub = d.call("torch.exp", d.call("torch.relu", d.input()))
    readers = [d.call("torch.sigmoid", hub) for _ in range(4)]
    found = grow(d.graph(*readers), SMALL)
    assert found.sets == ((1, 2),)


def test_sampling_is_flagged_and_deterministic():
    d = Draft()
    x = d.input()
    value = x
    for _ in range(30):
        value = d.call("torch.sub", d.call("torch.exp", value), x)
    graph = d.graph(value)
    few = GrowConfig(max_sets=20, max_users=99)
    found = grow(graph, few)
    assert found.capped
    assert found == grow(graph, few)
    assert found != grow(graph, GrowConfig(max_sets=20, max_users=99, seed=1))
    assert set(found.sets) < set(grow(graph, GrowConfig(max_users=99)).sets)


def test_bits_are_positions():
    assert list(bits(0b101001)) == [0, 3, 5]
    d = Draft()
    graph = d.graph(d.call("torch.exp", d.input()))
    assert wiring_of(graph, SMALL).fusible == 0b10
