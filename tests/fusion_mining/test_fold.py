"""Folded growth against growth of the whole graph: the same places, and what stands for others has their key."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusion_mining.cut import can_cut, cut
from fusion_mining.fold import stretches
from fusion_mining.grow import GrowConfig, grow
from fusion_mining.op_classes import classes_of
from schemas.canonical import canonicalize
from schemas.forms import tokens_of
from schemas.graph import Graph
from tests.schemas.drafts import Draft, Ref, spec

pytestmark = pytest.mark.plain
WIDE = GrowConfig(max_ops=5, max_nodes=7, max_inputs=5, max_outputs=3, max_users=4)


def layered(seed: int) -> Graph:
    """A few layers of one random body between random ends; operands are also older layers, shared values, weights."""
    rng = random.Random(seed)
    d = Draft()
    shared = [d.input(), d.input(role="buffer")]
    weights = [d.input(role="parameter") for _ in range(rng.choice((1, 4, 12)))]
    shared.append(d.call("torch.exp", shared[0]))
    kinds = ("torch.sub", "torch.relu", "torch.mul", "torch.matmul", "torch.sigmoid", "view")
    body = [(rng.choice(kinds), rng.random(), rng.random(), rng.choice("nnnnowsb")) for _ in range(rng.randint(3, 7))]
    layers: list[list[Ref]] = [[shared[-1]] * len(body), [shared[0]] * len(body)]
    for number in range(rng.randint(2, 6)):
        layers.append([])
        for kind, one, other, source in body:
            near = [*layers[-2][-1:], *layers[-1]]
            pools = {"n": near, "o": layers[-3], "s": shared, "b": layers[-2], "w": [weights[number % len(weights)]]}
            first, pool = near[int(one * len(near))], pools[source]
            layers[-1].append(_call(d, kind, first, pool[int(other * len(pool))]))
    outputs = rng.sample(range(layers[-1][0], layers[-1][-1] + 1), rng.choice((1, 2)))
    return d.graph(*map(Ref, outputs), layers[-1][-1])


def _call(d: Draft, kind: str, first: Ref, second: Ref) -> Ref:
    if kind == "view":
        return d.method("view", first, 4, 8)
    return d.call(kind, first, second) if kind in ("torch.sub", "torch.mul", "torch.matmul") else d.call(kind, first)


def parts_of(graph: Graph) -> tuple[list[bytes], list[str]]:
    return [token.records[0] for token in tokens_of(graph, ())], classes_of(graph)


@given(st.integers(0, 10**9))
@settings(max_examples=300, deadline=None)
def test_folded_growth_finds_every_place_once(seed: int):
    graph = layered(seed)
    found = grow(graph, WIDE, stretches=stretches(graph, *parts_of(graph)))
    places = list(found.places)
    assert len(set(places)) == len(places)
    assert set(places) == set(grow(graph, WIDE).sets)


@given(st.integers(0, 10**9))
@settings(max_examples=60, deadline=None)
def test_shifts_have_equal_keys(seed: int):
    graph = layered(seed)
    found = grow(graph, WIDE, stretches=stretches(graph, *parts_of(graph)))
    for nodes, (step, more) in zip(found.sets, found.shifts, strict=True):
        shifted = [tuple(k + step * number for k in nodes) for number in range(more + 1)]
        assert all(can_cut(graph, place) for place in shifted)
        assert len({canonicalize(cut(graph, place), free_outputs=True).blob for place in shifted}) == 1


def test_many_random_layers_are_folded():
    graphs = [layered(seed) for seed in range(200)]
    folded = [sum(item.folded for item in stretches(graph, *parts_of(graph))) for graph in graphs]
    assert sum(number > 0 for number in folded) > 50
    assert sum(more > 0 for graph in graphs[:40] for _, more in
               grow(graph, WIDE, stretches=stretches(graph, *parts_of(graph))).shifts) > 30  # fmt: skip


def layers_of(d: Draft, value: Ref, weights: list[Ref], shapes: list[tuple[int, ...]]) -> Graph:
    for weight, shape in zip(weights, shapes, strict=True):
        for kind in ("torch.exp", "torch.tanh", "torch.sin"):
            value = d.call(kind, value)
        value = d.call("torch.mul", d.call("torch.sub", value, weight), weight, of=spec(*shape))
    return d.graph(d.call("torch.relu", value))


def test_what_differs_in_one_layer_ends_a_stretch():
    def found(weights: str, shapes: list[tuple[int, ...]]) -> list[tuple[int, int, int]]:
        d = Draft()
        x = d.input()
        made = {name: d.input(of=spec(8) if name.isupper() else spec(4, 8)) for name in sorted(set(weights))}
        graph = layers_of(d, d.call("torch.relu", x), [made[name] for name in weights], shapes)
        calls = [k for k, _ in graph.calls()]
        return [(s.start - calls[1], s.stop - calls[1], s.period) for s in stretches(graph, *parts_of(graph))]

    same = [(4, 8)] * 6
    assert found("abcdef", same) == [(0, 30, 5)]
    assert found("aaaaaa", same) == [(0, 30, 5)]
    assert found("abcDef", same) == [(0, 18, 5)]
    assert found("abcdef", [*same[:4], (8, 4), (4, 8)]) == [(0, 24, 5)]
    assert found("abcdaf", same) == [(0, 28, 5)]
