"""Graphs made to deceive: crossed ladders, sharing, symmetry, swapped branches; and graphs of great depth and width."""

import random
import time
from dataclasses import replace

import pytest

from schemas.canonical import canonicalize
from schemas.graph import FUNCTION, OUTPUT, PLACEHOLDER, SUBGRAPH, Graph, Node
from tests.schemas.drafts import SPEC, Draft, shuffled

pytestmark = pytest.mark.slow


def same(a: Graph, b: Graph) -> bool:
    return canonicalize(a).blob == canonicalize(b).blob


def ladder(depth: int, crossed: bool) -> Graph:
    """Two residual branches side by side, joined at the end; `crossed` exchanges their first skips."""
    d = Draft()
    a, b = d.call("torch.exp", d.input()), d.call("torch.exp", d.input())
    left, right = a, b
    for step in range(depth):
        skips = (b, a) if crossed and step == depth - 1 else (a, b)
        a, b = left, right
        left = d.call("torch.sub", d.call("torch.relu", left), skips[0])
        right = d.call("torch.sub", d.call("torch.relu", right), skips[1])
    return d.graph(d.call("torch.sub", left, right))


@pytest.mark.parametrize("depth", range(1, 17))
def test_crossed_ladders_differ_from_straight_ones(depth: int):
    straight, crossed = ladder(depth, False), ladder(depth, True)
    assert not same(straight, crossed)
    assert same(straight, shuffled(straight, depth))
    assert same(crossed, shuffled(crossed, depth))


def of(build: object) -> Graph:
    d = Draft()
    return d.graph(build(d, d.input(), d.input()))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lambda d, x, y: d.call("torch.sub", x, d.call("torch.exp", x)),
         lambda d, x, y: d.call("torch.sub", x, d.call("torch.exp", y))),
        (lambda d, x, y: d.call("torch.f", x, x), lambda d, x, y: d.call("torch.f", x, y)),
        (lambda d, x, y: d.call("torch.add", x, x), lambda d, x, y: d.call("torch.add", x, y)),
        (lambda d, x, y: d.call("torch.add", d.call("torch.add", x, 1), 2),
         lambda d, x, y: d.call("torch.add", d.call("torch.add", x, 2), 1)),
    ],
)  # fmt: skip
def test_lookalikes_differ(left: object, right: object):
    assert not same(of(left), of(right))


def conditional(first: str, second: str) -> Graph:
    d = Draft()
    flag, x = d.input(), d.input()
    inner = []
    for target in (first, second):
        branch = Draft()
        inner.append(branch.graph(branch.call(target, branch.input())).to_json())
    bodies = [d._add(op=SUBGRAPH, target="", inputs=(), attrs=f'{{"graph":{k}}}', outputs=()) for k in range(2)]
    return replace(d.graph(d.call("torch.ops.higher_order.cond", flag, *bodies, [x])), subgraphs=tuple(inner))


def test_swapped_branches_of_a_conditional_differ_and_numbers_of_nested_graphs_do_not():
    straight, swapped = conditional("torch.exp", "torch.sin"), conditional("torch.sin", "torch.exp")
    assert not same(straight, swapped)
    exchanged = {'{"graph":0}': '{"graph":1}', '{"graph":1}': '{"graph":0}'}
    nodes = [replace(n, attrs=exchanged[n.attrs]) if n.op == SUBGRAPH else n for n in swapped.nodes]
    assert same(straight, replace(swapped, nodes=tuple(nodes)))


def test_symmetric_sums_are_one_however_they_are_written():
    def tree(seed: int) -> Graph:
        rng = random.Random(seed)
        d = Draft()
        w = [d.input(role="parameter") for _ in range(4)]
        pairs = [d.call("torch.matmul", w[k], w[(k + 1) % 4]) for k in range(4)]
        while len(pairs) > 1:
            a, b = pairs.pop(0), pairs.pop(0)
            pairs.append(d.call("torch.add", *((a, b) if rng.random() < 0.5 else (b, a))))
        return d.graph(pairs[0])

    forms = [canonicalize(shuffled(tree(seed), seed)) for seed in range(24)]
    assert len({form.blob for form in forms}) == 1
    assert len({form.keys for form in forms}) == 1
    assert not any(form.capped for form in forms)


def deep(depth: int, wide: bool = False) -> Graph:
    """A chain of `depth` calls, or with `wide` a sum of as many values."""
    call = {"op": FUNCTION, "outputs": (SPEC,)}
    nodes = [Node(op=PLACEHOLDER, name="x", target="input", inputs=(), attrs="{}", outputs=(SPEC,))]
    one, two = '{"args":[{"in":0}],"kwargs":{}}', '{"args":[{"in":0},{"in":1}],"kwargs":{}}'
    for k in range(depth):
        if wide and k % 2:
            nodes.append(Node(name=f"n{k}", target="torch.add", inputs=(max(k - 1, 0), k), attrs=two, **call))  # type: ignore[arg-type]
        else:
            nodes.append(Node(name=f"n{k}", target="torch.exp", inputs=(k,), attrs=one, **call))  # type: ignore[arg-type]
    nodes.append(Node(op=OUTPUT, name="output", target="", inputs=(depth,), attrs=one, outputs=()))
    return Graph(nodes=tuple(nodes), inits=('{"kind":"zeros"}',), subgraphs=())


@pytest.mark.parametrize("wide", [False, True])
def test_graphs_of_a_hundred_thousand_nodes_deep(wide: bool):
    """No recursion anywhere, and time that grows with the graph."""
    graph = deep(100_000, wide)
    began = time.process_time()
    form = canonicalize(graph)
    assert len(form.numbered) == 100_002
    assert form.keys.topology != form.body
    assert time.process_time() - began < 20
