"""The module itself decides what its graph is: clocks, generators, counters and shared memory."""

import json
import math
from pathlib import Path

import pytest
import torch

from extract.eager import Leaf
from extract.numeric import units_apart
from schemas.canonical import canonicalize
from schemas.rows import Failure, FailureKind, GraphRecord, NumericCheck
from tests.extract.oracle import names_of, traced, unlike
from tests.extract.own import surroundings

pytestmark = pytest.mark.torch
OWN = Path(__file__).parent / "own"
SURROUNDINGS, SHARED, UNDER_COMPILER = OWN / "surroundings.py", OWN / "shared.py", OWN / "under_compiler.py"
WEIGHTS_READ = OWN / "weights_read.py"
REFUSED = ("_Holding", "Partial", "OtherDtype")
ASKED = {
    "clock": "time.time", "clock_by_its_own_name": "perf_counter", "hour": "datetime.now", "day": "datetime.today",
    "python_random": "random", "numpy_random": "numpy.random", "system_random": "os.urandom",
    "seeds": "torch.manual_seed", "asks_for_the_seed": "torch.initial_seed", "forks": "fork_rng",
    "counts": "it keeps a state",
}  # fmt: skip
"""What the message of some of them names."""


@pytest.mark.parametrize("name", [function.__name__ for function in surroundings.UNSTEADY])
def test_what_no_graph_holds_is_refused_by_name(name):
    found = traced(SURROUNDINGS, name)
    assert isinstance(found, Failure), "a graph of numbers that another call does not have"
    assert found.kind is FailureKind.NONDETERMINISTIC
    assert ASKED.get(name, "the forward") in found.message


@pytest.mark.parametrize("name", [function.__name__ for function in surroundings.STEADY])
def test_what_only_looks_so_is_kept(name):
    record = traced(SURROUNDINGS, name)
    assert isinstance(record, GraphRecord), record
    assert (record.numeric, record.numeric_detail) == (NumericCheck.EQUAL, "")
    for seed in (0, 1):
        assert unlike(record, SURROUNDINGS, name, seed=seed) == ""


@pytest.mark.parametrize(
    "name", [name for name in names_of(SHARED) if name not in ("_Holding", "Partial", "OtherDtype")]
)
def test_a_write_through_one_name_shows_in_the_other(name):
    record = traced(SHARED, name)
    assert isinstance(record, GraphRecord), record
    for seed in (0, 1):
        assert unlike(record, SHARED, name, seed=seed) == ""


@pytest.mark.parametrize(("name", "both"), [("Partial", ("left", "right")), ("OtherDtype", ("a and bits",))])
def test_memory_that_cannot_be_shared_is_refused_with_both_names(name, both):
    found = traced(SHARED, name)
    assert isinstance(found, Failure) and found.kind is FailureKind.NOT_REPRESENTABLE
    assert all(part in found.message for part in both) and "share memory" in found.message


def test_shared_memory_shows_in_the_key():
    keys = {name: canonicalize(traced(SHARED, name).graph).key for name in ("ViewIsRead", "ViewIsWritten", "InList")}
    assert len(set(keys.values())) == 3


def test_a_module_that_rounds_otherwise_under_a_compiler_is_close():
    record = traced(UNDER_COMPILER, "Rounds")
    assert isinstance(record, GraphRecord), record
    assert record.numeric is NumericCheck.CLOSE and "roundings apart" in record.numeric_detail


@pytest.mark.parametrize("name", ["Differs", "Chooses"])
def test_a_module_that_computes_something_else_under_a_compiler_is_refused(name):
    found = traced(UNDER_COMPILER, name)
    assert isinstance(found, Failure) and found.kind is FailureKind.NUMERIC


def test_what_a_module_raises_on_its_own_inputs_is_told():
    found = traced(WEIGHTS_READ, "WritesInference")
    assert isinstance(found, Failure) and "inference tensor" in found.message


def test_weights_that_were_read_are_given_number_by_number():
    record = traced(WEIGHTS_READ, "Selects")
    assert isinstance(record, GraphRecord), record
    assert record.capture == "record-specialised"
    assert {json.loads(init)["kind"] for init in record.graph.inits} == {"literal"}
    assert [record.graph.nodes[i].target for i in record.graph.placeholders].count("parameter") >= 1


@pytest.mark.parametrize(
    ("left", "right", "units"),
    [
        ([1.0, 2.0], [1.0, 2.0 + 3 * 2.0**-22], 3.0),  # of float32, and of the largest number
        ([1.0, float("inf")], [1.0 + 2.0**-22, float("inf")], 2.0),
        ([1.0, float("inf")], [1.0, 2.0], math.inf),
        ([1.0, float("nan")], [float("nan"), 1.0], math.inf),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([0.0, 0.0], [0.0, 1e-30], math.inf),
    ],
)
def test_units_of_rounding_are_those_of_the_largest_number(left, right, units):
    leaves = [[Leaf(value=torch.tensor(values), is_own=True)] for values in (left, right)]
    assert units_apart(*leaves) == units


def test_whole_numbers_and_forms_are_never_close():
    one = Leaf(value=torch.tensor([1]), is_own=True)
    for other in (torch.tensor([2]), torch.tensor([1.0]), torch.tensor([[1]])):
        assert units_apart([one], [Leaf(value=other, is_own=True)]) == math.inf
    assert units_apart([one], []) == math.inf
