"""What a call writes without saying so is known no longer; what it draws never was."""

from pathlib import Path

import pytest

from schemas.rows import Failure, FailureKind, GraphRecord
from tests.extract.oracle import names_of, traced, unlike

pytestmark = pytest.mark.torch
HIDDEN = Path(__file__).parent / "own" / "hidden_writes.py"
DRAWN = ("DrawnFunction", "DrawnInPlace", "Dropped")


@pytest.mark.parametrize("name", [name for name in names_of(HIDDEN) if name not in ("_Base", *DRAWN)])
def test_the_branch_that_the_module_takes_is_the_one_of_the_graph(name):
    record = traced(HIDDEN, name)
    assert isinstance(record, GraphRecord), record
    assert record.capture == "record-specialised"
    for seed in (0, 1, 2):
        assert unlike(record, HIDDEN, name, seed=seed) == ""


@pytest.mark.parametrize("name", DRAWN)
def test_a_branch_by_numbers_that_the_forward_draws_is_refused(name):
    found = traced(HIDDEN, name)
    assert isinstance(found, Failure)
    assert found.kind == FailureKind.NONDETERMINISTIC
    assert "numbers that it draws" in found.message
