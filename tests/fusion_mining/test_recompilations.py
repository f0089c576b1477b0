"""What Dynamo compiles while a clock runs is seen by both counters: the profiler's and that of `benchmarks.clock`."""

import itertools

import pytest
import torch

from benchmarks.clock import compilations
from fusion_mining.profile import _compilations
from passbench.clock import Plan, time_pairs

pytestmark = pytest.mark.torch
PLAN = Plan(pairs=8, warmup=1, inner_us=50.0, max_seconds=5.0)


@pytest.mark.parametrize("planted", [False, True])
def test_a_compilation_inside_the_clock_is_counted(planted: bool):
    torch._dynamo.reset()
    function = torch.compile(lambda x: (x + 1).relu(), backend="eager", dynamic=False, fullgraph=True)
    known = torch.ones(2, 2)
    function(known)
    calls = itertools.count()

    def candidate() -> torch.Tensor:
        return function(torch.ones(3, 3) if planted and next(calls) == 3 else known)

    before = compilations(), _compilations()
    time_pairs(lambda: known + 1, candidate, PLAN)
    more = compilations() - before[0], _compilations() - before[1]
    assert all(number > 0 for number in more) if planted else more == (0, 0)
    torch._dynamo.reset()
