"""Probes and what watches a call: moods, guards, sizes, altered graphs, census of operators, loose comparison."""

import platform
import random
import struct

import pytest
import torch

from passbench.census import Census
from passbench.check import fitted
from passbench.inputs import GUARD, materialize
from passbench.moods import MOODS
from passbench.neighbours import INSERTIONS, altered, free_sizes, hidden_sizes, resized
from passbench.seccomp import CALLS, program
from schemas.fx import lower
from tests.passbench.cases import AddRelu, LayerNorm, captured

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def graph():
    return captured(AddRelu(), torch.randn(4, 60), torch.randn(4, 60))


@pytest.fixture(scope="module")
def norm():
    return captured(LayerNorm(), torch.randn(2, 16, 768), torch.randn(2, 16, 768), torch.randn(768), torch.randn(768))


def test_guarded_inputs_have_the_same_values_between_nan(graph):
    plain, guarded = materialize(graph, seed=3), materialize(graph, seed=3, guarded=True)
    assert all(torch.equal(one, two) and two.storage_offset() == GUARD for one, two in zip(plain, guarded, strict=True))
    whole = torch.empty(0).set_(guarded[0].untyped_storage())
    assert whole[:GUARD].isnan().all() and whole[-GUARD:].isnan().all() and not whole[GUARD:-GUARD].isnan().any()


def test_moods_change_what_they_are_named_for(graph):
    size = {mood: float(materialize(graph, seed=3, mood=mood)[0].abs().max()) for mood in ("", *MOODS)}
    assert size["small"] < 0.01 < size[""] < 10 < size["heavy-tailed"] and size["large"] == 32 * size[""]
    assert (materialize(graph, seed=3, mood="sparse")[0] == 0).float().mean() > 0.7


def test_free_sizes_are_those_that_no_literal_holds(graph, norm):
    assert free_sizes(graph) == [4, 60] and free_sizes(norm) == [2, 16]
    found = resized(norm, random.Random(0))
    assert "768" not in found.sentence and found.graph.nodes[0].outputs[0].shape[-1] == 768
    lower(found.graph)(*materialize(found.graph, seed=0))


def test_the_sizes_that_may_be_drawn_are_those_that_are_told(graph, norm):
    told = hidden_sizes(graph)
    assert told == ["size 4 may become one of 3, 5, 7, 8", "size 60 may become one of 40, 59, 61, 63, 120"]
    for seed in range(20):
        found = resized(graph, random.Random(seed))
        for part in found.sentence.split(", "):
            words = part.split()
            (line,) = [line for line in told if line.startswith(f"size {words[-1]} ")]
            assert words[1] in line.split(" of ")[1].split(", ")
    assert hidden_sizes(norm)[-1].startswith("size 16 ") and len(hidden_sizes(norm)) == 2


@pytest.mark.parametrize("kind", ["number", *INSERTIONS])
def test_an_altered_graph_runs_and_gives_something_else(norm, kind):
    found = altered(norm, kind, random.Random(1))
    inputs = materialize(norm, seed=5)
    assert not torch.allclose(lower(norm)(*inputs)[0], lower(found.graph)(*inputs)[0])
    assert found.graph.inits == norm.inits


def test_a_graph_without_numbers_has_none_to_change(graph):
    assert altered(graph, "number", random.Random(0)) is None


def test_the_census_tells_computing_from_placing_and_spoils_fresh_memory():
    x, census = torch.ones(3, 4), Census(poison=True)
    with census:
        fresh = torch.empty_like(x).view(4, 3).t().contiguous()
        assert not census.operators and fresh.isnan().all()
        assert torch.empty(2, dtype=torch.int32).min() == 2**31 - 1
        census.operators.clear()
        x.add(1).clamp_(min=0)
        with census.rest():
            torch.relu(x)
    assert census.operators == {"add", "clamp_"}


def test_outputs_are_fitted_where_they_broadcast():
    (value,) = fitted([torch.zeros(2, 3)], [torch.ones(3, dtype=torch.float64)])
    assert value.dtype == torch.float32 and value.shape == (2, 3) and value.min() == 1
    assert fitted([torch.zeros(2, 3)], [torch.ones(4)])[0].shape == (4,)


def test_a_filter_names_each_call_once_and_ends_in_a_decision():
    for machine, calls in CALLS.items():
        steps = [struct.unpack_from("=HBBI", program(machine), at) for at in range(0, len(program(machine)), 8)]
        assert len(set(calls.values())) == len(calls) and steps[-1][0] == 6
        numbers = [value for code, _, _, value in steps if code == 0x15]
        assert set(calls.values()) <= set(numbers)
    with pytest.raises(OSError, match="no table"):
        program("pdp11")
    assert platform.machine() in CALLS
