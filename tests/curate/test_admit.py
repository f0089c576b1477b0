"""Admission: what runs and resists trivial solvers becomes a task, the rest a failure with counted reasons."""

import pytest
import torch

from curate.admit import SOLVERS, AdmitConfig, admit, why_not
from curate.families import FamiliesConfig, propose
from schemas.rows import Failure, FailureKind, Task, TaskVariant, content_id
from tests.curate.pieces import add_gelu, graph_of, pair, piece, scaled_softmax

pytestmark = pytest.mark.torch

CONFIG = AdmitConfig()
ZEROS, ONES, NORMAL = '{"kind":"zeros"}', '{"kind":"ones"}', '{"kind":"normal","mean":0,"std":1}'


def candidate_of(*graphs):
    (candidate,) = propose(subgraphs=[piece(graph) for graph in graphs], config=FamiliesConfig(other_sizes=False))
    return candidate


def test_a_family_that_resists_becomes_a_task_with_numbered_variants():
    candidate = candidate_of(graph_of(add_gelu, *pair(4, 8)))
    task, *variants = admit(candidate, CONFIG)
    assert isinstance(task, Task) and all(isinstance(v, TaskVariant) for v in variants)
    assert (task.num_variants, task.rejected_solvers, task.version) == (3, SOLVERS, 1)
    assert [v.index for v in variants] == [0, 1, 2]
    assert {v.task_id for v in variants} == {task.task_id} == {content_id(*(v.subgraph for v in variants))}


def test_admission_gives_the_same_rows_twice():
    candidate = candidate_of(graph_of(add_gelu, *pair(4, 8)))
    assert list(admit(candidate, CONFIG)) == list(admit(candidate, CONFIG))


def dropout_free(x):
    return torch.nn.functional.dropout(x, 0.5, False) + 0.0


def tiny(x):
    return torch.relu(x) * 1e-6


def hidden(x, mask):
    return x.masked_fill(mask, float("-inf")) + 1.0


def compare_far(x):
    return (x.abs() < 1e6).logical_not()


@pytest.mark.parametrize(
    ("function", "inputs", "inits", "reason"),
    [
        (dropout_free, (torch.zeros(4, 8),), (NORMAL,), "the solver identity passes"),
        (tiny, (torch.zeros(4, 8),), (NORMAL,), "the solver zeros passes"),
        (add_gelu, pair(4, 8), (ZEROS, ZEROS), "an output has one value only"),
        (scaled_softmax, (torch.zeros(2, 8),), ('{"kind":"arange"}',), "the solver constant passes"),
        (compare_far, (torch.zeros(4, 8),), (NORMAL,), "an output has one value only"),
        (hidden, (torch.zeros(4), torch.zeros(4).bool()), (NORMAL, ONES), "an output is non-finite everywhere"),
    ],
)  # fmt: skip
def test_what_a_trivial_solver_passes_is_dropped(function, inputs, inits, reason):
    assert why_not(graph_of(function, *inputs, inits=inits), CONFIG) == reason


def bias_free(x):
    return torch.relu(x) + 1e-9


def bounded(x):
    return torch.sigmoid(x).clamp(max=2.0)


def small_scale(x):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)


def cast_only(x):
    return torch.relu(x.to(torch.float32)) * 3.0


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (bias_free, "an op may be left out: add"),
        (bounded, "an op may be left out: clamp"),
        (small_scale, ""),
        (cast_only, ""),
    ],
)
def test_an_op_that_never_shows_is_a_reason_but_for_casts_and_small_constants(function, reason):
    assert why_not(graph_of(function, torch.zeros(4, 8)), CONFIG) == reason


def test_nearly_constant_output_is_dropped_by_the_mean():
    def flat(x):
        return torch.tanh(x) * 1e-5 + 7.0

    assert why_not(graph_of(flat, torch.zeros(4, 8)), CONFIG) == "the solver constant passes"


def test_a_graph_that_does_not_run_is_dropped_with_its_error():
    def lookup(ids, table):
        return torch.nn.functional.embedding(ids, table) * 2.0

    graph = graph_of(
        lookup, torch.zeros(5, dtype=torch.int64), torch.zeros(10, 4),
        inits=('{"kind":"integers","low":100,"high":200}', NORMAL),
    )  # fmt: skip
    assert why_not(graph, CONFIG).startswith("does not run: IndexError")


def test_a_good_graph_has_no_reason_against_it():
    assert why_not(graph_of(scaled_softmax, torch.zeros(2, 8)), CONFIG) == ""


def test_a_masked_output_with_infinities_is_no_reason():
    graph = graph_of(
        hidden, torch.zeros(64), torch.zeros(64).bool(), inits=(NORMAL, '{"kind":"bool","p":0.5}')
    )  # fmt: skip
    assert why_not(graph, CONFIG) == ""


def decay(x):
    return torch.sqrt(1 - torch.exp(x))


def logarithm(x):
    return torch.log(torch.relu(x))


def quarters(x):
    return 1.0 / x.round()


@pytest.mark.parametrize("function", [decay, logarithm, quarters])
def test_a_graph_that_is_not_finite_on_its_own_inputs_is_dropped(function):
    assert why_not(graph_of(function, torch.zeros(64)), CONFIG) == "an output is not finite"


def test_a_graph_that_is_finite_where_its_inputs_lie_is_kept():
    inits = ('{"kind":"uniform","high":-0.1,"low":-9.0}',)
    assert why_not(graph_of(decay, torch.zeros(64), inits=inits), CONFIG) == ""


def test_too_few_variants_make_one_failure_that_counts_the_reasons():
    candidate = candidate_of(graph_of(tiny, torch.zeros(4, 8)))
    (failure,) = admit(candidate, CONFIG)
    assert isinstance(failure, Failure) and failure.kind is FailureKind.NOT_ADMITTED
    assert failure.item == candidate.structure
    assert failure.message == "0 of 3 variants left, 3 needed: 3 x the solver zeros passes"


def test_the_graph_may_write_into_its_inputs():
    def in_place(x, y):
        x.add_(y)
        return torch.relu(x)

    assert why_not(graph_of(in_place, *pair(4, 8)), CONFIG) == ""
