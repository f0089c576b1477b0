"""The module itself decides what its graph is: clocks, generators, counters and shared memory."""

from pathlib import Path

import pytest

from schemas.canonical import canonicalize
from schemas.rows import Failure, FailureKind, GraphRecord, NumericCheck
from tests.extract.oracle import names_of, traced, unlike
from tests.extract.own import surroundings

pytestmark = pytest.mark.torch
OWN = Path(__file__).parent / "own"
SURROUNDINGS, SHARED = OWN / "surroundings.py", OWN / "shared.py"
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
