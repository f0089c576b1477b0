"""A write whose result is unused stays in the graph, also where the capture read numbers before."""

from pathlib import Path

import pytest
import torch

from schemas.canonical import canonicalize
from schemas.dead_code import remove_dead_calls
from schemas.rows import GraphRecord
from tests.extract.oracle import names_of, traced, unlike

pytestmark = pytest.mark.torch
WRITES = Path(__file__).parent / "own" / "writes.py"


@pytest.fixture(scope="module")
def records() -> dict[str, GraphRecord]:
    return {name: traced(WRITES, name) for name in names_of(WRITES)}


@pytest.mark.parametrize("name", names_of(WRITES))
def test_the_graph_writes_what_the_module_writes(records, name):
    record = records[name]
    assert isinstance(record, GraphRecord), record
    for seed in (0, 1):
        assert unlike(record, WRITES, name, seed=seed) == ""


def test_different_writes_have_different_keys(records):
    keys = {name: canonicalize(record.graph).key for name, record in records.items()}
    assert len(set(keys.values())) == len(keys) > 20


def test_pure_calls_go_and_effects_and_what_they_read_stay():
    def forward(x, y):
        unused = (x + 1) * 2
        torch.relu(unused)
        y.add_(x * 3)
        torch.nn.functional.relu(y.t(), inplace=True)
        torch.add(x, y, out=y)
        torch.rand(3)
        return x

    gm = torch.fx.symbolic_trace(forward)
    assert remove_dead_calls(gm) == 3
    x, y = torch.randn(2, 2), torch.randn(2, 2)
    mine, other = y.clone(), y.clone()
    gm(x, mine)
    forward(x, other)
    assert torch.equal(mine, other)
