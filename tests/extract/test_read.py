"""A graph for which numbers were read says so in its capture mode, however they were read."""

from pathlib import Path

import pytest

from schemas.rows import GraphRecord
from tests.extract.oracle import traced, unlike

pytestmark = pytest.mark.torch
READ = Path(__file__).parent / "own" / "read.py"


@pytest.mark.parametrize(
    ("name", "specialised"),
    [("OpenOneHot", True), ("Counted", True), ("Positions", True), ("Largest", True), ("Closed", False)],
)
def test_a_graph_of_numbers_that_were_read_is_marked(name, specialised):
    record = traced(READ, name)
    assert isinstance(record, GraphRecord), record
    assert record.capture.endswith("-specialised") is specialised
    assert unlike(record, READ, name) == ""
