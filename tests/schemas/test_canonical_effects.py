"""Effects are sound: programs of one form give one result, and the canonical order of execution gives the same."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.canonical import canonicalize
from schemas.functional import functionalise
from schemas.fx import lower
from schemas.graph import Graph
from tests.schemas.drafts import Draft, shuffled, spec

pytestmark = pytest.mark.torch
SEEDS = st.integers(0, 2**32 - 1)
SQUARE = spec(3, 3)


@st.composite
def programs(draw: st.DrawFn) -> Graph:
    """Random reads, views and writes of a few values."""
    d = Draft()
    known = [d.input(SQUARE) for _ in range(draw(st.integers(1, 2)))]
    known += [d.call("torch.exp", value, of=SQUARE) for value in known]
    for _ in range(draw(st.integers(2, 8))):
        a, b = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        kind = draw(st.sampled_from(("read", "view", "write", "write2", "iadd", "relu")))
        if kind == "read":
            known.append(d.call("torch.sub", a, b, of=SQUARE))
        elif kind == "view":
            known.append(d.method("transpose", a, 0, 1, of=SQUARE))
        elif kind == "write":
            known.append(d.method("mul_", a, 2, of=SQUARE))
        elif kind == "write2":
            known.append(d.method("add_", a, d.call("torch.mul", b, 3, of=SQUARE), of=SQUARE))
        elif kind == "iadd":
            known.append(d.call("operator.iadd", a, d.call("torch.neg", b, of=SQUARE), of=SQUARE))
        else:
            known.append(d.call("torch.nn.functional.relu", a, of=SQUARE, inplace=True))
    return d.graph(*draw(st.lists(st.sampled_from(known), min_size=1, max_size=3)))


def results(graph: Graph, order: list[int]) -> list[torch.Tensor]:
    """Outputs, then the inputs after the run, for inputs that belong to the original placeholders `order`."""
    inputs = [torch.arange(9.0).reshape(3, 3) * 0.25 - 1 + k for k in order]
    outputs = [value.clone() for value in lower(graph)(*inputs)]
    return [*outputs, *(inputs[place] for place in sorted(range(len(order)), key=order.__getitem__))]


def equal(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def placeholders_of(graph: Graph) -> list[int]:
    """The original number of every placeholder, kept in its initialiser."""
    return [int(init.rsplit(":", 1)[1].rstrip("}")) for init in graph.inits]


@given(programs())
@settings(max_examples=150, deadline=None)
def test_the_canonical_order_runs_to_the_same_result(graph: Graph):
    form = canonicalize(graph)
    kept = placeholders_of(form.graph)
    whole = results(graph, placeholders_of(graph))
    outputs = len(graph.nodes[-1].inputs)
    expected = whole[:outputs] + [whole[outputs + k] for k in sorted(kept)]
    assert equal(results(form.graph, kept), expected)


@given(programs(), SEEDS)
@settings(max_examples=300, deadline=None)
def test_programs_of_one_form_give_one_result(graph: Graph, seed: int):
    """Another order of the same data flow may compute something else; then its form differs."""
    other = shuffled(graph, seed)
    left, right = canonicalize(graph), canonicalize(other)
    if left.blob == right.blob:
        assert equal(results(graph, placeholders_of(graph)), results(other, placeholders_of(other)))
        assert left.graph.num_ops == right.graph.num_ops


@given(programs())
@settings(max_examples=150, deadline=None)
def test_unobservable_writes_can_be_functional(graph: Graph):
    order = placeholders_of(graph)
    assert equal(results(functionalise(graph), order), results(graph, order))
